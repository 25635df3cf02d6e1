/* pipeline/batch/batcher.c - leader/follower batching: the first waiting thread runs the requests of all slots. */
#include "pipeline/batch/batcher.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"

#define POLL_STOP_NS 20000000   /* how often a waiting session polls its stop callback */
#define SPREAD_FROM 128         /* from this many requests on, advancing them in parallel pays for waking the pool */
/* Windows encoded behind a step at once, at most. Uploads of up to 2 MiB to a GPU do not block: two windows of 80 mels,
 * or one of 128. Two of 128 block until the step is done. */
#define OVERLAP_WINDOWS 2

typedef enum request_kind {
    REQUEST_EXCLUSIVE, REQUEST_ENCODE, REQUEST_FORCE, REQUEST_STEPS, REQUEST_KINDS
} request_kind;
typedef enum request_state { STATE_IDLE, STATE_WAITING, STATE_RUNNING } request_state;

struct mx_slot {
    mx_batcher *batcher;
    int number;
    int attached;              /* guarded by the recognizer's lock */
    mx_stop_fn stop;
    void *stop_context;

    /* the request; guarded by the batcher's lock, except while it runs: then the leader owns it */
    request_kind kind;
    request_state state;
    const float *mel;
    const mx_steps *steps;
    const mx_force *force;
    mx_decode_step step;       /* the next one */
    int k, more;               /* more: there is a next one */
    mx_exclusive_fn exclusive;
    void *exclusive_context;
    mxw_status status;
    char failure[512];         /* its error line, for the thread that made the request */
    mxw_status stopped;        /* what stop returned */
    pthread_cond_t woken;
};

struct mx_batcher {
    mx_recognizer *recognizer;
    pthread_mutex_t lock;
    int has_leader;            /* some thread is running requests */
    int private;               /* belongs to a single session */
    mx_step_runner runner;
    mx_slot *slots;
    int n_slots;
    int first;                 /* the slot that steps first: the one that did not fit into the last run */
    mx_slot **members;         /* [n_slots]: of the current run */
    mx_request *requests;      /* [n_slots] */
    int overlaps;              /* windows are also encoded while a step runs */
    mx_batcher_counts counts;
};

static int spread_from = SPREAD_FROM;

void mx_batcher_spread(int from) { spread_from = from ? from : SPREAD_FROM; }

/* ---- a run ------------------------------------------------------------------------------------------------------- */

/* Gives a request its candidates and fetches its next step. */
static void advance(void *context, int64_t i) {
    mx_batcher *b = context;
    mx_slot *slot = b->members[i];
    slot->steps->take(slot->steps->context, &b->requests[i].candidates);
    slot->more = slot->steps->next(slot->steps->context, &slot->step, &slot->k);
}

/* Ends a request and wakes the thread that made it. The lock is held. */
static void end_request(mx_slot *slot) {
    slot->state = STATE_IDLE;
    pthread_cond_signal(&slot->woken);
}

static void keep_failure(mx_slot *slot) {
    if (slot->status < 0)
        snprintf(slot->failure, sizeof(slot->failure), "%s", mx_error());
}

static int waits_for(const mx_slot *slot, request_kind kind) {
    return slot->state == STATE_WAITING && slot->kind == kind;
}

/* Encodes a few waiting windows while the device runs a step of other slots. */
static void encode_overlapped(void *context) {
    mx_batcher *b = context;
    mx_slot *members[OVERLAP_WINDOWS];
    mx_request requests[OVERLAP_WINDOWS];
    int n = 0, most = MX_MIN(OVERLAP_WINDOWS, b->runner.width);
    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < b->n_slots && n < most; i++)
        if (waits_for(&b->slots[i], REQUEST_ENCODE)) {
            members[n] = &b->slots[i];
            requests[n] = (mx_request){.slot = i, .mel = b->slots[i].mel};
            members[n++]->state = STATE_RUNNING;
        }
    pthread_mutex_unlock(&b->lock);
    if (n == 0) {
        sched_yield();
        return;
    }
    mxw_status status = mx_step_runner_encode(&b->runner, requests, n);
    for (int i = 0; i < n; i++) {
        members[i]->status = status < 0 && n > 1 ? mx_step_runner_encode(&b->runner, &requests[i], 1) : status;
        keep_failure(members[i]);
    }
    pthread_mutex_lock(&b->lock);
    b->counts.windows += n;
    b->counts.windows_overlapped += n;
    b->counts.encoder_runs++;
    b->counts.split_runs += status < 0 && n > 1;
    for (int i = 0; i < n; i++)
        end_request(members[i]);
    pthread_mutex_unlock(&b->lock);
}

/* Runs the members' known tokens and passes on the results. */
static mxw_status force_members(mx_batcher *b, int first, int n) {
    mxw_status status = mx_step_runner_force(&b->runner, b->requests + first, n);
    for (int i = first; i < first + n && status >= 0; i++)
        b->members[i]->force->take(b->members[i]->force->context, &b->requests[i].forced);
    return status;
}

/* Whether no other session of the model computes. */
static int is_alone(const mx_batcher *b) { return b->n_slots == 1 && atomic_load(&b->recognizer->n_batchers) == 1; }

/* A window of the only session. Encoder and steps take turns, and neither needs what the other has touched: the pages
 * of the model's file before, those of the encoder's values after. That costs a few hundredths of a window; with
 * several sessions steps of one follow windows of another, and it would cost more (docs/results/int8.md). */
static mxw_status encode_alone(mx_batcher *b) {
    mx_weights_forget(b->runner.recognizer->weights);
    mxw_status status = mx_step_runner_encode(&b->runner, b->requests, 1);
    mx_run_forget(b->runner.runs[MX_PART_CROSS]);
    mx_run_forget(b->runner.runs[MX_PART_ENCODER]);
    return status;
}

/* Members first .. first + n - 1 as one run. */
static mxw_status run_members(mx_batcher *b, request_kind kind, int first, int n) {
    mx_slot *slot = b->members[first];
    if (kind == REQUEST_EXCLUSIVE)
        return slot->exclusive(slot->exclusive_context, &b->runner, slot->number);
    if (kind == REQUEST_ENCODE && is_alone(b))
        return encode_alone(b);
    if (kind == REQUEST_ENCODE)
        return mx_step_runner_encode(&b->runner, b->requests + first, n);
    if (kind == REQUEST_FORCE)
        return force_members(b, first, n);
    mxw_status status = mx_step_runner_step(&b->runner, b->requests + first, n,
                                            b->overlaps ? encode_overlapped : NULL, b);
    if (status < 0)
        return status;
    if (n >= spread_from)   /* all members: first is 0 */
        mx_pool_for(b->runner.recognizer->pool, n, advance, b);
    else
        for (int i = first; i < first + n; i++)
            advance(b, i);
    return MXW_OK;
}

/* All members as one run; each alone if that fails, then it returns 1. Nobody saw anything of the failed run. */
static int run_all(mx_batcher *b, request_kind kind, int n) {
    mxw_status status = run_members(b, kind, 0, n);
    if (status == MXW_E_MEMORY && n > 1 && kind == REQUEST_ENCODE) {   /* the eager executor allocates on demand */
        b->runner.width = n / 2;
        mx_log(MXW_LOG_WARN, "memory", "%d windows do not fit into one encoder run, at most %d from now on: %s", n,
               b->runner.width, mx_error());
    }
    for (int i = 0; i < n; i++) {
        mx_slot *slot = b->members[i];
        slot->status = status < 0 && n > 1 ? run_members(b, kind, i, 1) : status;
        keep_failure(slot);
    }
    return status < 0 && n > 1;
}

/* A slot's request, as the step runner takes it. */
static mx_request request_of(const mx_slot *slot) {
    if (slot->kind == REQUEST_FORCE)
        return (mx_request){.slot = slot->number, .step = &slot->force->step, .k = slot->force->k,
                         .wanted = slot->force->wanted, .wants_scores = slot->force->wants_scores};
    return (mx_request){.slot = slot->number, .mel = slot->mel, .step = &slot->step, .k = slot->k};
}

/* Whether the waiting windows can be encoded while a step runs: they are few, and some slot is stepping. */
static int can_overlap(const mx_batcher *b) {
    int n_windows = 0, n_steps = 0;
    for (int i = 0; i < b->n_slots; i++) {
        n_windows += waits_for(&b->slots[i], REQUEST_ENCODE);
        n_steps += waits_for(&b->slots[i], REQUEST_STEPS);
    }
    return b->overlaps && n_steps > 0 && n_windows <= OVERLAP_WINDOWS;
}

static int has_repetition(const mx_slot *slot) { return slot->kind == REQUEST_STEPS && slot->step.repetition != NULL; }

/* Picks the members of the next run: all waiting requests of the first kind that has any, steps with rules about
 * repetition after the others. 0: nothing waits. */
static int form_batch(mx_batcher *b, request_kind *kind) {
    int n = 0, most = 0, later = can_overlap(b);
    for (*kind = 0; *kind < REQUEST_KINDS; (*kind)++) {
        if (*kind == REQUEST_ENCODE && later)
            continue;
        most = *kind == REQUEST_EXCLUSIVE ? 1 : *kind == REQUEST_ENCODE ? b->runner.width : b->n_slots;
        for (int i = 0; i < 2 * b->n_slots && n < most; i++) {
            mx_slot *slot = &b->slots[(b->first + i) % b->n_slots];
            if (!waits_for(slot, *kind) || has_repetition(slot) != (i >= b->n_slots))
                continue;
            b->requests[n] = request_of(slot);
            b->members[n++] = slot;
        }
        if (n)
            break;
    }
    if (n && (*kind == REQUEST_STEPS || *kind == REQUEST_FORCE)) {
        int room = mx_step_runner_room(&b->runner, b->requests, n);
        b->first = room < n ? b->members[room]->number : b->first;
        n = room;
    }
    for (int i = 0; i < n; i++)
        b->members[i]->state = STATE_RUNNING;
    return n;
}

/* Forms a batch and runs it. The lock is held on entry and on return. */
static void run_batch(mx_batcher *b) {
    request_kind kind;
    int n = form_batch(b, &kind);
    pthread_mutex_unlock(&b->lock);
    int split = run_all(b, kind, n);
    pthread_mutex_lock(&b->lock);
    b->counts.split_runs += split;
    b->counts.windows += kind == REQUEST_ENCODE ? n : 0;
    b->counts.encoder_runs += kind == REQUEST_ENCODE;
    b->counts.steps += kind == REQUEST_STEPS ? n : 0;
    b->counts.decoder_runs += kind == REQUEST_STEPS;
    b->counts.forced += kind == REQUEST_FORCE ? n : 0;
    b->counts.force_runs += kind == REQUEST_FORCE;
    for (int i = 0; i < n; i++) {
        mx_slot *slot = b->members[i];
        int continues = kind == REQUEST_STEPS && slot->more && slot->status >= 0 && slot->stopped >= 0;
        if (continues)
            slot->state = STATE_WAITING;
        else
            end_request(slot);
    }
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* Polls the stop callback; if it wants to stop, the request ends, at once or after the run that it is part of. */
static void poll_stop(mx_slot *slot) {
    mx_batcher *b = slot->batcher;
    if (!slot->stop || slot->stopped < 0)
        return;
    pthread_mutex_unlock(&b->lock);
    mxw_status stopped = slot->stop(slot->stop_context);
    pthread_mutex_lock(&b->lock);
    slot->stopped = MX_MIN(stopped, MXW_OK);
    if (stopped < 0 && slot->state == STATE_WAITING)
        slot->state = STATE_IDLE;
}

static void lead(mx_slot *own) {
    mx_batcher *b = own->batcher;
    b->has_leader = 1;
    while (own->state != STATE_IDLE) {
        run_batch(b);
        if (own->state == STATE_WAITING)
            poll_stop(own);
    }
    b->has_leader = 0;
}

static void wait_for_leader(mx_slot *slot) {
    mx_batcher *b = slot->batcher;
    if (!slot->stop || slot->stopped < 0) {
        pthread_cond_wait(&slot->woken, &b->lock);
        return;
    }
    int64_t until = mx_now_ns() + POLL_STOP_NS;
    struct timespec t = {.tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000)};
    if (pthread_cond_timedwait(&slot->woken, &b->lock, &t) != 0 && slot->state != STATE_IDLE)
        poll_stop(slot);
}

/* When the leader, or the thread that was to lead next, is gone, another waiter has to lead. */
static void wake_next(mx_batcher *b) {
    for (int i = 0; i < b->n_slots && !b->has_leader; i++)
        if (b->slots[i].state == STATE_WAITING) {
            pthread_cond_signal(&b->slots[i].woken);
            return;
        }
}

/* Submits the request that the slot was filled with; returns when it is done. */
static mxw_status submit(mx_slot *slot, request_kind kind) {
    mx_batcher *b = slot->batcher;
    slot->kind = kind;
    slot->status = slot->stopped = MXW_OK;
    pthread_mutex_lock(&b->lock);
    slot->state = STATE_WAITING;
    while (slot->state != STATE_IDLE) {
        if (b->has_leader)
            wait_for_leader(slot);
        else
            lead(slot);
    }
    wake_next(b);
    pthread_mutex_unlock(&b->lock);
    if (slot->stopped < 0)
        return slot->stopped;   /* its error line is already this thread's */
    if (slot->status < 0)
        return mx_fail(slot->status, "%s", slot->failure);
    return mx_weights_check(b->recognizer->weights);   /* or what came of it may be of two files */
}

mxw_status mx_slot_encode(mx_slot *slot, const float *mel) {
    slot->mel = mel;
    return submit(slot, REQUEST_ENCODE);
}

mxw_status mx_slot_decode(mx_slot *slot, const mx_steps *steps) {
    slot->steps = steps;
    if (!steps->next(steps->context, &slot->step, &slot->k))
        return MXW_OK;
    return submit(slot, REQUEST_STEPS);
}

mxw_status mx_slot_force(mx_slot *slot, const mx_force *force) {
    slot->force = force;
    return submit(slot, REQUEST_FORCE);
}

mxw_status mx_slot_exclusive(mx_slot *slot, mx_exclusive_fn fn, void *context) {
    slot->exclusive = fn;
    slot->exclusive_context = context;
    return submit(slot, REQUEST_EXCLUSIVE);
}

mx_batcher_counts mx_slot_counts(mx_slot *slot) {
    mx_batcher *b = slot->batcher;
    pthread_mutex_lock(&b->lock);
    mx_batcher_counts counts = b->counts;
    for (int i = 0; i < b->n_slots; i++)
        counts.waiting += b->slots[i].state == STATE_WAITING;
    pthread_mutex_unlock(&b->lock);
    return counts;
}

/* One step whose candidates are copied to the caller. */
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

mxw_status mx_slot_step(mx_slot *slot, const mx_decode_step *step, int k, int32_t *ids, float *logprobs, float *stats) {
    single s = {step, k, 0, ids, logprobs, stats};
    return mx_slot_decode(slot, &(mx_steps){single_next, single_take, &s});
}

/* ---- batchers ---------------------------------------------------------------------------------------------------- */

static mxw_status batcher_open(mx_recognizer *r, const mx_slot_size *size, int n_slots, int width, mx_batcher **out) {
    mxw_status status;
    mx_batcher *b = mx_alloc_zero(1, sizeof(*b));
    if (!b)
        return MXW_E_MEMORY;
    b->recognizer = r;
    atomic_fetch_add(&r->n_batchers, 1);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&b->lock, NULL);
    b->slots = mx_alloc_zero((size_t)n_slots, sizeof(*b->slots));
    b->members = mx_alloc_zero((size_t)n_slots, sizeof(*b->members));
    b->requests = mx_alloc_zero((size_t)n_slots, sizeof(*b->requests));
    for (int i = 0; b->slots && i < n_slots; i++) {
        b->slots[i].batcher = b;
        b->slots[i].number = i;
        pthread_cond_init(&b->slots[i].woken, &monotonic);
        b->n_slots++;
    }
    pthread_condattr_destroy(&monotonic);
    status = MXW_E_MEMORY;
    if (!b->slots || !b->members || !b->requests)
        goto out;
    MX_TRY(mx_step_runner_open(&b->runner, r, size, n_slots, width));
    b->overlaps = n_slots > 1 && mx_exec_captures(r->programs[MX_PART_DECODER]) && !b->runner.split_devices;
    *out = b;
    return MXW_OK;
out:
    mx_batcher_close(b);
    return status;
}

void mx_batcher_close(mx_batcher *b) {
    if (!b)
        return;
    mx_step_runner_close(&b->runner);
    atomic_fetch_sub(&b->recognizer->n_batchers, 1);
    for (int i = 0; i < b->n_slots; i++)
        pthread_cond_destroy(&b->slots[i].woken);
    pthread_mutex_destroy(&b->lock);
    mx_free(b->slots);
    mx_free(b->members);
    mx_free(b->requests);
    mx_free(b);
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

static int holds(const mx_slot_size *room, const mx_slot_size *need) {
    return need->n_rows <= room->n_rows && need->n_sequences <= room->n_sequences && need->n_picks <= room->n_picks &&
           need->n_cells <= room->n_cells && need->repetition <= room->repetition;
}

static mx_slot_size larger(const mx_slot_size *a, const mx_slot_size *b) {
    return (mx_slot_size){MX_MAX(a->n_rows, b->n_rows), MX_MAX(a->n_sequences, b->n_sequences),
                          MX_MAX(a->n_picks, b->n_picks), MX_MAX(a->n_cells, b->n_cells), a->forces || b->forces,
                          a->repetition || b->repetition};
}

static int n_attached(const mx_batcher *b) {
    int n = 0;
    for (int i = 0; i < b->n_slots; i++)
        n += b->slots[i].attached;
    return n;
}

static mxw_status open_shared(mx_recognizer *r, const mx_slot_size *size, int n_slots) {
    int64_t start = mx_now_ns();
    mxw_status status = batcher_open(r, size, n_slots, r->encode_width, &r->batcher);
    if (status >= 0)
        mx_log_timed(MXW_LOG_DEBUG, "batch", mx_since_ms(start), "memory of %d sessions reserved", n_slots);
    return status < 0 ? mx_fail_in(status, "batch of %d session%s", n_slots, n_slots == 1 ? "" : "s") : status;
}

mxw_status mx_batcher_reserve(mx_recognizer *r, const mx_slot_size *size, int n_slots) {
    pthread_mutex_lock(&r->lock);
    int n = r->batcher ? n_attached(r->batcher) : 0;
    mxw_status status = MXW_OK;
    if (n > 0) {
        status = mx_fail(MXW_E_STATE, "batch of %d sessions: %d sessions of the model are open", n_slots, n);
    } else {
        mx_batcher_close(r->batcher);
        r->batcher = NULL;
        status = open_shared(r, size, n_slots);
        r->batch = status < 0 ? r->batch : n_slots;
    }
    pthread_mutex_unlock(&r->lock);
    return status;
}

/* A free slot of the shared batcher. If no session is attached, the batcher is opened, or opened again with larger
 * slots, as needed. *out stays NULL if no slot is free or large enough. The recognizer's lock is held. */
static mxw_status take_shared(mx_recognizer *r, const mx_slot_size *need, mx_slot **out) {
    mx_slot_size size = *need;
    if (r->batcher && !holds(&r->batcher->runner.size, need) && !n_attached(r->batcher)) {
        size = larger(need, &r->batcher->runner.size);
        mx_batcher_close(r->batcher);
        r->batcher = NULL;
    }
    mxw_status status = r->batcher ? MXW_OK : open_shared(r, &size, r->batch);
    if (status < 0)
        return status;
    mx_batcher *b = r->batcher;
    for (int i = 0; i < b->n_slots && !*out && holds(&b->runner.size, need); i++)
        if (!b->slots[i].attached) {
            b->slots[i].attached = 1;
            *out = &b->slots[i];
        }
    return MXW_OK;
}

static mxw_status attach(void *context, mx_step_runner *runner, int slot) {
    const mx_decode_plan *const *plan = context;
    mx_step_runner_attach(runner, slot, *plan);
    return MXW_OK;
}

static mxw_status detach(void *context, mx_step_runner *runner, int slot) {
    mx_step_runner_detach(runner, slot);
    return MXW_OK;
}

mxw_status mx_slot_attach_shared(mx_recognizer *r, const mx_decode_plan *plan, int forces, mx_slot **out) {
    mx_slot_size need = mx_slot_size_of(plan, forces);
    mxw_status status = MXW_OK;
    *out = NULL;
    pthread_mutex_lock(&r->lock);
    if (r->batch > 1 || r->batcher)
        status = take_shared(r, &need, out);
    pthread_mutex_unlock(&r->lock);
    if (*out)
        mx_slot_exclusive(*out, attach, &plan);
    return status;
}

/* Waits a moment for a slot of the shared batcher; 0 if there will never be one: there is no such batcher, or its slots
 * are too small. */
static int await_slot(mx_recognizer *r, const mx_slot_size *need) {
    int64_t until = mx_now_ns() + POLL_STOP_NS;
    struct timespec t = {.tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000)};
    pthread_mutex_lock(&r->lock);
    int comes = r->batcher && holds(&r->batcher->runner.size, need);
    if (comes && n_attached(r->batcher) == r->batcher->n_slots)
        pthread_cond_timedwait(&r->slot_freed, &r->lock, &t);
    pthread_mutex_unlock(&r->lock);
    return comes;
}

mxw_status mx_slot_borrow(mx_recognizer *r, const mx_decode_plan *plan, int forces, mx_stop_fn stop, void *context,
                          mx_slot **out) {
    mx_slot_size need = mx_slot_size_of(plan, forces);
    mxw_status status;
    for (;;) {
        status = mx_slot_attach_shared(r, plan, forces, out);
        if (status < 0 || *out)
            break;
        if (!await_slot(r, &need))
            return mx_slot_attach(r, plan, forces, stop, context, out);
        if (stop && (status = stop(context)) < 0)
            return status;
    }
    if (status >= 0)
        mx_slot_set_stop(*out, stop, context);
    return status;
}

int mx_slot_is_shared(const mx_slot *slot) { return !slot->batcher->private; }

mxw_status mx_slot_attach(mx_recognizer *r, const mx_decode_plan *plan, int forces, mx_stop_fn stop, void *context,
                        mx_slot **out) {
    mx_slot_size need = mx_slot_size_of(plan, forces);
    mx_slot *slot;
    mxw_status status = mx_slot_attach_shared(r, plan, forces, &slot);
    if (status >= 0 && !slot) {
        mx_batcher *b = NULL;
        status = batcher_open(r, &need, 1, 1, &b);
        if (status >= 0) {
            b->private = 1;
            slot = b->slots;
            mx_slot_exclusive(slot, attach, &plan);
        }
    }
    if (status < 0)
        return status;
    mx_slot_set_stop(slot, stop, context);
    *out = slot;
    return MXW_OK;
}

void mx_slot_set_stop(mx_slot *slot, mx_stop_fn stop, void *context) {
    slot->stop = stop;
    slot->stop_context = context;
}

void mx_slot_detach(mx_slot *slot) {
    if (!slot)
        return;
    mx_batcher *b = slot->batcher;
    mx_recognizer *r = b->recognizer;
    slot->stop = NULL;
    mx_slot_exclusive(slot, detach, NULL);
    if (b->private) {
        mx_batcher_close(b);
        return;
    }
    pthread_mutex_lock(&r->lock);
    slot->attached = 0;
    pthread_cond_signal(&r->slot_freed);
    pthread_mutex_unlock(&r->lock);
}
