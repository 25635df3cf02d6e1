/* device/cpu/simd/simd.h - the vectors of one instruction set under common names, for the kernel templates (*_tmpl.c).
 * A template is compiled once for each instruction set; the compiler's own flags choose the header here.
 *
 *   VL                     floats of a vector vf; a vector vd has VD doubles, half as many
 *   vf_load, vf_store      any address
 *   vf_load_first(x, n)    the first n lanes, 0 in the others; n from below 0 to above VL
 *   vf_load_or(x, n, v)    the first n lanes, those of v in the others
 *   vf_store_first         the first n lanes
 *   vf_load_f16            VL halves at any address; vf_store_f16: rounded to nearest, ties to even
 *   vf_fma, vf_fnma        a * b + c, c - a * b, rounded once
 *   vf_max, vf_min(c, x)   a NaN in x stays NaN
 *   vf_maxnum(x, m)        m where x is NaN
 *   vf_scale(p, n, i)      p 2^n for whole n in [-150, 128]; i is n + MX_ROUND
 *   vf_number_or(x, a, b)  b in the lanes where x is NaN, else a
 *   vf_less(x, m, a, b)    a in the lanes where x < m, else b
 *   vf_greater(a, b)       bit i: a > b in lane i
 *   vf_suppress(v, out, n) -inf in the lanes whose byte of out [n] is not 0
 *   vf_transpose(x)        x [VL][VL]
 *   vf_bits .. vi_sra      the bits of floats as 32-bit integers: add, subtract, shift; vi_srl: zeros come in
 *   vi_load_u8, .._i8      VL bytes as integers; vi_to_floats: integers as floats
 *   vd_load, vd_store      f32 in memory, f64 in registers; _first as above; vd_store_doubles: f64 in both
 *   vd_join(sum)           VD_CHAINS vectors to one number, in the order of the instruction set's layer norm
 *   vd_sum                 the lanes of one, in the order of its select
 *   VS, vs, vf_sums(x)     VS dot products at once: x [MX_SUM_LANES / VL][VS], lane j the sum of x[..][j], in the order
 *                          of ref/attention_decode.c */
#ifndef MX_SIMD_H
#define MX_SIMD_H
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "device/cpu/kernels.h"

#define MX_INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
#include "device/cpu/simd/avx512.h"
#elif defined(__AVX2__)
#include "device/cpu/simd/avx2.h"
#elif defined(__ARM_NEON)
#include "device/cpu/simd/neon.h"
#else
#error "no instruction set with kernels of its own"
#endif

#define VD (VL / 2)
#define VPARTS (MX_SUM_LANES / VL)   /* vectors of the lanes in which the decoder's sums run */

#include "device/cpu/simd/math.h"
#endif
