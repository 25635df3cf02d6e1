/* modules/cuda/common/wgmma.cuh - Hopper's warpgroup MMA (wgmma): 64 rows by many columns by 16 of K (32 in
 * 8 bits), by the four warps of a warpgroup, asynchronously. A (the rows) is in registers, as common/mma.cuh has it for
 * 16 rows (a warp's own), or in shared memory; accumulators are in registers; B (the columns) is in shared memory, 64
 * of K (128 bytes) per row, eight rows per 1024 aligned bytes, and in row r the 16-byte chunk p at p ^ (r % 8)
 * (128-byte swizzle).
 * Invariants: between wgmma_fence and wgmma_wait no thread touches operands or accumulators. Code that uses this is for
 * sm_90a alone; elsewhere MX_HAS_WGMMA is 0. */
#ifndef MX_CUDA_COMMON_WGMMA_CUH
#define MX_CUDA_COMMON_WGMMA_CUH
#include "modules/cuda/common/mbarrier.cuh"
#include "modules/cuda/common/mma.cuh"

namespace mx {

#if MX_HAS_WGMMA
constexpr int WARPGROUP = 128;   /* threads of a warpgroup */

/* Matrix descriptor of columns in shared memory with the 128-byte swizzle; 16 of K further: plus 2. */
__device__ __forceinline__ uint64_t wgmma_desc_swizzle128(unsigned at) {
    return (at & 0x3ffff) >> 4 | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

/* Matrix descriptor without swizzle: core matrices of 8 rows by 16 bytes, eight per 64 of K; 16 of K further: plus 16.
 * Eight rows further: 1024 bytes, or `eight`. */
__device__ __forceinline__ uint64_t wgmma_desc(unsigned at, int eight = 1024) {
    return (at & 0x3ffff) >> 4 | (uint64_t)(128 >> 4) << 16 | (uint64_t)(eight >> 4) << 32;
}
__device__ __forceinline__ uint64_t wgmma_desc(const void *at) {
    return wgmma_desc((unsigned)__cvta_generic_to_shared(at));
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

template <int n> __device__ __forceinline__ void wgmma_fence_operand(float (&d)[n]) {
#pragma unroll
    for (int i = 0; i < n; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}
template <int n> __device__ __forceinline__ void wgmma_fence_operand(int (&d)[n]) {
#pragma unroll
    for (int i = 0; i < n; i++)
        asm volatile("" : "+r"(d[i])::"memory");
}

__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int left> __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}

/* Sixteen accumulators of a lane, as asm operands and by their register numbers. */
#define MX_WGMMA_ACC_4(d, i) "+f"((d)[i]), "+f"((d)[(i) + 1]), "+f"((d)[(i) + 2]), "+f"((d)[(i) + 3])
#define MX_WGMMA_ACC_16(d, i)                                                                                          \
    MX_WGMMA_ACC_4(d, i), MX_WGMMA_ACC_4(d, (i) + 4), MX_WGMMA_ACC_4(d, (i) + 8), MX_WGMMA_ACC_4(d, (i) + 12)
#define MX_WGMMA_INT_4(d, i) "+r"((d)[i]), "+r"((d)[(i) + 1]), "+r"((d)[(i) + 2]), "+r"((d)[(i) + 3])
#define MX_WGMMA_INT_16(d, i)                                                                                          \
    MX_WGMMA_INT_4(d, i), MX_WGMMA_INT_4(d, (i) + 4), MX_WGMMA_INT_4(d, (i) + 8), MX_WGMMA_INT_4(d, (i) + 12)
#define MX_WGMMA_REGS_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define MX_WGMMA_REGS_16 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MX_WGMMA_REGS_32 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define MX_WGMMA_REGS_48 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MX_WGMMA_REGS_64 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define MX_WGMMA_REGS_80 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"

/* d = a b, or d += a b if add; 32 columns. */
__device__ __forceinline__ void wgmma(float (&d)[16], const uint4 &a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %21, 0; wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
        "{" MX_WGMMA_REGS_0 "}, "
        "{%16, %17, %18, %19}, %20, add, 1, 1, 0; }"
        : MX_WGMMA_ACC_16(d, 0)
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(add));
}

/* 64 columns. */
__device__ __forceinline__ void wgmma(float (&d)[32], const uint4 &a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{" MX_WGMMA_REGS_0 ", " MX_WGMMA_REGS_16 "}, "
        "{%32, %33, %34, %35}, %36, add, 1, 1, 0; }"
        : MX_WGMMA_ACC_16(d, 0), MX_WGMMA_ACC_16(d, 16)
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(add));
}

/* 96 columns. */
__device__ __forceinline__ void wgmma(float (&d)[48], const uint4 &a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %53, 0; wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 "
        "{" MX_WGMMA_REGS_0 ", " MX_WGMMA_REGS_16 ", " MX_WGMMA_REGS_32 "}, "
        "{%48, %49, %50, %51}, %52, add, 1, 1, 0; }"
        : MX_WGMMA_ACC_16(d, 0), MX_WGMMA_ACC_16(d, 16), MX_WGMMA_ACC_16(d, 32)
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(add));
}

/* 128 columns. */
__device__ __forceinline__ void wgmma(float (&d)[64], const uint4 &a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %69, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{" MX_WGMMA_REGS_0 ", " MX_WGMMA_REGS_16 ", " MX_WGMMA_REGS_32 ", " MX_WGMMA_REGS_48 "}, "
        "{%64, %65, %66, %67}, %68, add, 1, 1, 0; }"
        : MX_WGMMA_ACC_16(d, 0), MX_WGMMA_ACC_16(d, 16), MX_WGMMA_ACC_16(d, 32), MX_WGMMA_ACC_16(d, 48)
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(add));
}

/* The same with A in shared memory too, described by wgmma_desc or wgmma_desc_swizzle128; 32, 64 and 128 columns. */
__device__ __forceinline__ void wgmma(float (&d)[16], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %18, 0; wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
        "{" MX_WGMMA_REGS_0 "}, "
        "%16, %17, add, 1, 1, 0, 0; }"
        : MX_WGMMA_ACC_16(d, 0)
        : "l"(a), "l"(b), "r"(add));
}

__device__ __forceinline__ void wgmma(float (&d)[32], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{" MX_WGMMA_REGS_0 ", " MX_WGMMA_REGS_16 "}, "
        "%32, %33, add, 1, 1, 0, 0; }"
        : MX_WGMMA_ACC_16(d, 0), MX_WGMMA_ACC_16(d, 16)
        : "l"(a), "l"(b), "r"(add));
}

__device__ __forceinline__ void wgmma(float (&d)[64], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{" MX_WGMMA_REGS_0 ", " MX_WGMMA_REGS_16 ", " MX_WGMMA_REGS_32 ", " MX_WGMMA_REGS_48 "}, "
        "%64, %65, add, 1, 1, 0, 0; }"
        : MX_WGMMA_ACC_16(d, 0), MX_WGMMA_ACC_16(d, 16), MX_WGMMA_ACC_16(d, 32), MX_WGMMA_ACC_16(d, 48)
        : "l"(a), "l"(b), "r"(add));
}

/* 192 columns. */
__device__ __forceinline__ void wgmma(float (&d)[96], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %98, 0; wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 "
        "{" MX_WGMMA_REGS_0 ", " MX_WGMMA_REGS_16 ", " MX_WGMMA_REGS_32 ", "
        MX_WGMMA_REGS_48 ", " MX_WGMMA_REGS_64 ", " MX_WGMMA_REGS_80 "}, "
        "%96, %97, add, 1, 1, 0, 0; }"
        : MX_WGMMA_ACC_16(d, 0), MX_WGMMA_ACC_16(d, 16), MX_WGMMA_ACC_16(d, 32),
          MX_WGMMA_ACC_16(d, 48), MX_WGMMA_ACC_16(d, 64), MX_WGMMA_ACC_16(d, 80)
        : "l"(a), "l"(b), "r"(add));
}

/* 192 columns in 8 bits: 32 of k, the bytes of 16 in f16. Integers. */
__device__ __forceinline__ void wgmma_s8(int (&d)[96], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %98, 0; wgmma.mma_async.sync.aligned.m64n192k32.s32.s8.s8 "
        "{" MX_WGMMA_REGS_0 ", " MX_WGMMA_REGS_16 ", " MX_WGMMA_REGS_32 ", "
        MX_WGMMA_REGS_48 ", " MX_WGMMA_REGS_64 ", " MX_WGMMA_REGS_80 "}, "
        "%96, %97, add; }"
        : MX_WGMMA_INT_16(d, 0), MX_WGMMA_INT_16(d, 16), MX_WGMMA_INT_16(d, 32),
          MX_WGMMA_INT_16(d, 48), MX_WGMMA_INT_16(d, 64), MX_WGMMA_INT_16(d, 80)
        : "l"(a), "l"(b), "r"(add));
}

/* 128 columns. */
__device__ __forceinline__ void wgmma_s8(int (&d)[64], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %66, 0; wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 "
        "{" MX_WGMMA_REGS_0 ", " MX_WGMMA_REGS_16 ", " MX_WGMMA_REGS_32 ", " MX_WGMMA_REGS_48 "}, "
        "%64, %65, add; }"
        : MX_WGMMA_INT_16(d, 0), MX_WGMMA_INT_16(d, 16), MX_WGMMA_INT_16(d, 32), MX_WGMMA_INT_16(d, 48)
        : "l"(a), "l"(b), "r"(add));
}

/* 8-bit floats; 192 and 128 columns. What is added up has 14 bits or so: sums of many steps belong in f32. */
__device__ __forceinline__ void wgmma_e4m3(float (&d)[96], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %98, 0; wgmma.mma_async.sync.aligned.m64n192k32.f32.e4m3.e4m3 "
        "{" MX_WGMMA_REGS_0 ", " MX_WGMMA_REGS_16 ", " MX_WGMMA_REGS_32 ", "
        MX_WGMMA_REGS_48 ", " MX_WGMMA_REGS_64 ", " MX_WGMMA_REGS_80 "}, "
        "%96, %97, add, 1, 1; }"
        : MX_WGMMA_ACC_16(d, 0), MX_WGMMA_ACC_16(d, 16), MX_WGMMA_ACC_16(d, 32),
          MX_WGMMA_ACC_16(d, 48), MX_WGMMA_ACC_16(d, 64), MX_WGMMA_ACC_16(d, 80)
        : "l"(a), "l"(b), "r"(add));
}

__device__ __forceinline__ void wgmma_e4m3(float (&d)[64], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %66, 0; wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
        "{" MX_WGMMA_REGS_0 ", " MX_WGMMA_REGS_16 ", " MX_WGMMA_REGS_32 ", " MX_WGMMA_REGS_48 "}, "
        "%64, %65, add, 1, 1; }"
        : MX_WGMMA_ACC_16(d, 0), MX_WGMMA_ACC_16(d, 16), MX_WGMMA_ACC_16(d, 32), MX_WGMMA_ACC_16(d, 48)
        : "l"(a), "l"(b), "r"(add));
}

#undef MX_WGMMA_INT_4
#undef MX_WGMMA_INT_16
#undef MX_WGMMA_ACC_4
#undef MX_WGMMA_ACC_16
#undef MX_WGMMA_REGS_0
#undef MX_WGMMA_REGS_16
#undef MX_WGMMA_REGS_32
#undef MX_WGMMA_REGS_48
#undef MX_WGMMA_REGS_64
#undef MX_WGMMA_REGS_80
#endif

}   /* namespace mx */
#endif
