/* decode/fallback.c - temperature fallback: its thresholds, the temperatures, compression ratio; encoding of
 * prompts. */
#include <math.h>
#include <string.h>
#define ZLIB_CONST   /* next_in is const */
#include <zlib.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "decode/decode.h"

mx_rule mx_decode_language_rule(const mx_decode_plan *plan) {
    return (mx_rule){.set = MX_SET_LANGUAGES,
                     .ts_begin = plan->special.n_vocab,
                     .ts_max = plan->special.n_vocab,
                     .no_speech = -1};
}

int mx_needs_fallback(const mx_decode_result *result, const mx_thresholds *thresholds) {
    int improbable = thresholds->logprob != MXW_NONE && result->avg_logprob < thresholds->logprob;
    int repetitive =
        thresholds->compression_ratio != MXW_NONE && result->compression_ratio > thresholds->compression_ratio;
    int silent =
        thresholds->no_speech != MXW_NONE && result->no_speech_prob > thresholds->no_speech && improbable;
    return (improbable || repetitive || result->looped) && !silent;
}

int mx_is_silence(const mx_decode_result *result, const mx_thresholds *thresholds) {
    if (thresholds->no_speech == MXW_NONE || !(result->no_speech_prob > thresholds->no_speech))
        return 0;
    return !(thresholds->logprob != MXW_NONE && result->avg_logprob > thresholds->logprob);
}

void mx_temperatures(double first, double increment, double *out, int *n) {
    int capacity = *n;
    *n = 0;
    if (increment != MXW_NONE && increment > 0) {
        double delta = (first + increment) - first;   /* as numpy computes a range: from its first two items */
        double count = ceil((1.0 + 1e-6 - first) / increment);
        for (int i = 0; i < capacity && i < count; i++)
            out[(*n)++] = first + i * delta;
    }
    if (*n == 0)
        out[(*n)++] = first;
}

mxw_status mx_temperatures_listed(const char *list, double out[MX_LISTED_TEMPERATURES], int *n) {
    *n = 0;
    for (const char *at = list;; at++) {
        char *end;
        double value = mx_parse_double(at, &end);
        if (end == at || (*end && *end != ',') || !(value >= 0 && value <= 100) || *n == MX_LISTED_TEMPERATURES)
            return mx_fail(MXW_E_ARGUMENT, "temperatures: '%s' is not a list of up to %d numbers from 0 to 100", list,
                           MX_LISTED_TEMPERATURES);
        out[(*n)++] = value;
        if (!*end)
            return MXW_OK;
        at = end;
    }
}

static voidpf zlib_alloc(voidpf opaque, uInt items, uInt size) {
    (void)opaque;
    return mx_alloc_array(items, size);
}

static void zlib_free(voidpf opaque, voidpf block) {
    (void)opaque;
    mx_free(block);
}

mxw_status mx_compression_ratio(const char *text, size_t n, double *ratio) {
    z_stream z = {.zalloc = zlib_alloc, .zfree = zlib_free};
    *ratio = 0;
    if (n == 0)
        return MXW_OK;
    if (deflateInit(&z, Z_DEFAULT_COMPRESSION) != Z_OK)
        return mx_fail(MXW_E_MEMORY, "out of memory (zlib)");
    uLong bound = deflateBound(&z, (uLong)n);
    uint8_t *out = mx_alloc(bound);
    mxw_status status = out ? MXW_OK : MXW_E_MEMORY;
    if (out) {
        z.next_in = (const Bytef *)text;
        z.avail_in = (uInt)n;
        z.next_out = out;
        z.avail_out = (uInt)bound;
        if (deflate(&z, Z_FINISH) == Z_STREAM_END)
            *ratio = (double)n / (double)z.total_out;
        else
            status = mx_fail(MXW_E_INTERNAL, "zlib could not compress %zu bytes of text", n);
    }
    deflateEnd(&z);
    mx_free(out);
    return status;
}

mxw_status mx_encode_prompt(const mx_text *text, const char *option, const char *utf8, int32_t **tokens, size_t *n) {
    mx_str spaced = {0};
    size_t length = strlen(utf8);
    const char *stripped = mx_utf8_strip(utf8, &length);
    mx_str_text(&spaced, " ");
    mx_str_add(&spaced, stripped, length);
    mxw_status status = mx_str_status(&spaced);
    if (status >= 0)
        status = mx_text_encode(text, spaced.data, spaced.n, tokens, n);
    mx_str_free(&spaced);
    return status < 0 ? mx_fail_in(status, "%s", option) : status;
}

size_t mx_tail_start(size_t n, int64_t keep) {
    if (keep == 0)
        return 0;
    if (keep > 0)
        return n > (size_t)keep ? n - (size_t)keep : 0;
    return MX_MIN(n, (size_t)-keep);
}
