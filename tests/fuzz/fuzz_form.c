/* tests/fuzz/fuzz_form.c - the server's forms: parts in pieces of any size, fields, nested and JSON chunking_strategy.
 *
 * In: the first byte is the size of pieces and the task, the rest are names and values, each ended by a 0; the name
 * "file" is the recording. The rest up to its first 0 is also read as a Content-Type. Invariants: it returns; a form is
 * understood, or has a problem with an HTTP status and one line; memory stays within the form's bounds; a type never
 * gets longer.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "serve/request_options.h"
#include "transcriptions/fields.h"
#include "transcriptions/form_type.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth) {
    if (!truth)
        abort();
}

/* The text up to its zero, or to the end. */
static const char *next(const uint8_t **at, const uint8_t *end, size_t *n) {
    const char *text = (const char *)*at;
    *n = strnlen(text, (size_t)(end - *at));
    *at += *n < (size_t)(end - *at) ? *n + 1 : *n;
    return text;
}

static int take(upload_form *form, const char *name, size_t n_name, const char *value, size_t n, size_t piece) {
    char copy[1024];
    if (n_name >= sizeof(copy))
        n_name = sizeof(copy) - 1;
    memcpy(copy, name, n_name);
    copy[n_name] = 0;
    size_t at = 0;
    do {
        size_t length = n - at < piece ? n - at : piece;
        if (!form_take(form, copy, value + at, at, length))
            return 0;
        at += length;
    } while (at < n);
    return 1;
}

static void check_problem(const form_problem *p, int good) {
    require(good ? !p->status : p->status >= 400 && p->status < 600);
    require(good || (*p->message && !strchr(p->message, '\n')) || p->status);
    require(strnlen(p->param, sizeof(p->param)) < sizeof(p->param));
}

static void read_type(const char *text, size_t size) {
    char *type = strndup(text, size);
    size_t n = type ? strlen(type) : 0;
    if (type && form_type_plain(type))
        require(strlen(type) <= n && !strncasecmp(type, "multipart/form-data", 19));
    free(type);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static upload_form form;
    server_host host = {0};
    if (size < 2)
        return 0;
    read_type((const char *)data + 1, size - 1);
    const uint8_t *at = data + 1, *end = data + size;
    size_t piece = (size_t)(data[0] >> 1) + 1;
    int good = 1;
    request_options_host(&host);
    form_init(&form, 4096);
    while (good && at < end) {
        size_t n_name, n;
        const char *name = next(&at, end, &n_name), *value = next(&at, end, &n);
        good = take(&form, name, n_name, value, n, piece);
    }
    require(form.n_bytes <= FORM_BYTES && form.n_fields <= FORM_FIELDS && form.file.size <= 4096);
    check_problem(&form.problem, good);
    if (good) {
        transcription_request request;
        good = fields_read(&host, data[0] & 1 ? MXW_TRANSLATE : MXW_TRANSCRIBE, &form, &request, &form.problem);
        check_problem(&form.problem, good);
        transcription_request_free(&request);
    }
    form_free(&form);
    return 0;
}
