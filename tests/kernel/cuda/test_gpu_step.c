/* test_gpu_step.c - compiled calls of a decoder's step on a GPU, through its table, against the CPU's plain ops: rows
 * over caches and windows, their scores, rows of tables and into caches, select fused with its product. Then the bits:
 * a row's are the same alone and among others, wherever it stands.
 * usage: test_gpu_step [brief]: what brings in each kernel, for checkers that take their time.
 * Skipped where there is no CUDA device. */
#include "base/base.h"
#include "device/device.h"

#include <math.h>

#include "kit/check.h"

static const mx_device *gpu, *cpu;

static uint64_t seed = 5;
static uint32_t word(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}
static int64_t below(int64_t n) { return (int64_t)(word() % (uint32_t)n); }

#define DIMS(...) ((int64_t[]){__VA_ARGS__})

/* Host tensors of one case; freed together. */
static void *blocks[64];
static int n_blocks;

static void *block(size_t bytes) {
    void *b = mx_alloc(MX_MAX(bytes, 1));
    if (!b || n_blocks == 64)
        exit(1);
    return blocks[n_blocks++] = b;
}

static void forget(void) {
    while (n_blocks)
        mx_free(blocks[--n_blocks]);
}

static mx_tensor blank(mxw_dtype dtype, int rank, const int64_t *dims) {
    mx_tensor t = mx_tensor_of(dtype, rank, dims, NULL);
    t.data = block(mx_tensor_bytes(&t));
    memset(t.data, 0xff, mx_tensor_bytes(&t));
    return t;
}

static mx_tensor floats(int rank, const int64_t *dims, float scale) {
    mx_tensor t = blank(MXW_F32, rank, dims);
    for (int64_t i = 0; i < mx_tensor_count(&t); i++)
        ((float *)t.data)[i] = scale * ((float)word() / 1073741824.0f - 1);
    return t;
}

static mx_tensor ints(int rank, const int64_t *dims, int64_t limit) {
    mx_tensor t = blank(MXW_I32, rank, dims);
    for (int64_t i = 0; i < mx_tensor_count(&t); i++)
        ((int32_t *)t.data)[i] = (int32_t)below(limit);
    return t;
}

/* The last `width` columns of rows that are wider. */
static mx_tensor apart(int64_t rows, int64_t width, int64_t more, float scale) {
    mx_tensor whole = floats(2, DIMS(rows, width + more), scale);
    mx_tensor t = mx_tensor_of(MXW_F32, 2, DIMS(rows, width), (float *)whole.data + more);
    t.strides[0] = width + more;
    return t;
}

static size_t span(const mx_tensor *t) {   /* bytes from its first element to behind its last */
    size_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n += t->dims[i] ? (size_t)((t->dims[i] - 1) * t->strides[i]) : 0;
    return mx_tensor_count(t) ? n * mx_dtype_bytes(t->dtype) : 0;
}

/* The call on a device, host tensors in and out. Where an output is a state, input 0 is what it was. */
static void run(const mx_device *device, mx_call call, int compiled) {
    mx_tensor in[8], out[3];
    const void *host[8];
    int far = !device->host_memory, state = call.op == MX_OP_STATE_WRITE;
    for (int i = 0; i < call.n_inputs; i++) {
        in[i] = call.inputs[i];
        host[i] = in[i].dtype == MXW_I32 ? in[i].data : NULL;
        if (!far || !in[i].data)
            continue;
        void *to = device->alloc(device, MX_MAX(span(&in[i]), 1));
        if (!to || !CHECK(device->upload(device, to, in[i].data, span(&in[i])) >= 0))
            exit(1);
        in[i].data = to;
    }
    for (int i = 0; i < call.n_outputs; i++) {
        out[i] = call.outputs[i];
        if (far)
            out[i].data = state ? in[0].data : device->alloc(device, MX_MAX(mx_tensor_bytes(&out[i]), 1));
        else if (state)
            memcpy(out[i].data, in[0].data, mx_tensor_bytes(&out[i])), in[0].data = out[i].data;
        if (far && !state)
            CHECK(device->upload(device, out[i].data, call.outputs[i].data, mx_tensor_bytes(&out[i])) >= 0);
    }
    mx_call here = call;
    here.inputs = in;
    here.outputs = out;
    here.host = far ? host : NULL;
    here.compiled = compiled;
    here.scratch = device->alloc(device, MX_MAX(device->scratch_bytes(device, &here), 1));
    if (!CHECK(device->run_op(device, &here) >= 0))
        printf("    %s\n", mx_error());
    for (int i = 0; i < call.n_outputs && far; i++) {
        CHECK(device->download(device, call.outputs[i].data, out[i].data, mx_tensor_bytes(&out[i])) >= 0);
        if (!state)
            device->free(device, out[i].data);
    }
    for (int i = 0; i < call.n_inputs && far; i++)
        device->free(device, in[i].data);
    device->free(device, here.scratch);
}

static double worst_difference(const mx_tensor *a, const mx_tensor *b) {
    double worst = 0;
    for (int64_t i = 0; i < mx_tensor_count(a); i++) {
        double d = fabs((double)((const float *)a->data)[i] - (double)((const float *)b->data)[i]);
        worst = d <= worst ? worst : d;   /* a NaN stays */
    }
    return worst;
}

static void report(const char *what, int ok, double worst) {
    printf("%s %s: worst %.2g\n", ok ? "ok  " : "FAIL", what, worst);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

typedef struct attention {
    int64_t rows, heads, width, keys, more;   /* keys: of a window, or the context of a cache */
    int cached, run;    /* run: rows that listen to the same window, or whose cells part late; 0: all have any */
    float peak;
} attention;

/* f32 as a state keeps them: f32, or rounded to f16 or f8; the f32 become what is kept. */
static mx_tensor kept_as(mxw_dtype dtype, mx_tensor *wide) {
    if (dtype == MXW_F32)
        return *wide;
    mx_tensor t = blank(dtype, wide->rank, wide->dims);
    for (int64_t i = 0; i < mx_tensor_count(&t); i++) {
        float x = ((const float *)wide->data)[i];
        if (dtype == MXW_F8)
            ((uint8_t *)t.data)[i] = mx_f32_to_f8(x);
        else
            ((uint16_t *)t.data)[i] = mx_f32_to_f16(x);
    }
    CHECK(mx_tensor_to_f32(&t, wide->data) >= 0);
    return t;
}

/* ", f8" for a line of output */
static const char *tail_of(mxw_dtype kept) {
    return kept == MXW_F8 ? ", f8" : kept == MXW_F16 ? ", f16" : "";
}

/* Row r of the inputs alone. */
static mx_tensor row_of(const mx_tensor *t, int64_t r) {
    mx_tensor one = *t;
    one.dims[0] = 1;
    one.data = (char *)t->data + (size_t)(r * t->strides[0]) * mx_dtype_bytes(t->dtype);
    return one;
}

/* Rows of a run have as many keys, but for a few rows, and the same up to one of the last 40; the first row's cells are
 * the random ones. */
static void let_part(const attention *a, mx_tensor *seq, mx_tensor *pos, mx_tensor *cells) {
    int32_t *at = cells->data, *last = pos->data;
    for (int64_t r = 0; r < a->rows; r++) {
        int64_t first = r / a->run * a->run;
        ((int32_t *)seq->data)[r] = (int32_t)r;
        last[r] = r == first || below(9) == 0 ? last[r] : last[first];
        int64_t late = below(40), same = MX_MAX(last[r] + 1 - late, 1);
        memcpy(at + r * a->keys, at + first * a->keys, (size_t)(below(4) ? same : last[r] + 1) * sizeof(*at));
    }
}

/* Over keys and values of f8 a call gives the bits that it gives over f16 of the same values, by a kernel of its own
 * where heads are 64 wide. */
static int same_as_f16(const mx_call *f8, const mx_tensor wide[2]) {
    mx_tensor in[6], y = blank(MXW_F32, f8->outputs[0].rank, f8->outputs[0].dims), copy;
    memcpy(in, f8->inputs, (size_t)f8->n_inputs * sizeof(*in));
    for (int i = 0; i < 2; i++) {
        copy = wide[i];   /* it is f16 already */
        in[1 + i] = kept_as(MXW_F16, &copy);
    }
    mx_call f16 = *f8;
    f16.inputs = in;
    f16.outputs = &y;
    run(gpu, f16, 1);
    f16.inputs = f8->inputs;
    f16.compiled = 1;
    const char *kernel = f8->inputs[0].dims[1] == f8->attrs->heads * 64 ? "decode_cross_f8" : "plain";
    return memcmp(y.data, f8->outputs[0].data, mx_tensor_bytes(&y)) == 0 && !strcmp(gpu->kernel(gpu, &f16), kernel);
}

/* f16, f8: caches and windows are kept as that, as the GPU does with that precision. */
static void check_attention(const attention *a, mxw_dtype dtype) {
    char what[128];
    int64_t d = a->heads * a->width, entries = a->cached ? 700 : 4, sequences = a->cached && a->run ? a->rows : 7;
    mx_attrs attrs = {.heads = (int)a->heads, .scale = 1 / sqrt((double)a->width)};
    mx_tensor in[6], kept[2], wide[2];
    mx_tensor y = blank(MXW_F32, 2, DIMS(a->rows, d)), want = blank(MXW_F32, 2, DIMS(a->rows, d));
    in[0] = apart(a->rows, d, a->more, a->peak);
    for (int i = 1; i < 3; i++)
        in[i] = a->cached ? floats(2, DIMS(entries, d), 1) : floats(3, DIMS(entries, a->keys, d), 1);
    for (int i = 0; i < 2; i++) {
        wide[i] = in[1 + i];
        kept[i] = kept_as(dtype, &wide[i]);
    }
    in[3] = ints(1, &a->rows, a->cached ? sequences : entries);
    in[4] = ints(1, &a->rows, a->keys);
    in[5] = ints(2, DIMS(sequences, a->keys), entries);
    for (int64_t r = 0; r < a->rows && !a->cached; r++)
        ((int32_t *)in[3].data)[r] = (int32_t)(r / a->run % entries);
    if (a->cached && a->run)
        let_part(a, &in[3], &in[4], &in[5]);
    mx_call call = {.op = a->cached ? MX_OP_ATTENTION_CACHED : MX_OP_ATTENTION_WINDOW, .attrs = &attrs,
                    .n_inputs = a->cached ? 6 : 4, .n_outputs = 1, .inputs = in, .outputs = &y};
    mx_tensor dense = blank(MXW_F32, 2, DIMS(a->rows, d)), apart_q = in[0];
    mx_tensor_pack(&in[0], dense.data);
    in[0] = dense;
    call.outputs = &want;
    run(cpu, call, 0);
    in[0] = apart_q;
    memcpy(in + 1, kept, sizeof(kept));
    call.outputs = &y;
    run(gpu, call, 1);
    double worst = worst_difference(&y, &want);
    int same = dtype != MXW_F8 || same_as_f16(&call, wide);
    for (int64_t r = 0; r < a->rows; r += 1 + a->rows / 9) {
        mx_tensor one_in[6], one = blank(MXW_F32, 2, DIMS(1, d));
        memcpy(one_in, in, sizeof(in));
        one_in[0] = row_of(&in[0], r);
        one_in[3] = row_of(&in[3], r);
        if (a->cached)
            one_in[4] = row_of(&in[4], r);
        mx_call alone = call;
        alone.inputs = one_in;
        alone.outputs = &one;
        run(gpu, alone, 1);
        same &= memcmp(one.data, (float *)y.data + r * d, (size_t)d * sizeof(float)) == 0;
    }
    snprintf(what, sizeof(what), "attention %s%s: %d rows, %d heads of %d, %d keys", a->cached ? "cached" : "window",
             tail_of(dtype), (int)a->rows, (int)a->heads, (int)a->width, (int)a->keys);
    int ok = CHECK(worst <= 4e-6) & CHECK(same);
    report(what, ok, worst);
    forget();
}

/* Few rows, and more than there are blocks for, over windows and over caches. */
static void test_attention_briefly(mxw_dtype dtype) {
    static const attention cases[] = {
        {6, 2, 64, 300, 4, 0, 3, 2}, {80, 20, 64, 200, 0, 0, 5, 2},
        {6, 2, 64, 200, 4, 1, 3, 2}, {80, 8, 64, 200, 0, 1, 5, 2},
    };
    for (size_t i = 0; i < MX_COUNT(cases); i++)
        if (dtype != MXW_F8 || !cases[i].cached)   /* only windows are kept as f8 */
            check_attention(&cases[i], dtype);
}

static void test_attention(mxw_dtype dtype) {
    static const attention cases[] = {
        {5, 6, 64, 1500, 0, 0, 5, 3},   {1, 6, 64, 1500, 0, 0, 1, 3},    {40, 6, 64, 1500, 768, 0, 5, 1},
        {13, 2, 64, 64, 128, 0, 3, 5},  {13, 2, 64, 65, 0, 0, 13, 5},    {9, 1, 64, 1, 0, 0, 9, 1},
        {37, 8, 64, 127, 4, 0, 1, 2},   {230, 6, 64, 1500, 0, 0, 230, 1}, {7, 3, 16, 150, 2, 0, 2, 1},
        {320, 6, 64, 1500, 0, 0, 5, 1}, {5, 6, 64, 448, 768, 1, 0, 3},   {1, 20, 64, 448, 0, 1, 0, 3},
        {64, 6, 64, 448, 0, 1, 0, 1},   {11, 2, 64, 64, 128, 1, 0, 4},   {11, 2, 64, 65, 4, 1, 0, 4},
        {7, 3, 16, 32, 48, 1, 0, 1},    {320, 6, 64, 448, 768, 1, 0, 1}, {320, 6, 64, 448, 0, 1, 5, 1},
        {320, 20, 64, 448, 0, 1, 5, 3}, {80, 20, 64, 100, 0, 1, 5, 3},   {80, 8, 64, 224, 4, 1, 8, 1},
        {81, 6, 64, 129, 0, 1, 20, 1},  {320, 20, 64, 1500, 0, 0, 5, 2}, {530, 6, 64, 300, 0, 0, 11, 2},
        {600, 8, 64, 200, 0, 1, 7, 2},
    };
    for (size_t i = 0; i < MX_COUNT(cases); i++)
        if (dtype != MXW_F8 || !cases[i].cached)
            check_attention(&cases[i], dtype);
}

/* Windows of any numbers that f8 has, from 2^-9 to 448. */
static void test_attention_codes(void) {
    enum { N = 7, HEADS = 3, KEYS = 300, D = 64 * HEADS };
    mx_tensor in[4], wide[2], y = blank(MXW_F32, 2, DIMS(N, D));
    in[0] = floats(2, DIMS(N, D), 0.02f);
    for (int i = 0; i < 2; i++) {
        in[1 + i] = blank(MXW_F8, 3, DIMS(2, KEYS, D));
        wide[i] = blank(MXW_F32, 3, DIMS(2, KEYS, D));
        for (int64_t j = 0; j < mx_tensor_count(&wide[i]); j++)
            ((uint8_t *)in[1 + i].data)[j] = (uint8_t)(below(127) + 128 * below(2));
        CHECK(mx_tensor_to_f32(&in[1 + i], wide[i].data) >= 0);
    }
    in[3] = ints(1, DIMS(N), 2);
    mx_call call = {.op = MX_OP_ATTENTION_WINDOW, .attrs = &(mx_attrs){.heads = HEADS, .scale = 0.125}, .n_inputs = 4,
                    .n_outputs = 1, .inputs = in, .outputs = &y};
    run(gpu, call, 1);
    int finite = 1;
    for (int i = 0; i < N * D; i++)
        finite &= isfinite(((const float *)y.data)[i]) != 0;
    report("attention window, f8: all codes", CHECK(finite) & CHECK(same_as_f16(&call, wide)), 0);
    forget();
}

/* Scores alone, of which words' times are made: of any heads, over windows that are kept as f32, f16 or f8. */
static void check_scores(int64_t rows, int64_t heads, int64_t width, int64_t keys, mxw_dtype dtype) {
    char what[96];
    int64_t d = heads * width, windows = 4, n = heads / 2 + 1;
    mx_attrs attrs = {.heads = (int)heads, .scale = 1 / sqrt((double)width)};
    mx_tensor in[4], y = blank(MXW_F32, 3, DIMS(rows, n, keys)), want = blank(MXW_F32, 3, DIMS(rows, n, keys));
    in[0] = floats(2, DIMS(rows, d), 2);
    in[1] = floats(3, DIMS(windows, keys, d), 1);
    in[2] = ints(1, &n, heads);
    in[3] = ints(1, &rows, windows);
    mx_tensor kept = kept_as(dtype, &in[1]);
    mx_call call = {.op = MX_OP_ATTENTION_SCORES, .attrs = &attrs, .n_inputs = 4, .n_outputs = 1, .inputs = in,
                    .outputs = &want};
    run(cpu, call, 0);
    in[1] = kept;
    call.outputs = &y;
    run(gpu, call, 1);
    double worst = worst_difference(&y, &want);
    int same = 1;
    for (int64_t r = 0; r < rows; r += 1 + rows / 5) {
        mx_tensor one_in[] = {row_of(&in[0], r), in[1], in[2], row_of(&in[3], r)};
        mx_tensor one = blank(MXW_F32, 3, DIMS(1, n, keys));
        mx_call alone = call;
        alone.inputs = one_in;
        alone.outputs = &one;
        run(gpu, alone, 1);
        same &= memcmp(one.data, (float *)y.data + r * n * keys, mx_tensor_bytes(&one)) == 0;
    }
    snprintf(what, sizeof(what), "scores%s: %d rows, %d heads of %d, %d keys", tail_of(dtype), (int)rows, (int)n,
             (int)width, (int)keys);
    int ok = CHECK(worst <= 4e-6) & CHECK(same);
    report(what, ok, worst);
    forget();
}

static void test_scores(mxw_dtype dtype) {
    check_scores(1, 6, 64, 1500, dtype);
    check_scores(37, 6, 64, 1500, dtype);
    check_scores(11, 3, 16, 65, dtype);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void test_gather(void) {
    static const mxw_dtype dtypes[] = {MXW_F32, MXW_F16, MXW_BF16};
    for (int i = 0; i < 3; i++)
        for (int64_t n = 1; n < 500; n = n * 3 + 5) {
            mx_tensor in[] = {blank(dtypes[i], 2, DIMS(90, n)), ints(1, DIMS(23), 90)};
            mx_tensor wide = floats(2, DIMS(90, n), 2), y = blank(MXW_F32, 2, DIMS(23, n));
            int same = 1;
            for (int64_t j = 0; j < 90 * n; j++) {
                float x = ((const float *)wide.data)[j];
                if (dtypes[i] == MXW_F32)
                    ((float *)in[0].data)[j] = x;
                else
                    ((uint16_t *)in[0].data)[j] = dtypes[i] == MXW_F16 ? mx_f32_to_f16(x) : mx_f32_to_bf16(x);
            }
            CHECK(mx_tensor_to_f32(&in[0], wide.data) >= 0);
            run(gpu, (mx_call){.op = MX_OP_GATHER, .n_inputs = 2, .n_outputs = 1, .inputs = in, .outputs = &y}, 1);
            for (int r = 0; r < 23; r++)
                same &= memcmp((float *)y.data + r * n, (float *)wide.data + ((int32_t *)in[1].data)[r] * n,
                               (size_t)n * sizeof(float)) == 0;
            if (!CHECK(same))
                printf("FAIL gather of %s, %d wide\n", mx_dtype_name(dtypes[i]), (int)n);
            forget();
        }
}

/* Into a cache, from rows that lie apart, of two and of three axes; the last of equal indices stays. f16, f8: the
 * cache is kept as that. */
static void test_write(mxw_dtype dtype) {
    for (int64_t width = 1; width < 900; width = width * 4 + (width == 5)) {
        for (int64_t inner = 1; inner < 40; inner = inner * 5 + 2) {
            int64_t n = 9, ld = width * 3;
            mx_tensor state = floats(3, DIMS(6, inner, width), 1), rows = apart(n * inner, width, ld - width, 1);
            mx_tensor x = mx_tensor_of(MXW_F32, 3, DIMS(n, inner, width), rows.data);
            x.strides[1] = ld;
            x.strides[0] = ld * inner;
            mx_tensor in[] = {kept_as(dtype, &state), x, ints(1, DIMS(n), 6)};
            mx_tensor y = blank(dtype, 3, DIMS(6, inner, width));
            run(gpu, (mx_call){.op = MX_OP_STATE_WRITE, .n_inputs = 3, .n_outputs = 1, .inputs = in, .outputs = &y}, 1);
            for (int64_t i = 0; i < n; i++)
                for (int64_t t = 0; t < inner; t++)
                    memcpy((float *)state.data + (((int32_t *)in[2].data)[i] * inner + t) * width,
                           (float *)x.data + (i * inner + t) * ld, (size_t)width * sizeof(float));
            mx_tensor want = kept_as(dtype, &state);
            if (!CHECK(memcmp(want.data, y.data, mx_tensor_bytes(&y)) == 0))
                printf("FAIL state_write%s, %d x %d\n", tail_of(dtype), (int)inner, (int)width);
            forget();
        }
    }
}

/* The numbers around each that f8 has and around what lies between it and the next; very large and very small ones,
 * infinity, and what is no number: as many as fit. */
static void fill_specials(float *x, int64_t n) {
    static const float more[] = {INFINITY, -INFINITY, NAN, -NAN, 3e38f, -3e38f, 1e-40f, -1e-40f, 464, 465, -479, 0,
                                 -0.0f};
    int64_t i = 0;
    for (size_t j = 0; j < MX_COUNT(more) && i < n; j++)
        x[i++] = more[j];
    for (int code = 0; i < n; code++) {
        float one = mx_f8_to_f32((uint8_t)(code % 126)), next = mx_f8_to_f32((uint8_t)(code % 126 + 1));
        float places[] = {one, (one + next) / 2, nextafterf((one + next) / 2, one), nextafterf((one + next) / 2, next)};
        for (size_t j = 0; j < MX_COUNT(places) && i < n; j++)
            x[i++] = code / 126 % 2 ? -places[j] : places[j];
    }
}

/* f8 is rounded to as the host does, whichever kernel writes. */
static void test_write_specials(void) {
    for (int64_t width = 1021; width <= 1024; width += 3) {
        mx_tensor x = blank(MXW_F32, 2, DIMS(1, width)), state = blank(MXW_F8, 2, DIMS(2, width));
        mx_tensor in[] = {state, x, ints(1, DIMS(1), 1)}, y = blank(MXW_F8, 2, DIMS(2, width));
        int wrong = 0;
        fill_specials(x.data, width);
        run(gpu, (mx_call){.op = MX_OP_STATE_WRITE, .n_inputs = 3, .n_outputs = 1, .inputs = in, .outputs = &y}, 1);
        for (int64_t i = 0; i < width; i++) {
            float value = ((const float *)x.data)[i];
            uint8_t got = ((const uint8_t *)y.data)[i], want = mx_f32_to_f8(value);
            if (isnan(value) ? got % 128 != 127 : got != want) {
                printf("FAIL state_write, f8: %a is 0x%02x, expected 0x%02x\n", (double)value, got, want);
                wrong++;
            }
            CHECK(((const uint8_t *)y.data)[width + i] == 0xff);   /* the next row is as it was */
        }
        CHECK_EQ_INT(wrong, 0);
        forget();
    }
}

/* ---- select ------------------------------------------------------------------------------------------------------ */

static mx_tensor random_rules(int64_t rows, int64_t vocab) {
    mx_tensor t = blank(MXW_I32, 2, DIMS(rows, MX_RULE_WORDS));
    for (int64_t r = 0; r < rows; r++) {
        int32_t begin = (int32_t)(vocab - vocab / 30);
        mx_rule rule = {.set = (int32_t)below(2), .ts_begin = begin, .ts_min = begin, .ts_max = (int32_t)vocab - 1,
                        .no_speech = -1, .key = {7, 8}, .counter = {(uint32_t)r, 1}};
        switch (r % 6) {
        case 0: rule.no_speech = (int32_t)below(vocab); break;
        case 1: rule.flags = MX_RULE_TIMESTAMP_SUM; break;
        case 2: rule.min_id = begin; rule.ts_min = begin + (int32_t)below(vocab / 40 + 1); break;
        case 3: rule.ts_max = begin - 1; rule.min_id = (int32_t)below(vocab / 2); break;
        case 4: rule.temperature = 0.8f; break;
        case 5: rule.min_id = (int32_t)vocab - 3; rule.flags = MX_RULE_TIMESTAMP_SUM; break;   /* few are left */
        }
        memcpy((int32_t *)t.data + r * MX_RULE_WORDS, &rule, sizeof(rule));
    }
    return t;
}

/* Candidates agree where they are not as good as equal. */
static int same_candidates(const mx_tensor *got, const mx_tensor *want, int64_t rows, int64_t k, double *worst) {
    int same = 1;
    for (int64_t i = 0; i < rows * k; i++) {
        int32_t a = ((const int32_t *)got[0].data)[i], b = ((const int32_t *)want[0].data)[i];
        float x = ((const float *)got[1].data)[i], y = ((const float *)want[1].data)[i];
        double d = x == y ? 0 : fabs((double)x - (double)y);
        *worst = d <= *worst ? *worst : d;
        int close = i % k + 1 < k && fabs((double)y - (double)((const float *)want[1].data)[i + 1]) < 1e-4;
        close |= i % k > 0 && fabs((double)y - (double)((const float *)want[1].data)[i - 1]) < 1e-4;
        same &= a == b || close || i % k + 1 == k;
    }
    for (int64_t i = 0; i < rows * MX_SELECT_STATS; i++) {
        double d = fabs((double)((const float *)got[2].data)[i] - (double)((const float *)want[2].data)[i]);
        *worst = d <= *worst ? *worst : d;
    }
    return same & (*worst <= 1e-4);
}

static void check_select(int64_t rows, int64_t vocab, int64_t width, int64_t k, int norm) {
    mx_attrs attrs = {.k = k, .eps = 1e-5};
    mx_tensor in[6] = {apart(rows, width, width / 2 * 2, 1), floats(2, DIMS(vocab, width), 0.4f),
                       random_rules(rows, vocab), blank(MXW_U8, 2, DIMS(2, vocab)), {0}, {0}};
    mx_tensor got[3] = {blank(MXW_I32, 2, DIMS(rows, k)), blank(MXW_F32, 2, DIMS(rows, k)),
                        blank(MXW_F32, 2, DIMS(rows, MX_SELECT_STATS))};
    mx_tensor want[3] = {blank(MXW_I32, 2, DIMS(rows, k)), blank(MXW_F32, 2, DIMS(rows, k)),
                         blank(MXW_F32, 2, DIMS(rows, MX_SELECT_STATS))};
    for (int64_t i = 0; i < 2 * vocab; i++)
        ((uint8_t *)in[3].data)[i] = below(20) == 0;
    for (int i = 4; i < 6 && norm; i++)
        in[i] = floats(1, &width, 1);
    mx_call call = {.op = MX_OP_FUSED_SELECT, .attrs = &attrs, .n_inputs = 6, .n_outputs = 3, .inputs = in,
                    .outputs = got};
    run(gpu, call, 1);
    mx_tensor x = blank(MXW_F32, 2, DIMS(rows, width)), h = blank(MXW_F32, 2, DIMS(rows, width));
    mx_tensor logits = blank(MXW_F32, 2, DIMS(rows, vocab));
    mx_tensor_pack(&in[0], x.data);
    mx_tensor of_norm[] = {x, in[4], in[5]};
    if (norm)
        run(cpu, (mx_call){.op = MX_OP_LAYER_NORM, .attrs = &attrs, .n_inputs = 3, .n_outputs = 1, .inputs = of_norm,
                           .outputs = &h}, 0);
    mx_tensor of_linear[] = {norm ? h : x, in[1]}, of_select[] = {logits, in[2], in[3]};
    run(cpu, (mx_call){.op = MX_OP_LINEAR, .attrs = &attrs, .n_inputs = 2, .n_outputs = 1, .inputs = of_linear,
                       .outputs = &logits}, 0);
    run(cpu, (mx_call){.op = MX_OP_SELECT, .attrs = &attrs, .n_inputs = 3, .n_outputs = 3, .inputs = of_select,
                       .outputs = want}, 0);
    double worst = 0;
    int ok = CHECK(same_candidates(got, want, rows, k, &worst)), bits = 1;
    for (int64_t r = 0; r < rows; r += 1 + rows / 7) {
        mx_tensor one_in[6], one[3] = {blank(MXW_I32, 2, DIMS(1, k)), blank(MXW_F32, 2, DIMS(1, k)),
                                       blank(MXW_F32, 2, DIMS(1, MX_SELECT_STATS))};
        memcpy(one_in, in, sizeof(in));
        one_in[0] = row_of(&in[0], r);
        one_in[2] = row_of(&in[2], r);
        mx_call alone = call;
        alone.inputs = one_in;
        alone.outputs = one;
        run(gpu, alone, 1);
        for (int i = 0; i < 3; i++)
            bits &= memcmp(one[i].data, (char *)got[i].data + r * one[i].dims[1] * 4, mx_tensor_bytes(&one[i])) == 0;
    }
    ok &= CHECK(bits);
    char what[96];
    snprintf(what, sizeof(what), "fused_select: %d rows of %d, %d ids, %d candidates", (int)rows, (int)width,
             (int)vocab, (int)k);
    report(what, ok, worst);
    forget();
}

/* Where blocks have too little shared memory for f16, no program has caches of less than f32. */
static int keeps_less(void) {
    int less = gpu->state_dtype(gpu, MXW_PRECISION_F16, MX_OP_ATTENTION_CACHED, 1) == MXW_F16;
    if (!less)
        printf("SKIP: gpu-step: caches in f16 and f8: this GPU keeps f32\n");
    return less;
}

/* What a GPU that keeps less than f32 says: of int8 and f8 the same; states of windows are f8 with that precision, all
 * others f16. */
static void test_state_dtypes(void) {
    static const struct {
        mx_op op;
        int input;
        mxw_dtype f16, f8;
    } cases[] = {{MX_OP_ATTENTION_WINDOW, 1, MXW_F16, MXW_F8},  {MX_OP_ATTENTION_WINDOW, 2, MXW_F16, MXW_F8},
                 {MX_OP_ATTENTION_WINDOW, 0, MXW_F32, MXW_F32}, {MX_OP_ATTENTION_SCORES, 1, MXW_F16, MXW_F8},
                 {MX_OP_ATTENTION_SCORES, 0, MXW_F32, MXW_F32}, {MX_OP_ATTENTION_CACHED, 1, MXW_F16, MXW_F16},
                 {MX_OP_ATTENTION_CACHED, 2, MXW_F16, MXW_F16}, {MX_OP_STATE_WRITE, 0, MXW_F16, MXW_F8},
                 {MX_OP_STATE_WRITE, 1, MXW_F32, MXW_F32},      {MX_OP_GATHER, 0, MXW_F32, MXW_F32}};
    CHECK(gpu->open(gpu) >= 0 && gpu->supports_precision(gpu, MXW_PRECISION_EXACT) &&
          gpu->supports_precision(gpu, MXW_PRECISION_F16) && !gpu->supports_precision(gpu, (mxw_precision)9));
    CHECK_EQ_INT(gpu->supports_precision(gpu, MXW_PRECISION_INT8), gpu->supports_precision(gpu, MXW_PRECISION_F8));
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        mx_op op = cases[i].op;
        CHECK_EQ_INT(gpu->state_dtype(gpu, MXW_PRECISION_EXACT, op, cases[i].input), MXW_F32);
        CHECK_EQ_INT(gpu->state_dtype(gpu, MXW_PRECISION_F16, op, cases[i].input), cases[i].f16);
        CHECK_EQ_INT(gpu->state_dtype(gpu, MXW_PRECISION_INT8, op, cases[i].input), cases[i].f16);
        CHECK_EQ_INT(gpu->state_dtype(gpu, MXW_PRECISION_F8, op, cases[i].input), cases[i].f8);
    }
}

int main(int argc, char **argv) {
    int brief = argc > 1 && strcmp(argv[1], "brief") == 0;
    if (mx_device_find("cuda", &gpu) < 0 || mx_device_find("cpu", &cpu) < 0) {
        printf("SKIP: gpu-step: %s\n", mx_error());
        return 77;
    }
    if (brief) {
        test_attention_briefly(MXW_F32);
        check_select(6, 999, 64, 5, 1);
        if (keeps_less()) {
            test_attention_briefly(MXW_F16);
            test_attention_briefly(MXW_F8);
        }
        check_scores(6, 2, 64, 300, MXW_F16);
        check_scores(6, 2, 64, 300, MXW_F8);
        test_write_specials();
        CHECK_EQ_INT(mx_mem_live(), 0);
        return check_done();
    }
    test_gather();
    test_write(MXW_F32);
    test_attention(MXW_F32);
    check_select(6, 51864, 384, 6, 1);
    check_select(6, 51865, 64, 1, 0);
    check_select(18, 5000, 96, 8, 1);
    check_select(70, 3001, 64, 5, 1);
    check_select(12, 999, 50, 9, 0);
    check_select(6, 1025, 64, 6, 1);
    test_write(MXW_F16);
    test_write(MXW_F8);
    test_write_specials();
    if (keeps_less()) {
        test_state_dtypes();
        test_attention(MXW_F16);
        test_attention(MXW_F8);
        test_attention_codes();
    }
    test_scores(MXW_F32);
    test_scores(MXW_F16);
    test_scores(MXW_F8);
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
