/* pipeline/session.h - the insides of a session: what lasts from window to window of one recording. */
#ifndef MX_SESSION_H
#define MX_SESSION_H
#include "feature/feature.h"
#include "pipeline/conductor.h"

typedef struct mx_tokens {
    int32_t *items;
    size_t n, capacity;
} mx_tokens;

mxw_status mx_tokens_add(mx_tokens *tokens, const int32_t *items, size_t n);

typedef struct mx_clip {
    int64_t start, end;   /* mel frames; end INT64_MAX: the end of the recording */
} mx_clip;

struct mxw_session {
    mx_recognizer *recognizer;
    mxw_session_options options;      /* strings copied into memory */
    mx_arena memory;                  /* lifetime: session */
    mx_decode_plan *plan;
    mx_decoding *decoding;
    mx_seat *seat;
    mx_mel *mel;
    float *window;                    /* [2 n_audio_ctx][n_mels] the window being decoded */
    mx_thresholds thresholds;
    double *temperatures;
    int n_temperatures;

    /* where the loop over windows stands */
    mx_clip *clips;
    int n_clips, clip;
    int64_t seek;
    const char *language;             /* NULL until given or detected */
    mx_tokens tokens;                 /* initial prompt, then every segment's */
    size_t n_initial_prompt, prompt_reset_since;
    mx_tokens carried;                /* scratch for the carried prompt */
    mxw_status failed;                /* a failure is final */
    char failure[512];                /* its line, told again to whoever goes on */
    int finished;                     /* no more samples */

    /* what has come out */
    mxw_segment *segments;
    size_t n_segments, capacity, n_given;
    mx_str text;
    mxw_result result;
    int64_t opened_ns;
};

/* Language and task against what the model can do; *language is NULL when it is to be detected. */
mxw_status mx_session_check_language(const mxw_checkpoint_info *model, const mx_text *text,
                                     const mxw_session_options *options, const char **language);
/* Decodes windows until there are new segments or nothing is left: OK, END, or MORE. */
mxw_status mx_session_advance(mx_session *s);
mxw_status mx_session_stop_if_asked(void *session);   /* E_ABORTED, and final, when the caller wants to stop */
/* The window at seek, in s->window, encoded for the seat. */
mxw_status mx_session_encode_window(mx_session *s, int64_t seek, int64_t n_frames, int padded);
#endif
