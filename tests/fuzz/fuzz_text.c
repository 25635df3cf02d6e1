/* Any bytes as text, as token ids, and as the text of a result. What must hold: text that encodes decodes to itself;
 * whatever decodes is UTF-8; the json of a result parses, and holds the text with its faults replaced. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "output/output.h"
#include "text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(int condition) {
    if (!condition)
        abort();
}

static void try_as_text(const mx_text *text, const uint8_t *data, size_t n) {
    int32_t *ids = NULL;
    size_t count = 0;
    mx_str back = {0};
    mxw_status status = mx_text_encode(text, (const char *)data, n, &ids, &count);
    must(status == MXW_OK || (status == MXW_E_ARGUMENT && ids == NULL && mx_error()[0]));
    if (status == MXW_OK) {
        must(mx_text_decode(text, ids, count, &back) == MXW_OK);
        must(back.n == n && (n == 0 || memcmp(back.data, data, n) == 0));
    }
    mx_str_free(&back);
    mx_free(ids);
}

static void try_as_tokens(const mx_text *text, const uint8_t *data, size_t n) {
    for (int stamps = 0; stamps < 2; stamps++) {
        int32_t ids[512];
        size_t count = 0;
        mx_str out = {0};
        for (size_t i = 0; i + 1 < n && count < MX_COUNT(ids); i += 2)
            ids[count++] = (int32_t)data[i] << 8 | data[i + 1];
        mxw_status status =
            stamps ? mx_text_decode_with_timestamps(text, ids, count, &out) : mx_text_decode(text, ids, count, &out);
        must(status == MXW_OK || (stamps && status == MXW_E_ARGUMENT));
        must(mx_utf8_check(out.data, out.n) == out.n);
        mx_str_free(&out);
    }
}

static int gather(void *user, const void *bytes, size_t n) {
    mx_str_add(user, bytes, n);
    return 0;
}

static void try_as_result(const uint8_t *data, size_t n) {
    char *text = mx_strndup((const char *)data, strnlen((const char *)data, n));
    const mxw_segment segments[] = {{.text = text, .end = 1.5}, {.id = 1, .start = 1.5, .end = 3600, .text = text}};
    const mxw_stage_times times = {0};
    const mxw_result result = {.text = text, .language = "en", .segments = mx_segment_array(segments), .n_segments = 2,
                               .times = &times};
    const char *format;
    for (int i = 0; (format = mx_output_format(i)) != NULL; i++) {
        mx_str out = {0}, clean = {0};
        must(mx_output_write(&result, format, NULL, gather, &out) == MXW_OK);
        if (strcmp(format, "json") == 0) {
            json_t *root = json_loadb(out.data, out.n, 0, NULL);
            must(root != NULL);
            mx_utf8_clean(text, strlen(text), &clean);
            must(strcmp(json_string_value(json_object_get(root, "text")), mx_str_get(&clean)) == 0);
            json_decref(root);
        }
        mx_str_free(&out);
        mx_str_free(&clean);
    }
    mx_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static mx_text *english, *multilingual; /* kept from one input to the next, as a program would */
    if (!english)
        must(mx_text_open(51864, &english) == MXW_OK && mx_text_open(51866, &multilingual) == MXW_OK);
    if (n == 0)
        return 0;
    try_as_text(english, data, n);
    try_as_text(multilingual, data, n);
    try_as_tokens(english, data, n);
    try_as_tokens(multilingual, data, n);
    try_as_result(data, n);
    return 0;
}
