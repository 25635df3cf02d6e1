/* kernels.c - times the compiled GEMMs and attention of a GPU at Whisper's shapes, through the device's table.
 * usage: bench-gpu-kernels [model [windows|rows|attention|batch|power|zeros]]: tiny (the default), base, small, medium,
 * large; only the encoder's shapes, only the decoder's, only the decoder's attention, or steps of very many windows.
 * Prints microseconds per call, best of some rounds, and TFLOP/s of the model's own arithmetic: an exact product is two
 * or three on the tensor cores. power: with many windows, a call after a pause and after half a second of calls, which
 * the card's power limit may have slowed down; zeros: the same with all-zero data, which draws less power. */
#include "base/base.h"
#include "base/clock.h"
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 5
#define DIFFERENT ((int64_t)1 << 20)   /* values, which then come again: making them takes longer than timing */

static const mx_device *gpu;
static int power, zeros;

static void *filled_f8(int64_t n) {
    uint8_t *host = mx_alloc((size_t)n);
    void *to = gpu->alloc(gpu, (size_t)n);
    uint32_t state = 12345;
    if (!host || !to) {
        fprintf(stderr, "bench-gpu-kernels: %s\n", mx_error());
        exit(1);
    }
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        host[i] = zeros ? 0 : (uint8_t)(state >> 24 & 0x9f);   /* up to 2^-3 */
    }
    gpu->upload(gpu, to, host, (size_t)n);
    mx_free(host);
    return to;
}

/* halves: 0: floats on the GPU; 1: halves in host memory; 2: halves on the GPU. */
static void *filled(int64_t n, int halves) {
    size_t bytes = (size_t)n * (halves ? 2 : 4), some = (size_t)DIFFERENT * 4;
    char *host = mx_alloc(halves ? bytes : MX_MIN(bytes, some));
    void *to = gpu->alloc(gpu, bytes);
    uint32_t state = 12345;
    if (!host || !to) {
        fprintf(stderr, "bench-gpu-kernels: %s\n", mx_error());
        exit(1);
    }
    for (int64_t i = 0; i < MX_MIN(n, DIFFERENT); i++) {
        state = state * 1664525u + 1013904223u;
        float value = zeros ? 0 : (float)(state >> 8) / 8388608.0f - 1;
        uint16_t half = mx_f32_to_f16(value * 0.1f);
        memcpy(host + i * (halves ? 2 : 4), halves ? (void *)&half : (void *)&value, halves ? 2 : 4);
    }
    for (size_t done = (size_t)DIFFERENT * 2, more; done < bytes && halves; done += more) {
        more = MX_MIN(done, bytes - done);
        memcpy(host + done, host, more);
    }
    for (size_t done = 0; done < bytes && halves != 1; done += some)
        gpu->upload(gpu, (char *)to + done, host, MX_MIN(some, bytes - done));
    if (halves == 1) {
        gpu->free(gpu, to);
        return host;
    }
    mx_free(host);
    return to;
}

/* Microseconds of a call, the mean of some. */
static double time_some(mx_call *call, int repeat) {
    char byte[4];
    gpu->download(gpu, byte, call->outputs[0].data, 4);
    int64_t start = mx_now_ns();
    for (int i = 0; i < repeat; i++)
        if (gpu->run_op(gpu, call) < 0) {
            fprintf(stderr, "bench-gpu-kernels: %s\n", mx_error());
            exit(1);
        }
    gpu->download(gpu, byte, call->outputs[0].data, 4);
    return mx_since_ms(start) * 1000 / repeat;
}

static void time_power(const char *what, mx_call *call) {
    double about = time_some(call, 2);
    int some = (int)MX_MAX(1, 20e3 / about);   /* 20 ms */
    nanosleep(&(struct timespec){0, 300000000}, NULL);
    double first = time_some(call, some);
    time_some(call, 25 * some);
    printf("%-22s %-6s %9.2f us after a rest, %9.2f us after half a second\n", what,
           mx_precision_name(call->precision), first, time_some(call, some));
    fflush(stdout);
}

static double time_call(const char *what, mx_call *call, double flops) {
    double best = 1e30;
    call->scratch = gpu->alloc(gpu, MX_MAX(gpu->scratch_bytes(gpu, call), 1));
    if (power) {
        time_power(what, call);
    } else {
        for (int round = 0; round < ROUNDS; round++) {
            double us = time_some(call, flops > 1e11 ? 10 : 100);
            best = round && us < best ? us : best;
        }
        printf("%-22s %-6s %9.2f us  %7.1f TFLOP/s  %s\n", what,
               mx_precision_name(call->precision), best, flops / best / 1e6,
               gpu->kernel(gpu, call));
        fflush(stdout);
    }
    gpu->free(gpu, call->scratch);
    return best;
}

/* A weight as the GPU packs it. */
static mx_tensor packed(const mx_weight_use *use, const mx_tensor *source) {
    mx_tensor t = *source;
    t.layout = MX_LAYOUT_PACKED;
    t.packing = gpu->packing(gpu, use);
    t.data = gpu->alloc(gpu, t.packing.bytes);
    if (gpu->pack(gpu, use, t.data, NULL) < 0)
        exit(1);
    return t;
}

static size_t layout_bytes(const mx_call *producer, const mx_call *consumer, int input, mx_layout *layout) {
    return gpu->output_layout_bytes ? gpu->output_layout_bytes(gpu, producer, consumer, input, layout) : 0;
}

/* A product: its tensors in device memory, and the call of it. */
typedef struct linear {
    mx_attrs attrs;
    mx_tensor in[6], out, source;
    mx_call call;
} linear;

static void open_linear(linear *l, mxw_precision precision, int64_t m, int64_t n, int64_t k, int norm, int act,
                        int residual) {
    *l = (linear){.attrs = {.act = act, .eps = 1e-5}};
    l->source = mx_tensor_of(MXW_F16, 2, (int64_t[]){n, k}, filled(n * k, 1));
    mx_weight_use use = {MX_OP_FUSED_LINEAR, &l->attrs, 1, &l->source, 1, precision, m % 1500 ? 1 : 1500};
    mx_tensor *in = l->in;
    l->out = mx_tensor_of(MXW_F32, 2, (int64_t[]){m, n}, filled(m * n, 0));
    in[0] = mx_tensor_of(MXW_F32, 2, (int64_t[]){m, k}, filled(m * k, 0));
    in[1] = packed(&use, &l->source);
    in[2] = mx_tensor_of(MXW_F32, 1, &n, filled(n, 0));
    if (residual)
        in[3] = mx_tensor_of(MXW_F32, 2, (int64_t[]){m, n}, filled(m * n, 0));
    if (norm) {
        in[4] = mx_tensor_of(MXW_F32, 1, &k, filled(k, 0));
        in[5] = mx_tensor_of(MXW_F32, 1, &k, filled(k, 0));
    }
    l->call = (mx_call){.op = MX_OP_FUSED_LINEAR, .attrs = &l->attrs, .n_inputs = 6, .n_outputs = 1, .inputs = l->in,
                        .outputs = &l->out, .compiled = 1, .precision = precision};
}

static void close_linear(linear *l) {
    for (int i = 0; i < 6; i++)
        gpu->free(gpu, l->in[i].data);
    gpu->free(gpu, l->out.data);
    mx_free(l->source.data);
}

static double flops_of(const linear *l) {
    return 2.0 * (double)l->out.dims[0] * (double)l->out.dims[1] * (double)l->in[1].dims[1];
}

static void time_linear(const char *what, int64_t m, int64_t n, int64_t k, int norm, int act, int residual) {
    for (mxw_precision precision = MXW_PRECISION_EXACT; precision <= MXW_PRECISION_F8; precision++) {
        if (!gpu->supports_precision(gpu, precision))
            continue;
        linear l;
        open_linear(&l, precision, m, n, k, norm, act, residual);
        time_call(what, &l.call, flops_of(&l));
        close_linear(&l);
    }
}

/* Both halves of a feed-forward with what the device hands from one to the other, where it does. */
static void time_operand_gemm(int64_t windows, int64_t d) {
    char what[64];
    for (mxw_precision precision = MXW_PRECISION_EXACT; precision <= MXW_PRECISION_F8; precision++) {
        if (!gpu->supports_precision(gpu, precision))
            continue;
        linear one, two;
        mx_layout layout = MX_LAYOUT_DENSE;
        open_linear(&one, precision, windows * 1500, 4 * d, d, 1, MX_ACT_GELU_ERF, 0);
        open_linear(&two, precision, windows * 1500, d, 4 * d, 0, 0, 1);
        mx_tensor plain = two.in[0];
        two.in[0] = one.out;
        if (layout_bytes(&one.call, &two.call, 0, &layout)) {
            one.out.layout = layout;   /* not more bytes than as f32 */
            snprintf(what, sizeof(what), "fc1, operands x%d", (int)windows);
            time_call(what, &one.call, flops_of(&one));
            snprintf(what, sizeof(what), "fc2, operands x%d", (int)windows);
            two.in[0] = one.out;
            time_call(what, &two.call, flops_of(&two));
        }
        two.in[0] = plain;
        close_linear(&one);
        close_linear(&two);
    }
}

/* A convolution: its tensors in device memory, and the two calls of it. */
typedef struct conv {
    mx_attrs attrs;
    mx_tensor in[4], out, source;
    mx_call calls[2];
    double flops;
} conv;

static void open_conv(conv *c, int64_t windows, int64_t positions, int64_t channels, int64_t n, int stride) {
    int64_t m = positions / stride;
    *c = (conv){.attrs = {.act = MX_ACT_GELU_ERF, .stride = {stride}, .pad = {1}},
                .flops = 2.0 * (double)(windows * m) * (double)n * (double)channels * 3};
    c->source = mx_tensor_of(MXW_F16, 3, (int64_t[]){n, channels, 3}, filled(n * channels * 3, 1));
    mx_weight_use use = {MX_OP_FUSED_CONV1D, &c->attrs, 1, &c->source, 1, MXW_PRECISION_EXACT};
    c->out = mx_tensor_of(MXW_F32, 3, (int64_t[]){windows, m, n}, filled(windows * m * n, 0));
    c->in[0] = mx_tensor_of(MXW_F32, 3, (int64_t[]){windows, positions, channels},
                            filled(windows * positions * channels, 0));
    c->in[1] = packed(&use, &c->source);
    c->in[2] = mx_tensor_of(MXW_F32, 1, &n, filled(n, 0));
    for (int f16 = 0; f16 < 2; f16++)
        c->calls[f16] = (mx_call){.op = MX_OP_FUSED_CONV1D, .attrs = &c->attrs, .n_inputs = 4, .n_outputs = 1,
                                  .inputs = c->in, .outputs = &c->out, .compiled = 1, .precision = (mxw_precision)f16};
}

static void close_conv(conv *c) {
    for (int i = 0; i < 3; i++)
        gpu->free(gpu, c->in[i].data);
    gpu->free(gpu, c->out.data);
    mx_free(c->source.data);
}

/* Both convolutions, with f32 between them and, where the device does, as it hands one's result to the other. */
static void time_convs(int64_t windows, int64_t d, int64_t mels) {
    conv one, two;
    char what[64];
    open_conv(&one, windows, 3000, mels, d, 1);
    open_conv(&two, windows, 3000, d, d, 2);
    void *rows[2] = {one.out.data, two.in[0].data};
    for (int operands = 0; operands < 2; operands++)
        for (int f16 = 0; f16 < 2; f16++) {
            mx_layout layout = MX_LAYOUT_DENSE;
            size_t bytes = layout_bytes(&one.calls[f16], &two.calls[f16], 0, &layout);
            if (operands && bytes == 0)
                continue;
            if (operands) {
                one.out.data = two.in[0].data = gpu->alloc(gpu, bytes);
                one.out.layout = two.in[0].layout = layout;
            }
            snprintf(what, sizeof(what), "conv1%s x%d", operands ? ", operands" : "", (int)windows);
            time_call(what, &one.calls[f16], one.flops);
            snprintf(what, sizeof(what), "conv2%s x%d", operands ? ", operands" : "", (int)windows);
            time_call(what, &two.calls[f16], two.flops);
            if (operands)
                gpu->free(gpu, one.out.data);
            one.out.data = rows[0];
            two.in[0].data = rows[1];
            one.out.layout = two.in[0].layout = MX_LAYOUT_DENSE;
        }
    close_conv(&one);
    close_conv(&two);
}

static void time_attention(const char *what, int64_t windows, int64_t t, int64_t d) {
    mx_attrs attrs = {.heads = (int)(d / 64), .scale = 0.125};
    float *all = filled(windows * t * 3 * d, 0);
    mx_tensor in[3], out = mx_tensor_of(MXW_F32, 3, (int64_t[]){windows, t, d}, filled(windows * t * d, 0));
    for (int i = 0; i < 3; i++) {
        in[i] = mx_tensor_of(MXW_F32, 3, (int64_t[]){windows, t, d}, all + i * d);
        in[i].strides[1] = 3 * d;
        in[i].strides[0] = t * 3 * d;
    }
    for (int f16 = 0; f16 < 2; f16++) {
        mx_call call = {.op = MX_OP_ATTENTION, .attrs = &attrs, .n_inputs = 3, .n_outputs = 1, .inputs = in,
                        .outputs = &out, .compiled = 1, .precision = (mxw_precision)f16};
        time_call(what, &call, 4.0 * (double)windows * (double)t * (double)t * (double)d);
    }
    gpu->free(gpu, all);
    gpu->free(gpu, out.data);
}

/* Attention between its products, likewise; of all three or of the last two. */
static void time_operand_attention(int64_t windows, int64_t t, int64_t d) {
    mx_attrs attrs = {.heads = (int)(d / 64), .scale = 0.125};
    char what[64];
    for (mxw_precision precision = MXW_PRECISION_EXACT; precision <= MXW_PRECISION_F8; precision++) {
        if (!gpu->supports_precision(gpu, precision))
            continue;
        linear qkv, out;
        open_linear(&qkv, precision, windows * t, 3 * d, d, 1, 0, 0);
        open_linear(&out, precision, windows * t, d, d, 0, 0, 1);
        mx_tensor in[3], y = mx_tensor_of(MXW_F32, 3, (int64_t[]){windows, t, d}, filled(windows * t * d, 0));
        mx_tensor plain = out.in[0];
        qkv.out = mx_tensor_of(MXW_F32, 3, (int64_t[]){windows, t, 3 * d}, qkv.out.data);
        mx_call call = {.op = MX_OP_ATTENTION, .attrs = &attrs, .n_inputs = 3, .n_outputs = 1, .inputs = in,
                        .outputs = &y, .compiled = 1, .precision = precision};
        mx_layout layout = MX_LAYOUT_DENSE;
        size_t bytes = 0;
        for (int i = 0; i < 3; i++) {
            in[i] = mx_tensor_of(MXW_F32, 3, (int64_t[]){windows, t, d}, NULL);
            in[i].strides[1] = 3 * d;
            in[i].strides[0] = t * 3 * d;
            in[i].offset = i * d;
            bytes = layout_bytes(&qkv.call, &call, i, &layout);
        }
        int taken = layout_bytes(&call, &out.call, 0, &layout) > 0;
        void *stack = bytes ? gpu->alloc(gpu, bytes) : NULL, *rows = qkv.out.data;
        if (stack) {
            qkv.out.data = stack;
            qkv.out.layout = MX_LAYOUT_QKV;
            snprintf(what, sizeof(what), "qkv, operands x%d", (int)windows);
            time_call(what, &qkv.call, 2.0 * (double)(windows * t * 3 * d) * (double)d);
        }
        for (int i = 0; i < 3; i++) {
            in[i].layout = qkv.out.layout;
            in[i].data = (float *)qkv.out.data + (stack ? 0 : i * d);
        }
        if (taken) {
            y.layout = out.in[0].layout = layout;
            out.in[0].data = y.data;
            snprintf(what, sizeof(what), "attention, operands x%d", (int)windows);
            time_call(what, &call, 4.0 * (double)windows * (double)t * (double)t * (double)d);
            snprintf(what, sizeof(what), "out, operands x%d", (int)windows);
            time_call(what, &out.call, flops_of(&out));
        }
        out.in[0] = plain;
        gpu->free(gpu, stack);
        qkv.out.data = rows;
        close_linear(&qkv);
        close_linear(&out);
        gpu->free(gpu, y.data);
    }
}

/* `beams` rows per window, over its 1500 keys or over 101 keys of a cache, of which rows of a window share 100; kept as
 * the precision has it. Bytes: the keys and values that must be read, each once. */
static void time_decoder_attention(int64_t windows, int64_t beams, int64_t d, int cached, mxw_precision precision) {
    mx_op op = cached ? MX_OP_ATTENTION_CACHED : MX_OP_ATTENTION_WINDOW;
    mxw_dtype kept = gpu->state_dtype ? gpu->state_dtype(gpu, precision, op, 1) : MXW_F32;
    int halves = kept == MXW_F16 ? 2 : 0;
    const int64_t rows = windows * beams, keys = cached ? 101 : 1500, ctx = 448;
    const int64_t entries = windows * (cached ? 450 : 1500);
    mx_attrs attrs = {.heads = (int)(d / 64), .scale = 0.125};
    int32_t *host = mx_alloc_zero((size_t)(rows * (2 + ctx)), sizeof(*host));
    int32_t *ints = gpu->alloc(gpu, (size_t)(rows * (2 + ctx)) * sizeof(*ints));
    char what[64];
    if (!host || !ints)
        exit(1);
    for (int64_t r = 0; r < rows; r++) {
        host[r] = (int32_t)(cached ? r : r / beams);
        host[rows + r] = (int32_t)keys - 1;
        for (int64_t i = 0; i < keys && cached; i++)
            host[rows * 2 + r * ctx + i] = (int32_t)(r / beams * 450 + i + (i == keys - 1 ? r % beams : 0));
    }
    mx_tensor out = mx_tensor_of(MXW_F32, 2, (int64_t[]){rows, d}, filled(rows * d, 0)), in[6];
    in[0] = mx_tensor_of(MXW_F32, 2, (int64_t[]){rows, d}, filled(rows * d, 0));
    for (int i = 1; i < 3; i++) {
        void *of = kept == MXW_F8 ? filled_f8(entries * d) : filled(entries * d, halves);
        in[i] = cached ? mx_tensor_of(kept, 2, (int64_t[]){entries, d}, of)
                       : mx_tensor_of(kept, 3, (int64_t[]){windows, 1500, d}, of);
    }
    in[3] = mx_tensor_of(MXW_I32, 1, &rows, ints);
    in[4] = mx_tensor_of(MXW_I32, 1, &rows, ints + rows);
    in[5] = mx_tensor_of(MXW_I32, 2, (int64_t[]){rows, ctx}, ints + rows * 2);
    const void *known[6] = {NULL, NULL, NULL, host, host + rows, host + rows * 2};
    mx_call call = {.op = op, .attrs = &attrs, .n_inputs = cached ? 6 : 4, .n_outputs = 1, .inputs = in,
                    .outputs = &out, .compiled = 1, .host = known, .precision = precision};
    if (gpu->upload(gpu, ints, host, (size_t)(rows * (2 + ctx)) * sizeof(*ints)) < 0)
        exit(1);
    snprintf(what, sizeof(what), "%s, %d x %d rows", cached ? "cache" : "window", (int)windows, (int)beams);
    double us = time_call(what, &call, 4.0 * (double)rows * (double)keys * (double)d);
    double bytes = (double)(windows * (keys + (beams - 1) * cached) * 2 * d) * (double)mx_dtype_bytes(kept);
    printf("%-22s %-6s %9.0f GB/s\n", "", "", bytes / us / 1e3);
    for (int i = 0; i < 3; i++)
        gpu->free(gpu, in[i].data);
    gpu->free(gpu, out.data);
    gpu->free(gpu, ints);
    mx_free(host);
}

/* A step of so many windows. Caches in precision f8 are those of f16. */
static void time_attentions(int64_t windows, int64_t beams, int64_t d) {
    static const mxw_precision precisions[] = {MXW_PRECISION_EXACT, MXW_PRECISION_F16, MXW_PRECISION_F8};
    for (int cached = 0; cached < 2; cached++)
        for (size_t i = 0; i < MX_COUNT(precisions) - (size_t)cached; i++)
            time_decoder_attention(windows, beams, d, cached, precisions[i]);
}

static void time_windows(int64_t windows, int64_t d, int64_t mels) {
    char what[64];
#define NAME(text) (snprintf(what, sizeof(what), "%s x%d", text, (int)windows), what)
    time_convs(windows, d, mels);
    time_linear(NAME("qkv"), windows * 1500, 3 * d, d, 1, 0, 0);
    time_attention(NAME("attention"), windows, 1500, d);
    time_linear(NAME("out"), windows * 1500, d, d, 0, 0, 1);
    time_linear(NAME("fc1"), windows * 1500, 4 * d, d, 1, MX_ACT_GELU_ERF, 0);
    time_linear(NAME("fc2"), windows * 1500, d, 4 * d, 0, 0, 1);
    time_operand_attention(windows, 1500, d);
    time_operand_gemm(windows, d);
}

static void time_rows(int64_t rows, int64_t d) {
    char what[64];
#undef NAME
#define NAME(text) (snprintf(what, sizeof(what), "%s, %d rows", text, (int)rows), what)
    time_linear(NAME("qkv"), rows, 3 * d, d, 1, 0, 0);
    time_linear(NAME("out"), rows, d, d, 0, 0, 1);
    time_linear(NAME("fc1"), rows, 4 * d, d, 1, MX_ACT_GELU_ERF, 0);
    time_linear(NAME("fc2"), rows, d, 4 * d, 0, 0, 1);
    time_linear(NAME("vocabulary"), rows, 51864, d, 1, 0, 0);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int64_t d, many;
    } models[] = {{"tiny", 384, 64}, {"base", 512, 64}, {"small", 768, 16}, {"medium", 1024, 16}, {"large", 1280, 64}};
    const char *name = argc > 1 ? argv[1] : "tiny", *only = argc > 2 ? argv[2] : "";
    if (mx_device_find("cuda", &gpu) < 0) {
        fprintf(stderr, "bench-gpu-kernels: %s\n", mx_error());
        return 1;
    }
    zeros = strcmp(only, "zeros") == 0;
    power = zeros || strcmp(only, "power") == 0;
    int encoder = !*only || power || strcmp(only, "windows") == 0, decoder = !*only || strcmp(only, "rows") == 0;
    int attention = decoder || strcmp(only, "attention") == 0;
    int batch = strcmp(only, "batch") == 0;
    if (!encoder && !attention && !batch) {
        fprintf(stderr, "bench-gpu-kernels: %s: expected windows, rows, attention, batch, power or zeros\n", only);
        return 2;
    }
    for (size_t i = 0; i < MX_COUNT(models); i++) {
        if (strcmp(models[i].name, name) != 0)
            continue;
        int64_t many = models[i].many;
        for (int64_t windows = power ? many : 1; windows <= many && encoder; windows *= many)
            time_windows(windows, models[i].d, 80);
        for (int64_t windows = 1; windows <= 64 && attention; windows *= windows == 1 ? 16 : 4)
            time_attentions(windows, 5, models[i].d);
        for (int64_t beams = 1; beams <= 5 && batch; beams += 4) {
            time_attentions(256, beams, models[i].d);
            time_rows(256 * beams, models[i].d);
            time_rows(512 * beams, models[i].d);
        }
        static const int64_t rows[] = {1, 5, 12, 40, 80, 320};
        for (size_t j = 0; j < MX_COUNT(rows) && decoder; j++)
            time_rows(rows[j], models[i].d);
        return 0;
    }
    fprintf(stderr, "bench-gpu-kernels: %s: expected tiny, base, small, medium or large\n", name);
    return 2;
}
