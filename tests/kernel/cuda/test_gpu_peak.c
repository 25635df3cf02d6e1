/* test_gpu_peak.c - the measured peak of a GPU: every figure is there and below what any GPU can do, which it is not
 * if the compiler removes the work, and its memory is given back. Skipped where there is no CUDA device. */
#include <stdio.h>

#include "base/base.h"
#include "device/device.h"
#include "kit/check.h"
#include "max_whisper.h"

int main(void) {
    const mx_device *gpu;
    mxw_device_peak peak = {.struct_size = sizeof(peak)};
    if (mx_device_find("cuda", &gpu) < 0) {
        printf("SKIP: gpu-peak: %s\n", mx_error());
        return 77;
    }
    CHECK_EQ_INT(mxw_device_measure(gpu->info.id, 0, &peak), MXW_OK); /* the first one opens the GPU */
    uint64_t before = gpu->memory_free(gpu);
    CHECK_EQ_INT(mxw_device_measure(gpu->info.id, 0, &peak), MXW_OK);
    printf("%s: %.0f GFLOP/s in registers, %.0f on tensor cores, %.0f GB/s\n", gpu->info.description, peak.gflops,
           peak.tensor_gflops, peak.read_gbs);
    CHECK(peak.gflops > 0 && peak.gflops < 1e6);
    CHECK(peak.read_gbs > 0 && peak.read_gbs < 2e4);
    CHECK(peak.tensor_gflops > 0 && peak.tensor_gflops < 1e7);
    uint64_t after = gpu->memory_free(gpu);
    CHECK(after + ((uint64_t)64 << 20) > before); /* others may use the GPU, too; a gibibyte would be ours */
    return check_done();
}
