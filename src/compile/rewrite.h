/* compile/rewrite.h - how a pass writes its new graph; private to the folder.
 *
 * A pass walks the nodes of `from` in order. For each it either has mx_rewrite_copy append the same node, or maps its
 * outputs to other values (mx_rewrite_map). Inputs, states and open sizes are copied beforehand, constants and weights
 * on first use, names and outputs at the end. */
#ifndef MX_COMPILE_REWRITE_H
#define MX_COMPILE_REWRITE_H
#include "compile/compile.h"
#include "graph/build.h"

typedef struct mx_rewrite {
    const mx_graph *from;
    mx_graph *to;
    const mx_device *device;
    int keep_names;
    mx_arena *memory;      /* outlives every graph of the compilation */
    mx_value *map;         /* [from values]: its value in `to`; 0: none yet */
    int32_t *uses;         /* [from values]: nodes and outputs that need it; with keep_names a name needs it too */
} mx_rewrite;

/* One pass: called for each node of `from`, in order; returns a status. */
typedef mxw_status (*mx_pass_fn)(mx_rewrite *rw, const mx_node *node);

mxw_status mx_rewrite_run(const mx_graph *from, const mx_compile_options *options, mx_arena *memory, mx_pass_fn fn,
                          mx_graph **out);

/* The value in `to` of a value; a constant or weight is copied by the first call. 0 stays 0. */
mx_value mx_rewrite_get(mx_rewrite *rw, mx_value value);
void mx_rewrite_map(mx_rewrite *rw, mx_value value, mx_value stands_for_it);
mxw_status mx_rewrite_copy(mx_rewrite *rw, const mx_node *node);
/* The node of `to` that makes a value, or NULL. */
const mx_node *mx_rewrite_maker(const mx_rewrite *rw, mx_value value);

/* Whether the value has a name that has to stay on a value computed by the run, so that a tap sees it. */
int mx_rewrite_keeps(const mx_rewrite *rw, mx_value value);

/* Whether two types are the same, open sizes included; a size known only at run time equals nothing. */
int mx_type_same(const mx_type *a, const mx_type *b);

/* The passes (compile.c has them in order). */
mxw_status mx_pass_canonical(mx_rewrite *rw, const mx_node *node);
mxw_status mx_pass_fold(mx_rewrite *rw, const mx_node *node);
mxw_status mx_pass_common(mx_rewrite *rw, const mx_node *node);
mxw_status mx_pass_dead(mx_rewrite *rw, const mx_node *node);
mxw_status mx_pass_promote(mx_rewrite *rw, const mx_node *node);
mxw_status mx_pass_fuse_gelu(mx_rewrite *rw, const mx_node *node);
mxw_status mx_pass_fuse_residual(mx_rewrite *rw, const mx_node *node);
mxw_status mx_pass_fuse_norm(mx_rewrite *rw, const mx_node *node);
mxw_status mx_pass_stack(mx_rewrite *rw, const mx_node *node);
mxw_status mx_pass_fuse_select(mx_rewrite *rw, const mx_node *node);

/* place.c and prepack.c: after the last pass. */
mxw_status mx_plan_find_homes(mx_plan *plan, int keep_names);
/* 1 for a weight, a constant, or a stack of them along axis 0 (one with a name that is kept is made by each run). */
int mx_plan_is_constant(const mx_graph *g, mx_value value, int keep_names);
/* Whether that input of an op may have strided rows. */
int mx_plan_accepts_strided(const mx_device *device, mx_op op, int input);
#endif
