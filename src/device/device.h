/* device/device.h - the door of device/: the function table that a device fills, and the choice of one.
 *
 * A device has memory and runs ops on it, one at a time. Every device runs every op of op/ops.def; what it runs besides
 * (fused ops) it says through supports(). A call brings sizes that inference has already checked; a device checks what
 * only the data can tell: indices.
 * What holds: on one device the bits of a result never depend on batch size, thread count or timing. */
#ifndef MX_DEVICE_H
#define MX_DEVICE_H
#include "base/pool.h"
#include "op/op.h"

typedef struct mx_device mx_device;

/* One op to run. Tensors are row major, in the device's memory, 4-byte aligned or better. */
typedef struct mx_call {
    mx_op op;
    const mx_attrs *attrs;      /* every size a number */
    int n_inputs, n_outputs;
    const mx_tensor *inputs;    /* data is NULL where an input was left out */
    mx_tensor *outputs;         /* state_write: output 0 lies where input 0 does */
    mx_pool *pool;
    void *scratch;              /* scratch_bytes() of it, 64-byte aligned */
} mx_call;

struct mx_device {
    mxw_device_info info;       /* strings live as long as the process */
    int host_memory;            /* 1: its memory is the host's, so a view may be used in place */
    void *(*alloc)(const mx_device *device, size_t bytes);   /* 64-byte aligned; NULL with the line set */
    void (*free)(const mx_device *device, void *block);
    mxw_status (*upload)(const mx_device *device, void *to, const void *from, size_t bytes);
    mxw_status (*download)(const mx_device *device, void *to, const void *from, size_t bytes);
    mxw_status (*clear)(const mx_device *device, void *to, size_t bytes);
    int (*supports)(const mx_device *device, mx_op op);
    size_t (*scratch_bytes)(const mx_device *device, const mx_call *call);
    mxw_status (*run_op)(const mx_device *device, const mx_call *call);
};

/* What the module of a kind of accelerator exports ("cuda"). */
typedef struct mx_device_module {
    int (*count)(void);
    const mx_device *(*get)(int index);
} mx_device_module;

/* What the blas module exports: c [m][n] = a [m][k] b, b [k][n] or, transposed, [n][k]. Calls are single-threaded. */
typedef struct mx_blas_module {
    const char *(*describe)(void);   /* "OpenBLAS 0.3.21 ... SkylakeX ..." */
    void (*gemm)(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                 int b_transposed, float *c, int64_t ldc);
} mx_blas_module;

/* All devices, the CPU first; those that cannot be used say why in their info. */
int mx_device_count(void);
const mx_device *mx_device_at(int index);
/* By id: "cpu", "cuda" (the first), "cuda:1"; "auto": the first usable accelerator, else the CPU. */
mxw_status mx_device_find(const char *id, const mx_device **out);
#endif
