/* pipeline/parallel.c - lanes: see the header. The caller's thread plans pieces and appends what is done; each lane's
 * thread takes the next piece, decodes it and puts it back. */
#include "pipeline/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "pipeline/session.h"

#define POLL_STOP_NS 20000000   /* how often a waiting caller polls should_abort ... */
#define POLL_SPEECH_NS 2000000  /* ... and looks for new pieces while speech is still being heard */
#define PIECE_WINDOWS 64        /* numbers of windows set aside for a piece; they seed the sampling */

/* A part of the recording that is decoded by itself, and what came of it. */
typedef struct piece {
    mx_clip clip;
    int done;
    mxw_segment *segments;      /* strings and tokens in the memory of the lane */
    size_t n_segments;
    int64_t n_windows, n_fallbacks, n_suspected;
    mxw_stage_times times;
} piece;

typedef struct lane {
    mx_session session;
    struct mx_lanes *lanes;
    pthread_t thread;
    int64_t piece;              /* the one it decodes */
} lane;

struct mx_lanes {
    mx_session *parent;
    int clip;                   /* the clip that is cut next, and where */
    int64_t seek;
    int all_cut;                /* there will be no more pieces */
    lane *lanes;                /* [n_room]; running: [n_lanes] */
    int n_room, n_lanes;
    atomic_llong stop_from;     /* pieces from this one on are not wanted any more */

    pthread_mutex_t lock;       /* guards what follows */
    pthread_cond_t planned, done;
    piece *pieces;
    size_t n_pieces, room_pieces;
    size_t next;                /* the first that no lane has taken */
    int closing;
    struct {
        int64_t piece;          /* the first that failed; INT64_MAX: none */
        mxw_status status;
        char line[512];
    } failure;
};

mxw_status mx_lanes_open(mx_session *s) {
    mx_lanes *l = mx_alloc_zero(1, sizeof(*l));
    if (!l)
        return MXW_E_MEMORY;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->planned, NULL);
    pthread_cond_init(&l->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    atomic_store(&l->stop_from, INT64_MAX);
    l->failure.piece = INT64_MAX;
    l->parent = s;
    s->lanes = l;
    mx_session_share(s);
    return MXW_OK;
}

/* ---- a lane ------------------------------------------------------------------------------------------------------ */

static mxw_status stop_lane(void *context) {
    const lane *own = context;
    return own->piece >= atomic_load(&own->lanes->stop_from) ? mx_fail(MXW_E_ABORTED, "stopped on request") : MXW_OK;
}

/* The state in which a recording begins, for one piece. */
static void start_piece(mx_session *s, const mx_session *parent, const piece *p, int64_t index) {
    s->at.clips[0] = p->clip;
    s->at.clip = 0;
    s->at.seek = 0;
    s->at.tokens.n = s->at.n_initial_prompt;
    s->at.prompt_reset_since = 0;
    s->at.last_speech_s = mx_mel_frames_to_s(p->clip.start);
    s->language = p->clip.language;
    s->segments.n = 0;
    s->result = (mxw_result){.language_probability = -1};
    s->times = (mxw_stage_times){0};
    s->first_window = (uint64_t)index * PIECE_WINDOWS;
    s->features = index == 0 ? parent->features : NULL;
}

static mxw_status decode_piece(lane *own, piece *p) {
    mxw_status status;
    mx_session *s = &own->session;
    mx_choice choice;
    start_piece(s, own->lanes->parent, p, own->piece);
    while ((status = mx_session_choose(s, &choice)) == MXW_OK) {
        MX_TRY(stop_lane(own));
        MX_TRY(mx_session_decode_window(s, &choice));
    }
    if (status < 0)
        goto out;
    p->segments = mx_alloc_array(s->segments.n, sizeof(*p->segments));
    if (!p->segments)
        return MXW_E_MEMORY;
    if (s->segments.n)
        memcpy(p->segments, s->segments.items, s->segments.n * sizeof(*p->segments));
    p->n_segments = s->segments.n;
    p->n_windows = s->result.n_windows;
    p->n_fallbacks = s->result.n_temperature_fallbacks;
    p->n_suspected = s->result.n_words_suspected;
    p->times = s->times;
out:
    return status;
}

/* Only the first failure in the order of pieces matters; those before it are still wanted. The lock is held. */
static void keep_failure(mx_lanes *l, int64_t index, mxw_status status) {
    if (index >= l->failure.piece)
        return;
    l->failure.piece = index;
    l->failure.status = status;
    snprintf(l->failure.line, sizeof(l->failure.line), "%s", mx_error());
    if (index + 1 < atomic_load(&l->stop_from))
        atomic_store(&l->stop_from, index + 1);
}

static void *run_lane(void *context) {
    lane *own = context;
    mx_lanes *l = own->lanes;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!l->closing && l->next >= l->n_pieces)
            pthread_cond_wait(&l->planned, &l->lock);
        if (l->closing || (int64_t)l->next >= atomic_load(&l->stop_from))
            break;
        own->piece = (int64_t)l->next++;
        piece p = l->pieces[own->piece];
        pthread_mutex_unlock(&l->lock);
        mxw_status status = decode_piece(own, &p);
        pthread_mutex_lock(&l->lock);
        if (status < 0)
            keep_failure(l, own->piece, status);
        p.done = 1;
        l->pieces[own->piece] = p;   /* the array may have moved */
        pthread_cond_signal(&l->done);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- opening and closing them ------------------------------------------------------------------------------------ */

static void close_lane(lane *own) {
    mx_session *s = &own->session;
    if (s->slot && s->slot != own->lanes->parent->slot)
        mx_slot_detach(s->slot);
    mx_decoding_close(s->decoding);
    s->slot = NULL;
    s->decoding = NULL;
}

/* What is left of a lane: the memory that its segments are in, and scratch. */
static void free_lane(lane *own) {
    mx_session *s = &own->session;
    close_lane(own);
    mx_free(s->at.tokens.items);
    mx_free(s->at.carried.items);
    mx_free(s->window.tokens.items);
    mx_free(s->window.text.items);
    mx_free(s->window.pieces);
    mx_free(s->window.timed);
    mx_free(s->window.evidence);
    mx_free(s->window.judged);
    mx_words_free(&s->window.words);
    mx_free(s->segments.items);
    mx_arena_free(&s->memory);
}

/* A session that shares everything that does not change. */
static mxw_status open_lane(mx_lanes *l, int number, lane *own) {
    mxw_status status;
    mx_session *s = &own->session, *parent = l->parent;
    const mxw_dims *dims = parent->recognizer->checkpoint.dims;
    own->lanes = l;
    own->piece = -1;
    s->recognizer = parent->recognizer;
    s->options = parent->options;
    s->options.on_progress = NULL;
    s->options.on_segment = NULL;
    s->options.on_window = NULL;
    s->options.should_abort = NULL;
    s->plan = parent->plan;
    s->mel = parent->mel;
    s->speech = parent->speech;
    s->levelled = parent->levelled;
    s->lock = parent->lock;
    s->thresholds = parent->thresholds;
    s->temperatures = parent->temperatures;
    s->n_temperatures = parent->n_temperatures;
    s->at.n_initial_prompt = parent->at.n_initial_prompt;
    s->at.n_clips = s->at.all_known = s->finished = 1;   /* it gets pieces that are complete */
    s->at.clips = mx_arena_alloc(&s->memory, sizeof(*s->at.clips));
    s->window.mel = mx_arena_alloc(&s->memory, (size_t)MX_MEL_WINDOW * (size_t)dims->n_mels * sizeof(*s->window.mel));
    status = s->at.clips && s->window.mel ? MXW_OK : MXW_E_MEMORY;
    if (status < 0)
        goto out;
    MX_TRY(mx_tokens_add(&s->at.tokens, parent->at.tokens.items, s->at.n_initial_prompt));
    MX_TRY(mx_decoding_open(s->plan, &s->decoding));
    if (number == 0)
        s->slot = parent->slot;
    else
        MX_TRY(mx_slot_attach_shared(s->recognizer, s->plan, mx_session_forces(&s->options), &s->slot));
    if (s->slot)
        mx_slot_set_stop(s->slot, stop_lane, own);
out:
    return status;
}

/* As many lanes as are wanted, useful and possible: at least one. All are opened before the first one works: attaching
 * a slot waits for the run at hand. */
static mxw_status start_lanes(mx_lanes *l) {
    int wanted = l->parent->options.parallel;
    if (l->all_cut)
        wanted = (int)MX_MIN((size_t)wanted, l->n_pieces - l->next);
    l->lanes = mx_alloc_zero((size_t)wanted, sizeof(*l->lanes));
    if (!l->lanes)
        return MXW_E_MEMORY;
    for (int i = 0; i < wanted; i++) {
        lane *own = &l->lanes[l->n_room++];
        mxw_status status = open_lane(l, i, own);
        if (status < 0)
            return status;
        if (!own->session.slot)   /* no slot is free */
            break;
    }
    for (int i = 0; i < l->n_room && l->lanes[i].session.slot; i++) {
        lane *own = &l->lanes[i];
        if (pthread_create(&own->thread, NULL, run_lane, own) != 0) {
            if (i == 0)
                return mx_fail(MXW_E_MEMORY, "parallel: no thread can be started (out of memory or of threads)");
            break;
        }
        l->n_lanes++;
    }
    mx_log(MXW_LOG_INFO, "parallel", "%d of %d lanes", l->n_lanes, l->parent->options.parallel);
    return MXW_OK;
}

/* Ends the threads and gives the slots back; the lanes' memory stays. */
static void end_lanes(mx_lanes *l) {
    pthread_mutex_lock(&l->lock);
    l->closing = 1;
    atomic_store(&l->stop_from, 0);
    pthread_cond_broadcast(&l->planned);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->n_lanes; i++)
        pthread_join(l->lanes[i].thread, NULL);
    l->n_lanes = 0;
    if (l->n_room > 0 && l->parent->slot)
        mx_slot_set_stop(l->parent->slot, NULL, NULL);
    for (int i = 0; i < l->n_room; i++)
        close_lane(&l->lanes[i]);
}

void mx_lanes_close(mx_lanes *l) {
    if (!l)
        return;
    end_lanes(l);
    for (int i = 0; i < l->n_room; i++)
        free_lane(&l->lanes[i]);
    for (size_t i = 0; i < l->n_pieces; i++)
        mx_free(l->pieces[i].segments);
    mx_free(l->pieces);
    mx_free(l->lanes);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->planned);
    pthread_cond_destroy(&l->done);
    mx_free(l);
}

/* ---- the caller's thread ----------------------------------------------------------------------------------------- */

static mxw_status add_piece(mx_lanes *l, const mx_clip *clip, int64_t start, int64_t end) {
    pthread_mutex_lock(&l->lock);
    mxw_status status = mx_grow(&l->pieces, &l->room_pieces, l->n_pieces + 1, sizeof(*l->pieces));
    if (status >= 0) {
        piece *p = &l->pieces[l->n_pieces++];
        *p = (piece){.clip = *clip};
        p->clip.start = start;
        p->clip.end = end;
        p->clip.language = clip->language ? clip->language : l->parent->language;
        pthread_cond_signal(&l->planned);
    }
    pthread_mutex_unlock(&l->lock);
    return status;
}

/* Cuts clips into pieces as far as they are known. Speech is locked. */
static mxw_status cut_clips(mx_session *s) {
    mx_lanes *l = s->lanes;
    int64_t max_windows = s->recognizer->hooks.max_windows, pause;
    mxw_status status = mx_session_plan_clips(s);
    for (; status >= 0 && l->clip < s->at.n_clips; l->clip++, l->seek = 0) {
        const mx_clip *clip = &s->at.clips[l->clip];
        int growing = s->at.growing && l->clip == s->at.n_clips - 1;
        for (int64_t seek = MX_MAX(l->seek, clip->start); status >= 0; seek = l->seek) {
            seek = mx_speech_next(s->speech, seek, clip->end);
            if (growing && clip->end - seek <= MX_MEL_WINDOW)
                return MXW_OK;
            if (seek >= clip->end || (max_windows && (int64_t)l->n_pieces >= max_windows))
                break;
            int64_t end = mx_session_cut_clip(s, seek, clip->end, &pause);
            if (!mx_session_has_frames(s, end))
                return MXW_OK;
            status = add_piece(l, clip, seek, end);
            l->seek = end;
        }
    }
    l->all_cut = status >= 0 && s->at.all_known;
    return status;
}

static mxw_status plan_pieces(mx_session *s) {
    if (s->lanes->all_cut)
        return MXW_OK;
    mx_session_lock(s);
    mxw_status status = cut_clips(s);
    mx_session_unlock(s);
    return status;
}

static void add_times(mxw_stage_times *to, const mxw_stage_times *from) {
    to->mel_ms += from->mel_ms;
    to->encode_ms += from->encode_ms;
    to->decode_ms += from->decode_ms;
    to->words_ms += from->words_ms;
    if (from->first_encode_ns && (!to->first_encode_ns || from->first_encode_ns < to->first_encode_ns))
        to->first_encode_ns = from->first_encode_ns;
}

static mxw_status append(mx_session *s, piece *p) {
    mxw_status status;
    size_t first = s->segments.n, n_tokens = s->at.tokens.n;
    for (size_t i = 0; i < p->n_segments; i++)
        n_tokens += p->segments[i].n_tokens;
    MX_TRY(mx_grow(&s->segments.items, &s->segments.capacity, first + p->n_segments, sizeof(*s->segments.items)));
    MX_TRY(mx_grow(&s->at.tokens.items, &s->at.tokens.capacity, n_tokens + 1, sizeof(*s->at.tokens.items)));
    for (size_t i = 0; i < p->n_segments; i++) {
        mxw_segment *segment = &s->segments.items[s->segments.n];
        *segment = p->segments[i];
        segment->id = (int64_t)s->segments.n++;
        mx_tokens_add(&s->at.tokens, segment->tokens, segment->n_tokens);
        if (s->options.on_segment)
            s->options.on_segment(s->options.user, segment);
    }
    mx_free(p->segments);
    p->segments = NULL;
    s->result.n_windows += p->n_windows;
    s->result.n_temperature_fallbacks += p->n_fallbacks;
    s->result.n_words_suspected += p->n_suspected;
    add_times(&s->times, &p->times);
    s->at.seek = p->clip.end;
    s->language = p->clip.language;
    MX_TRY(mx_session_give_record(s, first));
    mx_session_report(s);
out:
    return status;
}

/* Waits until the piece is done, or will never be. */
static mxw_status wait_for(mx_session *s, size_t index, piece *out) {
    mx_lanes *l = s->lanes;
    mxw_status status = MXW_OK;
    pthread_mutex_lock(&l->lock);
    while (status >= 0 && !l->pieces[index].done) {
        int more = s->finished && !l->all_cut;   /* there may be more pieces for the lanes */
        int64_t until = mx_now_ns() + (more ? POLL_SPEECH_NS : POLL_STOP_NS);
        struct timespec t = {.tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000)};
        if (!s->options.should_abort && !more) {
            pthread_cond_wait(&l->done, &l->lock);
        } else if (pthread_cond_timedwait(&l->done, &l->lock, &t) != 0) {
            pthread_mutex_unlock(&l->lock);
            status = mx_session_stop_if_asked(s);
            if (status >= 0 && more)
                status = plan_pieces(s);
            pthread_mutex_lock(&l->lock);
        }
    }
    if (status >= 0 && l->failure.piece == (int64_t)index)
        status = mx_fail(l->failure.status, "%s", l->failure.line);
    if (status >= 0) {
        *out = l->pieces[index];
        l->pieces[index].segments = NULL;
    }
    pthread_mutex_unlock(&l->lock);
    return status;
}

mxw_status mx_lanes_advance(mx_session *s) {
    mx_lanes *l = s->lanes;
    size_t n_before = s->segments.n;
    mxw_status status = plan_pieces(s);
    while (status >= 0 && s->segments.n == n_before) {
        size_t index = (size_t)s->n_records;
        piece p = {0};
        if (index >= l->n_pieces) {   /* nothing is left for now */
            int waited = l->all_cut ? 0 : mx_session_await_speech(s);
            if (waited == 0 && l->all_cut)
                end_lanes(l);
            if (waited == 0)
                return l->all_cut ? MXW_END : MXW_MORE;
            status = waited < 0 ? (mxw_status)waited : plan_pieces(s);
            continue;
        }
        if (l->n_room == 0) {
            l->next = index;   /* those before were resumed */
            status = start_lanes(l);
        }
        if (status >= 0)
            status = wait_for(s, index, &p);
        if (status >= 0)
            status = append(s, &p);
        mx_free(p.segments);
        if (status >= 0)
            status = mx_session_stop_if_asked(s);
    }
    if (status < 0)
        end_lanes(l);
    return status < 0 ? status : MXW_OK;
}
