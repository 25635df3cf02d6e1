/* pattern_device.c - see pattern_device.h. Each call: its inputs are checked and made plain (unpacked, widened, dense),
 * its outputs filled with what no op may leave there, then the pattern is run. */
#include "pattern_device.h"

#include <stdlib.h>
#include <string.h>

#include "kit/fake_device.h"
#include "plain.h"

pattern_counts pattern_seen;

static const mx_device pattern, pattern_near;

static mxw_status refuse(const mx_call *call, const char *what, int i) {
    return mx_fail(MXW_E_INTERNAL, "pattern device: %s: %s %d", mx_op_name(call->op), what, i);
}

/* The host's pointer behind one of this device. */
static void *host_of(const mx_device *device, const void *p) {
    return device->host_memory ? (void *)(uintptr_t)p : fake_near(p);
}

static int is_ours(const mx_device *device, const void *p) { return device->host_memory || fake_is_far(p); }

/* 4 bytes or better in the device's memory; a caller's bytes may lie as bytes do. */
static int is_aligned(const mx_device *device, const mx_tensor *t) {
    size_t least = device->host_memory ? MX_MIN(mx_dtype_bytes(t->dtype), 4) : 4;
    return (uintptr_t)t->data % least == 0;
}

/* ---- forms ------------------------------------------------------------------------------------------------------- */

#define MAGIC 0x54544150u   /* "PATT" */
#define FORMAT(op, precision) (1000 * (int32_t)(precision) + (int32_t)(op))   /* of a packed weight */

typedef struct packed {
    uint32_t magic;
    uint16_t op, input;
    uint32_t rank;
    int64_t dims[MX_MAX_RANK];   /* stacked */
    char up_to_a_line[128 - 16 - 8 * MX_MAX_RANK];
} packed;

static int wants_packed(mx_op op, int input) {
    return input == 1 && (op == MX_OP_FUSED_LINEAR || op == MX_OP_FUSED_CONV1D || op == MX_OP_FUSED_SELECT ||
                          op == MX_OP_MATMUL || op == MX_OP_ADD);
}

static int wants_raw(mx_op op, int input) {
    return (op == MX_OP_GATHER && input == 0) || (op == MX_OP_FUSED_LINEAR && input == 2);
}

/* A raw input in host memory may lie anywhere, as in a file. */
static int may_lie_anywhere(const mx_device *device, const mx_call *call, int input) {
    return device->host_memory && call->compiled && wants_raw(call->op, input);
}

static mx_form pattern_form(const mx_device *device, const mx_weight_use *use) {
    return wants_packed(use->op, use->input) ? MX_FORM_PACKED
           : wants_raw(use->op, use->input)  ? MX_FORM_RAW
                                             : MX_FORM_F32;
}

static packed header_of(const mx_weight_use *use) {
    packed h = {.magic = MAGIC, .op = (uint16_t)use->op, .input = (uint16_t)use->input,
                .rank = (uint32_t)use->sources[0].rank};
    memcpy(h.dims, use->sources[0].dims, sizeof(h.dims));
    for (int i = 1; i < use->n_sources; i++)
        h.dims[0] += use->sources[i].dims[0];
    return h;
}

static int64_t count_of(const packed *h) {
    int64_t n = 1;
    for (uint32_t i = 0; i < h->rank; i++)
        n *= h->dims[i];
    return n;
}

static mx_packing pattern_packing(const mx_device *device, const mx_weight_use *use) {
    packed h = header_of(use);
    return (mx_packing){sizeof(h) + (size_t)count_of(&h) * sizeof(float), FORMAT(use->op, use->precision), 0};
}

/* Element i, backwards and with bits changed by a number that its place gives; the same again brings it back. */
static uint32_t scramble(uint32_t bits, int64_t i) { return bits ^ (uint32_t)i * 2654435761u ^ 0x5bd1e995u; }

static mxw_status pattern_pack(const mx_device *device, const mx_weight_use *use, void *to, mx_pool *pool) {
    packed h = header_of(use);
    if (!is_ours(device, to) || !wants_packed(use->op, use->input))
        return mx_fail(MXW_E_INTERNAL, "pattern device: nothing to pack there");
    memcpy(host_of(device, to), &h, sizeof(h));
    pattern_seen.made++;
    pattern_seen.entry_rows = use->entry_rows;
    uint32_t *last = (uint32_t *)(void *)((char *)host_of(device, to) + sizeof(h)) + count_of(&h);
    int64_t at = 0;
    for (int s = 0; s < use->n_sources; s++) {
        int64_t n = mx_tensor_count(&use->sources[s]);
        float *wide = malloc((size_t)n * sizeof(float) + 1);
        mxw_status status = wide ? mx_tensor_to_f32(&use->sources[s], wide) : MXW_E_MEMORY;
        for (int64_t i = 0; i < n && status >= 0; i++, at++) {
            uint32_t bits;
            memcpy(&bits, &wide[i], sizeof(bits));
            last[-1 - at] = scramble(bits, at);
        }
        free(wide);
        if (status < 0)
            return status;
    }
    return MXW_OK;
}

static mx_tensor unpack(const packed *h) {
    mx_tensor view = mx_tensor_of_const(MXW_F32, (int)h->rank, h->dims, h + 1);
    mx_tensor t = plain_copy(&view);
    uint32_t *bits = t.data;
    const uint32_t *last = (const uint32_t *)(const void *)(h + 1) + count_of(h);
    for (int64_t i = 0; i < count_of(h); i++)
        bits[i] = scramble(last[-1 - i], i);
    return t;
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

/* All that copies or adds up takes rows that lie apart; what jumps about does not. */
static int pattern_strided(const mx_device *device, mx_op op, int input) {
    switch (op) {
    case MX_OP_PERMUTE:
    case MX_OP_TRANSPOSE:
    case MX_OP_GATHER:
    case MX_OP_SELECT:
    case MX_OP_CONV1D:
    case MX_OP_CONV2D:
    case MX_OP_FUSED_CONV1D: return 0;
    case MX_OP_STATE_WRITE:
    case MX_OP_FUSED_SELECT: return input < 2;
    default: return 1;
    }
}

/* Rows apart as device.h has it: the last axis dense, the rows at least as far from each other as they are long, the
 * axes before without gaps. */
static int lies_apart_well(const mx_tensor *t) {
    int last = t->rank - 1;
    if (t->rank < 2 || (t->dims[last] > 1 && t->strides[last] != 1) || t->strides[last - 1] < t->dims[last])
        return mx_tensor_count(t) == 0;
    for (int i = 0; i < last - 1; i++)
        if (t->dims[i] != 1 && t->strides[i] != t->strides[i + 1] * t->dims[i + 1])
            return mx_tensor_count(t) == 0;
    return 1;
}

/* With precision f16, caches are f16; with f8 they are, too, and so is what scores are taken of, but what is attended
 * to in windows may be f8. */
static mxw_dtype pattern_state_dtype(const mx_device *device, mxw_precision precision, mx_op op, int input) {
    int written = op == MX_OP_STATE_WRITE && input == 0, window = op == MX_OP_ATTENTION_WINDOW;
    int cache = op == MX_OP_ATTENTION_CACHED, pair = input == 1 || input == 2;
    if (precision == MXW_PRECISION_F8)
        return written || (window && pair)                                        ? MXW_F8
               : (cache && pair) || (op == MX_OP_ATTENTION_SCORES && input == 1) ? MXW_F16
                                                                                  : MXW_F32;
    return precision == MXW_PRECISION_F16 && (written || (cache && pair)) ? MXW_F16 : MXW_F32;
}

/* Whether a state may be kept as that for the call. */
static int may_be_kept(const mx_call *call, int input, mxw_dtype dtype) {
    mxw_dtype narrowest = pattern_state_dtype(NULL, call->precision, call->op, input);
    return narrowest != MXW_F32 && mx_dtype_bytes(dtype) >= mx_dtype_bytes(narrowest);
}

/* All that the call has of states is of one type. */
static int states_agree(const mx_call *call) {
    mxw_dtype first = MXW_F64;
    for (int i = 0; i < call->n_inputs; i++) {
        if (!call->compiled || !call->inputs[i].data || !may_be_kept(call, i, MXW_F32))
            continue;
        if (first != MXW_F64 && call->inputs[i].dtype != first)
            return 0;
        first = call->inputs[i].dtype;
    }
    return 1;
}

/* The state, whose copy as f32 was written to, as what it is kept as again. */
static void narrow_state(const mx_tensor *wide, const mx_tensor *state) {
    for (int64_t i = 0; i < mx_tensor_count(state); i++) {
        float value = ((const float *)wide->data)[i];
        if (state->dtype == MXW_F8)
            ((uint8_t *)state->data)[i] = mx_f32_to_f8(value);
        else
            ((uint16_t *)state->data)[i] = mx_f32_to_f16(value);
    }
}

static mxw_status make_plain(const mx_device *device, const mx_call *call, int i, mx_tensor *out, void **owned) {
    mx_tensor t = call->inputs[i];
    const void *origin = call->host ? call->host[i] : NULL;
    int aligned = is_aligned(device, &t);
    if (t.data && (!is_ours(device, t.data) || !(aligned || may_lie_anywhere(device, call, i))))
        return refuse(call, "not in the device's memory, or not aligned: input", i);
    t.data = host_of(device, t.data);
    *out = t;
    if (t.layout != MX_LAYOUT_DENSE) {
        const packed *h = t.data;
        if (t.layout != MX_LAYOUT_PACKED || t.packing.format != FORMAT(call->op, call->precision) || !call->compiled ||
            !wants_packed(call->op, i) || h->magic != MAGIC || h->op != call->op || h->input != i ||
            (int)h->rank != t.rank ||
            memcmp(h->dims, t.dims, (size_t)t.rank * sizeof(*t.dims)) != 0 || origin)
            return refuse(call, "not what was packed for it: input", i);
        pattern_seen.packed++;
        *out = unpack(h);
        *owned = out->data;
        return MXW_OK;
    }
    if (!aligned) {
        *out = plain_copy(&t);
        *owned = out->data;
    }
    if (!mx_tensor_contiguous(&t)) {
        if (!call->compiled || !pattern_strided(device, call->op, i) || !lies_apart_well(&t) || origin)
            return refuse(call, "rows that may not lie like that: input", i);
        pattern_seen.strided++;
        *out = plain_copy(&t);
        *owned = out->data;
    }
    if (origin && mx_tensor_bytes(out) && memcmp(origin, out->data, mx_tensor_bytes(out)) != 0)
        return refuse(call, "not what it is said to have come from: input", i);
    int halves = t.dtype == MXW_F16 || t.dtype == MXW_BF16;
    int kept = (t.dtype == MXW_F16 || t.dtype == MXW_F8) && may_be_kept(call, i, t.dtype);
    int raw = halves && wants_raw(call->op, i) && call->outputs[0].dtype == MXW_F32;
    if (t.dtype == MXW_F8 && !kept)
        return refuse(call, "kept narrower than it was said: input", i);
    if (call->compiled && (kept || raw)) {
        mx_tensor wide = mx_tensor_of(MXW_F32, t.rank, t.dims, malloc((size_t)mx_tensor_count(&t) * 4 + 1));
        if (!wide.data)
            return MXW_E_MEMORY;
        mx_tensor_to_f32(&t, wide.data);
        free(*owned);
        *owned = wide.data;
        *out = wide;
        pattern_seen.raw++;
    }
    return MXW_OK;
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

/* The bytes from a tensor's first element to behind its last. */
static size_t span(const mx_tensor *t) {
    int64_t last = 0;
    if (!t->data || mx_tensor_count(t) == 0)
        return 0;
    for (int i = 0; i < t->rank; i++)
        last += (t->dims[i] - 1) * t->strides[i];
    return (size_t)(last + 1) * mx_dtype_bytes(t->dtype);
}

static int overlap(const mx_tensor *a, const mx_tensor *b) {
    const char *x = a->data, *y = b->data;
    return span(a) && span(b) && x < y + span(b) && y < x + span(a);
}

static mxw_status check_outputs(const mx_device *device, const mx_call *call, mx_tensor *outputs) {
    for (int i = 0; i < call->n_outputs; i++) {
        const mx_tensor *t = &call->outputs[i];
        if (!t->data || !is_ours(device, t->data) || !mx_tensor_contiguous(t) || !is_aligned(device, t))
            return refuse(call, "not a dense part of the device's memory: output", i);
        for (int j = 0; j < i; j++)
            if (overlap(t, &call->outputs[j]))
                return refuse(call, "two outputs at one place: output", i);
        for (int j = 0; j < call->n_inputs; j++)
            if (overlap(t, &call->inputs[j]) && (call->op != MX_OP_STATE_WRITE || j > 0))
                return refuse(call, "an output where this input lies: input", j);
        if (call->op == MX_OP_STATE_WRITE && t->data != call->inputs[0].data)
            return refuse(call, "not where the state lies: output", i);
        outputs[i] = *t;
        outputs[i].data = host_of(device, t->data);
    }
    return MXW_OK;
}

/* ---- patterns ---------------------------------------------------------------------------------------------------- */

/* Replaces *x by op(*x, ..); the old one is freed if it was made here. */
static mxw_status step(mx_op op, const mx_attrs *attrs, mx_tensor *x, int *made, const mx_tensor *more, int n_more) {
    mx_tensor inputs[4] = {*x}, out[MX_MAX_OUTPUTS];
    for (int i = 0; i < n_more; i++)
        inputs[1 + i] = more[i];
    mxw_status status = plain_run(op, attrs, inputs, 1 + n_more, out);
    if (status < 0)
        return status;
    if (*made)
        free(x->data);
    *x = out[0];
    *made = 1;
    return MXW_OK;
}

static mx_tensor input_or_none(const mx_call *call, const mx_tensor *inputs, int i) {
    return i < call->n_inputs ? inputs[i] : (mx_tensor){0};
}

/* gelu(product(norm(x))) + residual, each part left out where its input is. */
static mxw_status run_product(const mx_call *call, const mx_tensor *inputs, mx_tensor *out) {
    int conv = call->op == MX_OP_FUSED_CONV1D, made = 0;
    const mx_attrs *a = call->attrs;
    int select = call->op == MX_OP_FUSED_SELECT;
    mx_tensor x = inputs[0], residual = select ? (mx_tensor){0} : input_or_none(call, inputs, 3);
    mx_tensor norm[] = {input_or_none(call, inputs, 4), input_or_none(call, inputs, 5)};
    mx_tensor rest[] = {inputs[1], select ? (mx_tensor){0} : input_or_none(call, inputs, 2)};
    mx_attrs product = {.stride = {a->stride[0], 1}, .pad = {a->pad[0], 0}, .dilation = a->dilation};
    mx_attrs gelu = {.kind = a->act == MX_ACT_GELU_ERF ? MXW_GELU_ERF : MXW_GELU_TANH};
    mxw_status status = MXW_OK;
    if (!conv && norm[0].data)
        status = step(MX_OP_LAYER_NORM, &(mx_attrs){.eps = a->eps}, &x, &made, norm, 2);
    if (status >= 0)
        status = step(conv ? MX_OP_CONV1D : MX_OP_LINEAR, &product, &x, &made, rest, 2);
    if (status >= 0 && !select && a->act != MX_ACT_NONE)
        status = step(MX_OP_GELU, &gelu, &x, &made, NULL, 0);
    if (status >= 0 && residual.data)
        status = step(MX_OP_ADD, &(mx_attrs){0}, &x, &made, &residual, 1);
    *out = x;
    if (status < 0 && made)
        free(x.data);
    return status;
}

static mxw_status run_fused(const mx_call *call, const mx_tensor *inputs, const mx_tensor *outputs) {
    mx_tensor made[MX_MAX_OUTPUTS] = {{0}};
    mxw_status status = run_product(call, inputs, &made[0]);
    if (call->op == MX_OP_FUSED_SELECT && status >= 0) {
        mx_tensor logits = made[0], in[] = {logits, inputs[2], inputs[3]};
        status = plain_run(MX_OP_SELECT, &(mx_attrs){.k = call->attrs->k}, in, 3, made);
        free(logits.data);
    }
    for (int i = 0; i < call->n_outputs && status >= 0; i++) {
        if (made[i].rank != outputs[i].rank || mx_tensor_bytes(&made[i]) != mx_tensor_bytes(&outputs[i]) ||
            memcmp(made[i].dims, outputs[i].dims, (size_t)made[i].rank * sizeof(int64_t)) != 0)
            status = refuse(call, "another shape than its pattern's: output", i);
        else
            memcpy(outputs[i].data, made[i].data, mx_tensor_bytes(&made[i]));
    }
    for (int i = 0; i < call->n_outputs; i++)
        free(made[i].data);
    return status;
}

static int is_fused(mx_op op) { return (int)op >= (int)MX_OP_PLAIN_COUNT; }

static mxw_status perform(const mx_device *device, const mx_call *call, const mx_tensor *inputs, mx_tensor *outputs) {
    const mx_device *cpu = mx_device_at(0);
    for (int i = 0; i < call->n_outputs && call->op != MX_OP_STATE_WRITE; i++)
        memset(outputs[i].data, 0xff, mx_tensor_bytes(&outputs[i]));
    pattern_seen.ops[call->op]++;
    if (is_fused(call->op))
        return run_fused(call, inputs, outputs);
    mx_call here = *call;
    here.inputs = inputs;
    here.outputs = outputs;
    here.host = NULL;
    here.compiled = 0;
    here.scratch = host_of(device, call->scratch);
    return cpu->run_op(cpu, &here);
}

static mxw_status pattern_run_op(const mx_device *device, const mx_call *call) {
    mx_tensor inputs[MX_MAX_INPUTS], outputs[MX_MAX_OUTPUTS];
    void *owned[MX_MAX_INPUTS] = {0};
    mxw_status status = check_outputs(device, call, outputs);
    if (status >= 0 && !states_agree(call))
        status = refuse(call, "states of more than one type", 0);
    for (int i = 0; i < call->n_inputs && status >= 0; i++)
        status = make_plain(device, call, i, &inputs[i], &owned[i]);
    if (status >= 0 && call->scratch && !is_ours(device, call->scratch))
        status = refuse(call, "scratch elsewhere than in the device's memory", 0);
    mx_tensor state = outputs[0];
    int narrow = status >= 0 && call->op == MX_OP_STATE_WRITE && inputs[0].dtype == MXW_F32 && state.dtype != MXW_F32;
    if (narrow)
        outputs[0] = inputs[0];
    if (status >= 0)
        status = perform(device, call, inputs, outputs);
    if (narrow && status >= 0)
        narrow_state(&outputs[0], &state);
    for (int i = 0; i < call->n_inputs; i++)
        free(owned[i]);
    return status;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void *pattern_alloc(const mx_device *device, size_t bytes) {
    const mx_device *memory = device->host_memory ? mx_device_at(0) : fake_device();
    void *block = memory->alloc(memory, bytes);
    if (block)
        memset(host_of(device, block), 0xff, bytes);
    return block;
}

static void pattern_free(const mx_device *device, void *block) {
    const mx_device *memory = device->host_memory ? mx_device_at(0) : fake_device();
    memory->free(memory, block);
}

static mxw_status pattern_upload(const mx_device *device, void *to, const void *from, size_t bytes) {
    const mx_device *memory = device->host_memory ? mx_device_at(0) : fake_device();
    return memory->upload(memory, to, from, bytes);
}

static mxw_status pattern_download(const mx_device *device, void *to, const void *from, size_t bytes) {
    const mx_device *memory = device->host_memory ? mx_device_at(0) : fake_device();
    return memory->download(memory, to, from, bytes);
}

static mxw_status pattern_clear(const mx_device *device, void *to, size_t bytes) {
    const mx_device *memory = device->host_memory ? mx_device_at(0) : fake_device();
    return memory->clear(memory, to, bytes);
}

static int pattern_supports(const mx_device *device, mx_op op) { return (size_t)op < MX_OP_COUNT; }
static const char *pattern_kernel(const mx_device *device, const mx_call *call) {
    return is_fused(call->op) ? "pattern" : "plain";
}

static size_t pattern_scratch_bytes(const mx_device *device, const mx_call *call) {
    const mx_device *cpu = mx_device_at(0);
    mx_call plain = *call;
    plain.compiled = 0;
    return is_fused(call->op) ? 0 : cpu->scratch_bytes(cpu, &plain);
}

/* It computes with f16 and f8 as it does exactly, but refuses a weight that was packed for another (make_plain). */
static int pattern_supports_precision(const mx_device *device, mxw_precision precision) {
    return precision != MXW_PRECISION_INT8;
}

#define TABLE                                                                                                          \
    .alloc = pattern_alloc, .free = pattern_free, .upload = pattern_upload, .download = pattern_download,              \
    .clear = pattern_clear, .supports = pattern_supports, .strided = pattern_strided, .form = pattern_form,            \
    .packing = pattern_packing, .pack = pattern_pack, .kernel = pattern_kernel,                                        \
    .supports_precision = pattern_supports_precision, .state_dtype = pattern_state_dtype,                              \
    .scratch_bytes = pattern_scratch_bytes, .run_op = pattern_run_op

static const mx_device pattern = {
    .info = {.id = "pattern", .kind = "pattern", .description = "fused ops by their patterns, memory of its own",
             .features = "", .usable = 1, .reason = "for tests"},
    TABLE,
};
static const mx_device pattern_near = {
    .info = {.id = "pattern-near", .kind = "pattern", .description = "fused ops by their patterns, the host's memory",
             .features = "", .usable = 1, .reason = "for tests"},
    .host_memory = 1,
    TABLE,
};

const mx_device *pattern_device(void) { return &pattern; }
const mx_device *pattern_near_device(void) { return &pattern_near; }
