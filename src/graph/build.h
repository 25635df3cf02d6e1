/* graph/build.h - shared by the builders: how a node is appended; for this folder and for compile/. */
#ifndef MX_GRAPH_BUILD_H
#define MX_GRAPH_BUILD_H
#include "graph/graph.h"

/* Records the first mistake of the graph; returns 0, the invalid value. */
mx_value mx_graph_refuse(mx_graph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, with the thread's last error as the message. */
mx_value mx_graph_refuse_status(mx_graph *g, mxw_status status);
/* 1 if nodes may be added: no mistake so far, and no program reads the graph (which would be one). */
int mx_graph_ready(mx_graph *g);
/* Appends a node whose inputs are checked by inference; outputs gets its values. 0 returned on a mistake. */
mx_value mx_graph_append(mx_graph *g, mx_op op, const mx_attrs *attrs, const mx_value *inputs, int n_inputs,
                         mx_value *outputs);
#endif
