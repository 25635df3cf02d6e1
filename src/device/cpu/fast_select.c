/* device/cpu/fast_select.c - select in compiled calls: on logits, or fused with the product that makes them, so that no
 * row of the vocabulary is written.
 *
 * A piece is a range of ids at a fixed place, for all rows: it makes their logits, applies the rules and keeps the few
 * best, the largest and the sum, text and timestamps apart (select_range). What is left is to join the ranges of a row
 * in order. Rows that draw, and those whose timestamps weigh as much as the best text to the last bits, need all their
 * logits: those are written, and the plain kernel reads them.
 * What holds: ids are those that plain select gives for the same logits, in the same order. */
#include "device/cpu/cpu.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "device/cpu/pack.h"

#define RANGE (64 * MX_PANEL)   /* ids of a piece */
#define WAVE_ROWS 64            /* rows that share one reading of the weights */
#define GROUP_ROWS 16           /* rows whose logits of a range are made at once */
#define TOO_CLOSE 1e-5          /* sums differ from the plain ones in the seventh digit */

/* Where things lie in scratch, from shapes alone. */
typedef struct layout {
    int64_t rows, vocab, width, k, ranges, wave;
    int fused, packed;
    size_t part;                                    /* bytes of a row's part of a range, candidates included */
    size_t laid, norm, parts, whole, need, shared;  /* offsets in the shared part, and its end */
    size_t logits, left, slot;                      /* the same in a slot */
} layout;

typedef struct selection {
    const mx_call *call;
    const mx_kernels *kernels;
    mx_cpu_scratch scratch;
    layout at;
    const mx_packed *weight;       /* NULL: plain, or there are logits */
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

/* The wave's rows, normed if there is a gamma: in chunks, a group after the other, or as they are. */
static void lay_rows(const selection *s) {
    const mx_call *call = s->call;
    int64_t width = s->at.width, ld = call->inputs[0].strides[0];
    const float *x = (const float *)call->inputs[0].data + s->first_row * ld;
    float *laid = shared(s, s->at.laid);
    mx_rows_norm norm = {.gamma = optional(call, 4), .beta = optional(call, 5), .eps = call->attrs->eps,
                         .row = shared(s, s->at.norm)};
    for (int64_t r = 0; s->weight && r < s->n_rows; r += GROUP_ROWS)
        mx_rows_lay(s->kernels, laid + r / GROUP_ROWS * (int64_t)mx_rows_floats(GROUP_ROWS, width), x + r * ld, ld,
                    MX_MIN(GROUP_ROWS, s->n_rows - r), width, norm.gamma ? &norm : NULL);
    for (int64_t r = 0; !s->weight && r < s->n_rows; r++) {
        if (norm.gamma)
            s->kernels->layer_norm(laid + r * width, x + r * ld, norm.gamma, norm.beta, 1, width, norm.eps);
        else
            memcpy(laid + r * width, x + r * ld, (size_t)width * sizeof(float));
    }
}

/* y [n][RANGE]: the logits of a group of rows for a range of ids. */
static void multiply(const selection *s, float *y, int64_t row, int64_t n, int64_t range) {
    const float *laid = shared(s, s->at.laid);
    int64_t width = s->at.width, first = range * RANGE, panel = first / MX_PANEL;
    if (s->weight) {
        int64_t panels = MX_MIN(RANGE / MX_PANEL, mx_packed_panels(s->weight) - panel);
        mx_rows_times(s->kernels, y, RANGE, laid + row / GROUP_ROWS * (int64_t)mx_rows_floats(GROUP_ROWS, width), n,
                      s->weight, panel, panels);
    } else {
        s->kernels->gemm(n, MX_MIN(RANGE, s->at.vocab - first), width, laid + row * width, width,
                         (const float *)s->call->inputs[1].data + first * width, width, 1, y, RANGE);
    }
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static void take_range(const selection *s, int64_t row, int64_t range, const float *logits, float *left) {
    const mx_rule rule = rule_of(s, row);
    mx_select_part *part = part_of(s, row, range);
    int64_t first = range * RANGE;
    s->kernels->select_range(part, values_of(part), ids_of(s, part), logits, &rule, suppress_of(s, &rule) + first,
                             first, MX_MIN(RANGE, s->at.vocab - first), kept(s), left);
}

/* One range, all rows of the wave. */
static void run_range(void *context, int64_t range, int slot) {
    const selection *s = context;
    float *made = slot_at(s, slot, s->at.logits), *left = slot_at(s, slot, s->at.left);
    int64_t ids = MX_MIN(RANGE, s->at.vocab - range * RANGE);
    for (int64_t first = 0; first < s->n_rows; first += GROUP_ROWS) {
        int64_t n = MX_MIN(GROUP_ROWS, s->n_rows - first);
        if (s->at.fused)
            multiply(s, made, first, n, range);
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

/* Candidates of the sides that are left, best first; ties by lower id. Returns how many. */
static int64_t merge(const selection *s, int64_t row, int first_side, int32_t *ids, float *values) {
    int64_t k = s->at.k, n = 0;
    for (int side = first_side; side < 2; side++)
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
        if (fabs(margin) < TOO_CLOSE)
            return 0;
    }
    if (margin <= 0)
        add_side(&all.side[1], &all.side[0]);
    double sum = log_of(&all.side[1]);
    stats[MX_SELECT_NO_SPEECH] = raw > -INFINITY ? (float)exp((double)all.no_speech - raw) : 0;
    stats[MX_SELECT_LOG_SUM] = (float)sum;
    stats[MX_SELECT_TS_MARGIN] = (float)margin;
    int64_t n = merge(s, row, margin > 0, ids, values);
    for (int64_t i = 0; i < k; i++) {
        ids[i] = i < n ? ids[i] : -1;
        values[i] = i < n ? (float)((double)values[i] - sum) : -INFINITY;
    }
    return 1;
}

/* From all logits, the plain way. */
static void select_whole(const selection *s, int64_t row, int slot) {
    const mx_tensor *out = s->call->outputs;
    const mx_rule rule = rule_of(s, row);
    int64_t k = s->at.k, to = s->first_row + row;
    s->kernels->select((int32_t *)out[0].data + to * k, (float *)out[1].data + to * k,
                       (float *)out[2].data + to * MX_SELECT_STATS, whole_row(s, row), &rule, suppress_of(s, &rule),
                       s->at.vocab, k, slot_at(s, slot, s->at.left));
}

static void run_row(void *context, int64_t row, int slot) {
    const selection *s = context;
    if (s->need[row])
        select_whole(s, row, slot);
    else
        s->need[row] = (int8_t)!finish_row(s, row);
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
    int8_t before[WAVE_ROWS];
    memcpy(before, s->need, (size_t)s->n_rows);
    mx_cpu_for(s->call, s->n_rows, run_row, s);
    for (int64_t r = 0; r < s->n_rows; r++)
        late |= s->need[r] && !before[r];
    if (!late)
        return;
    if (s->at.fused)
        mx_cpu_for(s->call, s->at.ranges, run_range, s);
    for (int64_t r = 0; r < s->n_rows; r++)
        if (s->need[r] && !before[r])
            select_whole(s, r, 0);
}

mxw_status mx_cpu_fast_select(const mx_call *call, const mx_kernels *kernels) {
    int fused = call->op == MX_OP_FUSED_SELECT;
    selection s = {.call = call, .kernels = kernels, .scratch = mx_cpu_fast_select_scratch(call),
                   .at = layout_of(call), .weight = fused ? mx_packed_of(&call->inputs[1]) : NULL,
                   .rules = &call->inputs[fused ? 2 : 1], .suppress = &call->inputs[fused ? 3 : 2]};
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

static char names[3][48];
static pthread_once_t named = PTHREAD_ONCE_INIT;

static void make_names(void) {
    static const char *const kinds[] = {"select", "gemm and select f32", "gemm and select f16"};
    for (int i = 0; i < 3; i++)
        snprintf(names[i], sizeof(names[i]), "%s, ranges of %d %s", kinds[i], RANGE, mx_cpu_best_isa()->name);
}

const char *mx_cpu_select_kernel(const mx_call *call) {
    const mx_packed *weight = call->op == MX_OP_FUSED_SELECT ? mx_packed_of(&call->inputs[1]) : NULL;
    pthread_once(&named, make_names);
    return names[call->op == MX_OP_SELECT ? 0 : weight && weight->dtype == MXW_F16 ? 2 : 1];
}
