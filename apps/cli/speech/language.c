/* cli/speech/language.c - `language`: the languages of recordings over time, without their text. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json_writer.h"
#include "common/model.h"
#include "common/progress.h"
#include "common/vad_options.h"
#include "speech/recordings.h"

typedef struct language_options {
    common_options common;
    recordings_options listen;
    model_choice model;
    const char *languages;
    const char *vad_model;
    double vad_threshold, vad_min_silence_ms, vad_min_speech_ms, vad_max_speech_s, vad_pad_ms;
} language_options;

_Static_assert(sizeof(language_options) <= MAX_OPTIONS_BYTES, "options fit where main keeps them");

#define AT(member) .target = offsetof(language_options, member)

/* A table reads by rows. */
/* clang-format off */
static const option_row rows[] = {
    {.name = "languages", .kind = OPTION_TEXT, .fallback = "any", .placeholder = "LIST|any", .group = "Language",
     AT(languages), .check = check_languages, .values = languages_value,
     .help = "Decide among these, as codes or names (en,de,uk), or among all that the model knows."},
    RECORDINGS_ROWS(language_options, listen,
                    "text: a line for each stretch of speech; json: an object for each file; rttm; audacity: labels to "
                    "import there."),
    {.name = "model", .letter = 'm', .kind = OPTION_NAME, .fallback = "base", .placeholder = "NAME|PATH",
     .group = "Model and device", AT(model.model), .values = model_value,
     .help = "Multilingual model (see model list), checkpoint file, or the folder that holds it."},
    MODEL_DIR_ROW(language_options, model.model_dir),
    ENGINE_ROWS(language_options, model.engine, model.device, model.threads, model.precision),
    VAD_ROWS(language_options, "Detection of speech", VAD_LONG, "2000", "0", "400"),
    COMMON_ROWS,
    {.name = NULL},
};
/* clang-format on */

typedef struct listener {
    const language_options *options;
    mxw_model *model;
} listener;

/* ---- one recording -------------------------------------------------------------------------------------- */

static mxw_status open_session(const listener *l, const hearing *heard, mxw_session **session) {
    const language_options *o = l->options;
    mxw_session_options options;
    mxw_session_options_default(&options);
    options.languages = o->languages;
    options.start_s = heard->start_s;
    options.vad_model = o->vad_model;
    options.vad_threshold = o->vad_threshold;
    options.vad_min_silence_ms = o->vad_min_silence_ms;
    options.vad_min_speech_ms = o->vad_min_speech_ms;
    options.vad_max_speech_s = o->vad_max_speech_s;
    options.vad_pad_ms = o->vad_pad_ms;
    return mxw_session_open(l->model, &options, session);
}

static mxw_status feed(mxw_session *session, recordings_source *source) {
    float samples[MXW_SAMPLE_RATE];
    size_t got = 0;
    mxw_status status;
    do {
        status = recordings_read(source, samples, MXW_SAMPLE_RATE, &got);
        if (status >= 0 && got)
            status = mxw_session_feed(session, samples, got);
    } while (status >= 0 && got);
    return status < 0 ? status : mxw_session_finish(session);
}

/* The session's strings go with it; the tables' stay. */
static const char *lasting_code(const char *code) {
    for (int i = 0; mxw_language_code(i); i++)
        if (!strcmp(mxw_language_code(i), code))
            return mxw_language_code(i);
    return "";
}

static mxw_status take_regions(mxw_session *session, hearing *heard) {
    const mxw_result *result = mxw_session_result(session);
    for (size_t i = 0; result && i < result->n_regions; i++) {
        const mxw_region *region = mxw_result_region(result, i);
        hearing_region found = {.start = region->start, .end = region->end, .probability = region->probability};
        found.language = region->language ? lasting_code(region->language) : NULL;
        if (!hearing_add(heard, &found))
            return MXW_E_MEMORY;
    }
    return result ? MXW_OK : MXW_E_MEMORY;
}

static mxw_status listen(void *user, recordings_source *source) {
    mxw_session *session = NULL;
    mxw_status status = open_session(user, source->heard, &session);
    if (status >= 0)
        status = feed(session, source);
    if (status >= 0) {
        progress_note("deciding on languages");
        status = mxw_session_detect_languages(session);
    }
    if (status >= 0)
        status = take_regions(session, source->heard);
    mxw_session_close(session);
    return status;
}

/* ---- words about it ------------------------------------------------------------------------------------- */

/* By their share of the speech: the one with most of what is left, after a bound; NULL: no more. */
static const char *next_language(const hearing *heard, double below, const char *after) {
    const char *best = NULL;
    double most = -1;
    for (size_t i = 0; i < heard->n_regions; i++) {
        const char *code = heard->regions[i].language;
        double seconds = code ? hearing_speech(heard, code) : -1;
        int later = seconds < below || (seconds == below && after && strcmp(code, after) > 0);
        if (code && later && (seconds > most || (seconds == most && strcmp(code, best) < 0)))
            best = code, most = seconds;
    }
    return best;
}

static void sum_up(const hearing *heard, char *text, size_t size) {
    double all = hearing_speech(heard, NULL);
    const char *code = next_language(heard, INFINITY, NULL);
    size_t used = 0;
    char spoken[40];
    if (!code) {
        snprintf(text, size, "no speech");
        return;
    }
    for (int i = 0; code && used < size; i++) {
        double seconds = hearing_speech(heard, code);
        used += (size_t)snprintf(text + used, size - used, "%s%s %.0f %%", i ? ", " : "", hearing_language_name(code),
                                 all > 0 ? 100 * seconds / all : 0.0);
        code = next_language(heard, seconds, code);
    }
    hearing_duration(all, spoken, sizeof(spoken));
    if (used < size)
        snprintf(text + used, size - used, " of %s of speech", spoken);
}

static void describe(const void *user, char *text, size_t size) {
    const language_options *o = ((const listener *)user)->options;
    snprintf(text, size, "decided by the model %s among %s, for each stretch of speech", o->model.model,
             strcmp(o->languages, "any") ? o->languages : "all languages");
}

static void add_options(const void *user, json_writer *json) {
    const language_options *o = ((const listener *)user)->options;
    json_text(json, "model", o->model.model);
    json_text(json, "languages", o->languages);
}

/* ---- the command ---------------------------------------------------------------------------------------- */

/* Options that the model cannot take (a language it lacks) are refused once, before the first recording. */
static int open_listener(void *user) {
    listener *l = user;
    mxw_session *session = NULL;
    hearing none = {0};
    int exit_status = open_model(&l->options->model, 1, &l->model);
    if (exit_status != EXIT_OK)
        return exit_status;
    mxw_status status = open_session(l, &none, &session);
    mxw_session_close(session);
    if (status >= 0)
        return EXIT_OK;
    log_failure(NULL, status);
    return status == MXW_E_ARGUMENT || status == MXW_E_UNSUPPORTED ? EXIT_USAGE : EXIT_FAILED;
}

static int run(const void *chosen, char **words, int n_words) {
    const language_options *o = chosen;
    listener l = {.options = o};
    recordings_job job = {.common = &o->common, .options = &o->listen, .kind = "language", .user = &l, .listen = listen,
                      .extra = add_options, .sum_up = sum_up, .describe = describe};
    int exit_status = recordings_run(&job, open_listener, words, n_words);
    mxw_model_close(l.model);
    return exit_status;
}

const command command_language = {
    .arguments = "FILE...",
    .min_words = 1,
    .max_words = INT_MAX,
    .word_name = "an audio or video file",
    .summary = "Tell which languages are spoken in recordings, and when.",
    .details = "FILE is any audio or video file, a folder of them, a pattern like '*.mp3', or - for standard input. "
               "Prints each stretch of speech as [mm:ss.mmm --> mm:ss.mmm] with the code of its language, the "
               "probability and the name. Nothing is transcribed.",
    .options = rows,
    .options_size = sizeof(language_options),
    .run = run,
};
