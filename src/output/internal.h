/* output/internal.h - what the writers share: where bytes gather, and text as Python's strip() leaves it. */
#ifndef MX_OUTPUT_INTERNAL_H
#define MX_OUTPUT_INTERNAL_H
#include "output/output.h"

/* Writers add to text and call mx_sink_pass after each segment, so that a long result needs little memory. */
typedef struct mx_sink {
    mx_str text;
    const mxw_write_options *options;   /* never NULL */
    mxw_status (*pass)(void *user, const void *bytes, size_t n);
    void *user;
} mx_sink;

mxw_status mx_sink_pass(mx_sink *sink); /* on to the receiver once enough has gathered */

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

/* A segment's members without the brace that closes them. */
void mx_json_segment(mx_str *out, const mxw_segment *segment);

/* The segment's text without white space around it, *n bytes; before it, its speaker is added, if it has one. */
const char *mx_output_text(mx_str *out, const mxw_segment *segment, size_t *n);
/* A time in whole milliseconds, halves to even; E_ARGUMENT if it cannot be written. */
mxw_status mx_output_ms(double seconds, int64_t *ms);
/* Both times of a segment likewise. */
mxw_status mx_output_times(const mxw_segment *segment, int64_t *start_ms, int64_t *end_ms);
#endif
