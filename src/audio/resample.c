/* audio/resample.c - see resample.h. The kernel is a table of 512 points a zero crossing, read with linear
 * interpolation (error below 2e-6 of full scale, under half a step of 16 bits), so its size does not depend on the
 * rate. When downsampling, the kernel is stretched so that it cuts off at the new Nyquist frequency. */
#include "audio/resample.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/mem.h"

#define OUT_RATE MXW_SAMPLE_RATE
#define CROSSINGS 32          /* zero crossings on each side */
#define FINE 512              /* table points between two of them */
#define KAISER_BETA 9.0       /* about 90 dB of stop band */
#define CUTOFF 0.95           /* of the lower Nyquist frequency: the transition band ends near it */
#define PI 3.14159265358979323846

struct mx_resample {
    int rate;
    double scale;             /* kernel crossings per input sample: at most CUTOFF */
    int64_t reach;            /* input samples on each side that an output sample depends on */
    int64_t n_in, n_out;
    int finished;
    int64_t first;            /* index of buffer[0]; samples before the start and past the end are 0 */
    size_t filled, capacity;
    double *buffer;
};

static pthread_once_t kernel_once = PTHREAD_ONCE_INIT;
static double kernel[CROSSINGS * FINE + 1];

static double bessel_i0(double x) {
    double sum = 1, term = 1;
    for (int k = 1; term > 1e-18 * sum; k++) {
        term *= (x / (2 * k)) * (x / (2 * k));
        sum += term;
    }
    return sum;
}

static void fill_kernel(void) {
    const double scale = bessel_i0(KAISER_BETA);
    for (int i = 0; i <= CROSSINGS * FINE; i++) {
        double t = (double)i / FINE, edge = t / CROSSINGS;
        double sinc = i == 0 ? 1 : sin(PI * t) / (PI * t);
        kernel[i] = sinc * bessel_i0(KAISER_BETA * sqrt(1 - edge * edge)) / scale;
    }
}

mxw_status mx_resample_open(int rate, mx_resample **out) {
    mx_resample *r = mx_alloc_zero(1, sizeof(*r));
    *out = r;
    if (!r)
        return MXW_E_MEMORY;
    r->rate = rate;
    r->scale = CUTOFF * fmin(1.0, (double)OUT_RATE / rate);
    r->reach = (int64_t)ceil(CROSSINGS / r->scale);
    pthread_once(&kernel_once, fill_kernel);
    return MXW_OK;
}

void mx_resample_close(mx_resample *r) {
    if (!r)
        return;
    mx_free(r->buffer);
    mx_free(r);
}

mxw_status mx_resample_feed(mx_resample *r, const double *samples, size_t n) {
    if (n == 0)
        return MXW_OK;
    mxw_status status = mx_grow(&r->buffer, &r->capacity, r->filled + n, sizeof(double));
    if (status < 0)
        return status;
    memcpy(r->buffer + r->filled, samples, n * sizeof(double));
    r->filled += n;
    r->n_in += (int64_t)n;
    return MXW_OK;
}

void mx_resample_finish(mx_resample *r) { r->finished = 1; }

/* The sum around input position whole + rest / OUT_RATE. */
static double interpolate(const mx_resample *r, int64_t whole, int64_t rest) {
    double fraction = (double)rest / OUT_RATE, sum = 0;
    int64_t from = MX_MAX(whole - r->reach + 1, 0), to = MX_MIN(whole + r->reach, r->n_in - 1);
    for (int64_t i = from; i <= to; i++) {
        double t = fabs((double)(i - whole) - fraction) * r->scale * FINE;
        int64_t k = (int64_t)t;
        if (k >= CROSSINGS * FINE)
            continue;
        sum += r->buffer[i - r->first] * (kernel[k] + (t - (double)k) * (kernel[k + 1] - kernel[k]));
    }
    return sum * r->scale;
}

static void drop_consumed(mx_resample *r, int64_t whole) {
    int64_t keep = MX_MIN(MX_MAX(whole - r->reach, 0), r->n_in);
    size_t drop = keep > r->first ? (size_t)(keep - r->first) : 0;
    if (drop == 0)
        return;
    memmove(r->buffer, r->buffer + drop, (r->filled - drop) * sizeof(double));
    r->filled -= drop;
    r->first = keep;
}

size_t mx_resample_read(mx_resample *r, double *samples, size_t n) {
    size_t done = 0;
    int64_t whole = 0;
    for (; done < n; done++, r->n_out++) {
        /* n_out * rate in integers: 64 bits suffice for a million years of audio. */
        whole = r->n_out / OUT_RATE * r->rate + r->n_out % OUT_RATE * r->rate / OUT_RATE;
        int64_t rest = r->n_out % OUT_RATE * r->rate % OUT_RATE;
        if (r->finished ? whole >= r->n_in : whole + r->reach >= r->n_in)
            break;
        samples[done] = interpolate(r, whole, rest);
    }
    drop_consumed(r, whole);
    return done;
}
