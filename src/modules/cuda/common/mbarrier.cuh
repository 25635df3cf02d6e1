/* modules/cuda/common/mbarrier.cuh - Hopper's mbarriers and the bulk copies (cp.async.bulk) that complete on them.
 * An mbarrier is named by a pointer or by its 32-bit address in shared memory, which is cheaper to compute with.
 * Invariants: code that uses this is compiled for sm_90a alone; elsewhere MX_HAS_WGMMA is 0. */
#ifndef MX_CUDA_COMMON_MBARRIER_CUH
#define MX_CUDA_COMMON_MBARRIER_CUH
#include "modules/cuda/common/block.cuh"

namespace mx {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define MX_HAS_WGMMA 1
#else
#define MX_HAS_WGMMA 0
#endif

#if MX_HAS_WGMMA
__device__ __forceinline__ unsigned smem_addr(const void *at) { return (unsigned)__cvta_generic_to_shared(at); }

/* Tells the compiler that a value is warp-uniform: what is computed from it stays in uniform registers, where wgmma
 * takes its descriptors from. */
__device__ __forceinline__ unsigned warp_uniform(unsigned v) { return __shfl_sync(0xffffffffu, v, 0); }

__device__ __forceinline__ void mbarrier_init(unsigned gate, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(gate), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void mbarrier_init(uint64_t *gate, int arrivals) {
    mbarrier_init(smem_addr(gate), arrivals);
}

__device__ __forceinline__ void mbarrier_arrive(unsigned gate) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(gate) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive(uint64_t *gate) { mbarrier_arrive(smem_addr(gate)); }

/* Arrives, and makes the barrier wait for that many bytes as well. */
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned gate, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(gate), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint64_t *gate, unsigned bytes) {
    mbarrier_arrive_expect_tx(smem_addr(gate), bytes);
}

/* Waits for the phase of that parity to complete. */
__device__ __forceinline__ void mbarrier_wait(unsigned gate, int parity) {
    asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1; @!done bra again; }"
                 ::"r"(gate), "r"(parity) : "memory");
}
__device__ __forceinline__ void mbarrier_wait(uint64_t *gate, int parity) { mbarrier_wait(smem_addr(gate), parity); }

__device__ __forceinline__ void cp_async_bulk(unsigned to, const void *from, unsigned bytes, unsigned gate) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(to), "l"(from), "r"(bytes), "r"(gate) : "memory");
}
__device__ __forceinline__ void cp_async_bulk(void *to, const void *from, unsigned bytes, uint64_t *gate) {
    cp_async_bulk(smem_addr(to), from, bytes, smem_addr(gate));
}

/* Makes this thread's writes to shared memory visible to wgmma and bulk copies (the async proxy). */
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#endif

}   /* namespace mx */
#endif
