/* device/cpu/simd/neon.h - four floats: 64-bit ARM under the names of simd.h, which alone includes this. */
#ifndef MX_SIMD_NEON_H
#define MX_SIMD_NEON_H
#include <arm_neon.h>

#define VL 4
typedef float32x4_t vf;
typedef int32x4_t vi;
typedef float64x2_t vd;

MX_INLINE vf vf_zero(void) { return vdupq_n_f32(0); }
MX_INLINE vf vf_set1(float x) { return vdupq_n_f32(x); }
MX_INLINE vf vf_load(const float *x) { return vld1q_f32(x); }
MX_INLINE void vf_store(float *y, vf x) { vst1q_f32(y, x); }
MX_INLINE vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
MX_INLINE vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
MX_INLINE vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
MX_INLINE vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
MX_INLINE vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
MX_INLINE vf vf_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }
/* c + a times lane `lane`, a literal, of b */
#define VF_FMA_LANE(c, a, b, lane) vfmaq_laneq_f32(c, a, b, lane)
MX_INLINE vf vf_abs(vf x) { return vabsq_f32(x); }
MX_INLINE vf vf_max(vf c, vf x) { return vmaxq_f32(x, c); }
MX_INLINE vf vf_min(vf c, vf x) { return vminq_f32(x, c); }
MX_INLINE vf vf_maxnum(vf x, vf m) { return vmaxnmq_f32(x, m); }

MX_INLINE vi vf_bits(vf x) { return vreinterpretq_s32_f32(x); }
MX_INLINE vf vi_floats(vi x) { return vreinterpretq_f32_s32(x); }
MX_INLINE vi vi_set1(int32_t x) { return vdupq_n_s32(x); }
MX_INLINE vi vi_add(vi a, vi b) { return vaddq_s32(a, b); }
MX_INLINE vi vi_sub(vi a, vi b) { return vsubq_s32(a, b); }
MX_INLINE vi vi_and(vi a, vi b) { return vandq_s32(a, b); }
MX_INLINE vi vi_or(vi a, vi b) { return vorrq_s32(a, b); }
MX_INLINE vi vi_load(const void *x) { return vreinterpretq_s32_u8(vld1q_u8(x)); }
MX_INLINE uint8x8_t four_bytes(const void *x) {
    uint32_t bytes;
    memcpy(&bytes, x, 4);
    return vcreate_u8(bytes);
}
MX_INLINE vi vi_load_u8(const void *x) {
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(four_bytes(x)))));
}
MX_INLINE vi vi_load_i8(const void *x) {
    return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(four_bytes(x)))));
}
MX_INLINE vf vi_to_floats(vi x) { return vcvtq_f32_s32(x); }
#define vi_srl(x, n) vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(x), n))
#define vi_shl(x, n) vshlq_n_s32(x, n)
#define vi_sra(x, n) vshrq_n_s32(x, n)

/* There are no masks: the last elements of a row go through a copy. */
MX_INLINE vf vf_load_or(const float *x, int64_t n, vf other) {
    float four[VL];
    if (n >= VL)
        return vld1q_f32(x);
    vst1q_f32(four, other);
    if (n > 0)
        memcpy(four, x, (size_t)n * sizeof(float));
    return vld1q_f32(four);
}
MX_INLINE vf vf_load_first(const float *x, int64_t n) { return vf_load_or(x, n, vdupq_n_f32(0)); }
MX_INLINE void vf_store_first(float *y, vf x, int64_t n) {
    float four[VL];
    if (n >= VL) {
        vst1q_f32(y, x);
    } else if (n > 0) {
        vst1q_f32(four, x);
        memcpy(y, four, (size_t)n * sizeof(float));
    }
}

MX_INLINE vf vf_number_or(vf x, vf a, vf b) { return vbslq_f32(vceqq_f32(x, x), a, b); }
MX_INLINE vf vf_less(vf x, vf m, vf a, vf b) { return vbslq_f32(vcltq_f32(x, m), a, b); }
MX_INLINE unsigned vf_greater(vf a, vf b) {
    const uint32x4_t bit = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcgtq_f32(a, b), bit));
}

MX_INLINE vf vf_suppress(vf v, const uint8_t *out, int64_t n) {
    uint32_t bytes = 0;
    if (n >= VL)
        memcpy(&bytes, out, VL);
    else
        memcpy(&bytes, out, (size_t)n);
    uint32x4_t wide = vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes))));
    return vbslq_f32(vceqq_u32(wide, vdupq_n_u32(0)), v, vdupq_n_f32(-INFINITY));
}

MX_INLINE float vf_reduce_max(vf x) { return vmaxnmvq_f32(x); }

MX_INLINE void vf_transpose(vf x[VL]) {
    vf a = vzip1q_f32(x[0], x[2]), b = vzip2q_f32(x[0], x[2]), c = vzip1q_f32(x[1], x[3]), d = vzip2q_f32(x[1], x[3]);
    x[0] = vzip1q_f32(a, c);
    x[1] = vzip2q_f32(a, c);
    x[2] = vzip1q_f32(b, d);
    x[3] = vzip2q_f32(b, d);
}

/* ---- f16, and eight 16-bit elements; loaded as bytes, for they may be at any address ----------------------------- */

MX_INLINE vf vf_load_f16(const void *x) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(x))); }
MX_INLINE void vf_store_f16(void *y, vf x) { vst1_u8(y, vreinterpret_u8_f16(vcvt_f16_f32(x))); }

typedef uint16x8_t vh;
MX_INLINE vh vh_load(const void *x) { return vreinterpretq_u16_u8(vld1q_u8(x)); }
MX_INLINE void vh_store(void *y, vh x) { vst1q_u8(y, vreinterpretq_u8_u16(x)); }
MX_INLINE vh vh_low8(vh a, vh b) {
    return vreinterpretq_u16_u8(vzip1q_u8(vreinterpretq_u8_u16(a), vreinterpretq_u8_u16(b)));
}
MX_INLINE vh vh_high8(vh a, vh b) {
    return vreinterpretq_u16_u8(vzip2q_u8(vreinterpretq_u8_u16(a), vreinterpretq_u8_u16(b)));
}
MX_INLINE vh vh_low16(vh a, vh b) { return vzip1q_u16(a, b); }
MX_INLINE vh vh_high16(vh a, vh b) { return vzip2q_u16(a, b); }
#define ZIP(op, bits, a, b)                                                                                            \
    vreinterpretq_u16_u##bits(op##q_u##bits(vreinterpretq_u##bits##_u16(a), vreinterpretq_u##bits##_u16(b)))
MX_INLINE vh vh_low32(vh a, vh b) { return ZIP(vzip1, 32, a, b); }
MX_INLINE vh vh_high32(vh a, vh b) { return ZIP(vzip2, 32, a, b); }
MX_INLINE vh vh_low64(vh a, vh b) { return ZIP(vzip1, 64, a, b); }
MX_INLINE vh vh_high64(vh a, vh b) { return ZIP(vzip2, 64, a, b); }
#undef ZIP

/* ---- two doubles ------------------------------------------------------------------------------------------------- */

#define VD_CHAINS 8
MX_INLINE vd vd_zero(void) { return vdupq_n_f64(0); }
MX_INLINE vd vd_set1(double x) { return vdupq_n_f64(x); }
MX_INLINE vd vd_add(vd a, vd b) { return vaddq_f64(a, b); }
MX_INLINE vd vd_sub(vd a, vd b) { return vsubq_f64(a, b); }
MX_INLINE vd vd_mul(vd a, vd b) { return vmulq_f64(a, b); }
MX_INLINE vd vd_fma(vd a, vd b, vd c) { return vfmaq_f64(c, a, b); }
MX_INLINE vd vd_load(const float *x) { return vcvt_f64_f32(vld1_f32(x)); }
MX_INLINE void vd_store(float *y, vd x) { vst1_f32(y, vcvt_f32_f64(x)); }
MX_INLINE void vd_store_doubles(double *y, vd x) { vst1q_f64(y, x); }
MX_INLINE vd vd_low(vf x) { return vcvt_f64_f32(vget_low_f32(x)); }
MX_INLINE vd vd_high(vf x) { return vcvt_high_f64_f32(x); }
MX_INLINE vd vd_load_first(const float *x, int64_t n) {
    return n >= 2 ? vd_load(x) : vdupq_n_f64(n > 0 ? (double)*x : 0);
}
MX_INLINE void vd_store_first(float *y, vd x, int64_t n) {
    if (n >= 2)
        vd_store(y, x);
    else if (n > 0)
        *y = vget_lane_f32(vcvt_f32_f64(x), 0);
}

MX_INLINE double vd_sum(vd x) { return vgetq_lane_f64(x, 0) + vgetq_lane_f64(x, 1); }
MX_INLINE double vd_join(vd sum[VD_CHAINS]) {
    for (int step = VD_CHAINS / 2; step > 0; step /= 2)
        for (int c = 0; c < step; c++)
            sum[c] = vaddq_f64(sum[c], sum[c + step]);
    return vd_sum(sum[0]);
}

/* ---- sums across the lanes of four times four vectors ------------------------------------------------------------ */

#define VS 4
typedef float32x4_t vs;
MX_INLINE void vs_store(float *y, vs x) { vst1q_f32(y, x); }
MX_INLINE float vs_first(vs x) { return vgetq_lane_f32(x, 0); }

/* Lane i: the sum of x[i]'s lanes, first those two apart. */
MX_INLINE vf quad_sums(const vf x[VS]) {
    float32x2_t two[VS];
    for (int i = 0; i < VS; i++)
        two[i] = vadd_f32(vget_low_f32(x[i]), vget_high_f32(x[i]));
    return vcombine_f32(vpadd_f32(two[0], two[1]), vpadd_f32(two[2], two[3]));
}
MX_INLINE vs vf_sums(const vf x[4][VS]) {
    return vaddq_f32(vaddq_f32(quad_sums(x[0]), quad_sums(x[1])), vaddq_f32(quad_sums(x[2]), quad_sums(x[3])));
}
#endif
