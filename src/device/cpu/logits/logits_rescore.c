/* device/cpu/logits/logits_rescore.c - exact re-scoring of the int8 logit shortlist: its thresholds, and the exact
 * logits. Invariant: an id that can be among the best is re-scored whatever the rounding did, and which ids are depends
 * on the row alone. */
#include <math.h>

#include "device/cpu/logits/logits_select.h"

#define UNLIKELY 3e-6 /* share of the sum below which an id keeps its int8 logit */
#define TOO_INEXACT 10 /* largest error of a logit with which a term of the sum can be replaced */

/* ---- thresholds -------------------------------------------------------------------------------------------------- */

static void set_all(mx_select_thresholds *b, float value) {
    *b = (mx_select_thresholds){{value, value}, {value, value}, value, 1};
}

void mx_rescore_none(const mx_selection *s, int64_t row) { set_all(mx_select_thresholds_of(s, row), INFINITY); }
void mx_rescore_all(const mx_selection *s, int64_t row) { set_all(mx_select_thresholds_of(s, row), -INFINITY); }

/* At least `enough` ids of the sides have logits of this or more. -inf: there are not so many. */
static float surely_reached(const mx_selection *s, int64_t row, int first_side, int last_side, int64_t enough) {
    float values[MX_TOPK], scale = 0;
    int32_t ids[MX_TOPK];
    if (mx_select_merge(s, row, first_side, last_side, ids, values) < enough)
        return -INFINITY;
    for (int64_t i = 0; i < enough; i++)
        scale = MX_MAX(scale, mx_logits_int8_scales(s->int8)[ids[i]]);
    return values[enough - 1] - mx_select_int8_row(s, row)->slack * scale;
}

/* The logit of an id that weighs UNLIKELY of the side's sum. */
static float likely_from(const mx_select_side *side) { return (float)(mx_select_log(side) + log(UNLIKELY)); }

/* The largest error of the row's int8 logits, of the ids from `first` on. */
static float most_off(const mx_selection *s, int64_t row, int64_t first) {
    float most = 0;
    for (int64_t id = MX_MAX(first, 0); id < s->at.vocab; id++)
        most = MX_MAX(most, mx_logits_int8_scales(s->int8)[id]);
    return mx_select_int8_row(s, row)->slack * most;
}

/* Whether the rule on the sum of timestamps surely leaves text and timestamps, or surely timestamps alone (1), or may
 * do either (-1). */
static int leaves_stamps(const mx_selection *s, int64_t row, const mx_rule *rule, const mx_select_part *all) {
    double margin = mx_select_log(&all->side[1]) - (double)all->side[0].top;
    if (!(rule->flags & MX_RULE_TIMESTAMP_SUM) || all->side[0].top == -INFINITY || all->side[1].top == -INFINITY)
        return 0;
    double off =
        (double)all->side[0].top - (double)surely_reached(s, row, 0, 0, 1) + (double)most_off(s, row, rule->ts_begin);
    return margin > off ? 1 : margin < -off ? 0 : -1;
}

/* From the int8 logits of a row. Where the rule on the sum of timestamps may leave timestamps only, each side is
 * treated as if there were no other; where it surely does, only the best of the text counts. */
void mx_rescore_thresholds(void *context, int64_t row, int slot) {
    const mx_selection *s = context;
    const mx_rule rule = mx_select_rule(s, row);
    mx_select_part all = mx_select_join(s, row);
    mx_select_thresholds *b = mx_select_thresholds_of(s, row);
    (void)slot;
    float off = mx_select_int8_row(s, row)->slack * s->int8->most_scale;
    b->again = off > TOO_INEXACT;
    if (!isfinite(off) || s->at.k > MX_TOPK || rule.temperature > 1) { /* which makes the unlikely likelier */
        set_all(b, -INFINITY);
        return;
    }
    int stamps = leaves_stamps(s, row, &rule, &all);
    if (stamps) {
        b->likely[1] = likely_from(&all.side[1]);
        b->best[1] = surely_reached(s, row, 1, 1, s->at.k);
        b->likely[0] = stamps > 0 ? INFINITY : likely_from(&all.side[0]);
        b->best[0] = surely_reached(s, row, 0, 0, stamps > 0 ? 1 : s->at.k);
    } else {
        mx_select_add(&all.side[0], &all.side[1]);
        b->likely[0] = b->likely[1] = likely_from(&all.side[0]);
        b->best[0] = b->best[1] = surely_reached(s, row, 0, 1, s->at.k);
    }
    b->raw = rule.no_speech >= 0 ? likely_from(&all.raw) : INFINITY;
}

/* ---- exact logits ------------------------------------------------------------------------------------------------ */

/* Whether an id of a side of a range can reach a threshold: not if one with its largest logit and the largest slack
 * cannot. */
static int may_reach(const mx_selection *s, int64_t row, int64_t range, int side) {
    const mx_select_thresholds *b = mx_select_thresholds_of(s, row);
    float top = mx_select_part_of(s, row, range)->side[side].top, slack = mx_select_int8_row(s, row)->slack;
    float most = s->int8->most_scale;
    return top + slack * most / 4 >= b->likely[side] || top + slack * most >= b->best[side];
}

/* The shortlist: marks the ids of a range that need exact logits. */
static void mark(const mx_selection *s, int64_t row, int64_t range, uint16_t *mask, uint16_t bit) {
    const mx_rule rule = mx_select_rule(s, row);
    const mx_select_thresholds *b = mx_select_thresholds_of(s, row);
    int64_t first = range * MX_SELECT_IDS, n = MX_MIN(MX_SELECT_IDS, s->at.vocab - first);
    const mx_select_bounds at = mx_select_bounds_of(&rule, first, n);
    const float *x = mx_select_row(s, row) + first, *scales = mx_logits_int8_scales(s->int8) + first;
    float slack = mx_select_int8_row(s, row)->slack;
    for (int side = 0; side < 2; side++) {
        int64_t from = at.from[side], count = at.to[side] - from;
        const uint8_t *suppress = mx_select_suppress(s, &rule) + first;
        for (int64_t i = from; b->best[side] == -INFINITY && i < at.to[side]; i++) /* all, whatever x is */
            mask[i] = (uint16_t)(mask[i] | (suppress[i] ? 0 : bit));
        if (b->best[side] > -INFINITY && count > 0 && may_reach(s, row, range, side))
            s->kernels->shortlist(mask + from, bit, x + from, scales + from, suppress + from, count, b->likely[side],
                                  b->best[side], slack);
    }
    for (int64_t i = 0; rule.no_speech >= 0 && i < n; i++)
        if (x[i] + slack * scales[i] / 4 >= b->raw || first + i == rule.no_speech || b->raw == -INFINITY)
            mask[i] |= bit;
}

static void exchange(mx_select_side *side, float int8, float exact) {
    double top = (double)side->top;
    side->sum += exp((double)exact - top) - exp((double)int8 - top);
}

/* Replaces an int8 logit by the exact one in the state of a range. Ids come in rising order. */
static void put(const mx_selection *s, mx_select_part *part, const mx_rule *rule, int32_t id, float int8,
                float exact) {
    const mx_select_bounds at = mx_select_bounds_of(rule, id, 1);
    int side = id >= rule->ts_begin;
    if (rule->no_speech >= 0)
        exchange(&part->raw, int8, exact);
    if (rule->no_speech == id)
        part->no_speech = exact;
    if (at.from[side] > 0 || at.to[side] < 1 || mx_select_suppress(s, rule)[id])
        return;
    mx_topk best = {mx_select_values(part) + side * mx_select_kept(s),
                    mx_select_ids(s, part) + side * mx_select_kept(s), part->side[side].n, mx_select_kept(s)};
    mx_topk_push(&best, exact, id);
    part->side[side].n = (int32_t)best.n;
    exchange(&part->side[side], int8, exact);
}

/* Exact logits of up to MX_PANEL ids of the list, to the rows that need them. */
static void put_exact(const mx_selection *s, int64_t first_row, int64_t n_rows, const mx_select_list *list,
                      int64_t first, int slot) {
    float *y = mx_select_slot(s, slot, s->at.exact);
    const int32_t *ids = list->ids + first;
    int64_t n = MX_MIN(MX_PANEL, list->n - first);
    mx_logits_exact(s->kernels, s->int8, y, mx_select_packed_rows(s, first_row), n_rows, ids, n,
                    mx_select_slot(s, slot, s->at.exact_scratch));
    for (int64_t r = 0; r < n_rows; r++) {
        const mx_rule rule = mx_select_rule(s, first_row + r);
        float *row = mx_select_row(s, first_row + r);
        int again = mx_select_thresholds_of(s, first_row + r)->again;
        for (int64_t i = 0; i < n; i++) {
            if (!(list->rows[first + i] >> r & 1))
                continue;
            if (!again)
                put(s, mx_select_part_of(s, first_row + r, ids[i] / MX_SELECT_IDS), &rule, ids[i], row[ids[i]],
                    y[r * MX_PANEL + i]);
            row[ids[i]] = y[r * MX_PANEL + i];
        }
    }
}

/* All of the list, which is empty then. */
static void score_list(const mx_selection *s, int64_t first_row, int64_t n_rows, mx_select_list *list, int slot) {
    for (int64_t first = 0; first < list->n; first += MX_PANEL)
        put_exact(s, first_row, n_rows, list, first, slot);
    list->n = 0;
}

/* One range, a group of rows: lists the ids that need exact logits, and asks for their weights. Returns which rows have
 * one, a bit each. */
static unsigned list_range(const mx_selection *s, int64_t first_row, int64_t n_rows, int64_t range,
                           mx_select_list *list, int slot) {
    uint16_t *mask = mx_select_slot(s, slot, s->at.mask);
    int64_t first = range * MX_SELECT_IDS;
    uint64_t four;
    unsigned any = 0;
    memset(mask, 0, MX_SELECT_IDS * sizeof(*mask));
    for (int64_t r = 0; r < n_rows; r++) {
        mark(s, first_row + r, range, mask, (uint16_t)(1u << r));
        for (int side = 0; side < 2 && !mx_select_thresholds_of(s, first_row + r)->again; side++)
            mx_select_part_of(s, first_row + r, range)->side[side].n = 0;
    }
    for (int64_t i = 0; i < MX_SELECT_IDS; i += 4) {   /* mostly none of four */
        memcpy(&four, mask + i, sizeof(four));
        for (int64_t j = i; four && j < i + 4; j++) {
            if (!mask[j])
                continue;
            if (list->n == MX_SELECT_LIST)
                score_list(s, first_row, n_rows, list, slot);
            any |= mask[j];
            mx_logits_exact_soon(s->int8, first + j);
            list->ids[list->n] = (int32_t)(first + j);
            list->rows[list->n++] = mask[j];
        }
    }
    return any;
}

/* A panel of exact logits takes as long for one id as for MX_PANEL, so the ids of several ranges share them; and while
 * the next range is marked, the weights that were asked for come. */
void mx_rescore_ranges(void *context, int64_t piece, int slot) {
    const mx_selection *s = context;
    mx_select_list *list = mx_select_slot(s, slot, s->at.list);
    int64_t from = piece * s->together, to = MX_MIN(from + s->together, s->at.ranges);
    for (int64_t first = 0; first < s->n_rows; first += MX_SELECT_GROUP) {
        int64_t n = MX_MIN(MX_SELECT_GROUP, s->n_rows - first);
        unsigned any[MX_SELECT_TOGETHER];
        list->n = 0;
        for (int64_t range = from; range < to; range++)
            any[range - from] = list_range(s, first, n, range, list, slot);
        score_list(s, first, n, list, slot);
        for (int64_t range = from; range < to; range++)
            for (int64_t r = 0; r < n; r++)
                if ((any[range - from] >> r & 1) && mx_select_thresholds_of(s, first + r)->again)
                    mx_select_take(s, first + r, range, mx_select_row(s, first + r) + range * MX_SELECT_IDS,
                                   mx_select_slot(s, slot, s->at.left));
    }
}

float mx_rescore_off(const mx_selection *s, int64_t row, int32_t id, int slot) {
    float *y = mx_select_slot(s, slot, s->at.exact);
    int64_t first = row / MX_SELECT_GROUP * MX_SELECT_GROUP;
    mx_logits_exact(s->kernels, s->int8, y, mx_select_packed_rows(s, row), MX_MIN(MX_SELECT_GROUP, s->n_rows - first),
                    &id, 1, mx_select_slot(s, slot, s->at.exact_scratch));
    return y[(row - first) * MX_PANEL] - mx_select_row(s, row)[id];
}
