/* max_whisper/window.h - one window of 30 seconds at a time: log-mel in; features, languages, text, token times out.
 *
 * mxw_session is openai-whisper's loop over windows. This is what is inside, for programs that have their own loop:
 * encode, then ask as often as wanted. Windows of one model on several threads are batched, as sessions are; an
 * mxw_window belongs to one thread at a time.
 */
#ifndef MXW_WINDOW_H
#define MXW_WINDOW_H

#include "session.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MXW_WINDOW_FRAMES 3000   /* frames of log-mel, 10 ms each */
#define MXW_MEL_HOP 160          /* samples from one frame to the next */
#define MXW_MEL_BINS 201         /* of the spectrum, for mxw_mel_filters */

typedef struct mxw_window mxw_window;

/* The log-mel of 16 kHz samples and `padding` zeros after them, as openai-whisper's log_mel_spectrogram gives it:
 * mel [n_mels][n_frames]; n_mels 80 or 128; n_frames must be (n + padding) / MXW_MEL_HOP. */
MXW_API mxw_status mxw_log_mel(const float *samples, size_t n, size_t padding, int n_mels, float *mel, size_t n_frames);
/* The mel filter bank: filters [n_mels][MXW_MEL_BINS]. */
MXW_API mxw_status mxw_mel_filters(int n_mels, float *filters);

/* options may be NULL: the defaults. Those about a whole recording must be at their defaults: vad, parallel, guard,
 * languages, on_window, clip_timestamps. The model must outlive the window. */
MXW_API mxw_status mxw_window_open(mxw_model *model, const mxw_session_options *options, mxw_window **out);
MXW_API void mxw_window_close(mxw_window *window);
/* mel [n_mels][n_frames], at most MXW_WINDOW_FRAMES; what follows is 0, as in the reference. features (may be NULL)
 * receives [n_audio_ctx][n_audio_state]. */
MXW_API mxw_status mxw_window_encode(mxw_window *window, const float *mel, size_t n_frames, float *features);
/* Features of an earlier encode, instead of it. */
MXW_API mxw_status mxw_window_set_features(mxw_window *window, const float *features);
/* The probability of each language, in the order of mxw_language_code; n of them, those that the model does not know
 * are 0. E_UNSUPPORTED for an English-only model. */
MXW_API mxw_status mxw_window_languages(mxw_window *window, float *probabilities, size_t n);

typedef struct mxw_window_request {
    size_t struct_size;          /* sizeof(mxw_window_request) */
    const char *language;        /* NULL: that of the options, else it is detected */
    const int32_t *prompt;       /* the text before, as tokens; cut to what fits */
    size_t n_prompt;
    double temperature;          /* 0: the best; above: sampled */
    uint64_t number;             /* of the window in its recording; with the options' seed it determines the sampling */
    const int32_t *begin;        /* tokens of text that the window begins with, at <|0.00|>; not part of its tokens */
    size_t n_begin;
} mxw_window_request;

/* Pointers are valid until the next call with the window. */
typedef struct mxw_window_text {
    size_t struct_size;          /* sizeof(mxw_window_text) */
    const char *language;        /* code */
    double language_probability; /* negative if it was given */
    const int32_t *tokens;       /* sampled, timestamps among them, without the end of text */
    size_t n_tokens;
    const char *text;            /* UTF-8, without white space at its ends */
    double avg_logprob, no_speech_prob, temperature, compression_ratio;
    int ended;                   /* 1: with the end of text; 0: at the length limit */
} mxw_window_text;

/* One decoding at one temperature, without fallback. request may be NULL: no prompt, temperature 0. */
MXW_API mxw_status mxw_window_decode(mxw_window *window, const mxw_window_request *request, mxw_window_text *text);
/* Where tokens of text (no timestamps) are in the window's first n_frames frames of log-mel: times [n + 1], where each
 * begins and the last ends, in steps of 20 ms; probabilities [n]. language as in a request. */
MXW_API mxw_status mxw_window_align(mxw_window *window, const char *language, const int32_t *tokens, size_t n,
                                    size_t n_frames, int32_t *times, double *probabilities);

#ifdef __cplusplus
}
#endif
#endif
