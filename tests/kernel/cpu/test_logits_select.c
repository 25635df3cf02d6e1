/* test_logits_select.c - select and fused_select in compiled calls against the plain select on the same logits:
 * thousands of random rules and rows, ties, NaN, infinities, nothing left, sides that weigh the same; rows that draw.
 * Ids and their order must be equal, log probabilities nearly. Then the bits: the same with 1, 2, 3 and 8 threads, and
 * for a row alone or among others. Argument: how many random calls, where 1500 would take too long. */
#include "calls.h"

#define INT8 2e-5   /* ids that weigh less than 3e-6 of the sum go into it by their int8 logits */

static int n_calls = 1500;

/* ---- rules and rows ---------------------------------------------------------------------------------------------- */

static mx_rule random_rule(int64_t vocab, int64_t sets) {
    mx_rule r = {.set = (int32_t)below(sets), .ts_begin = (int32_t)vocab, .ts_max = -1, .no_speech = -1};
    if (below(3) == 0)
        r.no_speech = (int32_t)below(vocab);
    if (below(4)) {
        r.ts_begin = below(8) ? (int32_t)below(vocab + 1) : (int32_t)below(vocab + 9) - 4;
        r.ts_min = r.ts_begin + (int32_t)below(30) - 5;
        r.ts_max = below(2) ? (int32_t)vocab + 3 : r.ts_min + (int32_t)below(60) - 8;
        r.flags = below(3) ? MX_RULE_TIMESTAMP_SUM : 0;
    }
    if (below(3) == 0)
        r.min_id = (int32_t)below(vocab + 3) - 1;
    if (below(8) == 0) {
        r.temperature = 0.1f + (float)below(20) * 0.1f;
        r.key[0] = word();
        r.counter[0] = word();
    }
    return r;
}

static mx_tensor random_rules(int64_t rows, int64_t vocab, int64_t sets) {
    mx_tensor rules = BLANK(MXW_I32, rows, MX_RULE_WORDS);
    for (int64_t r = 0; r < rows; r++) {
        mx_rule rule = random_rule(vocab, sets);
        memcpy((int32_t *)rules.data + r * MX_RULE_WORDS, &rule, sizeof(rule));
    }
    return rules;
}

static mx_tensor random_suppress(int64_t sets, int64_t vocab) {
    mx_tensor suppress = BLANK(MXW_U8, sets, vocab);
    for (int64_t s = 0; s < sets; s++) {
        int64_t one_in = s == 0 ? 0 : s == 1 ? 3 : s == 2 ? 40 : 1;   /* none, many, few, all */
        for (int64_t i = 0; i < vocab; i++)
            ((uint8_t *)suppress.data)[s * vocab + i] = one_in && below(one_in) == 0 ? (uint8_t)(1 + below(255)) : 0;
    }
    return suppress;
}

/* Kinds: spread out, few different values, odd ones among them. */
static mx_tensor random_logits(int64_t rows, int64_t vocab) {
    mx_tensor x = RANDOM(1, rows, vocab);
    float *at_ = x.data;
    for (int64_t r = 0; r < rows; r++) {
        int64_t kind = below(5);
        float size = kind == 0 ? 0.1f : 12;
        for (int64_t i = r * vocab; i < (r + 1) * vocab; i++) {
            at_[i] *= size;
            if (kind == 1)
                at_[i] = (float)below(4);
            if (kind == 2 && below(4) == 0)
                at_[i] = below(3) == 0 ? NAN : below(2) ? INFINITY : -INFINITY;
            if (kind == 3)
                at_[i] = below(2) ? -INFINITY : at_[i] * 20;
        }
    }
    return x;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static void blank_results(int64_t rows, int64_t k, mx_tensor out[3]) {
    out[0] = BLANK(MXW_I32, rows, k);
    out[1] = BLANK(MXW_F32, rows, k);
    out[2] = BLANK(MXW_F32, rows, MX_SELECT_STATS);
}

static int64_t same_ids(const mx_tensor *got, const mx_tensor *want) {
    for (int64_t i = 0; i < mx_tensor_count(want); i++)
        if (((int32_t *)got->data)[i] != ((int32_t *)want->data)[i])
            return i;
    return -1;
}

/* off_by: what the logarithm of the sum may be off. */
static void compare(const mx_tensor got[3], const mx_tensor want[3], double off_by, const char *what) {
    int64_t off = same_ids(&got[0], &want[0]);
    if (!CHECK(off < 0))
        printf("    %s: candidate %lld: got %d, want %d\n", what, (long long)off, ((int32_t *)got[0].data)[off],
               ((int32_t *)want[0].data)[off]);
    for (int o = 1; o < 3; o++)
        for (int64_t i = 0; i < mx_tensor_count(&want[o]); i++) {
            double g = (double)at(&got[o], i), w = (double)at(&want[o], i);
            if (!(fabs(g - w) <= off_by + 2e-7 * fabs(w)) && g != w) {
                CHECK(0);
                printf("    %s: output %d, element %lld: got %.9g, want %.9g\n", what, o, (long long)i, g, w);
                return;
            }
        }
}

/* Row r of a call alone gives the bits that it has in `whole`. rules: which input they are. */
static void alone(mx_op op, const mx_attrs *attrs, const mx_tensor *in, int n_inputs, int rules,
                  const mx_tensor whole[3], int64_t r) {
    mx_tensor one[6], out[3];
    memcpy(one, in, (size_t)n_inputs * sizeof(*in));
    one[0] = part_of(&in[0], r, 1);
    one[rules] = part_of(&in[rules], r, 1);
    blank_results(1, attrs->k, out);
    CHECK_EQ_INT(run(op, attrs, one, n_inputs, out, 1, pool), MXW_OK);
    for (int o = 0; o < 3; o++) {
        mx_tensor want = part_of(&whole[o], r, 1);
        CHECK(same_bits(&out[o], &want));
    }
}

/* ---- on logits --------------------------------------------------------------------------------------------------- */

static void one_select(int64_t rows, int64_t vocab, int64_t k) {
    mx_attrs attrs = {.k = k};
    mx_tensor in[] = {random_logits(rows, vocab), random_rules(rows, vocab, 4), random_suppress(4, vocab)}, want[3];
    mx_tensor got[3], again[3];
    blank_results(rows, k, want);
    blank_results(rows, k, got);
    blank_results(rows, k, again);
    CHECK_EQ_INT(run(MX_OP_SELECT, &attrs, in, 3, want, 0, pool), MXW_OK);
    CHECK_EQ_INT(run(MX_OP_SELECT, &attrs, in, 3, got, 1, pool), MXW_OK);
    compare(got, want, 1e-6, "select");
    alone(MX_OP_SELECT, &attrs, in, 3, 1, got, below(rows));
    if (below(8) == 0)
        any_threads(MX_OP_SELECT, &attrs, in, 3, got);
    in[0] = apart(&in[0], 6);
    CHECK_EQ_INT(run(MX_OP_SELECT, &attrs, in, 3, again, 1, pool), MXW_OK);
    CHECK(same_bits(&again[0], &got[0]) && same_bits(&again[1], &got[1]) && same_bits(&again[2], &got[2]));
    done();
}

/* Timestamps that together weigh what the best text weighs, up to the last bits of their sum: the rule must fall as it
 * falls plainly, whichever way the sum was rounded. */
static void test_close(void) {
    enum { VOCAB = 2500, BEGIN = 2100 };
    for (int i = 0; i < 300; i++) {
        mx_attrs attrs = {.k = 3};
        mx_tensor x = RANDOM(4, 1, VOCAB), suppress = BLANK(MXW_U8, 1, VOCAB), want[3], got[3];
        mx_rule rule = {.ts_begin = BEGIN, .ts_min = BEGIN, .ts_max = VOCAB, .flags = MX_RULE_TIMESTAMP_SUM,
                        .no_speech = -1};
        mx_tensor in[] = {x, mx_tensor_of(MXW_I32, 2, DIMS(1, MX_RULE_WORDS), &rule), suppress};
        float *logits = x.data;
        double sum[2] = {0, 0};
        memset(suppress.data, 0, VOCAB);
        for (int pass = 0; pass < 2; pass++)   /* the second time their sum is nearly 1, its logarithm nearly 0 */
            for (int j = BEGIN; j < VOCAB; j++) {
                logits[j] -= pass ? (float)log(sum[0]) : 0;
                sum[pass] += exp((double)logits[j]);
            }
        for (int j = 0; j < BEGIN; j++)
            logits[j] -= 30;
        logits[17] = (float)(log(sum[1]) + (double)random_float() * (i % 3 ? 1e-7 : 1e-8));
        blank_results(1, 3, want);
        blank_results(1, 3, got);
        CHECK_EQ_INT(run(MX_OP_SELECT, &attrs, in, 3, want, 0, pool), MXW_OK);
        CHECK_EQ_INT(run(MX_OP_SELECT, &attrs, in, 3, got, 1, pool), MXW_OK);
        for (int o = 0; o < 3; o++)
            CHECK(same_bits(&got[o], &want[o]));
        done();
    }
}

static void test_select(void) {
    static const int64_t sizes[] = {1, 2, 15, 16, 17, 100, 2047, 2048, 2049, 4500};
    one_select(70, 3000, 6);
    one_select(3, 51865, 6);
    one_select(2, 300, 100);   /* more candidates than a range keeps */
    for (int i = 0; i < n_calls; i++)
        one_select(1 + below(6), below(2) ? 1 + below(3000) : sizes[below(MX_COUNT(sizes))], 1 + below(12));
    test_close();
}

/* ---- fused ------------------------------------------------------------------------------------------------------- */

/* The weight as a compiled call of the op wants it. */
static mx_tensor packed(mx_op op, const mx_tensor *weight) {
    mx_weight_use use = {.op = op, .attrs = &(mx_attrs){0}, .input = 1, .sources = weight,
                         .n_sources = 1};
    mx_tensor p = *weight;
    CHECK_EQ_INT(cpu->form(cpu, &use), MX_FORM_PACKED);
    p.layout = MX_LAYOUT_PACKED;
    p.packing = cpu->packing(cpu, &use);
    p.data = take(p.packing.bytes);
    CHECK_EQ_INT(cpu->pack(cpu, &use, p.data, pool), MXW_OK);
    return p;
}

/* An f16 copy of a weight whose rows repeat, so that there are ties. */
static mx_tensor random_weight(int64_t vocab, int64_t d, int f16) {
    mx_tensor w = RANDOM(1, vocab, d), half = BLANK(MXW_F16, vocab, d);
    float *to = w.data;
    for (int64_t i = 1; i < vocab; i++)
        if (below(5) == 0)
            memcpy(to + i * d, to + below(i) * d, (size_t)d * sizeof(float));
    for (int64_t i = 0; i < vocab * d; i++)
        ((uint16_t *)half.data)[i] = mx_f32_to_f16(to[i]);
    return f16 ? half : w;
}

/* Logits of the same product, plain select on them. */
static void by_parts(const mx_tensor *in, const mx_tensor *weight, int n_inputs, const mx_attrs *attrs,
                     mx_tensor out[3]) {
    int64_t rows = in[0].dims[0], vocab = weight->dims[0];
    mx_tensor linear[6] = {in[0], packed(MX_OP_FUSED_LINEAR, weight)}, logits = BLANK(MXW_F32, rows, vocab);
    if (n_inputs > 4) {
        linear[4] = in[4];
        linear[5] = in[5];
    }
    CHECK_EQ_INT(run(MX_OP_FUSED_LINEAR, attrs, linear, n_inputs, &logits, 1, pool), MXW_OK);
    mx_tensor select[] = {logits, in[2], in[3]};
    CHECK_EQ_INT(run(MX_OP_SELECT, attrs, select, 3, out, 0, pool), MXW_OK);
}

static void one_fused(int64_t rows, int64_t vocab, int64_t d, int64_t k, int with_norm, int f16) {
    mx_attrs attrs = {.k = k, .eps = 1e-5};
    mx_tensor weight = random_weight(vocab, d, f16), want[3], got[3], again[3];
    mx_tensor in[6] = {RANDOM(4, rows, d), packed(MX_OP_FUSED_SELECT, &weight), random_rules(rows, vocab, 4),
                       random_suppress(4, vocab), RANDOM(3, d), RANDOM(1, d)};
    int n_inputs = with_norm ? 6 : 4;
    blank_results(rows, k, want);
    blank_results(rows, k, got);
    blank_results(rows, k, again);
    by_parts(in, &weight, n_inputs, &attrs, want);
    CHECK_EQ_INT(run(MX_OP_FUSED_SELECT, &attrs, in, n_inputs, got, 1, pool), MXW_OK);
    compare(got, want, INT8, "fused_select");
    alone(MX_OP_FUSED_SELECT, &attrs, in, n_inputs, 2, got, below(rows));
    if (below(6) == 0)
        any_threads(MX_OP_FUSED_SELECT, &attrs, in, n_inputs, got);
    in[0] = apart(&in[0], 10);
    CHECK_EQ_INT(run(MX_OP_FUSED_SELECT, &attrs, in, n_inputs, again, 1, pool), MXW_OK);
    CHECK(same_bits(&again[0], &got[0]) && same_bits(&again[1], &got[1]) && same_bits(&again[2], &got[2]));
    done();
}

/* A weight that is not packed: whole numbers, whose sums are exact in any order. */
static void one_unpacked(int64_t rows, int64_t vocab, int64_t d) {
    mx_attrs attrs = {.k = 5};
    mx_tensor in[] = {RANDOM(4, rows, d), RANDOM(4, vocab, d), random_rules(rows, vocab, 4), random_suppress(4, vocab)};
    mx_tensor logits = BLANK(MXW_F32, rows, vocab), want[3], got[3];
    for (int t = 0; t < 2; t++)
        for (int64_t i = 0; i < mx_tensor_count(&in[t]); i++)
            ((float *)in[t].data)[i] = truncf(at(&in[t], i));
    blank_results(rows, 5, want);
    blank_results(rows, 5, got);
    CHECK_EQ_INT(run(MX_OP_LINEAR, &attrs, in, 2, &logits, 0, pool), MXW_OK);
    mx_tensor select[] = {logits, in[2], in[3]};
    CHECK_EQ_INT(run(MX_OP_SELECT, &attrs, select, 3, want, 0, pool), MXW_OK);
    CHECK_EQ_INT(run(MX_OP_FUSED_SELECT, &attrs, in, 4, got, 1, pool), MXW_OK);
    compare(got, want, 1e-6, "fused_select, weight not packed");
    done();
}

static void test_fused(void) {
    CHECK(cpu->supports(cpu, MX_OP_FUSED_SELECT));
    one_fused(5, 51864, 16, 6, 1, 1);
    one_fused(70, 2100, 20, 6, 1, 1);
    one_fused(19, 3000, 64, 70, 0, 0);
    for (int i = 0; i < 10; i++)
        one_unpacked(1 + below(20), 1 + below(3000), 1 + below(40));
    for (int i = 0; i < n_calls / 4; i++)
        one_fused(1 + below(i % 4 ? 8 : 40), 1 + below(i % 2 ? 400 : 5000), 1 + below(70), 1 + below(10), (int)below(2),
                  (int)below(2));
}

/* A rule that speaks of what is not there is refused. */
static void test_refused(void) {
    mx_attrs attrs = {.k = 2};
    mx_tensor out[3], in[] = {RANDOM(1, 2, 30), random_rules(2, 30, 1), random_suppress(1, 30)};
    blank_results(2, 2, out);
    ((int32_t *)in[1].data)[MX_RULE_WORDS] = 1;
    CHECK_EQ_INT(run(MX_OP_SELECT, &attrs, in, 3, out, 1, pool), MXW_E_ARGUMENT);
    CHECK(strstr(mx_error(), "rules[1] has set 1") != NULL);
    done();
}

int main(int argc, char **argv) {
    need_isa();
    if (argc > 1)
        n_calls = atoi(argv[1]);
    if (mx_device_find("cpu", &cpu) < 0 || mx_pool_open(3, &pool) < 0)
        return 1;
    test_select();
    test_fused();
    test_refused();
    mx_pool_close(pool);
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
