/* test_loop.c - loops are found and broken while a window is decoded: what counts as one, greedy, sampled and in a
 * beam, on made-up candidates. */
#include <math.h>

#include "base/base.h"
#include "decode/decode.h"
#include "decode/decoding.h"
#include "kit/check.h"

#define MOST 256

static mx_text *vocabulary;
static int32_t stamp, eot;   /* <|0.00|>, end of text */

typedef struct line {
    int32_t tokens[MOST];
    int n;
} line;

/* Adds n times the tokens of text from `first` to `first + unit - 1`; between them, if step_s is not negative, the pair
 * of timestamps with which one segment ends and the next begins. */
static void repeat(line *l, int32_t first, int unit, int n, double step_s, double from_s) {
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < unit; j++)
            l->tokens[l->n++] = first + j;
        for (int j = 0; j < 2 && step_s >= 0 && i + 1 < n; j++)
            l->tokens[l->n++] = stamp + (int32_t)((from_s + step_s * (i + 1)) * 50);
    }
}

static mx_decode_plan *open_plan(int beam_size, int break_loops) {
    mx_decode_options options = {.n_text_ctx = 448, .n_audio_ctx = 1500, .beam_size = beam_size, .best_of = 2,
                                 .patience = MXW_NONE, .length_penalty = MXW_NONE, .suppress_tokens = "-1",
                                 .suppress_blank = 1, .max_initial_timestamp = 1, .break_loops = break_loops};
    mx_decode_plan *plan = NULL;
    if (!CHECK(mx_decode_plan_open(&options, vocabulary, &plan) == MXW_OK))
        exit(1);
    return plan;
}

/* What counts as a loop, and where it is cut. */
static void check_found(const mx_decode_plan *plan) {
    static const struct {
        int unit, n;
        double step_s;   /* negative: no timestamps in between */
        int found;
    } rows[] = {
        {1, 7, -1, 0}, {1, 8, -1, 1}, {1, 20, -1, 1},        /* no, no, no */
        {2, 5, -1, 0}, {2, 6, -1, 1}, {3, 6, 0.02, 1},       /* timestamps that stand still do not count as time */
        {3, 6, 2.0, 0}, {3, 11, 2.0, 0}, {3, 12, 2.0, 1},    /* time enough to say it */
        {7, 4, -1, 0}, {7, 5, -1, 1}, {12, 3, -1, 0}, {12, 4, -1, 1}, {12, 4, 0.1, 1}, {12, 4, 3.0, 0},
        {64, 3, -1, 0},
    };
    for (size_t i = 0; i < MX_COUNT(rows); i++) {
        line l = {.tokens = {stamp}, .n = 1};
        repeat(&l, 500, 3, 1, -1, 0);   /* something else before it */
        int first = l.n;
        repeat(&l, 1000, rows[i].unit, rows[i].n, rows[i].step_s, 1);
        int cut = mx_loop_begin(plan, l.tokens, l.n), kept = first + rows[i].unit + (rows[i].step_s >= 0 ? 2 : 0);
        if (!CHECK_EQ_INT(cut, rows[i].found ? kept : l.n))
            printf("    %d tokens, %d times, every %g s\n", rows[i].unit, rows[i].n, rows[i].step_s);
    }
    line mixed = {.n = 0};   /* a list is not a loop: each line differs in one token */
    for (int i = 0; i < 20; i++) {
        repeat(&mixed, 1000, 4, 1, -1, 0);
        mixed.tokens[mixed.n++] = 2000 + i;
    }
    CHECK_EQ_INT(mx_loop_begin(plan, mixed.tokens, mixed.n), mixed.n);
    CHECK_EQ_INT(mx_loop_begin(plan, NULL, 0), 0);
}

/* A model that says: <|0.00|>, then `unit` tokens over and over; with an exit, another token is nearly as probable
 * after each unit, and text goes to its end from there. */
typedef struct speaker {
    int unit, exit;
} speaker;

static void propose(const speaker *s, const mx_sequence *said, int32_t *ids, float *logprobs, int k) {
    int n = said->n_tokens;
    int left = n > 0 && said->tokens[n - 1] >= 3000 && said->tokens[n - 1] < eot;
    for (int i = 0; i < k; i++) {
        ids[i] = -1;
        logprobs[i] = -INFINITY;
    }
    ids[0] = n == 0 ? stamp : left ? eot : 1000 + (n - 1) % s->unit;
    logprobs[0] = -0.01f;
    if (k > 1 && n > 1 && !left && s->exit && (n - 1) % s->unit == 0) {
        ids[1] = 3000;
        logprobs[1] = -3.0f;
    }
}

/* Decodes; returns the number of steps. */
static int decode(mx_decoding *d, const speaker *s, double temperature, mx_decode_result *result) {
    int32_t ids[64];
    float logprobs[64], stats[16 * MX_SELECT_STATS] = {0};
    mx_decode_step step;
    int n_steps = 0;
    CHECK(mx_decoding_start(d, "en", NULL, 0, temperature, 0) == MXW_OK);
    for (; mx_decoding_step(d, &step); n_steps++) {
        int k = mx_decoding_candidates(d);
        for (int i = 0; i < step.n_picks; i++) {
            const mx_sequence *said = &d->sequences[n_steps == 0 ? 0 : step.rows[step.picks[i]].sequence];
            propose(s, said, ids + i * k, logprobs + i * k, k);
        }
        mx_decoding_take(d, &(mx_candidates){ids, logprobs, stats, k});
    }
    CHECK(mx_decoding_result(d, result) == MXW_OK);
    return n_steps;
}

static void check_broken(int beam_size, double temperature) {
    mx_thresholds none = {MXW_NONE, MXW_NONE, MXW_NONE};
    for (int on = 0; on < 2; on++) {
        mx_decode_plan *plan = open_plan(beam_size, on);
        mx_decoding *d = NULL;
        mx_decode_result result;
        if (!CHECK(mx_decoding_open(plan, &d) == MXW_OK))
            exit(1);
        int steps = decode(d, &(speaker){.unit = 5}, temperature, &result);
        CHECK_EQ_INT(result.looped, on);
        CHECK_EQ_INT(mx_needs_fallback(&result, &none), on);
        if (on) {
            CHECK_EQ_INT(steps, 1 + 5 * 5);   /* as soon as it is the fifth time */
            CHECK_EQ_INT(result.n_tokens, 1 + 5);
            CHECK(result.avg_logprob > -0.011 && result.avg_logprob < -0.009);
        } else {
            CHECK_EQ_INT(steps, 224);
            CHECK_EQ_INT(result.n_tokens, 224);
        }
        mx_decoding_close(d);
        mx_decode_plan_close(plan);
    }
}

/* A beam prefers a hypothesis that does not loop, though it is less probable. */
static void check_preferred(void) {
    mx_decode_plan *plan = open_plan(3, 1);
    mx_decoding *d = NULL;
    mx_decode_result result;
    if (!CHECK(mx_decoding_open(plan, &d) == MXW_OK))
        exit(1);
    decode(d, &(speaker){.unit = 5, .exit = 1}, 0, &result);
    CHECK(!result.looped);
    CHECK(result.n_tokens > 1 && result.tokens[result.n_tokens - 1] == 3000);
    mx_decoding_close(d);
    mx_decode_plan_close(plan);
}

int main(void) {
    if (!CHECK(mx_text_open(51864, &vocabulary) == MXW_OK))
        return 1;
    stamp = mx_text_specials(vocabulary)->timestamp_begin;
    eot = mx_text_specials(vocabulary)->eot;
    mx_decode_plan *plan = open_plan(0, 1);
    check_found(plan);
    mx_decode_plan_close(plan);
    check_broken(0, 0);
    check_broken(0, 0.4);
    check_broken(3, 0);
    check_preferred();
    mx_text_close(vocabulary);
    return check_done();
}
