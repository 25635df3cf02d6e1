/* pipeline/conductor.c - requests of several seats, one thread at a time that runs them. */
#include "pipeline/conductor.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"

#define ASK_STOP_NS 20000000   /* how often a waiting session asks whether it should stop */
#define SPREAD_FROM 8          /* turns from which their bookkeeping pays for waking the pool */
#define BESIDE 2               /* windows encoded behind a step at once, at most: what goes up without waiting */

typedef enum request_kind {
    REQUEST_ALONE, REQUEST_ENCODE, REQUEST_FORCE, REQUEST_STEPS, REQUEST_KINDS
} request_kind;
typedef enum request_place { PLACE_NONE, PLACE_WAITING, PLACE_RUNNING } request_place;

struct mx_seat {
    mx_conductor *conductor;
    int number;
    int taken;                 /* guarded by the recognizer's lock */
    mx_stop_fn stop;
    void *stop_context;

    /* what it asks for; guarded by the conductor's lock, except while it runs: then whoever conducts owns it */
    request_kind kind;
    request_place place;
    const float *mel;
    const mx_steps *steps;
    const mx_force *force;
    mx_decode_step step;       /* the next one */
    int k, more;               /* more: there is a next one */
    mx_alone_fn alone;
    void *alone_context;
    mxw_status status;
    char failure[512];         /* the line, for the thread that asked */
    mxw_status stopped;        /* what stop said */
    pthread_cond_t woken;
};

struct mx_conductor {
    pthread_mutex_t lock;
    int conducted;             /* some thread runs what is asked */
    int apart;                 /* of one session alone */
    mx_runner runner;
    mx_seat *seats;
    int n_seats;
    int first;                 /* the seat whose turn to step comes first: who found no room last time */
    mx_seat **members;         /* [n_seats]: of the run under way */
    mx_turn *turns;            /* [n_seats] */
    int beside;                /* windows are encoded while a step runs, too */
    mx_conductor_counts counts;
};

/* ---- a run ------------------------------------------------------------------------------------------------------- */

/* Hands a turn its candidates and asks for what it wants next. */
static void advance(void *context, int64_t i) {
    mx_conductor *c = context;
    mx_seat *seat = c->members[i];
    seat->steps->take(seat->steps->context, &c->turns[i].candidates);
    seat->more = seat->steps->next(seat->steps->context, &seat->step, &seat->k);
}

/* Ends a request: whoever asked wakes. With the lock held. */
static void end_request(mx_seat *seat) {
    seat->place = PLACE_NONE;
    pthread_cond_signal(&seat->woken);
}

static void keep_failure(mx_seat *seat) {
    if (seat->status < 0)
        snprintf(seat->failure, sizeof(seat->failure), "%s", mx_error());
}

static int waits_for(const mx_seat *seat, request_kind kind) {
    return seat->place == PLACE_WAITING && seat->kind == kind;
}

/* A few windows of those who wait, while the device is at a step of others. */
static void encode_beside(void *context) {
    mx_conductor *c = context;
    mx_seat *members[BESIDE];
    mx_turn turns[BESIDE];
    int n = 0, most = MX_MIN(BESIDE, c->runner.width);
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < c->n_seats && n < most; i++)
        if (waits_for(&c->seats[i], REQUEST_ENCODE)) {
            members[n] = &c->seats[i];
            turns[n] = (mx_turn){.seat = i, .mel = c->seats[i].mel};
            members[n++]->place = PLACE_RUNNING;
        }
    pthread_mutex_unlock(&c->lock);
    if (n == 0) {
        sched_yield();
        return;
    }
    mxw_status status = mx_runner_encode(&c->runner, turns, n);
    for (int i = 0; i < n; i++) {
        members[i]->status = status < 0 && n > 1 ? mx_runner_encode(&c->runner, &turns[i], 1) : status;
        keep_failure(members[i]);
    }
    pthread_mutex_lock(&c->lock);
    c->counts.windows += n;
    c->counts.windows_beside += n;
    c->counts.encoder_runs++;
    for (int i = 0; i < n; i++)
        end_request(members[i]);
    pthread_mutex_unlock(&c->lock);
}

/* Known tokens of the members, and what they gave to whoever asked. */
static mxw_status force_members(mx_conductor *c, int first, int n) {
    mxw_status status = mx_runner_force(&c->runner, c->turns + first, n);
    for (int i = first; i < first + n && status >= 0; i++)
        c->members[i]->force->take(c->members[i]->force->context, &c->turns[i].forced);
    return status;
}

/* Members first .. first + n - 1 as one run. */
static mxw_status run_members(mx_conductor *c, request_kind kind, int first, int n) {
    mx_seat *seat = c->members[first];
    if (kind == REQUEST_ALONE)
        return seat->alone(seat->alone_context, &c->runner, seat->number);
    if (kind == REQUEST_ENCODE)
        return mx_runner_encode(&c->runner, c->turns + first, n);
    if (kind == REQUEST_FORCE)
        return force_members(c, first, n);
    mxw_status status = mx_runner_step(&c->runner, c->turns + first, n, c->beside ? encode_beside : NULL, c);
    if (status < 0)
        return status;
    if (n >= SPREAD_FROM)
        mx_pool_for(c->runner.recognizer->pool, n, advance, c);
    else
        for (int i = first; i < first + n; i++)
            advance(c, i);
    return MXW_OK;
}

/* All of them as one run; each alone if that fails, which repeats nothing that anyone has seen. */
static void run_all(mx_conductor *c, request_kind kind, int n) {
    mxw_status status = run_members(c, kind, 0, n);
    if (status == MXW_E_MEMORY && n > 1 && kind == REQUEST_ENCODE) {   /* op by op, memory is taken as it is needed */
        c->runner.width = n / 2;
        mx_log(MXW_LOG_WARN, "memory", "%d windows are not encoded at once but %d at most: %s", n, c->runner.width,
               mx_error());
    }
    for (int i = 0; i < n; i++) {
        mx_seat *seat = c->members[i];
        seat->status = status < 0 && n > 1 ? run_members(c, kind, i, 1) : status;
        keep_failure(seat);
    }
}

/* What a seat asks for, as its turn in a run. */
static mx_turn turn_of(const mx_seat *seat) {
    if (seat->kind == REQUEST_FORCE)
        return (mx_turn){.seat = seat->number, .step = &seat->force->step, .k = seat->force->k,
                         .wanted = seat->force->wanted, .listens = seat->force->listens};
    return (mx_turn){.seat = seat->number, .mel = seat->mel, .step = &seat->step, .k = seat->k};
}

/* Windows that will be encoded beside a step: few, and there is one. */
static int has_time(const mx_conductor *c) {
    int n_windows = 0, n_steps = 0;
    for (int i = 0; i < c->n_seats; i++) {
        n_windows += waits_for(&c->seats[i], REQUEST_ENCODE);
        n_steps += waits_for(&c->seats[i], REQUEST_STEPS);
    }
    return c->beside && n_steps > 0 && n_windows <= BESIDE;
}

/* The members of the next run: the first kind that anyone waits for. 0: nobody waits. */
static int choose(mx_conductor *c, request_kind *kind) {
    int n = 0, most = 0, later = has_time(c);
    for (*kind = 0; *kind < REQUEST_KINDS; (*kind)++) {
        if (*kind == REQUEST_ENCODE && later)
            continue;
        most = *kind == REQUEST_ALONE ? 1 : *kind == REQUEST_ENCODE ? c->runner.width : c->n_seats;
        for (int i = 0; i < c->n_seats && n < most; i++) {
            mx_seat *seat = &c->seats[(c->first + i) % c->n_seats];
            if (!waits_for(seat, *kind))
                continue;
            c->turns[n] = turn_of(seat);
            c->members[n++] = seat;
        }
        if (n)
            break;
    }
    if (n && (*kind == REQUEST_STEPS || *kind == REQUEST_FORCE)) {
        int room = mx_runner_room(&c->runner, c->turns, n);
        c->first = room < n ? c->members[room]->number : c->first;
        n = room;
    }
    for (int i = 0; i < n; i++)
        c->members[i]->place = PLACE_RUNNING;
    return n;
}

/* One run of what is asked for. The lock is held on entry and on return. */
static void conduct_once(mx_conductor *c) {
    request_kind kind;
    int n = choose(c, &kind);
    pthread_mutex_unlock(&c->lock);
    run_all(c, kind, n);
    pthread_mutex_lock(&c->lock);
    c->counts.windows += kind == REQUEST_ENCODE ? n : 0;
    c->counts.encoder_runs += kind == REQUEST_ENCODE;
    c->counts.steps += kind == REQUEST_STEPS ? n : 0;
    c->counts.decoder_runs += kind == REQUEST_STEPS;
    c->counts.forced += kind == REQUEST_FORCE ? n : 0;
    c->counts.force_runs += kind == REQUEST_FORCE;
    for (int i = 0; i < n; i++) {
        mx_seat *seat = c->members[i];
        int goes_on = kind == REQUEST_STEPS && seat->more && seat->status >= 0 && seat->stopped >= 0;
        if (goes_on)
            seat->place = PLACE_WAITING;
        else
            end_request(seat);
    }
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* Whether the session wants to stop; if so its request ends, at once or after the run that it is in. */
static void ask_stop(mx_seat *seat) {
    mx_conductor *c = seat->conductor;
    if (!seat->stop || seat->stopped < 0)
        return;
    pthread_mutex_unlock(&c->lock);
    mxw_status stopped = seat->stop(seat->stop_context);
    pthread_mutex_lock(&c->lock);
    seat->stopped = MX_MIN(stopped, MXW_OK);
    if (stopped < 0 && seat->place == PLACE_WAITING)
        seat->place = PLACE_NONE;
}

static void conduct(mx_seat *own) {
    mx_conductor *c = own->conductor;
    c->conducted = 1;
    while (own->place != PLACE_NONE) {
        conduct_once(c);
        if (own->place == PLACE_WAITING)
            ask_stop(own);
    }
    c->conducted = 0;
}

static void wait_for_it(mx_seat *seat) {
    mx_conductor *c = seat->conductor;
    if (!seat->stop || seat->stopped < 0) {
        pthread_cond_wait(&seat->woken, &c->lock);
        return;
    }
    int64_t until = mx_now_ns() + ASK_STOP_NS;
    struct timespec t = {.tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000)};
    if (pthread_cond_timedwait(&seat->woken, &c->lock, &t) != 0 && seat->place != PLACE_NONE)
        ask_stop(seat);
}

/* Someone has to go on when the one who conducted, or was to, is gone. */
static void wake_next(mx_conductor *c) {
    for (int i = 0; i < c->n_seats && !c->conducted; i++)
        if (c->seats[i].place == PLACE_WAITING) {
            pthread_cond_signal(&c->seats[i].woken);
            return;
        }
}

/* The request that the seat was filled with: returns when it is done. */
static mxw_status ask(mx_seat *seat, request_kind kind) {
    mx_conductor *c = seat->conductor;
    seat->kind = kind;
    seat->status = seat->stopped = MXW_OK;
    pthread_mutex_lock(&c->lock);
    seat->place = PLACE_WAITING;
    while (seat->place != PLACE_NONE) {
        if (c->conducted)
            wait_for_it(seat);
        else
            conduct(seat);
    }
    wake_next(c);
    pthread_mutex_unlock(&c->lock);
    if (seat->stopped < 0)
        return seat->stopped;   /* its line is this thread's already */
    return seat->status < 0 ? mx_fail(seat->status, "%s", seat->failure) : MXW_OK;
}

mxw_status mx_seat_encode(mx_seat *seat, const float *mel) {
    seat->mel = mel;
    return ask(seat, REQUEST_ENCODE);
}

mxw_status mx_seat_decode(mx_seat *seat, const mx_steps *steps) {
    seat->steps = steps;
    if (!steps->next(steps->context, &seat->step, &seat->k))
        return MXW_OK;
    return ask(seat, REQUEST_STEPS);
}

mxw_status mx_seat_force(mx_seat *seat, const mx_force *force) {
    seat->force = force;
    return ask(seat, REQUEST_FORCE);
}

mxw_status mx_seat_alone(mx_seat *seat, mx_alone_fn fn, void *context) {
    seat->alone = fn;
    seat->alone_context = context;
    return ask(seat, REQUEST_ALONE);
}

mx_conductor_counts mx_seat_counts(mx_seat *seat) {
    mx_conductor *c = seat->conductor;
    pthread_mutex_lock(&c->lock);
    mx_conductor_counts counts = c->counts;
    for (int i = 0; i < c->n_seats; i++)
        counts.waiting += c->seats[i].place == PLACE_WAITING;
    pthread_mutex_unlock(&c->lock);
    return counts;
}

/* One step whose candidates are copied to the one who asked. */
typedef struct single {
    const mx_decode_step *step;
    int k, given;
    int32_t *ids;
    float *logprobs, *stats;
} single;

static int single_next(void *context, mx_decode_step *step, int *k) {
    single *s = context;
    *step = *s->step;
    *k = s->k;
    return !s->given++;
}

static void single_take(void *context, const mx_candidates *c) {
    const single *s = context;
    size_t n = (size_t)s->step->n_picks, k = (size_t)s->k;
    for (size_t i = 0; i < n; i++) {
        memcpy(s->ids + i * k, c->ids + i * (size_t)c->k, k * sizeof(*s->ids));
        memcpy(s->logprobs + i * k, c->logprobs + i * (size_t)c->k, k * sizeof(*s->logprobs));
    }
    memcpy(s->stats, c->stats, n * MX_SELECT_STATS * sizeof(*s->stats));
}

mxw_status mx_seat_step(mx_seat *seat, const mx_decode_step *step, int k, int32_t *ids, float *logprobs, float *stats) {
    single s = {step, k, 0, ids, logprobs, stats};
    return mx_seat_decode(seat, &(mx_steps){single_next, single_take, &s});
}

/* ---- conductors -------------------------------------------------------------------------------------------------- */

static mxw_status conductor_open(const mx_recognizer *r, const mx_seat_size *size, int n_seats, int width,
                                 mx_conductor **out) {
    mxw_status status;
    mx_conductor *c = mx_alloc_zero(1, sizeof(*c));
    if (!c)
        return MXW_E_MEMORY;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->lock, NULL);
    c->seats = mx_alloc_zero((size_t)n_seats, sizeof(*c->seats));
    c->members = mx_alloc_zero((size_t)n_seats, sizeof(*c->members));
    c->turns = mx_alloc_zero((size_t)n_seats, sizeof(*c->turns));
    for (int i = 0; c->seats && i < n_seats; i++) {
        c->seats[i].conductor = c;
        c->seats[i].number = i;
        pthread_cond_init(&c->seats[i].woken, &monotonic);
        c->n_seats++;
    }
    pthread_condattr_destroy(&monotonic);
    status = MXW_E_MEMORY;
    if (!c->seats || !c->members || !c->turns)
        goto out;
    MX_TRY(mx_runner_open(&c->runner, r, size, n_seats, width));
    c->beside = n_seats > 1 && mx_exec_replays(r->programs[MX_PART_DECODER]) && !c->runner.apart;
    *out = c;
    return MXW_OK;
out:
    mx_conductor_close(c);
    return status;
}

void mx_conductor_close(mx_conductor *c) {
    if (!c)
        return;
    mx_runner_close(&c->runner);
    for (int i = 0; i < c->n_seats; i++)
        pthread_cond_destroy(&c->seats[i].woken);
    pthread_mutex_destroy(&c->lock);
    mx_free(c->seats);
    mx_free(c->members);
    mx_free(c->turns);
    mx_free(c);
}

/* ---- seats ------------------------------------------------------------------------------------------------------- */

static int holds(const mx_seat_size *room, const mx_seat_size *need) {
    return need->n_rows <= room->n_rows && need->n_sequences <= room->n_sequences && need->n_picks <= room->n_picks &&
           need->n_cells <= room->n_cells;
}

static mx_seat_size larger(const mx_seat_size *a, const mx_seat_size *b) {
    return (mx_seat_size){MX_MAX(a->n_rows, b->n_rows), MX_MAX(a->n_sequences, b->n_sequences),
                          MX_MAX(a->n_picks, b->n_picks), MX_MAX(a->n_cells, b->n_cells), a->forces || b->forces};
}

static int n_taken(const mx_conductor *c) {
    int n = 0;
    for (int i = 0; i < c->n_seats; i++)
        n += c->seats[i].taken;
    return n;
}

static mxw_status open_shared(mx_recognizer *r, const mx_seat_size *size, int n_seats) {
    mxw_status status = conductor_open(r, size, n_seats, r->encode_width, &r->conductor);
    return status < 0 ? mx_fail_in(status, "batch of %d session%s", n_seats, n_seats == 1 ? "" : "s") : status;
}

mxw_status mx_conductor_reserve(mx_recognizer *r, const mx_seat_size *size, int n_seats) {
    pthread_mutex_lock(&r->lock);
    int n = r->conductor ? n_taken(r->conductor) : 0;
    mxw_status status = MXW_OK;
    if (n > 0) {
        status = mx_fail(MXW_E_STATE, "batch of %d sessions: %d of the model's are open", n_seats, n);
    } else {
        mx_conductor_close(r->conductor);
        r->conductor = NULL;
        status = open_shared(r, size, n_seats);
        r->batch = status < 0 ? r->batch : n_seats;
    }
    pthread_mutex_unlock(&r->lock);
    return status;
}

/* A free seat of the shared conductor, which the first to come, or to come back to an empty one, makes large enough;
 * NULL when there is none for it. The recognizer's lock is held. */
static mxw_status take_shared(mx_recognizer *r, const mx_seat_size *need, mx_seat **out) {
    mx_seat_size size = *need;
    if (r->conductor && !holds(&r->conductor->runner.size, need) && !n_taken(r->conductor)) {
        size = larger(need, &r->conductor->runner.size);
        mx_conductor_close(r->conductor);
        r->conductor = NULL;
    }
    mxw_status status = r->conductor ? MXW_OK : open_shared(r, &size, r->batch);
    if (status < 0)
        return status;
    mx_conductor *c = r->conductor;
    for (int i = 0; i < c->n_seats && !*out && holds(&c->runner.size, need); i++)
        if (!c->seats[i].taken) {
            c->seats[i].taken = 1;
            *out = &c->seats[i];
        }
    return MXW_OK;
}

static mxw_status sit(void *context, mx_runner *runner, int seat) {
    mx_runner_sit(runner, seat, context);
    return MXW_OK;
}

static mxw_status rise(void *context, mx_runner *runner, int seat) {
    mx_runner_rise(runner, seat);
    return MXW_OK;
}

mxw_status mx_seat_open(mx_recognizer *r, const mx_decode_plan *plan, int forces, mx_stop_fn stop, void *context,
                        mx_seat **out) {
    mx_seat_size need = mx_seat_size_of(plan, forces);
    mx_seat *seat = NULL;
    mxw_status status = MXW_OK;
    pthread_mutex_lock(&r->lock);
    if (r->batch > 1 || r->conductor)
        status = take_shared(r, &need, &seat);
    pthread_mutex_unlock(&r->lock);
    if (status >= 0 && !seat) {
        mx_conductor *c = NULL;
        status = conductor_open(r, &need, 1, 1, &c);
        if (status >= 0) {
            c->apart = 1;
            seat = c->seats;
        }
    }
    if (status < 0)
        return status;
    mx_seat_alone(seat, sit, (void *)(uintptr_t)plan);
    seat->stop = stop;
    seat->stop_context = context;
    *out = seat;
    return MXW_OK;
}

void mx_seat_close(mx_seat *seat) {
    if (!seat)
        return;
    mx_conductor *c = seat->conductor;
    mx_recognizer *r = (mx_recognizer *)(uintptr_t)c->runner.recognizer;
    seat->stop = NULL;
    mx_seat_alone(seat, rise, NULL);
    if (c->apart) {
        mx_conductor_close(c);
        return;
    }
    pthread_mutex_lock(&r->lock);
    seat->taken = 0;
    pthread_mutex_unlock(&r->lock);
}
