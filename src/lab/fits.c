/* lab/fits.c - op-independent explanations of a difference: a scale, an offset, permuted rows or columns, a shift in
 * time, another stride, another log-mel, or small noise. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "lab/suspect.h"

/* Least squares y = a x + b over sampled rows; returns the fraction of y's variance that remains. */
static double fit_line(const mx_suspect *s, double *a, double *b) {
    double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0;
    for (int r = 0; r < s->n_rows; r++)
        for (int64_t i = 0; i < s->right.width; i++) {
            double x = s->right.data[s->rows[r] * s->right.width + i];
            double y = s->wrong.data[s->rows[r] * s->right.width + i];
            n++, sx += x, sy += y, sxx += x * x, sxy += x * y, syy += y * y;
        }
    double vx = sxx - sx * sx / n, vy = syy - sy * sy / n, cov = sxy - sx * sy / n;
    *a = vx > 0 ? cov / vx : 0;
    *b = (sy - *a * sx) / n;
    return vx > 0 && vy > 0 ? 1 - cov * cov / (vx * vy) : 1;
}

/* The pattern of a column (step width) or a row (step 1) of the sampled part, without its mean, as a correlation. */
static double correlate(const float *x, const float *y, int64_t n, int64_t x_step, int64_t y_step) {
    double sx = 0, sy = 0, xx = 0, yy = 0, xy = 0;
    for (int64_t i = 0; i < n; i++)
        sx += x[i * x_step], sy += y[i * y_step];
    for (int64_t i = 0; i < n; i++) {
        double p = x[i * x_step] - sx / (double)n, q = y[i * y_step] - sy / (double)n;
        xx += p * p, yy += q * q, xy += p * q;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

static void guess_line(mx_suspect *s, double a, double b) {
    for (int r = 0; r < s->n_rows; r++)
        for (int64_t i = 0; i < s->right.width; i++)
            s->guess[r * s->right.width + i] = a * s->right.data[s->rows[r] * s->right.width + i] + b;
}

static void try_line(mx_suspect *s) {
    double a, b;
    fit_line(s, &a, &b);
    guess_line(s, a, 0);
    if (fabs(a - 1) > 1e-3)
        mx_suspect_offer(s, "scale", "everything is %.6g times what it should be", a);
    guess_line(s, 1, b);
    if (mx_suspect_error(s) < s->error / 2)
        mx_suspect_offer(s, "bias", "%.6g is added to everything", b);
    guess_line(s, a, b);
    if (fabs(a - 1) > 1e-3 && mx_suspect_error(s) < s->error / 2)   /* a second parameter always fits a little better */
        mx_suspect_offer(s, "scale and bias", "y = %.6g x + %.6g fits it", a, b);
}

/* Rows shifted by some frames. */
static void try_shift(mx_suspect *s) {
    for (int64_t shift = -4; shift <= 4; shift++) {
        int whole = shift != 0;
        for (int r = 0; r < s->n_rows && whole; r++) {
            int64_t from = s->rows[r] + shift;
            if (from < 0 || from >= s->right.n)
                from = s->rows[r];
            for (int64_t i = 0; i < s->right.width; i++)
                s->guess[r * s->right.width + i] = s->right.data[from * s->right.width + i];
        }
        if (whole)
            mx_suspect_offer(s, "shift in time", "every frame is the one %lld %s it", (long long)llabs(shift),
                             shift < 0 ? "before" : "after");
    }
}

/* The block read as its transpose. */
static void try_transposed(mx_suspect *s) {
    int64_t n = s->right.n, width = s->right.width;
    for (int r = 0; r < s->n_rows; r++)
        for (int64_t i = 0; i < width; i++) {
            int64_t at = s->rows[r] * width + i;
            s->guess[r * width + i] = s->right.data[at % n * width + at / n];
        }
    mx_suspect_offer(s, "transposition", "the block is the right one transposed");
}

/* Permuted columns: each sampled one correlates with another. */
static void try_permuted(mx_suspect *s) {
    int64_t width = s->right.width, n = MX_MIN(s->right.n, 200), tried = MX_MIN(width, 16), moved = 0, from = 0, to = 0;
    if (n < 24)
        return;
    for (int64_t j = 0; j < tried; j++) {
        int64_t column = j * width / tried, best = column;
        double top = 0;
        for (int64_t i = 0; i < width; i++) {
            double c = correlate(s->right.data + i, s->wrong.data + column, n, width, width);
            if (c > top)
                top = c, best = i;
        }
        if (top > 0.9999 && best != column)
            moved++, from = best, to = column;
    }
    if (moved * 2 > tried && s->error > 0.02) {
        s->error = 0.02;
        s->fault = "permutation";
        snprintf(s->words, sizeof(s->words), "channels changed places: %lld of %lld tried look like another (channel "
                 "%lld is the right one's %lld)", (long long)moved, (long long)tried, (long long)to, (long long)from);
    }
}

static void try_input(mx_suspect *s, const mx_stage_rows *input) {
    if (!input->data || input->width != s->right.width || input->n != s->right.n)
        return;
    for (int r = 0; r < s->n_rows; r++)
        for (int64_t i = 0; i < input->width; i++)
            s->guess[r * input->width + i] = input->data[s->rows[r] * input->width + i];
    mx_suspect_offer(s, "missing operation", "what comes out is what went in: the operation was left out");
}

void mx_suspect_fit(mx_suspect *s, const mx_stage_rows *input) {
    if (input)
        try_input(s, input);
    try_line(s);
    try_shift(s);
    try_transposed(s);
    try_permuted(s);
}

/* ---- sizes that differ ------------------------------------------------------------------------------------------- */

int mx_suspect_stride(mx_suspect *s) {
    const mx_stage_rows *a = &s->right, *b = &s->wrong;
    if (!a->data || !b->data || a->width != b->width || a->n == b->n || a->n < 8 || b->n < 8)
        return 0;
    int64_t n = MX_MIN(b->n, a->n) / 2, good = 0, tried = 0;
    double ratio = (double)a->n / (double)b->n;
    for (int64_t i = 2; i < n; i += MX_MAX(n / 40, 1), tried++)
        good += correlate(a->data + (int64_t)(i * ratio) * a->width, b->data + i * b->width, a->width, 1, 1) > 0.99;
    snprintf(s->words, sizeof(s->words), "%lld rows instead of %lld; %lld of %lld rows tried are every %.4g-th of the "
             "right ones", (long long)b->n, (long long)a->n, (long long)good, (long long)tried, ratio);
    s->fault = good * 4 > tried * 3 ? "wrong stride" : "other sizes";
    return 1;
}

/* ---- another log-mel --------------------------------------------------------------------------------------------- */

/* The mean over the bands of each frame: its loudness. */
static void loudness(const mx_stage_rows *mel, float *out) {
    for (int64_t t = 0; t < mel->n; t++) {
        double sum = 0;
        for (int64_t m = 0; m < mel->width; m++)
            sum += mel->data[t * mel->width + m];
        out[t] = (float)(sum / (double)mel->width);
    }
}

/* The time stretch of b at which loudness agrees best. */
static double find_stretch(const float *a, const float *b, int64_t n, double *best) {
    double stretch = 1;
    *best = -1;
    for (double f = 0.25; f <= 8; f *= 1.01) {
        int64_t used = MX_MIN((int64_t)((double)(n - 1) / f), n - 1);
        double sa = 0, sb = 0, aa = 0, bb = 0, ab = 0;
        if (used < 50)
            continue;
        for (int64_t t = 0; t < used; t++)
            sa += a[(int64_t)((double)t * f)], sb += b[t];
        for (int64_t t = 0; t < used; t++) {
            double x = a[(int64_t)((double)t * f)] - sa / (double)used, y = b[t] - sb / (double)used;
            aa += x * x, bb += y * y, ab += x * y;
        }
        double c = aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
        if (c > *best)
            *best = c, stretch = f;
    }
    return stretch;
}

void mx_suspect_mel(mx_suspect *s) {
    const mx_stage_rows *a = &s->right, *b = &s->wrong;
    float *x = mx_arena_alloc(s->arena, (size_t)a->n * sizeof(*x));
    float *y = mx_arena_alloc(s->arena, (size_t)b->n * sizeof(*y));
    double agreement = 0, least = INFINITY, most = -INFINITY;
    if (!x || !y || a->n != b->n)
        return;
    for (int64_t i = 0; i < b->n * b->width; i++)
        least = fmin(least, b->data[i]), most = fmax(most, b->data[i]);
    loudness(a, x);
    loudness(b, y);
    double stretch = find_stretch(x, y, a->n, &agreement);
    int decibels = most - least > 20, hop = agreement > 0.5 && fabs(stretch - 1) > 0.03;
    if (!decibels && !hop)
        return;
    char what[160] = "", time[160] = "";
    if (decibels)
        snprintf(what, sizeof(what), "decibels (from %.4g to %.4g) and not Whisper's (log10 + 4) / 4", least, most);
    if (hop)
        snprintf(time, sizeof(time), "a hop of about %.0f samples instead of 160 (loudness agrees best, %.3f, with "
                 "time %.3g times as fast)", 160 * stretch, agreement, stretch);
    s->fault = "other mel";
    snprintf(s->words, sizeof(s->words), "another log-mel went in: %s%s%s", what, decibels && hop ? "; " : "", time);
}
