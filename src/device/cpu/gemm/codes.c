/* device/cpu/gemm/codes.c - weights that stay in the codes of their file; see the header. */
#include "device/cpu/gemm/codes.h"

#define AHEAD 2   /* panels that are prefetched */

static int is_linear(const mx_weight_use *use) {
    return (use->op == MX_OP_LINEAR || use->op == MX_OP_FUSED_LINEAR) && use->input == 1 &&
           use->precision == MXW_PRECISION_EXACT;
}

static int is_table(const mx_weight_use *use) { return use->op == MX_OP_GATHER && use->input == 0; }

/* Panels of 32 rows of blocks of 32, all of one type. */
static int has_panels(const mx_weight_use *use) {
    const mx_quantized *first = use->sources[0].quantized;
    for (int i = 0; i < use->n_sources; i++) {
        const mx_quantized *q = use->sources[i].quantized;
        if (q->kind != MX_QUANTIZED_BLOCKS || q->blocks != first->blocks || q->blocks->elements != MX_CODES_BLOCK ||
            (use->n_sources > 1 && use->sources[i].dims[0] % MX_PANEL))
            return 0;
    }
    return 1;
}

int mx_codes_fit(const mx_weight_use *use) {
    for (int i = 0; i < use->n_sources; i++) {
        const mx_tensor *t = &use->sources[i];
        if (t->layout != MX_LAYOUT_QUANTIZED || t->rank != 2 || t->quantized->columns != t->dims[1])
            return 0;
    }
    return is_table(use) || (is_linear(use) && has_panels(use));
}

mx_codes mx_codes_pack(const mx_weight_use *use) {
    mx_codes w = {.k = use->sources[0].dims[1], .n_sources = use->n_sources};
    for (int i = 0; i < use->n_sources; i++) {
        const mx_tensor *t = &use->sources[i];
        w.sources[i].codes = t->quantized;
        w.sources[i].first = t->offset / w.k;
        w.sources[i].rows = t->dims[0];
        w.n += t->dims[0];
    }
    return w;
}

size_t mx_codes_bytes(const mx_weight_use *use) {
    size_t bytes = 0;
    for (int i = 0; i < use->n_sources; i++)
        bytes += (size_t)use->sources[i].dims[0] * use->sources[i].quantized->row_bytes;
    return bytes;
}

int mx_codes_is(const mx_tensor *weight) {
    return weight->layout == MX_LAYOUT_PACKED && weight->packing.format == MX_CPU_PACKED_CODES;
}

/* The codes that have a row; it becomes the row within them. */
static const mx_quantized *codes_of(const mx_codes *w, int64_t *row) {
    int i = 0;
    while (*row >= w->sources[i].rows)
        *row -= w->sources[i++].rows;
    *row += w->sources[i].first;
    return w->sources[i].codes;
}

/* Of the panel that comes AHEAD panels later, as large a part: its rows follow one another, but are read 32 at a time,
 * which no prefetcher of a processor sees through. It may lie past the end. */
static void prefetch(const mx_quantized *q, int64_t row, int64_t k0, int64_t k) {
    size_t panel = MX_PANEL * q->row_bytes, first = (size_t)row * q->row_bytes + AHEAD * panel;
    size_t from = first + panel * (size_t)k0 / (size_t)q->columns;
    size_t to = first + panel * (size_t)(k0 + k) / (size_t)q->columns;
    for (; from < to; from += 64)
        __builtin_prefetch((const void *)((uintptr_t)q->data + from), 0, 2);
}

void mx_codes_panel_of(const mx_kernels *kernels, const mx_quantized *q, int64_t row, int64_t columns, int64_t k0,
                       int64_t k, float *y) {
    const uint8_t *x = q->data + (size_t)row * q->row_bytes + (size_t)(k0 / MX_CODES_BLOCK * q->blocks->bytes);
    prefetch(q, row, k0, k);
    kernels->blocks_panel(y, x, q->blocks, q->row_bytes, columns, k);
}

void mx_codes_panel(const mx_kernels *kernels, const mx_codes *w, int64_t panel, int64_t k0, int64_t k, float *y) {
    int64_t row = panel * MX_PANEL, columns = MX_MIN(MX_PANEL, w->n - row);
    const mx_quantized *q = codes_of(w, &row);
    mx_codes_panel_of(kernels, q, row, columns, k0, k, y);
}

void mx_codes_row(const mx_codes *w, int64_t row, float *y) {
    const mx_quantized *q = codes_of(w, &row);
    mx_quantized_widen(q, row, y);
}
