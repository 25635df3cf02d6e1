/* modules/cuda/chain_crew.cuh - the blocks of a chain: what a thread knows of itself, and how all of them meet between
 * phases. All blocks are on the GPU at once, so that they can wait for each other. */
#ifndef MX_CUDA_CHAIN_CREW_CUH
#define MX_CUDA_CHAIN_CREW_CUH
#include "modules/cuda/chain.cuh"
#include "modules/cuda/wgmma.cuh"

#define WORKERS (MX_CHAIN_WARPS * MX_WARP)
#define CHAIN_THREADS (WORKERS + MX_WARP)     /* one warp brings weights */
#define TEAM 128                              /* threads of a group of rows_attention.cuh */
#define TEAMS (WORKERS / TEAM)
#define GATES 8                               /* pieces of weights that are under way at most */
#define TILE_BLOCK 1024                       /* bytes of a tile of 8 columns by 64 of k */

#if MX_WIDE
struct chain_shared {
    uint64_t full[GATES], empty[GATES];
    int cell[MX_CHAIN_ROWS], seq[MX_CHAIN_ROWS], pos[MX_CHAIN_ROWS];
    int runs, run_row[MX_CHAIN_ROWS], run_rows[MX_CHAIN_ROWS], run_window[MX_CHAIN_ROWS];   /* of rows of one window */
};

__device__ __forceinline__ static chain_shared &shared() {
    __shared__ chain_shared s;
    return s;
}

/* The ring of weights begins on a boundary of 128 bytes. */
__device__ __forceinline__ static char *ring_start() {
    extern __shared__ char raw[];
    return raw + (128 - mx_shared_at(raw) % 128) % 128;
}

/* How far a thread's block is; the rest of what it knows costs no register. */
template <typename Chain> struct crew {
    const Chain &chain;
    int index;              /* of the phase */
    int ring_at, piece;     /* where the next piece of weights is, how many came before */
    __device__ int thread() const { return (int)threadIdx.x; }
    __device__ int warp() const { return (int)threadIdx.x / MX_WARP; }
    __device__ int lane() const { return (int)threadIdx.x % MX_WARP; }
    __device__ int block() const { return (int)blockIdx.x; }
    __device__ int blocks() const { return (int)gridDim.x; }
    __device__ int rows() const { return chain.rows; }
    __device__ char *work() const { return ring_start() + chain.ring_bytes; }
    __device__ mx_chain_phase *phases() const { return (mx_chain_phase *)(work() + chain.work_bytes); }
    __device__ const mx_chain_phase &phase() const { return phases()[index]; }
};

/* ---- meeting ----------------------------------------------------------------------------------------------------- */

/* All workers of the block. */
__device__ __forceinline__ static void meet_block() { asm volatile("bar.sync 1, %0;" ::"n"(WORKERS) : "memory"); }

/* The block is done with a phase: said while the next one is prepared. By the last warp, which has the least to do. */
template <typename Crew> __device__ __forceinline__ static void leave(const Crew &c) {
    meet_block();
    if (c.thread() == WORKERS - MX_WARP && c.index + 1 < c.chain.n) {
        __threadfence();
        atomicAdd(c.chain.met, 1u);
    }
}

/* A phase begins: everybody has left the one before. */
template <typename Crew> __device__ __forceinline__ static void begin(const Crew &c) {
    if (c.index == 0)
        return;
    if (c.thread() == WORKERS - MX_WARP) {
        unsigned seen, wanted = (unsigned)(c.index * c.blocks());
        do
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(c.chain.met) : "memory");
        while (seen < wanted);
    }
    meet_block();   /* what others wrote is read past the nearest cache (mx_read) */
}

/* The counters as they were, by the last block to leave. */
template <typename Crew> __device__ static void leave_grid(const Crew &c) {
    if (c.chain.n > 1 && c.thread() == 0 && atomicAdd(c.chain.met + 1, 1u) == (unsigned)c.blocks() - 1) {
        c.chain.met[0] = 0;
        c.chain.met[1] = 0;
    }
}
#endif
#endif
