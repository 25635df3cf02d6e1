/* op/select.h - the rule record: what decode/ wants from each row of logits, as 32-bit words that any device reads.
 *
 * For a row of raw logits x [vocab] and its record, `select` gives:
 *   1. statistics: no_speech = softmax(x)[no_speech] (0 when the id is negative), on the raw logits;
 *   2. the mask: id i is out when suppress[set][i] != 0, or i < min_id, or i >= ts_begin and i outside
 *      [ts_min, ts_max];
 *   3. with MX_RULE_TIMESTAMP_SUM: l = log_softmax of what is left; if logsumexp(l[ts_begin..]) is greater than
 *      max(l[..ts_begin-1]), every id below ts_begin is out too;
 *   4. log probabilities: log_softmax of what is left now, at temperature 1 whatever the record's;
 *   5. candidates: at temperature 0 the k best, best first, ties by lower id. Above 0: candidate 0 is one id drawn with
 *      probability softmax(x / temperature) over what is left, from the counter-based generator keyed by (key,
 *      counter); the rest are the best others in order.
 * When fewer than k ids are left, the remaining candidates have id -1 and log probability -inf. */
#ifndef MX_SELECT_H
#define MX_SELECT_H
#include <assert.h>
#include <stdint.h>

enum {
    MX_RULE_TIMESTAMP_SUM = 1
};

typedef struct mx_rule {
    int32_t set;          /* row of the suppression table */
    int32_t min_id;       /* ids below are out: 0, end-of-text (no text now), or ts_begin (timestamps only) */
    int32_t ts_begin;     /* first timestamp id; the vocabulary size when there are none */
    int32_t ts_min;       /* timestamps allowed: ts_min .. ts_max inclusive; ts_min > ts_max: none */
    int32_t ts_max;
    int32_t flags;
    int32_t no_speech;    /* id whose raw probability is reported, or -1 */
    float temperature;
    uint32_t key[2];      /* of the random draw: the seed ... */
    uint32_t counter[2];  /* ... and a number that never repeats under it */
} mx_rule;

#define MX_RULE_WORDS 12
static_assert(sizeof(mx_rule) == MX_RULE_WORDS * 4, "a rule record is MX_RULE_WORDS words");

/* Columns of the statistics. */
enum {
    MX_SELECT_NO_SPEECH,   /* probability of no_speech on the raw logits */
    MX_SELECT_LOG_SUM,     /* logsumexp of the logits left after the mask */
    MX_SELECT_STATS
};
#endif
