/* test_select.c - select (op/select.h) against a plain float64 implementation of its rules, on random rows and rules;
 * ties, nothing left, NaN; and the draw: its distribution by chi-square, its independence of everything but the key. */
#include "kit/harness.h"

#include <float.h>

#define VOCAB 203

typedef struct expected {
    int n;                      /* candidates left */
    int32_t ids[VOCAB];         /* best first */
    double log_probs[VOCAB];    /* by id */
    double no_speech, log_sum;
} expected;

static double logsumexp64(const double *x, int first, int last) {
    double top = -INFINITY, sum = 0;
    for (int i = first; i < last; i++)
        top = fmax(top, x[i]);
    if (top == -INFINITY)
        return -INFINITY;
    for (int i = first; i < last; i++)
        sum += exp(x[i] - top);
    return top + log(sum);
}

static void reference(const float *logits, const mx_rule *rule, const uint8_t *suppress, expected *e) {
    double raw[VOCAB], left[VOCAB], text = -INFINITY;
    for (int i = 0; i < VOCAB; i++) {
        raw[i] = isnan(logits[i]) ? -INFINITY : fmin((double)logits[i], (double)FLT_MAX);
        int stamp = i >= rule->ts_begin;
        int out = suppress[i] || i < rule->min_id || (stamp && (i < rule->ts_min || i > rule->ts_max));
        left[i] = out ? -INFINITY : raw[i];
        if (!stamp)
            text = fmax(text, left[i]);
    }
    e->no_speech = rule->no_speech < 0 ? 0 : exp(raw[rule->no_speech] - logsumexp64(raw, 0, VOCAB));
    int ts = MX_MAX(0, MX_MIN(rule->ts_begin, VOCAB));
    double stamps = logsumexp64(left, ts, VOCAB);
    if ((rule->flags & MX_RULE_TIMESTAMP_SUM) && stamps > -INFINITY && text > -INFINITY) {
        for (int i = 0; i < ts && stamps > text; i++)
            left[i] = -INFINITY;
    }
    e->log_sum = logsumexp64(left, 0, VOCAB);
    e->n = 0;
    for (int i = 0; i < VOCAB; i++) {
        e->log_probs[i] = left[i] - e->log_sum;
        if (left[i] == -INFINITY)
            continue;
        int at = e->n++;
        for (; at > 0 && left[e->ids[at - 1]] < left[i]; at--)
            e->ids[at] = e->ids[at - 1];
        e->ids[at] = i;
    }
}

static mx_rule random_rule(int sets) {
    mx_rule r = {.set = (int32_t)below(sets), .ts_begin = VOCAB, .ts_max = -1, .no_speech = (int32_t)below(VOCAB)};
    if (below(4) == 0)
        r.no_speech = -1;
    if (below(2)) {
        r.ts_begin = (int32_t)below(VOCAB + 1);
        r.ts_min = r.ts_begin + (int32_t)below(30) - 5;
        r.ts_max = r.ts_min + (int32_t)below(60) - 8;
        r.flags = below(3) ? MX_RULE_TIMESTAMP_SUM : 0;
    }
    if (below(2))
        r.min_id = (int32_t)below(VOCAB + 3) - 1;
    return r;
}

/* Runs select over rows; out: ids, log probabilities, statistics. */
static int run_select(mx_tensor logits, mx_tensor rules, mx_tensor suppress, int64_t k, mx_tensor out[3]) {
    mx_value v[3];
    mx_value a = in(logits), b = in(rules), c = in(suppress);
    return CHECK(mx_graph_select(G, a, b, c, k, v) == MXW_OK) && CHECK(results(v, 3, out));
}

static int check_row(const float *logits, const mx_rule *rule, const uint8_t *suppress, const mx_tensor out[3], int row,
                     int k) {
    expected e;
    const int32_t *ids = (int32_t *)out[0].data + row * k;
    const float *log_probs = (float *)out[1].data + row * k, *stats = (float *)out[2].data + row * MX_SELECT_STATS;
    reference(logits, rule, suppress, &e);
    int ok = near((double)stats[MX_SELECT_NO_SPEECH], e.no_speech, 1e-6) &&
             near((double)stats[MX_SELECT_LOG_SUM], e.log_sum, 1e-5);
    for (int i = 0; i < k && ok; i++) {
        if (i < e.n)
            ok = ids[i] == e.ids[i] && near((double)log_probs[i], e.log_probs[ids[i]], 2e-5);
        else
            ok = ids[i] == -1 && log_probs[i] == -INFINITY;
    }
    return ok;
}

static void test_rules(void) {
    for (int round = 0; round < 60; round++) {
        enum { ROWS = 13, SETS = 4 };
        int k = (int)below(9) + 1 + (round % 10 == 0 ? VOCAB : 0), bad = -1;
        begin();
        mx_tensor logits = FLOATS(round % 3 ? 6 : 0.5, ROWS, VOCAB), rules = INTS(1, ROWS, MX_RULE_WORDS), out[3];
        mx_tensor suppress = blank(MXW_U8, 2, DIMS(SETS, VOCAB));
        for (int i = 0; i < SETS * VOCAB; i++)
            ((uint8_t *)suppress.data)[i] = i / VOCAB == 3 ? 1 : i / VOCAB && below(3) == 0;
        for (int i = 0; i < ROWS * VOCAB && round % 4 == 0; i++)   /* many ties */
            ((float *)logits.data)[i] = (float)below(4);
        mx_rule *rule = rules.data;
        for (int i = 0; i < ROWS; i++)
            rule[i] = random_rule(SETS);
        if (!run_select(logits, rules, suppress, k, out))
            return;
        for (int r = 0; r < ROWS; r++)
            if (!check_row((float *)logits.data + r * VOCAB, &rule[r], (uint8_t *)suppress.data + rule[r].set * VOCAB,
                           out, r, k))
                bad = r;
        if (!CHECK(bad < 0))
            printf("    round %d row %d\n", round, bad);
    }
}

static void test_odd_values(void) {
    enum { ROWS = 4 };
    begin();
    mx_tensor logits = FLOATS(1, ROWS, VOCAB), rules = INTS(1, ROWS, MX_RULE_WORDS), out[3];
    mx_tensor suppress = blank(MXW_U8, 2, DIMS(1, VOCAB));
    memset(suppress.data, 0, VOCAB);
    float *x = logits.data;
    for (int i = 0; i < VOCAB; i++) {
        x[i] = i % 3 ? NAN : x[i];                     /* row 0: NaN among numbers */
        x[VOCAB + i] = NAN;                            /* row 1: nothing but NaN */
        x[2 * VOCAB + i] = i == 7 ? INFINITY : -INFINITY;
        x[3 * VOCAB + i] = i == 9 ? NAN : 3e38f;
    }
    mx_rule *rule = rules.data;
    for (int i = 0; i < ROWS; i++) {
        rule[i] = (mx_rule){.ts_begin = VOCAB, .ts_max = -1, .no_speech = 3};
        rule[i].temperature = i == 1 ? 1.0f : 0;
    }
    if (!run_select(logits, rules, suppress, 3, out))
        return;
    for (int r = 0; r < ROWS; r++)
        if (r != 1)
            CHECK(check_row(x + r * VOCAB, &rule[r], suppress.data, out, r, 3));
    CHECK(i32(&out[0], 3) == -1 && i32(&out[0], 5) == -1);
    CHECK(i32(&out[0], 6) == 7 && f32(&out[1], 6) == 0 && i32(&out[0], 7) == -1);
    CHECK(i32(&out[0], 9) == 0 && i32(&out[0], 10) == 1);
}

/* Each id as often as its probability says: chi-square of 20 000 draws. */
static void test_draw(void) {
    enum { DRAWS = 20000, N = 12 };
    static const float temperatures[] = {0.2f, 1.0f, 3.0f};
    for (size_t t = 0; t < MX_COUNT(temperatures); t++) {
        double count[N] = {0}, weight[N], total = 0, chi = 0;
        int degrees = -1, rest_bad = 0;
        begin();
        mx_tensor logits = FLOATS(1, DRAWS, N), rules = INTS(1, DRAWS, MX_RULE_WORDS), out[3];
        mx_tensor suppress = blank(MXW_U8, 2, DIMS(1, N));
        memset(suppress.data, 0, N);
        ((uint8_t *)suppress.data)[4] = 1;
        for (int r = 0; r < DRAWS; r++) {
            for (int i = 0; i < N; i++)
                ((float *)logits.data)[r * N + i] = (float)i * 0.25f - (i == 6) * 5.0f;
            ((mx_rule *)rules.data)[r] = (mx_rule){.ts_begin = N, .ts_max = -1, .no_speech = -1, .key = {7, 11},
                                                   .counter = {(uint32_t)r, 5}, .temperature = temperatures[t]};
        }
        if (!run_select(logits, rules, suppress, 3, out))
            return;
        for (int r = 0; r < DRAWS; r++) {
            int drawn = i32(&out[0], r * 3), first = drawn == 11 ? 10 : 11, second = drawn >= 10 ? 9 : 10;
            count[drawn]++;
            rest_bad += i32(&out[0], r * 3 + 1) != first || i32(&out[0], r * 3 + 2) != second;
        }
        CHECK_EQ_INT(rest_bad, 0);
        CHECK(count[4] == 0);
        for (int i = 0; i < N; i++)
            total += weight[i] = i == 4 ? 0 : exp((double)f32(&logits, i) / (double)temperatures[t]);
        double pooled = 0, pooled_want = 0;
        for (int i = 0; i < N; i++) {   /* classes expected fewer than ten times are put together */
            double want = weight[i] / total * DRAWS;
            if (want < 10) {
                pooled += count[i];
                pooled_want += want;
            } else {
                chi += (count[i] - want) * (count[i] - want) / want;
                degrees++;
            }
        }
        if (pooled_want >= 10) {
            chi += (pooled - pooled_want) * (pooled - pooled_want) / pooled_want;
            degrees++;
        }
        double limit = degrees + 4 * sqrt(2.0 * degrees) + 4;   /* about one in ten thousand */
        if (!CHECK(degrees >= 3 && chi < limit))
            printf("    temperature %g: chi-square %.1f over %d degrees\n", (double)temperatures[t], chi, degrees);
    }
}

/* A draw depends on the record alone: not on the row it stands in, nor on k; another key or counter gives another. */
static void test_draw_keys(void) {
    enum { ROWS = 64 };
    mx_tensor first[3], second[3];
    int differ = 0, moved = 0, log_bad = 0;
    for (int pass = 0; pass < 2; pass++) {
        begin();
        mx_tensor logits = FLOATS(1, ROWS, VOCAB), rules = INTS(1, ROWS, MX_RULE_WORDS);
        mx_tensor suppress = blank(MXW_U8, 2, DIMS(1, VOCAB));
        memset(suppress.data, 0, VOCAB);
        memset(logits.data, 0, mx_tensor_bytes(&logits));
        for (int r = 0; r < ROWS; r++) {
            uint32_t who = (uint32_t)(pass ? ROWS - 1 - r : r);
            ((mx_rule *)rules.data)[r] = (mx_rule){.ts_begin = VOCAB, .ts_max = -1, .no_speech = -1,
                                                   .key = {who % 8, 1}, .counter = {who / 8, 0}, .temperature = 1};
        }
        if (!run_select(logits, rules, suppress, pass ? 1 : 5, second))
            return;
        if (pass == 0) {
            static int32_t ids[ROWS * 5];
            memcpy(ids, second[0].data, sizeof(ids));
            first[0].data = ids;
            for (int r = 0; r < ROWS; r++)
                log_bad += !near((double)f32(&second[1], r * 5), -log(VOCAB), 1e-5);
        }
    }
    for (int r = 0; r < ROWS; r++) {
        moved += i32(&second[0], ROWS - 1 - r) != i32(&first[0], r * 5);
        differ += r && i32(&first[0], r * 5) != i32(&first[0], 0);
    }
    CHECK_EQ_INT(log_bad, 0);
    CHECK_EQ_INT(moved, 0);
    CHECK(differ > ROWS / 2);
}

/* Philox 4x32-10 of the zero key and counter begins 6627e8d5 e169c58d (its authors' known answer): the first draw over
 * equal weights falls where that word says. */
static void test_known_answer(void) {
    begin();
    enum { N = 1000 };
    mx_tensor logits = FLOATS(1, 1, N), rules = INTS(1, 1, MX_RULE_WORDS), out[3];
    mx_tensor suppress = blank(MXW_U8, 2, DIMS(1, N));
    memset(suppress.data, 0, N);
    memset(logits.data, 0, mx_tensor_bytes(&logits));
    *(mx_rule *)rules.data = (mx_rule){.ts_begin = N, .ts_max = -1, .no_speech = -1, .temperature = 1};
    if (run_select(logits, rules, suppress, 1, out))
        CHECK_EQ_INT(i32(&out[0], 0), (int64_t)(0x6627e8d5u / 4294967296.0 * N));
}

static void test_bad_rules(void) {
    static const struct {
        mx_rule rule;
        const char *says;
    } cases[] = {
        {{.set = 1, .no_speech = -1}, "select: rules[0] has set 1: expected 0 to 0"},
        {{.set = -1, .no_speech = -1}, "select: rules[0] has set -1"},
        {{.no_speech = 5}, "select: rules[0] has no_speech 5: expected below 5"},
    };
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        mx_program *program;
        mx_run *run;
        mx_value v[3];
        begin();
        mx_tensor logits = FLOATS(1, 1, 5), rules = INTS(1, 1, MX_RULE_WORDS);
        mx_tensor suppress = blank(MXW_U8, 2, DIMS(1, 5));
        memset(suppress.data, 0, 5);
        memcpy(rules.data, &cases[i].rule, sizeof(mx_rule));
        mx_value a = in(logits), b = in(rules), c = in(suppress);
        CHECK(mx_graph_select(G, a, b, c, 1, v) == MXW_OK);
        CHECK(mx_exec_load(G, there(NULL, NULL), &program) == MXW_OK);
        CHECK(mx_run_open(program, NULL, &run) == MXW_OK);
        mx_run_input(run, "in0", &logits);
        mx_run_input(run, "in1", &rules);
        mx_run_input(run, "in2", &suppress);
        CHECK(mx_run_execute(run) == MXW_E_ARGUMENT);
        if (!CHECK(strstr(mx_error(), cases[i].says)))
            printf("    %s\n", mx_error());
        mx_run_close(run);
        mx_exec_unload(program);
    }
}

int main(int argc, char **argv) {
    harness_open("graph-select", argc, argv);
    mx_pool_open(2, &harness_pool);
    test_rules();
    test_odd_values();
    test_draw();
    test_draw_keys();
    test_known_answer();
    test_bad_rules();
    end();
    mx_pool_close(harness_pool);
    return check_done();
}
