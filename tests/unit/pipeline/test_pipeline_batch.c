/* test_pipeline_batch.c - sessions that share a device give the result of each alone, byte for byte: different lengths,
 * searches, prompts, detected languages, fallbacks, clips, words; for batches of 1, 2, 3, 8 and 16 and several
 * thread counts; sessions that fail, stop, or find no slot. The counters prove that requests were batched.
 *
 * usage: test_pipeline_batch [WHERE] [full|overlap]    full: every batch with every thread count, every allocation
 * failing; overlap: only windows encoded while others decode */
#include "kit/check.h"
#include "kit/pipeline_kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/mem.h"
#include "pipeline/session.h"

#define N_JOBS 16

typedef struct job {
    mxw_session_options options;
    size_t n_samples, piece;
    float *samples;
    mx_str alone, json;
    mxw_status status;
    char line[256];
    int64_t n_asked, stop_at;   /* should_abort */
    pthread_t asked_on;
    int wrong_thread;
} job;

static char path[4200];
static job jobs[N_JOBS];

static mxw_model *open_batch(int batch, int threads, int width) {
    mxw_model *model = NULL;
    mxw_model_options o = kit_model_options(path, threads);
    CHECK_EQ_INT(o.batch, 1);
    o.batch = batch;
    if (CHECK_EQ_INT(mxw_model_open(&o, &model), MXW_OK))
        model->encode_width = width;
    return model;
}

/* Every job is another kind of session. */
static void fill(job *j, int i) {
    static const char *const prompts[] = {NULL, "Names: Ada, Grace.", NULL, "a b c"};
    j->options = kit_short_options(5 + i % 4);
    j->options.beam_size = i % 3 == 1 ? 2 + i % 4 : 0;
    j->options.best_of = 1 + i % 5;
    j->options.temperature = i % 5 == 2 ? 0.6 : 0;
    j->options.temperature_increment = i % 4 == 3 ? 0.5 : MXW_NONE;   /* random weights: every threshold fails */
    j->options.seed = (uint64_t)i;
    j->options.language = i % 2 ? "de" : NULL;
    j->options.initial_prompt = prompts[i % 4];
    j->options.carry_initial_prompt = i % 8 == 1;
    j->options.prefix = i == 9 ? "so" : NULL;
    j->options.suppress_tokens = i % 6 == 5 ? "11,13,300" : i % 6 == 4 ? "" : "-1";
    j->options.without_timestamps = i == 6;
    j->options.clip_timestamps = i == 10 ? "1,4,6" : "0";
    j->options.mel_reference = i == 12 ? MXW_MEL_RUNNING : MXW_MEL_FILE;
    j->options.no_speech_threshold = MXW_NONE;
    j->options.word_timestamps = i % 4 != 1;
    j->options.hallucination_silence_threshold = i == 4 ? 8 : MXW_NONE;
    j->options.token_details = i % 5 == 3 ? 4 : 0;
    j->options.repetition_penalty = i % 4 == 1 ? 1.4 : 1;
    j->options.no_repeat_ngram_size = i % 7 == 2 ? 2 : 0;
    j->piece = i == 12 ? 16000 : 0;
    j->n_samples = i == 15 ? 0 : (size_t)(i % 8 == 3 ? 32 : 3 + i) * MXW_SAMPLE_RATE + (size_t)i * 411;
    j->samples = mx_alloc_array(j->n_samples + 1, sizeof(float));
    if (CHECK(j->samples != NULL))
        kit_samples((uint64_t)i, 0, j->n_samples, j->samples);
}

static void transcribe(mxw_model *model, job *j) {
    mxw_session *session = NULL;
    mx_str_clear(&j->json);
    j->line[0] = 0;
    j->status = mxw_session_open(model, &j->options, &session);
    if (j->status >= 0)
        j->status = kit_run(session, j->samples, j->n_samples, j->piece);
    if (j->status >= 0)
        j->status = kit_write(session, "json", &j->json);
    if (j->status < 0)
        snprintf(j->line, sizeof(j->line), "%s", mxw_last_error());
    mxw_session_close(session);
}

/* ---- many workers over a list ------------------------------------------------------------------------------------ */

typedef struct work {
    pthread_mutex_t lock;
    mxw_model *model;
    int next, n;
} work;

static void *worker(void *argument) {
    work *w = argument;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        int i = w->next++;
        pthread_mutex_unlock(&w->lock);
        if (i >= w->n)
            return NULL;
        transcribe(w->model, &jobs[i]);
    }
}

/* The first n jobs. */
static void run_some(mxw_model *model, int n, int n_workers) {
    pthread_t threads[N_JOBS];
    work w = {PTHREAD_MUTEX_INITIALIZER, model, 0, n};
    for (int i = 0; i < n_workers; i++)
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, worker, &w), 0);
    for (int i = 0; i < n_workers; i++)
        pthread_join(threads[i], NULL);
}

static void run_all(mxw_model *model, int n_workers) { run_some(model, N_JOBS, n_workers); }

static void check_equal(const char *what, int a, int b) {
    for (int i = 0; i < N_JOBS; i++)
        if (!CHECK(jobs[i].status >= 0 && strcmp(mx_str_get(&jobs[i].json), mx_str_get(&jobs[i].alone)) == 0))
            printf("    %s %d/%d: session %d: %s\n      %s\n      %s\n", what, a, b, i,
                   mxw_status_name(jobs[i].status), mx_str_get(&jobs[i].json), mx_str_get(&jobs[i].alone));
}

/* Each on its own model, one thread: the expected results. */
static void run_alone(void) {
    mxw_model *model = open_batch(1, 1, 1);
    for (int i = 0; i < N_JOBS && model; i++) {
        transcribe(model, &jobs[i]);
        if (!CHECK_EQ_INT(jobs[i].status, MXW_OK))
            printf("    session %d: %s\n", i, jobs[i].line);
        mx_str_text(&jobs[i].alone, mx_str_get(&jobs[i].json));
        for (int k = 0; k < i; k++)   /* different texts, or the comparison would prove nothing */
            CHECK(strcmp(mx_str_get(&jobs[i].alone), mx_str_get(&jobs[k].alone)) != 0);
    }
    mxw_model_close(model);
}

/* In half of them the pool's threads apply the rules of decoding, as of very many sessions. */
static void test_batches(int full) {
    static const int batches[] = {1, 2, 3, 8, 16}, threads[] = {1, 2, 3, 8};
    for (size_t b = 0; b < MX_COUNT(batches); b++)
        for (size_t t = 0; t < MX_COUNT(threads); t++) {
            if (!full && t != b % MX_COUNT(threads))
                continue;
            mxw_model *model = open_batch(batches[b], threads[t], 1 + (int)(b + t) % 4);
            mx_batcher_spread(b % 2 ? 2 : 0);
            if (model)
                run_all(model, batches[b]);
            mx_batcher_spread(0);
            check_equal("batch/threads", batches[b], threads[t]);
            mxw_model_close(model);
        }
}

/* Twelve sessions with three slots, the first of them small: the rest get private batchers. */
static void test_without_a_slot(void) {
    mxw_model *model = open_batch(3, 2, 2);
    if (model)
        run_all(model, 12);
    check_equal("slots/workers", 3, 12);
    mxw_model_close(model);
}

/* ---- merged for sure --------------------------------------------------------------------------------------------- */

#define N_SLOTS 7

/* Holds the device until that many others wait for it: then their requests are batched, whatever the timing. */
typedef struct gate {
    mx_slot *slot;
    int wanted, gave_up;
    atomic_int held, open;   /* open: releases every waiter */
} gate;

static void pause_briefly(void) { nanosleep(&(struct timespec){0, 1000000}, NULL); }

static mxw_status hold(void *context, mx_step_runner *runner, int slot) {
    gate *g = context;
    atomic_store(&g->held, 1);
    for (int i = 0; mx_slot_counts(g->slot).waiting < g->wanted && !g->open && !g->gave_up; i++, pause_briefly())
        g->gave_up = i > 60000;
    return MXW_OK;
}

static void *hold_gate(void *argument) {
    gate *g = argument;
    mx_slot_exclusive(g->slot, hold, g);
    return NULL;
}

/* One window of a session, stage by stage. */
typedef struct window {
    mx_session *session;
    int n_steps;
    int spoil_at;   /* the step with an invalid token */
    mx_decode_row bad;
    mxw_status status;
    char line[256];
    int32_t tokens[64];
    size_t n_tokens;
} window;

static void *encode(void *argument) {
    window *w = argument;
    w->status = mx_session_encode_window(w->session, 0, 300, MX_MEL_ZEROS);
    return NULL;
}

static int next(void *context, mx_decode_step *step, int *k) {
    window *w = context;
    *k = mx_decoding_candidates(w->session->decoding);
    if (!mx_decoding_step(w->session->decoding, step))
        return 0;
    w->n_steps++;
    if (w->n_steps == w->spoil_at) {
        w->bad = step->rows[0];
        w->bad.token = 1 << 20;
        step->rows = &w->bad;
        step->n_rows = 1;
    }
    return 1;
}

static void take(void *context, const mx_candidates *candidates) {
    mx_decoding_take(((window *)context)->session->decoding, candidates);
}

static void *decode(void *argument) {
    window *w = argument;
    mx_decode_result result;
    w->status = mx_decoding_start(w->session->decoding, "de", NULL, 0, w->session->temperatures[0], 0);
    if (w->status >= 0)
        w->status = mx_slot_decode(w->session->slot, &(mx_steps){next, take, w});
    snprintf(w->line, sizeof(w->line), "%s", w->status < 0 ? mxw_last_error() : "");
    if (w->status < 0 || mx_decoding_result(w->session->decoding, &result) < 0)
        return NULL;
    w->n_tokens = MX_MIN(result.n_tokens, MX_COUNT(w->tokens));
    memcpy(w->tokens, result.tokens, w->n_tokens * sizeof(*w->tokens));
    return NULL;
}

/* All windows through a stage, each on its thread, at the same moment. */
static void together(mx_session *holder, window *windows, void *(*stage)(void *)) {
    pthread_t threads[N_SLOTS], gate_thread;
    gate g = {.slot = holder->slot, .wanted = N_SLOTS};
    CHECK_EQ_INT(pthread_create(&gate_thread, NULL, hold_gate, &g), 0);
    while (!g.held)   /* a window submitted earlier would run alone */
        pause_briefly();
    for (int i = 0; i < N_SLOTS; i++)
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, stage, &windows[i]), 0);
    for (int i = 0; i < N_SLOTS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(gate_thread, NULL);
    CHECK(!g.gave_up);
}

static mx_session *open_session(mxw_model *model, int i) {
    mx_session *session = NULL;
    if (!CHECK_EQ_INT(mxw_session_open(model, &jobs[i].options, &session), MXW_OK) ||
        !CHECK_EQ_INT(mxw_session_feed(session, jobs[i].samples, jobs[i].n_samples), MXW_OK) ||
        !CHECK_EQ_INT(mxw_session_finish(session), MXW_OK))
        printf("    %s\n", mxw_last_error());
    return session;
}

static mx_session *open_holder(mxw_model *model) {
    mx_session *holder = NULL;
    mxw_session_options o = kit_short_options(16);   /* first to open, so that all others fit beside it */
    o.beam_size = 5;
    o.prefix = "a longer prefix";
    o.repetition_penalty = 1.1;
    CHECK_EQ_INT(mxw_session_open(model, &o, &holder), MXW_OK);
    return holder;
}

/* Seven windows: the encoder takes four at once, the decoder all of them until each has ended. Then again, with one
 * invalid request. spread: as mx_batcher_spread takes it. */
static void test_merged(int spoilt, int spread) {
    mxw_model *model = open_batch(N_SLOTS + 1, 3, 4), *apart = open_batch(1, 1, 1);
    mx_session *holder = open_holder(model);
    window windows[N_SLOTS] = {{0}}, alone[N_SLOTS] = {{0}};
    int most = 0;
    for (int i = 0; i < N_SLOTS; i++) {
        alone[i].session = open_session(apart, i);
        encode(&alone[i]);
        decode(&alone[i]);
        CHECK(alone[i].status == MXW_OK && alone[i].n_tokens > 0);
        most = MX_MAX(most, alone[i].n_steps);
        windows[i].session = open_session(model, i);
        windows[i].spoil_at = i == spoilt ? 3 : 0;
    }
    mx_batcher_spread(spread);
    together(holder, windows, encode);
    together(holder, windows, decode);
    mx_batcher_spread(0);
    mx_batcher_counts counts = mx_slot_counts(holder->slot);
    CHECK_EQ_INT(counts.windows, N_SLOTS);
    CHECK_EQ_INT(counts.encoder_runs, 2);
    CHECK_EQ_INT(counts.decoder_runs, most);
    CHECK_EQ_INT(counts.waiting, 0);
    for (int i = 0; i < N_SLOTS; i++) {
        if (i == spoilt) {
            if (!CHECK(windows[i].status < 0 && strstr(windows[i].line, "1048576")))
                printf("    %s: %s\n", mxw_status_name(windows[i].status), windows[i].line);
            CHECK_EQ_INT(windows[i].n_steps, 3);
        } else {
            CHECK_EQ_INT(windows[i].status, MXW_OK);
            CHECK_EQ_INT(windows[i].n_steps, alone[i].n_steps);
            CHECK(windows[i].n_tokens == alone[i].n_tokens &&
                  memcmp(windows[i].tokens, alone[i].tokens, alone[i].n_tokens * sizeof(int32_t)) == 0);
        }
        mxw_session_close(windows[i].session);
        mxw_session_close(alone[i].session);
    }
    mxw_session_close(holder);
    mxw_model_close(model);
    mxw_model_close(apart);
}

/* ---- encoded while others decode --------------------------------------------------------------------------------- */

static atomic_int may_encode;

/* At the third step another session submits a window to encode. */
static int next_with_company(void *context, mx_decode_step *step, int *k) {
    window *w = context;
    int more = next(context, step, k);
    if (more && w->n_steps == 3) {
        atomic_store(&may_encode, 1);
        for (int i = 0; mx_slot_counts(w->session->slot).waiting < 1 && i < 60000; i++)
            pause_briefly();
    }
    return more;
}

static void *come_later(void *argument) {
    while (!atomic_load(&may_encode))
        pause_briefly();
    encode(argument);
    return decode(argument);
}

/* A device that captures steps encodes windows behind them; the results are the same. */
static void test_beside(void) {
    mxw_model *model = open_batch(3, 2, 2), *apart = open_batch(1, 1, 1);
    mx_session *holder = open_holder(model);
    window windows[2] = {{0}}, alone[2] = {{0}};
    pthread_t thread;
    mx_decode_result result;
    for (int i = 0; i < 2; i++) {
        alone[i].session = open_session(apart, 2 * i + 1);
        encode(&alone[i]);
        decode(&alone[i]);
        windows[i].session = open_session(model, 2 * i + 1);
    }
    mx_session *first = windows[0].session;
    atomic_store(&may_encode, 0);
    CHECK_EQ_INT(pthread_create(&thread, NULL, come_later, &windows[1]), 0);
    encode(&windows[0]);
    CHECK_EQ_INT(mx_decoding_start(first->decoding, "de", NULL, 0, first->temperatures[0], 0), MXW_OK);
    CHECK_EQ_INT(mx_slot_decode(first->slot, &(mx_steps){next_with_company, take, &windows[0]}), MXW_OK);
    CHECK_EQ_INT(mx_decoding_result(first->decoding, &result), MXW_OK);
    CHECK(result.n_tokens == alone[0].n_tokens &&
          memcmp(result.tokens, alone[0].tokens, alone[0].n_tokens * sizeof(int32_t)) == 0);
    pthread_join(thread, NULL);
    CHECK(windows[1].status == MXW_OK && windows[1].n_tokens == alone[1].n_tokens &&
          memcmp(windows[1].tokens, alone[1].tokens, alone[1].n_tokens * sizeof(int32_t)) == 0);
    CHECK(windows[0].n_steps > 3 && windows[1].n_steps == alone[1].n_steps);
    mx_batcher_counts counts = mx_slot_counts(first->slot);
    CHECK_EQ_INT(counts.windows, 2);
    CHECK_EQ_INT(counts.windows_overlapped, mx_exec_captures(model->programs[MX_PART_DECODER]));
    for (int i = 0; i < 2; i++) {
        mxw_session_close(windows[i].session);
        mxw_session_close(alone[i].session);
    }
    mxw_session_close(holder);
    mxw_model_close(model);
    mxw_model_close(apart);
}

/* ---- who stops or fails ------------------------------------------------------------------------------------------ */

static int should_abort(void *user) {
    job *j = user;
    j->wrong_thread += j->n_asked && !pthread_equal(j->asked_on, pthread_self());
    j->asked_on = pthread_self();
    return j->n_asked++ >= j->stop_at;
}

/* One stops, one gets invalid samples, one an unknown language; the others are not affected. */
static void test_failures(void) {
    mxw_model *model = open_batch(8, 2, 2);
    job before[3] = {jobs[1], jobs[4], jobs[7]};
    jobs[1].options.should_abort = should_abort;
    jobs[1].options.user = &jobs[1];
    jobs[1].stop_at = 2;
    jobs[4].samples[jobs[4].n_samples / 2] = __builtin_nanf("");
    jobs[7].options.language = "klingon";
    if (model)
        run_all(model, 8);
    CHECK_EQ_INT(jobs[1].status, MXW_E_ABORTED);
    CHECK_STR(jobs[1].line, "stopped on request");
    CHECK(jobs[1].n_asked == 3 && !jobs[1].wrong_thread);
    CHECK_EQ_INT(jobs[4].status, MXW_E_ARGUMENT);
    CHECK(strstr(jobs[4].line, "not finite") != NULL);
    CHECK_EQ_INT(jobs[7].status, MXW_E_ARGUMENT);
    CHECK(strstr(jobs[7].line, "klingon") != NULL);
    kit_samples(4, jobs[4].n_samples / 2, 1, jobs[4].samples + jobs[4].n_samples / 2);
    jobs[1].options = before[0].options;
    jobs[7].options = before[2].options;
    for (int i = 1; i < 8; i += 3)   /* now those three, on the same model */
        transcribe(model, &jobs[i]);
    check_equal("failures", 8, 2);
    mxw_model_close(model);
}

/* A session that waits for the device while another holds it stops within moments, not when the device is free. */
static void test_stop_while_waiting(void) {
    mxw_model *model = open_batch(2, 1, 1);
    mx_session *holder = open_holder(model), *waiting;
    mxw_session_options kept = jobs[1].options;
    const mxw_segment *segment;
    pthread_t gate_thread;
    gate g = {.slot = holder->slot, .wanted = N_SLOTS};   /* never that many: it is opened explicitly */
    jobs[1].options.should_abort = should_abort;
    jobs[1].options.user = &jobs[1];
    jobs[1].stop_at = 3;
    jobs[1].n_asked = 0;
    waiting = open_session(model, 1);
    CHECK_EQ_INT(pthread_create(&gate_thread, NULL, hold_gate, &g), 0);
    while (!atomic_load(&g.held))
        pause_briefly();
    CHECK_EQ_INT(mxw_session_next(waiting, &segment), MXW_E_ABORTED);
    CHECK_EQ_INT(jobs[1].n_asked, 4);
    atomic_store(&g.open, 1);
    pthread_join(gate_thread, NULL);
    CHECK(!jobs[1].wrong_thread && !g.gave_up);
    jobs[1].options = kept;
    mxw_session_close(waiting);
    mxw_session_close(holder);
    mxw_model_close(model);
}

/* Any allocation may fail while three sessions run: each gives its text or E_MEMORY. */
static void test_failing_memory(int64_t stride) {
    for (int i = 0; i < 3; i++)
        mx_str_free(&jobs[i].json);
    int64_t live = mx_mem_live(), n_failed = 0;
    for (int64_t n = 0, made = 1; n < made; n += stride) {
        mxw_model *model = open_batch(3, 2, 2);
        mx_mem_fail_after(n);
        run_some(model, 3, 3);
        made = mx_mem_count();
        mx_mem_fail_after(-1);
        for (int i = 0; i < 3; i++) {
            int fine = jobs[i].status >= 0 && strcmp(mx_str_get(&jobs[i].json), mx_str_get(&jobs[i].alone)) == 0;
            int told = jobs[i].status == MXW_E_MEMORY && strstr(jobs[i].line, "memory");
            n_failed += told;
            if (!CHECK(fine || told))
                printf("    allocation %lld, session %d: %s: %s\n", (long long)n, i, mxw_status_name(jobs[i].status),
                       jobs[i].line);
        }
        mxw_model_close(model);
        for (int i = 0; i < 3; i++)
            mx_str_free(&jobs[i].json);
        if (!CHECK_EQ_INT(mx_mem_live(), live))
            printf("    allocation %lld\n", (long long)n);
    }
    CHECK(n_failed > 2);
}

/* ---- one thread, memory ------------------------------------------------------------------------------------------ */

/* Sessions used alternately on one thread never wait for each other. */
static void test_one_thread(void) {
    mxw_model *model = open_batch(3, 2, 2);
    mx_session *sessions[3];
    mxw_status status[3] = {MXW_OK, MXW_OK, MXW_OK};
    for (int i = 0; i < 3; i++)
        sessions[i] = open_session(model, i);
    while (status[0] == MXW_OK || status[1] == MXW_OK || status[2] == MXW_OK)
        for (int i = 0; i < 3; i++) {
            const mxw_segment *segment;
            if (status[i] == MXW_OK)
                status[i] = mxw_session_next(sessions[i], &segment);
        }
    for (int i = 0; i < 3; i++) {
        mx_str json = {0};
        CHECK_EQ_INT(status[i], MXW_END);
        CHECK_EQ_INT(kit_write(sessions[i], "json", &json), MXW_OK);
        CHECK_STR(mx_str_get(&json), mx_str_get(&jobs[i].alone));
        mx_str_free(&json);
        mxw_session_close(sessions[i]);
    }
    mxw_model_close(model);
}

/* A batch's memory is reserved once: sessions are attached and detached without another device allocation, and steps
 * allocate nothing at all. */
static int64_t at_step[64];

static int counted_next(void *context, mx_decode_step *step, int *k) {
    window *w = context;
    at_step[w->n_steps] = mx_mem_count();
    return next(context, step, k);
}

static void test_steady(void) {
    mxw_model *model = open_batch(4, 2, 2);
    mx_session *holder = open_holder(model);
    int captures = mx_exec_captures(model->programs[MX_PART_DECODER]);   /* sizes that come a second time */
    for (int round = 0; round < 4; round++) {
        window w = {.session = open_session(model, 1)};
        CHECK_EQ_INT(mx_session_encode_window(w.session, 0, 300, MX_MEL_ZEROS), MXW_OK);
        mx_mem_fail_after(-1);
        CHECK_EQ_INT(mx_decoding_start(w.session->decoding, "de", NULL, 0, 0, 0), MXW_OK);
        CHECK_EQ_INT(mx_slot_decode(w.session->slot, &(mx_steps){counted_next, take, &w}), MXW_OK);
        for (int i = round ? 1 : 3; i <= w.n_steps && round >= 2 * captures; i++)   /* warm after the first beams */
            CHECK_EQ_INT(at_step[i], at_step[i - 1]);
        CHECK(w.n_steps >= 5);
        mxw_session_close(w.session);
    }
    mxw_session_close(holder);
    mxw_model_close(model);
}

static void test_arguments(void) {
    mxw_model_options o = kit_model_options(path, 1);
    mxw_model *model = NULL;
    static const int wrong[] = {0, -1, 257};
    for (size_t i = 0; i < MX_COUNT(wrong); i++) {
        o.batch = wrong[i];
        CHECK_EQ_INT(mxw_model_open(&o, &model), MXW_E_ARGUMENT);
        CHECK(strstr(mxw_last_error(), "batch: ") != NULL);
    }
}

static void test_all(int full) {
    test_arguments();
    run_alone();
    test_batches(full);
    test_without_a_slot();
    test_merged(-1, 0);
    test_merged(4, 0);
    test_merged(-1, 2);
    test_merged(4, 2);
    test_failures();
    test_stop_while_waiting();
    test_one_thread();
    test_steady();
    test_failing_memory(full ? 1 : 61);
}

int main(int argc, char **argv) {
    char folder[4096];
    int full = argc > 1 && strcmp(argv[argc - 1], "full") == 0;
    int overlap = argc > 1 && strcmp(argv[argc - 1], "overlap") == 0;
    if (argc > 1 + full + overlap)
        kit_on("pipeline-batch", argv[1]);
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    snprintf(path, sizeof(path), "%s/small.pt", folder);
    gen_options o = {.dims = kit_dims(51865, 8, 1, 1), .dtype = MXW_F16, .seed = 4};
    if (CHECK(gen_pt(path, &o) == 0)) {
        for (int i = 0; i < N_JOBS; i++)
            fill(&jobs[i], i);
        test_beside();
        if (!overlap)
            test_all(full);
        for (int i = 0; i < N_JOBS; i++) {
            mx_free(jobs[i].samples);
            mx_str_free(&jobs[i].alone);
            mx_str_free(&jobs[i].json);
        }
    }
    CHECK_EQ_INT(mx_mem_live(), 0);
    gen_remove(folder);
    return check_done();
}
