/* test_repetition.c - repetition_penalty and no_repeat_ngram_size: logits by hand, against a plainer form of the rules,
 * and what a decoding says that its sequences have said: prefix, text that goes on, samples; not the text before. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "decode/decode.h"
#include "kit/check.h"

#define N_VOCAB 12

static mx_text *vocabulary;

/* ---- logits ------------------------------------------------------------------------------------------------------ */

static void apply(float penalty, int ngram, const int32_t *begin, int n_begin, const int32_t *sampled, int n_sampled,
                  float *logits) {
    const mx_said said = {begin, sampled, n_begin, n_sampled};
    mx_repetition_apply(&(mx_repetition){penalty, ngram}, &said, logits);
}

static void check_by_hand(void) {
    const int32_t begin[] = {7, 1}, sampled[] = {2, 1, 2, 7, 1};   /* 7 1 2 1 2 7 1 */
    float x[N_VOCAB] = {0};
    x[1] = 3;
    x[2] = -2;
    x[3] = 5;
    apply(2, 0, begin, 2, sampled, 5, x);
    CHECK(x[1] == 1.5f && x[2] == -4 && x[3] == 5 && x[7] == 0);   /* once each, however often it was said */
    apply(1, 0, begin, 2, sampled, 5, x);
    CHECK(x[1] == 1.5f && x[2] == -4);
    apply(1, 2, begin, 2, sampled, 5, x);                          /* after 1 came 2 */
    CHECK(x[1] == 1.5f && x[2] == -INFINITY && x[3] == 5 && x[7] == 0);
    memset(x, 0, sizeof(x));
    apply(1, 3, begin, 2, sampled, 5, x);                          /* after 7 1 came 2, across the begin */
    CHECK(x[1] == 0 && x[2] == -INFINITY && x[7] == 0);
    memset(x, 0, sizeof(x));
    apply(1, 1, begin, 2, sampled, 5, x);                          /* nothing twice */
    CHECK(x[1] == -INFINITY && x[2] == -INFINITY && x[7] == -INFINITY && x[0] == 0 && x[3] == 0);
    memset(x, 0, sizeof(x));
    apply(2, 4, begin, 2, sampled, 0, x);                          /* too little was said */
    apply(2, 4, NULL, 0, NULL, 0, x);
    for (int i = 0; i < N_VOCAB; i++)
        CHECK(x[i] == 0);
}

/* Every sequence of three ids up to a length: an id is out if saying it makes some n in a row appear twice, and they
 * are the last ones. */
static int completes_again(const int32_t *said, int n, int32_t id, int ngram) {
    int32_t all[16];
    memcpy(all, said, (size_t)n * sizeof(*said));
    all[n] = id;
    for (int i = 0; i + ngram <= n; i++)
        if (!memcmp(all + i, all + n + 1 - ngram, (size_t)ngram * sizeof(*all)))
            return 1;
    return 0;
}

static void check_all_short(void) {
    for (int ngram = 1; ngram <= 4; ngram++)
        for (int n = 0; n <= 7; n++)
            for (int code = 0, most = (int)lround(pow(3, n)); code < most; code++) {
                int32_t said[8];
                for (int i = 0, rest = code; i < n; i++, rest /= 3)
                    said[i] = rest % 3;
                float x[4] = {1, 1, 1, 1};
                apply(1, ngram, said, n / 2, said + n / 2, n - n / 2, x);
                for (int32_t id = 0; id < 4; id++)
                    if ((x[id] == -INFINITY) != completes_again(said, n, id, ngram)) {
                        CHECK(!"the rule and its plainer form agree");
                        printf("    ngram %d, %d ids, code %d, id %d\n", ngram, n, code, (int)id);
                        return;
                    }
            }
}

/* ---- a decoding -------------------------------------------------------------------------------------------------- */

static mx_decode_plan *open_plan(double penalty, int ngram, int without_timestamps) {
    mx_decode_options options = {.n_text_ctx = 448, .n_audio_ctx = 1500, .beam_size = 2, .best_of = 2,
                                 .patience = MXW_NONE, .length_penalty = MXW_NONE, .suppress_tokens = "-1",
                                 .suppress_blank = 1, .max_initial_timestamp = 1, .prefix = "so",
                                 .without_timestamps = without_timestamps, .repetition_penalty = penalty,
                                 .no_repeat_ngram_size = ngram};
    mx_decode_plan *plan = NULL;
    if (!CHECK(mx_decode_plan_open(&options, vocabulary, &plan) == MXW_OK))
        exit(1);
    return plan;
}

static void check_off(void) {
    mx_decode_plan *plan = open_plan(1, 0, 0);
    mx_decoding *d;
    mx_decode_step step;
    CHECK_EQ_INT(mx_decoding_open(plan, &d), MXW_OK);
    CHECK_EQ_INT(mx_decoding_start(d, "en", NULL, 0, 0, 0), MXW_OK);
    CHECK(mx_decoding_step(d, &step) && !step.repetition && !step.said && !plan->has_repetition);
    mx_decoding_close(d);
    mx_decode_plan_close(plan);
}

/* prompt, prefix, text that goes on; then two beams that differ. */
static void check_said(void) {
    const int32_t prompt[] = {100, 101}, more[] = {200, 201};
    mx_decode_plan *plan = open_plan(1.5, 3, 0);
    mx_decoding *d;
    mx_decode_step step;
    CHECK_EQ_INT(mx_decoding_open(plan, &d), MXW_OK);
    CHECK_EQ_INT(mx_decoding_start(d, "en", prompt, 2, 0, 0), MXW_OK);
    CHECK_EQ_INT(mx_decoding_continue(d, more, 2, 0), MXW_OK);
    CHECK(mx_decoding_step(d, &step) && step.repetition);
    CHECK(step.repetition->penalty == 1.5f && step.repetition->ngram == 3);
    CHECK_EQ_INT(step.n_picks, 2);                               /* the start of the transcript, and the last row */
    CHECK_EQ_INT(step.said[0].n_begin + step.said[0].n_sampled, 0);
    const mx_said *said = &step.said[1];
    int n_prefix = (int)plan->n_prefix;
    CHECK_EQ_INT(said->n_sampled, 0);
    if (CHECK_EQ_INT(said->n_begin, n_prefix + 3)) {             /* prefix, <|0.00|>, the text */
        CHECK(!memcmp(said->begin, plan->prefix, (size_t)n_prefix * sizeof(*more)));
        CHECK_EQ_INT(said->begin[n_prefix], plan->special.timestamp_begin);
        CHECK(!memcmp(said->begin + n_prefix + 1, more, sizeof(more)));
    }
    const int32_t ids[] = {1, 2, 3, 300, 301, 302};
    const float logprobs[] = {0, 0, 0, -0.1f, -0.2f, -9}, stats[2 * MX_SELECT_STATS] = {0};
    mx_decoding_take(d, &(mx_candidates){ids, logprobs, stats, 3});
    CHECK(mx_decoding_step(d, &step) && step.repetition);
    CHECK_EQ_INT(step.n_picks, 2);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_INT(step.said[i].n_sampled, 1);
        CHECK_EQ_INT(step.said[i].sampled[0], 300 + i);
        CHECK_EQ_INT(step.said[i].n_begin, n_prefix + 3);
    }
    mx_decoding_close(d);
    mx_decode_plan_close(plan);
}

int main(void) {
    CHECK_EQ_INT(mx_text_open(51864, &vocabulary), MXW_OK);
    check_by_hand();
    check_all_short();
    check_off();
    check_said();
    mx_text_close(vocabulary);
    return check_done();
}
