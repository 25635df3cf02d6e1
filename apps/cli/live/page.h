/* cli/live/page.h - a live stream in a terminal: finals scroll; in the last line stand a level meter, the time, the
 * delay, and what is not final yet, in grey.
 *
 * In: texts as they come, from the thread that runs the model. Out: lines on standard output. A thread of its own
 * redraws the last line ten times a second, so that the meter lives while the model works.
 * Invariants: there is one page; nothing wraps, whatever the width is at the moment; text that leaves the last line
 * never changes; of a text that is too long the end is shown. A line of the log stands above the last line.
 */
#ifndef CLI_LIVE_PAGE_H
#define CLI_LIVE_PAGE_H

#include "live/source.h"

/* Whether standard output is a terminal that can redraw a line. */
int page_possible(void);
/* real_time: the delay means something. 0: no memory or no thread, and no page. */
int page_open(sound_source *from, int real_time);
/* Takes the last line off the screen and ends the thread; what is pending is printed. */
void page_close(void);

/* Final words of an utterance; start: of the first of them; end: of the last, for the delay. */
void page_final(const char *text, double start, double end);
/* What may still change, instead of the last partial. */
void page_partial(const char *text, double end);
/* The utterance is over: its line ends. */
void page_break(void);
/* A word of ours in place of a partial, until there is one. */
void page_note(const char *note);

#endif
