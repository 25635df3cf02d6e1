/* test_counters.c - the counters of a model's programs, and the measured peak of the CPU. */
#include "kit/check.h"
#include "kit/pipeline_kit.h"

#include "base/mem.h"

#define SECONDS 33   /* two windows */
#define TOKENS 4

static mxw_stage_counters count(const mxw_model *model, mxw_stage stage) {
    mxw_stage_counters counters = {.struct_size = sizeof(counters)};
    CHECK_EQ_INT(mxw_model_get_counters(model, stage, &counters), MXW_OK);
    return counters;
}

/* Every matrix that a step multiplies with is counted, with a byte a weight at least and f32 at most; tables read by
 * rows and the projections of the encoder's features are not. */
static void check_weight_bytes(uint64_t bytes) {
    const mxw_dims dims = kit_dims(51865, 16, 2, 1), *d = &dims;
    uint64_t s = (uint64_t)d->n_text_state, layer = s * s * (4 + 2 + 8), vocabulary = s * (uint64_t)d->n_vocab;
    CHECK(bytes >= (uint64_t)d->n_text_layer * layer + vocabulary);
    CHECK(bytes < 4 * ((uint64_t)d->n_text_layer * (layer + 32 * s) + vocabulary) + 4096);
}

static void test_counts(const char *path) {
    size_t n = (size_t)SECONDS * MXW_SAMPLE_RATE;
    float *samples = mx_alloc_array(n, sizeof(*samples));
    mxw_model *model = NULL;
    mxw_session *session = NULL;
    mxw_session_options options = kit_short_options(TOKENS);
    options.language = "en";
    options.beam_size = 3;
    kit_samples(1, 0, n, samples);
    if (!CHECK_EQ_INT(kit_open(path, 2, &model), MXW_OK))
        goto out;
    CHECK(count(model, MXW_STAGE_ENCODE).runs == 0 && count(model, MXW_STAGE_STEP).runs == 0);
    CHECK(count(model, MXW_STAGE_ENCODE).ms == 0);
    CHECK_EQ_INT(mxw_session_open(model, &options, &session), MXW_OK);
    CHECK(kit_run(session, samples, n, 0) >= 0);
    const mxw_result *result = mxw_session_result(session);
    mxw_stage_counters encode = count(model, MXW_STAGE_ENCODE), cross = count(model, MXW_STAGE_CROSS);
    mxw_stage_counters prompt = count(model, MXW_STAGE_PROMPT), step = count(model, MXW_STAGE_STEP);
    CHECK_EQ_INT(encode.items, result->n_windows);
    CHECK_EQ_INT(cross.items, result->n_windows);
    CHECK_EQ_INT(prompt.runs, result->n_windows);
    CHECK(step.runs > 0 && step.runs <= (TOKENS + 1) * result->n_windows);
    CHECK(step.items > step.runs && step.items <= 3 * step.runs);
    CHECK(step.cells > step.items && prompt.cells >= prompt.items);
    double parts = encode.ms + cross.ms + prompt.ms + step.ms;
    CHECK(parts > 0 && parts <= result->times->encode_ms + result->times->decode_ms);
    CHECK(result->times->first_encode_ns > 0);
    check_weight_bytes(step.weight_bytes);
    CHECK(prompt.weight_bytes == step.weight_bytes && encode.weight_bytes > 0 && cross.weight_bytes > 0);
out:
    mxw_session_close(session);
    mxw_model_close(model);
    mx_free(samples);
}

static void test_arguments(const char *path) {
    mxw_model *model = NULL;
    mxw_stage_counters counters = {0};
    mxw_device_peak peak = {0};
    CHECK_EQ_INT(kit_open(path, 1, &model), MXW_OK);
    CHECK_EQ_INT(mxw_model_get_counters(model, MXW_STAGE_STEP, &counters), MXW_E_ARGUMENT);
    CHECK(strstr(mxw_last_error(), "struct_size") != NULL);
    counters.struct_size = sizeof(counters);
    CHECK_EQ_INT(mxw_model_get_counters(NULL, MXW_STAGE_STEP, &counters), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_model_get_counters(model, (mxw_stage)5, &counters), MXW_E_ARGUMENT);
    /* A caller with an older, shorter struct gets what it knows. */
    counters.struct_size = offsetof(mxw_stage_counters, items);
    counters.runs = counters.items = 77;
    CHECK_EQ_INT(mxw_model_get_counters(model, MXW_STAGE_STEP, &counters), MXW_OK);
    CHECK(counters.runs == 0 && counters.items == 77);
    CHECK_EQ_INT(mxw_device_measure("cpu", 1, &peak), MXW_E_ARGUMENT);
    peak.struct_size = sizeof(peak);
    CHECK(mxw_device_measure("abacus", 1, &peak) < 0);
    CHECK_EQ_INT(mxw_device_measure("cpu", -1, &peak), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_device_measure("cpu", 2, &peak), MXW_OK);
    CHECK(peak.gflops > 0 && peak.read_gbs > 0 && peak.gflops < 1e6 && peak.read_gbs < 1e6);
    mxw_model_close(model);
}

int main(void) {
    char folder[4096], path[4200];
    gen_options o = {.dims = kit_dims(51865, 16, 2, 1), .dtype = MXW_F16, .seed = 3};
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    snprintf(path, sizeof(path), "%s/model.pt", folder);
    if (CHECK(gen_pt(path, &o) == 0)) {
        test_counts(path);
        test_arguments(path);
    }
    gen_remove(folder);
    return check_done();
}
