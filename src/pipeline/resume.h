/* pipeline/resume.h - window records: what a session needs to continue after a window that was transcribed earlier.
 *
 * A window record holds what one window changed: its segments, where the next window begins, and its prompt. It carries
 * a fingerprint of the model's weights, of the options that text depends on and of the samples, so that a session
 * accepts only records of the same recording. Sampling at temperatures above 0 is seeded by the window's number, so
 * there is no other state. */
#ifndef MX_RESUME_H
#define MX_RESUME_H
#include <stdint.h>

#include "max_whisper.h"

typedef struct mx_fingerprint {
    uint64_t model, options, samples;   /* digests */
} mx_fingerprint;

/* Digests of model and options; starts that of the samples. */
mxw_status mx_fingerprint_start(mxw_session *s);
void mx_fingerprint_add(mx_fingerprint *fingerprint, const float *samples, size_t n);
/* Passes the record of the window that was just done, with its segments from `first` on, to on_window, if set. */
mxw_status mx_session_give_record(mxw_session *s, size_t first);
#endif
