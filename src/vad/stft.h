/* vad/stft.h - internal to vad/: the STFT of a window of N samples with a quarter of the products.
 *
 * The basis is w[n] cos(2 pi k n / N) and w[n] sin(2 pi k n / N), k = 0 .. N/2, w a periodic Hann window: symmetric or
 * antisymmetric about N/2, and, without the window, about N/4 too, which of the two depends on whether k is even. So
 * samples are added and subtracted first, and four small products remain: cosines and sines of even and of odd k. */
#ifndef MX_VAD_STFT_H
#define MX_VAD_STFT_H
#include <stdint.h>

enum { MX_FOLD_COS_EVEN, MX_FOLD_COS_ODD, MX_FOLD_SIN_EVEN, MX_FOLD_SIN_ODD };

/* Whether a basis [N + 2][N], cosines and then sines of either sign, is this one, up to the rounding of f32. */
int mx_vad_fold_applies(const float *basis, int window);
void mx_vad_fold_window(int window, float *hann);   /* [N/2 + 1]; the rest is its mirror image */
/* Of each of the four: its name, the folded samples that it reads, the frequencies that it gives (as many of sines as
 * of cosines: those of k = 0 and N/2 are 0), and its weights [outputs][inputs]. */
const char *mx_vad_fold_name(int part);
int64_t mx_vad_fold_inputs(int window, int part);
int64_t mx_vad_fold_outputs(int window, int part);
void mx_vad_fold_basis(int window, int part, float *basis);
/* Folds N samples of x into the four parts. */
void mx_vad_fold(int window, const float *hann, const float *x, float *const to[4]);
#endif
