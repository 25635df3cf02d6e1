/* test_states.c - states of a compiled program: kept narrower than the graph's f32 where the device wants that and all
 * that reads them agrees. */
#include "kit.h"

enum { CELLS = 6, WIDTH = 8, STEPS = 3 };

/* Step *t, which writes a row of x. */
static mxw_status run_step(mx_run *run, const float *rows, const int32_t *t) {
    static const int32_t zero = 0, cells[CELLS] = {4, 1, 3, 0, 5, 2};
    mx_tensor x = mx_tensor_of_const(MXW_F32, 2, (int64_t[]){1, WIDTH}, rows + *t * WIDTH);
    mx_tensor position = mx_tensor_of_const(MXW_I32, 1, (int64_t[]){1}, t);
    mx_tensor cell = mx_tensor_of_const(MXW_I32, 1, (int64_t[]){1}, &cells[*t]);
    mx_tensor sequence = mx_tensor_of_const(MXW_I32, 1, (int64_t[]){1}, &zero);
    mx_tensor table = mx_tensor_of_const(MXW_I32, 2, (int64_t[]){1, CELLS}, cells);
    CHECK(mx_run_input(run, "x", &x) == MXW_OK && mx_run_input(run, "position", &position) == MXW_OK &&
          mx_run_input(run, "cell", &cell) == MXW_OK && mx_run_input(run, "sequence", &sequence) == MXW_OK &&
          mx_run_input(run, "table", &table) == MXW_OK);
    return mx_run_execute(run);
}

/* Steps that write a row to two caches and attend to all written so far; the results, then the caches as outputs. */
static void run_steps(const mx_program *program, mx_state *state, const float *rows, float *to) {
    mx_run *run;
    if (!CHECK(mx_run_open(program, state, &run) == MXW_OK))
        return;
    for (int32_t t = 0; t < STEPS; t++) {
        mx_tensor y;
        if (!CHECK(run_step(run, rows, &t) == MXW_OK))
            printf("    %s\n", mx_error());
        CHECK(mx_run_output(run, "y", &y) == MXW_OK);
        memcpy(to + t * WIDTH, y.data, WIDTH * sizeof(*to));
        CHECK(mx_run_output(run, "cache", &y) == MXW_OK && y.dtype == MXW_F32);
        memcpy(to + STEPS * WIDTH, y.data, CELLS * WIDTH * sizeof(*to));
    }
    mx_run_close(run);
}

enum { OF_STATES, WITH_A_RESULT, READ_ELSEWHERE, CACHED_GRAPHS };

/* Keys in a state; values, too, or the rows of an input; or in a state that another op reads as well. */
static mx_graph *cached_graph(int kind) {
    mx_graph *g;
    CHECK(mx_graph_create("cached", &g) == MXW_OK);
    mx_value x = mx_graph_input(g, "x", MXW_F32, 2, (int64_t[]){1, WIDTH});
    mx_value position = mx_graph_input(g, "position", MXW_I32, 1, (int64_t[]){1});
    mx_value cell = mx_graph_input(g, "cell", MXW_I32, 1, (int64_t[]){1});
    mx_value sequence = mx_graph_input(g, "sequence", MXW_I32, 1, (int64_t[]){1});
    mx_value table = mx_graph_input(g, "table", MXW_I32, 2, (int64_t[]){1, CELLS});
    mx_value k = mx_graph_state_write(g, mx_graph_state(g, "k", MXW_F32, 2, (int64_t[]){CELLS, WIDTH}), x, cell);
    mx_value v = mx_graph_state_write(g, mx_graph_state(g, "v", MXW_F32, 2, (int64_t[]){CELLS, WIDTH}), x, cell);
    mx_value values = kind == WITH_A_RESULT ? mx_graph_concat(g, (mx_value[]){x, x, x, x, x, x}, CELLS, 0) : v;
    mx_graph_output(g, "y", mx_graph_attention_cached(g, x, k, values, sequence, position, table, 2, 0.5));
    mx_graph_output(g, "cache", kind == READ_ELSEWHERE ? mx_graph_add(g, v, v) : v);
    return g;
}

/* The steps on states that another program made: f32 or of one axis. */
static void check_refused_states(const mx_program *program, const mx_program *other, const float *rows, int f16) {
    for (int rank = 1; rank <= 2; rank++) {
        mx_state *state;
        mx_run *run;
        CHECK(mx_state_open(rank == 1 ? program : other, &state) == MXW_OK);
        for (int i = 0; i < 2; i++)
            CHECK(mx_state_add(state, i ? "v" : "k", MXW_F32, rank, (int64_t[]){CELLS, WIDTH}) == MXW_OK);
        CHECK(mx_run_open(program, state, &run) == MXW_OK);
        CHECK_EQ_INT(run_step(run, rows, &(int32_t){0}), rank == 1 || f16 ? MXW_E_ARGUMENT : MXW_OK);
        if (rank == 1)
            CHECK(strstr(mx_error(), "state k has 1 axes: expected 2"));
        else
            CHECK(!f16 || strstr(mx_error(), "state k is kept as f32: this graph reads f16"));
        mx_run_close(run);
        mx_state_close(state);
    }
}

/* A device that keeps caches as f16, with precision f16 or f8, computes what f32 caches give for rounded rows; outputs
 * show f32. A program that reads the same state by another op keeps it as f32, and refuses the other's, as that does
 * its. */
static void check_narrow_states(const char *device, mxw_precision narrow) {
    float rows[STEPS * WIDTH], rounded[STEPS * WIDTH], got[2][(STEPS + CELLS) * WIDTH];
    mx_graph *g = cached_graph(OF_STATES), *other;
    for (int i = 0; i < STEPS * WIDTH; i++) {
        rows[i] = (float)sin(i + 1.0);
        rounded[i] = mx_f16_to_f32(mx_f32_to_f16(rows[i]));
    }
    for (int f16 = 0; f16 < 2; f16++) {
        mx_program_options options = {.engine = MXW_ENGINE_MAX, .device = device,
                                      .precision = f16 ? narrow : MXW_PRECISION_EXACT};
        mx_program *program, *reader;
        mx_state *state;
        mx_run *run;
        CHECK(mx_exec_load(g, &options, &program) == MXW_OK && mx_state_open(program, &state) == MXW_OK);
        for (int i = 0; i < 2; i++)
            CHECK(mx_state_add(state, i ? "v" : "k", MXW_F32, 2, (int64_t[]){CELLS, WIDTH}) == MXW_OK);
        run_steps(program, state, f16 ? rows : rounded, got[f16]);
        CHECK(mx_graph_create("reader", &other) == MXW_OK);
        mx_graph_output(other, "k", mx_graph_gelu(other, mx_graph_state(other, "k", MXW_F32, 2,
                                                                        (int64_t[]){CELLS, WIDTH}), MXW_GELU_ERF));
        CHECK(mx_exec_load(other, &options, &reader) == MXW_OK && mx_run_open(reader, state, &run) == MXW_OK);
        CHECK_EQ_INT(mx_run_execute(run), f16 ? MXW_E_ARGUMENT : MXW_OK);
        CHECK(!f16 || strstr(mx_error(), "state k is kept as f16: this graph reads f32"));
        mx_run_close(run);
        check_refused_states(program, reader, rows, f16);
        mx_exec_unload(reader);
        mx_graph_destroy(other);
        mx_state_close(state);
        mx_exec_unload(program);
    }
    mx_graph_destroy(g);
    for (int i = 0; i < STEPS * WIDTH; i++)   /* queries are not rounded */
        CHECK(fabsf(got[0][i] - got[1][i]) < 1e-3f);
    CHECK(memcmp(got[0] + STEPS * WIDTH, got[1] + STEPS * WIDTH, CELLS * WIDTH * sizeof(float)) == 0);
}

/* An op that reads one cache beside something that stays f32 reads both as f32: results as without f16, to the bit. */
static void check_mixed_states(const char *device, int kind, mxw_precision narrow) {
    float rows[STEPS * WIDTH], got[2][(STEPS + CELLS) * WIDTH];
    mx_graph *g = cached_graph(kind);
    for (int i = 0; i < STEPS * WIDTH; i++)
        rows[i] = (float)sin(i + 1.0);
    for (int f16 = 0; f16 < 2; f16++) {
        mx_program_options options = {.engine = MXW_ENGINE_MAX, .device = device,
                                      .precision = f16 ? narrow : MXW_PRECISION_EXACT};
        mx_program *program;
        mx_state *state;
        CHECK(mx_exec_load(g, &options, &program) == MXW_OK && mx_state_open(program, &state) == MXW_OK);
        for (int i = 0; i < 2; i++)
            CHECK(mx_state_add(state, i ? "v" : "k", MXW_F32, 2, (int64_t[]){CELLS, WIDTH}) == MXW_OK);
        run_steps(program, state, rows, got[f16]);
        mx_state_close(state);
        mx_exec_unload(program);
    }
    mx_graph_destroy(g);
    CHECK(memcmp(got[0], got[1], STEPS * WIDTH * sizeof(float)) == 0);
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

enum { WINDOWS = 3, KEYS = 5, ROWS = 2, WINDOW = KEYS * WIDTH };

/* Keys and values of windows that are written, attended to, and scored. */
static mx_graph *window_graph(int writes, int attends, int scores) {
    mx_graph *g;
    CHECK(mx_graph_create("windows", &g) == MXW_OK);
    mx_value kv[2], slot = writes ? mx_graph_input(g, "slot", MXW_I32, 1, (int64_t[]){1}) : 0;
    for (int i = 0; i < 2; i++) {
        kv[i] = mx_graph_state(g, i ? "v" : "k", MXW_F32, 3, (int64_t[]){WINDOWS, KEYS, WIDTH});
        if (writes) {
            mx_value x = mx_graph_input(g, i ? "values" : "keys", MXW_F32, 3, (int64_t[]){1, KEYS, WIDTH});
            kv[i] = mx_graph_state_write(g, kv[i], x, slot);
            mx_graph_output(g, i ? "written v" : "written k", kv[i]);
        }
    }
    mx_value q = mx_graph_input(g, "q", MXW_F32, 2, (int64_t[]){ROWS, WIDTH});
    mx_value window = mx_graph_input(g, "window", MXW_I32, 1, (int64_t[]){ROWS});
    if (attends)
        mx_graph_output(g, "y", mx_graph_attention_window(g, q, kv[0], kv[1], window, 2, 0.5));
    mx_value head = mx_graph_input(g, "head", MXW_I32, 1, (int64_t[]){1});
    if (scores)
        mx_graph_output(g, "scores", mx_graph_attention_scores(g, q, kv[0], head, window, 2, 0.5));
    return g;
}

static mxw_status run_window(const mx_program *program, mx_state *state, const float *rows, float *to) {
    static const int32_t slot = 2, window[ROWS] = {2, 2}, head = 1;
    static const float q[ROWS * WIDTH] = {1, -2, 0.3f, 0.7f, 1.1f, 0, -1, 2, 0.1f, 1.7f, -3, 0, 1, 1, 2, -0.9f};
    static const struct {
        const char *name;
        int n;
    } outputs[] = {{"written k", WINDOWS * WINDOW}, {"written v", WINDOWS * WINDOW}, {"y", ROWS * WIDTH},
                   {"scores", ROWS * KEYS}};
    const mx_tensor inputs[] = {mx_tensor_of_const(MXW_F32, 3, (int64_t[]){1, KEYS, WIDTH}, rows),
                                mx_tensor_of_const(MXW_F32, 3, (int64_t[]){1, KEYS, WIDTH}, rows + WINDOW),
                                mx_tensor_of_const(MXW_I32, 1, (int64_t[]){1}, &slot),
                                mx_tensor_of_const(MXW_F32, 2, (int64_t[]){ROWS, WIDTH}, q),
                                mx_tensor_of_const(MXW_I32, 1, (int64_t[]){ROWS}, window),
                                mx_tensor_of_const(MXW_I32, 1, (int64_t[]){1}, &head)};
    static const char *const names[] = {"keys", "values", "slot", "q", "window", "head"};
    mx_run *run;
    mx_tensor found;
    CHECK(mx_run_open(program, state, &run) == MXW_OK);
    for (size_t i = 0; i < MX_COUNT(names); i++)
        mx_run_input(run, names[i], &inputs[i]);   /* those that the graph has */
    mxw_status status = mx_run_execute(run);
    for (size_t i = 0; i < MX_COUNT(outputs) && status >= 0; to += outputs[i++].n)
        if (mx_run_output(run, outputs[i].name, &found) >= 0 &&
            CHECK(found.dtype == MXW_F32 && mx_tensor_count(&found) == outputs[i].n))
            memcpy(to, found.data, (size_t)outputs[i].n * sizeof(*to));
    mx_run_close(run);
    return status;
}

static mx_program *load_for(const mx_graph *g, const char *device, mxw_precision precision) {
    mx_program *program;
    if (!CHECK(mx_exec_load(g, &(mx_program_options){.engine = MXW_ENGINE_MAX, .device = device,
                                                     .precision = precision},
                            &program) == MXW_OK))
        printf("    %s\n", mx_error());
    return program;
}

/* Precision f8 gives what exact gives for rounded keys and values: to f8, or to f16 where scores read the keys, which
 * are for the pattern device no narrower; then the values are f16, too. */
static void check_windows(const char *device, int apart, int scores) {
    static float got[2][2 * WINDOWS * WINDOW + ROWS * WIDTH + ROWS * KEYS];
    float rows[2 * WINDOW], rounded[2 * WINDOW];
    memset(got, 0, sizeof(got));
    for (int i = 0; i < 2 * WINDOW; i++) {
        rows[i] = (float)(3 * sin(i + 1.0));
        rounded[i] = scores ? mx_f16_to_f32(mx_f32_to_f16(rows[i])) : mx_f8_to_f32(mx_f32_to_f8(rows[i]));
    }
    for (int f8 = 0; f8 < 2; f8++) {
        mx_graph *writer = window_graph(1, !apart, !apart && scores), *reader = window_graph(0, 1, scores);
        mxw_precision precision = f8 ? MXW_PRECISION_F8 : MXW_PRECISION_EXACT;
        mx_program *first = load_for(writer, device, precision), *second = load_for(reader, device, precision);
        mx_state *state;
        CHECK(mx_state_open(first, &state) == MXW_OK);
        for (int i = 0; i < 2; i++)
            CHECK(mx_state_add(state, i ? "v" : "k", MXW_F32, 3, (int64_t[]){WINDOWS, KEYS, WIDTH}) == MXW_OK);
        CHECK_EQ_INT(run_window(first, state, f8 ? rows : rounded, got[f8]), MXW_OK);
        if (apart && scores) {
            CHECK_EQ_INT(run_window(second, state, rows, got[f8]), f8 ? MXW_E_ARGUMENT : MXW_OK);
            CHECK(!f8 || strstr(mx_error(), "state k is kept as f8: this graph reads f16"));
        } else if (apart) {
            CHECK_EQ_INT(run_window(second, state, rows, got[f8]), MXW_OK);
        }
        mx_state_close(state);
        mx_exec_unload(first);
        mx_exec_unload(second);
        mx_graph_destroy(writer);
        mx_graph_destroy(reader);
    }
    CHECK((apart && scores) || memcmp(got[0], got[1], sizeof(got[0])) == 0);
    CHECK(got[1][2 * WINDOW + 1] != 0 && (scores || got[1][2 * WINDOWS * WINDOW] != 0));
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static void test_narrow_states(void) {
    static const char *const devices[] = {"pattern", "pattern-near"};
    static const mxw_precision precisions[] = {MXW_PRECISION_F16, MXW_PRECISION_F8};
    for (size_t i = 0; i < MX_COUNT(devices); i++) {
        for (size_t j = 0; j < MX_COUNT(precisions); j++) {
            check_narrow_states(devices[i], precisions[j]);
            for (int kind = OF_STATES + 1; kind < CACHED_GRAPHS; kind++)
                check_mixed_states(devices[i], kind, precisions[j]);
        }
        for (int kind = 0; kind < 4; kind++)
            check_windows(devices[i], kind % 2, kind / 2);
    }
}

int main(void) {
    kit_open();
    test_narrow_states();
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
