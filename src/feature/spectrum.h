/* feature/spectrum.h - internal to feature/: power spectra of MX_FRAME_LANES frames of 400 samples at once, and their
 * log-mel. */
#ifndef MX_SPECTRUM_H
#define MX_SPECTRUM_H
#include "feature/filters.h"

/* One frame per SIMD lane: lanes never mix, so a frame's bits do not depend on the others. */
#define MX_FRAME_LANES 8
#define MX_SPECTRUM_FFT 400
#define MX_SPECTRUM_BINS 201

typedef struct mx_spectrum {
    double twiddle[200][2];   /* exp(-2 pi i k / 200) */
    double split[101][2];     /* exp(-2 pi i k / 400) */
    double re[2][200][MX_FRAME_LANES], im[2][200][MX_FRAME_LANES];
} mx_spectrum;

void mx_spectrum_init(mx_spectrum *spectrum);

/* fft.c, compiled for one instruction set; all give the same bits. */
typedef struct mx_fft_kernels {
    /* x is windowed already: x[i][lane]. */
    void (*power)(mx_spectrum *spectrum, float x[MX_SPECTRUM_FFT][MX_FRAME_LANES],
                  double power[MX_SPECTRUM_BINS][MX_FRAME_LANES]);
    /* log10 of each filter's power, at least 1e-10. */
    void (*project)(const mx_filters *filters, double power[MX_SPECTRUM_BINS][MX_FRAME_LANES],
                    float out[MX_FILTERS_MAX][MX_FRAME_LANES]);
} mx_fft_kernels;

const mx_fft_kernels *mx_fft_best(void);   /* the best that the CPU has and MXW_CPU allows */
/* For tests: the instruction sets that were built, by their names in base/cpu.h; NULL past the last. */
const char *mx_fft_set(int index);
const mx_fft_kernels *mx_fft_of(int index);
#endif
