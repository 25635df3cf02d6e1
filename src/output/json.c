/* output/json.c - the whole result as Python's json.dump writes openai-whisper's: the same keys in the same order, ", "
 * and ": ", ASCII only, floats with the fewest digits that read back, no newline at the end. What the reference does
 * not have (channels, languages, suspicion, regions) has keys of its own, where it was asked for. */
#include "output/internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void add_escaped(mx_str *out, uint32_t c) {
    static const char plain[] = "\"\\\n\r\t\f\b", letter[] = "\"\\nrtfb";
    const char *known = c ? strchr(plain, c < 0x80 ? (int)c : -1) : NULL;
    if (known)
        mx_str_print(out, "\\%c", letter[known - plain]);
    else if (c >= 0x10000)
        mx_str_print(out, "\\u%04x\\u%04x", (unsigned)(0xD800 + ((c - 0x10000) >> 10)),
                     (unsigned)(0xDC00 + ((c - 0x10000) & 0x3FF)));
    else
        mx_str_print(out, "\\u%04x", (unsigned)c);
}

void mx_output_json_string(mx_str *out, const char *text) {
    size_t n = strlen(text), used;
    mx_str_text(out, "\"");
    for (size_t i = 0; i < n; i += used) {
        uint32_t c = 0xFFFD;
        mx_utf8_read(text + i, n - i, &c, &used);
        if (c >= ' ' && c <= '~' && c != '"' && c != '\\')
            mx_str_add(out, text + i, used);
        else
            add_escaped(out, c);
    }
    mx_str_text(out, "\"");
}

void mx_output_json_number(mx_str *out, double value) {
    char digits[32];
    mx_format_double(value, digits);
    mx_str_text(out, isnan(value) ? "NaN" : isinf(value) ? (value > 0 ? "Infinity" : "-Infinity") : digits);
}

void mx_output_json_key(mx_str *out, const char *key) { mx_str_print(out, ", \"%s\": ", key); }

/* Only where there was a guard: it leaves nothing at exactly 0. */
static void add_suspicion(mx_str *out, double suspicion, uint32_t reasons) {
    const char *before = "";
    if (!(suspicion > 0) && !reasons)
        return;
    mx_output_json_key(out, "suspicion");
    mx_output_json_number(out, rint(suspicion * 1e4) / 1e4);
    mx_output_json_key(out, "reasons");
    mx_str_text(out, "[");
    for (int bit = 0; mx_reason_name(bit); bit++)
        if (reasons >> bit & 1) {
            mx_str_print(out, "%s\"%s\"", before, mx_reason_name(bit));
            before = ", ";
        }
    mx_str_text(out, "]");
}

static void add_language(mx_str *out, const char *language, double probability) {
    mx_output_json_key(out, "language");
    mx_output_json_string(out, language);
    mx_output_json_key(out, "language_probability");
    mx_output_json_number(out, rint(probability * 1e4) / 1e4);
}

void mx_json_speech(mx_str *out, const mxw_result *result) {
    if (!result->regions)
        return;
    mx_output_json_key(out, "regions");
    mx_str_text(out, "[");
    for (size_t i = 0; i < result->n_regions; i++) {
        const mxw_region *region = &mx_regions(result)[i];
        mx_str_text(out, i ? ", {\"start\": " : "{\"start\": ");
        mx_output_json_number(out, rint(region->start * 1e3) / 1e3);
        mx_output_json_key(out, "end");
        mx_output_json_number(out, rint(region->end * 1e3) / 1e3);
        if (region->channel)
            mx_str_print(out, ", \"channel\": %d", region->channel);
        if (region->language)
            add_language(out, region->language, region->probability);
        mx_str_text(out, "}");
    }
    mx_str_text(out, "]");
    mx_output_json_key(out, "skipped");
    mx_output_json_number(out, rint(result->skipped_s * 1e3) / 1e3);
    if (result->n_words_suspected)
        mx_str_print(out, ", \"words_suspected\": %" PRId64, result->n_words_suspected);
}

static void add_words(mx_str *out, const mxw_segment *s) {
    mx_str_text(out, ", \"words\": [");
    for (size_t i = 0; i < s->n_words; i++) {
        mx_str_text(out, i ? ", {\"word\": " : "{\"word\": ");
        mx_output_json_string(out, mx_segment_words(s)[i].word);
        mx_str_text(out, ", \"start\": ");
        mx_output_json_number(out, mx_segment_words(s)[i].start);
        mx_str_text(out, ", \"end\": ");
        mx_output_json_number(out, mx_segment_words(s)[i].end);
        mx_str_text(out, ", \"probability\": ");
        mx_output_json_number(out, mx_segment_words(s)[i].probability);
        add_suspicion(out, mx_segment_words(s)[i].suspicion, mx_segment_words(s)[i].reasons);
        mx_str_text(out, "}");
    }
    mx_str_text(out, "]");
}

void mx_json_segment(mx_str *out, const mxw_segment *s) {
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"temperature", s->temperature},
                   {"avg_logprob", s->avg_logprob},
                   {"compression_ratio", s->compression_ratio},
                   {"no_speech_prob", s->no_speech_prob}};
    mx_str_print(out, "{\"id\": %" PRId64 ", \"seek\": %" PRId64 ", \"start\": ", s->id, s->seek);
    mx_output_json_number(out, s->start);
    mx_str_text(out, ", \"end\": ");
    mx_output_json_number(out, s->end);
    mx_str_text(out, ", \"text\": ");
    mx_output_json_string(out, s->text);
    mx_str_text(out, ", \"tokens\": [");
    for (size_t i = 0; i < s->n_tokens; i++)
        mx_str_print(out, "%s%" PRId32, i ? ", " : "", s->tokens[i]);
    mx_str_text(out, "]");
    for (size_t i = 0; i < MX_COUNT(numbers); i++) {
        mx_str_print(out, ", \"%s\": ", numbers[i].key);
        mx_output_json_number(out, numbers[i].value);
    }
    if (s->speaker) {
        mx_str_print(out, ", \"channel\": %d, \"speaker\": ", s->channel);
        mx_output_json_string(out, s->speaker);
    }
    if (mx_output_has_language(s))
        add_language(out, s->language, s->language_probability);
    add_suspicion(out, s->suspicion, s->reasons);
    /* The reference empties a segment that has no duration or no text, and then keeps this key. */
    if (s->words || !s->text[0])
        add_words(out, s);
}

mxw_status mx_write_json(const mxw_result *result, mx_sink *sink) {
    mxw_status status = MXW_OK;
    mx_str_text(&sink->text, "{\"text\": ");
    mx_output_json_string(&sink->text, result->text);
    mx_str_text(&sink->text, ", \"segments\": [");
    for (size_t i = 0; i < result->n_segments; i++) {
        mx_str_text(&sink->text, i ? ", " : "");
        mx_json_segment(&sink->text, &mx_segments(result)[i]);
        mx_str_text(&sink->text, "}");
        MX_TRY(mx_sink_pass(sink));
    }
    mx_str_text(&sink->text, "], \"language\": ");
    if (result->language)
        mx_output_json_string(&sink->text, result->language);
    else
        mx_str_text(&sink->text, "null");
    mx_json_speech(&sink->text, result);
    mx_str_text(&sink->text, "}");
out:
    return status;
}

mxw_status mx_write_jsonl(const mxw_result *result, mx_sink *sink) {
    mxw_status status = MXW_OK;
    for (size_t i = 0; i < result->n_segments; i++) {
        mx_json_segment(&sink->text, &mx_segments(result)[i]);
        mx_str_text(&sink->text, "}\n");
        MX_TRY(mx_sink_pass(sink));
    }
out:
    return status;
}
