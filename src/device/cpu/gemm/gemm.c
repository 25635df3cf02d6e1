/* device/cpu/gemm/gemm.c - GEMM of compiled calls: packing, blocking and the loops around the micro-kernels.
  * Many rows: they are packed in chunks of k (normed on the way if the op says so; the rows of a convolution are spans
 * of its input, zero past the ends: im2col). A panel of the weight is widened to f32 a block of k at a time, and every
 * tile of rows of the piece is multiplied with it while it is in the L1 cache. Few rows (skinny GEMM): they stay in the
 * cache, and each panel is read once, widened in registers; one that is codes, which take longer, in the L1 cache.
 * Invariant: every element of a result is one chain of fused multiply-adds over k in order; then bias, activation and
 * residual. So the blocking, which follows caches and threads, never changes a bit. */
#include "device/cpu/gemm/gemm.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "device/cpu/gemm/codes.h"
#include "device/cpu/gemm/w8a8.h"

#define FEW_ROWS 28          /* up to here the skinny GEMM is faster (measured) */
#define PIECES_PER_SLOT 3    /* of a large GEMM: a late core leaves the others little to wait for */
#define LEAST_PANELS 4       /* of a piece: below, copying the rows costs too much */
#define LEAST_TILES 8        /* of a piece: below, widening the panels costs too much */
#define FEW_PIECES 2         /* per slot, of few rows */
#define FEW_BYTES 262144     /* of the weight in a piece of few rows, at most */
#define FEW_CODES 64         /* k of a panel of codes that is widened at once for few rows */

static int64_t blocks_of(int64_t n, int64_t size) { return (n + size - 1) / size; }
static int64_t round_up(int64_t n, int64_t to) { return blocks_of(n, to) * to; }

/* ---- blocking ---------------------------------------------------------------------------------------------------- */

typedef struct cut {
    int few;                                /* rows of the skinny GEMM */
    int64_t rows, row_blocks;               /* of a piece; a multiple of the tile's */
    int64_t panels, column_blocks;          /* panels of a piece */
    int64_t k, k_blocks;                    /* of a block; a multiple of MX_CODES_BLOCK */
    int64_t a_floats, b_floats, c_floats;   /* of a slot; of few rows a is shared */
    int64_t row_floats;                     /* one row while it is made */
} cut;

static cut cut_few(const mx_gemm *p, const mx_gemm_blocks *b, int slots) {
    int64_t panels = blocks_of(p->n, MX_PANEL), panel_bytes = MX_MAX(p->k, 1) * MX_PANEL * 2;
    cut c = {.few = 1, .row_floats = round_up(p->k, MX_CHUNK)};
    c.panels = MX_MIN(blocks_of(panels, FEW_PIECES * slots), MX_MAX(1, FEW_BYTES / panel_bytes));
    c.column_blocks = blocks_of(panels, c.panels);
    c.a_floats = (int64_t)mx_packed_rows_floats(p->m, p->k);
    c.c_floats = p->m * c.panels * MX_PANEL;
    c.b_floats = p->in_codes ? FEW_CODES * b->tile_panels * MX_PANEL : 0;
    return c;
}

static cut cut_many(const mx_gemm *p, const mx_gemm_blocks *b, int slots) {
    int64_t panels = blocks_of(p->n, MX_PANEL), wanted = slots > 1 ? PIECES_PER_SLOT * slots : 1;
    cut c = {.k_blocks = MX_MAX(1, blocks_of(p->k, b->k_block))};
    c.k = round_up(blocks_of(p->k, c.k_blocks), MX_CODES_BLOCK);
    int64_t blocks = round_up(blocks_of(p->m, b->row_block), slots);   /* the same number for each slot ... */
    if (p->m / blocks < LEAST_TILES * b->tile_rows)                     /* ... if that leaves enough to each */
        blocks = blocks_of(p->m, b->row_block);
    c.rows = round_up(blocks_of(p->m, blocks), b->tile_rows);
    c.row_blocks = blocks_of(p->m, c.rows);
    c.column_blocks = c.k_blocks > 1 ? blocks_of(p->n, b->column_block) : 1;
    if (p->entries * c.row_blocks * c.column_blocks < wanted) {
        int64_t parts = blocks_of(wanted, p->entries * c.row_blocks);
        c.column_blocks = MX_MAX(c.column_blocks, MX_MIN(parts, MX_MAX(1, panels / LEAST_PANELS)));
    }
    c.panels = round_up(blocks_of(panels, c.column_blocks), b->tile_panels);
    c.column_blocks = blocks_of(panels, c.panels);
    c.a_floats = c.rows * (p->may_norm ? round_up(p->k, MX_CHUNK) : c.k);
    c.b_floats = c.k * b->tile_panels * MX_PANEL;
    c.c_floats = c.k_blocks > 1 ? c.rows * c.panels * MX_PANEL : b->tile_rows * b->tile_panels * MX_PANEL;
    c.row_floats = round_up(p->k, MX_CHUNK);
    return c;
}

static int is_few(const mx_gemm *p) { return p->entries == 1 && !p->taps && p->m <= FEW_ROWS; }

static mx_cpu_scratch scratch_of(const cut *c) {
    if (c->few)
        return (mx_cpu_scratch){.slot = (size_t)(round_up(c->c_floats, 16) + c->b_floats) * sizeof(float),
                                .shared = (size_t)(c->a_floats + c->row_floats) * sizeof(float)};
    int64_t floats = round_up(c->a_floats, 16) + round_up(c->b_floats, 16) + round_up(c->c_floats, 16) + c->row_floats;
    return (mx_cpu_scratch){.slot = (size_t)floats * sizeof(float)};
}

/* Whether the weight will come packed is not known yet where it matters: room for both ways. */
mx_cpu_scratch mx_gemm_scratch(const mx_gemm *p, const mx_kernels *kernels) {
    mx_gemm_blocks blocks;
    if (p->in_8_bits)
        return mx_w8a8_scratch(p, kernels);
    kernels->gemm_blocks(&blocks);
    if (p->m == 0 || p->n == 0 || p->entries == 0)
        return (mx_cpu_scratch){0};
    cut many = cut_many(p, &blocks, mx_cpu_slots(p->call));
    mx_cpu_scratch scratch = scratch_of(&many);
    if (is_few(p)) {
        cut few = cut_few(p, &blocks, mx_cpu_slots(p->call));
        mx_cpu_scratch other = scratch_of(&few);
        scratch.slot = MX_MAX(scratch.slot, other.slot);
        scratch.shared = MX_MAX(scratch.shared, other.shared);
    }
    return scratch;
}

typedef struct work {
    const mx_gemm *p;
    const mx_kernels *kernels;
    mx_gemm_blocks blocks;
    cut cut;
    mx_cpu_scratch scratch;
    const float *few_rows;
} work;

/* ---- epilogue ---------------------------------------------------------------------------------------------------- */

static void activate(const mx_gemm *p, const mx_kernels *kernels, float *c, int64_t ldc, const float *bias,
                     int64_t rows, int64_t columns) {
    void (*gelu)(float *, const float *, int64_t) = p->act == MX_ACT_GELU_ERF ? kernels->gelu_erf : kernels->gelu_tanh;
    if (bias)
        kernels->add_rows(c, ldc, bias, rows, columns);
    if (ldc == columns) {
        gelu(c, c, rows * columns);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        gelu(c + r * ldc, c + r * ldc, columns);
}

void mx_gemm_finish(const mx_gemm *p, const mx_kernels *kernels, int64_t row, int64_t rows, int64_t column, float *c,
                    int64_t ldc) {
    int64_t columns = MX_MIN(ldc, p->n - column);
    const float *bias = p->bias ? p->bias + column : NULL;
    if (p->act != MX_ACT_NONE) {
        activate(p, kernels, c, ldc, bias, rows, columns);
        bias = NULL;
    }
    while (rows > 0) {   /* the residual's rows repeat */
        int64_t from = p->residual ? row % p->residual_rows : 0;
        int64_t n = p->residual ? MX_MIN(rows, p->residual_rows - from) : rows;
        const float *residual = p->residual ? p->residual + from * p->ld_residual + column : NULL;
        kernels->gemm_store(p->y + row * p->n + column, p->n, c, ldc, bias, residual, p->ld_residual, n, columns);
        row += n;
        c += n * ldc;
        rows -= n;
    }
}

/* ---- packing rows ------------------------------------------------------------------------------------------------ */

static void entry_offsets(const mx_gemm *p, int64_t entry, int64_t *a, int64_t *b) {
    *a = *b = 0;
    for (int i = p->n_entry_dims - 1; i >= 0; i--) {
        int64_t at = entry % p->entry_dims[i];
        entry /= p->entry_dims[i];
        *a += at * p->a_strides[i];
        *b += at * p->b_strides[i];
    }
}

/* k elements of a row of a convolution whose taps are apart: a span of the entry for each of them. */
static const float *conv_taps(const mx_gemm *p, int64_t row, int64_t k0, int64_t k, float *made) {
    const float *x = p->x + row / p->out_positions * p->positions * p->channels;
    int64_t start = row % p->out_positions * p->stride - p->pad;
    for (int64_t i = k0, n; i < k0 + k; i += n) {
        int64_t tap = i / p->channels, channel = i % p->channels, at = start + tap * p->dilation;
        n = MX_MIN(p->channels - channel, k0 + k - i);
        if (at >= 0 && at < p->positions)
            memcpy(made + (i - k0), x + at * p->channels + channel, (size_t)n * sizeof(float));
        else
            memset(made + (i - k0), 0, (size_t)n * sizeof(float));
    }
    return made;
}

/* k elements of a convolution's row: a span of its entry, zeros past both ends. */
static const float *conv_row(const mx_gemm *p, int64_t row, int64_t k0, int64_t k, float *made) {
    int64_t length = p->positions * p->channels;
    const float *x = p->x + row / p->out_positions * length;
    int64_t start = (row % p->out_positions * p->stride - p->pad) * p->channels + k0;
    int64_t before = MX_MIN(MX_MAX(0, -start), k), inside = MX_MAX(0, MX_MIN(start + k, length) - (start + before));
    if (inside == k)
        return x + start;
    memset(made, 0, (size_t)before * sizeof(float));
    if (inside)
        memcpy(made + before, x + start + before, (size_t)inside * sizeof(float));
    memset(made + before + inside, 0, (size_t)(k - before - inside) * sizeof(float));
    return made;
}

/* k elements of a row, from k0; a normed row is always whole. `made` is room for them. */
static const float *row_at(const work *w, const float *x, int64_t row, int64_t k0, int64_t k, float *made) {
    const mx_gemm *p = w->p;
    if (p->taps)
        return p->dilation > 1 ? conv_taps(p, row, k0, k, made) : conv_row(p, row, k0, k, made);
    x += row * p->ldx;
    if (!p->gamma)
        return x + k0;
    w->kernels->layer_norm(made, x, p->gamma, p->beta, 1, p->k, p->eps);
    return made;
}

/* One tile, [chunk][tile_rows][MX_CHUNK]; the last one has only the rows there are. */
static void lay_tile(const work *w, const float *x, int64_t row, int64_t rows, int64_t k0, int64_t k, float *a,
                     float *made) {
    int64_t stride = w->blocks.tile_rows * MX_CHUNK;
    for (int64_t r = 0; r < rows; r++)
        w->kernels->pack_row(a + r * MX_CHUNK, row_at(w, x, row + r, k0, k, made), k, stride);
}

/* ---- widening panels --------------------------------------------------------------------------------------------- */

/* k rows of a panel from row k0 on, in f32. */
static const float *panel_at(const work *w, const float *b, int64_t panel, int64_t k0, int64_t k, float *made) {
    const mx_gemm *p = w->p;
    int64_t column = panel * MX_PANEL, columns = MX_MIN(MX_PANEL, p->n - column);
    if (p->codes) {
        mx_codes_panel(w->kernels, p->codes, panel, k0, k, made);
        return made;
    }
    if (p->packed) {
        const void *from = mx_packed_panel(p->packed, panel);
        if (p->packed->dtype == MXW_F32)
            return (const float *)from + k0 * MX_PANEL;
        w->kernels->widen_f16(made, (const uint16_t *)from + k0 * MX_PANEL, k * MX_PANEL);
        return made;
    }
    if (p->b_transposed) {
        w->kernels->pack_panel_32(made, b + column * p->ldb + k0, p->ldb, columns, k);
        return made;
    }
    for (int64_t i = 0; i < k; i++) {
        memcpy(made + i * MX_PANEL, b + (k0 + i) * p->ldb + column, (size_t)columns * sizeof(float));
        if (columns < MX_PANEL)
            memset(made + i * MX_PANEL + columns, 0, (size_t)(MX_PANEL - columns) * sizeof(float));
    }
    return made;
}

/* ---- many rows --------------------------------------------------------------------------------------------------- */

/* One piece: rows [row, row + rows) of an entry, `panels` panels from `first` on. */
typedef struct block {
    const work *w;
    int64_t entry, row, rows, tiles, first, panels;
    int64_t k0, k;                      /* the block of k at hand */
    const float *x, *b;                 /* of the entry */
    float *a, *wide, *sums, *made;
} block;

/* What to prefetch while tile t is multiplied with panel j and its neighbours: the rows of the next tile
 * while tiles are being packed, then the next panels. */
static const void *prefetch_of(const block *p, int64_t j, int64_t t, int64_t *stride) {
    const mx_gemm *product = p->w->p;
    int64_t next = j + p->w->blocks.tile_panels, since = j == 0 ? t - (p->tiles - 1) : t;
    *stride = 1024;
    if (j == 0 && t + 1 < p->tiles) {
        int64_t row = p->row + (t + 1) * p->w->blocks.tile_rows;
        if (product->taps) {
            int64_t entry = row / product->out_positions;
            int64_t position = row % product->out_positions * product->stride - product->pad;
            return p->x + (entry * product->positions + MX_MAX(0, position)) * product->channels + p->k0;
        }
        if (product->ldx != p->k)
            *stride = product->ldx * (int64_t)sizeof(float);
        return p->x + row * product->ldx + p->k0;
    }
    if (since >= 0 && since < p->w->blocks.tile_panels && next + since < p->panels && product->packed) {
        size_t bytes = mx_packed_panel_bytes(product->packed) / (size_t)MX_MAX(1, product->k);
        return (const char *)mx_packed_panel(product->packed, p->first + next + since) + (size_t)p->k0 * bytes;
    }
    return NULL;
}

/* Prefetches the result's cache lines before they are written. */
static void ask_for_result(const mx_gemm *product, int64_t at, int64_t column, const mx_gemm_tile *t) {
    const float *y = product->y + at * product->n + column;
    for (int64_t r = 0; r < t->rows; r++, y += product->n)
        for (int64_t line = 0; line < t->panels * MX_PANEL; line += 16)
            __builtin_prefetch(y + line, 1);
}

/* Where the last part of a tile's chains goes: straight into the result if nothing but bias and residual come after
 * them. Returns 0 if more has to be done with the sums. */
static int set_result(const mx_gemm *product, int64_t at, int64_t column, mx_gemm_tile *t) {
    int64_t from = product->residual ? at % product->residual_rows : 0;
    int repeats = product->residual && from + t->rows > product->residual_rows;
    ask_for_result(product, at, column, t);
    if (product->act != MX_ACT_NONE || column + t->panels * MX_PANEL > product->n || repeats)
        return 0;
    t->bias = product->bias ? product->bias + column : NULL;
    t->residual = product->residual ? product->residual + from * product->ld_residual + column : NULL;
    t->ld_residual = product->ld_residual;
    t->y = product->y + at * product->n + column;
    t->ldy = product->n;
    return 1;
}

/* The panels of a tile from j on, in f32. */
static void set_panels(const block *p, int64_t j, mx_gemm_tile *t) {
    const mx_packed *packed = p->w->p->packed;
    int direct = packed && packed->dtype == MXW_F32;
    t->panels = MX_MIN(p->w->blocks.tile_panels, p->panels - j);
    t->b_stride = (direct ? p->w->p->k : p->k) * MX_PANEL;
    t->b = panel_at(p->w, p->b, p->first + j, p->k0, p->k, p->wide);
    for (int64_t i = 1; i < t->panels && !direct; i++)
        panel_at(p->w, p->b, p->first + j + i, p->k0, p->k, p->wide + i * t->b_stride);
}

static void multiply_panels(const block *p, int64_t j, int64_t k_block) {
    const work *w = p->w;
    const cut *of = &w->cut;
    int64_t tile_rows = w->blocks.tile_rows, column = (p->first + j) * MX_PANEL;
    int whole = w->p->gamma != NULL, last = k_block == of->k_blocks - 1;
    int64_t tile_floats = tile_rows * round_up(whole ? w->p->k : p->k, MX_CHUNK);
    mx_gemm_tile tile = {.k = p->k, .a_rows = tile_rows};
    set_panels(p, j, &tile);
    for (int64_t t = 0; t < p->tiles; t++) {
        int64_t row = p->row + t * tile_rows;
        float *a = p->a + t * tile_floats, *sums = p->sums;
        tile.rows = MX_MIN(tile_rows, p->rows - t * tile_rows);
        if (j == 0 && (!whole || k_block == 0))
            lay_tile(w, p->x, row, tile.rows, p->k0, whole ? w->p->k : p->k, a, p->made);
        if (of->k_blocks > 1)
            sums += (j * of->rows + t * tile_rows * tile.panels) * MX_PANEL;
        tile.a = whole ? a + p->k0 * tile_rows : a;
        tile.start = k_block > 0 ? sums : NULL;
        tile.y = sums;
        tile.ldy = tile.panels * MX_PANEL;
        tile.bias = tile.residual = NULL;
        tile.prefetch = prefetch_of(p, j, t, &tile.prefetch_stride);
        int stored = last && set_result(w->p, p->entry * w->p->m + row, column, &tile);
        w->kernels->gemm_tile(&tile);
        if (last && !stored)
            mx_gemm_finish(w->p, w->kernels, p->entry * w->p->m + row, tile.rows, column, sums,
                           tile.panels * MX_PANEL);
    }
}

static void run_block(void *context, int64_t piece, int slot) {
    const work *w = context;
    const mx_gemm *product = w->p;
    const cut *of = &w->cut;
    block p = {.w = w, .first = piece % of->column_blocks * of->panels,
               .row = piece / of->column_blocks % of->row_blocks * of->rows,
               .entry = piece / of->column_blocks / of->row_blocks};
    int64_t a_offset, b_offset;
    entry_offsets(product, p.entry, &a_offset, &b_offset);
    p.x = product->x + a_offset;
    p.b = product->b ? product->b + b_offset : NULL;
    p.rows = MX_MIN(of->rows, product->m - p.row);
    p.tiles = blocks_of(p.rows, w->blocks.tile_rows);
    p.panels = MX_MIN(of->panels, blocks_of(product->n, MX_PANEL) - p.first);
    p.a = mx_cpu_slot(product->call, w->scratch, slot);
    p.wide = p.a + round_up(of->a_floats, 16);
    p.sums = p.wide + round_up(of->b_floats, 16);
    p.made = p.sums + round_up(of->c_floats, 16);
    for (int64_t kb = 0; kb < of->k_blocks; kb++) {
        p.k0 = kb * of->k;
        p.k = MX_MAX(0, MX_MIN(of->k, product->k - p.k0));
        for (int64_t j = 0; j < p.panels; j += w->blocks.tile_panels)
            multiply_panels(&p, j, kb);
    }
}

/* ---- few rows: skinny GEMM --------------------------------------------------------------------------------------- */

/* All rows times `panels` panels of codes, a tile's at most: y [m][panels * MX_PANEL]. */
static void multiply_codes(const work *w, int64_t first, int64_t panels, float *wide, float *y) {
    const mx_gemm *p = w->p;
    for (int64_t k0 = 0; k0 < p->k; k0 += FEW_CODES) {
        mx_gemm_tile tile = {.k = MX_MIN(FEW_CODES, p->k - k0), .panels = panels, .a_rows = p->m, .b = wide,
                             .b_stride = FEW_CODES * MX_PANEL, .ldy = panels * MX_PANEL};
        for (int64_t i = 0; i < panels; i++)
            mx_codes_panel(w->kernels, p->codes, first + i, k0, tile.k, wide + i * tile.b_stride);
        for (int64_t row = 0; row < p->m; row += tile.rows) {
            tile.rows = MX_MIN(w->blocks.tile_rows, p->m - row);
            tile.a = w->few_rows + k0 * p->m + row * MX_CHUNK;
            tile.y = y + row * tile.ldy;
            tile.start = k0 ? tile.y : NULL;
            w->kernels->gemm_tile(&tile);
        }
    }
}

static void run_codes(const work *w, int64_t first, int64_t panels, float *c) {
    float *wide = c + round_up(w->cut.c_floats, 16);
    for (int64_t j = 0; j < panels; j += w->blocks.tile_panels) {
        int64_t n = MX_MIN(w->blocks.tile_panels, panels - j);
        multiply_codes(w, first + j, n, wide, c);
        mx_gemm_finish(w->p, w->kernels, 0, w->p->m, (first + j) * MX_PANEL, c, n * MX_PANEL);
    }
}

static void run_panels(void *context, int64_t piece, int slot) {
    const work *w = context;
    const mx_gemm *p = w->p;
    int64_t first = piece * w->cut.panels, panels = MX_MIN(w->cut.panels, blocks_of(p->n, MX_PANEL) - first);
    float *c = mx_cpu_slot(p->call, w->scratch, slot);
    if (p->codes) {
        run_codes(w, first, panels, c);
        return;
    }
    mx_gemm_rows(w->kernels, c, panels * MX_PANEL, w->few_rows, p->m, p->packed, first, panels);
    mx_gemm_finish(p, w->kernels, 0, p->m, first * MX_PANEL, c, panels * MX_PANEL);
}

void mx_gemm_run(const mx_gemm *p, const mx_kernels *kernels) {
    if (p->in_8_bits) {
        mx_w8a8_run(p, kernels);
        return;
    }
    work w = {.p = p, .kernels = kernels, .scratch = mx_gemm_scratch(p, kernels)};
    if (p->m == 0 || p->n == 0 || p->entries == 0)
        return;
    kernels->gemm_blocks(&w.blocks);
    if (is_few(p) && (p->packed || p->codes)) {
        w.cut = cut_few(p, &w.blocks, mx_cpu_slots(p->call));
        float *a = p->call->scratch;
        mx_pack_norm norm = {.gamma = p->gamma, .beta = p->beta, .eps = p->eps, .row = a + w.cut.a_floats};
        mx_pack_rows(kernels, a, p->x, p->ldx, p->m, p->k, p->gamma ? &norm : NULL);
        w.few_rows = a;
        mx_cpu_for(p->call, w.cut.column_blocks, run_panels, &w);
    } else {
        w.cut = cut_many(p, &w.blocks, mx_cpu_slots(p->call));
        mx_cpu_for(p->call, p->entries * w.cut.row_blocks * w.cut.column_blocks, run_block, &w);
    }
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static char names[2][4][48];   /* many rows, few; f16, f32, not packed, codes */
static pthread_once_t named = PTHREAD_ONCE_INIT;

static void make_names(void) {
    static const char *const kinds[] = {"f16", "f32", "plain", "codes"};
    mx_gemm_blocks blocks;
    const char *tile_set = mx_cpu_set_of(mx_cpu_best_isa(), offsetof(mx_kernels, gemm_tile));
    const char *rows_set = mx_cpu_set_of(mx_cpu_best_isa(), offsetof(mx_kernels, gemm_rows));
    mx_cpu_fast_kernels()->gemm_blocks(&blocks);
    for (int kind = 0; kind < 4; kind++) {
        snprintf(names[0][kind], sizeof(names[0][kind]), "gemm %dx%d %s %s", (int)blocks.tile_rows,
                 (int)blocks.tile_panels * MX_PANEL, kinds[kind], tile_set);
        snprintf(names[1][kind], sizeof(names[1][kind]), "gemm rows x%d %s %s", MX_PANEL, kinds[kind], rows_set);
    }
}

const char *mx_gemm_name(const mx_gemm *p) {
    if (p->in_8_bits)
        return mx_w8a8_name(p);
    pthread_once(&named, make_names);
    int kind = p->in_codes ? 3 : !p->packed ? 2 : p->packed->dtype == MXW_F32;
    return names[is_few(p) && (p->packed || p->in_codes)][kind];
}
