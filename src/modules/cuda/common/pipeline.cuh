/* modules/cuda/common/pipeline.cuh - a ring of stages in shared memory between one producer thread, which fills them
 * with bulk copies, and the warps that consume them; CUTLASS's PipelineTmaAsync in small.
 * A ring is any type with full(stage) and empty(stage), each the mbarrier of a stage: `full` completes when the bytes
 * of a stage have landed, `empty` when every consumer warp has released it.
 * Invariants: producer and consumers walk the stages in the same order; a stage is released once per round by each
 * consumer warp. */
#ifndef MX_CUDA_COMMON_PIPELINE_CUH
#define MX_CUDA_COMMON_PIPELINE_CUH
#include "modules/cuda/common/mbarrier.cuh"

namespace mx {

#if MX_HAS_WGMMA
/* A position in a ring: its stage, and the parity of the round, which is the phase that the mbarriers are in. */
struct pipeline_state {
    int stage, parity;
    __device__ __forceinline__ void advance(int n, int stages) {
        stage += n % stages;
        parity ^= n / stages & 1;
        if (stage >= stages) {
            stage -= stages;
            parity ^= 1;
        }
    }
    __device__ __forceinline__ int previous(int stages) const { return stage ? stage - 1 : stages - 1; }
};

/* The mbarriers that were initialised before are visible to the async proxy and the rest of the cluster. */
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* One arrival for the warp. */
template <typename Barrier> __device__ __forceinline__ void warp_arrive(Barrier barrier) {
    if (threadIdx.x % WARP_SIZE == 0)
        mbarrier_arrive(barrier);
}

/* Waits until the consumers have released the stage; in the first round it passes at once. */
template <typename Ring> __device__ __forceinline__ void producer_acquire(const Ring &ring, const pipeline_state &at) {
    mbarrier_wait(ring.empty(at.stage), at.parity ^ 1);
}

/* Announces the bytes of the copies that fill the stage. */
template <typename Ring>
__device__ __forceinline__ void producer_expect(const Ring &ring, const pipeline_state &at, unsigned bytes) {
    mbarrier_arrive_expect_tx(ring.full(at.stage), bytes);
}

template <typename Ring> __device__ __forceinline__ void consumer_wait(const Ring &ring, const pipeline_state &at) {
    mbarrier_wait(ring.full(at.stage), at.parity);
}

/* This warp has read the stage for the last time in this round. */
template <typename Ring> __device__ __forceinline__ void consumer_release(const Ring &ring, int stage) {
    warp_arrive(ring.empty(stage));
}

/* The same by the number of the block of K that the stage held; none if that is negative. The warp reconverges. */
template <int stages, typename Ring>
__device__ __forceinline__ void consumer_release_block(const Ring &ring, int block) {
    if (block >= 0 && threadIdx.x % WARP_SIZE == 0)
        mbarrier_arrive(ring.empty(block % stages));
    __syncwarp();
}
#endif

}   /* namespace mx */
#endif
