/* device/cpu/simd/attention_decode_tmpl.c - attention of a decoder's rows; heads 64 wide, other widths as in ref/.
 *
 * Dot products run across MX_SUM_LANES lanes, and the sums across lanes of VS of them are taken together. Rows over a
 * window take KEYS keys of one head at a time, where they are; halves are widened first, once for all rows. What is
 * read next is prefetched meanwhile. The same sums in the same order as in ref/attention_decode.c. */
#include "device/cpu/simd/simd.h"

#define WIDTH 64
#define REGS (WIDTH / VL)        /* vectors of a head */
#define KEYS MX_SUM_LANES        /* keys of a step */
#define ROWS (VL == 8 ? 3 : 6)   /* rows that share a value while it is in registers */
#define SPAN (4 * VL)            /* elements of a value at a time: ROWS * 4 sums */

/* ---- scores and weights ------------------------------------------------------------------------------------------ */

#define ELEMENT(half) ((half) ? 2 : 4)   /* bytes */

/* The i-th vector of a key or value at x. */
MX_INLINE vf part_of(const char *x, int i, const int half) {
    return half ? vf_load_f16(x + VL * 2 * i) : vf_load((const float *)(const void *)(x + VL * 4 * i));
}

/* VS dot products of the query at q with the keys at key[0] .. key[VS - 1]. */
MX_INLINE vs score_keys(const char *const key[VS], const float *q, const int half) {
    vf x[VPARTS][VS];
#if VPARTS == 1   /* a whole query fits in registers: key by key */
#pragma GCC unroll 16
    for (int j = 0; j < VS; j++) {
        x[0][j] = vf_mul(part_of(key[j], 0, half), vf_load(q));
#pragma GCC unroll 16
        for (int i = 1; i < REGS; i++)
            x[0][j] = vf_fma(part_of(key[j], i, half), vf_load(q + VL * i), x[0][j]);
    }
#else
#pragma GCC unroll 16
    for (int i = 0; i < REGS; i++) {
        vf e = vf_load(q + VL * i);
#pragma GCC unroll 4
        for (int j = 0; j < VS; j++) {
            vf y = part_of(key[j], i, half);
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
    const char *k, *v;
    const float *q;
    int64_t bytes;       /* from one row of k or v to the next */
    int64_t keys, heads, rows;
    float *s;            /* [rows][heads][MX_ATTN_RANGE] */
    float *part;
    int64_t stride;
} partial;

#define LINES(half) (WIDTH * ELEMENT(half) / 64)   /* cache lines of a head */

/* n rows of one head from x on, and how many bytes they are apart: where they are, or widened. */
MX_INLINE const char *rows_of(const partial *f, const char *x, int64_t n, float wide[KEYS * WIDTH], int64_t *apart,
                              const int half) {
    *apart = half ? WIDTH * 4 : f->bytes;
    if (!half)
        return x;
    for (int64_t j = 0; j < n; j++, x += f->bytes)
#pragma GCC unroll 16
        for (int i = 0; i < REGS; i++)
            vf_store(wide + j * WIDTH + VL * i, part_of(x, i, 1));
    return (const char *)wide;
}

/* Asks for a head of a row into the second-level cache: too few lines can be on their way into the first one to keep
 * memory busy. */
MX_INLINE void ask(const char *row, const int lines) {
#pragma GCC unroll 4
    for (int i = 0; i < lines; i++)
        __builtin_prefetch(row + 64 * i, 0, 2);
}

/* One head of a step: the scores of its keys for all rows. The same head of the next step, or of the first values, is
 * asked for meanwhile, at an even pace: a row each time as many keys are scored as there are rows. */
MX_INLINE void score(const partial *f, int64_t first, int64_t head, float *wide, const int half) {
    const char *at = f->k + first * f->bytes + head * WIDTH * ELEMENT(half);
    int64_t n = MX_MIN(KEYS, f->keys - first), due = 0, apart;
    const char *next = f->keys - first > KEYS ? at + KEYS * f->bytes : f->v + head * WIDTH * ELEMENT(half);
    const char *k = rows_of(f, at, n, wide, &apart, half);
    for (int64_t i = 0; i < n; i += VS) {
        const char *key[VS];
#pragma GCC unroll 16
        for (int j = 0; j < VS; j++)   /* past the last one it again */
            key[j] = k + MX_MIN(i + j, n - 1) * apart;
        for (int64_t r = 0; r < f->rows; r++) {
            for (due += VS; due > 0; due -= f->rows, next += f->bytes)
                ask(next, LINES(half));
            store_scores(f->s + (r * f->heads + head) * MX_ATTN_RANGE + first + i,
                         score_keys(key, f->q + (r * f->heads + head) * WIDTH, 0), n - i);
        }
    }
}

/* SPAN elements of a step: n values, `apart` bytes from one to the next, times the weights of `rows` rows, added to the
 * sums so far. `next`: what to ask for meanwhile, or NULL. */
MX_INLINE void add_values(const partial *f, const char *v, int64_t apart, int64_t n, int64_t first, const float *s,
                          float *o, const char *next, const int rows, const int half) {
    int64_t step = f->heads * MX_ATTN_RANGE;
    vf sum[ROWS][4];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            sum[r][i] = first ? vf_load(o + r * f->stride + VL * i) : vf_zero();
    for (int64_t j = 0; j < n; j++, v += apart, s++) {
        vf w[ROWS];
        for (int i = 0; next && i < SPAN * ELEMENT(half); i += 64)
            __builtin_prefetch(next + j * f->bytes + i, 0, 2);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++)
            w[r] = vf_set1(s[r * step]);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            vf x = part_of(v, i, 0);
#pragma GCC unroll 6
            for (int r = 0; r < rows; r++)
                sum[r][i] = vf_fma(x, w[r], sum[r][i]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            vf_store(o + r * f->stride + VL * i, sum[r][i]);
}

/* One head of a step. The values of the next step are asked for, after the last one the keys of the range after this:
 * one of the threads is about to take it. */
MX_INLINE void values(const partial *f, int64_t first, int64_t head, float *wide, const int half) {
    int64_t shift = head * WIDTH * ELEMENT(half), n = MX_MIN(KEYS, f->keys - first), apart;
    const char *next = (first + KEYS < f->keys ? f->v + (first + KEYS) * f->bytes : f->k + f->keys * f->bytes) + shift;
    const char *v = rows_of(f, f->v + first * f->bytes + shift, n, wide, &apart, half);
    for (int64_t row = 0; row < f->rows; row += ROWS) {
        const float *s = f->s + (row * f->heads + head) * MX_ATTN_RANGE + first;
        for (int64_t at = 0; at < WIDTH; at += SPAN) {
            float *o = f->part + row * f->stride + head * WIDTH + at;
            const char *ahead = row == 0 ? next + at * ELEMENT(half) : NULL;
            switch (MX_MIN(ROWS, f->rows - row)) {
#define ADD(n_rows)                                                                                                    \
    case n_rows: add_values(f, v + at * 4, apart, n, first, s, o, ahead, n_rows, half); break;
                ADD(1) ADD(2) ADD(3)
#if ROWS > 3
                ADD(4) ADD(5) ADD(6)
#endif
#undef ADD
            }
        }
    }
}

MX_INLINE void take_range(const partial *f, const int half) {
    _Alignas(64) float wide[KEYS * WIDTH];
    for (int64_t first = 0; first < f->keys; first += KEYS)
        for (int64_t h = 0; h < f->heads; h++)
            score(f, first, h, wide, half);
    for (int64_t r = 0; r < f->rows; r++)
        for (int64_t h = 0; h < f->heads; h++) {
            float *tops = f->part + r * f->stride + f->heads * WIDTH;
            tops[f->heads + h] = softmax(f->s + (r * f->heads + h) * MX_ATTN_RANGE, f->keys, &tops[h]);
        }
    for (int64_t first = 0; first < f->keys; first += KEYS)
        for (int64_t h = 0; h < f->heads; h++)
            values(f, first, h, wide, half);
}

static void take_floats(const partial *f) { take_range(f, 0); }
static void take_halves(const partial *f) { take_range(f, 1); }

void MX_FAST(attn_partial)(float *part, int64_t stride, const float *q, int64_t rows, const void *k, const void *v,
                           mxw_dtype dtype, int64_t ld, int64_t keys, int64_t heads, int64_t width, float *scratch) {
    const partial f = {.k = k, .v = v, .q = q, .bytes = ld * (int64_t)mx_dtype_bytes(dtype), .keys = keys,
                       .heads = heads, .rows = rows, .s = scratch, .part = part, .stride = stride};
    if (width != WIDTH) {
        MX_REF(attn_partial)(part, stride, q, rows, k, v, dtype, ld, keys, heads, width, scratch);
        return;
    }
    if (dtype == MXW_F16)
        take_halves(&f);
    else
        take_floats(&f);
}

/* ---- partial results of a row ------------------------------------------------------------------------------------ */

#define SHARES 16   /* ranges at a time, so that their shares fit on the stack */

/* Adds n ranges of a head, share[i * VL] of each, to y, or to 0 if they are the first. */
MX_INLINE void add_ranges(float *y, const float *part, int64_t stride, int64_t n, const float *share, int first) {
    vf sum[REGS];
#pragma GCC unroll 16
    for (int c = 0; c < REGS; c++)
        sum[c] = first ? vf_zero() : vf_load(y + VL * c);
    for (int64_t i = 0; i < n; i++, part += stride, share += VL)
#pragma GCC unroll 16
        for (int c = 0; c < REGS; c++)
            sum[c] = vf_fma(vf_set1(*share), vf_load(part + VL * c), sum[c]);
#pragma GCC unroll 16
    for (int c = 0; c < REGS; c++)
        vf_store(y + VL * c, sum[c]);
}

/* Up to VL heads: their shares of each range are made together, a lane each. */
MX_INLINE void join_heads(float *y, const float *parts, const float *tops, int64_t stride, int64_t n, int64_t all,
                          int64_t heads) {
    float share[SHARES * VL], inverse[VL];
    vf top = vf_set1(-INFINITY), sum = vf_zero();
    for (int64_t i = 0; i < n; i++)
        top = vf_maxnum(vf_load_first(tops + i * stride, heads), top);
    for (int64_t first = 0; first < n; first += SHARES) {
        int64_t some = MX_MIN(SHARES, n - first);
        for (int64_t i = 0; i < some; i++) {
            const float *at = tops + (first + i) * stride;
            vf part = vf_exp2(vf_sub(vf_load_first(at, heads), top));
            sum = vf_fma(part, vf_load_first(at + all, heads), sum);
            vf_store(share + VL * i, part);
        }
        for (int64_t h = 0; h < heads; h++)
            add_ranges(y + h * WIDTH, parts + first * stride + h * WIDTH, stride, some, share + h, first == 0);
    }
    vf_store(inverse, vf_div(vf_set1(1), sum));
    for (int64_t i = 0; i < heads * WIDTH; i += VL)
        vf_store(y + i, vf_mul(vf_load(y + i), vf_set1(inverse[i / WIDTH])));
}

void MX_FAST(attn_combine)(float *y, const float *parts, int64_t stride, int64_t n, int64_t heads, int64_t width) {
    if (width != WIDTH) {
        MX_REF(attn_combine)(y, parts, stride, n, heads, width);
        return;
    }
    for (int64_t h = 0; h < heads; h += VL)
        join_heads(y + h * WIDTH, parts + h * WIDTH, parts + heads * WIDTH + h, stride, n, heads,
                   MX_MIN(VL, heads - h));
}

/* ---- a row over the cells of a cache ----------------------------------------------------------------------------- */

#define CELL_REGS (VL == 4 ? 8 : 4)   /* vectors of a value at a time */

MX_INLINE void add_cell(vf sum[CELL_REGS], const char *row, float weight, const int half) {
#pragma GCC unroll 8
    for (int i = 0; i < CELL_REGS; i++)
        sum[i] = vf_fma(part_of(row, i, half), vf_set1(weight), sum[i]);
}

/* CELL_REGS vectors of a head: keys at even and at odd positions are two chains. */
MX_INLINE void add_cells(float *y, const char *v, const int32_t *cells, const float *s, int64_t n, int64_t bytes,
                         float inverse, const int half) {
    vf sum[2][CELL_REGS];
#pragma GCC unroll 8
    for (int i = 0; i < CELL_REGS; i++)
        sum[0][i] = sum[1][i] = vf_zero();
    for (int64_t j = 0; j + 1 < n; j += 2) {
        add_cell(sum[0], v + cells[j] * bytes, s[j], half);
        add_cell(sum[1], v + cells[j + 1] * bytes, s[j + 1], half);
    }
    if (n % 2)
        add_cell(sum[0], v + cells[n - 1] * bytes, s[n - 1], half);
#pragma GCC unroll 8
    for (int i = 0; i < CELL_REGS; i++)
        vf_store(y + VL * i, vf_mul(vf_add(sum[0][i], sum[1][i]), vf_set1(inverse)));
}

/* scratch: the query, scaled, and n scores. */
MX_INLINE void take_cells(float *y, const char *k, const char *v, const int32_t *cells, int64_t n, int64_t ld,
                          float *scratch, const int half) {
    float *s = scratch + WIDTH, top;
    const int64_t bytes = ld * ELEMENT(half);
    for (int64_t first = 0; first < n; first += VS) {
        const char *key[VS];
        for (int j = 0; j < VS; j++)   /* past the last one it again */
            key[j] = k + cells[MX_MIN(first + j, n - 1)] * bytes;
        store_scores(s + first, score_keys(key, scratch, half), n - first);
    }
    float inverse = 1.0f / softmax(s, n, &top);
    for (int64_t c = 0; c < WIDTH; c += CELL_REGS * VL)
        add_cells(y + c, v + c * ELEMENT(half), cells, s, n, bytes, inverse, half);
}

void MX_FAST(attn_paged)(float *y, const float *q, const void *k, const void *v, mxw_dtype dtype, const int32_t *cells,
                         int64_t n, int64_t ld, int64_t width, float scale, float *scratch) {
    if (width != WIDTH) {
        MX_REF(attn_paged)(y, q, k, v, dtype, cells, n, ld, width, scale, scratch);
        return;
    }
    for (int i = 0; i < WIDTH; i += VL)
        vf_store(scratch + i, vf_mul(vf_load(q + i), vf_set1(scale * MX_LOG2_E)));
    if (dtype == MXW_F16)
        take_cells(y, k, v, cells, n, ld, scratch, 1);
    else
        take_cells(y, k, v, cells, n, ld, scratch, 0);
}
