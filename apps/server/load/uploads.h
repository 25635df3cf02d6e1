/* server/load/uploads.h - recordings that are still arriving, and which of them gives way when there is no room.
 *
 * In: the bytes of each upload as they come. Out: the slowest one, if it is slow.
 * An upload is judged by what came in the last 10 to 20 seconds: not by its mean, which a burst at its start would keep
 * up for hours. One that is younger is not judged, nor is one whose bytes wait in its socket: there the server is slow.
 * Invariants: no lock and no clock of its own; the caller (load/admission.c) has both.
 */
#ifndef SERVER_LOAD_UPLOADS_H
#define SERVER_LOAD_UPLOADS_H

#include <stddef.h>
#include <stdint.h>

/* Slow is less than this. Sound of 128 kbit/s that is sent as fast as it is recorded has half of it. */
enum { UPLOAD_WINDOW_S = 10, UPLOAD_LEAST_RATE = 32 << 10 };

typedef struct upload {
    int fd;
    int64_t since_ns; /* the window began */
    int64_t bytes;    /* of the window */
    int64_t before;   /* bytes of the window before; -1: this is the first one */
    struct upload *previous, *next;
} upload;

typedef struct upload_list {
    upload *first;
} upload_list;

void upload_begin(upload_list *list, upload *u, int fd, int64_t now_ns);
void upload_end(upload_list *list, upload *u);
void upload_arrived(upload *u, size_t n, int64_t now_ns);
/* NULL: none is slow. */
upload *uploads_slowest(upload_list *list, int64_t now_ns);

#endif
