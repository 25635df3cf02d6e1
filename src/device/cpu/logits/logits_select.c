/* device/cpu/logits/logits_select.c - select in compiled calls: on logits, or fused with the GEMM that computes them.
 *
 * A piece is a fixed range of ids, for all rows: it computes their logits, applies the rules and keeps the top k, the
 * largest and the sum, text and timestamps apart (select_range). Then the ranges of a row are merged in order. Rows
 * that sample, and those whose timestamps weigh as much as the best text to the last bits, need all their logits: those
 * are written, and the reference kernel reads them.
 *
 * With an int8 vocabulary (logits_int8.h) a piece computes int8 logits. The merged ranges give thresholds
 * (mx_rescore_thresholds): an id above one may be among the best, or weighs more than UNLIKELY. A second pass over the
 * ranges re-scores those ids exactly; they are the only candidates from then on.
 *
 * Invariant: ids are those that the plain select gives for the same logits, in the same order, and so are their logits.
 * The logarithm of the sum has int8 logits in it for ids that together weigh little: on tiny.en it is off by 2.0e-6
 * (2.8e-5 at most), where that of f32 logits is off by 6.5e-6 (3.1e-5) itself (bench/logits_int8.py). */
#include "device/cpu/cpu.h"

#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "device/cpu/logits/logits_select.h"

#define TOO_CLOSE 1e-5        /* sums differ from the plain ones in the seventh digit */
#define TOO_CLOSE_INT8 1e-3 /* and with int8 logits in the fifth */

/* ---- layout ------------------------------------------------------------------------------------------------------ */

static size_t place(size_t *end, size_t bytes) {
    size_t at = *end;
    *end += MX_CPU_ALIGN(bytes);
    return at;
}

static mx_select_layout layout_of(const mx_call *call) {
    const mx_tensor *x = &call->inputs[0];
    mx_select_layout l = {.fused = call->op == MX_OP_FUSED_SELECT, .rows = x->dims[0], .k = call->attrs->k};
    l.vocab = l.fused ? call->inputs[1].dims[0] : x->dims[1];
    l.width = l.fused ? x->dims[1] : 0;
    l.packed = l.fused && call->inputs[1].layout == MX_LAYOUT_PACKED;
    l.ranges = (l.vocab + MX_SELECT_IDS - 1) / MX_SELECT_IDS;
    l.wave = MX_MIN(l.rows, MX_SELECT_WAVE);
    int64_t kept = MX_MIN(l.k, MX_TOPK), groups = (l.wave + MX_SELECT_GROUP - 1) / MX_SELECT_GROUP;
    l.part = sizeof(mx_select_part) + (size_t)(2 * kept) * (sizeof(float) + sizeof(int32_t));
    size_t packed_rows =
        l.packed ? mx_packed_rows_floats(MX_SELECT_GROUP, l.width) * (size_t)groups : (size_t)(l.wave * l.width);
    l.packed_rows = place(&l.shared, packed_rows * sizeof(float));
    l.norm = place(&l.shared, (size_t)l.width * sizeof(float));
    l.parts = place(&l.shared, (size_t)(l.wave * l.ranges) * l.part);
    l.whole = place(&l.shared, l.fused ? (size_t)(l.wave * l.ranges * MX_SELECT_IDS) * sizeof(float) : 0);
    l.need = place(&l.shared, (size_t)l.wave);
    if (l.packed) {
        l.numbers = place(&l.shared, (size_t)(l.wave * (l.width + 1)) * sizeof(int16_t));
        l.int8_rows = place(&l.shared, (size_t)l.wave * sizeof(mx_int8_row));
        l.thresholds = place(&l.shared, (size_t)l.wave * sizeof(mx_select_thresholds));
        l.mask = place(&l.slot, MX_SELECT_IDS * sizeof(uint16_t));
        l.list = place(&l.slot, sizeof(mx_select_list));
        l.exact = place(&l.slot, MX_SELECT_GROUP * MX_PANEL * sizeof(float));
        l.exact_scratch = place(&l.slot, mx_logits_exact_bytes(l.width));
        l.panel = place(&l.slot, mx_logits_int8_scratch(&call->inputs[1]));
    }
    l.logits = place(&l.slot, l.fused ? MX_SELECT_GROUP * MX_SELECT_IDS * sizeof(float) : 0);
    l.left = place(&l.slot, (size_t)MX_MAX(l.vocab, MX_SELECT_IDS) * sizeof(float));
    return l;
}

mx_cpu_scratch mx_cpu_fast_select_scratch(const mx_call *call) {
    mx_select_layout l = layout_of(call);
    return (mx_cpu_scratch){.slot = l.slot, .shared = l.shared};
}

static int16_t *numbers_of(const mx_selection *s, int64_t row) {
    return (int16_t *)mx_select_shared(s, s->at.numbers) + row * s->int8->pairs * 2;
}

/* ---- rows times the vocabulary ----------------------------------------------------------------------------------- */

static const void *optional(const mx_call *call, int i) { return i < call->n_inputs ? call->inputs[i].data : NULL; }

/* Row r of the wave, normed if there is a gamma. */
static const float *normed_row(const mx_selection *s, int64_t r) {
    const mx_call *call = s->call;
    const float *x = (const float *)call->inputs[0].data + (s->first_row + r) * call->inputs[0].strides[0];
    float *row = mx_select_shared(s, s->at.norm);
    if (!optional(call, 4))
        return x;
    s->kernels->layer_norm(row, x, optional(call, 4), optional(call, 5), 1, s->at.width, call->attrs->eps);
    return row;
}

/* Packs the wave's rows: in chunks, group after group, and quantized if the vocabulary is int8; for a plain weight as
 * they are. */
static void pack_rows(const mx_selection *s) {
    int64_t width = s->at.width;
    float *packed_rows = mx_select_shared(s, s->at.packed_rows);
    for (int64_t r = 0; r < s->n_rows; r++) {
        const float *x = normed_row(s, r);
        int64_t group = r / MX_SELECT_GROUP * MX_SELECT_GROUP, rows = MX_MIN(MX_SELECT_GROUP, s->n_rows - group);
        if (s->at.packed)
            s->kernels->pack_row((float *)(uintptr_t)mx_select_packed_rows(s, r) + (r - group) * MX_CHUNK, x, width,
                                 rows * MX_CHUNK);
        else
            memcpy(packed_rows + r * width, x, (size_t)width * sizeof(float));
        if (s->int8) {
            numbers_of(s, r)[s->int8->pairs * 2 - 1] = 0;
            s->kernels->int8_quantize(numbers_of(s, r), mx_select_int8_row(s, r), x, mx_logits_int8_column(s->int8),
                                      width, s->int8->most);
        }
    }
}

/* y [n], rows ld apart: the logits of a group of rows for a range of ids. */
static void multiply(const mx_selection *s, float *y, int64_t ld, int64_t row, int64_t n, int64_t range, int slot) {
    const float *packed_rows = mx_select_shared(s, s->at.packed_rows);
    int64_t width = s->at.width, first = range * MX_SELECT_IDS, panel = first / MX_PANEL;
    int64_t panels = MX_MIN(MX_SELECT_IDS / MX_PANEL, (s->at.vocab + MX_PANEL - 1) / MX_PANEL - panel);
    if (s->int8)
        mx_logits_int8_multiply(s->kernels, s->int8, y, ld, numbers_of(s, row), mx_select_int8_row(s, row), n, panel,
                                panels, mx_select_slot(s, slot, s->at.panel));
    else if (s->weight)
        mx_gemm_rows(s->kernels, y, ld, mx_select_packed_rows(s, row), n, s->weight, panel, panels);
    else
        s->kernels->gemm(n, MX_MIN(MX_SELECT_IDS, s->at.vocab - first), width, packed_rows + row * width, width,
                         (const float *)s->call->inputs[1].data + first * width, width, 1, y, ld);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

void mx_select_take(const mx_selection *s, int64_t row, int64_t range, const float *logits, float *left) {
    const mx_rule rule = mx_select_rule(s, row);
    mx_select_part *part = mx_select_part_of(s, row, range);
    int64_t first = range * MX_SELECT_IDS;
    s->kernels->select_range(part, mx_select_values(part), mx_select_ids(s, part), logits, &rule,
                             mx_select_suppress(s, &rule) + first, first, MX_MIN(MX_SELECT_IDS, s->at.vocab - first),
                             mx_select_kept(s), left);
}

/* One range, all rows of the wave; their int8 logits are kept. Panels that are made from codes are made once for all
 * rows. */
static void run_int8(const mx_selection *s, int64_t range, float *left, int slot) {
    int64_t group = s->int8->in_codes ? s->n_rows : MX_SELECT_GROUP;
    for (int64_t first = 0; first < s->n_rows; first += group) {
        int64_t n = MX_MIN(group, s->n_rows - first);
        multiply(s, mx_select_row(s, first) + range * MX_SELECT_IDS, s->at.ranges * MX_SELECT_IDS, first, n, range,
                 slot);
        for (int64_t r = first; r < first + n; r++)
            mx_select_take(s, r, range, mx_select_row(s, r) + range * MX_SELECT_IDS, left);
    }
}

/* One range, all rows of the wave. */
static void run_range(void *context, int64_t range, int slot) {
    const mx_selection *s = context;
    float *made = mx_select_slot(s, slot, s->at.logits), *left = mx_select_slot(s, slot, s->at.left);
    int64_t ids = MX_MIN(MX_SELECT_IDS, s->at.vocab - range * MX_SELECT_IDS);
    if (s->int8) {
        run_int8(s, range, left, slot);
        return;
    }
    for (int64_t first = 0; first < s->n_rows; first += MX_SELECT_GROUP) {
        int64_t n = MX_MIN(MX_SELECT_GROUP, s->n_rows - first);
        if (s->at.fused)
            multiply(s, made, MX_SELECT_IDS, first, n, range, slot);
        for (int64_t r = first; r < first + n; r++) {
            const float *logits =
                s->at.fused ? made + (r - first) * MX_SELECT_IDS : mx_select_row(s, r) + range * MX_SELECT_IDS;
            if (!s->need[r])
                mx_select_take(s, r, range, logits, left);
            else if (s->at.fused)
                memcpy(mx_select_row(s, r) + range * MX_SELECT_IDS, logits, (size_t)ids * sizeof(float));
        }
    }
}

/* ---- one row ----------------------------------------------------------------------------------------------------- */

/* Adds b's sum to a. */
void mx_select_add(mx_select_side *a, const mx_select_side *b) {
    if (b->top == -INFINITY)
        return;
    float top = MX_MAX(a->top, b->top);
    a->sum = b->sum * exp((double)b->top - (double)top) +
             (a->top == -INFINITY ? 0 : a->sum * exp((double)a->top - (double)top));
    a->top = top;
}

double mx_select_log(const mx_select_side *a) { return a->top == -INFINITY ? -INFINITY : (double)a->top + log(a->sum); }

/* The sides of all ranges merged, in the order of ids. */
mx_select_part mx_select_join(const mx_selection *s, int64_t row) {
    const mx_select_side none = {.top = -INFINITY};
    mx_select_part all = {.raw = none, .side = {none, none}};
    const mx_rule rule = mx_select_rule(s, row);
    for (int64_t range = 0; range < s->at.ranges; range++) {
        const mx_select_part *part = mx_select_part_of(s, row, range);
        for (int i = 0; i < 2; i++)
            mx_select_add(&all.side[i], &part->side[i]);
        if (rule.no_speech >= 0)
            mx_select_add(&all.raw, &part->raw);
        if (rule.no_speech >= 0 && rule.no_speech / MX_SELECT_IDS == range)
            all.no_speech = part->no_speech;
    }
    return all;
}

/* Candidates of the sides first_side .. last_side, best first; ties by lower id. Returns how many. */
int64_t mx_select_merge(const mx_selection *s, int64_t row, int first_side, int last_side, int32_t *ids,
                        float *values) {
    int64_t k = s->at.k, n = 0;
    for (int side = first_side; side <= last_side; side++)
        for (int64_t range = 0; range < s->at.ranges; range++) {
            mx_select_part *part = mx_select_part_of(s, row, range);
            const float *from = mx_select_values(part) + side * mx_select_kept(s);
            const int32_t *from_ids = mx_select_ids(s, part) + side * mx_select_kept(s);
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

/* The largest logit of the text. */
static double best_text(const mx_selection *s, int64_t row, const mx_select_part *all) {
    float best = s->int8 ? -INFINITY : all->side[0].top;
    for (int64_t range = 0; s->int8 && range < s->at.ranges; range++) {
        mx_select_part *part = mx_select_part_of(s, row, range);
        if (part->side[0].n > 0)
            best = MX_MAX(best, mx_select_values(part)[0]);
    }
    return (double)best;
}

/* Writes the row's results, from its parts; 0 if it needs all its logits after all. */
static int finish_row(const mx_selection *s, int64_t row) {
    const mx_tensor *out = s->call->outputs;
    const mx_rule rule = mx_select_rule(s, row);
    mx_select_part all = mx_select_join(s, row);
    int64_t k = s->at.k, to = s->first_row + row;
    int32_t *ids = (int32_t *)out[0].data + to * k;
    float *values = (float *)out[1].data + to * k, *stats = (float *)out[2].data + to * MX_SELECT_STATS;
    double stamps = mx_select_log(&all.side[1]), text = best_text(s, row, &all), margin = 0,
           raw = mx_select_log(&all.raw);
    if ((rule.flags & MX_RULE_TIMESTAMP_SUM) && stamps > -INFINITY && text > -INFINITY) {
        margin = stamps - text;
        if (fabs(margin) < (s->int8 ? TOO_CLOSE_INT8 : TOO_CLOSE))
            return 0;
    }
    if (margin <= 0)
        mx_select_add(&all.side[1], &all.side[0]);
    double sum = mx_select_log(&all.side[1]);
    stats[MX_SELECT_NO_SPEECH] = raw > -INFINITY ? (float)exp((double)all.no_speech - raw) : 0;
    stats[MX_SELECT_LOG_SUM] = (float)sum;
    int64_t n = mx_select_merge(s, row, margin > 0, 1, ids, values);
    for (int64_t i = 0; i < k; i++) {
        ids[i] = i < n ? ids[i] : -1;
        values[i] = i < n ? (float)((double)values[i] - sum) : -INFINITY;
    }
    return 1;
}

/* From all logits, by the reference kernel. */
static void select_whole(const mx_selection *s, int64_t row, int slot) {
    const mx_tensor *out = s->call->outputs;
    const mx_rule rule = mx_select_rule(s, row);
    int64_t k = s->at.k, to = s->first_row + row;
    int32_t *ids = (int32_t *)out[0].data + to * k;
    float *values = (float *)out[1].data + to * k;
    s->kernels->select(ids, values, (float *)out[2].data + to * MX_SELECT_STATS, mx_select_row(s, row), &rule,
                       mx_select_suppress(s, &rule), s->at.vocab, k, mx_select_slot(s, slot, s->at.left));
    if (s->int8 && rule.temperature > 0 && ids[0] >= 0)
        values[0] += mx_rescore_off(s, row, ids[0], slot);
}

static void run_row(void *context, int64_t row, int slot) {
    const mx_selection *s = context;
    if (s->need[row])
        select_whole(s, row, slot);
    else
        s->need[row] = (int8_t)!finish_row(s, row);
}

/* ---- waves ------------------------------------------------------------------------------------------------------- */

/* Rows that turned out to need their logits: the ranges once more, for the whole wave. */
static void run_wave(mx_selection *s) {
    int late = 0;
    for (int64_t r = 0; r < s->n_rows; r++)
        s->need[r] = mx_select_rule(s, r).temperature > 0 || s->at.k > MX_TOPK;
    if (s->at.fused)
        pack_rows(s);
    mx_cpu_for(s->call, s->at.ranges, run_range, s);
    if (s->int8) {
        mx_cpu_for(s->call, s->n_rows, mx_rescore_thresholds, s);
        mx_cpu_for(s->call, mx_rescore_pieces(s), mx_rescore_ranges, s);
    }
    int8_t before[MX_SELECT_WAVE];
    memcpy(before, s->need, (size_t)s->n_rows);
    mx_cpu_for(s->call, s->n_rows, run_row, s);
    for (int64_t r = 0; r < s->n_rows; r++)
        late |= s->need[r] && !before[r];
    if (!late)
        return;
    for (int64_t r = 0; s->int8 && r < s->n_rows; r++)
        (s->need[r] && !before[r] ? mx_rescore_all : mx_rescore_none)(s, r);
    if (s->int8)
        mx_cpu_for(s->call, mx_rescore_pieces(s), mx_rescore_ranges, s);
    else if (s->at.fused)
        mx_cpu_for(s->call, s->at.ranges, run_range, s);
    for (int64_t r = 0; r < s->n_rows; r++)
        if (s->need[r] && !before[r])
            select_whole(s, r, 0);
}

mxw_status mx_cpu_fast_select(const mx_call *call, const mx_kernels *kernels) {
    int fused = call->op == MX_OP_FUSED_SELECT;
    mx_selection s = {.call = call,
                      .kernels = kernels,
                      .scratch = mx_cpu_fast_select_scratch(call),
                      .at = layout_of(call),
                      .int8 = fused ? mx_logits_int8_of(&call->inputs[1]) : NULL,
                      .weight = fused ? mx_packed_of(&call->inputs[1]) : NULL,
                      .rules = &call->inputs[fused ? 2 : 1],
                      .suppress = &call->inputs[fused ? 3 : 2]};
    mxw_status status = mx_cpu_check_rules(call, s.rules, s.suppress);
    if (status < 0)
        return status;
    s.need = mx_select_shared(&s, s.at.need);
    s.together = MX_MAX(1, MX_MIN(MX_SELECT_TOGETHER, s.at.ranges / (MX_SELECT_PIECES * mx_cpu_slots(call))));
    for (; s.first_row < s.at.rows; s.first_row += s.n_rows) {
        s.n_rows = MX_MIN(MX_SELECT_WAVE, s.at.rows - s.first_row);
        run_wave(&s);
    }
    return MXW_OK;
}

/* ---- names of kernels -------------------------------------------------------------------------------------------- */

static char names[4][48];
static pthread_once_t named = PTHREAD_ONCE_INIT;

static void make_names(void) {
    static const char *const kinds[] = {"select", "gemm and select f32", "gemm and select f16",
                                        "gemm and select int8, the likely f16"};
    static const size_t kernels[] = {offsetof(mx_kernels, select_range), offsetof(mx_kernels, gemm_rows),
                                     offsetof(mx_kernels, gemm_rows), offsetof(mx_kernels, int8_gemm)};
    for (int i = 0; i < 4; i++)
        snprintf(names[i], sizeof(names[i]), "%s, ranges of %d %s", kinds[i], MX_SELECT_IDS,
                 mx_cpu_set_of(mx_cpu_best_isa(), kernels[i]));
}

const char *mx_cpu_select_kernel(const mx_call *call) {
    const mx_packed *weight = call->op == MX_OP_FUSED_SELECT ? mx_packed_of(&call->inputs[1]) : NULL;
    pthread_once(&named, make_names);
    if (call->op == MX_OP_FUSED_SELECT && mx_logits_int8_of(&call->inputs[1]))
        return names[3];
    return names[call->op == MX_OP_SELECT ? 0 : weight && weight->dtype == MXW_F16 ? 2 : 1];
}
