/* lab/inject.c - injectable faults, one table line each: in the graph, the weights, the mel and the window loop. They
 * are the faults of the old experiment (docs/results/findings.md), so that the tools that should find them can be
 * tested. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "lab/lab.h"
#include "pipeline/fault_hooks.h"

typedef struct fault {
    const char *name, *what;
    mxw_status (*graph)(void *context, mx_part part, mx_graph *g);
    void (*weight)(const char *name, mx_tensor *dense);   /* f32 [..], in place */
    const char *const *weights;                           /* names that it applies to */
    void (*mel)(void *context, int64_t n_frames, int n_mels, float *window);
    int64_t max_windows;
} fault;

/* ---- the mel ----------------------------------------------------------------------------------------------------- */

/* Decibels relative to the loudest, clamped at -80, at a hop of 512: the input of one side of the experiment. Derived
 * from the correct log-mel, whose hop is 160: x = (log10 + 4) / 4. */
static void decibel_mel(void *context, int64_t n_frames, int n_mels, float *window) {
    (void)context;
    float loudest = -1e9f;
    for (int64_t i = 0; i < n_frames * n_mels; i++) {
        window[i] = 10 * (4 * window[i] - 4);
        loudest = fmaxf(loudest, window[i]);
    }
    for (int64_t t = 0; t < n_frames; t++) {
        int64_t from = t * 512 / 160;   /* never before t, so frames can be taken in place */
        for (int m = 0; m < n_mels; m++)
            window[t * n_mels + m] = from < n_frames ? fmaxf(window[from * n_mels + m] - loudest, -80) : -80;
    }
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

static mx_value named(const mx_graph *g, const char *name) {
    for (size_t i = 0; i < g->n_names; i++)
        if (strcmp(g->names[i].name, name) == 0)
            return g->names[i].value;
    return 0;
}

static mx_node *node_of(mx_graph *g, const char *name) {
    mx_value value = named(g, name);
    return value && g->values[value].kind == MX_RESULT ? &g->nodes[g->values[value].node] : NULL;
}

static mxw_status no_last_norm(void *context, mx_part part, mx_graph *g) {
    (void)context;
    mx_node *norm = part == MX_PART_ENCODER ? node_of(g, "encoder.ln_post") : NULL;
    if (!norm)
        return MXW_OK;
    for (size_t i = 0; i < g->n_names; i++)
        if (g->names[i].value == norm->outputs[0])
            g->names[i].value = norm->inputs[0];
    for (size_t i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].value == norm->outputs[0])
            g->outputs[i].value = norm->inputs[0];
    return MXW_OK;
}

/* The first convolution takes every other frame and the second all of them, instead of vice versa: the sizes
 * after both are the same. */
static mxw_status exchange_strides(void *context, mx_part part, mx_graph *g) {
    (void)context;
    mx_node *first = node_of(g, "encoder.conv1"), *second = node_of(g, "encoder.conv2");
    mx_value between = named(g, "encoder.gelu1");
    if (part != MX_PART_ENCODER || !first || !second || !between)
        return MXW_OK;
    int64_t frames = g->values[second->outputs[0]].type.dims[1];
    first->attrs.stride[0] = 2;
    second->attrs.stride[0] = 1;
    g->values[first->outputs[0]].type.dims[1] = g->values[between].type.dims[1] = frames;
    return MXW_OK;
}

static mxw_status tanh_gelu(void *context, mx_part part, mx_graph *g) {
    (void)context;
    (void)part;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == MX_OP_GELU)
            g->nodes[i].attrs.kind = MXW_GELU_TANH;
    return MXW_OK;
}

/* 1 / sqrt(d) instead of 1 / sqrt(d / heads). */
static mxw_status wrong_scale(void *context, mx_part part, mx_graph *g) {
    (void)context;
    (void)part;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == MX_OP_ATTENTION)
            g->nodes[i].attrs.scale /= sqrt((double)MX_MAX(g->nodes[i].attrs.heads, 1));
    return MXW_OK;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static void average_taps(const char *name, mx_tensor *t) {
    (void)name;
    float *w = t->data;
    for (int64_t i = 0; i < mx_tensor_count(t); i += 3) {
        float mean = (w[i] + w[i + 1] + w[i + 2]) / 3;
        w[i] = w[i + 2] = 0;
        w[i + 1] = mean;
    }
}

static void transpose(const char *name, mx_tensor *t) {
    (void)name;
    float *w = t->data;
    int64_t n = MX_MIN(t->dims[0], t->dims[1]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) {
            float x = w[i * t->dims[1] + j];
            w[i * t->dims[1] + j] = w[j * t->dims[1] + i];
            w[j * t->dims[1] + i] = x;
        }
}

/* Random values of the right magnitude. */
static void randomize(const char *name, mx_tensor *t) {
    (void)name;
    float *w = t->data;
    int64_t n = mx_tensor_count(t);
    double squares = 0;
    uint64_t seed = 42;
    for (int64_t i = 0; i < n; i++)
        squares += (double)w[i] * w[i];
    double spread = sqrt(12 * squares / (double)MX_MAX(n, 1));   /* of a uniform distribution with that deviation */
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        w[i] = (float)(((double)(seed >> 11) * 0x1p-53 - 0.5) * spread);
    }
}

static void quarter(const char *name, mx_tensor *t) {
    (void)name;
    for (int64_t i = 0; i < mx_tensor_count(t); i++)
        ((float *)t->data)[i] *= 0.25f;
}

static const char *const conv_weights[] = {"encoder.conv1.weight", "encoder.conv2.weight", NULL};
static const char *const query_weight[] = {"encoder.blocks.0.attn.query.weight", NULL};
static const char *const mlp_weight[] = {"encoder.blocks.0.mlp.0.weight", NULL};
static const char *const last_norm[] = {"encoder.ln_post.weight", "encoder.ln_post.bias", NULL};

static const fault faults[] = {
    {.name = "db-mel", .what = "a mel in decibels at a hop of 512 goes into the encoder", .mel = decibel_mel},
    {.name = "no-ln-post", .what = "the encoder's last norm is left out", .graph = no_last_norm},
    {.name = "averaged-conv", .what = "the taps of both convolutions are averaged", .weight = average_taps,
     .weights = conv_weights},
    {.name = "conv-stride", .what = "the strides of the two convolutions are exchanged", .graph = exchange_strides},
    {.name = "tanh-gelu", .what = "GELU by its tanh approximation", .graph = tanh_gelu},
    {.name = "wrong-scale", .what = "the encoder's attention is scaled by 1/sqrt(d), not 1/sqrt(d/heads)",
     .graph = wrong_scale},
    {.name = "scaled-features", .what = "the encoder's features are a quarter of what they should be",
     .weight = quarter, .weights = last_norm},
    {.name = "transposed-weight", .what = "the encoder's first query weight is transposed", .weight = transpose,
     .weights = query_weight},
    {.name = "random-weight", .what = "a weight of the encoder's first block is random", .weight = randomize,
     .weights = mlp_weight},
    {.name = "first-window-only", .what = "text stops after the first window", .max_windows = 1},
};

const char *mx_fault_name(int index, const char **what) {
    if (index < 0 || (size_t)index >= MX_COUNT(faults))
        return NULL;
    if (what)
        *what = faults[index].what;
    return faults[index].name;
}

/* ---- a model with a fault ---------------------------------------------------------------------------------------- */

typedef struct injection {
    const fault *fault;
    mx_arena arena;      /* modified weights */
} injection;

static mxw_status change_weight(void *context, const char *name, mx_tensor *view) {
    injection *in = context;
    for (const char *const *p = in->fault->weights; p && *p; p++) {
        if (strcmp(*p, name) != 0)
            continue;
        float *copy = mx_arena_alloc(&in->arena, (size_t)mx_tensor_count(view) * sizeof(*copy));
        mxw_status status = copy ? mx_tensor_to_f32(view, copy) : MXW_E_MEMORY;
        if (status < 0)
            return status;
        *view = mx_tensor_of(MXW_F32, view->rank, view->dims, copy);
        in->fault->weight(name, view);
    }
    return MXW_OK;
}

static void free_injection(void *context) {
    injection *in = context;
    mx_arena_free(&in->arena);
    mx_free(in);
}

mxw_status mx_fault_open(const mxw_model_options *options, const mxw_lab_options *lab, mx_recognizer **out) {
    const fault *found = NULL;
    for (size_t i = 0; i < MX_COUNT(faults); i++)
        if (strcmp(faults[i].name, lab->inject) == 0)
            found = &faults[i];
    if (!found)
        return mx_fail(MXW_E_ARGUMENT, "inject: unknown fault '%s'", lab->inject);
    injection *in = mx_alloc_zero(1, sizeof(*in));
    if (!in)
        return MXW_E_MEMORY;
    in->fault = found;
    mx_fault_hooks hooks = {.name = found->name, .context = in, .graph = found->graph,
                      .weight = found->weight ? change_weight : NULL, .mel = found->mel,
                      .max_windows = found->max_windows, .free = free_injection};
    return mx_recognizer_open_with_faults(options, lab, &hooks, out);
}
