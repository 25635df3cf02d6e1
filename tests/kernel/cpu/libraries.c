/* libraries.c - products by well-known libraries, for comparison: OpenBLAS through our own module, oneDNN opened at
 * run time if it is installed (Debian: libdnnl-dev). */
#include "bench.h"

#include <dlfcn.h>

#include "base/base.h"
#include "base/module.h"
#include "device/device.h"

static const mx_blas_module *blas;
static int (*dnnl_sgemm)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t,
                         float, float *, int64_t);
static void (*omp_threads)(int);

/* ---- OpenBLAS: one single-threaded call on each thread ----------------------------------------------------------- */

typedef struct shares {
    int64_t m, n, k, threads;
    const float *a, *b;
    float *c;
} shares;

static void run_share(void *context, int64_t i) {
    const shares *s = context;
    if (s->m >= 4 * s->threads) {   /* rows */
        int64_t first = s->m * i / s->threads, rows = s->m * (i + 1) / s->threads - first;
        blas->gemm(rows, s->n, s->k, s->a + first * s->k, s->k, s->b, s->k, 1, s->c + first * s->n, s->n);
    } else {
        int64_t first = s->n * i / s->threads, columns = s->n * (i + 1) / s->threads - first;
        blas->gemm(s->m, columns, s->k, s->a, s->k, s->b + first * s->k, s->k, 1, s->c + first, s->n);
    }
}

static void by_openblas(mx_pool *pool, int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c) {
    shares s = {m, n, k, mx_pool_threads(pool), a, b, c};
    mx_pool_for(pool, s.threads, run_share, &s);
}

/* ---- oneDNN: threads of its own ---------------------------------------------------------------------------------- */

static void by_onednn(mx_pool *pool, int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c) {
    if (omp_threads)
        omp_threads(mx_pool_threads(pool));
    dnnl_sgemm('N', 'T', m, n, k, 1, a, k, b, k, 0, c, n);
}

static void *symbol(void *library, const char *name) { return library ? dlsym(library, name) : NULL; }

static int open_onednn(void) {
    static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"};
    void *library = NULL;
    setenv("OMP_WAIT_POLICY", "passive", 0);   /* its threads must not spin while ours are timed */
    for (size_t i = 0; i < MX_COUNT(names) && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    *(void **)&dnnl_sgemm = symbol(library, "dnnl_sgemm");
    *(void **)&omp_threads = symbol(library, "omp_set_num_threads");
    return dnnl_sgemm != NULL;
}

int bench_libraries(const char *isa, bench_library out[2]) {
    if (strcmp(isa, "avx2") == 0) {   /* the same instructions for everyone */
        setenv("OPENBLAS_CORETYPE", "Haswell", 0);
        setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 0);
    }
    const void *table = NULL;
    int n = 0;
    if (mx_module_get("blas", &table) >= 0) {
        blas = table;
        out[n++] = (bench_library){"OpenBLAS", by_openblas};
    } else {
        printf("SKIP: OpenBLAS: %s\n", mx_error());
    }
    if (open_onednn())
        out[n++] = (bench_library){"oneDNN", by_onednn};
    else
        printf("SKIP: oneDNN: no libdnnl (Debian package libdnnl-dev)\n");
    return n;
}
