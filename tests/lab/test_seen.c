/* tests/lab/test_seen.c - observability of a run: the attention of its word times among its features, and the FLOP and
 * bytes of every op in its trace, compared with a computation from the model's sizes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/check.h"
#include "kit/gen_checkpoint.h"
#include "kit/pipeline_kit.h"
#include "lab/lab.h"

enum { SECONDS = 4 };
static float samples[SECONDS * MXW_SAMPLE_RATE];

/* ---- words ---------------------------------------------------------------------------------------------- */

static void test_words(mxw_model *model, const mxw_dims *dims) {
    mxw_features_options options;
    mxw_session_options session;
    mxw_features *with = NULL, *without = NULL;
    mxw_features_options_default(&options);
    mxw_session_options_default(&session);
    session.beam_size = 0;
    session.temperature_increment = MXW_NONE;
    session.sample_len = 12;
    options.session = &session;
    options.whole = 0;
    CHECK_EQ_INT(mxw_features_capture(model, samples, MX_COUNT(samples), &options, &without), MXW_OK);
    CHECK(mxw_features_find(without, "words.attention") < 0);
    session.word_timestamps = 1;
    CHECK_EQ_INT(mxw_features_capture(model, samples, MX_COUNT(samples), &options, &with), MXW_OK);
    const mx_stage *tokens = mx_features_find(with, "window.tokens"), *frames = mx_features_find(with, "words.frames");
    const mx_stage *matrix = mx_features_find(with, "words.attention");
    if (!CHECK(tokens && frames && matrix))
        return;
    const int32_t *ids = tokens->tensor.data, *begins = frames->tensor.data;
    int64_t n_text = 0, rows = matrix->tensor.dims[0];
    for (int64_t i = 0; i < tokens->tensor.dims[0]; i++)
        n_text += ids[i] < dims->n_vocab - 1608;   /* of an English model: what follows is no text */
    CHECK(n_text > 0);
    CHECK_EQ_INT(rows, n_text + 1);
    CHECK_EQ_INT(frames->tensor.dims[0], rows);
    CHECK_EQ_INT(matrix->tensor.dims[1], SECONDS * 50);
    CHECK_EQ_INT(matrix->info.n_not_finite, 0);
    for (int64_t i = 1; i < rows; i++)
        CHECK(begins[i] >= begins[i - 1] && begins[i] < SECONDS * 50);
    mxw_features_close(with);
    mxw_features_close(without);
    session.beam_size = -1;
    CHECK_EQ_INT(mxw_features_capture(model, samples, MX_COUNT(samples), &options, &with), MXW_E_ARGUMENT);
    CHECK_STR(mxw_last_error(), "beam_size: -1 is not from 0 to 256");
}

/* ---- arithmetic ----------------------------------------------------------------------------------------- */

typedef struct sums {
    double encoder, cross, decoder, logits;
    int n_without_bytes;
} sums;

static void add(void *user, const mxw_trace_event *event) {
    sums *s = user;
    if (strcmp(event->op, "run") == 0)
        return;
    s->n_without_bytes += event->bytes == 0;
    if (strstr(event->op, "select") || (event->name && strcmp(event->name, "decoder.logits") == 0))
        s->logits += event->flops;
    else
        *(event->graph[0] == 'e' ? &s->encoder : event->graph[0] == 'c' ? &s->cross : &s->decoder) += event->flops;
}

static int close_to(double got, double want) {
    int ok = fabs(got - want) <= 1e-9 * want;
    if (!ok)
        printf("    got %.12g, want %.12g\n", got, want);
    return ok;
}

static mxw_stage_counters count(const mxw_model *model, mxw_stage stage) {
    mxw_stage_counters counters = {.struct_size = sizeof(counters)};
    CHECK_EQ_INT(mxw_model_get_counters(model, stage, &counters), MXW_OK);
    return counters;
}

/* On the fake device, whose memory the host cannot dereference, as on a GPU. */
static void test_work(const char *path, mxw_engine engine, const char *device) {
    sums s = {0};
    mxw_model *model = NULL;
    mxw_session *session = NULL;
    mxw_model_options options;
    mxw_session_options decoding;
    const mxw_segment *segment;
    mxw_model_info info = {.struct_size = sizeof(info)};
    mxw_model_options_default(&options);
    options.model = path;
    options.engine = engine;
    options.device = device;
    options.threads = 1;
    options.on_trace = add;
    options.trace_user = &s;
    mxw_session_options_default(&decoding);
    decoding.temperature_increment = MXW_NONE;
    decoding.sample_len = 12;
    CHECK_EQ_INT(mxw_model_open(&options, &model), MXW_OK);
    CHECK_EQ_INT(mxw_session_open(model, &decoding, &session), MXW_OK);
    mxw_session_feed(session, samples, MX_COUNT(samples));
    mxw_session_finish(session);
    while (mxw_session_next(session, &segment) == MXW_OK)
        ;
    mxw_session_close(session);
    mxw_stage_counters encode = count(model, MXW_STAGE_ENCODE), prompt = count(model, MXW_STAGE_PROMPT);
    mxw_stage_counters step = count(model, MXW_STAGE_STEP);
    mxw_model_get_info(model, &info);
    const mxw_dims *d = info.checkpoint->dims;
    double t = d->n_audio_ctx, a = d->n_audio_state, x = d->n_text_state, windows = (double)encode.items;
    double rows = (double)(prompt.items + step.items), cells = (double)(prompt.cells + step.cells);
    CHECK(windows > 0 && rows > 0 && cells >= rows);
    CHECK(close_to(s.encoder, windows * (2 * 2 * t * a * 3 * d->n_mels + 2 * t * a * 3 * a +
                                         d->n_audio_layer * (24 * t * a * a + 4 * t * t * a))));
    CHECK(close_to(s.cross, windows * d->n_text_layer * 2 * 2 * t * a * x));
    CHECK(close_to(s.decoder, d->n_text_layer * (rows * (28 * x * x + 4 * t * x) + 4 * cells * x)));
    double step_rows = (double)(step.items + prompt.runs);   /* of a prompt one row is looked at, or two */
    CHECK(s.logits >= 2 * step_rows * x * d->n_vocab && s.logits <= 2 * rows * x * d->n_vocab);
    CHECK_EQ_INT(s.n_without_bytes, 0);
    mxw_model_close(model);
}

int main(void) {
    char folder[4096], path[4200];
    gen_options options = {.dims = kit_dims(51864, 24, 3, 2), .seed = 9};
    mxw_model *model = NULL;
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    snprintf(path, sizeof(path), "%s/small.pt", folder);
    kit_on("lab-seen", "fake");   /* so that there is one; before anyone asks for devices */
    kit_on("lab-seen", "cpu");
    kit_samples(2, 0, MX_COUNT(samples), samples);
    if (CHECK_EQ_INT(gen_pt(path, &options), 0)) {
        CHECK_EQ_INT(kit_open(path, 2, &model), MXW_OK);
        test_words(model, &options.dims);
        mxw_model_close(model);
        test_work(path, MXW_ENGINE_CPU, "cpu");
        test_work(path, MXW_ENGINE_MAX, "cpu");
        test_work(path, MXW_ENGINE_GPU, "fake");
        test_work(path, MXW_ENGINE_MAX, "fake");
    }
    gen_remove(folder);
    return check_done();
}
