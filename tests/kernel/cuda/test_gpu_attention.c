/* test_gpu_attention.c - the compiled attention of a GPU over whole windows, through its table, against sums in double:
 * sizes around the tiles, rows that lie apart, both precisions, heads that only the plain way takes, causal ones. Then
 * the bits: a window's, and a query's, are the same alone and among others, and so are those of the product behind it
 * and of one before it, whether rows go from one to the other as f32 or in a form of the device's own.
 * usage: test_gpu_attention [brief]: only what goes from a product to attention, for tools that take much longer.
 * Skipped where there is no CUDA device. */
#include "base/base.h"
#include "device/device.h"

#include <math.h>
#include <string.h>

#include "kit/check.h"

static const mx_device *gpu;

static uint64_t state = 11;
static uint32_t word(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

typedef struct attention {
    const char *what;
    int64_t n, t, s, heads, width, apart;
    int causal;
    float peak;              /* of q: how far the scores spread */
    mxw_precision precision;
} attention;

typedef struct given {
    int64_t d, ld;
    float *q, *k, *v;                     /* rows ld apart */
    void *on_gpu[3];
} given;

static float *random_floats(int64_t n, float scale) {
    float *x = mx_alloc((size_t)n * sizeof(float));
    if (!x)
        exit(1);
    for (int64_t i = 0; i < n; i++)
        x[i] = scale * ((float)word() / 1073741824.0f - 1);
    return x;
}

static void *uploaded(const void *from, size_t bytes) {
    void *to = gpu->alloc(gpu, bytes);
    if (!to || !CHECK(gpu->upload(gpu, to, from, bytes) >= 0))
        exit(1);
    return to;
}

static given make(const attention *a) {
    given g = {.d = a->heads * a->width, .ld = a->heads * a->width + a->apart};
    g.q = random_floats(a->n * a->t * g.ld, a->peak != 0 ? a->peak : 1);
    g.k = random_floats(a->n * a->s * g.ld, 1);
    g.v = random_floats(a->n * a->s * g.ld, 1);
    g.on_gpu[0] = uploaded(g.q, (size_t)(a->n * a->t * g.ld) * sizeof(float));
    g.on_gpu[1] = uploaded(g.k, (size_t)(a->n * a->s * g.ld) * sizeof(float));
    g.on_gpu[2] = uploaded(g.v, (size_t)(a->n * a->s * g.ld) * sizeof(float));
    return g;
}

static mx_tensor view(int64_t n, int64_t rows, const given *g, void *data) {
    mx_tensor t = mx_tensor_of(MXW_F32, 3, (int64_t[]){n, rows, g->d}, data);
    t.strides[1] = g->ld;
    t.strides[0] = rows * g->ld;
    return t;
}

/* `n` windows from `first` on; of a single one, `rows` queries from `row` on. */
static float *run(const attention *a, const given *g, int64_t first, int64_t n, int64_t row, int64_t rows) {
    mx_attrs attrs = {.heads = (int)a->heads, .causal = a->causal, .scale = 1 / sqrt((double)a->width)};
    mx_tensor in[3] = {view(n, rows, g, (float *)g->on_gpu[0] + (first * a->t + row) * g->ld),
                       view(n, a->s, g, (float *)g->on_gpu[1] + first * a->s * g->ld),
                       view(n, a->s, g, (float *)g->on_gpu[2] + first * a->s * g->ld)};
    mx_tensor out = mx_tensor_of(MXW_F32, 3, (int64_t[]){n, rows, g->d}, NULL);
    size_t bytes = mx_tensor_bytes(&out);
    float *y = mx_alloc(bytes);
    if (!y)
        exit(1);
    memset(y, 0xff, bytes);
    out.data = uploaded(y, bytes);
    mx_call call = {.op = MX_OP_ATTENTION, .attrs = &attrs, .n_inputs = 3, .n_outputs = 1, .inputs = in,
                    .outputs = &out, .compiled = 1, .precision = a->precision};
    call.scratch = gpu->alloc(gpu, MX_MAX(gpu->scratch_bytes(gpu, &call), 1));
    if (!CHECK(gpu->run_op(gpu, &call) >= 0) || !CHECK(gpu->download(gpu, y, out.data, bytes) >= 0))
        printf("    %s: %s\n", a->what, mx_error());
    gpu->free(gpu, call.scratch);
    gpu->free(gpu, out.data);
    return y;
}

/* One query and head in double, into out [width]. */
static void attend(const attention *a, const given *g, int64_t n, int64_t row, int64_t head, double *out) {
    int64_t keys = a->causal ? row + a->s - a->t + 1 : a->s;
    const float *q = g->q + (n * a->t + row) * g->ld + head * a->width;
    double *scores = mx_alloc((size_t)a->s * sizeof(double)), top = -INFINITY, sum = 0;
    memset(out, 0, (size_t)a->width * sizeof(double));
    for (int64_t j = 0; j < keys; j++) {
        const float *k = g->k + (n * a->s + j) * g->ld + head * a->width;
        scores[j] = 0;
        for (int64_t i = 0; i < a->width; i++)
            scores[j] += (double)q[i] * k[i];
        scores[j] /= sqrt((double)a->width);
        top = scores[j] > top ? scores[j] : top;
    }
    for (int64_t j = 0; j < keys; j++)
        sum += scores[j] = exp(scores[j] - top);
    for (int64_t j = 0; j < keys; j++)
        for (int64_t i = 0; i < a->width; i++)
            out[i] += scores[j] / sum * g->v[(n * a->s + j) * g->ld + head * a->width + i];
    mx_free(scores);
}

static void check_values(const attention *a, const given *g, const float *y) {
    double want[256], worst = 0, bound = a->precision == MXW_PRECISION_F16 ? 1e-3 * MX_MAX(1, a->peak) : 3e-6;
    int64_t unwritten = 0;
    for (int64_t i = 0; i < a->n * a->t * g->d; i++)
        unwritten += isnan(y[i]);
    for (int sample = 0; sample < 200; sample++) {
        int64_t n = word() % a->n, head = word() % a->heads;
        int64_t row = sample < 4 ? a->t - 1 - sample % a->t : word() % a->t;
        attend(a, g, n, row, head, want);
        for (int64_t i = 0; i < a->width; i++) {
            double error = fabs(y[(n * a->t + row) * g->d + head * a->width + i] - want[i]);
            worst = error <= worst ? worst : error;
        }
    }
    int ok = CHECK(unwritten == 0) & CHECK(worst <= bound);
    printf("%s %-34s %s: worst %.2g%s\n", ok ? "ok  " : "FAIL", a->what,
           a->precision == MXW_PRECISION_F16 ? "f16  " : "exact", worst, unwritten ? ", NOT ALL WRITTEN" : "");
}

static void check_bits(const attention *a, const given *g, const float *y) {
    size_t window = (size_t)(a->t * g->d) * sizeof(float);
    int same = 1;
    for (int64_t n = 0; n < a->n; n++) {
        float *alone = run(a, g, n, 1, 0, a->t);
        same &= memcmp(alone, y + n * a->t * g->d, window) == 0;
        mx_free(alone);
    }
    for (int64_t row = 0; row < a->t && !a->causal && a->width == 64; row += 37) {
        int64_t rows = MX_MIN(a->t - row, 1 + row % 21);
        float *some = run(a, g, 0, 1, row, rows);
        same &= memcmp(some, y + row * g->d, (size_t)(rows * g->d) * sizeof(float)) == 0;
        mx_free(some);
    }
    if (!CHECK(same))
        printf("FAIL %s: parts differ from the whole\n", a->what);
}

/* ---- the product behind it --------------------------------------------------------------------------------------- */

/* `columns` results of a product over rows of d; they are poisoned before. */
static float *run_product(mx_tensor x, mx_tensor weight, int64_t columns, mxw_precision precision, mx_call *call) {
    mx_attrs attrs = {0};
    int64_t rows = x.dims[0] * x.dims[1];
    mx_tensor in[6] = {x, weight}, out = mx_tensor_of(MXW_F32, 3, (int64_t[]){x.dims[0], x.dims[1], columns}, NULL);
    float *y = mx_alloc((size_t)(rows * columns) * sizeof(float));
    if (!y)
        exit(1);
    memset(y, 0xff, mx_tensor_bytes(&out));
    out.data = uploaded(y, mx_tensor_bytes(&out));
    *call = (mx_call){.op = MX_OP_FUSED_LINEAR, .attrs = &attrs, .n_inputs = 6, .n_outputs = 1, .inputs = in,
                      .outputs = &out, .compiled = 1, .precision = precision};
    call->scratch = gpu->alloc(gpu, MX_MAX(gpu->scratch_bytes(gpu, call), 1));
    if (!CHECK(gpu->run_op(gpu, call) >= 0) || !CHECK(gpu->download(gpu, y, out.data, mx_tensor_bytes(&out)) >= 0))
        printf("    product: %s\n", mx_error());
    gpu->free(gpu, call->scratch);
    gpu->free(gpu, out.data);
    return y;
}

static void check_output_layout(const attention *a) {
    given g = make(a);
    int64_t columns = 128;
    mx_attrs attrs = {.heads = (int)a->heads, .scale = 1 / sqrt((double)a->width)};
    uint16_t *halves = mx_alloc((size_t)(columns * g.d) * sizeof(*halves));
    if (!halves)
        exit(1);
    for (int64_t i = 0; i < columns * g.d; i++)
        halves[i] = mx_f32_to_f16((float)word() / 1073741824.0f - 1);
    mx_tensor source = mx_tensor_of(MXW_F16, 2, (int64_t[]){columns, g.d}, halves), weight = source;
    mx_weight_use use = {MX_OP_FUSED_LINEAR, &attrs, 1, &source, 1, a->precision, a->t};
    weight.layout = MX_LAYOUT_PACKED;
    weight.packing = gpu->packing(gpu, &use);
    weight.data = gpu->alloc(gpu, weight.packing.bytes);
    CHECK(gpu->pack(gpu, &use, weight.data, NULL) >= 0);
    mx_tensor in[3] = {view(a->n, a->t, &g, g.on_gpu[0]), view(a->n, a->s, &g, g.on_gpu[1]),
                       view(a->n, a->s, &g, g.on_gpu[2])};
    mx_tensor out = mx_tensor_of(MXW_F32, 3, (int64_t[]){a->n, a->t, g.d}, NULL);
    mx_call call = {.op = MX_OP_ATTENTION, .attrs = &attrs, .n_inputs = 3, .n_outputs = 1, .inputs = in,
                    .outputs = &out, .compiled = 1, .precision = a->precision}, next;
    out.data = gpu->alloc(gpu, mx_tensor_bytes(&out));   /* not fewer bytes than the other form has */
    call.scratch = gpu->alloc(gpu, MX_MAX(gpu->scratch_bytes(gpu, &call), 1));
    CHECK(gpu->run_op(gpu, &call) >= 0);
    float *plain = run_product(out, weight, columns, a->precision, &next);
    mx_tensor product_in[6] = {out, weight};
    mx_tensor product_out = mx_tensor_of(MXW_F32, 3, (int64_t[]){a->n, a->t, columns}, NULL);
    next.inputs = product_in;
    next.outputs = &product_out;
    next.attrs = &attrs;
    mx_layout layout = MX_LAYOUT_DENSE;
    size_t bytes = gpu->output_layout_bytes ? gpu->output_layout_bytes(gpu, &call, &next, 0, &layout) : 0;
    if (bytes) {
        gpu->free(gpu, out.data);
        out.data = gpu->alloc(gpu, bytes);
        out.layout = layout;
        CHECK(gpu->run_op(gpu, &call) >= 0);
        float *laid_out = run_product(out, weight, columns, a->precision, &next);
        if (!CHECK(memcmp(plain, laid_out, (size_t)(a->n * a->t * columns) * sizeof(float)) == 0))
            printf("FAIL %s: the device layout gives other bits\n", a->what);
        mx_free(laid_out);
    }
    printf("%s, and a product, %s: %s\n", a->what, mx_precision_name(a->precision),
           bytes ? "device layout" : "f32 between them");
    gpu->free(gpu, out.data);
    gpu->free(gpu, call.scratch);
    gpu->free(gpu, weight.data);
    for (int i = 0; i < 3; i++)
        gpu->free(gpu, g.on_gpu[i]);
    mx_free(plain);
    mx_free(halves);
    mx_free(g.q);
    mx_free(g.k);
    mx_free(g.v);
}

/* ---- the product before it --------------------------------------------------------------------------------------- */

/* A stacked product over random rows, and attention over slices of its result. */
typedef struct stacked {
    int64_t n, t, heads, d;
    mx_attrs plain, attrs;
    mx_tensor x, weight, out, in[3], product_in[6], y;
    mx_call product, attend;
} stacked;

static void view_stack(stacked *s, void *base) {
    int dense = base && s->out.layout == MX_LAYOUT_DENSE;
    for (int i = 0; i < 3; i++) {
        s->in[i] = mx_tensor_of(MXW_F32, 3, (int64_t[]){s->n, s->t, s->d}, dense ? (float *)base + i * s->d : base);
        s->in[i].layout = s->out.layout;
        s->in[i].offset = i * s->d;
        s->in[i].strides[1] = 3 * s->d;
        s->in[i].strides[0] = s->t * 3 * s->d;
    }
    s->out.data = base;
}

static void *random_on_gpu(int64_t n) {
    float *x = random_floats(n, 1);
    void *to = uploaded(x, (size_t)n * sizeof(float));
    mx_free(x);
    return to;
}

static void open_stack(stacked *s, mxw_precision precision) {
    int64_t rows = s->n * s->t, k = s->heads == 20 ? 1280 : 384, columns = 3 * s->heads * 64;
    s->d = s->heads * 64;
    s->attrs = (mx_attrs){.heads = (int)s->heads, .scale = 0.125};
    uint16_t *halves = mx_alloc((size_t)(columns * k) * sizeof(*halves));
    if (!halves)
        exit(1);
    for (int64_t i = 0; i < columns * k; i++)
        halves[i] = mx_f32_to_f16(0.1f * ((float)word() / 1073741824.0f - 1));
    mx_tensor source = mx_tensor_of(MXW_F16, 2, (int64_t[]){columns, k}, halves);
    mx_weight_use use = {MX_OP_FUSED_LINEAR, &s->plain, 1, &source, 1, precision, s->t};
    s->weight = source;
    s->weight.layout = MX_LAYOUT_PACKED;
    s->weight.packing = gpu->packing(gpu, &use);
    s->weight.data = gpu->alloc(gpu, s->weight.packing.bytes);
    CHECK(gpu->pack(gpu, &use, s->weight.data, NULL) >= 0);
    mx_free(halves);
    s->x = mx_tensor_of(MXW_F32, 3, (int64_t[]){s->n, s->t, k}, random_on_gpu(rows * k));
    s->out = mx_tensor_of(MXW_F32, 3, (int64_t[]){s->n, s->t, columns}, NULL);
    s->y = mx_tensor_of(MXW_F32, 3, (int64_t[]){s->n, s->t, s->d}, NULL);
    s->product_in[0] = s->x;
    s->product_in[1] = s->weight;
    s->product_in[2] = mx_tensor_of(MXW_F32, 1, &columns, random_on_gpu(columns));
    s->product = (mx_call){.op = MX_OP_FUSED_LINEAR, .attrs = &s->plain, .n_inputs = 6, .n_outputs = 1,
                           .inputs = s->product_in, .outputs = &s->out, .compiled = 1, .precision = precision};
    s->attend = (mx_call){.op = MX_OP_ATTENTION, .attrs = &s->attrs, .n_inputs = 3, .n_outputs = 1, .inputs = s->in,
                          .outputs = &s->y, .compiled = 1, .precision = precision};
}

/* Both calls, with `bytes` between them; the result is poisoned before, and what lies between as well. */
static float *run_stack(stacked *s, size_t bytes) {
    size_t result = mx_tensor_bytes(&s->y);
    float *y = mx_alloc(MX_MAX(result, bytes));
    if (!y)
        exit(1);
    memset(y, 0xff, MX_MAX(result, bytes));
    s->y.data = uploaded(y, result);
    view_stack(s, uploaded(y, bytes));
    size_t scratch = MX_MAX(gpu->scratch_bytes(gpu, &s->product), gpu->scratch_bytes(gpu, &s->attend));
    s->product.scratch = s->attend.scratch = gpu->alloc(gpu, MX_MAX(scratch, 1));
    if (!CHECK(gpu->run_op(gpu, &s->product) >= 0) || !CHECK(gpu->run_op(gpu, &s->attend) >= 0) ||
        !CHECK(gpu->download(gpu, y, s->y.data, result) >= 0))
        printf("    stack: %s\n", mx_error());
    gpu->free(gpu, s->product.scratch);
    gpu->free(gpu, s->y.data);
    gpu->free(gpu, s->out.data);
    return y;
}

static void check_stacked(int64_t n, int64_t t, int64_t heads, mxw_precision precision) {
    stacked s = {.n = n, .t = t, .heads = heads};
    mx_layout layout = MX_LAYOUT_DENSE;
    size_t bytes = 0;
    open_stack(&s, precision);
    view_stack(&s, NULL);
    for (int i = 0; i < 3 && gpu->output_layout_bytes; i++) {
        size_t need = gpu->output_layout_bytes(gpu, &s.product, &s.attend, i, &layout);
        CHECK(i == 0 || need == bytes);
        bytes = need;
    }
    float *plain = run_stack(&s, mx_tensor_bytes(&s.out));
    if (bytes) {
        s.out.layout = layout;
        float *laid_out = run_stack(&s, bytes);
        if (!CHECK(memcmp(plain, laid_out, mx_tensor_bytes(&s.y)) == 0))
            printf("FAIL a stack of %lld x %lld: the device layout gives other bits\n", (long long)n, (long long)t);
        mx_free(laid_out);
    }
    printf("a product, and attention, %lld x %lld %s: %s\n", (long long)n, (long long)t,
           mx_precision_name(precision), bytes ? "device layout" : "f32 between them");
    gpu->free(gpu, s.x.data);
    gpu->free(gpu, s.weight.data);
    gpu->free(gpu, s.product_in[2].data);
    mx_free(plain);
}

static const attention attentions[] = {
    {"one key", .n = 1, .t = 1, .s = 1, .heads = 1, .width = 64},
    {"a tile and one", .n = 2, .t = 65, .s = 65, .heads = 2, .width = 64},
    {"a tile less one, rows apart", .n = 2, .t = 63, .s = 63, .heads = 3, .width = 64, .apart = 7},
    {"more queries than keys", .n = 1, .t = 300, .s = 10, .heads = 2, .width = 64},
    {"peaked", .n = 2, .t = 200, .s = 333, .heads = 2, .width = 64, .peak = 20},
    {"windows of tiny, from a stack", .n = 5, .t = 1500, .s = 1500, .heads = 6, .width = 64, .apart = 768, .peak = 4},
    {"heads of 32, rows apart", .n = 2, .t = 70, .s = 70, .heads = 3, .width = 32, .apart = 5},
    {"heads of 80", .n = 2, .t = 70, .s = 90, .heads = 2, .width = 80},
    {"causal", .n = 2, .t = 70, .s = 90, .heads = 2, .width = 64, .apart = 64, .causal = 1},
};

static void check_alone(void) {
    for (size_t i = 0; i < 2 * MX_COUNT(attentions); i++) {
        attention a = attentions[i / 2];
        a.precision = i % 2 ? MXW_PRECISION_F16 : MXW_PRECISION_EXACT;
        given g = make(&a);
        float *y = run(&a, &g, 0, a.n, 0, a.t);
        check_values(&a, &g, y);
        check_bits(&a, &g, y);
        mx_free(y);
        for (int j = 0; j < 3; j++)
            gpu->free(gpu, g.on_gpu[j]);
        mx_free(g.q);
        mx_free(g.k);
        mx_free(g.v);
    }
}

int main(int argc, char **argv) {
    int brief = argc > 1 && strcmp(argv[1], "brief") == 0;
    if (mx_device_find("cuda", &gpu) < 0 || gpu->open(gpu) < 0) {
        printf("SKIP: gpu-attention: %s\n", mx_error());
        return 77;
    }
    if (!brief)
        check_alone();
    for (mxw_precision precision = MXW_PRECISION_EXACT; precision <= MXW_PRECISION_F8; precision++) {
        if (!gpu->supports_precision(gpu, precision))
            continue;
        attention few = {"two windows", .n = 2, .t = 1500, .s = 70, .heads = 2, .width = 64},
                  many = {"six windows", .n = 6, .t = 1500, .s = 70, .heads = 2, .width = 64};
        few.precision = many.precision = precision;
        check_stacked(265, 100, 4, precision);   /* several windows to a tile, the last of them not full */
        check_stacked(280, 92, 4, precision);    /* of the last tile of keys less than half */
        if (brief)
            continue;
        check_stacked(17, 1500, 6, precision);
        check_stacked(9, 1500, 20, precision);   /* as large as in large */
        check_stacked(200, 128, 6, precision);
        check_stacked(200, 96, 6, precision);   /* a tile of nothing but what the window is filled up with */
        check_stacked(2, 1500, 6, precision);
        check_output_layout(&few);
        check_output_layout(&many);
    }
    return check_done();
}
