/* decode/repetition.c - what was said is not to be said again: repetition_penalty and no_repeat_ngram_size, as
 * CTranslate2 has them.
 *
 * In: a row of logits, and the ids that its sequence has said in this window; the text before the window does not
 * count, timestamps do. Out: the logits that an mx_rule is then applied to.
 * Invariant: an id is penalized once, however often it was said. */
#include <math.h>

#include "decode/decode.h"

static int n_said(const mx_said *said) { return said->n_begin + said->n_sampled; }

static int32_t said_at(const mx_said *said, int i) {
    return i < said->n_begin ? said->begin[i] : said->sampled[i - said->n_begin];
}

static int said_before(const mx_said *said, int i) {
    for (int j = 0; j < i; j++)
        if (said_at(said, j) == said_at(said, i))
            return 1;
    return 0;
}

static void penalize(float penalty, const mx_said *said, float *logits) {
    for (int i = 0; i < n_said(said); i++) {
        float *x = &logits[said_at(said, i)];
        if (!said_before(said, i))
            *x = *x < 0 ? *x * penalty : *x / penalty;
    }
}

/* Whether the ids from i on are the last n ones again. */
static int ends_alike(const mx_said *said, int i, int n) {
    int end = n_said(said) - n;
    for (int j = 0; j < n; j++)
        if (said_at(said, i + j) != said_at(said, end + j))
            return 0;
    return 1;
}

static void forbid_ngrams(int ngram, const mx_said *said, float *logits) {
    for (int i = 0; i + ngram <= n_said(said); i++)
        if (ends_alike(said, i, ngram - 1))
            logits[said_at(said, i + ngram - 1)] = -INFINITY;
}

void mx_repetition_apply(const mx_repetition *rule, const mx_said *said, float *logits) {
    if (rule->penalty != 1)
        penalize(rule->penalty, said, logits);
    if (rule->ngram > 0)
        forbid_ngrams(rule->ngram, said, logits);
}
