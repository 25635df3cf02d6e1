/* exec/program.h - what the files of exec/ share; private to the folder. */
#ifndef MX_EXEC_PROGRAM_H
#define MX_EXEC_PROGRAM_H
#include "compile/compile.h"
#include "device/device.h"
#include "exec/exec.h"

struct mx_program {
    mx_graph *graph;      /* held; only read: the source, or the plan's */
    mx_graph *source;     /* held likewise when there is a plan, whose constants lie in it; else NULL */
    mx_plan *plan;        /* of a compiled program */
    const mx_device *device;
    mx_pool *pool;
    void (*trace)(void *context, const mxw_trace_event *event);
    void *trace_context;
    void **leaves;        /* [values]: device memory of constants and weights; NULL for the rest. A plan has its own:
                             here are only those that are outputs themselves */
    uint8_t *owned;       /* [values]: leaves[i] was allocated by the program */
    int32_t *last_use;    /* [values]: the last node that reads it; INT32_MAX: it must outlive the run */
};

typedef struct mx_state_entry {
    char *name;
    mx_tensor tensor;     /* on the device */
} mx_state_entry;

struct mx_state {
    const mx_device *device;
    mx_state_entry *entries;
    size_t n, room;
};

const mx_tensor *mx_state_find(const mx_state *state, const char *name);

/* Device memory of a run; taken by values, given back when the last of them is done, kept for the next execute. */
typedef struct mx_buffer {
    void *data;
    size_t bytes;
    int uses;
} mx_buffer;

typedef struct mx_binding {
    mx_tensor tensor;     /* the caller's view */
    void *packed;         /* where it is copied to when it cannot be used in place */
    size_t packed_bytes;
    mx_run *from;         /* or: an output of another run */
    int output;
    int bound;
} mx_binding;

/* A plan with this run's sizes: calls ready to be made again as long as the sizes stay the same. */
typedef struct mx_layout {
    int valid;
    int64_t *sizes;       /* [sizes] that it was made for */
    mx_call *calls;       /* [nodes] */
    mx_attrs *attrs;      /* [nodes], every size a number */
    mx_tensor **inputs;   /* [nodes][inputs] */
    const void ***host;   /* [nodes][inputs]: the same bytes in host memory, if they came from there */
    mx_tensor **outputs;  /* [nodes][outputs] */
    size_t *bytes, *offsets;   /* [values], of those in the arena */
    mx_value *order;      /* [values]: scratch of placing them */
    void *arena;
    size_t arena_bytes, arena_room;
    mx_arena memory;      /* of the tables */
} mx_layout;

struct mx_run {
    const mx_program *program;
    mx_layout layout;     /* of a compiled program */
    mx_state *state;
    mx_tensor *values;    /* [values]: what each is in this execute */
    int32_t *buffer;      /* [values]: its buffer, -1: none */
    int32_t *usual;       /* [values]: the buffer it had last, -1: none */
    const void **origin;  /* [values]: the same bytes in host memory, where they came from there; NULL: not known */
    mx_binding *bindings; /* [values]: of inputs */
    int64_t *sizes;       /* [sizes]: bound in this execute, -1: not yet */
    int64_t *given;       /* [sizes]: by mx_run_size, -1: not */
    mx_buffer *buffers;
    size_t n_buffers, room_buffers;
    void *scratch;
    size_t scratch_bytes;
    mx_buffer *host;      /* [outputs + 1]: host copies of outputs and, last, of a tap, where the device has its own
                             memory */
    mx_tap_fn tap;
    void *tap_context;
    int done;             /* an execute has succeeded: outputs may be read */
};

/* eager.c: all nodes in order, once inputs, states and sizes are bound. */
mxw_status mx_eager_execute(mx_run *run);
/* compiled.c: the same for a program with a plan. */
mxw_status mx_compiled_execute(mx_run *run);
mxw_status mx_compiled_open(mx_run *run);
mxw_status mx_compiled_lay_out(mx_run *run);   /* calls for the sizes in run->sizes; leaves need only their types */
void mx_compiled_close(mx_run *run);
/* A node's attributes with every open size as a number of this run. */
mxw_status mx_run_settle(const mx_run *run, const mx_node *node, mx_attrs *attrs);
/* trace.c: runs the call, and tells the trace of it; all nodes likewise. */
mxw_status mx_run_call(mx_run *run, const mx_node *node, const mx_call *call);
mxw_status mx_run_nodes(mx_run *run);
/* A failure of a node: "%17 decoder.tokens: gather: index[3] is ..." */
mxw_status mx_run_fail_at(const mx_run *run, const mx_node *node, mxw_status status);
/* Takes a buffer of at least bytes for a value. */
mxw_status mx_run_take(mx_run *run, mx_value value, size_t bytes, void **data);
/* Copies n bytes from one block of device memory to another. */
mxw_status mx_run_copy(const mx_run *run, void *to, void *from, size_t bytes);
/* Grows a block of device memory that keeps no contents. */
mxw_status mx_run_room(const mx_device *device, void **block, size_t *room, size_t bytes);
/* tap.c */
mxw_status mx_tap_value(mx_run *run, mx_value value);
/* A view of a device tensor in host memory: itself, or downloaded into the run's host block of that number. */
mxw_status mx_run_to_host(mx_run *run, const mx_tensor *tensor, size_t block, mx_tensor *out);
#endif
