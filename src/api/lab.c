/* api/lab.c - the public functions of the lab, over lab/. */
#include "api/api.h"
#include "base/mem.h"
#include "guard/guard.h"
#include "lab/lab.h"

void (mxw_lab_options_default)(mxw_lab_options *options, size_t struct_size) {
    const mxw_lab_options full = {.encode_engine = -1};
    mx_give_defaults(options, struct_size, &full, sizeof(full));
}

const char *mxw_lab_model_fault(const mxw_model *model) {
    MX_NEED(model, NULL);
    return mx_recognizer_fault(model);
}

/* The features that the caller has for the first window; they must be of this model's sizes. */
static mxw_status find_features(const mxw_model *model, const mxw_features *given, const float **out) {
    mxw_model_info info;
    const mx_stage *stage = mx_features_find(given, "encoder.ln_post");
    mx_recognizer_info(model, &info);
    const mxw_dims *dims = info.checkpoint->dims;
    if (!stage)
        return mx_fail(MXW_E_MISSING, "features: there is no encoder.ln_post in them");
    if (stage->tensor.dtype != MXW_F32 || stage->tensor.rank != 2 || stage->tensor.dims[0] != dims->n_audio_ctx ||
        stage->tensor.dims[1] != dims->n_audio_state)
        return mx_fail(MXW_E_ARGUMENT, "features: encoder.ln_post is not f32 [%d, %d], which this model takes",
                       dims->n_audio_ctx, dims->n_audio_state);
    *out = stage->tensor.data;
    return MXW_OK;
}

mxw_status mxw_lab_session_open(mxw_model *model, const mxw_session_options *options, const mxw_features *features,
                                mxw_session **out) {
    const float *given = NULL;
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(features, MXW_E_ARGUMENT);
    MX_NEED(out, MXW_E_ARGUMENT);
    *out = NULL;
    mxw_status status = find_features(model, features, &given);
    if (status >= 0)
        status = mxw_session_open(model, options, out);
    if (status >= 0)
        mx_session_set_features(*out, given);
    return status;
}

const char *mxw_evidence_name(int index) { return mx_evidence_name(index); }

int mxw_evidence_sign(int index) { return mx_evidence_sign(index); }

mxw_status mxw_lab_session_watch_guard(mxw_session *session, mxw_evidence_fn fn, void *user) {
    MX_NEED(session, MXW_E_ARGUMENT);
    return mx_session_watch_guard(session, fn, user);
}

void (mxw_features_options_default)(mxw_features_options *options, size_t struct_size) {
    const mxw_features_options full = {.whole = 1};
    mx_give_defaults(options, struct_size, &full, sizeof(full));
}

mxw_status mxw_features_capture(mxw_model *model, const float *samples, size_t n, const mxw_features_options *options,
                                mxw_features **out) {
    mxw_features_options full;
    mxw_session_options session;
    mxw_status status = MXW_OK;
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(out, MXW_E_ARGUMENT);
    *out = NULL;
    if (n)
        MX_NEED(samples, MXW_E_ARGUMENT);
    mxw_features_options_default(&full);
    if (options)
        status = mx_take_options(&full, sizeof(full), options, options->struct_size, "mxw_features_options");
    if (status >= 0)
        status = mx_take_session_options(full.session, &session);
    full.session = &session;
    if (status >= 0)
        status = mx_check_samples(samples, n);
    return status < 0 ? status : mx_features_capture(model, samples, n, &full, out);
}

mxw_status mxw_features_open(const char *path, mxw_features **out) {
    MX_NEED(path, MXW_E_ARGUMENT);
    MX_NEED(out, MXW_E_ARGUMENT);
    *out = NULL;
    return mx_features_open(path, out);
}

mxw_status mxw_features_save(const mxw_features *features, const char *path) {
    MX_NEED(features, MXW_E_ARGUMENT);
    MX_NEED(path, MXW_E_ARGUMENT);
    return mx_features_save(features, path);
}

void mxw_features_close(mxw_features *features) { mx_features_close(features); }

size_t mxw_features_count(const mxw_features *features) { return features ? features->n : 0; }

mxw_status mxw_features_get(const mxw_features *features, size_t index, mxw_feature *feature) {
    MX_NEED(features, MXW_E_ARGUMENT);
    MX_NEED(feature, MXW_E_ARGUMENT);
    if (index >= features->n)
        return mx_fail(MXW_E_ARGUMENT, "features: there is no number %zu of %zu", index, features->n);
    mxw_feature full = features->stages[index].info;
    full.tensor = &features->stages[index].shown;
    return MX_GIVE(feature, &full);
}

int64_t mxw_features_find(const mxw_features *features, const char *name) {
    MX_NEED(features, MXW_E_ARGUMENT);
    MX_NEED(name, MXW_E_ARGUMENT);
    const mx_stage *found = mx_features_find(features, name);
    return found ? found - features->stages : mx_fail(MXW_E_NOT_FOUND, "features: there is no %s", name);
}

const char *mxw_features_note(const mxw_features *features, const char *key) {
    MX_NEED(features, NULL);
    MX_NEED(key, NULL);
    return mx_features_get_note(features, key);
}

mxw_status mxw_comparison_open(const mxw_features *a, const mxw_features *b, mxw_comparison **out) {
    MX_NEED(a, MXW_E_ARGUMENT);
    MX_NEED(b, MXW_E_ARGUMENT);
    MX_NEED(out, MXW_E_ARGUMENT);
    *out = NULL;
    return mx_comparison_open(a, b, out);
}

void mxw_comparison_close(mxw_comparison *comparison) { mx_comparison_close(comparison); }

size_t mxw_comparison_count(const mxw_comparison *comparison) { return comparison ? comparison->n : 0; }

mxw_status mxw_comparison_get(const mxw_comparison *comparison, size_t index, mxw_difference *difference) {
    MX_NEED(comparison, MXW_E_ARGUMENT);
    MX_NEED(difference, MXW_E_ARGUMENT);
    if (index >= comparison->n)
        return mx_fail(MXW_E_ARGUMENT, "comparison: there is no number %zu of %zu", index, comparison->n);
    return MX_GIVE(difference, &comparison->rows[index]);
}

mxw_status mxw_comparison_diagnose(mxw_comparison *comparison, const mxw_checkpoint *checkpoint, mxw_finding *finding) {
    MX_NEED(comparison, MXW_E_ARGUMENT);
    MX_NEED(finding, MXW_E_ARGUMENT);
    mxw_finding full;
    mxw_status status = mx_comparison_diagnose(comparison, (const mx_weights *)(const void *)checkpoint, &full);
    return status < 0 ? status : MX_GIVE(finding, &full);
}

const char *mxw_fault_name(int index, const char **what) { return mx_fault_name(index, what); }

mxw_status mxw_op_checks_open(mxw_model *model, const float *samples, size_t n, int all, mxw_op_checks **out) {
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(samples, MXW_E_ARGUMENT);
    MX_NEED(out, MXW_E_ARGUMENT);
    *out = NULL;
    mxw_status status = mx_check_samples(samples, n);
    return status < 0 ? status : mx_op_checks_open(model, samples, n, all, out);
}

void mxw_op_checks_close(mxw_op_checks *checks) { mx_op_checks_close(checks); }

size_t mxw_op_checks_count(const mxw_op_checks *checks) { return checks ? checks->n : 0; }

mxw_status mxw_op_checks_get(const mxw_op_checks *checks, size_t index, mxw_op_check *check) {
    MX_NEED(checks, MXW_E_ARGUMENT);
    MX_NEED(check, MXW_E_ARGUMENT);
    if (index >= checks->n)
        return mx_fail(MXW_E_ARGUMENT, "op checks: there is no number %zu of %zu", index, checks->n);
    return MX_GIVE(check, &checks->rows[index]);
}
