/* device/cpu/kernels.c - chooses the table of kernels: the best instruction set that the processor has and MXW_CPU
 * allows. */
#include "device/cpu/kernels.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/cpu.h"
#include "base/log.h"
#include "base/module.h"
#include "device/device.h"

static mx_kernels eager, fast, int8;
static const mx_isa *int8_isa;
static pthread_once_t once = PTHREAD_ONCE_INIT, fast_once = PTHREAD_ONCE_INIT,
                      int8_once = PTHREAD_ONCE_INIT;

/* The best that the processor has, up to the one that MXW_CPU names. */
const mx_isa *mx_cpu_best_isa(void) {
    const mx_isa *best = mx_cpu_isa(0);
    for (int i = 0; mx_cpu_isa(i); i++)
        if (mx_cpu_may(mx_cpu_isa(i)->name))
            best = mx_cpu_isa(i);
    return best;
}

static void choose(void) {
    const void *table;
    const mx_isa *isa = mx_cpu_best_isa();
    eager = *isa->kernels;
    mx_log(MXW_LOG_DEBUG, "device", "plain loops for %s", isa->name);
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

/* ---- compiled ---------------------------------------------------------------------------------------------------- */

static void overlay(mx_kernels *under, const mx_kernels *over) {
#define MX_KERNEL(name, parameters)                                                                                    \
    if (over->name)                                                                                                    \
        under->name = over->name;
#include "device/cpu/kernels.def"
#undef MX_KERNEL
}

static void build(const mx_isa *isa, mx_kernels *out) {
    *out = *isa->kernels;
    for (int i = 0; mx_cpu_isa(i); i++) {
        if (mx_cpu_isa(i)->fast)
            overlay(out, mx_cpu_isa(i)->fast);
        if (mx_cpu_isa(i) == isa)
            break;
    }
}

const char *mx_cpu_set_of(const mx_isa *best, size_t kernel) {
    const char *set = best->name;   /* whose reference loops they are */
    for (int i = 0; mx_cpu_isa(i); i++) {
        const mx_isa *isa = mx_cpu_isa(i);
        void (*own)(void) = NULL;
        if (isa->fast)
            memcpy(&own, (const char *)isa->fast + kernel, sizeof(own));
        set = own ? isa->name : set;
        if (isa == best)
            break;
    }
    return set;
}

int mx_cpu_fast_for(const mx_isa *isa, mx_kernels *out) {
    if (!mx_cpu_enable(isa->name))
        return 0;
    build(isa, out);
    return 1;
}

static void choose_fast(void) { build(mx_cpu_best_isa(), &fast); }

const mx_kernels *mx_cpu_fast_kernels(void) {
    pthread_once(&fast_once, choose_fast);
    return &fast;
}

/* ---- in 8 bits --------------------------------------------------------------------------------------------------- */

/* Here tiles are asked for, so that runs which have no use for them do not. */
static void choose_int8(void) {
    for (int i = 0; mx_cpu_isa(i); i++) {
        const char *name = mx_cpu_isa(i)->name;
        if (!mx_cpu_may(name))
            continue;
        if (mx_cpu_enable(name))
            int8_isa = mx_cpu_isa(i);
        else
            mx_log(MXW_LOG_DEBUG, "device", "int8 runs without %s, which the system refuses: %s", name,
                   strerror(errno));
    }
    build(int8_isa, &int8);
    int8.layer_norm = int8.same_layer_norm;
    int8.gelu_erf = int8.same_gelu_erf;
    int8.gelu_tanh = int8.same_gelu_tanh;
    int8.select_range = int8.same_select_range;
}

const mx_kernels *mx_cpu_int8_kernels(void) {
    pthread_once(&int8_once, choose_int8);
    return &int8;
}

const mx_isa *mx_cpu_int8_isa(void) {
    pthread_once(&int8_once, choose_int8);
    return int8_isa;
}
