/* exec/exec.h - public header of exec/: runs a graph on a device, eagerly or compiled.
 *
 * mx_program: a graph with its weights resolved and converted for one engine and device; immutable, shared by threads.
 * mx_state:   named memory on the device that belongs to a session (key-value caches); its programs share it.
 * mx_run:     a program bound for one session: inputs, scratch, outputs. One thread at a time.
 *
 * Invariants: the same inputs give the same bits, for any thread count and whatever else is in the batch. */
#ifndef MX_EXEC_H
#define MX_EXEC_H
#include "base/pool.h"
#include "graph/graph.h"

typedef struct mx_program mx_program;
typedef struct mx_run mx_run;
typedef struct mx_state mx_state;

typedef struct mx_program_options {
    mxw_engine engine;
    const char *device;          /* "auto", "cpu", "cuda:0" */
    mx_pool *pool;               /* outlives the program; NULL: the calling thread alone */
    const mx_weight_source *weights;   /* NULL when the graph has none; its views must live as long as the program */
    const mx_program *like;      /* of the same engine, device and weights: what both need is kept once, by it, so
                                    it must live as long; NULL: none */
    int keep_names;              /* max: every named value stays, so that taps see them all; fuses less */
    mxw_precision precision;     /* of GEMMs; other than exact only with engine max on a device that supports it */
    void (*trace)(void *context, const mxw_trace_event *event);   /* of every op and run; NULL: none */
    void *trace_context;
} mx_program_options;

/* Opens the device that mx_exec_load() will choose, if it has memory of its own, while the caller does something else.
 * Failures are left to mx_exec_load(), which comes upon them, too. */
void mx_exec_open_device(const mx_program_options *options, void (*meanwhile)(void *context), void *context);

/* The program holds g: nothing can be added to it any more, and it lives as long as the program. */
mxw_status mx_exec_load(const mx_graph *g, const mx_program_options *options, mx_program **out);
/* Bytes of weights that an execute reads, in the form in which the device keeps them; tables that are read by rows are
 * not counted. */
size_t mx_program_weight_bytes(const mx_program *program);
void mx_exec_unload(mx_program *program);
const char *mx_exec_device(const mx_program *program);   /* "cpu" */
int mx_exec_captures(const mx_program *program);         /* repeated sizes are launched as captured graphs */
/* Prints what the compiler made of it: nodes after each pass, the compiled graph, the kernel of each node, memory with
 * and without the plan. Sizes are "name=number,..", the rest 1. Prints nothing for an eager program. */
mxw_status mx_exec_explain(const mx_program *program, const char *sizes, mx_str *out);

/* On that program's device. Programs may be unloaded before the state is closed, but not this one while states are
 * added: it says how they are kept. */
mxw_status mx_state_open(const mx_program *program, mx_state **out);
/* Zeroed. dtype is the graphs'; where the program's device keeps that state narrower, so does this. Outputs and taps
 * show it with the graph's dtype all the same. */
mxw_status mx_state_add(mx_state *state, const char *name, mxw_dtype dtype, int rank, const int64_t *dims);
void mx_state_close(mx_state *state);

/* Taps see every named value of a run (inputs and results, not weights), in order, as a host view valid during the
 * call. */
typedef void (*mx_tap_fn)(void *context, const char *name, const mx_tensor *value);

/* A watcher sees every op that a run has made, with its inputs and results in device memory, which is host memory on
 * the CPU. name: of the first result, or NULL. */
struct mx_call;
typedef void (*mx_watch_fn)(void *context, const char *graph, const char *name, const struct mx_call *call);

mxw_status mx_run_open(const mx_program *program, mx_state *state /* or NULL */, mx_run **out);
void mx_run_close(mx_run *run);
/* Binds by name, until the name is bound again; the view (host) must live until execute returns. Its dims set open
 * sizes. */
mxw_status mx_run_input(mx_run *run, const char *name, const mx_tensor *tensor);
/* The same for bytes that do not change until the name is bound again: a device with its own memory gets them once. */
mxw_status mx_run_hold(mx_run *run, const char *name, const mx_tensor *tensor);
/* Binds an input to an output of another run on the same device, without a copy through the host: each execute reads
 * what `from` last computed. `from` must outlive the binding. */
mxw_status mx_run_pipe(mx_run *run, const char *input, mx_run *from, const char *output);
/* An open size that no input carries. */
mxw_status mx_run_size(mx_run *run, const char *name, int64_t size);
/* Takes the memory that a compiled run with these sizes needs ("name=number,..", the rest 1), so that runs with smaller
 * sizes take no more, move nothing and keep their captured graphs. Held and piped inputs are bound before. */
mxw_status mx_run_reserve(mx_run *run, const char *sizes);
void mx_run_tap(mx_run *run, mx_tap_fn tap, void *context);   /* NULL: none */
void mx_run_watch(mx_run *run, mx_watch_fn watch, void *context);   /* NULL: none */
mxw_status mx_run_execute(mx_run *run);
/* Whether the last execute's small outputs can be read without waiting for the device. */
int mx_run_done(const mx_run *run);
/* A host view, valid until the next execute. */
mxw_status mx_run_output(mx_run *run, const char *name, mx_tensor *out);
/* Where values are in host memory: that goes back to the system until the next execute. Until then there are no
 * outputs, also for runs that they are piped to. */
void mx_run_forget(mx_run *run);
#endif
