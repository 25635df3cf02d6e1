/* device/cpu/kernels.c - lays the tables of kernels over one another: ref first, then what is better and allowed. */
#include "device/cpu/kernels.h"

#include <pthread.h>

#include "base/log.h"
#include "base/module.h"
#include "device/device.h"

static mx_kernels eager = {
#define MX_KERNEL(name, parameters) .name = mx_ref_##name,
#include "device/cpu/kernels.def"
#undef MX_KERNEL
};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void choose(void) {
    const void *table;
    if (mx_module_get("blas", &table) < 0) {
        mx_log(MXW_LOG_WARN, "device", "%s: matrices are multiplied by plain loops, many times slower", mx_error());
        return;
    }
    const mx_blas_module *blas = table;
    eager.gemm = blas->gemm;
    mx_log(MXW_LOG_DEBUG, "device", "matrices are multiplied by %s", blas->describe());
}

const mx_kernels *mx_cpu_kernels(void) {
    pthread_once(&once, choose);
    return &eager;
}
