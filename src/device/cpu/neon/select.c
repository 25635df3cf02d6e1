/* device/cpu/neon/select.c - a range of ids of one row, for 64-bit ARM.
 * What holds: candidates are those of ref/select.c, ties and NaN included; the last bits of the sums are its own. */
#include "device/cpu/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "device/cpu/logits/topk_heap.h"
#include "device/cpu/neon/math.h"

#define INLINE static inline __attribute__((always_inline))
#define LANES 4
#define REGS 4      /* whose lanes the largest are kept in, in turn */

/* x [n], 4 at most; -inf in the lanes past them. */
INLINE float32x4_t load(const float *x, int64_t n) {
    float four[LANES] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    if (n >= LANES)
        return vld1q_f32(x);
    memcpy(four, x, (size_t)n * sizeof(float));
    return vld1q_f32(four);
}

INLINE void store(float *y, float32x4_t x, int64_t n) {
    float four[LANES];
    if (n >= LANES) {
        vst1q_f32(y, x);
        return;
    }
    vst1q_f32(four, x);
    memcpy(y, four, (size_t)n * sizeof(float));
}

/* NaN is -inf, more than the largest number is that. */
INLINE float32x4_t plain(float32x4_t x) {
    return vbslq_f32(vceqq_f32(x, x), vminq_f32(x, vdupq_n_f32(FLT_MAX)), vdupq_n_f32(-INFINITY));
}

/* All bits in the lanes whose byte is 0. */
INLINE uint32x4_t kept(const uint8_t *suppress, int64_t n) {
    uint32_t bytes = 0;
    memcpy(&bytes, suppress, (size_t)MX_MIN(n, LANES));
    uint32x4_t wide = vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes))));
    return vceqq_u32(wide, vdupq_n_u32(0));
}

/* left [n] and the largest of each of its lanes: their sum, f32 terms added in f64, and the candidates. */
static mx_select_side finish(mx_topk *b, const float *left, int64_t n, int32_t first_id,
                             const float32x4_t largest[REGS]) {
    float lane[REGS * LANES];
    float64x2_t sum[2] = {vdupq_n_f64(0), vdupq_n_f64(0)};
    float32x4_t most = vmaxq_f32(vmaxq_f32(largest[0], largest[1]), vmaxq_f32(largest[2], largest[3]));
    mx_select_side side = {.top = vmaxvq_f32(most)};
    if (side.top == -INFINITY)
        return side;
    for (int r = 0; r < REGS; r++)
        vst1q_f32(lane + r * LANES, largest[r]);
    float bar = b ? mx_topk_threshold(lane, REGS * LANES, b->k) : INFINITY;
    for (int64_t i = 0; i < n; i += LANES) {
        float32x4_t v = load(left + i, n - i);
        if (vmaxvq_u32(vcgtq_f32(v, vdupq_n_f32(bar))))
            for (int64_t at = i; at < MX_MIN(n, i + LANES); at++)
                if (left[at] > bar) {
                    float next = mx_topk_push(b, left[at], first_id + (int32_t)at);
                    bar = next > bar ? next : bar;
                }
        float32x4_t e = mx_exp4(vsubq_f32(v, vdupq_n_f32(side.top)));
        sum[0] = vaddq_f64(sum[0], vcvt_f64_f32(vget_low_f32(e)));
        sum[1] = vaddq_f64(sum[1], vcvt_high_f64_f32(e));
    }
    sum[0] = vaddq_f64(sum[0], sum[1]);
    side.sum = vgetq_lane_f64(sum[0], 0) + vgetq_lane_f64(sum[0], 1);
    side.n = b ? (int32_t)b->n : 0;
    return side;
}

INLINE void no_lanes(float32x4_t largest[REGS]) {
    for (int r = 0; r < REGS; r++)
        largest[r] = vdupq_n_f32(-INFINITY);
}

/* Places from .. to of the range: what the table of suppressed ids leaves of them. */
static mx_select_side one_side(mx_topk *b, const float *x, const uint8_t *suppress, int64_t first, int64_t from,
                               int64_t to, float *left) {
    float32x4_t largest[REGS];
    no_lanes(largest);
    for (int64_t at = from; at < to; at += REGS * LANES)
#pragma GCC unroll 4
        for (int r = 0; r < REGS; r++) {
            int64_t i = at + r * LANES;
            if (i >= to)
                break;
            float32x4_t v = plain(load(x + i, to - i));
            v = vbslq_f32(kept(suppress + i, to - i), v, vdupq_n_f32(-INFINITY));
            store(left + i, v, to - i);
            largest[r] = vmaxq_f32(v, largest[r]);
        }
    return finish(b, left + from, to - from, (int32_t)(first + from), largest);
}

static mx_select_side all_of(const float *x, int64_t n, float *left) {
    float32x4_t largest[REGS];
    no_lanes(largest);
    for (int64_t i = 0; i < n; i += LANES) {
        float32x4_t v = plain(load(x + i, n - i));
        store(left + i, v, n - i);
        largest[0] = vmaxq_f32(v, largest[0]);
    }
    return finish(NULL, left, n, 0, largest);
}

void MX_FAST(select_range)(mx_select_part *part, float *values, int32_t *ids, const float *x, const mx_rule *rule,
                           const uint8_t *suppress, int64_t first, int64_t n, int64_t k, float *left) {
    mx_select_range_by(all_of, one_side, part, values, ids, x, rule, suppress, first, n, k, left);
}
