/* modules/cuda/peak/peak.cuh - the tensor-core rate of Hopper, which only wgmma reaches; private to peak/. */
#ifndef MX_CUDA_PEAK_PEAK_CUH
#define MX_CUDA_PEAK_PEAK_CUH
#include "modules/cuda/cuda.h"

namespace mx::peak {

/* Launches f16 wgmma with f32 accumulators on every multiprocessor; returns the flops of the launch. sink: 4 bytes that
 * are never written in practice. Needs has_wgmma. */
double run_wgmma(mx_cuda *gpu, float *sink);

}   /* namespace mx::peak */
#endif
