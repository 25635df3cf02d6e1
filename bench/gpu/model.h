/* model.h - Whisper's shapes with generated weights on a GPU, or the CPU: what bench-gpu-model's parts share. */
#ifndef BENCH_GPU_MODEL_H
#define BENCH_GPU_MODEL_H
#include "base/base.h"
#include "device/device.h"
#include "exec/exec.h"
#include "graph/graph.h"

enum { ENCODER, CROSS, DECODER, N_PROGRAMS };
enum { MOST_SLOTS = 512 };   /* windows at once */

/* Halves that repeat: every weight is a part of one block. */
typedef struct source {
    const mx_graph *graph;
    uint16_t *halves;
} source;

typedef struct model {
    const mx_device *gpu;
    const mxw_dims *dims;
    mx_graph *graphs[N_PROGRAMS];
    mx_program *programs[N_PROGRAMS];
    source sources[N_PROGRAMS];
    void *mark;                /* device memory: fetching it waits for all before */
} model;

void die(const char *what);   /* with the library's error line */
void bind_input(mx_run *run, const char *name, mxw_dtype dtype, int rank, const int64_t *dims, void *data, int held);
/* The caches of so many windows, each with so many cells; NULL if they do not fit. */
mx_state *open_state(const model *m, int64_t windows, int64_t cells);

/* throughput.c: windows a second of a queue that never empties, with so many beams and at most so many windows at once;
 * for so many windows of every slot, 0: as many as take some seconds. */
void time_throughput(const model *m, int beams, int most_slots, int rounds);
#endif
