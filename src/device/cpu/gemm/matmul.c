/* device/cpu/gemm/matmul.c - products of matrices and convolutions, cut into gemm calls of fixed tiles.
 *
 * Invariant: how a result is cut depends on its own shape, never on the batch around it or on the threads.
 *   [.., rows, k] with leading axes: each entry is cut alone, into tiles of TILE_ROWS rows; the last tile of an entry
 *   is the same whatever the number of entries.
 *   [rows, k]: the rows are the batch (decoder rows). Tiles are exactly ROW_TILE rows, the last one padded with rows
 *   of zeros, and every call has the same size; a row's bits do not depend on its place in the tile (tested). */
#include "device/cpu/cpu.h"

#include <limits.h>
#include <string.h>

#define TILE_ROWS 250      /* a sixth of a window of 1500 positions; a tenth faster than 125, as fast as 500 */
#define TILE_COLUMNS 2048  /* of an entry; a vocabulary is wider */
#define ROW_TILE 8
#define ROW_GROUP 8        /* row tiles that a piece takes one after the other while the weights are in the cache */
/* OpenBLAS multiplies without packing up to this many products, four times faster at eight rows. */
#define SMALL_PRODUCTS 1000000

typedef struct product {
    const mx_call *call;
    const mx_kernels *kernels;
    mx_cpu_scratch scratch;
    int64_t m, n, k;                 /* of one entry */
    const float *a, *b, *bias;
    float *c;
    int64_t ldb;
    int b_transposed;
    int by_row;                      /* rows are the batch: padded tiles */
    int64_t entries, entry_dims[MX_MAX_RANK], a_strides[MX_MAX_RANK], b_strides[MX_MAX_RANK];
    int n_entry_dims;
    int64_t columns;                 /* of a gemm call */
    int64_t row_tiles, column_blocks;
} product;

/* The columns of one call at ROW_TILE rows: few enough to need no packing, a multiple of 16. */
static int64_t row_tile_columns(int64_t k) {
    int64_t columns = SMALL_PRODUCTS / (ROW_TILE * MX_MAX(k, 1)) / 16 * 16;
    return MX_MAX(16, MX_MIN(columns, 128));
}

static mx_cpu_scratch row_scratch(int64_t k) {
    int64_t floats = ROW_TILE * (k + row_tile_columns(k));
    return (mx_cpu_scratch){.slot = (size_t)floats * sizeof(float)};
}

static void multiply(const product *p, int64_t m, int64_t n, const float *a, const float *b, float *c, int64_t ldc) {
    int wide = p->k > INT_MAX || p->ldb > INT_MAX || ldc > INT_MAX;   /* BLAS counts in int */
    (wide ? mx_ref_gemm : p->kernels->gemm)(m, n, p->k, a, p->k, b, p->ldb, p->b_transposed, c, ldc);
}

static const float *block_of_b(const product *p, const float *b, int64_t column) {
    return b + (p->b_transposed ? column * p->ldb : column);
}

/* One piece by row: a block of columns, a group of row tiles. */
static void run_rows(void *context, int64_t piece, int slot) {
    const product *p = context;
    int64_t group = piece / p->column_blocks, column = piece % p->column_blocks * p->columns;
    int64_t columns = MX_MIN(p->columns, p->n - column);
    float *a_full = mx_cpu_slot(p->call, p->scratch, slot), *c_full = a_full + ROW_TILE * p->k;
    const float *b = block_of_b(p, p->b, column);
    for (int64_t t = group * ROW_GROUP; t < MX_MIN((group + 1) * ROW_GROUP, p->row_tiles); t++) {
        int64_t row = t * ROW_TILE, rows = MX_MIN(ROW_TILE, p->m - row);
        const float *a = p->a + row * p->k;
        float *c = p->c + row * p->n + column;
        if (rows == ROW_TILE) {
            multiply(p, rows, columns, a, b, c, p->n);
        } else {
            memcpy(a_full, a, (size_t)(rows * p->k) * sizeof(float));
            memset(a_full + rows * p->k, 0, (size_t)((ROW_TILE - rows) * p->k) * sizeof(float));
            multiply(p, ROW_TILE, columns, a_full, b, c_full, columns);
            for (int64_t r = 0; r < rows; r++)
                memcpy(c + r * p->n, c_full + r * columns, (size_t)columns * sizeof(float));
        }
        if (p->bias)
            p->kernels->add_rows(c, p->n, p->bias + column, rows, columns);
    }
}

/* Where the entry's a and b begin. */
static void entry_offsets(const product *p, int64_t entry, int64_t *a, int64_t *b) {
    *a = *b = 0;
    for (int i = p->n_entry_dims - 1; i >= 0; i--) {
        int64_t at = entry % p->entry_dims[i];
        entry /= p->entry_dims[i];
        *a += at * p->a_strides[i];
        *b += at * p->b_strides[i];
    }
}

/* One piece of an entry: a tile of rows, a block of columns. */
static void run_tile(void *context, int64_t piece, int slot) {
    const product *p = context;
    int64_t block = piece % p->column_blocks, tile = piece / p->column_blocks % p->row_tiles;
    int64_t entry = piece / p->column_blocks / p->row_tiles, a_offset, b_offset;
    int64_t row = tile * TILE_ROWS, column = block * p->columns;
    int64_t rows = MX_MIN(TILE_ROWS, p->m - row), columns = MX_MIN(p->columns, p->n - column);
    entry_offsets(p, entry, &a_offset, &b_offset);
    float *c = p->c + (entry * p->m + row) * p->n + column;
    multiply(p, rows, columns, p->a + a_offset + row * p->k, block_of_b(p, p->b + b_offset, column), c, p->n);
    if (p->bias)
        p->kernels->add_rows(c, p->n, p->bias + column, rows, columns);
}

static void run_product(product *p) {
    if (p->m == 0 || p->n == 0 || p->entries == 0)
        return;
    p->columns = p->by_row ? row_tile_columns(p->k) : TILE_COLUMNS;
    p->column_blocks = (p->n - 1) / p->columns + 1;
    if (p->by_row) {
        p->scratch = row_scratch(p->k);
        p->row_tiles = (p->m - 1) / ROW_TILE + 1;
        mx_cpu_for(p->call, p->column_blocks * ((p->row_tiles - 1) / ROW_GROUP + 1), run_rows, p);
    } else {
        p->row_tiles = (p->m - 1) / TILE_ROWS + 1;
        mx_cpu_for(p->call, p->entries * p->row_tiles * p->column_blocks, run_tile, p);
    }
}

/* ---- linear ------------------------------------------------------------------------------------------------------ */

mx_cpu_scratch mx_cpu_linear_scratch(const mx_call *call) {
    return call->inputs[0].rank > 2 ? (mx_cpu_scratch){0} : row_scratch(call->inputs[1].dims[1]);
}

mxw_status mx_cpu_linear(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *x = &call->inputs[0], *weight = &call->inputs[1];
    product p = {.call = call, .kernels = kernels, .a = x->data, .b = weight->data, .c = call->outputs[0].data};
    p.bias = call->n_inputs > 2 ? call->inputs[2].data : NULL;
    p.n = weight->dims[0];
    p.k = p.ldb = weight->dims[1];
    p.b_transposed = 1;
    p.by_row = x->rank <= 2;
    p.m = x->rank > 1 ? x->dims[x->rank - 2] : 1;
    p.entries = 1;
    for (int i = 0; i < x->rank - 2; i++)
        p.entries *= x->dims[i];
    p.n_entry_dims = 1;
    p.entry_dims[0] = p.entries;
    p.a_strides[0] = p.m * p.k;
    run_product(&p);
    return MXW_OK;
}

/* ---- matmul ------------------------------------------------------------------------------------------------------ */

mx_cpu_scratch mx_cpu_matmul_scratch(const mx_call *call) {
    int by_row = call->inputs[0].rank == 2 && call->inputs[1].rank == 2;
    return by_row ? row_scratch(call->inputs[0].dims[1]) : (mx_cpu_scratch){0};
}

/* The stride of an operand along axis i of the result's leading axes; 0 where it is broadcast. */
static int64_t leading_stride(const mx_tensor *x, const mx_tensor *out, int i) {
    int axis = i - (out->rank - x->rank);
    return axis < 0 || x->dims[axis] == 1 ? 0 : x->strides[axis];
}

mxw_status mx_cpu_matmul(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *a = &call->inputs[0], *b = &call->inputs[1], *out = &call->outputs[0];
    product p = {.call = call, .kernels = kernels, .a = a->data, .b = b->data, .c = out->data, .entries = 1};
    p.m = a->dims[a->rank - 2];
    p.k = a->dims[a->rank - 1];
    p.n = p.ldb = b->dims[b->rank - 1];
    p.by_row = a->rank == 2 && b->rank == 2;
    p.n_entry_dims = out->rank - 2;
    for (int i = 0; i < out->rank - 2; i++) {
        p.entries *= p.entry_dims[i] = out->dims[i];
        p.a_strides[i] = leading_stride(a, out, i);
        p.b_strides[i] = leading_stride(b, out, i);
    }
    run_product(&p);
    return MXW_OK;
}

/* ---- convolution ------------------------------------------------------------------------------------------------- */

/* A convolution over [height][width][in] as products: each position's window, laid out as a row, times the weights. One
 * dimension is a height of one. */
typedef struct convolution {
    const mx_call *call;
    const mx_kernels *kernels;
    mx_cpu_scratch scratch;
    int64_t height, width, in, out_height, out_width, out;
    int64_t kernel_height, kernel_width;
    int64_t stride[2], pad[2], dilation;   /* dilation along the width, where the height is one */
    const float *x, *weight, *bias;   /* weight [out][kernel][in] if transposed, else [kernel][in][out] */
    int transposed;
    float *y;
} convolution;

static int64_t conv_tile(int64_t positions) { return MX_MIN(positions, TILE_ROWS); }

/* The window of one position: kernel_height runs of kernel_width * in floats, zero outside the image. */
static void lay_window(const convolution *c, const float *x, int64_t position, float *row) {
    int64_t top = position / c->out_width * c->stride[0] - c->pad[0];
    int64_t left = position % c->out_width * c->stride[1] - c->pad[1];
    int64_t first = MX_MIN(MX_MAX(0, -left), c->kernel_width);                      /* inside from here ... */
    int64_t last = MX_MAX(first, MX_MIN(c->kernel_width, c->width - left));         /* ... to here */
    size_t before = (size_t)(first * c->in) * sizeof(float), inside = (size_t)((last - first) * c->in) * sizeof(float);
    size_t after = (size_t)((c->kernel_width - last) * c->in) * sizeof(float);
    for (int64_t r = 0; r < c->kernel_height; r++, row += c->kernel_width * c->in) {
        if (top + r < 0 || top + r >= c->height) {
            memset(row, 0, before + inside + after);
            continue;
        }
        memset(row, 0, before);
        if (inside)
            memcpy(row + first * c->in, x + ((top + r) * c->width + left + first) * c->in, inside);
        memset(row + last * c->in, 0, after);
    }
}

/* The same where taps are apart. */
static void lay_taps(const convolution *c, const float *x, int64_t position, float *row) {
    int64_t at = position * c->stride[1] - c->pad[1];
    for (int64_t tap = 0; tap < c->kernel_width; tap++, at += c->dilation, row += c->in)
        if (at >= 0 && at < c->width)
            memcpy(row, x + at * c->in, (size_t)c->in * sizeof(float));
        else
            memset(row, 0, (size_t)c->in * sizeof(float));
}

static void run_conv_tile(void *context, int64_t piece, int slot) {
    const convolution *c = context;
    int64_t positions = c->out_height * c->out_width, tiles = (positions - 1) / TILE_ROWS + 1;
    int64_t entry = piece / tiles, start = piece % tiles * TILE_ROWS, rows = MX_MIN(TILE_ROWS, positions - start);
    int64_t k = c->kernel_height * c->kernel_width * c->in;
    const float *x = c->x + entry * c->height * c->width * c->in;
    float *windows = mx_cpu_slot(c->call, c->scratch, slot), *y = c->y + (entry * positions + start) * c->out;
    for (int64_t r = 0; r < rows; r++)
        (c->dilation > 1 ? lay_taps : lay_window)(c, x, start + r, windows + r * k);
    int wide = k > INT_MAX || c->out > INT_MAX;
    (wide ? mx_ref_gemm : c->kernels->gemm)(rows, c->out, k, windows, k, c->weight, c->transposed ? k : c->out,
                                            c->transposed, y, c->out);
    if (c->bias)
        c->kernels->add_rows(y, c->out, c->bias, rows, c->out);
}

static void run_convolution(convolution *c, int64_t entries) {
    int64_t positions = c->out_height * c->out_width;
    if (entries && positions && c->out)
        mx_cpu_for(c->call, entries * ((positions - 1) / TILE_ROWS + 1), run_conv_tile, c);
}

/* Shared: the weights as [out][k][in], so that a window is one run of the input. */
mx_cpu_scratch mx_cpu_conv1d_scratch(const mx_call *call) {
    const mx_tensor *weight = &call->inputs[1];
    int64_t k = weight->dims[1] * weight->dims[2];
    return (mx_cpu_scratch){.slot = (size_t)(conv_tile(call->outputs[0].dims[1]) * k) * sizeof(float),
                            .shared = mx_tensor_bytes(weight)};
}

mxw_status mx_cpu_conv1d(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *x = &call->inputs[0], *weight = &call->inputs[1], *out = &call->outputs[0];
    int64_t k = weight->dims[2], in = weight->dims[1];
    convolution c = {.call = call, .kernels = kernels, .scratch = mx_cpu_conv1d_scratch(call), .height = 1,
                     .width = x->dims[1], .in = in, .out_height = 1, .out_width = out->dims[1], .out = out->dims[2],
                     .kernel_height = 1, .kernel_width = k, .stride = {1, call->attrs->stride[0]},
                     .pad = {0, call->attrs->pad[0]}, .dilation = call->attrs->dilation, .x = x->data,
                     .weight = call->scratch, .transposed = 1, .y = out->data,
                     .bias = call->n_inputs > 2 ? call->inputs[2].data : NULL};
    kernels->copy(call->scratch, weight->data, 3, (int64_t[]){weight->dims[0], k, in}, (int64_t[]){in * k, 1, k},
                  sizeof(float));
    run_convolution(&c, x->dims[0]);
    return MXW_OK;
}

mx_cpu_scratch mx_cpu_conv2d_scratch(const mx_call *call) {
    const mx_tensor *weight = &call->inputs[1], *out = &call->outputs[0];
    int64_t k = weight->dims[0] * weight->dims[1] * weight->dims[2];
    return (mx_cpu_scratch){.slot = (size_t)(conv_tile(out->dims[1] * out->dims[2]) * k) * sizeof(float)};
}

mxw_status mx_cpu_conv2d(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *x = &call->inputs[0], *weight = &call->inputs[1], *out = &call->outputs[0];
    const mx_attrs *a = call->attrs;
    convolution c = {.call = call, .kernels = kernels, .scratch = mx_cpu_conv2d_scratch(call),
                     .height = x->dims[1], .width = x->dims[2], .in = x->dims[3], .out_height = out->dims[1],
                     .out_width = out->dims[2], .out = out->dims[3], .kernel_height = weight->dims[0],
                     .kernel_width = weight->dims[1], .stride = {a->stride[0], a->stride[1]},
                     .pad = {a->pad[0], a->pad[1]}, .dilation = 1, .x = x->data, .weight = weight->data, .y = out->data,
                     .bias = call->n_inputs > 2 ? call->inputs[2].data : NULL};
    run_convolution(&c, x->dims[0]);
    return MXW_OK;
}
