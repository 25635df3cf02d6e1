/* words/matrix.c - attention scores to how well each token fits each frame: softmax over the frames of audio, each
 * frame normalized over all tokens, a median filter along time, the mean over the heads. Invariant: a head is one piece
 * of work, and heads are added in order, so the number of threads changes no bit. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "words/words.h"

#define GROUP 16      /* heads at a time, which bounds the memory */
#define MEDIAN 7      /* frames */
#define BESIDE (MEDIAN / 2)

typedef struct making {
    const mx_align_scores *in;
    float *matrix;
    size_t n_kept;         /* rows of the matrix */
    float *heads;          /* [GROUP][n_rows][n_frames] */
    double *sums;          /* [GROUP][2][n_frames] */
    float *padded;         /* [GROUP][n_frames + 2 BESIDE] */
    size_t first, n;       /* heads of the group */
} making;

static void softmax(float *y, const float *x, size_t n) {
    float top = -INFINITY;
    double sum = 0;
    for (size_t j = 0; j < n; j++)
        top = x[j] > top ? x[j] : top;
    for (size_t j = 0; j < n; j++) {
        y[j] = expf(x[j] - top);
        sum += (double)y[j];
    }
    float inverse = (float)(1 / sum);
    for (size_t j = 0; j < n; j++)
        y[j] *= inverse;
}

/* Normalizes each frame of w [rows][n] over the rows: minus mean, divided by standard deviation. */
static void normalise(float *w, size_t rows, size_t n, double *mean, double *square) {
    memset(mean, 0, n * sizeof(*mean));
    memset(square, 0, n * sizeof(*square));
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++)
            mean[j] += (double)w[r * n + j];
    for (size_t j = 0; j < n; j++)
        mean[j] /= (double)rows;
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++) {
            double d = (double)w[r * n + j] - mean[j];
            square[j] += d * d;
        }
    for (size_t j = 0; j < n; j++)
        square[j] = sqrt(square[j] / (double)rows);
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++)
            w[r * n + j] = (w[r * n + j] - (float)mean[j]) / (float)square[j];
}

static inline void order(float *a, float *b) {
    float low = *a < *b ? *a : *b, high = *a < *b ? *b : *a;
    *a = low;
    *b = high;
}

/* y[j]: the median of x[j] .. x[j + 6]. A fixed network of comparisons, so that the compiler vectorizes the
 * loop. */
static void median(float *restrict y, const float *restrict x, size_t n) {
    for (size_t j = 0; j < n; j++) {
        float a = x[j], b = x[j + 1], c = x[j + 2], d = x[j + 3], e = x[j + 4], f = x[j + 5], g = x[j + 6];
        order(&a, &f), order(&a, &d), order(&b, &g), order(&c, &e), order(&a, &b), order(&d, &f), order(&c, &g);
        order(&c, &d), order(&d, &g), order(&e, &f), order(&b, &e), order(&b, &d), order(&d, &e);
        y[j] = d;
    }
}

/* The row with reflected ends. */
static void pad(float *to, const float *row, size_t n) {
    memcpy(to + BESIDE, row, n * sizeof(*row));
    for (size_t i = 1; i <= BESIDE; i++) {
        to[BESIDE - i] = row[i];
        to[BESIDE + n - 1 + i] = row[n - 1 - i];
    }
}

static void make_head(void *context, int64_t i) {
    const making *m = context;
    const mx_align_scores *in = m->in;
    size_t n = in->n_frames, at = (size_t)i;
    float *w = m->heads + at * in->n_rows * n, *padded = m->padded + at * (n + 2 * BESIDE);
    double *mean = m->sums + at * 2 * n;
    for (size_t r = 0; r < in->n_rows; r++)
        softmax(w + r * n, in->scores + (r * in->n_heads + m->first + at) * in->n_keys, n);
    normalise(w, in->n_rows, n, mean, mean + n);
    for (size_t r = 0; r < m->n_kept && n > BESIDE; r++) {
        float *row = w + (in->n_before + r) * n;
        pad(padded, row, n);
        median(row, padded, n);
    }
}

/* Adds the group's heads to one row of the matrix, in order, and takes the mean after the last group. */
static void add_heads(void *context, int64_t row) {
    const making *m = context;
    const mx_align_scores *in = m->in;
    size_t n = in->n_frames;
    float *y = m->matrix + (size_t)row * n;
    if (m->first == 0)
        memset(y, 0, n * sizeof(*y));
    for (size_t h = 0; h < m->n; h++) {
        const float *w = m->heads + (h * in->n_rows + in->n_before + (size_t)row) * n;
        for (size_t j = 0; j < n; j++)
            y[j] += w[j];
    }
    for (size_t j = 0; m->first + m->n == in->n_heads && j < n; j++)
        y[j] /= (float)in->n_heads;
}

mxw_status mx_words_matrix(const mx_align_scores *in, mx_pool *pool, float *matrix) {
    size_t group = MX_MIN(in->n_heads, GROUP);
    making m = {.in = in, .matrix = matrix, .n_kept = in->n_rows - in->n_before - 1};
    m.heads = mx_alloc_array(group * in->n_rows, in->n_frames * sizeof(*m.heads));
    m.sums = mx_alloc_array(group * 2, in->n_frames * sizeof(*m.sums));
    m.padded = mx_alloc_array(group, (in->n_frames + 2 * BESIDE) * sizeof(*m.padded));
    int whole = m.heads && m.sums && m.padded;
    for (; whole && m.first < in->n_heads; m.first += m.n) {
        m.n = MX_MIN(group, in->n_heads - m.first);
        mx_pool_for(pool, (int64_t)m.n, make_head, &m);
        mx_pool_for(pool, (int64_t)m.n_kept, add_heads, &m);
    }
    mx_free(m.heads);
    mx_free(m.sums);
    mx_free(m.padded);
    return whole ? MXW_OK : MXW_E_MEMORY;
}
