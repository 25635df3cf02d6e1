/* device/cpu/gemm/gemm.h - a GEMM of a compiled call and its prologue and epilogue, as gemm.c takes it. */
#ifndef MX_CPU_GEMM_H
#define MX_CPU_GEMM_H
#include "device/cpu/gemm/pack.h"

typedef struct mx_w8a8 mx_w8a8;   /* w8a8.h */
typedef struct mx_codes mx_codes; /* codes.h */

/* y [entries][m][n] = act(norm(x) b + bias) + residual */
typedef struct mx_gemm {
    const mx_call *call;
    int64_t m, n, k, entries;        /* m rows of an entry */
    /* Rows: of x, ldx apart; with taps those of a convolution, each `taps * channels` elements. */
    const float *x;
    int64_t ldx;
    int64_t taps, channels, stride, pad, dilation, positions, out_positions;
    int may_norm;                    /* there may be a gamma: where sizes alone are known, it counts as there */
    const float *gamma, *beta;       /* [k]; gamma NULL: none */
    double eps;
    /* Columns: packed, or plain [k][n], or [n][k] when transposed. */
    const mx_packed *packed;
    int in_8_bits;                   /* the weight is w8a8, in place of the others */
    const mx_w8a8 *w8a8;
    int in_codes;                    /* the weight is codes, in place of the others */
    const mx_codes *codes;
    const float *b;
    int64_t ldb;
    int b_transposed;
    /* Where the rows and columns of an entry start. */
    int n_entry_dims;
    int64_t entry_dims[MX_MAX_RANK], a_strides[MX_MAX_RANK], b_strides[MX_MAX_RANK];
    /* The result. */
    const float *bias, *residual;    /* NULL: none; rows of the residual repeat */
    int64_t residual_rows, ld_residual;
    int act;                         /* mx_act */
    float *y;
} mx_gemm;

mx_cpu_scratch mx_gemm_scratch(const mx_gemm *p, const mx_kernels *kernels);
/* The kernel it will run, human-readable: "gemm 14x32 f16 avx512". */
const char *mx_gemm_name(const mx_gemm *p);
/* Sums in c, `rows` rows ldc apart, rows from `row` on of all entries' rows, columns from `column` on: through bias,
 * activation and residual to where they belong. */
void mx_gemm_finish(const mx_gemm *p, const mx_kernels *kernels, int64_t row, int64_t rows, int64_t column, float *c,
                    int64_t ldc);
void mx_gemm_run(const mx_gemm *p, const mx_kernels *kernels);
#endif
