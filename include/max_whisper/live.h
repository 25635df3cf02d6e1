/* max_whisper/live.h - transcription of a stream while it is spoken: feed samples, take events.
 *
 * Speech detection finds utterances: stretches of speech between pauses. While one lasts, the model hears it again and
 * again: what may still change is a partial, what will not is a final. Feed, then mxw_live_next until it returns MORE,
 * and so on; mxw_live_finish after the last samples, and mxw_live_next until END. All finals together are the text.
 * The model works inside mxw_live_next, on the thread that calls it; mxw_live_feed only keeps samples and listens for
 * speech, unless so much is waiting that it has to make room. A live stream belongs to one thread at a time; those of
 * one model on several threads are batched (mxw_model_options.batch; on a CPU the decoder's steps). See docs/live.md.
 */
#ifndef MXW_LIVE_H
#define MXW_LIVE_H

#include "session.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mxw_live mxw_live;

typedef enum mxw_live_event_kind {
    MXW_LIVE_SPEECH_STARTED = 0,
    MXW_LIVE_PARTIAL = 1,        /* what was said after the last final; replaces the last partial */
    MXW_LIVE_FINAL = 2,          /* is appended; never changes */
    MXW_LIVE_SPEECH_STOPPED = 3, /* after the finals of the utterance */
    MXW_LIVE_SLOWER = 4,         /* the machine does not keep up: text comes less often than asked, every step_s */
    MXW_LIVE_GAP = 5,            /* samples are missing from start to end (mxw_live_gap) */
    MXW_LIVE_END = 6,            /* after finish: the last event */
    MXW_LIVE_SPEECH_ENDED = 7    /* only with announce_end: the pause was long enough; the last finals follow */
} mxw_live_event_kind;

/* How it is decided, while somebody speaks, which words are final. */
typedef enum mxw_live_policy {
    MXW_LIVE_AGREEMENT = 0,      /* words that two passes in succession agree on (LocalAgreement) */
    MXW_LIVE_ALIGNATT = 1        /* words whose attention lies well before the end of the audio (AlignAtt) */
} mxw_live_policy;

/* Owned by the library, valid until the next call with the stream; fields may be added at the end. Times are seconds
 * since the stream's first sample. */
typedef struct mxw_live_event {
    mxw_live_event_kind kind;
    int64_t utterance;           /* from 0 on */
    double start, end;           /* of the words, of the speech, or of the gap */
    const char *text;            /* UTF-8, as decoded: usually with a leading space; "" without words */
    const mxw_word_array *words; /* mxw_live_event_word */
    size_t n_words;
    double probability;          /* mean of the words' */
    const char *language;        /* code; NULL while it is unknown */
    double language_probability; /* negative if it was given */
    double heard_s;              /* how much of the stream had been fed when it was computed */
    double ready_s;              /* when it was ready, since the stream was opened, by the clock of the options */
    double step_s;               /* SLOWER: seconds between passes from now on */
} mxw_live_event;

typedef struct mxw_live_options {
    size_t struct_size;
    /* NULL: mxw_live_decoding_default. Strings are copied. The stream always has speech detection and word times and
     * never timestamps in its text, whatever vad, word_timestamps and without_timestamps are. What has no meaning here
     * must be at its default, else E_ARGUMENT: clip_timestamps, start_s, parallel, prefix, carry_initial_prompt,
     * max_initial_timestamp, hallucination_silence_threshold, token_details, mel_reference, on_progress, on_segment,
     * on_window, vad_min_silence_ms, vad_min_speech_ms, vad_max_speech_s. vad_pad_ms: at most 5000 */
    const mxw_session_options *decoding;
    mxw_live_policy policy;
    double pause_ms;             /* 500: silence that ends an utterance */
    double step_ms;              /* 500: least time between passes; it grows with what a pass costs */
    double margin_ms;            /* 1000: words nearer than this to the end of the audio are not final while somebody
                                  * speaks */
    double cut_s;                /* 12: an utterance longer than this is heard from later on */
    int keep_result;             /* 0; 1: mxw_live_result has all finals; memory then grows with the text */
    void *user;                  /* NULL; passed to the callbacks */
    double (*now)(void *user);   /* NULL: the system's monotonic clock, in seconds */
    void (*computed)(void *user, double audio_s);   /* NULL; called when the model has heard so much audio, before the
                                                     * time is taken: lets a virtual clock move on */
    double start_pad_ms;         /* MXW_NONE: vad_pad_ms of decoding; else 0 to 5000: audio before its speech with which
                                  * an utterance begins */
    int announce_end;            /* 0; 1: MXW_LIVE_SPEECH_ENDED is given as well */
} mxw_live_options;

typedef struct mxw_live_stats {
    size_t struct_size;          /* sizeof(mxw_live_stats) */
    double fed_s, speech_s;      /* seconds fed; seconds inside utterances */
    int64_t n_utterances, n_passes, n_words, n_words_dropped;   /* words: final; dropped: by the guard */
    double compute_s;            /* of all passes, by the clock of the options */
    double step_s;               /* between passes now */
    double level;                /* root mean square of the last 100 ms, 0 to 1 */
    double speech;               /* probability of speech in the last 32 ms */
    double silence_s;            /* inside an utterance: for how long nobody has spoken; else 0 */
} mxw_live_stats;

MXW_API void mxw_live_options_default(mxw_live_options *options, size_t struct_size);
#define mxw_live_options_default(options) mxw_live_options_default(options, sizeof(*(options)))
/* Decoding as live streams use it: the session's defaults with guard DROP, without temperature fallback and without the
 * text of earlier utterances. */
MXW_API void mxw_live_decoding_default(mxw_session_options *options, size_t struct_size);
#define mxw_live_decoding_default(options) mxw_live_decoding_default(options, sizeof(*(options)))

/* options may be NULL: the defaults. The model must outlive the stream. E_NOT_FOUND: no weights of the detector. */
MXW_API mxw_status mxw_live_open(mxw_model *model, const mxw_live_options *options, mxw_live **out);
MXW_API void mxw_live_close(mxw_live *live);
/* Any number of 16 kHz mono samples in [-1, 1]; they must be finite. */
MXW_API mxw_status mxw_live_feed(mxw_live *live, const float *samples, size_t n);
/* Samples are missing here: ends the utterance, and the clock goes on by so many seconds. */
MXW_API mxw_status mxw_live_gap(mxw_live *live, double seconds);
/* Ends the utterance now, as if a pause had come: everything said so far becomes final. */
MXW_API mxw_status mxw_live_flush(mxw_live *live);
/* No more samples; flushes. */
MXW_API mxw_status mxw_live_finish(mxw_live *live);
/* The next event: OK with *event set; END after MXW_LIVE_END was given; MORE when samples must be fed first. Runs the
 * model when it is time for that. A stream of which a call failed, except for its arguments, does not go on: the events
 * that were ready are given, then every call fails as that one did. */
MXW_API mxw_status mxw_live_next(mxw_live *live, const mxw_live_event **event);
/* Word i of n_words; NULL past the end. */
MXW_API const mxw_word *mxw_live_event_word(const mxw_live_event *event, size_t i);
/* All finals so far as segments: sentences, and utterances; finals that come may still be added to the last one. Owned
 * by the stream, valid until the next call with it. NULL without keep_result, or when memory runs out. */
MXW_API const mxw_result *mxw_live_result(mxw_live *live);
MXW_API mxw_status mxw_live_get_stats(const mxw_live *live, mxw_live_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
