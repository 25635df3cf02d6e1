/* test_compiled.c - random graphs, compiled and eager, agree: outputs and taps, with every name kept and without, with
 * sizes that change from run to run, with 1, 2, 3 and 8 threads (these to the bit).
 *
 *   test_compiled [cpu|fake|pattern|pattern-near|cuda..] [graphs]
 *
 * On the test devices, which run the CPU's plain ops, agreeing means the same bits; on the others it means within the
 * error that bounds.h carries through the graph. Where the eager run fails the compiled one may do as it likes, but not
 * crash. MXW_RANDOM_GRAPHS sets how many graphs, MXW_RANDOM_SEED the first; a failure names its seed. */
#include "base/base.h"

#include <math.h>

#include "kit/fake_device.h"
#include "kit/check.h"
#include "bounds.h"
#include "pattern_device.h"
#include "plain.h"
#include "session.h"

enum { RUNS = 4, N_POOLS = 4 };

static const char *device = "cpu";
static int is_exact;             /* the device gives the bits of the eager CPU */
static mx_pool *pools[N_POOLS];  /* the first is none: the calling thread */
static int64_t n_ran, n_stopped, n_compared, n_unknown, n_taps, n_nodes, n_left;

/* One graph under test. */
typedef struct trial {
    random_graph r;
    mx_graph *all_named, *some_named;
    rng dice;
    mx_tensor *values;       /* [values]: what the eager run gave; leaves too */
    mx_attrs *attrs;         /* [nodes]: with the sizes of the run */
    bounds b;
    session eager, fast, other, kept;   /* kept: with keep_names */
    int has_state;
} trial;

/* ---- what the eager run gives ------------------------------------------------------------------------------------ */

static mx_value value_named(const mx_graph *g, const char *name) {
    for (size_t i = 0; i < g->n_names; i++)
        if (strcmp(g->names[i].name, name) == 0)
            return g->names[i].value;
    return 0;
}

static void record(trial *t, mx_value value, const mx_tensor *seen) {
    free(t->values[value].data);
    t->values[value] = plain_copy(seen);
}

static void see_eager(void *context, const char *name, const mx_tensor *seen) {
    trial *t = context;
    mx_value value = value_named(t->all_named, name);
    if (value && t->all_named->values[value].kind == MX_RESULT)
        record(t, value, seen);
}

/* Leaves as the ops see them, attributes with numbers for sizes. */
static void record_leaves(trial *t, const random_run *data) {
    const mx_graph *g = t->r.graph;
    for (int i = 0; i < t->r.n_leaves; i++)
        if (g->values[t->r.leaves[i].value].kind == MX_INPUT)
            record(t, t->r.leaves[i].value, &data->inputs[i]);
    for (size_t n = 0; n < g->n_nodes; n++) {
        mx_attrs *a = &t->attrs[n];
        *a = g->nodes[n].attrs;
        for (int d = 0; d < a->rank; d++)
            if (a->dims[d] < MX_DIM_INFER)
                a->dims[d] = data->sizes[MX_DIM_INDEX(a->dims[d])];
        if (a->k < MX_DIM_INFER)
            a->k = data->sizes[MX_DIM_INDEX(a->k)];
    }
}

static void record_constants(trial *t) {
    const mx_graph *g = t->r.graph;
    for (size_t v = 1; v < g->n_values; v++) {
        const mx_value_info *info = &g->values[v];
        mx_tensor view = mx_tensor_of_const(info->type.dtype, info->type.rank, info->type.dims, info->data);
        if (info->kind == MX_CONSTANT)
            record(t, (mx_value)v, &view);
        if (info->kind != MX_WEIGHT)
            continue;
        random_graph_weight(&t->r, info->name, &view);
        mx_tensor blank = mx_tensor_of(MXW_F32, view.rank, view.dims, NULL), wide;
        blank.data = calloc((size_t)mx_tensor_count(&blank) + 1, sizeof(float));
        mx_tensor_to_f32(&view, blank.data);
        wide = plain_copy(&blank);
        free(blank.data);
        t->values[v] = wide;
    }
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static int agrees(trial *t, const char *what, const char *name, mx_value value, const mx_tensor *got) {
    int64_t at;
    const bound *b = is_exact ? NULL : &t->b.values[value];
    n_compared++;
    n_unknown += b && b->unknown;
    if (bounds_hold(b, &t->values[value], got, &at))
        return 1;
    char have[128], want[128];
    mx_tensor_describe(got, have, sizeof(have));
    mx_tensor_describe(&t->values[value], want, sizeof(want));
    printf("    %s %s (%%%d): %s, eager %s; element %lld\n", what, name, (int)value, have, want, (long long)at);
    if (at >= 0 && got->dtype == MXW_F32)
        printf("    %.9g, eager %.9g, bound %g\n", (double)((const float *)got->data)[at],
               (double)((const float *)t->values[value].data)[at],
               b && b->error.data ? (double)((const float *)b->error.data)[at] : 0.0);
    return 0;
}

/* What an output must be: a state's memory is as it was left at the end. */
static const mx_tensor *expected(trial *t, mx_value value) {
    mx_value leaf = t->r.graph->values[value].state;
    if (!leaf)
        return &t->values[value];
    for (size_t n = t->r.graph->n_nodes; n-- > 0;) {
        mx_value written = t->r.graph->nodes[n].outputs[0];
        if (t->r.graph->values[written].state == leaf)
            return &t->values[written];
    }
    return NULL;   /* never written: zeros */
}

static int outputs_agree(trial *t, session *s, const char *what) {
    const mx_graph *g = t->r.graph;
    int good = 1;
    for (size_t i = 0; i < g->n_outputs && good; i++) {
        mx_tensor got;
        good = mx_run_output(s->run, g->outputs[i].name, &got) == MXW_OK;
        const mx_tensor *want = expected(t, g->outputs[i].value);
        if (good && want)
            good = agrees(t, what, g->outputs[i].name,
                          want == &t->values[g->outputs[i].value] ? g->outputs[i].value
                                                                  : (mx_value)(want - t->values), &got);
    }
    return good;
}

static int same_outputs(trial *t, session *a, session *b) {
    const mx_graph *g = t->r.graph;
    for (size_t i = 0; i < g->n_outputs; i++) {
        mx_tensor x, y;
        if (mx_run_output(a->run, g->outputs[i].name, &x) < 0 || mx_run_output(b->run, g->outputs[i].name, &y) < 0 ||
            x.dtype != y.dtype || mx_tensor_bytes(&x) != mx_tensor_bytes(&y) ||
            (mx_tensor_bytes(&x) && memcmp(x.data, y.data, mx_tensor_bytes(&x)) != 0)) {
            printf("    output %s differs between numbers of threads\n", g->outputs[i].name);
            return 0;
        }
    }
    return 1;
}

typedef struct watch {
    trial *t;
    int seen, good;
} watch;

static void see_compiled(void *context, const char *name, const mx_tensor *seen) {
    watch *w = context;
    mx_value value = value_named(w->t->some_named, name);
    w->seen++;
    n_taps++;
    w->good = w->good && value && agrees(w->t, "tap", name, value, seen);
}

static int names_to_see(const mx_graph *g) {
    int n = 0;
    for (size_t i = 0; i < g->n_names; i++)
        n += g->values[g->names[i].value].kind == MX_INPUT || g->values[g->names[i].value].kind == MX_RESULT;
    return n;
}

/* ---- one graph --------------------------------------------------------------------------------------------------- */

static int load(trial *t, const mx_graph *g, mxw_engine engine, mx_pool *pool, int keep_names, const random_run *first,
                session *s) {
    mx_weight_source source = {random_graph_weight, &t->r};
    mx_program_options options = {.engine = engine, .device = engine == MXW_ENGINE_CPU ? "cpu" : device, .pool = pool,
                                  .weights = &source, .keep_names = keep_names};
    if (CHECK(session_open(&t->r, g, &options, first, s) == MXW_OK))
        return 1;
    printf("    %s\n", mx_error());
    return 0;
}

/* A compiled run, and that it agrees as far as it can. 0: what follows means nothing any more. */
static int run_compiled(trial *t, session *s, const random_run *data, const char *what) {
    mxw_status status = session_run(s, &t->r, data);
    if (status < 0 && !is_exact && t->b.may_fail)
        return 0;
    if (!CHECK(status == MXW_OK)) {
        printf("    %s: %s\n", what, mx_error());
        return 0;
    }
    return CHECK(outputs_agree(t, s, what));
}

static void run_kept(trial *t, const random_run *data) {
    watch w = {t, 0, 1};
    mx_run_tap(t->kept.run, see_compiled, &w);
    if (run_compiled(t, &t->kept, data, "names kept") && CHECK(w.good))
        CHECK_EQ_INT(w.seen, names_to_see(t->some_named));
    mx_run_tap(t->kept.run, NULL, NULL);
}

/* One run of all; 0: no more runs, since states are no longer alike. */
static int one_run(trial *t, const random_run *data, int tapped) {
    watch w = {t, 0, 1};
    record_leaves(t, data);
    mxw_status status = session_run(&t->eager, &t->r, data);
    if (status < 0) {   /* whatever the others make of it */
        n_stopped++;
        session_run(&t->fast, &t->r, data);
        session_run(&t->kept, &t->r, data);
        return !t->has_state;
    }
    n_ran++;
    if (!is_exact)
        bounds_run(&t->b, t->values, t->attrs);
    if (tapped)
        mx_run_tap(t->fast.run, see_compiled, &w);
    int go_on = run_compiled(t, &t->fast, data, "compiled") && CHECK(w.good);
    mx_run_tap(t->fast.run, NULL, NULL);
    if (!go_on)
        return !t->has_state;
    if (!CHECK(session_run(&t->other, &t->r, data) == MXW_OK) || !CHECK(same_outputs(t, &t->fast, &t->other)))
        return 0;
    run_kept(t, data);
    return 1;
}

static void explain(trial *t) {
    mx_str text = {0};
    mxw_status status = mx_exec_explain(t->fast.program, NULL, &text);
    CHECK(status == MXW_OK || status == MXW_E_ARGUMENT);
    CHECK(status < 0 || strstr(text.data, " bytes without the plan\n"));
    const char *left = text.data ? strstr(text.data, "select ") : NULL;
    n_left += left ? strtoll(left + 7, NULL, 10) : 0;
    n_nodes += left ? (int64_t)t->r.graph->n_nodes : 0;
    mx_str_free(&text);
}

static void run_trial(trial *t) {
    random_run first, data;
    random_run_make(&t->r, NULL, &t->dice, 0, &first);
    int a = (int)rng_below(&t->dice, N_POOLS), b = (a + 1 + (int)rng_below(&t->dice, N_POOLS - 1)) % N_POOLS;
    int go_on = load(t, t->all_named, MXW_ENGINE_CPU, pools[a], 0, &first, &t->eager) &&
                load(t, t->some_named, MXW_ENGINE_MAX, pools[a], 0, &first, &t->fast) &&
                load(t, t->some_named, MXW_ENGINE_MAX, pools[b], 0, &first, &t->other) &&
                load(t, t->some_named, MXW_ENGINE_MAX, pools[b], 1, &first, &t->kept);
    for (int i = 0; i < t->r.n_leaves && go_on; i++) {
        const mx_value_info *info = &t->r.graph->values[t->r.leaves[i].value];
        int64_t dims[MX_MAX_RANK];
        for (int d = 0; d < info->type.rank; d++)
            dims[d] = info->type.dims[d] < 0 ? first.sizes[MX_DIM_INDEX(info->type.dims[d])] : info->type.dims[d];
        if (info->kind == MX_STATE) {
            t->has_state = 1;
            bounds_state(&t->b, t->r.leaves[i].value, info->type.rank, dims);
        }
    }
    if (go_on) {
        mx_run_tap(t->eager.run, see_eager, t);
        explain(t);
    }
    for (int i = 0; i < RUNS && go_on; i++) {
        random_run_make(&t->r, &first, &t->dice, rng_one_in(&t->dice, 15), &data);
        go_on = one_run(t, &data, i == 1) && !check_failed;
        random_run_free(&first);
        first = data;
    }
    random_run_free(&first);
}

static void one_graph(uint64_t seed) {
    trial t = {.dice = {seed ^ 0x5EED}};
    random_graph_make(seed, &t.r);
    t.all_named = random_graph_copy(&t.r, NULL);
    t.some_named = random_graph_copy(&t.r, &t.dice);
    t.values = calloc(t.r.graph->n_values, sizeof(*t.values));
    t.attrs = calloc(t.r.graph->n_nodes + 1, sizeof(*t.attrs));
    bounds_open(t.r.graph, &t.b);
    record_constants(&t);
    run_trial(&t);
    session_close(&t.eager);
    session_close(&t.fast);
    session_close(&t.other);
    session_close(&t.kept);
    bounds_close(&t.b);
    if (check_failed) {
        mx_str text = {0};
        mx_graph_print(t.r.graph, &text);
        printf("%s    graph of seed %llu\n", text.data, (unsigned long long)seed);
        mx_str_free(&text);
    }
    for (size_t v = 0; v < t.r.graph->n_values; v++)
        free(t.values[v].data);
    free(t.values);
    free(t.attrs);
    mx_graph_destroy(t.all_named);
    mx_graph_destroy(t.some_named);
    random_graph_free(&t.r);
}

static void open_devices(void) {
    static const int threads[N_POOLS] = {1, 2, 3, 8};
    const mx_device *found;
    is_exact = strcmp(device, "fake") == 0 || strncmp(device, "pattern", 7) == 0;
    if (is_exact)   /* the plain loops multiply: a sum does not depend on what is beside it, as BLAS's may */
        setenv("MXW_MODULE_DIR", "nowhere", 1);
    mx_device_add(fake_device());
    mx_device_add(pattern_device());
    mx_device_add(pattern_near_device());
    if (mx_device_find(device, &found) < 0) {
        printf("SKIP: compile-random %s: %s\n", device, mx_error());
        exit(77);
    }
    for (int i = 1; i < N_POOLS; i++)
        CHECK(mx_pool_open(threads[i], &pools[i]) == MXW_OK);
}

static uint64_t number(const char *text, uint64_t otherwise) { return text ? strtoull(text, NULL, 10) : otherwise; }

int main(int argc, char **argv) {
    device = argc > 1 ? argv[1] : device;
    uint64_t graphs = number(getenv("MXW_RANDOM_GRAPHS"), number(argc > 2 ? argv[2] : NULL, 1500));
    uint64_t first = number(getenv("MXW_RANDOM_SEED"), 1);
    open_devices();
    int64_t live = mx_mem_live();
    for (uint64_t seed = first; seed < first + graphs && !check_failed; seed++)
        one_graph(seed);
    CHECK_EQ_INT(mx_mem_live(), live);
    for (int i = 1; i < N_POOLS; i++)
        mx_pool_close(pools[i]);
    printf("%lld runs, %lld more that eager refused; %lld values compared, %lld of them by shape alone, %lld taps; "
           "%lld nodes became %lld\n",
           (long long)n_ran, (long long)n_stopped, (long long)n_compared, (long long)n_unknown, (long long)n_taps,
           (long long)n_nodes, (long long)n_left);
    if (graphs >= 1000) {   /* the graphs are what they should be: most run, few do not, most values mean something */
        CHECK(n_ran > 2 * (int64_t)graphs && n_stopped > (int64_t)graphs / 20);
        CHECK(n_unknown < n_compared / 3);
    }
    return check_done();
}
