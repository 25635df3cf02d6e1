/* exec/program.h - types and functions shared by the files of exec/; private to the folder. */
#ifndef MX_EXEC_PROGRAM_H
#define MX_EXEC_PROGRAM_H
#include "compile/compile.h"
#include "device/device.h"
#include "exec/exec.h"

struct mx_program {
    mx_graph *graph;      /* held, read only: the source, or the plan's */
    mx_graph *source;     /* held too when there is a plan, whose constants point into it; else NULL */
    mx_plan *plan;        /* of a compiled program */
    const mx_device *device;
    mx_pool *pool;
    mxw_precision precision;
    void (*trace)(void *context, const mxw_trace_event *event);
    void *trace_context;
    void **leaves;        /* [values]: device memory of constants and weights; NULL for the rest. A plan owns its
                             constants: then only those that are graph outputs are here */
    uint8_t *owned;       /* [values]: leaves[i] was allocated by the program */
    int32_t *last_use;    /* [values]: the last node that reads it; INT32_MAX: it must outlive the run */
};

typedef struct mx_state_entry {
    char *name;
    mx_tensor tensor;     /* on the device */
} mx_state_entry;

struct mx_state {
    const mx_program *program;   /* that it was opened for */
    const mx_device *device;
    mx_state_entry *entries;
    size_t n, room;
};

const mx_tensor *mx_state_find(const mx_state *state, const char *name);
/* What the program keeps its state leaf `value` as: the graph's dtype, or one that the device reads faster. */
mxw_dtype mx_program_state_dtype(const mx_program *program, mx_value value);

/* Device memory of a run: taken by values, released after the last reader, kept for the next execute. */
typedef struct mx_buffer {
    void *data;
    size_t bytes;
    int uses;
} mx_buffer;

typedef struct mx_binding {
    mx_tensor tensor;     /* the caller's view */
    void *packed;         /* a dense copy, when the view cannot be used in place */
    size_t packed_bytes;
    mx_run *from;         /* or: an output of another run */
    int output;
    int bound;
    int held;             /* the view's bytes do not change: they are uploaded once ... */
    int sent;             /* ... which has been done */
    void *block;          /* device memory of a held one */
    size_t block_bytes;
} mx_binding;

/* A plan instance: a plan specialized for one set of sizes, with its calls ready for every execute with these sizes. */
typedef struct mx_instance {
    int valid;
    uint64_t used;        /* the run's clock when it was last used: the least recently used one is evicted */
    int64_t *sizes;       /* [sizes] that it was made for */
    int observable;       /* every value can be read from outside: none has a layout of the device's own */
    mx_tensor *values;    /* [values]: results, as in run->values while this is the run's instance */
    mx_call *calls;       /* [nodes] */
    mx_attrs *attrs;      /* [nodes], every size a number */
    mx_tensor **inputs;   /* [nodes][inputs] */
    const void ***host;   /* [nodes][inputs]: the same bytes in host memory, if they were uploaded from there */
    mx_tensor **outputs;  /* [nodes][outputs] */
    size_t *bytes, *offsets;   /* [values], of those in the arena */
    size_t arena_bytes;

    /* graph_capture.c */
    int seen;             /* it was executed before */
    int uncapturable;     /* its calls cannot be captured, or that failed */
    mx_capture *capture;  /* NULL: not captured */
    size_t *in_at, *out_at;   /* [values]: offset of an input or output in its staging block, or MX_NOT_STAGED */
    void **leaves;        /* [values]: addresses of what is not staged, when the calls were captured */
    uint8_t *checked;     /* [nodes]: its indices are checked before a launch; no earlier node checks the same */
    mx_arena memory;      /* of the tables */
} mx_instance;

#define MX_NOT_STAGED ((size_t)-1)
#define MX_INSTANCES 24   /* of a run: sizes of decoder steps, and prompts of several lengths */

struct mx_run {
    const mx_program *program;
    mx_instance *instance;   /* of a compiled program: that of the last execute; NULL at first */
    mx_instance *instances[MX_INSTANCES];
    int n_instances;
    uint64_t clock;       /* executes so far */
    void *arena;          /* shared by all instances */
    size_t arena_room;
    mx_value *order;      /* [values]: scratch of mx_plan_place */
    int launched;         /* the last execute was a launch of a captured graph ... */
    int fetched;          /* ... and its outputs are in host memory */
    mx_state *state;
    mx_tensor *values;    /* [values]: what each is in this execute */
    int32_t *buffer;      /* [values]: its buffer, -1: none */
    int32_t *usual;       /* [values]: the buffer it had last, -1: none */
    const void **origin;  /* [values]: the same bytes in host memory, if they were uploaded from there; else NULL */
    mx_binding *bindings; /* [values]: of inputs */
    int64_t *sizes;       /* [sizes]: known in this execute, -1: not yet */
    int64_t *given;       /* [sizes]: by mx_run_size, -1: not */
    mx_buffer *buffers;
    size_t n_buffers, room_buffers;
    void *scratch;
    size_t scratch_bytes;
    mx_buffer *host;      /* [outputs + 1]: host copies of outputs and, last, of a tap, where the device has its own
                             memory */
    mx_tap_fn tap;
    void *tap_context;
    mx_watch_fn watch;
    void *watch_context;
    int done;             /* an execute has succeeded: outputs may be read */
};

/* eager.c: runs all nodes in order, once inputs, states and sizes are bound. */
mxw_status mx_eager_execute(mx_run *run);
/* compiled.c: the same for a program with a plan. */
mxw_status mx_compiled_execute(mx_run *run);
mxw_status mx_compiled_open(mx_run *run);
/* Sets run->instance to the one for run->sizes, made if there is none; leaves need only their types. */
mxw_status mx_compiled_specialize(mx_run *run);
void mx_compiled_address(mx_run *run);   /* rebuilds every call of the instance with current addresses */
void mx_compiled_refresh(mx_run *run, size_t node);   /* updates a call's leaf inputs and the state it writes */
int mx_compiled_runs(const mx_plan *plan, const mx_node *node);   /* neither folded at load nor a view */
void mx_compiled_close(mx_run *run);
/* graph_capture.c: executes by launching a captured graph, if the sizes were seen before and the device can; *done is 0
 * if the nodes have to be run one by one. Leaves have their types; inputs are not yet uploaded. */
mxw_status mx_graph_capture_execute(mx_run *run, int *done);
void mx_graph_capture_drop(mx_run *run, mx_instance *instance);
/* Output i of the graph in host memory, if the last execute was a launch that staged it; else NULL. */
mxw_status mx_graph_capture_output(mx_run *run, size_t i, const void **data);
/* run.c: makes an input's bytes available on the device: in place, or uploaded. */
mxw_status mx_run_upload_input(mx_run *run, mx_value value);
/* The bytes that the caller bound to an input, dense and aligned. */
mxw_status mx_run_dense_input(mx_run *run, mx_value value, const void **bytes);
/* sizes.c: a node's attributes with every open size as a number of this run. */
mxw_status mx_run_resolve_sizes(const mx_run *run, const mx_node *node, mx_attrs *attrs);
/* Sets the sizes from "name=number,..", the rest 1, and leaves with these sizes and no data: enough to specialize a
 * plan. */
mxw_status mx_run_assume_sizes(mx_run *run, const char *sizes);
/* run_loop.c: runs all nodes; runs one call. Both report to the trace and to the watcher. */
mxw_status mx_run_nodes(mx_run *run);
mxw_status mx_run_call(mx_run *run, const mx_node *node, const mx_call *call);
/* Adds a node to a failure: "%17 decoder.tokens: gather: index[3] is ..." */
mxw_status mx_run_fail_at(const mx_run *run, const mx_node *node, mxw_status status);
/* trace.c: begins an event; completes and reports that of a call (status: what the call returned) or of a whole run. */
mxw_trace_event mx_trace_begin(const mx_program *p);
mxw_status mx_trace_call(const mx_program *p, const mx_node *node, const mx_call *call, mxw_status status,
                         mxw_trace_event *event);
void mx_trace_run(const mx_program *p, mxw_trace_event *event);
/* work.c: flops and bytes of a traced call. */
void mx_run_work(const mx_program *p, const mx_call *call, mxw_trace_event *event);
/* buffers.c: takes a buffer of at least bytes for a value. */
mxw_status mx_run_take_buffer(mx_run *run, mx_value value, size_t bytes, void **data);
/* Copies n bytes from one block of device memory to another. */
mxw_status mx_run_copy(const mx_run *run, void *to, void *from, size_t bytes);
/* Grows a block of device memory without keeping its contents; what: named in a failure. */
mxw_status mx_run_grow_block(const mx_device *device, void **block, size_t *room, size_t bytes, const char *what);
/* tap.c: reports a value to the tap under each of its names. */
mxw_status mx_tap_value(mx_run *run, mx_value value);
/* A view of a value in host memory, with the graph's dtype: itself, or downloaded into the run's host block of that
 * number. */
mxw_status mx_run_to_host(mx_run *run, mx_value value, size_t block, mx_tensor *out);
#endif
