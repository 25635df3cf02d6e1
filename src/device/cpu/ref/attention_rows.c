/* device/cpu/ref/attention_rows.c - one query over many keys, for the decoder's rows.
 * Dot products run in sixteen lanes joined in a fixed order, so that the compiler makes vector loops of them and the
 * bits depend on the query and the key alone. */
#include "device/cpu/kernels.h"

#include <string.h>

#define LANES 16

static float dot(const float *a, const float *b, int64_t n) {
    float lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += a[i + l] * b[i + l];
    for (int l = 0; i < n; i++, l++)
        lane[l] += a[i] * b[i];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

#define VALUES 4   /* added at a time, so that y is loaded and stored once for all of them */

static void add_values(float *y, const float *const v[VALUES], const float *weight, int64_t width) {
    const float *v0 = v[0], *v1 = v[1], *v2 = v[2], *v3 = v[3];
    float w0 = weight[0], w1 = weight[1], w2 = weight[2], w3 = weight[3];
    for (int64_t i = 0; i < width; i++)
        y[i] += (w0 * v0[i] + w1 * v1[i]) + (w2 * v2[i] + w3 * v3[i]);
}

void MX_REF(attn_row)(float *y, const float *q, const float *k, const float *v, const int32_t *cells, int64_t n,
                      int64_t ld, int64_t width, float scale, float *scores) {
    for (int64_t j = 0; j < n; j++)
        scores[j] = dot(q, k + (cells ? cells[j] : j) * ld, width);
    MX_REF(softmax)(scores, scores, 1, n, n, scale);
    memset(y, 0, (size_t)width * sizeof(float));
    int64_t j = 0;
    for (; j + VALUES <= n; j += VALUES) {
        const float *rows[VALUES];
        for (int l = 0; l < VALUES; l++)
            rows[l] = v + (cells ? cells[j + l] : j + l) * ld;
        add_values(y, rows, scores + j, width);
    }
    for (; j < n; j++) {
        const float *row = v + (cells ? cells[j] : j) * ld;
        for (int64_t i = 0; i < width; i++)
            y[i] += scores[j] * row[i];
    }
}

/* ---- scores alone ------------------------------------------------------------------------------------------------ */

#define ROWS 4   /* that share a key's elements while those are in registers */

/* Keys j .. j + MX_SUM_LANES - 1 side by side, [width][MX_SUM_LANES]; zeros where there are fewer. */
static void lay_keys(float *to, const float *k, int64_t ldk, int64_t keys, int64_t width) {
    for (int64_t l = 0; l < MX_SUM_LANES; l++)
        for (int64_t p = 0; p < width; p++)
            to[p * MX_SUM_LANES + l] = l < keys ? k[l * ldk + p] : 0;
}

/* The same of halves, WIDE of them at a time. */
static void lay_halves(float *to, const uint16_t *k, int64_t ldk, int64_t keys, int64_t width) {
    enum { WIDE = 64 };
    float wide[WIDE] = {0};
    for (int64_t l = 0; l < MX_SUM_LANES; l++)
        for (int64_t first = 0; first < width; first += WIDE) {
            int64_t n = MX_MIN(WIDE, width - first);
            if (l < keys)
                MX_REF(widen_f16)(wide, k + l * ldk + first, n);
            for (int64_t p = 0; p < n; p++)
                to[(first + p) * MX_SUM_LANES + l] = l < keys ? wide[p] : 0;
        }
}

static void attn_scores(float sums[ROWS][MX_SUM_LANES], const float *const q[ROWS], const float *keys, int64_t width) {
    float s0[MX_SUM_LANES] = {0}, s1[MX_SUM_LANES] = {0}, s2[MX_SUM_LANES] = {0}, s3[MX_SUM_LANES] = {0};
    for (int64_t p = 0; p < width; p++)
        for (int l = 0; l < MX_SUM_LANES; l++) {
            float key = keys[p * MX_SUM_LANES + l];
            s0[l] += q[0][p] * key;
            s1[l] += q[1][p] * key;
            s2[l] += q[2][p] * key;
            s3[l] += q[3][p] * key;
        }
    memcpy(sums[0], s0, sizeof(s0));
    memcpy(sums[1], s1, sizeof(s1));
    memcpy(sums[2], s2, sizeof(s2));
    memcpy(sums[3], s3, sizeof(s3));
}

void MX_REF(attn_scores)(float *y, int64_t ldy, const float *q, int64_t ldq, const int32_t *rows, int64_t n,
                         const void *k, mxw_dtype dtype, int64_t ldk, int64_t keys, int64_t width, float scale,
                         float *scratch) {
    for (int64_t j = 0; j < keys; j += MX_SUM_LANES) {
        int64_t lanes = MX_MIN(MX_SUM_LANES, keys - j);
        if (dtype == MXW_F16)
            lay_halves(scratch, (const uint16_t *)k + j * ldk, ldk, lanes, width);
        else
            lay_keys(scratch, (const float *)k + j * ldk, ldk, lanes, width);
        for (int64_t i = 0; i < n; i += ROWS) {
            float sums[ROWS][MX_SUM_LANES];
            const float *queries[ROWS];
            for (int64_t r = 0; r < ROWS; r++)   /* the last ones once more where fewer are left */
                queries[r] = q + rows[MX_MIN(i + r, n - 1)] * ldq;
            attn_scores(sums, queries, scratch, width);
            for (int64_t r = 0; r < MX_MIN(ROWS, n - i); r++)
                for (int64_t l = 0; l < lanes; l++)
                    y[rows[i + r] * ldy + j + l] = sums[r][l] * scale;
        }
    }
}
