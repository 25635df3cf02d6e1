/* output/subtitles.c - cues, from words if they have times, else one per segment: srt (numbered, "00:00:01,000"),
 * vtt ("00:01.000", hours if not 0), ass ("0:00:01.00", styled). */
#include "output/cues.h"

#include <inttypes.h>
#include <string.h>

typedef struct cue_style {
    int always_hours;
    char decimal_mark;
    int numbered;
} cue_style;

static void add_time(mx_str *out, int64_t ms, const cue_style *style) {
    int64_t hours = ms / 3600000;
    if (style->always_hours || hours > 0)
        mx_str_print(out, "%02" PRId64 ":", hours);
    mx_str_print(out, "%02d:%02d%c%03d", (int)(ms / 60000 % 60), (int)(ms / 1000 % 60), style->decimal_mark,
                 (int)(ms % 1000));
}

/* Players would take an arrow in the text for the cue's times. */
static void add_text(mx_str *out, const char *text, size_t n) {
    for (size_t i = 0; i < n;) {
        size_t arrow = n - i >= 3 && memcmp(text + i, "-->", 3) == 0 ? 3 : 0;
        mx_str_add(out, arrow ? "->" : text + i, arrow ? 2 : 1);
        i += arrow ? arrow : 1;
    }
}

static mxw_status add_cue(mx_str *out, const mxw_segment *segment, const cue_style *style) {
    int64_t start_ms, end_ms;
    size_t n;
    mxw_status status = mx_output_times(segment, &start_ms, &end_ms);
    if (status < 0)
        return status;
    add_time(out, start_ms, style);
    mx_str_text(out, " --> ");
    add_time(out, end_ms, style);
    mx_str_text(out, "\n");
    const char *text = mx_output_text(out, segment, &n);
    add_text(out, text, n);
    mx_str_text(out, "\n\n");
    return MXW_OK;
}

/* The reference gives segments that it emptied an empty list of words. If all are empty, it writes no cue; if only some
 * are, an empty cue for each. (If the first is empty and a later one is not, it fails; here that is the second
 * case.) */
static int has_cues(const mxw_result *result) {
    for (size_t i = 0; i < result->n_segments; i++)
        if (mx_segments(result)[i].text[0])
            return 1;
    return 0;
}

typedef struct cue_writer {
    mx_sink *sink;
    const cue_style *style;
    size_t n;
} cue_writer;

static mxw_status write_cue(void *user, int64_t start_ms, int64_t end_ms, const char *text, size_t n) {
    cue_writer *w = user;
    mx_str *out = &w->sink->text;
    w->n++;
    if (w->style->numbered)
        mx_str_print(out, "%zu\n", w->n);
    add_time(out, start_ms, w->style);
    mx_str_text(out, " --> ");
    add_time(out, end_ms, w->style);
    mx_str_text(out, "\n");
    mx_str_add(out, text, n);
    mx_str_text(out, "\n\n");
    return mx_sink_pass(w->sink);
}

static mx_cue_options cue_options(const mx_sink *sink) {
    const mxw_write_options *o = sink->options;
    return (mx_cue_options){.max_line_width = (size_t)o->max_line_width, .max_line_count = (size_t)o->max_line_count,
                            .max_words_per_line = (size_t)o->max_words_per_line,
                            .highlight_words = o->highlight_words, .line_break = "\n", .mark_begin = "<u>",
                            .mark_end = "</u>"};
}

static mxw_status write_cues(const mxw_result *result, mx_sink *sink, const cue_style *style) {
    mxw_status status = MXW_OK;
    cue_writer writer = {sink, style, 0};
    mx_cue_options options = cue_options(sink);
    if (mx_cues_have_words(result))
        return mx_cues_of_words(result, &options, write_cue, &writer);
    if (!has_cues(result))
        return MXW_OK;
    for (size_t i = 0; i < result->n_segments; i++) {
        if (style->numbered)
            mx_str_print(&sink->text, "%zu\n", i + 1);
        MX_TRY(add_cue(&sink->text, &mx_segments(result)[i], style));
        MX_TRY(mx_sink_pass(sink));
    }
out:
    return status;
}

mxw_status mx_write_srt(const mxw_result *result, mx_sink *sink) {
    return write_cues(result, sink, &(cue_style){.always_hours = 1, .decimal_mark = ',', .numbered = 1});
}

mxw_status mx_write_vtt(const mxw_result *result, mx_sink *sink) {
    mx_str_text(&sink->text, "WEBVTT\n\n");
    return write_cues(result, sink, &(cue_style){.always_hours = 0, .decimal_mark = '.'});
}

/* ---- ass --------------------------------------------------------------------------------------------------------- */

static const char ass_head[] = "[Script Info]\nScriptType: v4.00+\nWrapStyle: 0\nScaledBorderAndShadow: yes\n"
                               "PlayResX: 1280\nPlayResY: 720\n\n[V4+ Styles]\n"
                               "Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, "
                               "BackColour, Bold, Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, "
                               "BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding\n"
                               "Style: Default,Arial,48,&H00FFFFFF,&H000000FF,&H00000000,&H80000000,0,0,0,0,100,100,"
                               "0,0,1,2,1,2,40,40,40,1\n\n[Events]\n"
                               "Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n";

/* ASS has a resolution of 10 ms. */
static void add_ass_time(mx_str *out, int64_t ms) {
    int64_t cs = (ms + 5) / 10;
    mx_str_print(out, "%" PRId64 ":%02d:%02d.%02d", cs / 360000, (int)(cs / 6000 % 60), (int)(cs / 100 % 60),
                 (int)(cs % 100));
}

static mxw_status write_ass_cue(void *user, int64_t start_ms, int64_t end_ms, const char *text, size_t n) {
    const cue_writer *w = user;
    mx_str *out = &w->sink->text;
    mx_str_text(out, "Dialogue: 0,");
    add_ass_time(out, start_ms);
    mx_str_text(out, ",");
    add_ass_time(out, end_ms);
    mx_str_text(out, ",Default,,0,0,0,,");
    mx_str_add(out, text, n);
    mx_str_text(out, "\n");
    return mx_sink_pass(w->sink);
}

/* One cue per segment, without words. */
static mxw_status write_ass_segments(const mxw_result *result, cue_writer *writer) {
    mxw_status status = MXW_OK;
    mx_str line = {0};
    for (size_t i = 0; i < result->n_segments; i++) {
        int64_t start_ms, end_ms;
        size_t n;
        mx_str_clear(&line);
        MX_TRY(mx_output_times(&mx_segments(result)[i], &start_ms, &end_ms));
        const char *text = mx_output_text(&line, &mx_segments(result)[i], &n);
        if (n == 0)
            continue;
        mx_cue_escape(&line, text, n);
        MX_TRY(mx_str_status(&line));
        MX_TRY(write_ass_cue(writer, start_ms, end_ms, mx_str_get(&line), line.n));
    }
out:
    mx_str_free(&line);
    return status;
}

mxw_status mx_write_ass(const mxw_result *result, mx_sink *sink) {
    cue_writer writer = {sink, NULL, 0};
    mx_cue_options options = cue_options(sink);
    options.line_break = "\\N";
    options.mark_begin = "{\\u1}";
    options.mark_end = "{\\u0}";
    options.escapes = 1;
    mx_str_text(&sink->text, ass_head);
    return mx_cues_have_words(result) ? mx_cues_of_words(result, &options, write_ass_cue, &writer)
                                      : write_ass_segments(result, &writer);
}
