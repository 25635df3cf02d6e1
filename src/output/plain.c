/* output/plain.c - one line per segment: txt (the text), tsv (start and end in milliseconds, the text). */
#include "output/inside.h"

#include <inttypes.h>
#include <string.h>

mxw_status mx_write_txt(const mxw_result *result, mx_sink *sink) {
    mxw_status status = MXW_OK;
    for (size_t i = 0; i < result->n_segments; i++) {
        size_t n;
        const char *text = mx_output_text(&sink->text, &result->segments[i], &n);
        mx_str_add(&sink->text, text, n);
        mx_str_text(&sink->text, "\n");
        MX_TRY(mx_sink_pass(sink));
    }
out:
    return status;
}

mxw_status mx_write_tsv(const mxw_result *result, mx_sink *sink) {
    mxw_status status = MXW_OK;
    mx_str_text(&sink->text, "start\tend\ttext\n");
    for (size_t i = 0; i < result->n_segments; i++) {
        size_t n;
        int64_t start_ms, end_ms;
        MX_TRY(mx_output_times(&result->segments[i], &start_ms, &end_ms));
        mx_str_print(&sink->text, "%" PRId64 "\t%" PRId64 "\t", start_ms, end_ms);
        const char *text = mx_output_text(&sink->text, &result->segments[i], &n);
        for (size_t k = 0; k < n; k++)
            mx_str_add(&sink->text, text[k] == '\t' ? " " : &text[k], 1);
        mx_str_text(&sink->text, "\n");
        MX_TRY(mx_sink_pass(sink));
    }
out:
    return status;
}
