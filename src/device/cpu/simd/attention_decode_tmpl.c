/* device/cpu/simd/attention_decode_tmpl.c - attention of a decoder's rows; heads 64 wide, other widths as in ref/.
 *
 * Keys are read where they are, VS of one head at a time: dot products across MX_SUM_LANES lanes, whose sums across
 * lanes are taken together. What is read next is prefetched meanwhile. The same sums in the same order as in
 * ref/attention_decode.c. */
#include "device/cpu/simd/simd.h"

#define WIDTH 64
#define REGS (WIDTH / VL)        /* vectors of a head */
#define KEYS MX_SUM_LANES        /* keys of a step */
#define ROWS (VL == 8 ? 3 : 4)   /* rows that share a value while it is in registers */
#define SPAN (4 * VL)            /* elements of a value at a time: ROWS * 4 sums */
#define LINES (WIDTH / 16)       /* cache lines of a head */

/* ---- scores and weights ------------------------------------------------------------------------------------------ */

/* Keys 0 .. last of those at hand: rows of k, or the rows of k that cells has; past the last one it again. */
typedef struct key_rows {
    const float *k;
    int64_t ld, last;
    const int32_t *cells;   /* or NULL */
} key_rows;

/* Scores of VS keys for the query at q. */
MX_INLINE vs score_keys(const key_rows of, const float *q) {
    vf x[VPARTS][VS];
#if VPARTS == 1   /* a whole query fits in registers: key by key */
    const float *key = of.k;
    const int32_t *cell = of.cells;
#pragma GCC unroll 16
    for (int j = 0; j < VS; j++) {
        if (cell)
            key = of.k + *cell * of.ld;
        x[0][j] = vf_mul(vf_load(key), vf_load(q));
#pragma GCC unroll 16
        for (int i = 1; i < REGS; i++)
            x[0][j] = vf_fma(vf_load(key + VL * i), vf_load(q + VL * i), x[0][j]);
        if (cell)
            cell += j < of.last;
        else
            key += j < of.last ? of.ld : 0;
    }
#else
    const float *key[VS];
#pragma GCC unroll 4
    for (int j = 0; j < VS; j++)
        key[j] = of.k + (of.cells ? of.cells[MX_MIN(j, of.last)] : MX_MIN(j, of.last)) * of.ld;
#pragma GCC unroll 16
    for (int i = 0; i < REGS; i++) {
        vf e = vf_load(q + VL * i);
#pragma GCC unroll 4
        for (int j = 0; j < VS; j++) {
            vf y = vf_load(key[j] + VL * i);
            x[i % VPARTS][j] = i < VPARTS ? vf_mul(y, e) : vf_fma(y, e, x[i % VPARTS][j]);
        }
    }
#endif
    return vf_sums((const vf(*)[VS])x);
}

/* The first n scores; the others, up to KEYS of a step, are -inf: here, or filled up by softmax. */
MX_INLINE void store_scores(float *s, vs x, int64_t n) {
#if VS == KEYS
    x = vf_first_or(x, vf_set1(-INFINITY), n);
#endif
    vs_store(s, x);
}

/* Asks for a line of a head of KEYS rows, into the second-level cache: too few can be on their way into the first one
 * to keep memory busy. */
MX_INLINE void ask(const float *rows, int64_t ld, int64_t line) {
    __builtin_prefetch(rows + line / LINES * ld + line % LINES * 16, 0, 2);
}

/* Scores s [n rounded up to KEYS] become weights; returns their sum. */
MX_INLINE float softmax(float *s, int64_t n, float *top) {
    vf most = vf_set1(-INFINITY), sum[VPARTS], x[VPARTS][VS];
#if VS < KEYS
    for (int64_t j = n; j % KEYS; j++)
        s[j] = -INFINITY;
#endif
    for (int64_t j = 0; j < n; j += VL)
        most = vf_maxnum(vf_load(s + j), most);
    *top = vf_reduce_max(most);
#pragma GCC unroll 4
    for (int h = 0; h < VPARTS; h++)
        sum[h] = vf_zero();
    for (int64_t j = 0; j < n; j += KEYS)
#pragma GCC unroll 4
        for (int h = 0; h < VPARTS; h++) {
            vf w = vf_exp2(vf_sub(vf_load(s + j + VL * h), vf_set1(*top)));
            sum[h] = vf_add(sum[h], w);
            vf_store(s + j + VL * h, w);
        }
#pragma GCC unroll 4
    for (int h = 0; h < VPARTS; h++)
#pragma GCC unroll 16
        for (int j = 0; j < VS; j++)
            x[h][j] = sum[h];
    return vs_first(vf_sums((const vf(*)[VS])x));
}

/* ---- rows over a range of keys ----------------------------------------------------------------------------------- */

typedef struct partial {
    const float *k, *v, *q;
    int64_t ld, keys, heads, rows;
    float *s;            /* [rows][heads][MX_ATTN_RANGE] */
    float *part;
    int64_t stride;
} partial;

/* One head of a step: the scores of its keys for all rows. The same head of the next step, or of the first values, is
 * asked for meanwhile, at an even pace. */
static void score(const partial *f, int64_t first, int64_t head) {
    const float *k = f->k + first * f->ld + head * WIDTH;
    int64_t last = f->keys - first - 1, asked = 0, done = 0;
    const float *next = last >= KEYS ? k + KEYS * f->ld : f->v + head * WIDTH;
    for (int64_t i = 0; i < MX_MIN(KEYS, last + 1); i += VS) {
        const key_rows of = {.k = k + i * f->ld, .ld = f->ld, .last = last - i};
        for (int64_t r = 0; r < f->rows; r++) {
            for (done += VS * LINES; asked * f->rows < done; asked++)
                ask(next, f->ld, asked);
            store_scores(f->s + (r * f->heads + head) * MX_ATTN_RANGE + first + i,
                         score_keys(of, f->q + (r * f->heads + head) * WIDTH), last + 1 - i);
        }
    }
}

/* SPAN elements of a step, from `at` on: values times the weights of `rows` rows, added to the sums so far.
 * `next`: what to ask for meanwhile, or NULL. */
MX_INLINE void add_values(const partial *f, int64_t first, int64_t at, const float *s, float *o, const float *next,
                          const int rows) {
    const float *v = f->v + first * f->ld + at;
    int64_t n = MX_MIN(KEYS, f->keys - first), step = f->heads * MX_ATTN_RANGE;
    vf sum[ROWS][4];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            sum[r][i] = first ? vf_load(o + r * f->stride + VL * i) : vf_zero();
    for (int64_t j = 0; j < n; j++, v += f->ld, s++) {
        vf w[ROWS];
        for (int i = 0; next && i < SPAN; i += 16)
            __builtin_prefetch(next + j * f->ld + i, 0, 2);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            w[r] = vf_set1(s[r * step]);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            vf x = vf_load(v + VL * i);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                sum[r][i] = vf_fma(x, w[r], sum[r][i]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            vf_store(o + r * f->stride + VL * i, sum[r][i]);
}

/* One head of a step. The values of the next step are asked for, after the last one the keys of the range after this:
 * one of the threads is about to take it. */
static void values(const partial *f, int64_t first, int64_t head) {
    const float *next = first + KEYS < f->keys ? f->v + (first + KEYS) * f->ld : f->k + f->keys * f->ld;
    for (int64_t row = 0; row < f->rows; row += ROWS) {
        const float *s = f->s + (row * f->heads + head) * MX_ATTN_RANGE + first;
        for (int64_t at = head * WIDTH; at < (head + 1) * WIDTH; at += SPAN) {
            float *o = f->part + row * f->stride + at;
            const float *ahead = row == 0 ? next + at : NULL;
            switch (MX_MIN(ROWS, f->rows - row)) {
            case ROWS: add_values(f, first, at, s, o, ahead, ROWS); break;
#if ROWS > 3
            case 3: add_values(f, first, at, s, o, ahead, 3); break;
#endif
            case 2: add_values(f, first, at, s, o, ahead, 2); break;
            case 1: add_values(f, first, at, s, o, ahead, 1); break;
            }
        }
    }
}

void MX_FAST(attn_partial)(float *part, int64_t stride, const float *q, int64_t rows, const float *k, const float *v,
                           int64_t ld, int64_t keys, int64_t heads, int64_t width, float *scratch) {
    const partial f = {k, v, q, ld, keys, heads, rows, scratch, part, stride};
    if (width != WIDTH) {
        MX_REF(attn_partial)(part, stride, q, rows, k, v, ld, keys, heads, width, scratch);
        return;
    }
    for (int64_t first = 0; first < keys; first += KEYS)
        for (int64_t h = 0; h < heads; h++)
            score(&f, first, h);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = 0; h < heads; h++) {
            float *tops = part + r * stride + heads * WIDTH;
            tops[heads + h] = softmax(f.s + (r * heads + h) * MX_ATTN_RANGE, keys, &tops[h]);
        }
    for (int64_t first = 0; first < keys; first += KEYS)
        for (int64_t h = 0; h < heads; h++)
            values(&f, first, h);
}

/* ---- a row over the cells of a cache ----------------------------------------------------------------------------- */

#define CELL_REGS (VL == 4 ? 8 : 4)   /* vectors of a value at a time */

MX_INLINE void add_cell(vf sum[CELL_REGS], const float *row, float weight) {
#pragma GCC unroll 8
    for (int i = 0; i < CELL_REGS; i++)
        sum[i] = vf_fma(vf_load(row + VL * i), vf_set1(weight), sum[i]);
}

/* CELL_REGS vectors of a head: keys at even and at odd positions are two chains. */
MX_INLINE void add_cells(float *y, const float *v, const int32_t *cells, const float *s, int64_t n, int64_t ld,
                         float inverse) {
    vf sum[2][CELL_REGS];
#pragma GCC unroll 8
    for (int i = 0; i < CELL_REGS; i++)
        sum[0][i] = sum[1][i] = vf_zero();
    for (int64_t j = 0; j + 1 < n; j += 2) {
        add_cell(sum[0], v + cells[j] * ld, s[j]);
        add_cell(sum[1], v + cells[j + 1] * ld, s[j + 1]);
    }
    if (n % 2)
        add_cell(sum[0], v + cells[n - 1] * ld, s[n - 1]);
#pragma GCC unroll 8
    for (int i = 0; i < CELL_REGS; i++)
        vf_store(y + VL * i, vf_mul(vf_add(sum[0][i], sum[1][i]), vf_set1(inverse)));
}

void MX_FAST(attn_paged)(float *y, const float *q, const float *k, const float *v, const int32_t *cells, int64_t n,
                         int64_t ld, int64_t width, float scale, float *scratch) {
    float *s = scratch + WIDTH, top;
    if (width != WIDTH) {
        MX_REF(attn_paged)(y, q, k, v, cells, n, ld, width, scale, scratch);
        return;
    }
    for (int i = 0; i < WIDTH; i += VL)
        vf_store(scratch + i, vf_mul(vf_load(q + i), vf_set1(scale * MX_LOG2_E)));
    for (int64_t first = 0; first < n; first += VS) {
        const key_rows of = {.k = k, .ld = ld, .last = n - first - 1, .cells = cells + first};
        store_scores(s + first, score_keys(of, scratch), n - first);
    }
    float inverse = 1.0f / softmax(s, n, &top);
    for (int64_t c = 0; c < WIDTH; c += CELL_REGS * VL)
        add_cells(y + c, v + c, cells, s, n, ld, inverse);
}
