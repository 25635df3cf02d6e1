/* pipeline/recognizer.h - the insides of a recognizer, for the session and the conductor. */
#ifndef MX_RECOGNIZER_H
#define MX_RECOGNIZER_H
#include <pthread.h>

#include "pipeline/pipeline.h"
#include "pipeline/use.h"

struct mxw_model {
    mx_weights *weights;
    mx_text *text;
    mx_pool *pool;
    mxw_checkpoint_info checkpoint;
    mx_graph *graphs[MX_PART_COUNT];
    mx_program *programs[MX_PART_COUNT];
    char *graph_texts[MX_PART_COUNT];
    mxw_engine engine;
    mxw_precision precision;
    int encode_engine;                /* of the encoder alone; -1: engine */
    mx_alter alter;                   /* all zero: nothing is changed */
    double load_ms, compile_ms;
    mx_use *use;                      /* counts on while the rest stays as it is */

    int batch;                        /* sessions that share a conductor, at most */
    int encode_width;                 /* windows in one run of the encoder, at most */
    pthread_mutex_t lock;             /* guards what follows, and who sits where */
    char sha256[65];                  /* of the weights file; empty until somebody asks */
    uint32_t crc32;                   /* of the weights, ... */
    int has_crc32;                    /* ... once it was asked for */
    struct mx_conductor *conductor;   /* shared; NULL until a session needs it */
};
#endif
