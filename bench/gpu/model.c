/* model.c - times the encoder and the decoder's step of Whisper's shapes on a GPU, with generated weights.
 *
 * usage: bench-gpu-model [--f16 | --int8 | --f8] [--steps | --throughput [--beams N] [--rounds N]] SHAPE..: tiny.en,
 * base, small, medium, large-v3, turbo. With --throughput: a queue of windows, greedily and with 5 beams, or one of
 * them; timed for so many windows of every slot, by default for about 10 s (throughput.c); with --cpu, which takes
 * --int8 alone, on the CPU, which has one slot (an hour is --rounds 120). Else, for each, unless only steps are asked
 * for, windows encoded at once (1, 16, 64) in milliseconds, windows per second and TFLOP/s of the model's own
 * arithmetic: the best of some rounds, each after a rest, as a batch is encoded once in a while; and the mean without a
 * rest, when a card may reach the limit of its power and take a slower clock. A step of 5 beams of 1, 16 and 64
 * windows, 100 tokens in, in microseconds from the caller's arrays to the candidates in host memory, and the bytes that
 * it must read (weights as f16, caches as the device keeps them) per second. */
#include "model.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BEAMS 5
#define POSITION 100
#define CELLS 450     /* of a window */
#define REST_MS 100   /* before what is timed: a batch takes longer to decode than to encode */

static const struct {
    const char *name;
    mxw_dims dims;
} shapes[] = {
    {"tiny.en", {80, 1500, 384, 6, 4, 51864, 448, 384, 6, 4}},
    {"base", {80, 1500, 512, 8, 6, 51865, 448, 512, 8, 6}},
    {"small", {80, 1500, 768, 12, 12, 51865, 448, 768, 12, 12}},
    {"medium", {80, 1500, 1024, 16, 24, 51865, 448, 1024, 16, 24}},
    {"large-v3", {128, 1500, 1280, 20, 32, 51866, 448, 1280, 20, 32}},
    {"turbo", {128, 1500, 1280, 20, 32, 51866, 448, 1280, 20, 4}},
};

static const mx_device *gpu;
static mxw_precision precision;
static int only_steps, only_throughput, only_beams, n_rounds, on_cpu;

/* ---- generated weights ------------------------------------------------------------------------------------------- */

#define HALVES ((int64_t)80 << 20)

static mxw_status find_weight(void *context, const char *name, mx_tensor *out) {
    const source *s = context;
    mx_value value = mx_graph_find_leaf(s->graph, MX_WEIGHT, name);
    if (value < 0)
        return mx_fail(MXW_E_NOT_FOUND, "no weight %s", name);
    const mx_type *type = &s->graph->values[value].type;
    *out = mx_tensor_of(MXW_F16, type->rank, type->dims, s->halves);
    return mx_tensor_count(out) <= HALVES ? MXW_OK : mx_fail(MXW_E_INTERNAL, "%s is too large", name);
}

static uint16_t *make_halves(void) {
    uint16_t *halves = mx_alloc((size_t)HALVES * sizeof(*halves));
    uint32_t state = 12345;
    for (int64_t i = 0; halves && i < HALVES; i++) {
        state = state * 1664525u + 1013904223u;   /* +-0.015 to 0.12: a sign, one of two exponents, a fraction */
        halves[i] = (uint16_t)((state >> 16 & 0x8000) | 0x2400 | (state >> 9 & 0x0bff));
    }
    return halves;
}

/* ---- a model ----------------------------------------------------------------------------------------------------- */

void die(const char *what) {
    fprintf(stderr, "bench-gpu-model: %s: %s\n", what, mx_error());
    exit(1);
}

static model open_model(const mxw_dims *dims, uint16_t *halves, mx_pool *pool) {
    static mxw_status (*const build[])(const mxw_dims *, mx_graph **) = {mx_model_encoder, mx_model_cross,
                                                                         mx_model_decoder};
    model m = {.gpu = gpu, .dims = dims, .mark = gpu->alloc(gpu, 64)};
    for (int i = 0; i < N_PROGRAMS; i++) {
        if (build[i](dims, &m.graphs[i]) < 0)
            die("graph");
        m.sources[i] = (source){m.graphs[i], halves};
        mx_weight_source weights = {find_weight, &m.sources[i]};
        mx_program_options options = {.engine = MXW_ENGINE_MAX, .device = gpu->info.id, .pool = pool,
                                      .weights = &weights, .precision = precision};
        if (mx_exec_load(m.graphs[i], &options, &m.programs[i]) < 0)
            die("program");
    }
    return m;
}

static void close_model(model *m) {
    for (int i = 0; i < N_PROGRAMS; i++) {
        mx_exec_unload(m->programs[i]);
        mx_graph_destroy(m->graphs[i]);
    }
    gpu->free(gpu, m->mark);
}

static void settle(const model *m) {
    char bytes[64];
    if (gpu->download(gpu, bytes, m->mark, sizeof(bytes)) < 0)
        die("waiting");
}

void bind_input(mx_run *run, const char *name, mxw_dtype dtype, int rank, const int64_t *dims, void *data, int held) {
    mx_tensor t = mx_tensor_of(dtype, rank, dims, data);
    if ((held ? mx_run_hold(run, name, &t) : mx_run_input(run, name, &t)) < 0)
        die(name);
}

/* ---- the encoder ------------------------------------------------------------------------------------------------- */

static double encoder_flops(const mxw_dims *d) {
    double t = (double)d->n_audio_ctx, n = (double)d->n_audio_state;
    double conv = 2 * (2 * t * 3 * (double)d->n_mels * n + t * 3 * n * n);
    return conv + (double)d->n_audio_layer * (2 * t * 12 * n * n + 2 * 2 * t * t * n);
}

static void rest(void) { nanosleep(&(struct timespec){0, REST_MS * 1000000}, NULL); }

/* Milliseconds of a run, the mean of some. */
static double time_runs(const model *m, mx_run *run, int times) {
    settle(m);
    int64_t start = mx_now_ns();
    for (int i = 0; i < times; i++)
        if (mx_run_execute(run) < 0)
            die("encoder");
    settle(m);
    return mx_since_ms(start) / times;
}

static void time_encoder(const model *m, const mxw_dims *d) {
    static const int64_t windows[] = {1, 16, 64};
    for (size_t w = 0; w < MX_COUNT(windows); w++) {
        mx_run *run;
        int64_t dims[] = {windows[w], 2 * d->n_audio_ctx, d->n_mels}, n = dims[0] * dims[1] * dims[2];
        float *mel = mx_alloc((size_t)n * sizeof(*mel));
        double best = 1e30;
        if (!mel || mx_run_open(m->programs[ENCODER], NULL, &run) < 0)
            die("encoder");
        for (int64_t i = 0; i < n; i++)
            mel[i] = (float)(i * 2654435761u % 2000) / 1000.0f - 1;
        bind_input(run, "mel", MXW_F32, 3, dims, mel, 1);   /* held: the copy is not what is timed */
        time_runs(m, run, 1);
        double about = time_runs(m, run, 1);
        int times = (int)MX_MAX(1, 20 / about), rounds = about > 100 ? 2 : 6;
        for (int round = 0; round < rounds; round++) {
            if (about < 100)
                rest();
            double ms = time_runs(m, run, times);
            best = ms < best ? ms : best;
        }
        double lasting = time_runs(m, run, (int)MX_MAX(1, 500 / best));
        printf("  encoder, %2d windows: %8.3f ms, %7.0f windows/s, %5.0f TFLOP/s; without a rest %8.3f ms\n",
               (int)windows[w], best, (double)windows[w] / best * 1e3,
               (double)windows[w] * encoder_flops(d) / best / 1e9, lasting);
        mx_run_close(run);
        mx_free(mel);
    }
}

/* ---- the step ---------------------------------------------------------------------------------------------------- */

mx_state *open_state(const model *m, int64_t windows, int64_t cells) {
    const mxw_dims *d = m->dims;
    mx_state *state;
    int failed = mx_state_open(m->programs[DECODER], &state) < 0;
    for (int i = 0; i < 2 * d->n_text_layer && !failed; i++) {
        char name[96];
        int64_t self[] = {windows * cells, d->n_text_state}, cross[] = {windows, d->n_audio_ctx, d->n_text_state};
        snprintf(name, sizeof(name), "decoder.blocks.%d.attn.%c", i / 2, "kv"[i % 2]);
        failed = mx_state_add(state, name, MXW_F32, 2, self) < 0;
        snprintf(name, sizeof(name), "decoder.blocks.%d.cross_attn.%c", i / 2, "kv"[i % 2]);
        failed = failed || mx_state_add(state, name, MXW_F32, 3, cross) < 0;
    }
    if (failed)
        mx_state_close(state);
    return failed ? NULL : state;
}

/* Of keys, as the device keeps them. */
static double element_bytes(mx_op op) {
    mxw_dtype kept = gpu->state_dtype ? gpu->state_dtype(gpu, precision, op, 1) : MXW_F32;
    return (double)mx_dtype_bytes(kept);
}

/* The beams of a window share the cells that they have in common, all but the last. */
static double step_bytes(const mxw_dims *d, int64_t windows) {
    double n = (double)d->n_text_state, layers = (double)d->n_text_layer;
    double weights = (layers * 14 * n * n + (double)d->n_vocab * n) * 2;
    double keys = (double)d->n_audio_ctx * element_bytes(MX_OP_ATTENTION_WINDOW) +
                  (POSITION + BEAMS) * element_bytes(MX_OP_ATTENTION_CACHED);
    return weights + (double)windows * layers * 2 * keys * n;
}

static void time_step(const model *m, const mxw_dims *d, int64_t windows) {
    int64_t rows = windows * BEAMS, n_ctx = d->n_text_ctx, sets = 4;
    mx_state *state = open_state(m, windows, CELLS);
    mx_run *run;
    int32_t *columns = mx_alloc_zero((size_t)(6 * rows), 4), *cells = mx_alloc_zero((size_t)(rows * n_ctx), 4);
    mx_rule *rules = mx_alloc_zero((size_t)rows, sizeof(*rules));
    uint8_t *suppress = mx_alloc_zero((size_t)sets, (size_t)d->n_vocab);
    static const char *const names[] = {"token", "position", "sequence", "cell", "slot", "pick"};
    double best = 1e30, sum = 0;
    if (!state || !columns || !cells || !rules || !suppress || mx_run_open(m->programs[DECODER], state, &run) < 0)
        die("step");
    for (int64_t r = 0; r < rows; r++) {
        const int32_t values[] = {(int32_t)(100 + r), POSITION, (int32_t)r,
                                  (int32_t)(r / BEAMS * CELLS + POSITION + r % BEAMS), (int32_t)(r / BEAMS),
                                  (int32_t)r};
        for (int c = 0; c < 6; c++)
            columns[c * rows + r] = values[c];
        for (int p = 0; p <= POSITION; p++)
            cells[r * n_ctx + p] = (int32_t)(r / BEAMS * CELLS + p + (p == POSITION ? r % BEAMS : 0));
        rules[r] = (mx_rule){.ts_begin = (int32_t)d->n_vocab - 1501, .ts_min = (int32_t)d->n_vocab - 1501,
                             .ts_max = (int32_t)d->n_vocab - 1, .flags = MX_RULE_TIMESTAMP_SUM, .no_speech = -1};
    }
    bind_input(run, "suppress", MXW_U8, 2, (int64_t[]){sets, d->n_vocab}, suppress, 1);
    if (mx_run_size(run, "candidates", BEAMS + 1) < 0)
        die("candidates");
    rest();   /* from encoders without one */
    for (int i = 0; i < 120; i++) {
        mx_tensor t;
        int64_t start = mx_now_ns();
        for (int c = 0; c < 6; c++)
            bind_input(run, names[c], MXW_I32, 1, &rows, columns + c * rows, 0);
        bind_input(run, "cells", MXW_I32, 2, (int64_t[]){rows, n_ctx}, cells, 0);
        bind_input(run, "rules", MXW_I32, 2, (int64_t[]){rows, MX_RULE_WORDS}, rules, 0);
        if (mx_run_execute(run) < 0 || mx_run_output(run, "ids", &t) < 0 || mx_run_output(run, "logprobs", &t) < 0 ||
            mx_run_output(run, "stats", &t) < 0)
            die("step");
        double us = mx_since_ms(start) * 1e3;
        best = us < best ? us : best;
        sum += i >= 20 ? us : 0;
    }
    printf("  step, %2d windows x %d: %8.1f us mean, %8.1f us best, %5.0f GB/s\n", (int)windows, BEAMS, sum / 100, best,
           step_bytes(d, windows) / best / 1e3);
    mx_run_close(run);
    mx_state_close(state);
    mx_free(columns);
    mx_free(cells);
    mx_free(rules);
    mx_free(suppress);
}

int main(int argc, char **argv) {
    mx_pool *pool;
    setvbuf(stdout, NULL, _IOLBF, 0);
    uint16_t *halves = make_halves();
    for (int a = 1; a < argc; a++)
        on_cpu |= strcmp(argv[a], "--cpu") == 0;
    if (mx_device_find(on_cpu ? "cpu" : "cuda", &gpu) < 0 || mx_pool_open(0, &pool) < 0 || !halves)
        die("device");
    for (int a = 1; a < argc; a++) {
        precision = strcmp(argv[a], "--f16") == 0    ? MXW_PRECISION_F16
                    : strcmp(argv[a], "--int8") == 0 ? MXW_PRECISION_INT8
                    : strcmp(argv[a], "--f8") == 0   ? MXW_PRECISION_F8
                                                     : precision;
        only_steps |= strcmp(argv[a], "--steps") == 0;
        only_throughput |= strcmp(argv[a], "--throughput") == 0;
        if (strcmp(argv[a], "--beams") == 0 && a + 1 < argc) {
            only_beams = atoi(argv[++a]);
            if (only_beams != 1 && only_beams != BEAMS) {
                fprintf(stderr, "bench-gpu-model: --beams %s: expected 1 or %d\n", argv[a], BEAMS);
                return 2;
            }
        }
        if (strcmp(argv[a], "--rounds") == 0 && a + 1 < argc)
            n_rounds = atoi(argv[++a]);
        for (size_t i = 0; i < MX_COUNT(shapes); i++) {
            if (strcmp(argv[a], shapes[i].name) != 0)
                continue;
            model m = open_model(&shapes[i].dims, halves, pool);
            printf("%s, %s\n", shapes[i].name, mx_precision_name(precision));
            if (!only_steps && !only_throughput)
                time_encoder(&m, &shapes[i].dims);
            for (int64_t windows = 1; windows <= 64 && !only_throughput; windows *= windows == 1 ? 16 : 4)
                time_step(&m, &shapes[i].dims, windows);
            for (int beams = 1; beams <= BEAMS && only_throughput; beams += BEAMS - 1)
                if (!only_beams || only_beams == beams)
                    time_throughput(&m, beams, on_cpu ? 1 : MOST_SLOTS, n_rounds);
            close_model(&m);
        }
    }
    mx_free(halves);
    mx_pool_close(pool);
    return 0;
}
