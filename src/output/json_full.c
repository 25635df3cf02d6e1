/* output/json_full.c - everything known about a result: the contents of json, for each token its text, log probability
 * and alternatives, the probability of the language, counters, stage times, and the run's manifest. */
#include "output/internal.h"

#include <inttypes.h>
#include <math.h>

/* JSON has no infinities or NaN. */
static void add_finite(mx_str *out, double value) {
    if (isfinite(value))
        mx_output_json_number(out, value);
    else
        mx_str_text(out, "null");
}

static void add_token(mx_str *out, const mxw_token *token) {
    mx_str_print(out, "{\"id\": %" PRId32 ", \"text\": ", token->id);
    mx_output_json_string(out, token->text ? token->text : "");
    mx_output_json_key(out, "logprob");
    add_finite(out, token->logprob);
}

static void add_details(mx_str *out, const mxw_segment *s) {
    mx_output_json_key(out, "token_details");
    mx_str_text(out, "[");
    for (size_t i = 0; i < s->n_tokens; i++) {
        mx_str_text(out, i ? ", " : "");
        add_token(out, &mx_segment_details(s)[i]);
        mx_output_json_key(out, "alternatives");
        mx_str_text(out, "[");
        const mxw_token *others = mx_segment_alternatives(s) + i * s->n_alternatives;
        for (size_t j = 0; j < s->n_alternatives && others[j].id >= 0; j++) {
            mx_str_text(out, j ? ", " : "");
            add_token(out, &others[j]);
            mx_str_text(out, "}");
        }
        mx_str_text(out, "]}");
    }
    mx_str_text(out, "]");
}

static void add_times(mx_str *out, const mxw_result *result) {
    const mxw_stage_times *t = result->times;
    const struct {
        const char *key;
        double value;
    } times[] = {{"load_ms", t->load_ms}, {"compile_ms", t->compile_ms}, {"audio_ms", t->audio_ms},
                 {"mel_ms", t->mel_ms}, {"encode_ms", t->encode_ms}, {"decode_ms", t->decode_ms},
                 {"words_ms", t->words_ms}, {"total_ms", t->total_ms}};
    mx_output_json_key(out, "times");
    for (size_t i = 0; i < MX_COUNT(times); i++) {
        mx_str_print(out, "%s\"%s\": ", i ? ", " : "{", times[i].key);
        add_finite(out, rint(times[i].value * 1000) / 1000);
    }
    if (result->regions) {
        mx_output_json_key(out, "vad_ms");
        add_finite(out, rint(t->vad_ms * 1000) / 1000);
    }
    mx_str_text(out, "}");
}

mxw_status mx_write_json_full(const mxw_result *result, mx_sink *sink) {
    mxw_status status = MXW_OK;
    mx_str *out = &sink->text;
    mx_str_print(out, "{\"manifest\": %s", sink->options->manifest ? sink->options->manifest : "null");
    mx_output_json_key(out, "language");
    if (result->language)
        mx_output_json_string(out, result->language);
    else
        mx_str_text(out, "null");
    mx_output_json_key(out, "language_probability");
    add_finite(out, result->language_probability < 0 ? NAN : result->language_probability);
    mx_output_json_key(out, "duration");
    add_finite(out, result->duration_s);
    mx_str_print(out, ", \"windows\": %" PRId64 ", \"temperature_fallbacks\": %" PRId64 ", \"fallbacks\": 0",
                 result->n_windows, result->n_temperature_fallbacks);
    add_times(out, result);
    mx_output_json_key(out, "text");
    mx_output_json_string(out, result->text);
    mx_output_json_key(out, "segments");
    mx_str_text(out, "[");
    for (size_t i = 0; i < result->n_segments; i++) {
        mx_str_text(out, i ? ", " : "");
        mx_json_segment(out, &mx_segments(result)[i]);
        if (mx_segments(result)[i].details)
            add_details(out, &mx_segments(result)[i]);
        mx_str_text(out, "}");
        MX_TRY(mx_sink_pass(sink));
    }
    mx_str_text(out, "]");
    mx_json_speech(out, result);
    mx_str_text(out, "}\n");
out:
    return status;
}
