/* pipeline/pipeline.h - public header of pipeline/, the only folder that sees the whole path from samples to segments.
 *
 * mx_recognizer: a checkpoint with its tokenizer and its programs; immutable, shared by sessions and threads.
 * mx_session:    one recording: samples in, segments out; one thread at a time.
 * mx_live:       one stream, while it is spoken: samples in, events out; one thread at a time. */
#ifndef MX_PIPELINE_H
#define MX_PIPELINE_H
#include "audio/audio.h"
#include "exec/exec.h"
#include "max_whisper/lab.h"
#include "max_whisper/live.h"
#include "max_whisper/window.h"
#include "text/text.h"
#include "weights/weights.h"

typedef struct mxw_model mx_recognizer;
typedef struct mxw_session mx_session;
typedef struct mxw_live mx_live;

typedef enum mx_part { MX_PART_ENCODER, MX_PART_CROSS, MX_PART_DECODER, MX_PART_FORCE, MX_PART_COUNT } mx_part;

mxw_status mx_recognizer_open(const mxw_model_options *options, const mxw_lab_options *lab, mx_recognizer **out);
void mx_recognizer_close(mx_recognizer *r);
void mx_recognizer_info(const mx_recognizer *r, mxw_model_info *info);
const char *mx_recognizer_fault(const mx_recognizer *r);   /* name of the injected fault, or NULL */
mxw_stage_counters mx_recognizer_counters(const mx_recognizer *r, mxw_stage stage);
/* CRC-32 over the CRC-32s of its tensors, as `model inspect` has it; computed on first use. */
mxw_status mx_recognizer_crc32(mx_recognizer *r, uint32_t *crc);
const mx_text *mx_recognizer_text(const mx_recognizer *r);
const mx_weights *mx_recognizer_weights(const mx_recognizer *r);
const mx_program *mx_recognizer_program(const mx_recognizer *r, mx_part part);
/* The part's graph as text, and what the compiler made of it; E_NOT_FOUND for an unknown name. */
mxw_status mx_recognizer_graph(mx_recognizer *r, const char *name, const char **text);

/* Reserves memory for `batch` sessions at once with these options; on E_MEMORY nothing changes. */
mxw_status mx_recognizer_reserve(mx_recognizer *r, const mxw_session_options *options, int batch);

mxw_status mx_session_open(mx_recognizer *r, const mxw_session_options *options, mx_session **out);
void mx_session_close(mx_session *s);
/* The first window is not encoded; these are its features, [n_audio_ctx][n_audio_state], which must outlive s. */
void mx_session_set_features(mx_session *s, const float *features);
/* Shows each word that the guard judges; E_STATE without a guard, or with lanes. */
mxw_status mx_session_watch_guard(mx_session *s, mxw_evidence_fn fn, void *user);
mxw_status mx_session_feed(mx_session *s, const float *samples, size_t n);
mxw_status mx_session_feed_audio(mx_session *s, mx_audio *audio);
mxw_status mx_session_finish(mx_session *s);
mxw_status mx_session_next(mx_session *s, const mxw_segment **segment);
mxw_status mx_session_detect_languages(mx_session *s);
const mxw_result *mx_session_result(mx_session *s);
mxw_status mx_session_manifest(mx_session *s, const char **json);
mxw_status mx_session_resume(mx_session *s, const void *record, size_t n);

/* One window at a time; arguments are complete and in range. See max_whisper/window.h. */
typedef struct mxw_window mx_one_window;
mxw_status mx_window_open(mx_recognizer *r, const mxw_session_options *options, mx_one_window **out);
void mx_window_close(mx_one_window *window);
mxw_status mx_window_encode(mx_one_window *window, const float *mel, size_t n_frames, float *features);
mxw_status mx_window_set_features(mx_one_window *window, const float *features);
mxw_status mx_window_languages(mx_one_window *window, float *probabilities, size_t n);
mxw_status mx_window_decode(mx_one_window *window, const mxw_window_request *request, mxw_window_text *text);
mxw_status mx_window_align(mx_one_window *window, const char *language, const int32_t *tokens, size_t n,
                           size_t n_frames, int32_t *times, double *probabilities);

/* options are complete and in range, with `decoding`. */
mxw_status mx_live_open(mx_recognizer *r, const mxw_live_options *options, mx_live **out);
void mx_live_close(mx_live *live);
mxw_status mx_live_feed(mx_live *live, const float *samples, size_t n);
mxw_status mx_live_gap(mx_live *live, double seconds);
mxw_status mx_live_flush(mx_live *live);
mxw_status mx_live_finish(mx_live *live);
mxw_status mx_live_next(mx_live *live, const mxw_live_event **event);
const mxw_result *mx_live_result(mx_live *live);
void mx_live_get_stats(const mx_live *live, mxw_live_stats *stats);

#endif
