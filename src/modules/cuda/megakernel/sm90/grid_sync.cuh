/* modules/cuda/megakernel/sm90/grid_sync.cuh - the CTAs of the megakernel: thread and CTA state, and how CTAs publish
 * values to each other. All CTAs are resident at once, so that they can wait for each other.
 * Invariants: a value is written once per launch, together with its epoch in one 8-byte store; no consumer has to
 * release it, since what it replaces is from an earlier launch. Epochs repeat after 2^32 launches: a value would have
 * to stay untouched for exactly that many to be taken for a new one. */
#ifndef MX_CUDA_MEGAKERNEL_SM90_GRID_SYNC_CUH
#define MX_CUDA_MEGAKERNEL_SM90_GRID_SYNC_CUH
#include "modules/cuda/megakernel/stages.cuh"
#include "modules/cuda/common/wgmma.cuh"

namespace mx::megakernel {

constexpr int WORKER_THREADS = WORKER_WARPS * WARP_SIZE;
constexpr int CTA_THREADS = WORKER_THREADS + WARP_SIZE;   /* one producer warp */
constexpr int RING_BARRIERS = 16;   /* pieces of weights in flight, at most */
constexpr int TILE_BYTES = 1024;   /* bytes of a tile of 8 columns by 64 of K */

#if MX_HAS_WGMMA
/* Consumer state of the ring of weights: where the next piece is, how many came before. */
struct ring_place {
    int at, piece;
};

struct cta_smem {
    uint64_t full[RING_BARRIERS], empty[RING_BARRIERS];
    unsigned epoch;
    int rows, n, ring_bytes, work_bytes;   /* of the megakernel */
    ring_place ring;                       /* between stages */
    int cell[MAX_ROWS], seq[MAX_ROWS], pos[MAX_ROWS], pick[MAX_ROWS];
    int runs, run_row[MAX_ROWS], run_rows[MAX_ROWS], run_window[MAX_ROWS];   /* rows of one window */
    mx_rule rules[MAX_ROWS];
};

static_assert(sizeof(cta_smem) + 128 <= SMEM_RESERVE, "megakernel/schedule.cu leaves as much");

__device__ __forceinline__ static cta_smem &shared() {
    __shared__ cta_smem s;
    return s;
}

/* The ring of weights starts on a 128-byte boundary; after it come a stage's working memory, the end of which is for
 * sums of GEMMs, and the stages. */
__device__ __forceinline__ static char *ring_start() {
    extern __shared__ char raw[];
    return raw + (128 - smem_addr(raw) % 128) % 128;
}
__device__ __forceinline__ static char *work_start() { return ring_start() + shared().ring_bytes; }
__device__ __forceinline__ static float2 *sums_start() {
    return (float2 *)(work_start() + shared().work_bytes - 2 * MAX_ITEMS * ITEM_SUM_BYTES);
}
__device__ __forceinline__ static stage_desc *stages_start() {
    return (stage_desc *)(work_start() + shared().work_bytes);
}

__device__ __forceinline__ static int warp_of() { return (int)(threadIdx.x / WARP_SIZE); }
__device__ __forceinline__ static int lane_of() { return (int)(threadIdx.x % WARP_SIZE); }

/* The CTA's number within a stage; it has no part in the stage if that is place.n or more. */
__device__ __forceinline__ static int place_in(const stage_desc &of) {
    int at = (int)blockIdx.x - of.place.first;
    return at < 0 ? at + (int)gridDim.x : at;
}

/* Barrier of all worker threads of the CTA. */
__device__ __forceinline__ static void sync_workers() {
    asm volatile("bar.sync 1, %0;" ::"n"(WORKER_THREADS) : "memory");
}

/* ---- publish and acquire ----------------------------------------------------------------------------------------- */

__device__ __forceinline__ static flagged make_flagged(float value, unsigned epoch) {
    return (flagged)epoch << 32 | __float_as_uint(value);
}
__device__ __forceinline__ static float flagged_value(flagged flagged_at) {
    return __uint_as_float((unsigned)flagged_at);
}

__device__ __forceinline__ static void publish(flagged *to, float value, unsigned epoch) {
    asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(make_flagged(value, epoch)) : "memory");
}

/* Two adjacent values; the first index is even. */
__device__ __forceinline__ static void publish2(flagged *to, float2 v, unsigned epoch) {
    asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};"
                 ::"l"(to), "l"(make_flagged(v.x, epoch)), "l"(make_flagged(v.y, epoch)) : "memory");
}

/* Two adjacent values as a GEMM needs them for its x: both first terms, then both second terms. */
template <int x_terms> __device__ __forceinline__ static float2 as_terms(float2 v) {
    uint32_t hi, lo = 0;
    float a = __fmul_rn(v.x, X_SCALE), b = __fmul_rn(v.y, X_SCALE);
    if (x_terms == 2)
        split_f16(a, b, hi, lo);
    else
        hi = pack_half2(a, b);
    return make_float2(__uint_as_float(hi), __uint_as_float(lo));
}

__device__ __forceinline__ static flagged load_flagged(const flagged *at) {
    flagged flagged_at;
    asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(flagged_at) : "l"(at) : "memory");
    return flagged_at;
}

__device__ __forceinline__ static void load_flagged2(const flagged *at, flagged (&flagged_at)[2]) {
    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(flagged_at[0]), "=l"(flagged_at[1])
                 : "l"(at)
                 : "memory");
}

/* Acquires n float4s, from from + at[i] on; by whole warps. All loads are in flight at once, repeated until every value
 * has arrived. Returns the low halves of the flagged values. */
template <int n>
__device__ __forceinline__ static void acquire4(const flagged *from, const int (&at)[n], unsigned epoch,
                                                uint4 (&v)[n]) {
    unsigned missing;
    do {
        flagged flagged_at[n][2][2];
        missing = 0;
#pragma unroll
        for (int i = 0; i < n; i++) {
            load_flagged2(from + at[i], flagged_at[i][0]);
            load_flagged2(from + at[i] + 2, flagged_at[i][1]);
        }
#pragma unroll
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int j = 0; j < 4; j++)
                missing |= (unsigned)(flagged_at[i][j / 2][j % 2] >> 32) ^ epoch;
            v[i] = make_uint4((unsigned)flagged_at[i][0][0], (unsigned)flagged_at[i][0][1],
                              (unsigned)flagged_at[i][1][0], (unsigned)flagged_at[i][1][1]);
        }
    } while (__any_sync(0xffffffffu, missing));
}

/* n pairs, likewise. */
template <int n>
__device__ __forceinline__ static void acquire(const flagged *from, const int (&at)[n], unsigned epoch,
                                               float2 (&v)[n]) {
    unsigned missing;
    do {
        flagged flagged_at[n][2];
        missing = 0;
#pragma unroll
        for (int i = 0; i < n; i++)
            load_flagged2(from + at[i], flagged_at[i]);
#pragma unroll
        for (int i = 0; i < n; i++) {
            missing |= (unsigned)(flagged_at[i][0] >> 32) ^ epoch;
            missing |= (unsigned)(flagged_at[i][1] >> 32) ^ epoch;
            v[i] = make_float2(flagged_value(flagged_at[i][0]), flagged_value(flagged_at[i][1]));
        }
    } while (__any_sync(0xffffffffu, missing));
}

__device__ __forceinline__ static float4 floats_of(const uint4 &v) {
    return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w));
}

/* Waits for the stage's hint flag, so that few CTAs poll for all inputs while they are still far off. Warps poll
 * different flags to avoid contention. */
__device__ __forceinline__ static void wait_hint(const hint_flag &hint) {
    if (lane_of() == 0 && hint.n) {
        const flagged *at = hint.at + ((int)(blockIdx.x * WORKER_WARPS + warp_of()) & (hint.n - 1)) * hint.step;
        while ((unsigned)(load_flagged(at) >> 32) != shared().epoch)
            ;
    }
    __syncwarp();
}
#endif

}   /* namespace mx::megakernel */
#endif
