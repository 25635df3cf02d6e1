/* max_whisper/graph.h - the graph API: describe a computation once, then run it on any engine.
 *
 * Values are numbered; 0 is "none". A mistake is refused where it is made: the builder returns 0, mxw_graph_status()
 * fails from then on, and mxw_graph_error() says which op, what it expected and what it got. Arithmetic takes f32 or
 * i32, both operands alike; layers take f32; ops that only move elements take any dtype. There are no implicit
 * conversions. A negative axis counts from the end. A name may be used once in a graph. Results are the same bits for
 * any number of threads, and for an entry alone or in a batch.
 */
#ifndef MXW_GRAPH_H
#define MXW_GRAPH_H

#include "device.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mxw_graph mxw_graph;
typedef struct mxw_program mxw_program;
typedef int32_t mxw_value;

typedef enum mxw_gelu_kind { MXW_GELU_ERF = 0, MXW_GELU_TANH = 1 } mxw_gelu_kind;
typedef enum mxw_reduce_kind {
    MXW_REDUCE_SUM = 0, MXW_REDUCE_MEAN = 1, MXW_REDUCE_MAX = 2, MXW_REDUCE_MIN = 3
} mxw_reduce_kind;
typedef enum mxw_lstm_direction { MXW_LSTM_FORWARD = 0, MXW_LSTM_REVERSE = 1, MXW_LSTM_BOTH = 2 } mxw_lstm_direction;

MXW_API mxw_status mxw_graph_create(const char *name, mxw_graph **out);
MXW_API void mxw_graph_destroy(mxw_graph *graph);
MXW_API mxw_status mxw_graph_status(const mxw_graph *graph);
MXW_API const char *mxw_graph_error(const mxw_graph *graph);
/* The graph as text; *text is owned by the graph and valid until it changes. */
MXW_API mxw_status mxw_graph_print(mxw_graph *graph, const char **text);

/* A size that stays open until run time; use the result as a dimension. At most max. */
MXW_API int64_t mxw_graph_size(mxw_graph *graph, const char *name, int64_t max);
MXW_API mxw_value mxw_graph_input(mxw_graph *graph, const char *name, mxw_dtype dtype, int rank, const int64_t *dims);
/* The data is copied. */
MXW_API mxw_value mxw_graph_constant(mxw_graph *graph, const char *name, const mxw_tensor *tensor);
/* Memory that lasts from run to run, zero at first (a key-value cache); changed by mxw_graph_state_write. */
MXW_API mxw_value mxw_graph_state(mxw_graph *graph, const char *name, mxw_dtype dtype, int rank, const int64_t *dims);
MXW_API mxw_status mxw_graph_output(mxw_graph *graph, const char *name, mxw_value value);

MXW_API mxw_value mxw_graph_matmul(mxw_graph *g, mxw_value a, mxw_value b);   /* [..,m,k] x [..,k,n] */
/* x W^T + b; W [out,in]; bias may be 0 */
MXW_API mxw_value mxw_graph_linear(mxw_graph *g, mxw_value x, mxw_value weight, mxw_value bias);
MXW_API mxw_value mxw_graph_transpose(mxw_graph *g, mxw_value x);              /* the last two axes */
MXW_API mxw_value mxw_graph_permute(mxw_graph *g, mxw_value x, const int *axes);
/* One size may be -1: what is left. */
MXW_API mxw_value mxw_graph_reshape(mxw_graph *g, mxw_value x, int rank, const int64_t *dims);
MXW_API mxw_value mxw_graph_add(mxw_graph *g, mxw_value a, mxw_value b);       /* these four broadcast as numpy does */
MXW_API mxw_value mxw_graph_sub(mxw_graph *g, mxw_value a, mxw_value b);
MXW_API mxw_value mxw_graph_mul(mxw_graph *g, mxw_value a, mxw_value b);
MXW_API mxw_value mxw_graph_div(mxw_graph *g, mxw_value a, mxw_value b);
MXW_API mxw_value mxw_graph_layer_norm(mxw_graph *g, mxw_value x, mxw_value gamma, mxw_value beta, double eps);
MXW_API mxw_value mxw_graph_gelu(mxw_graph *g, mxw_value x, mxw_gelu_kind kind);
/* Elementwise functions of f32 values. */
MXW_API mxw_value mxw_graph_relu(mxw_graph *g, mxw_value x);                   /* max(x, 0) */
MXW_API mxw_value mxw_graph_leaky_relu(mxw_graph *g, mxw_value x, double slope);   /* slope * x where x < 0 */
MXW_API mxw_value mxw_graph_sigmoid(mxw_graph *g, mxw_value x);                /* 1 / (1 + e^-x) */
MXW_API mxw_value mxw_graph_tanh(mxw_graph *g, mxw_value x);
MXW_API mxw_value mxw_graph_silu(mxw_graph *g, mxw_value x);                   /* x sigmoid(x) */
MXW_API mxw_value mxw_graph_exp(mxw_graph *g, mxw_value x);
MXW_API mxw_value mxw_graph_log(mxw_graph *g, mxw_value x);                    /* natural; of 0: -infinity */
MXW_API mxw_value mxw_graph_sqrt(mxw_graph *g, mxw_value x);
MXW_API mxw_value mxw_graph_abs(mxw_graph *g, mxw_value x);
MXW_API mxw_value mxw_graph_neg(mxw_graph *g, mxw_value x);
MXW_API mxw_value mxw_graph_softmax(mxw_graph *g, mxw_value x);                /* over the last axis */
/* start:stop:step as numpy takes them (negative ends count from the end, what lies outside is cut); step 1 or more;
 * stop INT64_MAX: to the end. */
MXW_API mxw_value mxw_graph_slice(mxw_graph *g, mxw_value x, int axis, int64_t start, int64_t stop, int64_t step);
MXW_API mxw_value mxw_graph_concat(mxw_graph *g, const mxw_value *values, int n, int axis);
MXW_API mxw_value mxw_graph_gather(mxw_graph *g, mxw_value table, mxw_value index);  /* rows of axis 0; index i32 */
/* To an integer: towards zero, saturated, NaN is 0. */
MXW_API mxw_value mxw_graph_cast(mxw_graph *g, mxw_value x, mxw_dtype dtype);
/* Over one axis, which goes away. */
MXW_API mxw_value mxw_graph_reduce(mxw_graph *g, mxw_value x, mxw_reduce_kind kind, int axis);
MXW_API mxw_value mxw_graph_argmax(mxw_graph *g, mxw_value x);                 /* over the last axis: i32 */
/* The k largest of the last axis, largest first, ties by lower index: values in out[0], i32 indices in out[1]. */
MXW_API mxw_status mxw_graph_top_k(mxw_graph *g, mxw_value x, int64_t k, mxw_value out[2]);
/* x [n,t,c_in], weight [c_out,c_in,k], bias [c_out] or 0 -> [n,t',c_out] */
MXW_API mxw_value mxw_graph_conv1d(mxw_graph *g, mxw_value x, mxw_value weight, mxw_value bias, int stride, int pad);
/* The same with taps `dilation` positions of x apart (1: side by side). */
MXW_API mxw_value mxw_graph_conv1d_dilated(mxw_graph *g, mxw_value x, mxw_value weight, mxw_value bias, int stride,
                                           int pad, int dilation);
/* x NHWC, weight RSCF (height, width, in, out), bias [out] or 0 */
MXW_API mxw_value mxw_graph_conv2d(mxw_graph *g, mxw_value x, mxw_value weight, mxw_value bias, const int stride[2],
                                   const int pad[2]);
/* A long short-term memory, gates i, f, g, o as PyTorch lays them out. x [t,n,in]; weight_ih [dirs,4 hidden,in],
 * weight_hh [dirs,4 hidden,hidden]; bias_ih and bias_hh [dirs,4 hidden], h0 and c0 [dirs,n,hidden], each may be 0. dirs
 * is 1, or 2 for BOTH, forward first. out[0] y [t,n,dirs hidden], the directions side by side; out[1] h and out[2] c
 * [dirs,n,hidden] after the last step taken. A sequence in pieces, each begun with the h and c of the one before, gives
 * the same bits as at once. */
MXW_API mxw_status mxw_graph_lstm(mxw_graph *g, mxw_value x, mxw_value weight_ih, mxw_value weight_hh,
                                  mxw_value bias_ih, mxw_value bias_hh, mxw_value h0, mxw_value c0,
                                  mxw_lstm_direction direction, mxw_value out[3]);
/* q [n,t,d], k and v [n,s,d]; heads side by side in d; softmax(q k^T scale) v per head; causal: key j <= query
 * i + s - t */
MXW_API mxw_value mxw_graph_attention(mxw_graph *g, mxw_value q, mxw_value k, mxw_value v, int heads, double scale,
                                      int causal);
/* One query per row over a cache. Row r attends to positions 0..pos[r] of its sequence seq[r]; position p of sequence s
 * lies in cache row cells[s][p]. q [rows,d], k and v [cells,d], seq and pos i32 [rows], cells i32 [sequences,ctx]. */
MXW_API mxw_value mxw_graph_attention_cached(mxw_graph *g, mxw_value q, mxw_value k, mxw_value v, mxw_value seq,
                                             mxw_value pos, mxw_value cells, int heads, double scale);
/* One query per row over all of a window's keys: q [rows,d], k and v [windows,t,d], window i32 [rows]. */
MXW_API mxw_value mxw_graph_attention_window(mxw_graph *g, mxw_value q, mxw_value k, mxw_value v, mxw_value window,
                                             int heads, double scale);
/* What a query compares before any softmax: scale q k^T of the chosen heads. q [rows,d], k [windows,t,d], head i32 [n],
 * window i32 [rows] -> [rows,n,t]. */
MXW_API mxw_value mxw_graph_attention_scores(mxw_graph *g, mxw_value q, mxw_value k, mxw_value head, mxw_value window,
                                             int heads, double scale);
/* state[index[i]] = x[i] along axis 0; the result is the state after the write, and so is every later reading of it.
 * x must not be the state itself. */
MXW_API mxw_value mxw_graph_state_write(mxw_graph *g, mxw_value state, mxw_value x, mxw_value index);

typedef struct mxw_program_options {
    size_t struct_size;
    mxw_engine engine;       /* MAX */
    const char *device;
    int threads;
    mxw_precision precision; /* EXACT */
} mxw_program_options;

MXW_API void mxw_program_options_default(mxw_program_options *options, size_t struct_size);
#define mxw_program_options_default(options) mxw_program_options_default(options, sizeof(*(options)))
/* The program holds the graph: it may be destroyed, but nothing can be added to it while the program lives. */
MXW_API mxw_status mxw_program_compile(const mxw_graph *graph, const mxw_program_options *options, mxw_program **out);
MXW_API void mxw_program_destroy(mxw_program *program);
/* Inputs and outputs in the order they were declared. Outputs point into the program and are valid until the
 * next execute. */
MXW_API mxw_status mxw_program_execute(mxw_program *program, const mxw_tensor *inputs, int n_inputs,
                                       mxw_tensor *outputs, int n_outputs);

#ifdef __cplusplus
}
#endif
#endif
