/* modules/blas/blas.c - CBLAS matmul for the eager engine, through OpenBLAS.
 * In: one gemm at a time, any number of threads calling. Out: the product.
 * Invariants: each call runs on its caller's thread alone, so a result depends on the call's own sizes and nothing
 * else; the caller cuts its work into calls of fixed size. */
#include <cblas.h>
#include <stdio.h>
#include <string.h>

#include "base/module.h"
#include "device/device.h"

static char description[128];

static const char *describe(void) { return description; }

static void gemm(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                 int b_transposed, float *c, int64_t ldc) {
    if (m == 0 || n == 0)
        return;
    if (k == 0) {   /* CBLAS would refuse rows of no length */
        for (int64_t i = 0; i < m; i++)
            memset(c + i * ldc, 0, (size_t)n * sizeof(float));
        return;
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, b_transposed ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, 1.0f, a,
                (int)lda, b, (int)ldb, 0.0f, c, (int)ldc);
}

static const mx_blas_module table = {describe, gemm};

/* Exported: the module's one entry point (base/module.h). */
__attribute__((visibility("default"))) const void *mx_module_open(const mx_host *host, uint32_t abi);

const void *mx_module_open(const mx_host *host, uint32_t abi) {
    if (abi != MX_MODULE_ABI)
        return NULL;
    openblas_set_num_threads(1);   /* our own pool hands out the work */
    snprintf(description, sizeof(description), "%s", openblas_get_config());
    return &table;
}
