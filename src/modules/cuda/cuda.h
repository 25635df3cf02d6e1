/* modules/cuda/cuda.h - what the files of the CUDA module share; private to the folder.
 *
 * A GPU is an mx_cuda: an mx_device with the stream that everything on it runs in, one after the other, whichever host
 * thread asks. So a buffer may be used again as soon as its last reader was launched, and results never depend on
 * which session came first. Launching is free of locks; the lock is for cuBLAS and for the ring of upload().
 *
 * What holds for every kernel: the order of every sum follows from the shape of one entry or one row, never from the
 * batch around it or from timing; no float is added atomically. Indices are checked on the host before a launch. */
#ifndef MX_CUDA_H
#define MX_CUDA_H
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "base/module.h"
#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Words of host memory that a kernel writes once, as results: each is its own signal, since before it is something that
 * no result is. */
typedef struct mx_cuda_host_flags {
    uint32_t *at[3];
    int words[3], n;
} mx_cuda_host_flags;
#define MX_CUDA_NOT_WRITTEN 0xffc5a5a5u   /* no id, and a NaN that no arithmetic gives */

typedef struct mx_cuda {
    mx_device device;            /* first: a pointer to the one is a pointer to the other */
    int index;
    char id[16], description[128], features[256], reason[384];
    pthread_mutex_t lock;
    int opened;
    int shared_bytes;            /* that a block may have at most */
    int wgmma;                    /* 1: kernels made for sm_90a run here, -1: not, 0: not asked yet */
    int overlaps;                /* its kernels were compiled to begin early (launch_kernel) */
    cudaStream_t stream;
    void *blas;                  /* cublasHandle_t; NULL until the first product */
    char *ring;                  /* pinned: bytes on their way to the GPU */
    size_t ring_at;
    unsigned *arrivals;          /* counters of blocks that join their results; 0 between kernels */
    void *flagged_at;                  /* what blocks of a kernel tell each other (megakernel/stages.cuh); 0 at first */
    cudaStream_t copies;         /* of a twin: the GPU's own stream, by which what is kept ... */
    char *kept;                  /* ... gets into the recording's memory: the next byte of it, and how many there are */
    size_t kept_left;
    char *out;                   /* of a twin: host memory that the results are written to; NULL: elsewhere ... */
    size_t out_bytes;
    mx_cuda_host_flags host_flags;           /* ... and what the last kernel says there by itself */
    pthread_mutex_t capture_lock;   /* held by who records ... */
    struct mx_cuda *capture_ctx;        /* ... on the twin: the same GPU with another stream; NULL until then */
} mx_cuda;

#define MX_CUDA_ARRIVALS 65536
#define MX_CUDA_FLAGGED_BYTES ((size_t)8 << 20)   /* bytes */
#define MX_CUDA_KEPT_BYTES ((size_t)64 << 10)  /* bytes that a recording keeps at most */
#define MX_CUDA_MAX_GPUS 64   /* GPUs that are looked at */

extern const mx_host *mx_cuda_host;   /* the library's services */

/* ---- module.c, memory.c ------------------------------------------------------------------------------------------ */

mx_cuda *mx_cuda_of(const mx_device *device);
/* Makes the GPU the calling thread's, opened if this is the first time. */
mxw_status mx_cuda_enter(mx_cuda *gpu);
/* E_MEMORY or E_DEVICE with "cuda:0: what: the error in words"; OK when there is none. */
mxw_status mx_cuda_check(const mx_cuda *gpu, cudaError_t error, const char *what);
/* What launches since the last one met; `call` names the op. */
mxw_status mx_cuda_launched(const mx_cuda *gpu, const mx_call *call);

/* Lets blocks of a kernel have so many bytes of shared memory; `allowed`, of the kernel, has what each GPU was told. */
void mx_cuda_allow_shared(const mx_cuda *gpu, const void *kernel, int bytes, int *allowed);

void *mx_cuda_alloc(const mx_device *device, size_t bytes);
void mx_cuda_free(const mx_device *device, void *block);
mxw_status mx_cuda_upload(const mx_device *device, void *to, const void *from, size_t bytes);
mxw_status mx_cuda_download(const mx_device *device, void *to, const void *from, size_t bytes);
mxw_status mx_cuda_clear(const mx_device *device, void *to, size_t bytes);
uint64_t mx_cuda_memory_free(const mx_device *device);

/* peak/peak.cu: what the GPU does at most, measured now; the pool is not used. */
mxw_status mx_cuda_measure(const mx_device *device, mx_pool *pool, mxw_device_peak *peak);

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static inline int64_t mx_cuda_count(const mx_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

static inline size_t mx_cuda_dtype_bytes(mxw_dtype dtype) {
    switch (dtype) {
    case MXW_F16: case MXW_BF16: return 2;
    case MXW_I8: case MXW_U8: return 1;
    case MXW_I64: case MXW_F64: return 8;
    default: return 4;
    }
}

static inline size_t mx_cuda_bytes(const mx_tensor *t) {
    return (size_t)mx_cuda_count(t) * mx_cuda_dtype_bytes(t->dtype);
}

/* Input i, or NULL where it was left out. */
static inline const void *mx_cuda_input(const mx_call *call, int i) {
    return i < call->n_inputs ? call->inputs[i].data : NULL;
}

const char *mx_cuda_op_name(mx_op op);

/* ---- checks.c: what only the data can tell, with the lines of the CPU device ------------------------------------- */

/* Of an op: every index in its range. Read where it came from in host memory; else downloaded. */
mxw_status mx_cuda_check_gather(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_check_write(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_check_cached(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_check_window(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_check_scores(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_check_rules(mx_cuda *gpu, const mx_call *call);
/* All that the call's op checks. */
mxw_status mx_cuda_check_call(mx_cuda *gpu, const mx_call *call);

/* ---- cublas.c: cuBLAS, opened at run time ------------------------------------------------------------------------ */

/* Whether cuBLAS can be opened; if not, why, in one line. */
int mx_cuda_blas_found(const char **why);
void mx_cuda_blas_version(char *text, size_t n);   /* "13.0.2" */
mxw_status mx_cuda_blas_open(mx_cuda *gpu);        /* its handle, if it has none yet */

/* c = a b for `entries` products of one shape. a [m][k]; b [k][n], or [n][k] if transposed; c [m][n]; ld*: elements
 * from row to row, *_step: from entry to entry. */
typedef struct mx_cuda_sgemm {
    int64_t m, n, k, entries;
    const float *a, *b;
    float *c;
    int64_t lda, ldb, ldc, a_step, b_step, c_step;
    int b_transposed;
} mx_cuda_sgemm;

/* By cuBLAS in f32, as one call; the number of entries must follow from the shape of what is computed, not from the
 * batch: cuBLAS chooses an algorithm by it. */
mxw_status mx_cuda_sgemm_cublas(mx_cuda *gpu, const mx_call *call, const mx_cuda_sgemm *p);
/* By our own tiles: for what cuBLAS might multiply one way at one address and another way at the next (gemm.cu). */
mxw_status mx_cuda_sgemm_tiles(mx_cuda *gpu, const mx_call *call, const mx_cuda_sgemm *p);
/* Zeros where k is 0; by cuBLAS if `even`: every matrix of every entry of the op begins on a boundary of
 * MX_CUDA_CUBLAS_ALIGN floats; else by tiles. */
mxw_status mx_cuda_sgemm_run(mx_cuda *gpu, const mx_call *call, const mx_cuda_sgemm *p, int even);
#define MX_CUDA_CUBLAS_ALIGN 64   /* 256 bytes: the alignment that cuBLAS takes for granted at most */

/* ---- gemm/pack.cu, gemm/select.cu: compiled products, on tensor cores -------------------------------------------- */

/* A weight [n][k] as compiled products read it: in blocks of 64 of k, each of tiles of 8 columns of the result, each of
 * 8 pieces of 128 bytes, that is, 4 bytes for each lane: two f16 of column lane / 4. Pieces 2 s and 2 s + 1 are step s
 * of 16 of k: 4 t and 4 t + 1, then 4 t + 2 and 4 t + 3, t = lane % 4. Zeros past n and k. Of two parts, the second is
 * all of that again: what is left of each element, times 2^11. */
typedef struct mx_cuda_weight {
    const void *bytes;   /* of the packed tensor, on the GPU */
    int64_t n, k;
    int terms;           /* 1: every element was an f16; 2: not, and an element is two f16 */
    int fresh;           /* packed by a kernel right before: a product must wait for it */
} mx_cuda_weight;

static inline int64_t mx_cuda_tiles_of(int64_t n) { return (n + 7) / 8; }
static inline int64_t mx_cuda_blocks_of(int64_t k) { return (k + 63) / 64; }
static inline size_t mx_cuda_weight_bytes(int64_t n, int64_t k, int terms) {
    return (size_t)(mx_cuda_tiles_of(n) * mx_cuda_blocks_of(k) * terms) * 1024;
}

mx_form mx_cuda_weight_form(const mx_device *device, const mx_weight_use *use);
mx_packing mx_cuda_packing(const mx_device *device, const mx_weight_use *use);   /* its format: the terms */
mxw_status mx_cuda_pack(const mx_device *device, const mx_weight_use *use, void *to, mx_pool *pool);
/* A PACKED tensor as GEMMs read it. */
static inline mx_cuda_weight mx_cuda_weight_of(const mx_tensor *packed) {
    mx_cuda_weight w = {packed->data, packed->dims[0], 1, packed->packing.format, 0};
    for (int i = 1; i < packed->rank; i++)
        w.k *= packed->dims[i];
    return w;
}
/* Packs a plain f32 [n][k] (or [n][k / taps][taps], taps first in the packed k) that lies on the GPU. */
mxw_status mx_cuda_pack_plain(mx_cuda *gpu, const mx_call *call, const mx_cuda_weight *to, const float *from,
                              int64_t taps);

/* The layouts that compiled calls leave to each other (mx_layout):
 * OPERAND: rows as the operand of a GEMM: [64 rows][64 of k][term][8 rows], each 1024 bytes as in weights.
 * IM2COL: the result of a convolution as such rows of the next one, which has 3 taps, stride 2 and padding 1.
 * QKV: queries, keys and values, heads 64 wide, as operands of attention: [entry][head][q, k, v][64 rows][term], each
 * MX_CUDA_QKV_TILE bytes: rows of 128 bytes, in row r the 16-byte piece p at p ^ (r % 8); a row for each query or key,
 * but of values for each of a head's elements. */
#define MX_CUDA_QKV_TILE 8192

/* y [m][n] = act(norm(x) w^T + bias) + residual. An element is summed over k in an order that (n, k) alone decide, so a
 * row's bits are the same among however many rows. Begin with zeros; what is left 0 or NULL is not there. */
typedef struct gemm_desc {
    int64_t m, n, k;
    const float *x;                  /* row r: k elements from x + r * ldx */
    int64_t ldx;
    /* A convolution, where positions is not 0: row r is position r % out_positions of entry r / out_positions; it
     * begins at position (that * stride - pad) of the entry's `positions`, each of `channels`; zeros outside. */
    int64_t positions, out_positions, channels, stride, pad;
    const float *gamma, *beta;       /* [k]: the norm; none if gamma is NULL */
    double eps;
    mx_cuda_weight weight;
    const float *bias;               /* [n] */
    const float *residual;           /* rows ld_residual apart; row r is r % residual_rows */
    int64_t residual_rows, ld_residual;
    int act;                         /* mx_act */
    mxw_precision precision;
    float *y;                        /* rows ldy apart */
    int64_t ldy;
    void *scratch;                   /* gemm_scratch_bytes(m, k) bytes, if rows are kept and not held */
    mx_layout x_rows, y_rows;     /* not plain: nothing of ldx, a convolution, a norm; of ldy, a residual */
    int64_t entry_rows;              /* rows of an entry of y; 1 if it has no entries */
} gemm_desc;

/* Whether something is kept of the rows between two kernels: what their norm needs; or they themselves, as operands,
 * where that is cheaper than to make them for every tile of columns. */
static inline int gemm_needs_scratch(const gemm_desc *p) {
    return p->x_rows == MX_LAYOUT_DENSE && (p->gamma || (p->m >= 8192 && 3 * p->n >= p->k));
}
/* For that: as operands of two parts, in blocks of 64 by 64. */
static inline size_t gemm_scratch_bytes(int64_t m, int64_t k) {
    return (size_t)((m + 63) / 64 * mx_cuda_blocks_of(MX_MAX(k, 1))) * 16384;
}
/* Bytes of rows that are ready. */
static inline size_t gemm_operand_bytes(int64_t m, int64_t k, mxw_precision precision) {
    return gemm_scratch_bytes(m, k) / (precision == MXW_PRECISION_F16 ? 2 : 1);
}
/* Bytes of the operands of attention. */
static inline size_t gemm_qkv_bytes(int64_t entries, int64_t rows, int64_t heads, mxw_precision precision) {
    return (size_t)(entries * heads * ((rows + 63) / 64) * 3 * (precision == MXW_PRECISION_F16 ? 1 : 2)) *
           MX_CUDA_QKV_TILE;
}
int mx_cuda_gemm_is_skinny(mx_cuda *gpu, int64_t rows);   /* whether the kernels for few rows take them */
mxw_status mx_cuda_gemm_run(mx_cuda *gpu, const mx_call *call, const gemm_desc *p);
/* Whether blocks hold its rows, and so it needs no scratch and can leave its result as operands; whether it can take
 * its x as operands. */
int mx_cuda_gemm_writes_layouts(mx_cuda *gpu, const gemm_desc *p);
int mx_cuda_gemm_reads_operand(mx_cuda *gpu, const gemm_desc *p);

/* gemm/describe.c: the ops */
int mx_cuda_gemm_describe(const mx_call *call, gemm_desc *p);   /* what it computes; whether its weight is packed */
mxw_status mx_cuda_fused_linear(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_fused_conv1d(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_gemm_op_scratch(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_output_layout_bytes(const mx_device *device, const mx_call *producer, const mx_call *consumer,
                                   int input, mx_layout *layout);
const char *mx_cuda_gemm_kernel(mx_cuda *gpu, const mx_call *call);

/* ---- the ops ----------------------------------------------------------------------------------------------------- */

typedef struct mx_cuda_op {
    size_t (*scratch)(mx_cuda *gpu, const mx_call *call);     /* bytes; NULL: none */
    mxw_status (*run)(mx_cuda *gpu, const mx_call *call);     /* launches; looks at no data, waits for nothing */
    mxw_status (*check)(mx_cuda *gpu, const mx_call *call);   /* what is to be checked before; NULL: nothing */
} mx_cuda_op;

extern const mx_cuda_op mx_cuda_ops[MX_OP_COUNT];

/* gemm.cu */
mxw_status mx_cuda_linear(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_matmul(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_conv(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_conv_scratch(mx_cuda *gpu, const mx_call *call);
/* ops/elementwise.cu */
mxw_status mx_cuda_binary(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_layer_norm(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_gelu(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_unary(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_softmax(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_reduce(mx_cuda *gpu, const mx_call *call);
/* norm.cu: compiled ones that it takes */
int mx_cuda_fast_norm_takes(const mx_call *call);
mxw_status mx_cuda_fast_norm(mx_cuda *gpu, const mx_call *call);
/* move.cu */
mxw_status mx_cuda_permute(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_transpose(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_reshape(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_slice(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_concat(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_gather(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_state_write(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_cast(mx_cuda *gpu, const mx_call *call);
/* attention.cu */
mxw_status mx_cuda_attention(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_attention_cached(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_attention_window(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_attention_scores(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_attention_scratch(mx_cuda *gpu, const mx_call *call);
/* attention/flash_mma.cu: compiled calls of attention over whole windows */
int mx_cuda_flash_takes(const mx_call *call);
int mx_cuda_flash_reads_qkv(mx_cuda *gpu, const mx_call *call);   /* whether it takes operands, too (MX_LAYOUT_QKV) */
mxw_status mx_cuda_flash(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_flash_scratch(const mx_call *call);
const char *mx_cuda_flash_kernel(const mx_call *call);
size_t mx_cuda_attention_rows_scratch(mx_cuda *gpu, const mx_call *call);
/* attention/decode_paged.cu: compiled calls of the two above, heads of 64 */
int mx_cuda_decode_attention_takes(const mx_call *call);
mxw_status mx_cuda_decode_attention(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_decode_attention_scratch(const mx_call *call);
/* ops/gather_scatter.cu: compiled calls that move rows */
int mx_cuda_overlaps(void);   /* whether the kernels that this GPU runs wait by themselves */
int mx_cuda_fast_gather_takes(const mx_call *call);
mxw_status mx_cuda_fast_gather(mx_cuda *gpu, const mx_call *call);
int mx_cuda_fast_write_takes(const mx_call *call);
mxw_status mx_cuda_fast_write(mx_cuda *gpu, const mx_call *call);
/* Between device memory and pinned memory, which a GPU can reach too. */
mxw_status mx_cuda_copy_small(mx_cuda *gpu, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
#define MX_CUDA_COPY_SMALL_MAX (32 << 10)   /* bytes at most that a kernel carries */
#define MX_CUDA_DIRECT_MAX (4 << 10)     /* bytes of results at most that kernels write to host memory themselves */
/* Runs the first few of the calls as one kernel, if there is one for them; returns how many it took. */
size_t mx_cuda_run_together(mx_cuda *gpu, const mx_call *const *calls, size_t n, mxw_status *status);
/* select.cu, logits/logits_select.cu */
mxw_status mx_cuda_argmax(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_top_k(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_select(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_select_scratch(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_fused_select(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_fused_select_scratch(mx_cuda *gpu, const mx_call *call);
/* The two halves of it: the product, if its weight is packed, and what is done with the logits. */
int mx_cuda_logits_describe(const mx_call *call, gemm_desc *p);
mxw_status mx_cuda_select_logits(mx_cuda *gpu, const mx_call *call);
/* capture.c */
/* A copy on the GPU that lasts as long as what is recorded; there must be as many bytes left. */
mxw_status mx_cuda_keep(mx_cuda *capture_ctx, const void *from, size_t bytes, const void **to);
extern const mx_device_capture mx_cuda_capture;

/* Rows [rows][n] of x, ld apart in groups of `group` rows that are group_step apart, softmaxed in place with scale; row
 * i of a group has first_keys + i keys if causal, else n, and zeros behind them (ops/elementwise.cu). */
typedef struct mx_cuda_softmax_rows {
    float *y;
    const float *x;
    int64_t rows, n, ld, group, group_step, first_keys;
    float scale;
    int causal;
} mx_cuda_softmax_rows;
mxw_status mx_cuda_run_softmax(mx_cuda *gpu, const mx_call *call, const mx_cuda_softmax_rows *s);

#ifdef __cplusplus
}
#endif
#endif
