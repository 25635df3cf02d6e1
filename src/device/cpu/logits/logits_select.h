/* device/cpu/logits/logits_select.h - a select that is under way: what logits_select.c and logits_rescore.c share. */
#ifndef MX_CPU_LOGITS_SELECT_H
#define MX_CPU_LOGITS_SELECT_H
#include <string.h>

#include "device/cpu/logits/topk_heap.h"
#include "device/cpu/logits/logits_int8.h"
#include "device/cpu/gemm/pack.h"

#define MX_SELECT_IDS (64 * MX_PANEL) /* of a range */
#define MX_SELECT_WAVE 64             /* rows that share one reading of the weights */
#define MX_SELECT_GROUP 16            /* rows whose logits of a range are made at once */

/* Where things lie in scratch, from shapes alone. */
typedef struct mx_select_layout {
    int64_t rows, vocab, width, k, ranges, wave;
    int fused, packed;
    size_t part;                                   /* bytes of a row's part of a range, candidates included */
    size_t laid, norm, parts, whole, need, shared; /* offsets in the shared part, and its end */
    size_t numbers, int8_rows, thresholds;                  /* more of them, for a coarse vocabulary */
    size_t logits, left, slot;                     /* the same in a slot */
    size_t mask, exact, exact_scratch;
} mx_select_layout;

/* What an id's coarse logit must reach for the id to be looked at exactly; side 0 is the text, 1 the timestamps. */
typedef struct mx_select_thresholds {
    float likely[2]; /* with a quarter of its slack: six standard deviations, of 384 roundings */
    float best[2];   /* with all of its slack, so that nothing can be missed */
    float raw;       /* as likely, among all ids, before the rules */
    int again;       /* ranges with exact logits are to be taken again as a whole */
} mx_select_thresholds;

typedef struct mx_selection {
    const mx_call *call;
    const mx_kernels *kernels;
    mx_cpu_scratch scratch;
    mx_select_layout at;
    const mx_packed *weight; /* NULL: coarse, plain, or there are logits */
    const mx_logits_int8 *int8; /* NULL: another form */
    const mx_tensor *rules, *suppress;
    int64_t first_row, n_rows; /* of the wave */
    int8_t *need;              /* [n_rows]: all logits of the row are needed */
} mx_selection;

/* ---- what lies in scratch ---------------------------------------------------------------------------------------- */

static inline void *mx_select_shared(const mx_selection *s, size_t offset) { return (char *)s->call->scratch + offset; }
static inline void *mx_select_slot(const mx_selection *s, int slot, size_t offset) {
    return (char *)mx_cpu_slot(s->call, s->scratch, slot) + offset;
}

static inline mx_select_part *mx_select_part_of(const mx_selection *s, int64_t row, int64_t range) {
    return (void *)((char *)mx_select_shared(s, s->at.parts) + (size_t)(row * s->at.ranges + range) * s->at.part);
}

/* A part's candidates follow it: values [2][kept], then ids. */
static inline int64_t mx_select_kept(const mx_selection *s) { return MX_MIN(s->at.k, MX_TOPK); }
static inline float *mx_select_values(mx_select_part *part) { return (float *)(void *)(part + 1); }
static inline int32_t *mx_select_ids(const mx_selection *s, mx_select_part *part) {
    return (int32_t *)(void *)(mx_select_values(part) + 2 * mx_select_kept(s));
}

static inline mx_select_thresholds *mx_select_thresholds_of(const mx_selection *s, int64_t row) {
    return (mx_select_thresholds *)mx_select_shared(s, s->at.thresholds) + row;
}
static inline mx_int8_row *mx_select_int8_row(const mx_selection *s, int64_t row) {
    return (mx_int8_row *)mx_select_shared(s, s->at.int8_rows) + row;
}
static inline const float *mx_select_packed_rows(const mx_selection *s, int64_t row) {
    return (float *)mx_select_shared(s, s->at.laid) +
           row / MX_SELECT_GROUP * (int64_t)mx_packed_rows_floats(MX_SELECT_GROUP, s->at.width);
}

static inline mx_rule mx_select_rule(const mx_selection *s, int64_t row) {
    mx_rule rule;
    memcpy(&rule, (const int32_t *)s->rules->data + (s->first_row + row) * MX_RULE_WORDS, sizeof(rule));
    return rule;
}

static inline const uint8_t *mx_select_suppress(const mx_selection *s, const mx_rule *rule) {
    return (const uint8_t *)s->suppress->data + rule->set * s->at.vocab;
}

/* All logits of a row of the wave: given, or where they are put if the row needs them. */
static inline float *mx_select_row(const mx_selection *s, int64_t row) {
    if (s->at.fused)
        return (float *)mx_select_shared(s, s->at.whole) + row * s->at.ranges * MX_SELECT_IDS;
    return (float *)s->call->inputs[0].data + (s->first_row + row) * s->call->inputs[0].strides[0];
}

/* ---- ranges of one row (logits_select.c) ------------------------------------------------------------------------- */

/* The logits of a range, taken into the row's part. left [MX_SELECT_IDS] is scratch. */
void mx_select_take(const mx_selection *s, int64_t row, int64_t range, const float *logits, float *left);
/* What the sides of all ranges come to, in the order of ids. */
mx_select_part mx_select_join(const mx_selection *s, int64_t row);
/* b's sum goes to a. */
void mx_select_add(mx_select_side *a, const mx_select_side *b);
double mx_select_log(const mx_select_side *a);
/* Candidates of the sides first_side .. last_side, best first; ties by lower id. Returns how many. */
int64_t mx_select_merge(const mx_selection *s, int64_t row, int first_side, int last_side, int32_t *ids, float *values);

/* ---- exact re-scoring of the shortlist (logits_rescore.c) -------------------------------------------------------- */

/* From the coarse logits of a row: its bars. A piece of mx_cpu_for is a row. */
void mx_rescore_thresholds(void *context, int64_t row, int slot);
/* No logit, or every one, is to be exact. */
void mx_rescore_none(const mx_selection *s, int64_t row);
void mx_rescore_all(const mx_selection *s, int64_t row);
/* Exact logits for the ids of a range that reach the bars, for all rows. A piece is a range. */
void mx_rescore_range(void *context, int64_t range, int slot);
/* What the coarse logit of an id is off. */
float mx_rescore_off(const mx_selection *s, int64_t row, int32_t id, int slot);
#endif
