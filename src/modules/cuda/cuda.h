/* modules/cuda/cuda.h - what the files of the CUDA module share; private to the module.
 *
 * A GPU is an mx_cuda: an mx_device with the one stream that everything on it runs in, whichever host thread asks. So a
 * buffer may be reused as soon as its last reader has been launched, and results never depend on which session came
 * first. Launching takes no lock; the lock is for cuBLAS and for the ring of upload().
 *
 * Invariants of every kernel: the order of every sum follows from the shape of one entry or one row, never from the
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

/* Results that a kernel writes straight to host memory, word by word. Each word is its own flag: before the launch it
 * is set to a value that no result has. */
typedef struct mx_cuda_host_flags {
    uint32_t *at[3];
    int words[3], n;
} mx_cuda_host_flags;
#define MX_CUDA_NOT_WRITTEN 0xffc5a5a5u   /* no valid id, and a NaN that no arithmetic produces */

typedef struct mx_cuda {
    mx_device device;            /* first: a pointer to the one is a pointer to the other */
    int index;
    char id[16], description[128], features[256], reason[384];
    pthread_mutex_t lock;
    int opened;
    int shared_bytes;            /* shared memory of a block, at most */
    int has_wgmma;               /* the kernels in sm90/ folders run here; like has_pdl, known once the GPU is opened */
    int has_pdl;                 /* its kernels wait for the one before by themselves (launch_kernel) */
    cudaStream_t stream;
    void *blas;                  /* cublasHandle_t; NULL until the first GEMM */
    char *ring;                  /* pinned staging memory of uploads */
    size_t ring_at;
    char *landing;               /* as many bytes of the GPU, where weights wait to be packed; NULL until the first */
    unsigned *arrivals;          /* counters of blocks that reduce together; 0 between kernels */
    void *flagged_at;            /* values that blocks of the megakernel pass to each other; 0 at first */
    cudaStream_t copies;         /* of a capture context: the GPU's own stream, by which constants ... */
    char *kept;                  /* ... get into the captured graph's memory: its next byte, and the bytes left */
    size_t kept_left;
    char *out;                   /* of a capture context: host memory that the results are written to, or NULL ... */
    size_t out_bytes;
    mx_cuda_host_flags host_flags;   /* ... and which of them the last kernel writes by itself */
    pthread_mutex_t capture_lock;    /* held while capturing ... */
    struct mx_cuda *capture_ctx;     /* ... on this: the same GPU with another stream; NULL until then */
} mx_cuda;

#define MX_CUDA_ARRIVALS 65536
#define MX_CUDA_STAGED_MAX ((size_t)2 << 20)      /* bytes of an upload through pinned memory, at most */
#define MX_CUDA_FLAGGED_BYTES ((size_t)8 << 20)   /* bytes */
#define MX_CUDA_KEPT_BYTES ((size_t)64 << 10)  /* bytes of constants of a captured graph, at most */
#define MX_CUDA_MAX_GPUS 64   /* more are ignored */

extern const mx_host *mx_cuda_host;   /* the library's services */

/* ---- module.c, memory.c ------------------------------------------------------------------------------------------ */

mx_cuda *mx_cuda_of(const mx_device *device);
/* Makes the GPU current for the calling thread; opens it the first time. */
mxw_status mx_cuda_enter(mx_cuda *gpu);
/* One line of the log, with the time since `start_ns` (base/clock.h). */
void mx_cuda_log_timed(int64_t start_ns, const char *what);
/* E_MEMORY or E_DEVICE with "cuda:0: what: error text"; OK if there is no error. */
mxw_status mx_cuda_check(const mx_cuda *gpu, cudaError_t error, const char *what);
/* The error of the launches since the last check; `call` names the op. */
mxw_status mx_cuda_launched(const mx_cuda *gpu, const mx_call *call);

/* Raises a kernel's limit of dynamic shared memory; `allowed`, of the kernel, has the limit on each GPU. */
void mx_cuda_allow_shared(const mx_cuda *gpu, const void *kernel, int bytes, int *allowed);

/* common/arch.cu: sets has_wgmma and has_pdl. */
void mx_cuda_probe(mx_cuda *gpu);

void *mx_cuda_alloc(const mx_device *device, size_t bytes);
void mx_cuda_free(const mx_device *device, void *block);
mxw_status mx_cuda_upload(const mx_device *device, void *to, const void *from, size_t bytes);
/* Sends bytes, MX_CUDA_STAGED_MAX at most, to memory of the GPU that the next kernels can read; NULL if they are more,
 * or after an error. If not NULL, the lock is held until mx_cuda_staged(), before which those kernels are launched. */
const void *mx_cuda_stage(mx_cuda *gpu, const void *from, size_t bytes);
void mx_cuda_staged(mx_cuda *gpu);
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
    case MXW_I8: case MXW_U8: case MXW_F8: return 1;
    case MXW_I64: case MXW_F64: return 8;
    default: return 4;
    }
}

static inline size_t mx_cuda_bytes(const mx_tensor *t) {
    return (size_t)mx_cuda_count(t) * mx_cuda_dtype_bytes(t->dtype);
}

/* Input i; NULL if it was left out. */
static inline const void *mx_cuda_input(const mx_call *call, int i) {
    return i < call->n_inputs ? call->inputs[i].data : NULL;
}

const char *mx_cuda_op_name(mx_op op);

/* ---- checks.c: checks of data, with the messages of the CPU device ------------------------------------- */

/* Every index of an op is in range. Read from host memory where the data came from there, else downloaded. */
mxw_status mx_cuda_check_gather(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_check_write(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_check_cached(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_check_window(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_check_scores(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_check_rules(mx_cuda *gpu, const mx_call *call);
/* Everything that the call's op checks. */
mxw_status mx_cuda_check_call(mx_cuda *gpu, const mx_call *call);

/* ---- cublas.c: cuBLAS, opened at run time ------------------------------------------------------------------------ */

/* Whether cuBLAS can be opened; if not, the reason in one line. */
int mx_cuda_blas_found(const char **why);
void mx_cuda_blas_version(char *text, size_t n);   /* "13.0.2" */
mxw_status mx_cuda_blas_open(mx_cuda *gpu);        /* creates the handle if there is none */

/* c = a b in f32, for `entries` matrices of one shape. a [m][k]; b [k][n], or [n][k] if transposed; c [m][n]; ld*:
 * elements from row to row, *_step: from entry to entry. */
typedef struct mx_cuda_sgemm {
    int64_t m, n, k, entries;
    const float *a, *b;
    float *c;
    int64_t lda, ldb, ldc, a_step, b_step, c_step;
    int b_transposed;
} mx_cuda_sgemm;

/* One call of cuBLAS. The number of entries must follow from the shape of what is computed, not from the batch: cuBLAS
 * chooses an algorithm by it. */
mxw_status mx_cuda_sgemm_cublas(mx_cuda *gpu, const mx_call *call, const mx_cuda_sgemm *p);
/* Our own tiles (ops/gemm.cu), for operands whose alignment varies: cuBLAS might choose another algorithm by it. */
mxw_status mx_cuda_sgemm_tiles(mx_cuda *gpu, const mx_call *call, const mx_cuda_sgemm *p);
/* Zeros where k is 0; by cuBLAS if `even`: every matrix of every entry of the op begins on a boundary of
 * MX_CUDA_CUBLAS_ALIGN floats; else by tiles. */
mxw_status mx_cuda_sgemm_run(mx_cuda *gpu, const mx_call *call, const mx_cuda_sgemm *p, int even);
#define MX_CUDA_CUBLAS_ALIGN 64   /* floats: 256 bytes, the most that an algorithm of cuBLAS depends on */

/* ---- gemm/pack.cu, gemm/select.cu: compiled GEMMs, on tensor cores -------------------------------------------- */

/* What tensor cores multiply. */
typedef enum mx_cuda_element { MX_CUDA_F16, MX_CUDA_S8, MX_CUDA_E4M3 } mx_cuda_element;

/* A packed weight [n][k], the B operand: blocks of 64 of k, each of tiles of 8 columns of y, each of 8 pieces of 128
 * bytes, 4 bytes for each lane: two f16 of column lane / 4. Pieces 2 s and 2 s + 1 are k step s of 16: 4 t and 4 t + 1,
 * then 4 t + 2 and 4 t + 3, t = lane % 4. Zeros past n and k. A second term is all of that again, with the remainder of
 * each element times 2^11.
 * In 8 bits, n and k multiples of 128: blocks of 128 of k, tiles of 8 columns, 8 pieces, each 16 of k of 8 columns, in
 * the order of order8 (gemm/gemm.cuh); then f32 [n], by which a column's numbers are multiplied, and of S8 i32 [n],
 * their sums. */
typedef struct mx_cuda_weight {
    const void *bytes;   /* of the packed tensor, on the GPU */
    int64_t n, k;
    int terms;           /* 1: every element is one number; 2: an element is the sum of two f16 */
    int fresh;           /* packed by the kernel right before, which the GEMM must wait for */
    mx_cuda_element element;
} mx_cuda_weight;
#define MX_CUDA_BLOCK8 128   /* of k, in 8 bits */
#define MX_CUDA_MOST_K8 16384   /* sums of k products of 8 bits are far below 2^31 */
#define MX_CUDA_FORMAT_8 2   /* the format of a packed tensor: its terms of f16, or this plus mx_cuda_element */

static inline int64_t mx_cuda_tiles_of(int64_t n) { return (n + 7) / 8; }
static inline int64_t mx_cuda_blocks_of(int64_t k) { return (k + 63) / 64; }
static inline size_t mx_cuda_weight_bytes(int64_t n, int64_t k, int terms) {
    return (size_t)(mx_cuda_tiles_of(n) * mx_cuda_blocks_of(k) * terms) * 1024;
}

/* In 8 bits. */
static inline size_t mx_cuda_weight8_bytes(int64_t n, int64_t k) { return (size_t)(n * k) + (size_t)n * 8; }

/* What lies behind the numbers of one. */
static inline float *mx_cuda_weight8_scales(const mx_cuda_weight *w) {
    return (float *)((char *)(uintptr_t)w->bytes + w->n * w->k);
}
static inline int32_t *mx_cuda_weight8_sums(const mx_cuda_weight *w) {
    return (int32_t *)(mx_cuda_weight8_scales(w) + w->n);
}

mx_form mx_cuda_weight_form(const mx_device *device, const mx_weight_use *use);
mxw_status mx_cuda_upload_f32(const mx_device *device, float *to, const mx_tensor *from);
mx_packing mx_cuda_packing(const mx_device *device, const mx_weight_use *use);
mxw_status mx_cuda_pack(const mx_device *device, const mx_weight_use *use, void *to, mx_pool *pool);
/* A PACKED tensor as GEMMs read it. */
static inline mx_cuda_weight mx_cuda_weight_of(const mx_tensor *packed) {
    int format = packed->packing.format, is_8 = format > MX_CUDA_FORMAT_8;
    mx_cuda_weight w = {packed->data, packed->dims[0], 1, is_8 ? 1 : format, 0,
                        is_8 ? (mx_cuda_element)(format - MX_CUDA_FORMAT_8) : MX_CUDA_F16};
    for (int i = 1; i < packed->rank; i++)
        w.k *= packed->dims[i];
    return w;
}
/* Packs an f32 [n][k] (or [n][k / taps][taps], taps first in the packed k) on the GPU. */
mxw_status mx_cuda_pack_plain(mx_cuda *gpu, const mx_call *call, const mx_cuda_weight *to, const float *from,
                              int64_t taps);

/* The layouts that compiled calls leave to each other (mx_layout):
 * OPERAND: rows as the operand of a GEMM: [64 rows][64 of k][term][8 rows], each 1024 bytes as in weights. Of one whose
 * weight is E4M3 [64 rows][128 of k][8 rows], each 1024 bytes as in that.
 * IM2COL: the result of a convolution as such rows of the next one, which has 3 taps, stride 2 and padding 1.
 * QKV: queries, keys and values, heads 64 wide, as operands of attention: [entry][head][q, k, v][64 rows][term], each
 * MX_CUDA_QKV_TILE bytes: rows of 128 bytes, in row r the 16-byte piece p at p ^ (r % 8); a row for each query or key,
 * but of values for each of a head's elements. */
#define MX_CUDA_QKV_TILE 8192   /* bytes */

/* y [m][n] = act(norm(x) w^T + bias) + residual. An element is summed over k in an order that (n, k) alone decide, so a
 * row's bits do not depend on the other rows. Start from zeros; what is 0 or NULL is absent. */
typedef struct gemm_desc {
    int64_t m, n, k;
    const float *x;                  /* row r: k elements from x + r * ldx */
    int64_t ldx;
    /* A convolution if positions is not 0: row r is position r % out_positions of entry r / out_positions; it starts
     * at position (that * stride - pad) of the entry's `positions`, each of `channels`; zeros outside. */
    int64_t positions, out_positions, channels, stride, pad;
    const float *gamma, *beta;       /* [k]: the norm; none if gamma is NULL */
    double eps;
    mx_cuda_weight weight;
    const float *bias;               /* [n] */
    const float *residual;           /* rows ld_residual apart; row r is r % residual_rows */
    int64_t residual_rows, ld_residual;
    int act;                         /* mx_act */
    mxw_precision precision;         /* EXACT or F16 */
    float *y;                        /* rows ldy apart */
    int64_t ldy;
    void *scratch;                   /* mx_cuda_gemm_scratch() bytes */
    mx_layout x_layout, y_layout;    /* x not DENSE: no ldx, convolution or norm; y not DENSE: no ldy or residual */
    int64_t entry_rows;              /* rows of an entry of y; 1 if it has no entries */
} gemm_desc;

/* Of GEMMs whose weights are f16: 8 bits are for those that were packed so. */
static inline mxw_precision gemm_precision_of(mxw_precision precision) {
    return precision == MXW_PRECISION_EXACT ? MXW_PRECISION_EXACT : MXW_PRECISION_F16;
}
static inline int gemm_is_8(const gemm_desc *p) { return p->weight.element != MX_CUDA_F16; }

/* Whether a kernel before the GEMM prepares its rows: their statistics, or the rows themselves as operands where that
 * is cheaper than to convert them for every tile of columns, or must be, as in 8 bits. */
static inline int gemm_needs_scratch(const gemm_desc *p) {
    if (gemm_is_8(p))
        return p->x_layout == MX_LAYOUT_DENSE || p->weight.element == MX_CUDA_S8;
    int many = p->precision == MXW_PRECISION_F16 && p->k >= 1024 ? p->m >= 256 && p->m < 8192 : 0;
    return p->x_layout == MX_LAYOUT_DENSE && (p->gamma || many || (p->m >= 8192 && 3 * p->n >= p->k));
}
/* Its output: operands of two terms, in tiles of 64 by 64. */
static inline size_t gemm_scratch_bytes(int64_t m, int64_t k) {
    return (size_t)((m + 63) / 64 * mx_cuda_blocks_of(MX_MAX(k, 1))) * 16384;
}
/* Its rows: an entry begins with a tile, since MX_LAYOUT_QKV has tiles of entries. */
static inline int64_t gemm_operand_rows(const gemm_desc *p) {
    return p->entry_rows > 1 ? p->m / p->entry_rows * ((p->entry_rows + 63) / 64 * 64) : p->m;
}
/* In 8 bits: one number each, and of S8 what stands for each row. */
typedef struct gemm_row_range {
    float scale;     /* an element is scale times (its number + shift) */
    int32_t shift;
} gemm_row_range;
static inline size_t gemm_scratch8_bytes(int64_t m, int64_t k) {
    return (size_t)((m + 63) / 64 * 64) * ((size_t)k + sizeof(gemm_row_range));
}
/* Bytes of the x of a GEMM in MX_LAYOUT_OPERAND. */
static inline size_t gemm_operand_bytes(const gemm_desc *p) {
    size_t exact = gemm_scratch_bytes(p->m, p->k);
    return p->weight.element == MX_CUDA_E4M3 ? exact / 4 : p->precision == MXW_PRECISION_F16 ? exact / 2 : exact;
}
/* Bytes of MX_LAYOUT_QKV. */
static inline size_t gemm_qkv_bytes(int64_t entries, int64_t rows, int64_t heads, mxw_precision precision) {
    return (size_t)(entries * heads * ((rows + 63) / 64) * 3 * (precision == MXW_PRECISION_EXACT ? 2 : 1)) *
           MX_CUDA_QKV_TILE;
}
/* What follows the GEMM in its label. */
typedef enum gemm_then { GEMM_THEN_NOTHING, GEMM_THEN_SELECT_PARTIAL, GEMM_THEN_SELECT_ROWS } gemm_then;

/* All of these ask gemm_select() (gemm/gemm.cuh), so they agree on the kernel. The GPU is open. */
mxw_status mx_cuda_gemm_run(mx_cuda *gpu, const mx_call *call, const gemm_desc *p);
size_t mx_cuda_gemm_scratch(mx_cuda *gpu, const gemm_desc *p);           /* bytes */
int mx_cuda_gemm_writes_layout(mx_cuda *gpu, const gemm_desc *p);        /* its y_layout, which is not DENSE */
int mx_cuda_gemm_reads_operand(mx_cuda *gpu, const gemm_desc *p);        /* whether x as operands pays off */
const char *mx_cuda_gemm_label(mx_cuda *gpu, const gemm_desc *p, gemm_then then);   /* human-readable */

/* gemm/describe.c: the ops */
int mx_cuda_gemm_describe(const mx_call *call, gemm_desc *p);   /* whether its weight is packed */
mxw_status mx_cuda_fused_linear(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_fused_conv1d(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_gemm_op_scratch(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_output_layout_bytes(const mx_device *device, const mx_call *producer, const mx_call *consumer,
                                   int input, mx_layout *layout);
const char *mx_cuda_gemm_op_label(mx_cuda *gpu, const mx_call *call);

/* ---- the ops ----------------------------------------------------------------------------------------------------- */

typedef struct mx_cuda_op {
    size_t (*scratch)(mx_cuda *gpu, const mx_call *call);     /* bytes; NULL: none */
    mxw_status (*run)(mx_cuda *gpu, const mx_call *call);     /* launches; reads no data, waits for nothing */
    mxw_status (*check)(mx_cuda *gpu, const mx_call *call);   /* checks data before; NULL: nothing to check */
} mx_cuda_op;

extern const mx_cuda_op mx_cuda_ops[MX_OP_COUNT];

/* ops/gemm.cu */
mxw_status mx_cuda_linear(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_matmul(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_conv(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_conv_scratch(mx_cuda *gpu, const mx_call *call);
/* The windows of all positions of a fused_conv1d as rows [taps][in]. */
mxw_status mx_cuda_conv1d_rows(mx_cuda *gpu, const mx_call *call, float *rows);
/* ops/lstm.cu */
mxw_status mx_cuda_lstm(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_lstm_scratch(mx_cuda *gpu, const mx_call *call);
/* ops/elementwise.cu */
mxw_status mx_cuda_binary(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_layer_norm(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_gelu(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_unary(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_softmax(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_reduce(mx_cuda *gpu, const mx_call *call);
/* ops/norm.cu: compiled norms */
int mx_cuda_fast_norm_takes(const mx_call *call);
mxw_status mx_cuda_fast_norm(mx_cuda *gpu, const mx_call *call);
/* ops/move.cu */
mxw_status mx_cuda_permute(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_transpose(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_reshape(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_slice(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_concat(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_gather(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_state_write(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_cast(mx_cuda *gpu, const mx_call *call);
/* ops/attention.cu */
mxw_status mx_cuda_attention(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_attention_cached(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_attention_window(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_attention_scores(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_attention_scratch(mx_cuda *gpu, const mx_call *call);
/* attention/flash_mma.cu: compiled attention over whole windows */
int mx_cuda_flash_takes(const mx_call *call);
int mx_cuda_flash_reads_qkv(mx_cuda *gpu, const mx_call *call);   /* whether it reads MX_LAYOUT_QKV */
mxw_status mx_cuda_flash(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_flash_scratch(const mx_call *call);
const char *mx_cuda_flash_label(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_attention_rows_scratch(mx_cuda *gpu, const mx_call *call);
/* attention/decode_paged.cu: compiled attention of decoder rows over a cache or a window, heads of 64 */
int mx_cuda_decode_attention_takes(const mx_call *call);
/* Whether it can read caches and windows of f16, and windows of f8. */
int mx_cuda_decode_attention_f16_fits(const mx_cuda *gpu);
mxw_status mx_cuda_decode_attention(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_decode_attention_scratch(const mx_cuda *gpu, const mx_call *call);
/* ops/gather_scatter.cu: compiled calls that move rows */
int mx_cuda_fast_gather_takes(const mx_call *call);
mxw_status mx_cuda_fast_gather(mx_cuda *gpu, const mx_call *call);
int mx_cuda_fast_write_takes(const mx_call *call);
mxw_status mx_cuda_fast_write(mx_cuda *gpu, const mx_call *call);
/* Copies between device memory and pinned memory. */
mxw_status mx_cuda_copy_small(mx_cuda *gpu, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
#define MX_CUDA_COPY_SMALL_MAX (32 << 10)   /* bytes that a kernel copies, at most; more go by the copy engine */
#define MX_CUDA_DIRECT_MAX (4 << 10)        /* bytes of results that kernels write straight to host memory, at most */
/* Runs the first few of the calls as one kernel, if there is one for them; returns how many it ran. */
size_t mx_cuda_run_together(mx_cuda *gpu, const mx_call *const *calls, size_t n, mxw_status *status);
/* ops/select.cu, logits/logits_select.cu */
mxw_status mx_cuda_argmax(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_top_k(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_select(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_select_scratch(mx_cuda *gpu, const mx_call *call);
mxw_status mx_cuda_fused_select(mx_cuda *gpu, const mx_call *call);
size_t mx_cuda_fused_select_scratch(mx_cuda *gpu, const mx_call *call);
const char *mx_cuda_fused_select_label(mx_cuda *gpu, const mx_call *call);
/* Its two halves: the GEMM of the logits (and whether its weight is packed), and the selection. */
int mx_cuda_logits_describe(const mx_call *call, gemm_desc *p);
mxw_status mx_cuda_select_logits(mx_cuda *gpu, const mx_call *call);
/* capture.c */
/* A copy on the GPU that lives as long as the captured graph; kept_left must suffice. */
mxw_status mx_cuda_keep(mx_cuda *capture_ctx, const void *from, size_t bytes, const void **to);
extern const mx_device_capture mx_cuda_capture;

/* Softmax of rows [rows][n] with scale, in place; rows are ld apart, in groups of `group` rows that are group_step
 * apart. Row i of a group has first_keys + i keys if causal, else n, and zeros after them (ops/elementwise.cu). */
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
