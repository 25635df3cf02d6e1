/* pipeline/speech/clips.h - the parts of a recording that are transcribed: those that the caller wants, and with vad
 * the speech in them.
 *
 * With vad a clip is a region of speech, or several with short pauses between them that together fit into one window: a
 * window costs the same however little is in it. Regions end up in clips as soon as nothing that follows can change
 * that, so that text comes while a recording is still running; a clip longer than a window is given before its end is
 * known.
 *
 * Invariant: the clips of a recording do not depend on how its samples were split into calls. */
#ifndef MX_CLIPS_H
#define MX_CLIPS_H
#include "pipeline/speech/speech.h"

typedef struct mx_clip {
    int64_t start, end;   /* mel frames; end INT64_MAX: the end of the recording */
    const char *language; /* of its windows; NULL: the session's */
    double language_probability;
} mx_clip;

/* Walks through the speech in wanted clips. */
typedef struct mx_clip_plan {
    const mx_clip *wanted;   /* in any order, possibly overlapping: each is walked from its start */
    int n_wanted;
    int at;                  /* the wanted clip that the walk is in, ... */
    size_t region;           /* ... and the first region that is not done */
} mx_clip_plan;

typedef enum mx_clip_state {
    MX_CLIP_NONE,      /* there are no more */
    MX_CLIP_UNKNOWN,   /* it is not known yet what comes next */
    MX_CLIP_GROWING,   /* it begins at start and is longer than a window: it reaches at least to end */
    MX_CLIP_KNOWN
} mx_clip_state;

/* The next clip. A known one is done with: the next call gives the one after it; a growing one is given again. */
mx_clip_state mx_clip_next(mx_clip_plan *plan, const mx_speech *speech, mx_clip *clip);
#endif
