/* pipeline/live/encoder.c - the encoder of a stream's passes on a CPU, where it is most of what a pass costs. A clip of
 * some seconds is padded to a window of 30, and the next pass hears the same clip with a second more of it: the padding
 * is nearly the same each time. So a pass computes the positions with sound, and takes the keys, values and features of
 * the padding from the last pass that computed them all. See docs/live.md for what that changes. */
#include "pipeline/live/encoder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "model/model.h"
#include "pipeline/recognizer.h"

#define MAX_LAYERS 64
#define LEVEL_CHANGE 0.05f        /* of the padding's log-mel, which follows the loudest sound: then all is computed */
#define BEYOND 8                  /* positions after the sound that are computed: what they hear reaches into it */

/* Positions that a graph computes: 3.2 s, 6.4 s, 9.6 s, 12.8 s, and all. */
static const int sizes[MX_LIVE_ENCODERS] = {160, 320, 480, 640, 0};

struct mx_live_encoder {
    mx_recognizer *recognizer;
    mx_run *runs[MX_LIVE_ENCODERS];
    float *rest[2 * MAX_LAYERS];  /* keys and values of the positions from sizes[0] on, by layer */
    float *features;              /* [n_audio_ctx][d]: of the last pass */
    int64_t n_sound;              /* positions with sound when all were computed last; < 0: never */
    float level;                  /* of the padding then */
};

/* ---- programs, which the streams of a recognizer share ----------------------------------------------------------- */

static mxw_status find_weight(void *context, const char *name, mx_tensor *out) {
    return mx_weights_find(((const mx_recognizer *)context)->weights, name, out);
}

static mxw_status load(mx_recognizer *r, int i) {
    mxw_status status;
    const mxw_dims *dims = r->checkpoint.dims;
    int64_t n = sizes[i] ? sizes[i] : dims->n_audio_ctx;
    mx_weight_source source = {find_weight, r};
    mx_program_options options = {.engine = MXW_ENGINE_MAX, .device = "cpu", .pool = r->pool, .weights = &source,
                                  .like = r->programs[MX_PART_ENCODER]};
    MX_TRY(mx_model_encoder_part(dims, n, sizes[0], &r->live.graphs[i]));
    MX_TRY(mx_exec_load(r->live.graphs[i], &options, &r->live.programs[i]));
out:
    mx_weights_forget(r->weights);
    return status;
}

void mx_recognizer_close_live(mx_recognizer *r) {
    for (int i = 0; i < MX_LIVE_ENCODERS; i++) {
        mx_exec_unload(r->live.programs[i]);
        mx_graph_destroy(r->live.graphs[i]);
    }
}

static mxw_status load_all(mx_recognizer *r) {
    mxw_status status = MXW_OK;
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < MX_LIVE_ENCODERS && status >= 0; i++)
        if (!r->live.programs[i])
            status = load(r, i);
    pthread_mutex_unlock(&r->lock);
    return status;
}

/* ---- an encoder -------------------------------------------------------------------------------------------------- */

int mx_live_encoder_fits(const mx_recognizer *r) {
    const mxw_dims *dims = r->checkpoint.dims;
    return r->engine == MXW_ENGINE_MAX && r->encode_engine < 0 && dims->n_audio_layer <= MAX_LAYERS &&
           dims->n_audio_ctx > sizes[MX_LIVE_ENCODERS - 2] &&
           strcmp(mx_exec_device(r->programs[MX_PART_ENCODER]), "cpu") == 0;
}

mxw_status mx_live_encoder_open(mx_recognizer *r, mx_live_encoder **out) {
    mxw_status status;
    const mxw_dims *dims = r->checkpoint.dims;
    size_t width = (size_t)dims->n_audio_state, n_rest = (size_t)(dims->n_audio_ctx - sizes[0]);
    mx_live_encoder *e = mx_alloc_zero(1, sizeof(*e));
    if (!e)
        return MXW_E_MEMORY;
    e->recognizer = r;
    e->n_sound = -1;
    e->features = mx_alloc_array((size_t)dims->n_audio_ctx, width * sizeof(float));
    status = e->features ? MXW_OK : MXW_E_MEMORY;
    for (int i = 0; i < 2 * dims->n_audio_layer && status >= 0; i++) {
        e->rest[i] = mx_alloc_array(n_rest, width * sizeof(float));
        status = e->rest[i] ? MXW_OK : MXW_E_MEMORY;
    }
    if (status < 0)
        goto out;
    MX_TRY(load_all(r));
    for (int i = 0; i < MX_LIVE_ENCODERS; i++)
        MX_TRY(mx_run_open(r->live.programs[i], NULL, &e->runs[i]));
    *out = e;
    return MXW_OK;
out:
    mx_live_encoder_close(e);
    return status;
}

void mx_live_encoder_close(mx_live_encoder *e) {
    if (!e)
        return;
    for (int i = 0; i < MX_LIVE_ENCODERS; i++)
        mx_run_close(e->runs[i]);
    for (int i = 0; i < 2 * MAX_LAYERS; i++)
        mx_free(e->rest[i]);
    mx_free(e->features);
    mx_free(e);
}

/* "rest.k.N" for even i, "rest.v.N" for odd. */
static const char *rest_name(char name[32], int i) {
    snprintf(name, 32, "rest.%s.%d", i % 2 ? "v" : "k", i / 2);
    return name;
}

static mxw_status copy_output(mx_run *run, const char *name, float *to) {
    mx_tensor t;
    mxw_status status = mx_run_output(run, name, &t);
    if (status >= 0)
        memcpy(to, t.data, mx_tensor_bytes(&t));
    return status;
}

static mxw_status encode_all(mx_live_encoder *e, mx_run *run, const float *mel) {
    mxw_status status;
    char name[32];
    const mxw_dims *dims = e->recognizer->checkpoint.dims;
    mx_tensor t = mx_tensor_of_const(MXW_F32, 3, (int64_t[]){1, 2 * dims->n_audio_ctx, dims->n_mels}, mel);
    MX_TRY(mx_run_input(run, "mel", &t));
    MX_TRY(mx_run_execute(run));
    MX_TRY(copy_output(run, "features", e->features));
    for (int i = 0; i < 2 * dims->n_audio_layer; i++)
        MX_TRY(copy_output(run, rest_name(name, i), e->rest[i]));
out:
    return status;
}

static mxw_status encode_part(mx_live_encoder *e, mx_run *run, int64_t n, const float *mel) {
    mxw_status status;
    char name[32];
    const mxw_dims *dims = e->recognizer->checkpoint.dims;
    mx_tensor t = mx_tensor_of_const(MXW_F32, 3, (int64_t[]){1, 2 * n + 2, dims->n_mels}, mel);
    MX_TRY(mx_run_input(run, "mel", &t));
    for (int i = 0; i < 2 * dims->n_audio_layer; i++) {
        const float *rest = e->rest[i] + (size_t)(n - sizes[0]) * (size_t)dims->n_audio_state;
        t = mx_tensor_of_const(MXW_F32, 3, (int64_t[]){1, dims->n_audio_ctx - n, dims->n_audio_state}, rest);
        MX_TRY(mx_run_input(run, rest_name(name, i), &t));
    }
    MX_TRY(mx_run_execute(run));
    MX_TRY(copy_output(run, "features", e->features));
out:
    return status;
}

mxw_status mx_live_encoder_run(mx_live_encoder *e, const float *mel, int64_t n_frames, int all,
                               const float **features) {
    const mxw_dims *dims = e->recognizer->checkpoint.dims;
    int64_t n_sound = MX_MIN(n_frames / 2 + BEYOND, dims->n_audio_ctx);
    float level = mel[(size_t)(2 * dims->n_audio_ctx - 1) * (size_t)dims->n_mels];
    mxw_status status = MXW_OK;
    int i = 0;
    while (i < MX_LIVE_ENCODERS - 1 && sizes[i] < MX_MAX(n_sound, e->n_sound))
        i++;
    if (all || e->n_sound < 0 || fabsf(level - e->level) > LEVEL_CHANGE)
        i = MX_LIVE_ENCODERS - 1;
    if (sizes[i]) {
        status = encode_part(e, e->runs[i], sizes[i], mel);
    } else {
        e->n_sound = -1;
        status = encode_all(e, e->runs[i], mel);
        if (status >= 0) {
            e->n_sound = n_sound;
            e->level = level;
        }
    }
    *features = e->features;
    return status;
}
