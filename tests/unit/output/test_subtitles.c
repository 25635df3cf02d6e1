/* tests/unit/output/test_subtitles.c - words in srt, vtt and json against the bytes of openai-whisper's writers, under
 * every option; what the formats of our own make of them. */
#include <jansson.h>
#include <math.h>

#include "kit/check.h"
#include "output/output.h"

static int gather(void *user, const void *bytes, size_t n) {
    mx_str_add(user, bytes, n);
    return 0;
}

static double number(const json_t *row, const char *key) { return json_number_value(json_object_get(row, key)); }
static const char *text(const json_t *row, const char *key) { return json_string_value(json_object_get(row, key)); }

static void fill_segment(const json_t *row, mxw_segment *segment, mx_arena *arena) {
    const json_t *words = json_object_get(row, "words"), *tokens = json_object_get(row, "tokens");
    size_t n = json_array_size(words), n_tokens = json_array_size(tokens);
    mxw_word *copies = mx_arena_alloc(arena, (n + 1) * sizeof(*copies));
    int32_t *ids = mx_arena_alloc(arena, (n_tokens + 1) * sizeof(*ids));
    for (size_t i = 0; i < n; i++) {
        const json_t *word = json_array_get(words, i);
        copies[i] = (mxw_word){number(word, "start"), number(word, "end"), text(word, "word"),
                               number(word, "probability")};
    }
    for (size_t i = 0; i < n_tokens; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(tokens, i));
    *segment = (mxw_segment){.id = (int64_t)number(row, "id"), .start = number(row, "start"), .end = number(row, "end"),
                             .text = text(row, "text"), .tokens = ids, .n_tokens = n_tokens,
                             .avg_logprob = number(row, "avg_logprob"),
                             .compression_ratio = number(row, "compression_ratio"),
                             .no_speech_prob = number(row, "no_speech_prob"), .words = mx_word_array(copies),
                             .n_words = n};
}

static void check_row(const json_t *row, int line) {
    static const char *const formats[] = {"srt", "vtt", "json"};
    const json_t *options = json_object_get(row, "options"), *rows = json_object_get(row, "segments");
    mx_arena arena = {0};
    mx_str all = {0};
    size_t n = json_array_size(rows);
    mxw_segment *segments = mx_arena_alloc(&arena, (n + 1) * sizeof(*segments));
    mxw_write_options write = {.struct_size = sizeof(write), .max_line_width = (int)number(options, "max_line_width"),
                               .max_line_count = (int)number(options, "max_line_count"),
                               .max_words_per_line = (int)number(options, "max_words_per_line"),
                               .highlight_words = json_is_true(json_object_get(options, "highlight_words"))};
    for (size_t i = 0; i < n; i++) {
        fill_segment(json_array_get(rows, i), &segments[i], &arena);
        mx_str_text(&all, segments[i].text);
    }
    mxw_result result = {.text = mx_str_get(&all), .language = "en",
                         .segments = mx_segment_array(segments), .n_segments = n};
    for (size_t i = 0; i < MX_COUNT(formats); i++) {
        mx_str got = {0};
        CHECK_EQ_INT(mx_output_write(&result, formats[i], &write, gather, &got), MXW_OK);
        if (!CHECK_STR(mx_str_get(&got), text(row, formats[i])))
            printf("    line %d, %s\n", line, formats[i]);
        mx_str_free(&got);
    }
    mx_str_free(&all);
    mx_arena_free(&arena);
}

static void test_golden(void) {
    char path[4096];
    const char *root = getenv("MXW_SOURCE_ROOT");
    snprintf(path, sizeof(path), "%s/tests/golden/data/subtitles.jsonl", root ? root : ".");
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    int n = 0;
    if (!CHECK(file != NULL))
        return;
    while (getline(&line, &room, file) > 0) {
        json_t *row = json_loads(line, 0, NULL);
        if (CHECK(row != NULL))
            check_row(row, ++n);
        json_decref(row);
    }
    CHECK(n >= 48);
    free(line);
    fclose(file);
}

static const mxw_word words[] = {{0.5, 1.25, " {Say}", 0.5}, {1.25, 65.5, " \"hi\",", 0.25}, {65.5, 66, " you", 1}};
static const mxw_token chosen[] = {{7, -0.5, " {Say}"}}, others[] = {{8, -1, "\xef\xbf\xbd"}, {-1, -INFINITY, NULL}};
static const int32_t ids[] = {7};
static const mxw_segment spoken = {.text = " {Say} \"hi\", you", .start = 0.5, .end = 66, .n_words = 3,
                                   .words = (const mxw_word_array *)words,
                                   .tokens = ids, .n_tokens = 1, .details = (const mxw_token_array *)chosen,
                                   .alternatives = (const mxw_token_array *)others,
                                   .n_alternatives = 2, .channel = 2, .speaker = "right"};
static const mxw_segment plain = {.id = 1, .text = " a {b}\n c", .start = 3600, .end = 3601.006};

static void check_bytes(const mxw_result *result, const char *format, const mxw_write_options *options,
                        const char *want) {
    mx_str got = {0};
    CHECK_EQ_INT(mx_output_write(result, format, options, gather, &got), MXW_OK);
    const char *from = !strcmp(format, "ass") ? strstr(mx_str_get(&got), "Dialogue") : mx_str_get(&got);
    CHECK_STR(from ? from : "", want);
    mx_str_free(&got);
}

static void test_own_formats(void) {
    mxw_result one = {.text = "x", .language = "en", .segments = mx_segment_array(&spoken), .n_segments = 1};
    mxw_result two = {.text = "x", .language = "en", .segments = mx_segment_array(&plain), .n_segments = 1};
    mxw_write_options marked = {.struct_size = sizeof(marked), .highlight_words = 1, .max_line_width = 20};
    check_bytes(&one, "lrc", NULL,
                "[by:max-whisper]\n[00:00.50][right] <00:00.50>{Say} <00:01.25>\"hi\", <01:05.50>you\n");
    check_bytes(&two, "lrc", NULL, "[by:max-whisper]\n[60:00.00]a {b}  c\n");
    check_bytes(&one, "csv", NULL, "start,end,speaker,text\n500,66000,\"right\",\"{Say} \"\"hi\"\", you\"\n");
    check_bytes(&two, "csv", NULL, "start,end,text\n3600000,3601006,\"a {b}\n c\"\n");
    check_bytes(&two, "ass", NULL, "Dialogue: 0,1:00:00.00,1:00:01.01,Default,,0,0,0,,a \\{b\\}  c\n");
    check_bytes(&one, "ass", NULL, "Dialogue: 0,0:00:00.50,0:01:06.00,Default,,0,0,0,,[right] \\{Say\\} \"hi\", you\n");
    check_bytes(&one, "ass", &marked,
                "Dialogue: 0,0:00:00.50,0:00:01.25,Default,,0,0,0,,{\\u1}[right] \\{Say\\}{\\u0} \"hi\",\\Nyou\n"
                "Dialogue: 0,0:00:01.25,0:01:05.50,Default,,0,0,0,,[right] \\{Say\\} {\\u1}\"hi\",{\\u0}\\Nyou\n"
                "Dialogue: 0,0:01:05.50,0:01:06.00,Default,,0,0,0,,[right] \\{Say\\} \"hi\",\\N{\\u1}you{\\u0}\n");
}

static void test_json_full(void) {
    const mxw_stage_times times = {.encode_ms = 1.23456};
    mxw_result one = {.text = "x", .language = "en", .language_probability = -1,
                      .segments = mx_segment_array(&spoken), .n_segments = 1,
                      .duration_s = 66.5, .times = &times};
    mxw_write_options options = {.struct_size = sizeof(options), .manifest = "{\"version\": \"1\"}"};
    mx_str got = {0};
    CHECK_EQ_INT(mx_output_write(&one, "json-full", &options, gather, &got), MXW_OK);
    json_t *root = json_loads(mx_str_get(&got), 0, NULL);
    const json_t *segment = json_array_get(json_object_get(root, "segments"), 0);
    const json_t *token = json_array_get(json_object_get(segment, "token_details"), 0);
    CHECK(root && json_is_null(json_object_get(root, "language_probability")));
    CHECK_STR(text(json_object_get(root, "manifest"), "version"), "1");
    CHECK(number(json_object_get(root, "times"), "encode_ms") == 1.235 && number(root, "duration") == 66.5);
    CHECK(number(token, "logprob") == -0.5 && json_array_size(json_object_get(token, "alternatives")) == 1);
    CHECK_EQ_INT(json_array_size(json_object_get(segment, "words")), 3);
    json_decref(root);
    mx_str line = {0};
    CHECK_EQ_INT(mx_output_segment(&spoken, gather, &line), MXW_OK);
    mx_str_clear(&got);
    CHECK_EQ_INT(mx_output_write(&one, "jsonl", NULL, gather, &got), MXW_OK);
    CHECK_STR(mx_str_get(&got), mx_str_get(&line));
    CHECK(line.n > 0 && line.data[line.n - 1] == '\n' && strchr(line.data, '\n') == line.data + line.n - 1);
    mx_str_free(&line);
    mx_str_free(&got);
}

static void test_failures(void) {
    mxw_word late = {0.5, -1, " x", 1};
    mxw_segment segment = {.text = " x", .start = 0, .end = 1, .words = mx_word_array(&late), .n_words = 1};
    mxw_result result = {.text = "x", .segments = mx_segment_array(&segment), .n_segments = 1};
    mx_str got = {0};
    CHECK_EQ_INT(mx_output_write(&result, "srt", NULL, gather, &got), MXW_E_ARGUMENT);
    mx_str_free(&got);
}

int main(void) {
    test_golden();
    test_own_formats();
    test_json_full();
    test_failures();
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
