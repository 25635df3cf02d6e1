/* session.h - a random graph opened on an engine, and data for its runs: for test_compiled.c and test_memory.c. */
#ifndef COMPILE_SESSION_H
#define COMPILE_SESSION_H
#include "exec/exec.h"
#include "random_graph.h"

typedef struct session {
    mx_program *program;
    mx_state *state;
    mx_run *run;
} session;

/* Sizes and inputs of one run. */
typedef struct random_run {
    int64_t sizes[RANDOM_SIZES];
    mx_tensor inputs[RANDOM_LEAVES];   /* views as a caller has them: sometimes rows apart, or at odd addresses */
    void *blocks[RANDOM_LEAVES];
} random_run;

/* Sizes for the first run, or for the next one: those of states stay. bad: some index may be out of range. */
void random_run_make(const random_graph *r, const random_run *last /* or NULL */, rng *dice, int bad, random_run *out);
void random_run_free(random_run *run);

/* Opens a program of g (a copy of r's graph) with the sizes of its states taken from the first run. */
mxw_status session_open(const random_graph *r, const mx_graph *g, const mx_program_options *options,
                        const random_run *first, session *out);
void session_close(session *s);
mxw_status session_run(session *s, const random_graph *r, const random_run *data);
#endif
