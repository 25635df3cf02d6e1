/* model/blocks.h - building blocks that encoder and decoder share. `p` is the prefix of the weights' names. */
#ifndef MX_MODEL_BLOCKS_H
#define MX_MODEL_BLOCKS_H
#include "model/model.h"

#define MX_NAME_BYTES 96

/* prefix.suffix, in a buffer that lasts until the fourth call from now. */
const char *mx_block_name(const char *prefix, const char *suffix);

mx_value mx_block_vector(mx_graph *g, const char *p, const char *suffix, int64_t n);
/* weight [n_out, n_in] and, if with_bias, bias [n_out] */
mx_value mx_block_linear(mx_graph *g, mx_value x, const char *p, int64_t n_out, int64_t n_in, int with_bias);
mx_value mx_block_norm(mx_graph *g, mx_value x, const char *p, int64_t n);
/* x + fc2(gelu(fc1(norm(x)))) */
mx_value mx_block_mlp(mx_graph *g, mx_value x, const char *p, int64_t n);
double mx_block_scale(int64_t n, int64_t heads);   /* 1 / sqrt(head size) */
#endif
