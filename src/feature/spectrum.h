/* feature/spectrum.h - inside feature/: the power spectrum of MX_LANES frames of 400 samples at once. */
#ifndef MX_SPECTRUM_H
#define MX_SPECTRUM_H

/* Frames side by side: the lanes never mix, so a frame's bits do not depend on the others. */
#define MX_LANES 4
#define MX_SPECTRUM_FFT 400
#define MX_SPECTRUM_BINS 201

typedef struct mx_spectrum {
    double twiddle[200][2];   /* exp(-2 pi i k / 200) */
    double split[101][2];     /* exp(-2 pi i k / 400) */
    double re[2][200][MX_LANES], im[2][200][MX_LANES];
} mx_spectrum;

void mx_spectrum_init(mx_spectrum *spectrum);
/* x is windowed already: x[i][lane]. */
void mx_spectrum_power(mx_spectrum *spectrum, float x[MX_SPECTRUM_FFT][MX_LANES],
                       double power[MX_SPECTRUM_BINS][MX_LANES]);
#endif
