/* tensor/quantized.h - a quantized tensor as its file has it, and how it becomes f32.
 *
 * In: views of the file, checked by the reader: `rows` of `columns` codes each, with scales. Out: f32 values with the
 * bits that the format's own program gives (docs/formats.md). Rows are those of the first axis; where blocks cross
 * their ends, the whole tensor is one. */
#ifndef MX_QUANTIZED_H
#define MX_QUANTIZED_H
#include "tensor/blocks.h"
#include "tensor/tensor.h"

typedef enum mx_quantized_kind {
    MX_QUANTIZED_BLOCKS,   /* ggml's */
    MX_QUANTIZED_INT8,     /* a scale for each row, or one for all */
    MX_QUANTIZED_INT16,
    MX_QUANTIZED_F8,       /* e4m3 */
    MX_QUANTIZED_GROUPS    /* MLX's: codes of 2, 3, 4, 5, 6 or 8 bits in 32-bit words, a scale and a bias for a group */
} mx_quantized_kind;

typedef struct mx_quantized {
    mx_quantized_kind kind;
    const char *type;               /* "q5_0", "int8", "4-bit" */
    const mx_block_type *blocks;    /* BLOCKS */
    int divide;                     /* a code is divided by its scale: times 1 / scale, as CTranslate2 computes it */
    int bits;                       /* GROUPS: of a code */
    int64_t group;                  /* GROUPS: codes that share a scale */
    int64_t rows, columns;
    const uint8_t *data;
    size_t row_bytes;
    mx_tensor scales, biases;       /* float; [rows], or one for all; GROUPS: [rows][columns / group] of one type */
} mx_quantized;

/* Row `row`: columns values. */
void mx_quantized_widen(const mx_quantized *q, int64_t row, float *out);
/* A QUANTIZED tensor, which is whole rows, in the order of the file. */
void mx_quantized_widen_view(const mx_tensor *t, float *out);
float mx_quantized_scale(const mx_quantized *q, int64_t row);   /* as the file has it; not for GROUPS and BLOCKS */
float mx_quantized_factor(const mx_quantized *q, int64_t row);  /* what a code is multiplied by; likewise */
uint64_t mx_quantized_bytes(const mx_quantized *q);   /* codes, scales and biases */
int mx_quantized_same(const mx_quantized *a, const mx_quantized *b);   /* the same codes and scales */
/* E_FORMAT unless every scale is finite (and positive where it divides), biases too; name: in the error. */
mxw_status mx_quantized_check(const mx_quantized *q, const char *name);
#endif
