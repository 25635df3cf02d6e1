/* test_languages.c - sessions that choose among languages, on a small generated model that is made to hear many, and a
 * detector of the test's own: spans cover the recording and change at most where the speech allows, segments, regions
 * and clips agree with them, a switch drops the text before it; one language changes nothing but the fields; parallel,
 * resumed and repeated runs give the same bytes; bad options are refused by name.
 *
 * usage: test_languages [WHERE] [full | short]    full: every allocation made to fail, else one in seven; short: fewer
 * kinds of sessions, for sanitizers */
#include "kit/check.h"
#include "kit/fake_detector.h"
#include "kit/pipeline_kit.h"

#include <math.h>

#include "base/mem.h"
#include "pipeline/session.h"
#include "tensor/tensor.h"

#define SECONDS 45
#define N_SAMPLES (size_t)(SECONDS * MXW_SAMPLE_RATE + 1234)

static char folder[4096];
static mxw_model *english, *plain, *listener;
static float *samples;   /* [N_SAMPLES] */

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* Random weights say the same of all audio; with a loud cross-attention and sharp logits they say something else of
 * every window. */
static mxw_status sharpen(void *context, const char *name, mx_tensor *view) {
    float scale = !strcmp(name, "decoder.ln.weight") ? 12
                  : strstr(name, "cross_attn.out.weight") || strstr(name, "cross_attn.query.weight") ? 40 : 1;
    if (scale == 1)
        return MXW_OK;
    int64_t n = mx_tensor_count(view);
    float *dense = mx_arena_alloc(context, (size_t)n * sizeof(*dense));
    if (!dense)
        return MXW_E_MEMORY;
    mxw_status status = mx_tensor_to_f32(view, dense);
    for (int64_t i = 0; i < n; i++)
        dense[i] *= scale;
    *view = mx_tensor_of(MXW_F32, view->rank, view->dims, dense);
    return status;
}

static mx_arena sharpened;

static mxw_model *open_model(const char *leaf, int n_vocab, int sharp) {
    char path[4200];
    mxw_model *model = NULL;
    mxw_dims dims = kit_dims(n_vocab, 32, 8, 1);
    snprintf(path, sizeof(path), "%s/%s", folder, leaf);
    if (gen_pt(path, &(gen_options){.dims = dims, .seed = 7, .dtype = MXW_F16}) != 0)
        return NULL;
    mxw_model_options options = kit_model_options(path, 2);
    mxw_lab_options lab = {.encode_engine = -1};
    mx_fault_hooks hooks = {.name = "sharp", .context = &sharpened, .weight = sharpen};
    options.batch = 3;
    mxw_status status = sharp ? mx_recognizer_open_with_faults(&options, &lab, &hooks, &model)
                              : mxw_model_open(&options, &model);
    if (!CHECK_EQ_INT(status, MXW_OK))
        printf("    %s: %s\n", leaf, mxw_last_error());
    else
        model->open_detector = fake_detector_open;
    return model;
}

static mxw_session_options options_of(const char *languages, int vad) {
    mxw_session_options o = kit_short_options(10);
    o.vad = vad;
    o.languages = languages;
    o.no_speech_threshold = MXW_NONE;   /* random weights: every window may be called silent */
    o.vad_min_silence_ms = 1000;
    return o;
}

static mxw_session *open_fed(mxw_model *model, const mxw_session_options *o) {
    mxw_session *session = NULL;
    if (!CHECK_EQ_INT(mxw_session_open(model, o, &session), MXW_OK))
        printf("    %s\n", mxw_last_error());
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

/* ---- what was decided -------------------------------------------------------------------------------------------- */

static const mx_language_span *span_at(const mx_languages *l, int64_t frame) {
    for (size_t i = 0; i < l->n_spans; i++)
        if (l->spans[i].start <= frame && frame < l->spans[i].end)
            return &l->spans[i];
    return NULL;
}

static void check_spans(const mxw_session *session) {
    const mx_languages *l = &session->languages;
    CHECK(l->known && l->n_spans > 0);
    for (size_t i = 0; i < l->n_spans; i++) {
        const mx_language_span *s = &l->spans[i];
        int listed = 0;
        for (int j = 0; j < l->n; j++)
            listed |= l->codes[j] == s->language;
        CHECK(listed && s->probability >= 0 && s->probability <= 1 && s->end > s->start);
        CHECK(i == 0 ? s->start == 0 : s->start == s[-1].end && s->language != s[-1].language);
    }
    CHECK(l->spans[l->n_spans - 1].end == INT64_MAX);
}

/* Clips do not cross the end of a span; segments and regions have the language of the span that they are in. */
static void check_result(mxw_session *session, const mxw_session_options *o) {
    const mxw_result *result = mxw_session_result(session);
    const mx_languages *l = &session->languages;
    double speech = 0, want = 0;
    for (int i = 0; i < session->at.n_clips; i++) {
        const mx_clip *clip = &session->at.clips[i];
        const mx_language_span *span = span_at(l, clip->start);
        CHECK(span && clip->end <= span->end && clip->language == span->language);
    }
    for (size_t i = 0; i < result->n_segments; i++) {
        const mxw_segment *s = mxw_result_segment(result, i);
        const mx_language_span *span = span_at(l, s->seek);
        CHECK(span && s->language == span->language && s->language_probability == span->probability);
    }
    for (size_t i = 0; i < result->n_regions; i++) {
        const mxw_region *r = mxw_result_region(result, i);
        const mx_language_span *span = span_at(l, (int64_t)((r->start + r->end - 2 * o->start_s) * 50));
        CHECK(span && r->language == span->language && r->probability == span->probability && r->start < r->end);
        CHECK(i == 0 || r->start >= r[-1].end - 1e-9);
        speech += r->end - r->start;
    }
    for (size_t i = 0; i < mx_speech_n_regions(session->speech); i++) {
        mx_span span = mx_speech_region_samples(session->speech, i);
        want += (double)(span.end - span.start) / MXW_SAMPLE_RATE;
    }
    CHECK(fabs(speech - want) < 1e-3 * (double)(result->n_regions + 1));
    CHECK_STR(result->language, l->most);
    CHECK(result->language_probability >= 0 && result->language_probability <= 1);
}

static void test_decided(void) {
    static const char *const lists[] = {"en,de,uk", "any", "fr,es"};
    size_t most = 0;
    for (int i = 0; i < 6; i++) {   /* every list with and without vad */
        mxw_session_options o = options_of(lists[i % 3], i % 2);
        o.start_s = i == 4 ? 7.25 : 0;
        o.clip_timestamps = i == 3 ? "10,30,45" : "0";
        o.task = i == 5 ? MXW_TRANSLATE : MXW_TRANSCRIBE;
        mxw_session *session = open_fed(listener, &o);
        CHECK_EQ_INT(take_all(session), MXW_END);
        CHECK(mxw_session_result(session)->n_segments > 0);
        check_spans(session);
        check_result(session, &o);
        most = MX_MAX(most, session->languages.n_spans);
        mxw_session_close(session);
    }
    if (!CHECK(most >= 3))   /* else this tests little */
        printf("    at most %zu spans\n", most);
}

/* Languages without text: the same spans, and regions in the result. */
static void test_detected_only(void) {
    mxw_session_options o = options_of("any", 1);
    mxw_session *only = open_fed(listener, &o), *whole = open_fed(listener, &o), *early = NULL;
    CHECK_EQ_INT(mxw_session_detect_languages(only), MXW_OK);
    CHECK_EQ_INT(take_all(whole), MXW_END);
    const mxw_result *a = mxw_session_result(only), *b = mxw_session_result(whole);
    CHECK(a->n_segments == 0 && a->n_windows == 0 && b->n_segments > 0);
    CHECK_STR(a->text, "");
    CHECK_STR(a->language, b->language);
    CHECK(a->language_probability == b->language_probability);
    CHECK_EQ_INT(a->n_regions, b->n_regions);
    for (size_t i = 0; i < MX_MIN(a->n_regions, b->n_regions); i++) {
        const mxw_region *x = mxw_result_region(a, i), *y = mxw_result_region(b, i);
        CHECK(x->start == y->start && x->end == y->end && x->language == y->language &&
              x->probability == y->probability);
    }
    CHECK_EQ_INT(take_all(only), MXW_END);   /* text may follow */
    CHECK_EQ_INT(mxw_session_result(only)->n_segments, mxw_session_result(whole)->n_segments);
    CHECK_EQ_INT(mxw_session_open(listener, &o, &early), MXW_OK);
    CHECK_EQ_INT(mxw_session_detect_languages(early), MXW_E_STATE);
    mxw_session_close(early);
    o.languages = NULL;
    early = open_fed(listener, &o);
    CHECK_EQ_INT(mxw_session_detect_languages(early), MXW_E_STATE);
    mxw_session_close(early);
    mxw_session_close(only);
    mxw_session_close(whole);
}

/* ---- what does not change ---------------------------------------------------------------------------------------- */

/* Text, segments and their tokens; without the fields of languages. */
static void write_plain(mxw_session *session, mx_str *out) {
    const mxw_result *result = mxw_session_result(session);
    mx_str_print(out, "%s %s %lld %lld %a\n", result->text, result->language, (long long)result->n_windows,
                 (long long)result->n_temperature_fallbacks, result->skipped_s);
    for (size_t i = 0; i < result->n_segments; i++) {
        const mxw_segment *s = mxw_result_segment(result, i);
        mx_str_print(out, "%lld %a %a %s %a %a %s\n", (long long)s->seek, s->start, s->end, s->text, s->avg_logprob,
                     s->no_speech_prob, s->language);
        for (size_t j = 0; j < s->n_tokens; j++)
            mx_str_print(out, "%d ", (int)s->tokens[j]);
        for (size_t j = 0; j < s->n_words; j++)
            mx_str_print(out, "%a %a %s ", mxw_segment_word(s, j)->start, mxw_segment_word(s, j)->end,
                         mxw_segment_word(s, j)->word);
    }
}

static void run_plain(mxw_model *model, const mxw_session_options *o, const mx_language_span *spans, size_t n,
                      mx_str *out) {
    mxw_session *session = open_fed(model, o);
    if (n)
        CHECK_EQ_INT(mx_session_take_languages(session, spans, n), MXW_OK);
    CHECK_EQ_INT(take_all(session), MXW_END);
    write_plain(session, out);
    mxw_session_close(session);
}

/* A list of one, a recording that is all in one, and the language given: the same but for the fields. */
static void test_one_language(int first) {
    const mx_language_span all = {0, INT64_MAX, mx_language_find("de"), 0.5};
    for (int i = first; i < 8; i++) {
        mx_str given = {0}, one = {0}, several = {0};
        mxw_session_options o = options_of(NULL, i % 2);
        o.word_timestamps = i / 2 == 1;
        o.initial_prompt = i / 2 == 2 ? "Hallo Welt" : NULL;
        o.parallel = i == 7 ? 2 : 0;
        o.clip_timestamps = i == 6 ? "10,40,55" : "0";
        o.language = "de";
        run_plain(plain, &o, NULL, 0, &given);
        o.language = NULL;
        o.languages = "german";
        run_plain(plain, &o, NULL, 0, &one);
        o.languages = "en,de,fr";
        run_plain(plain, &o, &all, 1, &several);
        CHECK_STR(mx_str_get(&one), mx_str_get(&given));
        CHECK_STR(mx_str_get(&several), mx_str_get(&given));
        CHECK(given.n > 200);
        mx_str_free(&given);
        mx_str_free(&one);
        mx_str_free(&several);
    }
}

/* A switch drops the text before it, and nothing else does. */
static void test_context(void) {
    const char *de = mx_language_find("de"), *en = mx_language_find("en");
    const mx_language_span spans[] = {{0, 2500, de, 0.9}, {2500, 4000, en, 0.8}, {4000, INT64_MAX, de, 0.7}};
    for (int vad = 0; vad < 2; vad++) {
        mxw_session_options o = options_of("de,en", vad);
        mxw_session *session = open_fed(plain, &o);
        const mxw_segment *segment;
        const char *before = NULL;
        int n_switches = 0;
        CHECK_EQ_INT(mx_session_take_languages(session, spans, 3), MXW_OK);
        CHECK_STR(mxw_session_result(session)->language, "de");
        for (size_t n_tokens = 0; mxw_session_next(session, &segment) == MXW_OK; n_tokens = session->at.tokens.n) {
            if (before && before != segment->language) {
                CHECK_EQ_INT(session->at.prompt_reset_since, n_tokens);
                n_switches++;
            }
            before = segment->language;
            CHECK_EQ_INT(session->at.prompt_reset_since > 0, n_switches > 0);
            while (session->segments.n_given < session->segments.n)   /* the rest of the window */
                mxw_session_next(session, &segment);
        }
        CHECK_EQ_INT(n_switches, 2);
        check_spans(session);
        check_result(session, &o);
        mxw_session_close(session);
    }
}

/* Without speech: with vad nothing is heard; without it the whole recording is in one language. */
static void test_silence(void) {
    static const float zeros[40 * MXW_SAMPLE_RATE];
    for (int vad = 0; vad < 2; vad++) {
        mxw_session_options o = options_of("de,en,fr", vad);
        mxw_session *session = NULL;
        CHECK_EQ_INT(mxw_session_open(listener, &o, &session), MXW_OK);
        int64_t before = mx_recognizer_counters(listener, MXW_STAGE_ENCODE).items;
        CHECK_EQ_INT(kit_run(session, zeros, MX_COUNT(zeros), 0), MXW_END);
        const mxw_result *result = mxw_session_result(session);
        int64_t encoded = mx_recognizer_counters(listener, MXW_STAGE_ENCODE).items - before;
        CHECK_EQ_INT(encoded, vad ? 0 : 1 + result->n_windows);
        CHECK(vad ? !result->language && result->language_probability < 0 : result->language != NULL);
        CHECK(result->n_regions == 0 && (vad || result->n_windows >= 2));
        mxw_session_close(session);
    }
}

/* ---- parallel, batches, resumed ---------------------------------------------------------------------------------- */

static void test_parallel(void) {
    mx_str one = {0}, three = {0};
    mxw_session_options o = options_of("any", 1);
    o.parallel = 1;
    run_plain(listener, &o, NULL, 0, &one);
    o.parallel = 3;
    run_plain(listener, &o, NULL, 0, &three);
    CHECK_STR(mx_str_get(&three), mx_str_get(&one));
    CHECK(one.n > 500);
    mx_str_free(&one);
    mx_str_free(&three);
}

typedef struct tape {
    mx_str records[128];
    size_t n;
} tape;

static void on_window(void *user, const void *record, size_t n) {
    tape *t = user;
    if (CHECK(t->n < 128))
        mx_str_add(&t->records[t->n++], record, n);
}

static void free_tape(tape *t) {
    for (size_t i = 0; i < t->n; i++)
        mx_str_free(&t->records[i]);
    t->n = 0;
}

/* Resumed after any window, or `once` after the first: the same bytes, without hearing the languages again. */
static void check_resumed(int vad, int parallel, int once) {
    tape whole = {.n = 0}, t = {.n = 0};
    mx_str want = {0};
    mxw_session_options o = options_of("any", vad);
    o.parallel = parallel;
    o.on_window = on_window;
    o.user = &whole;
    mxw_session *session = open_fed(listener, &o);
    CHECK_EQ_INT(take_all(session), MXW_END);
    CHECK(session->languages.n_spans >= 2);
    CHECK_EQ_INT(kit_write(session, "json", &want), MXW_OK);
    mxw_session_close(session);
    o.user = &t;
    for (size_t k = 1; k <= whole.n; k += once ? whole.n : 1 + k / 3) {
        mx_str json = {0};
        session = open_fed(listener, &o);
        int64_t before = mx_recognizer_counters(listener, MXW_STAGE_ENCODE).items;
        for (size_t i = 0; i < k; i++)
            if (!CHECK_EQ_INT(mxw_session_resume(session, whole.records[i].data, whole.records[i].n), MXW_OK))
                printf("    %s\n", mxw_last_error());
        check_spans(session);
        CHECK_EQ_INT(take_all(session), MXW_END);
        CHECK_EQ_INT(kit_write(session, "json", &json), MXW_OK);
        CHECK_STR(mx_str_get(&json), mx_str_get(&want));
        if (k == whole.n)
            CHECK_EQ_INT(mx_recognizer_counters(listener, MXW_STAGE_ENCODE).items, before);
        CHECK_EQ_INT(t.n, whole.n - k);
        mxw_session_close(session);
        mx_str_free(&json);
        free_tape(&t);
    }
    mx_str_free(&want);
    free_tape(&whole);
}

/* Any byte of the first record changed: refused, or taken as what it says; never a crash, and what was refused left no
 * trace. */
static void test_damaged(void) {
    tape whole = {.n = 0}, t = {.n = 0};
    mxw_session_options o = options_of("any", 0);
    o.on_window = on_window;
    o.user = &whole;
    mxw_session *session = open_fed(listener, &o);
    CHECK_EQ_INT(take_all(session), MXW_END);
    mxw_session_close(session);
    o.user = &t;
    session = open_fed(listener, &o);
    mx_str *first = &whole.records[0];
    for (size_t i = 0; i < first->n && !session->languages.known; i++) {
        first->data[i] = (char)(first->data[i] ^ 0x80);
        mxw_status status = mxw_session_resume(session, first->data, first->n);
        CHECK(status < 0 ? !session->languages.known && session->at.plan.n_wanted == 1 : session->languages.known);
        first->data[i] = (char)(first->data[i] ^ 0x80);
        if (status >= 0) {
            mxw_session_close(session);
            session = open_fed(listener, &o);
        }
    }
    CHECK_EQ_INT(mxw_session_resume(session, first->data, first->n), MXW_OK);
    mxw_session_close(session);
    free_tape(&whole);
    free_tape(&t);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* 14 s, from opening on, while an allocation fails; text or languages only. made: allocations. */
static mxw_status run_short(int text, int64_t fail_after, int64_t *made) {
    mxw_session_options o = options_of("any", 1);
    mxw_session *session = NULL;
    o.sample_len = 4;
    mx_mem_fail_after(fail_after);
    mxw_status status = mxw_session_open(listener, &o, &session);
    if (status >= 0)
        status = mxw_session_feed(session, samples, 14 * MXW_SAMPLE_RATE);
    if (status >= 0)
        status = mxw_session_finish(session);
    if (status >= 0)
        status = text ? take_all(session) : mxw_session_detect_languages(session);
    CHECK(text || !session || session->languages.known == (status == MXW_OK));
    if (status >= 0 && !mxw_session_result(session))
        status = MXW_E_MEMORY;
    *made = mx_mem_count();
    mx_mem_fail_after(-1);
    mxw_session_close(session);
    return status;
}

/* Every allocation fails in turn, of opening, hearing, deciding and decoding, or one in `stride`: E_MEMORY, nothing is
 * left, and nothing is decided. captures: a graph for which there is no memory to capture it runs node by node, and
 * nobody is told. */
static void check_failing_memory(int text, int64_t stride, int captures) {
    const mxw_status end = text ? MXW_END : MXW_OK;
    int64_t total, made;
    CHECK_EQ_INT(run_short(text, -1, &total), end);
    int64_t live = mx_mem_live();
    CHECK_EQ_INT(run_short(text, -1, &total), end);
    CHECK(total > 8);
    for (int64_t n = 0; n < total; n += stride) {
        mxw_status status = run_short(text, n, &made);
        int went_on = status == end && (made <= n || captures);   /* how many there are depends on timing, a little */
        if (!CHECK((status == MXW_E_MEMORY || went_on) && mx_mem_live() == live))
            printf("    allocation %lld of %lld: %s, %lld blocks left\n", (long long)n, (long long)total,
                   mxw_status_name(status), (long long)(mx_mem_live() - live));
    }
    CHECK_EQ_INT(run_short(text, -1, &made), end);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static void check_refused(mxw_model *model, const mxw_session_options *o, const char *line) {
    mxw_session *session = NULL;
    CHECK_EQ_INT(mxw_session_open(model, o, &session), MXW_E_ARGUMENT);
    CHECK_STR(mxw_last_error(), line);
    CHECK(session == NULL);
}

static void test_options(void) {
    mxw_session_options o = options_of("en,xx", 0);
    check_refused(plain, &o, "languages: 'xx' is not a language that Whisper supports");
    o.languages = "en,de";
    check_refused(english, &o, "languages: custom is an English-only model and cannot transcribe 'de'");
    o.language = "en";
    check_refused(plain, &o, "languages: not together with language");
    o.language = NULL;
    o.mel_reference = MXW_MEL_RUNNING;
    check_refused(plain, &o, "languages: not with mel_reference running: the whole recording must be known first");
    o = options_of("en", 0);
    mxw_session *session = open_fed(english, &o);
    CHECK_EQ_INT(take_all(session), MXW_END);
    CHECK_STR(mxw_session_result(session)->language, "en");
    CHECK(mxw_result_segment(mxw_session_result(session), 0)->language_probability == 1);
    mxw_session_close(session);
}

int main(int argc, char **argv) {
    int full = argc > 2 && !strcmp(argv[2], "full"), brief = argc > 2 && !strcmp(argv[2], "short");
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    kit_on("languages", argc > 1 ? argv[1] : "max cpu");
    int captures = argc > 1 && strstr(argv[1], "cuda") != NULL;
    samples = mx_alloc_array(N_SAMPLES, sizeof(*samples));
    kit_samples(3, 0, N_SAMPLES, samples);
    english = open_model("english.pt", 51864, 0);
    plain = open_model("plain.pt", 51865, 0);
    listener = open_model("listener.pt", 51865, 1);
    if (english && plain && listener) {
        if (!brief) {
            test_decided();
            test_detected_only();
            test_parallel();
            check_resumed(0, 0, 0);
            check_resumed(1, 0, 0);
            test_damaged();
            check_failing_memory(0, full ? 1 : 7, captures);
        }
        test_one_language(brief ? 7 : 0);
        test_context();
        test_silence();
        check_resumed(1, 2, brief);
        check_failing_memory(1, full ? 1 : brief ? 97 : 7, captures);
        test_options();
    }
    mxw_model_close(english);
    mxw_model_close(plain);
    mxw_model_close(listener);
    mx_arena_free(&sharpened);
    mx_free(samples);
    gen_remove(folder);
    return check_done();
}
