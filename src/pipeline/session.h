/* pipeline/session.h - the insides of a session: what lasts from window to window of one recording. */
#ifndef MX_SESSION_H
#define MX_SESSION_H
#include "feature/feature.h"
#include "pipeline/batcher.h"
#include "pipeline/resume.h"
#include "words/words.h"

typedef struct mx_tokens {
    int32_t *items;
    size_t n, capacity;
} mx_tokens;

mxw_status mx_tokens_add(mx_tokens *tokens, const int32_t *items, size_t n);

typedef struct mx_clip {
    int64_t start, end;   /* mel frames; end INT64_MAX: the end of the recording */
} mx_clip;

/* A word of the window under way, on the recording's samples' clock. */
typedef struct mx_spoken {
    size_t begin, end;    /* bytes of mx_words.text */
    double start, end_s, probability;
} mx_spoken;

/* A segment that a window's text was cut into, before it is one of the recording's. */
typedef struct mx_piece {
    double start, end;
    const int32_t *tokens;
    size_t n_tokens;
    size_t first_word, n_words;   /* among the window's */
} mx_piece;

struct mxw_session {
    mx_recognizer *recognizer;
    mxw_session_options options;      /* strings copied into memory */
    mx_arena memory;                  /* lifetime: session */
    mx_decode_plan *plan;
    mx_decoding *decoding;
    mx_slot *slot;
    mx_mel *mel;
    const float *features;            /* of the first window, if they were given; not ours */
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
    mx_tokens window_tokens;          /* of the window under way; its pieces point in here */
    mx_piece *pieces;
    size_t n_pieces, room_pieces;
    mx_tokens window_text;            /* scratch: its tokens of text */
    mx_words words;                   /* scratch: of the window under way, ... */
    mx_spoken *spoken;                /* ... and as they are said in its pieces */
    size_t n_spoken, room_spoken;
    mxw_token *details, *alternatives;   /* of the window's tokens, in memory; NULL: not wanted */
    double last_speech_s;             /* where the last word before this window ended */
    mxw_status failed;                /* a failure is final */
    char failure[512];                /* its line, told again to whoever goes on */
    int finished;                     /* no more samples */
    mx_fingerprint fingerprint;       /* of its window records, if they are wanted */

    /* what has come out */
    mxw_segment *segments;
    size_t n_segments, capacity, n_given;
    mx_str text, manifest;
    mxw_result result;
    int64_t opened_ns;
};

/* Language and task against what the model can do; *language is NULL when it is to be detected. */
mxw_status mx_session_check_language(const mxw_checkpoint_info *model, const mx_text *text,
                                     const mxw_session_options *options, const char **language);
/* Decodes windows until there are new segments or nothing is left: OK, END, or MORE. */
mxw_status mx_session_advance(mx_session *s);
void mx_session_report(mx_session *s);   /* how far the text is */
mxw_status mx_session_stop_if_asked(void *session);   /* E_ABORTED, and final, when the caller wants to stop */
/* What a window's cutting into pieces left to be done. */
typedef struct mx_cut {
    int64_t n_frames;    /* of the window */
    int64_t seek;        /* where the next window would begin */
    int lone_end;        /* its text ends with a lone timestamp: nothing is said after it */
    int dropped;         /* its pieces may be made up: they are left out, and the next window begins at seek */
} mx_cut;
/* details.c: log probabilities and alternatives of the window's tokens, which came after that prompt. */
mxw_status mx_session_read_details(mx_session *s, const int32_t *prompt, size_t n_prompt);
/* words.c: the words of all pieces, their times and those of the pieces by them; cut->seek moves to the end of the last
 * word; pieces that may be made up around silence go, if the session wants that. */
mxw_status mx_session_time_words(mx_session *s, mx_cut *cut);
mxw_status mx_session_mel_window(mx_session *s, int64_t seek, int64_t n_frames, int padded, float *out);
mxw_status mx_session_detect_language(mx_session *s);
/* What an inspection sees of its tokens' word times, in the window of n_frames that was encoded last; words.c. */
mxw_status mx_session_see_words(mx_session *s, int64_t n_frames, const mx_inspection *seen);
/* The window at seek, in s->window, encoded for the slot. */
mxw_status mx_session_encode_window(mx_session *s, int64_t seek, int64_t n_frames, int padded);
#endif
