/* device/cpu/logits/logits_int8.h - the vocabulary of select at half the bytes: every logit nearly, with a bound, and
 * the few that matter exactly.
 *
 * A step of the decoder reads the whole vocabulary, and reading is what it waits for. Here an id's weights are one byte
 * each: w[i][k] is nearly scale[i] column[k] q[i][k]. A row is x[k] column[k] in whole numbers of at most 16 bits, so
 * that the sums are exact and only these two roundings are off: by at most slack scale[i], slack from the row alone.
 * The ids whose logits are to be exact are read again where the weights lie in the model's file, one by one, and give
 * the very bits that a product with the packed weight would.
 *
 * In memory: the header, column [k], scales and panels for ceil(n / MX_PANEL) * MX_PANEL ids, each part at a multiple
 * of 64 bytes. A panel is [pairs][MX_PANEL][2], what is past n or k zeros.
 * What holds: the model's weights outlive what was packed from them. */
#ifndef MX_CPU_LOGITS_INT8_H
#define MX_CPU_LOGITS_INT8_H
#include "device/cpu/cpu.h"

typedef struct mx_logits_int8 {
    uint32_t dtype;          /* of the exact weights: MXW_F16 or MXW_F32 */
    int64_t n, k, pairs;     /* n ids, each the sum of k products */
    const void *exact;       /* [n][k] at any address, rows ld elements apart */
    int64_t ld;
    float most_scale;        /* the largest of scales; not finite: a weight is not */
    int32_t most;            /* of a row's whole numbers, so that sums stay within 32 bits */
    uint64_t zero;
} mx_logits_int8;

/* Whether a weight can be kept so, how many bytes that takes, and doing it. */
int mx_logits_int8_fits(const mx_weight_use *use);
size_t mx_logits_int8_bytes(const mx_weight_use *use);
mxw_status mx_logits_int8_pack(const mx_weight_use *use, void *to, mx_pool *pool);

/* The coarse weight that a tensor carries; NULL if it carries another form. */
const mx_logits_int8 *mx_logits_int8_of(const mx_tensor *weight);
static inline const float *mx_logits_int8_column(const mx_logits_int8 *w) {
    return (const float *)(const void *)(w + 1);
}
const float *mx_logits_int8_scales(const mx_logits_int8 *w);
const int8_t *mx_logits_int8_panel(const mx_logits_int8 *w, int64_t panel);

/* y [rows][n], rows MX_PANEL apart: the exact logits of n <= MX_PANEL ids for rows in chunks (pack.h), by gemm_rows.
 * scratch: mx_logits_exact_bytes. */
size_t mx_logits_exact_bytes(int64_t k);
void mx_logits_exact(const mx_kernels *kernels, const mx_logits_int8 *w, float *y, const float *laid, int64_t rows,
                     const int32_t *ids, int64_t n, void *scratch);
#endif
