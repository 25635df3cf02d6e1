/* cli/order.h - what several recordings at once have to say, in the order of the command line.
 *
 * In: pieces of standard output and lines for standard error, each with its recording's place. Out: the same, place
 * after place. The first place that has not ended is the front: what is said there goes out at once. What is said at
 * later places is kept until their turn.
 * What holds: with any number of recordings under way, both streams read as if they had come one after another. Any
 * thread may call; one thread a place.
 */
#ifndef CLI_ORDER_H
#define CLI_ORDER_H

#include <stddef.h>

#include "max_whisper.h"

typedef struct order order;

/* n places; several: each that prints something gets a line with its name before it. NULL: no memory. */
order *order_open(int n, int several);
void order_close(order *o);
/* When the others will not come: says what places that have ended still keep, and drops the rest. */
void order_finish(order *o);

/* The name, once, before anything else of the place. */
void order_begin(order *o, int place, const char *name);
/* 0, or -1 once standard output failed. */
int order_write(order *o, int place, const void *bytes, size_t n);
void order_flush(order *o, int place);
/* A line of log.h's, and bytes for standard error as they are. */
void order_say(order *o, int place, mxw_log_level level, const char *message);
void order_report(order *o, int place, const void *bytes, size_t n);
/* 1 if there was no memory to keep all of a place's output. */
int order_lost(order *o, int place);
/* Nothing more will come; partial: it was broken off, so that of its output nothing that was kept is worth printing. */
void order_end(order *o, int place, int partial);

#endif
