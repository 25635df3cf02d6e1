/* test_random.c - random ops on random shapes: whatever is built is either refused with a line or runs; whatever runs
 * ends with outputs or a line; nothing crashes, nothing leaks. Two runs of a graph give the same bits.
 * MXW_RANDOM_GRAPHS sets how many graphs; the first number printed with a failure is the graph's seed. */
#include "graph/build.h"
#include "kit/harness.h"

enum { NODES = 24, MAX_SIZES = 3 };

static int64_t sizes[MAX_SIZES], actual[MAX_SIZES];
static int n_sizes;
static int64_t n_refused, n_built, n_ran, n_stopped;

static int64_t random_dim(void) {
    if (n_sizes && below(4) == 0)
        return sizes[below(n_sizes)];
    return below(12) ? below(5) + 1 : below(2) * 40;
}

static mxw_dtype random_dtype(void) {
    static const mxw_dtype likely[] = {MXW_F32, MXW_F32, MXW_F32, MXW_F32, MXW_I32, MXW_I32, MXW_U8, MXW_F16};
    return below(10) ? likely[below(8)] : (mxw_dtype)below(8);
}

static void random_attrs(mx_attrs *a) {
    memset(a, 0, sizeof(*a));
    a->axis = (int)below(5) - (below(8) == 0);
    int taken = 0;
    for (int i = 0; i < MX_MAX_RANK; i++) {   /* often a permutation */
        a->axes[i] = (i + taken) % 3;
        a->dims[i] = below(5) ? random_dim() : MX_DIM_INFER;
        taken += below(6) == 0;
    }
    a->rank = (int)below(MX_MAX_RANK + 1);
    a->start = below(8) - 3;
    a->stop = below(4) ? below(9) - 3 : INT64_MAX;
    a->step = below(10) ? below(3) + 1 : below(3) - 1;
    a->dtype = random_dtype();
    a->kind = (int)below(4) + (below(20) == 0);
    a->eps = below(20) ? 1e-5 : -1;
    a->heads = (int)below(3) + (below(20) != 0);
    a->causal = (int)below(2);
    a->scale = below(30) ? uniform(-1, 1) : INFINITY;
    a->parameter = below(20) ? uniform(-2, 2) : INFINITY;
    for (int i = 0; i < 2; i++) {
        a->stride[i] = (int)below(3) + (below(10) != 0);
        a->pad[i] = (int)below(3) - (below(30) == 0);
    }
    a->dilation = (int)below(3) + (below(20) != 0);
    a->k = below(4) ? below(4) + 1 : random_dim();
}

static mx_value add_input(int i) {
    int64_t dims[MX_MAX_RANK];
    char name[16];
    int rank = below(9) ? (int)below(4) + 1 : (int)below(MX_MAX_RANK + 1);
    for (int d = 0; d < rank; d++)
        dims[d] = random_dim();
    snprintf(name, sizeof(name), "i%d", i);
    if (below(6) == 0)
        return mx_graph_state(G, name, random_dtype(), rank, dims);
    return mx_graph_input(G, name, random_dtype(), rank, dims);
}

/* An input of the same type as a value, so that ops with several inputs fit more often. */
static mx_value like(mx_value value, mxw_dtype dtype, int i) {
    mx_type t = G->values[value].type;
    char name[16];
    for (int d = 0; d < t.rank; d++)
        t.dims[d] = t.dims[d] == MX_DIM_ANY ? 2 : t.dims[d];
    snprintf(name, sizeof(name), "l%d", i);
    return mx_graph_input(G, name, dtype, t.rank, t.dims);
}

static mx_value any_value(void) { return (mx_value)(below((int64_t)G->n_values - 1) + 1); }

static void add_node(int i) {
    mx_op op = (mx_op)below(MX_OP_PLAIN_COUNT);
    mx_attrs attrs;
    mx_value inputs[8], outputs[MX_MAX_OUTPUTS];
    const mx_type *types[8];
    mx_type out[MX_MAX_OUTPUTS];
    int least = mx_op_least_inputs(op), most = MX_MIN(mx_op_most_inputs(op), 7);
    int n = least + (int)below(most - least + 1);
    random_attrs(&attrs);
    for (int j = 0; j < n; j++) {
        inputs[j] = j && below(2) ? inputs[0] : any_value();
        if (below(8) == 0)
            inputs[j] = like(inputs[0] && j ? inputs[0] : any_value(), below(3) ? MXW_F32 : MXW_I32, 8 * i + j);
        if (j >= least && op != MX_OP_CONCAT && below(2))
            inputs[j] = 0;
    }
    for (int j = 0; j < n; j++)   /* adding inputs moves the values */
        types[j] = inputs[j] ? &G->values[inputs[j]].type : NULL;
    if (op == MX_OP_STATE_WRITE && !G->values[inputs[0]].state)
        return;
    mx_size_names names = mx_graph_size_names(G);
    if (mx_op_infer(op, &attrs, n, types, out, &names) < 0) {
        n_refused++;
        if (!strstr(mx_error(), mx_op_name(op)))
            CHECK(!"a refusal names its op");
        return;
    }
    n_built++;
    CHECK(mx_graph_append(G, op, &attrs, inputs, n, outputs) != 0);
    if (below(3) == 0) {
        char name[16];
        snprintf(name, sizeof(name), "o%d", i);
        CHECK(mx_graph_output(G, name, outputs[0]) == MXW_OK);
    }
}

static void fill(mx_tensor *t) {
    int64_t bytes = (int64_t)mx_tensor_bytes(t), small = below(8) != 0;
    for (int64_t i = 0; i < bytes; i++)
        ((uint8_t *)t->data)[i] = (uint8_t)random_word();
    for (int64_t i = 0; i < mx_tensor_count(t) && small; i++) {
        if (t->dtype == MXW_F32)
            ((float *)t->data)[i] = (float)uniform(-2, 2);
        if (t->dtype == MXW_I32)
            ((int32_t *)t->data)[i] = (int32_t)below(3);
    }
}

static mxw_status bind_all(mx_program *program, mx_run *run, mx_state *state) {
    mxw_status status = MXW_OK;
    for (size_t i = 1; i < G->n_values && status >= 0; i++) {
        const mx_value_info *info = &G->values[i];
        int64_t dims[MX_MAX_RANK];
        if (info->kind != MX_INPUT && info->kind != MX_STATE)
            continue;
        for (int d = 0; d < info->type.rank; d++)
            dims[d] = info->type.dims[d] < 0 ? actual[MX_DIM_INDEX(info->type.dims[d])] : info->type.dims[d];
        if (info->kind == MX_STATE) {
            status = mx_state_add(state, info->name, info->type.dtype, info->type.rank, dims);
        } else {
            mx_tensor t = blank(info->type.dtype, info->type.rank, dims);
            fill(&t);
            status = mx_run_input(run, info->name, &t);
        }
    }
    for (int i = 0; i < n_sizes && status >= 0; i++)
        status = mx_run_size(run, G->sizes[i].name, actual[i]);
    return status;
}

static void collect(mx_run *run, mx_str *bytes) {
    for (size_t i = 0; i < G->n_outputs; i++) {
        mx_tensor t;
        CHECK(mx_run_output(run, G->outputs[i].name, &t) == MXW_OK);
        mx_str_add(bytes, t.data, mx_tensor_bytes(&t));
    }
}

static int has_state(void) {
    for (size_t i = 1; i < G->n_values; i++)
        if (G->values[i].kind == MX_STATE)
            return 1;
    return 0;
}

static void run_graph(void) {
    mx_program *program;
    mx_run *run = NULL;
    mx_state *state = NULL;
    mx_str first = {0}, second = {0};
    CHECK(mx_exec_load(G, there(harness_pool, NULL), &program) == MXW_OK);
    CHECK(mx_state_open(program, &state) == MXW_OK);
    CHECK(mx_run_open(program, state, &run) == MXW_OK);
    CHECK(bind_all(program, run, state) == MXW_OK);
    mxw_status status = mx_run_execute(run);
    if (status < 0) {
        n_stopped++;
        CHECK(status == MXW_E_ARGUMENT && strstr(mx_error(), "graph test: %"));
    } else {
        n_ran++;
        collect(run, &first);
        if (!has_state()) {
            CHECK(mx_run_execute(run) == MXW_OK);
            collect(run, &second);
            CHECK(first.n == second.n && (first.n == 0 || memcmp(first.data, second.data, first.n) == 0));
        }
    }
    mx_str_free(&first);
    mx_str_free(&second);
    mx_run_close(run);
    mx_state_close(state);
    mx_exec_unload(program);
}

static void one_graph(uint64_t seed) {
    static const char *const size_names[] = {"a", "b", "c"};
    mx_str text = {0};
    random_state = seed * 0x9E3779B97F4A7C15u + 1;
    for (int i = 0; i < 4; i++)
        random_word();
    begin();
    n_sizes = (int)below(MAX_SIZES + 1);
    for (int i = 0; i < n_sizes; i++) {
        sizes[i] = mx_graph_size(G, size_names[i], 9);
        actual[i] = below(10) ? below(4) + 1 : below(10);
    }
    for (int i = 0; i < 4; i++)
        add_input(i);
    for (int i = 0; i < NODES && mx_graph_status(G) >= 0; i++)
        add_node(i);
    CHECK(mx_graph_status(G) == MXW_OK);
    CHECK(mx_graph_print(G, &text) == MXW_OK && text.n > 10);
    mx_str_free(&text);
    run_graph();
}

int main(int argc, char **argv) {
    harness_open("graph-random", argc, argv);
    const char *count = getenv("MXW_RANDOM_GRAPHS");
    uint64_t graphs = count ? strtoull(count, NULL, 10) : 1500;
    int64_t live = mx_mem_live();
    for (uint64_t seed = 1; seed <= graphs; seed++) {
        int failed = check_failed;
        one_graph(seed);
        if (check_failed > failed) {
            printf("    graph %llu: %s\n", (unsigned long long)seed, mx_error());
            break;
        }
    }
    end();
    CHECK_EQ_INT(mx_mem_live(), live);
    printf("%lld nodes built, %lld refused; %lld graphs ran, %lld stopped\n", (long long)n_built, (long long)n_refused,
           (long long)n_ran, (long long)n_stopped);
    CHECK(n_built > 1000 && n_refused > 1000 && n_ran > 100 && n_stopped > 20);
    return check_done();
}
