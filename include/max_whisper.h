/* max_whisper.h - the whole public API of max-whisper: transcription, and the graph API.
 *
 * In: audio (any file through mxw_audio, or 16 kHz mono samples of your own) and a Whisper checkpoint.
 * Out: segments of text with times, or the outputs of a graph of your own.
 * What holds: the library never prints and never exits; every failure is a negative mxw_status, and
 * mxw_last_error() then names the file, option or tensor in one line. Option structs are filled by their
 * _default() call, which also sets struct_size, so they can grow without breaking a caller.
 *
 * Threads: an mxw_model is immutable and may be shared; an mxw_session, mxw_audio, mxw_graph or mxw_program
 * belongs to one thread at a time.
 */
#ifndef MAX_WHISPER_H
#define MAX_WHISPER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MXW_API __attribute__((visibility("default")))
#else
#define MXW_API
#endif

#define MXW_VERSION_MAJOR 0
#define MXW_VERSION_MINOR 1
#define MXW_VERSION_PATCH 0

/* ---- status ------------------------------------------------------------------------------------ */

/* Negative is failure, positive is news. Codes are only ever appended. */
#define MXW_STATUS_MAP(X)                                                      \
    X(OK, 0, "success")                                                        \
    X(END, 1, "nothing more to come")                                          \
    X(MORE, 2, "more audio is needed first")                                   \
    X(E_ARGUMENT, -1, "invalid argument")                                      \
    X(E_MEMORY, -2, "out of memory")                                           \
    X(E_IO, -3, "cannot read or write")                                        \
    X(E_FORMAT, -4, "malformed data")                                          \
    X(E_UNSUPPORTED, -5, "not supported")                                      \
    X(E_MISSING, -6, "something required is missing")                          \
    X(E_DEVICE, -7, "device not usable")                                       \
    X(E_STATE, -8, "call out of order")                                        \
    X(E_ABORTED, -9, "stopped on request")                                     \
    X(E_NOT_FOUND, -10, "not found")                                           \
    X(E_INTERNAL, -11, "internal error")

typedef enum mxw_status {
#define MXW_STATUS_ENUM_(name, code, message) MXW_##name = code,
    MXW_STATUS_MAP(MXW_STATUS_ENUM_)
#undef MXW_STATUS_ENUM_
} mxw_status;

MXW_API const char *mxw_version(void);                    /* "0.1.0" */
MXW_API const char *mxw_status_name(mxw_status status);   /* "E_FORMAT" */
MXW_API const char *mxw_status_text(mxw_status status);   /* "malformed data" */
/* One line about the last failure on this thread, "" if none. Valid until the next failure on this thread. */
MXW_API const char *mxw_last_error(void);

/* ---- log ----------------------------------------------------------------------------------------- */

typedef enum mxw_log_level { MXW_LOG_ERROR, MXW_LOG_WARN, MXW_LOG_INFO, MXW_LOG_DEBUG } mxw_log_level;

typedef struct mxw_log_record {
    mxw_log_level level;
    const char *component;   /* "audio", "weights", "decode", ... */
    const char *message;     /* one line, no newline */
    double elapsed_ms;       /* since logging was first set */
    double duration_ms;      /* of the work the message reports, or negative */
} mxw_log_record;

typedef void (*mxw_log_fn)(void *user, const mxw_log_record *record);
/* Process-wide; fn NULL turns logging off (the default). fn may be called from any thread, and must not call the
 * library. */
MXW_API void mxw_log_set(mxw_log_level level, mxw_log_fn fn, void *user);

/* ---- devices ------------------------------------------------------------------------------------- */

typedef enum mxw_engine {
    MXW_ENGINE_CPU = 0,   /* op by op on the CPU: the baseline and the oracle */
    MXW_ENGINE_GPU = 1,   /* op by op on CUDA */
    MXW_ENGINE_MAX = 2    /* the compiled graph */
} mxw_engine;

/* How engine max multiplies on a GPU: sums are f32 either way, and so is all that is not a product. */
typedef enum mxw_precision {
    MXW_PRECISION_EXACT = 0,   /* both factors to 22 bits; weights that are halves in the checkpoint are themselves */
    MXW_PRECISION_F16 = 1      /* both factors rounded to halves: faster */
} mxw_precision;

typedef struct mxw_device_info {
    const char *id;            /* "cpu", "cuda:0": what an option takes */
    const char *kind;          /* "cpu" or "cuda" */
    const char *description;   /* model of the processor */
    const char *features;      /* "avx2 fma f16c ..." */
    uint64_t memory_bytes;
    uint64_t memory_free_bytes;   /* of a GPU, now; 0: not known */
    int cores;                    /* multiprocessors of a GPU */
    int usable;                /* 1 if an engine can run there now */
    const char *reason;        /* why, or why not, in one line */
    uint64_t memory_limit_bytes;  /* that may be taken there: $MXW_DEVICE_MEMORY; 0: no limit but the device's own */
} mxw_device_info;

MXW_API int mxw_device_count(void);
MXW_API int mxw_accelerator_count(void);   /* usable devices that are not a CPU */
/* Strings live as long as the process. */
MXW_API mxw_status mxw_device_get(int index, mxw_device_info *info);

typedef struct mxw_device_peak {
    size_t struct_size;      /* set it to sizeof(mxw_device_peak) */
    double gflops;           /* f32 multiply-adds in registers (each counts two), all threads together, 1e9 a second */
    double read_gbs;         /* bytes read from memory, all threads together, 1e9 a second */
} mxw_device_peak;

/* What the device does at most, measured now with so many threads (0: as many as the process may use); takes some
 * tenths of a second. Only "cpu" can be measured. */
MXW_API mxw_status mxw_device_measure(const char *device, int threads, mxw_device_peak *peak);

/* ---- checkpoints: what is in a model file, without running it ------------------------------------- */

typedef enum mxw_dtype {
    MXW_F32 = 0, MXW_F16 = 1, MXW_BF16 = 2, MXW_I32 = 3, MXW_I8 = 4, MXW_U8 = 5, MXW_I64 = 6, MXW_F64 = 7
} mxw_dtype;

#define MXW_MAX_RANK 6

typedef struct mxw_dims {
    int32_t n_mels, n_audio_ctx, n_audio_state, n_audio_head, n_audio_layer;
    int32_t n_vocab, n_text_ctx, n_text_state, n_text_head, n_text_layer;
} mxw_dims;

typedef struct mxw_checkpoint_info {
    const char *path;      /* the weights file */
    const char *format;    /* "OpenAI .pt", "CTranslate2 model.bin", "Hugging Face safetensors" */
    const char *size_name; /* "tiny.en", "base", ...; "custom" if the dimensions are of no released model */
    mxw_dims dims;
    int multilingual;
    int n_languages;       /* 99 or 100; 0 when not multilingual */
    int64_t n_tensors, n_encoder_tensors, n_decoder_tensors;
    int64_t n_parameters;
    uint64_t file_bytes;
} mxw_checkpoint_info;

typedef struct mxw_tensor_info {
    const char *name;        /* canonical: "encoder.blocks.0.attn.query.weight" */
    const char *file_name;   /* the checkpoint's own name for it (or for the fused tensor that holds it) */
    mxw_dtype dtype;
    int rank;
    int64_t dims[MXW_MAX_RANK];
    uint64_t bytes;
    int mapped;              /* 1 if it can be read straight from the file's pages */
} mxw_tensor_info;

typedef struct mxw_checkpoint mxw_checkpoint;

/* name_or_path: a file, its folder, a released name ("tiny.en"), or OWNER/NAME of the Hugging Face hub. Names: in
 * model_dir, or (NULL) in mxw_model_dir and the caches of openai-whisper, Hugging Face and faster-whisper. */
MXW_API mxw_status mxw_checkpoint_open(const char *name_or_path, const char *model_dir, mxw_checkpoint **out);
MXW_API void mxw_checkpoint_close(mxw_checkpoint *checkpoint);
MXW_API mxw_status mxw_checkpoint_get_info(const mxw_checkpoint *checkpoint, mxw_checkpoint_info *info);
MXW_API mxw_status mxw_checkpoint_tensor(const mxw_checkpoint *checkpoint, int64_t index, mxw_tensor_info *info);
/* Index of a tensor by canonical name or by the checkpoint's own; negative status if there is none. */
MXW_API int64_t mxw_checkpoint_find(const mxw_checkpoint *checkpoint, const char *name);
/* The tensor widened to f32, row major; out holds n floats, which must be its element count. */
MXW_API mxw_status mxw_checkpoint_read_f32(const mxw_checkpoint *checkpoint, int64_t index, float *out, size_t n);
/* CRC-32 of the elements, row major, in their own dtype. */
MXW_API mxw_status mxw_checkpoint_crc32(const mxw_checkpoint *checkpoint, int64_t index, uint32_t *crc);
/* SHA-256 of the weights file (of an index: its files together); *published: of OpenAI's .pt of this size, or NULL. */
MXW_API mxw_status mxw_checkpoint_sha256(const mxw_checkpoint *checkpoint, char text[65], const char **published);
/* Weights and config as one .npz that numpy reads; written whole or not at all. */
MXW_API mxw_status mxw_checkpoint_export_npz(const mxw_checkpoint *checkpoint, const char *path);
/* Weights, filter bank and vocabulary as one file that whisper.cpp loads; matrices: MXW_F16 or MXW_F32. */
MXW_API mxw_status mxw_checkpoint_export_ggml(const mxw_checkpoint *checkpoint, mxw_dtype matrices, const char *path);

/* Where models live: option (may be NULL), else $MAX_WHISPER_MODELS, else $XDG_CACHE_HOME/max-whisper/models,
 * else ~/.cache/max-whisper/models. Returned string is valid until the next call on this thread. */
MXW_API const char *mxw_model_dir(const char *option);
/* The released sizes, in order; NULL past the end. *path is where it was found, or NULL if it is not there. */
MXW_API const char *mxw_model_name(int index, const char *model_dir, const char **path);
/* Place `which` of those where a released model lies, in the order of the search; NULL past the last. *source (may be
 * NULL): "max-whisper", "openai-whisper", "Hugging Face", "faster-whisper". Valid until the thread's next call. */
MXW_API const char *mxw_model_place(int index, const char *model_dir, int which, const char **source);
/* Models from the Hugging Face hub. */
typedef struct mxw_fetch_options {
    size_t struct_size;
    const char *model_dir, *revision;   /* where to put it, NULL: mxw_model_dir; branch, tag or commit, NULL: main */
    const char *hub;         /* address of the hub or a mirror; NULL: $MAX_WHISPER_HUB, $HF_ENDPOINT, huggingface.co */
    int faster_whisper, again;   /* 1: CTranslate2's form, not safetensors; 1: even if it was found on this machine */
    int stall_s;             /* a transfer that brings nothing for so many seconds is begun again; 0: 30 */
    /* May be NULL; bytes of all files; file is NULL while the hub is asked for the list. Non-zero stops (E_ABORTED). */
    int (*progress)(void *user, const char *file, uint64_t bytes_done, uint64_t bytes_total);
    void *user;
} mxw_fetch_options;
MXW_API void mxw_fetch_options_default(mxw_fetch_options *options);
/* A released name, or OWNER/NAME of any Whisper on the hub, into the model folder; checked against the hub's sizes and
 * SHA-256 and opened once before it appears; resumed where it broke off. path (may be NULL): where the weights lie. */
MXW_API mxw_status mxw_model_fetch(const char *name, const mxw_fetch_options *options, char *path, size_t n);

/* ---- models -------------------------------------------------------------------------------------- */

typedef struct mxw_model mxw_model;

/* One op of a run as it was timed, or a whole run of a graph (op is "run"). Strings live as long as the model. */
typedef struct mxw_trace_event {
    const char *graph;       /* "encoder", "cross", "decoder", "force" */
    const char *op;
    const char *name;        /* of the value it makes; NULL if it has none */
    const char *kernel;      /* what ran it */
    const char *device;
    const char *shape;       /* of its result: "f32 [1, 1500, 384]"; valid during the call */
    int64_t start_ns;        /* of the monotonic clock */
    int64_t duration_ns;
    uint64_t bytes;          /* that it must read and write; of caches and tables the rows it looks at */
    int thread;              /* which of the calling threads, counted from 0 */
    double flops;            /* of its products and attention: a multiplication with an addition counts two */
} mxw_trace_event;

typedef struct mxw_model_options {
    size_t struct_size;
    const char *model;       /* name or path */
    const char *model_dir;   /* NULL: mxw_model_dir */
    mxw_engine engine;       /* MAX */
    const char *device;      /* "auto", "cpu", "cuda", "cuda:1" */
    int threads;             /* 0: as many as the process may use */
    int batch;               /* 1 (the default) to 256: so many sessions at once, each on a thread of its own, are run
                                together, which is faster than one after another and gives the same results. Memory for
                                all is taken when the first opens, or by mxw_model_reserve; more, or one that searches
                                wider, run apart. */
    int keep_names;          /* 1: engine max keeps every named value, so that stages inside can be seen; fuses less */
    /* Called after every op of every run, on the thread that ran it (several at once if sessions do); NULL: none. */
    void (*on_trace)(void *user, const mxw_trace_event *event);
    void *trace_user;
    mxw_precision precision; /* EXACT; F16 is for engine max on a GPU */
    int encode_engine;       /* -1: as engine; else the mxw_engine that runs the encoder, which may be another ... */
    const char *encode_device;   /* ... and on another device; NULL: "auto" */
    const char *inject;      /* NULL, or a fault to make on purpose (mxw_fault_name), to test what should find it */
} mxw_model_options;

typedef struct mxw_model_info {
    mxw_checkpoint_info checkpoint;
    mxw_engine engine;
    const char *device;     /* id of the device in use */
    int threads;
    int fallbacks;          /* substituted weights, features or text: always 0 */
    double load_ms, compile_ms;
    mxw_precision precision;
    const char *injected;   /* NULL, or the fault that was asked for: what comes out is wrong on purpose */
} mxw_model_info;

MXW_API void mxw_model_options_default(mxw_model_options *options);
MXW_API mxw_status mxw_model_open(const mxw_model_options *options, mxw_model **out);
MXW_API void mxw_model_close(mxw_model *model);
MXW_API mxw_status mxw_model_get_info(const mxw_model *model, mxw_model_info *info);

/* What the model's programs did since it was opened, all sessions together: for figures. */
typedef struct mxw_stage_use {
    int64_t runs;            /* times that it ran */
    int64_t items;           /* windows, or rows of the decoder, in all of them */
    int64_t cells;           /* of the decoder: cached positions that its rows looked at */
    double ms;               /* in all */
} mxw_stage_use;

typedef struct mxw_model_use {
    size_t struct_size;      /* set it to sizeof(mxw_model_use) */
    mxw_stage_use encode;    /* log-mel to features */
    mxw_stage_use cross;     /* features to the decoder's keys and values */
    mxw_stage_use prompt;    /* the decoder, at the beginning of a window */
    mxw_stage_use step;      /* the decoder, one token further */
    mxw_stage_use force;     /* the decoder on known tokens: word times and log probabilities */
} mxw_model_use;

MXW_API mxw_status mxw_model_get_use(const mxw_model *model, mxw_model_use *use);

/* Languages: 100 of them; code "en", name "english"; NULL past the end. */
MXW_API const char *mxw_language_code(int index);
MXW_API const char *mxw_language_name(int index);
/* Accepts a code, a name or an alias in any case ("castilian"); returns the code, NULL if unknown. */
MXW_API const char *mxw_language_find(const char *code_or_name);

/* Text to token ids as the model's tokenizer does, special tokens in the text refused.
 * *n is the capacity on entry and the count on return (E_ARGUMENT if it did not fit). */
MXW_API mxw_status mxw_model_encode(const mxw_model *model, const char *text, int32_t *tokens, size_t *n);
/* Ids to UTF-8, special tokens skipped, incomplete sequences as U+FFFD; *n as above, in bytes with the 0. */
MXW_API mxw_status mxw_model_decode(const mxw_model *model, const int32_t *tokens, size_t n_tokens, char *text,
                                    size_t *n);

/* ---- audio --------------------------------------------------------------------------------------- */

#define MXW_SAMPLE_RATE 16000

typedef struct mxw_audio mxw_audio;

typedef struct mxw_audio_options {
    size_t struct_size;
    const char *path;   /* a file, or "-" for standard input */
    int channel;        /* 0: all of them mixed into one; 1 (left), 2 (right), ...: that one alone */
    int track;          /* 0: the default one, as ffmpeg chooses; 1, 2, ...: of the audio tracks, in the file's order */
} mxw_audio_options;

typedef struct mxw_audio_info {
    const char *path;
    const char *container;   /* "wav", "mov,mp4,m4a,...", ... */
    const char *codec;       /* "pcm_s16le", "aac", ... */
    int sample_rate;         /* of the source */
    int channels;            /* of the source */
    double duration_s;       /* as the container states it, negative if it does not */
    int tracks;              /* audio tracks in the file */
    double start_s;          /* where the track begins on the container's clock: late sound in a film */
} mxw_audio_info;

MXW_API void mxw_audio_options_default(mxw_audio_options *options);
MXW_API mxw_status mxw_audio_open(const mxw_audio_options *options, mxw_audio **out);
MXW_API void mxw_audio_close(mxw_audio *audio);
MXW_API mxw_status mxw_audio_get_info(const mxw_audio *audio, mxw_audio_info *info);
/* Up to n samples, 16 kHz mono, multiples of 1/32768 in [-1, 1). *got 0 at the end. */
MXW_API mxw_status mxw_audio_read(mxw_audio *audio, float *samples, size_t n, size_t *got);

/* ---- transcription ------------------------------------------------------------------------------- */

typedef struct mxw_session mxw_session;
typedef struct mxw_features mxw_features;   /* see the laboratory */

typedef enum mxw_task { MXW_TRANSCRIBE = 0, MXW_TRANSLATE = 1 } mxw_task;
/* Whisper clamps its log-mel against the maximum of the whole file. FILE does exactly that: text comes once
 * finish was called. RUNNING clamps against the maximum heard so far: text comes as soon as a window is full,
 * and is not bit-equal to the reference. */
typedef enum mxw_mel_reference { MXW_MEL_FILE = 0, MXW_MEL_RUNNING = 1 } mxw_mel_reference;

typedef struct mxw_word {
    double start, end;           /* seconds */
    const char *word;            /* UTF-8, with its punctuation and, in most languages, the blank before it */
    double probability;          /* mean of its tokens', without the punctuation that joined it */
} mxw_word;

/* A token that was chosen, or one that was not. */
typedef struct mxw_token {
    int32_t id;
    double logprob;              /* under the rules that held there, at temperature 1 */
    const char *text;            /* UTF-8; what is not whole characters is U+FFFD, a timestamp "<|1.08|>" */
} mxw_token;

typedef struct mxw_segment {
    int64_t id;
    int64_t seek;                /* first mel frame of the window it came from (10 ms each) */
    double start, end;           /* seconds */
    const char *text;            /* UTF-8, as decoded: usually with a leading space */
    const int32_t *tokens;
    size_t n_tokens;
    double temperature;
    double avg_logprob;
    double compression_ratio;
    double no_speech_prob;
    int channel;                 /* 0, or of the recording, as the session was told */
    const char *speaker;         /* NULL, or what the session was told to call it */
    const mxw_word *words;       /* NULL unless word_timestamps was asked for */
    size_t n_words;
    const mxw_token *details;    /* [n_tokens] of tokens; NULL unless token_details was asked for */
    const mxw_token *alternatives; /* [n_tokens][n_alternatives]: the best there, best first; id -1: no more */
    size_t n_alternatives;
} mxw_segment;

typedef struct mxw_stage_times {
    double load_ms, compile_ms;               /* of the model */
    double audio_ms, mel_ms, encode_ms, decode_ms;
    double total_ms;                          /* from session open to the last segment; load and compile not in it */
    int64_t first_encode_ns;                  /* CLOCK_MONOTONIC when the first window was encoded; 0: none was */
    double words_ms;                          /* of word times */
} mxw_stage_times;

typedef struct mxw_result {
    const char *text;            /* of the whole recording */
    const char *language;        /* code */
    double language_probability; /* of the detected language, or negative if it was given */
    const mxw_segment *segments;
    size_t n_segments;
    double duration_s;           /* of the samples fed */
    int64_t n_windows;           /* decoded, fallbacks not counted again */
    int64_t n_fallbacks_temperature; /* windows decoded again at a higher temperature */
    int fallbacks;               /* substituted weights, features or text: always 0 */
    mxw_stage_times times;
} mxw_result;

typedef struct mxw_progress {
    const char *stage;           /* "audio" or "text" */
    double done_s, total_s;      /* of the recording; total negative while unknown */
    double elapsed_s;            /* since the session was opened */
} mxw_progress;

/* Numbers that may be "none" take MXW_NONE. */
#define MXW_NONE (-1e30)
#define MXW_PREPEND_PUNCTUATIONS "\"'“¿([{-"
#define MXW_APPEND_PUNCTUATIONS "\"'.。,，!！?？:：”)]}、"

typedef struct mxw_session_options {
    size_t struct_size;
    mxw_task task;
    const char *language;                /* code or name; NULL: detect ("en" for an .en model) */
    double temperature;                  /* 0 */
    double temperature_increment;        /* 0.2; MXW_NONE: no fallback */
    int best_of;                         /* 5: candidates when sampling */
    int beam_size;                       /* 5; 0: greedy */
    double patience;                     /* MXW_NONE: 1 */
    double length_penalty;               /* MXW_NONE: plain length */
    const char *suppress_tokens;         /* "-1": the non-speech symbols; "": none; or ids "1,2,3" */
    int suppress_blank;                  /* 1 */
    const char *initial_prompt;          /* NULL */
    int carry_initial_prompt;            /* 0 */
    const char *prefix;                  /* NULL; text that each window is taken to begin with; not in the result */
    int condition_on_previous_text;      /* 1 */
    double compression_ratio_threshold;  /* 2.4, or MXW_NONE */
    double logprob_threshold;            /* -1, or MXW_NONE */
    double no_speech_threshold;          /* 0.6, or MXW_NONE */
    int sample_len;                      /* 0: half the text context (224) */
    int without_timestamps;              /* 0 */
    double max_initial_timestamp;        /* 1.0, or MXW_NONE */
    const char *clip_timestamps;         /* "0": start,end,start,end,... in seconds */
    uint64_t seed;                       /* 0: of the sampling at temperature > 0 */
    mxw_mel_reference mel_reference;     /* FILE */
    void *user;                          /* handed to the callbacks */
    void (*on_progress)(void *user, const mxw_progress *progress);
    void (*on_segment)(void *user, const mxw_segment *segment);
    int (*should_abort)(void *user);     /* non-zero stops after the current step: E_ABORTED */
    double start_s;                      /* 0: the first sample's time, as mxw_audio_info has it; segments and
                                          * clip_timestamps are on that clock */
    int channel;                         /* 0; put on every segment, as is: */
    const char *speaker;                 /* NULL; text formats write it in brackets before each segment's text */
    int word_timestamps;                 /* 0; 1: words with times, and windows that begin where words end */
    const char *prepend_punctuations;    /* MXW_PREPEND_PUNCTUATIONS: joined to the word after them */
    const char *append_punctuations;     /* MXW_APPEND_PUNCTUATIONS: joined to the word before them */
    double hallucination_silence_threshold; /* MXW_NONE; seconds of silence around a doubtful segment that make it be
                                             * left out; needs word_timestamps */
    int token_details;                   /* 0; 1 to 32: log probabilities of all tokens, and so many alternatives */
    /* NULL; called when a window is done, with a record of it that mxw_session_replay takes; valid during the call.
     * Not with mel_reference RUNNING. */
    void (*on_window)(void *user, const void *record, size_t n);
    const mxw_features *features;        /* NULL; else the first window is not encoded: "encoder.ln_post" in here is
                                          * taken for its features. Must outlive the session. */
} mxw_session_options;

MXW_API void mxw_session_options_default(mxw_session_options *options);
/* Takes the memory that `batch` sessions with these options (NULL: the default) need at once; from then on that is the
 * model's batch. E_MEMORY: the device has not so much; the line says how much was asked for what and how much is free,
 * everything taken is given back, and a smaller batch may be asked for, here and now. E_STATE: sessions are open. */
MXW_API mxw_status mxw_model_reserve(mxw_model *model, const mxw_session_options *options, int batch);
/* The model must outlive the session. Strings in the options are copied. */
MXW_API mxw_status mxw_session_open(mxw_model *model, const mxw_session_options *options, mxw_session **out);
MXW_API void mxw_session_close(mxw_session *session);
/* 16 kHz mono samples in [-1, 1], any number at a time. */
MXW_API mxw_status mxw_session_feed(mxw_session *session, const float *samples, size_t n);
/* Feeds all of an audio source, with progress. */
MXW_API mxw_status mxw_session_feed_audio(mxw_session *session, mxw_audio *audio);
MXW_API mxw_status mxw_session_finish(mxw_session *session);
/* The next segment: OK with *segment set, END when all are given, MORE when audio must be fed (or finished)
 * first. *segment is valid until the next mxw_session_next, its text, tokens and words until the session is closed. */
MXW_API mxw_status mxw_session_next(mxw_session *session, const mxw_segment **segment);
/* Everything so far; complete once next has returned END. Owned by the session. NULL when memory runs out. */
MXW_API const mxw_result *mxw_session_result(mxw_session *session);
/* How the run is made, as a JSON object: version, model with its SHA-256, engine, device, every option; so that it can
 * be repeated. The model's file is read for it, once. Owned by the session, valid until it is closed. */
MXW_API mxw_status mxw_session_manifest(mxw_session *session, const char **json);
/* To go on where an earlier session stopped, or was killed: after finish and before the first next, give its records
 * back, from the first on in their order. Each stands for a window that is not decoded again; next and the result are
 * as if it had been, to the last bit. The session must have on_window, too, and be of the same model (its weights),
 * options and samples: E_ARGUMENT says which is not. E_FORMAT: not a record. A record that was refused changes
 * nothing; what follows the last good one is decoded. Keep records whole: a checksum of each is the caller's. */
MXW_API mxw_status mxw_session_replay(mxw_session *session, const void *record, size_t n);

/* Results of the channels of one recording as one: segments in the order of their starts, those of one channel in their
 * own order, numbered anew; of languages the first channel's. What is added is copied; the order of adding does not
 * matter. */
typedef struct mxw_merge mxw_merge;
MXW_API mxw_status mxw_merge_open(mxw_merge **out);
MXW_API void mxw_merge_close(mxw_merge *merge);
MXW_API mxw_status mxw_merge_add(mxw_merge *merge, int channel, const mxw_result *result);
/* Of all added so far; valid until the next is added. NULL when memory runs out. */
MXW_API const mxw_result *mxw_merge_result(mxw_merge *merge);

/* ---- output -------------------------------------------------------------------------------------- */

/* A format by name: "txt", "srt", "vtt", "tsv", "json" (as openai-whisper writes them), "csv", "lrc", "ass", "jsonl",
 * "json-full". NULL past the end. */
MXW_API const char *mxw_format_name(int index);

typedef struct mxw_write_options {
    size_t struct_size;
    int max_line_width;          /* 0; of subtitles whose words have times: characters of a line, */
    int max_line_count;          /* 0; lines of a cue (with a width, cues no longer end where segments do), */
    int max_words_per_line;      /* 0; words of a cue */
    int highlight_words;         /* 0; 1: a cue for each word, in which it is underlined */
    const char *manifest;        /* NULL; of json-full: JSON that says how the run was made (mxw_session_manifest) */
} mxw_write_options;
MXW_API void mxw_write_options_default(mxw_write_options *options);
typedef int (*mxw_write_fn)(void *user, const void *bytes, size_t n);   /* 0, or non-zero to stop */
MXW_API mxw_status mxw_result_write(const mxw_result *result, const char *format, mxw_write_fn fn, void *user);
/* Like it, to a file that appears whole or not at all. */
MXW_API mxw_status mxw_result_save(const mxw_result *result, const char *format, const char *path);
/* Both with options; NULL: the defaults. */
MXW_API mxw_status mxw_result_write_as(const mxw_result *result, const char *format, const mxw_write_options *options,
                                       mxw_write_fn fn, void *user);
MXW_API mxw_status mxw_result_save_as(const mxw_result *result, const char *format, const mxw_write_options *options,
                                      const char *path);
/* One segment as its line of jsonl, when it comes. */
MXW_API mxw_status mxw_segment_write(const mxw_segment *segment, mxw_write_fn fn, void *user);

/* ---- graphs -------------------------------------------------------------------------------------- */

/* Describe a computation once, then run it on any engine. Values are numbered; 0 is "none". A mistake is refused where
 * it is made: the builder returns 0, mxw_graph_status() fails from then on, and mxw_graph_error() says which op, what
 * it expected and what it got. Arithmetic takes f32 or i32, both operands alike; layers take f32; ops that only move
 * elements take any dtype. Nothing is converted unasked. A negative axis counts from the end. Every name of a graph is
 * given once. Results are the same bits for any number of threads, and for an entry alone or in a batch. */
typedef struct mxw_graph mxw_graph;
typedef struct mxw_program mxw_program;
typedef int32_t mxw_value;

typedef struct mxw_tensor {
    mxw_dtype dtype;
    int rank;
    int64_t dims[MXW_MAX_RANK];
    void *data;              /* row major, host memory */
} mxw_tensor;

typedef enum mxw_gelu_kind { MXW_GELU_ERF = 0, MXW_GELU_TANH = 1 } mxw_gelu_kind;
typedef enum mxw_reduce_kind {
    MXW_REDUCE_SUM = 0, MXW_REDUCE_MEAN = 1, MXW_REDUCE_MAX = 2, MXW_REDUCE_MIN = 3
} mxw_reduce_kind;

MXW_API mxw_status mxw_graph_create(const char *name, mxw_graph **out);
MXW_API void mxw_graph_destroy(mxw_graph *graph);
MXW_API mxw_status mxw_graph_status(const mxw_graph *graph);
MXW_API const char *mxw_graph_error(const mxw_graph *graph);
/* The graph as text; *text is owned by the graph and valid until it changes. */
MXW_API mxw_status mxw_graph_print(mxw_graph *graph, const char **text);

/* A size that stays open until run time; use the result as a dimension. At most max. */
MXW_API int64_t mxw_graph_size(mxw_graph *graph, const char *name, int64_t max);
MXW_API mxw_value mxw_graph_input(mxw_graph *graph, const char *name, mxw_dtype dtype, int rank, const int64_t *dims);
/* The data is copied. */
MXW_API mxw_value mxw_graph_constant(mxw_graph *graph, const char *name, const mxw_tensor *tensor);
/* Memory that lasts from run to run, zero at first (a key-value cache); changed by mxw_graph_state_write. */
MXW_API mxw_value mxw_graph_state(mxw_graph *graph, const char *name, mxw_dtype dtype, int rank, const int64_t *dims);
MXW_API mxw_status mxw_graph_output(mxw_graph *graph, const char *name, mxw_value value);

MXW_API mxw_value mxw_graph_matmul(mxw_graph *g, mxw_value a, mxw_value b);   /* [..,m,k] x [..,k,n] */
/* x W^T + b; W [out,in]; bias may be 0 */
MXW_API mxw_value mxw_graph_linear(mxw_graph *g, mxw_value x, mxw_value weight, mxw_value bias);
MXW_API mxw_value mxw_graph_transpose(mxw_graph *g, mxw_value x);              /* the last two axes */
MXW_API mxw_value mxw_graph_permute(mxw_graph *g, mxw_value x, const int *axes);
/* One size may be -1: what is left. */
MXW_API mxw_value mxw_graph_reshape(mxw_graph *g, mxw_value x, int rank, const int64_t *dims);
MXW_API mxw_value mxw_graph_add(mxw_graph *g, mxw_value a, mxw_value b);       /* these four broadcast as numpy does */
MXW_API mxw_value mxw_graph_sub(mxw_graph *g, mxw_value a, mxw_value b);
MXW_API mxw_value mxw_graph_mul(mxw_graph *g, mxw_value a, mxw_value b);
MXW_API mxw_value mxw_graph_div(mxw_graph *g, mxw_value a, mxw_value b);
MXW_API mxw_value mxw_graph_layer_norm(mxw_graph *g, mxw_value x, mxw_value gamma, mxw_value beta, double eps);
MXW_API mxw_value mxw_graph_gelu(mxw_graph *g, mxw_value x, mxw_gelu_kind kind);
MXW_API mxw_value mxw_graph_softmax(mxw_graph *g, mxw_value x);                /* over the last axis */
/* start:stop:step as numpy takes them (negative ends count from the end, what lies outside is cut); step 1 or more;
 * stop INT64_MAX: to the end. */
MXW_API mxw_value mxw_graph_slice(mxw_graph *g, mxw_value x, int axis, int64_t start, int64_t stop, int64_t step);
MXW_API mxw_value mxw_graph_concat(mxw_graph *g, const mxw_value *values, int n, int axis);
MXW_API mxw_value mxw_graph_gather(mxw_graph *g, mxw_value table, mxw_value index);  /* rows of axis 0; index i32 */
/* To an integer: towards zero, saturated, NaN is 0. */
MXW_API mxw_value mxw_graph_cast(mxw_graph *g, mxw_value x, mxw_dtype dtype);
/* Over one axis, which goes away. */
MXW_API mxw_value mxw_graph_reduce(mxw_graph *g, mxw_value x, mxw_reduce_kind kind, int axis);
MXW_API mxw_value mxw_graph_argmax(mxw_graph *g, mxw_value x);                 /* over the last axis: i32 */
/* The k largest of the last axis, largest first, ties by lower index: values in out[0], i32 indices in out[1]. */
MXW_API mxw_status mxw_graph_top_k(mxw_graph *g, mxw_value x, int64_t k, mxw_value out[2]);
/* x [n,t,c_in], weight [c_out,c_in,k], bias [c_out] or 0 -> [n,t',c_out] */
MXW_API mxw_value mxw_graph_conv1d(mxw_graph *g, mxw_value x, mxw_value weight, mxw_value bias, int stride, int pad);
/* x NHWC, weight RSCF (height, width, in, out), bias [out] or 0 */
MXW_API mxw_value mxw_graph_conv2d(mxw_graph *g, mxw_value x, mxw_value weight, mxw_value bias, const int stride[2],
                                   const int pad[2]);
/* q [n,t,d], k and v [n,s,d]; heads side by side in d; softmax(q k^T scale) v per head; causal: key j <= query
 * i + s - t */
MXW_API mxw_value mxw_graph_attention(mxw_graph *g, mxw_value q, mxw_value k, mxw_value v, int heads, double scale,
                                      int causal);
/* One query per row over a cache. Row r attends to positions 0..pos[r] of its sequence seq[r]; position p of sequence s
 * lies in cache row cells[s][p]. q [rows,d], k and v [cells,d], seq and pos i32 [rows], cells i32 [sequences,ctx]. */
MXW_API mxw_value mxw_graph_attention_cached(mxw_graph *g, mxw_value q, mxw_value k, mxw_value v, mxw_value seq,
                                             mxw_value pos, mxw_value cells, int heads, double scale);
/* One query per row over all of a window's keys: q [rows,d], k and v [windows,t,d], window i32 [rows]. */
MXW_API mxw_value mxw_graph_attention_window(mxw_graph *g, mxw_value q, mxw_value k, mxw_value v, mxw_value window,
                                             int heads, double scale);
/* What a query compares before any softmax: scale q k^T of the chosen heads. q [rows,d], k [windows,t,d], head i32 [n],
 * window i32 [rows] -> [rows,n,t]. */
MXW_API mxw_value mxw_graph_attention_scores(mxw_graph *g, mxw_value q, mxw_value k, mxw_value head, mxw_value window,
                                             int heads, double scale);
/* state[index[i]] = x[i] along axis 0; the result is the state after the write, and so is every later reading of it.
 * x must not be the state itself. */
MXW_API mxw_value mxw_graph_state_write(mxw_graph *g, mxw_value state, mxw_value x, mxw_value index);

typedef struct mxw_program_options {
    size_t struct_size;
    mxw_engine engine;       /* MAX */
    const char *device;
    int threads;
    mxw_precision precision; /* EXACT */
} mxw_program_options;

MXW_API void mxw_program_options_default(mxw_program_options *options);
/* The program holds the graph: it may be destroyed, but nothing can be added to it while the program lives. */
MXW_API mxw_status mxw_program_compile(const mxw_graph *graph, const mxw_program_options *options, mxw_program **out);
MXW_API void mxw_program_destroy(mxw_program *program);
/* Inputs and outputs in the order they were declared. Outputs point into the program and are valid until the
 * next execute. */
MXW_API mxw_status mxw_program_execute(mxw_program *program, const mxw_tensor *inputs, int n_inputs,
                                       mxw_tensor *outputs, int n_outputs);
/* A graph of a model as text: which = "encoder", "cross", "decoder", "force". With engine max also what it was compiled
 * to: the graph after fusion, the kernel of each node, memory with and without the plan. Owned by the model. */
MXW_API mxw_status mxw_model_graph(const mxw_model *model, const char *which, const char **text);

/* ---- laboratory: what a run computes, stage by stage ------------------------------------------------ */

/* mxw_features: named tensors of one run, in the order in which they were computed: the log-mel ("mel") of one window,
 * every stage of the encoder ("encoder.conv1", "encoder.blocks.0.attn.q", ...), the cross keys and values, every stage
 * of the decoder forced over the window's tokens, its candidates, those tokens; and of the whole recording the windows,
 * tokens and text. Immutable. */

typedef struct mxw_feature {
    const char *name;
    mxw_tensor tensor;           /* f32; ids i32, text u8 */
    double mean, std, min, max, l2;   /* of the finite elements, in float64 */
    int64_t n_not_finite;
} mxw_feature;

typedef struct mxw_features_options {
    size_t struct_size;
    int64_t seek;                /* 0: first mel frame (10 ms each) of the window */
    const mxw_features *like;    /* NULL; else the decoder is forced over the tokens that it has, not over its own */
    int whole;                   /* 1: the whole recording is transcribed too */
    const mxw_session_options *session;   /* NULL: the defaults */
} mxw_features_options;

MXW_API void mxw_features_options_default(mxw_features_options *options);
/* Runs the model over 16 kHz mono samples. An engine that fuses shows what is left: keep_names shows all. */
MXW_API mxw_status mxw_features_capture(mxw_model *model, const float *samples, size_t n,
                                        const mxw_features_options *options, mxw_features **out);
/* A .npz, ours or a stranger's; numbers only. */
MXW_API mxw_status mxw_features_open(const char *path, mxw_features **out);
/* As .npz that numpy reads: written whole or not at all. */
MXW_API mxw_status mxw_features_save(const mxw_features *features, const char *path);
MXW_API void mxw_features_close(mxw_features *features);
MXW_API size_t mxw_features_count(const mxw_features *features);
MXW_API mxw_status mxw_features_get(const mxw_features *features, size_t index, mxw_feature *feature);
/* Index by name; negative status if there is none. */
MXW_API int64_t mxw_features_find(const mxw_features *features, const char *name);
/* What is known of the run: "model", "engine", "device", "language", "injected", "text"; NULL if not known. */
MXW_API const char *mxw_features_note(const mxw_features *features, const char *key);

/* One stage of two runs. What is compared is b against a. */
typedef struct mxw_difference {
    const char *name;
    const char *apart;           /* NULL; else why there are no numbers: only in one of them, other shapes */
    double cosine, l2;           /* l2: of b - a */
    double relative;             /* l2 over the l2 of a */
    double mean_abs, max_abs, mean_shift, std_ratio;
    double bound;                /* on `relative`: beyond what rounding explains; see docs/lab.md */
    int bad;                     /* 1: beyond it, or apart in a way that matters */
} mxw_difference;

typedef struct mxw_comparison mxw_comparison;
MXW_API mxw_status mxw_comparison_open(const mxw_features *a, const mxw_features *b, mxw_comparison **out);
MXW_API void mxw_comparison_close(mxw_comparison *comparison);
MXW_API size_t mxw_comparison_count(const mxw_comparison *comparison);
MXW_API mxw_status mxw_comparison_get(const mxw_comparison *comparison, size_t index, mxw_difference *difference);

/* Where b parts from a, and what kind of fault it looks like. The checkpoint, if given, lets products be made again. */
typedef struct mxw_finding {
    int64_t index;               /* of the comparison: the first bad stage; negative: none */
    const char *stage;           /* its name, or NULL */
    const char *fault;           /* "scale", "missing operation", ...; one of a short list, or NULL */
    const char *words;           /* one sentence with the figures it rests on */
} mxw_finding;
/* Strings live as long as the comparison. */
MXW_API mxw_status mxw_comparison_diagnose(mxw_comparison *comparison, const mxw_checkpoint *checkpoint,
                                           mxw_finding *finding);

/* Faults that mxw_model_options.inject makes: name and what it does; NULL past the end. */
MXW_API const char *mxw_fault_name(int index, const char **what);

/* Every op of a window of engine cpu against the same in float64. */
typedef struct mxw_op_check {
    const char *op;
    int64_t calls, outputs, checked;   /* outputs: elements; checked: of them */
    double max_abs, max_relative, max_ulp;
    double of_bound;             /* the largest share of an output's own bound; above 1: wrong */
    const char *worst;           /* the stage where it was */
    const char *bound;           /* where the bound comes from */
} mxw_op_check;

typedef struct mxw_op_checks mxw_op_checks;
/* all: every output; else about 4,096 of each call. */
MXW_API mxw_status mxw_op_checks_open(mxw_model *model, const float *samples, size_t n, int all, mxw_op_checks **out);
MXW_API void mxw_op_checks_close(mxw_op_checks *checks);
MXW_API size_t mxw_op_checks_count(const mxw_op_checks *checks);
MXW_API mxw_status mxw_op_checks_get(const mxw_op_checks *checks, size_t index, mxw_op_check *check);

#ifdef __cplusplus
}
#endif
#endif
