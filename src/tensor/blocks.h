/* tensor/blocks.h - ggml's block types, in which quantized weights are stored.
 *
 * A row is cut into blocks of 32 or 256 elements; each has its own scale (and minimum) besides its codes. In: blocks as
 * a file has them, at any address. Out: f32, equal bit for bit to what libggml's dequantize_row_* gives: every product
 * is exact in f32 but those of q6_K and q8_K, which are rounded once, so the order of the factors does not matter.
 * The other way, for the types of 32: bytes equal to those of libggml's own quantizer. */
#ifndef MX_BLOCKS_H
#define MX_BLOCKS_H
#include "base/base.h"

typedef struct mx_block_type {
    const char *name;          /* "q5_0", "q4_K" */
    uint32_t id;               /* ggml's number of the type, in ggml and GGUF files */
    int elements, bytes;       /* of one block */
    void (*widen)(const uint8_t *block, float *out);
    void (*pack)(const float *values, uint8_t *out);   /* NULL: only read (the K types) */
} mx_block_type;

/* By ggml's number; NULL if it is not a block type of this table. */
const mx_block_type *mx_block_type_get(uint32_t id);
/* By name; NULL if there is none. */
const mx_block_type *mx_block_type_find(const char *name);
/* n elements, a multiple of the type's. */
void mx_blocks_widen(const mx_block_type *type, const void *blocks, int64_t n, float *out);
/* n finite values into a type that has `pack`; blocks may begin where x does. */
void mx_blocks_pack(const mx_block_type *type, const float *x, int64_t n, void *blocks);

/* blocks_pack.c, for the table. */
void mx_pack_q4_0(const float *x, uint8_t *out);
void mx_pack_q4_1(const float *x, uint8_t *out);
void mx_pack_q5_0(const float *x, uint8_t *out);
void mx_pack_q5_1(const float *x, uint8_t *out);
void mx_pack_q8_0(const float *x, uint8_t *out);
#endif
