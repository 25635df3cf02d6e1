/* test_counters.c - the counters of a model's programs, and the measured peak of the CPU. */
#include "kit/check.h"
#include "kit/pipeline_kit.h"

#include "base/mem.h"

#define SECONDS 33   /* two windows */
#define TOKENS 4

static void test_counts(const char *path) {
    size_t n = (size_t)SECONDS * MXW_SAMPLE_RATE;
    float *samples = mx_alloc_array(n, sizeof(*samples));
    mxw_model *model = NULL;
    mxw_session *session = NULL;
    mxw_session_options options = kit_short_options(TOKENS);
    mxw_model_use use = {.struct_size = sizeof(use)};
    options.language = "en";
    options.beam_size = 3;
    kit_samples(1, 0, n, samples);
    if (!CHECK_EQ_INT(kit_open(path, 2, &model), MXW_OK))
        goto out;
    CHECK_EQ_INT(mxw_model_get_use(model, &use), MXW_OK);
    CHECK(use.encode.runs == 0 && use.step.runs == 0 && use.encode.ms == 0);
    CHECK_EQ_INT(mxw_session_open(model, &options, &session), MXW_OK);
    CHECK(kit_run(session, samples, n, 0) >= 0);
    const mxw_result *result = mxw_session_result(session);
    CHECK_EQ_INT(mxw_model_get_use(model, &use), MXW_OK);
    CHECK_EQ_INT(use.encode.items, result->n_windows);
    CHECK_EQ_INT(use.cross.items, result->n_windows);
    CHECK_EQ_INT(use.prompt.runs, result->n_windows);
    CHECK(use.step.runs > 0 && use.step.runs <= (TOKENS + 1) * result->n_windows);
    CHECK(use.step.items > use.step.runs && use.step.items <= 3 * use.step.runs);
    CHECK(use.step.cells > use.step.items && use.prompt.cells >= use.prompt.items);
    double parts = use.encode.ms + use.cross.ms + use.prompt.ms + use.step.ms;
    CHECK(parts > 0 && parts <= result->times.encode_ms + result->times.decode_ms);
    CHECK(result->times.first_encode_ns > 0);
out:
    mxw_session_close(session);
    mxw_model_close(model);
    mx_free(samples);
}

static void test_arguments(const char *path) {
    mxw_model *model = NULL;
    mxw_model_use use = {0};
    mxw_device_peak peak = {0};
    CHECK_EQ_INT(kit_open(path, 1, &model), MXW_OK);
    CHECK_EQ_INT(mxw_model_get_use(model, &use), MXW_E_ARGUMENT);
    CHECK(strstr(mxw_last_error(), "struct_size") != NULL);
    CHECK_EQ_INT(mxw_model_get_use(NULL, &use), MXW_E_ARGUMENT);
    /* A caller with an older, shorter struct gets the fields that it knows. */
    use.struct_size = offsetof(mxw_model_use, cross);
    use.cross.runs = 77;
    CHECK_EQ_INT(mxw_model_get_use(model, &use), MXW_OK);
    CHECK_EQ_INT(use.cross.runs, 77);
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
