/* output/internal.h - internal to output/: the sink that writers fill, and text stripped as by Python's strip(). */
#ifndef MX_OUTPUT_INTERNAL_H
#define MX_OUTPUT_INTERNAL_H
#include "output/output.h"

/* Writers append to text and call mx_sink_pass after each segment, so that memory stays bounded. */
typedef struct mx_sink {
    mx_str text;
    const mxw_write_options *options;   /* never NULL */
    mxw_status (*pass)(void *user, const void *bytes, size_t n);
    void *user;
} mx_sink;

mxw_status mx_sink_pass(mx_sink *sink); /* flushes to the receiver once enough is buffered */

/* One writer per format, named in the table of output.c. */
mxw_status mx_write_txt(const mxw_result *result, mx_sink *sink);
mxw_status mx_write_tsv(const mxw_result *result, mx_sink *sink);
mxw_status mx_write_srt(const mxw_result *result, mx_sink *sink);
mxw_status mx_write_vtt(const mxw_result *result, mx_sink *sink);
mxw_status mx_write_json(const mxw_result *result, mx_sink *sink);
mxw_status mx_write_csv(const mxw_result *result, mx_sink *sink);
mxw_status mx_write_lrc(const mxw_result *result, mx_sink *sink);
mxw_status mx_write_ass(const mxw_result *result, mx_sink *sink);
mxw_status mx_write_jsonl(const mxw_result *result, mx_sink *sink);
mxw_status mx_write_json_full(const mxw_result *result, mx_sink *sink);

/* A segment's members without the closing brace. */
void mx_json_segment(mx_str *out, const mxw_segment *segment);
/* What detection, languages and the guard found in the whole recording; nothing where all of them are off. */
void mx_json_speech(mx_str *out, const mxw_result *result);
/* Whether languages were decided: a segment then has a probability of its own. */
int mx_output_has_language(const mxw_segment *segment);
int mx_output_has_languages(const mxw_result *result);

/* The segment's text, stripped, *n bytes; its speaker, if it has one, is added to out first. */
const char *mx_output_text(mx_str *out, const mxw_segment *segment, size_t *n);
/* A time in whole milliseconds, halves to even; E_ARGUMENT if it cannot be written. */
mxw_status mx_output_ms(double seconds, int64_t *ms);
/* Both times of a segment likewise. */
mxw_status mx_output_times(const mxw_segment *segment, int64_t *start_ms, int64_t *end_ms);
#endif
