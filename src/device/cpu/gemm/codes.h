/* device/cpu/gemm/codes.h - weights that stay in the codes of their file, widened whenever they are read.
 *
 * A "packed" weight here is a description: where the rows of codes are. Linear layers take ggml's blocks of 32
 * elements, whose panels are widened to f32 a part at a time; tables of rows take every kind. What is widened are the
 * very values that a packed f32 weight has, so a result has the same bits either way.
 * Invariant: the file's codes outlive what was packed from them. */
#ifndef MX_CPU_CODES_H
#define MX_CPU_CODES_H
#include "device/cpu/gemm/gemm.h"
#include "tensor/quantized.h"

#define MX_CODES_BLOCK 32   /* elements of a block: parts of k are multiples of it */

struct mx_codes {
    int64_t n, k;      /* rows in all, elements of one */
    int n_sources;
    struct {
        const mx_quantized *codes;
        int64_t first, rows;            /* of the codes */
    } sources[MX_MAX_INPUTS];           /* one after the other; if there are several for panels, each is whole panels */
};

/* Whether a weight is to stay in codes, and describing it. */
int mx_codes_fit(const mx_weight_use *use);
mx_codes mx_codes_pack(const mx_weight_use *use);
size_t mx_codes_bytes(const mx_weight_use *use);   /* of the codes */
/* Whether a tensor is packed so. */
int mx_codes_is(const mx_tensor *weight);

/* [k][MX_PANEL]: elements k0 .. k0 + k of the rows of a panel, transposed; columns past n are 0. Of blocks. */
void mx_codes_panel(const mx_kernels *kernels, const mx_codes *w, int64_t panel, int64_t k0, int64_t k, float *y);
/* The same of rows of blocks that are side by side, from `row` on. */
void mx_codes_panel_of(const mx_kernels *kernels, const mx_quantized *q, int64_t row, int64_t columns, int64_t k0,
                       int64_t k, float *y);
/* One row. */
void mx_codes_row(const mx_codes *w, int64_t row, float *y);
#endif
