/* pipeline/speech/language_list.c - the option `languages`, read and checked against a model. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "pipeline/speech/languages.h"

#define MAX_NAME 64

static void add(mx_languages *out, const char *code) {
    for (int i = 0; i < out->n; i++)
        if (!strcmp(out->codes[i], code))
            return;
    out->codes[out->n++] = code;
}

static mxw_status find(const mxw_checkpoint_info *model, const mx_text *text, const char *name, const char **code) {
    *code = mx_language_find(name);
    if (!*code)
        return mx_fail(MXW_E_ARGUMENT, "languages: '%s' is not a language that Whisper supports", name);
    if (!model->multilingual && strcmp(*code, "en") != 0)
        return mx_fail(MXW_E_ARGUMENT, "languages: %s is an English-only model and cannot transcribe '%s'",
                       model->size_name, name);
    if (model->multilingual && mx_text_language_token(text, *code) < 0)
        return mx_fail(MXW_E_ARGUMENT, "languages: this model does not support '%s'", name);
    return MXW_OK;
}

static mxw_status add_all(const mxw_checkpoint_info *model, const mx_text *text, mx_languages *out) {
    if (!model->multilingual)
        return mx_fail(MXW_E_ARGUMENT, "languages: %s is an English-only model: 'any' would be 'en'",
                       model->size_name);
    for (int i = 0; mx_language_code(i); i++)
        if (mx_text_language_token(text, mx_language_code(i)) >= 0)
            add(out, mx_language_code(i));
    return MXW_OK;
}

/* In the order of the tokens, so that the order of the list does not matter. */
static void sort(mx_languages *out) {
    int n = 0;
    for (int i = 0; mx_language_code(i); i++)
        for (int j = n; j < out->n; j++)
            if (!strcmp(out->codes[j], mx_language_code(i))) {
                const char *moved = out->codes[n];
                out->codes[n++] = out->codes[j];
                out->codes[j] = moved;
            }
}

mxw_status mx_languages_read(const mxw_checkpoint_info *model, const mx_text *text, const char *list,
                             mx_languages *out) {
    *out = (mx_languages){0};
    if (!list)
        return MXW_OK;
    if (!strcmp(list, "any"))
        return add_all(model, text, out);
    for (const char *at = list;;) {
        const char *code;
        char name[MAX_NAME];
        size_t n = strcspn(at, ",");
        while (n > 0 && *at == ' ') {
            at++;
            n--;
        }
        size_t length = n;
        while (length > 0 && at[length - 1] == ' ')
            length--;
        snprintf(name, sizeof(name), "%.*s", (int)MX_MIN(length, sizeof(name) - 1), at);
        if (length == 0)
            return mx_fail(MXW_E_ARGUMENT, "languages: '%s' is not a list of languages like en,de,uk", list);
        mxw_status status = find(model, text, name, &code);
        if (status < 0)
            return status;
        add(out, code);
        if (!at[n])
            break;
        at += n + 1;
    }
    sort(out);
    return MXW_OK;
}
