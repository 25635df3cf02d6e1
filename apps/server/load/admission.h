/* server/load/admission.h - how many recordings are transcribed at once, and who is next.
 *
 * There are general places (--concurrency) and spare ones. A general place that becomes free goes to the request that
 * has waited longest, whatever it is; a spare one to the short recording that has waited longest. So no long recording
 * is overtaken for ever, and no short one waits for a long one to end: those that run together share the device step by
 * step (mxw_model_options.batch).
 *
 * Invariants: a request is counted from its headers to its end, and refused at once when queue and places are full, so
 * that uploads, threads and memory are bounded. A model never has more sessions than it has slots.
 */
#ifndef SERVER_LOAD_ADMISSION_H
#define SERVER_LOAD_ADMISSION_H

#include "core/server_context.h"
#include "models/registry.h"

typedef struct admission admission;

/* A place to transcribe, or a request that waits for one. */
typedef struct admission_ticket {
    /* by the caller */
    int is_short;
    int wanted;                       /* general places that would be of use: 1, or lanes of one recording */
    const model_lease *lease;
    void (*on_position)(void *user, int position);   /* NULL; the place in the queue, from 1, when it changes */
    int (*must_stop)(void *user);
    void *user;
    /* by admission */
    int granted;                      /* places that it has */
    int is_spare;
    int told;                         /* the position that was told last */
    struct admission_ticket *next;
} admission_ticket;

admission *admission_open(server_context *s);
void admission_close(admission *a);
/* A request came: 1, or 0 if there is no room for it. Each 1 has its admission_leave. */
int admission_enter(admission *a);
void admission_leave(admission *a);
/* Waits for a place: 1, or 0 if must_stop said so. Each 1 has its admission_release. */
int admission_wait(admission *a, admission_ticket *ticket);
void admission_release(admission *a, admission_ticket *ticket, double seconds);
/* must_stop of somebody may have changed. */
void admission_wake(admission *a);
/* Seconds after which a refused client may try again: 1 to 60. */
int admission_retry_s(admission *a);
/* Requests that transcribe, wait, and are there in all. */
void admission_counts(admission *a, int *running, int *waiting, int *inside);

#endif
