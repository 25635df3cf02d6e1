/* output/output.c - the table of formats, and writing to a callback or a file. */
#include "output/output.h"

#include <math.h>
#include <string.h>

#include "output/internal.h"

static const struct {
    const char *name;
    mxw_status (*write)(const mxw_result *result, mx_sink *sink);
} formats[] = {
    {"txt", mx_write_txt}, {"srt", mx_write_srt}, {"vtt", mx_write_vtt}, {"tsv", mx_write_tsv}, {"json", mx_write_json},
    {"csv", mx_write_csv}, {"lrc", mx_write_lrc}, {"ass", mx_write_ass}, {"jsonl", mx_write_jsonl},
    {"json-full", mx_write_json_full},
};

static const mxw_write_options plain = {.struct_size = sizeof(plain)};

#define ENOUGH 65536 /* bytes buffered before the receiver is called */

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
        mx_fail(MXW_E_ARGUMENT, "unknown output format '%s' (available: %s)", name ? name : "", mx_str_get(&names));
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

mxw_status mx_output_write(const mxw_result *result, const char *format, const mxw_write_options *options,
                           mxw_write_fn fn, void *user) {
    size_t index;
    mxw_status status = find_format(format, &index);
    receiver to = {fn, user};
    mx_sink sink = {.options = options ? options : &plain, .pass = pass_to_caller, .user = &to};
    return status < 0 ? status : write_to(result, index, &sink);
}

mxw_status mx_output_segment(const mxw_segment *segment, mxw_write_fn fn, void *user) {
    receiver to = {fn, user};
    mx_str line = {0};
    mx_json_segment(&line, segment);
    mx_str_text(&line, "}\n");
    mxw_status status = mx_str_status(&line);
    if (status >= 0)
        status = pass_to_caller(&to, line.data, line.n);
    mx_str_free(&line);
    return status;
}

static mxw_status pass_to_file(void *user, const void *bytes, size_t n) { return mx_save_write(user, bytes, n); }

mxw_status mx_output_save(const mxw_result *result, const char *format, const mxw_write_options *options,
                          const char *path) {
    size_t index;
    mx_save *save = NULL;
    mxw_status status = MXW_OK;
    MX_TRY(find_format(format, &index));
    MX_TRY(mx_save_open(path, &save));
    mx_sink sink = {.options = options ? options : &plain, .pass = pass_to_file, .user = save};
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

int mx_output_has_language(const mxw_segment *segment) {
    return segment->language && segment->language_probability >= 0;
}

int mx_output_has_languages(const mxw_result *result) {
    for (size_t i = 0; i < result->n_segments; i++)
        if (mx_output_has_language(&mx_segments(result)[i]))
            return 1;
    return 0;
}

mxw_status mx_output_ms(double seconds, int64_t *ms) {
    const double limit_s = 1e12; /* thirty thousand years: milliseconds are still exact there */
    if (!(seconds >= 0 && seconds < limit_s))
        return mx_fail(MXW_E_ARGUMENT, "%g s cannot be written as a time", seconds);
    *ms = (int64_t)rint(seconds * 1000.0);
    return MXW_OK;
}

mxw_status mx_output_times(const mxw_segment *segment, int64_t *start_ms, int64_t *end_ms) {
    mxw_status status = mx_output_ms(segment->start, start_ms);
    if (status < 0)
        return mx_fail_in(status, "segment %lld: start", (long long)segment->id);
    status = mx_output_ms(segment->end, end_ms);
    return status < 0 ? mx_fail_in(status, "segment %lld: end", (long long)segment->id) : status;
}
