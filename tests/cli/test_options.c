/* test_options.c - the parser on a table of its own, the nearest word, JSON, and `transcribe`'s defaults. */
#include <stdio.h>
#include <string.h>

#include "kit/check.h"
#include "common/json_writer.h"
#include "common/options.h"
#include "common/suggest.h"
#include "transcribe/output/outputs.h"
#include "transcribe/output/screen.h"
#include "transcribe/transcribe_options.h"

typedef struct sample {
    int flag, tristate, choice;
    int64_t whole;
    double number;
    const char *text;
    int64_t pieces;
} sample;

static int check_text(const char *value, char *message, size_t size) {
    if (value[0] != '!')
        return 1;
    options_say(message, size, "no '%s' here", value);
    return 0;
}

static const char *const colors[] = {"red", "green", "blue", NULL};

/* clang-format off */
static const option_row table[] = {
    {.name = "flag", .letter = 'f', .kind = OPTION_FLAG, .target = offsetof(sample, flag)},
    {.name = "three-way", .kind = OPTION_TRISTATE, .fallback = "True", .target = offsetof(sample, tristate)},
    {.name = "color", .alias = "colour", .kind = OPTION_CHOICE, .fallback = "green", .placeholder = "COLOR",
     .target = offsetof(sample, choice), .choices = colors},
    {.name = "whole", .letter = 'w', .kind = OPTION_WHOLE, .fallback = "7", .placeholder = "N", .low = -5, .high = 10,
     .none = 1, .none_value = -99, .target = offsetof(sample, whole)},
    {.name = "number", .kind = OPTION_NUMBER, .fallback = "0.5", .low = -1, .high = 2,
     .target = offsetof(sample, number)},
    {.name = "text", .letter = 't', .kind = OPTION_TEXT, .check = check_text, .target = offsetof(sample, text)},
    {.name = "pieces", .peers = "parts slices-at-once", .kind = OPTION_WHOLE, .fallback = "none", .placeholder = "[N]",
     .low = 1, .high = 9, .none = 1, .none_value = 0, .alone = "auto", .alone_value = -1,
     .target = offsetof(sample, pieces)},
    {.name = "never", .kind = OPTION_REFUSED, .help = "not here"},
    {.name = "whatever", .kind = OPTION_IGNORED},
    {.name = "help", .letter = 'h', .kind = OPTION_HELP},
    {.name = NULL},
};
/* clang-format on */

/* One command line (words split at spaces, "''" is an empty word) and what comes of it. */
static options_status parse(const char *line, sample *s, options_outcome *outcome) {
    static char copy[256];
    static char *words[32];
    int n = 0;
    snprintf(copy, sizeof(copy), "%s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        words[n++] = strcmp(word, "''") ? word : (char *)"";
    memset(s, 0, sizeof(*s));
    return options_parse(table, s, n, words, outcome);
}

static void test_defaults(void) {
    sample s;
    options_outcome o;
    CHECK_EQ_INT(parse("", &s, &o), OPTIONS_OK);
    CHECK_EQ_INT(o.n_words, 0);
    CHECK(!s.flag && s.tristate == 1 && s.choice == 1 && s.whole == 7 && s.number == 0.5 && !s.text);
}

static void test_values(void) {
    static const struct {
        const char *line;
        sample want;
        int n_words;
    } cases[] = {
        {"--flag", {1, 1, 1, 7, 0.5, NULL}, 0},
        {"-f", {1, 1, 1, 7, 0.5, NULL}, 0},
        {"--flag False x", {0, 1, 1, 7, 0.5, NULL}, 1},
        {"--flag x", {1, 1, 1, 7, 0.5, NULL}, 1},
        {"--flag=yes --flag=no", {0, 1, 1, 7, 0.5, NULL}, 0},
        {"--three_way None", {0, -1, 1, 7, 0.5, NULL}, 0},
        {"--three-way=false", {0, 0, 1, 7, 0.5, NULL}, 0},
        {"--three-way", {0, 1, 1, 7, 0.5, NULL}, 0},
        {"--color blue", {0, 1, 2, 7, 0.5, NULL}, 0},
        {"--colour=red", {0, 1, 0, 7, 0.5, NULL}, 0},
        {"--whole -5", {0, 1, 1, -5, 0.5, NULL}, 0},
        {"--whole=+10", {0, 1, 1, 10, 0.5, NULL}, 0},
        {"--whole none", {0, 1, 1, -99, 0.5, NULL}, 0},
        {"-w3", {0, 1, 1, 3, 0.5, NULL}, 0},
        {"-w=3", {0, 1, 1, 3, 0.5, NULL}, 0},
        {"-fw 3 a b", {1, 1, 1, 3, 0.5, NULL}, 2},
        {"--number 1e0", {0, 1, 1, 7, 1, NULL}, 0},
        {"--number -.25", {0, 1, 1, 7, -0.25, NULL}, 0},
        {"--text a=b", {0, 1, 1, 7, 0.5, "a=b"}, 0},
        {"--text=--flag", {0, 1, 1, 7, 0.5, "--flag"}, 0},
        {"--text --other", {0, 1, 1, 7, 0.5, "--other"}, 0},
        {"--text ''", {0, 1, 1, 7, 0.5, ""}, 0},
        {"a --flag -- --flag -f", {1, 1, 1, 7, 0.5, NULL}, 3},
        {"- a -", {0, 1, 1, 7, 0.5, NULL}, 3},
        {"--never False --never=None --never 0", {0, 1, 1, 7, 0.5, NULL}, 0},
        {"--whatever x --whatever=", {0, 1, 1, 7, 0.5, NULL}, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sample s;
        options_outcome o;
        const sample *want = &cases[i].want;
        int right = parse(cases[i].line, &s, &o) == OPTIONS_OK && s.flag == want->flag &&
                    s.tristate == want->tristate && s.choice == want->choice && s.whole == want->whole &&
                    s.number == want->number && o.n_words == cases[i].n_words;
        if (!CHECK(right))
            printf("    %s: %s\n", cases[i].line, o.message);
        CHECK_STR(s.text, want->text);
    }
}

/* An option that may stand alone, under the names of others too. */
static void test_alone(void) {
    static const struct {
        const char *line;
        int64_t pieces;
        int n_words;
    } cases[] = {{"x", 0, 1}, {"--pieces", -1, 0}, {"--pieces x", -1, 1}, {"--pieces 3 x", 3, 1}, {"--pieces=4", 4, 0},
                 {"--pieces --flag", -1, 0}, {"--pieces ./3", -1, 1}, {"--pieces auto x", -1, 1}, {"--parts 5", 5, 0},
                 {"--pieces none x", 0, 1}, {"--slices_at_once x", -1, 1}, {"--slices-at-once=2", 2, 0}};
    sample s;
    options_outcome o;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (!CHECK(parse(cases[i].line, &s, &o) == OPTIONS_OK && s.pieces == cases[i].pieces &&
                   o.n_words == cases[i].n_words))
            printf("    %s: %lld, %d words, %s\n", cases[i].line, (long long)s.pieces, o.n_words, o.message);
    static const char *const wrong[] = {"--pieces 10", "--pieces=x", "--pieces=", "--pieces 0"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        CHECK_EQ_INT(parse(wrong[i], &s, &o), OPTIONS_WRONG);
        CHECK(strstr(o.message, "is not a whole number from 1 to 9, auto or none") != NULL);
    }
    CHECK_EQ_INT(parse("--part", &s, &o), OPTIONS_WRONG);
    CHECK_EQ_INT(parse("--slices", &s, &o), OPTIONS_WRONG);
    CHECK_EQ_INT(parse("--", &s, &o), OPTIONS_OK);
}

static void test_words(void) {
    sample s;
    options_outcome o;
    CHECK_EQ_INT(parse("one --flag two --text x three", &s, &o), OPTIONS_OK);
    CHECK_EQ_INT(o.n_words, 3);
    CHECK_STR(o.words[0], "one");
    CHECK_STR(o.words[1], "two");
    CHECK_STR(o.words[2], "three");
    CHECK_EQ_INT(parse("--flag x --help --nonsense", &s, &o), OPTIONS_WANT_HELP);
    CHECK_EQ_INT(parse("-fh", &s, &o), OPTIONS_WANT_HELP);
}

static void test_mistakes(void) {
    static const char *const cases[][2] = {
        {"--flg", "unknown option '--flg'; did you mean '--flag'?"},
        {"--zzzzzz", "unknown option '--zzzzzz'; see --help"},
        {"--fla", "unknown option '--fla'; did you mean '--flag'?"},
        {"--flag=maybe", "--flag: 'maybe' is not True or False"},
        {"--three-way=maybe", "--three-way: 'maybe' is not True, False or None"},
        {"--color bleu", "--color: 'bleu' is not one of red, green, blue; did you mean 'blue'?"},
        {"--color ''", "--color: '' is not one of red, green, blue"},
        {"--whole 11", "--whole: '11' is not a whole number from -5 to 10, or none"},
        {"--whole 1.0", "--whole: '1.0' is not a whole number from -5 to 10, or none"},
        {"--whole ''", "--whole: '' is not a whole number from -5 to 10, or none"},
        {"--whole 0x1", "--whole: '0x1' is not a whole number from -5 to 10, or none"},
        {"--number none", "--number: 'none' is not a number from -1 to 2"},
        {"--number inf", "--number: 'inf' is not a number from -1 to 2"},
        {"--number 2.001", "--number: '2.001' is not a number from -1 to 2"},
        {"--number 1e", "--number: '1e' is not a number from -1 to 2"},
        {"--text !a", "--text: no '!a' here"},
        {"--text", "--text: needs a value (VALUE)"},
        {"--whole --flag", "--whole: needs a value (N)"},
        {"--whole --", "--whole: needs a value (N)"},
        {"-w", "--whole: needs a value (N)"},
        {"-fx", "unknown option '-x' in '-fx'; see --help"},
        {"--never", "--never: not here"},
        {"--never 3", "--never: not here"},
        {"---flag", "unknown option '---flag'; did you mean '--flag'?"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sample s;
        options_outcome o;
        CHECK_EQ_INT(parse(cases[i][0], &s, &o), OPTIONS_WRONG);
        CHECK_STR(o.message, cases[i][1]);
    }
}

static void test_distance(void) {
    CHECK_EQ_INT(edit_distance("", ""), 0);
    CHECK_EQ_INT(edit_distance("", "abc"), 3);
    CHECK_EQ_INT(edit_distance("srt", "str"), 1);
    CHECK_EQ_INT(edit_distance("kitten", "sitting"), 3);
    CHECK_EQ_INT(edit_distance("beam_size", "beam-size"), 0);
    CHECK_EQ_INT(edit_distance("German", "german"), 0);
    char longer[300];
    memset(longer, 'x', sizeof(longer));
    longer[299] = 0;
    CHECK_EQ_INT(edit_distance(longer, "x"), 63);
    suggestion s;
    suggestion_start(&s, "sizes");
    suggestion_offer(&s, "size");
    suggestion_offer(&s, "beam-size");
    CHECK_STR(s.best, "size");
    suggestion_start(&s, "q");
    suggestion_offer(&s, "a");
    CHECK_STR(s.best, NULL);
    suggestion_start(&s, longer);
    suggestion_offer(&s, "x");
    CHECK_STR(s.best, NULL);
}

static void test_json(void) {
    char text[512] = "";
    FILE *file = fmemopen(text, sizeof(text), "w");
    json_writer json;
    json_start(&json, file, 0);
    json_begin(&json, NULL);
    json_text(&json, "a\"b", "x\\y\n\x01\xC3\xA9\xFF\xE2\x82");
    json_text(&json, "none", NULL);
    json_list(&json, "list");
    json_whole(&json, NULL, -3);
    json_number(&json, NULL, 0.5, 3);
    json_number(&json, NULL, 1.0 / 0.0, 3);
    json_bool(&json, NULL, 1);
    json_begin(&json, NULL);
    json_end(&json);
    json_end(&json);
    json_wholes(&json, "shape", (int64_t[]){3, 4}, 2);
    json_wholes(&json, "scalar", NULL, 0);
    json_end(&json);
    fclose(file);
    CHECK_STR(text, "{\"a\\\"b\": \"x\\\\y\\n\\u0001\xC3\xA9\\ufffd\\ufffd\\ufffd\", \"none\": null, "
                    "\"list\": [-3, 0.500, null, true, {}], \"shape\": [3, 4], \"scalar\": []}\n");
}

static void test_times_and_names(void) {
    static const struct {
        double seconds;
        const char *text;
    } times[] = {
        {0, "00:00.000"},          {7.44, "00:07.440"},          {59.9994, "00:59.999"},  {59.9996, "01:00.000"},
        {0.0005, "00:00.000"},     {0.0015, "00:00.002"},        {3599.999, "59:59.999"}, {3600, "01:00:00.000"},
        {36061.5, "10:01:01.500"}, {360000.25, "100:00:00.250"}, {-1, "00:00.000"},
    };
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        char text[40];
        screen_timestamp(text, sizeof(text), times[i].seconds);
        CHECK_STR(text, times[i].text);
    }
    static const char *const names[][2] = {
        {"a.wav", "a"},
        {"dir.d/talk.one.mp3", "talk.one"},
        {"/x/.hidden", ".hidden"},
        {"..a.b", "..a"},
        {"noext", "noext"},
        {"-", "stdin"},
        {"./-", "-"},
        {"a.", "a"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t length;
        char stem[64];
        const char *start = outputs_stem(names[i][0], &length);
        snprintf(stem, sizeof(stem), "%.*s", (int)length, start);
        CHECK_STR(stem, names[i][1]);
    }
}

/* The defaults that help shows are the library's own. */
static void test_transcribe_defaults(void) {
    transcribe_options options;
    mxw_session_options got, want;
    mxw_model_options model;
    memset(&options, 0, sizeof(options));
    options_default(transcribe_rows, &options);
    transcribe_session_options(&options, &got);
    mxw_session_options_default(&want);
    mxw_model_options_default(&model);
    CHECK(got.task == want.task && !got.language && !want.language);
    CHECK(got.temperature == want.temperature && got.temperature_increment == want.temperature_increment);
    CHECK(got.best_of == want.best_of && got.beam_size == want.beam_size);
    CHECK(got.patience == want.patience && got.length_penalty == want.length_penalty);
    CHECK(got.repetition_penalty == want.repetition_penalty && got.no_repeat_ngram_size == want.no_repeat_ngram_size);
    CHECK_STR(got.suppress_tokens, want.suppress_tokens);
    CHECK(got.suppress_blank == want.suppress_blank && got.carry_initial_prompt == want.carry_initial_prompt);
    CHECK(!got.initial_prompt && !want.initial_prompt && !got.prefix && !want.prefix);
    CHECK(got.condition_on_previous_text == want.condition_on_previous_text);
    CHECK(got.compression_ratio_threshold == want.compression_ratio_threshold);
    CHECK(got.logprob_threshold == want.logprob_threshold && got.no_speech_threshold == want.no_speech_threshold);
    CHECK(got.sample_len == want.sample_len && got.without_timestamps == want.without_timestamps);
    CHECK(got.max_initial_timestamp == want.max_initial_timestamp);
    CHECK_STR(got.clip_timestamps, want.clip_timestamps);
    CHECK(got.seed == want.seed && got.mel_reference == want.mel_reference);
    CHECK(got.word_timestamps == want.word_timestamps && got.token_details == want.token_details);
    CHECK(got.hallucination_silence_threshold == want.hallucination_silence_threshold);
    CHECK_STR(got.prepend_punctuations, want.prepend_punctuations);
    CHECK_STR(got.append_punctuations, want.append_punctuations);
    CHECK(got.vad == want.vad && !got.vad_model && got.vad_threshold == want.vad_threshold);
    CHECK(got.vad_min_silence_ms == want.vad_min_silence_ms && got.vad_min_speech_ms == want.vad_min_speech_ms);
    CHECK(got.vad_max_speech_s == want.vad_max_speech_s && got.vad_pad_ms == want.vad_pad_ms);
    CHECK(got.parallel == want.parallel && got.guard == want.guard && !got.languages);
    CHECK_STR(options.model.model, model.model);
    CHECK_STR(options.model.device, model.device);
    CHECK(options.model.engine == (int)model.engine && options.model.threads == model.threads);
}

/* A default that its own option refuses would silently be zero. */
static void test_tables(void) {
    for (int i = 0; commands[i].words; i++) {
        const command *c = commands[i].command;
        CHECK(c->options_size <= MAX_OPTIONS_BYTES);
        for (const option_row *row = c->options; row->name; row++) {
            char word[128], *words[] = {word};
            _Alignas(16) char target[MAX_OPTIONS_BYTES] = {0};
            options_outcome o;
            CHECK(row->help && row->group && options_find(c->options, row->name, strlen(row->name)) == row);
            if (!row->fallback)
                continue;
            snprintf(word, sizeof(word), "--%s=%s", row->name, row->fallback);
            if (!CHECK_EQ_INT(options_parse(c->options, target, 1, words, &o), OPTIONS_OK))
                printf("    %s: %s\n", word, o.message);
        }
    }
}

int main(void) {
    test_defaults();
    test_values();
    test_alone();
    test_words();
    test_mistakes();
    test_distance();
    test_json();
    test_times_and_names();
    test_transcribe_defaults();
    test_tables();
    return check_done();
}
