/* modules/cuda/attention/head.cuh - the one width of a head that the attention kernels are written for: all of
 * Whisper's models have it. */
#ifndef MX_CUDA_ATTENTION_HEAD_CUH
#define MX_CUDA_ATTENTION_HEAD_CUH
#include "modules/cuda/common/block.cuh"

namespace mx::attention {

constexpr int HEAD_DIM = 64;   /* elements */

}   /* namespace mx::attention */
#endif
