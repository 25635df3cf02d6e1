/* Any bytes as text, as token ids, as the text of a result, and as a list of languages. Invariants: text that encodes
 * decodes to itself; whatever decodes is UTF-8; the json of a result parses, and holds the text with its faults
 * replaced; a list is refused with a line that is not empty, or gives each language once, in the order of tokens. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "output/output.h"
#include "pipeline/speech/languages.h"
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

static void try_as_languages(const mx_text *text, int multilingual, const uint8_t *data, size_t n) {
    const mxw_checkpoint_info model = {.size_name = "custom", .multilingual = multilingual};
    mx_languages languages;
    char *list = mx_strndup((const char *)data, strnlen((const char *)data, n));
    mxw_status status = mx_languages_read(&model, text, list, &languages);
    must(status == MXW_OK || (status == MXW_E_ARGUMENT && mx_error()[0]));
    must(status < 0 || (languages.n >= 1 && languages.n <= MX_MAX_LANGUAGES));
    int32_t before = -1;
    for (int i = 0; status >= 0 && multilingual && i < languages.n; i++) {
        int32_t token = mx_text_language_token(text, languages.codes[i]);
        must(token > before);
        before = token;
    }
    mx_free(list);
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
    try_as_languages(english, 0, data, n);
    try_as_languages(multilingual, 1, data, n);
    return 0;
}
