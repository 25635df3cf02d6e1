/* device/cpu/logits/logits_int8.c - quantizing and packing the vocabulary to int8, and exact logits of single ids. */
#include "device/cpu/logits/logits_int8.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/status.h"
#include "device/cpu/gemm/codes.h"
#include "device/cpu/ref/int8.h"

_Static_assert(sizeof(mx_logits_int8) == 128, "columns start on a cache line");

#define SAMPLE 2048   /* ids that the column scales are estimated from: only precision depends on them */

static int64_t panels_of(const mx_logits_int8 *w) { return (w->n + MX_PANEL - 1) / MX_PANEL; }
static size_t panel_bytes(const mx_logits_int8 *w) { return (size_t)w->pairs * MX_PANEL * 2; }
static size_t inverse_at(const mx_logits_int8 *w) { return sizeof(*w) + MX_CPU_ALIGN((size_t)w->k * sizeof(float)); }
static size_t scales_at(const mx_logits_int8 *w) {
    return inverse_at(w) + (w->in_codes ? MX_CPU_ALIGN((size_t)w->k * sizeof(float)) : 0);
}
static size_t panels_at(const mx_logits_int8 *w) {   /* or steps */
    return scales_at(w) + (size_t)panels_of(w) * MX_PANEL * sizeof(float);
}

/* Of a weight in codes. */
static float *inverse_of(const mx_logits_int8 *w) { return (float *)(uintptr_t)((const char *)w + inverse_at(w)); }
static float *steps_of(const mx_logits_int8 *w) { return (float *)(uintptr_t)((const char *)w + panels_at(w)); }

const mx_logits_int8 *mx_logits_int8_of(const mx_tensor *weight) {
    int is_int8 = weight->layout == MX_LAYOUT_PACKED && (weight->packing.format == MX_CPU_PACKED_LOGITS_INT8 ||
                                                         weight->packing.format == MX_CPU_PACKED_LOGITS_CODES);
    return is_int8 ? weight->data : NULL;
}

const float *mx_logits_int8_scales(const mx_logits_int8 *w) {
    return (const float *)(const void *)((const char *)w + scales_at(w));
}

const int8_t *mx_logits_int8_panel(const mx_logits_int8 *w, int64_t panel) {
    return (const int8_t *)w + panels_at(w) + (size_t)panel * panel_bytes(w);
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

#define VARIABLE "MXW_VOCABULARY"

/* Making panels again takes longer than reading them, so they are kept unless memory matters more. Read once: what
 * mx_logits_int8_packing says and what is packed then have to agree. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int keeps_codes;
static char unknown[64];   /* value; empty: none */

static void read_variable(void) {
    const char *value = getenv(VARIABLE);
    keeps_codes = value && strcmp(value, "packed") == 0;
    if (value && *value && !keeps_codes)
        snprintf(unknown, sizeof(unknown), "%s", value);
}

void mx_logits_int8_keep_codes(int on) {
    pthread_once(&once, read_variable);
    keeps_codes = on;
}

static mx_logits_int8 header_of(const mx_weight_use *use) {
    const mx_tensor *source = use->sources;
    pthread_once(&once, read_variable);
    mx_logits_int8 w = {.dtype = (uint32_t)source->dtype, .n = source->dims[0],
                   .k = source->dims[1], .exact = source->data, .ld = source->strides[0]};
    if (source->layout == MX_LAYOUT_QUANTIZED) {
        w.quantized = source->quantized;
        w.first = source->offset / MX_MAX(w.k, 1);
        w.in_codes = w.quantized->kind == MX_QUANTIZED_BLOCKS && w.quantized->blocks->elements == MX_CODES_BLOCK &&
                     keeps_codes;
    }
    w.pairs = (w.k + 1) / 2;
    w.most = (int32_t)MX_MIN(INT16_MAX, INT32_MAX / (127 * 2 * MX_MAX(w.pairs, 1)));
    return w;
}

int mx_logits_int8_fits(const mx_weight_use *use) {
    const mx_tensor *source = use->sources;
    return use->op == MX_OP_FUSED_SELECT && use->input == 1 && use->n_sources == 1 && source->rank == 2 &&
           source->strides[1] == 1 &&
           (source->layout != MX_LAYOUT_QUANTIZED || source->quantized->columns == source->dims[1]) &&
           (source->dtype == MXW_F16 || source->dtype == MXW_F32) &&
           header_of(use).most >= 1024;
}

mx_packing mx_logits_int8_packing(const mx_weight_use *use) {
    mx_logits_int8 w = header_of(use);
    if (w.in_codes)
        return (mx_packing){panels_at(&w) + (size_t)panels_of(&w) * MX_PANEL * sizeof(float),
                            MX_CPU_PACKED_LOGITS_CODES, (size_t)w.n * w.quantized->row_bytes};
    return (mx_packing){panels_at(&w) + (size_t)panels_of(&w) * panel_bytes(&w), MX_CPU_PACKED_LOGITS_INT8, 0};
}

typedef struct packing {
    mx_logits_int8 *to;
    const mx_kernels *kernels;
    const float *inverse;   /* [k]: 1 / column */
    _Atomic uint32_t most;  /* the bits of the largest scale so far: they rise with it */
    atomic_int failed;      /* no memory */
} packing;

static const char *exact_row(const mx_logits_int8 *w, int64_t id) {
    return (const char *)w->exact + id * w->ld * (int64_t)mx_dtype_bytes((mxw_dtype)w->dtype);
}

static void widen_row(const packing *p, float *x, int64_t id) {
    if (p->to->quantized)
        mx_quantized_widen(p->to->quantized, p->to->first + id, x);
    else if (p->to->dtype == MXW_F16)
        p->kernels->widen_f16(x, exact_row(p->to, id), p->to->k);
    else
        memcpy(x, exact_row(p->to, id), (size_t)p->to->k * sizeof(float));
}

static void note_scale(packing *p, float scale) {
    uint32_t bits, seen = atomic_load(&p->most);
    memcpy(&bits, &scale, sizeof(bits));
    while (bits > seen && !atomic_compare_exchange_weak(&p->most, &seen, bits))
        ;
}

/* The step that int8_pack quantizes x with; x becomes x times inverse. */
static float step_of(const packing *p, float *x) {
    for (int64_t i = 0; i < p->to->k; i++)
        x[i] *= p->inverse[i];
    return mx_int8_step(mx_int8_largest(x, p->to->k), 127);
}

/* Padding in ids and in k stays zero. */
static void pack_panel(void *context, int64_t panel) {
    packing *p = context;
    const mx_logits_int8 *w = p->to;
    int64_t first = panel * MX_PANEL, ids = MX_MIN(MX_PANEL, w->n - first);
    float *scales = (float *)(uintptr_t)mx_logits_int8_scales(w) + first;
    size_t row_bytes = (size_t)w->pairs * 2;
    char *memory = mx_alloc_zero(1, (size_t)w->k * sizeof(float) + MX_PANEL * row_bytes);
    if (!memory) {
        atomic_store(&p->failed, 1);
        return;
    }
    float *x = (float *)(void *)memory;
    int8_t *rows = (int8_t *)(x + w->k);
    memset(scales, 0, MX_PANEL * sizeof(float));
    if (w->in_codes)
        memset(steps_of(w) + first, 0, MX_PANEL * sizeof(float));
    for (int64_t j = 0; j < ids; j++) {
        widen_row(p, x, first + j);
        p->kernels->int8_pack(rows + (size_t)j * row_bytes, &scales[j], x, p->inverse, w->k);
        note_scale(p, scales[j]);
        if (w->in_codes)
            steps_of(w)[first + j] = step_of(p, x);
    }
    if (!w->in_codes)
        p->kernels->pack_panel_16((void *)(uintptr_t)mx_logits_int8_panel(w, panel), rows, w->pairs, ids, w->pairs);
    mx_free(memory);
}

/* The scale of each column, and its inverse. A column of zeros has scale 1. */
static void find_columns(const packing *p, float *column, float *inverse, float *x) {
    const mx_logits_int8 *w = p->to;
    memset(column, 0, (size_t)w->k * sizeof(float));
    for (int64_t id = 0; id < w->n; id += MX_MAX(w->n / SAMPLE, 1)) {
        widen_row(p, x, id);
        for (int64_t i = 0; i < w->k; i++) {
            float size = fabsf(x[i]);
            column[i] = size > column[i] ? size : column[i];
        }
    }
    for (int64_t i = 0; i < w->k; i++) {
        column[i] = column[i] > 1e-30f && column[i] < 1e30f ? column[i] : 1;
        inverse[i] = 1 / column[i];
    }
}

mxw_status mx_logits_int8_pack(const mx_weight_use *use, void *to, mx_pool *pool) {
    packing p = {.to = to, .kernels = mx_cpu_fast_kernels()};
    *p.to = header_of(use);
    if (*unknown)
        return mx_fail(MXW_E_ARGUMENT, VARIABLE ": '%s': expected packed, or no such variable", unknown);
    float *memory = mx_alloc_array((size_t)(2 * MX_MAX(p.to->k, 1)), sizeof(float));
    if (memory) {
        find_columns(&p, (float *)(void *)(p.to + 1), memory, memory + p.to->k);
        p.inverse = memory;
        if (p.to->in_codes)
            memcpy(inverse_of(p.to), memory, (size_t)p.to->k * sizeof(float));
        mx_pool_for(pool, panels_of(p.to), pack_panel, &p);
    }
    uint32_t most = atomic_load(&p.most);
    memcpy(&p.to->most_scale, &most, sizeof(most));
    int failed = !memory || atomic_load(&p.failed);
    mx_free(memory);
    return failed ? mx_fail(MXW_E_MEMORY, "%s: no memory to pack a weight", mx_op_name(use->op)) : MXW_OK;
}

/* ---- int8 logits ------------------------------------------------------------------------------------------------- */

#define PART 64   /* k of a panel of codes that is widened at once: it stays in the L1 cache */

size_t mx_logits_int8_scratch(const mx_tensor *weight) {
    int in_codes = weight->layout == MX_LAYOUT_PACKED && weight->packing.format == MX_CPU_PACKED_LOGITS_CODES;
    return in_codes ? PART * MX_PANEL * sizeof(float) + MX_CPU_ALIGN(weight->dims[1] * MX_PANEL) : 0;
}

/* A panel's numbers, from its codes. */
static int8_t *panel_of_codes(const mx_kernels *kernels, const mx_logits_int8 *w, int64_t panel, void *scratch) {
    float *wide = scratch;
    int8_t *y = (int8_t *)(wide + PART * MX_PANEL);
    int64_t first = panel * MX_PANEL, ids = MX_MIN(MX_PANEL, w->n - first);
    for (int64_t k0 = 0; k0 < w->k; k0 += PART) {
        int64_t k = MX_MIN(PART, w->k - k0);
        mx_codes_panel_of(kernels, w->quantized, w->first + first, ids, k0, k, wide);
        kernels->int8_panel(y + k0 * MX_PANEL, wide, inverse_of(w) + k0, steps_of(w) + first, k);
    }
    return y;
}

void mx_logits_int8_multiply(const mx_kernels *kernels, const mx_logits_int8 *w, float *y, int64_t ld, const int16_t *x,
                             const mx_int8_row *row, int64_t rows, int64_t panel, int64_t panels, void *scratch) {
    const float *scales = mx_logits_int8_scales(w) + panel * MX_PANEL;
    if (!w->in_codes) {
        kernels->int8_gemm(y, ld, x, row, rows, mx_logits_int8_panel(w, panel), scales, w->pairs, panels);
        return;
    }
    for (int64_t i = 0; i < panels; i++, y += MX_PANEL, scales += MX_PANEL)
        kernels->int8_gemm(y, ld, x, row, rows, panel_of_codes(kernels, w, panel + i, scratch), scales, w->pairs, 1);
}

/* ---- exact logits ------------------------------------------------------------------------------------------------ */

/* The rows of the ids, then transposed to a panel. */
size_t mx_logits_exact_bytes(int64_t k) { return 2 * MX_CPU_ALIGN((size_t)k * MX_PANEL * sizeof(float)); }

void mx_logits_exact_soon(const mx_logits_int8 *w, int64_t id) {
    const mx_quantized *q = w->quantized;
    size_t bytes = q ? q->row_bytes : (size_t)w->k * mx_dtype_bytes((mxw_dtype)w->dtype);
    const char *row = q ? (const char *)q->data + (size_t)(w->first + id) * bytes : exact_row(w, id);
    const char *end = row + bytes;
    for (; row < end; row += 64)
        __builtin_prefetch(row, 0, 2);
}

void mx_logits_exact(const mx_kernels *kernels, const mx_logits_int8 *w, float *y, const float *packed_rows,
                     int64_t rows, const int32_t *ids, int64_t n, void *scratch) {
    size_t bytes = mx_dtype_bytes((mxw_dtype)w->dtype);
    char *side_by_side = scratch, *panel = side_by_side + MX_CPU_ALIGN((size_t)w->k * MX_PANEL * sizeof(float));
    for (int64_t i = 0; i < n; i++) {
        char *to = side_by_side + (size_t)(i * w->k) * bytes;
        if (w->quantized)
            mx_quantized_widen(w->quantized, w->first + ids[i], (float *)(void *)to);
        else
            memcpy(to, exact_row(w, ids[i]), (size_t)w->k * bytes);
    }
    for (int64_t i = n; i < MX_PANEL; i++)   /* only whole panels are transposed in blocks */
        memcpy(side_by_side + (size_t)(i * w->k) * bytes, side_by_side + (size_t)((n - 1) * w->k) * bytes,
               (size_t)w->k * bytes);
    (bytes == 2 ? kernels->pack_panel_16 : kernels->pack_panel_32)(panel, side_by_side, w->k, MX_PANEL, w->k);
    kernels->gemm_rows(y, MX_PANEL, packed_rows, rows, panel, (mxw_dtype)w->dtype, w->k, 1);
}
