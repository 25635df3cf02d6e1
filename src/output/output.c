/* output/output.c - the table of formats, and the two ways out: a callback or a file. */
#include "output/output.h"

#include <math.h>
#include <string.h>

#include "output/inside.h"

static const struct {
    const char *name;
    mxw_status (*write)(const mxw_result *result, mx_sink *sink);
} formats[] = {
    {"txt", mx_write_txt}, {"srt", mx_write_srt}, {"vtt", mx_write_vtt}, {"tsv", mx_write_tsv}, {"json", mx_write_json},
};

#define ENOUGH 65536 /* bytes that are worth a call of the receiver */

const char *mx_output_format(int index) {
    return index >= 0 && (size_t)index < MX_COUNT(formats) ? formats[index].name : NULL;
}

static mxw_status find_format(const char *name, size_t *index) {
    for (*index = 0; *index < MX_COUNT(formats); ++*index)
        if (name && strcmp(name, formats[*index].name) == 0)
            return MXW_OK;
    mx_str names = {0};
    for (size_t i = 0; i < MX_COUNT(formats); i++)
        mx_str_print(&names, "%s%s", i ? ", " : "", formats[i].name);
    mxw_status status =
        mx_fail(MXW_E_ARGUMENT, "unknown output format '%s' (there are %s)", name ? name : "", mx_str_get(&names));
    mx_str_free(&names);
    return status;
}

mxw_status mx_sink_pass(mx_sink *sink) {
    mxw_status status = mx_str_status(&sink->text);
    if (status >= 0 && sink->text.n >= ENOUGH) {
        status = sink->pass(sink->user, sink->text.data, sink->text.n);
        mx_str_clear(&sink->text);
    }
    return status;
}

static mxw_status write_to(const mxw_result *result, size_t format, mx_sink *sink) {
    mxw_status status = MXW_OK;
    MX_TRY(formats[format].write(result, sink));
    MX_TRY(mx_str_status(&sink->text));
    if (sink->text.n)
        status = sink->pass(sink->user, sink->text.data, sink->text.n);
out:
    mx_str_free(&sink->text);
    return status;
}

typedef struct receiver {
    mxw_write_fn fn;
    void *user;
} receiver;

static mxw_status pass_to_caller(void *user, const void *bytes, size_t n) {
    receiver *to = user;
    return to->fn(to->user, bytes, n) == 0 ? MXW_OK : mx_fail(MXW_E_ABORTED, "writing was stopped by the receiver");
}

mxw_status mx_output_write(const mxw_result *result, const char *format, mxw_write_fn fn, void *user) {
    size_t index;
    mxw_status status = find_format(format, &index);
    receiver to = {fn, user};
    mx_sink sink = {.pass = pass_to_caller, .user = &to};
    return status < 0 ? status : write_to(result, index, &sink);
}

static mxw_status pass_to_file(void *user, const void *bytes, size_t n) { return mx_save_write(user, bytes, n); }

mxw_status mx_output_save(const mxw_result *result, const char *format, const char *path) {
    size_t index;
    mx_save *save = NULL;
    mxw_status status = MXW_OK;
    MX_TRY(find_format(format, &index));
    MX_TRY(mx_save_open(path, &save));
    mx_sink sink = {.pass = pass_to_file, .user = save};
    MX_TRY(write_to(result, index, &sink));
    status = mx_save_commit(save);
    save = NULL;
out:
    mx_save_abort(save);
    return status;
}

const char *mx_output_text(mx_str *out, const mxw_segment *segment, size_t *n) {
    *n = strlen(segment->text);
    const char *text = mx_utf8_strip(segment->text, n);
    if (*n > 0 && segment->speaker)
        mx_str_print(out, "[%s] ", segment->speaker);
    return text;
}

mxw_status mx_output_times(const mxw_segment *segment, int64_t *start_ms, int64_t *end_ms) {
    const double limit_s = 1e12; /* thirty thousand years: far from where whole milliseconds stop being exact */
    const double times[2] = {segment->start, segment->end};
    for (int i = 0; i < 2; i++)
        if (!(times[i] >= 0 && times[i] < limit_s))
            return mx_fail(MXW_E_ARGUMENT, "segment %lld: %s %g s cannot be written as a time", (long long)segment->id,
                           i ? "end" : "start", times[i]);
    *start_ms = (int64_t)rint(segment->start * 1000.0);
    *end_ms = (int64_t)rint(segment->end * 1000.0);
    return MXW_OK;
}
