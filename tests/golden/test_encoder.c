/* tests/golden/test_encoder.c - every stage of the encoder against openai-whisper's, on the first windows of three
 * clips and on the old experiment's synthetic mel.
 *
 *     golden_encoder MODEL [--engine=max] [--device=ID] [--precision=NAME] [--keep-names]
 *
 * A compiled engine has fewer stages, those that were not fused into others; with --keep-names it has them all.
 * Each stage's subsample: cosine at least 0.999999; the whole stage's mean and deviation: within 1e-4 of the
 * reference's, relative to its deviation. So a wrong stage is named, not only the end of the chain. Other
 * precisions than exact have allowances of their own, for the output and for the stages before it. */
#include <math.h>

#include "kit/check.h"
#include "kit/golden.h"
#include "pipeline/inspect.h"
#include "randn.h"


typedef struct stages {
    const json_t *rows;
    const char *clip;
    int seen;
    double worst_cosine, worst_difference;
    const char *worst_stage;
} stages;

static const json_t *row_of(const json_t *rows, const char *clip, const char *stage) {
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        const json_t *name = json_object_get(row, "stage");
        if (strcmp(golden_string(row, "clip"), clip) == 0 &&
            (name ? strcmp(json_string_value(name), stage) == 0 : !*stage))
            return row;
    }
    return NULL;
}

static void check_values(stages *s, const json_t *row, const char *name, const float *x, size_t n, double least) {
    const json_t *values = golden_array(row, "values");
    size_t stride = (size_t)golden_integer(row, "stride"), count = json_array_size(values);
    double ab = 0, aa = 0, bb = 0, sum = 0, squares = 0, worst = 0;
    if (!CHECK_EQ_INT(count, (n + stride - 1) / stride))
        return;
    for (size_t i = 0; i < count; i++) {
        double a = x[i * stride], b = json_number_value(json_array_get(values, i));
        ab += a * b, aa += a * a, bb += b * b;
        worst = fmax(worst, fabs(a - b));
    }
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    double std = sqrt(squares / (double)n), cosine = ab / sqrt(aa * bb), wanted = golden_number(row, "std");
    double shift = golden_allowed()->shift;
    int ok = CHECK(cosine >= least) & CHECK(fabs(std / wanted - 1) <= shift) &
             CHECK(fabs(mean - golden_number(row, "mean")) <= shift * fmax(1, wanted));
    if (!ok)
        printf("    %s %s: cosine %.9f, mean %.6g, std %.6g; the reference has mean %.6g, std %.6g\n", s->clip, name,
               cosine, mean, std, golden_number(row, "mean"), wanted);
    s->seen++;
    if (!(cosine >= s->worst_cosine)) {
        s->worst_cosine = cosine;
        s->worst_stage = golden_string(row, "stage");
    }
    s->worst_difference = fmax(s->worst_difference, worst);
}

static void tap(void *context, const char *name, const mx_tensor *value) {
    stages *s = context;
    const json_t *row = strncmp(name, "encoder.", 8) == 0 ? row_of(s->rows, s->clip, name) : NULL;
    if (!row)
        return; /* a value that the golden leaves out; that none of its stages is missing is counted below */
    size_t n = (size_t)mx_tensor_count(value);
    float *x = malloc(n * sizeof(float));
    if (CHECK(x != NULL) && CHECK(mx_tensor_to_f32(value, x) == MXW_OK))
        check_values(s, row, name, x, n, golden_allowed()->stage_cosine);
    free(x);
}

static int encoder_rows(const json_t *rows, const char *clip) {
    size_t i;
    int n = 0;
    json_t *row;
    json_array_foreach(rows, i, row) {
        const json_t *stage = json_object_get(row, "stage");
        n += strcmp(golden_string(row, "clip"), clip) == 0 && stage &&
             strncmp(json_string_value(stage), "encoder.", 8) == 0;
    }
    return n;
}

static void check_chain(mx_session *session, const mxw_dims *dims, const json_t *rows, const char *clip,
                        const float *mel) {
    size_t n = (size_t)dims->n_audio_ctx * (size_t)dims->n_audio_state;
    float *features = malloc(n * sizeof(float));
    stages s = {.rows = rows, .clip = clip, .worst_cosine = 1, .worst_stage = "none"};
    if (CHECK(features != NULL) && CHECK(mx_session_encode(session, mel, features, tap, &s) == MXW_OK)) {
        int finite = 1;
        for (size_t i = 0; i < n; i++)
            finite &= isfinite(features[i]) != 0;
        CHECK(finite);
        if (golden_all_stages())
            CHECK_EQ_INT(s.seen, encoder_rows(rows, clip));
        else
            CHECK(s.seen > 2 * dims->n_audio_layer && s.seen <= encoder_rows(rows, clip));
        check_values(&s, row_of(rows, clip, "encoder.ln_post"), "features", features, n,
                     golden_allowed()->output_cosine);
        printf("%s: %d stages, least cosine 1 - %.2g (%s), largest difference %.2g\n", clip, s.seen - 1,
               1 - s.worst_cosine, s.worst_stage, s.worst_difference);
    }
    free(features);
}

static void check_clip(mxw_model *model, const mxw_dims *dims, const json_t *rows, const json_t *row) {
    char path[4096];
    golden_clip clip;
    mx_session *session = NULL;
    mxw_session_options options;
    const char *name = golden_string(row, "clip");
    float *mel = malloc(2 * (size_t)dims->n_audio_ctx * (size_t)dims->n_mels * sizeof(float));
    mxw_session_options_default(&options);
    if (!golden_clip_path(name, path, sizeof(path)))
        printf("SKIP: golden-encoder: %s is not installed (tools/make-speech, tools/fetch-speech)\n", name);
    else if (CHECK(golden_clip_read(path, &clip) == 0)) {
        int64_t frames = (int64_t)clip.n / 160;
        if (CHECK(mel != NULL) && CHECK(golden_clip_matches(&clip, row)) &&
            CHECK(mx_session_open(model, &options, &session) == MXW_OK) &&
            CHECK(mx_session_feed(session, clip.samples, clip.n) == MXW_OK) &&
            CHECK(mx_session_finish(session) == MXW_OK) &&
            CHECK(mx_session_mel(session, 0, frames < 3000 ? frames : 3000, mel) == MXW_OK))
            check_chain(session, dims, rows, name, mel);
        golden_clip_free(&clip);
    }
    mx_session_close(session);
    free(mel);
}

static void check_synthetic(mxw_model *model, const mxw_dims *dims, const json_t *rows) {
    static float by_mel[80][3000], mel[3000][80];
    const json_t *row = row_of(rows, "synthetic", "mel"), *values = golden_array(row, "values");
    mx_session *session = NULL;
    mxw_session_options options;
    randn_fill(42, &by_mel[0][0], sizeof(by_mel) / sizeof(float), 20, -40);
    for (int t = 0; t < 3000; t++)
        for (int m = 0; m < 80; m++)
            mel[t][m] = by_mel[m][t];
    size_t stride = (size_t)golden_integer(row, "stride"), i;
    json_t *value;
    double worst = 0;
    json_array_foreach(values, i, value) worst = fmax(worst, fabs((&mel[0][0])[i * stride] - json_number_value(value)));
    CHECK(worst < 1e-5); /* it is numpy's mel that is encoded */
    mxw_session_options_default(&options);
    if (CHECK(mx_session_open(model, &options, &session) == MXW_OK))
        check_chain(session, dims, rows, "synthetic", &mel[0][0]);
    mx_session_close(session);
}

int main(int argc, char **argv) {
    golden_take_engine(&argc, argv);
    if (argc != 2) {
        fprintf(stderr, "usage: golden_encoder MODEL\n");
        return 2;
    }
    char file[256];
    snprintf(file, sizeof(file), "%s/activations.jsonl", argv[1]);
    mxw_model *model = golden_model("golden-encoder", argv[1]);
    mxw_model_info info = {.struct_size = sizeof(info)};
    mxw_model_get_info(model, &info);
    json_t *rows = golden_rows(file), *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        if (json_object_get(row, "sha256"))
            check_clip(model, info.checkpoint->dims, rows, row);
    }
    check_synthetic(model, info.checkpoint->dims, rows);
    json_decref(rows);
    mxw_model_close(model);
    return check_done();
}
