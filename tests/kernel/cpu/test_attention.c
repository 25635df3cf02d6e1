/* test_attention.c - attention in its three forms, compiled calls against plain ones: random shapes, rows that lie
 * apart, causal and not. Then the bits: the same with 1, 2, 3 and 8 threads, for an entry or a row alone or among
 * others, in any order.
 * Argument: how many random shapes, where 60 would take too long. */
#include "calls.h"

static int n_shapes = 60;

/* What the rounding of scores of this size may do to a weighted mean of values up to 1. */
static double bound_of(double score) { return (60 + 8 * score) * EPS; }

/* ---- whole windows ----------------------------------------------------------------------------------------------- */

static void one_attention(int64_t n, int64_t t, int64_t s, int heads, int64_t width, int causal, float size) {
    mx_attrs attrs = {.heads = heads, .causal = causal, .scale = 0.125};
    int64_t d = heads * width, gap = 2 * below(40);
    mx_tensor in[] = {RANDOM(size, n, t, d), RANDOM(size, n, s, d), RANDOM(1, n, s, d)}, wide[3];
    mx_tensor want = like(&in[0]), got = like(&in[0]), again = like(&in[0]);
    CHECK_EQ_INT(run(MX_OP_ATTENTION, &attrs, in, 3, &want, 0, pool), MXW_OK);
    CHECK_EQ_INT(run(MX_OP_ATTENTION, &attrs, in, 3, &got, 1, pool), MXW_OK);
    near(&got, &want, bound_of((double)width * (double)size * (double)size * 0.125), "attention");
    any_threads(MX_OP_ATTENTION, &attrs, in, 3, &got);
    for (int i = 0; i < 3; i++) {
        CHECK(cpu->strided(cpu, MX_OP_ATTENTION, i));
        wide[i] = apart(&in[i], gap + 2 * i);
    }
    CHECK_EQ_INT(run(MX_OP_ATTENTION, &attrs, wide, 3, &again, 1, pool), MXW_OK);
    CHECK(same_bits(&again, &got));
    for (int64_t e = 0; e < n; e++) {
        mx_tensor one[] = {part_of(&in[0], e, 1), part_of(&in[1], e, 1), part_of(&in[2], e, 1)};
        mx_tensor alone = like(&one[0]), among = part_of(&got, e, 1);
        CHECK_EQ_INT(run(MX_OP_ATTENTION, &attrs, one, 3, &alone, 1, pool), MXW_OK);
        CHECK(same_bits(&alone, &among));
    }
    done();
}

static void test_attention(void) {
    if (n_shapes >= 60) {
        one_attention(1, 1500, 1500, 2, 64, 0, 1);
        one_attention(2, 400, 400, 1, 64, 1, 2);
    }
    one_attention(1, 1, 1, 1, 1, 0, 1);
    one_attention(0, 3, 3, 1, 4, 0, 1);
    one_attention(2, 0, 3, 1, 4, 0, 1);
    for (int i = 0; i < n_shapes; i++) {
        int64_t t = 1 + below(i % 6 < 5 ? 60 : 450), s = 1 + below(200);
        int causal = (int)below(2);
        one_attention(1 + below(3), t, causal ? t + below(70) : s, 1 + (int)below(3), below(2) ? 64 : 1 + below(90),
                      causal, below(4) ? 1 : 6);
    }
}

/* ---- rows of a decoder ------------------------------------------------------------------------------------------- */

/* Runs a call on the rows `pick`ed from a larger one, in that order; each must have the bits it had there. row_inputs:
 * inputs that have an entry for each row. */
static void same_rows(mx_op op, const mx_attrs *attrs, const mx_tensor *in, int n_inputs, const int *row_inputs,
                      const mx_tensor *whole, const int64_t *pick, int64_t n) {
    mx_tensor some[6];
    memcpy(some, in, (size_t)n_inputs * sizeof(*in));
    for (int i = 0; row_inputs[i] >= 0; i++) {
        mx_tensor *t = &some[row_inputs[i]];
        size_t bytes = mx_dtype_bytes(t->dtype) * (size_t)t->strides[0];
        t->dims[0] = n;
        t->data = take((size_t)n * bytes);
        for (int64_t r = 0; r < n; r++)
            memcpy((char *)t->data + (size_t)r * bytes, (const char *)in[row_inputs[i]].data + (size_t)pick[r] * bytes,
                   bytes);
    }
    mx_tensor out = blank(MXW_F32, 2, DIMS(n, whole->dims[1]));
    CHECK_EQ_INT(run(op, attrs, some, n_inputs, &out, 1, pool), MXW_OK);
    for (int64_t r = 0; r < n; r++) {
        mx_tensor got = part_of(&out, r, 1), want = part_of(whole, pick[r], 1);
        CHECK(same_bits(&got, &want));
    }
}

/* A row alone, all of them backwards, and a few by chance. */
static void any_company(mx_op op, const mx_attrs *attrs, const mx_tensor *in, int n_inputs, const int *row_inputs,
                        const mx_tensor *whole) {
    int64_t rows = whole->dims[0], pick[512] = {0};
    for (int64_t r = 0; r < rows; r += 1 + rows / 4)
        same_rows(op, attrs, in, n_inputs, row_inputs, whole, &r, 1);
    for (int64_t r = 0; r < rows; r++)
        pick[r] = rows - 1 - r;
    same_rows(op, attrs, in, n_inputs, row_inputs, whole, pick, rows);
    for (int64_t r = 0; r < rows; r++)
        pick[r] = below(rows);
    same_rows(op, attrs, in, n_inputs, row_inputs, whole, pick, 1 + below(rows));
}

static void one_window(int64_t rows, int64_t windows, int64_t t, int heads, int64_t width, float size) {
    mx_attrs attrs = {.heads = heads, .scale = 0.125};
    int64_t d = heads * width;
    mx_tensor in[] = {RANDOM(size, rows, d), RANDOM(size, windows, t, d), RANDOM(1, windows, t, d),
                      random_index(rows, windows)};
    mx_tensor want = like(&in[0]), got = like(&in[0]), again = like(&in[0]);
    CHECK_EQ_INT(run(MX_OP_ATTENTION_WINDOW, &attrs, in, 4, &want, 0, pool), MXW_OK);
    CHECK_EQ_INT(run(MX_OP_ATTENTION_WINDOW, &attrs, in, 4, &got, 1, pool), MXW_OK);
    near(&got, &want, bound_of((double)width * (double)size * (double)size * 0.125), "attention_window");
    any_threads(MX_OP_ATTENTION_WINDOW, &attrs, in, 4, &got);
    any_company(MX_OP_ATTENTION_WINDOW, &attrs, in, 4, (int[]){0, 3, -1}, &got);
    CHECK(cpu->strided(cpu, MX_OP_ATTENTION_WINDOW, 0));
    in[0] = apart(&in[0], 2 * d);
    CHECK_EQ_INT(run(MX_OP_ATTENTION_WINDOW, &attrs, in, 4, &again, 1, pool), MXW_OK);
    CHECK(same_bits(&again, &got));
    ((int32_t *)in[3].data)[rows - 1] = (int32_t)windows;
    CHECK_EQ_INT(run(MX_OP_ATTENTION_WINDOW, &attrs, in, 4, &again, 1, pool), MXW_E_ARGUMENT);
    done();
}

static void test_window(void) {
    one_window(1, 1, 1, 1, 1, 1);
    one_window(5, 1, 1500, 2, 64, 1);
    one_window(70, 2, 200, 2, 64, 2);
    for (int i = 0; i < n_shapes; i++)
        one_window(1 + below(i % 6 < 5 ? 12 : 150), 1 + below(4), 1 + below(300), 1 + (int)below(4),
                   below(3) ? 64 : 1 + below(90), below(4) ? 1 : 6);
}

static void one_cached(int64_t rows, int64_t sequences, int64_t ctx, int heads, int64_t width, float size) {
    mx_attrs attrs = {.heads = heads, .scale = 0.125};
    int64_t d = heads * width, n_cells = 1 + below(2 * ctx);
    mx_tensor in[] = {RANDOM(size, rows, d), RANDOM(size, n_cells, d), RANDOM(1, n_cells, d),
                      random_index(rows, sequences), random_index(rows, ctx), random_index(sequences * ctx, n_cells)};
    in[5] = mx_tensor_of(MXW_I32, 2, DIMS(sequences, ctx), in[5].data);
    mx_tensor want = like(&in[0]), got = like(&in[0]), again = like(&in[0]);
    CHECK_EQ_INT(run(MX_OP_ATTENTION_CACHED, &attrs, in, 6, &want, 0, pool), MXW_OK);
    CHECK_EQ_INT(run(MX_OP_ATTENTION_CACHED, &attrs, in, 6, &got, 1, pool), MXW_OK);
    near(&got, &want, bound_of((double)width * (double)size * (double)size * 0.125), "attention_cached");
    any_threads(MX_OP_ATTENTION_CACHED, &attrs, in, 6, &got);
    any_company(MX_OP_ATTENTION_CACHED, &attrs, in, 6, (int[]){0, 3, 4, -1}, &got);
    CHECK(cpu->strided(cpu, MX_OP_ATTENTION_CACHED, 0));
    in[0] = apart(&in[0], 2 * d);
    CHECK_EQ_INT(run(MX_OP_ATTENTION_CACHED, &attrs, in, 6, &again, 1, pool), MXW_OK);
    CHECK(same_bits(&again, &got));
    ((int32_t *)in[5].data)[((int32_t *)in[3].data)[0] * ctx] = (int32_t)n_cells;
    CHECK_EQ_INT(run(MX_OP_ATTENTION_CACHED, &attrs, in, 6, &again, 1, pool), MXW_E_ARGUMENT);
    done();
}

static void test_cached(void) {
    one_cached(1, 1, 1, 1, 1, 1);
    one_cached(5, 5, 448, 6, 64, 1);
    for (int i = 0; i < n_shapes; i++)
        one_cached(1 + below(20), 1 + below(6), 1 + below(120), 1 + (int)below(4), below(3) ? 64 : 1 + below(90),
                   below(4) ? 1 : 6);
}

/* ---- the write into a state -------------------------------------------------------------------------------------- */

static void one_write(const mx_tensor *state, const mx_tensor *x) {
    int64_t rows = x->dims[0];
    mx_tensor index = random_index(rows, state->dims[0]), old = like(state), wide = apart(x, 6);
    memcpy(old.data, state->data, mx_tensor_bytes(state));
    mx_tensor plain = like(state), dense = like(state), lying_apart = like(state);
    mx_tensor *to[] = {&plain, &dense, &lying_apart};
    for (int i = 0; i < 3; i++) {
        memcpy(to[i]->data, old.data, mx_tensor_bytes(&old));
        mx_tensor in[] = {*to[i], i == 2 ? wide : *x, index};
        CHECK_EQ_INT(run(MX_OP_STATE_WRITE, &(mx_attrs){0}, in, 3, to[i], i > 0, pool), MXW_OK);
    }
    CHECK(same_bits(&dense, &plain) && same_bits(&lying_apart, &plain));
    CHECK(!rows || !same_bits(&plain, &old));
    done();
}

static void test_state_write(void) {
    CHECK(cpu->strided(cpu, MX_OP_STATE_WRITE, 1));
    for (int64_t rows = 1; rows < 5; rows++) {
        mx_tensor state = RANDOM(1, 9, 33), x = RANDOM(1, rows, 33);
        one_write(&state, &x);
        state = RANDOM(1, 3, 700, 40), x = RANDOM(1, rows, 700, 40);
        one_write(&state, &x);
        state = RANDOM(1, 6), x = RANDOM(1, rows);
        mx_tensor in[] = {state, x, random_index(rows, 6)};
        CHECK_EQ_INT(run(MX_OP_STATE_WRITE, &(mx_attrs){0}, in, 3, &state, 1, pool), MXW_OK);
        int32_t last = ((int32_t *)in[2].data)[rows - 1];
        CHECK(at(&state, last) == at(&x, rows - 1));
        ((int32_t *)in[2].data)[0] = 6;
        CHECK_EQ_INT(run(MX_OP_STATE_WRITE, &(mx_attrs){0}, in, 3, &state, 1, pool), MXW_E_ARGUMENT);
        done();
    }
}

int main(int argc, char **argv) {
    need_isa();
    if (argc > 1)
        n_shapes = atoi(argv[1]);
    if (mx_device_find("cpu", &cpu) < 0 || mx_pool_open(3, &pool) < 0)
        return 1;
    test_attention();
    test_window();
    test_cached();
    test_state_write();
    mx_pool_close(pool);
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
