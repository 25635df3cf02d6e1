/* device/cpu/gemm/w8a8.h - products in 8 bits: weights quantized when they are packed, rows as they come.
 *
 * A weight w[j][k] is scale[j] q[j][k], q integers of at most 127, scale[j] the largest of its row by 127. Weights
 * whose file has them in 8 bits with a scale for each row keep its q, which may be -128, and its scale. A row x[k] is
 * scale (p[k] + shift), p integers from -128 to 127 and shift such that these lie between its smallest number and its
 * largest, 0 being one of them: after GELU, which has next to nothing below 0, twice as finely as with a sign. Both are
 * rounded to nearest, ties to even. A product is the sum of (p + shift) q in 32 bits, which is exact, times the product
 * of both scales; then bias, activation and residual as in gemm.h. So every instruction set, any cut of the work and
 * any batch give the same bits.
 *
 * In memory: the header, scales and sums of q for ceil(n / MX_PANEL) * MX_PANEL columns, then their panels, each
 * [quads][MX_PANEL][4], zeros past n and k; each part at a multiple of 64 bytes. */
#ifndef MX_CPU_W8A8_H
#define MX_CPU_W8A8_H
#include "device/cpu/gemm/gemm.h"

#define MX_W8A8_MOST_K 65536   /* of a sum: 65536 * 255 * 128 fits in 32 bits */

struct mx_w8a8 {
    int64_t n, k, quads;   /* n outputs, each the sum of k products; quads = ceil(k / 4) */
    uint64_t zero[5];
};

/* Whether a weight is to be packed so, the bytes it takes, and packing it. */
int mx_w8a8_fits(const mx_weight_use *use);
int mx_w8a8_fits_codes(const mx_weight_use *use);   /* and its quantized sources are such codes, taken as they are */
size_t mx_w8a8_bytes(const mx_weight_use *use);
mxw_status mx_w8a8_pack(const mx_weight_use *use, void *to, mx_pool *pool);
/* Whether a tensor is packed so. */
int mx_w8a8_is(const mx_tensor *weight);

/* A GEMM whose weight is p->w8a8; for its scratch and name it need not be there yet. */
mx_cpu_scratch mx_w8a8_scratch(const mx_gemm *p, const mx_kernels *kernels);
void mx_w8a8_run(const mx_gemm *p, const mx_kernels *kernels);
const char *mx_w8a8_name(const mx_gemm *p);
#endif
