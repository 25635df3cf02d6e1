/* pipeline/speech/level.c - see level.h. */
#include "pipeline/speech/level.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

#define TARGET 0.125          /* RMS of the loudest chunk: -18 dB of full scale */
#define MOST_GAIN 178.0       /* 45 dB */
#define FORGET 0.98901        /* a chunk: 3 dB a second */

struct mx_level {
    float chunks[MX_LEVEL_AHEAD][MX_SPEECH_CHUNK];   /* a ring: those that wait, the first at `first` */
    double rms[MX_LEVEL_AHEAD];
    size_t first, n_full;                   /* of the ring */
    size_t n_partial;                       /* samples of the chunk after the full ones */
    double loudest;
};

mxw_status mx_level_open(mx_level **out) {
    *out = mx_alloc_zero(1, sizeof(**out));
    return *out ? MXW_OK : MXW_E_MEMORY;
}

void mx_level_close(mx_level *l) { mx_free(l); }

static double rms_of(const float *samples, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)samples[i] * (double)samples[i];
    return n ? sqrt(sum / (double)n) : 0;
}

/* Passes on the first chunk in the ring, n samples of it. */
static mxw_status give(mx_level *l, size_t n, mx_speech *out) {
    float *chunk = l->chunks[l->first];
    l->loudest *= FORGET;
    for (size_t i = 0; i < l->n_full; i++)
        l->loudest = fmax(l->loudest, l->rms[(l->first + i) % MX_LEVEL_AHEAD]);
    double gain = fmin(fmax(TARGET / fmax(l->loudest, 1e-9), 1), MOST_GAIN);
    for (size_t i = 0; i < n; i++)
        chunk[i] = (float)fmin(fmax((double)chunk[i] * gain, -1), 1);
    l->first = (l->first + 1) % MX_LEVEL_AHEAD;
    l->n_full--;
    return mx_speech_feed(out, chunk, n);
}

mxw_status mx_level_feed(mx_level *l, const float *samples, size_t n, mx_speech *out) {
    mxw_status status = MXW_OK;
    while (n > 0 && status >= 0) {
        size_t at = (l->first + l->n_full) % MX_LEVEL_AHEAD, count = MX_MIN(n, MX_SPEECH_CHUNK - l->n_partial);
        memcpy(l->chunks[at] + l->n_partial, samples, count * sizeof(*samples));
        l->n_partial += count;
        samples += count;
        n -= count;
        if (l->n_partial < MX_SPEECH_CHUNK)
            break;
        l->rms[at] = rms_of(l->chunks[at], MX_SPEECH_CHUNK);
        l->n_full++;
        l->n_partial = 0;
        if (l->n_full == MX_LEVEL_AHEAD)
            status = give(l, MX_SPEECH_CHUNK, out);
    }
    return status;
}

mxw_status mx_level_finish(mx_level *l, mx_speech *out) {
    mxw_status status = MXW_OK;
    size_t at = (l->first + l->n_full) % MX_LEVEL_AHEAD, last = l->n_partial;
    if (last > 0) {
        l->rms[at] = rms_of(l->chunks[at], last);
        l->n_full++;
        l->n_partial = 0;
    }
    while (l->n_full > 0 && status >= 0)
        status = give(l, last > 0 && l->n_full == 1 ? last : MX_SPEECH_CHUNK, out);
    return status;
}
