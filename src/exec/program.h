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
    mxw_precision precision;
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
    int held;             /* the view's bytes stay: the device is sent them once ... */
    int sent;             /* ... which has been done */
    void *block;          /* device memory of a held one */
    size_t block_bytes;
} mx_binding;

/* A plan with some sizes of a run: calls ready to be made again as long as the sizes stay the same or come again. */
typedef struct mx_layout {
    int valid;
    uint64_t used;        /* the run's count when it was last used: of too many, the oldest goes */
    int64_t *sizes;       /* [sizes] that it was made for */
    int open;             /* everything in it can be looked at: no value is in a form of the device's own */
    mx_tensor *values;    /* [values]: results, as they are in run->values while this layout is the run's */
    mx_call *calls;       /* [nodes] */
    mx_attrs *attrs;      /* [nodes], every size a number */
    mx_tensor **inputs;   /* [nodes][inputs] */
    const void ***host;   /* [nodes][inputs]: the same bytes in host memory, if they came from there */
    mx_tensor **outputs;  /* [nodes][outputs] */
    size_t *bytes, *offsets;   /* [values], of those in the arena */
    size_t arena_bytes;

    /* replay.c */
    int times;            /* executes with these sizes, up to those that matter */
    int unfit;            /* cannot be recorded, or that failed */
    mx_recording *recording;   /* NULL: none */
    size_t *in_at, *out_at;    /* [values]: where an input or an output lies in its blocks; MX_APART: not in them */
    void **leaves;        /* [values]: addresses when it was recorded, of what lies elsewhere */
    uint8_t *checked;     /* [nodes]: its indices are looked at before a replay; no earlier node looks at the same */
    mx_arena memory;      /* of the tables */
} mx_layout;

#define MX_APART ((size_t)-1)
#define MX_LAYOUTS 24     /* of a run: sizes of a decoder's steps, and prompts of some lengths */

struct mx_run {
    const mx_program *program;
    mx_layout *layout;    /* of a compiled program: that of the last execute; NULL at first */
    mx_layout *layouts[MX_LAYOUTS];
    int n_layouts;
    uint64_t clock;       /* executes so far */
    void *arena;          /* of all layouts, one after the other */
    size_t arena_room;
    mx_value *order;      /* [values]: scratch of placing them */
    int replayed;         /* the last execute was a replay ... */
    int fetched;          /* ... and its results are in host memory */
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
    mx_watch_fn watch;
    void *watch_context;
    int done;             /* an execute has succeeded: outputs may be read */
};

/* eager.c: all nodes in order, once inputs, states and sizes are bound. */
mxw_status mx_eager_execute(mx_run *run);
/* compiled.c: the same for a program with a plan. */
mxw_status mx_compiled_execute(mx_run *run);
mxw_status mx_compiled_open(mx_run *run);
/* run->layout becomes the one for the sizes in run->sizes, made if there is none; leaves need only their types. */
mxw_status mx_compiled_lay_out(mx_run *run);
void mx_compiled_address(mx_run *run);         /* every call of the layout, with the addresses that values have now */
void mx_compiled_refresh(mx_run *run, size_t node);   /* a call's inputs, and a state that it writes, as they lie now */
int mx_compiled_runs(const mx_plan *plan, const mx_node *node);   /* not made at load, not a view */
void mx_compiled_close(mx_run *run);
/* replay.c: the execute as one replay, if the sizes came before and the device can; *done is 0 if it is to be run node
 * by node. Leaves have their types; inputs are not yet brought. */
mxw_status mx_replay_execute(mx_run *run, int *done);
void mx_replay_forget(mx_run *run, mx_layout *layout);
/* Output i of the graph in host memory, if the last execute was a replay that took it along. */
mxw_status mx_replay_output(mx_run *run, size_t i, const void **data);
/* run.c: an input to the device, by a copy of its own. */
mxw_status mx_run_bring(mx_run *run, mx_value value);
/* The caller's bytes of an input, dense and aligned. */
mxw_status mx_run_dense(mx_run *run, mx_value value, const void **bytes);
/* A node's attributes with every open size as a number of this run. */
mxw_status mx_run_settle(const mx_run *run, const mx_node *node, mx_attrs *attrs);
/* trace.c: runs the call, and tells the trace of it; all nodes likewise. */
mxw_status mx_run_call(mx_run *run, const mx_node *node, const mx_call *call);
/* work.c: flops and bytes of a traced call. */
void mx_run_work(const mx_program *p, const mx_call *call, mxw_trace_event *event);
mxw_status mx_run_nodes(mx_run *run);
/* A failure of a node: "%17 decoder.tokens: gather: index[3] is ..." */
mxw_status mx_run_fail_at(const mx_run *run, const mx_node *node, mxw_status status);
/* Takes a buffer of at least bytes for a value. */
mxw_status mx_run_take(mx_run *run, mx_value value, size_t bytes, void **data);
/* Copies n bytes from one block of device memory to another. */
mxw_status mx_run_copy(const mx_run *run, void *to, void *from, size_t bytes);
/* Grows a block of device memory that keeps no contents; what: for people. */
mxw_status mx_run_room(const mx_device *device, void **block, size_t *room, size_t bytes, const char *what);
/* tap.c */
mxw_status mx_tap_value(mx_run *run, mx_value value);
/* A view of a device tensor in host memory: itself, or downloaded into the run's host block of that number. */
mxw_status mx_run_to_host(mx_run *run, const mx_tensor *tensor, size_t block, mx_tensor *out);
#endif
