/* harness.h - a small bench for graphs in tests: inputs are declared and bound in one go, results copied out.
 *
 *   begin(); mx_value y = mx_graph_add(G, in(a), in(b)); mx_tensor got = result(y); ...
 *
 * Everything made since begin() is freed by the next begin() and by end().
 *
 * The program's one argument is the device under test: cpu (the default), fake (fake_device.h) or cuda[:N]. */
#ifndef GRAPH_HARNESS_H
#define GRAPH_HARNESS_H
#include "base/base.h"
#include "exec/exec.h"
#include "graph/graph.h"

#include <math.h>

#include "kit/check.h"
#include "kit/fake_device.h"

#define MAX_IN 16
#define MAX_BLOCKS 256

static mx_graph *G;
static mx_tensor bound[MAX_IN];
static int n_bound;
static void *blocks[MAX_BLOCKS];
static int n_blocks;
static mx_pool *harness_pool;

/* ---- the device under test --------------------------------------------------------------------------------------- */

static const char *device_name = "cpu";

/* Takes the device from the command line; exits as skipped where it is not usable. */
static inline void harness_open(const char *test, int argc, char **argv) {
    const mx_device *device;
    device_name = argc > 1 ? argv[1] : "cpu";
    if (strcmp(device_name, "fake") == 0)
        mx_device_add(fake_device());
    if (mx_device_find(device_name, &device) < 0) {
        printf("SKIP: %s %s: %s\n", test, device_name, mx_error());
        exit(77);
    }
}

static inline int on_cpu(void) { return strcmp(device_name, "cpu") == 0; }

/* Options that load a program there; valid until the next call. */
static inline const mx_program_options *there(mx_pool *pool, const mx_weight_source *weights_) {
    static mx_program_options options;
    options = (mx_program_options){.engine = on_cpu() ? MXW_ENGINE_CPU : MXW_ENGINE_GPU, .device = device_name,
                                   .pool = pool, .weights = weights_};
    return &options;
}

static inline void *block(size_t bytes) {
    void *b = malloc(bytes ? bytes : 1);
    if (!b || n_blocks == MAX_BLOCKS) {
        printf("harness: out of blocks\n");
        exit(1);
    }
    return blocks[n_blocks++] = b;
}

static inline void end(void) {
    mx_graph_destroy(G);
    G = NULL;
    n_bound = 0;
    while (n_blocks)
        free(blocks[--n_blocks]);
}

static inline void begin(void) {
    end();
    if (mx_graph_create("test", &G) < 0)
        exit(1);
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

static uint64_t random_state = 88172645463325252u;
static inline uint32_t random_word(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32);
}
static inline double uniform(double low, double high) { return low + (high - low) * (random_word() / 4294967296.0); }
static inline int64_t below(int64_t n) { return (int64_t)(random_word() % (uint32_t)n); }

static inline mx_tensor blank(mxw_dtype dtype, int rank, const int64_t *dims) {
    mx_tensor t = mx_tensor_of(dtype, rank, dims, NULL);
    t.data = block(mx_tensor_bytes(&t));
    return t;
}

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define RANK(...) ((int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#define FLOATS(scale, ...) floats(scale, RANK(__VA_ARGS__), DIMS(__VA_ARGS__))
#define INTS(limit, ...) ints(limit, RANK(__VA_ARGS__), DIMS(__VA_ARGS__))

static inline mx_tensor floats(double scale, int rank, const int64_t *dims) {
    mx_tensor t = blank(MXW_F32, rank, dims);
    for (int64_t i = 0; i < mx_tensor_count(&t); i++)
        ((float *)t.data)[i] = (float)uniform(-scale, scale);
    return t;
}

static inline mx_tensor ints(int64_t limit, int rank, const int64_t *dims) {
    mx_tensor t = blank(MXW_I32, rank, dims);
    for (int64_t i = 0; i < mx_tensor_count(&t); i++)
        ((int32_t *)t.data)[i] = (int32_t)below(limit);
    return t;
}

static inline float f32(const mx_tensor *t, int64_t i) { return ((const float *)t->data)[i]; }
static inline int32_t i32(const mx_tensor *t, int64_t i) { return ((const int32_t *)t->data)[i]; }

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* An input of exactly this tensor's type, bound to it. */
static inline mx_value in(mx_tensor t) {
    char name[16];
    snprintf(name, sizeof(name), "in%d", n_bound);
    bound[n_bound++] = t;
    return mx_graph_input(G, name, t.dtype, t.rank, t.dims);
}

static inline mx_tensor copy_of(const mx_tensor *t) {
    mx_tensor copy = blank(t->dtype, t->rank, t->dims);
    mx_tensor_pack(t, copy.data);
    return copy;
}

/* Declares the values as outputs, runs once, copies the outputs. 0 and the line printed on a failure. */
static inline int results(const mx_value *values, int n, mx_tensor *out) {
    mx_program *program = NULL;
    mx_run *run = NULL;
    char name[16];
    mxw_status status = mx_graph_status(G);
    for (int i = 0; i < n && status >= 0; i++) {
        snprintf(name, sizeof(name), "out%d", i);
        status = mx_graph_output(G, name, values[i]);
    }
    if (status >= 0)
        status = mx_exec_load(G, there(harness_pool, NULL), &program);
    if (status >= 0)
        status = mx_run_open(program, NULL, &run);
    for (int i = 0; i < n_bound && status >= 0; i++) {
        snprintf(name, sizeof(name), "in%d", i);
        status = mx_run_input(run, name, &bound[i]);
    }
    if (status >= 0)
        status = mx_run_execute(run);
    for (int i = 0; i < n && status >= 0; i++) {
        mx_tensor t;
        snprintf(name, sizeof(name), "out%d", i);
        status = mx_run_output(run, name, &t);
        if (status >= 0)
            out[i] = copy_of(&t);
    }
    if (status < 0)
        printf("    failed: %s\n", mx_error());
    mx_run_close(run);
    mx_exec_unload(program);
    return status >= 0;
}

static inline mx_tensor result(mx_value value) {
    mx_tensor out = {0};
    CHECK(results(&value, 1, &out));
    return out;
}

/* Where the operand's element lies that meets element `index` of the result, whose last `skip` axes do not count. */
static inline int64_t broadcast_offset(const mx_tensor *t, const mx_tensor *out, int64_t index, int skip) {
    int64_t offset = 0;
    for (int i = out->rank - 1 - skip; i >= 0; i--) {
        int64_t at = index % out->dims[i];
        int axis = i - (out->rank - t->rank);
        index /= out->dims[i];
        if (axis >= 0 && t->dims[axis] != 1)
            offset += at * t->strides[axis];
    }
    return offset;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static inline int has_dims(const mx_tensor *t, int rank, const int64_t *dims) {
    return t->rank == rank && (rank == 0 || memcmp(t->dims, dims, (size_t)rank * sizeof(*dims)) == 0);
}
#define CHECK_DIMS(t, ...) CHECK(has_dims(&(t), RANK(__VA_ARGS__), DIMS(__VA_ARGS__)))

#define EPS 5.9604644775390625e-8   /* half a unit in the last place of 1.0f */

/* got within bound of want; bounds come from the length of the sum and the size of its terms. */
static inline int near(double got, double want, double bound_) { return fabs(got - want) <= bound_ || got == want; }
static inline int same_bits(const mx_tensor *a, const mx_tensor *b) {
    return a->dtype == b->dtype && mx_tensor_bytes(a) == mx_tensor_bytes(b) &&
           memcmp(a->data, b->data, mx_tensor_bytes(a)) == 0;
}

/* A check that counts once for a whole tensor and shows the first element that is off. */
#define CHECK_ELEMENTS(n, got, want, bound_)                                                                           \
    do {                                                                                                               \
        int64_t off_ = -1;                                                                                             \
        double got_ = 0, want_ = 0;                                                                                    \
        for (int64_t i = 0; i < (n) && off_ < 0; i++) {                                                                \
            got_ = (got);                                                                                              \
            want_ = (want);                                                                                            \
            if (!near(got_, want_, (bound_)))                                                                          \
                off_ = i;                                                                                              \
        }                                                                                                              \
        if (!CHECK(off_ < 0))                                                                                          \
            printf("    element %lld: got %.9g, want %.9g\n", (long long)off_, got_, want_);                           \
    } while (0)
#endif
