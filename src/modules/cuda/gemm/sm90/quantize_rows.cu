/* modules/cuda/gemm/sm90/quantize_rows.cu - activations as operands of 8 bits, normed on the way: one kernel before a
 * GEMM of 8 bits. Integers stand for scale times (number + shift), with the numbers of the CPU (ref/w8a8.c), so that a
 * row's smallest and largest element are among 256; without a norm they are of elements rounded to f16, as other calls
 * leave them. 8-bit floats are elements as they are, at most 448.
 * Out: [64 rows][block of 128 of k][8 rows], each 1024 bytes: eight pieces of 16 of k in the order of order8, a row of
 * it 16 bytes; zeros past the last row. Then, of integers, a gemm_row_range for each row.
 * Invariant: a row's numbers follow from its elements alone. */
#include "modules/cuda/common/f8.cuh"
#include "modules/cuda/gemm/operand.cuh"

namespace mx::gemm {

namespace {

constexpr int UNIT = 64;         /* rows */
constexpr int TILE = UNIT * MX_CUDA_BLOCK8;   /* bytes of 64 rows by 128 of k */
constexpr int FOURS = 10;        /* float4s of a row that a lane keeps in registers; longer rows are read again */
static_assert(MX_CUDA_MOST_K8 / 16 * 144 <= 227 << 10, "8 rows of numbers in shared memory");

__device__ __forceinline__ char *tile_of(const gemm_params &p, int64_t row) {
    return (char *)p.f.scratch + row / UNIT * p.blocks * TILE + row % UNIT / 8 * 1024;
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

/* The bits of a row's elements: the largest of 0 and them as signed integers, and as unsigned ones, where those of
 * negative elements are the larger the further they are from 0. */
struct extremes {
    int most;
    unsigned least;
    __device__ __forceinline__ void meet(float v) {
        most = max(most, __float_as_int(v));
        least = max(least, __float_as_uint(v));
    }
    __device__ __forceinline__ void meet(const extremes &e) {
        most = max(most, e.most);
        least = max(least, e.least);
    }
    __device__ __forceinline__ extremes from_lane(int mask) const {
        return {__shfl_xor_sync(0xffffffffu, most, mask), __shfl_xor_sync(0xffffffffu, least, mask)};
    }
};

struct quantizer {
    float step;   /* 1 / scale; 0 where the row is next to nothing, whose scale is 0, or not finite, nor is its scale */
    gemm_row_range range;
    __device__ __forceinline__ explicit quantizer(const extremes &e) {
        float low = e.least > 0x80000000u ? __uint_as_float(e.least) : 0.0f;
        float scale = __fsub_rn(__fdiv_rn(__int_as_float(e.most), 255.0f), __fdiv_rn(low, 255.0f));
        step = __fdiv_rn(1.0f, scale);
        range = {scale, 0};
        if (isfinite(scale) && isfinite(step)) {
            range.shift = 128 + __float2int_rn(__fmul_rn(low, step));
        } else {
            range.scale = isfinite(scale) ? 0.0f : scale;
            step = 0;
        }
    }
    __device__ __forceinline__ uint32_t number(float v) const {
        int n = min(__float2int_rn(__fmul_rn(v, step)) - range.shift, 127);
        return step > 0 ? (uint32_t)n & 255 : 0;
    }
    __device__ __forceinline__ uint32_t four(float a, float b, float c, float d) const {
        return number(a) | number(b) << 8 | number(c) << 16 | number(d) << 24;
    }
};

/* ---- from f32 ---------------------------------------------------------------------------------------------------- */

/* Four numbers of row `in` of eight into shared memory, by all lanes of a warp, which have four each. In order8 they
 * alternate with those of the lane two further, 8 of k on: each of both lanes writes half of all eight. 16 bytes after
 * each 128 make a warp that writes a row bank-conflict free. */
__device__ __forceinline__ void put_four(char *to, int in, int k, uint32_t four) {
    bool upper = k & 8;
    uint32_t other = __shfl_xor_sync(0xffffffffu, four, 2);
    uint32_t both = upper ? __byte_perm(other, four, 0x7362) : __byte_perm(four, other, 0x5140);
    *(uint32_t *)(to + k / 16 * 144 + in * 16 + (k & 4) * 2 + (upper ? 4 : 0)) = both;
}

/* What a GEMM or attention leaves as operands of f16: the same numbers come of f32 rows. */
__device__ __forceinline__ float as_operand(float v) {
    return __fmul_rn(__half2float(__float2half_rn(__fmul_rn(v, X_SCALE))), X_UNSCALE);
}
__device__ __forceinline__ float4 as_operand(const float4 &v) {
    return make_float4(as_operand(v.x), as_operand(v.y), as_operand(v.z), as_operand(v.w));
}

template <bool quad, bool integers>
__device__ __forceinline__ void quantize_row(const gemm_params &p, const x_row &row, int in, gemm_row_range *range,
                                             char *to) {
    int lane = threadIdx.x % WARP_SIZE, k = (int)p.f.k;
    float4 held[FOURS];
    float2 s = make_float2(0, 1);
    if (p.f.gamma)
        s = row_stats<quad>(p, row, held);
    else
#pragma unroll
        for (int i = 0; i < FOURS; i++)
            held[i] = load_row4<quad>(row, (lane + i * WARP_SIZE) * 4);
    auto ready = [&](const float4 &v, int at) {
        if (!p.f.gamma)
            return integers ? as_operand(v) : v;
        return norm4(v, s, load_vec4<quad>(p.f.gamma, p.f.k, at), load_vec4<quad>(p.f.beta, p.f.k, at));
    };
    auto each = [&](auto use) {
#pragma unroll
        for (int i = 0; i < FOURS; i++)
            if ((lane + i * WARP_SIZE) * 4 < k)
                use((lane + i * WARP_SIZE) * 4, held[i]);
        for (int at = (lane + FOURS * WARP_SIZE) * 4; at < k; at += 4 * WARP_SIZE)
            use(at, ready(load_row4<quad>(row, at), at));
    };
#pragma unroll
    for (int i = 0; i < FOURS; i++)
        if ((lane + i * WARP_SIZE) * 4 < k)
            held[i] = ready(held[i], (lane + i * WARP_SIZE) * 4);
    if (!integers) {
        each([&](int at, const float4 &v) { put_four(to, in, at, pack_f8(v.x, v.y, v.z, v.w)); });
        return;
    }
    extremes e = {0, 0};
    each([&](int at, const float4 &v) {
        e.meet(v.x);
        e.meet(v.y);
        e.meet(v.z);
        e.meet(v.w);
    });
    for (int half = WARP_SIZE / 2; half > 0; half /= 2)
        e.meet(e.from_lane(half));
    quantizer q(e);
    each([&](int at, const float4 &v) { put_four(to, in, at, q.four(v.x, v.y, v.z, v.w)); });
    if (lane == 0)
        *range = q.range;
}

/* Eight rows to a block, one to a warp. */
template <bool quad, bool integers>
__global__ void __launch_bounds__(BLOCK_SIZE) quantize_rows_kernel(gemm_params p) {
    extern __shared__ __align__(16) char eight[];
    int in = threadIdx.x / WARP_SIZE;
    int64_t row = (int64_t)blockIdx.x * 8 + in;
    gemm_row_range *range = (gemm_row_range *)p.x_ranges + row;
    if (p.f.y_layout == MX_LAYOUT_QKV) {   /* entries begin with a tile */
        unsigned entry = (unsigned)p.f.entry_rows, padded = (entry + 63) / 64 * 64, number = (unsigned)row / padded;
        unsigned at = (unsigned)row - number * padded;
        row = at < entry ? (int64_t)number * entry + at : p.f.m;
    }
    if (row < p.f.m) {
        quantize_row<quad, integers>(p, x_row_of(p.f, row), in, range, eight);
    } else {
        for (int k = threadIdx.x % WARP_SIZE * 4; k < p.f.k; k += 4 * WARP_SIZE)
            put_four(eight, in, k, 0);
        if (integers && threadIdx.x % WARP_SIZE == 0)
            *range = {0, 0};
    }
    __syncthreads();
    char *to = tile_of(p, (int64_t)blockIdx.x * 8);
    for (int i = threadIdx.x; i < p.blocks * 64; i += BLOCK_SIZE)
        *(uint4 *)(to + (int64_t)(i / 64) * TILE + i % 64 * 16) = *(const uint4 *)(eight + i / 8 * 144 + i % 8 * 16);
}

/* ---- from operands of f16 ---------------------------------------------------------------------------------------- */

/* Sixteen of k from their two pieces (mx_cuda_weight), in order. */
__device__ __forceinline__ void in_order(const uint4 &first, const uint4 &second, float (&v)[16]) {
    const uint32_t pairs[8] = {first.x, second.x, first.y, second.y, first.z, second.z, first.w, second.w};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float2 two = __half22float2(*reinterpret_cast<const __half2 *>(&pairs[i]));
        v[2 * i] = __fmul_rn(two.x, X_UNSCALE);
        v[2 * i + 1] = __fmul_rn(two.y, X_UNSCALE);
    }
}

/* Eight rows to a block. A thread has row threadIdx.x % 8, and of it every 32nd sixteen of k; so a warp reads and
 * writes whole sectors. Elements are read twice. */
__global__ void __launch_bounds__(BLOCK_SIZE) quantize_operand_kernel(gemm_params p) {
    __shared__ extremes of_warps[BLOCK_WARPS][8];
    int in = threadIdx.x % 8, n = (int)p.f.k / 16;
    int64_t first = (int64_t)blockIdx.x * 8;
    const char *from = (const char *)p.f.x + first / UNIT * (p.f.k / 64) * 8192 + first % UNIT / 8 * 1024 + in * 16;
    char *to = tile_of(p, first) + in * 16;
    bool there = first + in < p.f.m;
    auto load = [&](int i, float (&v)[16]) {
        const char *at = from + (int64_t)(i / 4) * 8192 + i % 4 * 256;
        in_order(__ldcg((const uint4 *)at), __ldcg((const uint4 *)(at + 128)), v);
    };
    extremes e = {0, 0};
#pragma unroll 2
    for (int i = threadIdx.x / 8; i < n && there; i += BLOCK_SIZE / 8) {
        float v[16];
        load(i, v);
#pragma unroll
        for (int j = 0; j < 16; j++)
            e.meet(v[j]);
    }
    e.meet(e.from_lane(8));
    e.meet(e.from_lane(16));
    if (threadIdx.x % WARP_SIZE < 8)
        of_warps[threadIdx.x / WARP_SIZE][in] = e;
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < BLOCK_WARPS; warp++)
        e.meet(of_warps[warp][in]);
    quantizer q(e);
    if (threadIdx.x < 8)
        ((gemm_row_range *)p.x_ranges)[first + in] = q.range;
#pragma unroll 2
    for (int i = threadIdx.x / 8; i < n; i += BLOCK_SIZE / 8) {
        float v[16];
        uint32_t four[4] = {0, 0, 0, 0};
        if (there) {
            load(i, v);
#pragma unroll
            for (int j = 0; j < 4; j++)
                four[j] = q.four(v[2 * j], v[2 * j + 8], v[2 * j + 1], v[2 * j + 9]);
        }
        *(uint4 *)(to + (int64_t)(i / 8) * TILE + i % 8 * 128) = make_uint4(four[0], four[1], four[2], four[3]);
    }
}

template <bool quad, bool integers> static void launch(mx_cuda *gpu, const gemm_params &p) {
    unsigned blocks = (unsigned)(p.x_rows / 8);
    static int allowed[MX_CUDA_MAX_GPUS];
    int bytes = (int)p.f.k / 16 * 144;
    mx_cuda_allow_shared(gpu, (const void *)quantize_rows_kernel<quad, integers>, bytes, allowed);
    quantize_rows_kernel<quad, integers><<<blocks, BLOCK_SIZE, bytes, gpu->stream>>>(p);
}

}   /* namespace */

gemm_params quantize_rows(mx_cuda *gpu, const gemm_params &plain) {
    gemm_params p = plain;
    bool integers = p.f.weight.element == MX_CUDA_S8;
    int64_t rows = p.f.y_layout == MX_LAYOUT_QKV ? gemm_operand_rows(&p.f) : p.f.m;
    p.x_rows = (rows + UNIT - 1) / UNIT * UNIT;
    if (!integers && p.f.x_layout == MX_LAYOUT_OPERAND)
        return p;
    p.x_ranges = (const gemm_row_range *)((const char *)p.f.scratch + p.x_rows * p.f.k);
    if (p.f.x_layout == MX_LAYOUT_OPERAND)
        quantize_operand_kernel<<<(unsigned)(p.x_rows / 8), BLOCK_SIZE, 0, gpu->stream>>>(p);
    else if (integers)
        p.quad_x ? launch<true, true>(gpu, p) : launch<false, true>(gpu, p);
    else
        p.quad_x ? launch<true, false>(gpu, p) : launch<false, false>(gpu, p);
    p.f.x = (const float *)p.f.scratch;
    p.f.x_layout = MX_LAYOUT_OPERAND;
    return p;
}

}   /* namespace mx::gemm */
