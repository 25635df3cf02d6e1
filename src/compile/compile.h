/* compile/compile.h - public header of compile/: a graph becomes a plan for one device.
 *
 * In: a graph and a device. Out: a graph of fewer, larger ops that computes the same outputs, every constant input in
 * the form its op wants (packed once), and a home for each value: one arena, a view of another value, or a state.
 * Passes are a table (compile.c); each reads a graph and writes a new one, and the new one is checked after each: its
 * nodes are inferred as they are appended, its inputs, states and outputs must be those of the source.
 * Invariants: the order of nodes that read or write a state never changes, and nothing is fused across a value that
 * is needed elsewhere. */
#ifndef MX_COMPILE_H
#define MX_COMPILE_H
#include "device/device.h"
#include "graph/graph.h"

/* Where a value of the plan's graph lives. */
typedef enum mx_home {
    MX_HOME_LEAF,     /* bound to the run, or a constant: no memory of the plan */
    MX_HOME_STATE,    /* a state, before or after writes */
    MX_HOME_ARENA,    /* in the plan's arena */
    MX_HOME_VIEW,     /* part of another value in the arena: `of` */
    MX_HOME_NONE      /* constants stacked for an op that wants them as one: made at load, never at run time */
} mx_home;

typedef struct mx_placement {
    mx_home home;
    mx_value of;          /* of a view: the value in the arena; else itself */
    int32_t first, last;  /* of a value in the arena: the nodes between which its bytes are needed, views included */
    int inner;            /* of a value in the arena: only calls read it, so the device may choose its layout */
    mxw_dtype dtype;      /* of a state: what the device keeps it as */
} mx_placement;

/* A constant input of a node, in the form that its op wants it. Nodes that want the same share one. */
typedef struct mx_constant {
    mx_value value;       /* a weight, a constant, or several stacked */
    mx_form form;
    mx_op op;             /* of a packed one: whose input it is */
    int input;
    mx_tensor tensor;     /* on the device, once loaded */
    void *block;          /* within the plan's block, or NULL when the tensor is used in place or another plan's */
} mx_constant;

typedef struct mx_pass_note {
    const char *pass;
    size_t n_nodes;       /* after it */
} mx_pass_note;

typedef struct mx_plan {
    mx_graph *graph;          /* the compiled form */
    const mx_device *device;
    mxw_precision precision;  /* of compiled calls */
    int keep_names;           /* as in the options */
    mx_placement *placements;        /* [values] */
    mx_constant *constants;
    size_t n_constants, room_constants;
    void *block;              /* on the device: all constants that are not used in place */
    int32_t **inputs;         /* [nodes][inputs]: index of a constant, or -1 */
    mx_pass_note *notes;
    size_t n_notes, room_notes;
    mx_arena memory;          /* folded constants and the tables above */
} mx_plan;

typedef struct mx_compile_options {
    const mx_device *device;
    int keep_names;           /* named values are needed: nothing is fused across them */
    mxw_precision precision;  /* of GEMMs; one that the device supports */
} mx_compile_options;

/* The source must outlive the plan (its constants are not copied). */
mxw_status mx_compile(const mx_graph *source, const mx_compile_options *options, mx_plan **out);
void mx_plan_free(mx_plan *plan);

/* Converts every constant input to its form on the device. Views of the source are used in place where the form allows,
 * so they must live as long as the plan. weights may be NULL for a graph without any. Weights that `like`, a plan for
 * the same device and from the same source, already has in the same form are shared with it, so it must live as long
 * too; it may be NULL. */
mxw_status mx_plan_load(mx_plan *plan, const mx_weight_source *weights, const mx_plan *like, mx_pool *pool);

/* Places the values of the arena: bytes[value] is what each needs, offsets[value] where it goes, *total the arena's
 * size. Values whose lifetimes do not overlap may share bytes. order [values] is scratch: nothing is allocated. */
void mx_plan_place(const mx_plan *plan, const size_t *bytes, mx_value *order, size_t *offsets, size_t *total);

/* One pass alone, by its name in the table, for tests and `graph dump`: a new graph. */
mxw_status mx_compile_pass(const char *pass, const mx_graph *source, const mx_compile_options *options,
                           mx_arena *memory, mx_graph **out);
const char *mx_compile_pass_name(int index);   /* NULL past the end */
#endif
