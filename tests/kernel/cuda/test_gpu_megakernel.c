/* test_gpu_megakernel.c - steps of a small decoder on a GPU as a captured graph, in which few rows become one
 * megakernel, against the same program run node by node: every output of every step is equal byte for byte, and so is
 * what was written to the caches. Then rows alone against the same rows together. With windows in f8 a step stays
 * kernel by kernel.
 * Skipped where there is no CUDA device.
 *
 * usage: test_gpu_megakernel [brief|least]    brief, least: one of the models, fewer steps, for a slow checker */
#include "base/base.h"
#include "device/device.h"
#include "exec/exec.h"
#include "model/model.h"

#include "kit/check.h"

#define SETS 2
#define CANDIDATES 6
#define HALVES (8 << 20)

static const mx_device *gpu;
static uint64_t seed = 11;

static uint32_t word(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static uint16_t *halves;
static float *floats;

typedef struct source {
    const mx_graph *graph;
    mxw_dtype dtype;
    int64_t next;   /* where the next weight begins */
} source;

static mxw_status find_weight(void *context, const char *name, mx_tensor *out) {
    source *s = context;
    mx_value value = mx_graph_find_leaf(s->graph, MX_WEIGHT, name);
    if (value < 0)
        return mx_fail(MXW_E_NOT_FOUND, "no weight %s", name);
    const mx_type *type = &s->graph->values[value].type;
    *out = mx_tensor_of(s->dtype, type->rank, type->dims, NULL);
    int64_t n = mx_tensor_count(out), at = s->next + n > HALVES ? 0 : s->next;
    out->data = s->dtype == MXW_F16 ? (void *)(halves + at) : (void *)(floats + at);
    s->next = at + n / 3;
    return n <= HALVES ? MXW_OK : mx_fail(MXW_E_INTERNAL, "%s is too large", name);
}

static void make_weights(void) {
    halves = mx_alloc(HALVES * sizeof(*halves));
    floats = mx_alloc(HALVES * sizeof(*floats));
    if (!halves || !floats)
        exit(1);
    for (int64_t i = 0; i < HALVES; i++) {
        floats[i] = 0.15f * ((float)word() / 1073741824.0f - 1);
        halves[i] = mx_f32_to_f16(floats[i]);
    }
}

/* ---- a decoder --------------------------------------------------------------------------------------------------- */

typedef struct shape {
    const char *what;
    mxw_dims dims;
    mxw_dtype dtype;
    mxw_precision precision;
    int64_t slots;
} shape;

typedef struct decoder {
    const shape *of;
    mx_graph *graph;
    mx_program *program;
    source source;
    int64_t cells;
} decoder;

static decoder open_decoder(const shape *s, mx_pool *pool) {
    decoder d = {.of = s, .cells = 16 * s->dims.n_text_ctx};
    static mx_weight_source weights;
    if (!CHECK(mx_model_decoder(&s->dims, &d.graph) >= 0))
        exit(1);
    static source from;
    from = (source){d.graph, s->dtype, 0};
    weights = (mx_weight_source){find_weight, &from};
    mx_program_options options = {.engine = MXW_ENGINE_MAX, .device = gpu->info.id, .pool = pool, .weights = &weights,
                                  .precision = s->precision};
    if (!CHECK(mx_exec_load(d.graph, &options, &d.program) >= 0)) {
        printf("    %s\n", mx_error());
        exit(1);
    }
    return d;
}

static void close_decoder(decoder *d) {
    mx_exec_unload(d->program);
    mx_graph_destroy(d->graph);
}

/* The keys and values of windows come through the program that writes them. */
static mx_state *open_state(const decoder *d, mx_pool *pool) {
    const mxw_dims *dims = &d->of->dims;
    mx_state *state;
    mx_graph *cross;
    mx_program *program;
    mx_run *run;
    if (!CHECK(mx_state_open(d->program, &state) >= 0 && mx_model_cross(dims, &cross) >= 0))
        exit(1);
    for (int i = 0; i < dims->n_text_layer; i++)
        for (int j = 0; j < 2; j++) {
            char name[96];
            int64_t self[] = {d->cells, dims->n_text_state};
            int64_t window[] = {d->of->slots, dims->n_audio_ctx, dims->n_text_state};
            snprintf(name, sizeof(name), "decoder.blocks.%d.attn.%c", i, "kv"[j]);
            CHECK(mx_state_add(state, name, MXW_F32, 2, self) >= 0);
            snprintf(name, sizeof(name), "decoder.blocks.%d.cross_attn.%c", i, "kv"[j]);
            CHECK(mx_state_add(state, name, MXW_F32, 3, window) >= 0);
        }
    source from = {cross, MXW_F16, 77};
    mx_weight_source weights = {find_weight, &from};
    mx_program_options options = {.engine = MXW_ENGINE_MAX, .device = gpu->info.id, .pool = pool, .weights = &weights,
                                  .precision = d->of->precision};
    if (!CHECK(mx_exec_load(cross, &options, &program) >= 0 && mx_run_open(program, state, &run) >= 0))
        exit(1);
    int64_t sizes[] = {d->of->slots, dims->n_audio_ctx, dims->n_audio_state}, n = sizes[0] * sizes[1] * sizes[2];
    float *features = mx_alloc((size_t)n * sizeof(*features));
    int32_t slots[64];
    for (int64_t i = 0; i < n; i++)
        features[i] = floats[(i * 7 + 5) % HALVES] * 8;
    for (int64_t i = 0; i < d->of->slots; i++)
        slots[i] = (int32_t)i;
    mx_tensor x = mx_tensor_of(MXW_F32, 3, sizes, features), slot = mx_tensor_of(MXW_I32, 1, sizes, slots);
    CHECK(mx_run_input(run, "features", &x) >= 0 && mx_run_input(run, "slot", &slot) >= 0);
    if (!CHECK(mx_run_execute(run) >= 0))
        printf("    %s\n", mx_error());
    mx_run_close(run);
    mx_exec_unload(program);
    mx_graph_destroy(cross);
    mx_free(features);
    return state;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Rows of a step: beams that share their past in some order, or a prompt's tokens of one sequence. */
typedef struct step {
    int64_t rows, sequences, ctx, vocab;
    int32_t token[64], position[64], sequence[64], cell[64], slot[64], pick[64], *cells;
    mx_rule rules[64];
    uint8_t *suppress;
} step;

/* Rules of all kinds: rows that draw, ids that are out, no timestamps, timestamps alone, hardly anything left. */
static void vary_rule(mx_rule *rule, int which, int32_t vocab) {
    switch (which % 8) {
    case 1: rule->temperature = 0.7f, rule->key[0] = 5, rule->counter[0] = (uint32_t)which; break;
    case 2: rule->ts_begin = rule->ts_min = vocab, rule->flags = 0; break;
    case 3: rule->min_id = rule->ts_begin - 3, rule->ts_min += 20, rule->ts_max -= 20; break;
    case 4: rule->flags = 0, rule->no_speech = vocab - 1; break;
    case 5: rule->ts_min = rule->ts_max + 1; break;
    case 6: rule->min_id = vocab - 3; break;
    default: break;
    }
}

static void fill_step(step *s, const shape *of, int64_t rows, int t, int prompt) {
    s->rows = rows;
    s->sequences = prompt ? 1 : rows;
    s->ctx = of->dims.n_text_ctx;
    s->vocab = of->dims.n_vocab;
    for (int64_t r = 0; r < rows; r++) {
        int32_t begin = (int32_t)(s->vocab - s->vocab / 9);
        s->token[r] = (int32_t)((uint32_t)(t * 131 + r * 17) % (uint32_t)s->vocab);
        s->position[r] = (int32_t)(prompt ? t * rows + r : t);
        s->sequence[r] = (int32_t)(prompt ? 0 : r);
        s->cell[r] = (int32_t)(t * rows + r);
        s->slot[r] = (int32_t)(of->slots == 1 || prompt ? 0 : r / 2 % of->slots);
        s->pick[r] = (int32_t)(prompt ? rows - 1 - r : r);
        s->rules[r] = (mx_rule){.set = (int32_t)(r % SETS), .ts_begin = begin, .ts_min = begin,
                                .ts_max = (int32_t)s->vocab - 1, .no_speech = r % 3 ? -1 : 7,
                                .flags = MX_RULE_TIMESTAMP_SUM};
        vary_rule(&s->rules[r], (int)(r + t), (int32_t)s->vocab);
    }
    for (int64_t q = 0; q < s->sequences; q++)
        for (int64_t p = 0; p < s->ctx; p++)
            s->cells[q * s->ctx + p] = (int32_t)(prompt ? p : p * rows + (p == t ? q : (q * 3 + p) % rows));
}

/* Row r of a step alone, over the same cache. */
static void only_row(step *s, int64_t r) {
    int32_t *const columns[] = {s->token, s->position, s->cell, s->slot};
    for (size_t i = 0; i < MX_COUNT(columns); i++)
        columns[i][0] = columns[i][r];
    memmove(s->cells, s->cells + s->sequence[r] * s->ctx, (size_t)s->ctx * sizeof(*s->cells));
    s->rules[0] = s->rules[r];
    s->sequence[0] = s->pick[0] = 0;
    s->rows = s->sequences = 1;
}

static int execute(mx_run *run, step *s) {
    static const char *const names[] = {"token", "position", "sequence", "cell", "slot", "pick"};
    int32_t *const columns[] = {s->token, s->position, s->sequence, s->cell, s->slot, s->pick};
    int ok = 1;
    for (size_t i = 0; i < MX_COUNT(names); i++) {
        mx_tensor t = mx_tensor_of(MXW_I32, 1, &s->rows, columns[i]);
        ok &= mx_run_input(run, names[i], &t) >= 0;
    }
    mx_tensor cells = mx_tensor_of(MXW_I32, 2, (int64_t[]){s->sequences, s->ctx}, s->cells);
    mx_tensor rules = mx_tensor_of(MXW_I32, 2, (int64_t[]){s->rows, MX_RULE_WORDS}, s->rules);
    mx_tensor suppress = mx_tensor_of(MXW_U8, 2, (int64_t[]){SETS, s->vocab}, s->suppress);
    ok &= mx_run_input(run, "cells", &cells) >= 0 && mx_run_input(run, "rules", &rules) >= 0;
    ok &= mx_run_hold(run, "suppress", &suppress) >= 0 && mx_run_size(run, "candidates", CANDIDATES) >= 0;
    ok = ok && mx_run_execute(run) >= 0;
    if (!CHECK(ok))
        printf("    %s\n", mx_error());
    return ok;
}

static void see_nothing(void *context, const char *name, const mx_tensor *value) {}

/* The outputs of row `row` of a and of row `other` of b, or of all rows. */
static int same_outputs(mx_run *a, mx_run *b, int64_t row, int64_t other) {
    static const char *const names[] = {"ids", "logprobs", "stats"};
    int same = 1;
    for (size_t i = 0; i < MX_COUNT(names); i++) {
        mx_tensor x, y;
        if (mx_run_output(a, names[i], &x) < 0 || mx_run_output(b, names[i], &y) < 0)
            return 0;
        size_t bytes = (size_t)x.dims[1] * 4, n = row < 0 ? mx_tensor_bytes(&x) : bytes;
        same &= memcmp((char *)x.data + (row < 0 ? 0 : (size_t)row * bytes),
                       (char *)y.data + (row < 0 ? 0 : (size_t)other * bytes), n) == 0;
    }
    return same;
}

/* Two rows write to one cell: what the later one writes is what both read. */
static void share_cell(step *s, int64_t first, int64_t second) {
    s->cell[first] = s->cell[second];
    s->cells[first * s->ctx + s->position[first]] = s->cell[second];
}

/* Steps in which rows share a cell, replayed and node by node. */
static void check_shared(const decoder *d, mx_pool *pool, int64_t rows, int64_t first, int64_t second) {
    mx_state *states[2];
    mx_run *runs[2];
    step s = {.cells = mx_alloc((size_t)(64 * d->of->dims.n_text_ctx) * sizeof(int32_t)),
              .suppress = mx_alloc_zero(SETS, (size_t)d->of->dims.n_vocab)};
    int same = 1;
    for (int i = 0; i < 2; i++) {
        states[i] = open_state(d, pool);
        CHECK(mx_run_open(d->program, states[i], &runs[i]) >= 0);
    }
    mx_run_tap(runs[1], see_nothing, NULL);
    for (int t = 0; t < 4; t++) {
        fill_step(&s, d->of, rows, t, 0);
        share_cell(&s, first, second);
        if (!execute(runs[0], &s) || !execute(runs[1], &s))
            break;
        same &= same_outputs(runs[0], runs[1], -1, -1);
    }
    if (!CHECK(same))
        printf("FAIL %s: rows %d and %d share a cell\n", d->of->what, (int)first, (int)second);
    for (int i = 0; i < 2; i++) {
        mx_run_close(runs[i]);
        mx_state_close(states[i]);
    }
    mx_free(s.cells);
    mx_free(s.suppress);
}

/* Three runs of the same steps, with a state each: replayed, node by node, and single rows replayed. */
static void check_rows(const decoder *d, mx_pool *pool, int64_t rows, int steps, int prompt) {
    const shape *of = d->of;
    mx_state *states[3];
    mx_run *runs[3];
    step s = {.cells = mx_alloc((size_t)(64 * of->dims.n_text_ctx) * sizeof(int32_t)),
              .suppress = mx_alloc_zero(SETS, (size_t)of->dims.n_vocab)};
    int same = 1, alone = 1;
    for (int64_t i = 0; i < of->dims.n_vocab; i++)
        s.suppress[(SETS - 1) * of->dims.n_vocab + i] = i % 7 == 3;
    for (int i = 0; i < 3; i++) {
        states[i] = open_state(d, pool);
        CHECK(mx_run_open(d->program, states[i], &runs[i]) >= 0);
    }
    mx_run_tap(runs[1], see_nothing, NULL);
    for (int t = 0; t < steps; t++) {
        fill_step(&s, of, rows, t, prompt);
        if (!execute(runs[0], &s) || !execute(runs[1], &s))
            break;
        same &= same_outputs(runs[0], runs[1], -1, -1);
        for (int64_t r = 0; r < rows && !prompt; r++) {
            fill_step(&s, of, rows, t, prompt);
            only_row(&s, r);
            if (execute(runs[2], &s))
                alone &= same_outputs(runs[1], runs[2], r, 0);
        }
    }
    int ok = CHECK(same) & CHECK(alone);
    printf("%s %s: %d rows, %d steps%s\n", ok ? "ok  " : "FAIL", of->what, (int)rows, steps, prompt ? ", prompt" : "");
    for (int i = 0; i < 3; i++) {
        mx_run_close(runs[i]);
        mx_state_close(states[i]);
    }
    mx_free(s.cells);
    mx_free(s.suppress);
}

static void check_shape(const shape *of, mx_pool *pool, int few) {
    if (!gpu->supports_precision(gpu, of->precision)) {
        printf("SKIP: gpu-megakernel: %s: this GPU does not multiply in 8 bits\n", of->what);
        return;
    }
    decoder d = open_decoder(of, pool);
    for (int64_t rows = 1; rows <= (few ? 5 : 64); rows += few ? 4 : rows < 10 ? 1 : rows < 16 ? 3 : 24) {
        int steps = (int)MX_MIN(rows > 16 ? 3 : 9, of->dims.n_text_ctx);
        check_rows(&d, pool, rows, steps, 0);
        if (rows * 3 <= of->dims.n_text_ctx)
            check_rows(&d, pool, rows, 3, 1);
    }
    if (few) {
        check_rows(&d, pool, 12, 3, 0);
        check_shared(&d, pool, 12, 3, 10);
        check_shared(&d, pool, 12, 2, 5);
    } else
        check_rows(&d, pool, 5, (int)of->dims.n_text_ctx, 0);
    close_decoder(&d);
}

/* A step node by node, one that is recorded, one that is replayed; of one row and of several windows. */
static void check_least(const shape *of, mx_pool *pool) {
    decoder d = open_decoder(of, pool);
    check_rows(&d, pool, 3, 3, 0);
    close_decoder(&d);
}

int main(int argc, char **argv) {
    static const shape shapes[] = {
        {"two heads", {80, 100, 128, 2, 2, 1000, 70, 128, 2, 2}, MXW_F16, MXW_PRECISION_EXACT, 1},
        {"two heads, windows", {80, 65, 128, 2, 2, 9001, 70, 128, 2, 3}, MXW_F16, MXW_PRECISION_EXACT, 3},
        {"two heads, f32", {80, 100, 128, 2, 2, 1001, 70, 128, 2, 2}, MXW_F32, MXW_PRECISION_EXACT, 2},
        {"two heads, half", {80, 100, 128, 2, 2, 1000, 70, 128, 2, 2}, MXW_F16, MXW_PRECISION_F16, 1},
        {"windows, half", {80, 265, 128, 2, 2, 9001, 140, 128, 2, 3}, MXW_F16, MXW_PRECISION_F16, 3},
        {"windows, f8", {80, 265, 128, 2, 2, 9001, 140, 128, 2, 3}, MXW_F16, MXW_PRECISION_F8, 3},
        {"windows, int8", {80, 265, 128, 2, 2, 9001, 140, 128, 2, 3}, MXW_F16, MXW_PRECISION_INT8, 3},
        {"one head", {80, 1, 64, 1, 1, 5000, 130, 64, 1, 7}, MXW_F16, MXW_PRECISION_EXACT, 1},
        {"ten heads", {80, 200, 640, 10, 1, 6000, 66, 640, 10, 2}, MXW_F16, MXW_PRECISION_EXACT, 1},
    };
    static const shape whole[] = {
        {"tiny.en", {80, 1500, 384, 6, 4, 10000, 448, 384, 6, 4}, MXW_F16, MXW_PRECISION_EXACT, 1},
        {"tiny.en, half", {80, 1500, 384, 6, 4, 10000, 448, 384, 6, 4}, MXW_F16, MXW_PRECISION_F16, 1},
        {"too large for a chain", {80, 130, 1280, 20, 1, 3000, 40, 1280, 20, 2}, MXW_F16, MXW_PRECISION_EXACT, 1},
        {"too large, half", {80, 130, 1280, 20, 1, 3000, 40, 1280, 20, 2}, MXW_F16, MXW_PRECISION_F16, 1},
    };
    mx_pool *pool;
    if (mx_device_find("cuda", &gpu) < 0) {
        printf("SKIP: gpu-megakernel: %s\n", mx_error());
        return 77;
    }
    if (!CHECK(mx_pool_open(2, &pool) >= 0) || !CHECK(gpu->open(gpu) >= 0))
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    make_weights();
    int brief = argc > 1, least = brief && strcmp(argv[1], "least") == 0;   /* under a slow, a very slow checker */
    for (size_t i = 0; i < MX_COUNT(shapes) && !least; i++)
        if (!brief || i == 1 || i == 4)
            check_shape(&shapes[i], pool, brief);
    for (size_t i = 0; i < MX_COUNT(whole) && !brief; i++)
        check_shape(&whole[i], pool, 1);
    if (least)
        check_least(&shapes[2], pool);
    mx_free(halves);
    mx_free(floats);
    mx_pool_close(pool);
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
