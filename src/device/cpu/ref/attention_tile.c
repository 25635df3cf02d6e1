/* device/cpu/ref/attention_tile.c - attention over whole windows in compiled calls, as plain loops.
 * Invariant: a query's result depends on the query, the keys and the values, in an order that is written here. */
#include "device/cpu/kernels.h"

#include <math.h>

#include "device/cpu/ref/math.h"

typedef struct head {
    const float *k, *v;
    int64_t ldk, ldv, width;
} head;

/* The online softmax takes keys first .. first + n: scores s become weights. */
static void take_keys(const head *h, const float *q, float *s, int64_t first, int64_t n, float *top, float *sum,
                      float *o) {
    float old = *top, block = 0;
    for (int64_t j = 0; j < n; j++) {
        s[j] = 0;
        for (int64_t c = 0; c < h->width; c++)
            s[j] = fmaf(h->k[(first + j) * h->ldk + c], q[c], s[j]);
        *top = s[j] > *top ? s[j] : *top;
    }
    float keep = mx_exp2f(old - *top);
    for (int64_t c = 0; c < h->width; c++)
        o[c] *= keep;
    for (int64_t j = 0; j < n; j++) {
        s[j] = mx_exp2f(s[j] - *top);
        block += s[j];
        for (int64_t c = 0; c < h->width; c++)
            o[c] = fmaf(h->v[(first + j) * h->ldv + c], s[j], o[c]);
    }
    *sum = fmaf(*sum, keep, block);
}

void MX_REF(attn_tile)(float *y, int64_t ldy, const float *q, int64_t ldq, int64_t queries, const float *k,
                       int64_t ldk, const float *v, int64_t ldv, int64_t keys, int64_t width, float scale,
                       int64_t visible, float *scratch) {
    const head h = {k, v, ldk, ldv, width};
    float *scaled = scratch, *o = scaled + width, *s = o + width;
    for (int64_t i = 0; i < queries; i++) {
        float top = -INFINITY, sum = 0;
        for (int64_t c = 0; c < width; c++) {
            scaled[c] = q[i * ldq + c] * (scale * MX_LOG2_E);
            o[c] = 0;
        }
        int64_t n = MX_MIN(keys, visible + i);
        for (int64_t first = 0; first < n; first += MX_ATTN_KEYS)
            take_keys(&h, scaled, s, first, MX_MIN(MX_ATTN_KEYS, n - first), &top, &sum, o);
        float share = 1.0f / sum;
        for (int64_t c = 0; c < width; c++)
            y[i * ldy + c] = o[c] * share;
    }
}
