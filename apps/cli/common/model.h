/* cli/common/model.h - which model, on which engine and device: the options, and the one place where models are opened.
 *
 * In: a model_choice, as the options of MODEL_ROWS fill it. Out: an open model.
 * Invariants: this file alone decides whether a run that does not fit into a GPU's memory continues on the CPU. It does
 * so only where the user left the device to us, and it always logs a warning.
 */
#ifndef CLI_COMMON_MODEL_H
#define CLI_COMMON_MODEL_H

#include "common/cli.h"

typedef struct model_choice {
    const char *model, *model_dir;
    int engine;    /* mxw_engine */
    int precision; /* mxw_precision */
    const char *device;
    int64_t threads;
    int encode_engine, decode_engine; /* 0: engine; otherwise mxw_engine + 1 */
} model_choice;

/* What a caller needs of a model besides the user's choice; all zero: nothing. */
typedef struct model_needs {
    int batch;      /* sessions at once; 0: one */
    int keep_names; /* every stage can be seen; engine max then fuses less */
    const char *inject;
    void (*on_trace)(void *user, const mxw_trace_event *event);
    void *trace_user;
} model_needs;

/* Opens exactly what was chosen. Does not fall back and does not log; needs may be NULL. */
mxw_status model_open(const model_choice *choice, const model_needs *needs, mxw_model **model);
/* Opens the model for so many sessions at once, with --trace if it was given; falls back to the CPU as described above.
 * On failure logs why and returns the exit status. */
int open_model(const model_choice *choice, int batch, mxw_model **model);
/* A device's memory was too small, as `why` says. 1: continue with --device cpu, which is logged as a warning; 0: give
 * up, which is logged as an error. */
int model_falls_back_to_cpu(const model_choice *choice, const char *why);
/* Logs why on failure and returns the exit status. */
int open_checkpoint(const char *name_or_path, const char *model_dir, mxw_checkpoint **checkpoint);
/* 1 if the choice runs, or prefers to run, on an accelerator that is there. */
int model_uses_accelerator(const model_choice *choice);

extern const char *const engine_names[];      /* in the order of mxw_engine */
extern const char *const precision_names[];   /* in the order of mxw_precision */
extern const char *const half_engine_names[]; /* "same", then engine_names */
int check_device(const char *value, char *message, size_t size);
int check_language(const char *value, char *message, size_t size);

/* A table reads by rows. */
/* clang-format off */
#define MODEL_DIR_ROW(type, member)                                                                                    \
    {.name = "model-dir", .kind = OPTION_NAME, .placeholder = "DIR", .group = "Model and device",                      \
     .target = offsetof(type, member),                                                                                 \
     .help = "Folder of the models (default: $MAX_WHISPER_MODELS, else the per-user cache)."}

#define MODEL_ROWS(type, member)                                                                                       \
    {.name = "model", .letter = 'm', .kind = OPTION_NAME, .fallback = "tiny.en", .placeholder = "NAME|PATH",           \
     .group = "Model and device", .target = offsetof(type, member.model),                                              \
     .help = "Released name (see model list), checkpoint file, or its folder."},                                       \
    MODEL_DIR_ROW(type, member.model_dir),                                                                             \
    ENGINE_ROWS(type, member.engine, member.device, member.threads, member.precision)

#define ENGINE_ROWS(type, engine_, device_, threads_, precision_)                                                      \
    {.name = "engine", .kind = OPTION_CHOICE, .fallback = "max", .placeholder = "ENGINE", .group = "Model and device", \
     .target = offsetof(type, engine_), .choices = engine_names,                                                       \
     .help = "cpu: op by op on the processor; gpu: op by op on CUDA; max: the compiled graph."},                       \
    {.name = "device", .kind = OPTION_TEXT, .fallback = "auto", .placeholder = "auto|cpu|cuda[:N]",                    \
     .group = "Model and device", .target = offsetof(type, device_), .check = check_device,                            \
     .help = "Where to run; the devices subcommand lists them."},                                                      \
    {.name = "threads", .kind = OPTION_WHOLE, .fallback = "0", .placeholder = "N", .group = "Model and device",        \
     .target = offsetof(type, threads_), .low = 0, .high = 1024,                                                       \
     .help = "Processor threads; 0: as many as this process may use."},                                                \
    {.name = "precision", .kind = OPTION_CHOICE, .fallback = "exact", .placeholder = "PRECISION",                      \
     .group = "Model and device", .target = offsetof(type, precision_), .choices = precision_names,                    \
     .help = "Of engine max on a GPU: exact; f16: faster, products of halves. Elsewhere it is exact."}
/* clang-format on */

#endif
