/* kit.h - a bench for the compiler: a graph is built in G with leaves that bring their data along, and run in several
 * ways that must agree.
 *
 *   begin(); y = mx_graph_gelu(G, mx_graph_linear(G, given(x), weight(w), 0), ..); out(y);
 *   check_compiled();                        eagerly on the CPU, compiled on each test device: the same bits
 *   CHECK_STR(after("gelu"), "fused_linear")  the ops that are left after a pass; the pass alone changed no bit
 *
 * The devices under test (pattern_device.h, ../kit/fake_device.h) run the CPU's plain ops, so equal means equal. */
#ifndef COMPILE_KIT_H
#define COMPILE_KIT_H
#include "compile/compile.h"

#include "kit/harness.h"
#include "pattern_device.h"

#define MAX_LEAVES 48
static struct leaf {
    char name[16];
    mx_kind kind;
    mx_tensor tensor;    /* of a state: dims alone */
} leaves[MAX_LEAVES];
static int n_leaves, n_outs;

/* Called first: the plain loops multiply, whose sums do not depend on what else is in the product, as BLAS's may. */
static inline void kit_open(void) {
    setenv("MXW_MODULE_DIR", "nowhere", 1);
    mx_device_add(fake_device());
    mx_device_add(pattern_device());
    mx_device_add(pattern_near_device());
}

static inline void fresh(void) {
    begin();
    n_leaves = n_outs = 0;
}

static inline const char *add_leaf(mx_kind kind, const mx_tensor *t) {
    struct leaf *leaf = &leaves[n_leaves];
    leaf->kind = kind;
    leaf->tensor = *t;
    snprintf(leaf->name, sizeof(leaf->name), "%s%d", kind == MX_INPUT ? "x" : kind == MX_STATE ? "s" : "w", n_leaves);
    n_leaves++;
    return leaf->name;
}

/* An input with the sizes of its data, or with those (some of them open). */
static inline mx_value given(mx_tensor t) { return mx_graph_input(G, add_leaf(MX_INPUT, &t), t.dtype, t.rank, t.dims); }
static inline mx_value given_as(mx_tensor t, const int64_t *dims) {
    return mx_graph_input(G, add_leaf(MX_INPUT, &t), t.dtype, t.rank, dims);
}
static inline mx_value weight(mx_tensor t) { return mx_graph_weight(G, add_leaf(MX_WEIGHT, &t), t.rank, t.dims); }
static inline mx_value constant(mx_tensor t) { return mx_graph_constant(G, NULL, &t); }
static inline mx_value state(int rank, const int64_t *dims) {
    mx_tensor t = mx_tensor_of(MXW_F32, rank, dims, NULL);
    return mx_graph_state(G, add_leaf(MX_STATE, &t), MXW_F32, rank, dims);
}
static inline void out(mx_value value) {
    char name[16];
    snprintf(name, sizeof(name), "out%d", n_outs++);
    mx_graph_output(G, name, value);
}

static inline mx_tensor halves(mxw_dtype dtype, int rank, const int64_t *dims) {
    mx_tensor t = blank(dtype, rank, dims);
    for (int64_t i = 0; i < mx_tensor_count(&t); i++) {
        float value = (float)uniform(-1, 1);
        ((uint16_t *)t.data)[i] = dtype == MXW_F16 ? mx_f32_to_f16(value) : mx_f32_to_bf16(value);
    }
    return t;
}
#define F16S(...) halves(MXW_F16, RANK(__VA_ARGS__), DIMS(__VA_ARGS__))
#define BF16S(...) halves(MXW_BF16, RANK(__VA_ARGS__), DIMS(__VA_ARGS__))
/* The same elements, but each row two elements longer than it shows. */
static inline mx_tensor apart(mx_tensor t) {
    int64_t dims[MX_MAX_RANK], last = t.rank - 1;
    memcpy(dims, t.dims, sizeof(dims));
    dims[last] += 2;
    mx_tensor wide = blank(t.dtype, t.rank, dims);
    memset(wide.data, 0x7f, mx_tensor_bytes(&wide));
    wide.dims[last] -= 2;
    size_t row = (size_t)t.dims[last] * mx_dtype_bytes(t.dtype), step = (size_t)dims[last] * mx_dtype_bytes(t.dtype);
    for (int64_t r = 0; row && r < mx_tensor_count(&t) / t.dims[last]; r++)
        memcpy((char *)wide.data + (size_t)r * step, (char *)t.data + (size_t)r * row, row);
    return wide;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static inline mxw_status kit_find_weight(void *context, const char *name, mx_tensor *found) {
    for (int i = 0; i < n_leaves; i++)
        if (leaves[i].kind == MX_WEIGHT && strcmp(leaves[i].name, name) == 0) {
            *found = leaves[i].tensor;
            return MXW_OK;
        }
    return mx_fail(MXW_E_MISSING, "tensor %s is not there", name);
}

enum { EXECUTES = 2 };   /* so that states and layouts are met a second time */

typedef struct way {
    mxw_engine engine;
    const char *device;
    int keep_names;
} way;

static inline mxw_status run_program(mx_program *program, mx_state *memory, mx_str *bytes) {
    mx_run *run = NULL;
    mxw_status status = mx_run_open(program, memory, &run);
    for (int i = 0; i < n_leaves && status >= 0; i++)
        if (leaves[i].kind == MX_INPUT)
            status = mx_run_input(run, leaves[i].name, &leaves[i].tensor);
        else if (leaves[i].kind == MX_STATE)
            status = mx_state_add(memory, leaves[i].name, MXW_F32, leaves[i].tensor.rank, leaves[i].tensor.dims);
    for (int e = 0; e < EXECUTES && status >= 0; e++) {
        status = mx_run_execute(run);
        for (int i = 0; i < n_outs && status >= 0; i++) {
            char name[16];
            mx_tensor t;
            snprintf(name, sizeof(name), "out%d", i);
            status = mx_run_output(run, name, &t);
            if (status >= 0)
                mx_str_add(bytes, t.data, mx_tensor_bytes(&t));
        }
    }
    mx_run_close(run);
    return status;
}

/* The bytes of all outputs of all executes. */
static inline mxw_status run_way(const mx_graph *g, way w, mx_str *bytes) {
    mx_weight_source source = {kit_find_weight, NULL};
    mx_program *program = NULL;
    mx_state *memory = NULL;
    mxw_status status = mx_exec_load(g, &(mx_program_options){.engine = w.engine, .device = w.device,
                                                              .weights = &source, .keep_names = w.keep_names},
                                     &program);
    if (status >= 0)
        status = mx_state_open(program, &memory);
    if (status >= 0)
        status = run_program(program, memory, bytes);
    mx_state_close(memory);
    mx_exec_unload(program);
    return status;
}

static inline int agree(const mx_graph *g, way w, const char *file, int line) {
    mx_str want = {0}, got = {0};
    mxw_status a = run_way(G, (way){MXW_ENGINE_CPU, "cpu", 0}, &want), b = run_way(g, w, &got);
    int same = a >= 0 && b >= 0 && want.n == got.n && (want.n == 0 || memcmp(want.data, got.data, want.n) == 0);
    if (!check_that(same, file, line, "both ways give the same bits")) {
        mx_str text = {0};
        mx_graph_print(G, &text);
        if (g != G)
            mx_graph_print(g, &text);
        printf("    on %s: %s\n%s", w.device, b < 0 || a < 0 ? mx_error() : "other bits", text.data);
        mx_str_free(&text);
    }
    mx_str_free(&want);
    mx_str_free(&got);
    return same;
}

static inline void check_compiled_at(const char *file, int line) {
    static const char *const devices[] = {"pattern", "pattern-near", "fake"};
    for (size_t i = 0; i < MX_COUNT(devices); i++)
        for (int keep = 0; keep < 2; keep++)
            agree(G, (way){MXW_ENGINE_MAX, devices[i], keep}, file, line);
}
#define check_compiled() check_compiled_at(__FILE__, __LINE__)

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* The ops of a graph, one after the other; lives until the next call. */
static inline const char *ops_of(const mx_graph *g) {
    static char text[2048];
    text[0] = 0;
    for (size_t n = 0; n < g->n_nodes; n++) {
        size_t at = strlen(text);
        snprintf(text + at, sizeof(text) - at, "%s%s", n ? " " : "", mx_op_name(g->nodes[n].op));
    }
    return text;
}

/* G after the named passes ("canonical,fold"), in this order; freed by mx_graph_destroy. Memory of what they fold lies
 * in *memory. */
static inline mx_graph *after_passes(const char *names, const mx_compile_options *options, mx_arena *memory) {
    mx_graph *g = NULL;
    for (const char *at = names; *at; at += strcspn(at, ","), at += *at == ',') {
        mx_graph *next;
        char name[32];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, ","), at);
        if (!CHECK(mx_compile_pass(name, g ? g : G, options, memory, &next) == MXW_OK)) {
            printf("    %s\n", mx_error());
            exit(1);
        }
        mx_graph_destroy(g);
        g = next;
    }
    return g;
}

/* The ops after the passes on the pattern device; the graph between gives the same bits when run as it is. */
static inline const char *after_at(const char *names, int keep_names, const char *file, int line) {
    mx_arena memory = {0};
    mx_graph *g = after_passes(names, &(mx_compile_options){pattern_device(), keep_names}, &memory);
    agree(g, (way){MXW_ENGINE_GPU, "pattern", 0}, file, line);
    const char *text = ops_of(g);
    mx_graph_destroy(g);
    mx_arena_free(&memory);
    return text;
}
#define after(names) after_at(names, 0, __FILE__, __LINE__)
#define after_keeping(names) after_at(names, 1, __FILE__, __LINE__)
#endif
