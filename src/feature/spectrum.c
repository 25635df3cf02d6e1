/* feature/spectrum.c - see spectrum.h. */
#include "feature/spectrum.h"

#include <math.h>

#include "base/base.h"
#include "base/cpu.h"

#define N 200
#define PI 3.14159265358979323846

void mx_spectrum_init(mx_spectrum *s) {
    for (int k = 0; k < N; k++) {
        s->twiddle[k][0] = cos(2 * PI * k / N);
        s->twiddle[k][1] = -sin(2 * PI * k / N);
    }
    for (int k = 0; k <= N / 2; k++) {
        s->split[k][0] = cos(PI * k / N);
        s->split[k][1] = -sin(PI * k / N);
    }
}

extern const mx_fft_kernels mx_fft_ref, mx_fft_avx2, mx_fft_avx512;

static const struct {
    const char *set;
    const mx_fft_kernels *kernels;
} built[] = {
    {"ref", &mx_fft_ref},
#ifdef __x86_64__
    {"avx2", &mx_fft_avx2},
    {"avx512", &mx_fft_avx512},
#endif
};

const char *mx_fft_set(int index) { return index >= 0 && (size_t)index < MX_COUNT(built) ? built[index].set : NULL; }

const mx_fft_kernels *mx_fft_of(int index) { return built[index].kernels; }

const mx_fft_kernels *mx_fft_best(void) {
    int best = 0;
    for (int i = 0; mx_fft_set(i); i++)
        best = mx_cpu_may(mx_fft_set(i)) ? i : best;
    return built[best].kernels;
}
