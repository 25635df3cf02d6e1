/* pipeline/recognizer.h - internals of a recognizer, for the session and the batcher. */
#ifndef MX_RECOGNIZER_H
#define MX_RECOGNIZER_H
#include <pthread.h>
#include <stdatomic.h>

#include "pipeline/batch/counters.h"
#include "pipeline/fault_hooks.h"
#include "pipeline/speech/speech.h"

#define MX_LIVE_ENCODERS 5

/* The decoder's step in two programs, for sessions whose logits the host changes in between. */
enum { MX_HALF_LOGITS, MX_HALF_CHOICE, MX_HALF_COUNT };

typedef struct mx_detector_model mx_detector_model;

struct mxw_model {
    mx_weights *weights;
    mx_text *text;
    mx_pool *pool;
    mxw_checkpoint_info checkpoint;
    mx_graph *graphs[MX_PART_COUNT];
    mx_program *programs[MX_PART_COUNT];
    mx_program_options loaded;        /* how, for what is loaded later; its device and weights are not valid */
    char *graph_texts[MX_PART_COUNT];
    mxw_engine engine;
    mxw_precision precision;
    int encode_engine;                /* of the encoder alone; -1: engine */
    mx_fault_hooks hooks;             /* all zero: nothing is changed */
    mx_detector_fn open_detector;     /* NULL: Silero's; a test may give its own ... */
    void *detector_context;           /* ... with what it needs */
    double load_ms, compile_ms;
    mx_counters *counters;            /* mutable outside of the lock, as is the next */
    atomic_int n_batchers;            /* open: the shared one and those of sessions that have one to themselves */

    int batch;                        /* sessions that share a batcher, at most */
    int encode_width;                 /* windows in one run of the encoder, at most */
    pthread_mutex_t lock;             /* guards what follows, and which slots are attached */
    pthread_cond_t slot_freed;        /* of the shared batcher, by its session */
    char sha256[65];                  /* of the weights file; empty until it is first needed */
    uint32_t crc32;                   /* of the weights, ... */
    int has_crc32;                    /* ... once it was computed */
    struct mx_batcher *batcher;       /* shared; NULL until a session needs it */
    mx_detector_model *detectors;     /* a list of those that sessions needed so far */
    struct {
        mx_graph *graphs[MX_LIVE_ENCODERS];
        mx_program *programs[MX_LIVE_ENCODERS];
    } live;                           /* encoders of live streams; NULL until one needs them */
    struct {
        mx_graph *graphs[MX_HALF_COUNT];
        mx_program *programs[MX_HALF_COUNT];
    } halves;                         /* of the decoder's step; NULL until a session needs them */
    char *model_dir;                  /* as given: where weights are looked for by name; may be NULL */
};

/* A detector of speech for one recording, on the recognizer's threads if it may use all of them. */
mxw_status mx_recognizer_detector(mx_recognizer *r, const mxw_vad_options *options, int all_threads, mx_detector *out);
/* Loads the halves of the decoder's step, unless they are. */
mxw_status mx_recognizer_load_halves(mx_recognizer *r);
void mx_recognizer_close_detectors(mx_recognizer *r);
void mx_recognizer_close_live(mx_recognizer *r);
#endif
