/* device/cpu/cpu.h - what the files of the CPU device share; private to the folder. */
#ifndef MX_DEVICE_CPU_H
#define MX_DEVICE_CPU_H
#include "device/cpu/kernels.h"
#include "device/device.h"

const mx_device *mx_cpu_device(void);
/* Fills the info of this machine's processor. */
void mx_cpu_describe(mxw_device_info *info);

/* Work in fixed pieces: fn(context, piece, slot) for each piece in [0, n), in any order, on all the pool's threads. At
 * most one piece runs in a slot at a time, so scratch is cut into mx_cpu_slots() parts. The pieces depend on the shapes
 * alone, never on the threads: that is what keeps results bit-identical. */
typedef void (*mx_cpu_fn)(void *context, int64_t piece, int slot);
int mx_cpu_slots(const mx_call *call);
void mx_cpu_for(const mx_call *call, int64_t n, mx_cpu_fn fn, void *context);

/* Every op: how much scratch in one slot and once for all, and how it runs. */
typedef struct mx_cpu_scratch {
    size_t slot, shared;   /* bytes */
} mx_cpu_scratch;

typedef struct mx_cpu_op {
    mx_cpu_scratch (*scratch)(const mx_call *call);   /* NULL: none */
    mxw_status (*run)(const mx_call *call, const mx_kernels *kernels);
} mx_cpu_op;

extern const mx_cpu_op mx_cpu_ops[MX_OP_COUNT];        /* eager calls: the reference */
extern const mx_cpu_op mx_cpu_fast_ops[MX_OP_COUNT];   /* compiled calls; run is NULL where the eager one is best */

/* The device's answers about compiled calls; those about weights are in pack.h. */
int mx_cpu_strided(const mx_device *device, mx_op op, int input);
const char *mx_cpu_kernel(const mx_device *device, const mx_call *call);

/* A slot's scratch, after the shared part. */
void *mx_cpu_slot(const mx_call *call, mx_cpu_scratch scratch, int slot);
#define MX_CPU_ALIGN(bytes) (((size_t)(bytes) + 63) / 64 * 64)

/* Fails unless every index[i] is in [0, limit). */
mxw_status mx_cpu_check_index(const mx_call *call, const char *what, const mx_tensor *index, int64_t limit);

mxw_status mx_cpu_matmul(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_linear(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_conv1d(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_conv2d(const mx_call *call, const mx_kernels *kernels);
mx_cpu_scratch mx_cpu_matmul_scratch(const mx_call *call);
mx_cpu_scratch mx_cpu_linear_scratch(const mx_call *call);
mx_cpu_scratch mx_cpu_conv1d_scratch(const mx_call *call);
mx_cpu_scratch mx_cpu_conv2d_scratch(const mx_call *call);

/* lstm.c, for eager and compiled calls. */
mxw_status mx_cpu_lstm(const mx_call *call, const mx_kernels *kernels);
mx_cpu_scratch mx_cpu_lstm_scratch(const mx_call *call);

mxw_status mx_cpu_attention(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_attention_cached(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_attention_window(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_attention_scores(const mx_call *call, const mx_kernels *kernels);
mx_cpu_scratch mx_cpu_attention_scratch(const mx_call *call);
mx_cpu_scratch mx_cpu_attention_cached_scratch(const mx_call *call);
mx_cpu_scratch mx_cpu_attention_window_scratch(const mx_call *call);
mx_cpu_scratch mx_cpu_attention_scores_scratch(const mx_call *call);

/* Shared by eager and compiled attention. Fails unless all that attention_cached will read is in the cache. */
mxw_status mx_cpu_check_cells(const mx_call *call);
/* The rows of attention_window, those of one window together, in tiles of at most `most` rows of one window: tile i is
 * order[starts[i]] .. order[starts[i + 1] - 1]. Returns the number of tiles. memory: mx_cpu_order_bytes. */
typedef struct mx_cpu_tiles {
    const int32_t *order, *starts;
} mx_cpu_tiles;
size_t mx_cpu_order_bytes(const mx_call *call);
int64_t mx_cpu_order_rows(const mx_call *call, int64_t most, void *memory, mx_cpu_tiles *out);

mxw_status mx_cpu_binary(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_layer_norm(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_elementwise(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_gelu(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_softmax(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_cast(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_reduce(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_argmax(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_top_k(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_select(const mx_call *call, const mx_kernels *kernels);
/* Fails unless the sets and ids of every rule exist. */
mxw_status mx_cpu_check_rules(const mx_call *call, const mx_tensor *rules, const mx_tensor *suppress);
mx_cpu_scratch mx_cpu_select_scratch(const mx_call *call);

mxw_status mx_cpu_transpose(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_permute(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_reshape(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_slice(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_concat(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_gather(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_state_write(const mx_call *call, const mx_kernels *kernels);

/* Compiled calls. */
mxw_status mx_cpu_fast_matmul(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_fast_linear(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_fast_conv1d(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_fast_gather(const mx_call *call, const mx_kernels *kernels);
const char *mx_cpu_gemm_kernel(const mx_call *call);
mx_cpu_scratch mx_cpu_fast_matmul_scratch(const mx_call *call);
mx_cpu_scratch mx_cpu_fast_linear_scratch(const mx_call *call);
mx_cpu_scratch mx_cpu_fast_conv1d_scratch(const mx_call *call);

mxw_status mx_cpu_fast_attention(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_fast_attention_window(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_fast_attention_cached(const mx_call *call, const mx_kernels *kernels);
mxw_status mx_cpu_fast_state_write(const mx_call *call, const mx_kernels *kernels);
mx_cpu_scratch mx_cpu_fast_attention_scratch(const mx_call *call);
mx_cpu_scratch mx_cpu_fast_attention_window_scratch(const mx_call *call);
mx_cpu_scratch mx_cpu_fast_attention_cached_scratch(const mx_call *call);
const char *mx_cpu_attention_kernel(const mx_call *call);
mxw_status mx_cpu_fast_select(const mx_call *call, const mx_kernels *kernels);
mx_cpu_scratch mx_cpu_fast_select_scratch(const mx_call *call);
const char *mx_cpu_select_kernel(const mx_call *call);
#endif
