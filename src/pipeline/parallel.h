/* pipeline/parallel.h - one recording decoded by several lanes: its clips are cut at pauses into pieces of at most one
 * window, and each piece is decoded like a recording of its own, without the text before it.
 *
 * A lane is a session inside the session, with its own thread, slot and scratch memory; log-mel, speech, plan and
 * options are the session's. The batcher merges what the lanes ask for. A lane needs a free slot of the model's shared
 * batcher, except for the first one, which uses the session's: with fewer slots there are fewer lanes.
 *
 * Invariants: the result depends neither on the number of lanes nor on timing. Pieces are appended in their order, and
 * every callback is called, on the thread that calls mx_session_next. Lanes touch nothing of the caller's. */
#ifndef MX_PARALLEL_H
#define MX_PARALLEL_H
#include "max_whisper.h"

typedef struct mx_lanes mx_lanes;

/* For a session whose slot, log-mel and speech are open; sets session->lanes. */
mxw_status mx_lanes_open(mxw_session *session);
void mx_lanes_close(mx_lanes *lanes);   /* stops them first; NULL is fine */
/* Appends pieces until there are new segments or nothing is left: OK, END, or MORE. */
mxw_status mx_lanes_advance(mxw_session *session);
#endif
