/* mel_exact.h - log-mel by its definition, in double, sharing no code with feature/: a plain DFT of every frame and a
 * dense filter bank. Slow on purpose. Tests include it in one file each. */
#ifndef MEL_EXACT_H
#define MEL_EXACT_H
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct mel_shape {
    int n_fft, hop, n_mels;
} mel_shape;

/* librosa's Slaney filters for 16 kHz: [n_mels][n_fft / 2 + 1] */
static double *exact_filters(mel_shape shape) {
    const int bins = shape.n_fft / 2 + 1;
    const double knee = 15.0, top = knee + log(8.0) / (log(6.4) / 27.0);
    double *filters = calloc((size_t)shape.n_mels * bins, sizeof(double));
    double hz[256];
    for (int i = 0; i < shape.n_mels + 2; i++) {
        double mel = top * i / (shape.n_mels + 1);
        hz[i] = mel < knee ? mel * 200.0 / 3.0 : 1000.0 * pow(6.4, (mel - knee) / 27.0);
    }
    for (int m = 0; m < shape.n_mels; m++)
        for (int b = 0; b < bins; b++) {
            double f = b * 16000.0 / shape.n_fft;
            double up = (f - hz[m]) / (hz[m + 1] - hz[m]), down = (hz[m + 2] - f) / (hz[m + 2] - hz[m + 1]);
            double w = up < down ? up : down;
            filters[m * bins + b] = w > 0 ? w * 2.0 / (hz[m + 2] - hz[m]) : 0;
        }
    return filters;
}

/* Sample i of the audio with its padding of zeros, reflected at the start. */
static double exact_sample(const float *audio, int64_t n, int64_t i) {
    if (i < 0)
        i = -i;
    return i < n ? audio[i] : 0.0;
}

/* Power of the mel bins of frame t. */
static void exact_power(const float *audio, int64_t n, mel_shape shape, const double *filters, int64_t t, double *out) {
    const int bins = shape.n_fft / 2 + 1;
    static double wave[4096][2];   /* cosine and sine of each turn / n_fft */
    static int waves_of;
    double *power = calloc((size_t)bins, sizeof(double));
    for (int i = 0; waves_of != shape.n_fft && i < shape.n_fft; i++) {
        wave[i][0] = cos(8 * atan(1.0) * i / shape.n_fft);
        wave[i][1] = sin(8 * atan(1.0) * i / shape.n_fft);
    }
    waves_of = shape.n_fft;
    for (int b = 0; b < bins; b++) {
        double re = 0, im = 0;
        for (int i = 0; i < shape.n_fft; i++) {
            double x = exact_sample(audio, n, t * shape.hop - shape.n_fft / 2 + i) * (0.5 - 0.5 * wave[i][0]);
            int turn = b * i % shape.n_fft;
            re += x * wave[turn][0];
            im -= x * wave[turn][1];
        }
        power[b] = re * re + im * im;
    }
    for (int m = 0; m < shape.n_mels; m++) {
        out[m] = 0;
        for (int b = 0; b < bins; b++)
            out[m] += filters[m * bins + b] * power[b];
    }
    free(power);
}

/* Frames [0, n_frames) of the whole padded mel, clamped over them (the caller asks for all that are not silence). */
static double *exact_mel(const float *audio, int64_t n, mel_shape shape, int64_t n_frames) {
    double *filters = exact_filters(shape), *mel = calloc((size_t)n_frames * shape.n_mels + 1, sizeof(double));
    double maximum = -10;
    for (int64_t t = 0; t < n_frames; t++)
        exact_power(audio, n, shape, filters, t, mel + t * shape.n_mels);
    for (int64_t i = 0; i < n_frames * shape.n_mels; i++) {
        mel[i] = log10(mel[i] > 1e-10 ? mel[i] : 1e-10);
        maximum = mel[i] > maximum ? mel[i] : maximum;
    }
    for (int64_t i = 0; i < n_frames * shape.n_mels; i++)
        mel[i] = ((mel[i] > maximum - 8 ? mel[i] : maximum - 8) + 4) / 4;
    free(filters);
    return mel;
}
#endif
