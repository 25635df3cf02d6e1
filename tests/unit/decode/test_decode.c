/* test_decode.c - decode/ with the select op against openai-whisper's own DecodingTask, on a made-up model.
 * The model's logits are a hash of the tokens before them, read back through the cache cells of each row, so a wrong
 * cell index gives wrong logits and then wrong tokens. Goldens: tests/golden/make/decode.py. */
#include <jansson.h>
#include <math.h>

#include "base/base.h"
#include "base/utf8.h"
#include "kit/check.h"
#include "decode/decode.h"
#include "exec/exec.h"

#define N_CTX 448

/* The same exact arithmetic as fake_logits in tests/golden/make/decode.py. */
static void fake_logits(const int32_t *tokens, int n, uint64_t seed, const mx_text_special *s, float *row) {
    uint64_t h = 0xCBF29CE484222325u ^ seed;
    for (int i = 0; i < n; i++) {
        h = (h ^ (uint64_t)tokens[i]) * 0x100000001B3u;
        h ^= h >> 29;
    }
    for (int i = 0; i < s->n_vocab; i++) {
        uint64_t x = h + (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u;
        int e;
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
        x ^= x >> 31;
        double m = frexp((double)(x >> 11 | 1), &e);
        row[i] = (float)(((53 - e) + (1 - m) * 2) * 1.5);
    }
    if (h % 5 == 0)
        row[s->eot] += 14.0f;
    for (int i = s->timestamp_begin; i < s->n_vocab && h % 3 == 0; i++)
        row[i] += 7.0f;
}

/* A graph that is the select op alone. */
typedef struct selector {
    mx_graph *graph;
    mx_program *program;
    mx_run *run;
    int n_vocab;
} selector;

static int open_selector(selector *s, int n_vocab) {
    mx_value out[3];
    s->n_vocab = n_vocab;
    if (!CHECK(mx_graph_create("select", &s->graph) == MXW_OK))
        return 0;
    int64_t rows = mx_graph_size(s->graph, "rows", 1024), k = mx_graph_size(s->graph, "k", 1024);
    mx_value logits = mx_graph_input(s->graph, "logits", MXW_F32, 2, (int64_t[]){rows, n_vocab});
    mx_value rules = mx_graph_input(s->graph, "rules", MXW_I32, 2, (int64_t[]){rows, MX_RULE_WORDS});
    mx_value suppress = mx_graph_input(s->graph, "suppress", MXW_U8, 2, (int64_t[]){MX_SET_COUNT, n_vocab});
    CHECK(mx_graph_select(s->graph, logits, rules, suppress, k, out) == MXW_OK);
    mx_graph_output(s->graph, "ids", out[0]);
    mx_graph_output(s->graph, "logprobs", out[1]);
    mx_graph_output(s->graph, "stats", out[2]);
    mx_program_options options = {.engine = MXW_ENGINE_CPU, .device = "cpu"};
    return CHECK(mx_exec_load(s->graph, &options, &s->program) == MXW_OK) &&
           CHECK(mx_run_open(s->program, NULL, &s->run) == MXW_OK);
}

static void close_selector(selector *s) {
    mx_run_close(s->run);
    mx_exec_unload(s->program);
    mx_graph_destroy(s->graph);
}

static void select_rows(selector *s, const mx_decode_plan *plan, const float *logits, const mx_decode_step *step, int k,
                        mx_candidates *c) {
    mx_tensor in[3] = {
        mx_tensor_of_const(MXW_F32, 2, (int64_t[]){step->n_picks, s->n_vocab}, logits),
        mx_tensor_of_const(MXW_I32, 2, (int64_t[]){step->n_picks, MX_RULE_WORDS}, step->rules),
        mx_tensor_of(MXW_U8, 2, (int64_t[]){MX_SET_COUNT, s->n_vocab}, plan->suppress)};
    mx_tensor out[3];
    const char *ins[] = {"logits", "rules", "suppress"}, *outs[] = {"ids", "logprobs", "stats"};
    for (int i = 0; i < 3; i++)
        CHECK(mx_run_input(s->run, ins[i], &in[i]) == MXW_OK);
    CHECK(mx_run_size(s->run, "k", k) == MXW_OK);
    if (!CHECK(mx_run_execute(s->run) == MXW_OK))
        printf("    %s\n", mx_error()), exit(1);
    for (int i = 0; i < 3; i++)
        CHECK(mx_run_output(s->run, outs[i], &out[i]) == MXW_OK);
    *c = (mx_candidates){out[0].data, out[1].data, out[2].data, k};
}

static double number(json_t *options, const char *key, double absent) {
    json_t *value = json_object_get(options, key);
    return json_is_number(value) ? json_number_value(value) : json_is_null(value) ? MXW_NONE : absent;
}

static mx_decode_options options_of(json_t *o) {
    json_t *blank = json_object_get(o, "suppress_blank"), *plain = json_object_get(o, "without_timestamps");
    const char *task = json_string_value(json_object_get(o, "task"));
    const char *suppress = json_string_value(json_object_get(o, "suppress_tokens"));
    return (mx_decode_options){.n_text_ctx = N_CTX,
                               .n_audio_ctx = 1500,
                               .task = task && strcmp(task, "translate") == 0 ? MXW_TRANSLATE : MXW_TRANSCRIBE,
                               .beam_size = (int)number(o, "beam_size", 0),
                               .best_of = 5,
                               .patience = number(o, "patience", MXW_NONE),
                               .length_penalty = number(o, "length_penalty", MXW_NONE),
                               .sample_len = (int)number(o, "sample_len", 0),
                               .suppress_tokens = suppress ? suppress : "-1",
                               .suppress_blank = !json_is_false(blank),
                               .prefix = json_string_value(json_object_get(o, "prefix")),
                               .without_timestamps = json_is_true(plain),
                               .max_initial_timestamp = number(o, "max_initial_timestamp", 1.0)};
}

/* Runs a decoding to its end; cell_tokens remembers which token each cache cell holds. */
static void run_model(mx_decoding *d, const mx_decode_plan *plan, selector *s, uint64_t seed) {
    int32_t *cell_tokens = mx_alloc_zero((size_t)plan->n_cells, sizeof(*cell_tokens));
    float *logits = mx_alloc_array((size_t)(plan->n_group + 1) * (size_t)s->n_vocab, sizeof(*logits));
    int32_t prefix[N_CTX];
    mx_decode_step step;
    mx_candidates c;
    while (cell_tokens && logits && mx_decoding_step(d, &step)) {
        for (int i = 0; i < step.n_rows; i++) {
            CHECK(step.rows[i].cell >= 0 && step.rows[i].cell < plan->n_cells);
            cell_tokens[step.rows[i].cell] = step.rows[i].token;
        }
        for (int i = 0; i < step.n_picks; i++) {
            const mx_decode_row *row = &step.rows[step.picks[i]];
            for (int p = 0; p <= row->position; p++)
                prefix[p] = cell_tokens[step.cells[row->sequence * N_CTX + p]];
            fake_logits(prefix, row->position + 1, seed, &plan->special, logits + (size_t)i * (size_t)s->n_vocab);
        }
        select_rows(s, plan, logits, &step, mx_decoding_candidates(d), &c);
        mx_decoding_take(d, &c);
    }
    mx_free(cell_tokens);
    mx_free(logits);
}

static void check_case(json_t *golden, const mx_text *text, selector *s, size_t index) {
    json_t *o = json_object_get(golden, "options"), *tokens = json_object_get(golden, "tokens");
    json_t *prompt = json_object_get(o, "prompt");
    const char *language = json_string_value(json_object_get(o, "language"));
    mx_decode_options options = options_of(o);
    mx_decode_plan *plan = NULL;
    mx_decoding *d = NULL;
    mx_decode_result result;
    int32_t ids[2048];
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(prompt) && n < MX_COUNT(ids); i++)
        ids[n++] = (int32_t)json_integer_value(json_array_get(prompt, i));
    if (!CHECK(mx_decode_plan_open(&options, text, &plan) == MXW_OK) || !CHECK(mx_decoding_open(plan, &d) == MXW_OK))
        return;
    CHECK(mx_decoding_start(d, language ? language : "en", ids, n, 0, 0) == MXW_OK);
    run_model(d, plan, s, (uint64_t)json_integer_value(json_object_get(golden, "seed")));
    CHECK(mx_decoding_result(d, &result) == MXW_OK);
    int same = result.n_tokens == json_array_size(tokens);
    for (size_t i = 0; same && i < result.n_tokens; i++)
        same = result.tokens[i] == json_integer_value(json_array_get(tokens, i));
    if (!CHECK(same))
        printf("    case %zu: other tokens\n", index);
    CHECK(fabs(result.avg_logprob - json_number_value(json_object_get(golden, "avg_logprob"))) < 1e-4);
    CHECK(fabs(result.no_speech_prob - json_number_value(json_object_get(golden, "no_speech_prob"))) < 1e-6);
    CHECK(result.compression_ratio == json_number_value(json_object_get(golden, "compression_ratio")));
    CHECK_STR(result.text, json_string_value(json_object_get(golden, "text")));
    mx_decoding_close(d);
    mx_decode_plan_close(plan);
}

/* Each set of options occurs three times in a row, with three seeds; the quick run takes one of them. */
static void check_goldens(size_t stride) {
    char path[4096];
    json_error_t error;
    mx_text *text[2] = {NULL, NULL};
    selector selectors[2];
    json_t *cases = json_load_file(check_path("tests/golden/data/decode.json", path, sizeof(path)), 0, &error);
    if (!CHECK(json_is_array(cases)))
        return;
    for (int i = 0; i < 2; i++)
        if (!CHECK(mx_text_open(51864 + i, &text[i]) == MXW_OK) || !open_selector(&selectors[i], 51864 + i))
            exit(1);
    for (size_t i = 0; i < json_array_size(cases); i += stride) {
        json_t *golden = json_array_get(cases, i);
        int which = json_is_true(json_object_get(golden, "multilingual"));
        check_case(golden, text[which], &selectors[which], i);
    }
    for (int i = 0; i < 2; i++) {
        close_selector(&selectors[i]);
        mx_text_close(text[i]);
    }
    json_decref(cases);
}

/* Sampling: the same seed gives the same tokens, another gives others, and only one best_of sequence is returned. */
static void check_sampling(void) {
    mx_text *text = NULL;
    selector s;
    int32_t first[N_CTX];
    size_t n_first = 0;
    if (!CHECK(mx_text_open(51864, &text) == MXW_OK) || !open_selector(&s, 51864))
        return;
    for (int round = 0; round < 3; round++) {
        mx_decode_options options = options_of(NULL);
        mx_decode_plan *plan = NULL;
        mx_decoding *d = NULL;
        mx_decode_result r;
        options.seed = round == 2 ? 7 : 3;
        options.sample_len = 24;
        CHECK(mx_decode_plan_open(&options, text, &plan) == MXW_OK && mx_decoding_open(plan, &d) == MXW_OK);
        CHECK(mx_decoding_start(d, "en", NULL, 0, 1.0, 1) == MXW_OK);
        run_model(d, plan, &s, 99);
        CHECK(mx_decoding_result(d, &r) == MXW_OK);
        CHECK(r.n_tokens > 0 && r.tokens[0] >= plan->special.timestamp_begin);
        int same = r.n_tokens == n_first && memcmp(first, r.tokens, n_first * sizeof(*first)) == 0;
        if (round == 0)
            memcpy(first, r.tokens, (n_first = r.n_tokens) * sizeof(*first));
        else
            CHECK(same == (round == 1));
        mx_decoding_close(d);
        mx_decode_plan_close(plan);
    }
    close_selector(&s);
    mx_text_close(text);
}

static void check_ladder(double first, double increment, int n, double last) {
    double t[16];
    int count = 16;
    mx_temperatures(first, increment, t, &count);
    CHECK_EQ_INT(count, n);
    CHECK(t[count - 1] == last);
}

static void check_listed(void) {
    double t[MX_LISTED_TEMPERATURES];
    int n;
    CHECK(mx_temperatures_listed("0,0.4,1.5", t, &n) == MXW_OK && n == 3 && t[0] == 0 && t[1] == 0.4 && t[2] == 1.5);
    CHECK(mx_temperatures_listed("0.2", t, &n) == MXW_OK && n == 1 && t[0] == 0.2);
    const char *const bad[] = {"", "0,", ",0", "0;1", "-1", "0,nan", "101", "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0"};
    for (size_t i = 0; i < MX_COUNT(bad); i++) {
        CHECK_EQ_INT(mx_temperatures_listed(bad[i], t, &n), MXW_E_ARGUMENT);
        CHECK(strstr(mx_error(), "temperatures: "));
    }
}

static void check_thresholds(void) {
    static const struct {
        double avg_logprob, no_speech, ratio;
        int fallback, silence;
    } rows[] = {
        {-0.5, 0.1, 1.0, 0, 0}, {-1.5, 0.1, 1.0, 1, 0}, {-0.5, 0.1, 2.5, 1, 0}, {-1.5, 0.7, 1.0, 0, 1},
        {-1.5, 0.7, 2.5, 0, 1}, {-0.5, 0.7, 2.5, 1, 0}, {-1.0, 0.7, 1.0, 0, 1}, {-0.5, 0.7, 1.0, 0, 0},
    };
    mx_thresholds usual = {2.4, -1.0, 0.6}, none = {MXW_NONE, MXW_NONE, MXW_NONE}, speech = {2.4, MXW_NONE, 0.6};
    for (size_t i = 0; i < MX_COUNT(rows); i++) {
        mx_decode_result r = {.avg_logprob = rows[i].avg_logprob,
                              .no_speech_prob = rows[i].no_speech,
                              .compression_ratio = rows[i].ratio};
        CHECK_EQ_INT(mx_needs_fallback(&r, &usual), rows[i].fallback);
        CHECK_EQ_INT(mx_is_silence(&r, &usual), rows[i].silence);
        CHECK(!mx_needs_fallback(&r, &none) && !mx_is_silence(&r, &none));
        CHECK_EQ_INT(mx_is_silence(&r, &speech), rows[i].no_speech > 0.6);
    }
}

static void check_strip(const char *text, const char *want) {
    char got[64];
    size_t n = strlen(text);
    const char *p = mx_utf8_strip(text, &n);
    snprintf(got, sizeof(got), "%.*s", (int)n, p);
    CHECK_STR(got, want);
}

int main(int argc, char **argv) {
    int all = argc > 1 && strcmp(argv[1], "all") == 0;
    double ratio;
    check_ladder(0, 0.2, 6, 1.0);
    check_ladder(0, MXW_NONE, 1, 0);
    check_ladder(0.6000000000000001, 0.2, 3, 1.0);
    check_ladder(1.5, 0.2, 1, 1.5);
    check_listed();
    check_thresholds();
    check_strip("  a b\t\n", "a b");
    check_strip("\xc2\xa0\xe3\x80\x80x\xe2\x80\x83", "x");
    check_strip("\xe4\xb8\xad ", "\xe4\xb8\xad");
    check_strip(" \t ", "");
    CHECK_EQ_INT(mx_tail_start(10, 3), 7);
    CHECK_EQ_INT(mx_tail_start(2, 3), 0);
    CHECK_EQ_INT(mx_tail_start(10, 0), 0);
    CHECK_EQ_INT(mx_tail_start(10, -4), 4);
    CHECK_EQ_INT(mx_tail_start(3, -4), 3);
    CHECK(mx_compression_ratio("", 0, &ratio) == MXW_OK && ratio == 0);
    CHECK(mx_compression_ratio("aaaaaaaaaaaaaaaaaaaaaaaa", 24, &ratio) == MXW_OK && ratio == 24.0 / 11);
    check_goldens(all ? 1 : 3);
    check_sampling();
    return check_done();
}
