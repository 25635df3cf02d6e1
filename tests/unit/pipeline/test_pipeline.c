/* test_pipeline.c - the contract of a session, on a small generated model: results do not depend on how samples are
 * split, text comes as early as possible, calls out of order and options out of range fail with a line that names the
 * option, a stop is final, callbacks come in order. */
#include "kit/check.h"
#include "kit/pipeline_kit.h"

#include <locale.h>
#include <math.h>

#include "base/mem.h"
#include "pipeline/session.h"

#define N_SAMPLES (size_t)(47.3 * MXW_SAMPLE_RATE)

static char folder[4096];
static mxw_model *english, *multilingual;
static float *samples;   /* [N_SAMPLES] */

static mxw_model *open_model(const char *leaf, const mxw_dims *dims) {
    char path[4200];
    mxw_model *model = NULL;
    snprintf(path, sizeof(path), "%s/%s", folder, leaf);
    if (gen_pt(path, &(gen_options){.dims = *dims, .seed = 11, .dtype = MXW_F16}) != 0 || kit_open(path, 2, &model) < 0)
        printf("    %s: %s\n", leaf, mxw_last_error());
    return model;
}

static mxw_session *open_session(mxw_model *model, const mxw_session_options *options) {
    mxw_session *session = NULL;
    if (!CHECK_EQ_INT(mxw_session_open(model, options, &session), MXW_OK))
        printf("    %s\n", mxw_last_error());
    return session;
}

/* ---- the same whatever the pieces -------------------------------------------------------------------- */

static void test_pieces(void) {
    static const size_t pieces[] = {1, 4099, 65537};
    mxw_session_options o = kit_short_options(10);
    mx_str whole = {0};
    CHECK_EQ_INT(kit_transcribe(multilingual, &o, samples, N_SAMPLES, &whole), MXW_OK);
    CHECK(whole.n > 500);
    for (size_t i = 0; i < MX_COUNT(pieces); i++) {
        mx_str json = {0};
        mxw_session *session = open_session(multilingual, &o);
        CHECK_EQ_INT(kit_run(session, samples, N_SAMPLES, pieces[i]), MXW_END);
        CHECK_EQ_INT(kit_write(session, "json", &json), MXW_OK);
        CHECK_STR(mx_str_get(&json), mx_str_get(&whole));
        mxw_session_close(session);
        mx_str_free(&json);
    }
    mx_str_free(&whole);
}

/* ---- when text comes ---------------------------------------------------------------------------------- */

static void test_file_mode(void) {
    mxw_session_options o = kit_short_options(6);
    mxw_session *session = open_session(english, &o);
    const mxw_segment *segment = (const mxw_segment *)(uintptr_t)1;
    CHECK_EQ_INT(mxw_session_next(session, &segment), MXW_MORE);
    CHECK(segment == NULL);
    CHECK_EQ_INT(mxw_session_feed(session, samples, N_SAMPLES), MXW_OK);
    CHECK_EQ_INT(mxw_session_next(session, &segment), MXW_MORE);
    CHECK_EQ_INT(mxw_session_finish(session), MXW_OK);
    CHECK_EQ_INT(mxw_session_finish(session), MXW_OK);
    CHECK_EQ_INT(mxw_session_next(session, &segment), MXW_OK);
    CHECK(segment && segment->id == 0 && segment->text && segment->n_tokens <= 6);
    CHECK_EQ_INT(mxw_session_feed(session, samples, 1), MXW_E_STATE);
    CHECK_STR(mxw_last_error(), "feed after finish");
    CHECK_EQ_INT(mxw_session_next(session, &segment) < 0, 0);   /* that call did no harm */
    mxw_session_close(session);
}

static void test_running_mode(void) {
    mxw_session_options o = kit_short_options(6);
    mxw_session *session;
    const mxw_segment *segment;
    size_t before = 0, n = 30 * MXW_SAMPLE_RATE;
    o.mel_reference = MXW_MEL_RUNNING;
    session = open_session(multilingual, &o);
    CHECK_EQ_INT(mxw_session_feed(session, samples, n - 1600), MXW_OK);
    CHECK_EQ_INT(mxw_session_next(session, &segment), MXW_MORE);
    CHECK_EQ_INT(mxw_session_feed(session, samples + n - 1600, 3200), MXW_OK);
    while (mxw_session_next(session, &segment) == MXW_OK)
        before++;
    CHECK(before > 0);
    CHECK_EQ_INT(mxw_session_next(session, &segment), MXW_MORE);
    CHECK_EQ_INT(mxw_session_feed(session, samples + n + 1600, N_SAMPLES - n - 1600), MXW_OK);
    CHECK_EQ_INT(mxw_session_finish(session), MXW_OK);
    size_t after = 0;
    while (mxw_session_next(session, &segment) == MXW_OK)
        after++;
    CHECK(after > 0);
    CHECK_EQ_INT(mxw_session_next(session, &segment), MXW_END);
    CHECK_EQ_INT(mxw_session_next(session, &segment), MXW_END);
    const mxw_result *result = mxw_session_result(session);
    CHECK(result && result->n_segments == before + after && fabs(result->duration_s - 47.3) < 1e-3);
    mxw_session_close(session);
}

/* Nothing fed, and less than a frame: no text, no failure. */
static void test_empty(void) {
    for (size_t n = 0; n < 200; n += 100) {
        mx_str json = {0};
        mxw_session_options o = kit_short_options(6);
        CHECK_EQ_INT(kit_transcribe(multilingual, &o, samples, n, &json), MXW_OK);
        CHECK(strstr(mx_str_get(&json), "{\"text\": \"\", \"segments\": [], \"language\": \"") != NULL);
        mx_str_free(&json);
    }
}

static void test_bad_samples(void) {
    const float bad[3] = {0, NAN, 0};
    mxw_session *session = open_session(english, NULL);
    CHECK_EQ_INT(mxw_session_feed(session, bad, 3), MXW_E_ARGUMENT);
    CHECK_STR(mxw_last_error(), "samples: number 1 is not finite");
    static float zeros[1600];
    for (size_t i = 0; i < MX_COUNT(zeros); i += 77) {   /* wherever it is: whole blocks are tested at once */
        zeros[i] = i % 2 ? INFINITY : -INFINITY;
        CHECK_EQ_INT(mxw_session_feed(session, zeros, MX_COUNT(zeros)), MXW_E_ARGUMENT);
        zeros[i] = -3.4e38f;
        CHECK_EQ_INT(mxw_session_feed(session, zeros, 0), MXW_OK);
        zeros[i] = 0;
    }
    CHECK_EQ_INT(mxw_session_feed(session, NULL, 3), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_session_feed(session, NULL, 0), MXW_OK);
    mxw_session_close(session);
}

/* ---- callbacks ----------------------------------------------------------------------------------------- */

typedef struct callbacks {
    int64_t n_segments, n_asked, stop_at, n_audio, n_text;
    double done_s;
    int wrong;
} callbacks;

static void on_segment(void *user, const mxw_segment *segment) {
    callbacks *h = user;
    h->wrong += segment->id != h->n_segments++;
}

static void on_progress(void *user, const mxw_progress *p) {
    callbacks *h = user;
    int text = strcmp(p->stage, "text") == 0;
    h->wrong += !text && (strcmp(p->stage, "audio") != 0 || h->n_text > 0);
    if (text && h->n_text == 0)
        h->done_s = 0;   /* the second stage starts over */
    h->n_audio += !text;
    h->n_text += text;
    h->wrong += p->done_s < h->done_s || p->elapsed_s < 0 || (p->total_s >= 0 && p->done_s > p->total_s + 1e-9);
    h->done_s = p->done_s;
}

static int should_abort(void *user) {
    callbacks *h = user;
    return h->stop_at >= 0 && h->n_asked++ >= h->stop_at;
}

static mxw_session_options callback_options(callbacks *h) {
    mxw_session_options o = kit_short_options(8);
    o.user = h;
    o.on_segment = on_segment;
    o.on_progress = on_progress;
    o.should_abort = should_abort;
    return o;
}

static void test_callbacks(void) {
    callbacks h = {.stop_at = -1};
    char path[4200];
    mxw_audio *audio = NULL;
    mxw_audio_options a;
    const mxw_segment *segment;
    mxw_session_options o = callback_options(&h);
    mxw_session *session = open_session(english, &o);
    mxw_audio_options_default(&a);
    snprintf(path, sizeof(path), "%s/forty.wav", folder);
    CHECK_EQ_INT(kit_wav(path, 5, 40 * MXW_SAMPLE_RATE, MXW_SAMPLE_RATE), 0);
    a.path = path;
    CHECK_EQ_INT(mxw_audio_open(&a, &audio), MXW_OK);
    CHECK_EQ_INT(mxw_session_feed_audio(session, audio), MXW_OK);
    CHECK(h.n_audio > 1 && h.n_text == 0 && fabs(h.done_s - 40) < 1e-9);
    CHECK_EQ_INT(mxw_session_finish(session), MXW_OK);
    int64_t given = 0;
    while (mxw_session_next(session, &segment) == MXW_OK) {
        CHECK_EQ_INT(segment->id, given);
        given++;
        CHECK(h.n_segments >= given);   /* the callback has had it already */
    }
    const mxw_result *result = mxw_session_result(session);
    CHECK(result && (int64_t)result->n_segments == given && h.n_segments == given && given > 0);
    CHECK(result && h.n_text == result->n_windows && h.wrong == 0);
    mxw_audio_close(audio);
    mxw_session_close(session);
}

static void test_abort(void) {
    for (int64_t stop_at = 0; stop_at < 12; stop_at += 5) {
        callbacks h = {.stop_at = stop_at};
        mxw_session_options o = callback_options(&h);
        mxw_session *session = open_session(english, &o);
        const mxw_segment *segment;
        CHECK_EQ_INT(kit_run(session, samples, N_SAMPLES, 0), MXW_E_ABORTED);
        CHECK_EQ_INT(h.n_asked, stop_at + 1);
        h.stop_at = -1;   /* too late: a failure is final, and says the same line again */
        mx_fail(MXW_OK, "%s", "");
        CHECK_EQ_INT(mxw_session_next(session, &segment), MXW_E_ABORTED);
        CHECK_STR(mxw_last_error(), "stopped on request");
        CHECK_EQ_INT(mxw_session_feed(session, samples, 1), MXW_E_ABORTED);
        CHECK_EQ_INT(mxw_session_finish(session), MXW_E_ABORTED);
        const mxw_result *result = mxw_session_result(session);   /* what there was until then can be had */
        CHECK(result && (int64_t)result->n_segments == h.n_segments);
        mxw_session_close(session);
    }
}

/* ---- refusals ------------------------------------------------------------------------------------------- */

static void refused(mxw_model *model, const mxw_session_options *o, const char *option) {
    mxw_session *session = NULL;
    int64_t live = mx_mem_live();
    mxw_status status = mxw_session_open(model, o, &session);
    const char *line = mxw_last_error();
    if (!CHECK(status == MXW_E_ARGUMENT && !session && strstr(line, option) && !strchr(line, '\n')))
        printf("    %s: %s, \"%s\"\n", option, mxw_status_name(status), line);
    CHECK_EQ_INT(mx_mem_live(), live);
    mxw_session_close(session);
}

#define REFUSED(model, field, value)                                                                                   \
    do {                                                                                                               \
        mxw_session_options o_;                                                                                        \
        mxw_session_options_default(&o_);                                                                              \
        o_.field = value;                                                                                              \
        refused(model, &o_, #field);                                                                                   \
    } while (0)

static void test_language_refusals(void) {
    REFUSED(english, language, "de");
    REFUSED(english, language, "klingon");
    REFUSED(english, task, MXW_TRANSLATE);
    REFUSED(multilingual, language, "xx");
    REFUSED(multilingual, language, "yue");   /* the hundredth language: not in a vocabulary of 99 */
    mxw_session_options o = kit_short_options(2);
    o.language = "Castilian";
    mxw_session_close(open_session(multilingual, &o));
    o.language = "ENGLISH";
    mxw_session_close(open_session(english, &o));
}

/* Turbo is too large to be made here: what is known of it is enough for the question. */
static void test_turbo(void) {
    const mx_released *turbo = mx_released_find("turbo"), *large = mx_released_find("large-v3");
    mxw_session_options o = kit_short_options(2);
    mx_text *text = NULL;
    const char *language = "";
    CHECK_EQ_INT(mx_text_open(turbo->dims.n_vocab, &text), MXW_OK);
    mxw_checkpoint_info info = {.dims = &turbo->dims, .size_name = mx_released_match(&turbo->dims, "x.pt")->name,
                                .multilingual = 1, .n_languages = 100};
    o.task = MXW_TRANSLATE;
    CHECK_EQ_INT(mx_session_check_language(&info, text, &o, &language), MXW_E_ARGUMENT);
    CHECK(strstr(mxw_last_error(), "task") && strstr(mxw_last_error(), "turbo"));
    info.size_name = large->name;
    CHECK_EQ_INT(mx_session_check_language(&info, text, &o, &language), MXW_OK);
    CHECK(language == NULL);
    info.size_name = turbo->name;
    o.task = MXW_TRANSCRIBE;
    o.language = "cantonese";
    CHECK_EQ_INT(mx_session_check_language(&info, text, &o, &language), MXW_OK);
    CHECK_STR(language, "yue");
    mx_text_close(text);
}

static void test_option_refusals(void) {
    static const char *const clips[] = {"x", "1,", ",1", "1,,2", "-1", "1;2", "nan", "inf", "1e12", "0,1 2"};
    static const char *const suppressed[] = {"x", "1,x", "51864", "-2", "1,,2", ",", "99999999999999999999", "1 2"};
    for (size_t i = 0; i < MX_COUNT(clips); i++)
        REFUSED(english, clip_timestamps, clips[i]);
    for (size_t i = 0; i < MX_COUNT(suppressed); i++)
        REFUSED(english, suppress_tokens, suppressed[i]);
    REFUSED(english, temperature, -0.1);
    REFUSED(english, temperature, NAN);
    REFUSED(english, temperature, INFINITY);
    REFUSED(english, temperature_increment, 0);
    REFUSED(english, temperature_increment, -0.2);
    REFUSED(english, best_of, -1);
    REFUSED(english, best_of, 100000);
    REFUSED(english, beam_size, -1);
    REFUSED(english, beam_size, 100000);
    REFUSED(english, patience, -1.0);
    REFUSED(english, patience, 1e-9);
    REFUSED(english, length_penalty, 1.5);
    REFUSED(english, repetition_penalty, 0);
    REFUSED(english, repetition_penalty, NAN);
    REFUSED(english, no_repeat_ngram_size, -1);
    REFUSED(english, no_repeat_ngram_size, 449);
    REFUSED(english, sample_len, -1);
    REFUSED(english, sample_len, 449);
    REFUSED(english, max_initial_timestamp, 31);
    REFUSED(english, no_speech_threshold, NAN);
    REFUSED(english, compression_ratio_threshold, NAN);
    REFUSED(english, logprob_threshold, INFINITY);
    REFUSED(english, speaker, "left\n");
    REFUSED(english, speaker, "a --> b");
    REFUSED(english, start_s, -0.5);
    REFUSED(english, start_s, NAN);
    REFUSED(english, task, (mxw_task)7);
    REFUSED(english, mel_reference, (mxw_mel_reference)2);
    REFUSED(english, initial_prompt, "a <|endoftext|> b");
    REFUSED(english, prefix, "<|nospeech|>");
    REFUSED(english, prefix, "\xff");
    mxw_session_options o = kit_short_options(2);
    o.patience = 2;   /* without a beam */
    refused(english, &o, "patience");
    o = kit_short_options(2);
    o.struct_size = 3;
    refused(english, &o, "mxw_session_options");
}

static void test_long_texts(void) {
    mx_str words = {0};
    mx_str json = {0};
    for (int i = 0; i < 400; i++)
        mx_str_print(&words, "word ");
    REFUSED(english, prefix, mx_str_get(&words));
    mxw_session_options o = kit_short_options(4);   /* a prompt is cut to what fits, as the reference cuts it */
    o.initial_prompt = mx_str_get(&words);
    o.carry_initial_prompt = 1;
    CHECK_EQ_INT(kit_transcribe(english, &o, samples, 3 * MXW_SAMPLE_RATE, &json), MXW_OK);
    o.prefix = "few words";
    o.sample_len = 300;
    CHECK_EQ_INT(kit_transcribe(english, &o, samples, 3 * MXW_SAMPLE_RATE, &json), MXW_OK);
    mx_str_free(&json);
    mx_str_free(&words);
}

/* ---- clips ------------------------------------------------------------------------------------------------ */

static void test_clips(void) {
    mxw_session_options o = kit_short_options(4);
    o.clip_timestamps = "10,12.5,40,45,44,46,99";
    mxw_session *session = open_session(english, &o);
    CHECK_EQ_INT(kit_run(session, samples, N_SAMPLES, 0), MXW_END);
    const mxw_result *result = mxw_session_result(session);
    CHECK(result && result->n_segments >= 2);
    for (size_t i = 0; result && i < result->n_segments; i++) {
        int64_t seek = mxw_result_segment(result, i)->seek;
        CHECK((seek >= 1000 && seek < 1250) || (seek >= 4000 && seek < 4600));
    }
    mxw_session_close(session);
}

/* A recording that begins at 1.5 s of its container: the same segments, all times and clips shifted by 1.5 s.
 * A channel and a speaker are passed through. */
static void test_start(void) {
    mxw_session_options o = kit_short_options(6), late = o;
    o.clip_timestamps = "2.5,33,40,44";
    late.clip_timestamps = "4,34.5,41.5,45.5";
    late.start_s = 1.5;
    late.channel = 2;
    late.speaker = "right";
    mxw_session *plain = open_session(english, &o), *moved = open_session(english, &late);
    CHECK_EQ_INT(kit_run(plain, samples, N_SAMPLES, 0), MXW_END);
    CHECK_EQ_INT(kit_run(moved, samples, N_SAMPLES, 0), MXW_END);
    const mxw_result *a = mxw_session_result(plain), *b = mxw_session_result(moved);
    if (CHECK(a && b && a->n_segments > 1 && a->n_segments == b->n_segments)) {
        CHECK_STR(b->text, a->text);
        for (size_t i = 0; i < a->n_segments; i++) {
            const mxw_segment *x = mxw_result_segment(a, i), *y = mxw_result_segment(b, i);
            CHECK(x->seek == y->seek && strcmp(x->text, y->text) == 0);
            CHECK(x->channel == 0 && !x->speaker && y->channel == 2 && strcmp(y->speaker, "right") == 0);
            CHECK(fabs(y->start - x->start - 1.5) < 1e-9 && fabs(y->end - x->end - 1.5) < 1e-9);
        }
    }
    mxw_session_close(plain);
    mxw_session_close(moved);
    late.clip_timestamps = "0,1";   /* over before the recording begins */
    moved = open_session(english, &late);
    CHECK_EQ_INT(kit_run(moved, samples, N_SAMPLES, 0), MXW_END);
    b = mxw_session_result(moved);
    CHECK(b && b->n_segments == 0);
    mxw_session_close(moved);
}

/* A locale with a decimal comma changes neither the parsing of options nor the json. */
static void test_comma_locale(void) {
    char command[8192];
    mx_str plain = {0}, comma = {0};
    mxw_session_options o = kit_short_options(4);
    o.clip_timestamps = "2.5,4.75";
    snprintf(command, sizeof(command), "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >/dev/null 2>&1", folder);
    setenv("LOCPATH", folder, 1);
    if (system(command) < 0 || !setlocale(LC_ALL, "de_DE.UTF-8")) {
        printf("no locale with a decimal comma could be made: not tried\n");
        return;
    }
    CHECK_STR(localeconv()->decimal_point, ",");
    CHECK_EQ_INT(kit_transcribe(english, &o, samples, 6 * MXW_SAMPLE_RATE, &comma), MXW_OK);
    setlocale(LC_ALL, "C");
    CHECK_EQ_INT(kit_transcribe(english, &o, samples, 6 * MXW_SAMPLE_RATE, &plain), MXW_OK);
    CHECK(strstr(mx_str_get(&plain), "\"seek\": 250") != NULL);
    CHECK_STR(mx_str_get(&comma), mx_str_get(&plain));
    mx_str_free(&plain);
    mx_str_free(&comma);
}

int main(int argc, char **argv) {
    if (argc > 1)
        kit_on("pipeline", argv[1]);
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    mxw_dims small_english = kit_dims(51864, 32, 2, 1), small_multilingual = kit_dims(51865, 16, 1, 2);
    samples = mx_alloc_array(N_SAMPLES, sizeof(*samples));
    english = open_model("english.pt", &small_english);
    multilingual = open_model("multilingual.pt", &small_multilingual);
    if (CHECK(samples && english && multilingual)) {
        kit_samples(9, 0, N_SAMPLES, samples);
        test_pieces();
        test_file_mode();
        test_running_mode();
        test_empty();
        test_bad_samples();
        test_callbacks();
        test_abort();
        test_language_refusals();
        test_turbo();
        test_option_refusals();
        test_long_texts();
        test_clips();
        test_start();
        test_comma_locale();
    }
    mxw_model_close(english);
    mxw_model_close(multilingual);
    mx_free(samples);
    CHECK_EQ_INT(mx_mem_live(), 0);
    gen_remove(folder);
    return check_done();
}
