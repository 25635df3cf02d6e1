/* output/plain.c - one line per segment: txt (the text), tsv and csv (start and end in milliseconds, the text), lrc
 * (its start, the text; the start of each word if words have times). */
#include "output/internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

mxw_status mx_write_txt(const mxw_result *result, mx_sink *sink) {
    mxw_status status = MXW_OK;
    for (size_t i = 0; i < result->n_segments; i++) {
        size_t n;
        const char *text = mx_output_text(&sink->text, &mx_segments(result)[i], &n);
        mx_str_add(&sink->text, text, n);
        mx_str_text(&sink->text, "\n");
        MX_TRY(mx_sink_pass(sink));
    }
out:
    return status;
}

/* "de", 0.98: each behind `before`, or both empty where the segment has none. */
static void add_language(mx_str *out, const mxw_segment *s, const char *before) {
    int known = mx_output_has_language(s);
    mx_str_print(out, "%s%s%s", before, known ? s->language : "", before);
    if (known)
        mx_output_json_number(out, rint(s->language_probability * 1e4) / 1e4);
}

/* Where languages were decided, they follow the text: the first three columns stay the reference's. */
mxw_status mx_write_tsv(const mxw_result *result, mx_sink *sink) {
    mxw_status status = MXW_OK;
    int languages = mx_output_has_languages(result);
    mx_str_text(&sink->text, languages ? "start\tend\ttext\tlanguage\tlanguage_probability\n" : "start\tend\ttext\n");
    for (size_t i = 0; i < result->n_segments; i++) {
        size_t n;
        int64_t start_ms, end_ms;
        MX_TRY(mx_output_times(&mx_segments(result)[i], &start_ms, &end_ms));
        mx_str_print(&sink->text, "%" PRId64 "\t%" PRId64 "\t", start_ms, end_ms);
        const char *text = mx_output_text(&sink->text, &mx_segments(result)[i], &n);
        for (size_t k = 0; k < n; k++)
            mx_str_add(&sink->text, text[k] == '\t' ? " " : &text[k], 1);
        if (languages)
            add_language(&sink->text, &mx_segments(result)[i], "\t");
        mx_str_text(&sink->text, "\n");
        MX_TRY(mx_sink_pass(sink));
    }
out:
    return status;
}

/* Quoted as in RFC 4180. */
static void add_quoted(mx_str *out, const char *text, size_t n) {
    mx_str_text(out, "\"");
    for (size_t i = 0; i < n; i++)
        mx_str_add(out, text[i] == '"' ? "\"\"" : &text[i], text[i] == '"' ? 2 : 1);
    mx_str_text(out, "\"");
}

/* Has columns for speakers and languages only if there are any. */
mxw_status mx_write_csv(const mxw_result *result, mx_sink *sink) {
    mxw_status status = MXW_OK;
    mx_str *out = &sink->text;
    int speakers = 0;
    for (size_t i = 0; i < result->n_segments; i++)
        speakers |= mx_segments(result)[i].speaker != NULL;
    int languages = mx_output_has_languages(result);
    mx_str_print(out, "start,end,%s%stext\n", speakers ? "speaker," : "",
                 languages ? "language,language_probability," : "");
    for (size_t i = 0; i < result->n_segments; i++) {
        const mxw_segment *s = &mx_segments(result)[i];
        size_t n = strlen(s->text);
        int64_t start_ms, end_ms;
        MX_TRY(mx_output_times(s, &start_ms, &end_ms));
        mx_str_print(out, "%" PRId64 ",%" PRId64, start_ms, end_ms);
        if (speakers) {
            mx_str_text(out, ",");
            add_quoted(out, s->speaker ? s->speaker : "", s->speaker ? strlen(s->speaker) : 0);
        }
        if (languages)
            add_language(out, s, ",");
        mx_str_text(out, ",");
        const char *text = mx_utf8_strip(s->text, &n);
        add_quoted(out, text, n);
        mx_str_text(out, "\n");
        MX_TRY(mx_sink_pass(sink));
    }
out:
    return status;
}

/* Minutes may exceed 99: players without support for hours accept that. */
static mxw_status add_lrc_time(mx_str *out, double seconds, const char *around) {
    int64_t ms;
    mxw_status status = mx_output_ms(seconds, &ms);
    if (status < 0)
        return status;
    int64_t cs = (ms + 5) / 10;
    mx_str_print(out, "%c%02" PRId64 ":%02d.%02d%c", around[0], cs / 6000, (int)(cs / 100 % 60), (int)(cs % 100),
                 around[1]);
    return MXW_OK;
}

static void add_one_line(mx_str *out, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        mx_str_add(out, text[i] == '\n' || text[i] == '\r' ? " " : &text[i], 1);
}

static mxw_status add_lrc_words(mx_str *out, const mxw_segment *s) {
    mxw_status status = MXW_OK;
    for (size_t i = 0; i < s->n_words; i++) {
        size_t n = strlen(mx_segment_words(s)[i].word);
        const char *word = mx_utf8_strip(mx_segment_words(s)[i].word, &n);
        mx_str_text(out, i && word != mx_segment_words(s)[i].word ? " " : "");
        MX_TRY(add_lrc_time(out, mx_segment_words(s)[i].start, "<>"));
        add_one_line(out, word, n);
    }
out:
    return status;
}

mxw_status mx_write_lrc(const mxw_result *result, mx_sink *sink) {
    mxw_status status = MXW_OK;
    mx_str *out = &sink->text;
    mx_str_text(out, "[by:max-whisper]\n");
    for (size_t i = 0; i < result->n_segments; i++) {
        const mxw_segment *s = &mx_segments(result)[i];
        size_t n = strlen(s->text);
        mx_utf8_strip(s->text, &n);
        if (n == 0)
            continue;
        MX_TRY(add_lrc_time(out, s->start, "[]"));
        const char *text = mx_output_text(out, s, &n);
        if (s->n_words)
            MX_TRY(add_lrc_words(out, s));
        else
            add_one_line(out, text, n);
        mx_str_text(out, "\n");
        MX_TRY(mx_sink_pass(sink));
    }
out:
    return status;
}
