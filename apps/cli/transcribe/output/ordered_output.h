/* cli/transcribe/output/ordered_output.h - the output of several recordings at once, in command-line order.
 *
 * In: pieces of standard output and lines for standard error, each with its recording's place. Out: the same, place
 * after place. The first place that has not ended is the front: what is said there goes out at once. What is said at
 * later places is kept until their turn.
 * Invariants: with any number of recordings under way, both streams read as if they had come one after another. Any
 * thread may call; one thread a place.
 */
#ifndef CLI_TRANSCRIBE_ORDERED_OUTPUT_H
#define CLI_TRANSCRIBE_ORDERED_OUTPUT_H

#include <stddef.h>

#include "max_whisper.h"

typedef struct ordered_output ordered_output;

/* n places; several: each that prints something gets a line with its name before it. NULL: no memory. */
ordered_output *ordered_open(int n, int several);
void ordered_close(ordered_output *o);
/* When the others will not come: says what places that have ended still keep, and drops the rest. */
void ordered_finish(ordered_output *o);

/* The name, once, before anything else of the place. */
void ordered_begin(ordered_output *o, int place, const char *name);
/* 0, or -1 once standard output failed. */
int ordered_write(ordered_output *o, int place, const void *bytes, size_t n);
void ordered_flush(ordered_output *o, int place);
/* A line of log.h's, and bytes for standard error as they are. */
void ordered_log(ordered_output *o, int place, mxw_log_level level, const char *message);
void ordered_report(ordered_output *o, int place, const void *bytes, size_t n);
/* 1 if there was no memory to keep all of a place's output. */
int ordered_lost(ordered_output *o, int place);
/* Nothing more will come; partial: it was broken off, so that of its output nothing that was kept is worth printing. */
void ordered_end(ordered_output *o, int place, int partial);

#endif
