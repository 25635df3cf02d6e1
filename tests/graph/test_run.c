/* test_run.c - running: the same bits over 100 runs, for any number of threads, alone or in a batch; states and caches;
 * open sizes; pipes and taps; what is wrong with the data is told in one line; failing memory. */
#include "harness.h"

/* ---- a small model with every kind of op in it ------------------------------------------------------------------- */

enum { D = 48, HEADS = 3, T = 150, VOCAB = 333 };

typedef struct model {
    mx_graph *graph;
    mx_program *program;
    mx_state *state;
    mx_run *run;
} model;

/* Weights by name: the same for the same name, whatever the order of asking. */
static mxw_status find_weight(void *context, const char *name, mx_tensor *out) {
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

static mx_value matrix(mx_graph *g, const char *name) { return mx_graph_weight(g, name, 2, DIMS(D, D)); }
static mx_value vector(mx_graph *g, const char *name) { return mx_graph_weight(g, name, 1, DIMS(D)); }

/* Windows [windows, T, D] through a norm, attention and a gelu layer. */
static mx_graph *build_encoder(void) {
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
static mx_graph *build_decoder(void) {
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

static model open_model(mx_graph *g, mx_pool *pool, int64_t cells) {
    model m = {.graph = g};
    CHECK(mx_graph_status(g) == MXW_OK);
    CHECK(mx_exec_load(g, &(mx_program_options){.pool = pool, .weights = &weights}, &m.program) == MXW_OK);
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

static void close_model(model *m) {
    mx_run_close(m->run);
    mx_state_close(m->state);
    mx_exec_unload(m->program);
    mx_graph_destroy(m->graph);
}

static mx_tensor output_of(model *m, const char *name) {
    mx_tensor t = {0};
    CHECK(mx_run_output(m->run, name, &t) == MXW_OK);
    return t.data ? copy_of(&t) : t;
}

/* ---- the encoder: runs, threads, windows ------------------------------------------------------------------------- */

static mx_tensor encode(mx_pool *pool, const mx_tensor *x, int times, int *differ) {
    model m = open_model(build_encoder(), pool, 0);
    mx_tensor first[2] = {{0}};
    for (int i = 0; i < times; i++) {
        CHECK(mx_run_input(m.run, "x", x) == MXW_OK);
        CHECK(mx_run_execute(m.run) == MXW_OK);
        mx_tensor t[2];
        mx_run_output(m.run, "features", &t[0]);
        mx_run_output(m.run, "stem", &t[1]);
        for (int j = 0; j < 2; j++) {
            if (i == 0)
                first[j] = copy_of(&t[j]);
            else
                *differ += !same_bits(&first[j], &t[j]);
        }
    }
    close_model(&m);
    return first[0];
}

static void test_encoder_bits(void) {
    static const int threads[] = {1, 2, 3, 8};
    int differ = 0;
    begin();
    mx_tensor x = FLOATS(1, 3, T, D);
    mx_tensor alone = encode(NULL, &x, 100, &differ);
    CHECK_EQ_INT(differ, 0);
    for (size_t i = 0; i < MX_COUNT(threads); i++) {
        mx_pool *pool;
        CHECK(mx_pool_open(threads[i], &pool) == MXW_OK);
        mx_tensor y = encode(pool, &x, 4, &differ);
        CHECK(same_bits(&y, &alone));
        for (int64_t w = 0; w < 3; w++) {   /* each window alone gives the bits it has in the batch */
            mx_tensor one = mx_tensor_of(MXW_F32, 3, DIMS(1, T, D), (float *)x.data + w * T * D);
            mx_tensor z = encode(pool, &one, 1, &differ);
            CHECK(memcmp(z.data, (float *)alone.data + w * T * D, T * D * sizeof(float)) == 0);
        }
        mx_pool_close(pool);
    }
    CHECK_EQ_INT(differ, 0);
}

/* ---- the decoder: rows in one batch or one by one ---------------------------------------------------------------- */

enum { SEQ = 5, STEPS = 7, ROWS = SEQ * STEPS, CTX = 32 };

typedef struct rows {
    int32_t token[ROWS], seq[ROWS], pos[ROWS], cell[ROWS], window[ROWS], table[SEQ * CTX];
    mx_rule rules[ROWS];
} rows;

static void bind_rows(model *m, rows *r, const mx_tensor *features, int64_t first, int64_t n) {
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

/* Step by step, `together` rows in a call; logits of all rows, [ROWS][VOCAB], in order. */
static float *decode(mx_pool *pool, rows *r, const mx_tensor *features, int64_t together, int32_t *ids) {
    model m = open_model(build_decoder(), pool, ROWS + 3);
    float *all = block(ROWS * VOCAB * sizeof(float));
    for (int64_t first = 0; first < ROWS; first += together) {
        int64_t n = MX_MIN(together, ROWS - first);
        bind_rows(&m, r, features, first, n);
        if (!CHECK(mx_run_execute(m.run) == MXW_OK)) {
            printf("    %s\n", mx_error());
            break;
        }
        mx_tensor logits = output_of(&m, "logits"), best = output_of(&m, "ids");
        memcpy(all + first * VOCAB, logits.data, (size_t)(n * VOCAB) * sizeof(float));
        memcpy(ids + first * 4, best.data, (size_t)(n * 4) * sizeof(int32_t));
    }
    close_model(&m);
    return all;
}

static void fill_rows(rows *r) {
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

static void test_decoder_bits(void) {
    static const int64_t together[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 34, ROWS};
    static const int threads[] = {1, 2, 3, 8};
    static int32_t ids[ROWS * 4], want_ids[ROWS * 4];
    static rows r;
    begin();
    fill_rows(&r);
    mx_tensor features = FLOATS(1, 2, T, D);
    float *want = decode(NULL, &r, &features, SEQ, want_ids);
    CHECK(want_ids[0] >= 0);
    for (size_t t = 0; t < MX_COUNT(threads); t++) {
        mx_pool *pool;
        CHECK(mx_pool_open(threads[t], &pool) == MXW_OK);
        for (size_t i = 0; i < MX_COUNT(together); i++) {
            int kept = n_blocks;
            float *got = decode(pool, &r, &features, together[i], ids);
            CHECK(memcmp(got, want, ROWS * VOCAB * sizeof(float)) == 0);
            CHECK(memcmp(ids, want_ids, sizeof(ids)) == 0);
            while (n_blocks > kept)
                free(blocks[--n_blocks]);
        }
        mx_pool_close(pool);
    }
}

/* A row's bits depend neither on its place in the tile nor on its neighbours: at the shapes of real models. */
static void test_row_place(void) {
    static const int64_t shapes[][2] = {{384, 384}, {1536, 384}, {384, 1536}, {1000, 384}, {512, 512},
                                        {2048, 512}, {512, 2048}, {768, 768}, {1280, 1280}, {640, 5120}, {7, 5},
                                        {33, 17}};
    for (size_t s = 0; s < MX_COUNT(shapes); s++) {
        int64_t n = shapes[s][0], k = shapes[s][1];
        int differ = 0;
        float *first = NULL;
        for (int place = 0; place < 10; place++) {
            mx_tensor keep[2];
            if (!place)
                begin();
            keep[0] = FLOATS(1, 1, k);
            static float row[5120], w[2048 * 2048 + 640 * 5120];
            if (!place) {
                memcpy(row, keep[0].data, (size_t)k * sizeof(float));
                for (int64_t i = 0; i < n * k; i++)
                    w[i] = (float)uniform(-1, 1);
            }
            mx_graph_destroy(G);
            G = NULL;
            n_bound = 0;
            CHECK(mx_graph_create("place", &G) == MXW_OK);
            mx_tensor x = FLOATS(1, place + 1 + (place % 3) * 4, k);
            memcpy((float *)x.data + place * k, row, (size_t)k * sizeof(float));
            keep[1] = mx_tensor_of(MXW_F32, 2, DIMS(n, k), w);
            mx_tensor y = result(mx_graph_linear(G, in(x), in(keep[1]), 0));
            if (!first)
                first = y.data;
            else
                differ += memcmp(first, (float *)y.data + place * n, (size_t)n * sizeof(float)) != 0;
        }
        if (!CHECK(differ == 0))
            printf("    weight [%lld, %lld]\n", (long long)n, (long long)k);
    }
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static void test_state(void) {
    mx_graph *g;
    begin();
    CHECK(mx_graph_create("cache", &g) == MXW_OK);
    int64_t n = mx_graph_size(g, "n", 8);
    mx_value x = mx_graph_input(g, "x", MXW_F32, 2, DIMS(n, 2)), at = mx_graph_input(g, "at", MXW_I32, 1, &n);
    mx_value s = mx_graph_state(g, "s", MXW_F32, 2, DIMS(4, 2));
    mx_value before = mx_graph_reshape(g, s, 1, DIMS(8));
    mx_value after = mx_graph_state_write(g, s, x, at);
    mx_graph_output(g, "before", before);
    mx_graph_output(g, "after", after);
    mx_graph_output(g, "sum", mx_graph_reduce(g, after, MXW_REDUCE_SUM, 0));
    mx_program *program;
    mx_state *one, *two;
    mx_run *a, *b;
    CHECK(mx_exec_load(g, &(mx_program_options){0}, &program) == MXW_OK);
    mx_graph_destroy(g);   /* the program holds it */
    CHECK(mx_state_open(program, &one) == MXW_OK && mx_state_open(program, &two) == MXW_OK);
    CHECK(mx_state_add(one, "s", MXW_F32, 2, DIMS(4, 2)) == MXW_OK);
    CHECK(mx_state_add(one, "s", MXW_F32, 2, DIMS(4, 2)) == MXW_E_ARGUMENT);
    CHECK(mx_state_add(two, "s", MXW_F32, 2, DIMS(4, 2)) == MXW_OK);
    CHECK(mx_run_open(program, one, &a) == MXW_OK && mx_run_open(program, two, &b) == MXW_OK);
    mx_tensor rows_ = mx_tensor_of(MXW_F32, 2, DIMS(3, 2), (float[]){1, 2, 3, 4, 5, 6});
    mx_tensor index = mx_tensor_of(MXW_I32, 1, DIMS(3), (int32_t[]){3, 0, 3});
    mx_tensor t;
    mx_run_input(a, "x", &rows_);
    mx_run_input(a, "at", &index);
    CHECK(mx_run_execute(a) == MXW_OK);
    CHECK(mx_run_output(a, "before", &t) == MXW_OK);
    CHECK_ELEMENTS(8, f32(&t, i), 0, 0);
    CHECK(mx_run_output(a, "after", &t) == MXW_OK);   /* the later of two writes to a row stays */
    CHECK(memcmp(t.data, (float[]){3, 4, 0, 0, 0, 0, 5, 6}, 32) == 0);
    mx_tensor one_row = mx_tensor_of(MXW_F32, 2, DIMS(1, 2), (float[]){7, 8});
    mx_tensor one_index = mx_tensor_of(MXW_I32, 1, DIMS(1), (int32_t[]){1});
    mx_run_input(a, "x", &one_row);
    mx_run_input(a, "at", &one_index);
    CHECK(mx_run_execute(a) == MXW_OK);
    mx_run_output(a, "before", &t);
    CHECK(memcmp(t.data, (float[]){3, 4, 0, 0, 0, 0, 5, 6}, 32) == 0);
    mx_run_output(a, "sum", &t);
    CHECK(f32(&t, 0) == 15 && f32(&t, 1) == 18);
    mx_run_input(b, "x", &one_row);   /* another session knows nothing of it */
    mx_run_input(b, "at", &one_index);
    CHECK(mx_run_execute(b) == MXW_OK);
    mx_run_output(b, "sum", &t);
    CHECK(f32(&t, 0) == 7 && f32(&t, 1) == 8);
    mx_run_close(a);
    mx_run_close(b);
    mx_state_close(one);
    mx_state_close(two);
    mx_exec_unload(program);
}

/* ---- what is wrong with the data --------------------------------------------------------------------------------- */

static void test_index_errors(void) {
    static const struct {
        const char *input;
        int at;
        int32_t value;
        const char *says;
    } cases[] = {
        {"token", 2, VOCAB, "embedding: gather: index[2] is 333: expected 0 to 332"},
        {"token", 0, -1, "gather: index[0] is -1"},
        {"cell", 1, ROWS + 3, "state_write: index[1] is 38: expected 0 to 37"},
        {"seq", 4, SEQ, "attention_cached: seq[4] is 5: expected 0 to 4"},
        {"pos", 3, CTX, "attention_cached: pos[3] is 32: expected 0 to 31"},
        {"pos", 3, STEPS, "attention_cached: cells[3][7] is -1: expected 0 to 37"},
        {"window", 0, 2, "attention_window: window[0] is 2: expected 0 to 1"},
        {"window", 0, INT32_MIN, "attention_window: window[0] is -2147483648"},
    };
    static rows r;
    begin();
    mx_tensor features = FLOATS(1, 2, T, D);
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        model m = open_model(build_decoder(), NULL, ROWS + 3);
        int32_t changed[SEQ];
        fill_rows(&r);
        bind_rows(&m, &r, &features, 0, SEQ);
        const int32_t *from = strcmp(cases[i].input, "token") == 0  ? r.token
                              : strcmp(cases[i].input, "cell") == 0 ? r.cell
                              : strcmp(cases[i].input, "seq") == 0  ? r.seq
                              : strcmp(cases[i].input, "pos") == 0  ? r.pos
                                                                    : r.window;
        memcpy(changed, from, sizeof(changed));
        changed[cases[i].at] = cases[i].value;
        mx_tensor t = mx_tensor_of(MXW_I32, 1, DIMS(SEQ), changed);
        CHECK(mx_run_input(m.run, cases[i].input, &t) == MXW_OK);
        CHECK(mx_run_execute(m.run) == MXW_E_ARGUMENT);
        if (!CHECK(strstr(mx_error(), cases[i].says) && strstr(mx_error(), "graph decoder: %")))
            printf("    %s\n", mx_error());
        mx_tensor none;
        CHECK(mx_run_output(m.run, "logits", &none) == MXW_E_STATE);
        bind_rows(&m, &r, &features, 0, SEQ);   /* the run is as good as new */
        CHECK(mx_run_execute(m.run) == MXW_OK);
        close_model(&m);
    }
}

static void test_binding_errors(void) {
    static rows r;
    begin();
    fill_rows(&r);
    mx_tensor features = FLOATS(1, 2, T, D), t;
    model m = open_model(build_decoder(), NULL, ROWS);
#define SAYS(status, text)                                                                                             \
    if (!CHECK((status) < 0 && strstr(mx_error(), text)))                                                              \
    printf("    %s\n", mx_error())
    SAYS(mx_run_execute(m.run), "input token is not bound");
    SAYS(mx_run_input(m.run, "tokens", &features), "graph decoder has no input tokens");
    SAYS(mx_run_input(m.run, "token", &features), "input token is f32 [2, 150, 48]: expected i32 [rows]");
    SAYS(mx_run_input(m.run, "token", &(mx_tensor){.dtype = MXW_I32, .rank = 1, .dims = {-4}}), "size 0 is -4");
    SAYS(mx_run_size(m.run, "k", VOCAB + 1), "size k is 334: expected 0 to 333");
    SAYS(mx_run_size(m.run, "j", 1), "no open size j");
    SAYS(mx_run_output(m.run, "logit", &t), "no output logit");
    SAYS(mx_run_pipe(m.run, "features", m.run, "nothing"), "no output nothing");
    bind_rows(&m, &r, &features, 0, 4);
    t = mx_tensor_of(MXW_I32, 1, DIMS(3), r.token);
    mx_run_input(m.run, "pos", &t);
    SAYS(mx_run_execute(m.run), "input pos: size rows is 3: expected 4");
    bind_rows(&m, &r, &features, 0, 4);
    t = FLOATS(1, 2, T + 1, D);
    mx_run_input(m.run, "features", &t);
    SAYS(mx_run_execute(m.run), "input features: size 1 is 151: expected 150");
    t = FLOATS(1, 9, T, D);
    mx_run_input(m.run, "features", &t);
    SAYS(mx_run_execute(m.run), "size windows is 9: expected 0 to 8");
    close_model(&m);

    mx_graph *g = build_decoder();   /* no session's memory; a size that nothing gives */
    m = open_model(g, NULL, 0);
    bind_rows(&m, &r, &features, 0, 4);
    SAYS(mx_run_execute(m.run), "state k is not there");
    close_model(&m);
    begin();
    mx_value best[2];
    mx_tensor x = FLOATS(1, 4);
    mx_graph_top_k(G, in(x), mx_graph_size(G, "k", 4), best);
    mx_graph_output(G, "best", best[0]);
    mx_program *program;
    mx_run *run;
    CHECK(mx_exec_load(G, &(mx_program_options){0}, &program) == MXW_OK);
    CHECK(mx_run_open(program, NULL, &run) == MXW_OK);
    mx_run_input(run, "in0", &x);
    SAYS(mx_run_execute(run), "size k is not known");
    mx_run_size(run, "k", 0);
    SAYS(mx_run_execute(run), "top_k: k is 0");
    mx_run_size(run, "k", 2);
    CHECK(mx_run_execute(run) == MXW_OK);
    CHECK_EQ_INT(mx_graph_gelu(G, 1, MXW_GELU_ERF), 0);   /* a graph that a program reads takes nothing more */
    CHECK(strstr(mx_graph_error(G), "a program was made of it"));
    mx_run_close(run);
    mx_exec_unload(program);
}

static void test_load_errors(void) {
    static const struct {
        mx_program_options options;
        mxw_status status;
        const char *says;
    } cases[] = {
        {{.engine = MXW_ENGINE_MAX}, MXW_E_UNSUPPORTED, "engine max is not part of this version"},
        {{.engine = MXW_ENGINE_GPU, .device = "cpu"}, MXW_E_ARGUMENT, "engine gpu runs on a CUDA device, not on cpu"},
        {{.engine = (mxw_engine)9}, MXW_E_ARGUMENT, "engine 9 is unknown"},
        {{.device = "tpu"}, MXW_E_ARGUMENT, "device tpu: expected auto, cpu, cuda or cuda:N"},
        {{.device = "cuda:x"}, MXW_E_ARGUMENT, "device cuda:x: expected"},
        {{.device = "cuda:-1"}, MXW_E_ARGUMENT, "device cuda:-1: expected"},
        {{0}, MXW_E_MISSING, "weight conv: the program was given no weights"},
    };
    mx_graph *g = build_encoder();
    mx_program *program;
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        CHECK(mx_exec_load(g, &cases[i].options, &program) == cases[i].status);
        SAYS(-1, cases[i].says);
        CHECK(!program);
    }
    if (mx_exec_load(g, &(mx_program_options){.engine = MXW_ENGINE_GPU}, &program) < 0)
        SAYS(-1, "engine gpu needs a CUDA device: ");
    mx_exec_unload(program);
    /* a tensor taken out of the checkpoint is a hard error that names it */
    static const char *const needed[] = {"conv", "bias1", "bias2", "q", "bias3", "k", "m", "bias4"};
    for (size_t i = 0; i < MX_COUNT(needed); i++) {
        mx_weight_source source = {find_weight, (void *)(uintptr_t)needed[i]};
        char line[64];
        snprintf(line, sizeof(line), "tensor %s is not in the checkpoint", needed[i]);
        SAYS(mx_exec_load(g, &(mx_program_options){.weights = &source}, &program), line);
    }
    mx_graph_destroy(g);
    begin();   /* a weight of another shape */
    mx_graph_output(G, "y", mx_graph_weight(G, "q", 2, DIMS(D, D + 1)));
    SAYS(mx_exec_load(G, &(mx_program_options){.weights = &weights}, &program),
         "weight q is f32 [48, 48]: expected f32 [48, 49]");
    begin();   /* a graph with a mistake */
    mx_graph_gelu(G, 5, MXW_GELU_ERF);
    SAYS(mx_exec_load(G, &(mx_program_options){0}, &program), "graph test: gelu: input 0 is 5");
}

/* ---- pipes, taps, views ------------------------------------------------------------------------------------------ */

static char tapped[512];
static void see(void *context, const char *name, const mx_tensor *value) {
    size_t at = strlen(tapped);
    snprintf(tapped + at, sizeof(tapped) - at, "%s[%lld] ", name, (long long)mx_tensor_count(value));
    *(double *)context += value->dtype == MXW_F32 && mx_tensor_count(value) ? (double)f32(value, 0) : 0;
}

static void test_pipe_and_tap(void) {
    static rows r;
    double sum = 0;
    begin();
    fill_rows(&r);
    mx_tensor x = FLOATS(1, 2, T, D);
    model encoder = open_model(build_encoder(), NULL, 0), decoder = open_model(build_decoder(), NULL, ROWS);
    bind_rows(&decoder, &r, &x, 0, SEQ);
    CHECK(mx_run_pipe(decoder.run, "features", encoder.run, "features") == MXW_OK);
    SAYS(mx_run_execute(decoder.run), "input features comes from graph encoder, which has not run");
    mx_run_input(encoder.run, "x", &x);
    mx_run_tap(encoder.run, see, &sum);
    CHECK(mx_run_execute(encoder.run) == MXW_OK);
    CHECK_STR(tapped, "x[14400] residual[14400] features[14400] stem[2400] ");
    CHECK(sum != 0);
    CHECK(mx_run_execute(decoder.run) == MXW_OK);
    mx_tensor piped = output_of(&decoder, "logits"), features = output_of(&encoder, "features");
    model again = open_model(build_decoder(), NULL, ROWS);
    bind_rows(&again, &r, &features, 0, SEQ);
    CHECK(mx_run_execute(again.run) == MXW_OK);
    mx_tensor given = output_of(&again, "logits");
    CHECK(same_bits(&piped, &given));
    close_model(&again);
    close_model(&decoder);
    close_model(&encoder);
}

/* Strided and unaligned views are taken as what they show; an output that is an input outlives the caller's memory. */
static void test_views(void) {
    begin();
    mx_tensor x = FLOATS(1, 6, 5), t;
    char *odd = block(6 * 5 * 4 + 1);
    mx_value a = mx_graph_input(G, "a", MXW_F32, 2, DIMS(5, 6)), b = mx_graph_input(G, "b", MXW_F32, 2, DIMS(5, 6));
    mx_graph_output(G, "sum", mx_graph_add(G, a, b));
    mx_graph_output(G, "a", a);
    mx_program *program;
    mx_run *run;
    CHECK(mx_exec_load(G, &(mx_program_options){0}, &program) == MXW_OK);
    CHECK(mx_run_open(program, NULL, &run) == MXW_OK);
    mx_tensor turned = x;
    turned.dims[0] = 5, turned.dims[1] = 6, turned.strides[0] = 1, turned.strides[1] = 5;
    mx_tensor_pack(&turned, odd + 1);
    mx_tensor unaligned = mx_tensor_of(MXW_F32, 2, DIMS(5, 6), odd + 1);
    mx_run_input(run, "a", &turned);
    mx_run_input(run, "b", &unaligned);
    CHECK(mx_run_execute(run) == MXW_OK);
    mx_run_output(run, "sum", &t);
    CHECK_ELEMENTS(30, f32(&t, i), 2 * (double)f32(&x, i % 6 * 5 + i / 6), 0);
    mx_tensor plain = copy_of(&turned);
    mx_run_input(run, "a", &plain);
    CHECK(mx_run_execute(run) == MXW_OK);
    memset(plain.data, 0, 120);
    mx_run_output(run, "a", &t);
    CHECK(memcmp(t.data, odd + 1, 120) == 0);
    mx_run_close(run);
    mx_exec_unload(program);
}

/* Once warm, a run allocates nothing; sizes may change from run to run. */
static void test_warm(void) {
    static rows r;
    begin();
    fill_rows(&r);
    mx_tensor features = FLOATS(1, 2, T, D);
    model m = open_model(build_decoder(), NULL, ROWS);
    for (int i = 0; i < 6; i++) {
        bind_rows(&m, &r, &features, i * SEQ, SEQ);
        if (i == 2)
            mx_mem_fail_after(0);
        CHECK(mx_run_execute(m.run) == MXW_OK);
    }
    mx_mem_fail_after(-1);
    static const int64_t counts[] = {1, ROWS, 3, 0, 17};
    for (size_t i = 0; i < MX_COUNT(counts); i++) {
        bind_rows(&m, &r, &features, 0, counts[i]);
        CHECK(mx_run_execute(m.run) == MXW_OK);
        mx_tensor t;
        CHECK(mx_run_output(m.run, "logits", &t) == MXW_OK && t.dims[0] == counts[i]);
    }
    close_model(&m);
}

/* Every allocation made to fail in turn: a clean failure, nothing left behind. */
static void test_memory(void) {
    static rows r;
    begin();
    fill_rows(&r);
    mx_tensor features = FLOATS(1, 2, T, D);
    int finished = 0;
    for (int64_t n = 0; n < 400 && !finished; n++) {
        int64_t before = mx_mem_live();
        mx_graph *g = build_decoder();
        mx_program *program = NULL;
        mx_state *state = NULL;
        mx_run *run = NULL;
        mx_mem_fail_after(n);
        mxw_status status = mx_exec_load(g, &(mx_program_options){.weights = &weights}, &program);
        if (status >= 0)
            status = mx_state_open(program, &state);
        if (status >= 0)
            status = mx_state_add(state, "k", MXW_F32, 2, DIMS(ROWS, D));
        if (status >= 0)
            status = mx_state_add(state, "v", MXW_F32, 2, DIMS(ROWS, D));
        if (status >= 0)
            status = mx_run_open(program, state, &run);
        if (status >= 0) {
            model m = {g, program, state, run};
            bind_rows(&m, &r, &features, 0, SEQ);
            status = mx_run_execute(run);
        }
        finished = status >= 0;
        CHECK(status == MXW_OK || status == MXW_E_MEMORY);
        mx_mem_fail_after(-1);
        mx_run_close(run);
        mx_state_close(state);
        mx_exec_unload(program);
        mx_graph_destroy(g);
        CHECK_EQ_INT(mx_mem_live(), before);
    }
    CHECK(finished);
}

int main(void) {
    test_encoder_bits();
    test_decoder_bits();
    test_row_place();
    test_state();
    test_index_errors();
    test_binding_errors();
    test_load_errors();
    test_pipe_and_tap();
    test_views();
    test_warm();
    test_memory();
    end();
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
