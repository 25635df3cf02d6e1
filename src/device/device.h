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

/* One op to run. Tensors are row major, in the device's memory, 4-byte aligned or better; in a compiled call an input
 * may instead be what strided() and form() allow. */
typedef struct mx_call {
    mx_op op;
    const mx_attrs *attrs;      /* every size a number */
    int n_inputs, n_outputs;
    const mx_tensor *inputs;    /* data is NULL where an input was left out */
    mx_tensor *outputs;         /* state_write: output 0 lies where input 0 does */
    /* [n_inputs], or NULL: the same bytes in host memory, where an input came from there; NULL where it did not. A
     * device with memory of its own checks indices there without waiting for itself. */
    const void *const *host;
    mx_pool *pool;
    void *scratch;              /* scratch_bytes() of it, 64-byte aligned */
    int compiled;               /* 0: the plain way, that of the reference; 1: the fastest the device has */
    mxw_precision precision;    /* of a compiled call's products */
} mx_call;

/* How a compiled call wants an input that never changes. */
typedef enum mx_form {
    MX_FORM_F32,      /* f32, row major, as the plain op takes it */
    MX_FORM_RAW,      /* row major in the element type that the checkpoint keeps: f32, f16 or bf16 */
    MX_FORM_PACKED    /* bytes that pack() made; the tensor's dims stay those of the weight, its data are the bytes,
                       * its dtype is MXW_U8: that is how an op knows them */
} mx_form;

/* A weight for input `input` of an op: the sources stacked along axis 0, views in any float dtype and with any strides,
 * all of the same sizes after axis 0. */
typedef struct mx_weight_use {
    mx_op op;
    const mx_attrs *attrs;
    int input;
    const mx_tensor *sources;
    int n_sources;
} mx_weight_use;

/* A captured graph: calls that a device keeps and launches as one piece of work, with staging blocks for small inputs
 * and outputs. The device's own struct begins with this. */
typedef struct mx_capture {
    void *in_host, *out_host;   /* host memory: launch() copies in_host to `in`; wait() has copied `out` to out_host */
    void *in, *out;             /* device memory, for the calls */
} mx_capture;

/* Optional, as a whole. A captured graph belongs to one thread at a time. */
typedef struct mx_device_capture {
    mxw_status (*open)(const mx_device *device, size_t in_bytes, size_t out_bytes, mx_capture **capture);
    /* Captures the calls, in order. Data is not read: before each launch the caller passes every call to check().
     * Everything the calls point to stays valid and in place until close(). Once for each mx_capture. */
    mxw_status (*capture)(const mx_device *device, mx_capture *capture, const mx_call *const *calls, size_t n);
    /* Enqueued like a call, in order with the calls around it. */
    mxw_status (*launch)(const mx_device *device, mx_capture *capture);
    /* Waits for the last launch: then out_host may be read and in_host written. */
    mxw_status (*wait)(const mx_device *device, mx_capture *capture);
    void (*close)(const mx_device *device, mx_capture *capture);   /* NULL is fine */
    /* Fails where run_op() would refuse the data of this call; indices are read through call->host. */
    mxw_status (*check)(const mx_device *device, const mx_call *call);
    int (*done)(const mx_device *device, const mx_capture *capture);   /* wait() would return at once */
} mx_device_capture;

struct mx_device {
    mxw_device_info info;       /* strings live as long as the process */
    int host_memory;            /* 1: its memory is the host's, so a view may be used in place */
    void *(*alloc)(const mx_device *device, size_t bytes);   /* 64-byte aligned; NULL with the line set */
    void (*free)(const mx_device *device, void *block);      /* NULL is fine */
    /* Between host and device memory, in the order of the calls around them, ops included. When they return, upload
     * has no more need of the host's bytes and download has written them; an op may still be running. */
    mxw_status (*upload)(const mx_device *device, void *to, const void *from, size_t bytes);
    mxw_status (*download)(const mx_device *device, void *to, const void *from, size_t bytes);
    mxw_status (*clear)(const mx_device *device, void *to, size_t bytes);
    uint64_t (*memory_free)(const mx_device *device);   /* bytes now, by all processes; NULL, or 0: not known */
    int (*supports)(const mx_device *device, mx_op op);
    /* Compiled calls: whether an input's rows may lie apart (the last axis is dense, strides[rank - 2] is at least its
     * size, and the axes before go on from there without gaps), as a slice of the last axis does. */
    int (*strided)(const mx_device *device, mx_op op, int input);
    mx_form (*form)(const mx_device *device, const mx_weight_use *use);
    size_t (*packed_bytes)(const mx_device *device, const mx_weight_use *use);
    mxw_status (*pack)(const mx_device *device, const mx_weight_use *use, void *to, mx_pool *pool);
    /* What a compiled call will run, for people: "gemm 14x32 f16 avx512". Lives as long as the process. */
    const char *(*kernel)(const mx_device *device, const mx_call *call);
    size_t (*scratch_bytes)(const mx_device *device, const mx_call *call);
    /* Optional. A result of one compiled call that only other compiled calls read may go to them in a form of the
     * device's own: its bytes, if `maker` can leave its result so and `reader` takes it as that input; 0: as f32. In
     * the calls such a tensor has its dims and the dtype MXW_U8. What is asked about has sizes, but no address yet: the
     * input may be a slice of the result, and its address is then how far into it, in bytes of f32. */
    size_t (*handed_bytes)(const mx_device *device, const mx_call *maker, const mx_call *reader, int input);
    mxw_status (*run_op)(const mx_device *device, const mx_call *call);
    const mx_device_capture *capture;   /* NULL: it runs one call at a time */
    /* What it does at most, measured with all of the pool's threads; NULL: cannot be asked. */
    mxw_status (*measure)(const mx_device *device, mx_pool *pool, mxw_device_peak *peak);
};

/* What the module of a kind of accelerator exports ("cuda"). */
typedef struct mx_device_module {
    int (*count)(void);
    const mx_device *(*get)(int index);
    const char *(*why_none)(void);   /* when count is 0: one line that says why; lives as long as the process */
} mx_device_module;

/* What the blas module exports: c [m][n] = a [m][k] b, b [k][n] or, transposed, [n][k]. Calls are single-threaded. */
typedef struct mx_blas_module {
    const char *(*describe)(void);   /* "OpenBLAS 0.3.21 ... SkylakeX ..." */
    void (*gemm)(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                 int b_transposed, float *c, int64_t ldc);
} mx_blas_module;

/* A block of the device's memory (memory.c). The failure's line says what for (as printf does), how much was asked and
 * how much is free. $MXW_DEVICE_MEMORY limits what may be taken this way on each device. */
__attribute__((format(printf, 4, 5)))
mxw_status mx_device_take(const mx_device *device, size_t bytes, void **out, const char *what, ...);
void mx_device_give(const mx_device *device, void *data);   /* NULL is fine */
/* The limit in bytes (0: none), and what is left within it and on the device (0: not known). E_ARGUMENT, and as without
 * a limit: the variable says none that can be understood. */
mxw_status mx_device_memory(const mx_device *device, uint64_t *limit, uint64_t *left);

/* All devices, the CPU first; those that cannot be used say why in their info. */
int mx_device_count(void);
const mx_device *mx_device_at(int index);
/* By id: "cpu", "cuda" (the first usable one), "cuda:1"; "auto": the first usable accelerator, else the CPU. */
mxw_status mx_device_find(const char *id, const mx_device **out);
/* For tests, before anything else asks for devices: one more, found by its id; it lives as long as the process. */
void mx_device_add(const mx_device *device);
#endif
