/* pipeline/session.h - internals of a session: the state of one recording from window to window. */
#ifndef MX_SESSION_H
#define MX_SESSION_H
#include "base/arrays.h"
#include "feature/feature.h"
#include "guard/guard.h"
#include "pipeline/batch/batcher.h"
#include "pipeline/speech/clips.h"
#include "pipeline/speech/languages.h"
#include "pipeline/speech/level.h"
#include "pipeline/inspect.h"
#include "pipeline/parallel.h"
#include "pipeline/resume.h"
#include "words/words.h"

typedef struct mx_tokens {
    int32_t *items;
    size_t n, capacity;
} mx_tokens;

mxw_status mx_tokens_add(mx_tokens *tokens, const int32_t *items, size_t n);

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
    size_t first_judged, n_judged;   /* with a guard: the same words, as it sees them */
} mx_piece;

/* Where the loop over windows stands. */
typedef struct mx_position {
    mx_clip *clips;                   /* with vad: as far as they are known */
    int n_clips, clip;
    size_t room_clips;                /* 0: the clips are in the session's memory */
    mx_clip_plan plan;                /* with vad: of the clips that are not known yet ... */
    int growing, all_known;           /* ... whether the last one may get longer, and whether it is the last */
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
    int32_t *attended;                   /* of a live stream: the frame of 20 ms that each token of text looks at */
    mx_guard_token *evidence;            /* with a guard: of the tokens of text, ... */
    size_t room_evidence;
    float *heard;                        /* ... probabilities of speech, [n_audio_ctx], ... */
    double *attention;                   /* ... scratch, [2 n_audio_ctx], ... */
    mx_guard_word *judged;               /* ... and what it says about each word */
    size_t n_judged, room_judged;
} mx_window;

struct mxw_session {
    mx_recognizer *recognizer;
    mxw_session_options options;      /* strings copied into memory */
    mx_arena memory;                  /* lifetime: session */
    mx_decode_plan *plan;
    mx_decoding *decoding;
    mx_slot *slot;                    /* NULL between the passes of a live stream, if it is shared */
    mx_mel *mel;
    mx_speech *speech;                /* with vad, guard or languages; else NULL */
    const char *detector_sha256;      /* of the weights that it listens with; NULL: without, or unknown */
    mx_level *level;                  /* with a guard: what it hears is made louder first ... */
    mx_speech *levelled;              /* ... and is here */
    mx_lanes *lanes;                  /* with parallel; else NULL */
    pthread_mutex_t *lock;            /* of mel and speech, if other threads use them too; else NULL */
    pthread_mutex_t data_lock;        /* that one, unless it is a lane's */
    uint64_t first_window;            /* number of its first window, which seeds the sampling */
    const float *features;            /* of the first window, if the caller supplied them; not owned */
    mx_thresholds thresholds;
    double *temperatures;
    int n_temperatures;

    const char *language;             /* NULL until given or detected; with languages: of the current clip */
    mx_languages languages;           /* to choose among; none: one for the whole recording */
    mx_position at;
    mx_window window;
    int finished;                     /* no more samples */
    int heard_all;                    /* ... and all speech in them is known */
    int64_t n_records;                /* of windows, or of pieces with parallel */
    mx_fingerprint fingerprint;       /* of its window records, if they are wanted */
    struct {
        mxw_status status;            /* a failure is final */
        char line[512];               /* its error line, repeated by every later call */
    } failure;

    struct {
        mxw_segment *items;
        size_t n, capacity, n_given;
    } segments;
    mxw_region *regions;              /* of the result */
    size_t room_regions;
    mx_str text, manifest;
    mxw_result result;
    mxw_stage_times times;            /* of the result */
    double vad_ms;                    /* of speech detection on the caller's thread */
    int64_t opened_ns;
    struct {
        mxw_evidence_fn show;         /* NULL: nobody watches */
        void *user;
    } watch;                          /* of the guard */
};

/* Without a slot: that is attached while it is needed, and released so that others can have it. */
mxw_status mx_session_open_detached(mx_recognizer *r, const mxw_session_options *options, mx_session **out);
mxw_status mx_session_attach(mx_session *s);    /* waits for a slot, if all are taken */
void mx_session_release(mx_session *s);         /* a private one stays */
/* Checks language and task against the model; *language is NULL if it is to be detected. */
mxw_status mx_session_check_language(const mxw_checkpoint_info *model, const mx_text *text,
                                     const mxw_session_options *options, const char **language);
/* Decodes windows until there are new segments or nothing is left: OK, END, or MORE. */
mxw_status mx_session_advance(mx_session *s);
void mx_session_report(mx_session *s);   /* progress of the text */
mxw_status mx_session_stop_if_asked(void *session);   /* E_ABORTED, and final, if should_abort says so */
/* The next window of a recording. */
typedef struct mx_choice {
    int64_t n_frames;    /* from at.seek on */
    int closed;          /* with vad: no sentence goes on beyond its end, which is at a pause */
} mx_choice;
/* Moves at.seek to where the next window begins: OK, END, or MORE. */
mxw_status mx_session_choose(mx_session *s, mx_choice *choice);
/* Encodes and decodes it, adds its segments, and moves at.seek on. */
mxw_status mx_session_decode_window(mx_session *s, const mx_choice *choice);
/* The decoding that was started, to its end. */
mxw_status mx_session_run_decoding(mx_session *s, mx_decode_result *result);
mxw_status mx_session_take_features(mx_session *s, const float *features);   /* instead of encoding a window */
/* words.c: mx_session_align in the window that was encoded last. */
mxw_status mx_session_align_encoded(mx_session *s, int64_t n_frames, const int32_t *tokens, size_t n, int32_t *frames,
                                    double *probabilities);
/* Detects the language, unless it is known, where that is done: OK, END if there is no speech at all, or MORE. */
mxw_status mx_session_find_language(mx_session *s);
int mx_session_has_frames(const mx_session *s, int64_t end);   /* [0, end), or no more frames will come */
void mx_session_lock(const mx_session *s);                     /* mel and speech, if others share them */
void mx_session_unlock(const mx_session *s);
void mx_session_share(mx_session *s);                          /* others will */
void mx_session_unshare(mx_session *s);
/* Whether it may use all threads: it is alone, or has lanes. Otherwise the sessions share them. */
int mx_session_has_threads(const mx_session *s);
/* After finish, while not all speech is known to be heard: waits a moment and returns 1; then 0. Negative: a failure,
 * or a stop. */
int mx_session_await_speech(mx_session *s);
/* Word times and token details are computed by forcing known tokens. */
int mx_session_forces(const mxw_session_options *options);
/* Records a failure and its error line: it is final. */
mxw_status mx_session_fail(mx_session *s, mxw_status status);

/* The outcome of cutting a window into pieces. */
typedef struct mx_cut {
    int64_t n_frames;    /* of the window */
    int closed;          /* as in mx_choice */
    int ended;           /* its text is complete: the model ended it */
    int64_t seek;        /* where the next window would begin */
    int lone_end;        /* its text ends with a single timestamp: no speech after it */
    int dropped;         /* its pieces may be hallucinated: they are dropped, and the next window begins at seek */
} mx_cut;
/* segments.c: window.tokens cut into window.pieces at their timestamps; fills in the rest of cut. */
mxw_status mx_session_cut_window(mx_session *s, mx_cut *cut);
/* A piece becomes a segment; an instantaneous or blank one keeps its place but loses text, tokens and words. */
mxw_status mx_session_add_segment(mx_session *s, const mx_piece *piece, const mx_decode_result *result);
/* details.c: log probabilities and alternatives of the window's tokens, decoded after that prompt. */
mxw_status mx_session_read_details(mx_session *s, const int32_t *prompt, size_t n_prompt);
/* words.c: the words of all pieces, as they were aligned, and their times, to which the pieces' own times are
 * adjusted; cut->seek moves to the end of the last word. Pieces that may be hallucinated around silence are dropped, if
 * the session wants that. */
mxw_status mx_session_time_words(mx_session *s, mx_cut *cut);
/* words.c: the words of the window's text with their times, before they belong to pieces. */
mxw_status mx_session_align_words(mx_session *s, const mx_cut *cut);
/* The end of the last word, or of the last piece if there are no words, in seconds; 0: there is no piece. */
int mx_session_last_end(const mx_session *s, double *end);
mxw_status mx_session_mel_window(mx_session *s, int64_t seek, int64_t n_frames, mx_mel_rest rest, float *out);
mxw_status mx_session_detect_language(mx_session *s, int64_t seek);   /* on 30 s from there on */
mxw_status mx_session_ask_language(mx_session *s);                    /* of the window that was encoded last */
/* words.c: shows an inspection the word times of its tokens, in the window of n_frames that was encoded last. */
mxw_status mx_session_inspect_words(mx_session *s, int64_t n_frames, const mx_inspection *seen);
/* vad_windows.c: the session's detector of speech, and the guard's. */
mxw_status mx_session_open_speech(mx_session *s);
mxw_status mx_session_open_levelled(mx_session *s);   /* the guard's alone */
/* Extends at.clips as far as speech is known. */
mxw_status mx_session_plan_clips(mx_session *s);
/* mx_session_choose with vad. */
mxw_status mx_session_choose_speech(mx_session *s, mx_choice *choice);
/* Where a clip of which [seek, end) is left is cut next: at most a window further on, at a pause if there is one.
 * *pause: its frames; 0: none was found. */
int64_t mx_session_cut_clip(const mx_session *s, int64_t seek, int64_t end, int64_t *pause);
/* Where the next window begins after a closed one: at its end, unless speech in it was left without text. */
void mx_session_go_on(const mx_session *s, mx_cut *cut);
/* Whether a window with speech got no text, perhaps because of the text before it. */
int mx_session_lost_text(const mx_session *s, const mx_choice *choice, const mx_decode_result *result);
mxw_status mx_session_set_regions(mx_session *s);   /* of the result */
/* Times of a recording that starts at 0 are kept to the last bit; others are rounded to whole milliseconds. */
double mx_session_on_clock(const mx_session *s, double seconds);
/* guard.c: room for the evidence of the window's text, and where in its n_frames of 20 ms there is speech. */
mxw_status mx_session_start_evidence(mx_session *s, size_t n_frames);
/* Evidence of each of n tokens of text; called where the forced run's results are valid. n_before: as in
 * mx_decoding_align. */
#define MX_GUARD_CANDIDATES 5
void mx_session_take_evidence(mx_session *s, const mx_forced *forced, size_t n_before, size_t n, size_t n_frames);
/* Judges the words of the pieces; with DROP, those that are suspected leave them, and pieces without words go. */
mxw_status mx_session_guard(mx_session *s, const mx_cut *cut, const mx_decode_result *result);
/* What the guard says about a piece: about all of its words together. */
void mx_session_suspect(const mx_session *s, const mx_piece *piece, double *suspicion, uint32_t *reasons);
/* Computes the window at seek into window.mel and encodes it for the slot. */
mxw_status mx_session_encode_window(mx_session *s, int64_t seek, int64_t n_frames, mx_mel_rest rest);
#endif
