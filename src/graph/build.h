/* graph/build.h - what the builders share, and the one way a node is appended: for this folder and for compile/. */
#ifndef MX_GRAPH_BUILD_H
#define MX_GRAPH_BUILD_H
#include "graph/graph.h"

/* Keeps the first mistake of the graph; returns 0, the value that is none. */
mx_value mx_graph_refuse(mx_graph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, with the thread's last error as the line. */
mx_value mx_graph_refuse_status(mx_graph *g, mxw_status status);
/* 1 if something may be added: no mistake was made, and no program holds the graph (that is one). */
int mx_graph_ready(mx_graph *g);
/* Appends a node whose inputs are checked by inference; outputs gets its values. 0 returned on a mistake. */
mx_value mx_graph_append(mx_graph *g, mx_op op, const mx_attrs *attrs, const mx_value *inputs, int n_inputs,
                         mx_value *outputs);
#endif
