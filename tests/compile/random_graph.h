/* random_graph.h - graphs that look like parts of networks, and graphs that look like nothing, from a seed: products,
 * norms, attention, caches, moves, constants, states, and any op on any value. All leaves know what data they take. */
#ifndef RANDOM_GRAPH_H
#define RANDOM_GRAPH_H
#include "graph/graph.h"
#include "rng.h"

typedef enum random_kind {
    RANDOM_FLOATS,   /* any elements of its type, small */
    RANDOM_INDEX,    /* i32 below `limit` */
    RANDOM_RULES,    /* mx_rule, for a vocabulary of `limit` */
    RANDOM_VIEW      /* a weight: `view` is what the checkpoint has */
} random_kind;

typedef struct random_leaf {
    mx_value value;
    random_kind data;
    int64_t limit;       /* a number or an open size of the graph */
    mx_tensor view;
} random_leaf;

enum { RANDOM_SIZES = 3, RANDOM_LEAVES = 400 };

typedef struct random_graph {
    mx_graph *graph;                    /* results have no names, but those that are outputs */
    random_leaf leaves[RANDOM_LEAVES];  /* inputs, states and weights */
    int n_leaves;
    int64_t sizes[RANDOM_SIZES];
    int frozen[RANDOM_SIZES];           /* a state has this size: it is the same in all runs of a session */
    int n_sizes;
    void *blocks[2 * RANDOM_LEAVES];
    int n_blocks;
} random_graph;

void random_graph_make(uint64_t seed, random_graph *out);
void random_graph_free(random_graph *r);
/* The same graph again, value for value; results are named "v7" after their number: all of them, or some. */
mx_graph *random_graph_copy(const random_graph *r, rng *some /* NULL: all */);
/* Finds weights of r, its context. */
mxw_status random_graph_weight(void *context, const char *name, mx_tensor *out);
#endif
