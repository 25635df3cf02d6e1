/* device/cpu/logits/logits_int8.h - int8 logits of the vocabulary with an error bound: the shortlist of select,
 * whose exact logits are computed afterwards.
 *
 * A step of the decoder reads the whole vocabulary, and memory bandwidth is its limit. Here an id's weights are one
 * byte each: w[i][k] is about scale[i] column[k] q[i][k]. An activation row is x[k] column[k], quantized to at most 16
 * bits, so that the sums are exact integers and the only errors are these two roundings: at most slack * scale[i], with
 * a slack that depends on the row alone. Ids that need exact logits are re-scored with the weights in the model's file,
 * one by one (widened if they are quantized there), which gives the very bits of a GEMM with the packed weight.
 *
 * In memory: the header, column [k], scales and panels for ceil(n / MX_PANEL) * MX_PANEL ids, each part at a multiple
 * of 64 bytes. A panel is [pairs][MX_PANEL][2], zeros past n and k. With MXW_VOCABULARY=packed, a vocabulary in blocks
 * of codes has no panels, which are larger than the codes: instead the inverse of column [k] before the scales, and
 * after them the steps that made the numbers, with which a panel is made again from its codes whenever it is read.
 * Invariant: the model's weights outlive what was packed from them. */
#ifndef MX_CPU_LOGITS_INT8_H
#define MX_CPU_LOGITS_INT8_H
#include "device/cpu/cpu.h"
#include "tensor/quantized.h"

typedef struct mx_logits_int8 {
    uint32_t dtype;          /* of the exact weights: MXW_F16 or MXW_F32, also if they are quantized */
    int64_t n, k, pairs;     /* n ids, each the sum of k products */
    const void *exact;       /* [n][k] at any address, rows ld elements apart */
    int64_t ld;
    const mx_quantized *quantized;   /* in place of exact; NULL: they are not quantized */
    int64_t first;           /* row of the quantized ones that is id 0 */
    float most_scale;        /* the largest of scales; not finite if a weight is not */
    int32_t most;            /* bound on a quantized activation, so that sums fit in 32 bits */
    int64_t in_codes;        /* there are no panels */
    uint64_t zero[6];
} mx_logits_int8;

/* Whether a weight can be packed so, what that is, and packing it. */
int mx_logits_int8_fits(const mx_weight_use *use);
mx_packing mx_logits_int8_packing(const mx_weight_use *use);
mxw_status mx_logits_int8_pack(const mx_weight_use *use, void *to, mx_pool *pool);
void mx_logits_int8_keep_codes(int on);   /* for tests: in the place of MXW_VOCABULARY */

/* The int8 weight of a tensor; NULL if its layout is another one. */
const mx_logits_int8 *mx_logits_int8_of(const mx_tensor *weight);
static inline const float *mx_logits_int8_column(const mx_logits_int8 *w) {
    return (const float *)(const void *)(w + 1);
}
const float *mx_logits_int8_scales(const mx_logits_int8 *w);
const int8_t *mx_logits_int8_panel(const mx_logits_int8 *w, int64_t panel);

/* y [rows][panels * MX_PANEL], rows ld apart: the int8 logits of rows for ids from a panel on. scratch:
 * mx_logits_int8_scratch. */
size_t mx_logits_int8_scratch(const mx_tensor *weight);
void mx_logits_int8_multiply(const mx_kernels *kernels, const mx_logits_int8 *w, float *y, int64_t ld, const int16_t *x,
                             const mx_int8_row *row, int64_t rows, int64_t panel, int64_t panels, void *scratch);

/* y [rows][n], rows MX_PANEL apart: the exact logits of n <= MX_PANEL ids for rows in chunks (pack.h), by gemm_rows.
 * scratch: mx_logits_exact_bytes. */
size_t mx_logits_exact_bytes(int64_t k);
/* Prefetches the exact weights of an id that mx_logits_exact will soon be asked for: they lie anywhere in the file. */
void mx_logits_exact_soon(const mx_logits_int8 *w, int64_t id);
void mx_logits_exact(const mx_kernels *kernels, const mx_logits_int8 *w, float *y, const float *packed_rows,
                     int64_t rows, const int32_t *ids, int64_t n, void *scratch);
#endif
