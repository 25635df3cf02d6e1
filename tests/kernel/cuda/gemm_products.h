/* kernel/cuda/gemm_products.h - the products that test_gpu_gemm checks: of odd shapes, of released models, in pairs. */
#ifndef MX_TEST_GEMM_PRODUCTS_H
#define MX_TEST_GEMM_PRODUCTS_H
#include "device/device.h"

typedef struct product {
    const char *what;
    mx_op op;
    int64_t m, n, k;            /* of a convolution: m positions of an entry; k channels */
    int64_t entries;            /* of a convolution; of others 0, or entries of m rows each */
    int64_t taps, stride;
    int64_t dilation;           /* 0: 1 */
    int64_t apart;              /* elements between the rows of x and of the residual */
    int bias, residual, norm, act, plain_weight, sources;
    int64_t residual_rows;      /* 0: as many as there are */
    int typed;                  /* 0: weights are f16; 1: of these types */
    mxw_dtype dtypes[4];
    mxw_precision precision;
    float scale;                /* of x */
} product;

#define LINEAR .op = MX_OP_FUSED_LINEAR
#define CONV .op = MX_OP_FUSED_CONV1D

static const product products[] = {
    {"1 x 1 x 1", LINEAR, .m = 1, .n = 1, .k = 1},
    {"odd, everything", LINEAR, .m = 7, .n = 13, .k = 37, .bias = 1, .residual = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
    {"odd, many rows, everything", LINEAR, .m = 201, .n = 77, .k = 131, .apart = 3, .bias = 1, .residual = 1, .norm = 1,
     .act = MX_ACT_GELU_TANH},
    {"few rows", LINEAR, .m = 40, .n = 384, .k = 384, .bias = 1, .norm = 1},
    {"few rows, strided, two more", LINEAR, .m = 33, .n = 384, .k = 1536, .apart = 2, .residual = 1},
    {"few rows, in phases", LINEAR, .m = 64, .n = 200, .k = 5120, .bias = 1},
    {"few rows, short, of many columns", LINEAR, .m = 40, .n = 20000, .k = 256, .bias = 1},
    {"weights of f32", LINEAR, .m = 150, .n = 130, .k = 300, .typed = 1, .dtypes = {MXW_F32}, .bias = 1},
    {"weights of bf16", LINEAR, .m = 20, .n = 130, .k = 300, .typed = 1, .dtypes = {MXW_BF16}, .bias = 1},
    {"weights stacked", LINEAR, .m = 150, .n = 130, .k = 96, .sources = 3},
    {"weights stacked, of several types", LINEAR, .m = 99, .n = 131, .k = 96, .sources = 3,
     .typed = 1, .dtypes = {MXW_F16, MXW_F32, MXW_BF16}},
    {"a weight that is not packed", LINEAR, .m = 99, .n = 64, .k = 100, .plain_weight = 1},
    {"a residual for all", LINEAR, .m = 300, .n = 96, .k = 64, .residual = 1, .residual_rows = 50},
    {"large values", LINEAR, .m = 100, .n = 64, .k = 200, .scale = 2e5f},
    {"small values", LINEAR, .m = 100, .n = 64, .k = 200, .scale = 1e-3f},
    {"convolution, odd", CONV, .m = 50, .n = 30, .k = 7, .entries = 3, .taps = 3, .stride = 1, .bias = 1,
     .act = MX_ACT_GELU_ERF},
    {"convolution, 5 wide, by 2, few rows", CONV, .m = 10, .n = 30, .k = 16, .entries = 2, .taps = 5, .stride = 2},
    {"convolution, taps 2 apart", CONV, .m = 50, .n = 30, .k = 7, .entries = 3, .taps = 3, .stride = 1, .dilation = 2,
     .bias = 1},
    {"convolution, taps 5 apart, by 2", CONV, .m = 400, .n = 130, .k = 64, .entries = 4, .taps = 3, .stride = 2,
     .dilation = 5, .bias = 1, .act = MX_ACT_GELU_ERF},
    {"convolution, taps 3 apart, plain", CONV, .m = 40, .n = 33, .k = 16, .entries = 2, .taps = 4, .stride = 1,
     .dilation = 3, .plain_weight = 1},
    {"conv1 of tiny", CONV, .m = 3000, .n = 384, .k = 80, .entries = 3, .taps = 3, .stride = 1, .bias = 1,
     .act = MX_ACT_GELU_ERF},
    {"conv2 of tiny", CONV, .m = 1500, .n = 384, .k = 384, .entries = 2, .taps = 3, .stride = 2, .bias = 1,
     .act = MX_ACT_GELU_ERF, .residual = 1, .residual_rows = 1500},
    {"qkv of tiny", LINEAR, .m = 3000, .n = 1152, .k = 384, .bias = 1, .norm = 1, .sources = 3},
    {"out of tiny", LINEAR, .m = 3000, .n = 384, .k = 384, .bias = 1, .residual = 1},
    {"out of tiny, many windows", LINEAR, .m = 9000, .n = 384, .k = 384, .bias = 1, .residual = 1},
    {"fc1 of tiny", LINEAR, .m = 3000, .n = 1536, .k = 384, .bias = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
    {"fc2 of tiny", LINEAR, .m = 3000, .n = 384, .k = 1536, .bias = 1, .residual = 1},
    {"vocabulary of tiny", LINEAR, .m = 70, .n = 51864, .k = 384, .norm = 1},
    {"normed, all but even", LINEAR, .m = 333, .n = 132, .k = 100, .bias = 1, .norm = 1, .residual = 1,
     .act = MX_ACT_GELU_ERF},
    {"normed, a residual for all", LINEAR, .m = 300, .n = 160, .k = 64, .norm = 1, .residual = 1, .residual_rows = 50},
    {"normed, very long", LINEAR, .m = 130, .n = 96, .k = 1664, .norm = 1},
    {"qkv of large", LINEAR, .m = 450, .n = 3840, .k = 1280, .bias = 1, .norm = 1, .sources = 3},
    {"out of large", LINEAR, .m = 1501, .n = 1280, .k = 1280, .bias = 1, .residual = 1},
    {"fc2 of large", LINEAR, .m = 150, .n = 1280, .k = 5120, .bias = 1, .residual = 1},
    {"fc2 of small", LINEAR, .m = 150, .n = 768, .k = 3072, .bias = 1, .residual = 1},
};

/* As many rows as fill every multiprocessor: kernels of their own. */
static const product huge[] = {
    {"qkv of tiny, 17 windows", LINEAR, .m = 25499, .n = 1152, .k = 384, .bias = 1, .norm = 1, .sources = 3},
    {"out of tiny, 17 windows", LINEAR, .m = 25499, .n = 384, .k = 384, .bias = 1, .residual = 1},
    {"fc1 of tiny, 17 windows", LINEAR, .m = 25499, .n = 1536, .k = 384, .bias = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
    {"qkv of base, 17 windows", LINEAR, .m = 25499, .n = 1536, .k = 512, .bias = 1, .norm = 1},
    {"out of small, 17 windows", LINEAR, .m = 25499, .n = 768, .k = 768, .bias = 1, .residual = 1},
    {"fc1 of large, 3 windows", LINEAR, .m = 4500, .n = 5120, .k = 1280, .bias = 1, .norm = 1,
     .act = MX_ACT_GELU_ERF},
    {"conv1 of tiny, 9 windows", CONV, .m = 3000, .n = 384, .k = 80, .entries = 9, .taps = 3, .stride = 1, .bias = 1,
     .act = MX_ACT_GELU_ERF},
    {"conv2 of tiny, 8 windows", CONV, .m = 1500, .n = 384, .k = 384, .entries = 8, .taps = 3, .stride = 2, .bias = 1,
     .act = MX_ACT_GELU_ERF, .residual = 1, .residual_rows = 1500},
    {"qkv of small, 17 windows", LINEAR, .m = 25499, .n = 2304, .k = 768, .bias = 1, .norm = 1},
    {"qkv of tiny, windows", LINEAR, .m = 1500, .entries = 18, .n = 1152, .k = 384, .bias = 1, .norm = 1, .sources = 3},
    {"fc1 of small, windows", LINEAR, .m = 1500, .entries = 13, .n = 3072, .k = 768, .bias = 1, .norm = 1,
     .act = MX_ACT_GELU_ERF},
    {"qkv of large, windows", LINEAR, .m = 1500, .entries = 9, .n = 3840, .k = 1280, .bias = 1, .norm = 1,
     .sources = 3},
    {"out of large, windows", LINEAR, .m = 1500, .entries = 18, .n = 1280, .k = 1280, .bias = 1, .residual = 1},
    {"fc1 of large, windows", LINEAR, .m = 1500, .entries = 6, .n = 5120, .k = 1280, .bias = 1, .norm = 1,
     .act = MX_ACT_GELU_ERF},
    {"fc2 of large, windows", LINEAR, .m = 1500, .entries = 7, .n = 1280, .k = 5120, .bias = 1, .residual = 1},
    {"large values", LINEAR, .m = 25499, .n = 512, .k = 384, .scale = 2e5f},
};

static const product pairs[][2] = {
    {{"fc1 of tiny", LINEAR, .m = 25499, .n = 1536, .k = 384, .bias = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
     {"fc2 of tiny", LINEAR, .m = 25499, .n = 384, .k = 1536, .bias = 1, .residual = 1}},
    {{"fc1 of base", LINEAR, .m = 25499, .n = 2048, .k = 512, .bias = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
     {"fc2 of base", LINEAR, .m = 25499, .n = 512, .k = 2048, .bias = 1, .residual = 1}},
    {{"fc1 of large", LINEAR, .m = 1500, .entries = 7, .n = 5120, .k = 1280, .bias = 1, .norm = 1,
      .act = MX_ACT_GELU_ERF},
     {"fc2 of large", LINEAR, .m = 1500, .entries = 7, .n = 1280, .k = 5120, .bias = 1, .residual = 1}},
    {{"conv1 of tiny", CONV, .m = 3000, .n = 384, .k = 80, .entries = 9, .taps = 3, .stride = 1, .bias = 1,
      .act = MX_ACT_GELU_ERF},
     {"conv2 of tiny", CONV, .m = 1500, .n = 384, .k = 384, .entries = 9, .taps = 3, .stride = 2, .bias = 1,
      .act = MX_ACT_GELU_ERF, .residual = 1, .residual_rows = 1500}},
    {{"short convolutions", CONV, .m = 22, .n = 384, .k = 80, .entries = 1201, .taps = 3, .stride = 1, .bias = 1,
      .act = MX_ACT_GELU_ERF},
     {"the next", CONV, .m = 11, .n = 128, .k = 384, .entries = 1201, .taps = 3, .stride = 2, .bias = 1}},
    {{"few rows", LINEAR, .m = 40, .n = 1536, .k = 384, .bias = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
     {"few rows", LINEAR, .m = 40, .n = 384, .k = 1536, .bias = 1, .residual = 1}},
};

static const product brief_products[] = {
    {"odd, everything", LINEAR, .m = 7, .n = 13, .k = 37, .bias = 1, .residual = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
    {"few rows", LINEAR, .m = 40, .n = 128, .k = 128, .bias = 1, .norm = 1},
    {"few rows, long", LINEAR, .m = 40, .n = 64, .k = 3072, .bias = 1},
    {"weights of f32", LINEAR, .m = 150, .n = 130, .k = 300, .typed = 1, .dtypes = {MXW_F32}, .bias = 1},
    {"a weight that is not packed", LINEAR, .m = 99, .n = 64, .k = 100, .plain_weight = 1},
    {"wide", LINEAR, .m = 400, .n = 128, .k = 320, .bias = 1, .residual = 1},
    {"ready", LINEAR, .m = 400, .n = 160, .k = 320, .bias = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
    {"convolution", CONV, .m = 50, .n = 32, .k = 16, .entries = 3, .taps = 3, .stride = 1, .bias = 1,
     .act = MX_ACT_GELU_ERF},
    {"very many rows, short", LINEAR, .m = 25499, .n = 512, .k = 384, .bias = 1, .norm = 1},
    {"very many rows, long", LINEAR, .m = 25499, .n = 384, .k = 832, .bias = 1, .residual = 1},
};

static const product brief_pairs[][2] = {
    {{"conv1", CONV, .m = 22, .n = 384, .k = 80, .entries = 1201, .taps = 3, .stride = 1, .bias = 1,
      .act = MX_ACT_GELU_ERF},
     {"conv2", CONV, .m = 11, .n = 128, .k = 384, .entries = 1201, .taps = 3, .stride = 2, .bias = 1}},
    {{"first", LINEAR, .m = 25499, .n = 384, .k = 256, .bias = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
     {"second", LINEAR, .m = 25499, .n = 128, .k = 384, .bias = 1, .residual = 1}},
    /* what the first would hand on is for attention: not to be taken by a product */
    {{"without activation", LINEAR, .m = 25499, .n = 384, .k = 256, .bias = 1, .norm = 1},
     {"behind it", LINEAR, .m = 25499, .n = 128, .k = 384, .bias = 1}},
};

/* What 8 bits are for: rows of any number, columns and k in multiples of 128. */
static const product products8[] = {
    {"a row", LINEAR, .m = 1, .n = 128, .k = 128, .bias = 1},
    {"out of tiny, odd", LINEAR, .m = 201, .n = 384, .k = 384, .apart = 3, .bias = 1, .residual = 1},
    {"qkv of tiny", LINEAR, .m = 3001, .n = 1152, .k = 384, .bias = 1, .norm = 1, .sources = 3},
    {"fc1 of tiny", LINEAR, .m = 3001, .n = 1536, .k = 384, .bias = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
    {"fc2 of tiny", LINEAR, .m = 3001, .n = 384, .k = 1536, .bias = 1, .residual = 1},
    {"without a bias", LINEAR, .m = 130, .n = 256, .k = 256},
    {"a residual for all", LINEAR, .m = 300, .n = 128, .k = 128, .residual = 1, .residual_rows = 50},
    {"weights stacked, of several types", LINEAR, .m = 99, .n = 384, .k = 256, .sources = 3, .typed = 1,
     .dtypes = {MXW_F16, MXW_F32, MXW_BF16}},
    {"large values", LINEAR, .m = 100, .n = 128, .k = 256, .scale = 2e2f},
    {"small values", LINEAR, .m = 100, .n = 128, .k = 256, .scale = 3e-2f},
    {"normed, long, rows apart", LINEAR, .m = 130, .n = 128, .k = 1664, .apart = 1, .norm = 1},
    {"fc1 of medium", LINEAR, .m = 1500, .entries = 7, .n = 4096, .k = 1024, .bias = 1, .norm = 1,
     .act = MX_ACT_GELU_ERF},
    {"fc1 of large", LINEAR, .m = 1500, .entries = 6, .n = 5120, .k = 1280, .bias = 1, .norm = 1,
     .act = MX_ACT_GELU_ERF},
    {"fc2 of large", LINEAR, .m = 1500, .entries = 7, .n = 1280, .k = 5120, .bias = 1, .residual = 1},
    {"out of large, windows", LINEAR, .m = 1500, .entries = 18, .n = 1280, .k = 1280, .bias = 1, .residual = 1},
};

static const product pairs8[][2] = {
    {{"fc1 of tiny", LINEAR, .m = 3001, .n = 1536, .k = 384, .bias = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
     {"fc2 of tiny", LINEAR, .m = 3001, .n = 384, .k = 1536, .bias = 1, .residual = 1}},
    {{"fc1 of large", LINEAR, .m = 1500, .entries = 7, .n = 5120, .k = 1280, .bias = 1, .norm = 1,
      .act = MX_ACT_GELU_ERF},
     {"fc2 of large", LINEAR, .m = 1500, .entries = 7, .n = 1280, .k = 5120, .bias = 1, .residual = 1}},
    {{"few rows", LINEAR, .m = 40, .n = 512, .k = 128, .bias = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
     {"few rows", LINEAR, .m = 40, .n = 128, .k = 512, .bias = 1, .residual = 1}},
};
#endif
