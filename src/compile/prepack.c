/* compile/prepack.c - converts constant inputs, once, to the form that each op wants: in place, f32, raw, packed. A
 * quantized weight that the device does not take as it is is widened for that long: one constant to a thread. */
#include "compile/rewrite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* The views behind a constant value: a weight, a constant, or each of a stack. */
typedef struct sources {
    mx_tensor items[MX_MAX_INPUTS];
    int n;
} sources;

static mxw_status find_leaf(const mx_graph *g, mx_value value, const mx_weight_source *weights, mx_tensor *out) {
    const mx_value_info *info = &g->values[value];
    if (info->kind == MX_WEIGHT)
        return mx_graph_resolve(g, value, weights, out);
    *out = mx_tensor_of_const(info->type.dtype, info->type.rank, info->type.dims, info->data);
    return MXW_OK;
}

static mxw_status find_sources(const mx_graph *g, mx_value value, const mx_weight_source *weights, sources *out) {
    mxw_status status = MXW_OK;
    const mx_node *stack = g->values[value].kind == MX_RESULT ? &g->nodes[g->values[value].node] : NULL;
    out->n = stack ? stack->n_inputs : 1;
    for (int i = 0; i < out->n && status >= 0; i++)
        status = find_leaf(g, stack ? stack->inputs[i] : value, weights, &out->items[i]);
    return status;
}

static int usable_in_place(const mx_device *device, const sources *from, size_t align) {
    const mx_tensor *t = &from->items[0];
    return device->host_memory && from->n == 1 && t->layout == MX_LAYOUT_DENSE && mx_tensor_contiguous(t) &&
           (uintptr_t)t->data % align == 0;
}

/* Copies the stacked elements into host memory, widened to f32 or as they are. */
static mxw_status gather_elements(const sources *from, mxw_dtype dtype, char *to) {
    mxw_status status = MXW_OK;
    for (int i = 0; i < from->n && status >= 0; i++) {
        const mx_tensor *t = &from->items[i];
        if (t->dtype == dtype)
            mx_tensor_pack(t, to);
        else
            status = mx_tensor_to_f32(t, (float *)(void *)to);
        to += (size_t)mx_tensor_count(t) * mx_dtype_bytes(dtype);
    }
    return status;
}

#define WIDENED_THERE ((size_t)1 << 20)   /* bytes of f32 from which the device's own conversion pays off */

static int is_widened_there(const mx_device *device, const sources *from, mxw_dtype dtype, size_t bytes) {
    const mx_tensor *t = &from->items[0];
    return device->upload_f32 && dtype == MXW_F32 && bytes >= WIDENED_THERE && from->n == 1 &&
           mx_tensor_contiguous(t) && (t->dtype == MXW_F16 || t->dtype == MXW_BF16);
}

/* Fills a block of the device with the elements in the tensor's dtype, row major. */
static mxw_status copy_elements(const mx_device *device, const mx_tensor *to, const sources *from) {
    size_t bytes = MX_MAX(mx_tensor_bytes(to), 1);
    if (device->host_memory)
        return gather_elements(from, to->dtype, to->data);
    if (is_widened_there(device, from, to->dtype, bytes))
        return device->upload_f32(device, to->data, &from->items[0]);
    char *host = mx_alloc(bytes);
    mxw_status status = host ? gather_elements(from, to->dtype, host) : MXW_E_MEMORY;
    if (status >= 0)
        status = device->upload(device, to->data, host, bytes);
    mx_free(host);
    return status;
}

static mxw_dtype raw_dtype(const sources *from) {
    mxw_dtype dtype = from->items[0].dtype;
    for (int i = 0; i < from->n; i++)
        if (from->items[i].dtype != dtype)
            dtype = MXW_F32;
    return dtype == MXW_F16 || dtype == MXW_BF16 ? dtype : MXW_F32;
}

static int any_quantized(const sources *from) {
    int any = 0;
    for (int i = 0; i < from->n; i++)
        any |= from->items[i].layout == MX_LAYOUT_QUANTIZED;
    return any;
}

/* The quantized ones in f32 instead, in memory that the caller frees, also after a failure. */
static mxw_status widen(sources *from, float **out) {
    size_t n = 0;
    mxw_status status = MXW_OK;
    for (int i = 0; i < from->n; i++)
        n += (size_t)mx_tensor_count(&from->items[i]);
    float *to = *out = mx_alloc_array(n, sizeof(*to));
    for (int i = 0; to && i < from->n && status >= 0; i++) {
        mx_tensor *t = &from->items[i];
        if (t->layout != MX_LAYOUT_QUANTIZED)
            continue;
        status = mx_tensor_to_f32(t, to);
        t->layout = MX_LAYOUT_DENSE;
        t->data = to;
        to += mx_tensor_count(t);
    }
    return to ? status : MXW_E_MEMORY;
}

/* Whether two values, each of its own graph, are the same weight, or the same weights stacked. */
static int same_weights(const mx_graph *g, mx_value a, const mx_graph *h, mx_value b) {
    const mx_value_info *of_a = &g->values[a], *of_b = &h->values[b];
    if (of_a->kind != of_b->kind)
        return 0;
    if (of_a->kind == MX_WEIGHT)
        return strcmp(of_a->name, of_b->name) == 0;
    if (of_a->kind != MX_RESULT)
        return 0;
    const mx_node *stack_a = &g->nodes[of_a->node], *stack_b = &h->nodes[of_b->node];
    int same = stack_a->n_inputs == stack_b->n_inputs;
    for (int i = 0; i < stack_a->n_inputs && same; i++)
        same = same_weights(g, stack_a->inputs[i], h, stack_b->inputs[i]);
    return same;
}

static int same_form(const mx_constant *a, const mx_constant *b) {
    const mx_packing *x = &a->tensor.packing, *y = &b->tensor.packing;
    return a->form == b->form && (a->form != MX_FORM_PACKED || (a->op == b->op && a->input == b->input &&
                                                                x->format == y->format && x->bytes == y->bytes));
}

/* The same constant of another plan, or NULL. */
static const mx_constant *find_like(const mx_plan *plan, const mx_constant *c, const mx_plan *like) {
    for (size_t i = 0; like && i < like->n_constants; i++)
        if (same_form(&like->constants[i], c) &&
            same_weights(plan->graph, c->value, like->graph, like->constants[i].value))
            return &like->constants[i];
    return NULL;
}

/* mx_weight_use.entry_rows of a weight that the node reads beside its input 0. */
static int64_t entry_rows_of(const mx_graph *g, const mx_node *node) {
    const mx_type *x = &g->values[node->inputs[0]].type;
    int64_t rows = 1;
    for (int i = 1; i < x->rank - 1; i++)
        if (__builtin_mul_overflow(rows, MX_MAX(x->dims[i], 1), &rows))
            return INT64_MAX;
    return rows;
}

/* What the device wants, without data. */
static mx_constant describe(const mx_plan *plan, mx_value value, const mx_weight_use *use) {
    const mx_device *device = plan->device;
    const mx_type *type = &plan->graph->values[value].type;
    mx_constant c = {.value = value, .op = use->op, .input = use->input};
    c.form = type->dtype == MXW_F32 ? device->form(device, use) : MX_FORM_F32;
    c.tensor = mx_tensor_of(type->dtype, type->rank, type->dims, NULL);
    if (c.form == MX_FORM_PACKED) {
        c.tensor.layout = MX_LAYOUT_PACKED;
        c.tensor.packing = device->packing(device, use);
    }
    return c;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

#define BLOCK_ALIGN 256   /* as a GPU's own blocks have; device.h promises 64, which packed panels need */

/* A constant of the plan that has to be loaded. */
typedef struct pending {
    size_t constant;
    mx_weight_use use;
    sources from;
    size_t offset;           /* in the plan's block */
} pending;

typedef struct loading {
    mx_plan *plan;
    const mx_weight_source *weights;
    const mx_plan *like;
    mx_pool *pool;
    pending *items;
    size_t n, room;
    size_t bytes;            /* of the plan's block */
    pthread_mutex_t lock;    /* of the failure: that of the first item, whichever thread has it */
    atomic_llong failed;     /* its index; n: none */
    mxw_status status;
    char line[512];
} loading;

/* Sets the tensor of a constant that is not packed, and its data if a source is used in place. */
static void settle(const mx_device *device, mx_constant *c, const sources *from) {
    mxw_dtype dtype = c->form == MX_FORM_RAW ? raw_dtype(from) : c->tensor.dtype;
    size_t align = c->form == MX_FORM_RAW ? 1 : 64;   /* a name of odd length puts what follows at an odd address */
    int in_place = from->items[0].dtype == dtype && usable_in_place(device, from, align);
    c->tensor = mx_tensor_of(dtype, c->tensor.rank, c->tensor.dims, in_place ? from->items[0].data : NULL);
}

/* The constant of that value and form, added if there is none yet; what has to be loaded gets its place. */
static mxw_status constant_for(loading *l, const mx_node *node, int input, int32_t *index) {
    mx_plan *plan = l->plan;
    mx_value value = node->inputs[input];
    mxw_status status = mx_grow(&l->items, &l->room, l->n + 1, sizeof(*l->items));
    if (status >= 0)
        status = mx_grow(&plan->constants, &plan->room_constants, plan->n_constants + 1, sizeof(*plan->constants));
    if (status < 0)
        return status;
    pending *item = &l->items[l->n];
    status = find_sources(plan->graph, value, l->weights, &item->from);
    if (status < 0)
        return status;
    item->use = (mx_weight_use){node->op, &node->attrs, input, item->from.items, item->from.n, plan->precision,
                                entry_rows_of(plan->graph, node)};
    mx_constant c = describe(plan, value, &item->use);
    for (size_t i = 0; i < plan->n_constants; i++) {
        if (plan->constants[i].value == value && same_form(&plan->constants[i], &c)) {
            *index = (int32_t)i;
            return MXW_OK;
        }
    }
    const mx_constant *lent = find_like(plan, &c, l->like);
    if (lent)
        c.tensor = lent->tensor;
    else if (c.form != MX_FORM_PACKED)
        settle(plan->device, &c, &item->from);
    if (!c.tensor.data) {
        size_t bytes = c.form == MX_FORM_PACKED ? c.tensor.packing.bytes : mx_tensor_bytes(&c.tensor);
        item->constant = plan->n_constants;
        item->offset = l->bytes;
        l->bytes += (MX_MAX(bytes, 1) + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
        l->n++;
    }
    plan->constants[plan->n_constants] = c;
    *index = (int32_t)plan->n_constants++;
    return MXW_OK;
}

static mxw_status find_constants(loading *l) {
    mx_plan *plan = l->plan;
    const mx_graph *g = plan->graph;
    mxw_status status = MXW_OK;
    plan->inputs = mx_arena_alloc(&plan->memory, MX_MAX(g->n_nodes, 1) * sizeof(*plan->inputs));
    if (!plan->inputs)
        return MXW_E_MEMORY;
    for (size_t n = 0; n < g->n_nodes && status >= 0; n++) {
        const mx_node *node = &g->nodes[n];
        plan->inputs[n] = mx_arena_alloc(&plan->memory, (size_t)node->n_inputs * sizeof(**plan->inputs));
        if (!plan->inputs[n])
            return MXW_E_MEMORY;
        int made_at_load = plan->placements[node->outputs[0]].home == MX_HOME_NONE;
        for (int i = 0; i < node->n_inputs && status >= 0; i++) {
            plan->inputs[n][i] = -1;
            if (!made_at_load && node->inputs[i] && mx_plan_is_constant(g, node->inputs[i], plan->keep_names))
                status = constant_for(l, node, i, &plan->inputs[n][i]);
        }
    }
    return status;
}

/* Fails unless the device wants what it said it would, and there is room for. */
static mxw_status check_packing(const mx_device *device, const mx_constant *c, const mx_weight_use *use) {
    const mx_packing *said = &c->tensor.packing;
    if (device->form(device, use) == MX_FORM_PACKED) {
        const mx_packing now = device->packing(device, use);
        if (now.bytes == said->bytes && now.format == said->format)
            return MXW_OK;
    }
    return mx_fail(MXW_E_INTERNAL,
                   "%s: the device would pack the weight at input %d in another layout now than it announced",
                   mx_op_name(use->op), use->input);
}

static mxw_status load_one(const loading *l, int64_t i) {
    const mx_device *device = l->plan->device;
    pending *item = &l->items[i];
    mx_constant *c = &l->plan->constants[item->constant];
    float *widened = NULL;
    mxw_status status = MXW_OK;
    item->use.sources = item->from.items;   /* the items may have moved since */
    c->block = c->tensor.data = (char *)l->plan->block + item->offset;
    if (any_quantized(&item->from) && !(device->takes_quantized && device->takes_quantized(device, &item->use)))
        status = widen(&item->from, &widened);
    if (status >= 0 && c->form == MX_FORM_PACKED)
        status = check_packing(device, c, &item->use);
    if (status >= 0)
        status = c->form == MX_FORM_PACKED ? device->pack(device, &item->use, c->block, l->pool)
                                           : copy_elements(device, &c->tensor, &item->from);
    mx_free(widened);
    return status;
}

/* The failure that counts is the first one in order, so those after a known one need not be loaded any more. */
static void load_item(void *context, int64_t i) {
    loading *l = context;
    if (i > atomic_load_explicit(&l->failed, memory_order_relaxed))
        return;
    mxw_status status = load_one(l, i);
    if (status >= 0)
        return;
    pthread_mutex_lock(&l->lock);
    if (i < l->failed) {
        l->failed = i;
        l->status = status;
        snprintf(l->line, sizeof(l->line), "%s", mx_error());
    }
    pthread_mutex_unlock(&l->lock);
}

/* In host memory side by side: many weights are too small to keep all threads busy. A device takes them in order. */
static mxw_status load_all(loading *l) {
    mx_plan *plan = l->plan;
    mxw_status status = mx_device_take(plan->device, l->bytes, &plan->block, "weights of graph %s", plan->graph->name);
    if (status < 0)
        return status;
    if (!plan->device->host_memory) {
        for (size_t i = 0; i < l->n && status >= 0; i++)
            status = load_one(l, (int64_t)i);
        return status;
    }
    atomic_store(&l->failed, (long long)l->n);
    mx_pool_for(l->pool, (int64_t)l->n, load_item, l);
    return l->status < 0 ? mx_fail(l->status, "%s", l->line) : MXW_OK;
}

mxw_status mx_plan_load(mx_plan *plan, const mx_weight_source *weights, const mx_plan *like, mx_pool *pool) {
    loading l = {.plan = plan, .weights = weights, .like = like, .pool = pool};
    pthread_mutex_init(&l.lock, NULL);
    mxw_status status = find_constants(&l);
    if (status >= 0 && l.n)
        status = load_all(&l);
    pthread_mutex_destroy(&l.lock);
    mx_free(l.items);
    return status;
}
