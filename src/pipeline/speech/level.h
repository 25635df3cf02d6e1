/* pipeline/speech/level.h - quiet recordings made louder for a detector of speech: Silero's network does not hear
 * speech far below full scale; Whisper does, because it looks at a recording relative to its own maximum.
 *
 * In: samples. Out: the same samples, each chunk of 32 ms multiplied by one gain of at least 1, into mx_speech. The
 * gain follows the loudest chunk of the next half second and of what came before, which is forgotten by 3 dB a second.
 * Invariant: what comes out does not depend on how samples were split into calls. Memory does not grow. */
#ifndef MX_LEVEL_H
#define MX_LEVEL_H
#include "pipeline/speech/speech.h"

#define MX_LEVEL_AHEAD 16     /* chunks that the gain sees, and by which the output is late: half a second */

typedef struct mx_level mx_level;

mxw_status mx_level_open(mx_level **out);
void mx_level_close(mx_level *level);   /* NULL is fine */
mxw_status mx_level_feed(mx_level *level, const float *samples, size_t n, mx_speech *out);
mxw_status mx_level_finish(mx_level *level, mx_speech *out);   /* the rest; out itself is not finished */
#endif
