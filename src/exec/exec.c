/* exec/exec.c - programs: the choice of engine and device, and a graph with its weights loaded on the device. */
#include "exec/exec.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/program.h"

/* "auto" takes a usable GPU; without one the reason is logged. */
static mxw_status choose_for_max(const char *id, const mx_device **out) {
    const mx_device *gpu;
    mxw_status status = mx_device_find(id, out);
    if (status >= 0 && strcmp(id, "auto") == 0 && mx_device_is_cpu(*out) &&
        mx_device_find("cuda", &gpu) < 0)
        mx_log(MXW_LOG_INFO, "exec", "engine max runs on the CPU: %s", mx_error());
    return status;
}

static mxw_status choose_device(const mx_program_options *options, const mx_device **out) {
    const char *id = options->device ? options->device : "auto";
    mxw_status status;
    switch (options->engine) {
    case MXW_ENGINE_CPU:
        status = mx_device_find(strcmp(id, "auto") == 0 ? "cpu" : id, out);
        if (status >= 0 && !mx_device_is_cpu(*out))
            return mx_fail(MXW_E_ARGUMENT, "engine cpu runs on device cpu, not on %s", (*out)->info.id);
        return status;
    case MXW_ENGINE_GPU:
        if (strcmp(id, "cpu") == 0)
            return mx_fail(MXW_E_ARGUMENT, "engine gpu runs on a CUDA device, not on cpu");
        status = mx_device_find(strcmp(id, "auto") == 0 ? "cuda" : id, out);
        if (status >= 0 && (*out)->check_eager)
            status = (*out)->check_eager(*out);
        return status < 0 ? mx_fail_in(status, "engine gpu needs a CUDA device") : status;
    case MXW_ENGINE_MAX: return choose_for_max(id, out);
    }
    return mx_fail(MXW_E_ARGUMENT, "engine %d is unknown: expected cpu, gpu or max", (int)options->engine);
}

static void *open_device(void *context) {
    const mx_device *device = context;
    device->open(device);
    return NULL;
}

void mx_exec_open_device(const mx_program_options *options, void (*meanwhile)(void *context), void *context) {
    const mx_device *device;
    pthread_t opener;
    if (choose_device(options, &device) < 0 || device->host_memory || !device->open)
        return;
    int started = !pthread_create(&opener, NULL, open_device, (void *)(uintptr_t)device);
    meanwhile(context);
    if (started)
        pthread_join(opener, NULL);
}

static const char *expected_device(mxw_precision precision) {
    switch (precision) {
    case MXW_PRECISION_INT8: return ": expected device cpu or a GPU of compute capability 9.0";
    case MXW_PRECISION_F8: return ": expected a GPU of compute capability 9.0";
    default: return "";
    }
}

/* Eager engines always compute exactly; for compiled calls the device decides. */
static mxw_status check_precision(const mx_program_options *options, const mx_device *device) {
    const char *name = mx_precision_name(options->precision);
    if (options->precision == MXW_PRECISION_EXACT)
        return MXW_OK;
    if (options->engine != MXW_ENGINE_MAX)
        return mx_fail(MXW_E_UNSUPPORTED, "precision %s is not supported by engine %s: expected engine max", name,
                       options->engine == MXW_ENGINE_CPU ? "cpu" : "gpu");
    mxw_status status = device->open ? device->open(device) : MXW_OK;
    if (status >= 0 && !device->supports_precision(device, options->precision))
        return mx_fail(MXW_E_UNSUPPORTED, "precision %s is not supported by device %s%s", name, device->info.id,
                       expected_device(options->precision));
    return status;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static int usable_in_place(const mx_program *p, const mx_tensor *t) {
    return p->device->host_memory && t->layout == MX_LAYOUT_DENSE && t->dtype == MXW_F32 && mx_tensor_contiguous(t) &&
           (uintptr_t)t->data % 64 == 0;
}

/* Allocates a leaf's memory, owned by the program. */
static mxw_status take_leaf(mx_program *p, mx_value value, size_t bytes) {
    const char *name = p->graph->values[value].name;
    mxw_status status = mx_device_take(p->device, MX_MAX(bytes, 1), &p->leaves[value], "graph %s, %s", p->graph->name,
                                       name ? name : "a constant");
    p->owned[value] = status >= 0;
    return status;
}

/* The same, then uploads its bytes. */
static mxw_status keep(mx_program *p, mx_value value, const void *bytes, size_t n) {
    mxw_status status = take_leaf(p, value, n);
    return status < 0 ? status : p->device->upload(p->device, p->leaves[value], bytes, n);
}

/* The address of the same weight in another program, or NULL. */
static void *find_like(const mx_program *like, const char *name) {
    mx_value value = like ? mx_graph_find_leaf(like->graph, MX_WEIGHT, name) : -1;
    return value < 0 ? NULL : like->leaves[value];
}

static mxw_status load_weight(mx_program *p, mx_value value, const mx_program_options *options) {
    mx_tensor found = {0};
    mxw_status status = mx_graph_resolve(p->graph, value, options->weights, &found);
    if (status < 0)
        return status;
    if (usable_in_place(p, &found)) {
        p->leaves[value] = found.data;
        return MXW_OK;
    }
    p->leaves[value] = find_like(options->like, p->graph->values[value].name);
    if (p->leaves[value])
        return MXW_OK;
    size_t bytes = (size_t)mx_tensor_count(&found) * sizeof(float);
    if (p->device->host_memory) {
        status = take_leaf(p, value, bytes);
        return status < 0 ? status : mx_tensor_to_f32(&found, p->leaves[value]);
    }
    float *wide = mx_alloc(bytes);
    if (!wide)
        return MXW_E_MEMORY;
    status = mx_tensor_to_f32(&found, wide);
    if (status >= 0)
        status = keep(p, value, wide, bytes);
    mx_free(wide);
    return status;
}

static mxw_status load_leaf(mx_program *p, mx_value value, const mx_program_options *options) {
    const mx_value_info *info = &p->graph->values[value];
    if (info->kind == MX_WEIGHT)
        return load_weight(p, value, options);
    if (info->kind != MX_CONSTANT || p->leaves[value])
        return MXW_OK;
    if (p->device->host_memory) {
        memcpy(&p->leaves[value], &info->data, sizeof(void *));   /* read only: nothing writes to a leaf */
        return MXW_OK;
    }
    return keep(p, value, info->data, (size_t)mx_type_count(&info->type) * mx_dtype_bytes(info->type.dtype));
}

/* What the plan itself keeps in memory: not what it borrows or reads in the file. */
static size_t kept_bytes(const mx_plan *plan) {
    size_t bytes = 0;
    for (size_t i = 0; i < plan->n_constants; i++) {
        const mx_tensor *t = &plan->constants[i].tensor;
        if (plan->constants[i].block)
            bytes += t->layout == MX_LAYOUT_PACKED ? t->packing.bytes : mx_tensor_bytes(t);
    }
    return bytes;
}

/* A plan loads the constants that its nodes read; what is left are constants that are graph outputs. */
static mxw_status load_leaves(mx_program *p, const mx_program_options *options) {
    const mx_graph *g = p->graph;
    mxw_status status = MXW_OK;
    for (size_t i = 1; !p->plan && i < g->n_values && status >= 0; i++)
        status = load_leaf(p, (mx_value)i, options);
    for (size_t i = 0; p->plan && i < g->n_outputs && status >= 0; i++)
        if (!p->leaves[g->outputs[i].value])
            status = load_leaf(p, g->outputs[i].value, options);
    if (p->plan && status >= 0)
        status = mx_plan_load(p->plan, options->weights, options->like ? options->like->plan : NULL, p->pool);
    return status;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static void find_last_uses(mx_program *p) {
    const mx_graph *g = p->graph;
    for (size_t n = 0; n < g->n_nodes; n++) {
        for (int i = 0; i < g->nodes[n].n_outputs; i++)
            p->last_use[g->nodes[n].outputs[i]] = (int32_t)n;
        for (int i = 0; i < g->nodes[n].n_inputs; i++)
            p->last_use[g->nodes[n].inputs[i]] = (int32_t)n;
    }
    for (size_t i = 0; i < g->n_outputs; i++)
        p->last_use[g->outputs[i].value] = INT32_MAX;
}

mxw_status mx_exec_load(const mx_graph *g, const mx_program_options *options, mx_program **out) {
    mxw_status status;
    const mx_device *device;
    mx_program *p = NULL;
    *out = NULL;
    if (mx_graph_status(g) < 0)
        return mx_fail(mx_graph_status(g), "graph %s: %s", g->name, mx_graph_error(g));
    MX_TRY(choose_device(options, &device));
    MX_TRY(check_precision(options, device));
    p = mx_alloc_zero(1, sizeof(*p));
    status = MXW_E_MEMORY;
    if (!p)
        goto out;
    p->device = device;
    p->pool = options->pool;
    p->precision = options->precision;
    p->trace = options->trace;
    p->trace_context = options->trace_context;
    int64_t start = mx_now_ns();
    if (options->engine == MXW_ENGINE_MAX) {
        p->source = mx_graph_hold(g);
        MX_TRY(mx_compile(g, &(mx_compile_options){device, options->keep_names, options->precision}, &p->plan));
        g = p->plan->graph;
    }
    g = p->graph = mx_graph_hold(g);
    status = MXW_E_MEMORY;
    p->leaves = mx_alloc_zero(g->n_values, sizeof(*p->leaves));
    p->owned = mx_alloc_zero(g->n_values, sizeof(*p->owned));
    p->last_use = mx_alloc_zero(g->n_values, sizeof(*p->last_use));
    if (!p->leaves || !p->owned || !p->last_use)
        goto out;
    find_last_uses(p);
    mx_log_timed(MXW_LOG_DEBUG, "exec", mx_since_ms(start), "graph %s compiled", g->name);
    start = mx_now_ns();
    MX_TRY(load_leaves(p, options));
    mx_log_timed(MXW_LOG_DEBUG, "exec", mx_since_ms(start), "weights of graph %s loaded", g->name);
    if (p->plan)
        mx_log(MXW_LOG_DEBUG, "exec", "graph %s keeps %zu bytes of weights", g->name, kept_bytes(p->plan));
    *out = p;
    return MXW_OK;
out:
    mx_exec_unload(p);
    return status;
}

void mx_exec_unload(mx_program *program) {
    if (!program)
        return;
    for (size_t i = 0; program->owned && program->leaves && i < program->graph->n_values; i++)
        if (program->owned[i])
            mx_device_give(program->device, program->leaves[i]);
    mx_free(program->leaves);
    mx_free(program->owned);
    mx_free(program->last_use);
    mx_plan_free(program->plan);
    mx_graph_destroy(program->graph);
    mx_graph_destroy(program->source);
    mx_free(program);
}

const char *mx_exec_device(const mx_program *program) { return program->device->info.id; }

int mx_exec_captures(const mx_program *program) { return program->plan && program->device->capture; }
