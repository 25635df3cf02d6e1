/* test_place.c - where values live: offsets for random lifetimes and sizes, and the lifetimes that find_homes gives to
 * random graphs, counted again here. */
#include "kit.h"

#include <limits.h>

/* ---- offsets ----------------------------------------------------------------------------------------------------- */

enum { MAX_VALUES = 120, NODES = 40 };

static size_t rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

static size_t some_bytes(void) {
    static const size_t odd[] = {1, 255, 256, 257, 511, 512, 4096};
    return below(3) ? (size_t)below(5000) + 1 : odd[below(MX_COUNT(odd))];
}

/* The most that is alive at one node: no plan can do with less. */
static size_t least_possible(const mx_placement *places, const size_t *bytes, size_t n) {
    size_t most = 0;
    for (int32_t node = 0; node <= NODES; node++) {
        size_t alive = 0;
        for (size_t v = 1; v < n; v++)
            if (places[v].home == MX_HOME_ARENA && places[v].first <= node && node <= places[v].last)
                alive += rounded(bytes[v]);
        most = MX_MAX(most, alive);
    }
    return most;
}

static int overlap(const mx_placement *a, const mx_placement *b, size_t at_a, size_t n_a, size_t at_b, size_t n_b) {
    int meet = a->first <= b->last && b->first <= a->last;
    return meet && at_a < at_b + n_b && at_b < at_a + n_a;
}

static void one_placing(double *waste) {
    mx_placement places[MAX_VALUES];
    mx_value order[MAX_VALUES];
    size_t bytes[MAX_VALUES], offsets[MAX_VALUES], total, sum = 0, end_ = 0, n = (size_t)below(MAX_VALUES - 1) + 1;
    mx_graph g = {.n_values = n};
    mx_plan plan = {.graph = &g, .placements = places};
    int bad = 0;
    for (size_t v = 0; v < n; v++) {
        places[v] = (mx_placement){.home = below(4) ? MX_HOME_ARENA : (mx_home)below(5), .of = (mx_value)v};
        places[v].first = (int32_t)below(NODES);
        places[v].last = below(10) ? places[v].first + (int32_t)below(below(4) ? 4 : NODES) : INT32_MAX;
        bytes[v] = some_bytes();
        offsets[v] = SIZE_MAX;
        sum += v && places[v].home == MX_HOME_ARENA ? rounded(bytes[v]) : 0;
    }
    int64_t before = mx_mem_count();
    mx_plan_place(&plan, bytes, order, offsets, &total);
    CHECK_EQ_INT(mx_mem_count(), before);
    for (size_t v = 1; v < n; v++) {
        if (places[v].home != MX_HOME_ARENA) {
            bad += offsets[v] != SIZE_MAX;   /* none of the arena's business */
            continue;
        }
        bad += offsets[v] % 256 != 0 || offsets[v] + bytes[v] > total;
        end_ = MX_MAX(end_, offsets[v] + rounded(bytes[v]));
        for (size_t w = 1; w < v; w++)
            bad += places[w].home == MX_HOME_ARENA &&
                   overlap(&places[v], &places[w], offsets[v], bytes[v], offsets[w], bytes[w]);
    }
    size_t least = least_possible(places, bytes, n);
    CHECK_EQ_INT(bad, 0);
    CHECK(total <= sum && total == end_ && total >= least);
    *waste += least ? (double)total / (double)least - 1 : 0;
}

static void test_offsets(void) {
    double waste = 0;
    enum { TIMES = 3000 };
    for (int i = 0; i < TIMES; i++)
        one_placing(&waste);
    printf("arenas on average %.1f %% above the least possible\n", 100 * waste / TIMES);
    CHECK(waste / TIMES < 0.25);   /* a plan that shared nothing would be some 500 % above */
}

/* ---- lifetimes --------------------------------------------------------------------------------------------------- */

/* Ops that copy, cut and join rows, so that views of views come up often. */
static void grow_graph(void) {
    mx_value values[64] = {given(FLOATS(1, 4, 8)), mx_graph_softmax(G, given(FLOATS(1, 4, 8)))};
    int n = 2;
    while (n < 40) {
        mx_value x = values[n - 1 - below(MX_MIN(n, 5))], y = values[below(n)];
        const mx_type *t = &G->values[x].type;
        int64_t rows = t->rank == 2 ? t->dims[0] : 0;
        switch (below(6)) {
        case 0: x = mx_graph_reshape(G, x, 2, DIMS(-1, mx_type_count(t) % 8 ? 1 : 8)); break;
        case 1: x = mx_graph_reshape(G, x, 1, DIMS(-1)); break;
        case 2: x = rows > 1 ? mx_graph_slice(G, x, 0, below(2), rows - below(2), 1) : x; break;
        case 3: x = rows > 1 && t->dims[1] > 1 ? mx_graph_slice(G, x, 1, 0, t->dims[1] - 1, 1) : x; break;
        case 4: x = mx_graph_softmax(G, x); break;
        default:
            y = mx_graph_reshape(G, y, 1, DIMS(-1));
            x = mx_graph_concat(G, (mx_value[]){mx_graph_reshape(G, x, 1, DIMS(-1)), y}, 2, 0);
            x = mx_type_count(&G->values[x].type) > 4000 ? values[0] : x;
        }
        values[n++] = x;
        if (below(8) == 0)
            out(x);
    }
    out(values[n - 1]);
}

/* The value whose bytes these are. */
static mx_value root_of(const mx_plan *plan, mx_value v) {
    const mx_graph *g = plan->graph;
    while (plan->placements[v].home == MX_HOME_VIEW)
        v = g->nodes[g->values[v].node].inputs[0];
    return v;
}

static void check_lives(const mx_plan *plan, int *views) {
    const mx_graph *g = plan->graph;
    int bad = 0;
    for (size_t v = 1; v < g->n_values; v++) {
        const mx_placement *p = &plan->placements[v], *root = &plan->placements[root_of(plan, (mx_value)v)];
        *views += p->home == MX_HOME_VIEW;
        bad += p->of != root_of(plan, (mx_value)v) && (p->home == MX_HOME_VIEW || p->home == MX_HOME_ARENA);
        bad += p->home == MX_HOME_VIEW && root->home != MX_HOME_ARENA;
        bad += g->values[v].kind == MX_RESULT && root->home == MX_HOME_ARENA && root->first > g->values[v].node;
    }
    for (size_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_inputs; i++)
            bad += plan->placements[root_of(plan, g->nodes[n].inputs[i])].last < (int32_t)n;
    for (size_t i = 0; i < g->n_outputs; i++)
        bad += plan->placements[root_of(plan, g->outputs[i].value)].last != INT32_MAX;
    CHECK_EQ_INT(bad, 0);
}

static void test_lives(void) {
    int views = 0;
    for (int i = 0; i < 60; i++) {
        mx_plan *plan;
        fresh();
        grow_graph();
        CHECK(mx_graph_status(G) == MXW_OK);
        CHECK(mx_compile(G, &(mx_compile_options){pattern_device(), i % 2}, &plan) == MXW_OK);
        check_lives(plan, &views);
        mx_plan_free(plan);
        check_compiled();
    }
    CHECK(views > 200);
}

int main(void) {
    kit_open();
    test_offsets();
    test_lives();
    end();
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
