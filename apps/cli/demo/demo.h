/* cli/demo/demo.h - shared by the files of `demo`: one engine's panel, shown as a terminal page or as plain lines. */
#ifndef CLI_DEMO_DEMO_H
#define CLI_DEMO_DEMO_H

#include <stddef.h>
#include <stdint.h>

#include "common/model.h"

enum { DEMO_MAX_PANELS = 3, DEMO_STAGES = 5, DEMO_MESSAGE = 512 };

typedef enum demo_state { DEMO_WAITING, DEMO_LOADING, DEMO_RUNNING, DEMO_DONE, DEMO_FAILED, DEMO_SKIPPED } demo_state;

typedef enum demo_match { DEMO_MATCH_UNKNOWN, DEMO_MATCH_FIRST, DEMO_MATCH_SAME, DEMO_MATCH_OTHER } demo_match;

typedef struct demo_panel {
    int engine;                    /* mxw_engine */
    demo_state state;
    char device[32];               /* once its model is open */
    int threads;
    double done_s, elapsed_s;      /* of the recording; since the run began */
    double total_s;                /* of the whole run; once DONE */
    double load_s;                 /* of the model, compiling included */
    double stage_ms[DEMO_STAGES];
    int64_t peak_kib;
    uint64_t gpu_bytes;            /* that it took on the GPU; 0: none, or not known */
    char *text;                    /* so far; owned */
    size_t n_text;
    char message[DEMO_MESSAGE];    /* FAILED, SKIPPED: why */
    demo_match match;              /* of its text with the first engine's that was done */
    double began_s, last_sign_s;   /* when its run began and when it was last heard of, by the monotonic clock */
    int pid, input, output;        /* of its process: where it is told to begin, where it tells; -1: closed */
} demo_panel;

typedef struct demo_options {
    common_options common;
    const char *model, *model_dir, *device;
    int64_t threads;
    const char *engines;
    double timeout_s;
    const char *language;
    int64_t beam_size;
    int greedy, plain;
} demo_options;

typedef struct demo {
    const demo_options *options;
    const char *path;
    double audio_s;                /* 0: not known yet */
    char hardware[2][256];         /* the processor; the GPU, or why there is none */
    demo_panel panels[DEMO_MAX_PANELS];
    int n_panels;
} demo;

extern const char *const demo_stage_names[DEMO_STAGES];
extern const char *const demo_state_names[];
/* Of the panels that are done the fastest; -1: none is. */
int demo_fastest(const demo *d);
/* How many times as fast as engine cpu; 0: not known. */
double demo_speed_up(const demo *d, const demo_panel *p);
/* Real time: seconds of the recording that a second of work brings; so far while it runs. */
double demo_rate(const demo *d, const demo_panel *p);
const char *demo_match_words(const demo *d, const demo_panel *p);

/* worker.c: one engine, in a process of its own, told to begin by a byte on `input`; tells by lines on `output`.
 * Never returns. */
void demo_work(const demo_options *options, const char *path, int engine, int input, int output)
    __attribute__((noreturn));
/* A line that a worker told, without its end. Returns 0 if there is no such line. */
int demo_hear(demo *d, demo_panel *p, char *line);

/* page.c: the page of the terminal. */
int demo_page_open(void);      /* 0 if the terminal cannot have one */
void demo_page_draw(const demo *d);
/* What was typed: 'q' or 3 (Ctrl-C) to stop, 0 for nothing of interest; a new size of the window is taken up. */
int demo_page_key(void);
void demo_page_close(void);    /* the terminal is as it was */

#endif
