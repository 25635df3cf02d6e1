/* realtime/audio/resample.c - a polyphase filter: for each place that an output can have between two inputs a row of
 * weights, a sinc under a Kaiser window. */
#include "realtime/audio/resample.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CROSSINGS 24             /* zero crossings of the sinc on each side */
#define ROLLOFF 0.94             /* of the lower rate's band; beyond it the filter falls off */
#define KAISER_BETA 8.0          /* -80 dB */
#define BLOCK 2048
#define PI 3.14159265358979323846

struct resampler {
    int up, down;                /* out : in, in lowest terms */
    int n_taps;
    float *weights;              /* [up][n_taps] */
    int64_t n_in, n_out;         /* of the stream */
    int64_t next;                /* the first tap of the next output, in samples since the buffer's first */
    int phase;                   /* and its place: phase / up of a sample later */
    float *buffer;               /* [n_taps + BLOCK] inputs that are still needed */
    size_t n;
};

static double bessel_0(double x) {
    double sum = 1, term = 1;
    for (int k = 1; term > 1e-12 * sum; k++) {
        term *= (x / (2 * k)) * (x / (2 * k));
        sum += term;
    }
    return sum;
}

/* The filter's value at t input samples from its middle; cutoff in cycles per two samples. */
static double filter(double t, double cutoff, double half) {
    double x = t / half, arc = PI * cutoff * t;
    if (fabs(x) >= 1)
        return 0;
    return (fabs(arc) < 1e-9 ? 1 : sin(arc) / arc) * bessel_0(KAISER_BETA * sqrt(1 - x * x));
}

/* Each row adds up to 1, so that a constant stays what it is. */
static void fill(resampler *r, double cutoff, double half) {
    for (int p = 0; p < r->up; p++) {
        float *row = r->weights + (size_t)p * (size_t)r->n_taps;
        double sum = 0;
        for (int i = 0; i < r->n_taps; i++)
            sum += filter(i - (r->n_taps / 2 - 1) - (double)p / r->up, cutoff, half);
        for (int i = 0; i < r->n_taps; i++)
            row[i] = (float)(filter(i - (r->n_taps / 2 - 1) - (double)p / r->up, cutoff, half) / sum);
    }
}

static int divisor(int a, int b) { return b ? divisor(b, a % b) : a; }

resampler *resampler_open(int rate) {
    resampler *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    int common = divisor(RESAMPLE_TO, rate);
    r->up = RESAMPLE_TO / common;
    r->down = rate / common;
    if (r->up == r->down)
        return r;
    double cutoff = ROLLOFF * (rate > RESAMPLE_TO ? (double)RESAMPLE_TO / rate : 1), half = CROSSINGS / cutoff;
    r->n_taps = 2 * (int)ceil(half);
    r->weights = malloc((size_t)r->up * (size_t)r->n_taps * sizeof(*r->weights));
    r->buffer = malloc(((size_t)r->n_taps + BLOCK) * sizeof(*r->buffer));
    if (!r->weights || !r->buffer) {
        resampler_close(r);
        return NULL;
    }
    fill(r, cutoff, half);
    r->n = (size_t)r->n_taps / 2 - 1;   /* before the first sample there is silence */
    memset(r->buffer, 0, r->n * sizeof(*r->buffer));
    return r;
}

void resampler_close(resampler *r) {
    if (!r)
        return;
    free(r->weights);
    free(r->buffer);
    free(r);
}

size_t resampler_most(const resampler *r, size_t n) { return n * (size_t)r->up / (size_t)r->down + 2; }

/* All outputs that the buffer has inputs for. */
static size_t filter_buffer(resampler *r, float *out) {
    size_t n_out = 0;
    while ((size_t)r->next + (size_t)r->n_taps <= r->n) {
        const float *row = r->weights + (size_t)r->phase * (size_t)r->n_taps, *in = r->buffer + r->next;
        float sum = 0;
        for (int i = 0; i < r->n_taps; i++)
            sum += row[i] * in[i];
        out[n_out++] = sum;
        r->phase += r->down;
        r->next += r->phase / r->up;
        r->phase %= r->up;
    }
    size_t used = (size_t)r->next < r->n ? (size_t)r->next : r->n;
    memmove(r->buffer, r->buffer + used, (r->n - used) * sizeof(*r->buffer));
    r->n -= used;
    r->next -= (int64_t)used;
    return n_out;
}

size_t resampler_feed(resampler *r, const float *in, size_t n, float *out) {
    size_t n_out = 0;
    if (r->up == r->down) {
        memcpy(out, in, n * sizeof(*in));
        return n;
    }
    for (size_t at = 0, count; at < n; at += count) {
        count = n - at < BLOCK ? n - at : BLOCK;
        memcpy(r->buffer + r->n, in + at, count * sizeof(*in));
        r->n += count;
        n_out += filter_buffer(r, out + n_out);
    }
    r->n_in += (int64_t)n;
    r->n_out += (int64_t)n_out;
    return n_out;
}

/* Half a filter of silence brings everything out; some of it may lie after the last sample. */
size_t resampler_finish(resampler *r, float *out) {
    static const float silence[BLOCK];
    if (r->up == r->down)
        return 0;
    size_t n = (size_t)r->n_taps / 2 + 1;
    int64_t left = (r->n_in * r->up + r->down - 1) / r->down - r->n_out;
    memcpy(r->buffer + r->n, silence, n * sizeof(*silence));
    r->n += n;
    size_t n_out = filter_buffer(r, out);
    return (int64_t)n_out < left ? n_out : (size_t)left;
}
