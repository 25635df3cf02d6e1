/* tests/kit/fake_detector.c - see the header. */
#include "kit/fake_detector.h"

#include <math.h>

#include "base/mem.h"

#define LOUD 0.02          /* mean magnitude of a chunk */
#define KEPT 4096          /* probabilities and regions that wait to be read, at most */

typedef struct fake {
    fake_detector_options o;
    float threshold;
    int64_t pad, min_silence;   /* samples */
    double sum;                 /* of magnitudes of the current chunk */
    int64_t n_samples, n_chunks;
    int speaking, finished;
    int64_t first, last;           /* of the region: first sample, sample after its last loud chunk; ... */
    int64_t before;                /* ... and the end of the one before */
    float p[KEPT];
    size_t n_p;
    mxw_vad_region regions[KEPT];
    size_t n_regions, next;
} fake;

static void end_region(fake *f, int64_t limit) {
    f->before = MX_MIN(f->last + f->pad, limit);
    f->regions[f->n_regions++] = (mxw_vad_region){.struct_size = sizeof(mxw_vad_region), .first = f->first,
                                                  .end = f->before};
    f->speaking = 0;
}

static void take_chunk(fake *f) {
    int64_t at = f->n_chunks++ * MX_SPEECH_CHUNK;
    float p = f->sum / MX_SPEECH_CHUNK > LOUD ? 0.9f : 0.05f;
    if (f->o.probabilities)
        p = (size_t)f->n_chunks <= f->o.n ? f->o.probabilities[f->n_chunks - 1] : 0;
    f->sum = 0;
    f->p[f->n_p++] = p;
    if (p >= f->threshold) {
        if (!f->speaking)
            f->first = MX_MAX(at - f->pad, f->before);
        f->speaking = 1;
        f->last = at + MX_SPEECH_CHUNK;
    } else if (f->speaking && at + MX_SPEECH_CHUNK - f->last >= MX_MAX(f->min_silence, f->pad)) {
        end_region(f, INT64_MAX);
    }
}

static mxw_status feed(void *context, const float *samples, size_t n) {
    fake *f = context;
    for (size_t i = 0; i < n; i++) {
        if (f->o.fail_after && f->n_samples >= f->o.fail_after)
            return mx_fail(MXW_E_INTERNAL, "detector: failed at sample %lld", (long long)f->n_samples);
        f->sum += fabs((double)samples[i]);
        if (++f->n_samples % MX_SPEECH_CHUNK == 0)
            take_chunk(f);
    }
    return MXW_OK;
}

static mxw_status finish(void *context) {
    fake *f = context;
    if (f->o.fail_finish)
        return mx_fail(MXW_E_INTERNAL, "detector: failed at the end");
    if (f->n_samples % MX_SPEECH_CHUNK)
        take_chunk(f);
    if (f->speaking)
        end_region(f, f->n_samples);
    f->finished = 1;
    return MXW_OK;
}

static mxw_status probabilities(void *context, float *out, size_t n, size_t *got) {
    fake *f = context;
    *got = MX_MIN(n, f->n_p);
    for (size_t i = 0; i < *got; i++)
        out[i] = f->p[i];
    f->n_p -= *got;
    for (size_t i = 0; i < f->n_p; i++)
        f->p[i] = f->p[i + *got];
    return MXW_OK;
}

static mxw_status next(void *context, mxw_vad_region *region) {
    fake *f = context;
    if (f->next == f->n_regions) {
        f->next = f->n_regions = 0;
        return f->finished ? MXW_END : MXW_MORE;
    }
    *region = f->regions[f->next++];
    return MXW_OK;
}

static int ahead(const void *context, mxw_vad_region *region) {
    const fake *f = context;
    region->first = f->finished ? INT64_MAX
                    : f->speaking ? f->first
                                  : MX_MAX(f->n_chunks * MX_SPEECH_CHUNK - f->pad, f->before);
    region->end = f->finished ? INT64_MAX : f->last;
    return f->speaking && !f->finished;
}

static void close(void *context) { mx_free(context); }

mxw_status fake_detector_open(void *context, const mxw_vad_options *options, mx_detector *out) {
    const fake_detector_options *o = context;
    if (o && o->fail_open)
        return mx_fail(MXW_E_NOT_FOUND, "detector: cannot be opened");
    fake *f = mx_alloc_zero(1, sizeof(*f));
    if (!f)
        return MXW_E_MEMORY;
    f->o = o ? *o : (fake_detector_options){0};
    f->threshold = (float)options->threshold;
    f->pad = (int64_t)(options->pad_ms * MXW_SAMPLE_RATE / 1000);
    f->min_silence = (int64_t)(options->min_silence_ms * MXW_SAMPLE_RATE / 1000);
    *out = (mx_detector){f, feed, finish, probabilities, next, ahead, close, NULL, f->o.sha256};
    return MXW_OK;
}
