/* test_parallel.c - one recording in lanes, on a small generated model and a detector of the test's own: the same bytes
 * for any number of lanes, with and without free slots, beside other sessions, live, and resumed; callbacks in order on
 * the caller's thread; a stop, a lane that fails and every failing allocation end the session with a line and no leak.
 *
 * usage: test_parallel [WHERE] [full | short]    full: every allocation made to fail; else one in eleven; short: fewer
 * kinds of sessions and numbers of lanes, for sanitizers */
#include "kit/check.h"
#include "kit/fake_detector.h"
#include "kit/pipeline_kit.h"

#include <math.h>
#include <pthread.h>

#include "base/mem.h"
#include "pipeline/session.h"

#define N_SAMPLES (size_t)(100 * MXW_SAMPLE_RATE + 1234)

static char path[4200];
static float *samples;   /* [N_SAMPLES] */

static mxw_model *open_model(int batch, int threads) {
    mxw_model *model = NULL;
    mxw_model_options o = kit_model_options(path, threads);
    o.batch = batch;
    if (CHECK_EQ_INT(mxw_model_open(&o, &model), MXW_OK))
        model->open_detector = fake_detector_open;
    return model;
}

static mxw_session_options lane_options(int parallel) {
    mxw_session_options o = kit_short_options(6);
    o.vad = 1;
    o.parallel = parallel;
    o.no_speech_threshold = MXW_NONE;
    o.language = "de";
    return o;
}

/* Each kind of session that has to be the same for any number of lanes. */
static mxw_session_options kind_of(int kind, int parallel) {
    mxw_session_options o = lane_options(parallel);
    o.vad_min_silence_ms = kind % 2 ? 5000 : 2000;   /* one long region, cut at its pauses; or many */
    o.language = kind == 1 ? "de" : NULL;
    o.beam_size = kind == 2 ? 3 : 0;
    o.temperature_increment = kind == 3 ? 0.8 : MXW_NONE;   /* random weights: sampled at every temperature */
    o.best_of = 2;
    o.word_timestamps = kind == 1 || kind == 3;
    o.token_details = kind == 4 ? 2 : 0;
    o.initial_prompt = kind == 2 || kind == 4 ? "Names: Ada, Grace." : NULL;
    o.carry_initial_prompt = kind == 4;
    o.clip_timestamps = kind == 5 ? "70,90,5,60.5" : "0";
    o.hallucination_silence_threshold = kind == 1 ? 20 : MXW_NONE;
    o.mel_reference = kind == 5 ? MXW_MEL_RUNNING : MXW_MEL_FILE;
    o.start_s = kind == 5 ? 3.25 : 0;
    return o;
}

#define N_KINDS 6

/* On any thread: it checks nothing. */
static mxw_status write_all(mxw_session *session, mx_str *out) {
    const mxw_result *result = mxw_session_result(session);
    mxw_status status = kit_write(session, "json", out);
    mx_str_print(out, "%lld windows, %lld fallbacks, %zu regions, %a skipped, %a", (long long)result->n_windows,
                 (long long)result->n_temperature_fallbacks, result->n_regions, result->skipped_s,
                 result->language_probability);
    for (size_t i = 0; i < result->n_segments; i++)
        for (size_t j = 0; j < mxw_result_segment(result, i)->n_tokens; j++) {
            const mxw_token *token = mxw_segment_token(mxw_result_segment(result, i), j);
            if (token)
                mx_str_print(out, " %a", token->logprob);
        }
    return status;
}

static mxw_status run(mxw_model *model, const mxw_session_options *o, size_t part, mx_str *out) {
    mxw_session *session = NULL;
    mxw_status status = mxw_session_open(model, o, &session);
    if (status >= 0)
        status = kit_run(session, samples, N_SAMPLES, part);
    mxw_status written = status < 0 ? MXW_OK : write_all(session, out);
    mxw_session_close(session);
    return written < 0 ? written : status;
}

/* ---- the same for any number of lanes ---------------------------------------------------------------------------- */

static mx_str want[N_KINDS];

static void make_expected(void) {
    mxw_model *model = open_model(1, 1);
    for (int k = 0; k < N_KINDS; k++) {
        mxw_session_options o = kind_of(k, 1);
        CHECK_EQ_INT(run(model, &o, 0, &want[k]), MXW_END);
        if (!CHECK(want[k].n > 1000))
            printf("    kind %d: %s\n", k, mx_str_get(&want[k]));
        for (int j = 0; j < k; j++)
            CHECK(strcmp(mx_str_get(&want[j]), mx_str_get(&want[k])) != 0);
    }
    mxw_model_close(model);
}

static void check_kind(mxw_model *model, int kind, int parallel, int batch, size_t part) {
    mx_str got = {0};
    mxw_session_options o = kind_of(kind, parallel);
    CHECK_EQ_INT(run(model, &o, part, &got), MXW_END);
    if (!CHECK_STR(mx_str_get(&got), mx_str_get(&want[kind])))
        printf("    kind %d, %d lanes, batch %d\n", kind, parallel, batch);
    mx_str_free(&got);
}

static void test_numbers_of_lanes(int brief) {
    static const int batches[] = {1, 3, 8}, lanes[] = {1, 2, 7, 256};
    for (size_t b = brief ? 1 : 0; b < (brief ? 2 : MX_COUNT(batches)); b++) {
        mxw_model *model = open_model(batches[b], 1 + (int)b);
        for (int k = 0; k < N_KINDS; k++)
            check_kind(model, k, lanes[((size_t)k + b) % MX_COUNT(lanes)], batches[b], b == 1 ? 70001 : 0);
        mxw_model_close(model);
    }
}

/* Requests of several lanes are really one run: the decoder ran less often than there were steps. */
static void test_merged(void) {
    mxw_model *model = open_model(4, 2);
    mxw_session_options o = lane_options(4);
    mxw_session *session = NULL;
    CHECK_EQ_INT(mxw_session_open(model, &o, &session), MXW_OK);
    CHECK_EQ_INT(kit_run(session, samples, N_SAMPLES, 0), MXW_END);
    mx_batcher_counts counts = mx_slot_counts(session->slot);
    CHECK(counts.windows == mxw_session_result(session)->n_windows && counts.windows >= 4);
    CHECK(counts.decoder_runs < counts.steps);
    mxw_session_close(session);
    mxw_model_close(model);
}

/* Four sessions at once, with and without lanes, on slots that do not suffice. */
typedef struct beside {
    mxw_model *model;
    int kind, parallel;
    mx_str got;
    mxw_status status;
} beside;

static void *run_beside(void *argument) {
    beside *b = argument;
    mxw_session_options o = kind_of(b->kind, b->parallel);
    b->status = run(b->model, &o, 0, &b->got);
    return NULL;
}

static void test_beside_others(void) {
    mxw_model *model = open_model(6, 2);
    beside all[4] = {{model, 0, 3}, {model, 1, 1}, {model, 3, 7}, {model, 4, 2}};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, run_beside, &all[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ_INT(all[i].status, MXW_END);
        CHECK_STR(mx_str_get(&all[i].got), mx_str_get(&want[all[i].kind]));
        mx_str_free(&all[i].got);
    }
    mxw_model_close(model);
}

/* Without the text before: pieces at other places in the recording give what each gives alone. */
static void test_independent(void) {
    mxw_model *model = open_model(2, 2);
    mxw_session_options o = lane_options(2);
    mxw_session *session = NULL;
    const mxw_segment *segment;
    CHECK_EQ_INT(mxw_session_open(model, &o, &session), MXW_OK);
    CHECK_EQ_INT(kit_run(session, samples, N_SAMPLES, 0), MXW_END);
    CHECK(session->at.n_clips >= 4);
    for (int i = 0; i < session->at.n_clips; i++) {   /* each clip of it alone */
        const mx_clip *clip = &session->at.clips[i];
        mxw_session *alone = NULL;
        char times[64];
        size_t k = 0, n_same = 0;
        snprintf(times, sizeof(times), "%g,%g", (double)clip->start / 100, (double)clip->end / 100);
        o.clip_timestamps = times;
        CHECK_EQ_INT(mxw_session_open(model, &o, &alone), MXW_OK);
        CHECK_EQ_INT(mxw_session_feed(alone, samples, N_SAMPLES), MXW_OK);
        CHECK_EQ_INT(mxw_session_finish(alone), MXW_OK);
        const mxw_result *all = mxw_session_result(session);
        while (k < all->n_segments && mxw_result_segment(all, k)->seek < clip->start)
            k++;
        while (mxw_session_next(alone, &segment) == MXW_OK) {
            const mxw_segment *same = mxw_result_segment(all, k++);
            n_same += same && same->seek == segment->seek && same->start == segment->start &&
                      same->end == segment->end && !strcmp(same->text, segment->text);
        }
        CHECK(n_same > 0 && n_same == mxw_session_result(alone)->n_segments);
        mxw_session_close(alone);
    }
    mxw_session_close(session);
    mxw_model_close(model);
}

/* ---- callbacks --------------------------------------------------------------------------------------------------- */

typedef struct seen {
    pthread_t thread;
    int wrong_thread, wrong_order;
    size_t n_segments, n_records, n_progress, segments_at_record;
    double done_s;
    int64_t stop_after, n_asked;   /* segments */
    mx_str records[64];
} seen;

static void note_thread(seen *s) { s->wrong_thread += !pthread_equal(s->thread, pthread_self()); }

static void on_segment(void *user, const mxw_segment *segment) {
    seen *s = user;
    note_thread(s);
    s->wrong_order += segment->id != (int64_t)s->n_segments++;
}

static void on_progress(void *user, const mxw_progress *progress) {
    seen *s = user;
    note_thread(s);
    if (strcmp(progress->stage, "text"))
        return;
    s->wrong_order += progress->done_s < s->done_s || ++s->n_progress > s->n_records + 1;
    s->done_s = progress->done_s;
}

static void on_window(void *user, const void *record, size_t n) {
    seen *s = user;
    note_thread(s);
    if (CHECK(s->n_records < 64))
        mx_str_add(&s->records[s->n_records++], record, n);
}

static int should_abort(void *user) {
    seen *s = user;
    note_thread(s);
    s->n_asked++;
    return s->stop_after && (int64_t)s->n_segments >= s->stop_after;
}

static mxw_session *open_seen(mxw_model *model, const mxw_session_options *options, seen *s) {
    mxw_session *session = NULL;
    mxw_session_options o = *options;
    s->thread = pthread_self();
    o.user = s;
    o.on_segment = on_segment;
    o.on_progress = on_progress;
    o.on_window = o.mel_reference == MXW_MEL_FILE ? on_window : NULL;
    o.should_abort = should_abort;
    CHECK_EQ_INT(mxw_session_open(model, &o, &session), MXW_OK);
    CHECK_EQ_INT(mxw_session_feed(session, samples, N_SAMPLES), MXW_OK);
    CHECK_EQ_INT(mxw_session_finish(session), MXW_OK);
    return session;
}

static mxw_status take_all(mxw_session *session) {
    const mxw_segment *segment;
    mxw_status status;
    while ((status = mxw_session_next(session, &segment)) == MXW_OK)
        ;
    return status;
}

static void free_seen(seen *s) {
    for (size_t i = 0; i < s->n_records; i++)
        mx_str_free(&s->records[i]);
    *s = (seen){.n_segments = 0};
}

static void test_callbacks(void) {
    mxw_model *model = open_model(4, 2);
    mxw_session_options o = kind_of(0, 4);
    seen s = {.n_segments = 0};
    mx_str got = {0};
    mxw_session *session = open_seen(model, &o, &s);
    CHECK_EQ_INT(take_all(session), MXW_END);
    CHECK_EQ_INT(write_all(session, &got), MXW_OK);
    CHECK_STR(mx_str_get(&got), mx_str_get(&want[0]));
    CHECK(s.wrong_thread == 0 && s.wrong_order == 0 && s.n_records >= 4 && s.n_progress == s.n_records + 1);
    CHECK(s.n_segments == mxw_session_result(session)->n_segments && s.done_s > 80);
    mxw_session_close(session);
    free_seen(&s);
    mx_str_free(&got);
    mxw_model_close(model);
}

/* Records of three lanes, continued with another number of them, from wherever it stopped. */
static void test_resume(size_t step) {
    for (int kind = 3; kind < 5; kind++) {
        mxw_model *model = open_model(3, 2);
        mxw_session_options o = kind_of(kind, 3);
        seen whole = {.n_segments = 0}, s = {.n_segments = 0};
        mxw_session *session = open_seen(model, &o, &whole);
        CHECK_EQ_INT(take_all(session), MXW_END);
        mxw_session_close(session);
        for (size_t k = 0; k <= whole.n_records; k += step) {
            mx_str got = {0};
            o.parallel = 1 + (int)k % 3;
            session = open_seen(model, &o, &s);
            for (size_t i = 0; i < k; i++)
                CHECK_EQ_INT(mxw_session_resume(session, whole.records[i].data, whole.records[i].n), MXW_OK);
            CHECK_EQ_INT(s.n_records, 0);
            s.n_progress = 0;
            CHECK_EQ_INT(take_all(session), MXW_END);
            CHECK_EQ_INT(write_all(session, &got), MXW_OK);
            CHECK_STR(mx_str_get(&got), mx_str_get(&want[kind]));
            CHECK_EQ_INT(s.n_records, whole.n_records - k);
            for (size_t i = 0; i < s.n_records; i++)
                CHECK(s.records[i].n == whole.records[k + i].n &&
                      !memcmp(s.records[i].data, whole.records[k + i].data, s.records[i].n));
            mxw_session_close(session);
            mx_str_free(&got);
            free_seen(&s);
        }
        free_seen(&whole);
        mxw_model_close(model);
    }
}

/* ---- stops and failures ------------------------------------------------------------------------------------------ */

static void test_stop(void) {
    mxw_model *model = open_model(4, 2);
    mxw_session_options o = lane_options(4);
    for (int64_t after = 1; after < 8; after += 3) {
        seen s = {.n_segments = 0};
        const mxw_segment *segment;
        s.stop_after = after;
        mxw_session *session = open_seen(model, &o, &s);
        CHECK_EQ_INT(take_all(session), MXW_E_ABORTED);
        CHECK_STR(mxw_last_error(), "stopped on request");
        CHECK(s.wrong_thread == 0 && s.n_asked > 0 && (int64_t)s.n_segments >= after);
        CHECK_EQ_INT(mxw_session_next(session, &segment), MXW_E_ABORTED);
        CHECK_EQ_INT(mx_slot_counts(session->slot).waiting, 0);
        mxw_session_close(session);
        free_seen(&s);
    }
    mxw_session *session = NULL;   /* closed while its lanes work */
    const mxw_segment *segment;
    CHECK_EQ_INT(mxw_session_open(model, &o, &session), MXW_OK);
    CHECK_EQ_INT(mxw_session_feed(session, samples, N_SAMPLES), MXW_OK);
    CHECK_EQ_INT(mxw_session_finish(session), MXW_OK);
    CHECK_EQ_INT(mxw_session_next(session, &segment), MXW_OK);
    mxw_session_close(session);
    CHECK_EQ_INT(mxw_model_reserve(model, &o, 2), MXW_OK);   /* no slot is attached any more */
    mxw_model_close(model);
}

/* The clip from 40 s on cannot be decoded: what is before it is given, then its line, for good. */
static void test_lane_fails(void) {
    mxw_model *model = open_model(4, 2);
    mxw_session_options o = lane_options(4);
    mxw_session *session = NULL;
    const mxw_segment *segment;
    CHECK_EQ_INT(mxw_session_open(model, &o, &session), MXW_OK);
    CHECK_EQ_INT(mxw_session_feed(session, samples, N_SAMPLES), MXW_OK);
    CHECK_EQ_INT(mxw_session_finish(session), MXW_OK);
    while (mx_session_await_speech(session) > 0)
        CHECK_EQ_INT(mx_session_plan_clips(session), MXW_OK);
    CHECK(session->at.all_known && session->at.n_clips >= 4);
    for (int i = 2; i < 4; i++)
        session->at.clips[i].language = i == 2 ? "yue" : "xx";   /* not in this vocabulary */
    int64_t before = session->at.clips[2].start;
    CHECK_EQ_INT(take_all(session), MXW_E_ARGUMENT);
    CHECK_STR(mxw_last_error(), "language: this model does not support 'yue'");
    CHECK_EQ_INT(mxw_session_next(session, &segment), MXW_E_ARGUMENT);
    CHECK_STR(mxw_last_error(), "language: this model does not support 'yue'");
    const mxw_result *result = mxw_session_result(session);
    CHECK(result->n_segments >= 2 && mxw_result_segment(result, result->n_segments - 1)->seek < before);
    mxw_session_close(session);
    mxw_model_close(model);
}

/* A short run while an allocation fails, and what tells whether that was noticed. */
typedef struct attempt {
    mxw_status status;
    int64_t made;     /* allocations */
    int64_t split;    /* runs of several lanes that failed, each lane's part of which was run again */
    mx_str text;
} attempt;

static attempt run_short(mxw_model *model, int64_t fail_after) {
    attempt a = {0};
    mxw_session_options o = lane_options(3);
    mxw_session *session = NULL;
    o.sample_len = 3;
    o.word_timestamps = 1;
    o.initial_prompt = "Names";
    o.vad_min_silence_ms = 500;
    o.clip_timestamps = "0,6,20,26,40,46";
    mx_mem_fail_after(fail_after);
    a.status = mxw_session_open(model, &o, &session);
    int64_t split = a.status >= 0 ? mx_slot_counts(session->slot).split_runs : 0;
    if (a.status >= 0)
        a.status = kit_run(session, samples, 46 * MXW_SAMPLE_RATE, 0);
    if (a.status >= 0 && !mxw_session_result(session))
        a.status = MXW_E_MEMORY;
    a.made = mx_mem_count();
    mx_mem_fail_after(-1);
    if (a.status >= 0) {
        a.split = mx_slot_counts(session->slot).split_runs - split;
        CHECK(write_all(session, &a.text) >= 0);
    }
    mxw_session_close(session);
    return a;
}

/* No failure is swallowed: a run that succeeds did not get as far as the allocation that fails, since threads allocate
 * in any order and some more than others; or that one was for a run of several lanes, which the batcher then does one
 * by one, on plans that are there. Its text is the same. The model keeps plans for sizes of runs that it has not seen
 * before: whether anything leaked is checked when it is closed. */
static void test_failing_memory(int64_t stride) {
    mxw_model *model = open_model(3, 1);
    attempt whole = run_short(model, -1);
    int64_t total = whole.made, failed = 0;
    CHECK(whole.status == MXW_END && whole.split == 0 && whole.text.n > 100);
    for (int64_t n = 0; n < total; n += stride) {
        attempt a = run_short(model, n);
        failed += a.status == MXW_E_MEMORY;
        if (!CHECK(a.status == MXW_E_MEMORY || (a.status == MXW_END && (a.made <= n || a.split > 0))))
            printf("    allocation %lld of %lld: %s: %s\n", (long long)n, (long long)total, mxw_status_name(a.status),
                   mxw_last_error());
        if (a.status == MXW_END)
            CHECK_STR(mx_str_get(&a.text), mx_str_get(&whole.text));
        mx_str_free(&a.text);
    }
    CHECK(failed > total / stride / 2);
    attempt again = run_short(model, -1);
    CHECK(again.status == MXW_END && strcmp(mx_str_get(&again.text), mx_str_get(&whole.text)) == 0);
    mx_str_free(&again.text);
    mx_str_free(&whole.text);
    mxw_model_close(model);
}

int main(int argc, char **argv) {
    int full = argc > 2 && !strcmp(argv[2], "full"), brief = argc > 2 && !strcmp(argv[2], "short");
    char folder[4096];
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    kit_on("parallel", argc > 1 ? argv[1] : "max cpu");
    samples = mx_alloc_array(N_SAMPLES, sizeof(*samples));
    kit_samples(3, 0, N_SAMPLES, samples);
    snprintf(path, sizeof(path), "%s/multilingual.pt", folder);
    gen_options o = {.dims = kit_dims(51865, 16, 1, 1), .seed = 21, .dtype = MXW_F16};
    if (CHECK(gen_pt(path, &o) == 0)) {
        make_expected();
        test_numbers_of_lanes(brief);
        test_merged();
        test_beside_others();
        test_independent();
        test_callbacks();
        test_resume(brief ? 3 : 1);
        test_stop();
        test_lane_fails();
        test_failing_memory(full ? 1 : brief ? 101 : 11);
    }
    for (int k = 0; k < N_KINDS; k++)
        mx_str_free(&want[k]);
    mx_free(samples);
    CHECK_EQ_INT(mx_mem_live(), 0);
    gen_remove(folder);
    return check_done();
}
