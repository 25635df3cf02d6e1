/* graph/graph.h - public header of graph/: values and nodes, append-only, independent of devices.
 *
 * A graph is built by calls that append a node and return its value. Every value has a dtype and a shape, inferred
 * and checked when the node is appended; on a mistake the builder returns 0 and the graph keeps one line that names
 * the op, what it expected and what it got. Later calls on 0 return 0, so a model checks once at the end.
 *
 * Leaves: inputs (bound to each run), constants (bytes in the graph), weights (a name, resolved when a program is
 * loaded), states (a session's memory, bound by name; changed only through state_write).
 * A dimension is a size >= 0, or an open size made by mx_graph_size (negative). An open size equals only itself; a
 * size derived from open ones (concat or slice along an open axis) is checked at run time, when it is known.
 *
 * Dtypes: arithmetic takes f32 or i32, both operands alike; layers take f32; ops that only move elements take any.
 * There are no implicit conversions: mixed dtypes are refused, cast is explicit. */
#ifndef MX_GRAPH_H
#define MX_GRAPH_H
#include <stdatomic.h>

#include "base/mem.h"
#include "base/str.h"
#include "op/op.h"
#include "tensor/tensor.h"

typedef struct mxw_graph mx_graph;   /* the public handle */
typedef mxw_value mx_value;

/* ---- what compile and exec read ---------------------------------------------------------------------------------- */

typedef enum mx_kind { MX_INPUT = 1, MX_CONSTANT, MX_WEIGHT, MX_STATE, MX_RESULT } mx_kind;

typedef struct mx_value_info {
    mx_kind kind;
    mx_type type;
    const char *name;      /* of a leaf; NULL for a result and for an unnamed constant */
    const void *data;      /* of a constant: row major, 64-byte aligned */
    int32_t node;          /* of a result: the node that makes it */
    int32_t output;        /* ... and which of its outputs it is */
    mx_value state;        /* the state leaf that this value is, itself or after writes; 0: it is none */
} mx_value_info;

typedef struct mx_node {
    mx_op op;
    mx_attrs attrs;
    int n_inputs, n_outputs;
    mx_value *inputs;      /* 0 where an input was left out */
    mx_value outputs[MX_MAX_OUTPUTS];
} mx_node;

typedef struct mx_named {
    const char *name;
    mx_value value;
    uint32_t hash;
} mx_named;

typedef struct mx_size {
    const char *name;
    int64_t max;
} mx_size;

/* Append-only: a value's inputs always come before it, so the order of nodes is an order of execution. */
struct mxw_graph {
    const char *name;
    mx_value_info *values;   /* [0] is no value */
    mx_node *nodes;
    mx_size *sizes;          /* open sizes, MX_DIM_INDEX(dim) */
    mx_named *names;         /* what taps see, in the order given; a value may have several */
    mx_named *outputs;
    size_t n_values, n_nodes, n_sizes, n_names, n_outputs;
    size_t room_values, room_nodes, room_sizes, room_names, room_outputs;
    mx_arena arena;
    mxw_status status;       /* of the first mistake ... */
    char error[512];         /* ... and its message */
    mx_str text;             /* the printed form that the public API returned last */
    atomic_int holders;      /* references: its creator and the programs; while there are programs nothing is added */
};

/* A reference for a program: nothing is added and nothing freed until it is released (mx_graph_destroy). */
mx_graph *mx_graph_hold(const mx_graph *g);

mx_size_names mx_graph_size_names(const mx_graph *g);
/* Index of an input or state leaf, or of an output, by name; -1 if there is none. */
mx_value mx_graph_find_leaf(const mx_graph *g, mx_kind kind, const char *name);
int mx_graph_find_output(const mx_graph *g, const char *name);
const char *mx_graph_value_name(const mx_graph *g, mx_value value);   /* its first name, or NULL */

/* Where weights come from, so that exec/ need not know checkpoints: fills *out with a view in any float dtype
 * (quantised weights are already widened by the source), or fails with a message that has the name. */
typedef struct mx_weight_source {
    mxw_status (*find)(void *context, const char *name, mx_tensor *out);
    void *context;
} mx_weight_source;
/* The view of a weight leaf, checked against the graph: same sizes, a float. source may be NULL: there are none. */
mxw_status mx_graph_resolve(const mx_graph *g, mx_value weight, const mx_weight_source *source, mx_tensor *out);

/* ---- building ---------------------------------------------------------------------------------------------------- */

mxw_status mx_graph_create(const char *name, mx_graph **out);
void mx_graph_destroy(mx_graph *g);   /* drops a reference; the last one frees it */
mxw_status mx_graph_status(const mx_graph *g);
const char *mx_graph_error(const mx_graph *g);
mxw_status mx_graph_print(const mx_graph *g, mx_str *out);

/* Calls with the same name and bound return the same size. */
int64_t mx_graph_size(mx_graph *g, const char *name, int64_t max);
mx_value mx_graph_input(mx_graph *g, const char *name, mxw_dtype dtype, int rank, const int64_t *dims);
mx_value mx_graph_constant(mx_graph *g, const char *name, const mx_tensor *tensor);   /* copied */
/* The same without a copy: row major, 64-byte aligned, valid as long as the graph. */
mx_value mx_graph_borrow(mx_graph *g, const char *name, const mx_tensor *tensor);
/* A weight by canonical name, f32 to the graph whatever its type in the checkpoint. Calls with the same name and sizes
 * return the same value; so does a state, whose sizes may be open: the session's memory determines them. */
mx_value mx_graph_weight(mx_graph *g, const char *name, int rank, const int64_t *dims);
mx_value mx_graph_state(mx_graph *g, const char *name, mxw_dtype dtype, int rank, const int64_t *dims);
/* The output's name also becomes a name of the value if that has none. */
mxw_status mx_graph_output(mx_graph *g, const char *name, mx_value value);
/* Names a value, so that a tap sees it ("encoder.blocks.0.attn.q"). Returns value. */
mx_value mx_graph_name(mx_graph *g, mx_value value, const char *name);

/* One builder per op; max_whisper.h and op/ops.def describe what each computes. */
mx_value mx_graph_matmul(mx_graph *g, mx_value a, mx_value b);
mx_value mx_graph_linear(mx_graph *g, mx_value x, mx_value weight, mx_value bias);
mx_value mx_graph_transpose(mx_graph *g, mx_value x);
mx_value mx_graph_permute(mx_graph *g, mx_value x, const int *axes);
mx_value mx_graph_reshape(mx_graph *g, mx_value x, int rank, const int64_t *dims);
mx_value mx_graph_add(mx_graph *g, mx_value a, mx_value b);
mx_value mx_graph_sub(mx_graph *g, mx_value a, mx_value b);
mx_value mx_graph_mul(mx_graph *g, mx_value a, mx_value b);
mx_value mx_graph_div(mx_graph *g, mx_value a, mx_value b);
mx_value mx_graph_layer_norm(mx_graph *g, mx_value x, mx_value gamma, mx_value beta, double eps);
mx_value mx_graph_gelu(mx_graph *g, mx_value x, mxw_gelu_kind kind);
mx_value mx_graph_softmax(mx_graph *g, mx_value x);
mx_value mx_graph_slice(mx_graph *g, mx_value x, int axis, int64_t start, int64_t stop, int64_t step);
mx_value mx_graph_concat(mx_graph *g, const mx_value *values, int n, int axis);
mx_value mx_graph_gather(mx_graph *g, mx_value table, mx_value index);
mx_value mx_graph_cast(mx_graph *g, mx_value x, mxw_dtype dtype);
mx_value mx_graph_reduce(mx_graph *g, mx_value x, mxw_reduce_kind kind, int axis);
mx_value mx_graph_argmax(mx_graph *g, mx_value x);
mxw_status mx_graph_top_k(mx_graph *g, mx_value x, int64_t k, mx_value out[2]);
mx_value mx_graph_conv1d(mx_graph *g, mx_value x, mx_value weight, mx_value bias, int stride, int pad);
mx_value mx_graph_conv1d_dilated(mx_graph *g, mx_value x, mx_value weight, mx_value bias, int stride, int pad,
                                 int dilation);
mx_value mx_graph_conv2d(mx_graph *g, mx_value x, mx_value weight, mx_value bias, const int stride[2],
                         const int pad[2]);
/* out[0] y, out[1] h, out[2] c; biases and states may be 0. */
mxw_status mx_graph_lstm(mx_graph *g, mx_value x, mx_value weight_ih, mx_value weight_hh, mx_value bias_ih,
                         mx_value bias_hh, mx_value h0, mx_value c0, mxw_lstm_direction direction, mx_value out[3]);
mx_value mx_graph_attention(mx_graph *g, mx_value q, mx_value k, mx_value v, int heads, double scale, int causal);
mx_value mx_graph_attention_cached(mx_graph *g, mx_value q, mx_value k, mx_value v, mx_value seq, mx_value pos,
                                   mx_value cells, int heads, double scale);
mx_value mx_graph_attention_window(mx_graph *g, mx_value q, mx_value k, mx_value v, mx_value window, int heads,
                                   double scale);
mx_value mx_graph_attention_scores(mx_graph *g, mx_value q, mx_value k, mx_value head, mx_value window, int heads,
                                   double scale);
mx_value mx_graph_state_write(mx_graph *g, mx_value state, mx_value x, mx_value index);
/* From logits to candidates (op/select.h): logits f32 [rows,vocab], rules i32 [rows,MX_RULE_WORDS], suppress u8
 * [sets,vocab] (non-zero: never), k an open size or a number. out[0] ids i32 [rows,k], out[1] log probabilities f32
 * [rows,k], out[2] statistics f32 [rows,MX_SELECT_STATS]. */
mxw_status mx_graph_select(mx_graph *g, mx_value logits, mx_value rules, mx_value suppress, int64_t k,
                           mx_value out[3]);
/* mx_graph_relu and so on; those that have a parameter take it as a double. */
#define MX_ELEMENTWISE(id, name, ...) mx_value mx_graph_##name(mx_graph *g, mx_value x);
#define MX_ELEMENTWISE_WITH(id, name, parameter, ...)                                                                  \
    mx_value mx_graph_##name(mx_graph *g, mx_value x, double parameter);
#include "op/elementwise.def"
#endif
