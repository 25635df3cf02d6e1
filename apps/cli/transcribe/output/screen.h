/* cli/transcribe/output/screen.h - a recording on standard output: timed lines, JSON lines, a whole format or nothing.
 *
 * Invariants: a segment is one line, whatever its text holds; a line is written and flushed whole. A language stands
 * before the text where it differs from that of the line before.
 */
#ifndef CLI_TRANSCRIBE_SCREEN_H
#define CLI_TRANSCRIBE_SCREEN_H

#include "transcribe/output/ordered_output.h"
#include "transcribe/transcribe_options.h"

typedef enum screen_form { SCREEN_NOTHING, SCREEN_LINES, SCREEN_JSON_LINES, SCREEN_TEXT, SCREEN_FORMAT } screen_form;

typedef struct screen {
    screen_form form;
    ordered_output *output;
    int place;        /* in output */
    const char *name; /* printed before the text where there are several recordings */
    int colors;       /* text that the guard suspects is grey */
    char language[8]; /* of the last line, where each has its own */
} screen;

/* Whether standard output is a terminal that shows colours, and nobody wants it without (NO_COLOR). */
int screen_has_colors(void);
screen_form screen_choose(const transcribe_options *options);
/* A segment that was just found, where they are shown one by one. */
void screen_segment(screen *s, const mxw_segment *segment);
/* The finished result, where it is shown as a whole. newline: ends json with one, which openai-whisper's file lacks. */
mxw_status screen_result(screen *s, const mxw_result *result, const char *format, const mxw_write_options *options,
                         int newline);
/* mm:ss.mmm, with hours in front from the first hour on; rounded as Python's round() does. 40 bytes are enough. */
void screen_timestamp(char *out, size_t size, double seconds);

#endif
