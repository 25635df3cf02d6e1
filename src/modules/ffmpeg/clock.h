/* modules/ffmpeg/clock.h - inside the module: what the timestamps of a live source skip, beside its samples.
 *
 * In: the timestamp and the length of each frame. Out: seconds that are missing before it.
 * Invariants: samples and what is missing keep pace with the timestamps, so that a clock which counts both is the
 * source's, from its first frame on. Timestamps that tremble, or run a little faster or slower than the samples, are
 * followed; those that go back, or start again somewhere else, are the source's clock from there on.
 */
#ifndef MX_FFMPEG_CLOCK_H
#define MX_FFMPEG_CLOCK_H

#define SOURCE_RESTART_S 10.0   /* clocks that start again jump farther, as FFmpeg's command has it */
#define DEVICE_SLACK_S 0.5      /* a device's timestamps are the time of day: when that is set they jump, too */

typedef struct source_clock {
    double slack_s;     /* a jump forward is missing sound if no longer than this and the time since the last frame:
                           INFINITY, or less where timestamps may start again; set before the first frame */
    int begun;
    double next_s;      /* the timestamp that the next frame should have */
    double ahead_s;     /* timestamps went back by so much: what they skip next was there */
    double last_read_s; /* when the last frame was, in real time */
} source_clock;

/* at_s: NAN if the frame has no timestamp. */
double source_clock_missing(source_clock *clock, double at_s, double length_s);
#endif
