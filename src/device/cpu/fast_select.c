/* device/cpu/fast_select.c - select in compiled calls: on logits, or fused with the product that makes them.
 *
 * A piece is a range of ids at a fixed place, for all rows: it makes their logits, applies the rules and keeps the few
 * best, the largest and the sum, text and timestamps apart (select_range). What is left is to join the ranges of a row
 * in order. Rows that draw, and those whose timestamps weigh as much as the best text to the last bits, need all their
 * logits: those are written, and the plain kernel reads them.
 *
 * With a coarse vocabulary (coarse.h) a piece makes coarse logits. From what the ranges come to follow bars (set_bars):
 * an id above one may be among the best, or weighs more than UNLIKELY. A second pass over the ranges makes the logits
 * of those ids exact, and takes the ranges again that have any.
 * What holds: ids are those that plain select gives for the same logits, in the same order, and so are their logits.
 * The logarithm of the sum has coarse logits in it for ids that together weigh little: on tiny.en it is off by 3e-6,
 * and by 2e-5 at most, where f32 logits themselves are off by 1e-5 (docs/results/cpu-targets.md). */
#include "device/cpu/cpu.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "device/cpu/best.h"
#include "device/cpu/coarse.h"
#include "device/cpu/pack.h"

#define RANGE (64 * MX_PANEL)   /* ids of a piece */
#define WAVE_ROWS 64            /* rows that share one reading of the weights */
#define GROUP_ROWS 16           /* rows whose logits of a range are made at once */
#define TOO_CLOSE 1e-5          /* sums differ from the plain ones in the seventh digit */
#define TOO_CLOSE_COARSE 1e-3   /* and of coarse logits in the fifth */
#define UNLIKELY 1e-5           /* of the sum: what weighs less may stay coarse */

/* Where things lie in scratch, from shapes alone. */
typedef struct layout {
    int64_t rows, vocab, width, k, ranges, wave;
    int fused, packed;
    size_t part;                                    /* bytes of a row's part of a range, candidates included */
    size_t laid, norm, parts, whole, need, shared;  /* offsets in the shared part, and its end */
    size_t numbers, coarse, bars;                   /* more of them, for a coarse vocabulary */
    size_t logits, left, slot;                      /* the same in a slot */
    size_t mask, exact, exact_scratch;
} layout;

/* What an id's coarse logit must reach for the id to be looked at exactly; side 0 is the text, 1 the timestamps. */
typedef struct bars {
    float likely[2];     /* with a quarter of its slack: six standard deviations, of 384 roundings */
    float best[2];       /* with all of its slack, so that nothing can be missed */
    float raw;           /* as likely, among all ids, before the rules */
} bars;

typedef struct selection {
    const mx_call *call;
    const mx_kernels *kernels;
    mx_cpu_scratch scratch;
    layout at;
    const mx_packed *weight;       /* NULL: coarse, plain, or there are logits */
    const mx_coarse *coarse;       /* NULL: another form */
    const mx_tensor *rules, *suppress;
    int64_t first_row, n_rows;     /* of the wave */
    int8_t *need;                  /* [n_rows]: all logits of the row are needed */
} selection;

/* ---- layout ------------------------------------------------------------------------------------------------------ */

static size_t place(size_t *end, size_t bytes) {
    size_t at = *end;
    *end += MX_CPU_ALIGN(bytes);
    return at;
}

static layout layout_of(const mx_call *call) {
    const mx_tensor *x = &call->inputs[0];
    layout l = {.fused = call->op == MX_OP_FUSED_SELECT, .rows = x->dims[0], .k = call->attrs->k};
    l.vocab = l.fused ? call->inputs[1].dims[0] : x->dims[1];
    l.width = l.fused ? x->dims[1] : 0;
    l.packed = l.fused && call->inputs[1].dtype == MXW_U8;
    l.ranges = (l.vocab + RANGE - 1) / RANGE;
    l.wave = MX_MIN(l.rows, WAVE_ROWS);
    int64_t kept = MX_MIN(l.k, MX_BEST), groups = (l.wave + GROUP_ROWS - 1) / GROUP_ROWS;
    l.part = sizeof(mx_select_part) + (size_t)(2 * kept) * (sizeof(float) + sizeof(int32_t));
    size_t laid = l.packed ? mx_rows_floats(GROUP_ROWS, l.width) * (size_t)groups : (size_t)(l.wave * l.width);
    l.laid = place(&l.shared, laid * sizeof(float));
    l.norm = place(&l.shared, (size_t)l.width * sizeof(float));
    l.parts = place(&l.shared, (size_t)(l.wave * l.ranges) * l.part);
    l.whole = place(&l.shared, l.fused ? (size_t)(l.wave * l.ranges * RANGE) * sizeof(float) : 0);
    l.need = place(&l.shared, (size_t)l.wave);
    if (l.packed) {
        l.numbers = place(&l.shared, (size_t)(l.wave * (l.width + 1)) * sizeof(int16_t));
        l.coarse = place(&l.shared, (size_t)l.wave * sizeof(mx_coarse_row));
        l.bars = place(&l.shared, (size_t)l.wave * sizeof(bars));
        l.mask = place(&l.slot, RANGE * sizeof(uint16_t));
        l.exact = place(&l.slot, GROUP_ROWS * MX_PANEL * sizeof(float));
        l.exact_scratch = place(&l.slot, mx_coarse_exact_bytes(l.width));
    }
    l.logits = place(&l.slot, l.fused ? GROUP_ROWS * RANGE * sizeof(float) : 0);
    l.left = place(&l.slot, (size_t)MX_MAX(l.vocab, RANGE) * sizeof(float));
    return l;
}

mx_cpu_scratch mx_cpu_fast_select_scratch(const mx_call *call) {
    layout l = layout_of(call);
    return (mx_cpu_scratch){.slot = l.slot, .shared = l.shared};
}

static void *shared(const selection *s, size_t offset) { return (char *)s->call->scratch + offset; }
static void *slot_at(const selection *s, int slot, size_t offset) {
    return (char *)mx_cpu_slot(s->call, s->scratch, slot) + offset;
}

static mx_select_part *part_of(const selection *s, int64_t row, int64_t range) {
    return (void *)((char *)shared(s, s->at.parts) + (size_t)(row * s->at.ranges + range) * s->at.part);
}

/* A part's candidates follow it: values [2][kept], then ids. */
static int64_t kept(const selection *s) { return MX_MIN(s->at.k, MX_BEST); }
static float *values_of(mx_select_part *part) { return (float *)(void *)(part + 1); }
static int32_t *ids_of(const selection *s, mx_select_part *part) {
    return (int32_t *)(void *)(values_of(part) + 2 * kept(s));
}

static bars *bars_of(const selection *s, int64_t row) { return (bars *)shared(s, s->at.bars) + row; }
static mx_coarse_row *coarse_row(const selection *s, int64_t row) {
    return (mx_coarse_row *)shared(s, s->at.coarse) + row;
}
static int16_t *numbers_of(const selection *s, int64_t row) {
    return (int16_t *)shared(s, s->at.numbers) + row * s->coarse->pairs * 2;
}
static const float *laid_group(const selection *s, int64_t row) {
    return (float *)shared(s, s->at.laid) + row / GROUP_ROWS * (int64_t)mx_rows_floats(GROUP_ROWS, s->at.width);
}

static mx_rule rule_of(const selection *s, int64_t row) {
    mx_rule rule;
    memcpy(&rule, (const int32_t *)s->rules->data + (s->first_row + row) * MX_RULE_WORDS, sizeof(rule));
    return rule;
}

static const uint8_t *suppress_of(const selection *s, const mx_rule *rule) {
    return (const uint8_t *)s->suppress->data + rule->set * s->at.vocab;
}

/* All logits of a row of the wave: given, or where they are put if the row needs them. */
static float *whole_row(const selection *s, int64_t row) {
    if (s->at.fused)
        return (float *)shared(s, s->at.whole) + row * s->at.ranges * RANGE;
    return (float *)s->call->inputs[0].data + (s->first_row + row) * s->call->inputs[0].strides[0];
}

/* ---- rows times the vocabulary ----------------------------------------------------------------------------------- */

static const void *optional(const mx_call *call, int i) { return i < call->n_inputs ? call->inputs[i].data : NULL; }

/* Row r of the wave, normed if there is a gamma. */
static const float *normed_row(const selection *s, int64_t r) {
    const mx_call *call = s->call;
    const float *x = (const float *)call->inputs[0].data + (s->first_row + r) * call->inputs[0].strides[0];
    float *row = shared(s, s->at.norm);
    if (!optional(call, 4))
        return x;
    s->kernels->layer_norm(row, x, optional(call, 4), optional(call, 5), 1, s->at.width, call->attrs->eps);
    return row;
}

/* The wave's rows: in chunks, a group after the other, and in whole numbers if the vocabulary is coarse; for a plain
 * weight as they are. */
static void lay_rows(const selection *s) {
    int64_t width = s->at.width;
    float *laid = shared(s, s->at.laid);
    for (int64_t r = 0; r < s->n_rows; r++) {
        const float *x = normed_row(s, r);
        int64_t group = r / GROUP_ROWS * GROUP_ROWS, rows = MX_MIN(GROUP_ROWS, s->n_rows - group);
        if (s->at.packed)
            s->kernels->lay_row((float *)(uintptr_t)laid_group(s, r) + (r - group) * MX_CHUNK, x, width,
                                rows * MX_CHUNK);
        else
            memcpy(laid + r * width, x, (size_t)width * sizeof(float));
        if (s->coarse) {
            numbers_of(s, r)[s->coarse->pairs * 2 - 1] = 0;
            s->kernels->coarse_lay(numbers_of(s, r), coarse_row(s, r), x, mx_coarse_column(s->coarse), width,
                                   s->coarse->most);
        }
    }
}

/* y [n], rows ld apart: the logits of a group of rows for a range of ids. */
static void multiply(const selection *s, float *y, int64_t ld, int64_t row, int64_t n, int64_t range) {
    const float *laid = shared(s, s->at.laid);
    int64_t width = s->at.width, first = range * RANGE, panel = first / MX_PANEL;
    int64_t panels = MX_MIN(RANGE / MX_PANEL, (s->at.vocab + MX_PANEL - 1) / MX_PANEL - panel);
    if (s->coarse)
        s->kernels->coarse_rows(y, ld, numbers_of(s, row), coarse_row(s, row), n, mx_coarse_panel(s->coarse, panel),
                                mx_coarse_scales(s->coarse) + first, s->coarse->pairs, panels);
    else if (s->weight)
        mx_rows_times(s->kernels, y, ld, laid_group(s, row), n, s->weight, panel, panels);
    else
        s->kernels->gemm(n, MX_MIN(RANGE, s->at.vocab - first), width, laid + row * width, width,
                         (const float *)s->call->inputs[1].data + first * width, width, 1, y, ld);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static void take_range(const selection *s, int64_t row, int64_t range, const float *logits, float *left) {
    const mx_rule rule = rule_of(s, row);
    mx_select_part *part = part_of(s, row, range);
    int64_t first = range * RANGE;
    s->kernels->select_range(part, values_of(part), ids_of(s, part), logits, &rule, suppress_of(s, &rule) + first,
                             first, MX_MIN(RANGE, s->at.vocab - first), kept(s), left);
}

/* One range, all rows of the wave, the coarse logits of which stay. */
static void run_coarse(const selection *s, int64_t range, float *left) {
    for (int64_t first = 0; first < s->n_rows; first += GROUP_ROWS) {
        int64_t n = MX_MIN(GROUP_ROWS, s->n_rows - first);
        multiply(s, whole_row(s, first) + range * RANGE, s->at.ranges * RANGE, first, n, range);
        for (int64_t r = first; r < first + n; r++)
            take_range(s, r, range, whole_row(s, r) + range * RANGE, left);
    }
}

/* One range, all rows of the wave. */
static void run_range(void *context, int64_t range, int slot) {
    const selection *s = context;
    float *made = slot_at(s, slot, s->at.logits), *left = slot_at(s, slot, s->at.left);
    int64_t ids = MX_MIN(RANGE, s->at.vocab - range * RANGE);
    if (s->coarse) {
        run_coarse(s, range, left);
        return;
    }
    for (int64_t first = 0; first < s->n_rows; first += GROUP_ROWS) {
        int64_t n = MX_MIN(GROUP_ROWS, s->n_rows - first);
        if (s->at.fused)
            multiply(s, made, RANGE, first, n, range);
        for (int64_t r = first; r < first + n; r++) {
            const float *logits = s->at.fused ? made + (r - first) * RANGE : whole_row(s, r) + range * RANGE;
            if (!s->need[r])
                take_range(s, r, range, logits, left);
            else if (s->at.fused)
                memcpy(whole_row(s, r) + range * RANGE, logits, (size_t)ids * sizeof(float));
        }
    }
}

/* ---- one row ----------------------------------------------------------------------------------------------------- */

/* b's sum goes to a. */
static void add_side(mx_select_side *a, const mx_select_side *b) {
    if (b->top == -INFINITY)
        return;
    float top = MX_MAX(a->top, b->top);
    a->sum = b->sum * exp((double)b->top - (double)top) +
             (a->top == -INFINITY ? 0 : a->sum * exp((double)a->top - (double)top));
    a->top = top;
}

static double log_of(const mx_select_side *a) { return a->top == -INFINITY ? -INFINITY : (double)a->top + log(a->sum); }

/* What the sides of all ranges come to, in the order of ids. */
static mx_select_part join(const selection *s, int64_t row) {
    const mx_select_side none = {.top = -INFINITY};
    mx_select_part all = {.raw = none, .side = {none, none}};
    const mx_rule rule = rule_of(s, row);
    for (int64_t range = 0; range < s->at.ranges; range++) {
        const mx_select_part *part = part_of(s, row, range);
        for (int i = 0; i < 2; i++)
            add_side(&all.side[i], &part->side[i]);
        if (rule.no_speech >= 0)
            add_side(&all.raw, &part->raw);
        if (rule.no_speech >= 0 && rule.no_speech / RANGE == range)
            all.no_speech = part->no_speech;
    }
    return all;
}

/* Candidates of the sides first_side .. last_side, best first; ties by lower id. Returns how many. */
static int64_t merge(const selection *s, int64_t row, int first_side, int last_side, int32_t *ids, float *values) {
    int64_t k = s->at.k, n = 0;
    for (int side = first_side; side <= last_side; side++)
        for (int64_t range = 0; range < s->at.ranges; range++) {
            mx_select_part *part = part_of(s, row, range);
            const float *from = values_of(part) + side * kept(s);
            const int32_t *from_ids = ids_of(s, part) + side * kept(s);
            for (int32_t c = 0; c < part->side[side].n && (n < k || from[c] > values[k - 1]); c++) {
                int64_t at = n < k ? n++ : k - 1;
                for (; at > 0 && values[at - 1] < from[c]; at--) {
                    values[at] = values[at - 1];
                    ids[at] = ids[at - 1];
                }
                values[at] = from[c];
                ids[at] = from_ids[c];
            }
        }
    return n;
}

/* Writes the row's results, from its parts; 0 if it needs all its logits after all. */
static int finish_row(const selection *s, int64_t row) {
    const mx_tensor *out = s->call->outputs;
    const mx_rule rule = rule_of(s, row);
    mx_select_part all = join(s, row);
    int64_t k = s->at.k, to = s->first_row + row;
    int32_t *ids = (int32_t *)out[0].data + to * k;
    float *values = (float *)out[1].data + to * k, *stats = (float *)out[2].data + to * MX_SELECT_STATS;
    double stamps = log_of(&all.side[1]), text = (double)all.side[0].top, margin = 0, raw = log_of(&all.raw);
    if ((rule.flags & MX_RULE_TIMESTAMP_SUM) && stamps > -INFINITY && text > -INFINITY) {
        margin = stamps - text;
        if (fabs(margin) < (s->coarse ? TOO_CLOSE_COARSE : TOO_CLOSE))
            return 0;
    }
    if (margin <= 0)
        add_side(&all.side[1], &all.side[0]);
    double sum = log_of(&all.side[1]);
    stats[MX_SELECT_NO_SPEECH] = raw > -INFINITY ? (float)exp((double)all.no_speech - raw) : 0;
    stats[MX_SELECT_LOG_SUM] = (float)sum;
    stats[MX_SELECT_TS_MARGIN] = (float)margin;
    int64_t n = merge(s, row, margin > 0, 1, ids, values);
    for (int64_t i = 0; i < k; i++) {
        ids[i] = i < n ? ids[i] : -1;
        values[i] = i < n ? (float)((double)values[i] - sum) : -INFINITY;
    }
    return 1;
}

/* An id that was drawn may be an unlikely one: what its coarse logit is off. */
static float off_by(const selection *s, int64_t row, int32_t id, int slot) {
    float *y = slot_at(s, slot, s->at.exact);
    int64_t first = row / GROUP_ROWS * GROUP_ROWS;
    mx_coarse_exact(s->kernels, s->coarse, y, laid_group(s, row), MX_MIN(GROUP_ROWS, s->n_rows - first), &id, 1,
                    slot_at(s, slot, s->at.exact_scratch));
    return y[(row - first) * MX_PANEL] - whole_row(s, row)[id];
}

/* From all logits, the plain way. */
static void select_whole(const selection *s, int64_t row, int slot) {
    const mx_tensor *out = s->call->outputs;
    const mx_rule rule = rule_of(s, row);
    int64_t k = s->at.k, to = s->first_row + row;
    int32_t *ids = (int32_t *)out[0].data + to * k;
    float *values = (float *)out[1].data + to * k;
    s->kernels->select(ids, values, (float *)out[2].data + to * MX_SELECT_STATS, whole_row(s, row), &rule,
                       suppress_of(s, &rule), s->at.vocab, k, slot_at(s, slot, s->at.left));
    if (s->coarse && rule.temperature > 0 && ids[0] >= 0)
        values[0] += off_by(s, row, ids[0], slot);
}

static void run_row(void *context, int64_t row, int slot) {
    const selection *s = context;
    if (s->need[row])
        select_whole(s, row, slot);
    else
        s->need[row] = (int8_t)!finish_row(s, row);
}

/* ---- coarse logits, and exact ones ------------------------------------------------------------------------------- */

static void set_all(bars *b, float value) { *b = (bars){{value, value}, {value, value}, value}; }

/* At least `enough` ids of the sides have logits of this or more. -inf: there are not so many. */
static float surely_reached(const selection *s, int64_t row, int first_side, int last_side, int64_t enough) {
    float values[MX_BEST], scale = 0;
    int32_t ids[MX_BEST];
    if (merge(s, row, first_side, last_side, ids, values) < enough)
        return -INFINITY;
    for (int64_t i = 0; i < enough; i++)
        scale = MX_MAX(scale, mx_coarse_scales(s->coarse)[ids[i]]);
    return values[enough - 1] - coarse_row(s, row)->slack * scale;
}

/* The most that a coarse logit of the row can be off, of the ids first .. the last one. */
static float most_off(const selection *s, int64_t row, int64_t first) {
    float most = 0;
    for (int64_t id = MX_MAX(first, 0); id < s->at.vocab; id++)
        most = MX_MAX(most, mx_coarse_scales(s->coarse)[id]);
    return coarse_row(s, row)->slack * most;
}

/* Whether the rule on the sum of timestamps surely leaves text and timestamps, or surely timestamps alone (1), or may
 * do either (-1). */
static int leaves_stamps(const selection *s, int64_t row, const mx_rule *rule, const mx_select_part *all) {
    double margin = log_of(&all->side[1]) - (double)all->side[0].top;
    if (!(rule->flags & MX_RULE_TIMESTAMP_SUM) || all->side[0].top == -INFINITY || all->side[1].top == -INFINITY)
        return 0;
    double off = (double)all->side[0].top - (double)surely_reached(s, row, 0, 0, 1) +
                 (double)most_off(s, row, rule->ts_begin);
    return margin > off ? 1 : margin < -off ? 0 : -1;
}

/* From the coarse logits of a row. Where the rule on the sum of timestamps may leave them alone, a side is looked at as
 * if there were no other; where it surely does, of the text the best alone counts. */
static void set_bars(void *context, int64_t row, int slot) {
    const selection *s = context;
    const mx_rule rule = rule_of(s, row);
    mx_select_part all = join(s, row);
    bars *b = bars_of(s, row);
    (void)slot;
    int unknown = !isfinite(coarse_row(s, row)->slack * s->coarse->most_scale);
    if (unknown || s->at.k > MX_BEST || rule.temperature > 1) {   /* which makes the unlikely likelier */
        set_all(b, -INFINITY);
        return;
    }
    int stamps = leaves_stamps(s, row, &rule, &all);
    if (!stamps)
        add_side(&all.side[0], &all.side[1]);
    for (int side = 0; side < 2; side++) {
        b->likely[side] = (float)(log_of(&all.side[stamps ? side : 0]) + log(UNLIKELY));
        b->best[side] = stamps ? surely_reached(s, row, side, side, s->at.k) : surely_reached(s, row, 0, 1, s->at.k);
    }
    if (stamps > 0) {
        b->likely[0] = INFINITY;
        b->best[0] = surely_reached(s, row, 0, 0, 1);
    }
    b->raw = rule.no_speech >= 0 ? (float)(log_of(&all.raw) + log(UNLIKELY)) : INFINITY;
}

/* Marks the ids of a range whose logits the row needs exactly. */
static void mark(const selection *s, int64_t row, int64_t range, uint16_t *mask, uint16_t bit) {
    const mx_rule rule = rule_of(s, row);
    const bars *b = bars_of(s, row);
    int64_t first = range * RANGE, n = MX_MIN(RANGE, s->at.vocab - first);
    const mx_select_bounds at = mx_select_bounds_of(&rule, first, n);
    const float *x = whole_row(s, row) + first, *scales = mx_coarse_scales(s->coarse) + first;
    float slack = coarse_row(s, row)->slack;
    for (int side = 0; side < 2; side++) {
        int64_t from = at.from[side], count = at.to[side] - from;
        const uint8_t *suppress = suppress_of(s, &rule) + first;
        for (int64_t i = from; b->best[side] == -INFINITY && i < at.to[side]; i++)   /* all, whatever x is */
            mask[i] = (uint16_t)(mask[i] | (suppress[i] ? 0 : bit));
        if (b->best[side] > -INFINITY && count > 0)
            s->kernels->likely(mask + from, bit, x + from, scales + from, suppress + from, count,
                               b->likely[side], b->best[side], slack);
    }
    for (int64_t i = 0; rule.no_speech >= 0 && i < n; i++)
        if (x[i] + slack * scales[i] / 4 >= b->raw || first + i == rule.no_speech || b->raw == -INFINITY)
            mask[i] |= bit;
}

/* Exact logits of up to MX_PANEL ids, to the rows that need them. */
static void put_exact(const selection *s, int64_t first_row, int64_t n_rows, const int32_t *ids, int64_t n,
                      const uint16_t *mask, int64_t first_id, int slot) {
    float *y = slot_at(s, slot, s->at.exact);
    mx_coarse_exact(s->kernels, s->coarse, y, laid_group(s, first_row), n_rows, ids, n,
                    slot_at(s, slot, s->at.exact_scratch));
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t i = 0; i < n; i++)
            if (mask[ids[i] - first_id] >> r & 1)
                whole_row(s, first_row + r)[ids[i]] = y[r * MX_PANEL + i];
}

/* One range, a group of rows: which rows have an exact logit in it now, a bit each. */
static unsigned make_exact(const selection *s, int64_t first_row, int64_t n_rows, int64_t range, int slot) {
    uint16_t *mask = slot_at(s, slot, s->at.mask);
    int64_t first = range * RANGE, n = MX_MIN(RANGE, s->at.vocab - first), found = 0;
    int32_t ids[MX_PANEL];
    unsigned any = 0;
    memset(mask, 0, RANGE * sizeof(*mask));
    for (int64_t r = 0; r < n_rows; r++)
        mark(s, first_row + r, range, mask, (uint16_t)(1u << r));
    for (int64_t i = 0; i < n; i++) {
        if (!mask[i])
            continue;
        any |= mask[i];
        ids[found++] = (int32_t)(first + i);
        if (found == MX_PANEL) {
            put_exact(s, first_row, n_rows, ids, found, mask, first, slot);
            found = 0;
        }
    }
    if (found)
        put_exact(s, first_row, n_rows, ids, found, mask, first, slot);
    return any;
}

static void refine_range(void *context, int64_t range, int slot) {
    const selection *s = context;
    for (int64_t first = 0; first < s->n_rows; first += GROUP_ROWS) {
        unsigned any = make_exact(s, first, MX_MIN(GROUP_ROWS, s->n_rows - first), range, slot);
        for (int64_t r = first; any; r++, any >>= 1)
            if (any & 1)
                take_range(s, r, range, whole_row(s, r) + range * RANGE, slot_at(s, slot, s->at.left));
    }
}

/* ---- waves ------------------------------------------------------------------------------------------------------- */

/* Rows that turned out to need their logits: the ranges once more, for the whole wave. */
static void run_wave(selection *s) {
    int late = 0;
    for (int64_t r = 0; r < s->n_rows; r++)
        s->need[r] = rule_of(s, r).temperature > 0 || s->at.k > MX_BEST;
    if (s->at.fused)
        lay_rows(s);
    mx_cpu_for(s->call, s->at.ranges, run_range, s);
    if (s->coarse) {
        mx_cpu_for(s->call, s->n_rows, set_bars, s);
        mx_cpu_for(s->call, s->at.ranges, refine_range, s);
    }
    int8_t before[WAVE_ROWS];
    memcpy(before, s->need, (size_t)s->n_rows);
    mx_cpu_for(s->call, s->n_rows, run_row, s);
    for (int64_t r = 0; r < s->n_rows; r++)
        late |= s->need[r] && !before[r];
    if (!late)
        return;
    for (int64_t r = 0; s->coarse && r < s->n_rows; r++)
        set_all(bars_of(s, r), s->need[r] && !before[r] ? -INFINITY : INFINITY);
    if (s->at.fused)
        mx_cpu_for(s->call, s->at.ranges, s->coarse ? refine_range : run_range, s);
    for (int64_t r = 0; r < s->n_rows; r++)
        if (s->need[r] && !before[r])
            select_whole(s, r, 0);
}

mxw_status mx_cpu_fast_select(const mx_call *call, const mx_kernels *kernels) {
    int fused = call->op == MX_OP_FUSED_SELECT;
    selection s = {.call = call, .kernels = kernels, .scratch = mx_cpu_fast_select_scratch(call),
                   .at = layout_of(call), .coarse = fused ? mx_coarse_of(&call->inputs[1]) : NULL,
                   .weight = fused ? mx_packed_of(&call->inputs[1]) : NULL,
                   .rules = &call->inputs[fused ? 2 : 1], .suppress = &call->inputs[fused ? 3 : 2]};
    s.weight = s.coarse ? NULL : s.weight;
    mxw_status status = mx_cpu_check_rules(call, s.rules, s.suppress);
    if (status < 0)
        return status;
    s.need = shared(&s, s.at.need);
    for (; s.first_row < s.at.rows; s.first_row += s.n_rows) {
        s.n_rows = MX_MIN(WAVE_ROWS, s.at.rows - s.first_row);
        run_wave(&s);
    }
    return MXW_OK;
}

/* ---- for people -------------------------------------------------------------------------------------------------- */

static char names[4][48];
static pthread_once_t named = PTHREAD_ONCE_INIT;

static void make_names(void) {
    static const char *const kinds[] = {"select", "gemm and select f32", "gemm and select f16",
                                        "gemm and select int8, the likely f16"};
    for (int i = 0; i < 4; i++)
        snprintf(names[i], sizeof(names[i]), "%s, ranges of %d %s", kinds[i], RANGE, mx_cpu_best_isa()->name);
}

const char *mx_cpu_select_kernel(const mx_call *call) {
    const mx_packed *weight = call->op == MX_OP_FUSED_SELECT ? mx_packed_of(&call->inputs[1]) : NULL;
    pthread_once(&named, make_names);
    if (weight && mx_coarse_of(&call->inputs[1]))
        return names[3];
    return names[call->op == MX_OP_SELECT ? 0 : weight && weight->dtype == MXW_F16 ? 2 : 1];
}
