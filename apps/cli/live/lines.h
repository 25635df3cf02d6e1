/* cli/live/lines.h - final text as lines, for programs that read them: a line for each sentence.
 *
 * In: words as they become final. Out: lines on standard output, each written and flushed whole as soon as the word
 * after it is known: punctuation may still come for the last one.
 * Invariants: a line has at most LINE_COLUMNS columns, so that a speaker who never pauses is printed, too, and what is
 * kept is bounded; no word is cut unless it is longer than that.
 */
#ifndef CLI_LIVE_LINES_H
#define CLI_LIVE_LINES_H

#include <stddef.h>

enum { LINE_COLUMNS = 100 };

/* Zero-initialised: empty. */
typedef struct text_lines {
    char *text;
    size_t n, room;
} text_lines;

/* Bytes of the first line that is complete, or 0. */
size_t lines_complete(const char *text, size_t n);

void lines_add(text_lines *lines, const char *text);
/* The utterance is over: the rest is a line. */
void lines_end(text_lines *lines);
void lines_free(text_lines *lines);

#endif
