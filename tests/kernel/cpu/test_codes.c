/* test_codes.c - weights that stay in the codes of their file (device/cpu/gemm/codes.h) against the same ones, widened
 * before, through the device's table and to the bit: linear layers of few rows and many, from one tensor or several,
 * with all that comes before and after; rows of a table; the choice from logits. Every block type, for tables and
 * logits also blocks of 256, bytes with a scale for each row, and groups; scales of either sign, zeros among the codes.
 * Argument: how many random shapes, where 200 would take too long. */
#include "calls.h"

#include "device/cpu/gemm/pack.h"
#include "device/cpu/logits/logits_int8.h"
#include "tensor/quantized.h"

static const char *const types[] = {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q6_K", "int8", "4-bit"};
enum { N_PANELS = 5, N_TYPES = 8, GROUP = 32 };   /* the first N_PANELS are what linear layers take */

/* Scales, and minima where there are some: small numbers, at the beginning of a block or at its end. */
static void set_scales(const mx_block_type *type, uint8_t *data, int64_t n) {
    int at_end = type->elements > 32, n_halves = type->name[3] == '1' ? 2 : 1;
    for (int64_t i = 0; i < n; i++)
        for (int h = 0; h < n_halves; h++) {
            uint16_t half = mx_f32_to_f16((at_end ? 0.001f : 0.1f) * random_float());
            memcpy(data + i * type->bytes + (at_end ? type->bytes - 2 : 2 * h), &half, 2);
        }
}

/* n rows of k elements as the file has them, at an odd address; *wide is the same in f32. */
static mx_quantized random_codes(const char *name, int64_t n, int64_t k, mx_tensor *wide) {
    const mx_block_type *type = mx_block_type_find(name);
    mx_quantized q = {.kind = MX_QUANTIZED_BLOCKS, .type = name, .blocks = type, .rows = n, .columns = k};
    if (type) {
        q.row_bytes = (size_t)(k / type->elements * type->bytes);
    } else if (strcmp(name, "int8") == 0) {
        q.kind = MX_QUANTIZED_INT8;
        q.row_bytes = (size_t)k;
        q.scales = RANDOM(0.01f, n);
    } else {
        q.kind = MX_QUANTIZED_GROUPS;
        q.bits = 4;
        q.group = GROUP;
        q.row_bytes = (size_t)k / 2;
        q.scales = RANDOM(0.1f, n, k / GROUP);
        q.biases = RANDOM(0.5f, n, k / GROUP);
    }
    uint8_t *data = (uint8_t *)take((size_t)n * q.row_bytes + 1) + 1;
    for (size_t i = 0; i < (size_t)n * q.row_bytes; i++)
        data[i] = (uint8_t)(below(5) ? word() : 0);
    if (type)
        set_scales(type, data, n * k / type->elements);
    q.data = data;
    *wide = BLANK(MXW_F32, n, k);
    for (int64_t r = 0; r < n; r++)
        mx_quantized_widen(&q, r, (float *)wide->data + r * k);
    return q;
}

/* Rows first .. first + n. */
static mx_tensor view_of(const mx_quantized *q, int64_t first, int64_t n) {
    mx_tensor t = mx_tensor_of(MXW_F32, 2, DIMS(n, q->columns), NULL);
    t.layout = MX_LAYOUT_QUANTIZED;
    t.quantized = q;
    t.offset = first * q->columns;
    return t;
}

static mx_tensor packed(mx_op op, int input, const mx_tensor *sources, int n_sources, const mx_tensor *whole) {
    mx_weight_use use = {.op = op, .attrs = &(mx_attrs){0}, .input = input, .sources = sources,
                         .n_sources = n_sources};
    mx_tensor t = *whole;
    CHECK_EQ_INT(cpu->form(cpu, &use), MX_FORM_PACKED);
    t.layout = MX_LAYOUT_PACKED;
    t.packing = cpu->packing(cpu, &use);
    t.data = take(t.packing.bytes);
    CHECK_EQ_INT(cpu->pack(cpu, &use, t.data, pool), MXW_OK);
    return t;
}

static int takes(mx_op op, int input, const mx_tensor *sources, int n) {
    mx_weight_use use = {.op = op, .attrs = &(mx_attrs){0}, .input = input, .sources = sources, .n_sources = n};
    return cpu->takes_quantized(cpu, &use);
}

/* ---- linear ------------------------------------------------------------------------------------------------------ */

static void one_linear(const char *type, int64_t m, int64_t n, int64_t k, int parts, int with, int act) {
    mx_attrs attrs = {.act = act, .eps = 1e-5};
    mx_tensor none = {0}, wide, sources[3];
    mx_quantized q = random_codes(type, n, k, &wide);
    for (int i = 0; i < parts; i++)
        sources[i] = view_of(&q, n / parts * i, n / parts);
    mx_tensor x = RANDOM(2, m, k), bias = with & 1 ? RANDOM(1, n) : none, residual = with & 2 ? RANDOM(1, m, n) : none;
    mx_tensor gamma = with & 4 ? RANDOM(1, k) : none, beta = with & 4 ? RANDOM(1, k) : none;
    CHECK(takes(MX_OP_FUSED_LINEAR, 1, sources, parts));
    mx_tensor codes = packed(MX_OP_FUSED_LINEAR, 1, sources, parts, &wide);
    CHECK(codes.packing.bytes < 4096);   /* a description */
    mx_tensor inputs[] = {x, packed(MX_OP_FUSED_LINEAR, 1, &wide, 1, &wide), bias, residual, gamma, beta};
    mx_tensor want = BLANK(MXW_F32, m, n), got = BLANK(MXW_F32, m, n);
    CHECK_EQ_INT(run(MX_OP_FUSED_LINEAR, &attrs, inputs, 6, &want, 1, pool), MXW_OK);
    inputs[1] = codes;
    CHECK_EQ_INT(run(MX_OP_FUSED_LINEAR, &attrs, inputs, 6, &got, 1, pool), MXW_OK);
    if (!CHECK(same_bits(&got, &want)))
        near(&got, &want, 0, type);
    any_threads(MX_OP_FUSED_LINEAR, &attrs, inputs, 6, &got);
    done();
}

static void test_linear(int n_shapes) {
    for (int i = 0; i < n_shapes; i++) {
        int parts = 1 + (int)below(3);
        int64_t n = parts > 1 ? parts * 32 * (1 + below(3)) : 1 + below(140);
        one_linear(types[i % N_PANELS], 1 + below(i % 4 ? 40 : 300), n, 32 * (1 + below(i % 3 ? 4 : 40)), parts,
                   (int)below(8), (int)below(3));
    }
    for (int i = 0; i < N_PANELS; i++) {
        one_linear(types[i], 1, 384, 384, 1, 7, MX_ACT_GELU_ERF);
        one_linear(types[i], 28, 96, 1536, 3, 3, MX_ACT_NONE);   /* the most that counts as few, and one more */
        one_linear(types[i], 29, 96, 1536, 3, 3, MX_ACT_NONE);
        one_linear(types[i], 0, 32, 64, 1, 1, MX_ACT_NONE);
    }
}

/* ---- rows of a table, and the choice from logits ----------------------------------------------------------------- */

static void one_table(const char *type, int64_t n, int64_t k) {
    mx_tensor wide, index = random_index(7, n), y = BLANK(MXW_F32, 7, k);
    mx_quantized q = random_codes(type, n + 3, k, &wide);
    mx_tensor source = view_of(&q, 3, n), table = part_of(&wide, 3, n);
    CHECK(takes(MX_OP_GATHER, 0, &source, 1));
    mx_tensor codes = packed(MX_OP_GATHER, 0, &source, 1, &table);
    CHECK_EQ_INT(run(MX_OP_GATHER, &(mx_attrs){0}, (mx_tensor[]){codes, index}, 2, &y, 1, pool), MXW_OK);
    for (int64_t i = 0; i < 7; i++)
        CHECK(memcmp((float *)y.data + i * k, (float *)table.data + ((int32_t *)index.data)[i] * k,
                     (size_t)k * sizeof(float)) == 0);
    ((int32_t *)index.data)[2] = (int32_t)n;
    CHECK_EQ_INT(run(MX_OP_GATHER, &(mx_attrs){0}, (mx_tensor[]){codes, index}, 2, &y, 1, pool), MXW_E_ARGUMENT);
    done();
}

/* The vocabulary begins at a row of the tensor; `codes` says whether its panels are made again each time. */
static void one_select(int type, int64_t rows, int64_t vocab, int64_t k, float temperature, int64_t first, int codes) {
    const int64_t candidates = 5;
    mx_attrs attrs = {.k = candidates, .eps = 1e-5};
    mx_tensor all, x = RANDOM(1, rows, k), suppress = BLANK(MXW_U8, 1, vocab), out[2][3];
    mx_quantized q = random_codes(types[type], first + vocab, k, &all);
    mx_tensor source = view_of(&q, first, vocab), wide = part_of(&all, first, vocab);
    mx_tensor rules = BLANK(MXW_I32, rows, MX_RULE_WORDS);
    memset(suppress.data, 0, (size_t)vocab);
    for (int64_t r = 0; r < rows; r++) {
        mx_rule rule = {.ts_begin = (int32_t)(vocab - vocab / 8), .ts_max = (int32_t)vocab, .no_speech = r % 2 ? -1 : 3,
                        .flags = r % 3 ? MX_RULE_TIMESTAMP_SUM : 0, .temperature = temperature, .key = {word()}};
        memcpy((int32_t *)rules.data + r * MX_RULE_WORDS, &rule, sizeof(rule));
    }
    CHECK(takes(MX_OP_FUSED_SELECT, 1, &source, 1));
    for (int i = 0; i < 2; i++) {
        mx_logits_int8_keep_codes(codes);   /* which must not matter */
        mx_tensor weight = packed(MX_OP_FUSED_SELECT, 1, i ? &source : &wide, 1, &wide);
        int in_codes = weight.packing.format == MX_CPU_PACKED_LOGITS_CODES;
        CHECK_EQ_INT(in_codes, i && codes && type < N_PANELS);
        CHECK(in_codes == ((int64_t)weight.packing.bytes < vocab * k));   /* a panel has a byte an element */
        out[i][0] = BLANK(MXW_I32, rows, candidates);
        out[i][1] = BLANK(MXW_F32, rows, candidates);
        out[i][2] = BLANK(MXW_F32, rows, MX_SELECT_STATS);
        CHECK_EQ_INT(run(MX_OP_FUSED_SELECT, &attrs, (mx_tensor[]){x, weight, rules, suppress}, 4, out[i], 3, pool),
                     MXW_OK);
    }
    for (int o = 0; o < 3; o++)
        if (!CHECK(same_bits(&out[0][o], &out[1][o])))
            printf("    %s from row %d, %s\n", types[type], (int)first, codes ? "in codes" : "in panels");
    done();
}

/* What linear layers do not take comes widened: blocks of 256, and parts that are not whole panels. */
static void test_refused(void) {
    mx_tensor wide;
    mx_quantized q = random_codes("q4_0", 96, 64, &wide), k = q;
    k.blocks = mx_block_type_find("q6_K");
    mx_tensor parts[2] = {view_of(&q, 0, 48), view_of(&q, 48, 48)}, other = view_of(&k, 0, 96);
    CHECK(!takes(MX_OP_LINEAR, 1, parts, 2));
    CHECK(!takes(MX_OP_LINEAR, 1, &other, 1));
    CHECK(!takes(MX_OP_LINEAR, 1, &wide, 1));
    CHECK(!takes(MX_OP_CONV1D, 1, parts, 1));
    done();
}

int main(int argc, char **argv) {
    need_isa();
    if (mx_device_find("cpu", &cpu) < 0 || mx_pool_open(3, &pool) < 0)
        return 1;
    test_linear(argc > 1 ? atoi(argv[1]) : 200);
    for (int i = 0; i < N_TYPES; i++) {
        const mx_block_type *type = mx_block_type_find(types[i]);
        const int64_t least = type ? type->elements : GROUP;
        one_table(types[i], 40, MX_MAX(96, least));
        for (int codes = 0; codes < 2; codes++) {
            one_select(i, 1, 2500, MX_MAX(64, least), 0, 0, codes);
            one_select(i, 5, 4133, MX_MAX(96, least), 0, 3, codes);
            one_select(i, 4, 4133, MX_MAX(96, least), 0, 0, codes);
            one_select(i, 18, 700, least, 0, 64, codes);
            one_select(i, 67, 300, least, 0, 0, codes);   /* more than share one reading of the weights */
            one_select(i, 3, 2500, MX_MAX(64, least), 0.7f, 1, codes);
        }
    }
    test_refused();
    mx_pool_close(pool);
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
