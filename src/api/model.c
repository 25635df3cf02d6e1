/* api/model.c - the public functions of models, languages and tokens, over pipeline/ and text/. */
#include "api/api.h"
#include "base/base.h"
#include "lab/lab.h"
#include "pipeline/pipeline.h"

void mxw_model_options_default(mxw_model_options *options) {
    *options = (mxw_model_options){.struct_size = sizeof(*options),
                                   .model = "tiny.en",
                                   .engine = MXW_ENGINE_MAX,
                                   .device = "auto",
                                   .batch = 1,
                                   .encode_engine = -1};
}

mxw_status mxw_model_open(const mxw_model_options *options, mxw_model **out) {
    mxw_model_options full;
    MX_NEED(out, MXW_E_ARGUMENT);
    *out = NULL;
    mxw_model_options_default(&full);
    if (options) {
        mxw_status status = mx_take_options(&full, sizeof(full), options, options->struct_size, "mxw_model_options");
        if (status < 0)
            return status;
    }
    if (!full.model || !*full.model)
        return mx_fail(MXW_E_ARGUMENT, "model: no name or path was given");
    if (full.threads < 0 || full.threads > 1024)
        return mx_fail(MXW_E_ARGUMENT, "threads: %d is not from 0 to 1024", full.threads);
    if (mx_check_batch(full.batch) < 0)
        return MXW_E_ARGUMENT;
    if (full.engine < MXW_ENGINE_CPU || full.engine > MXW_ENGINE_MAX)
        return mx_fail(MXW_E_ARGUMENT, "engine: %d is not cpu, gpu or max", (int)full.engine);
    if (full.precision < MXW_PRECISION_EXACT || full.precision > MXW_PRECISION_F16)
        return mx_fail(MXW_E_ARGUMENT, "precision: %d is not exact or f16", (int)full.precision);
    if (full.encode_engine < -1 || full.encode_engine > MXW_ENGINE_MAX)
        return mx_fail(MXW_E_ARGUMENT, "encode_engine: %d is not -1, cpu, gpu or max", full.encode_engine);
    return full.inject && *full.inject ? mx_fault_open(&full, full.inject, out) : mx_recognizer_open(&full, out);
}

void mxw_model_close(mxw_model *model) { mx_recognizer_close(model); }

mxw_status mxw_model_get_info(const mxw_model *model, mxw_model_info *info) {
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(info, MXW_E_ARGUMENT);
    mx_recognizer_info(model, info);
    return MXW_OK;
}

mxw_status mxw_model_get_use(const mxw_model *model, mxw_model_use *use) {
    mxw_model_use full = {.struct_size = sizeof(full)};
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(use, MXW_E_ARGUMENT);
    mx_recognizer_use(model, &full);
    return mx_give(use, use->struct_size, &full, sizeof(full), "mxw_model_use");
}

mxw_status mxw_model_graph(const mxw_model *model, const char *which, const char **text) {
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(which, MXW_E_ARGUMENT);
    MX_NEED(text, MXW_E_ARGUMENT);
    *text = NULL;
    /* The text is kept with the model; nothing else of it changes. */
    return mx_recognizer_graph((mxw_model *)(uintptr_t)model, which, text);
}

mxw_status mxw_model_encode(const mxw_model *model, const char *text, int32_t *tokens, size_t *n) {
    int32_t *ids = NULL;
    size_t count = 0;
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(text, MXW_E_ARGUMENT);
    MX_NEED(n, MXW_E_ARGUMENT);
    if (*n)
        MX_NEED(tokens, MXW_E_ARGUMENT);
    mxw_status status = mx_text_encode(mx_recognizer_text(model), text, strlen(text), &ids, &count);
    if (status >= 0 && count > *n)
        status = mx_fail(MXW_E_ARGUMENT, "tokens: %zu do not fit in %zu", count, *n);
    if (status >= 0 && count)
        memcpy(tokens, ids, count * sizeof(*ids));
    if (ids)
        *n = count;
    mx_free(ids);
    return status;
}

mxw_status mxw_model_decode(const mxw_model *model, const int32_t *tokens, size_t n_tokens, char *text, size_t *n) {
    mx_str out = {0};
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(n, MXW_E_ARGUMENT);
    if (n_tokens)
        MX_NEED(tokens, MXW_E_ARGUMENT);
    if (*n)
        MX_NEED(text, MXW_E_ARGUMENT);
    const mx_text *tokenizer = mx_recognizer_text(model);
    int32_t eot = mx_text_specials(tokenizer)->eot;
    mxw_status status = MXW_OK;
    for (size_t i = 0, run; i < n_tokens && status >= 0; i = run + 1) {
        for (run = i; run < n_tokens && tokens[run] < eot; run++)
            ;
        status = mx_text_decode(tokenizer, tokens + i, run - i, &out);
    }
    if (status >= 0)
        status = mx_str_status(&out);
    if (status >= 0 && out.n + 1 > *n)
        status = mx_fail(MXW_E_ARGUMENT, "text: %zu bytes do not fit in %zu", out.n + 1, *n);
    if (status >= 0)
        memcpy(text, mx_str_get(&out), out.n + 1);
    *n = out.n + 1;
    mx_str_free(&out);
    return status;
}

const char *mxw_language_code(int index) { return mx_language_code(index); }
const char *mxw_language_name(int index) { return mx_language_name(index); }
const char *mxw_language_find(const char *code_or_name) {
    return code_or_name ? mx_language_find(code_or_name) : NULL;
}
