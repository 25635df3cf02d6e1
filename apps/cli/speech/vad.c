/* cli/speech/vad.c - `vad`: where in recordings somebody speaks. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/json_writer.h"
#include "common/vad_options.h"
#include "speech/recordings.h"

typedef struct vad_options {
    common_options common;
    recordings_options listen;
    int probabilities;
    const char *vad_model, *model_dir;
    double vad_threshold, vad_neg_threshold, vad_min_silence_ms, vad_min_speech_ms, vad_max_speech_s, vad_pad_ms;
} vad_options;

_Static_assert(sizeof(vad_options) <= MAX_OPTIONS_BYTES, "options fit where main keeps them");

#define AT(member) .target = offsetof(vad_options, member)

/* A table reads by rows. */
/* clang-format off */
static const option_row rows[] = {
    RECORDINGS_ROWS(vad_options, listen,
                    "text: a line for each region, as it is found; json: an object for each file; rttm; audacity: "
                    "labels to import there."),
    {.name = "probabilities", .kind = OPTION_FLAG, .fallback = "False", .group = "Output", AT(probabilities),
     .help = "Print the probability of each chunk of 32 ms instead of regions; in JSON, both."},
    VAD_ROWS(vad_options, "Detection", VAD_SHORT, "100", "250", "30"),
    {.name = "vad-neg-threshold", .peers = "neg-threshold vad-offset", .kind = OPTION_NUMBER, .fallback = "none",
     .placeholder = "X", .group = "Detection", AT(vad_neg_threshold), .low = 0.001, .high = 1, .none = 1,
     .none_value = MXW_NONE, .help = "Probability at which speech ends; none: 0.15 below --vad-threshold."},
    {.name = "model-dir", .kind = OPTION_NAME, .placeholder = "DIR", .group = "Detection", AT(model_dir),
     .help = "Folder with models (default: $MAX_WHISPER_MODELS, otherwise the per-user cache)."},
    COMMON_ROWS,
    {.name = NULL},
};
/* clang-format on */

typedef struct detector {
    const vad_options *options;
    double thresholds[2];
    mxw_vad *vad;
} detector;

/* ---- one recording -------------------------------------------------------------------------------------- */

static mxw_status take_probabilities(detector *d, hearing *heard) {
    float values[1024];
    size_t got = 0;
    if (!d->options->probabilities && !d->options->listen.plot)
        return MXW_OK;
    do {
        mxw_status status = mxw_vad_probabilities(d->vad, values, sizeof(values) / sizeof(*values), &got);
        if (status < 0)
            return status;
        if (!hearing_add_probabilities(heard, values, got))
            return MXW_E_MEMORY;
    } while (got);
    return MXW_OK;
}

static mxw_status take_regions(detector *d, hearing *heard) {
    mxw_vad_region region = {.struct_size = sizeof(region)};
    mxw_status status;
    while ((status = mxw_vad_next(d->vad, &region)) == MXW_OK) {
        hearing_region found = {.start = heard->start_s + region.start_s, .end = heard->start_s + region.end_s,
                                .first = region.first, .after = region.end};
        if (!hearing_add(heard, &found))
            return MXW_E_MEMORY;
    }
    return status;
}

static mxw_status listen(void *user, recordings_source *source) {
    detector *d = user;
    hearing *heard = source->heard;
    float samples[MXW_SAMPLE_RATE];
    size_t got = 0;
    mxw_status status;
    mxw_vad_reset(d->vad);
    heard->chunk_s = (double)mxw_vad_chunk(d->vad) / MXW_SAMPLE_RATE;
    heard->tells_probabilities = d->options->probabilities;
    do {
        status = recordings_read(source, samples, MXW_SAMPLE_RATE, &got);
        if (status >= 0)
            status = got ? mxw_vad_feed(d->vad, samples, got) : mxw_vad_finish(d->vad);
        if (status >= 0)
            status = take_regions(d, heard);
        recordings_show(source);
        if (status >= 0)
            status = take_probabilities(d, heard);
    } while (status >= 0 && got);
    return status < 0 ? status : MXW_OK;
}

/* ---- words about it ------------------------------------------------------------------------------------- */

static void sum_up(const hearing *heard, char *text, size_t size) {
    double speech = hearing_speech(heard, NULL), share = heard->duration_s > 0 ? speech / heard->duration_s : 0;
    char spoken[40], whole[40];
    hearing_duration(speech, spoken, sizeof(spoken));
    hearing_duration(heard->duration_s, whole, sizeof(whole));
    snprintf(text, size, "%zu %s, %s of speech in %s (%.0f %%)", heard->n_regions,
             heard->n_regions == 1 ? "region" : "regions", spoken, whole, 100 * share);
}

static void describe(const void *user, char *text, size_t size) {
    const detector *d = user;
    const vad_options *o = d->options;
    char most[48] = "";
    if (o->vad_max_speech_s != MXW_NONE)
        snprintf(most, sizeof(most), ", at most %g s", o->vad_max_speech_s);
    snprintf(text, size,
             "speech from %g on, until below %g; pauses from %g ms, speech from %g ms%s, %g ms added around",
             d->thresholds[0], d->thresholds[1], o->vad_min_silence_ms, o->vad_min_speech_ms, most, o->vad_pad_ms);
}

static void add_options(const void *user, json_writer *json) {
    const detector *d = user;
    const vad_options *o = d->options;
    json_begin(json, "options");
    json_text(json, "model", o->vad_model ? o->vad_model : MXW_VAD_MODEL);
    json_number(json, "threshold", d->thresholds[0], 4);
    json_number(json, "neg_threshold", d->thresholds[1], 4);
    json_number(json, "min_silence_ms", o->vad_min_silence_ms, 3);
    json_number(json, "min_speech_ms", o->vad_min_speech_ms, 3);
    if (o->vad_max_speech_s == MXW_NONE)
        json_text(json, "max_speech_s", NULL);
    else
        json_number(json, "max_speech_s", o->vad_max_speech_s, 3);
    json_number(json, "pad_ms", o->vad_pad_ms, 3);
    json_end(json);
}

/* ---- the command ---------------------------------------------------------------------------------------- */

static int open_detector(void *user) {
    detector *d = user;
    const vad_options *o = d->options;
    mxw_vad_options options;
    mxw_vad_options_default(&options);
    options.model = o->vad_model;
    options.model_dir = o->model_dir;
    options.threshold = o->vad_threshold;
    options.neg_threshold = o->vad_neg_threshold;
    options.min_silence_ms = o->vad_min_silence_ms;
    options.min_speech_ms = o->vad_min_speech_ms;
    options.max_speech_s = o->vad_max_speech_s;
    options.pad_ms = o->vad_pad_ms;
    mxw_status status = mxw_vad_open(&options, &d->vad);
    if (status >= 0)
        return EXIT_OK;
    log_failure(NULL, status);
    return status == MXW_E_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
}

static int run(const void *chosen, char **words, int n_words) {
    const vad_options *o = chosen;
    detector d = {.options = o, .thresholds = {o->vad_threshold, o->vad_neg_threshold}};
    if (o->vad_neg_threshold == MXW_NONE)
        d.thresholds[1] = o->vad_threshold - 0.15 > 0.01 ? o->vad_threshold - 0.15 : 0.01;
    if (d.thresholds[1] > d.thresholds[0]) {
        log_error("--vad-neg-threshold: %g is above --vad-threshold (%g)", d.thresholds[1], d.thresholds[0]);
        return EXIT_USAGE;
    }
    if (o->probabilities && (o->listen.format == HEARING_RTTM || o->listen.format == HEARING_AUDACITY)) {
        log_error("--probabilities: --format %s has no place for them; use text or json",
                  hearing_format_names[o->listen.format]);
        return EXIT_USAGE;
    }
    recordings_job job = {.common = &o->common, .options = &o->listen, .kind = "vad", .user = &d, .listen = listen,
                      .extra = add_options, .sum_up = sum_up, .describe = describe, .thresholds = d.thresholds};
    int exit_status = recordings_run(&job, open_detector, words, n_words);
    mxw_vad_close(d.vad);
    return exit_status;
}

const command command_vad = {
    .arguments = "FILE...",
    .min_words = 1,
    .max_words = INT_MAX,
    .word_name = "an audio or video file",
    .summary = "Find the speech in recordings.",
    .details = "FILE is any audio or video file, a folder of them, a pattern like '*.mp3', or - for standard input. "
               "Prints each region of speech as [mm:ss.mmm --> mm:ss.mmm]. The network is Silero VAD 6, with its own "
               "parameters and defaults; its weights are fetched with 'max-whisper model fetch silero-vad'.",
    .options = rows,
    .options_size = sizeof(vad_options),
    .run = run,
};
