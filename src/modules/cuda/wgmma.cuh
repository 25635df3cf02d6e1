/* modules/cuda/wgmma.cuh - Hopper's wide steps: 64 rows by many columns by 16 of k, by the four warps of a group at
 * once, in the background. The rows' operands and the sums are in registers, as mma.cuh has them for 16 rows (a warp's
 * own); columns lie in shared memory, 64 of k (128 bytes) to a row, eight rows to 1024 bytes on a boundary of as many,
 * and in row r the 16-byte piece p at p ^ (r % 8).
 * What holds: between mx_wide_begin and mx_wide_wait nobody touches the operands and sums. Code that uses this is for
 * sm_90a alone; elsewhere MX_WIDE is 0. */
#ifndef MX_CUDA_WGMMA_CUH
#define MX_CUDA_WGMMA_CUH
#include "modules/cuda/mma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define MX_WIDE 1
#else
#define MX_WIDE 0
#endif

#if MX_WIDE
#define MX_GROUP 128   /* threads that make a wide step */

/* What the hardware takes for columns in shared memory; 16 of k further: plus 2. */
__device__ __forceinline__ uint64_t mx_wide_columns(unsigned at) {
    return (at & 0x3ffff) >> 4 | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

/* The same of columns that lie in pieces of 8 rows by 16 bytes, eight to 64 of k; 16 of k further: plus 16. Eight rows
 * further: 1024 bytes, or as told. */
__device__ __forceinline__ uint64_t mx_wide_pieces(unsigned at, int eight = 1024) {
    return (at & 0x3ffff) >> 4 | (uint64_t)(128 >> 4) << 16 | (uint64_t)(eight >> 4) << 32;
}
__device__ __forceinline__ uint64_t mx_wide_pieces(const void *at) {
    return mx_wide_pieces((unsigned)__cvta_generic_to_shared(at));
}

__device__ __forceinline__ void mx_wide_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

template <int n> __device__ __forceinline__ void mx_wide_hold(float (&d)[n]) {
#pragma unroll
    for (int i = 0; i < n; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

__device__ __forceinline__ void mx_wide_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int left> __device__ __forceinline__ void mx_wide_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}

/* Sixteen sums of a lane, as an instruction takes them and by their numbers in it. */
#define MX_WIDE_4(d, i) "+f"((d)[i]), "+f"((d)[(i) + 1]), "+f"((d)[(i) + 2]), "+f"((d)[(i) + 3])
#define MX_WIDE_16(d, i) MX_WIDE_4(d, i), MX_WIDE_4(d, (i) + 4), MX_WIDE_4(d, (i) + 8), MX_WIDE_4(d, (i) + 12)
#define MX_WIDE_AT_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define MX_WIDE_AT_16 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MX_WIDE_AT_32 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define MX_WIDE_AT_48 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MX_WIDE_AT_64 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define MX_WIDE_AT_80 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"

/* d = a b, or d += a b if add; 32 columns. */
__device__ __forceinline__ void mx_wide(float (&d)[16], const uint4 &a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %21, 0; wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
        "{" MX_WIDE_AT_0 "}, "
        "{%16, %17, %18, %19}, %20, add, 1, 1, 0; }"
        : MX_WIDE_16(d, 0)
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(add));
}

/* 64 columns. */
__device__ __forceinline__ void mx_wide(float (&d)[32], const uint4 &a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{" MX_WIDE_AT_0 ", " MX_WIDE_AT_16 "}, "
        "{%32, %33, %34, %35}, %36, add, 1, 1, 0; }"
        : MX_WIDE_16(d, 0), MX_WIDE_16(d, 16)
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(add));
}

/* 96 columns. */
__device__ __forceinline__ void mx_wide(float (&d)[48], const uint4 &a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %53, 0; wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 "
        "{" MX_WIDE_AT_0 ", " MX_WIDE_AT_16 ", " MX_WIDE_AT_32 "}, "
        "{%48, %49, %50, %51}, %52, add, 1, 1, 0; }"
        : MX_WIDE_16(d, 0), MX_WIDE_16(d, 16), MX_WIDE_16(d, 32)
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(add));
}

/* 128 columns. */
__device__ __forceinline__ void mx_wide(float (&d)[64], const uint4 &a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %69, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{" MX_WIDE_AT_0 ", " MX_WIDE_AT_16 ", " MX_WIDE_AT_32 ", " MX_WIDE_AT_48 "}, "
        "{%64, %65, %66, %67}, %68, add, 1, 1, 0; }"
        : MX_WIDE_16(d, 0), MX_WIDE_16(d, 16), MX_WIDE_16(d, 32), MX_WIDE_16(d, 48)
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(add));
}

/* The same with the rows in shared memory too, as mx_wide_pieces or mx_wide_columns has them;
 * 32, 64 and 128 columns. */
__device__ __forceinline__ void mx_wide(float (&d)[16], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %18, 0; wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
        "{" MX_WIDE_AT_0 "}, "
        "%16, %17, add, 1, 1, 0, 0; }"
        : MX_WIDE_16(d, 0)
        : "l"(a), "l"(b), "r"(add));
}

__device__ __forceinline__ void mx_wide(float (&d)[32], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{" MX_WIDE_AT_0 ", " MX_WIDE_AT_16 "}, "
        "%32, %33, add, 1, 1, 0, 0; }"
        : MX_WIDE_16(d, 0), MX_WIDE_16(d, 16)
        : "l"(a), "l"(b), "r"(add));
}

__device__ __forceinline__ void mx_wide(float (&d)[64], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{" MX_WIDE_AT_0 ", " MX_WIDE_AT_16 ", " MX_WIDE_AT_32 ", " MX_WIDE_AT_48 "}, "
        "%64, %65, add, 1, 1, 0, 0; }"
        : MX_WIDE_16(d, 0), MX_WIDE_16(d, 16), MX_WIDE_16(d, 32), MX_WIDE_16(d, 48)
        : "l"(a), "l"(b), "r"(add));
}

/* 192 columns. */
__device__ __forceinline__ void mx_wide(float (&d)[96], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %98, 0; wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 "
        "{" MX_WIDE_AT_0 ", " MX_WIDE_AT_16 ", " MX_WIDE_AT_32 ", "
        MX_WIDE_AT_48 ", " MX_WIDE_AT_64 ", " MX_WIDE_AT_80 "}, "
        "%96, %97, add, 1, 1, 0, 0; }"
        : MX_WIDE_16(d, 0), MX_WIDE_16(d, 16), MX_WIDE_16(d, 32),
          MX_WIDE_16(d, 48), MX_WIDE_16(d, 64), MX_WIDE_16(d, 80)
        : "l"(a), "l"(b), "r"(add));
}

/* ---- bulk copies, and waiting for them --------------------------------------------------------------------------- */

__device__ __forceinline__ unsigned mx_shared_at(const void *at) { return (unsigned)__cvta_generic_to_shared(at); }

/* The same for all lanes, and the compiler knows: what is reckoned from it costs the lanes nothing, and wide steps take
 * their operands' places from where it is kept. */
__device__ __forceinline__ unsigned mx_same_for_all(unsigned v) { return __shfl_sync(0xffffffffu, v, 0); }

/* A gate, or any place, is told by a pointer or by its address in shared memory, which is shorter to reckon with. */
__device__ __forceinline__ void mx_gate_open(unsigned gate, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(gate), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void mx_gate_open(uint64_t *gate, int arrivals) {
    mx_gate_open(mx_shared_at(gate), arrivals);
}

__device__ __forceinline__ void mx_gate_arrive(unsigned gate) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(gate) : "memory");
}
__device__ __forceinline__ void mx_gate_arrive(uint64_t *gate) { mx_gate_arrive(mx_shared_at(gate)); }

/* Arrives, and has the gate wait for so many bytes besides. */
__device__ __forceinline__ void mx_gate_expect(unsigned gate, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(gate), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mx_gate_expect(uint64_t *gate, unsigned bytes) {
    mx_gate_expect(mx_shared_at(gate), bytes);
}

/* Until the gate has been passed for the phase of that parity. */
__device__ __forceinline__ void mx_gate_wait(unsigned gate, int parity) {
    asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1; @!done bra again; }"
                 ::"r"(gate), "r"(parity) : "memory");
}
__device__ __forceinline__ void mx_gate_wait(uint64_t *gate, int parity) { mx_gate_wait(mx_shared_at(gate), parity); }

__device__ __forceinline__ void mx_bulk_copy(unsigned to, const void *from, unsigned bytes, unsigned gate) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(to), "l"(from), "r"(bytes), "r"(gate) : "memory");
}
__device__ __forceinline__ void mx_bulk_copy(void *to, const void *from, unsigned bytes, uint64_t *gate) {
    mx_bulk_copy(mx_shared_at(to), from, bytes, mx_shared_at(gate));
}

/* What this thread wrote to shared memory is seen by wide steps and bulk copies. */
__device__ __forceinline__ void mx_shared_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#endif
#endif
