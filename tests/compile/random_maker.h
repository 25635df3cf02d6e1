/* random_maker.h - what random_graph.c and random_patterns.c share. */
#ifndef RANDOM_MAKER_H
#define RANDOM_MAKER_H
#include "random_graph.h"

enum { MAKER_NODES = 60 };

typedef struct maker {
    random_graph *to;
    mx_graph *g;
    rng r;
    char name[16];
} maker;

const mx_type *maker_type(const maker *m, mx_value v);
/* Appends the op if its inputs fit; 0 if they do not, and nothing has changed. */
int maker_append(maker *m, mx_op op, const mx_attrs *attrs, const mx_value *inputs, int n, mx_value *outputs);
/* The same with up to three inputs; its first output, or 0. a == 0 gives 0. */
mx_value maker_op(maker *m, mx_op op, const mx_attrs *attrs, mx_value a, mx_value b, mx_value c);

/* Leaves; 0 where one cannot have such sizes, or there are too many. */
mx_value maker_input(maker *m, mxw_dtype dtype, int rank, const int64_t *dims, random_kind data, int64_t limit);
mx_value maker_state(maker *m, int rank, const int64_t *dims);
mx_value maker_weight(maker *m, int rank, const int64_t *dims);
mx_value maker_constant(maker *m, mxw_dtype dtype, int rank, const int64_t *dims, int64_t limit);

/* random_patterns.c: the first inputs; one more part of a network. */
void maker_begin(maker *m);
void maker_pattern(maker *m);
#endif
