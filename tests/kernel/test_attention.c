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

int main(int argc, char **argv) {
    if (argc > 1)
        n_shapes = atoi(argv[1]);
    if (mx_device_find("cpu", &cpu) < 0 || mx_pool_open(3, &pool) < 0)
        return 1;
    test_attention();
    mx_pool_close(pool);
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
