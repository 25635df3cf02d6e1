/* server/load/admission.c - see admission.h. */
#include "load/admission.h"

#include <pthread.h>
#include <stdlib.h>

#include "http/connections.h"

enum { MAX_MODELS = 64 };

typedef struct places {
    int general, spare; /* taken */
} places;

struct admission {
    server_context *server;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int n_general, n_spare, n_most; /* places, and requests at once */
    int inside, running;
    upload_list uploads; /* of those inside */
    places all, of_model[MAX_MODELS];
    admission_ticket *first; /* those that wait, in the order in which they came */
    double mean_s;           /* of a recording, lately */
};

admission *admission_open(server_context *s) {
    admission *a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    a->server = s;
    a->n_general = models_concurrency(s->models);
    a->n_spare = models_spare(s->models);
    a->n_most = a->n_general + a->n_spare + s->options->queue;
    a->mean_s = 1;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    return a;
}

void admission_close(admission *a) {
    if (!a)
        return;
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

/* ---- rooms ---------------------------------------------------------------------------------------------- */

static admission_room *room_of(upload *u) { return (admission_room *)((char *)u - offsetof(admission_room, upload)); }

/* What its client still sends is answered by its thread; the connection is not waited for longer than that takes. */
static void give_up(admission *a, upload *u) {
    admission_room *room = room_of(u);
    upload_end(&a->uploads, u);
    room->state = ROOM_GIVEN_UP;
    a->inside--;
    connection_enter(room->record, CONNECTION_ENDING);
}

int admission_enter(admission *a, admission_room *room, int fd, struct connection_record *record) {
    pthread_mutex_lock(&a->lock);
    int64_t now = server_now_ns();
    upload *slowest = a->inside < a->n_most ? NULL : uploads_slowest(&a->uploads, now);
    if (slowest)
        give_up(a, slowest);
    int may = a->inside < a->n_most;
    if (may) {
        a->inside++;
        *room = (admission_room){.state = ROOM_UPLOAD, .record = record};
        upload_begin(&a->uploads, &room->upload, fd, now);
    }
    pthread_mutex_unlock(&a->lock);
    return may;
}

int admission_arrived(admission *a, admission_room *room, size_t n) {
    pthread_mutex_lock(&a->lock);
    upload_arrived(&room->upload, n, server_now_ns());
    int has_room = room->state != ROOM_GIVEN_UP;
    pthread_mutex_unlock(&a->lock);
    return has_room;
}

/* The caller has the lock. */
static void end_upload(admission *a, admission_room *room) {
    if (room->state != ROOM_UPLOAD)
        return;
    upload_end(&a->uploads, &room->upload);
    room->state = ROOM_WHOLE;
}

int admission_whole(admission *a, admission_room *room) {
    pthread_mutex_lock(&a->lock);
    end_upload(a, room);
    int has_room = room->state != ROOM_GIVEN_UP;
    pthread_mutex_unlock(&a->lock);
    return has_room;
}

void admission_leave(admission *a, admission_room *room) {
    pthread_mutex_lock(&a->lock);
    end_upload(a, room);
    if (room->state == ROOM_WHOLE) {
        a->inside--;
        room->state = ROOM_NONE;
    }
    pthread_mutex_unlock(&a->lock);
}

/* ---- who may go ----------------------------------------------------------------------------------------- */

/* Of a model with fewer slots than were wanted: one in three is spare, and one in three left to live streams. */
static int spare_of(const admission *a, const model_lease *lease) {
    int most = lease->slots >= 3 ? lease->slots / 3 : lease->slots - 1;
    return most < a->n_spare ? most : a->n_spare;
}

static int general_of(const admission *a, const model_lease *lease) {
    int spare = spare_of(a, lease), left = lease->slots - spare - (lease->slots >= 3 ? spare : 0);
    return left < a->n_general ? left : a->n_general;
}

static int free_general(const admission *a, const model_lease *lease) {
    int here = general_of(a, lease) - a->of_model[lease->index % MAX_MODELS].general;
    int everywhere = a->n_general - a->all.general;
    return here < everywhere ? here : everywhere;
}

static int free_spare(const admission *a, const model_lease *lease) {
    int here = spare_of(a, lease) - a->of_model[lease->index % MAX_MODELS].spare;
    int everywhere = a->n_spare - a->all.spare;
    return here < everywhere ? here : everywhere;
}

static void take(admission *a, admission_ticket *t, int n, int spare) {
    places *of_model = &a->of_model[t->lease->index % MAX_MODELS];
    *(spare ? &a->all.spare : &a->all.general) += n;
    *(spare ? &of_model->spare : &of_model->general) += n;
    t->granted = n;
    t->is_spare = spare;
    a->running++;
}

/* Gives places to those that can have one, the oldest first. */
static void grant(admission *a) {
    admission_ticket **link = &a->first;
    int woken = 0;
    while (*link) {
        admission_ticket *t = *link;
        int general = free_general(a, t->lease);
        if (general > 0)
            take(a, t, t->wanted < general ? t->wanted : general, 0);
        else if (t->is_short && free_spare(a, t->lease) > 0)
            take(a, t, 1, 1);
        if (t->granted) {
            *link = t->next;
            woken = 1;
        } else {
            link = &t->next;
        }
    }
    if (woken)
        pthread_cond_broadcast(&a->changed);
}

/* ---- waiting -------------------------------------------------------------------------------------------- */

static int position_of(const admission *a, const admission_ticket *ticket) {
    int position = 1;
    for (const admission_ticket *t = a->first; t && t != ticket; t = t->next)
        position++;
    return position;
}

static void withdraw(admission *a, const admission_ticket *ticket) {
    for (admission_ticket **link = &a->first; *link; link = &(*link)->next)
        if (*link == ticket) {
            *link = ticket->next;
            break;
        }
    pthread_cond_broadcast(&a->changed);
}

/* The callback may take its time: it is called without the lock. */
static void tell_position(admission *a, admission_ticket *t) {
    int position = position_of(a, t);
    if (!t->on_position || position == t->told)
        return;
    t->told = position;
    pthread_mutex_unlock(&a->lock);
    t->on_position(t->user, position);
    pthread_mutex_lock(&a->lock);
}

int admission_wait(admission *a, admission_ticket *t) {
    pthread_mutex_lock(&a->lock);
    admission_ticket **last = &a->first;
    while (*last)
        last = &(*last)->next;
    t->next = NULL;
    t->granted = t->told = 0;
    *last = t;
    grant(a);
    while (!t->granted && !t->must_stop(t->user)) {
        tell_position(a, t);
        if (!t->granted && !t->must_stop(t->user))
            pthread_cond_wait(&a->changed, &a->lock);
    }
    if (!t->granted)
        withdraw(a, t);
    int granted = t->granted;
    pthread_mutex_unlock(&a->lock);
    return granted > 0;
}

void admission_release(admission *a, admission_ticket *t, double seconds) {
    places *of_model = &a->of_model[t->lease->index % MAX_MODELS];
    pthread_mutex_lock(&a->lock);
    *(t->is_spare ? &a->all.spare : &a->all.general) -= t->granted;
    *(t->is_spare ? &of_model->spare : &of_model->general) -= t->granted;
    t->granted = 0;
    a->running--;
    a->mean_s += 0.1 * (seconds - a->mean_s);
    grant(a);
    pthread_cond_broadcast(&a->changed); /* positions moved */
    pthread_mutex_unlock(&a->lock);
}

void admission_wake(admission *a) {
    pthread_mutex_lock(&a->lock);
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

int admission_retry_s(admission *a) {
    pthread_mutex_lock(&a->lock);
    double seconds = a->mean_s * a->inside / a->n_general / 2;
    pthread_mutex_unlock(&a->lock);
    return seconds < 1 ? 1 : seconds > 60 ? 60 : (int)seconds;
}

void admission_counts(admission *a, int *uploading, int *running, int *waiting, int *inside) {
    pthread_mutex_lock(&a->lock);
    *running = a->running;
    *inside = a->inside;
    *uploading = *waiting = 0;
    for (const upload *u = a->uploads.first; u; u = u->next)
        ++*uploading;
    for (const admission_ticket *t = a->first; t; t = t->next)
        ++*waiting;
    pthread_mutex_unlock(&a->lock);
}
