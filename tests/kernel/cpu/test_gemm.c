/* test_gemm.c - the products of compiled calls through the device's table, weights packed by it, against the plain
 * ops one after the other: random shapes, every option there and left out, strided inputs, stacked sources of several
 * types. Then the bits: the same with 1, 2, 3 and 8 threads, and for rows alone or among others. A weight packs to the
 * same bytes however it lies in memory.
 * Argument: how many random shapes, where 200 would take too long. */
#include "base/base.h"
#include "device/device.h"

#include <math.h>

#include "kit/check.h"
#include "need_isa.h"

#define EPS 5.9604644775390625e-8
static const mx_device *cpu;
static mx_pool *pool;
static int n_shapes = 200;   /* random ones, of linear */

/* ---- memory ------------------------------------------------------------------------------------------------------ */

#define GUARD 256
#define MAX_BLOCKS 64
static struct {
    unsigned char *base;
    size_t bytes;
} blocks[MAX_BLOCKS];
static int n_blocks;

static void *take(size_t bytes) {
    unsigned char *base = mx_alloc(bytes + 2 * GUARD);
    if (!base || n_blocks == MAX_BLOCKS)
        exit(1);
    memset(base, 0xA5, bytes + 2 * GUARD);
    blocks[n_blocks].base = base;
    blocks[n_blocks++].bytes = bytes;
    return base + GUARD;
}

static void done(void) {
    int ok = 1;
    while (n_blocks) {
        unsigned char *base = blocks[--n_blocks].base;
        for (size_t i = 0; i < GUARD; i++)
            ok &= base[i] == 0xA5 && base[GUARD + blocks[n_blocks].bytes + i] == 0xA5;
        mx_free(base);
    }
    CHECK(ok);
}

static uint64_t state = 7;
static uint32_t word(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}
static int64_t below(int64_t n) { return (int64_t)(word() % (uint32_t)n); }
static float random_float(void) { return (float)word() / 1073741824.0f - 1; }

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define RANK(...) ((int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#define BLANK(...) blank(MXW_F32, RANK(__VA_ARGS__), DIMS(__VA_ARGS__))
#define RANDOM(...) random_of(MXW_F32, RANK(__VA_ARGS__), DIMS(__VA_ARGS__))

static mx_tensor blank(mxw_dtype dtype, int rank, const int64_t *dims) {
    mx_tensor t = mx_tensor_of(dtype, rank, dims, NULL);
    t.data = take(mx_tensor_bytes(&t));
    return t;
}

static mx_tensor random_of(mxw_dtype dtype, int rank, const int64_t *dims) {
    mx_tensor t = blank(dtype, rank, dims);
    for (int64_t i = 0; i < mx_tensor_count(&t); i++) {
        float value = random_float();
        if (dtype == MXW_F32)
            ((float *)t.data)[i] = value;
        else
            ((uint16_t *)t.data)[i] = dtype == MXW_F16 ? mx_f32_to_f16(value) : mx_f32_to_bf16(value);
    }
    return t;
}

static mx_tensor like(const mx_tensor *t) { return blank(MXW_F32, t->rank, t->dims); }
static float at(const mx_tensor *t, int64_t i) { return ((const float *)t->data)[i]; }

static mx_tensor absolute(const mx_tensor *t) {
    mx_tensor a = like(t);
    mx_tensor_to_f32(t, a.data);
    for (int64_t i = 0; i < mx_tensor_count(&a); i++)
        ((float *)a.data)[i] = fabsf(at(&a, i));
    return a;
}

/* The same elements with `gap` more from row to row, and the rows a slice of those. */
static mx_tensor apart(const mx_tensor *t, int64_t gap) {
    int64_t dims[MX_MAX_RANK], n = t->dims[t->rank - 1];
    memcpy(dims, t->dims, sizeof(dims));
    dims[t->rank - 1] += gap;
    mx_tensor wide = random_of(MXW_F32, t->rank, dims);
    int64_t rows = n ? mx_tensor_count(t) / n : 0;
    for (int64_t r = 0; r < rows; r++)
        memcpy((float *)wide.data + r * (n + gap) + gap / 2, (const float *)t->data + r * n, (size_t)n * sizeof(float));
    wide.data = (float *)wide.data + gap / 2;
    wide.dims[t->rank - 1] = n;
    return wide;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static mxw_status run(mx_op op, const mx_attrs *attrs, const mx_tensor *inputs, int n_inputs, mx_tensor *out,
                      int compiled, mx_pool *with) {
    mx_call call = {.op = op, .attrs = attrs, .n_inputs = n_inputs, .n_outputs = 1, .inputs = inputs, .outputs = out,
                    .pool = with, .compiled = compiled};
    call.scratch = take(cpu->scratch_bytes(cpu, &call));
    CHECK(cpu->kernel(cpu, &call)[0] != 0);
    return cpu->run_op(cpu, &call);
}

static mx_tensor plain(mx_op op, const mx_attrs *attrs, const mx_tensor *inputs, int n_inputs, mx_tensor out) {
    CHECK_EQ_INT(run(op, attrs, inputs, n_inputs, &out, 0, pool), MXW_OK);
    return out;
}

/* The sources stacked: as the device wants them for a compiled call, and as plain f32. */
static mx_tensor weight_of(mx_op op, int input, const mx_tensor *sources, int n, mx_tensor *stacked) {
    mx_weight_use use = {.op = op, .attrs = &(mx_attrs){0}, .input = input, .sources = sources, .n_sources = n};
    int64_t dims[MX_MAX_RANK];
    memcpy(dims, sources[0].dims, sizeof(dims));
    for (int i = 1; i < n; i++)
        dims[0] += sources[i].dims[0];
    *stacked = blank(MXW_F32, sources[0].rank, dims);
    float *to = stacked->data;
    for (int i = 0; i < n; to += mx_tensor_count(&sources[i]), i++)
        mx_tensor_to_f32(&sources[i], to);
    CHECK_EQ_INT(cpu->form(cpu, &use), MX_FORM_PACKED);
    mx_tensor packed = *stacked;
    packed.layout = MX_LAYOUT_PACKED;
    packed.packing = cpu->packing(cpu, &use);
    packed.data = take(packed.packing.bytes);
    CHECK_EQ_INT(cpu->pack(cpu, &use, packed.data, pool), MXW_OK);
    return packed;
}

/* A weight [rows, ..] from one to three sources of random types. */
static mx_tensor random_weight(mx_op op, int rank, const int64_t *dims, mx_tensor *stacked) {
    static const mxw_dtype types[] = {MXW_F16, MXW_F16, MXW_F32, MXW_BF16};
    mx_tensor sources[3];
    int n = 1 + (int)below(3), same = below(2) == 0;
    int64_t left = dims[0], each[MX_MAX_RANK];
    memcpy(each, dims, (size_t)rank * sizeof(*dims));
    mxw_dtype dtype = types[below(4)];
    for (int i = 0; i < n; i++) {
        each[0] = i == n - 1 ? left : below(left + 1);
        left -= each[0];
        sources[i] = random_of(same ? dtype : types[below(4)], rank, each);
    }
    return weight_of(op, 1, sources, n, stacked);
}

static int same_bits(const mx_tensor *a, const mx_tensor *b) {
    return memcmp(a->data, b->data, mx_tensor_bytes(a)) == 0;
}

/* The call gives the same bits with any number of threads; and with none. */
static void any_threads(mx_op op, const mx_attrs *attrs, const mx_tensor *inputs, int n_inputs, const mx_tensor *want) {
    static const int counts[] = {1, 2, 3, 8};
    for (size_t i = 0; i < MX_COUNT(counts); i++) {
        mx_pool *other = NULL;
        mx_tensor out = like(want);
        CHECK_EQ_INT(mx_pool_open(counts[i], &other), MXW_OK);
        CHECK_EQ_INT(run(op, attrs, inputs, n_inputs, &out, 1, i == 0 ? NULL : other), MXW_OK);
        if (!CHECK(same_bits(&out, want)))
            printf("    %s with %d threads\n", mx_op_name(op), counts[i]);
        mx_pool_close(other);
    }
}

/* got against want; size: the sum of the absolute products, whose rounding is what may differ. */
static void near(const mx_tensor *got, const mx_tensor *want, const mx_tensor *size, int64_t k, const char *what) {
    int64_t off = -1;
    for (int64_t i = 0; i < mx_tensor_count(want) && off < 0; i++) {
        double bound = 1.2 * (double)(2 * k + 32) * EPS * (double)at(size, i) + 8 * EPS * fabs((double)at(want, i));
        if (!(fabs((double)at(got, i) - (double)at(want, i)) <= bound + 1e-30))
            off = i;
    }
    if (!CHECK(off < 0))
        printf("    %s: element %lld: got %.9g, want %.9g\n", what, (long long)off, (double)at(got, off),
               (double)at(want, off));
}

/* ---- linear ------------------------------------------------------------------------------------------------------ */

enum { BIAS = 1, NORM = 2, RESIDUAL = 4, APART = 8, REPEATED = 16 };

/* act(linear(norm(x))) + residual by plain ops. in: x, weight, bias, residual, gamma, beta. */
static mx_tensor plain_linear(const mx_tensor *in, const mx_attrs *attrs, mx_tensor out, mx_tensor *size) {
    mx_tensor x = in[0], y = out, result = out;
    if (in[4].data)
        x = plain(MX_OP_LAYER_NORM, attrs, (mx_tensor[]){x, in[4], in[5]}, 3, like(&x));
    y = plain(MX_OP_LINEAR, attrs, (mx_tensor[]){x, in[1], in[2]}, 3, y);
    mx_tensor parts[] = {absolute(&x), absolute(&in[1]), in[2].data ? absolute(&in[2]) : in[2]};
    *size = plain(MX_OP_LINEAR, attrs, parts, 3, like(&y));
    if (attrs->act) {
        mx_attrs gelu = {.kind = attrs->act == MX_ACT_GELU_ERF ? MXW_GELU_ERF : MXW_GELU_TANH};
        y = plain(MX_OP_GELU, &gelu, &y, 1, like(&y));
    }
    result = in[3].data ? plain(MX_OP_ADD, attrs, (mx_tensor[]){y, in[3]}, 2, like(&y)) : y;
    return result;
}

/* Rows from `first` on, of a tensor whose rows may lie apart. */
static mx_tensor rows_of(const mx_tensor *t, int64_t first, int64_t n) {
    mx_tensor part = *t;
    part.data = (float *)t->data + first * t->strides[0];
    part.dims[0] = n;
    return part;
}

static void one_linear(int rank, const int64_t *dims, int64_t n, int with, int act) {
    int64_t k = dims[rank - 1], y_dims[MX_MAX_RANK];
    mx_attrs attrs = {.eps = 1e-5, .act = act};
    memcpy(y_dims, dims, (size_t)rank * sizeof(*dims));
    y_dims[rank - 1] = n;
    mx_tensor x = random_of(MXW_F32, rank, dims), none = {0}, stacked, size;
    mx_tensor weight = random_weight(MX_OP_FUSED_LINEAR, 2, DIMS(n, k), &stacked);
    int skip = with & REPEATED ? (int)below(rank) : 0;
    mx_tensor residual = with & RESIDUAL ? random_of(MXW_F32, rank - skip, y_dims + skip) : none;
    mx_tensor in[] = {x, stacked, with & BIAS ? RANDOM(n) : none, residual, with & NORM ? RANDOM(k) : none,
                      with & NORM ? RANDOM(k) : none};
    mx_tensor want = plain_linear(in, &attrs, blank(MXW_F32, rank, y_dims), &size), got = like(&want);
    in[1] = weight;
    if (with & APART && rank > 1) {
        CHECK(cpu->strided(cpu, MX_OP_FUSED_LINEAR, 0) && cpu->strided(cpu, MX_OP_FUSED_LINEAR, 3));
        in[0] = apart(&x, 10);
        if (residual.data && residual.rank > 1)
            in[3] = apart(&residual, 6);
    }
    int n_inputs = with & NORM ? 6 : with & RESIDUAL ? 4 : with & BIAS ? 3 : 2;
    CHECK_EQ_INT(run(MX_OP_FUSED_LINEAR, &attrs, in, n_inputs, &got, 1, pool), MXW_OK);
    near(&got, &want, &size, k, "fused_linear");
    any_threads(MX_OP_FUSED_LINEAR, &attrs, in, n_inputs, &got);
    in[1] = stacked;   /* a weight that is not constant comes plain */
    mx_tensor again = like(&want);
    CHECK_EQ_INT(run(MX_OP_FUSED_LINEAR, &attrs, in, n_inputs, &again, 1, pool), MXW_OK);
    CHECK(same_bits(&again, &got));
    if (rank == 2 && dims[0] > 1) {   /* some rows alone */
        int64_t first = below(dims[0]), rows = 1 + below(dims[0] - first);
        in[0] = rows_of(&in[0], first, rows);
        if (in[3].data && in[3].rank == 2)
            in[3] = rows_of(&in[3], first, rows);
        mx_tensor part = BLANK(rows, n);
        in[1] = weight;
        CHECK_EQ_INT(run(MX_OP_FUSED_LINEAR, &attrs, in, n_inputs, &part, 1, pool), MXW_OK);
        CHECK(memcmp(part.data, (float *)got.data + first * n, mx_tensor_bytes(&part)) == 0);
    }
    done();
}

static void test_linear(void) {
    static const int64_t rows[] = {0, 1, 2, 5, 8, 15, 16, 17, 30, 64, 130, 301};
    static const int64_t depths[] = {1, 5, 16, 33, 80, 257, 600};
    static const int64_t widths[] = {1, 31, 32, 33, 100, 384, 700};
    for (int i = 0; i < n_shapes; i++) {
        int64_t m = rows[below(MX_COUNT(rows))], k = depths[below(MX_COUNT(depths))];
        int64_t n = widths[below(MX_COUNT(widths))];
        one_linear(2, DIMS(m, k), n, (int)below(32), (int)below(3));
    }
    for (int i = 0; i < n_shapes / 4; i++)
        one_linear(3, DIMS(1 + below(4), 1 + below(60), 1 + below(100)), 1 + below(200), (int)below(32), (int)below(3));
    one_linear(1, DIMS(20), 40, BIAS | NORM | RESIDUAL, MX_ACT_GELU_ERF);
    one_linear(2, DIMS(3, 0), 7, BIAS, MX_ACT_NONE);
    one_linear(2, DIMS(3, 9), 0, 0, MX_ACT_NONE);
    one_linear(4, DIMS(2, 2, 3, 7), 11, BIAS | RESIDUAL | REPEATED, MX_ACT_GELU_TANH);
    /* the plain op in a compiled call */
    mx_tensor stacked, weight = random_weight(MX_OP_LINEAR, 2, DIMS(50, 40), &stacked), bias = RANDOM(50);
    mx_tensor x = RANDOM(3, 40), got = BLANK(3, 50), none = {0};
    mx_tensor in[] = {x, stacked, bias, none, none, none}, size, want = plain_linear(in, &(mx_attrs){0}, got, &size);
    got = BLANK(3, 50);
    CHECK_EQ_INT(run(MX_OP_LINEAR, &(mx_attrs){0}, (mx_tensor[]){x, weight, bias}, 3, &got, 1, pool), MXW_OK);
    near(&got, &want, &size, 40, "linear");
    done();
}

/* ---- conv1d ------------------------------------------------------------------------------------------------------ */

static void one_conv1d(int64_t n, int64_t t, int64_t in, int64_t out, int64_t taps, int stride, int pad, int dilation,
                       int with, int act) {
    int64_t span = (taps - 1) * dilation + 1, t_out = (t + 2 * pad - span) / stride + 1;
    if (t + 2 * pad < span)
        return;
    mx_attrs attrs = {.stride = {stride, 1}, .pad = {pad, 0}, .dilation = dilation, .act = act};
    mx_tensor x = RANDOM(n, t, in), none = {0}, stacked, bias = with & BIAS ? RANDOM(out) : none;
    mx_tensor weight = random_weight(MX_OP_FUSED_CONV1D, 3, DIMS(out, in, taps), &stacked);
    mx_tensor residual = !(with & RESIDUAL) ? none : with & REPEATED ? RANDOM(t_out, out) : RANDOM(n, t_out, out);
    mx_tensor parts[] = {absolute(&x), absolute(&stacked), with & BIAS ? absolute(&bias) : none};
    mx_tensor size = plain(MX_OP_CONV1D, &attrs, parts, 3, BLANK(n, t_out, out));
    mx_tensor want = plain(MX_OP_CONV1D, &attrs, (mx_tensor[]){x, stacked, bias}, 3, BLANK(n, t_out, out));
    if (act) {
        mx_attrs gelu = {.kind = act == MX_ACT_GELU_ERF ? MXW_GELU_ERF : MXW_GELU_TANH};
        want = plain(MX_OP_GELU, &gelu, &want, 1, like(&want));
    }
    if (residual.data)
        want = plain(MX_OP_ADD, &attrs, (mx_tensor[]){want, residual}, 2, like(&want));
    mx_tensor got = like(&want), ins[] = {x, weight, bias, residual};
    int n_inputs = with & RESIDUAL ? 4 : with & BIAS ? 3 : 2;
    CHECK_EQ_INT(run(MX_OP_FUSED_CONV1D, &attrs, ins, n_inputs, &got, 1, pool), MXW_OK);
    near(&got, &want, &size, taps * in, "fused_conv1d");
    any_threads(MX_OP_FUSED_CONV1D, &attrs, ins, n_inputs, &got);
    ins[1] = stacked;
    mx_tensor again = like(&want);
    CHECK_EQ_INT(run(MX_OP_FUSED_CONV1D, &attrs, ins, n_inputs, &again, 1, pool), MXW_OK);
    CHECK(same_bits(&again, &got));
    if (n > 1) {   /* the last entry alone */
        mx_tensor part = BLANK(1, t_out, out);
        ins[0] = rows_of(&x, n - 1, 1);
        if (residual.data && residual.rank == 3)
            ins[3] = rows_of(&residual, n - 1, 1);
        CHECK_EQ_INT(run(MX_OP_FUSED_CONV1D, &attrs, ins, n_inputs, &part, 1, pool), MXW_OK);
        CHECK(memcmp(part.data, (float *)got.data + (n - 1) * t_out * out, mx_tensor_bytes(&part)) == 0);
    }
    done();
}

static void test_conv1d(void) {
    for (int i = 0; i < n_shapes / 2; i++)
        one_conv1d(1 + below(3), 1 + below(40), 1 + below(20), 1 + below(70), 1 + below(4), 1 + (int)below(3),
                   (int)below(4), 1 + i % 3, (int)below(32), (int)below(3));
    one_conv1d(1, 300, 80, 64, 3, 1, 1, 1, BIAS, MX_ACT_GELU_ERF);
    one_conv1d(2, 151, 200, 33, 3, 2, 1, 1, BIAS | RESIDUAL | REPEATED, MX_ACT_GELU_ERF);
    one_conv1d(2, 151, 200, 33, 3, 2, 5, 4, BIAS | RESIDUAL | REPEATED, MX_ACT_GELU_ERF);   /* several blocks of k */
}

/* ---- matmul, gather ---------------------------------------------------------------------------------------------- */

static void one_matmul(int ra, const int64_t *da, int rb, const int64_t *db, int ro, const int64_t *dout) {
    mx_tensor a = random_of(MXW_F32, ra, da), b = random_of(MXW_F32, rb, db), in[] = {a, b};
    mx_tensor want = plain(MX_OP_MATMUL, &(mx_attrs){0}, in, 2, blank(MXW_F32, ro, dout)), got = like(&want);
    mx_tensor size = plain(MX_OP_MATMUL, &(mx_attrs){0}, (mx_tensor[]){absolute(&a), absolute(&b)}, 2, like(&want));
    CHECK_EQ_INT(run(MX_OP_MATMUL, &(mx_attrs){0}, in, 2, &got, 1, pool), MXW_OK);
    near(&got, &want, &size, da[ra - 1], "matmul");
    any_threads(MX_OP_MATMUL, &(mx_attrs){0}, in, 2, &got);
    if (rb == 2) {   /* constant, from two sources if it is deep enough */
        mx_tensor stacked, again = like(&want), parts[2] = {rows_of(&b, 0, db[0] / 2), b};
        parts[1] = rows_of(&b, db[0] / 2, db[0] - db[0] / 2);
        mx_tensor packed[] = {a, weight_of(MX_OP_MATMUL, 1, parts, 2, &stacked)};
        CHECK_EQ_INT(run(MX_OP_MATMUL, &(mx_attrs){0}, packed, 2, &again, 1, pool), MXW_OK);
        CHECK(same_bits(&again, &got));
    }
    done();
}

static void test_matmul(void) {
#define MATMUL(a, b, out)                                                                                              \
    one_matmul((int)(sizeof(a) / 8), a, (int)(sizeof(b) / 8), b, (int)(sizeof(out) / 8), out)
    MATMUL(DIMS(3, 4), DIMS(4, 5), DIMS(3, 5));
    MATMUL(DIMS(1, 1), DIMS(1, 1), DIMS(1, 1));
    MATMUL(DIMS(17, 300), DIMS(300, 150), DIMS(17, 150));
    MATMUL(DIMS(5, 0), DIMS(0, 3), DIMS(5, 3));
    MATMUL(DIMS(2, 70, 300), DIMS(300, 33), DIMS(2, 70, 33));
    MATMUL(DIMS(4, 3, 7), DIMS(4, 7, 2), DIMS(4, 3, 2));
    MATMUL(DIMS(1, 130, 7), DIMS(3, 7, 5), DIMS(3, 130, 5));
    MATMUL(DIMS(2, 1, 3, 4), DIMS(5, 4, 6), DIMS(2, 5, 3, 6));
    MATMUL(DIMS(3, 4), DIMS(2, 3, 4, 2), DIMS(2, 3, 3, 2));
    MATMUL(DIMS(2, 0, 4), DIMS(2, 4, 6), DIMS(2, 0, 6));
    MATMUL(DIMS(2, 400, 64), DIMS(2, 64, 400), DIMS(2, 400, 400));
#undef MATMUL
}

static void test_gather(void) {
    static const mxw_dtype types[] = {MXW_F32, MXW_F16, MXW_BF16};
    for (size_t d = 0; d < MX_COUNT(types); d++)
        for (int64_t n = 1; n < 50; n += 12) {
            mx_tensor table = random_of(types[d], 2, DIMS(9, n)), index = blank(MXW_I32, 2, DIMS(2, 3)), wide;
            mx_tensor lies = blank(MXW_U8, 1, DIMS((int64_t)mx_tensor_bytes(&table) + 1));
            mx_weight_use use = {.op = MX_OP_GATHER, .attrs = &(mx_attrs){0}, .input = 0, .sources = &table,
                                 .n_sources = 1};
            CHECK_EQ_INT(cpu->form(cpu, &use), MX_FORM_RAW);
            for (int i = 0; i < 6; i++)
                ((int32_t *)index.data)[i] = (int32_t)below(9);
            wide = like(&table);
            mx_tensor_to_f32(&table, wide.data);
            mx_tensor want = plain(MX_OP_GATHER, &(mx_attrs){0}, (mx_tensor[]){wide, index}, 2, BLANK(2, 3, n));
            mx_tensor got = like(&want);
            CHECK_EQ_INT(run(MX_OP_GATHER, &(mx_attrs){0}, (mx_tensor[]){table, index}, 2, &got, 1, pool), MXW_OK);
            CHECK(same_bits(&got, &want));
            memcpy((char *)lies.data + 1, table.data, mx_tensor_bytes(&table));   /* in place, at an odd address */
            table.data = (char *)lies.data + 1;
            CHECK_EQ_INT(run(MX_OP_GATHER, &(mx_attrs){0}, (mx_tensor[]){table, index}, 2, &got, 1, pool), MXW_OK);
            CHECK(same_bits(&got, &want));
            ((int32_t *)index.data)[5] = 9;
            CHECK_EQ_INT(run(MX_OP_GATHER, &(mx_attrs){0}, (mx_tensor[]){table, index}, 2, &got, 1, pool),
                         MXW_E_ARGUMENT);
            done();
        }
}

/* A weight that no op wants packed is refused by name. */
static void test_refused(void) {
    mx_tensor x = RANDOM(4, 4);
    mx_weight_use use = {.op = MX_OP_ADD, .attrs = &(mx_attrs){0}, .input = 1, .sources = &x, .n_sources = 1};
    CHECK_EQ_INT(cpu->form(cpu, &use), MX_FORM_F32);
    CHECK_EQ_INT(cpu->pack(cpu, &use, x.data, pool), MXW_E_INTERNAL);
    CHECK(strstr(mx_error(), "add") != NULL);
    done();
}

/* An op that has no entry in the table: a fused one in an eager call. */
static void test_unknown_op(void) {
    mx_tensor x = RANDOM(1, 2, 3), w = RANDOM(1, 4, 3), y = BLANK(MXW_F32, 2, 4);
    CHECK_EQ_INT(run(MX_OP_FUSED_LINEAR, &(mx_attrs){0}, (mx_tensor[]){x, w}, 2, &y, 0, NULL), MXW_E_UNSUPPORTED);
    CHECK_STR(mx_error(), "cpu does not run fused_linear");
    done();
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* The same elements with the axes in another order in memory, from the outermost on. */
static mx_tensor laid_out(const mx_tensor *t, const int *order) {
    mx_tensor moved = *t;
    size_t each = mx_dtype_bytes(t->dtype);
    int64_t stride = 1;
    moved.data = take(mx_tensor_bytes(t));
    for (int i = t->rank - 1; i >= 0; stride *= t->dims[order[i--]])
        moved.strides[order[i]] = stride;
    for (int64_t i = 0, n = mx_tensor_count(t); i < n; i++) {
        int64_t rest = i, at = 0;
        for (int axis = t->rank - 1; axis >= 0; rest /= t->dims[axis--])
            at += rest % t->dims[axis] * moved.strides[axis];
        memcpy((char *)moved.data + (size_t)at * each, (const char *)t->data + (size_t)i * each, each);
    }
    return moved;
}

static const void *packed_of(mx_op op, const mx_tensor *sources, int n, size_t *bytes) {
    mx_attrs attrs = {0};
    mx_weight_use use = {op, &attrs, 1, sources, n, MXW_PRECISION_EXACT};
    *bytes = cpu->packing(cpu, &use).bytes;
    void *to = take(*bytes);
    CHECK(cpu->pack(cpu, &use, to, pool) >= 0);
    return to;
}

/* A weight, also one of two sources, packs to the same bytes however its axes lie in memory. */
static void test_packing(void) {
    static const int64_t shapes[][3] = {{96, 40, 1}, {33, 7, 1}, {5, 64, 1}, {64, 1, 1}, {70, 12, 3}, {31, 5, 2}};
    static const int orders[][3] = {{1, 0, 2}, {0, 2, 1}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t i = 0; i < MX_COUNT(shapes); i++)
        for (size_t o = 0; o < MX_COUNT(orders); o++)
            for (int type = 0; type < 4; type++) {   /* f16, f32, and one of each */
                int rank = shapes[i][2] > 1 ? 3 : 2;
                mx_op op = rank == 3 ? MX_OP_FUSED_CONV1D : MX_OP_FUSED_LINEAR;
                mx_tensor dense[2], moved[2];
                size_t want_bytes, got_bytes;
                if (rank == 2 && o > 0)
                    continue;
                for (int s = 0; s < 2; s++) {
                    dense[s] = random_of(type >> s & 1 ? MXW_F32 : MXW_F16, rank, shapes[i]);
                    moved[s] = laid_out(&dense[s], orders[o]);
                }
                const void *want = packed_of(op, dense, 2, &want_bytes), *got = packed_of(op, moved, 2, &got_bytes);
                CHECK(want_bytes == got_bytes && memcmp(want, got, want_bytes) == 0);
                done();
            }
}

int main(int argc, char **argv) {
    need_isa();
    if (argc > 1)
        n_shapes = atoi(argv[1]);
    if (mx_device_find("cpu", &cpu) < 0 || mx_pool_open(3, &pool) < 0)
        return 1;
    test_packing();
    test_linear();
    test_conv1d();
    test_matmul();
    test_gather();
    test_refused();
    test_unknown_op();
    mx_pool_close(pool);
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
