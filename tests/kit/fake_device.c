/* fake_device.c - see fake_device.h. A device pointer is a host pointer with a bit that no address of a process has. */
#include "kit/fake_device.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define FAR ((uintptr_t)1 << 62)
#define FRESH 0xff   /* as f32 and f16 a NaN, as an index -1 */

int fake_is_far(const void *p) { return ((uintptr_t)p & FAR) != 0; }
static void *far_of(void *p) { return p ? (void *)((uintptr_t)p | FAR) : NULL; }
void *fake_near(const void *p) { return (void *)((uintptr_t)p & ~FAR); }

static const mx_device *cpu(void) {
    const mx_device *device;
    return mx_device_find("cpu", &device) < 0 ? NULL : device;
}

static mxw_status refuse(const char *what) { return mx_fail(MXW_E_INTERNAL, "fake device: %s", what); }

static void *fake_alloc(const mx_device *device, size_t bytes) {
    void *block = mx_alloc(bytes);
    if (block)
        memset(block, FRESH, bytes);
    return far_of(block);
}

static void fake_free(const mx_device *device, void *block) {
    if (block && !fake_is_far(block))
        abort();
    mx_free(fake_near(block));
}

static mxw_status fake_upload(const mx_device *device, void *to, const void *from, size_t bytes) {
    if (bytes && (!fake_is_far(to) || fake_is_far(from)))
        return refuse("upload goes from host memory to the device's");
    if (bytes)
        memcpy(fake_near(to), from, bytes);
    return MXW_OK;
}

static mxw_status fake_download(const mx_device *device, void *to, const void *from, size_t bytes) {
    if (bytes && (fake_is_far(to) || !fake_is_far(from)))
        return refuse("download goes from the device's memory to the host's");
    if (bytes)
        memcpy(to, fake_near(from), bytes);
    return MXW_OK;
}

static mxw_status fake_clear(const mx_device *device, void *to, size_t bytes) {
    if (bytes && !fake_is_far(to))
        return refuse("clear takes device memory");
    if (bytes)
        memset(fake_near(to), 0, bytes);
    return MXW_OK;
}

static int fake_supports(const mx_device *device, mx_op op) { return op < MX_OP_PLAIN_COUNT; }
static int fake_supports_precision(const mx_device *device, mxw_precision precision) {
    return precision == MXW_PRECISION_EXACT;
}
static int fake_strided(const mx_device *device, mx_op op, int input) { return op == MX_OP_ATTENTION; }
static mx_form fake_form(const mx_device *device, const mx_weight_use *use) { return MX_FORM_F32; }
static mx_packing fake_packing(const mx_device *device, const mx_weight_use *use) { return (mx_packing){0, 0, 0}; }
static mxw_status fake_pack(const mx_device *device, const mx_weight_use *use, void *to, mx_pool *pool) {
    return refuse("nothing has a packed form");
}
static const char *fake_kernel(const mx_device *device, const mx_call *call) { return "plain"; }

static size_t fake_scratch_bytes(const mx_device *device, const mx_call *call) {
    mx_call here = *call;
    here.compiled = 0;
    return cpu()->scratch_bytes(cpu(), &here);
}

/* The bytes that an input is said to have come from are the bytes that it has. */
static int origin_is_true(const mx_call *call, int i, const mx_tensor *here) {
    size_t bytes = call->inputs[i].rank >= 0 ? mx_tensor_bytes(here) : 0;
    return !call->host || !call->host[i] || bytes == 0 || memcmp(call->host[i], here->data, bytes) == 0;
}

/* ---- layouts of its own: f32 with every bit inverted, and some padding ------------------------------------------- */

#define PADDING 64
static int n_laid_out;

int fake_output_layouts(void) { return n_laid_out; }

static size_t fake_output_layout_bytes(const mx_device *device, const mx_call *producer, const mx_call *consumer,
                                       int input, mx_layout *layout) {
    int64_t all = mx_tensor_count(&producer->outputs[0]), read = mx_tensor_count(&consumer->inputs[input]);
    int whole = (producer->op == MX_OP_LINEAR || producer->op == MX_OP_GELU) && consumer->op == MX_OP_LINEAR &&
                input == 0 && read == all;
    int part = producer->op == MX_OP_LINEAR && consumer->op == MX_OP_ATTENTION && read < all;
    *layout = part ? MX_LAYOUT_QKV : MX_LAYOUT_OPERAND;
    return whole || part ? (size_t)all * sizeof(float) + PADDING : 0;
}

/* Layouts that the calls of an op may have: one that was chosen for another call is a mistake of exec. */
static int layout_is_known(const mx_call *call, const mx_tensor *t, int is_input) {
    switch (t->layout) {
    case MX_LAYOUT_DENSE: return 1;
    case MX_LAYOUT_OPERAND:
        return call->compiled && (call->op == MX_OP_LINEAR || (call->op == MX_OP_GELU && !is_input));
    case MX_LAYOUT_QKV:
        return call->compiled && (is_input ? call->op == MX_OP_ATTENTION : call->op == MX_OP_LINEAR);
    default: return 0;
    }
}

static void invert(uint32_t *words, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        words[i] = ~words[i];
}

/* Queries, keys and values as dense copies. They may be strided parts of one value, or all be parts of one in layout
 * QKV: then data is the whole value's address and the offset says where a part begins. */
static mxw_status take_parts(mx_tensor *inputs, float **copies) {
    const mx_tensor first = inputs[0];
    for (int i = 0; i < 3; i++) {
        mx_tensor t = inputs[i];
        int64_t n = mx_tensor_count(&t);
        if (t.layout != first.layout || (t.layout == MX_LAYOUT_QKV && t.data != first.data))
            return refuse("a part in layout QKV without the others");
        copies[i] = malloc((size_t)n * sizeof(float) + 1);   /* not one of those that a test makes fail */
        if (!copies[i])
            return MXW_E_MEMORY;
        if (t.layout == MX_LAYOUT_QKV)
            t.data = (float *)t.data + t.offset;
        mx_tensor_pack(&t, copies[i]);
        if (t.layout == MX_LAYOUT_QKV)
            invert((uint32_t *)copies[i], n);
        inputs[i] = mx_tensor_of(MXW_F32, t.rank, t.dims, copies[i]);
    }
    return MXW_OK;
}

static mxw_status attend_here(mx_call *here, mx_tensor *inputs) {
    float *copies[3] = {NULL, NULL, NULL};
    mxw_status status = take_parts(inputs, copies);
    if (status >= 0)
        status = cpu()->run_op(cpu(), here);
    for (int i = 0; i < 3; i++)
        free(copies[i]);
    return status;
}

/* A call whose tensors are in host memory. */
static mxw_status run_here(const mx_call *call, mx_call *here, mx_tensor *inputs, mx_tensor *outputs) {
    mxw_status status;
    int64_t n_in = mx_tensor_count(&inputs[0]), n_out = mx_tensor_count(&outputs[0]);
    uint32_t *copy = NULL;
    if (inputs[0].layout != MX_LAYOUT_DENSE) {
        copy = malloc((size_t)n_in * sizeof(*copy) + 1);   /* not one of those that a test makes fail */
        if (!copy)
            return MXW_E_MEMORY;
        memcpy(copy, inputs[0].data, (size_t)n_in * sizeof(*copy));
        invert(copy, n_in);
        inputs[0].data = copy;
        inputs[0].layout = MX_LAYOUT_DENSE;
    }
    outputs[0].layout = MX_LAYOUT_DENSE;
    status = cpu()->run_op(cpu(), here);
    if (status >= 0 && call->outputs[0].layout != MX_LAYOUT_DENSE) {
        invert(outputs[0].data, n_out);
        memset((char *)outputs[0].data + (size_t)n_out * sizeof(float), 0, PADDING);
        n_laid_out++;
    }
    free(copy);
    return status;
}

static mxw_status fake_run_op(const mx_device *device, const mx_call *call) {
    mx_tensor inputs[MX_MAX_INPUTS], outputs[MX_MAX_OUTPUTS];
    mx_call here = *call;
    for (int i = 0; i < call->n_inputs; i++) {
        inputs[i] = call->inputs[i];
        if (inputs[i].data && !fake_is_far(inputs[i].data))
            return refuse("an input lies in host memory");
        if (!layout_is_known(call, &inputs[i], 1))
            return refuse("an input has a layout that the op cannot read");
        inputs[i].data = fake_near(inputs[i].data);
        if (!origin_is_true(call, i, &inputs[i]))
            return refuse("an input is not what it is said to have come from");
    }
    for (int i = 0; i < call->n_outputs; i++) {
        outputs[i] = call->outputs[i];
        if (!fake_is_far(outputs[i].data))
            return refuse("an output lies in host memory");
        if (!layout_is_known(call, &outputs[i], 0))
            return refuse("an output has a layout that the op cannot write");
        outputs[i].data = fake_near(outputs[i].data);
    }
    if (call->scratch && !fake_is_far(call->scratch))
        return refuse("scratch lies in host memory");
    here.inputs = inputs;
    here.outputs = outputs;
    here.host = NULL;
    here.compiled = 0;
    here.scratch = fake_near(call->scratch);
    return call->op == MX_OP_ATTENTION ? attend_here(&here, inputs) : run_here(call, &here, inputs, outputs);
}

/* ---- captured calls ---------------------------------------------------------------------------------------------- */

typedef struct tape {
    mx_capture shared;
    size_t in_bytes, out_bytes, n;
    mx_call *calls;        /* of its own, with all that they point to */
    int asked;             /* how often done() was called since the last launch */
} tape;

static fake_counts counts;
static int refuses;

fake_counts fake_captures(void) { return counts; }
void fake_refuse_capture(int refuse) { refuses = refuse; }

static void tape_close(const mx_device *device, mx_capture *capture) {
    tape *t = (tape *)capture;
    if (!t)
        return;
    for (size_t i = 0; t->calls && i < t->n; i++) {
        mx_free((void *)(uintptr_t)t->calls[i].attrs);
        mx_free((void *)(uintptr_t)t->calls[i].inputs);
        mx_free(t->calls[i].outputs);
    }
    mx_free(t->calls);
    mx_free(t->shared.in_host);
    mx_free(t->shared.out_host);
    device->free(device, t->shared.in);
    device->free(device, t->shared.out);
    mx_free(t);
    counts.open--;
}

static mxw_status tape_open(const mx_device *device, size_t in_bytes, size_t out_bytes, mx_capture **capture) {
    tape *t = mx_alloc_zero(1, sizeof(*t));
    if (!t)
        return MXW_E_MEMORY;
    counts.open++;
    *t = (tape){.in_bytes = in_bytes, .out_bytes = out_bytes};
    t->shared = (mx_capture){mx_alloc(in_bytes), mx_alloc(out_bytes), device->alloc(device, in_bytes),
                               device->alloc(device, out_bytes)};
    if (!t->shared.in_host || !t->shared.out_host || !t->shared.in || !t->shared.out) {
        tape_close(device, &t->shared);
        return MXW_E_MEMORY;
    }
    *capture = &t->shared;
    return MXW_OK;
}

static void *copy_of_bytes(const void *from, size_t bytes) {
    void *copy = mx_alloc(bytes);
    if (copy && bytes)
        memcpy(copy, from, bytes);
    return copy;
}

static mxw_status tape_capture(const mx_device *device, mx_capture *capture, const mx_call *const *calls,
                              size_t n) {
    tape *t = (tape *)capture;
    if (refuses)
        return refuse("told to refuse captures");
    t->calls = mx_alloc_zero(n, sizeof(*t->calls));
    if (!t->calls)
        return MXW_E_MEMORY;
    for (; t->n < n; t->n++) {
        mx_call *to = &t->calls[t->n];
        *to = *calls[t->n];
        to->host = NULL;
        to->attrs = copy_of_bytes(to->attrs, sizeof(*to->attrs));
        to->inputs = copy_of_bytes(to->inputs, (size_t)to->n_inputs * sizeof(*to->inputs));
        to->outputs = copy_of_bytes(to->outputs, (size_t)to->n_outputs * sizeof(*to->outputs));
        if (!to->attrs || !to->inputs || !to->outputs) {
            t->n++;
            return MXW_E_MEMORY;
        }
    }
    counts.captured++;
    return MXW_OK;
}

/* Results that are read before wait() look like fresh memory. */
static mxw_status tape_launch(const mx_device *device, mx_capture *capture) {
    tape *t = (tape *)capture;
    mxw_status status = device->upload(device, t->shared.in, t->shared.in_host, t->in_bytes);
    memset(t->shared.in_host, FRESH, t->in_bytes);
    memset(t->shared.out_host, FRESH, t->out_bytes);
    for (size_t i = 0; i < t->n && status >= 0; i++)
        status = device->run_op(device, &t->calls[i]);
    counts.launched++;
    t->asked = 0;
    return status;
}

/* Not at once, so that callers that have other work to do meanwhile get to do it. */
static int tape_done(const mx_device *device, const mx_capture *capture) {
    tape *t = (tape *)(uintptr_t)capture;
    return t->asked++ > 20;
}

static mxw_status tape_wait(const mx_device *device, mx_capture *capture) {
    tape *t = (tape *)capture;
    return device->download(device, t->shared.out_host, t->shared.out, t->out_bytes);
}

/* Rows by index; the rest, as the CPU checks it, when the op runs. */
static mxw_status tape_check(const mx_device *device, const mx_call *call) {
    for (int i = 0; i < call->n_inputs; i++)
        if (call->inputs[i].data && call->inputs[i].dtype == MXW_I32 && mx_tensor_bytes(&call->inputs[i]) &&
            !(call->host && call->host[i]))
            return refuse("an index to be checked is not in host memory");
    if (call->op != MX_OP_GATHER && call->op != MX_OP_STATE_WRITE)
        return MXW_OK;
    int at = call->op == MX_OP_GATHER ? 1 : 2;
    const int32_t *index = call->host[at];
    for (int64_t i = 0; i < mx_tensor_count(&call->inputs[at]); i++)
        if (index[i] < 0 || index[i] >= call->inputs[0].dims[0])
            return mx_fail(MXW_E_ARGUMENT, "%s: index[%d] is %d: expected 0 to %d", mx_op_name(call->op), (int)i,
                           (int)index[i], (int)call->inputs[0].dims[0] - 1);
    return MXW_OK;
}

static const mx_device_capture tapes = {tape_open, tape_capture, tape_launch, tape_wait, tape_close, tape_check,
                                       tape_done};

static const mx_device fake = {
    .info = {.id = "fake", .kind = "fake", .description = "the CPU behind far pointers", .features = "",
             .usable = 1, .reason = "for tests"},
    .alloc = fake_alloc,
    .free = fake_free,
    .upload = fake_upload,
    .download = fake_download,
    .clear = fake_clear,
    .supports = fake_supports,
    .supports_precision = fake_supports_precision,
    .strided = fake_strided,
    .form = fake_form,
    .packing = fake_packing,
    .pack = fake_pack,
    .kernel = fake_kernel,
    .scratch_bytes = fake_scratch_bytes,
    .output_layout_bytes = fake_output_layout_bytes,
    .run_op = fake_run_op,
    .capture = &tapes,
};

const mx_device *fake_device(void) { return &fake; }
