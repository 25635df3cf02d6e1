/* feature/filters.c - the filter bank computed in double and rounded to f32 where librosa rounds, so that the weights
 * are those that openai-whisper ships. */
#include "feature/filters.h"

#include <math.h>
#include <string.h>

#include "feature/feature.h"

_Static_assert(MX_MEL_BINS == MX_FILTERS_BINS, "one spectrum");

#define TOP_HZ 8000.0
#define BIN_HZ 40.0        /* 16000 / 400 */

/* Slaney's scale: linear below 1 kHz, logarithmic above. */
#define LINEAR_HZ (200.0 / 3)
#define KNEE_HZ 1000.0
#define KNEE_MEL (KNEE_HZ / LINEAR_HZ)

static double log_step(void) { return log(6.4) / 27.0; }

static double hz_to_mel(double hz) {
    return hz >= KNEE_HZ ? KNEE_MEL + log(hz / KNEE_HZ) / log_step() : hz / LINEAR_HZ;
}

static double mel_to_hz(double mel) {
    return mel >= KNEE_MEL ? KNEE_HZ * exp(log_step() * (mel - KNEE_MEL)) : LINEAR_HZ * mel;
}

void mx_filters_init(mx_filters *filters, int n_mels) {
    double edge[MX_FILTERS_MAX + 2];
    const double step = hz_to_mel(TOP_HZ) / (n_mels + 1);
    int n = 0;
    memset(filters, 0, sizeof(*filters));
    filters->n_mels = n_mels;
    for (int i = 0; i < n_mels + 2; i++)
        edge[i] = mel_to_hz(step * i);
    edge[n_mels + 1] = mel_to_hz(hz_to_mel(TOP_HZ));
    for (int i = 0; i < n_mels; i++) {
        const double area = 2.0 / (edge[i + 2] - edge[i]);
        filters->offset[i] = n;
        for (int bin = 0; bin < MX_FILTERS_BINS; bin++) {
            double hz = bin * BIN_HZ;
            double rise = (hz - edge[i]) / (edge[i + 1] - edge[i]);
            double fall = (edge[i + 2] - hz) / (edge[i + 2] - edge[i + 1]);
            float triangle = (float)fmax(0.0, fmin(rise, fall));
            if (triangle <= 0)
                continue;
            if (filters->count[i]++ == 0)
                filters->first[i] = bin;
            filters->weight[n++] = (float)(triangle * area);
        }
    }
}

mxw_status mx_mel_filters(int n_mels, float *out) {
    mx_filters filters;
    if (n_mels != 80 && n_mels != 128)
        return mx_fail(MXW_E_UNSUPPORTED, "mel filters for %d bins: only 80 and 128 exist", n_mels);
    mx_filters_init(&filters, n_mels);
    memset(out, 0, (size_t)n_mels * MX_MEL_BINS * sizeof(*out));
    for (int i = 0; i < n_mels; i++)
        memcpy(out + i * MX_MEL_BINS + filters.first[i], filters.weight + filters.offset[i],
               (size_t)filters.count[i] * sizeof(*out));
    return MXW_OK;
}
