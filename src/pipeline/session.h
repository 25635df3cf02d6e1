/* pipeline/session.h - internals of a session: the state of one recording from window to window. */
#ifndef MX_SESSION_H
#define MX_SESSION_H
#include "base/arrays.h"
#include "feature/feature.h"
#include "pipeline/batcher.h"
#include "pipeline/inspect.h"
#include "pipeline/resume.h"
#include "words/words.h"

typedef struct mx_tokens {
    int32_t *items;
    size_t n, capacity;
} mx_tokens;

mxw_status mx_tokens_add(mx_tokens *tokens, const int32_t *items, size_t n);

typedef struct mx_clip {
    int64_t start, end;   /* mel frames; end INT64_MAX: the end of the recording */
    const char *language; /* of its windows; NULL: the session's */
    double language_probability;
} mx_clip;

/* A word of the current window; times in seconds from the recording's first sample. */
typedef struct mx_timed_word {
    size_t begin, end;    /* bytes of mx_words.text */
    double start, end_s, probability;
} mx_timed_word;

/* A part of a window's text, cut at its timestamps, before it becomes a segment. */
typedef struct mx_piece {
    double start, end;
    const int32_t *tokens;
    size_t n_tokens;
    size_t first_word, n_words;   /* among the window's */
} mx_piece;

/* Where the loop over windows stands. */
typedef struct mx_position {
    mx_clip *clips;
    int n_clips, clip;
    int64_t seek;                     /* mel frame at which the next window begins */
    mx_tokens tokens;                 /* the initial prompt, then every segment's */
    size_t n_initial_prompt;
    size_t prompt_reset_since;        /* tokens from here on are the next window's prompt */
    mx_tokens carried;                /* scratch: the prompt, when the initial one is carried along */
    double last_speech_s;             /* where the last word before this window ended */
} mx_position;

/* The window that is being decoded. */
typedef struct mx_window {
    float *mel;                       /* [2 n_audio_ctx][n_mels] */
    mx_tokens tokens;                 /* its pieces point in here */
    mx_tokens text;                   /* scratch: the tokens of text among them */
    mx_piece *pieces;
    size_t n_pieces, room_pieces;
    mx_words words;                   /* as aligned, ... */
    mx_timed_word *timed;                /* ... and as assigned to the pieces */
    size_t n_timed, room_timed;
    mxw_token *details, *alternatives;   /* of its tokens, in the session's memory; NULL: not wanted */
} mx_window;

struct mxw_session {
    mx_recognizer *recognizer;
    mxw_session_options options;      /* strings copied into memory */
    mx_arena memory;                  /* lifetime: session */
    mx_decode_plan *plan;
    mx_decoding *decoding;
    mx_slot *slot;
    mx_mel *mel;
    const float *features;            /* of the first window, if the caller supplied them; not owned */
    mx_thresholds thresholds;
    double *temperatures;
    int n_temperatures;

    const char *language;             /* NULL until given or detected */
    mx_position at;
    mx_window window;
    int finished;                     /* no more samples */
    mx_fingerprint fingerprint;       /* of its window records, if they are wanted */
    struct {
        mxw_status status;            /* a failure is final */
        char line[512];               /* its error line, repeated by every later call */
    } failure;

    struct {
        mxw_segment *items;
        size_t n, capacity, n_given;
    } segments;
    mx_str text, manifest;
    mxw_result result;
    mxw_stage_times times;            /* of the result */
    int64_t opened_ns;
};

/* Checks language and task against the model; *language is NULL if it is to be detected. */
mxw_status mx_session_check_language(const mxw_checkpoint_info *model, const mx_text *text,
                                     const mxw_session_options *options, const char **language);
/* Decodes windows until there are new segments or nothing is left: OK, END, or MORE. */
mxw_status mx_session_advance(mx_session *s);
void mx_session_report(mx_session *s);   /* progress of the text */
mxw_status mx_session_stop_if_asked(void *session);   /* E_ABORTED, and final, if should_abort says so */
/* The outcome of cutting a window into pieces. */
typedef struct mx_cut {
    int64_t n_frames;    /* of the window */
    int64_t seek;        /* where the next window would begin */
    int lone_end;        /* its text ends with a single timestamp: no speech after it */
    int dropped;         /* its pieces may be hallucinated: they are dropped, and the next window begins at seek */
} mx_cut;
/* segments.c: window.tokens cut into window.pieces at their timestamps; fills in cut but for n_frames. */
mxw_status mx_session_cut_window(mx_session *s, mx_cut *cut);
/* A piece becomes a segment; an instantaneous or blank one keeps its place but loses text, tokens and words. */
mxw_status mx_session_add_segment(mx_session *s, const mx_piece *piece, const mx_decode_result *result);
/* details.c: log probabilities and alternatives of the window's tokens, decoded after that prompt. */
mxw_status mx_session_read_details(mx_session *s, const int32_t *prompt, size_t n_prompt);
/* words.c: the words of all pieces and their times, to which the pieces' own times are adjusted; cut->seek moves to the
 * end of the last word. Pieces that may be hallucinated around silence are dropped, if the session wants that. */
mxw_status mx_session_time_words(mx_session *s, mx_cut *cut);
mxw_status mx_session_mel_window(mx_session *s, int64_t seek, int64_t n_frames, int padded, float *out);
mxw_status mx_session_detect_language(mx_session *s);
/* words.c: shows an inspection the word times of its tokens, in the window of n_frames that was encoded last. */
mxw_status mx_session_inspect_words(mx_session *s, int64_t n_frames, const mx_inspection *seen);
/* Computes the window at seek into window.mel and encodes it for the slot. */
mxw_status mx_session_encode_window(mx_session *s, int64_t seek, int64_t n_frames, int padded);
#endif
