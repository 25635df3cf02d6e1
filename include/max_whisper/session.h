/* max_whisper/session.h - transcription of one recording: feed samples, take segments.
 *
 * A file and live audio are the same loop: mxw_session_feed, mxw_session_next until it returns MORE, and so on;
 * mxw_session_finish after the last samples; mxw_session_next until END. A session belongs to one thread at a time;
 * sessions of one model on several threads are batched (mxw_model_options.batch).
 */
#ifndef MXW_SESSION_H
#define MXW_SESSION_H

#include "audio.h"
#include "model.h"
#include "result.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mxw_session mxw_session;

typedef enum mxw_task {
    MXW_TRANSCRIBE = 0,
    MXW_TRANSLATE = 1            /* to English */
} mxw_task;

/* Whisper clamps its log-mel spectrogram to 80 dB below a maximum. */
typedef enum mxw_mel_reference {
    MXW_MEL_FILE = 0,            /* the maximum of the whole recording, as in the reference: text comes after finish */
    MXW_MEL_RUNNING = 1          /* the maximum so far: text comes as soon as a window is full; not bit-equal to FILE */
} mxw_mel_reference;

/* The guard against invented text: what it does with words and segments that the run's own evidence speaks against. */
typedef enum mxw_guard {
    MXW_GUARD_OFF = 0,
    MXW_GUARD_MARK = 1,          /* gives them a suspicion and its reasons */
    MXW_GUARD_DROP = 2           /* leaves them out */
} mxw_guard;

/* Owned by the library and valid during the callback; fields may be added at the end. */
typedef struct mxw_progress {
    const char *stage;           /* "audio", with `languages` then "languages", or "text" */
    double done_s, total_s;      /* of the recording; total is negative while unknown */
    double elapsed_s;            /* since the session was opened */
} mxw_progress;

#define MXW_PREPEND_PUNCTUATIONS "\"'“¿([{-"
#define MXW_APPEND_PUNCTUATIONS "\"'.。,，!！?？:：”)]}、"

typedef struct mxw_session_options {
    size_t struct_size;
    mxw_task task;                       /* TRANSCRIBE */
    const char *language;                /* code or name; NULL: detect it ("en" for an .en model) */
    double temperature;                  /* 0 */
    double temperature_increment;        /* 0.2; MXW_NONE: no fallback to higher temperatures */
    int best_of;                         /* 5: candidates when sampling */
    int beam_size;                       /* 5; 0: greedy */
    double patience;                     /* MXW_NONE: 1 */
    double length_penalty;               /* MXW_NONE: plain length */
    const char *suppress_tokens;         /* "-1": the non-speech symbols; "": none; or ids "1,2,3" */
    int suppress_blank;                  /* 1 */
    const char *initial_prompt;          /* NULL */
    int carry_initial_prompt;            /* 0 */
    const char *prefix;                  /* NULL; text that every window starts with; not part of the result */
    int condition_on_previous_text;      /* 1 */
    double compression_ratio_threshold;  /* 2.4, or MXW_NONE */
    double logprob_threshold;            /* -1, or MXW_NONE */
    double no_speech_threshold;          /* 0.6, or MXW_NONE */
    int sample_len;                      /* 0: half the text context (224) */
    int without_timestamps;              /* 0 */
    double max_initial_timestamp;        /* 1.0, or MXW_NONE */
    const char *clip_timestamps;         /* "0"; start,end,start,end,... in seconds */
    uint64_t seed;                       /* 0; of sampling at temperatures above 0 */
    mxw_mel_reference mel_reference;     /* FILE */
    void *user;                          /* NULL; passed to the callbacks */
    void (*on_progress)(void *user, const mxw_progress *progress);
    void (*on_segment)(void *user, const mxw_segment *segment);
    int (*should_abort)(void *user);     /* non-zero stops after the current step: E_ABORTED */
    double start_s;                      /* 0; time of the first sample, as mxw_audio_info has it. The times of segments
                                          * and clip_timestamps are on that clock */
    int channel;                         /* 0; copied to every segment */
    const char *speaker;                 /* NULL; copied to every segment; text formats write "[speaker] " first */
    int word_timestamps;                 /* 0; 1: words with times, and windows that begin where words end */
    const char *prepend_punctuations;    /* MXW_PREPEND_PUNCTUATIONS: joined to the word after them */
    const char *append_punctuations;     /* MXW_APPEND_PUNCTUATIONS: joined to the word before them */
    double hallucination_silence_threshold; /* MXW_NONE; seconds of silence around a doubtful segment that make it be
                                             * skipped; needs word_timestamps */
    int token_details;                   /* 0; 1 to 32: log probabilities of all tokens, and so many alternatives */
    /* NULL; called when a window is done, with a record of it for mxw_session_resume, valid during the call. Not with
     * mel_reference RUNNING. */
    void (*on_window)(void *user, const void *record, size_t n);
    int vad;                             /* 0; 1: windows begin and end at pauses, and silence is skipped. The numbers
                                          * below are as in mxw_vad_options, with defaults of their own */
    const char *vad_model;               /* NULL: MXW_VAD_MODEL; also of guard and languages */
    double vad_threshold;                /* 0.5 */
    double vad_min_silence_ms;           /* 2000 */
    double vad_min_speech_ms;            /* 0 */
    double vad_max_speech_s;             /* MXW_NONE */
    double vad_pad_ms;                   /* 400 */
    int parallel;                        /* 0; up to 256: so many pieces of the recording, of at most 30 s and cut at
                                          * pauses, are decoded together, without the text before them; needs vad. Each
                                          * needs a slot of the model's batch: with fewer, fewer are decoded at once,
                                          * with the same result. Threads are the library's, callbacks the caller's */
    mxw_guard guard;                     /* OFF */
    const char *languages;               /* NULL; "en,de,uk" or "any": the language is decided for each stretch of
                                          * speech, among these; excludes language, needs mel_reference FILE */
    const char *temperatures;            /* NULL; "0,0.4,0.8", up to 16: tried in this order, instead of temperature and
                                          * its increment */
    double repetition_penalty;           /* 1; above: tokens that the window has said already are less likely, logits x
                                          * become x / penalty or, below 0, x * penalty. As CTranslate2 has it */
    int no_repeat_ngram_size;            /* 0; so many tokens in a row are never said twice in a window */
} mxw_session_options;

MXW_API void mxw_session_options_default(mxw_session_options *options, size_t struct_size);
#define mxw_session_options_default(options) mxw_session_options_default(options, sizeof(*(options)))
/* Allocates the memory that `batch` concurrent sessions with these options (NULL: the defaults) need; from then on that
 * is the model's batch. E_MEMORY: the device has not enough; the error line says what was asked for and what is free,
 * everything is released again, and a smaller batch may be tried. E_STATE: sessions are open. */
MXW_API mxw_status mxw_model_reserve(mxw_model *model, const mxw_session_options *options, int batch);
/* The model must outlive the session. Strings in the options are copied. */
MXW_API mxw_status mxw_session_open(mxw_model *model, const mxw_session_options *options, mxw_session **out);
MXW_API void mxw_session_close(mxw_session *session);
/* Any number of 16 kHz mono samples in [-1, 1]; they must be finite. */
MXW_API mxw_status mxw_session_feed(mxw_session *session, const float *samples, size_t n);
/* Feeds a whole recording, with progress. */
MXW_API mxw_status mxw_session_feed_audio(mxw_session *session, mxw_audio *audio);
MXW_API mxw_status mxw_session_finish(mxw_session *session);
/* The next segment: OK with *segment set; END after the last one; MORE when audio must be fed (or finish called) first.
 * *segment is valid until the next mxw_session_next, its text, tokens and words until the session is closed. */
MXW_API mxw_status mxw_session_next(mxw_session *session, const mxw_segment **segment);
/* Everything so far; complete once next has returned END. Owned by the session, valid until the next mxw_session_next.
 * NULL when memory runs out. */
MXW_API const mxw_result *mxw_session_result(mxw_session *session);
/* With `languages`: decides the language of each stretch of speech, after finish and instead of next, without decoding
 * any text. The result then has no segments, and its regions have their languages. */
MXW_API mxw_status mxw_session_detect_languages(mxw_session *session);
/* What is needed to repeat the run, as a JSON object: version, model with its SHA-256, engine, device, every option.
 * The first call reads the model's file; E_STATE if that was changed while it was open. Owned by the session. */
MXW_API mxw_status mxw_session_manifest(mxw_session *session, const char **json);
/* Continues the work of an earlier session that was stopped or killed: after finish and before the first next, pass the
 * records that its on_window got, all of them from the first on, in order. A window that has a record is not decoded
 * again; next and the result are the same, to the last bit, as if it had been. The session needs on_window too, and the
 * same weights, options and samples: E_ARGUMENT says which differs. E_FORMAT: not a record. A record that is refused
 * changes nothing; decoding continues after the last good one. Records carry no checksum of their own. */
MXW_API mxw_status mxw_session_resume(mxw_session *session, const void *record, size_t n);

#ifdef __cplusplus
}
#endif
#endif
