/* modules/cuda/ops/gather_scatter.cuh - rows of embedding tables and cache writes, as gather_scatter.cu and the
 * megakernel recognise and compute them. */
#ifndef MX_CUDA_OPS_GATHER_SCATTER_CUH
#define MX_CUDA_OPS_GATHER_SCATTER_CUH
#include <cuda_bf16.h>

#include "modules/cuda/gemm/gemm.cuh"

namespace mx::ops {

struct embedding_table {
    const void *rows;
    const int32_t *index;
    int dtype;   /* MXW_F32, MXW_F16 or MXW_BF16 */
};

__device__ __forceinline__ float table_at(const embedding_table &t, int64_t i) {
    return t.dtype == MXW_F32   ? __ldcg((const float *)t.rows + i)
           : t.dtype == MXW_F16 ? __half2float(__ldcg((const __half *)t.rows + i))
                                : __bfloat162float(__ldcg((const __nv_bfloat16 *)t.rows + i));
}

embedding_table table_of(const mx_call *gather);
int is_embedding(const mx_call *const *calls, size_t n);   /* gather, gather and the sum of both */
/* Whether they are two writes, at the same indices, of columns from[i] to from[i] + width of `rows` rows of y, with
 * stride ld and that many columns, to rows of caches. */
int cache_writes_of(const mx_call *const *calls, size_t n, const float *y, int64_t rows, int64_t ld, int64_t columns,
                    gemm::kv_cache_out *to);

}   /* namespace mx::ops */
#endif
