/* vad/stft.c - folding of the STFT; see the header. */
#include "vad/stft.h"

#include <math.h>

#define PI 3.14159265358979323846
#define TOLERANCE 1e-6   /* of a basis in f32: an element is at most 1, and rounded */

static double hann_at(int window, int n) { return 0.5 - 0.5 * cos(2 * PI * n / window); }

/* cos or sin of 2 pi k n / N, from the smallest angle, so that symmetric elements are equal. */
static double cosine(int window, int64_t k, int64_t n) { return cos(2 * PI * (double)(k * n % window) / window); }
static double sine(int window, int64_t k, int64_t n) { return sin(2 * PI * (double)(k * n % window) / window); }

int mx_vad_fold_applies(const float *basis, int window) {
    const int bins = window / 2 + 1;
    for (int k = 0; k < bins; k++)
        for (int n = 0; n < window; n++) {
            double w = hann_at(window, n), re = basis[k * window + n], im = basis[(bins + k) * window + n];
            if (!(fabs(re - w * cosine(window, k, n)) < TOLERANCE) || !(fabs(im + w * sine(window, k, n)) < TOLERANCE))
                return 0;
        }
    return 1;
}

void mx_vad_fold_window(int window, float *hann) {
    for (int n = 0; n <= window / 2; n++)
        hann[n] = (float)hann_at(window, n);
}

const char *mx_vad_fold_name(int part) {
    static const char *const names[] = {"cos_even", "cos_odd", "sin_even", "sin_odd"};
    return names[part];
}

int64_t mx_vad_fold_inputs(int window, int part) { return window / 4 + (part == MX_FOLD_COS_EVEN); }

int64_t mx_vad_fold_outputs(int window, int part) {
    return window / 4 + (part == MX_FOLD_COS_EVEN || part == MX_FOLD_SIN_EVEN);
}

void mx_vad_fold_basis(int window, int part, float *basis) {
    int64_t inputs = mx_vad_fold_inputs(window, part), outputs = mx_vad_fold_outputs(window, part);
    int odd = part == MX_FOLD_COS_ODD || part == MX_FOLD_SIN_ODD;
    for (int64_t m = 0; m < outputs; m++)
        for (int64_t i = 0; i < inputs; i++) {
            int64_t k = 2 * m + odd, n = part == MX_FOLD_SIN_ODD && i == 0 ? window / 4 : i;
            int sines = part == MX_FOLD_SIN_EVEN || part == MX_FOLD_SIN_ODD;
            basis[m * inputs + i] = (float)(sines ? sine(window, k, n) : cosine(window, k, n));
        }
}

/* With s[n], d[n] = w[n] (x[n] +- x[N - n]) and q = N / 4: cosines read s[n] +- s[2 q - n], n = 0 .. q; sines read
 * d[n] -+ d[2 q - n], n = 1 .. q - 1, those of odd k also d[q], in the place of n = 0. */
void mx_vad_fold(int window, const float *hann, const float *x, float *const to[4]) {
    const int half = window / 2, q = window / 4;
    float *ce = to[MX_FOLD_COS_EVEN], *co = to[MX_FOLD_COS_ODD], *se = to[MX_FOLD_SIN_EVEN], *so = to[MX_FOLD_SIN_ODD];
    float s[129], d[129];
    s[0] = hann[0] * x[0];
    d[0] = 0;
    for (int n = 1; n < half; n++) {
        s[n] = hann[n] * (x[n] + x[window - n]);
        d[n] = hann[n] * (x[n] - x[window - n]);
    }
    s[half] = hann[half] * x[half];
    d[half] = 0;
    for (int n = 0; n < q; n++) {
        ce[n] = s[n] + s[half - n];
        co[n] = s[n] - s[half - n];
        se[n] = d[n] - d[half - n];
        so[n] = d[n] + d[half - n];
    }
    ce[q] = s[q];
    so[0] = d[q];
}
