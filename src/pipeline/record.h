/* pipeline/record.h - what a session must know of a window that was done before it.
 *
 * A record is what changed with one window: segments, where the next window begins, what it is prompted with. It is
 * bound to the model's weights, to the options that text depends on, and to the samples, so that a session takes only
 * records of the very recording that it has. Draws at temperatures above 0 are made from the window's number: there is
 * no other state. */
#ifndef MX_RECORD_H
#define MX_RECORD_H
#include <stdint.h>

#include "max_whisper.h"

typedef struct mx_binding {
    uint64_t model, options, samples;   /* digests */
} mx_binding;

/* Digests of model and options; that of the samples is begun. */
mxw_status mx_binding_start(mxw_session *s);
void mx_binding_hear(mx_binding *binding, const float *samples, size_t n);
/* Hands the window that was just done, with its segments from `first` on, to whoever asked. */
mxw_status mx_session_record(mxw_session *s, size_t first);
#endif
