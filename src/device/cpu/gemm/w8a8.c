/* device/cpu/gemm/w8a8.c - products in 8 bits: packing weights, cutting the work, quantizing rows.
 * Few rows are quantized first, and a piece is a range of panels; of many rows a piece is a block of them, which it
 * quantizes itself, with all panels. */
#include "device/cpu/gemm/w8a8.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tensor/quantized.h"

#define FEW_ROWS 28          /* up to here a weight is read once, by pieces that share the rows */
#define FEW_PIECES 2         /* per slot, of few rows */
#define FEW_BYTES 262144     /* of the weight in a piece of few rows, at most */
#define PIECES_PER_SLOT 3    /* of many rows: a late core leaves the others little to wait for */

static int64_t blocks_of(int64_t n, int64_t size) { return (n + size - 1) / size; }
static int64_t round_up(int64_t n, int64_t to) { return blocks_of(n, to) * to; }

/* ---- packed weights ---------------------------------------------------------------------------------------------- */

static int64_t panels_of(const mx_w8a8 *w) { return blocks_of(w->n, MX_PANEL); }
static int64_t panel_bytes(const mx_w8a8 *w) { return w->quads * MX_PANEL * 4; }
static float *scales_of(const mx_w8a8 *w) { return (float *)(uintptr_t)(w + 1); }
static int32_t *sums_of(const mx_w8a8 *w) { return (int32_t *)(void *)(scales_of(w) + panels_of(w) * MX_PANEL); }
static int8_t *panel_of(const mx_w8a8 *w, int64_t panel) {
    return (int8_t *)(sums_of(w) + panels_of(w) * MX_PANEL) + panel * panel_bytes(w);
}

int mx_w8a8_is(const mx_tensor *weight) {
    return weight->layout == MX_LAYOUT_PACKED && weight->packing.format == MX_CPU_PACKED_W8A8;
}

static mx_w8a8 header_of(const mx_weight_use *use) {
    mx_w8a8 w = {.k = use->sources[0].dims[1]};
    for (int i = 0; i < use->n_sources; i++)
        w.n += use->sources[i].dims[0];
    w.quads = blocks_of(w.k, 4);
    return w;
}

int mx_w8a8_fits(const mx_weight_use *use) {
    return use->precision == MXW_PRECISION_INT8 && use->input == 1 &&
           (use->op == MX_OP_LINEAR || use->op == MX_OP_FUSED_LINEAR) && use->sources[0].dims[1] <= MX_W8A8_MOST_K;
}

int mx_w8a8_fits_codes(const mx_weight_use *use) {
    for (int i = 0; i < use->n_sources; i++) {
        const mx_tensor *t = &use->sources[i];
        if (t->layout == MX_LAYOUT_QUANTIZED &&
            (t->quantized->kind != MX_QUANTIZED_INT8 || t->quantized->columns != t->dims[1]))
            return 0;
    }
    return mx_w8a8_fits(use);
}

size_t mx_w8a8_bytes(const mx_weight_use *use) {
    mx_w8a8 w = header_of(use);
    return sizeof(w) + (size_t)panels_of(&w) * ((size_t)panel_bytes(&w) + MX_PANEL * (sizeof(float) + sizeof(int32_t)));
}

typedef struct packing {
    const mx_weight_use *use;
    mx_w8a8 *to;
    const mx_kernels *kernels;
    atomic_int failed;   /* no memory */
} packing;

/* Column j: a row of a source, whose codes are copied, or which is widened to x and quantized. */
static void pack_column(const packing *p, int64_t j, const float *ones, float *x, int8_t *q, float *scale) {
    const mx_tensor *source = p->use->sources;
    while (j >= source->dims[0])
        j -= source++->dims[0];
    if (source->layout == MX_LAYOUT_QUANTIZED) {
        const mx_quantized *codes = source->quantized;
        j += source->offset / codes->columns;
        memcpy(q, codes->data + (size_t)j * codes->row_bytes, (size_t)codes->columns);
        *scale = mx_quantized_factor(codes, j);
        return;
    }
    mx_tensor row = {.dtype = source->dtype, .rank = 1, .dims = {source->dims[1]}, .strides = {source->strides[1]}};
    row.data = (char *)source->data + j * source->strides[0] * (int64_t)mx_dtype_bytes(source->dtype);
    mx_tensor_to_f32(&row, x);
    p->kernels->int8_pack(q, scale, x, ones, p->to->k);
}

static void pack_panel(void *context, int64_t panel) {
    packing *p = context;
    const mx_w8a8 *w = p->to;
    int64_t first = panel * MX_PANEL, columns = MX_MIN(MX_PANEL, w->n - first), row_bytes = w->quads * 4;
    float *ones = mx_alloc_array((size_t)MX_MAX(2 * w->k, 1), sizeof(float)), *x = ones + w->k;
    int8_t *rows = mx_alloc_zero((size_t)MX_PANEL, (size_t)row_bytes), *to = panel_of(w, panel);
    for (int64_t i = 0; ones && i < w->k; i++)
        ones[i] = 1;
    for (int64_t j = 0; j < MX_PANEL && ones && rows; j++) {
        int8_t *q = rows + j * row_bytes;
        float scale = 0;
        int32_t sum = 0;
        if (j < columns)
            pack_column(p, first + j, ones, x, q, &scale);
        for (int64_t i = 0; i < w->k; i++)
            sum += q[i];
        scales_of(w)[first + j] = scale;
        sums_of(w)[first + j] = sum;
        for (int64_t i = 0; i < w->quads; i++)
            memcpy(to + (i * MX_PANEL + j) * 4, q + i * 4, 4);
    }
    if (!ones || !rows)
        atomic_store(&p->failed, 1);
    mx_free(ones);
    mx_free(rows);
}

mxw_status mx_w8a8_pack(const mx_weight_use *use, void *to, mx_pool *pool) {
    packing p = {.use = use, .to = to, .kernels = mx_cpu_fast_kernels()};
    *p.to = header_of(use);
    mx_pool_for(pool, panels_of(p.to), pack_panel, &p);
    return atomic_load(&p.failed) ? mx_fail(MXW_E_MEMORY, "%s: no memory to pack a weight", mx_op_name(use->op))
                                  : MXW_OK;
}

/* ---- cutting the work -------------------------------------------------------------------------------------------- */

typedef struct cut {
    int few;
    int64_t rows, row_blocks;        /* of a piece; a multiple of the tile's */
    int64_t panels, column_blocks;   /* panels of a piece */
    int64_t row_bytes, a_bytes;      /* of the numbers of a row, of `rows` rows */
} cut;

/* From sizes alone: the weight may have no address yet. */
static cut cut_of(const mx_gemm *p, const mx_w8a8_blocks *b) {
    int slots = mx_cpu_slots(p->call);
    int64_t panels = blocks_of(p->n, MX_PANEL);
    cut c = {.few = p->m <= FEW_ROWS, .rows = round_up(p->m, b->tile_rows), .row_blocks = 1, .panels = panels};
    if (c.few) {
        int64_t most = MX_MAX(1, FEW_BYTES / MX_MAX(round_up(p->k, 4) * MX_PANEL, 1));
        c.panels = round_up(MX_MIN(blocks_of(panels, FEW_PIECES * slots), most), b->tile_panels);
    } else {
        int64_t wanted = slots > 1 ? PIECES_PER_SLOT * slots : 1;
        int64_t blocks = MX_MAX(blocks_of(p->m, b->row_block), wanted);
        c.rows = round_up(blocks_of(p->m, blocks), b->tile_rows);
        c.row_blocks = blocks_of(p->m, c.rows);
    }
    c.column_blocks = blocks_of(panels, c.panels);
    c.row_bytes = round_up(p->k, 4 * b->adjacent) * b->bytes;
    c.a_bytes = c.rows * c.row_bytes;
    return c;
}

typedef struct work {
    const mx_gemm *p;
    const mx_kernels *kernels;
    mx_w8a8_blocks blocks;
    cut cut;
    mx_cpu_scratch scratch;
} work;

/* The numbers of rows, their scales and their shifts; then a row while it is made. */
static size_t rows_bytes(const cut *c, const mx_gemm *p) {
    return MX_CPU_ALIGN(c->a_bytes) + 2 * MX_CPU_ALIGN((size_t)c->rows * sizeof(float)) +
           MX_CPU_ALIGN((size_t)p->k * sizeof(float));
}

static mx_cpu_scratch scratch_of(const work *w) {
    size_t sums = MX_CPU_ALIGN((size_t)(w->blocks.tile_rows * w->blocks.tile_panels * MX_PANEL) * sizeof(float));
    size_t rows = rows_bytes(&w->cut, w->p);
    return w->cut.few ? (mx_cpu_scratch){.slot = sums, .shared = rows} : (mx_cpu_scratch){.slot = sums + rows};
}

static work work_of(const mx_gemm *p, const mx_kernels *kernels) {
    work w = {.p = p, .kernels = kernels};
    kernels->w8a8_blocks(&w.blocks);
    w.cut = cut_of(p, &w.blocks);
    w.scratch = scratch_of(&w);
    return w;
}

mx_cpu_scratch mx_w8a8_scratch(const mx_gemm *p, const mx_kernels *kernels) {
    return p->m && p->n ? work_of(p, kernels).scratch : (mx_cpu_scratch){0};
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* Rows of a piece, quantized: tiles of [lines][tile_rows][adjacent][4] numbers. */
typedef struct rows {
    int64_t first, n;
    char *numbers;
    float *scales, *made;   /* made: room for one row */
    int32_t *shifts;
} rows;

static rows rows_at(const work *w, int64_t first, void *memory) {
    rows r = {.first = first, .n = MX_MIN(w->cut.rows, w->p->m - first), .numbers = memory};
    r.scales = (float *)(void *)(r.numbers + MX_CPU_ALIGN(w->cut.a_bytes));
    r.shifts = (int32_t *)(void *)((char *)r.scales + MX_CPU_ALIGN((size_t)w->cut.rows * sizeof(float)));
    r.made = (float *)(void *)((char *)r.shifts + MX_CPU_ALIGN((size_t)w->cut.rows * sizeof(int32_t)));
    return r;
}

static void quantize(const work *w, const rows *r, int64_t from, int64_t to) {
    const mx_gemm *p = w->p;
    int64_t line = 4 * w->blocks.adjacent * w->blocks.bytes, tile = w->blocks.tile_rows;
    for (int64_t i = from; i < to; i++) {
        const float *x = p->x + (r->first + i) * p->ldx;
        char *y = r->numbers + i / tile * tile * w->cut.row_bytes + i % tile * line;
        if (p->gamma) {
            w->kernels->layer_norm(r->made, x, p->gamma, p->beta, 1, p->k, p->eps);
            x = r->made;
        }
        w->kernels->w8a8_row(y, tile * line, &r->scales[i], &r->shifts[i], x, p->k);
    }
}

/* Prefetches the result's cache lines before they are written. */
static void ask_for(const float *y, int64_t ld, int64_t n_rows, int64_t columns) {
    for (int64_t r = 0; r < n_rows; r++, y += ld)
        for (int64_t line = 0; line < columns; line += 16)
            __builtin_prefetch(y + line, 1);
}

/* One tile of rows times the panels from `panel` on. `sums` takes what is not finished by the kernel. */
static void multiply(const work *w, const rows *r, int64_t at, int64_t panel, int64_t panels, float *sums) {
    const mx_gemm *p = w->p;
    int64_t column = panel * MX_PANEL, tile_rows = w->blocks.tile_rows, ld = panels * MX_PANEL;
    int64_t row = r->first + at;
    mx_w8a8_tile t = {.rows = MX_MIN(tile_rows, r->n - at), .quads = p->w8a8->quads, .panels = panels,
                      .a = r->numbers + at * w->cut.row_bytes, .a_rows = tile_rows,
                      .row_scales = r->scales + at, .row_shifts = r->shifts + at, .b = panel_of(p->w8a8, panel),
                      .scales = scales_of(p->w8a8) + column, .sums = sums_of(p->w8a8) + column, .y = sums, .ldy = ld,
                      .streams = w->cut.few};
    int64_t from = p->residual ? row % p->residual_rows : 0;
    int repeats = p->residual && from + t.rows > p->residual_rows;
    int direct = p->act == MX_ACT_NONE && column + ld <= p->n && !repeats;
    if (direct) {
        t.bias = p->bias ? p->bias + column : NULL;
        t.residual = p->residual ? p->residual + from * p->ld_residual + column : NULL;
        t.ld_residual = p->ld_residual;
        t.y = p->y + row * p->n + column;
        t.ldy = p->n;
    }
    ask_for(p->y + row * p->n + column, p->n, t.rows, MX_MIN(ld, p->n - column));
    w->kernels->w8a8_tile(&t);
    if (!direct)
        mx_gemm_finish(p, w->kernels, row, t.rows, column, sums, ld);
}

static void multiply_rows(const work *w, const rows *r, int64_t first, int64_t panels, float *sums) {
    int64_t end = MX_MIN(first + panels, panels_of(w->p->w8a8));
    w->kernels->w8a8_begin(r->n);
    for (int64_t panel = first; panel < end; panel += w->blocks.tile_panels)
        for (int64_t at = 0; at < r->n; at += w->blocks.tile_rows)
            multiply(w, r, at, panel, MX_MIN(w->blocks.tile_panels, end - panel), sums);
    w->kernels->w8a8_end();
}

static void run_rows(void *context, int64_t piece, int slot) {
    const work *w = context;
    char *memory = mx_cpu_slot(w->p->call, w->scratch, slot);
    rows r = rows_at(w, piece * w->cut.rows, memory);
    quantize(w, &r, 0, r.n);
    multiply_rows(w, &r, 0, w->cut.panels, (float *)(void *)(memory + rows_bytes(&w->cut, w->p)));
}

static void run_panels(void *context, int64_t piece, int slot) {
    const work *w = context;
    rows r = rows_at(w, 0, w->p->call->scratch);
    multiply_rows(w, &r, piece * w->cut.panels, w->cut.panels, mx_cpu_slot(w->p->call, w->scratch, slot));
}

void mx_w8a8_run(const mx_gemm *p, const mx_kernels *kernels) {
    if (p->m == 0 || p->n == 0)
        return;
    work w = work_of(p, kernels);
    if (w.cut.few) {
        rows r = rows_at(&w, 0, p->call->scratch);
        quantize(&w, &r, 0, r.n);
        mx_cpu_for(p->call, w.cut.column_blocks, run_panels, &w);
    } else {
        mx_cpu_for(p->call, w.cut.row_blocks, run_rows, &w);
    }
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static char names[2][48];   /* many rows, few */
static pthread_once_t named = PTHREAD_ONCE_INIT;

static void make_names(void) {
    mx_w8a8_blocks b;
    const char *isa = mx_cpu_set_of(mx_cpu_int8_isa(), offsetof(mx_kernels, w8a8_tile));
    mx_cpu_int8_kernels()->w8a8_blocks(&b);
    snprintf(names[0], sizeof(names[0]), "gemm %dx%d int8 %s", (int)b.tile_rows, (int)b.tile_panels * MX_PANEL, isa);
    snprintf(names[1], sizeof(names[1]), "gemm rows x%d int8 %s", MX_PANEL, isa);
}

const char *mx_w8a8_name(const mx_gemm *p) {
    pthread_once(&named, make_names);
    return names[p->m <= FEW_ROWS];
}
