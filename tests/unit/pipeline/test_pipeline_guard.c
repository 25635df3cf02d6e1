/* test_pipeline_guard.c - sessions with a guard on a small generated model and a detector of the test's own, which
 * hears speech in the first half of the recording, and hardly any later: marked text is that without a guard, dropped
 * text is marked text without the suspected words, in every kind of session; resumed, live and in lanes it is the same;
 * every failing allocation ends the session with a line and no leak.
 *
 * usage: test_pipeline_guard [WHERE] [full | short]    full: every allocation made to fail; else one in eleven; short:
 * fewer kinds of sessions and numbers of lanes, for sanitizers */
#include "kit/check.h"
#include "kit/fake_detector.h"
#include "kit/pipeline_kit.h"

#include <math.h>

#include "base/mem.h"
#include "pipeline/session.h"

#define SECONDS 80
#define N_SAMPLES (size_t)(SECONDS * MXW_SAMPLE_RATE + 777)
#define N_CHUNKS (N_SAMPLES / MX_SPEECH_CHUNK + 1)
#define SPEECH_ENDS_S 42.0

static char path[4200];
static float *samples;   /* [N_SAMPLES] */
static float probabilities[N_CHUNKS];
static fake_detector_options detector = {.probabilities = probabilities, .n = N_CHUNKS};

static mxw_model *open_model(int batch, int threads) {
    mxw_model *model = NULL;
    mxw_model_options o = kit_model_options(path, threads);
    o.batch = batch;
    if (!CHECK_EQ_INT(mxw_model_open(&o, &model), MXW_OK))
        exit(1);
    model->open_detector = fake_detector_open;
    model->detector_context = &detector;
    return model;
}

/* Kinds of sessions; the text before is no prompt, so that what is dropped changes nothing else. */
static mxw_session_options kind_of(int kind, mxw_guard guard) {
    mxw_session_options o = kit_short_options(8);
    o.no_speech_threshold = MXW_NONE;
    o.condition_on_previous_text = 0;
    o.language = "de";
    o.guard = guard;
    o.word_timestamps = kind % 2;
    o.token_details = kind == 2 || kind == 3 ? 2 : 0;
    o.beam_size = kind == 4 ? 3 : 0;
    o.without_timestamps = kind == 5;
    o.mel_reference = kind == 1 ? MXW_MEL_RUNNING : MXW_MEL_FILE;
    o.vad = kind == 6;
    o.start_s = kind == 3 ? 2.5 : 0;
    return o;
}

#define N_KINDS 7

/* What the guard said about the words of a session, in order. */
typedef struct judged {
    mx_str kept, all;    /* their text */
    size_t n, n_suspected, n_suspected_in_speech, n_in_speech;
} judged;

static void watch(void *user, const mxw_evidence *e) {
    judged *j = user;
    int suspected = e->suspicion >= MX_GUARD_SUSPECTED, in_speech = e->end < SPEECH_ENDS_S;
    CHECK(e->n_values == MX_N_EVIDENCE && (e->reasons != 0) == suspected);
    mx_str_text(&j->all, e->word);
    if (!suspected)
        mx_str_text(&j->kept, e->word);
    j->n++;
    j->n_suspected += (size_t)suspected;
    j->n_in_speech += (size_t)in_speech;
    j->n_suspected_in_speech += (size_t)(suspected && in_speech);
}

static void free_judged(judged *j) {
    mx_str_free(&j->kept);
    mx_str_free(&j->all);
    *j = (judged){.n = 0};
}

static mxw_session *run(mxw_model *model, const mxw_session_options *o, size_t part, judged *j) {
    mxw_session *session = NULL;
    if (!CHECK_EQ_INT(mxw_session_open(model, o, &session), MXW_OK))
        exit(1);
    if (j && o->guard)
        CHECK_EQ_INT(mxw_lab_session_watch_guard(session, watch, j), MXW_OK);
    CHECK_EQ_INT(kit_run(session, samples, N_SAMPLES, part), MXW_END);
    return session;
}

/* The text of all segments. */
static void text_of(const mxw_result *result, mx_str *out) {
    for (size_t i = 0; i < result->n_segments; i++)
        mx_str_text(out, mxw_result_segment(result, i)->text);
}

static void check_same_but_marks(const mxw_result *off, const mxw_result *marked) {
    CHECK_STR(marked->text, off->text);
    if (!CHECK_EQ_INT(marked->n_segments, off->n_segments))
        return;
    for (size_t i = 0; i < off->n_segments; i++) {
        const mxw_segment *a = mxw_result_segment(off, i), *b = mxw_result_segment(marked, i);
        CHECK(a->seek == b->seek && a->start == b->start && a->end == b->end && a->n_tokens == b->n_tokens);
        CHECK(a->suspicion == 0 && a->reasons == 0 && a->n_words == b->n_words && !a->words == !b->words);
        for (size_t w = 0; w < a->n_words; w++) {
            const mxw_word *x = mxw_segment_word(a, w), *y = mxw_segment_word(b, w);
            CHECK(x->start == y->start && x->end == y->end && x->probability == y->probability);
            CHECK(x->suspicion == 0 && (y->reasons != 0) == (y->suspicion >= MX_GUARD_SUSPECTED));
        }
    }
}

/* Each segment of `dropped` is one of `marked` without its suspected words; no other is missing. */
static void check_dropped(const mxw_result *marked, const mxw_result *dropped, int words) {
    size_t k = 0;
    for (size_t i = 0; i < marked->n_segments; i++) {
        const mxw_segment *a = mxw_result_segment(marked, i), *b = mxw_result_segment(dropped, k);
        mx_str kept = {0};
        size_t n_kept = 0;
        for (size_t w = 0; w < a->n_words; w++) {
            const mxw_word *x = mxw_segment_word(a, w), *y = b ? mxw_segment_word(b, n_kept) : NULL;
            if (x->reasons)
                continue;
            mx_str_text(&kept, x->word);
            CHECK(y && !strcmp(x->word, y->word) && x->start == y->start && x->end == y->end);
            n_kept++;
        }
        if (words && a->n_words > 0 && n_kept == 0) {
            mx_str_free(&kept);
            continue;
        }
        int same = b && a->seek == b->seek && a->start == b->start && a->end == b->end;
        if (words && CHECK(same) && a->n_words > 0) {
            CHECK_STR(b->text, mx_str_get(&kept));
            CHECK_EQ_INT(b->n_words, n_kept);
        }
        k += (size_t)same;
        mx_str_free(&kept);
    }
    CHECK_EQ_INT(k, dropped->n_segments);
    for (size_t i = 0; i < dropped->n_segments; i++)   /* details are those of the tokens that are left */
        for (size_t t = 0; t < mxw_result_segment(dropped, i)->n_tokens; t++) {
            const mxw_token *token = mxw_segment_token(mxw_result_segment(dropped, i), t);
            CHECK(!token || token->id == mxw_result_segment(dropped, i)->tokens[t]);
        }
}

static void test_kinds(mxw_model *model, int step) {
    size_t n_in_speech = 0, n_left_in_speech = 0, n_elsewhere = 0, n_dropped_elsewhere = 0;
    for (int kind = 0; kind < N_KINDS; kind += step) {
        judged mark = {.n = 0}, drop = {.n = 0};
        mxw_session_options o[3] = {kind_of(kind, MXW_GUARD_OFF), kind_of(kind, MXW_GUARD_MARK),
                                    kind_of(kind, MXW_GUARD_DROP)};
        mxw_session *off = run(model, &o[0], 0, NULL), *marked = run(model, &o[1], 0, &mark);
        mxw_session *dropped = run(model, &o[2], 70001, &drop);
        const mxw_result *a = mxw_session_result(marked), *b = mxw_session_result(dropped);
        mx_str text = {0};
        check_same_but_marks(mxw_session_result(off), a);
        check_dropped(a, b, o[1].word_timestamps);
        text_of(b, &text);
        CHECK_STR(mx_str_get(&text), b->text);
        CHECK_STR(mx_str_get(&drop.kept), b->text);
        CHECK_STR(mx_str_get(&drop.kept), mx_str_get(&mark.kept));
        CHECK_STR(mx_str_get(&mark.all), a->text);
        CHECK(a->n_words_suspected == b->n_words_suspected && (size_t)a->n_words_suspected == mark.n_suspected);
        n_in_speech += mark.n_in_speech;
        n_left_in_speech += mark.n_in_speech - mark.n_suspected_in_speech;
        n_elsewhere += mark.n - mark.n_in_speech;
        n_dropped_elsewhere += mark.n_suspected - mark.n_suspected_in_speech;
        mx_str_free(&text);
        free_judged(&mark);
        free_judged(&drop);
        mxw_session_close(off);
        mxw_session_close(marked);
        mxw_session_close(dropped);
    }
    printf("    %zu of %zu words left in speech, %zu of %zu dropped elsewhere\n", n_left_in_speech, n_in_speech,
           n_dropped_elsewhere, n_elsewhere);
    CHECK(n_left_in_speech > 0 && n_dropped_elsewhere > 0);
}

/* What is dropped is not the next window's prompt: the text so far, which is the prompt, is that of the result. */
static void test_prompt(mxw_model *model) {
    mxw_session_options o = kind_of(1, MXW_GUARD_DROP);
    o.condition_on_previous_text = 1;
    o.initial_prompt = "Ada";
    mxw_session *session = run(model, &o, 0, NULL);
    const mxw_result *result = mxw_session_result(session);
    mx_str text = {0};
    text_of(result, &text);
    CHECK(result->n_words_suspected > 0);
    CHECK_STR(result->text, mx_str_get(&text));
    mx_str_free(&text);
    mxw_session_close(session);
}

/* ---- the same in other ways -------------------------------------------------------------------------------------- */

static void write_all(mxw_session *session, mx_str *out) {
    const mxw_result *result = mxw_session_result(session);
    CHECK_EQ_INT(kit_write(session, "json", out), MXW_OK);
    mx_str_print(out, "%lld suspected", (long long)result->n_words_suspected);
    for (size_t i = 0; i < result->n_segments; i++)
        mx_str_print(out, " %a", mxw_result_segment(result, i)->suspicion);
}

static void test_lanes(int batches) {
    mx_str want = {0};
    for (int batch = 1; batch <= batches; batch++) {
        mxw_model *model = open_model(batch, 2);
        mxw_session_options o = kind_of(6, batch % 2 ? MXW_GUARD_MARK : MXW_GUARD_DROP);
        mx_str got = {0};
        o.word_timestamps = 1;
        o.guard = MXW_GUARD_DROP;
        o.parallel = 1 << batch;
        mxw_session *session = run(model, &o, 0, NULL);
        CHECK_EQ_INT(mxw_lab_session_watch_guard(session, watch, NULL), MXW_E_STATE);
        write_all(session, batch == 1 ? &want : &got);
        if (batch > 1)
            CHECK_STR(mx_str_get(&got), mx_str_get(&want));
        mx_str_free(&got);
        mxw_session_close(session);
        mxw_model_close(model);
    }
    mx_str_free(&want);
}

typedef struct records {
    mx_str items[64];
    size_t n;
} records;

static void on_window(void *user, const void *record, size_t n) {
    records *r = user;
    if (CHECK(r->n < 64))
        mx_str_add(&r->items[r->n++], record, n);
}

static void test_resume(mxw_model *model, size_t step) {
    for (int guard = MXW_GUARD_MARK; guard <= MXW_GUARD_DROP; guard++) {
        mxw_session_options o = kind_of(3, (mxw_guard)guard);
        records whole = {.n = 0}, rest = {.n = 0};
        mx_str want = {0};
        o.on_window = on_window;
        o.user = &whole;
        mxw_session *session = run(model, &o, 0, NULL);
        write_all(session, &want);
        mxw_session_close(session);
        for (size_t k = 0; k <= whole.n; k += step) {
            const mxw_segment *segment;
            mx_str got = {0};
            o.user = &rest;
            CHECK_EQ_INT(mxw_session_open(model, &o, &session), MXW_OK);
            CHECK_EQ_INT(mxw_session_feed(session, samples, N_SAMPLES), MXW_OK);
            CHECK_EQ_INT(mxw_session_finish(session), MXW_OK);
            for (size_t i = 0; i < k; i++)
                CHECK_EQ_INT(mxw_session_resume(session, whole.items[i].data, whole.items[i].n), MXW_OK);
            while (mxw_session_next(session, &segment) == MXW_OK)
                ;
            write_all(session, &got);
            CHECK_STR(mx_str_get(&got), mx_str_get(&want));
            CHECK_EQ_INT(rest.n, whole.n - k);
            mxw_session_close(session);
            mx_str_free(&got);
            while (rest.n > 0)
                mx_str_free(&rest.items[--rest.n]);
        }
        while (whole.n > 0)
            mx_str_free(&whole.items[--whole.n]);
        mx_str_free(&want);
    }
}

static void test_refused(mxw_model *model) {
    mxw_session_options o = kind_of(0, MXW_GUARD_OFF);
    mxw_session *session = NULL;
    CHECK_EQ_INT(mxw_session_open(model, &o, &session), MXW_OK);
    CHECK_EQ_INT(mxw_lab_session_watch_guard(session, watch, NULL), MXW_E_STATE);
    mxw_session_close(session);
    o.guard = (mxw_guard)7;
    CHECK_EQ_INT(mxw_session_open(model, &o, &session), MXW_E_ARGUMENT);
    CHECK(strstr(mxw_last_error(), "guard") != NULL);
    detector.fail_after = 40000;   /* a detector that fails fails the session */
    o.guard = MXW_GUARD_DROP;
    CHECK_EQ_INT(mxw_session_open(model, &o, &session), MXW_OK);
    CHECK_EQ_INT(mxw_session_feed(session, samples, N_SAMPLES), MXW_E_INTERNAL);
    mxw_session_close(session);
    detector.fail_after = 0;
}

static mxw_status run_short(mxw_model *model) {
    mxw_session_options o = kind_of(3, MXW_GUARD_DROP);
    mxw_session *session = NULL;
    o.sample_len = 4;
    o.clip_timestamps = "0,6,60,66";
    mxw_status status = mxw_session_open(model, &o, &session);
    if (status >= 0)
        status = kit_run(session, samples, 66 * MXW_SAMPLE_RATE, 0);
    if (status >= 0 && !mxw_session_result(session))
        status = MXW_E_MEMORY;
    mxw_session_close(session);
    return status;
}

/* A GPU that has no memory to capture a graph's calls runs them one by one: all is well then. */
static void test_failing_memory(int64_t stride, int captures) {
    mxw_model *model = open_model(1, 1);
    mx_mem_fail_after(-1);
    CHECK_EQ_INT(run_short(model), MXW_END);
    CHECK_EQ_INT(run_short(model), MXW_END);
    mx_mem_fail_after(-1);
    CHECK_EQ_INT(run_short(model), MXW_END);
    int64_t total = mx_mem_count();
    for (int64_t n = 0; n < total; n += stride) {
        mx_mem_fail_after(n);
        mxw_status status = run_short(model);
        mx_mem_fail_after(-1);
        if (!CHECK(status == MXW_E_MEMORY || (captures && status == MXW_END)))
            printf("    allocation %lld of %lld\n", (long long)n, (long long)total);
    }
    CHECK_EQ_INT(run_short(model), MXW_END);
    mxw_model_close(model);
}

int main(int argc, char **argv) {
    int full = argc > 2 && !strcmp(argv[2], "full"), brief = argc > 2 && !strcmp(argv[2], "short");
    char folder[4096];
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    kit_on("pipeline-guard", argc > 1 ? argv[1] : "max cpu");
    samples = mx_alloc_array(N_SAMPLES, sizeof(*samples));
    kit_samples(5, 0, N_SAMPLES, samples);
    for (size_t i = 0; i < N_CHUNKS; i++)
        probabilities[i] = (double)i * MX_SPEECH_CHUNK / MXW_SAMPLE_RATE < SPEECH_ENDS_S ? 1.0f : i % 40 ? 0.0f : 0.6f;
    snprintf(path, sizeof(path), "%s/multilingual.pt", folder);
    gen_options o = {.dims = kit_dims(51865, 16, 1, 1), .seed = 21, .dtype = MXW_F16};
    if (CHECK(gen_pt(path, &o) == 0)) {
        mxw_model *model = open_model(1, 2);
        test_kinds(model, brief ? 3 : 1);
        test_prompt(model);
        test_resume(model, brief ? 3 : 1);
        test_refused(model);
        mxw_model_close(model);
        test_lanes(brief ? 2 : 4);
        test_failing_memory(full ? 1 : brief ? 151 : 11, argc > 1 && strstr(argv[1], "cuda") != NULL);
    }
    mx_free(samples);
    CHECK_EQ_INT(mx_mem_live(), 0);
    gen_remove(folder);
    return check_done();
}
