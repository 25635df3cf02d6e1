/* test_whisper.c - what becomes of Whisper's three graphs: which ops are left, how many, how much memory; and that the
 * compiled ones give the bits of the eager ones, over several steps with a session's caches, on small models. */
#include "model/model.h"

#include "kit.h"

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Any weight of a graph: halves, the same for the same name. */
static mxw_status any_weight(void *context, const char *name, mx_tensor *found) {
    static struct {
        char name[64];
        void *data;
    } made[256];
    const mx_graph *g = context;
    const mx_type *t = &g->values[mx_graph_find_leaf(g, MX_WEIGHT, name)].type;
    size_t i = 0;
    while (i < MX_COUNT(made) - 1 && made[i].data && strcmp(made[i].name, name) != 0)
        i++;
    *found = mx_tensor_of(MXW_F16, t->rank, t->dims, made[i].data);
    if (made[i].data)
        return MXW_OK;
    snprintf(made[i].name, sizeof(made[i].name), "%s", name);
    found->data = made[i].data = malloc(mx_tensor_bytes(found) + 1);   /* as long as the process */
    double scale = strstr(name, "_ln.") || strstr(name, "ln_post") ? 1 : 0.4;
    for (int64_t e = 0; e < mx_tensor_count(found); e++)
        ((uint16_t *)found->data)[e] = mx_f32_to_f16((float)uniform(-scale, scale));
    return MXW_OK;
}

/* ---- structure --------------------------------------------------------------------------------------------------- */

static int count_op(const mx_graph *g, mx_op op) {
    int n = 0;
    for (size_t i = 0; i < g->n_nodes; i++)
        n += g->nodes[i].op == op;
    return n;
}

typedef struct counts {
    mx_op op;
    int n;
} counts;

/* The compiled graph has so many of each op and nothing else. */
static void check_counts(const mx_graph *g, const char *what, const counts *want, size_t n) {
    int sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += want[i].n;
        if (!CHECK_EQ_INT(count_op(g, want[i].op), want[i].n))
            printf("    %s: %s\n", what, mx_op_name(want[i].op));
    }
    CHECK_EQ_INT(g->n_nodes, sum);
}
#define COUNTS(g, what, ...) \
    check_counts(g, what, (counts[]){__VA_ARGS__}, sizeof((counts[]){__VA_ARGS__}) / sizeof(counts))

/* Bytes of the arena, and of all results in memory of their own, as the explanation has them. */
static void memory_of(const mx_graph *g, const char *device, const char *sizes, int64_t *with, int64_t *without) {
    mx_weight_source source = {any_weight, (void *)(uintptr_t)g};
    mx_program *program;
    mx_str text = {0};
    CHECK(mx_exec_load(g, &(mx_program_options){.engine = MXW_ENGINE_MAX, .device = device, .weights = &source},
                       &program) == MXW_OK);
    CHECK(mx_exec_explain(program, sizes, &text) == MXW_OK);
    const char *line = text.data ? strstr(text.data, "memory of results: ") : NULL;
    long long a = -1, b = -1;
    CHECK(line && sscanf(line, "memory of results: %lld bytes in one arena; %lld bytes without", &a, &b) == 2);
    *with = a, *without = b;
    mx_str_free(&text);
    mx_exec_unload(program);
}

/* encoder: two convolutions with gelu, the second with the positions too; in each block one product for q, k and v with
 * the norm in it, and three more; one norm is left, the last. */
static void check_encoder(const mxw_dims *dims, const mx_device *device) {
    mx_graph *g;
    mx_plan *plan;
    int layers = dims->n_audio_layer;
    CHECK(mx_model_encoder(dims, &g) == MXW_OK);
    CHECK(mx_compile(g, &(mx_compile_options){device, 0}, &plan) == MXW_OK);
    COUNTS(plan->graph, "encoder", {MX_OP_FUSED_CONV1D, 2}, {MX_OP_FUSED_LINEAR, 4 * layers},
           {MX_OP_ATTENTION, layers}, {MX_OP_LAYER_NORM, 1}, {MX_OP_CONCAT, 2 * layers}, {MX_OP_SLICE, 3 * layers});
    for (size_t v = 1; v < plan->graph->n_values; v++) {   /* nothing is copied: parts are views, stacks are packed */
        const mx_value_info *info = &plan->graph->values[v];
        mx_op op = info->kind == MX_RESULT ? plan->graph->nodes[info->node].op : MX_OP_COUNT;
        if (op == MX_OP_SLICE || op == MX_OP_CONCAT)
            CHECK(plan->placements[v].home == (op == MX_OP_SLICE ? MX_HOME_VIEW : MX_HOME_NONE));
    }
    mx_plan_free(plan);
    mx_graph_destroy(g);
}

/* cross: products of the features alone, each for two layers' keys and values. */
static void check_cross(const mxw_dims *dims, const mx_device *device) {
    mx_graph *g;
    mx_plan *plan;
    int parts = 2 * dims->n_text_layer;
    CHECK(mx_model_cross(dims, &g) == MXW_OK);
    CHECK(mx_compile(g, &(mx_compile_options){device, 0}, &plan) == MXW_OK);
    CHECK_EQ_INT(count_op(plan->graph, MX_OP_STATE_WRITE), parts);
    CHECK_EQ_INT(count_op(plan->graph, MX_OP_LINEAR), 0);
    CHECK_EQ_INT(count_op(plan->graph, MX_OP_FUSED_LINEAR), (parts + 3) / 4);
    mx_plan_free(plan);
    mx_graph_destroy(g);
}

/* decoder: in each block one product for q, k and v and five more, all norms in products, the last one and the
 * candidates in the vocabulary's where the device has that. */
static void check_decoder(const mxw_dims *dims, const mx_device *device) {
    mx_graph *g;
    mx_plan *plan;
    int layers = dims->n_text_layer, fused = device->supports(device, MX_OP_FUSED_SELECT);
    CHECK(mx_model_decoder(dims, &g) == MXW_OK);
    CHECK(mx_compile(g, &(mx_compile_options){device, 0}, &plan) == MXW_OK);
    COUNTS(plan->graph, "decoder", {MX_OP_GATHER, 3}, {MX_OP_ADD, 1}, {MX_OP_FUSED_LINEAR, 6 * layers + !fused},
           {MX_OP_CONCAT, 2 * layers}, {MX_OP_SLICE, 3 * layers}, {MX_OP_STATE_WRITE, 2 * layers},
           {MX_OP_ATTENTION_CACHED, layers}, {MX_OP_ATTENTION_WINDOW, layers}, {MX_OP_SELECT, !fused},
           {MX_OP_FUSED_SELECT, fused});
    mx_plan_free(plan);
    mx_plan *kept;   /* a tap can still see every value that has a name, the logits among them */
    CHECK(mx_compile(g, &(mx_compile_options){device, 1}, &kept) == MXW_OK);
    CHECK_EQ_INT(count_op(kept->graph, MX_OP_FUSED_SELECT), 0);
    for (size_t i = 0; i < g->n_names; i++) {
        int found = g->values[g->names[i].value].kind != MX_RESULT;
        for (size_t j = 0; j < kept->graph->n_names && !found; j++)
            found = strcmp(g->names[i].name, kept->graph->names[j].name) == 0;
        if (!CHECK(found))
            printf("    %s\n", g->names[i].name);
    }
    mx_plan_free(kept);
    mx_graph_destroy(g);
}

static void check_memory(const mxw_dims *dims, const char *device) {
    static const struct {
        mxw_status (*build)(const mxw_dims *, mx_graph **);
        const char *sizes;
        int64_t least;   /* how many times the arena must fit into what it would be without the plan */
    } parts[] = {{mx_model_encoder, "windows=2", 4},
                 {mx_model_cross, "windows=1,slots=2", 1},
                 {mx_model_decoder, "rows=5,sequences=5,picks=5,candidates=6,sets=4,slots=2,cells=60", 2}};
    for (size_t i = 0; i < MX_COUNT(parts); i++) {
        mx_graph *g;
        int64_t with, without;
        CHECK(parts[i].build(dims, &g) == MXW_OK);
        memory_of(g, device, parts[i].sizes, &with, &without);
        if (!CHECK(with > 0 && with * parts[i].least <= without))
            printf("    %s on %s: %lld bytes, %lld without the plan\n", g->name, device, (long long)with,
                   (long long)without);
        mx_graph_destroy(g);
    }
}

static void test_structure(void) {
    static const mxw_dims sizes[] = {{80, 1500, 384, 6, 4, 51864, 448, 384, 6, 4},         /* tiny.en */
                                     {128, 1500, 1280, 20, 32, 51866, 448, 1280, 20, 4},   /* turbo */
                                     {16, 20, 24, 2, 1, 60, 16, 36, 3, 5}};
    const mx_device *devices[] = {pattern_device(), mx_device_at(0)};
    for (size_t d = 0; d < MX_COUNT(devices); d++)
        for (size_t i = 0; i < MX_COUNT(sizes); i++) {
            check_encoder(&sizes[i], devices[d]);
            check_cross(&sizes[i], devices[d]);
            check_decoder(&sizes[i], devices[d]);
        }
    static const mxw_dims small = {16, 60, 48, 4, 3, 120, 32, 48, 4, 3};
    check_memory(&small, "pattern");
    check_memory(&small, "cpu");
}

/* ---- the same bits ----------------------------------------------------------------------------------------------- */

enum { WINDOWS = 2, CELLS = 12, SEQUENCES = 3, STEPS = 4, WORDS = 60 };
static const mxw_dims bench = {8, 6, 12, 3, 2, WORDS, STEPS, 12, 3, 2};

typedef struct part {
    mx_graph *graph;
    mx_program *program;
    mx_run *run;
} part;

typedef struct engine {
    part encoder, cross, decoder;
    mx_state *state;
} engine;

static void open_part(mxw_status (*build)(const mxw_dims *, mx_graph **), way w, part *p) {
    CHECK(build(&bench, &p->graph) == MXW_OK);
    mx_weight_source source = {any_weight, p->graph};
    if (!CHECK(mx_exec_load(p->graph, &(mx_program_options){.engine = w.engine, .device = w.device,
                                                            .weights = &source, .keep_names = w.keep_names},
                            &p->program) == MXW_OK))
        exit(1);
}

static void add_states(const part *p, mx_state *state) {
    for (size_t v = 1; v < p->graph->n_values; v++) {
        const mx_value_info *info = &p->graph->values[v];
        int64_t dims[MX_MAX_RANK];
        if (info->kind != MX_STATE)
            continue;
        for (int d = 0; d < info->type.rank; d++)
            dims[d] = info->type.dims[d] >= 0 ? info->type.dims[d] : info->type.rank == 2 ? CELLS : WINDOWS;
        CHECK(mx_state_add(state, info->name, MXW_F32, info->type.rank, dims) == MXW_OK);
    }
}

static engine open_engine(way w) {
    engine e;
    open_part(mx_model_encoder, w, &e.encoder);
    open_part(mx_model_cross, w, &e.cross);
    open_part(mx_model_decoder, w, &e.decoder);
    CHECK(mx_state_open(e.decoder.program, &e.state) == MXW_OK);
    add_states(&e.decoder, e.state);
    CHECK(mx_run_open(e.encoder.program, e.state, &e.encoder.run) == MXW_OK);
    CHECK(mx_run_open(e.cross.program, e.state, &e.cross.run) == MXW_OK);
    CHECK(mx_run_open(e.decoder.program, e.state, &e.decoder.run) == MXW_OK);
    CHECK(mx_run_pipe(e.cross.run, "features", e.encoder.run, "features") == MXW_OK);
    return e;
}

static void close_engine(engine *e) {
    part *parts[] = {&e->encoder, &e->cross, &e->decoder};
    for (size_t i = 0; i < MX_COUNT(parts); i++)
        mx_run_close(parts[i]->run);
    mx_state_close(e->state);
    for (size_t i = 0; i < MX_COUNT(parts); i++) {
        mx_exec_unload(parts[i]->program);
        mx_graph_destroy(parts[i]->graph);
    }
}

static void bind_ints(mx_run *run, const char *name, int rank, const int64_t *dims, int32_t *data) {
    mx_tensor t = mx_tensor_of(MXW_I32, rank, dims, data);
    CHECK(mx_run_input(run, name, &t) == MXW_OK);
}

/* One step: a row for each sequence, one sequence less at every other step. */
static void run_step(engine *e, int step) {
    int32_t cells[SEQUENCES * STEPS], token[SEQUENCES], position[SEQUENCES], cell[SEQUENCES];
    int32_t sequence[] = {0, 1, 2}, slot[] = {0, 1, 1}, pick[] = {2, 0, 1};
    int64_t rows = SEQUENCES - step % 2;
    mx_rule rules[SEQUENCES];
    uint8_t suppress[WORDS] = {[7] = 1};
    mx_tensor mask = mx_tensor_of(MXW_U8, 2, DIMS(1, WORDS), suppress);
    for (int i = 0; i < SEQUENCES * STEPS; i++)
        cells[i] = i * 5 % CELLS;
    for (int i = 0; i < SEQUENCES; i++) {
        token[i] = (step * 7 + i * 13) % WORDS;
        position[i] = step;
        cell[i] = cells[i * STEPS + step];
        rules[i] = (mx_rule){.ts_begin = WORDS - 10, .ts_min = WORDS - 8, .ts_max = WORDS - 2, .no_speech = 3,
                             .flags = MX_RULE_TIMESTAMP_SUM, .temperature = i == 1 ? 0.8f : 0,
                             .counter = {(uint32_t)step, 1}};
    }
    pick[0] = (int32_t)rows - 1;
    bind_ints(e->decoder.run, "token", 1, &rows, token);
    bind_ints(e->decoder.run, "position", 1, &rows, position);
    bind_ints(e->decoder.run, "sequence", 1, &rows, sequence);
    bind_ints(e->decoder.run, "cell", 1, &rows, cell);
    bind_ints(e->decoder.run, "slot", 1, &rows, slot);
    bind_ints(e->decoder.run, "cells", 2, DIMS(SEQUENCES, STEPS), cells);
    bind_ints(e->decoder.run, "pick", 1, &rows, pick);
    bind_ints(e->decoder.run, "rules", 2, DIMS(rows, MX_RULE_WORDS), (int32_t *)(void *)rules);
    CHECK(mx_run_input(e->decoder.run, "suppress", &mask) == MXW_OK);
    CHECK(mx_run_size(e->decoder.run, "candidates", 4) == MXW_OK);
    if (!CHECK(mx_run_execute(e->decoder.run) == MXW_OK))
        printf("    step %d: %s\n", step, mx_error());
}

static void add_output(part *p, const char *name, mx_str *bytes) {
    mx_tensor t;
    CHECK(mx_run_output(p->run, name, &t) == MXW_OK);
    mx_str_add(bytes, t.data, mx_tensor_bytes(&t));
}

/* Two windows encoded, then steps of three sequences in one batch; the bytes of all results. */
static void live(const way w, mx_tensor mel, mx_str *bytes) {
    engine e = open_engine(w);
    int32_t slots[WINDOWS] = {1, 0};
    CHECK(mx_run_input(e.encoder.run, "mel", &mel) == MXW_OK && mx_run_execute(e.encoder.run) == MXW_OK);
    bind_ints(e.cross.run, "slot", 1, DIMS(WINDOWS), slots);
    CHECK(mx_run_execute(e.cross.run) == MXW_OK);
    add_output(&e.encoder, "features", bytes);
    for (int step = 0; step < STEPS; step++) {
        run_step(&e, step);
        add_output(&e.decoder, "ids", bytes);
        add_output(&e.decoder, "logprobs", bytes);
        add_output(&e.decoder, "stats", bytes);
    }
    close_engine(&e);
}

static void test_bits(void) {
    static const char *const devices[] = {"pattern", "pattern-near", "fake"};
    mx_str want = {0};
    fresh();
    mx_tensor mel = FLOATS(1, WINDOWS, 12, 8);
    live((way){MXW_ENGINE_CPU, "cpu", 0}, mel, &want);
    for (size_t d = 0; d < MX_COUNT(devices); d++)
        for (int keep = 0; keep < 2; keep++) {
            mx_str got = {0};
            live((way){MXW_ENGINE_MAX, devices[d], keep}, mel, &got);
            if (!CHECK(got.n == want.n && memcmp(got.data, want.data, want.n) == 0))
                printf("    on %s, keep_names %d\n", devices[d], keep);
            mx_str_free(&got);
        }
    mx_str_free(&want);
}

int main(void) {
    kit_open();
    test_structure();
    test_bits();
    end();
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
