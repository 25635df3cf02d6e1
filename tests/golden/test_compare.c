/* tests/golden/test_compare.c - the judge is judged: a right transcription passes, each kind of fault is caught, and
 * only a near tie of the reference's own, in the very window where the files part, excuses a difference. */
#include "base/arrays.h"
#include "kit/check.h"
#include "kit/compare.h"

#define TOLERANCE 1e-3

static const char ROW[] =
    "{\"clip\":\"made up\",\"language\":\"en\",\"detected\":{\"code\":\"en\",\"probability\":0.9,\"second\":\"de\","
    "\"second_probability\":0.05},\"windows\":["
    "{\"seek\":0,\"avg_logprob\":-0.25,\"no_speech_prob\":0.1,\"compression_ratio\":1.5,\"temperature\":0.0,"
    "\"margins\":{\"cut\":[0.0002,3],\"rank\":[0.01,null]}},"
    "{\"seek\":2800,\"avg_logprob\":-0.5,\"no_speech_prob\":0.2,\"compression_ratio\":1.25,\"temperature\":0.0,"
    "\"margins\":{\"cut\":[0.02,7],\"sum\":[0.5,1]}}],\"segments\":["
    "{\"seek\":0,\"start\":0.0,\"end\":2.5,\"text\":\" One.\",\"tokens\":[50363,1881,13,50488]},"
    "{\"seek\":0,\"start\":2.5,\"end\":28.0,\"text\":\" Two.\",\"tokens\":[50488,4930,13,51763]},"
    "{\"seek\":2800,\"start\":28.0,\"end\":30.02,\"text\":\" Three.\",\"tokens\":[50363,7683,13,50464]}],"
    "\"text\":\" One. Two. Three.\"}";

typedef struct made {
    int32_t tokens[3][4];
    mxw_segment segments[3];
    mxw_result result;
} made;

/* What a right transcription of ROW is. */
static void make(made *m) {
    static const int32_t tokens[3][4] = {{50363, 1881, 13, 50488}, {50488, 4930, 13, 51763}, {50363, 7683, 13, 50464}};
    static const mxw_segment segments[3] = {
        {0, 0, 0.0, 2.5, " One.", NULL, 4, 0, -0.2504, 1.5, 0.1003},
        {1, 0, 2.5, 28.0, " Two.", NULL, 4, 0, -0.2504, 1.5, 0.1003},
        {2, 2800, 28.0, 30.02, " Three.", NULL, 4, 0, -0.4999, 1.25, 0.2},
    };
    memset(m, 0, sizeof(*m));
    memcpy(m->tokens, tokens, sizeof(tokens));
    memcpy(m->segments, segments, sizeof(segments));
    for (int i = 0; i < 3; i++)
        m->segments[i].tokens = m->tokens[i];
    m->result = (mxw_result){.text = " One. Two. Three.",
                             .language = "en",
                             .language_probability = 0.9002,
                             .segments = mx_segment_array(m->segments),
                             .n_segments = 3,
                             .n_windows = 2};
}

static int verdict(const json_t *row, const made *m) {
    char line[256];
    int v = compare_result(row, &m->result, TOLERANCE, line, sizeof(line));
    CHECK((v == 1) == (line[0] == 0));
    return v;
}

static void test_result(const json_t *row) {
    made m;
#define WITH(change, wanted)                                                                                           \
    do {                                                                                                               \
        make(&m);                                                                                                      \
        change;                                                                                                        \
        CHECK_EQ_INT(verdict(row, &m), wanted);                                                                        \
    } while (0)
    WITH((void)0, 1);
    WITH(m.tokens[2][1] = 1, -1); /* another token where the margin is wide */
    WITH(m.tokens[0][1] = 1, 0);  /* the same where the reference's beam cut is close */
    WITH(m.segments[1].text = " Tow.", 0);
    WITH(m.segments[2].text = " Tree.", -1);
    WITH(m.segments[2].start = 28.02, -1);
    WITH(m.segments[2].end = 30.0, -1);
    WITH(m.segments[2].seek = 2798, -1);
    WITH(m.result.n_segments = 2, -1); /* the last window is lost */
    WITH(m.segments[2].avg_logprob = -0.502, -1);
    WITH(m.segments[0].no_speech_prob = 0.102, -1); /* a close margin excuses no probability */
    WITH(m.segments[0].compression_ratio = 1.5001, -1);
    WITH(m.segments[0].temperature = 0.2, -1);
    WITH(m.result.text = " One. Two. Three", -1);
    WITH(m.result.language = "de", -1);
    WITH(m.result.language_probability = 0.8, -1);
    WITH(m.result.n_windows = 3, -1);
#undef WITH
}

static int falls(const char *decisions, int64_t count, double temperature) {
    char line[256];
    json_t *row = json_loads(decisions, 0, NULL);
    mxw_segment segment = {.seek = 0, .temperature = temperature};
    mxw_result result = {.segments = mx_segment_array(&segment), .n_segments = 1, .n_temperature_fallbacks = count};
    int v = compare_fallback(row, &result, TOLERANCE, line, sizeof(line));
    json_decref(row);
    return v;
}

static void test_fallback(void) {
#define DECISION(falls, logprob)                                                                                       \
    "{\"decisions\":[{\"seek\":0,\"needs_fallback\":" falls ",\"avg_logprob\":-1.2,\"no_speech_prob\":0.1,"            \
    "\"compression_ratio\":1.0,\"margins\":{\"logprob\":" logprob ",\"cut\":[0.1,2]}}]}"
    CHECK_EQ_INT(falls(DECISION("true", "0.2"), 1, 0.2), 1);
    CHECK_EQ_INT(falls(DECISION("true", "0.2"), 0, 0), -1);
    CHECK_EQ_INT(falls(DECISION("true", "0.0004"), 0, 0), 0);
    CHECK_EQ_INT(falls(DECISION("false", "0.2"), 0, 0), 1);
    CHECK_EQ_INT(falls(DECISION("false", "0.2"), 1, 0.2), -1);
    CHECK_EQ_INT(falls(DECISION("false", "0.0004"), 1, 0.2), 0);
#undef DECISION
}

int main(void) {
    json_error_t error;
    json_t *row = json_loads(ROW, 0, &error);
    if (CHECK(row != NULL))
        test_result(row);
    test_fallback();
    json_decref(row);
    return check_done();
}
