/* max_whisper/model.h - a model ready to run: a checkpoint with its tokenizer and its programs.
 *
 * Threads: a model is immutable and may be shared by any number of threads and sessions.
 *
 * Its file stays mapped while the model is open, and must be neither truncated nor overwritten: rename another file
 * over it instead. After a write every request fails, E_STATE; a read beyond the end of a truncated file is a SIGBUS.
 */
#ifndef MXW_MODEL_H
#define MXW_MODEL_H

#include "checkpoint.h"
#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mxw_model mxw_model;

/* One op of a run with its time, or a whole run of a graph (op is "run"). Owned by the library; strings live as long as
 * the model, except shape. Fields may be added at the end. */
typedef struct mxw_trace_event {
    const char *graph;       /* "encoder", "cross", "decoder", "force" */
    const char *op;
    const char *name;        /* of the value that it computes; NULL if it has none */
    const char *kernel;      /* what ran it */
    const char *device;
    const char *shape;       /* of its result: "f32 [1, 1500, 384]"; valid during the call */
    int64_t start_ns;        /* CLOCK_MONOTONIC */
    int64_t duration_ns;
    uint64_t bytes;          /* that it must read and write; of caches and tables only the rows that it reads */
    int thread;              /* which of the calling threads, counted from 0 */
    double flops;            /* of matrix products and attention; a multiply-add counts two */
} mxw_trace_event;

typedef struct mxw_model_options {
    size_t struct_size;
    const char *model;       /* "tiny.en"; name or path, as mxw_checkpoint_open takes it */
    const char *model_dir;   /* NULL: mxw_model_dir() */
    mxw_engine engine;       /* MAX */
    const char *device;      /* "auto"; or "cpu", "cuda", "cuda:1" */
    int threads;             /* 0: as many as the process may use */
    int batch;               /* 1; up to 256. So many sessions, each on a thread of its own, are batched: faster than
                              * one after another, with the same results. Memory for all of them is allocated when the
                              * first one opens, or by mxw_model_reserve. Sessions beyond the batch, and those with a
                              * wider beam, run by themselves. */
    /* NULL; called after every op of every run, on the thread that ran it (concurrently if sessions are). */
    void (*on_trace)(void *user, const mxw_trace_event *event);
    void *trace_user;
    mxw_precision precision; /* EXACT; for engine max others (device.h) */
} mxw_model_options;

typedef struct mxw_model_info {
    size_t struct_size;      /* sizeof(mxw_model_info) */
    const mxw_checkpoint_info *checkpoint;
    mxw_engine engine;
    const char *device;      /* id of the device in use */
    int threads;
    double load_ms, compile_ms;
    mxw_precision precision;
} mxw_model_info;

MXW_API void mxw_model_options_default(mxw_model_options *options, size_t struct_size);
#define mxw_model_options_default(options) mxw_model_options_default(options, sizeof(*(options)))
MXW_API mxw_status mxw_model_open(const mxw_model_options *options, mxw_model **out);
/* All sessions of the model must have been closed. */
MXW_API void mxw_model_close(mxw_model *model);
/* What info points to lives as long as the model. */
MXW_API mxw_status mxw_model_get_info(const mxw_model *model, mxw_model_info *info);
/* A graph of the model as text: which = "encoder", "cross", "decoder", "force". With engine max also what it was
 * compiled to: the graph after fusion, the kernel of each node, memory with and without the plan. The model owns it. */
MXW_API mxw_status mxw_model_graph(const mxw_model *model, const char *which, const char **text);

typedef enum mxw_stage {
    MXW_STAGE_ENCODE = 0,    /* log-mel to features */
    MXW_STAGE_CROSS = 1,     /* features to the decoder's cross-attention keys and values */
    MXW_STAGE_PROMPT = 2,    /* the decoder on the tokens that a window starts with */
    MXW_STAGE_STEP = 3,      /* the decoder, one token further */
    MXW_STAGE_FORCE = 4      /* the decoder on known tokens: word times and log probabilities */
} mxw_stage;

typedef struct mxw_stage_counters {
    size_t struct_size;      /* sizeof(mxw_stage_counters) */
    int64_t runs;
    int64_t items;           /* windows, or rows of the decoder, in all runs */
    int64_t cells;           /* of the decoder: cached positions that its rows attended to */
    double ms;               /* in all runs */
    uint64_t weight_bytes;   /* weights that one run reads, in the form in which the engine keeps them */
} mxw_stage_counters;

/* What a stage did since the model was opened, all sessions together. */
MXW_API mxw_status mxw_model_get_counters(const mxw_model *model, mxw_stage stage, mxw_stage_counters *counters);

/* The 100 languages: code "en", name "english"; NULL past the end. */
MXW_API const char *mxw_language_code(int index);
MXW_API const char *mxw_language_name(int index);
/* Takes a code, a name or an alias in any case ("castilian"); returns the code, NULL if unknown. */
MXW_API const char *mxw_language_find(const char *code_or_name);

/* Text to token ids, as the model's tokenizer has them; special tokens are not recognized in the text. *n is the
 * capacity on entry and the count on return; E_ARGUMENT if it did not fit. */
MXW_API mxw_status mxw_model_encode(const mxw_model *model, const char *text, int32_t *tokens, size_t *n);
/* Token ids to UTF-8. Special tokens are skipped, incomplete sequences become U+FFFD. *n as above, in bytes with the
 * final 0. */
MXW_API mxw_status mxw_model_decode(const mxw_model *model, const int32_t *tokens, size_t n_tokens, char *text,
                                    size_t *n);

#ifdef __cplusplus
}
#endif
#endif
