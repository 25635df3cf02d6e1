/* device/cpu/gemm/pack.c - which layout a compiled call wants its weights in, and packing them.
 * In: views of the checkpoint. Out: the bytes that pack.h describes.
 * Invariant: no element changes its value, f16 stays f16 and blocks of codes stay codes (codes.h), unless the precision
 * is int8 (w8a8.h). */
#include "device/cpu/gemm/pack.h"

#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "device/cpu/gemm/codes.h"
#include "device/cpu/gemm/w8a8.h"
#include "device/cpu/logits/logits_int8.h"

_Static_assert(sizeof(mx_packed) == 64, "panels start on a cache line");

static int is_raw(mxw_dtype dtype) { return dtype == MXW_F32 || dtype == MXW_F16 || dtype == MXW_BF16; }

int mx_cpu_takes_quantized(const mx_device *device, const mx_weight_use *use) {
    return mx_codes_fit(use) || mx_w8a8_fits_codes(use) || mx_logits_int8_fits(use);
}

mx_form mx_cpu_form(const mx_device *device, const mx_weight_use *use) {
    switch (use->op) {
    case MX_OP_LINEAR:
    case MX_OP_FUSED_LINEAR:
    case MX_OP_CONV1D:
    case MX_OP_FUSED_CONV1D:
    case MX_OP_FUSED_SELECT: return use->input == 1 ? MX_FORM_PACKED : MX_FORM_F32;
    case MX_OP_LSTM: return use->input == 1 || use->input == 2 ? MX_FORM_PACKED : MX_FORM_F32;
    case MX_OP_MATMUL: return use->input == 1 && use->sources[0].rank == 2 ? MX_FORM_PACKED : MX_FORM_F32;
    case MX_OP_GATHER:
        if (mx_codes_fit(use))
            return MX_FORM_PACKED;
        break;
    default: return MX_FORM_F32;
    }
    int raw = use->input == 0;
    for (int i = 0; i < use->n_sources; i++)
        raw = raw && is_raw(use->sources[i].dtype) && use->sources[i].dtype == use->sources[0].dtype;
    return raw ? MX_FORM_RAW : MX_FORM_F32;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* A weight as columns of k elements. Of [out, in] and [out, in, taps] a column is a row of a source, of matmul's [k, n]
 * it is what is left after axis 0, through all sources. */
typedef struct packing {
    const mx_weight_use *use;
    mx_packed *to;
    const mx_kernels *kernels;
    atomic_int failed;   /* no memory */
} packing;

static int is_matmul(const mx_weight_use *use) { return use->op == MX_OP_MATMUL; }

static mx_packed header_of(const mx_weight_use *use) {
    const mx_tensor *first = &use->sources[0];
    mx_packed w = {.dtype = MXW_F16, .panel = MX_PANEL};
    int64_t stacked = 0, each = 1;
    for (int i = 0; i < use->n_sources; i++) {
        stacked += use->sources[i].dims[0];
        if (use->sources[i].dtype != MXW_F16)
            w.dtype = MXW_F32;
    }
    for (int i = 1; i < first->rank; i++)
        each *= first->dims[i];
    w.n = is_matmul(use) ? each : stacked;
    w.k = is_matmul(use) ? stacked : each;
    return w;
}

/* The source that has column j; j becomes the index within it. */
static const mx_tensor *source_of(const mx_weight_use *use, int64_t *j) {
    const mx_tensor *source = use->sources;
    while (*j >= source->dims[0])
        *j -= source++->dims[0];
    return source;
}

static void *element(const mx_tensor *t, int64_t offset) {
    return (char *)t->data + offset * (int64_t)mx_dtype_bytes(t->dtype);
}

/* One direction of a weight of lstm: a matrix [4 hidden, k], packed as that of a linear layer. */
typedef struct direction {
    mx_tensor matrix;
    mx_weight_use use;
} direction;

static int64_t directions(const mx_weight_use *use) {
    int64_t n = 0;
    for (int i = 0; i < use->n_sources; i++)
        n += use->sources[i].dims[0];
    return n;
}

static void set_direction(direction *d, const mx_weight_use *use, int64_t dir) {
    const mx_tensor *source = source_of(use, &dir);
    d->matrix = (mx_tensor){.dtype = source->dtype, .rank = 2, .data = element(source, dir * source->strides[0])};
    for (int i = 0; i < 2; i++) {
        d->matrix.dims[i] = source->dims[i + 1];
        d->matrix.strides[i] = source->strides[i + 1];
    }
    d->use = *use;
    d->use.op = MX_OP_LINEAR;
    d->use.precision = MXW_PRECISION_EXACT;   /* an LSTM's gates stay as they are */
    d->use.input = 1;
    d->use.sources = &d->matrix;
    d->use.n_sources = 1;
}

static size_t packed_bytes(const mx_packed *w) {
    return sizeof(*w) + (size_t)mx_packed_panels(w) * mx_packed_panel_bytes(w);
}

mx_packing mx_cpu_packing(const mx_device *device, const mx_weight_use *use) {
    if (use->op == MX_OP_LSTM) {
        mx_packing all = {.format = MX_CPU_PACKED_DIRECTIONS};
        for (int64_t dir = 0; dir < directions(use); dir++) {
            direction d;
            set_direction(&d, use, dir);
            all.bytes += mx_cpu_packing(device, &d.use).bytes;
        }
        return all;
    }
    if (mx_codes_fit(use))
        return (mx_packing){sizeof(mx_codes), MX_CPU_PACKED_CODES, mx_codes_bytes(use)};
    if (mx_w8a8_fits(use))
        return (mx_packing){mx_w8a8_bytes(use), MX_CPU_PACKED_W8A8, 0};
    mx_packed w = header_of(use);
    if (mx_logits_int8_fits(use))
        return mx_logits_int8_packing(use);
    return (mx_packing){packed_bytes(&w), MX_CPU_PACKED_PANELS, 0};
}

/* ---- one panel --------------------------------------------------------------------------------------------------- */

/* Column j, dense, in the element type of the panels. A convolution's taps come before its inputs. */
static void read_column(const packing *p, int64_t j, char *out) {
    const mx_weight_use *use = p->use;
    size_t bytes = mx_dtype_bytes((mxw_dtype)p->to->dtype);
    int whole = is_matmul(use);
    const mx_tensor *source = whole ? use->sources : source_of(use, &j);
    for (int i = 0; i < (whole ? use->n_sources : 1); i++, source++) {
        mx_tensor view = {.dtype = source->dtype, .rank = 1};
        view.data = element(source, j * source->strides[whole ? 1 : 0]);
        view.dims[0] = source->dims[whole ? 0 : 1];
        view.strides[0] = source->strides[whole ? 0 : 1];
        if (source->rank == 3) {
            view.rank = 2;
            view.dims[1] = view.dims[0];
            view.strides[1] = view.strides[0];
            view.dims[0] = source->dims[2];
            view.strides[0] = source->strides[2];
        }
        if (bytes == 2)
            mx_tensor_pack(&view, out);
        else
            mx_tensor_to_f32(&view, (float *)(void *)out);
        out += (size_t)mx_tensor_count(&view) * bytes;
    }
}

/* The panel's columns are in one source, each dense, in the element type of the panels: packed in place of a copy. */
static const mx_tensor *dense_source(const packing *p, int64_t *first, int64_t columns) {
    if (is_matmul(p->use))
        return NULL;
    const mx_tensor *source = source_of(p->use, first);
    int dense = source->rank == 2 && source->strides[1] == 1 && source->dtype == (mxw_dtype)p->to->dtype;
    return dense && *first + columns <= source->dims[0] ? source : NULL;
}

/* The panel's columns lie side by side in one source, as most of a .pt's do: a row of the panel is a run there. */
static int pack_runs(const packing *p, int64_t first, int64_t columns, char *to) {
    const mx_tensor *source = is_matmul(p->use) ? NULL : source_of(p->use, &first);
    if (!source || source->strides[0] != 1 || source->dtype != (mxw_dtype)p->to->dtype ||
        first + columns > source->dims[0])
        return 0;
    size_t run = (size_t)columns * mx_dtype_bytes(source->dtype), row = MX_PANEL * mx_dtype_bytes(source->dtype);
    int64_t taps = source->rank == 3 ? source->dims[2] : 1;
    for (int64_t tap = 0; tap < taps; tap++)
        for (int64_t i = 0; i < source->dims[1]; i++, to += row) {
            const void *from = element(source, first + i * source->strides[1] + tap * source->strides[2]);
            if (run == MX_PANEL * sizeof(uint16_t))   /* a size that the compiler knows */
                memcpy(to, from, MX_PANEL * sizeof(uint16_t));
            else
                memcpy(to, from, run);
            memset(to + run, 0, row - run);
        }
    return 1;
}

static void pack_panel(void *context, int64_t panel) {
    packing *p = context;
    const mx_packed *w = p->to;
    int64_t first = panel * MX_PANEL, columns = MX_MIN(MX_PANEL, w->n - first), in_source = first;
    size_t bytes = mx_dtype_bytes((mxw_dtype)w->dtype);
    void *to = (char *)(p->to + 1) + (size_t)panel * mx_packed_panel_bytes(w);
    const mx_tensor *source = dense_source(p, &in_source, columns);
    const void *from = source ? element(source, in_source * source->strides[0]) : NULL;
    int64_t ld = source ? source->strides[0] : w->k;
    char *rows = NULL;
    if (!source && pack_runs(p, first, columns, to))
        return;
    if (!source) {
        from = rows = mx_alloc_array((size_t)(columns * w->k), bytes);
        if (!rows) {
            atomic_store(&p->failed, 1);
            return;
        }
        for (int64_t j = 0; j < columns; j++)
            read_column(p, first + j, rows + (size_t)(j * w->k) * bytes);
    }
    (bytes == 2 ? p->kernels->pack_panel_16 : p->kernels->pack_panel_32)(to, from, ld, columns, w->k);
    mx_free(rows);
}

static mxw_status pack_directions(const mx_device *device, const mx_weight_use *use, void *to, mx_pool *pool) {
    mxw_status status = MXW_OK;
    for (int64_t dir = 0; dir < directions(use) && status >= 0; dir++) {
        direction d;
        set_direction(&d, use, dir);
        status = mx_cpu_pack(device, &d.use, to, pool);
        to = (char *)to + packed_bytes(to);
    }
    return status;
}

mxw_status mx_cpu_pack(const mx_device *device, const mx_weight_use *use, void *to, mx_pool *pool) {
    packing p = {.use = use, .to = to, .kernels = mx_cpu_fast_kernels()};
    if (mx_cpu_form(device, use) != MX_FORM_PACKED)
        return mx_fail(MXW_E_INTERNAL, "%s: input %d has no packed form", mx_op_name(use->op), use->input);
    if (mx_codes_fit(use)) {
        *(mx_codes *)to = mx_codes_pack(use);
        return MXW_OK;
    }
    if (mx_w8a8_fits(use))
        return mx_w8a8_pack(use, to, pool);
    if (mx_logits_int8_fits(use))
        return mx_logits_int8_pack(use, to, pool);
    if (use->op == MX_OP_LSTM)
        return pack_directions(device, use, to, pool);
    *p.to = header_of(use);
    mx_pool_for(pool, mx_packed_panels(p.to), pack_panel, &p);
    return atomic_load(&p.failed) ? mx_fail(MXW_E_MEMORY, "%s: no memory to pack a weight", mx_op_name(use->op))
                                  : MXW_OK;
}

/* ---- few rows ---------------------------------------------------------------------------------------------------- */

void mx_pack_rows(const mx_kernels *kernels, float *a, const float *x, int64_t ldx, int64_t rows, int64_t k,
                  const mx_pack_norm *norm) {
    for (int64_t r = 0; r < rows; r++) {
        const float *row = x + r * ldx;
        if (norm) {
            kernels->layer_norm(norm->row, row, norm->gamma, norm->beta, 1, k, norm->eps);
            row = norm->row;
        }
        kernels->pack_row(a + r * MX_CHUNK, row, k, rows * MX_CHUNK);
    }
}

void mx_gemm_rows(const mx_kernels *kernels, float *y, int64_t ld, const float *a, int64_t rows, const mx_packed *w,
                  int64_t first_panel, int64_t n_panels) {
    kernels->gemm_rows(y, ld, a, rows, mx_packed_panel(w, first_panel), (mxw_dtype)w->dtype, w->k, n_panels);
}
