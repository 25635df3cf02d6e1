/* pipeline/pipeline.h - the door of pipeline/: the only folder that sees the whole road from samples to segments.
 *
 * mx_recognizer: a checkpoint with its tokenizer and its programs; immutable, shared by sessions and threads.
 * mx_session:    one recording: samples in, segments out; one thread at a time. */
#ifndef MX_PIPELINE_H
#define MX_PIPELINE_H
#include "audio/audio.h"
#include "exec/exec.h"
#include "text/text.h"
#include "weights/weights.h"

typedef struct mxw_model mx_recognizer;
typedef struct mxw_session mx_session;

typedef enum mx_part { MX_PART_ENCODER, MX_PART_CROSS, MX_PART_DECODER, MX_PART_FORCE, MX_PART_COUNT } mx_part;

/* What lab/ changes on the way, so that a fault can be made on purpose. A member that is NULL changes nothing. */
typedef struct mx_fault_hooks {
    const char *name;                 /* of the fault; lives as long as the process */
    void *context;                    /* the recognizer's, until it is closed */
    mxw_status (*graph)(void *context, mx_part part, mx_graph *g);             /* just built */
    mxw_status (*weight)(void *context, const char *name, mx_tensor *view);    /* as the checkpoint has it */
    void (*mel)(void *context, int64_t n_frames, int n_mels, float *window);   /* [n_frames][n_mels] */
    int64_t max_windows;              /* of a recording; 0: all */
    void (*free)(void *context);
} mx_fault_hooks;

mxw_status mx_recognizer_open(const mxw_model_options *options, mx_recognizer **out);
/* The same with a fault in it; what hooks->context holds is freed with the recognizer, or at once on failure. */
mxw_status mx_recognizer_open_with_faults(const mxw_model_options *options, const mx_fault_hooks *hooks,
                                          mx_recognizer **out);
void mx_recognizer_close(mx_recognizer *r);
void mx_recognizer_info(const mx_recognizer *r, mxw_model_info *info);
/* What its programs did so far; struct_size is left alone. */
void mx_recognizer_use(const mx_recognizer *r, mxw_model_use *use);
/* CRC-32 over the CRC-32s of its tensors, as `model inspect` has it; computed when first asked for. */
mxw_status mx_recognizer_crc32(mx_recognizer *r, uint32_t *crc);
const mx_text *mx_recognizer_text(const mx_recognizer *r);
const mx_weights *mx_recognizer_weights(const mx_recognizer *r);
const mx_program *mx_recognizer_program(const mx_recognizer *r, mx_part part);
/* The part's graph as text, and what the compiler made of it; E_NOT_FOUND for an unknown name. */
mxw_status mx_recognizer_graph(mx_recognizer *r, const char *name, const char **text);

/* Memory for so many sessions at once with these options; E_MEMORY takes none, and the model goes on as it was. */
mxw_status mx_recognizer_reserve(mx_recognizer *r, const mxw_session_options *options, int batch);

mxw_status mx_session_open(mx_recognizer *r, const mxw_session_options *options, mx_session **out);
void mx_session_close(mx_session *s);
/* The first window is not encoded: its features are these, [n_audio_ctx][n_audio_state]; they outlive the session. */
void mx_session_give(mx_session *s, const float *features);
mxw_status mx_session_feed(mx_session *s, const float *samples, size_t n);
mxw_status mx_session_feed_audio(mx_session *s, mx_audio *audio);
mxw_status mx_session_finish(mx_session *s);
mxw_status mx_session_next(mx_session *s, const mxw_segment **segment);
const mxw_result *mx_session_result(mx_session *s);
mxw_status mx_session_manifest(mx_session *s, const char **json);
mxw_status mx_session_resume(mx_session *s, const void *record, size_t n);

/* A checkpoint as one file that whisper.cpp loads: weights (matrices: MXW_F16 or MXW_F32), filter bank, tokens. */
mxw_status mx_export_ggml(const mx_weights *w, mxw_dtype matrices, const char *path);

/* For proof: the window of n_frames at seek, encoded and forced on given tokens after given prompt tokens.
 * logprobs[i] is that of tokens[i], logprobs[n_tokens] that of the end of text, under the session's rules; NaN where
 * the token was not among the best MX_FORCE_CANDIDATES. */
#define MX_FORCE_CANDIDATES 32
mxw_status mx_session_force(mx_session *s, int64_t seek, int64_t n_frames, const int32_t *prompt, size_t n_prompt,
                            const int32_t *tokens, size_t n_tokens, float *logprobs, float *no_speech_prob);
/* For proof: where each of n tokens of text begins in the window of n_frames at seek, in frames of 20 ms, and where the
 * last ends: frames [n + 1]; and how probable each is among all text: probabilities [n]. */
mxw_status mx_session_align(mx_session *s, int64_t seek, int64_t n_frames, const int32_t *tokens, size_t n,
                            int32_t *frames, double *probabilities);
/* The session's log-mel of a window, [2 n_audio_ctx][n_mels] as the encoder gets it, and its features
 * [n_audio_ctx][n_audio_state]; out holds that many floats. A tap, if any, sees the encoder's named values. */
mxw_status mx_session_mel(mx_session *s, int64_t seek, int64_t n_frames, float *out);
mxw_status mx_session_encode(mx_session *s, const float *mel, float *out, mx_tap_fn tap, void *tap_context);

/* One window seen from end to end (inspect.c): its mel, every named value of encoder and cross, its tokens (decoded as
 * the session would without a prompt, or as given), then every named value of the decoder forced over them. The tap
 * sees mel first, as "mel"; with word_timestamps last "words.attention", how well each token of text and the end fit
 * each frame of 20 ms, and "words.frames", where each begins. `watch` sees every op's call instead of its value; either
 * may be NULL. */
typedef struct mx_inspection {
    int64_t seek;                     /* in: first mel frame, of the recording */
    const int32_t *forced;            /* in: tokens, or NULL: the window's own */
    size_t n_forced;
    mx_tap_fn tap;
    mx_watch_fn watch;
    void *context;                    /* of both */
    const int32_t *tokens;            /* out: what the decoder was forced over; until the session's next window */
    size_t n_tokens;
    const char *language;             /* out: given or detected */
} mx_inspection;
mxw_status mx_session_inspect(mx_session *s, mx_inspection *inspection);
#endif
