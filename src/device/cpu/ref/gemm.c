/* device/cpu/ref/gemm.c - matrix product by plain loops: what runs where no BLAS is installed.
 * Invariant: each element is summed over k in order in one accumulator, so its bits depend on its row and column
 * alone. */
#include "device/cpu/kernels.h"

#define COLUMNS 16   /* accumulated side by side, so that the inner loop is a vector loop */

static void rows_plain(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                       float *c, int64_t ldc) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j0 = 0; j0 < n; j0 += COLUMNS) {
            int64_t columns = MX_MIN(n - j0, COLUMNS);
            float sum[COLUMNS] = {0};
            if (columns == COLUMNS)
                for (int64_t p = 0; p < k; p++)
                    for (int64_t j = 0; j < COLUMNS; j++)
                        sum[j] += a[i * lda + p] * b[p * ldb + j0 + j];
            else
                for (int64_t p = 0; p < k; p++)
                    for (int64_t j = 0; j < columns; j++)
                        sum[j] += a[i * lda + p] * b[p * ldb + j0 + j];
            for (int64_t j = 0; j < columns; j++)
                c[i * ldc + j0 + j] = sum[j];
        }
}

/* b [n][k]: four columns at a time hide the latency of the sums. */
static void rows_transposed(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                            float *c, int64_t ldc) {
    for (int64_t i = 0; i < m; i++) {
        const float *x = a + i * lda;
        int64_t j = 0;
        for (; j + 4 <= n; j += 4) {
            const float *w = b + j * ldb;
            float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
            for (int64_t p = 0; p < k; p++) {
                s0 += x[p] * w[p];
                s1 += x[p] * w[ldb + p];
                s2 += x[p] * w[2 * ldb + p];
                s3 += x[p] * w[3 * ldb + p];
            }
            c[i * ldc + j] = s0;
            c[i * ldc + j + 1] = s1;
            c[i * ldc + j + 2] = s2;
            c[i * ldc + j + 3] = s3;
        }
        for (; j < n; j++) {
            float sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += x[p] * b[j * ldb + p];
            c[i * ldc + j] = sum;
        }
    }
}

void MX_REF(gemm)(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                 int b_transposed, float *c, int64_t ldc) {
    (b_transposed ? rows_transposed : rows_plain)(m, n, k, a, lda, b, ldb, c, ldc);
}
