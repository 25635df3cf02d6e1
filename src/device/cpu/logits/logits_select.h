/* device/cpu/logits/logits_select.h - the state of a running select, shared by logits_select.c and logits_rescore.c. */
#ifndef MX_CPU_LOGITS_SELECT_H
#define MX_CPU_LOGITS_SELECT_H
#include <string.h>

#include "device/cpu/logits/topk.h"
#include "device/cpu/logits/logits_int8.h"
#include "device/cpu/gemm/pack.h"

#define MX_SELECT_IDS (64 * MX_PANEL) /* of a range */
#define MX_SELECT_WAVE 64             /* rows that share one reading of the weights */
#define MX_SELECT_GROUP 16            /* rows whose logits of a range are made at once */
#define MX_SELECT_TOGETHER 4          /* ranges that are re-scored together at most, ... */
#define MX_SELECT_PIECES 3            /* ... such that each thread has so many pieces of them */
#define MX_SELECT_LIST (8 * MX_PANEL) /* ids that are re-scored together at most */

/* Offsets in scratch, from shapes alone. */
typedef struct mx_select_layout {
    int64_t rows, vocab, width, k, ranges, wave;
    int fused, packed;
    size_t part;                                   /* bytes of a row's part of a range, candidates included */
    size_t packed_rows, norm, parts, whole, need, shared; /* offsets in the shared part, and its end */
    size_t numbers, int8_rows, thresholds;                  /* more of them, for an int8 vocabulary */
    size_t logits, left, slot;                     /* the same in a slot */
    size_t mask, list, exact, exact_scratch, panel;
} mx_select_layout;

/* Ids to be re-scored, in rising order, and for which rows of a group, a bit each. */
typedef struct mx_select_list {
    int64_t n;
    int32_t ids[MX_SELECT_LIST];
    uint16_t rows[MX_SELECT_LIST];
} mx_select_list;

/* What an id's int8 logit must reach for the id to be re-scored; side 0 is the text, 1 the timestamps. */
typedef struct mx_select_thresholds {
    float likely[2]; /* with a quarter of its slack: six standard deviations, of 384 roundings */
    float best[2];   /* with all of its slack, so that nothing can be missed */
    float raw;       /* as likely, among all ids, before the rules */
    int again;       /* ranges with exact logits are to be selected from again as a whole */
} mx_select_thresholds;

typedef struct mx_selection {
    const mx_call *call;
    const mx_kernels *kernels;
    mx_cpu_scratch scratch;
    mx_select_layout at;
    const mx_packed *weight; /* NULL: int8, plain, or the input is logits */
    const mx_logits_int8 *int8; /* NULL: another form */
    const mx_tensor *rules, *suppress;
    int64_t first_row, n_rows; /* of the wave */
    int8_t *need;              /* [n_rows]: all logits of the row are needed */
    int64_t together;          /* ranges that are re-scored together, which changes no bit */
} mx_selection;

/* ---- scratch ----------------------------------------------------------------------------------------------------- */

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
    return (float *)mx_select_shared(s, s->at.packed_rows) +
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

/* Selects from the logits of a range into the row's part. left [MX_SELECT_IDS] is scratch. */
void mx_select_take(const mx_selection *s, int64_t row, int64_t range, const float *logits, float *left);
/* The sides of all ranges merged, in the order of ids. */
mx_select_part mx_select_join(const mx_selection *s, int64_t row);
/* Adds b's sum to a. */
void mx_select_add(mx_select_side *a, const mx_select_side *b);
double mx_select_log(const mx_select_side *a);
/* Candidates of the sides first_side .. last_side, best first; ties by lower id. Returns how many. */
int64_t mx_select_merge(const mx_selection *s, int64_t row, int first_side, int last_side, int32_t *ids, float *values);

/* ---- exact re-scoring of the shortlist (logits_rescore.c) -------------------------------------------------------- */

/* The thresholds of a row, from its int8 logits. A piece of mx_cpu_for is a row. */
void mx_rescore_thresholds(void *context, int64_t row, int slot);
/* Thresholds with which no logit, or every one, is re-scored. */
void mx_rescore_none(const mx_selection *s, int64_t row);
void mx_rescore_all(const mx_selection *s, int64_t row);
/* Re-scores the ids that reach the thresholds, for all rows. A piece is s->together ranges. */
void mx_rescore_ranges(void *context, int64_t piece, int slot);
static inline int64_t mx_rescore_pieces(const mx_selection *s) {
    return (s->at.ranges + s->together - 1) / s->together;
}
/* The error of an id's int8 logit. */
float mx_rescore_off(const mx_selection *s, int64_t row, int32_t id, int slot);
#endif
