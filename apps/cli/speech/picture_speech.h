/* cli/speech/picture_speech.h - the picture of `vad --plot` and `language --plot`: strips of time with the sound, the
 * regions and their probabilities.
 *
 * In: what was heard. Out: a sheet drawn on. Invariants: five seconds and ten hours both fit on a page: a strip is as
 * long as it must be for six of them to suffice.
 */
#ifndef CLI_SPEECH_PICTURE_SPEECH_H
#define CLI_SPEECH_PICTURE_SPEECH_H

#include "report/draw.h"
#include "speech/hearing.h"

#define PICTURE_SPEECH_WIDTH 1060.0

typedef struct picture_speech {
    const hearing *heard;
    const char *title, *note;
    const double *thresholds; /* where speech begins and where it ends; NULL: none are drawn */
} picture_speech;

double picture_speech_height(const picture_speech *p);
void picture_speech_draw(draw_sheet *s, const picture_speech *p);
/* Seconds of a strip for a recording of that length. */
double picture_speech_strip(double duration_s);

#endif
