/* api/model.c - the public functions of models, languages and tokens, over pipeline/ and text/. */
#include "api/api.h"
#include "base/base.h"
#include "lab/lab.h"
#include "pipeline/pipeline.h"

void (mxw_model_options_default)(mxw_model_options *options, size_t struct_size) {
    const mxw_model_options full = {.model = "tiny.en", .engine = MXW_ENGINE_MAX, .device = "auto", .batch = 1};
    mx_give_defaults(options, struct_size, &full, sizeof(full));
}

static mxw_status check_options(const mxw_model_options *o) {
    if (!o->model || !*o->model)
        return mx_fail(MXW_E_ARGUMENT, "model: no name or path was given");
    if (o->threads < 0 || o->threads > 1024)
        return mx_fail(MXW_E_ARGUMENT, "threads: %d is not from 0 to 1024", o->threads);
    if (mx_check_batch(o->batch) < 0)
        return MXW_E_ARGUMENT;
    if (o->engine < MXW_ENGINE_CPU || o->engine > MXW_ENGINE_MAX)
        return mx_fail(MXW_E_ARGUMENT, "engine: %d is not cpu, gpu or max", (int)o->engine);
    if (o->precision < MXW_PRECISION_EXACT || o->precision > MXW_PRECISION_F8)
        return mx_fail(MXW_E_ARGUMENT, "precision: %d is not exact, f16, int8 or f8", (int)o->precision);
    return MXW_OK;
}

mxw_status mxw_lab_model_open(const mxw_model_options *options, const mxw_lab_options *lab, mxw_model **out) {
    mxw_model_options full;
    mxw_lab_options hooks;
    mxw_status status = MXW_OK;
    MX_NEED(out, MXW_E_ARGUMENT);
    *out = NULL;
    mxw_model_options_default(&full);
    mxw_lab_options_default(&hooks);
    if (options)
        MX_TRY(mx_take_options(&full, sizeof(full), options, options->struct_size, "mxw_model_options"));
    if (lab)
        MX_TRY(mx_take_options(&hooks, sizeof(hooks), lab, lab->struct_size, "mxw_lab_options"));
    MX_TRY(check_options(&full));
    if (hooks.encode_engine < -1 || hooks.encode_engine > MXW_ENGINE_MAX)
        return mx_fail(MXW_E_ARGUMENT, "encode_engine: %d is not -1, cpu, gpu or max", hooks.encode_engine);
    if (hooks.inject && *hooks.inject)
        return mx_fault_open(&full, &hooks, out);
    return mx_recognizer_open(&full, &hooks, out);
out:
    return status;
}

mxw_status mxw_model_open(const mxw_model_options *options, mxw_model **out) {
    return mxw_lab_model_open(options, NULL, out);
}

void mxw_model_close(mxw_model *model) { mx_recognizer_close(model); }

mxw_status mxw_model_get_info(const mxw_model *model, mxw_model_info *info) {
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(info, MXW_E_ARGUMENT);
    mxw_model_info full;
    mx_recognizer_info(model, &full);
    return MX_GIVE(info, &full);
}

mxw_status mxw_model_get_counters(const mxw_model *model, mxw_stage stage, mxw_stage_counters *counters) {
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(counters, MXW_E_ARGUMENT);
    if (stage < MXW_STAGE_ENCODE || stage > MXW_STAGE_FORCE)
        return mx_fail(MXW_E_ARGUMENT, "stage: %d is not a stage", (int)stage);
    const mxw_stage_counters full = mx_recognizer_counters(model, stage);
    return MX_GIVE(counters, &full);
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
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(text, MXW_E_ARGUMENT);
    MX_NEED(n, MXW_E_ARGUMENT);
    if (*n)
        MX_NEED(tokens, MXW_E_ARGUMENT);
    return mx_give_tokens(mx_recognizer_text(model), text, strlen(text), tokens, n);
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
    return mx_give_text(status, &out, text, n);
}

const char *mxw_language_code(int index) { return mx_language_code(index); }
const char *mxw_language_name(int index) { return mx_language_name(index); }
const char *mxw_language_find(const char *code_or_name) {
    return code_or_name ? mx_language_find(code_or_name) : NULL;
}
