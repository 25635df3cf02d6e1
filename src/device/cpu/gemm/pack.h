/* device/cpu/gemm/pack.h - packed weights of compiled calls, and the skinny GEMM of a few rows with them.
 *
 * A packed weight is a header of 64 bytes, then ceil(n / MX_PANEL) panels, each k rows of MX_PANEL output columns, all
 * of one element type: f16 if every source was f16, else f32. Columns past n are zeros. A panel is a multiple of 64
 * bytes, so that in a block that is 64-byte aligned every row of a panel starts at a multiple of its own size in a
 * cache line. Invariant: column j of the result is one chain of fused multiply-adds over k in order, in every kernel.
 * */
#ifndef MX_CPU_PACK_H
#define MX_CPU_PACK_H
#include "device/cpu/cpu.h"

/* The CPU's packed formats (mx_packing). */
enum {
    MX_CPU_PACKED_PANELS,        /* mx_packed */
    MX_CPU_PACKED_LOGITS_INT8,   /* mx_logits_int8 (logits_int8.h) */
    MX_CPU_PACKED_LOGITS_CODES,  /* the same without panels */
    MX_CPU_PACKED_W8A8,          /* mx_w8a8 (w8a8.h) */
    MX_CPU_PACKED_CODES,         /* mx_codes (codes.h) */
    MX_CPU_PACKED_DIRECTIONS     /* of [dirs, n, k]: an mx_packed for each direction, one after the other */
};

typedef struct mx_packed {
    uint32_t dtype;      /* mxw_dtype: MXW_F16 or MXW_F32 */
    uint32_t panel;      /* MX_PANEL */
    uint32_t reserved[2];
    int64_t k, n;        /* n outputs, each the sum of k products */
    uint64_t zero[4];
} mx_packed;

static inline int64_t mx_packed_panels(const mx_packed *w) { return (w->n + MX_PANEL - 1) / MX_PANEL; }
static inline size_t mx_packed_panel_bytes(const mx_packed *w) {
    return (size_t)w->k * MX_PANEL * (w->dtype == MXW_F16 ? 2 : 4);
}
static inline const void *mx_packed_panel(const mx_packed *w, int64_t panel) {
    return (const char *)(w + 1) + (size_t)panel * mx_packed_panel_bytes(w);
}
/* The panels of a packed weight; NULL if the tensor is in another format or not packed. */
static inline const mx_packed *mx_packed_of(const mx_tensor *weight) {
    return weight->layout == MX_LAYOUT_PACKED && weight->packing.format == MX_CPU_PACKED_PANELS ? weight->data : NULL;
}
/* The panels of one direction of a weight of lstm. */
static inline const mx_packed *mx_packed_direction(const mx_tensor *weight, int64_t dir) {
    const mx_packed *w = weight->data;
    for (int64_t i = 0; w && i < dir; i++)
        w = (const mx_packed *)mx_packed_panel(w, mx_packed_panels(w));
    return w;
}

/* Few rows (a decoder's step) times a range of panels:
 *   float *a = ...;                                             mx_packed_rows_floats(rows, k), 64-byte aligned
 *   mx_pack_rows(kernels, a, x, ldx, rows, k, NULL);             once; with a norm: scratch of k floats in norm.row
 *   mx_gemm_rows(kernels, y, ld, a, rows, w, first, count);    for each range, on any thread
 * y [rows][count * MX_PANEL], rows ld apart; columns past n come out as 0. */
typedef struct mx_pack_norm {
    const float *gamma, *beta;   /* [k] */
    double eps;
    float *row;                  /* scratch [k] */
} mx_pack_norm;

static inline size_t mx_packed_rows_floats(int64_t rows, int64_t k) {
    return (size_t)((k + MX_CHUNK - 1) / MX_CHUNK * MX_CHUNK * rows);
}
void mx_pack_rows(const mx_kernels *kernels, float *a, const float *x, int64_t ldx, int64_t rows, int64_t k,
                  const mx_pack_norm *norm);
void mx_gemm_rows(const mx_kernels *kernels, float *y, int64_t ld, const float *a, int64_t rows, const mx_packed *w,
                  int64_t first_panel, int64_t n_panels);

/* Entries of the device's table. */
int mx_cpu_takes_quantized(const mx_device *device, const mx_weight_use *use);
mx_form mx_cpu_form(const mx_device *device, const mx_weight_use *use);
mx_packing mx_cpu_packing(const mx_device *device, const mx_weight_use *use);
mxw_status mx_cpu_pack(const mx_device *device, const mx_weight_use *use, void *to, mx_pool *pool);
#endif
