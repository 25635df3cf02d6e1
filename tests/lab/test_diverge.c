/* tests/lab/test_diverge.c - every injectable fault is found at the stage where it was injected and named correctly;
 * without one there is no finding.
 *
 * test_diverge small: a generated model (fast). test_diverge MODEL [FAULT...]: a released one on real speech, engine
 * cpu as the reference, the faults (all if none is named) in engine max with every stage kept. */
#include <stdio.h>
#include <stdlib.h>

#include "kit/golden.h"
#include "kit/check.h"
#include "kit/gen_checkpoint.h"
#include "kit/pipeline_kit.h"
#include "lab/lab.h"

static const struct {
    const char *name, *stage, *fault;
} wanted[] = {
    {"db-mel", "mel", "other mel"},
    {"no-ln-post", "encoder.ln_post", "missing operation"},
    {"averaged-conv", "encoder.conv1", "averaged kernel"},
    {"conv-stride", "encoder.conv1", "wrong stride"},
    {"tanh-gelu", "encoder.gelu1", "tanh GELU"},
    {"wrong-scale", "encoder.blocks.0.attn.heads", "scale"},
    {"scaled-features", "encoder.ln_post", "scale"},
    {"transposed-weight", "encoder.blocks.0.attn.q", "transposed weight"},
    {"random-weight", "encoder.blocks.0.mlp.fc1", "foreign weight"},
    {"first-window-only", "recording.windows", "first window only"},
};

static float *samples;
static size_t n_samples;

static mx_features *capture(const char *model, mxw_engine engine, const char *fault, const mx_features *like) {
    mxw_model_options options;
    mxw_lab_options lab;
    mxw_features_options how;
    mxw_session_options session = kit_short_options(8);
    mxw_model *opened = NULL;
    mxw_features *out = NULL;
    mxw_model_options_default(&options);
    options.model = model;
    options.engine = engine;
    options.device = "cpu";
    mxw_lab_options_default(&lab);
    lab.keep_names = 1;
    lab.inject = fault;
    mxw_features_options_default(&how);
    how.like = like;
    how.session = &session;
    if (!CHECK_EQ_INT(mxw_lab_model_open(&options, &lab, &opened), MXW_OK) ||
        !CHECK_EQ_INT(mxw_features_capture(opened, samples, n_samples, &how, &out), MXW_OK))
        printf("    %s: %s\n", fault ? fault : "no fault", mxw_last_error());
    mxw_model_close(opened);
    return out;
}

/* The finding; 0 if everything agrees. */
static int find(const mx_features *a, const mx_features *b, const mxw_checkpoint *weights, char *stage, char *fault) {
    mxw_comparison *c = NULL;
    mxw_finding f = {.struct_size = sizeof(f), .index = -1};
    CHECK_EQ_INT(mxw_comparison_open(a, b, &c), MXW_OK);
    if (c && CHECK_EQ_INT(mxw_comparison_diagnose(c, weights, &f), MXW_OK) && f.stage) {
        printf("    %s: %s. %s\n", f.stage, f.fault, f.explanation);
        snprintf(stage, 96, "%s", f.stage);
        snprintf(fault, 96, "%s", f.fault);
    }
    mxw_comparison_close(c);
    return f.stage != NULL;
}

static int is_asked(const char *name, char **names, int n) {
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return n == 0;
}

static void test_model(const char *model, mxw_engine engine, char **names, int n) {
    mxw_checkpoint *weights = NULL;
    char stage[96], fault[96];
    mx_features *right = capture(model, MXW_ENGINE_CPU, NULL, NULL), *other;
    CHECK_EQ_INT(mxw_checkpoint_open(model, NULL, &weights), MXW_OK);
    if (!right || !weights)
        return;
    printf("no fault\n");
    other = capture(model, engine, NULL, right);
    if (other)
        CHECK(!find(right, other, weights, stage, fault));
    if (other)
        CHECK(mxw_features_note(other, "injected") == NULL);
    mxw_features_close(other);
    for (size_t i = 0; i < MX_COUNT(wanted); i++) {
        if (!is_asked(wanted[i].name, names, n))
            continue;
        printf("%s\n", wanted[i].name);
        stage[0] = fault[0] = 0;
        other = capture(model, engine, wanted[i].name, right);
        if (!other)
            continue;
        CHECK(mxw_features_note(other, "injected") && !strcmp(mxw_features_note(other, "injected"), wanted[i].name));
        CHECK(find(right, other, weights, stage, fault));
        CHECK_STR(stage, wanted[i].stage);
        CHECK_STR(fault, wanted[i].fault);
        mxw_features_close(other);
    }
    mxw_features_close(right);
    mxw_checkpoint_close(weights);
}

/* The table here is that of the library, in its order. */
static void test_table(void) {
    for (size_t i = 0; i < MX_COUNT(wanted); i++)
        CHECK(mxw_fault_name((int)i, NULL) && !strcmp(mxw_fault_name((int)i, NULL), wanted[i].name));
    CHECK(mxw_fault_name((int)MX_COUNT(wanted), NULL) == NULL);
    mxw_model *model = NULL;
    mxw_lab_options lab;
    mxw_lab_options_default(&lab);
    lab.inject = "no-such-fault";
    CHECK_EQ_INT(mxw_lab_model_open(NULL, &lab, &model), MXW_E_ARGUMENT);
    CHECK(strstr(mxw_last_error(), "no-such-fault") != NULL);
}

static int test_small(void) {
    char folder[4096], path[4200];
    gen_options options = {.dims = kit_dims(51864, 32, 2, 1), .seed = 5};
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    snprintf(path, sizeof(path), "%s/small.pt", folder);
    n_samples = 33 * MXW_SAMPLE_RATE;
    samples = malloc(n_samples * sizeof(*samples));
    if (CHECK(samples != NULL) && CHECK_EQ_INT(gen_pt(path, &options), 0)) {
        kit_samples(3, 0, n_samples, samples);
        test_table();
        char *few[] = {"db-mel", "no-ln-post"};
        test_model(path, MXW_ENGINE_CPU, few, 2);
        printf("engine max\n");
        test_model(path, MXW_ENGINE_MAX, NULL, 0);
    }
    gen_remove(folder);
    return check_done();
}

/* Two clips that are kept with the tests, with a pause between, so that there are two windows. */
static int join_clips(void) {
    char path[4096];
    golden_clip first = {0}, second = {0};
    size_t at = 31 * MXW_SAMPLE_RATE;
    if (!CHECK(golden_clip_path("package:pocketsphinx-librivox-0870", path, sizeof(path)) &&
               golden_clip_read(path, &first) == 0) ||
        !CHECK(golden_clip_path("package:pocketsphinx-librivox-0880", path, sizeof(path)) &&
               golden_clip_read(path, &second) == 0))
        return 0;
    n_samples = at + second.n;
    samples = calloc(n_samples, sizeof(*samples));
    if (CHECK(samples && first.n < at)) {
        memcpy(samples, first.samples, first.n * sizeof(*samples));
        memcpy(samples + at, second.samples, second.n * sizeof(*samples));
    }
    golden_clip_free(&first);
    golden_clip_free(&second);
    return samples != NULL;
}

int main(int argc, char **argv) {
    int result;
    if (argc < 2) {
        fprintf(stderr, "usage: test_diverge small | MODEL [FAULT...]\n");
        return 2;
    }
    if (strcmp(argv[1], "small") == 0) {
        result = test_small();
    } else {
        mxw_model *model = golden_model("lab-diverge", argv[1]);   /* exits as skipped where it is not there */
        mxw_model_close(model);
        if (join_clips())
            test_model(argv[1], MXW_ENGINE_MAX, argv + 2, argc - 2);
        result = check_done();
    }
    free(samples);
    return result;
}
