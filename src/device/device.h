/* device/device.h - public header of device/: the function table that a device fills, and the choice of one.
 *
 * A device has memory and runs ops on it, one at a time. Every device runs every plain op of ops.def; supports() says
 * which fused ops it has. Inference has checked the sizes of a call; a device checks what depends on data:
 * indices.
 * Invariants: on one device the bits of a result never depend on batch size, thread count or timing. */
#ifndef MX_DEVICE_H
#define MX_DEVICE_H
#include "base/pool.h"
#include "op/op.h"

typedef struct mx_device mx_device;

/* One op to run. Tensors are DENSE and row major, in the device's memory, 4-byte aligned or better; in a compiled call
 * an input may be strided where strided() allows it, and tensors may have the layouts of form() and
 * output_layout_bytes(). */
typedef struct mx_call {
    mx_op op;
    const mx_attrs *attrs;      /* every size a number */
    int n_inputs, n_outputs;
    const mx_tensor *inputs;    /* data is NULL where an input was left out */
    mx_tensor *outputs;         /* state_write: output 0 has the address of input 0 */
    /* [n_inputs], or NULL: the same bytes in host memory, if an input was uploaded from there; else NULL. A device with
     * its own memory checks indices there without waiting for its queue. */
    const void *const *host;
    mx_pool *pool;
    void *scratch;              /* scratch_bytes() of it, 64-byte aligned */
    int compiled;               /* 0: the plain kernels, those of the reference; 1: the fastest the device has */
    mxw_precision precision;    /* of a compiled call's GEMMs */
} mx_call;

/* How a compiled call wants an input that never changes. */
typedef enum mx_form {
    MX_FORM_F32,      /* f32, row major, as the plain op reads it */
    MX_FORM_RAW,      /* row major in the element type of the checkpoint, f32, f16 or bf16, and in host memory at any
                         address: as it lies in the file */
    MX_FORM_PACKED    /* what pack() makes: a tensor of layout PACKED with the dims of the weight */
} mx_form;

/* A weight for input `input` of an op: the sources stacked along axis 0, views in any float dtype and with any strides,
 * all of the same sizes after axis 0; QUANTIZED ones are f32 to form() and packing(). */
typedef struct mx_weight_use {
    mx_op op;
    const mx_attrs *attrs;
    int input;
    const mx_tensor *sources;
    int n_sources;
    mxw_precision precision;    /* of the calls that will read it */
    /* Rows of input 0 in one entry of the batch, its first axis: the product of the sizes between that and the last. Of
     * the graph, whatever the run: a size that only a run knows counts as 1. Uses that differ in it share what was
     * packed where packing() says the same format: so it must have all that follows from this. */
    int64_t entry_rows;
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
    int host_memory;            /* 1: its memory is host memory, so a view may be used in place */
    void *(*alloc)(const mx_device *device, size_t bytes);   /* 64-byte aligned; NULL with the line set */
    void (*free)(const mx_device *device, void *block);      /* NULL is fine */
    /* Between host and device memory, in order with the calls around them, ops included. On return the source of an
     * upload may be overwritten and the destination of a download is complete; ops may still be running. */
    mxw_status (*upload)(const mx_device *device, void *to, const void *from, size_t bytes);
    mxw_status (*download)(const mx_device *device, void *to, const void *from, size_t bytes);
    mxw_status (*clear)(const mx_device *device, void *to, size_t bytes);
    uint64_t (*memory_free)(const mx_device *device);   /* bytes now, over all processes; NULL, or 0: not known */
    int (*supports)(const mx_device *device, mx_op op);
    /* Whether compiled calls can compute with this precision, asked once the device is open. Every device can with
     * MXW_PRECISION_EXACT. The precision of a program comes with every mx_weight_use and mx_call: a new one needs no
     * change outside of devices. */
    int (*supports_precision)(const mx_device *device, mxw_precision precision);
    /* Optional. The narrowest that compiled calls of this precision read, or write, an f32 state at that input as:
     * MXW_F32, MXW_F16 or MXW_F8; they take the wider ones, too, all such inputs of a call alike. state_write rounds
     * what it writes. A state is kept as the widest of what the ops of a program on it say. */
    mxw_dtype (*state_dtype)(const mx_device *device, mxw_precision precision, mx_op op, int input);
    /* Compiled calls: whether an input may have strided rows (the last axis is dense, strides[rank - 2] is at least its
     * size, and the leading axes follow from there without gaps), as a slice of the last axis has. */
    int (*strided)(const mx_device *device, mx_op op, int input);
    mx_form (*form)(const mx_device *device, const mx_weight_use *use);
    /* Optional. Whether pack() takes QUANTIZED sources for this use as they are, and calls what comes of them; if not,
     * they come widened to f32, for which form() and packing() have to answer as they did for the QUANTIZED ones. */
    int (*takes_quantized)(const mx_device *device, const mx_weight_use *use);
    /* Of MX_FORM_PACKED: the size and format of the packed weight, the same at each call; then packs it into a block of
     * that size. On a device with host memory what was packed may refer to the sources, which live as long as it;
     * but those that were widened for it are gone when pack() returns. */
    mx_packing (*packing)(const mx_device *device, const mx_weight_use *use);
    mxw_status (*pack)(const mx_device *device, const mx_weight_use *use, void *to, mx_pool *pool);
    /* What a compiled call will run, human-readable: "gemm 14x32 f16 avx512". Lives as long as the process. */
    const char *(*kernel)(const mx_device *device, const mx_call *call);
    size_t (*scratch_bytes)(const mx_device *device, const mx_call *call);
    /* Optional. A result that only compiled calls read may have a layout of the device's own. If `producer` can write
     * its output 0 in one that `consumer` can read as that input, returns its bytes and sets *layout; 0: it stays
     * DENSE. The tensors have sizes but no addresses yet; the input may be a slice of the result, beginning at its
     * offset. */
    size_t (*output_layout_bytes)(const mx_device *device, const mx_call *producer, const mx_call *consumer,
                                  int input, mx_layout *layout);
    mxw_status (*run_op)(const mx_device *device, const mx_call *call);
    const mx_device_capture *capture;   /* NULL: it runs one call at a time */
    /* Its peak rates, measured with all of the pool's threads; NULL: not available. */
    mxw_status (*measure)(const mx_device *device, mx_pool *pool, mxw_device_peak *peak);
    /* These three are optional. Does now what the first call would do, which may take long. */
    mxw_status (*open)(const mx_device *device);
    /* Fails if something that eager programs need is missing. */
    mxw_status (*check_eager)(const mx_device *device);
    /* The elements of a dense host view, which are floats, to device memory as f32: widened there. */
    mxw_status (*upload_f32)(const mx_device *device, float *to, const mx_tensor *from);
};

/* What the module of a kind of accelerator exports ("cuda"). */
typedef struct mx_device_module {
    int (*count)(void);
    const mx_device *(*get)(int index);
    const char *(*why_none)(void);   /* when count is 0: the reason, in one line; lives as long as the process */
} mx_device_module;

/* What the blas module exports: c [m][n] = a [m][k] b, b [k][n] or, transposed, [n][k]. Calls are single-threaded. */
typedef struct mx_blas_module {
    const char *(*describe)(void);   /* "OpenBLAS 0.3.21 ... SkylakeX ..." */
    void (*gemm)(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                 int b_transposed, float *c, int64_t ldc);
} mx_blas_module;

/* Allocates a block of the device's memory (memory.c). A failure names what it is for (printf), how much was asked for
 * and how much is free. $MXW_DEVICE_MEMORY limits what may be allocated this way on each device. */
__attribute__((format(printf, 4, 5)))
mxw_status mx_device_take(const mx_device *device, size_t bytes, void **out, const char *what, ...);
void mx_device_give(const mx_device *device, void *data);   /* NULL is fine */
/* The limit in bytes (0: none), and what is left within it and on the device (0: not known). E_ARGUMENT, with values
 * for no limit, if the variable cannot be parsed. */
mxw_status mx_device_memory(const mx_device *device, uint64_t *limit, uint64_t *left);

const char *mx_precision_name(mxw_precision precision);   /* "f16" */

/* All devices, the CPU first; the info of an unusable one gives the reason. */
int mx_device_count(void);
const mx_device *mx_device_at(int index);
int mx_device_is_cpu(const mx_device *device);
/* By id: "cpu", "cuda" (the first usable one), "cuda:1"; "auto": the first usable accelerator, else the CPU. */
mxw_status mx_device_find(const char *id, const mx_device **out);
/* For tests, before anything else asks for devices: one more, found by its id; it lives as long as the process. */
void mx_device_add(const mx_device *device);
#endif
