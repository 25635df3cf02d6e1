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

/* Asks the CUDA driver, by the environment, for one connection to a GPU, unless the user has asked for a number; before
 * any use of CUDA. All work on a GPU is in one stream, and a context with one connection to it is made and given up in
 * half the time of one with eight, the driver's default. Here and not in the library: a process that uses CUDA itself
 * decides. */
void gpu_connection_ask(void);
/* Before a fork whose child becomes another program: it gets the environment that the user had. */
void gpu_connection_forget(void);

extern const char *const engine_names[];      /* in the order of mxw_engine */
extern const char *const precision_names[];   /* in the order of mxw_precision */
/* The precision that an engine runs with on a device if `wanted` was asked for everywhere: of engine max f16 is for a
 * GPU, f8 for one of compute capability 9.0, int8 for that or a CPU, and whatever else is exact. */
int precision_for(int wanted, int engine, const char *device);
extern const char *const half_engine_names[]; /* "same", then engine_names */
extern const char *const task_names[];        /* in the order of mxw_task */
extern const char *const guard_names[];       /* in the order of mxw_guard */
extern const char *const device_examples[];   /* for completion */
/* Released names, for completion. */
const char *model_value(int index);
int check_device(const char *value, char *message, size_t size);
/* Names of languages, then auto; for completion. */
const char *language_value(int index);
int check_language(const char *value, char *message, size_t size);
/* The same of a list with commas, or any. */
const char *languages_value(int index);
int check_languages(const char *value, char *message, size_t size);

/* A table reads by rows. */
/* clang-format off */
#define MODEL_NAME_ROW(type, member)                                                                                   \
    {.name = "model", .letter = 'm', .kind = OPTION_NAME, .fallback = "tiny.en", .placeholder = "NAME|PATH",           \
     .group = "Model and device", .target = offsetof(type, member), .values = model_value,                             \
     .help = "Model name (see model list), checkpoint file, or the folder that holds it."}

#define MODEL_DIR_ROW(type, member)                                                                                    \
    {.name = "model-dir", .kind = OPTION_NAME, .placeholder = "DIR", .group = "Model and device",                      \
     .target = offsetof(type, member),                                                                                 \
     .help = "Folder with models (default: $MAX_WHISPER_MODELS, otherwise the per-user cache)."}

#define DEVICE_ROW(type, member, help_)                                                                                \
    {.name = "device", .kind = OPTION_TEXT, .fallback = "auto", .placeholder = "auto|cpu|cuda[:N]",                    \
     .group = "Model and device", .target = offsetof(type, member), .check = check_device,                             \
     .choices = device_examples, .help = help_}

#define THREADS_ROW(type, member)                                                                                      \
    {.name = "threads", .kind = OPTION_WHOLE, .fallback = "0", .placeholder = "N", .group = "Model and device",        \
     .target = offsetof(type, member), .low = 0, .high = 1024,                                                         \
     .help = "CPU threads; 0: all that this process may use."}

#define PRECISION_ROW(type, member)                                                                                    \
    {.name = "precision", .kind = OPTION_CHOICE, .fallback = "exact", .placeholder = "PRECISION",                      \
     .group = "Model and device", .target = offsetof(type, member), .choices = precision_names,                        \
     .help = "With engine max: exact; f16, faster, on a GPU; int8, faster and smaller, on a CPU; int8 or f8, faster "  \
             "than f16, on a GPU of compute capability 9.0."}

#define ENGINE_ROWS(type, engine_, device_, threads_, precision_)                                                      \
    {.name = "engine", .kind = OPTION_CHOICE, .fallback = "max", .placeholder = "ENGINE", .group = "Model and device", \
     .target = offsetof(type, engine_), .choices = engine_names,                                                       \
     .help = "max: compiled graph, fastest; cpu: reference, op by op on the CPU; gpu: op by op on CUDA."},             \
    DEVICE_ROW(type, device_, "Device to run on; the devices subcommand lists them."),                                 \
    THREADS_ROW(type, threads_),                                                                                       \
    PRECISION_ROW(type, precision_)

#define MODEL_ROWS(type, member)                                                                                       \
    MODEL_NAME_ROW(type, member.model),                                                                                \
    MODEL_DIR_ROW(type, member.model_dir),                                                                             \
    ENGINE_ROWS(type, member.engine, member.device, member.threads, member.precision)

/* Of the subcommands that measure or compare; none: greedy. */
#define BEAM_ROWS(type, beam_size_, greedy_)                                                                           \
    {.name = "beam-size", .kind = OPTION_WHOLE, .fallback = "5", .placeholder = "N", .group = "Decoding",              \
     .target = offsetof(type, beam_size_), .low = 1, .high = 100, .none = 1, .none_value = 0,                          \
     .help = "Number of beams; none: greedy."},                                                                        \
    {.name = "greedy", .kind = OPTION_FLAG, .fallback = "False", .group = "Decoding",                                  \
     .target = offsetof(type, greedy_), .help = "No beam search: the most likely token at every step."}
/* clang-format on */

#endif
