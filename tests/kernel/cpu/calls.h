/* calls.h - whole ops through the device's table, for tests of compiled calls: memory with guards, random tensors, a
 * call the plain way and the compiled way, and the same bits with any number of threads. */
#ifndef CALLS_H
#define CALLS_H
#include "base/base.h"
#include "device/device.h"

#include <math.h>

#include "kit/check.h"
#include "need_isa.h"

#define EPS 5.9604644775390625e-8   /* half a unit in the last place of 1.0f */
static const mx_device *cpu;
static mx_pool *pool;
static mxw_precision precision;   /* of compiled calls */

/* ---- memory ------------------------------------------------------------------------------------------------------ */

#define GUARD 256
#define MAX_BLOCKS 256
static struct {
    unsigned char *base;
    size_t bytes;
} blocks[MAX_BLOCKS];
static int n_blocks;

static inline void *take(size_t bytes) {
    unsigned char *base = mx_alloc(bytes + 2 * GUARD);
    if (!base || n_blocks == MAX_BLOCKS)
        exit(1);
    memset(base, 0xA5, bytes + 2 * GUARD);
    blocks[n_blocks].base = base;
    blocks[n_blocks++].bytes = bytes;
    return base + GUARD;
}

/* Checks the guards of all blocks and frees them. */
static inline void done(void) {
    int ok = 1;
    while (n_blocks) {
        unsigned char *base = blocks[--n_blocks].base;
        for (size_t i = 0; i < GUARD; i++)
            ok &= base[i] == 0xA5 && base[GUARD + blocks[n_blocks].bytes + i] == 0xA5;
        mx_free(base);
    }
    CHECK(ok);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static uint64_t seed = 7;
static inline uint32_t word(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}
static inline int64_t below(int64_t n) { return (int64_t)(word() % (uint32_t)n); }
static inline float random_float(void) { return (float)word() / 1073741824.0f - 1; }

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define RANK(...) ((int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#define BLANK(dtype, ...) blank(dtype, RANK(__VA_ARGS__), DIMS(__VA_ARGS__))
#define RANDOM(size, ...) random_of(size, RANK(__VA_ARGS__), DIMS(__VA_ARGS__))

static inline mx_tensor blank(mxw_dtype dtype, int rank, const int64_t *dims) {
    mx_tensor t = mx_tensor_of(dtype, rank, dims, NULL);
    t.data = take(mx_tensor_bytes(&t));
    return t;
}

static inline mx_tensor random_of(float size, int rank, const int64_t *dims) {
    mx_tensor t = blank(MXW_F32, rank, dims);
    for (int64_t i = 0; i < mx_tensor_count(&t); i++)
        ((float *)t.data)[i] = size * random_float();
    return t;
}

/* i32 [n], each below a limit. */
static inline mx_tensor random_index(int64_t n, int64_t limit) {
    mx_tensor t = BLANK(MXW_I32, n);
    for (int64_t i = 0; i < n; i++)
        ((int32_t *)t.data)[i] = (int32_t)below(limit);
    return t;
}

/* The same elements with `gap` more from row to row. */
static inline mx_tensor apart(const mx_tensor *t, int64_t gap) {
    int64_t dims[MX_MAX_RANK], n = t->dims[t->rank - 1], rows = n ? mx_tensor_count(t) / n : 0;
    memcpy(dims, t->dims, sizeof(dims));
    dims[t->rank - 1] += gap;
    mx_tensor wide = random_of(1, t->rank, dims);
    for (int64_t r = 0; r < rows; r++)
        memcpy((float *)wide.data + r * (n + gap) + gap / 2, (const float *)t->data + r * n, (size_t)n * sizeof(float));
    wide.data = (float *)wide.data + gap / 2;
    wide.dims[t->rank - 1] = n;
    return wide;
}

/* Entries first .. first + n of axis 0, in place. */
static inline mx_tensor part_of(const mx_tensor *t, int64_t first, int64_t n) {
    mx_tensor part = *t;
    part.dims[0] = n;
    part.data = (char *)t->data + (size_t)(first * t->strides[0]) * mx_dtype_bytes(t->dtype);
    return part;
}

static inline mx_tensor like(const mx_tensor *t) { return blank(t->dtype, t->rank, t->dims); }
static inline float at(const mx_tensor *t, int64_t i) { return ((const float *)t->data)[i]; }
static inline int same_bits(const mx_tensor *a, const mx_tensor *b) {
    return memcmp(a->data, b->data, mx_tensor_bytes(a)) == 0;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static inline mxw_status run(mx_op op, const mx_attrs *attrs, const mx_tensor *inputs, int n_inputs, mx_tensor *outputs,
                             int compiled, mx_pool *with) {
    mx_call call = {.op = op, .attrs = attrs, .n_inputs = n_inputs, .n_outputs = mx_op_outputs(op), .inputs = inputs,
                    .outputs = outputs, .pool = with, .compiled = compiled, .precision = precision};
    call.scratch = take(cpu->scratch_bytes(cpu, &call));
    CHECK(cpu->kernel(cpu, &call)[0] != 0);
    return cpu->run_op(cpu, &call);
}

/* The compiled call gives the bits of `want` with any number of threads. */
static inline void any_threads(mx_op op, const mx_attrs *attrs, const mx_tensor *inputs, int n_inputs,
                               const mx_tensor *want) {
    static const int counts[] = {1, 2, 3, 8};
    for (size_t i = 0; i < MX_COUNT(counts); i++) {
        mx_pool *other = NULL;
        mx_tensor out[MX_MAX_OUTPUTS];
        int same = 1;
        CHECK_EQ_INT(mx_pool_open(counts[i], &other), MXW_OK);
        for (int o = 0; o < mx_op_outputs(op); o++)
            out[o] = like(&want[o]);
        CHECK_EQ_INT(run(op, attrs, inputs, n_inputs, out, 1, other), MXW_OK);
        for (int o = 0; o < mx_op_outputs(op); o++)
            same &= same_bits(&out[o], &want[o]);
        if (!CHECK(same))
            printf("    %s with %d threads\n", mx_op_name(op), counts[i]);
        mx_pool_close(other);
    }
}

/* Every element of got within bound of want. */
static inline void near(const mx_tensor *got, const mx_tensor *want, double bound, const char *what) {
    int64_t off = -1;
    for (int64_t i = 0; i < mx_tensor_count(want) && off < 0; i++)
        if (!(fabs((double)at(got, i) - (double)at(want, i)) <= bound) && at(got, i) != at(want, i) &&
            !(isnan(at(got, i)) && isnan(at(want, i))))
            off = i;
    if (!CHECK(off < 0))
        printf("    %s: element %lld: got %.9g, want %.9g\n", what, (long long)off, (double)at(got, off),
               (double)at(want, off));
}
#endif
