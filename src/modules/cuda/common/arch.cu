/* modules/cuda/common/arch.cu - what the GPU's kernels were compiled for, asked once: whether those for Hopper alone
 * (sm90/) run here, and whether kernels wait for the one before by themselves (programmatic dependent launch).
 * Invariants: the answer is that of the code that was loaded, not of the GPU: PTX for an older GPU, compiled by the
 * driver for this one, has neither wgmma nor griddepcontrol in it. */
#include "modules/cuda/common/block.cuh"

namespace mx {

namespace {

__global__ void arch_probe_kernel() {}

}   /* namespace */

extern "C" void mx_cuda_probe(mx_cuda *gpu) {
    cudaFuncAttributes of = {};
    gpu->has_wgmma = gpu->has_pdl = 0;
    if (cudaFuncGetAttributes(&of, arch_probe_kernel) == cudaSuccess) {
        gpu->has_wgmma = of.binaryVersion == 90 && of.ptxVersion == 90;   /* what is in sm90/ is empty elsewhere */
        gpu->has_pdl = of.ptxVersion >= 90;
    }
    cudaGetLastError();
}

}   /* namespace mx */
