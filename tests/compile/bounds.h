/* bounds.h - how far a compiled run may be from an eager one: an error for each element, carried through the graph.
 *
 * In: the values of an eager run. Out: for each value whether it must be the same to the bit, may differ by so much in
 * each element, or cannot be compared: an op that jumps (to an integer, to the largest, to a row) was given something
 * inexact. Exact ops on exact values are exact; the others err by their number of roundings, on both sides. */
#ifndef BOUNDS_H
#define BOUNDS_H
#include "graph/graph.h"

typedef struct bound {
    int unknown;        /* not comparable */
    mx_tensor error;    /* f32, the value's sizes; data NULL: exact. An infinite one: not comparable */
} bound;

/* One session: states keep their errors from run to run. */
typedef struct bounds {
    const mx_graph *graph;
    bound *values;          /* [values] of the last run */
    bound *states;          /* [values]: of state leaves, as their memory is now ... */
    mx_tensor *memory;      /* [values]: ... and what is in it */
    int may_fail;           /* an index was unknown: a compiled run may refuse it */
} bounds;

void bounds_open(const mx_graph *g, bounds *b);
void bounds_close(bounds *b);
/* A state's memory at the beginning: zeros. */
void bounds_state(bounds *b, mx_value state, int rank, const int64_t *dims);
/* values[v]: what an eager run gave, host memory, row major; leaves (weights as f32) and results. */
mxw_status bounds_run(bounds *b, const mx_tensor *values, const mx_attrs *attrs /* [nodes], settled */);
/* 1 if got is what it may be; else 0, with the element. */
int bounds_hold(const bound *b, const mx_tensor *want, const mx_tensor *got, int64_t *element);
#endif
