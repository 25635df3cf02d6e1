/* live_kit.h - what the tests of live streams share: a virtual clock, a replay of sound in virtual time, a reader of
 * events that knows their grammar.
 *
 * In virtual time sample i of a stream arrives at i / 16000 s, in packets; computing takes what the clock says, and
 * packets that arrive meanwhile wait, as they do in front of a machine that is busy. Everything follows from that, so
 * two replays are the same. */
#ifndef LIVE_KIT_H
#define LIVE_KIT_H
#include "base/str.h"
#include "max_whisper.h"

typedef struct live_clock {
    double now_s;
    double pass_s, per_s;       /* a pass takes pass_s, and per_s for each second that it hears */
    int64_t n_passes;
    double fed_s;               /* what live_feed has fed */
    double heard_s;             /* what had been fed when the last pass began */
    double oldest_s;            /* of what a pass heard first: most seconds since it was said, at the end of the pass */
} live_clock;

/* Connects options with the clock. */
void live_clock_use(live_clock *clock, mxw_live_options *options);

typedef struct live_log {
    mx_str lines;               /* every event as a line, if keeps */
    mx_str finals;              /* the texts of the finals, one after the other, if keeps */
    char broken[400];           /* the first violation of the grammar, or "" */
    int keeps;                  /* 0: counts and checks, in memory that does not grow */
    void *user;
    void (*on_event)(void *user, const mxw_live_event *e);   /* NULL; gets every event */
    int64_t counts[MXW_LIVE_SPEECH_ENDED + 1];
    double stop_delay_s;        /* most, from the end of an utterance's speech to speech_stopped, by the clock */
    double step_s;              /* what the last SLOWER said */

    /* of the reader */
    int inside, has_partial, ended;
    int announces_end;          /* announce_end of the options, for the reader */
    int end_announced;
    int64_t utterance;
    double started_s, final_end_s, heard_s, ready_s;
} live_log;

/* Takes events until next returns something else than OK, which is returned. The result, if stream and log keep it, is
 * compared with the finals. */
mxw_status live_take(mxw_live *live, live_log *log);
void live_log_free(live_log *log);
const char *live_kind(const mxw_live_event *e);   /* "final", ... */

/* n samples of the stream, from `first` on. */
typedef void (*live_sound)(void *user, int64_t first, size_t n, float *out);

typedef struct live_source {
    live_sound sound;           /* live_array, ... */
    void *user;
    int64_t n;                  /* samples in all */
    size_t packet;              /* samples of one; at most LIVE_PACKET */
    int on_time;                /* sample i comes at i / 16000 s by the clock, whatever was fed before and how long that
                                   took; 0: the first one that is fed comes now */
} live_source;

#define LIVE_PACKET 16000

/* Feeds the source in virtual time and takes events as they come, without finish. at: packets are fed from here on. */
mxw_status live_feed(mxw_live *live, live_clock *clock, const live_source *source, int64_t at, live_log *log);
/* Open, feed, finish, take all, close. END when all went well; else log->broken or the error line says why. */
mxw_status live_replay(mxw_model *model, const mxw_live_options *options, live_clock *clock, const live_source *source,
                       live_log *log);

/* Speech for some seconds, then silence for some, and so on; the detector of fake_detector.h hears it so. */
typedef struct live_turn {
    double speech_s, silence_s;
} live_turn;
typedef struct live_script {
    const live_turn *turns;
    size_t n;
    int repeats;                /* from the beginning, after the last */
    uint64_t seed;
} live_script;
void live_script_sound(void *script, int64_t first, size_t n, float *out);
int64_t live_script_samples(const live_script *script);

/* live_sound of an array of floats. */
void live_array(void *samples, int64_t first, size_t n, float *out);
#endif
