/* test_pipeline_vad.c - sessions with vad on a small generated model and a detector of the test's own: windows lie in
 * speech and never cross the end of a clip, silence is skipped and said to be, text does not depend on how samples are
 * split and comes while somebody still speaks, resumed runs are the same and know the detector's weights, a detector
 * that fails fails the session. */
#include "kit/check.h"
#include "kit/fake_detector.h"
#include "kit/gen_silero.h"
#include "kit/pipeline_kit.h"

#include <math.h>

#include "base/mem.h"
#include "base/sha256.h"
#include "pipeline/session.h"

#define SECONDS 100
#define N_SAMPLES (size_t)(SECONDS * MXW_SAMPLE_RATE + 1234)

static char folder[4096];
static mxw_model *english, *multilingual;
static float *samples;   /* [N_SAMPLES] */

static mxw_model *open_model(const char *leaf, int n_vocab) {
    char path[4200];
    mxw_model *model = NULL;
    mxw_dims dims = kit_dims(n_vocab, 16, 1, 1);
    snprintf(path, sizeof(path), "%s/%s", folder, leaf);
    if (gen_pt(path, &(gen_options){.dims = dims, .seed = 21, .dtype = MXW_F16}) != 0 || kit_open(path, 2, &model) < 0)
        printf("    %s: %s\n", leaf, mxw_last_error());
    if (model)
        model->open_detector = fake_detector_open;
    return model;
}

static mxw_session_options vad_options(void) {
    mxw_session_options o = kit_short_options(10);
    o.vad = 1;
    o.no_speech_threshold = MXW_NONE;   /* random weights: every window may be called silent */
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

/* ---- where windows are ------------------------------------------------------------------------------------------- */

/* Every segment's window begins in a clip, its times are in that clip, and every clip with speech has a window. */
static void check_inside(mxw_session *session, const mxw_session_options *o) {
    const mxw_result *result = mxw_session_result(session);
    const mx_clip *clips = session->at.clips;
    int64_t in_clips = 0;
    int seen[512] = {0};
    CHECK(result->n_segments > 0 && session->at.n_clips > 0 && session->at.n_clips <= 512);
    for (size_t i = 0; i < result->n_segments; i++) {
        const mxw_segment *s = mxw_result_segment(result, i);
        int in = 0;
        while (in < session->at.n_clips && !(clips[in].start <= s->seek && s->seek < clips[in].end))
            in++;
        if (!CHECK(in < session->at.n_clips))
            continue;
        seen[in] = 1;
        double end = MX_MIN(clips[in].end, s->seek + MX_MEL_WINDOW) / 100.0 + o->start_s;
        double first = (double)s->seek / 100.0 + o->start_s;
        if (!CHECK(s->start >= first - 1e-3 && s->end <= end + 1e-3 && s->start <= s->end))
            printf("    segment %zu at %lld: %g to %g, clip to %g\n", i, (long long)s->seek, s->start, s->end, end);
    }
    for (int i = 0; i < session->at.n_clips; i++) {
        CHECK(seen[i]);
        in_clips += clips[i].end - clips[i].start;
    }
    CHECK(result->times->vad_ms > 0);
    if (!strcmp(o->clip_timestamps, "0"))
        CHECK(fabs(result->skipped_s - (result->duration_s - (double)in_clips / 100)) < 0.011);
}

static void check_regions(mxw_session *session, const mxw_session_options *o) {
    const mxw_result *result = mxw_session_result(session);
    CHECK_EQ_INT(result->n_regions, mx_speech_n_regions(session->speech));
    CHECK(mxw_result_region(result, result->n_regions) == NULL);
    for (size_t i = 0; i < result->n_regions; i++) {
        const mxw_region *r = mxw_result_region(result, i);
        mx_span samples_of = mx_speech_region_samples(session->speech, i);
        CHECK(fabs(r->start - o->start_s - (double)samples_of.start / MXW_SAMPLE_RATE) < 6e-4);
        CHECK(fabs(r->end - o->start_s - (double)samples_of.end / MXW_SAMPLE_RATE) < 6e-4);
        CHECK(r->start < r->end && r->channel == o->channel && !r->language && r->probability < 0);
    }
}

static void test_windows(void) {
    for (int i = 0; i < 8; i++) {
        mxw_session_options o = vad_options();
        o.vad_min_silence_ms = i % 2 ? 5000 : 2000;   /* one long region, cut at its pauses; or many */
        o.word_timestamps = i == 2 || i == 3;
        o.without_timestamps = i == 4;
        o.temperature_increment = i == 5 ? 0.5 : MXW_NONE;
        o.start_s = i >= 6 ? 12.5 : 0;
        o.channel = i;
        o.clip_timestamps = i == 7 ? "20,40.5,90" : "0";
        mxw_session *session = open_fed(i % 2 ? english : multilingual, &o);
        CHECK_EQ_INT(take_all(session), MXW_END);
        check_inside(session, &o);
        check_regions(session, &o);
        if (i != 7)
            CHECK((session->at.n_clips == 1) == (i % 2 == 1));
        mxw_session_close(session);
    }
}

/* Speech without a pause for 100 s: windows are cut anyway, as without vad. */
static void test_no_pause(void) {
    static float p[4000];
    fake_detector_options fake = {.probabilities = p, .n = MX_COUNT(p)};
    for (size_t i = 0; i < MX_COUNT(p); i++)
        p[i] = 0.6f + 0.3f * (float)(i % 7) / 7;
    mxw_session_options o = vad_options(), plain = o;
    plain.vad = 0;
    english->detector_context = &fake;
    mxw_session *with = open_fed(english, &o), *without = open_fed(english, &plain);
    CHECK_EQ_INT(take_all(with), MXW_END);
    CHECK_EQ_INT(take_all(without), MXW_END);
    check_inside(with, &o);
    CHECK_EQ_INT(with->at.n_clips, 1);
    const mxw_result *a = mxw_session_result(with), *b = mxw_session_result(without);
    size_t same = 0;
    for (size_t i = 0; i < MX_MIN(a->n_segments, b->n_segments); i++) {
        const mxw_segment *x = mxw_result_segment(a, i), *y = mxw_result_segment(b, i);
        if (y->seek + MX_MEL_WINDOW >= with->at.clips[0].end)
            break;
        CHECK(x->seek == y->seek && x->start == y->start && x->end == y->end && !strcmp(x->text, y->text));
        same++;
    }
    CHECK(same >= 3 && a->skipped_s == 0 && b->skipped_s == 0 && !b->regions);
    english->detector_context = NULL;
    mxw_session_close(with);
    mxw_session_close(without);
}

/* ---- from tokens to pieces --------------------------------------------------------------------------------------- */

#define TIME(seconds) (50363 + (int32_t)((seconds) * 50 + 0.5))   /* of an .en vocabulary */

/* A window of 20 s at 10 s, in which there is speech up to 27 s. */
static mx_cut cut_tokens(const int32_t *tokens, size_t n, int closed, int ended, mx_piece *last) {
    static float p[1000];
    fake_detector_options fake = {.probabilities = p, .n = MX_COUNT(p)};
    mxw_session_options o = vad_options();
    mx_cut cut = {.n_frames = 2000, .closed = closed, .ended = ended};
    for (size_t i = 0; i < MX_COUNT(p); i++)
        p[i] = i * 512 < 27 * MXW_SAMPLE_RATE;
    english->detector_context = &fake;
    mxw_session *session = open_fed(english, &o);
    english->detector_context = NULL;
    CHECK_EQ_INT(session->plan->special.timestamp_begin, TIME(0));
    while (mx_session_await_speech(session) > 0)
        CHECK_EQ_INT(mx_session_plan_clips(session), MXW_OK);
    session->at.seek = 1000;
    CHECK_EQ_INT(mx_tokens_add(&session->window.tokens, tokens, n), MXW_OK);
    CHECK_EQ_INT(mx_session_cut_window(session, &cut), MXW_OK);
    mx_session_go_on(session, &cut);
    *last = session->window.pieces[session->window.n_pieces - 1];
    last->first_word = session->window.n_pieces;   /* how many */
    mxw_session_close(session);
    return cut;
}

static void check_cut(const int32_t *tokens, size_t n, int closed, int ended, size_t n_pieces, double start, double end,
                      int64_t seek) {
    mx_piece last;
    mx_cut cut = cut_tokens(tokens, n, closed, ended, &last);
    if (!CHECK(last.first_word == n_pieces && fabs(last.start - start) < 1e-9 && fabs(last.end - end) < 1e-9 &&
               cut.seek == seek))
        printf("    %zu pieces, the last from %g to %g; next window at %lld\n", last.first_word, last.start, last.end,
               (long long)cut.seek);
}

static void test_pieces_of_a_window(void) {
    const int32_t rest[] = {TIME(0), 11, 12, TIME(5), TIME(5), 13, 14};
    const int32_t pair[] = {TIME(0), 11, TIME(5), TIME(5.5), 12, TIME(16.8), TIME(16.8)};
    const int32_t early[] = {TIME(0), 11, TIME(5), TIME(5.5), 12, TIME(9)};
    const int32_t late[] = {TIME(0), 11, TIME(5), TIME(5), 12, TIME(25)};
    const int32_t whole[] = {TIME(0), 11, 12, 13};
    const int32_t tiny[] = {TIME(0), 11, TIME(0.3), TIME(0.3)};
    check_cut(rest, 7, 0, 1, 1, 10, 15, 1500);     /* cut by the window's edge: decoded again */
    check_cut(rest, 7, 1, 1, 2, 15, 27, 3000);   /* complete: kept, up to the end of speech */
    check_cut(rest, 7, 1, 0, 1, 10, 15, 1500);     /* the text is not complete: speech is left, so again from 15 s */
    check_cut(pair, 7, 1, 1, 2, 15.5, 26.8, 3000);   /* 0.2 s of speech after the last word: nothing was left out */
    check_cut(early, 6, 1, 1, 2, 15.5, 19, 1900);  /* the text says that nothing follows, but 8 s of speech do */
    check_cut(early, 6, 0, 1, 2, 15.5, 19, 3000);
    check_cut(late, 6, 1, 1, 2, 15, 30, 3000);     /* not beyond the window */
    check_cut(whole, 4, 1, 1, 1, 10, 27, 3000);
    check_cut(whole, 4, 0, 1, 1, 10, 30, 3000);
    check_cut(tiny, 4, 1, 1, 1, 10, 10.3, 3000);   /* too little to go on from */
}

/* Nothing is decoded, and no language detected, where nobody speaks. */
static void test_silence(void) {
    static const float zeros[40 * MXW_SAMPLE_RATE];
    static const char *const languages[] = {NULL, "de"};
    for (int i = 0; i < 4; i++) {
        mxw_session_options o = vad_options();
        mxw_session *session = NULL;
        mx_str json = {0};
        o.language = languages[i % 2];
        o.parallel = i / 2 * 3;
        CHECK_EQ_INT(mxw_session_open(multilingual, &o, &session), MXW_OK);
        int64_t before = mx_recognizer_counters(multilingual, MXW_STAGE_ENCODE).items;
        CHECK_EQ_INT(kit_run(session, zeros, MX_COUNT(zeros), 0), MXW_END);
        CHECK_EQ_INT(mx_recognizer_counters(multilingual, MXW_STAGE_ENCODE).items, before);
        const mxw_result *result = mxw_session_result(session);
        CHECK(result->n_segments == 0 && result->n_windows == 0 && result->n_regions == 0 && result->regions);
        CHECK(fabs(result->skipped_s - 40) < 1e-9 && result->duration_s == 40);
        CHECK_STR(result->language, o.language);
        CHECK_STR(result->text, "");
        for (int f = 0; mxw_format_name(f); f++)   /* without a language, in every format */
            CHECK_EQ_INT(kit_write(session, mxw_format_name(f), &json), MXW_OK);
        CHECK(i % 2 || strstr(mx_str_get(&json), "\"language\": null"));
        mxw_session_close(session);
        mx_str_free(&json);
    }
}

/* On the 30 s from the first speech on, not on the silence before it. */
static void test_language(void) {
    static float late[N_SAMPLES];
    size_t offset = 45 * MXW_SAMPLE_RATE;
    mxw_session_options o = vad_options(), plain = o;
    mxw_session *with = NULL, *without = NULL;
    for (size_t i = 0; i < N_SAMPLES; i++)
        late[i] = i < offset ? 0 : samples[i - offset];
    plain.vad = 0;
    CHECK_EQ_INT(mxw_session_open(multilingual, &o, &with), MXW_OK);
    CHECK_EQ_INT(mxw_session_open(multilingual, &plain, &without), MXW_OK);
    CHECK_EQ_INT(kit_run(with, late, N_SAMPLES, 0), MXW_END);
    CHECK_EQ_INT(mxw_session_feed(without, late, N_SAMPLES), MXW_OK);
    CHECK_EQ_INT(mxw_session_finish(without), MXW_OK);
    mx_span first;
    CHECK_EQ_INT(mx_speech_region(with->speech, 0, &first), MX_REGION_KNOWN);
    CHECK(first.start > 4400 && first.start < 4900);
    CHECK_EQ_INT(mx_session_detect_language(without, first.start), MXW_OK);
    CHECK(with->result.language_probability == without->result.language_probability);
    CHECK_STR(with->language, without->language);
    CHECK_EQ_INT(mx_session_detect_language(without, 0), MXW_OK);
    CHECK(with->result.language_probability != without->result.language_probability);
    mxw_session_close(with);
    mxw_session_close(without);
}

/* ---- when text comes --------------------------------------------------------------------------------------------- */

/* The same bytes however the samples come, from a file and live. */
static void test_pieces(void) {
    static const size_t pieces[] = {4099, 160000};
    for (int i = 0; i < 4; i++) {
        mxw_session_options o = vad_options();
        mx_str whole = {0};
        o.vad_min_silence_ms = i % 2 ? 5000 : 2000;
        o.mel_reference = i / 2 ? MXW_MEL_RUNNING : MXW_MEL_FILE;
        CHECK_EQ_INT(kit_transcribe(multilingual, &o, samples, N_SAMPLES, &whole), MXW_OK);
        CHECK(whole.n > 500);
        for (size_t k = 0; k < MX_COUNT(pieces); k++) {
            mx_str json = {0};
            const mxw_segment *segment;
            mxw_session *session = NULL;
            CHECK_EQ_INT(mxw_session_open(multilingual, &o, &session), MXW_OK);
            for (size_t at = 0; at < N_SAMPLES; at += pieces[k]) {
                CHECK_EQ_INT(mxw_session_feed(session, samples + at, MX_MIN(pieces[k], N_SAMPLES - at)), MXW_OK);
                mxw_status status;
                while ((status = mxw_session_next(session, &segment)) == MXW_OK)
                    ;
                CHECK_EQ_INT(status, MXW_MORE);
                CHECK(o.mel_reference == MXW_MEL_RUNNING || mxw_session_result(session)->n_segments == 0);
            }
            size_t early = mxw_session_result(session)->n_segments;
            CHECK_EQ_INT(mxw_session_finish(session), MXW_OK);
            CHECK_EQ_INT(take_all(session), MXW_END);
            CHECK_EQ_INT(take_all(session), MXW_END);
            CHECK_EQ_INT(kit_write(session, "json", &json), MXW_OK);
            CHECK_STR(mx_str_get(&json), mx_str_get(&whole));
            size_t all = mxw_session_result(session)->n_segments;
            CHECK(o.mel_reference == MXW_MEL_FILE ? early == 0 : early > 0 && early < all);
            mxw_session_close(session);
            mx_str_free(&json);
        }
        mx_str_free(&whole);
    }
}

/* ---- resumed ----------------------------------------------------------------------------------------------------- */

typedef struct tape {
    mx_str records[64];
    size_t n;
} tape;

static void on_window(void *user, const void *record, size_t n) {
    tape *t = user;
    if (CHECK(t->n < 64))
        mx_str_add(&t->records[t->n++], record, n);
}

static void free_tape(tape *t) {
    for (size_t i = 0; i < t->n; i++)
        mx_str_free(&t->records[i]);
    t->n = 0;
}

static void test_resume(void) {
    tape whole = {.n = 0}, t = {.n = 0};
    mx_str want = {0};
    mxw_session_options o = vad_options();
    o.on_window = on_window;
    o.user = &whole;
    o.word_timestamps = 1;
    o.vad_min_silence_ms = 2500;
    mxw_session *session = open_fed(multilingual, &o);
    CHECK_EQ_INT(take_all(session), MXW_END);
    CHECK_EQ_INT(kit_write(session, "json", &want), MXW_OK);
    mxw_session_close(session);
    CHECK(whole.n >= 4);
    o.user = &t;
    for (size_t k = 0; k <= whole.n; k++) {
        mx_str json = {0};
        session = open_fed(multilingual, &o);
        for (size_t i = 0; i < k; i++)
            CHECK_EQ_INT(mxw_session_resume(session, whole.records[i].data, whole.records[i].n), MXW_OK);
        CHECK_EQ_INT(take_all(session), MXW_END);
        CHECK_EQ_INT(kit_write(session, "json", &json), MXW_OK);
        CHECK_STR(mx_str_get(&json), mx_str_get(&want));
        CHECK_EQ_INT(t.n, whole.n - k);
        mxw_session_close(session);
        mx_str_free(&json);
        free_tape(&t);
    }
    static float p[4000] = {0.9f};   /* the same options and samples, but other speech */
    fake_detector_options fake = {.probabilities = p, .n = MX_COUNT(p)};
    multilingual->detector_context = &fake;
    session = open_fed(multilingual, &o);
    CHECK_EQ_INT(mxw_session_resume(session, whole.records[0].data, whole.records[0].n), MXW_E_ARGUMENT);
    CHECK_STR(mxw_last_error(), "record: made with another detector of speech");
    mxw_session_close(session);
    multilingual->detector_context = NULL;
    o.vad_threshold = 0.4;
    session = open_fed(multilingual, &o);
    CHECK_EQ_INT(mxw_session_resume(session, whole.records[0].data, whole.records[0].n), MXW_E_ARGUMENT);
    CHECK_STR(mxw_last_error(), "record: made with other options, or by another version or engine");
    mxw_session_close(session);
    free_tape(&whole);
    free_tape(&t);
    mx_str_free(&want);
}

/* Generated weights of Silero's network under one name; their SHA-256. */
static void write_weights(const char *path, uint64_t seed, char sha256[65]) {
    mx_str bytes = {0};
    mx_sha256 sum;
    gen_silero_safetensors(&bytes, &(gen_silero){.seed = seed, .dft = 1});
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(bytes.data, 1, bytes.n, file) == bytes.n);
    CHECK(file && fclose(file) == 0);
    mx_sha256_start(&sum);
    mx_sha256_add(&sum, bytes.data, bytes.n);
    mx_sha256_hex(&sum, sha256);
    mx_str_free(&bytes);
}

static mxw_session *open_short(mxw_model *model, const mxw_session_options *o) {
    mxw_session *session = NULL;
    if (!CHECK_EQ_INT(mxw_session_open(model, o, &session), MXW_OK))
        printf("    %s\n", mxw_last_error());
    CHECK_EQ_INT(mxw_session_feed(session, samples, 8 * MXW_SAMPLE_RATE), MXW_OK);
    CHECK_EQ_INT(mxw_session_finish(session), MXW_OK);
    return session;
}

/* The file is named in the manifest by what is in it, and the same name with other weights does not continue a run, not
 * even one where only the guard listens, whose windows are the same. */
static void test_weights(void) {
    char path[4200], sha256[2][65], want[256];
    tape t = {.n = 0};
    const char *manifest = "";
    mxw_session_options o = vad_options();
    o.vad = 0;
    o.guard = MXW_GUARD_MARK;
    o.vad_model = path;
    o.on_window = on_window;
    o.user = &t;
    snprintf(path, sizeof(path), "%s/detector.safetensors", folder);
    for (int i = 0; i < 2; i++) {
        write_weights(path, 5 + (uint64_t)i, sha256[i]);
        mxw_model *model = open_model("weights.pt", 51864);
        model->open_detector = NULL;
        mxw_session *session = open_short(model, &o);
        if (i == 1) {
            CHECK(strcmp(sha256[0], sha256[1]) != 0);
            CHECK_EQ_INT(mxw_session_resume(session, t.records[0].data, t.records[0].n), MXW_E_ARGUMENT);
            CHECK_STR(mxw_last_error(), "record: made with another detector of speech");
            free_tape(&t);
        }
        CHECK_EQ_INT(take_all(session), MXW_END);
        CHECK_EQ_INT(mxw_session_manifest(session, &manifest), MXW_OK);
        snprintf(want, sizeof(want), "\"vad_model_sha256\": \"%s\", ", sha256[i]);
        CHECK(strstr(manifest, want) != NULL);
        mxw_session_close(session);
        session = open_short(model, &o);
        CHECK_EQ_INT(mxw_session_resume(session, t.records[0].data, t.records[0].n), MXW_OK);
        mxw_session_close(session);
        mxw_model_close(model);
    }
    free_tape(&t);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static void test_detector_fails(void) {
    fake_detector_options fake = {.fail_open = 1};
    mxw_session_options o = vad_options();
    mxw_session *session = NULL;
    const mxw_segment *segment;
    english->detector_context = &fake;
    CHECK_EQ_INT(mxw_session_open(english, &o, &session), MXW_E_NOT_FOUND);
    CHECK_STR(mxw_last_error(), "detector: cannot be opened");
    fake = (fake_detector_options){.fail_after = 5000};
    CHECK_EQ_INT(mxw_session_open(english, &o, &session), MXW_OK);
    mxw_status status = MXW_OK;   /* samples are heard beside: it is told at some later call */
    for (int i = 0; i < 1000000 && status >= 0; i++)
        status = mxw_session_feed(session, samples, 6000);
    CHECK_EQ_INT(status, MXW_E_INTERNAL);
    CHECK_EQ_INT(mxw_session_next(session, &segment), MXW_E_INTERNAL);   /* it is final */
    CHECK_STR(mxw_last_error(), "detector: failed at sample 5000");
    mxw_session_close(session);
    CHECK_EQ_INT(mxw_session_open(english, &o, &session), MXW_OK);
    CHECK(mxw_session_feed(session, samples, 6000) == MXW_OK || mxw_session_feed(session, samples, 1) < 0);
    CHECK(mxw_session_finish(session) == MXW_OK || mxw_session_finish(session) == MXW_E_INTERNAL);
    CHECK_EQ_INT(mxw_session_next(session, &segment), MXW_E_INTERNAL);
    CHECK_STR(mxw_last_error(), "detector: failed at sample 5000");
    mxw_session_close(session);
    o.mel_reference = MXW_MEL_RUNNING;   /* heard at once */
    CHECK_EQ_INT(mxw_session_open(english, &o, &session), MXW_OK);
    CHECK_EQ_INT(mxw_session_feed(session, samples, 6000), MXW_E_INTERNAL);
    CHECK_EQ_INT(mxw_session_next(session, &segment), MXW_E_INTERNAL);
    mxw_session_close(session);
    fake = (fake_detector_options){.fail_finish = 1};
    CHECK_EQ_INT(mxw_session_open(english, &o, &session), MXW_OK);
    CHECK_EQ_INT(mxw_session_feed(session, samples, 6000), MXW_OK);
    CHECK_EQ_INT(mxw_session_finish(session), MXW_E_INTERNAL);
    CHECK_EQ_INT(mxw_session_next(session, &segment), MXW_E_INTERNAL);
    CHECK_STR(mxw_last_error(), "detector: failed at the end");
    mxw_session_close(session);
    o.mel_reference = MXW_MEL_FILE;
    CHECK_EQ_INT(mxw_session_open(english, &o, &session), MXW_OK);
    CHECK_EQ_INT(mxw_session_feed(session, samples, 6000), MXW_OK);
    CHECK_EQ_INT(mxw_session_finish(session), MXW_OK);
    CHECK_EQ_INT(mxw_session_next(session, &segment), MXW_E_INTERNAL);
    CHECK_STR(mxw_last_error(), "detector: failed at the end");
    mxw_session_close(session);
    english->detector_context = NULL;
}

static mxw_status run_short(void) {
    mxw_session *session = NULL;
    mxw_session_options o = vad_options();
    o.clip_timestamps = "1,3";
    mxw_status status = mxw_session_open(english, &o, &session);
    if (status >= 0)
        status = kit_run(session, samples, 6 * MXW_SAMPLE_RATE, 0);
    if (status >= 0 && !mxw_session_result(session))
        status = MXW_E_MEMORY;
    mxw_session_close(session);
    return status;
}

/* captures: a graph for which there is no memory to capture it runs node by node, and nobody is told. */
static void test_failing_memory(int captures) {
    CHECK_EQ_INT(run_short(), MXW_END);
    int64_t live = mx_mem_live();
    mx_mem_fail_after(-1);
    CHECK_EQ_INT(run_short(), MXW_END);
    int64_t total = mx_mem_count();
    for (int64_t n = 0; n < total; n++) {
        mx_mem_fail_after(n);
        mxw_status status = run_short();
        int64_t made = mx_mem_count();   /* how many there are depends on timing, a little */
        mx_mem_fail_after(-1);
        int went_on = status == MXW_END && (made <= n || captures);
        if (!CHECK((status == MXW_E_MEMORY || went_on) && mx_mem_live() == live))
            printf("    allocation %lld of %lld: %s, %lld blocks left\n", (long long)n, (long long)total,
                   mxw_status_name(status), (long long)(mx_mem_live() - live));
    }
    CHECK_EQ_INT(run_short(), MXW_END);
}

int main(int argc, char **argv) {
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    kit_on("pipeline-vad", argc > 1 ? argv[1] : "max cpu");
    samples = mx_alloc_array(N_SAMPLES, sizeof(*samples));
    kit_samples(3, 0, N_SAMPLES, samples);
    english = open_model("english.pt", 51864);
    multilingual = open_model("multilingual.pt", 51865);
    if (CHECK(english && multilingual)) {
        test_windows();
        test_no_pause();
        test_pieces_of_a_window();
        test_silence();
        test_language();
        test_pieces();
        test_resume();
        test_weights();
        test_detector_fails();
        test_failing_memory(argc > 1 && strstr(argv[1], "cuda") != NULL);
    }
    mxw_model_close(english);
    mxw_model_close(multilingual);
    mx_free(samples);
    CHECK_EQ_INT(mx_mem_live(), 0);
    gen_remove(folder);
    return check_done();
}
