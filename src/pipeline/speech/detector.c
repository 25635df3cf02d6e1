/* pipeline/speech/detector.c - the detectors of speech that sessions of a recognizer use: streams of Silero's network,
 * whose weights are opened when the first session needs them, shared by all, and closed with the recognizer. */
#include <string.h>

#include "base/base.h"
#include "pipeline/pipeline.h"
#include "pipeline/recognizer.h"
#include "vad/vad.h"

struct mx_detector_model {
    mx_detector_model *next;
    char *name;
    mx_vad_model *vad;
};

static void free_model(mx_detector_model *model) {
    mx_vad_model_close(model->vad);
    mx_free(model->name);
    mx_free(model);
}

void mx_recognizer_close_detectors(mx_recognizer *r) {
    while (r->detectors) {
        mx_detector_model *next = r->detectors->next;
        free_model(r->detectors);
        r->detectors = next;
    }
}

/* The recognizer's lock is held. */
static mxw_status open_model(mx_recognizer *r, const char *name, mx_vad_model **out) {
    mxw_status status;
    for (const mx_detector_model *model = r->detectors; model; model = model->next)
        if (strcmp(model->name, name) == 0) {
            *out = model->vad;
            return MXW_OK;
        }
    mx_detector_model *model = mx_alloc_zero(1, sizeof(*model));
    if (!model)
        return MXW_E_MEMORY;
    model->name = mx_strdup(name);
    status = model->name ? MXW_OK : MXW_E_MEMORY;
    if (status < 0)
        goto out;
    MX_TRY(mx_vad_model_open(name, r->model_dir, MXW_SAMPLE_RATE, &model->vad));
    model->next = r->detectors;
    r->detectors = model;
    *out = model->vad;
    return MXW_OK;
out:
    free_model(model);
    return status;
}

static mxw_status feed(void *context, const float *samples, size_t n) { return mx_vad_feed(context, samples, n); }
static mxw_status feed_some(void *context, const float *samples, size_t n) {
    return mx_vad_feed_some(context, samples, n);
}
static mxw_status finish(void *context) { return mx_vad_finish(context); }
static mxw_status probabilities(void *context, float *to, size_t n, size_t *got) {
    return mx_vad_probabilities(context, to, n, got);
}
static mxw_status next(void *context, mxw_vad_region *region) { return mx_vad_next(context, region); }
static int ahead(const void *context, mxw_vad_region *region) { return mx_vad_ahead(context, region); }
static void close(void *context) { mx_vad_close(context); }

mxw_status mx_recognizer_detector(mx_recognizer *r, const mxw_vad_options *options, int all_threads, mx_detector *out) {
    mx_vad_model *model = NULL;
    mx_vad *vad = NULL;
    if (r->open_detector)
        return r->open_detector(r->detector_context, options, out);
    pthread_mutex_lock(&r->lock);
    mxw_status status = open_model(r, options->model ? options->model : MXW_VAD_MODEL, &model);
    pthread_mutex_unlock(&r->lock);
    if (status >= 0)
        status = mx_vad_open(model, options, &vad);
    if (status >= 0 && all_threads)
        status = mx_vad_share(vad, r->pool);
    if (status < 0) {
        mx_vad_close(vad);
        return status;
    }
    *out = (mx_detector){vad, feed, finish, probabilities, next, ahead, close, feed_some,
                         mx_vad_model_sha256(model)};
    return MXW_OK;
}
