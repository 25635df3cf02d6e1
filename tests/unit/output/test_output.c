/* Every format against the bytes of openai-whisper's own writers, then the ways in which writing can fail. */
#include "output/output.h"

#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/check.h"

static const mxw_stage_times no_times;

static int gather(void *user, const void *bytes, size_t n) {
    mx_str_add(user, bytes, n);
    return 0;
}

static double number(const json_t *object, const char *key) { return json_number_value(json_object_get(object, key)); }

static void fill_segment(const json_t *row, mxw_segment *s, mx_arena *arena) {
    const json_t *tokens = json_object_get(row, "tokens");
    int32_t *ids = mx_arena_alloc(arena, json_array_size(tokens) * sizeof(*ids));
    for (size_t i = 0; i < json_array_size(tokens); i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(tokens, i));
    *s = (mxw_segment){.id = json_integer_value(json_object_get(row, "id")),
                       .seek = json_integer_value(json_object_get(row, "seek")),
                       .start = number(row, "start"),
                       .end = number(row, "end"),
                       .text = json_string_value(json_object_get(row, "text")),
                       .tokens = ids,
                       .n_tokens = json_array_size(tokens),
                       .temperature = number(row, "temperature"),
                       .avg_logprob = number(row, "avg_logprob"),
                       .compression_ratio = number(row, "compression_ratio"),
                       .no_speech_prob = number(row, "no_speech_prob")};
}

static mxw_result make_result(const json_t *source, mx_arena *arena) {
    const json_t *rows = json_object_get(source, "segments");
    mxw_segment *segments = mx_arena_alloc(arena, json_array_size(rows) * sizeof(*segments));
    for (size_t i = 0; i < json_array_size(rows); i++)
        fill_segment(json_array_get(rows, i), &segments[i], arena);
    return (mxw_result){.text = json_string_value(json_object_get(source, "text")),
                        .language = json_string_value(json_object_get(source, "language")),
                        .segments = mx_segment_array(segments),
                        .times = &no_times,
                        .n_segments = json_array_size(rows)};
}

static void check_same(const json_t *want, const mx_str *got, const char *name, const char *format) {
    if (CHECK(got->n == json_string_length(want) && memcmp(mx_str_get(got), json_string_value(want), got->n) == 0))
        return;
    size_t i = 0;
    for (; i < got->n && i < json_string_length(want) && got->data[i] == json_string_value(want)[i]; i++)
        ;
    printf("    result \"%s\" as %s: first difference at byte %zu of %zu (want %zu)\n", name, format, i, got->n,
           json_string_length(want));
}

static void check_results(const json_t *golden) {
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(golden, "results"), i, row) {
        mx_arena arena = {0};
        const char *name = json_string_value(json_object_get(row, "name")), *format;
        mxw_result result = make_result(json_object_get(row, "result"), &arena);
        for (int k = 0; (format = mx_output_format(k)) != NULL; k++) {
            mx_str got = {0};
            CHECK_EQ_INT(mx_output_write(&result, format, NULL, gather, &got), MXW_OK);
            if (json_is_string(json_object_get(row, format)))
                check_same(json_object_get(row, format), &got, name, format);
            mx_str_free(&got);
        }
        mx_arena_free(&arena);
    }
    CHECK(i >= 7);
}

static void check_doubles(const json_t *golden) {
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(golden, "doubles"), i, row) {
        uint64_t bits = strtoull(json_string_value(json_array_get(row, 0)), NULL, 16);
        double value;
        char got[32];
        memcpy(&value, &bits, sizeof(value));
        mx_format_double(value, got);
        CHECK_STR(got, json_string_value(json_array_get(row, 1)));
    }
    CHECK(i > 400);
}

static const int32_t some_tokens[] = {1, 22, 50257};
static const mxw_segment kept = {.id = 1, .start = 1, .end = 2, .text = " kept", .tokens = some_tokens, .n_tokens = 3};
static const mxw_segment cleared = {.id = 0, .start = 0.5, .end = 0.5, .text = ""};

static mxw_result result_of(const mxw_segment *segments, size_t n) {
    return (mxw_result){.text = " kept", .language = "de", .segments = mx_segment_array(segments), .n_segments = n,
                        .times = &no_times};
}

static void check_bytes(const mxw_result *result, const char *format, const char *want) {
    mx_str got = {0};
    CHECK_EQ_INT(mx_output_write(result, format, NULL, gather, &got), MXW_OK);
    CHECK_STR(mx_str_get(&got), want);
    mx_str_free(&got);
}

/* What the golden file cannot hold: where the reference fails, and numbers that JSON has no form for. */
static void check_corners(void) {
    const mxw_segment two[] = {cleared, kept};
    mxw_result result = result_of(two, 2);
    check_bytes(&result, "srt", "1\n00:00:00,500 --> 00:00:00,500\n\n\n2\n00:00:01,000 --> 00:00:02,000\nkept\n\n");
    check_bytes(&result, "vtt", "WEBVTT\n\n00:00.500 --> 00:00.500\n\n\n00:01.000 --> 00:02.000\nkept\n\n");
    mxw_segment odd = kept;
    odd.avg_logprob = -INFINITY, odd.no_speech_prob = NAN, odd.compression_ratio = INFINITY, odd.text = "\xff\xe2\x82!";
    result = result_of(&odd, 1);
    result.language = NULL;
    check_bytes(&result, "json",
                "{\"text\": \" kept\", \"segments\": [{\"id\": 1, \"seek\": 0, \"start\": 1.0, \"end\": 2.0, \"text\": "
                "\"\\ufffd\\ufffd!\", \"tokens\": [1, 22, 50257], \"temperature\": 0.0, \"avg_logprob\": -Infinity, "
                "\"compression_ratio\": Infinity, \"no_speech_prob\": NaN}], \"language\": null}");
}

/* A speaker stands before the text, if there is any, and in json has keys of its own. */
static void check_speakers(void) {
    mxw_segment two[] = {cleared, kept};
    two[0].speaker = two[1].speaker = "left";
    two[0].channel = two[1].channel = 1;
    mxw_result result = result_of(two, 2);
    check_bytes(&result, "txt", "\n[left] kept\n");
    check_bytes(&result, "tsv", "start\tend\ttext\n500\t500\t\n1000\t2000\t[left] kept\n");
    check_bytes(&result, "srt",
                "1\n00:00:00,500 --> 00:00:00,500\n\n\n2\n00:00:01,000 --> 00:00:02,000\n[left] kept\n\n");
    check_bytes(&result, "vtt", "WEBVTT\n\n00:00.500 --> 00:00.500\n\n\n00:01.000 --> 00:02.000\n[left] kept\n\n");
    two[1].speaker = "\"R\xc3\xa9mi\"";
    two[1].channel = 12;
    result = result_of(two + 1, 1);
    mx_str got = {0};
    CHECK_EQ_INT(mx_output_write(&result, "json", NULL, gather, &got), MXW_OK);
    CHECK(strstr(mx_str_get(&got), ", \"channel\": 12, \"speaker\": \"\\\"R\\u00e9mi\\\"\"}]") != NULL);
    mx_str_free(&got);
}

static void check_holds(const mxw_result *result, const char *format, const char *part, int want) {
    mx_str got = {0};
    CHECK_EQ_INT(mx_output_write(result, format, NULL, gather, &got), MXW_OK);
    if (!CHECK_EQ_INT(strstr(mx_str_get(&got), part) != NULL, want))
        printf("    %s in %s: %s\n", part, format, mx_str_get(&got));
    mx_str_free(&got);
}

/* What was asked for has its keys and columns; subtitles and txt stay as they are. */
static void check_hearing(void) {
    const mxw_word words[] = {{.start = 1, .end = 2, .word = " kept", .suspicion = 0.875, .reasons = 1u | 1u << 5}};
    const mxw_region regions[] = {{.start = 0.9, .end = 2.1}, {.start = 3, .end = 4, .channel = 2}};
    mxw_segment s = kept;
    mxw_result result = result_of(&s, 1), plain = result;
    result.regions = mx_region_array(regions), result.n_regions = 2, result.skipped_s = 12.5;
    check_holds(&result, "json", "\"language\": \"de\", \"regions\": [{\"start\": 0.9, \"end\": 2.1}, {\"start\": 3.0, "
                "\"end\": 4.0, \"channel\": 2}], \"skipped\": 12.5}", 1);
    check_holds(&result, "json-full", "}], \"regions\": [{", 1);
    check_holds(&result, "json-full", "\"total_ms\": 0.0, \"vad_ms\": 0.0}", 1);
    check_holds(&plain, "json-full", "vad_ms", 0);
    check_holds(&plain, "json-full", "regions", 0);
    check_holds(&result, "jsonl", "regions", 0);
    result.n_regions = 0, result.n_words_suspected = 3; /* silence alone is found, too */
    check_holds(&result, "json", "\"regions\": [], \"skipped\": 12.5, \"words_suspected\": 3}", 1);
    s.language = "de", s.language_probability = -1; /* as a session gives it without languages */
    check_bytes(&plain, "csv", "start,end,text\n1000,2000,\"kept\"\n");
    check_bytes(&plain, "tsv", "start\tend\ttext\n1000\t2000\tkept\n");
    check_holds(&plain, "jsonl", "language", 0);
    s.language_probability = 0.987654;
    check_bytes(&plain, "csv", "start,end,language,language_probability,text\n1000,2000,de,0.9877,\"kept\"\n");
    check_bytes(&plain, "tsv", "start\tend\ttext\tlanguage\tlanguage_probability\n1000\t2000\tkept\tde\t0.9877\n");
    check_holds(&plain, "jsonl", "\"no_speech_prob\": 0.0, \"language\": \"de\", \"language_probability\": 0.9877}", 1);
    check_holds(&plain, "jsonl", "suspicion", 0);
    s.suspicion = 0.25, s.words = mx_word_array(words), s.n_words = 1;
    check_holds(&plain, "json", "\"suspicion\": 0.25, \"reasons\": [], \"words\": [", 1);
    check_holds(&plain, "json", "\"suspicion\": 0.875, \"reasons\": [\"silence\", \"repetition\"]}]", 1);
    check_bytes(&plain, "txt", "kept\n");
    check_bytes(&plain, "srt", "1\n00:00:01,000 --> 00:00:02,000\nkept\n\n");
    CHECK(mxw_suspicion_reason(-1) == NULL && mxw_suspicion_reason(32) == NULL);
    CHECK_STR(mxw_suspicion_reason(0), "silence");
}

#define SEGMENT(start_, end_, text_) {.start = start_, .end = end_, .text = text_}

/* By starts, each channel's own order kept, the first of equals first, in whatever order they come; renumbered;
 * times and counts of all; nothing of what was added is needed any more. */
static const mxw_result *merge_three(mx_merge *merge, int first) {
    char texts[] = " a\0 b\0 c\0\0 A\0 B\0 C", speaker[] = "left", language[] = "uk";
    int32_t tokens[] = {7, 8};
    mxw_segment left[] = {SEGMENT(0, 2, texts), SEGMENT(5, 6, texts + 3), SEGMENT(4, 7, texts + 6),
                          SEGMENT(9, 9, texts + 9)};
    mxw_segment right[] = {SEGMENT(0, 1, texts + 10), SEGMENT(4.5, 5, texts + 13), SEGMENT(8, 9, texts + 16)};
    mxw_result results[3] = {result_of(left, 4), result_of(right, 3), result_of(NULL, 0)};
    left[0].speaker = speaker, left[0].tokens = tokens, left[0].n_tokens = 2;
    results[0].duration_s = 9, results[1].duration_s = 10, results[0].n_windows = 2, results[1].n_windows = 3;
    const mxw_stage_times times[2] = {{.encode_ms = 5}, {.encode_ms = 7, .total_ms = 20}};
    results[0].times = &times[0], results[1].times = &times[1];
    results[0].language = "fr", results[0].language_probability = 0.5;
    const mxw_region speech[] = {{1, 2, 1, language, 0.75}, {4, 5, 1, NULL, 0}, {8, 9, 1, NULL, 0}};
    const mxw_region other[] = {{0, 1, 2, NULL, 0}, {4, 6, 2, language, 0.5}, {9, 10, 2, NULL, 0}};
    results[0].regions = mx_region_array(speech), results[0].n_regions = 3, results[0].skipped_s = 4;
    results[1].regions = mx_region_array(other), results[1].n_regions = 3, results[1].skipped_s = 5;
    results[0].n_words_suspected = 1, results[1].n_words_suspected = 2;
    for (int i = 0; i < 3; i++) {
        int k = (i + first) % 3;
        if (mx_merge_add(merge, k + 1, &results[k]) < 0)
            return NULL;
    }
    memset(texts, '!', sizeof(texts) - 1);
    memset(speaker, '!', sizeof(speaker) - 1);
    memset(language, '!', sizeof(language) - 1);
    memset(tokens, 0, sizeof(tokens));
    return mx_merge_result(merge);
}

static void check_merge(void) {
    static const char *const want[] = {" a", " A", " B", " b", " c", " C", ""};
    int64_t live = mx_mem_live();
    for (int first = 0; first < 3; first++) {
        mx_merge *merge = NULL;
        CHECK_EQ_INT(mx_merge_open(&merge), MXW_OK);
        CHECK(mx_merge_result(merge)->n_segments == 0 && mx_merge_result(merge)->language == NULL);
        CHECK(mx_merge_result(merge)->regions == NULL);
        const mxw_result *r = merge_three(merge, first);
        CHECK_EQ_INT(r->n_segments, MX_COUNT(want));
        for (size_t i = 0; i < r->n_segments && i < MX_COUNT(want); i++) {
            CHECK_STR(mxw_result_segment(r, i)->text, want[i]);
            CHECK_EQ_INT(mxw_result_segment(r, i)->id, i);
        }
        CHECK_STR(mxw_result_segment(r, 0)->speaker, "left");
        CHECK(mxw_result_segment(r, 0)->n_tokens == 2 && mxw_result_segment(r, 0)->tokens[1] == 8);
        CHECK(!mxw_result_segment(r, 1)->speaker && !mxw_result_segment(r, r->n_segments));
        CHECK_STR(r->text, " a A B b c C");
        CHECK_STR(r->language, "fr");
        CHECK(r->duration_s == 10 && r->n_windows == 5 && r->language_probability == 0.5);
        CHECK(r->times->encode_ms == 12 && r->times->total_ms == 20);
        static const double starts[] = {0, 1, 4, 4, 8, 9};
        static const int channels[] = {2, 1, 1, 2, 1, 2};
        CHECK(r->n_regions == 6 && r->skipped_s == 9 && r->n_words_suspected == 3 && !mxw_result_region(r, 6));
        for (size_t i = 0; i < r->n_regions && i < 6; i++)
            CHECK(mxw_result_region(r, i)->start == starts[i] && mxw_result_region(r, i)->channel == channels[i]);
        CHECK_STR(mxw_result_region(r, 1)->language, "uk");
        mx_merge_close(merge);
    }
    const mxw_result *r = NULL;
    for (int64_t k = 0; !r && k < 100; k++) {
        mx_merge *merge = NULL;
        mx_mem_fail_after(k);
        r = mx_merge_open(&merge) >= 0 ? merge_three(merge, 1) : NULL;
        mx_mem_fail_after(-1);
        mx_merge_close(merge);
        CHECK_EQ_INT(mx_mem_live(), live);
    }
    CHECK(r != NULL);
}

static int stop(void *user, const void *bytes, size_t n) {
    ++*(int *)user;
    return 1;
}

static void check_refusals(void) {
    const double bad[] = {-0.001, NAN, INFINITY, -INFINITY, 1e300};
    mx_str got = {0};
    for (size_t i = 0; i < MX_COUNT(bad); i++) {
        mxw_segment s = kept;
        s.end = bad[i];
        mxw_result result = result_of(&s, 1);
        const char *const timed[] = {"srt", "vtt", "tsv"};
        for (size_t k = 0; k < MX_COUNT(timed); k++) {
            CHECK_EQ_INT(mx_output_write(&result, timed[k], NULL, gather, &got), MXW_E_ARGUMENT);
            CHECK(strstr(mx_error(), "segment 1: end"));
        }
        CHECK_EQ_INT(mx_output_write(&result, "json", NULL, gather, &got), MXW_OK);
    }
    mxw_result result = result_of(&kept, 1);
    CHECK_EQ_INT(mx_output_write(&result, "doc", NULL, gather, &got), MXW_E_ARGUMENT);
    CHECK(strstr(mx_error(), "'doc'") && strstr(mx_error(), "txt, srt, vtt, tsv, json"));
    CHECK_EQ_INT(mx_output_write(&result, NULL, NULL, gather, &got), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mx_output_write(&result, "", NULL, gather, &got), MXW_E_ARGUMENT);
    int calls = 0;
    CHECK_EQ_INT(mx_output_write(&result, "txt", NULL, stop, &calls), MXW_E_ABORTED);
    CHECK_EQ_INT(calls, 1);
    CHECK(mx_output_format(-1) == NULL && mx_output_format(10) == NULL);
    mx_str_free(&got);
}

/* A long result goes out in pieces, stops at once when told to, and is the same bytes in a file. */
static void check_long(void) {
    const size_t n = 20000;
    mxw_segment *segments = mx_alloc_array(n, sizeof(*segments));
    for (size_t i = 0; i < n; i++)
        segments[i] = kept, segments[i].id = (int64_t)i;
    mxw_result result = result_of(segments, n);
    int calls = 0;
    CHECK_EQ_INT(mx_output_write(&result, "json", NULL, stop, &calls), MXW_E_ABORTED);
    CHECK_EQ_INT(calls, 1);
    mx_str got = {0};
    CHECK_EQ_INT(mx_output_write(&result, "json", NULL, gather, &got), MXW_OK);
    char folder[] = "/tmp/mxw-output-XXXXXX", path[64];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof(path), "%s/x.json", folder);
    CHECK_EQ_INT(mx_output_save(&result, "json", NULL, path), MXW_OK);
    mx_map map;
    CHECK_EQ_INT(mx_map_open(path, &map), MXW_OK);
    CHECK(map.n == got.n && map.n > 65536 && memcmp(map.data, got.data, got.n) == 0);
    mx_map_close(&map);
    /* A failure leaves what was there before. */
    segments[n - 1].start = NAN;
    CHECK_EQ_INT(mx_output_save(&result, "srt", NULL, path), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mx_output_save(&result, "doc", NULL, path), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mx_map_open(path, &map), MXW_OK);
    CHECK_EQ_INT(map.n, got.n);
    mx_map_close(&map);
    CHECK(unlink(path) == 0 && rmdir(folder) == 0); /* fails if a part of a file was left behind */
    CHECK_EQ_INT(mx_output_save(&result, "json", NULL, path), MXW_E_IO);
    CHECK(strstr(mx_error(), path));
    mx_str_free(&got);
    mx_free(segments);
}

static void check_memory(void) {
    mxw_result result = result_of(&kept, 1);
    int64_t live = mx_mem_live();
    const char *format;
    for (int f = 0; (format = mx_output_format(f)) != NULL; f++) {
        mxw_status status = MXW_E_MEMORY;
        for (int64_t k = 0; status == MXW_E_MEMORY && k < 1000; k++) {
            int calls = 0;
            mx_mem_fail_after(k);
            status = mx_output_write(&result, format, NULL, stop, &calls);
            mx_mem_fail_after(-1);
            CHECK(status == MXW_E_ABORTED || calls == 0);
            CHECK_EQ_INT(mx_mem_live(), live);
        }
        CHECK_EQ_INT(status, MXW_E_ABORTED);
    }
}

int main(void) {
    char path[4096];
    json_error_t error;
    json_t *golden =
        json_load_file(check_path("tests/golden/data/outputs.json", path, sizeof(path)), JSON_ALLOW_NUL, &error);
    if (!golden) {
        printf("%s:%d: %s\n", path, error.line, error.text);
        return 1;
    }
    check_results(golden);
    check_doubles(golden);
    check_corners();
    check_speakers();
    check_hearing();
    check_merge();
    check_refusals();
    check_long();
    check_memory();
    /* Where numbers have a decimal comma, files must not. */
    if (setlocale(LC_ALL, "de_DE.UTF-8") || setlocale(LC_ALL, "fr_FR.UTF-8")) {
        check_results(golden);
        check_doubles(golden);
    }
    json_decref(golden);
    return check_done();
}
