/* modules/cuda/chain_crew.cuh - the blocks of a chain: what a thread knows of itself, and how blocks tell each other
 * values. All blocks are on the GPU at once, so that they can wait for each other.
 * What holds: a value is written once in a launch, with its tag in one piece of 8 bytes; nobody needs to be asked
 * whether it may be written, since what it takes the place of is of an earlier launch. Tags come again after 2^32
 * launches: a value would have to be left alone for exactly as many to be taken for a new one. */
#ifndef MX_CUDA_CHAIN_CREW_CUH
#define MX_CUDA_CHAIN_CREW_CUH
#include "modules/cuda/chain.cuh"
#include "modules/cuda/wgmma.cuh"

#define WORKERS (MX_CHAIN_WARPS * MX_WARP)
#define CHAIN_THREADS (WORKERS + MX_WARP)     /* one warp brings weights */
#define GATES 16                              /* pieces of weights that are under way at most */
#define TILE_BLOCK 1024                       /* bytes of a tile of 8 columns by 64 of k */

#if MX_WIDE
/* How far the block is in the ring of weights: where the next piece lies, how many came before. */
struct ring_place {
    int at, piece;
};

struct chain_shared {
    uint64_t full[GATES], empty[GATES];
    unsigned tag;
    int rows, n, ring_bytes, work_bytes;   /* of the chain */
    ring_place ring;                       /* between phases */
    int cell[MX_CHAIN_ROWS], seq[MX_CHAIN_ROWS], pos[MX_CHAIN_ROWS], pick[MX_CHAIN_ROWS];
    int runs, run_row[MX_CHAIN_ROWS], run_rows[MX_CHAIN_ROWS], run_window[MX_CHAIN_ROWS];   /* of rows of one window */
    mx_rule rules[MX_CHAIN_ROWS];
};

static_assert(sizeof(chain_shared) + 128 <= MX_CHAIN_BESIDES, "chain_divide.cu leaves as much");

__device__ __forceinline__ static chain_shared &shared() {
    __shared__ chain_shared s;
    return s;
}

/* The ring of weights begins on a boundary of 128 bytes; behind it lie a phase's own memory, the last of which is for
 * sums of products, and the phases. */
__device__ __forceinline__ static char *ring_start() {
    extern __shared__ char raw[];
    return raw + (128 - mx_shared_at(raw) % 128) % 128;
}
__device__ __forceinline__ static char *work_start() { return ring_start() + shared().ring_bytes; }
__device__ __forceinline__ static float2 *sums_start() {
    return (float2 *)(work_start() + shared().work_bytes - 2 * MX_CHAIN_ITEMS * MX_CHAIN_SUM);
}
__device__ __forceinline__ static mx_chain_phase *phases_start() {
    return (mx_chain_phase *)(work_start() + shared().work_bytes);
}

__device__ __forceinline__ static int warp_of() { return (int)(threadIdx.x / MX_WARP); }
__device__ __forceinline__ static int lane_of() { return (int)(threadIdx.x % MX_WARP); }

/* The block's number among those of a phase; the phase is not for it if that is place.n or more. */
__device__ __forceinline__ static int place_in(const mx_chain_phase &of) {
    int at = (int)blockIdx.x - of.place.first;
    return at < 0 ? at + (int)gridDim.x : at;
}

/* All workers of the block. */
__device__ __forceinline__ static void meet_block() { asm volatile("bar.sync 1, %0;" ::"n"(WORKERS) : "memory"); }

/* ---- telling ----------------------------------------------------------------------------------------------------- */

__device__ __forceinline__ static mx_told told_of(float value, unsigned tag) {
    return (mx_told)tag << 32 | __float_as_uint(value);
}
__device__ __forceinline__ static float value_of_told(mx_told told) { return __uint_as_float((unsigned)told); }

__device__ __forceinline__ static void tell(mx_told *to, float value, unsigned tag) {
    asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(told_of(value, tag)) : "memory");
}

/* Two neighbours; the first is even. */
__device__ __forceinline__ static void tell_two(mx_told *to, float2 v, unsigned tag) {
    asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};"
                 ::"l"(to), "l"(told_of(v.x, tag)), "l"(told_of(v.y, tag)) : "memory");
}

/* Two neighbours as a product takes them for its x: both first parts, then both second parts. */
template <int x_parts> __device__ __forceinline__ static float2 parts_of(float2 v) {
    uint32_t hi, lo = 0;
    float a = __fmul_rn(v.x, MX_X_DOWN), b = __fmul_rn(v.y, MX_X_DOWN);
    if (x_parts == 2)
        mx_split(a, b, hi, lo);
    else
        hi = mx_halves(a, b);
    return make_float2(__uint_as_float(hi), __uint_as_float(lo));
}

__device__ __forceinline__ static mx_told look(const mx_told *at) {
    mx_told told;
    asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(told) : "l"(at) : "memory");
    return told;
}

__device__ __forceinline__ static void look_two(const mx_told *at, mx_told (&told)[2]) {
    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];" : "=l"(told[0]), "=l"(told[1]) : "l"(at) : "memory");
}

/* n fours, from from + at[i] on; by whole warps. All are under way at once, again and again until every one has come.
 * The low halves of what was told. */
template <int n>
__device__ __forceinline__ static void hear_fours(const mx_told *from, const int (&at)[n], unsigned tag,
                                                  uint4 (&v)[n]) {
    unsigned missing;
    do {
        mx_told told[n][2][2];
        missing = 0;
#pragma unroll
        for (int i = 0; i < n; i++) {
            look_two(from + at[i], told[i][0]);
            look_two(from + at[i] + 2, told[i][1]);
        }
#pragma unroll
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int j = 0; j < 4; j++)
                missing |= (unsigned)(told[i][j / 2][j % 2] >> 32) ^ tag;
            v[i] = make_uint4((unsigned)told[i][0][0], (unsigned)told[i][0][1], (unsigned)told[i][1][0],
                              (unsigned)told[i][1][1]);
        }
    } while (__any_sync(0xffffffffu, missing));
}

/* n pairs, likewise. */
template <int n>
__device__ __forceinline__ static void hear(const mx_told *from, const int (&at)[n], unsigned tag, float2 (&v)[n]) {
    unsigned missing;
    do {
        mx_told told[n][2];
        missing = 0;
#pragma unroll
        for (int i = 0; i < n; i++)
            look_two(from + at[i], told[i]);
#pragma unroll
        for (int i = 0; i < n; i++) {
            missing |= (unsigned)(told[i][0] >> 32) ^ tag;
            missing |= (unsigned)(told[i][1] >> 32) ^ tag;
            v[i] = make_float2(value_of_told(told[i][0]), value_of_told(told[i][1]));
        }
    } while (__any_sync(0xffffffffu, missing));
}

__device__ __forceinline__ static float4 floats_of(const uint4 &v) {
    return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w));
}

/* Until the phase's sign is there, so that few look for all that it needs while that is still far. Warps look at
 * different places: one would be crowded. */
__device__ __forceinline__ static void await_sign(const mx_chain_sign &sign) {
    if (lane_of() == 0 && sign.n) {
        const mx_told *at = sign.at + ((int)(blockIdx.x * MX_CHAIN_WARPS + warp_of()) & (sign.n - 1)) * sign.step;
        while ((unsigned)(look(at) >> 32) != shared().tag)
            ;
    }
    __syncwarp();
}
#endif
#endif
