/* output/subtitles.c - one cue per segment: srt (numbered, "00:00:01,000"), vtt ("00:01.000", hours when there are
 * some). */
#include "output/inside.h"

#include <inttypes.h>
#include <string.h>

typedef struct cue_style {
    int always_hours;
    char decimal_mark;
} cue_style;

static void add_time(mx_str *out, int64_t ms, const cue_style *style) {
    int64_t hours = ms / 3600000;
    if (style->always_hours || hours > 0)
        mx_str_print(out, "%02" PRId64 ":", hours);
    mx_str_print(out, "%02d:%02d%c%03d", (int)(ms / 60000 % 60), (int)(ms / 1000 % 60), style->decimal_mark,
                 (int)(ms % 1000));
}

/* An arrow in the text would end the cue's times for a player. */
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

/* The reference gives segments that it emptied a list of no words. When all are such, it writes no cue; when only
 * some are, an empty cue for each. (When the first is and a later one is not, it fails; here that case is the second.)
 */
static int has_cues(const mxw_result *result) {
    for (size_t i = 0; i < result->n_segments; i++)
        if (result->segments[i].text[0])
            return 1;
    return 0;
}

static mxw_status write_cues(const mxw_result *result, mx_sink *sink, const cue_style *style, int numbered) {
    mxw_status status = MXW_OK;
    if (!has_cues(result))
        return MXW_OK;
    for (size_t i = 0; i < result->n_segments; i++) {
        if (numbered)
            mx_str_print(&sink->text, "%zu\n", i + 1);
        MX_TRY(add_cue(&sink->text, &result->segments[i], style));
        MX_TRY(mx_sink_pass(sink));
    }
out:
    return status;
}

mxw_status mx_write_srt(const mxw_result *result, mx_sink *sink) {
    return write_cues(result, sink, &(cue_style){.always_hours = 1, .decimal_mark = ','}, 1);
}

mxw_status mx_write_vtt(const mxw_result *result, mx_sink *sink) {
    mx_str_text(&sink->text, "WEBVTT\n\n");
    return write_cues(result, sink, &(cue_style){.always_hours = 0, .decimal_mark = '.'}, 0);
}
