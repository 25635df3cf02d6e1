/* exact.h - Silero's network in float64, plain loops, for weights that gen_silero.h makes. */
#ifndef VAD_EXACT_H
#define VAD_EXACT_H
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/gen_silero.h"

typedef struct exact {
    int rate, chunk, context, window;
    float *w[15];                  /* in the order of names */
    double h[128], c[128];
    float last[64];                /* the context */
} exact;

static const char *const exact_names[15] = {
    "stft.weight", "conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "conv3.weight", "conv3.bias",
    "conv4.weight", "conv4.bias", "lstm.weight_ih", "lstm.weight_hh", "lstm.bias_ih", "lstm.bias_hh", "output.weight",
    "output.bias"};

static inline exact exact_open(const gen_silero *options, int rate) {
    exact e = {.rate = rate, .chunk = rate * 32 / 1000, .context = rate * 4 / 1000, .window = rate * 16 / 1000};
    for (int i = 0; i < 15; i++) {
        e.w[i] = malloc((size_t)gen_silero_values(options, rate, exact_names[i], NULL) * sizeof(float));
        gen_silero_values(options, rate, exact_names[i], e.w[i]);
    }
    return e;
}

static inline void exact_close(exact *e) {
    for (int i = 0; i < 15; i++)
        free(e->w[i]);
}

/* x [in][frames] -> y [out][frames / stride, rounded up], width 3, padded by 1, relu */
static inline int exact_convolve(const double *x, int in, int frames, const float *w, const float *b, int out,
                                 int stride, double *y) {
    int n = (frames - 1) / stride + 1;
    for (int o = 0; o < out; o++)
        for (int t = 0; t < n; t++) {
            double sum = b[o];
            for (int i = 0; i < in; i++)
                for (int k = 0; k < 3; k++) {
                    int from = t * stride + k - 1;
                    if (from >= 0 && from < frames)
                        sum += (double)w[(o * in + i) * 3 + k] * x[i * frames + from];
                }
            y[o * n + t] = sum > 0 ? sum : 0;
        }
    return n;
}

static inline void exact_magnitudes(exact *e, const float *samples, double *x) {
    float padded[640];
    int n = e->context + e->chunk, bins = e->window / 2 + 1;
    memcpy(padded, e->last, (size_t)e->context * sizeof(float));
    memcpy(padded + e->context, samples, (size_t)e->chunk * sizeof(float));
    for (int i = 0; i < e->context; i++)
        padded[n + i] = padded[n - 2 - i];
    memcpy(e->last, padded + e->chunk, (size_t)e->context * sizeof(float));
    for (int k = 0; k < bins; k++)
        for (int t = 0; t < 4; t++) {
            double re = 0, im = 0;
            for (int i = 0; i < e->window; i++) {
                double s = padded[t * e->window / 2 + i];
                re += (double)e->w[0][k * e->window + i] * s;
                im += (double)e->w[0][(bins + k) * e->window + i] * s;
            }
            x[k * 4 + t] = sqrt(re * re + im * im);
        }
}

static inline double exact_sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* The probability of the next chunk. */
static inline double exact_next(exact *e, const float *samples) {
    double x[129 * 4], y[128 * 4], gates[512], sum = e->w[14][0];
    exact_magnitudes(e, samples, x);
    int n = exact_convolve(x, e->window / 2 + 1, 4, e->w[1], e->w[2], 128, 1, y);
    n = exact_convolve(y, 128, n, e->w[3], e->w[4], 64, 2, x);
    n = exact_convolve(x, 64, n, e->w[5], e->w[6], 64, 2, y);
    exact_convolve(y, 64, n, e->w[7], e->w[8], 128, 1, x);
    for (int g = 0; g < 512; g++) {
        gates[g] = (double)e->w[11][g] + (double)e->w[12][g];
        for (int i = 0; i < 128; i++)
            gates[g] += (double)e->w[9][g * 128 + i] * x[i] + (double)e->w[10][g * 128 + i] * e->h[i];
    }
    for (int i = 0; i < 128; i++) {
        e->c[i] = exact_sigmoid(gates[128 + i]) * e->c[i] + exact_sigmoid(gates[i]) * tanh(gates[256 + i]);
        e->h[i] = exact_sigmoid(gates[384 + i]) * tanh(e->c[i]);
        sum += (double)e->w[13][i] * (e->h[i] > 0 ? e->h[i] : 0);
    }
    return exact_sigmoid(sum);
}
#endif
