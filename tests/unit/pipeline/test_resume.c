/* test_resume.c - a session that resumes from the window records of another gives the same bytes, wherever the other
 * stopped: greedy, sampled after fallback, clipped, prompted, in a detected language. Records of another run and
 * damaged ones are rejected and change nothing. */
#include "kit/check.h"
#include "kit/pipeline_kit.h"

#include "base/mem.h"
#include "pipeline/session.h"

#define N_SAMPLES (size_t)(100.7 * MXW_SAMPLE_RATE)
#define MAX_RECORDS 64

static char folder[4096];
static mxw_model *english, *multilingual, *other;
static float *samples;   /* [N_SAMPLES] */

typedef struct tape {
    mx_str records[MAX_RECORDS];
    size_t n;
    int stop_after;   /* windows, or 0: never */
    size_t n_segments;
} tape;

static void on_window(void *user, const void *record, size_t n) {
    tape *t = user;
    if (CHECK(t->n < MAX_RECORDS))
        mx_str_add(&t->records[t->n++], record, n);
}

static void on_segment(void *user, const mxw_segment *segment) {
    tape *t = user;
    CHECK_EQ_INT(segment->id, t->n_segments);
    t->n_segments++;
}

static int should_abort(void *user) {
    const tape *t = user;
    return t->stop_after && t->n >= (size_t)t->stop_after;
}

static void tape_free(tape *t) {
    for (size_t i = 0; i < t->n; i++)
        mx_str_free(&t->records[i]);
}

static mxw_model *open_model(const char *leaf, int n_vocab, uint64_t seed) {
    char path[4200];
    mxw_model *model = NULL;
    mxw_dims dims = kit_dims(n_vocab, 16, 1, 1);
    snprintf(path, sizeof(path), "%s/%s", folder, leaf);
    if (gen_pt(path, &(gen_options){.dims = dims, .seed = seed, .dtype = MXW_F16}) != 0 ||
        kit_open(path, 2, &model) < 0)
        printf("    %s: %s\n", leaf, mxw_last_error());
    return model;
}

/* A session that was fed everything. */
static mxw_session *open_fed(mxw_model *model, const mxw_session_options *options, tape *t) {
    mxw_session_options o = *options;
    mxw_session *session = NULL;
    o.user = t;
    o.on_window = on_window;
    o.on_segment = on_segment;
    o.should_abort = should_abort;
    CHECK_EQ_INT(mxw_session_open(model, &o, &session), MXW_OK);
    CHECK_EQ_INT(mxw_session_feed(session, samples, N_SAMPLES / 3), MXW_OK);
    CHECK_EQ_INT(mxw_session_feed(session, samples + N_SAMPLES / 3, N_SAMPLES - N_SAMPLES / 3), MXW_OK);
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

/* What is not in any format. */
static void add_details(const mxw_result *result, mx_str *out) {
    for (size_t i = 0; i < result->n_segments; i++) {
        const mxw_segment *s = mxw_result_segment(result, i);
        for (size_t j = 0; s->details && j < s->n_tokens * (1 + s->n_alternatives); j++) {
            const mxw_token *t = j < s->n_tokens ? &mx_segment_details(s)[j]
                                                 : &mx_segment_alternatives(s)[j - s->n_tokens];
            mx_str_print(out, "%d %a %s\n", (int)t->id, t->logprob, t->text);
        }
    }
}

static void check_result(mxw_session *session, const mx_str *want, size_t n_windows) {
    mx_str json = {0};
    CHECK_EQ_INT(take_all(session), MXW_END);
    CHECK_EQ_INT(kit_write(session, "json", &json), MXW_OK);
    add_details(mxw_session_result(session), &json);
    CHECK_STR(mx_str_get(&json), mx_str_get(want));
    CHECK_EQ_INT(mxw_session_result(session)->n_windows, n_windows);
    mx_str_free(&json);
}

/* ---- the same wherever it stopped -------------------------------------------------------------------------------- */

/* One whole run, and its records. */
static void run_whole(mxw_model *model, const mxw_session_options *o, tape *t, mx_str *json) {
    mxw_session *session = open_fed(model, o, t);
    CHECK_EQ_INT(take_all(session), MXW_END);
    CHECK_EQ_INT(kit_write(session, "json", json), MXW_OK);
    add_details(mxw_session_result(session), json);
    CHECK_EQ_INT(mxw_session_result(session)->n_windows, t->n);
    CHECK_EQ_INT(mxw_session_result(session)->n_segments, t->n_segments);
    CHECK(t->n >= 3);
    mxw_session_close(session);
}

static void check_every_stop(mxw_model *model, const mxw_session_options *o) {
    tape whole = {0};
    mx_str json = {0};
    run_whole(model, o, &whole, &json);
    for (size_t k = 0; k <= whole.n; k++) {
        tape t = {0};
        mxw_session *session = open_fed(model, o, &t);
        for (size_t i = 0; i < k; i++)
            CHECK_EQ_INT(mxw_session_resume(session, whole.records[i].data, whole.records[i].n), MXW_OK);
        CHECK_EQ_INT(t.n, 0);   /* resumed windows give no new records */
        check_result(session, &json, whole.n);
        CHECK_EQ_INT(t.n, whole.n - k);
        CHECK_EQ_INT(t.n_segments, whole.n_segments);
        for (size_t i = 0; i < t.n; i++)
            CHECK(t.records[i].n == whole.records[k + i].n &&
                  !memcmp(t.records[i].data, whole.records[k + i].data, t.records[i].n));
        mxw_session_close(session);
        tape_free(&t);
    }
    mx_str_free(&json);
    tape_free(&whole);
}

/* Stopped after every window, each time with a new session, like a process that is killed repeatedly. */
static void test_stopped_again_and_again(void) {
    mxw_session_options o = kit_short_options(10);
    tape whole = {0}, t = {0};
    mx_str json = {0};
    run_whole(multilingual, &o, &whole, &json);
    for (t.stop_after = 1; t.n < whole.n; t.stop_after++) {
        size_t known = t.n;
        t.n_segments = 0;
        mxw_session *session = open_fed(multilingual, &o, &t);   /* feed does not poll should_abort */
        for (size_t i = 0; i < known; i++)
            CHECK_EQ_INT(mxw_session_resume(session, t.records[i].data, t.records[i].n), MXW_OK);
        mxw_status status = take_all(session);
        CHECK(status == MXW_E_ABORTED || status == MXW_END);
        if (!CHECK_EQ_INT(t.n, known + 1))
            break;
        mxw_session_close(session);
    }
    t.stop_after = 0;
    t.n_segments = 0;
    mxw_session *session = open_fed(multilingual, &o, &t);
    for (size_t i = 0; i < whole.n; i++)
        CHECK_EQ_INT(mxw_session_resume(session, t.records[i].data, t.records[i].n), MXW_OK);
    check_result(session, &json, whole.n);
    mxw_session_close(session);
    mx_str_free(&json);
    tape_free(&t);
    tape_free(&whole);
}

static void test_every_stop(void) {
    mxw_session_options o = kit_short_options(10);
    o.word_timestamps = 1;
    o.token_details = 3;
    check_every_stop(multilingual, &o);
    o.hallucination_silence_threshold = 1;
    o.clip_timestamps = "3,20,41,90.5,95";
    o.initial_prompt = "Names and places";
    o.carry_initial_prompt = 1;
    check_every_stop(english, &o);
    o = kit_short_options(7);
    o.temperature_increment = 0.3;   /* the model's text is nonsense: every window is decoded at every temperature */
    o.best_of = 2;
    o.seed = 5;
    check_every_stop(english, &o);
    o.condition_on_previous_text = 0;
    o.beam_size = 3;
    o.start_s = 1.5;
    o.speaker = "left";
    o.channel = 1;
    check_every_stop(english, &o);
}

/* ---- refused ----------------------------------------------------------------------------------------------------- */

static void check_refused(mxw_session *session, const mx_str *record, mxw_status status, const char *line) {
    CHECK_EQ_INT(mxw_session_resume(session, record->data, record->n), status);
    CHECK_STR(mxw_last_error(), line);
}

static void test_other_runs(void) {
    mxw_session_options o = kit_short_options(10), changed = o;
    tape whole = {0}, t = {0};
    mx_str json = {0};
    run_whole(english, &o, &whole, &json);
    mxw_session *session = open_fed(other, &o, &t);
    check_refused(session, &whole.records[0], MXW_E_ARGUMENT, "record: made with another model");
    mxw_session_close(session);
    changed.logprob_threshold = -0.5;
    session = open_fed(english, &changed, &t);
    check_refused(session, &whole.records[0], MXW_E_ARGUMENT,
                  "record: made with other options, or by another version or engine");
    mxw_session_close(session);
    changed = o;
    changed.repetition_penalty = 1.2;
    session = open_fed(english, &changed, &t);
    check_refused(session, &whole.records[0], MXW_E_ARGUMENT,
                  "record: made with other options, or by another version or engine");
    mxw_session_close(session);
    samples[N_SAMPLES / 2] += 1.0f / 32768;
    session = open_fed(english, &o, &t);
    check_refused(session, &whole.records[0], MXW_E_ARGUMENT, "record: made from another recording");
    mxw_session_close(session);
    samples[N_SAMPLES / 2] -= 1.0f / 32768;
    session = open_fed(english, &o, &t);
    check_refused(session, &whole.records[1], MXW_E_STATE, "record: window 2, but window 1 is next");
    CHECK_EQ_INT(mxw_session_resume(session, whole.records[0].data, whole.records[0].n), MXW_OK);
    check_refused(session, &whole.records[0], MXW_E_STATE, "record: window 1, but window 2 is next");
    check_result(session, &json, whole.n);
    mxw_session_close(session);
    mx_str_free(&json);
    tape_free(&t);
    tape_free(&whole);
}

static void test_out_of_order(void) {
    mxw_session_options o = kit_short_options(10);
    mxw_session *session = NULL;
    mx_str nothing = {.data = "", .n = 0};
    tape t = {0};
    CHECK_EQ_INT(mxw_session_open(english, &o, &session), MXW_OK);
    check_refused(session, &nothing, MXW_E_STATE, "resume: the session was opened without on_window");
    mxw_session_close(session);
    o.on_window = on_window;
    o.user = &t;
    CHECK_EQ_INT(mxw_session_open(english, &o, &session), MXW_OK);
    check_refused(session, &nothing, MXW_E_STATE, "resume before finish");
    mxw_session_close(session);
    o.mel_reference = MXW_MEL_RUNNING;
    CHECK_EQ_INT(mxw_session_open(english, &o, &session), MXW_E_ARGUMENT);
    CHECK_STR(mxw_last_error(), "on_window: needs mel_reference file");
}

/* Truncated anywhere, or with a byte changed: rejected or accepted as it is; never a crash. */
static void test_broken(void) {
    mxw_session_options o = kit_short_options(10);
    tape whole = {0}, t = {0};
    mx_str json = {0};
    run_whole(english, &o, &whole, &json);
    const mx_str *record = &whole.records[0];
    mxw_session *session = open_fed(english, &o, &t);
    for (size_t n = 0; n < record->n; n++) {
        char *copy = mx_alloc(n);   /* of exactly that size: a sanitizer sees a read beyond */
        memcpy(copy, record->data, n);
        CHECK_EQ_INT(mxw_session_resume(session, copy, n), MXW_E_FORMAT);
        mx_free(copy);
    }
    mx_mem_fail_after(0);
    CHECK_EQ_INT(mxw_session_resume(session, record->data, record->n), MXW_E_MEMORY);
    mx_mem_fail_after(-1);
    check_result(session, &json, whole.n);
    mxw_session_close(session);
    uint64_t random = 1;
    t.n_segments = 0;
    session = open_fed(english, &o, &t);
    for (int i = 0, n_taken = 0; i < 3000; i++) {
        char *copy = mx_alloc(record->n);
        memcpy(copy, record->data, record->n);
        for (int j = 0; j < 1 + i % 3; j++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            copy[32 + (random >> 33) % (record->n - 32)] = (char)(random >> 20);
        }
        if (mxw_session_resume(session, copy, record->n) == MXW_OK && n_taken++ < 10) {
            mxw_session_close(session);   /* the next ones are of its first window, too */
            t.n_segments = 0;
            session = open_fed(english, &o, &t);
        }
        mx_free(copy);
    }
    mxw_session_close(session);
    mx_str_free(&json);
    tape_free(&t);
    tape_free(&whole);
}

int main(void) {
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    kit_on("record", "max cpu");
    samples = mx_alloc_array(N_SAMPLES, sizeof(*samples));
    kit_samples(3, 0, N_SAMPLES, samples);
    english = open_model("english.pt", 51864, 11);
    multilingual = open_model("multilingual.pt", 51865, 12);
    other = open_model("other.pt", 51864, 13);
    if (CHECK(english && multilingual && other)) {
        test_every_stop();
        test_stopped_again_and_again();
        test_other_runs();
        test_out_of_order();
        test_broken();
    }
    mxw_model_close(english);
    mxw_model_close(multilingual);
    mxw_model_close(other);
    mx_free(samples);
    CHECK_EQ_INT(mx_mem_live(), 0);
    gen_remove(folder);
    return check_done();
}
