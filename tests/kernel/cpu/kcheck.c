/* kcheck.c - every kernel of device/cpu/kernels.def, in every implementation that this processor has: the plain loops
 * compiled for each instruction set, and the kernels written for it. Each test compares with a reference of its own in
 * float64: odd sizes, one row, tails, unaligned starts, guard bytes around the output, subnormals, large values. The
 * plain loops must give the very bits of the baseline, and so must every kernel whose test says so. A kernel without a
 * test is reported by name.
 *
 *   kcheck                    checks all
 *   kcheck --bench [filter]   times products beside the machine's peak and other libraries */
#include "base/cpu.h"
#include "kcheck.h"

#include <math.h>

static const kcheck_test *const groups[] = {
    kcheck_plain,
    kcheck_elementwise,
    kcheck_lstm,
    kcheck_gemm,
    kcheck_attention,
    kcheck_select,
    kcheck_logits_int8,
    kcheck_w8a8,
};

const mx_kernels *K;
const char *isa_name;
int64_t n_off;
static int n_passed, n_failed;

int kcheck_that(int ok, const char *file, int line, const char *what) {
    if (ok)
        n_passed++;
    else
        n_failed++, printf("%s:%d: failed: %s\n", file, line, what);
    return ok;
}

int kcheck_int(int64_t got, int64_t want, const char *file, int line, const char *what) {
    int ok = kcheck_that(got == want, file, line, what);
    if (!ok)
        printf("    got %" PRId64 ", want %" PRId64 "\n", got, want);
    return ok;
}

void near(double got, double want, double bound) {
    if (!(fabs(got - want) <= bound) && !(got == want) && !(isnan(got) && isnan(want)))
        if (n_off++ == 0)
            printf("    %s: got %.9g, want %.9g within %.3g\n", isa_name, got, want, bound);
}

/* ---- memory with guards, and the record of all results ----------------------------------------------------------- */

#define GUARD 64
#define MAX_BLOCKS 64
static struct {
    unsigned char *base;
    size_t bytes, shift;
} blocks[MAX_BLOCKS];
static int n_blocks;

typedef struct results {   /* one after the other */
    unsigned char *bytes;
    size_t n, room;
} results;
static results current;

void *take(size_t bytes, size_t shift) {
    unsigned char *base = aligned_alloc(64, (bytes + shift + 2 * GUARD + 63) / 64 * 64);
    if (!base || n_blocks == MAX_BLOCKS) {
        printf("kcheck: out of memory or blocks\n");
        exit(1);
    }
    memset(base, 0xA5, bytes + shift + 2 * GUARD);
    blocks[n_blocks].base = base;
    blocks[n_blocks].bytes = bytes;
    blocks[n_blocks++].shift = shift;
    return base + GUARD + shift;
}

void done(void) {
    int ok = 1;
    while (n_blocks) {
        n_blocks--;
        unsigned char *base = blocks[n_blocks].base;
        size_t before = GUARD + blocks[n_blocks].shift, end = before + blocks[n_blocks].bytes;
        for (size_t i = 0; i < before; i++)
            ok &= base[i] == 0xA5;
        for (size_t i = end; i < end + GUARD; i++)
            ok &= base[i] == 0xA5;
        free(base);
    }
    if (!CHECK(ok))
        printf("    %s: wrote outside its output\n", isa_name);
}

void record(const void *bytes, size_t n) {
    if (n == 0)
        return;
    if (current.n + n > current.room) {
        current.room = 2 * (current.n + n);
        current.bytes = realloc(current.bytes, current.room);
        if (!current.bytes)
            exit(1);
    }
    memcpy(current.bytes + current.n, bytes, n);
    current.n += n;
}

static uint64_t state = 1;
uint32_t word(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}
double uniform(double low, double high) { return low + (high - low) * (word() / 2147483648.0); }

float *floats(int64_t n, double scale, size_t shift) {
    float *x = take((size_t)n * sizeof(float), shift);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)uniform(-scale, scale);
    return x;
}

const void *as_halves(float *x, int64_t n) {
    uint16_t *halves = take((size_t)n * sizeof(uint16_t), 2);
    K->narrow_f16(halves, x, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = mx_f16_to_f32(halves[i]);
    return halves;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static const char *const kernels[] = {
#define MX_KERNEL(name, parameters) #name,
#include "device/cpu/kernels.def"
#undef MX_KERNEL
};
static results baseline[MX_COUNT(kernels)];

static const kcheck_test *test_of(const char *kernel) {
    for (size_t g = 0; g < MX_COUNT(groups); g++)
        for (const kcheck_test *t = groups[g]; t->name; t++)
            if (strcmp(kernel, t->name) == 0)
                return t;
    return NULL;
}

/* One kernel of one implementation; the first that runs is the baseline. */
static void run_one(size_t kernel, int must_equal) {
    const kcheck_test *test = test_of(kernels[kernel]);
    int failed = n_failed;
    if (!CHECK(test != NULL)) {
        printf("    kernel %s has no test\n", kernels[kernel]);
        return;
    }
    state = kernel + 1;
    current = (results){0};
    test->run();
    if (!baseline[kernel].bytes) {
        baseline[kernel] = current;
    } else {
        int same = current.n == baseline[kernel].n && memcmp(current.bytes, baseline[kernel].bytes, current.n) == 0;
        if ((must_equal || test->exact) && !CHECK(same))
            printf("    %s does not give the baseline's bits\n", isa_name);
        free(current.bytes);
    }
    if (n_failed > failed)
        printf("    kernel %s for %s\n", kernels[kernel], isa_name);
}

/* The kernels that an instruction set brings itself, and all of them over the plain loops. */
static void run_written(const mx_isa *isa) {
    mx_kernels all;
    char name[32];
    mx_cpu_fast_for(isa, &all);
    K = &all;
    isa_name = name;
    snprintf(name, sizeof(name), "%s, written for it", isa->name);
    size_t i = 0;
#define MX_KERNEL(kernel, parameters)                                                                                  \
    if (isa->fast->kernel)                                                                                             \
        run_one(i, 0);                                                                                                 \
    i++;
#include "device/cpu/kernels.def"
#undef MX_KERNEL
}

static void check_all(void) {
    for (int i = 0; mx_cpu_isa(i); i++) {
        const mx_isa *isa = mx_cpu_isa(i);
        isa_name = isa->name;
        if (!mx_cpu_enable(isa->name)) {
            printf("SKIP: %s: this processor does not have it\n", isa_name);
            continue;
        }
        K = isa->kernels;
        for (size_t kernel = 0; kernel < MX_COUNT(kernels); kernel++)
            run_one(kernel, 1);
        if (isa->fast)
            run_written(isa);
    }
    isa_name = "eager";   /* with the gemm that the blas module brings */
    K = mx_cpu_kernels();
    current = (results){0};
    test_of("gemm")->run();
    free(current.bytes);
    for (size_t i = 0; i < MX_COUNT(kernels); i++)
        free(baseline[i].bytes);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return kcheck_bench(argc > 2 ? argv[2] : "");
    if (argc > 1) {
        printf("usage: kcheck [--bench [filter]]\n");
        return 2;
    }
    check_all();
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed || !n_passed;
}
