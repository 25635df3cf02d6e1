/* pipeline/inspect.h - entry points for lab/ and the tests: single stages of a session, and one window end to end.
 * Invariant: what is seen here is computed by the same programs, caches and rules as in a transcription. */
#ifndef MX_INSPECT_H
#define MX_INSPECT_H
#include "pipeline/pipeline.h"

/* Encodes the window of n_frames at seek and forces given tokens after given prompt tokens. logprobs[i] is that of
 * tokens[i], logprobs[n_tokens] that of the end of text, under the session's rules; NaN where the token was not among
 * the best MX_FORCE_CANDIDATES. */
#define MX_FORCE_CANDIDATES 32
mxw_status mx_session_force(mx_session *s, int64_t seek, int64_t n_frames, const int32_t *prompt, size_t n_prompt,
                            const int32_t *tokens, size_t n_tokens, float *logprobs, float *no_speech_prob);
/* Where each of n tokens of text begins in the window of n_frames at seek, in frames of 20 ms, and where the last ends:
 * frames [n + 1]; and how probable each is among all text: probabilities [n]. */
mxw_status mx_session_align(mx_session *s, int64_t seek, int64_t n_frames, const int32_t *tokens, size_t n,
                            int32_t *frames, double *probabilities);
/* The session's log-mel of a window, [2 n_audio_ctx][n_mels] as the encoder gets it, and its features
 * [n_audio_ctx][n_audio_state]; out holds that many floats. A tap, if any, sees the encoder's named values. */
mxw_status mx_session_mel(mx_session *s, int64_t seek, int64_t n_frames, float *out);
mxw_status mx_session_encode(mx_session *s, const float *mel, float *out, mx_tap_fn tap, void *tap_context);

/* One window end to end: its mel, every named value of encoder and cross, its tokens (decoded as the session would
 * without a prompt, or as given), then every named value of the decoder forced over them. The tap sees mel first, as
 * "mel"; with word_timestamps last "words.attention", how well each token of text and the end fit each frame of 20 ms,
 * and "words.frames", where each begins. `watch` sees every op's call instead of its value; either may be NULL. */
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
