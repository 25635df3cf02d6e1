/* pipeline/live/live.h - internals of a live stream. listen.c finds utterances in the samples that are fed; live.c
 * decides when the model hears one of them (a pass) and what of its words becomes final; pass.c runs it, through a
 * session that stands for one clip; policy.c chooses among the words; events.c keeps what was not fetched yet;
 * transcript.c keeps all finals, if they are wanted. See docs/live.md. */
#ifndef MX_LIVE_H
#define MX_LIVE_H
#include "pipeline/live/encoder.h"
#include "pipeline/session.h"

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

typedef struct mx_live_word {
    size_t begin, end;            /* bytes of the hypothesis's text */
    size_t first_token, n_tokens;
    double start_s, end_s;        /* from the first sample of the clip */
    double probability, suspicion;
    uint32_t reasons;
    double attended_s;            /* the latest place that a token of it looks at */
} mx_live_word;

/* What a pass made of a clip: its words, those that it was given included. Punctuation that joined the last of those is
 * a word of its own, after them. */
typedef struct mx_hypothesis {
    mx_str text;
    mx_tokens tokens;             /* of text */
    mx_live_word *words;
    size_t n_words, room_words;
    size_t next;                  /* the first word that is not final */
    double audio_s;               /* of the clip */
} mx_hypothesis;

void mx_hypothesis_clear(mx_hypothesis *h);
void mx_hypothesis_free(mx_hypothesis *h);
/* Whether two words are the same text. */
int mx_live_word_equal(const mx_hypothesis *a, size_t i, const mx_hypothesis *b, size_t j);

typedef struct mx_pass {
    const float *samples;
    size_t n;
    const mx_tokens *context;     /* text before the clip; may be empty */
    const mx_tokens *known;       /* what its text begins with */
    int ask_language;             /* the session's is asked for first */
    int greedy;                   /* a quick one */
    mx_live_encoder *encoder;     /* or NULL: the model's own */
    float *loudest;               /* log-mel of the loudest sound before the clip; raised to that of the clip */
} mx_pass;

/* A session for passes, with the stream's options. */
mxw_status mx_pass_open(mx_recognizer *r, const mxw_session_options *options, mx_session **out);
mxw_status mx_pass_run(mx_session *s, const mx_pass *pass, mx_hypothesis *out);

/* ---- policies ---------------------------------------------------------------------------------------------------- */

/* How many words of `now` are final while the utterance goes on, at least now->next: words are considered up to the
 * margin before the end of the audio. */
typedef struct mx_policy {
    const char *name;
    size_t (*settle)(const mx_hypothesis *before, const mx_hypothesis *now, double margin_s);
} mx_policy;
const mx_policy *mx_policy_of(mxw_live_policy policy);   /* NULL: there is none */

/* ---- events ------------------------------------------------------------------------------------------------------ */

typedef struct mx_event mx_event;
typedef struct mx_events {
    mx_event *first, *last;
    mx_event *given;              /* the one that the caller reads */
} mx_events;

/* Words [first, end) of h, on the stream's clock: offset_s later. h may be NULL: none. A later pass may hear the last
 * final word end a little earlier than it was said to: what follows begins after that nevertheless. */
typedef struct mx_event_words {
    const mx_hypothesis *h;
    size_t first, end;
    double offset_s, not_before_s;
    int drops;                    /* leaves out what the guard suspects */
} mx_event_words;
/* Copies the words; a partial that nobody fetched yet is replaced. */
mxw_status mx_events_add(mx_events *events, const mxw_live_event *event, const mx_event_words *words);
const mxw_live_event *mx_events_take(mx_events *events);         /* NULL: none waits */
const mxw_live_event *mx_events_last(const mx_events *events);   /* the one that was added last, if it waits */
void mx_events_free(mx_events *events);

/* ---- the transcript ---------------------------------------------------------------------------------------------- */

typedef struct mx_transcript mx_transcript;
mxw_status mx_transcript_open(const mxw_session_options *options, mx_transcript **out);
void mx_transcript_close(mx_transcript *transcript);   /* NULL is fine */
mxw_status mx_transcript_add(mx_transcript *transcript, const mxw_live_event *final);
mxw_status mx_transcript_break(mx_transcript *transcript);   /* an utterance ended: so does the segment */
/* Valid until something is added; NULL when memory runs out. */
const mxw_result *mx_transcript_result(mx_transcript *transcript, double duration_s);

/* ---- listening --------------------------------------------------------------------------------------------------- */

/* A stretch of speech; samples are counted from the first one fed. */
typedef struct mx_utterance {
    int64_t id;
    int64_t start, end;           /* of the audio that is heard, padded; end < 0: it goes on */
    int64_t speech_start, speech_end;
    double offset_s;              /* of the stream's clock: gaps before it */
    int breaks_off;               /* it was cut before a pause had begun */
} mx_utterance;

#define MX_LIVE_UTTERANCES 64     /* that wait at most */
#define MX_LIVE_PAUSE_BEGINS (MXW_SAMPLE_RATE / 5)   /* silence after which the thorough pass is due */

typedef struct mx_listener {
    mx_detector detector;
    float threshold, neg_threshold;
    int64_t start_pad, pad, pause;   /* samples: before the speech, after it, and of silence that ends it */
    int64_t n_chunks;             /* heard */
    int run;                      /* chunks of speech in a row, outside of an utterance ... */
    int64_t run_start;            /* ... from here on */
    int64_t silence;              /* inside one: silence since there; -1: speech */
    float probability;            /* of the last chunk */
    mx_utterance waiting[MX_LIVE_UTTERANCES];   /* the last one may go on */
    int n_waiting;
    int64_t n_utterances;
    int64_t last_end;             /* of the last one's audio */
} mx_listener;

/* A word that is final and still in the clip. */
typedef struct mx_known_word {
    size_t n_tokens;
    int64_t start, end;           /* samples */
    int ends_sentence;
} mx_known_word;

/* ---- the stream -------------------------------------------------------------------------------------------------- */

struct mxw_live {
    mx_recognizer *recognizer;
    mxw_live_options options;     /* decoding is `decoding` */
    mxw_session_options decoding;
    mx_session *session;          /* computes passes, ... */
    mx_live_encoder *encoder;     /* ... with this, on a CPU; else NULL */
    const mx_policy *policy;
    mx_events events;
    mx_transcript *transcript;    /* or NULL */
    mx_listener listener;

    float *samples;               /* [room]: of the stream from `first` on */
    size_t room;
    int64_t first, fed;
    double offset_s;              /* gaps so far */

    /* the utterance that is heard: listener.waiting[0] */
    int64_t clip;                 /* its audio is heard from this sample on */
    int64_t now_clip, before_clip;   /* the first sample of the last pass, of the one before; the clip may have been
                                        shortened since */
    size_t now_given;             /* words that the last pass was given */
    double final_end_s;           /* of the last final word, on the stream's clock */
    mx_tokens context, known;     /* final text before the clip, and in it ... */
    mx_known_word *known_words;   /* ... by words */
    size_t n_known, room_known;
    mx_hypothesis before, now;    /* of the last two passes */
    int64_t heard;                /* up to where the last pass heard; -1: there was none in this utterance */
    int thorough;                 /* that was with beams */
    float loudest;                /* log-mel of the loudest sound of the last utterances ... */
    int64_t loudest_at;           /* ... which was heard up to here */
    int has_partial;              /* the caller was given one that is not empty */
    int announced;                /* speech_started was given */
    int end_announced;            /* speech_ended was */
    int language_settled;

    double opened_s;              /* by the clock */
    double cost_s;                /* of a pass, smoothed */
    double announced_step_s;      /* what the last SLOWER said; 0: none, or the machine has caught up since */
    int finished, ended;
    mxw_live_stats stats;
    double square;                /* mean, of the last 100 ms */
    struct {
        mxw_status status;
        char line[512];
    } failure;
};

/* At the end of an utterance (policy.c). Where the sound breaks off in the middle of something, beams may prefer a
 * text that ends before it: if the pass before heard words in the rest of the speech, `now` becomes that pass. One that
 * heard nothing at all is believed: that was noise. */
void mx_live_keep_tail(mx_live *live);
/* Whether the rest still has no word, and speech broke off: the pass before may be a step old, so another one without
 * beams is due, up to the end. */
int mx_live_lacks_tail(const mx_live *live);
/* After that one: `now` becomes again what was chosen before it, unless it has words in the rest. */
void mx_live_choose_tail(mx_live *live);

mxw_status mx_listener_open(mx_live *live);
/* Hears samples that live->samples has; new utterances are in waiting. */
mxw_status mx_listener_feed(mx_live *live, const float *samples, size_t n);
mxw_status mx_listener_finish(mx_live *live);
void mx_listener_cut(mx_live *live);   /* ends the utterance that goes on, if any */
#endif
