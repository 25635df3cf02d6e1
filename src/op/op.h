/* op/op.h - public header of op/: the ops that graphs and devices share.
 *
 * In: an op, its attributes and the types of its inputs. Out: the types of its outputs, or one line that says which op,
 * what it expected and what it got. The same inference runs when a graph is built, with sizes still open, and again
 * before each run, when every size is a number. */
#ifndef MX_OP_H
#define MX_OP_H
#include "op/select.h"
#include "tensor/tensor.h"

#define MX_MAX_INPUTS 64    /* of one node; only concat takes more than seven */
#define MX_MAX_OUTPUTS 3

typedef enum mx_op {
#define MX_OP(id, name, least, most, outputs) MX_OP_##id,
#include "op/ops.def"
#undef MX_OP
    MX_OP_COUNT
} mx_op;
#define MX_OP_PLAIN_COUNT MX_OP_FUSED_LINEAR   /* every device runs the ops before it */

/* A dimension is a size >= 0; or open: the i-th declared size of a graph, written MX_DIM_OPEN(i); or MX_DIM_ANY, a size
 * that follows from open ones and is known only when run. Reshape alone also takes MX_DIM_INFER, once. */
#define MX_DIM_INFER (-1)
#define MX_DIM_OPEN(index) (-2 - (int64_t)(index))
#define MX_DIM_INDEX(dim) ((size_t)(-2 - (dim)))
#define MX_DIM_ANY INT64_MIN

typedef struct mx_type {
    mxw_dtype dtype;
    int rank;
    int64_t dims[MX_MAX_RANK];
} mx_type;

/* Attributes of every op in one flat record; an op reads only its own. */
typedef struct mx_attrs {
    int axis;                     /* slice, concat, reduce; never negative once the node is built */
    int axes[MX_MAX_RANK];        /* permute */
    int rank;                     /* reshape */
    int64_t dims[MX_MAX_RANK];    /* reshape */
    int64_t start, stop, step;    /* slice */
    mxw_dtype dtype;              /* cast */
    int kind;                     /* gelu: mxw_gelu_kind; reduce: mxw_reduce_kind; lstm: mxw_lstm_direction */
    double eps;                   /* layer_norm, and a fused op that has gamma */
    int heads, causal;            /* attention */
    double scale;                 /* attention */
    int stride[2], pad[2];        /* conv1d uses the first of each */
    int64_t k;                    /* top_k, select, fused_select */
    int act;                      /* fused ops: mx_act */
    int dilation;                 /* conv1d, fused_conv1d: positions of x from tap to tap, 1 or more */
    double parameter;             /* of an elementwise function that has one (op/elementwise.def): a finite f32 */
} mx_attrs;

typedef enum mx_act { MX_ACT_NONE, MX_ACT_GELU_ERF, MX_ACT_GELU_TANH } mx_act;

const char *mx_op_name(mx_op op);
int mx_op_least_inputs(mx_op op);
int mx_op_most_inputs(mx_op op);
int mx_op_outputs(mx_op op);

/* Names of open sizes for the messages; NULL at run time. */
typedef struct mx_size_names {
    const char *(*name)(const void *context, int64_t dim);
    const void *context;
} mx_size_names;

/* inputs[i] is NULL where an input was left out. */
mxw_status mx_op_infer(mx_op op, const mx_attrs *attrs, int n_inputs, const mx_type *const *inputs, mx_type *outputs,
                       const mx_size_names *names);

/* "f32 [windows, 1500, 384]" into out; returns out. */
const char *mx_type_text(const mx_type *type, const mx_size_names *names, char *out, size_t n);
/* Elements of a type whose sizes are all numbers; -1 if more than MX_MAX_ELEMENTS. */
int64_t mx_type_count(const mx_type *type);
#define MX_MAX_ELEMENTS ((int64_t)1 << 44)

/* The half-open range that numpy's start:stop covers on an axis of n. */
void mx_slice_range(int64_t n, int64_t start, int64_t stop, int64_t *first, int64_t *last);
#endif
