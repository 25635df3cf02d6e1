/* cli/transcribe/output/ordered_output.c - a queue of pieces for each place that is not the front. */
#include "transcribe/output/ordered_output.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/progress.h"
#include "common/stdout.h"

typedef enum piece_kind { PIECE_NAME, PIECE_OUT, PIECE_LINE, PIECE_REPORT } piece_kind;

/* Stands before its bytes. */
typedef struct piece {
    piece_kind kind;
    mxw_log_level level;
    size_t n;
} piece;

typedef struct queue {
    char *bytes; /* piece, bytes, piece, bytes, ... */
    size_t n, room;
    int named, ended, partial, lost;
} queue;

struct ordered_output {
    pthread_mutex_t lock;
    int n, several, front;
    int n_named; /* of those that printed their name */
    queue places[];
};

ordered_output *ordered_open(int n, int several) {
    ordered_output *o = calloc(1, sizeof(*o) + (size_t)n * sizeof(o->places[0]));
    if (!o)
        return NULL;
    pthread_mutex_init(&o->lock, NULL);
    o->n = n;
    o->several = several;
    return o;
}

/* ---- saying it ------------------------------------------------------------------------------------------ */

static void report(const char *bytes, size_t n) {
    flockfile(stderr);
    progress_hide();
    fwrite(bytes, 1, n, stderr);
    fflush(stderr);
    funlockfile(stderr);
}

static int write_piece(ordered_output *o, const piece *p, const char *bytes) {
    switch (p->kind) {
    case PIECE_NAME:
        if (o->several)
            out_print("%s==> %.*s <==\n", o->n_named ? "\n" : "", (int)p->n, bytes);
        o->n_named++;
        break;
    case PIECE_OUT:
        return out_write(NULL, bytes, p->n);
    case PIECE_LINE:
        log_print(p->level, bytes);
        break;
    case PIECE_REPORT:
        report(bytes, p->n);
        break;
    }
    return out_failed() ? -1 : 0;
}

/* Everything that was kept, and the memory back. */
static void write_queue(ordered_output *o, queue *q) {
    for (size_t at = 0; at < q->n;) {
        piece p;
        memcpy(&p, q->bytes + at, sizeof(p));
        at += sizeof(p);
        if (!q->partial || p.kind == PIECE_LINE || p.kind == PIECE_REPORT)
            write_piece(o, &p, q->bytes + at);
        at += p.n + 1;
    }
    free(q->bytes);
    q->bytes = NULL;
    q->n = q->room = 0;
    out_flush();
}

void ordered_finish(ordered_output *o) {
    pthread_mutex_lock(&o->lock);
    for (int i = 0; i < o->n; i++)
        if (o->places[i].ended)
            write_queue(o, &o->places[i]);
    pthread_mutex_unlock(&o->lock);
}

void ordered_close(ordered_output *o) {
    if (!o)
        return;
    for (int i = 0; i < o->n; i++)
        free(o->places[i].bytes);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

/* ---- keeping it ----------------------------------------------------------------------------------------- */

/* 0 if there is no memory. Bytes end with a 0 of their own, so that a line is a text. */
static int keep(queue *q, const piece *p, const char *bytes) {
    size_t need = q->n + sizeof(*p) + p->n + 1;
    if (need > q->room) {
        size_t room = need < 2048 ? 4096 : 2 * need;
        char *grown = realloc(q->bytes, room);
        if (!grown)
            return 0;
        q->bytes = grown;
        q->room = room;
    }
    memcpy(q->bytes + q->n, p, sizeof(*p));
    memcpy(q->bytes + q->n + sizeof(*p), bytes, p->n);
    q->bytes[need - 1] = 0;
    q->n = need;
    return 1;
}

static int put(ordered_output *o, int place, piece_kind kind, mxw_log_level level, const char *bytes, size_t n) {
    piece p = {kind, level, n};
    int status = 0;
    pthread_mutex_lock(&o->lock);
    queue *q = &o->places[place];
    if (place == o->front) {
        status = write_piece(o, &p, bytes);
    } else if (!keep(q, &p, bytes)) {
        q->lost = 1;
        if (kind == PIECE_LINE || kind == PIECE_REPORT) /* too early is better than never */
            write_piece(o, &p, bytes);
    }
    pthread_mutex_unlock(&o->lock);
    return status;
}

void ordered_begin(ordered_output *o, int place, const char *name) {
    queue *q = &o->places[place];
    if (!q->named)
        put(o, place, PIECE_NAME, MXW_LOG_INFO, name, strlen(name));
    q->named = 1;
}

int ordered_write(ordered_output *o, int place, const void *bytes, size_t n) {
    return put(o, place, PIECE_OUT, MXW_LOG_INFO, bytes, n);
}

void ordered_flush(ordered_output *o, int place) {
    pthread_mutex_lock(&o->lock);
    if (place == o->front)
        out_flush();
    pthread_mutex_unlock(&o->lock);
}

void ordered_log(ordered_output *o, int place, mxw_log_level level, const char *message) {
    put(o, place, PIECE_LINE, level, message, strlen(message));
}

void ordered_report(ordered_output *o, int place, const void *bytes, size_t n) {
    put(o, place, PIECE_REPORT, MXW_LOG_INFO, bytes, n);
}

int ordered_lost(ordered_output *o, int place) {
    pthread_mutex_lock(&o->lock);
    int lost = o->places[place].lost;
    pthread_mutex_unlock(&o->lock);
    return lost;
}

void ordered_end(ordered_output *o, int place, int partial) {
    pthread_mutex_lock(&o->lock);
    o->places[place].ended = 1;
    o->places[place].partial = partial;
    while (o->front < o->n && o->places[o->front].ended)
        if (++o->front < o->n)
            write_queue(o, &o->places[o->front]);
    pthread_mutex_unlock(&o->lock);
}
