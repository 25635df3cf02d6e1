/* cli/live/show.h - events of a live stream on standard output: a page in a terminal, a line for each sentence, or a
 * JSON object for each event.
 *
 * Invariants: a line is written and flushed whole; text that is printed never changes.
 */
#ifndef CLI_LIVE_SHOW_H
#define CLI_LIVE_SHOW_H

#include "live/lines.h"
#include "live/live_options.h"

typedef enum show_form { SHOW_PAGE, SHOW_LINES, SHOW_JSON, SHOW_NOTHING } show_form;

typedef struct show {
    show_form form;
    text_lines lines;
    int language_told;
    int slow; /* of the next gap: this machine is the reason, else the source */
} show;

show_form show_choose(const live_options *options);
/* The page, if that is the form; where there can be none, lines. */
void show_open(show *s, show_form form, sound_source *from, int real_time);
void show_event(show *s, const mxw_live_event *event);
/* The source has another rate from then on. */
void show_rate(show *s, double at_s, int rate);
/* Prints what is pending. */
void show_close(show *s);

#endif
