/* guard/attention.c - where the model looked when it wrote a token, and how sure it was of it. */
#include <math.h>
#include <string.h>

#include "guard/guard.h"

/* Adds a head's softmax over all keys; powers [n]: scratch. */
static void add_head(double *weights, double *powers, const float *scores, size_t n) {
    float top = -INFINITY;
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        top = scores[k] > top ? scores[k] : top;
    for (size_t k = 0; k < n; k++) {
        powers[k] = exp((double)(scores[k] - top));
        sum += powers[k];
    }
    for (size_t k = 0; k < n; k++)
        weights[k] += powers[k] / sum;
}

void mx_guard_attend(mx_guard_token *token, const float *scores, size_t n_heads, size_t n_keys, const float *speech,
                     size_t n_frames, double *weights) {
    double inside = 0, on_speech = 0, centre = 0;
    memset(weights, 0, n_keys * sizeof(*weights));
    for (size_t h = 0; h < n_heads; h++)
        add_head(weights, weights + n_keys, scores + h * n_keys, n_keys);
    for (size_t k = 0; k < n_keys && k < n_frames; k++) {
        inside += weights[k];
        on_speech += weights[k] * (double)speech[k];
        centre += weights[k] * (double)k;
    }
    token->centre_s = inside > 0 ? centre / inside / MX_GUARD_FRAMES_PER_S : 0;
    token->on_speech = inside > 0 ? on_speech / inside : 0;
}

double mx_guard_entropy(const float *logprobs, size_t n) {
    double entropy = 0, rest = 1;
    for (size_t i = 0; i < n; i++) {
        double p = exp((double)logprobs[i]);
        if (p > 0)
            entropy -= p * log(p);
        rest -= p;
    }
    return rest > 1e-12 ? entropy - rest * log(rest) : entropy;
}
