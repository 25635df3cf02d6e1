/* server/load/admission.h - how many recordings are transcribed at once, and who is next.
 *
 * There are general places (--concurrency) and spare ones. A general place that becomes free goes to the request that
 * has waited longest, whatever it is; a spare one to the short recording that has waited longest. So no long recording
 * is overtaken for ever, and no short one waits for a long one to end: those that run together share the device step by
 * step (mxw_model_options.batch).
 *
 * A request comes in with its headers and holds its room until its end, so that uploads, threads, memory and disk are
 * bounded; when there is none left the next one is refused at once. But an upload that is slow (load/uploads.h) gives
 * its room to the next one instead: who sends a byte now and then keeps nobody out.
 *
 * Invariants: there are never more requests inside than places and --queue have room for. A model never has more
 * sessions than it has slots.
 */
#ifndef SERVER_LOAD_ADMISSION_H
#define SERVER_LOAD_ADMISSION_H

#include "core/server_context.h"
#include "load/uploads.h"
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

/* The room of a request: where its upload is. Zero before admission_enter. */
typedef struct admission_room {
    enum { ROOM_NONE, ROOM_UPLOAD, ROOM_WHOLE, ROOM_GIVEN_UP } state;
    upload upload;
    struct connection_record *record; /* its connection's */
} admission_room;

admission *admission_open(server_context *s);
void admission_close(admission *a);
/* A request came, on that connection: 1, or 0 if there is no room for it. The bytes of its upload are told by
 * admission_arrived, its end by admission_whole; 0: its room was given to another request meanwhile, and its connection
 * will be shut within seconds. */
int admission_enter(admission *a, admission_room *room, int fd, struct connection_record *record);
int admission_arrived(admission *a, admission_room *room, size_t n);
int admission_whole(admission *a, admission_room *room);
/* It needs no room any more, if it ever had any; a room that was given up stays that. */
void admission_leave(admission *a, admission_room *room);
/* Waits for a place: 1, or 0 if must_stop said so. Each 1 has its admission_release. */
int admission_wait(admission *a, admission_ticket *ticket);
void admission_release(admission *a, admission_ticket *ticket, double seconds);
/* must_stop of somebody may have changed. */
void admission_wake(admission *a);
/* Seconds after which a refused client may try again: 1 to 60. */
int admission_retry_s(admission *a);
/* Requests that are uploaded, transcribe, wait, and are there in all. */
void admission_counts(admission *a, int *uploading, int *running, int *waiting, int *inside);

#endif
