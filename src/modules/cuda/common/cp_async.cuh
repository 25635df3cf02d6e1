/* modules/cuda/common/cp_async.cuh - cp.async: 16-byte copies from global to shared memory that run in the background,
 * grouped by commit. Before sm_80 they are plain loads and stores, and waiting does nothing. */
#ifndef MX_CUDA_COMMON_CP_ASYNC_CUH
#define MX_CUDA_COMMON_CP_ASYNC_CUH
#include "modules/cuda/common/block.cuh"

namespace mx {

/* Asynchronous copy of 16 bytes from global to shared memory; zeros if not `there`. */
__device__ __forceinline__ void cp_async_16(void *to, const void *from, bool there) {
#if __CUDA_ARCH__ >= 800
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    int bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
#else
    *(uint4 *)to = there ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
#endif
}
/* The same of bytes that are read once: evict-first in L2. */
__device__ __forceinline__ void cp_async_once_16(void *to, const void *from) {
#if __CUDA_ARCH__ >= 800
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "l"(policy)
                 : "memory");
#else
    cp_async_16(to, from, true);
#endif
}
__device__ __forceinline__ void cp_async_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/* Waits until at most `left` of the groups committed by this thread are in flight. */
template <int left> __device__ __forceinline__ void cp_async_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
#endif
}

}   /* namespace mx */
#endif
