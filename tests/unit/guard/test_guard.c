/* test_guard.c - evidence and its score: what each number of a window's words says, that none of them counts the wrong
 * way round, and which reasons are given. */
#include <math.h>
#include <string.h>

#include "base/arrays.h"
#include "base/base.h"
#include "guard/guard.h"
#include "kit/check.h"

#define N_FRAMES 500   /* 10 s */
#define N_KEYS 1500

static int near(double a, double b) { return fabs(a - b) < 1e-6; }

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static void check_attention(void) {
    static float scores[2 * N_KEYS], speech[N_FRAMES];
    static double weights[2 * N_KEYS];
    mx_guard_token token = {0};
    for (int i = 0; i < N_FRAMES; i++)
        speech[i] = i >= 100 && i < 200 ? 1.0f : 0.0f;
    for (int i = 0; i < 2 * N_KEYS; i++)
        scores[i] = -100.0f;
    scores[150] = scores[N_KEYS + 150] = 0;   /* both heads on speech */
    mx_guard_attend(&token, scores, 2, N_KEYS, speech, N_FRAMES, weights);
    CHECK(near(token.on_speech, 1) && near(token.centre_s, 3));
    scores[N_KEYS + 150] = -100.0f;
    scores[N_KEYS + 50] = 0;                  /* one of them elsewhere */
    mx_guard_attend(&token, scores, 2, N_KEYS, speech, N_FRAMES, weights);
    CHECK(near(token.on_speech, 0.5) && near(token.centre_s, 2));
    scores[N_KEYS + 50] = -100.0f;
    scores[N_KEYS + 1200] = 0;                /* ... on the padding, which is left aside */
    mx_guard_attend(&token, scores, 2, N_KEYS, speech, N_FRAMES, weights);
    CHECK(near(token.on_speech, 1));
    mx_guard_attend(&token, scores, 2, N_KEYS, speech, 0, weights);
    CHECK(token.on_speech == 0 && token.centre_s == 0);
}

static void check_entropy(void) {
    const float certain[] = {0.0f, -INFINITY, -INFINITY}, even[] = {-1.3862944f, -1.3862944f, -1.3862944f};
    CHECK(near(mx_guard_entropy(certain, 3), 0));
    CHECK(fabs(mx_guard_entropy(even, 3) - log(4)) < 1e-5);   /* the rest counts as a fourth */
    CHECK(mx_guard_entropy(NULL, 0) == 0);
}

/* ---- the score --------------------------------------------------------------------------------------------------- */

/* Evidence of clear speech and of text over silence, as measured. */
static void of_speech(double *e) {
    const struct {
        int index;
        double value;
    } typical[] = {{MX_EVIDENCE_SPEECH_WORD, 0.99}, {MX_EVIDENCE_SPEECH_SEGMENT, 0.9}, {MX_EVIDENCE_SPEECH_HIGHEST, 1},
                   {MX_EVIDENCE_NO_SPEECH, -3.4}, {MX_EVIDENCE_LOGPROB_WORD, -0.1}, {MX_EVIDENCE_LOGPROB_SEGMENT, -0.2},
                   {MX_EVIDENCE_LOGPROB_FIRST, -0.3}, {MX_EVIDENCE_LOGPROB_WINDOW, -0.3}, {MX_EVIDENCE_ENTROPY, 0.4},
                   {MX_EVIDENCE_LOOKED_WORD, 0.9}, {MX_EVIDENCE_LOOKED_SEGMENT, 0.9}, {MX_EVIDENCE_RATE, 1.4}};
    memset(e, 0, MX_N_EVIDENCE * sizeof(*e));
    for (size_t i = 0; i < MX_COUNT(typical); i++)
        e[typical[i].index] = typical[i].value;
}

static void of_silence(double *e) {
    of_speech(e);
    e[MX_EVIDENCE_SPEECH_WORD] = e[MX_EVIDENCE_SPEECH_HIGHEST] = 0.03;
    e[MX_EVIDENCE_SPEECH_SEGMENT] = 0.01;
    e[MX_EVIDENCE_NO_SPEECH] = 1.8;
    e[MX_EVIDENCE_LOGPROB_WORD] = e[MX_EVIDENCE_LOGPROB_SEGMENT] = e[MX_EVIDENCE_LOGPROB_FIRST] = -4;
    e[MX_EVIDENCE_LOOKED_WORD] = e[MX_EVIDENCE_LOOKED_SEGMENT] = 0.01;
}

static void check_score(void) {
    double e[MX_N_EVIDENCE];
    uint32_t reasons;
    of_speech(e);
    CHECK(mx_guard_score(e, &reasons) < 0.05);
    CHECK_EQ_INT(reasons, 0);
    for (int i = 0; i < 2; i++) {   /* around the middle, where differences show */
        for (int j = 0; j < MX_N_EVIDENCE; j++) {
            i == 0 ? of_speech(e) : of_silence(e);
            double before = mx_guard_score(e, &reasons);
            e[j] += 0.5 * mx_evidence_sign(j);
            if (!CHECK(mx_guard_score(e, &reasons) >= before))
                printf("    %s counts the wrong way round\n", mx_evidence_name(j));
        }
    }
    of_silence(e);
    CHECK(mx_guard_score(e, &reasons) > 0.9);
    CHECK(reasons & (MX_REASON_BIT(SILENCE) | MX_REASON_BIT(ATTENTION)));
    CHECK(!(reasons & (MX_REASON_BIT(REPETITION) | MX_REASON_BIT(TEMPERATURE) | MX_REASON_BIT(DISAGREEMENT))));
    for (int i = 0; i < MX_N_EVIDENCE; i++)
        CHECK(mx_evidence_name(i) && (mx_evidence_sign(i) == 1 || mx_evidence_sign(i) == -1));
    CHECK(!mx_evidence_name(-1) && !mx_evidence_name(MX_N_EVIDENCE) && mx_evidence_sign(MX_N_EVIDENCE) == 0);
}

/* Evidence that speaks for a reason as loudly as it can gives that reason; those of evidence that the fit left out
 * decide nothing, and a reason that has no other is reserved: none of it is documented as given. */
static void check_reasons(void) {
    static const int left_out[] = {MX_EVIDENCE_LOGPROB_WINDOW, MX_EVIDENCE_STILL, MX_EVIDENCE_SHORT_WORD,
                                   MX_EVIDENCE_TEMPERATURE};
    double e[MX_N_EVIDENCE];
    uint32_t given = 0, reasons, without;
    for (int i = 0; i < MX_N_EVIDENCE; i++) {
        of_speech(e);
        e[i] += 1000 * mx_evidence_sign(i);
        double suspicion = mx_guard_score(e, &reasons);
        given |= reasons;
        int out = 0;
        for (size_t j = 0; j < MX_COUNT(left_out); j++)
            out |= left_out[j] == i;
        of_speech(e);
        if (!CHECK((suspicion == mx_guard_score(e, &without)) == out && (reasons == 0) == out))
            printf("    %s: docs/decoding.md and guard/coefficients.def say otherwise\n", mx_evidence_name(i));
    }
    CHECK_EQ_INT(given, (1u << MX_N_REASONS) - 1 - MX_REASON_BIT(TEMPERATURE));
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

typedef struct window {
    mx_guard_window w;
    float speech[N_FRAMES];
    mx_guard_token tokens[64];
    mx_guard_word words[64];
} window;

/* Adds a word of one token to a segment. */
static void say(window *x, size_t segment, double start_s, double end_s, int32_t id, double logprob, double on_speech) {
    x->tokens[x->w.n_tokens] = (mx_guard_token){.id = id, .logprob = logprob, .entropy = 0.3, .on_speech = on_speech,
                                                .centre_s = (start_s + end_s) / 2};
    x->words[x->w.n_words++] = (mx_guard_word){.start_s = start_s, .end_s = end_s, .first_token = x->w.n_tokens,
                                                  .n_tokens = 1, .segment = segment};
    x->w.n_tokens++;
}

/* Speech from 2 to 6 s. */
static void start(window *x) {
    memset(x, 0, sizeof(*x));
    for (int i = 100; i < 300; i++)
        x->speech[i] = 0.97f;
    x->w = (mx_guard_window){.no_speech_prob = 0.05, .avg_logprob = -0.3, .compression_ratio = 1.2, .speech = x->speech,
                             .n_frames = N_FRAMES, .tokens = x->tokens, .words = x->words};
}

static double value(const window *x, size_t word, int evidence) { return x->words[word].evidence[evidence]; }

static void check_window(void) {
    static window x;
    start(&x);
    for (int i = 0; i < 8; i++)
        say(&x, 0, 2 + 0.5 * i, 2.5 + 0.5 * i, 100 + i, -0.2, 0.95);
    for (int i = 0; i < 4; i++)
        say(&x, 1, 7 + 0.5 * i, 7.5 + 0.5 * i, 200 + i, -3, 0.02);
    mx_guard_judge(&x.w);
    for (size_t i = 0; i < 8; i++)
        CHECK(x.words[i].suspicion < 0.1 && x.words[i].reasons == 0);
    for (size_t i = 8; i < 12; i++)
        CHECK(x.words[i].suspicion >= MX_GUARD_SUSPECTED && x.words[i].reasons != 0);
    CHECK(fabs(value(&x, 0, MX_EVIDENCE_SPEECH_WORD) - 0.97) < 1e-6);
    CHECK(value(&x, 9, MX_EVIDENCE_SPEECH_WORD) == 0 && value(&x, 9, MX_EVIDENCE_SPEECH_HIGHEST) == 0);
    CHECK(near(value(&x, 9, MX_EVIDENCE_LOGPROB_SEGMENT), -3) && near(value(&x, 9, MX_EVIDENCE_LOOKED_SEGMENT), 0.02));
    CHECK(value(&x, 0, MX_EVIDENCE_RATE) < value(&x, 8, MX_EVIDENCE_RATE));
}

/* The pause before speech is counted to its first word, which is still said at its end. */
static void check_long_word(void) {
    static window x;
    start(&x);
    say(&x, 0, 0, 2.3, 100, -0.3, 0.9);
    say(&x, 0, 5.8, 10, 101, -0.3, 0.9);
    mx_guard_judge(&x.w);
    CHECK(value(&x, 0, MX_EVIDENCE_SPEECH_WORD) > 0.9 && value(&x, 1, MX_EVIDENCE_SPEECH_WORD) > 0.9);
    CHECK(value(&x, 0, MX_EVIDENCE_SPEECH_SEGMENT) > 0.2);
    x.words[1].start_s = 7;   /* a second of nothing at either end */
    mx_guard_judge(&x.w);
    CHECK(value(&x, 1, MX_EVIDENCE_SPEECH_WORD) == 0);
}

static void check_repetition(void) {
    static window x;
    static const int32_t before[] = {1, 2, 3, 4, 5};
    start(&x);
    x.w.before = before;
    x.w.n_before = MX_COUNT(before);
    for (int i = 0; i < 3; i++)
        say(&x, 0, 2 + i, 3 + i, 3 + i, -0.2, 0.9);      /* what was said before */
    for (int i = 0; i < 6; i++)
        say(&x, 1, 5, 5.1, 50 + i % 2, -0.2, 0.9);       /* and over and over */
    mx_guard_judge(&x.w);
    CHECK(near(value(&x, 0, MX_EVIDENCE_REPETITION), 1.0 / 3));
    CHECK(near(value(&x, 4, MX_EVIDENCE_REPETITION), 2.0 / 6));
    x.w.n_before = 0;
    mx_guard_judge(&x.w);
    CHECK(value(&x, 0, MX_EVIDENCE_REPETITION) == 0);
}

/* Nothing that a window may hold makes a number that is none. */
static void check_odd(void) {
    static window x;
    start(&x);
    say(&x, 0, -0.02, -0.02, 1, NAN, 0);
    say(&x, 0, 12, 11, 1, -INFINITY, 0);
    say(&x, 2, 9.99, 400, 1, -50, 0);
    x.words[2].n_tokens = 0;
    x.w.no_speech_prob = 0;
    x.w.avg_logprob = -INFINITY;
    for (int i = 0; i < 2; i++) {
        x.w.n_frames = i == 0 ? N_FRAMES : 0;
        mx_guard_judge(&x.w);
        for (size_t w = 0; w < x.w.n_words; w++) {
            for (int j = 0; j < MX_N_EVIDENCE; j++)
                if (!CHECK(isfinite(value(&x, w, j))))
                    printf("    %s of word %zu\n", mx_evidence_name(j), w);
            CHECK(x.words[w].suspicion >= 0 && x.words[w].suspicion <= 1);
        }
    }
    x.w.n_words = 0;
    mx_guard_judge(&x.w);
}

int main(void) {
    check_attention();
    check_entropy();
    check_score();
    check_reasons();
    check_window();
    check_long_word();
    check_repetition();
    check_odd();
    return check_done();
}
