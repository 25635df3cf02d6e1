/* cli/live/live.c - `live`: text while people speak.
 *
 * The source reads on a thread of its own; this one feeds the model and takes its events. Ctrl-C, the end of the sound
 * and a failure end the same way: everything that was heard becomes text, and everything is written. */
#include <stdio.h>
#include <string.h>

#include "common/stdout.h"
#include "live/page.h"
#include "live/result_files.h"
#include "live/show.h"
#include "live/sound_file.h"
#include "live/stop.h"
#include "transcribe/inputs.h"

_Static_assert(sizeof(live_options) <= MAX_OPTIONS_BYTES, "options fit where main keeps them");

enum { BLOCK_SAMPLES = MXW_SAMPLE_RATE / 10, MOST_SAMPLES = MXW_SAMPLE_RATE, WAIT_MS = 50 };

typedef struct stream {
    const live_options *options;
    source_options chosen;
    sound_source *source;
    mxw_model *model;
    mxw_live *live;
    show shown;
    result_files files;
    sound_file sound;
    int virtual_time; /* --pace 0: the clock is that of the sound */
    double fed_s;
    int stopped;      /* the source was told */
    int failed;       /* something was said about it */
    char ending[96];  /* the note on the page */
} stream;

static double sound_clock(void *user) { return ((const stream *)user)->fed_s; }

/* ---- opening -------------------------------------------------------------------------------------------- */

static int open_live(stream *s) {
    mxw_session_options decoding;
    mxw_live_options options;
    const live_options *o = s->options;
    live_decoding(o, &decoding);
    mxw_live_options_default(&options);
    options.decoding = &decoding;
    options.policy = (mxw_live_policy)o->policy;
    options.pause_ms = o->pause_ms;
    options.step_ms = o->step_ms;
    options.keep_result = o->output_dir != NULL;
    options.user = s;
    if (s->virtual_time)
        options.now = sound_clock;
    mxw_status status = mxw_live_open(s->model, &options, &s->live);
    if (status >= 0)
        return EXIT_OK;
    log_failure(NULL, status);
    return status == MXW_E_ARGUMENT || status == MXW_E_UNSUPPORTED ? EXIT_USAGE : EXIT_FAILED;
}

/* The file that is heard must not be the one that is written. */
static int check_save(const stream *s) {
    const char *path = s->options->save_audio, *heard = source_path(&s->chosen);
    if (!path || !heard || !inputs_is(path, heard))
        return 1;
    log_error("--save-audio: %s is the file that is heard", path);
    return 0;
}

/* What fails fast comes first: the microphone or the file, then the model, then what is written. */
static int open_all(stream *s) {
    if (!check_save(s))
        return EXIT_USAGE;
    s->source = source_open(&s->chosen);
    if (!s->source)
        return EXIT_FAILED;
    if (s->chosen.kind != SOURCE_PIPE && source_wait(s->source) == SOURCE_FAILED) {
        log_error("%s", source_error(s->source));
        return EXIT_FAILED;
    }
    int exit_status = open_model(&s->options->model, 1, &s->model);
    if (exit_status == EXIT_OK)
        exit_status = open_live(s);
    if (exit_status != EXIT_OK)
        return exit_status;
    return result_files_open(&s->files, s->options, &s->chosen, s->model) &&
                   sound_file_open(&s->sound, s->options->save_audio)
               ? EXIT_OK
               : EXIT_FAILED;
}

/* ---- hearing -------------------------------------------------------------------------------------------- */

static int fail(stream *s, mxw_status status) {
    if (!s->failed)
        log_failure(NULL, status);
    s->failed = 1;
    return 0;
}

/* Everything that is ready. 0: it failed. */
static int take_events(stream *s) {
    const mxw_live_event *event;
    mxw_status status;
    while ((status = mxw_live_next(s->live, &event)) == MXW_OK) {
        show_event(&s->shown, event);
        s->files.changed |= event->kind == MXW_LIVE_FINAL;
    }
    return status < 0 ? fail(s, status) : 1;
}

static int hear(stream *s, const float *samples, const source_block *block) {
    if (!sound_file_add(&s->sound, samples, block->n) || !sound_file_gap(&s->sound, block->gap_s))
        s->failed = 1; /* said; the text goes on */
    if (block->rate)
        show_rate(&s->shown, s->fed_s, block->rate);
    s->fed_s += (double)block->n / MXW_SAMPLE_RATE + block->gap_s;
    s->shown.slow = block->slow;
    mxw_status status = block->gap_s > 0 ? mxw_live_gap(s->live, block->gap_s) : MXW_OK;
    if (status >= 0)
        status = mxw_live_feed(s->live, samples, block->n);
    if (status < 0)
        fail(s, status);
    return take_events(s) && status >= 0; /* what was ready before a failure, too */
}

static void tell_ending(stream *s) {
    source_view view;
    source_look(s->source, &view);
    int n = snprintf(s->ending, sizeof(s->ending), "ending");
    if (!s->virtual_time && view.waiting_s >= 1)
        snprintf(s->ending + n, sizeof(s->ending) - (size_t)n, ": %.0f s that have come are still to be heard",
                 view.waiting_s);
    n = (int)strlen(s->ending);
    snprintf(s->ending + n, sizeof(s->ending) - (size_t)n, "; Ctrl-C again stops at once");
    if (s->shown.form == SHOW_PAGE)
        page_note(s->ending);
    else
        log_note("%s", s->ending);
}

/* After Ctrl-C nothing more is read, and what has come until then is heard: all that is in the queue. With --pace 0
 * that was read ahead of its time, and is not. The end of standard output is one as well, for the sake of the files. */
static int must_leave(stream *s) {
    int writes_files = s->options->output_dir || s->sound.path;
    if (out_failed() && !writes_files)
        return 1;
    if ((!stop_wanted() && !out_failed()) || s->stopped)
        return 0;
    source_stop(s->source);
    s->stopped = 1;
    if (!out_failed())
        tell_ending(s);
    return s->virtual_time;
}

static void hear_all(stream *s) {
    static float samples[MOST_SAMPLES];
    size_t most = s->virtual_time ? BLOCK_SAMPLES : MOST_SAMPLES; /* equal blocks: the same events every time */
    source_state state = SOURCE_OPEN;
    while (state == SOURCE_OPEN && !must_leave(s)) {
        source_block block;
        state = source_take(s->source, samples, most, s->virtual_time, WAIT_MS, &block);
        if ((block.n || block.gap_s > 0 || block.rate) && !hear(s, samples, &block))
            return;
        if (!result_files_save(&s->files, s->live, 0))
            s->failed = 1;
    }
    if (state == SOURCE_FAILED) {
        log_error("%s", source_error(s->source));
        s->failed = 1;
    }
    mxw_status status = mxw_live_finish(s->live);
    if (status < 0)
        fail(s, status);
    take_events(s);
}

static void tell(const stream *s) {
    mxw_live_stats stats = {.struct_size = sizeof(stats)};
    result_files_tell(&s->files);
    if (s->sound.path)
        log_note("wrote %s", s->sound.path);
    if (mxw_live_get_stats(s->live, &stats) >= 0 && !stats.n_words)
        log_note("no speech was heard in %.1f s", stats.fed_s);
}

static int run_stream(stream *s) {
    show_form form = show_choose(s->options);
    stop_catch(form == SHOW_PAGE);
    show_open(&s->shown, form, s->source, !s->virtual_time);
    source_begin(s->source);
    hear_all(s);
    show_close(&s->shown);
    if (!result_files_save(&s->files, s->live, 1) || !sound_file_close(&s->sound))
        s->failed = 1;
    tell(s);
    return s->failed || out_failed() ? EXIT_FAILED : EXIT_OK;
}

/* ---- the command ---------------------------------------------------------------------------------------- */

static void print_microphone(void *user, const char *device, const char *description, int is_default) {
    int *n = user;
    out_print("%-40s %s%s\n", device, description, is_default ? " (default)" : "");
    ++*n;
}

static int list_microphones(void) {
    int n = 0;
    mxw_status status = mxw_audio_list_devices(print_microphone, &n);
    if (status < 0)
        log_failure(NULL, status);
    else if (!n)
        log_error("no microphones were found: neither PulseAudio, PipeWire nor ALSA lists any");
    return status >= 0 && n ? EXIT_OK : EXIT_FAILED;
}

static int run(const void *chosen, char **words, int n_words) {
    stream s = {.options = chosen, .sound = {.fd = -1}};
    if (s.options->list_microphones)
        return list_microphones();
    if (!live_choose(s.options, words, n_words, &s.chosen))
        return EXIT_USAGE;
    s.virtual_time = s.options->pace == 0;
    int exit_status = open_all(&s);
    if (exit_status == EXIT_OK)
        exit_status = run_stream(&s);
    mxw_live_close(s.live);
    mxw_model_close(s.model);
    source_close(s.source);
    return exit_status;
}

const command command_live = {
    .arguments = "[FILE|-]",
    .max_words = 1,
    .summary = "Transcribe while people speak: a microphone, a pipe, or a file that is replayed.",
    .details = "Without FILE the microphone is heard; - is standard input: any audio, or plain samples with --rate, "
               "--sample-format or --channels; FILE is replayed at its own pace. In a terminal final text scrolls, and "
               "what may still change is grey in the last line. Elsewhere each sentence is a line, or with --format "
               "jsonl each event a JSON object. Ctrl-C ends the utterance and writes the rest. Speech is found with "
               "the weights of 'max-whisper model fetch silero-vad'.",
    .options = live_rows,
    .options_size = sizeof(live_options),
    .run = run,
};
