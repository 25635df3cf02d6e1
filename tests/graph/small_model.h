/* small_model.h - an encoder and a decoder with every kind of op in them, for tests of running. */
#ifndef SMALL_MODEL_H
#define SMALL_MODEL_H
#include "kit/harness.h"

/* ---- a small model with every kind of op in it ------------------------------------------------------------------- */

enum { D = 48, HEADS = 3, T = 150, VOCAB = 333 };

typedef struct model {
    mx_graph *graph;
    mx_program *program;
    mx_state *state;
    mx_run *run;
} model;

/* Weights by name: the same for the same name, whatever the order of asking. */
static inline mxw_status find_weight(void *context, const char *name, mx_tensor *out) {
    static float store[64][VOCAB * D];
    static char names[64][48];
    const char *missing = context;
    int64_t rows = strstr(name, "vocab") ? VOCAB : D;
    int slot = 0;
    if (missing && strcmp(missing, name) == 0)
        return mx_fail(MXW_E_MISSING, "tensor %s is not in the checkpoint", name);
    while (names[slot][0] && strcmp(names[slot], name) != 0)
        slot++;
    if (!names[slot][0]) {
        uint32_t seed = 17;
        snprintf(names[slot], sizeof(names[0]), "%s", name);
        for (const char *c = name; *c; c++)
            seed = seed * 31 + (uint8_t)*c;
        for (int64_t i = 0; i < rows * D; i++) {
            seed = seed * 1664525 + 1013904223;
            store[slot][i] = (float)(seed >> 8) / 16777216.0f * 0.4f - 0.2f;
        }
    }
    int is_vector = strstr(name, "bias") != NULL;
    *out = mx_tensor_of(MXW_F32, is_vector ? 1 : 2, is_vector ? DIMS(D) : DIMS(rows, D), store[slot]);
    return MXW_OK;
}

static const mx_weight_source weights = {find_weight, NULL};

static inline mx_value matrix(mx_graph *g, const char *name) { return mx_graph_weight(g, name, 2, DIMS(D, D)); }
static inline mx_value vector(mx_graph *g, const char *name) { return mx_graph_weight(g, name, 1, DIMS(D)); }

/* Windows [windows, T, D] through a norm, attention and a gelu layer. */
static inline mx_graph *build_encoder(void) {
    mx_graph *g;
    CHECK(mx_graph_create("encoder", &g) == MXW_OK);
    int64_t windows = mx_graph_size(g, "windows", 8);
    mx_value x = mx_graph_input(g, "x", MXW_F32, 3, DIMS(windows, T, D));
    mx_value w3 = mx_graph_reshape(g, matrix(g, "conv"), 3, DIMS(16, D, 3));
    mx_value h = mx_graph_layer_norm(g, x, vector(g, "bias1"), vector(g, "bias2"), 1e-5);
    mx_value q = mx_graph_linear(g, h, matrix(g, "q"), vector(g, "bias3"));
    mx_value k = mx_graph_linear(g, h, matrix(g, "k"), 0);
    h = mx_graph_attention(g, q, k, h, HEADS, 0.25, 0);
    x = mx_graph_name(g, mx_graph_add(g, x, h), "residual");
    x = mx_graph_gelu(g, mx_graph_linear(g, x, matrix(g, "m"), vector(g, "bias4")), MXW_GELU_ERF);
    mx_graph_output(g, "features", x);
    mx_graph_output(g, "stem", mx_graph_conv1d(g, x, w3, 0, 2, 1));
    return g;
}

/* Rows [rows, D]: a cache of their past, a window each, the vocabulary, candidates. */
static inline mx_graph *build_decoder(void) {
    mx_graph *g;
    mx_value out[3];
    CHECK(mx_graph_create("decoder", &g) == MXW_OK);
    int64_t rows = mx_graph_size(g, "rows", 512), cells = mx_graph_size(g, "cells", 4096);
    int64_t sequences = mx_graph_size(g, "sequences", 512), windows = mx_graph_size(g, "windows", 8);
    mx_value token = mx_graph_input(g, "token", MXW_I32, 1, &rows);
    mx_value seq = mx_graph_input(g, "seq", MXW_I32, 1, &rows), pos = mx_graph_input(g, "pos", MXW_I32, 1, &rows);
    mx_value cell = mx_graph_input(g, "cell", MXW_I32, 1, &rows);
    mx_value window = mx_graph_input(g, "window", MXW_I32, 1, &rows);
    mx_value table = mx_graph_input(g, "table", MXW_I32, 2, DIMS(sequences, 32));
    mx_value features = mx_graph_input(g, "features", MXW_F32, 3, DIMS(windows, T, D));
    mx_value rules = mx_graph_input(g, "rules", MXW_I32, 2, DIMS(rows, MX_RULE_WORDS));
    mx_value vocab = mx_graph_weight(g, "vocab", 2, DIMS(VOCAB, D));
    mx_value x = mx_graph_name(g, mx_graph_gather(g, vocab, token), "embedding");
    mx_value k = mx_graph_state_write(g, mx_graph_state(g, "k", MXW_F32, 2, DIMS(cells, D)), x, cell);
    mx_value v = mx_graph_linear(g, x, matrix(g, "value"), 0);
    v = mx_graph_state_write(g, mx_graph_state(g, "v", MXW_F32, 2, DIMS(cells, D)), v, cell);
    x = mx_graph_add(g, x, mx_graph_attention_cached(g, x, k, v, seq, pos, table, HEADS, 0.5));
    x = mx_graph_add(g, x, mx_graph_attention_window(g, x, features, features, window, HEADS, 0.5));
    x = mx_graph_name(g, mx_graph_gelu(g, mx_graph_linear(g, x, matrix(g, "d"), vector(g, "bias5")), MXW_GELU_ERF),
                      "hidden");
    mx_value logits = mx_graph_linear(g, x, vocab, 0);
    mx_value none = mx_graph_constant(g, "none", &(mx_tensor){.dtype = MXW_U8, .rank = 2, .dims = {1, VOCAB},
                                                              .strides = {VOCAB, 1}, .data = (uint8_t[VOCAB]){0}});
    mx_graph_select(g, logits, rules, none, mx_graph_size(g, "k", VOCAB), out);
    mx_graph_output(g, "logits", logits);
    mx_graph_output(g, "ids", out[0]);
    mx_graph_output(g, "log_probs", out[1]);
    return g;
}

static inline model open_model(mx_graph *g, mx_pool *pool, int64_t cells) {
    model m = {.graph = g};
    CHECK(mx_graph_status(g) == MXW_OK);
    CHECK(mx_exec_load(g, there(pool, &weights), &m.program) == MXW_OK);
    if (m.program && cells) {
        CHECK(mx_state_open(m.program, &m.state) == MXW_OK);
        CHECK(mx_state_add(m.state, "k", MXW_F32, 2, DIMS(cells, D)) == MXW_OK);
        CHECK(mx_state_add(m.state, "v", MXW_F32, 2, DIMS(cells, D)) == MXW_OK);
    }
    if (!CHECK(m.program && mx_run_open(m.program, m.state, &m.run) == MXW_OK)) {
        printf("    %s\n", mx_error());
        exit(1);
    }
    return m;
}

static inline void close_model(model *m) {
    mx_run_close(m->run);
    mx_state_close(m->state);
    mx_exec_unload(m->program);
    mx_graph_destroy(m->graph);
}

static inline mx_tensor output_of(model *m, const char *name) {
    mx_tensor t = {0};
    CHECK(mx_run_output(m->run, name, &t) == MXW_OK);
    return t.data ? copy_of(&t) : t;
}

/* ---- rows for the decoder ---------------------------------------------------------------- */

enum { SEQ = 5, STEPS = 7, ROWS = SEQ * STEPS, CTX = 32 };

typedef struct rows {
    int32_t token[ROWS], seq[ROWS], pos[ROWS], cell[ROWS], window[ROWS], table[SEQ * CTX];
    mx_rule rules[ROWS];
} rows;

static inline void bind_rows(model *m, rows *r, const mx_tensor *features, int64_t first, int64_t n) {
    const struct {
        const char *name;
        int32_t *data;
    } columns[] = {{"token", r->token}, {"seq", r->seq}, {"pos", r->pos}, {"cell", r->cell}, {"window", r->window}};
    for (size_t i = 0; i < MX_COUNT(columns); i++) {
        mx_tensor t = mx_tensor_of(MXW_I32, 1, &n, columns[i].data + first);
        CHECK(mx_run_input(m->run, columns[i].name, &t) == MXW_OK);
    }
    mx_tensor table = mx_tensor_of(MXW_I32, 2, DIMS(SEQ, CTX), r->table);
    mx_tensor rules = mx_tensor_of(MXW_I32, 2, DIMS(n, MX_RULE_WORDS), r->rules + first);
    CHECK(mx_run_input(m->run, "table", &table) == MXW_OK);
    CHECK(mx_run_input(m->run, "rules", &rules) == MXW_OK);
    CHECK(mx_run_input(m->run, "features", features) == MXW_OK);
    CHECK(mx_run_size(m->run, "k", 4) == MXW_OK);
}

static inline void fill_rows(rows *r) {
    memset(r, 0, sizeof(*r));
    for (int s = 0; s < SEQ; s++)
        for (int p = 0; p < CTX; p++)
            r->table[s * CTX + p] = p < STEPS ? (p * SEQ + s) * 11 % ROWS : -1;   /* none behind the end */
    for (int i = 0; i < ROWS; i++) {
        r->token[i] = (int32_t)below(VOCAB);
        r->seq[i] = i % SEQ;
        r->pos[i] = i / SEQ;
        r->cell[i] = r->table[r->seq[i] * CTX + r->pos[i]];
        r->window[i] = r->seq[i] % 2;
        r->rules[i] = (mx_rule){.ts_begin = VOCAB, .ts_max = -1, .no_speech = -1, .temperature = i % 2 ? 0.7f : 0,
                                .key = {1, 2}, .counter = {(uint32_t)i, 0}};
    }
}
#endif
