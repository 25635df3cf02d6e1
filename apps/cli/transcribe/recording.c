/* cli/transcribe/recording.c - feeds one recording to a session and puts what comes out where it was asked for. */
#include "transcribe/recording.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/progress.h"
#include "common/stdout.h"
#include "transcribe/journal.h"
#include "transcribe/outputs.h"
#include "transcribe/session_slots.h"
#include "transcribe/stats.h"

/* What standard output gets. */
typedef enum screen_form { SCREEN_NOTHING, SCREEN_LINES, SCREEN_JSON_LINES, SCREEN_TEXT, SCREEN_FORMAT } screen_form;

typedef struct recording {
    recording_batch *batch;
    const transcribe_options *options;
    int place;
    const input *in;
    const char *path; /* in->path */
    const char *name; /* as it is told to people */
    screen_form screen;
    int told_language; /* if it was detected */
    int has_slot; /* may have a session open */
    mxw_session *session;
    struct split *split; /* the channels that this is one of, or NULL */
    int channel;         /* of those */
    char speaker[24];
    const char *manifest; /* of its channels */
    int in_text;        /* windows are being decoded, ... */
    int window_ended;   /* ... and one ended after a signal came */
    journal *journal;   /* with --resume */
    int n_resumed;      /* windows that were taken from it */
    double resumed_s;   /* how far they reach */
    int told;           /* why it failed */
    char **failure;     /* the last error that was told */
} recording;

static atomic_int caught_signal;
static atomic_int waits_for_input; /* reading a pipe, perhaps for ever */

void recording_interrupt(int signal_number) { caught_signal = signal_number; }

int recording_interrupted(void) { return caught_signal; }

int recording_waits_for_input(void) { return waits_for_input; }

/* A recording whose channels are transcribed one by one, some of them at once. */
typedef struct split {
    const recording *whole;
    int n_channels;
    pthread_mutex_t lock;
    int next;          /* channel to take */
    mxw_merge *merge;
    double *done_s;    /* [n_channels] */
    char *manifest;    /* of the first channel that ended, where a result tells it */
    journal **journals; /* [n_channels], until all are delivered */
    int n_resumed;      /* windows that were taken from them */
    atomic_int failed; /* the first failure, which alone is told */
} split;

static int is_standard_input(const char *path) { return !strcmp(path, "-"); }

static int must_stop(const recording_batch *batch) { return caught_signal || out_failed() || batch->stopped; }

/* A signal lets windows come to their end. */
static int must_stop_now(const recording_batch *batch) { return out_failed() || (batch->stopped && !caught_signal); }

/* ---- timed lines ---------------------------------------------------------------------------------------- */

void recording_timestamp(char *out, size_t size, double seconds) {
    long long ms = seconds > 0 && seconds < 1e12 ? llrint(seconds * 1000.0) : 0;
    long long hours = ms / 3600000;
    int n = hours ? snprintf(out, size, "%02lld:", hours) : 0;
    snprintf(out + n, size - (size_t)n, "%02lld:%02lld.%03lld", ms / 60000 % 60, ms / 1000 % 60, ms % 1000);
}

static int write_out(void *user, const void *bytes, size_t n) {
    recording *r = user;
    return ordered_write(r->batch->output, r->place, bytes, n);
}

static void write_text(recording *r, const char *text) { write_out(r, text, strlen(text)); }

static void print_line(recording *r, const mxw_segment *segment) {
    const char *text = segment->text ? segment->text : "";
    text += strspn(text, " \t\r\n");
    size_t n = strlen(text);
    while (n && strchr(" \t\r\n", text[n - 1]))
        n--;
    if (!n)
        return;
    char start[40], end[40], times[96];
    recording_timestamp(start, sizeof(start), segment->start);
    recording_timestamp(end, sizeof(end), segment->end);
    snprintf(times, sizeof(times), "[%s --> %s] ", start, end);
    ordered_begin(r->batch->output, r->place, r->name);
    write_text(r, times);
    if (segment->speaker) {
        char speaker[40];
        snprintf(speaker, sizeof(speaker), "[%s] ", segment->speaker);
        write_text(r, speaker);
    }
    for (size_t i = 0, line = 0; i < n; i = line + 1) { /* a newline inside would break "one segment, one line" */
        line = i + strcspn(text + i, "\r\n");
        line = line < n ? line : n;
        write_out(r, text + i, line - i);
        write_text(r, line < n ? " " : "");
    }
    write_text(r, "\n");
    ordered_flush(r->batch->output, r->place);
}

/* A segment that has come, where they are shown one by one. */
static void print_segment(recording *r, const mxw_segment *segment) {
    if (r->screen == SCREEN_LINES)
        print_line(r, segment);
    if (r->screen != SCREEN_JSON_LINES)
        return;
    mxw_segment_write(segment, write_out, r);
    ordered_flush(r->batch->output, r->place);
}

/* How far the recording is as a whole; 0 while its channels are only listened to. */
static int split_progress(split *s, int channel, mxw_progress *progress) {
    double done_s = 0;
    if (strcmp(progress->stage, "text"))
        return 0;
    pthread_mutex_lock(&s->lock);
    s->done_s[channel - 1] = progress->done_s;
    for (int i = 0; i < s->n_channels; i++)
        done_s += s->done_s[i] / s->n_channels;
    pthread_mutex_unlock(&s->lock);
    progress->done_s = done_s;
    return 1;
}

static void on_progress(void *user, const mxw_progress *progress) {
    recording *r = user;
    mxw_progress whole = *progress;
    int text = !strcmp(progress->stage, "text");
    if (text && caught_signal)
        r->window_ended = 1;
    if (text && !r->in_text)
        r->resumed_s = progress->done_s;
    if (!r->split || split_progress(r->split, r->channel, &whole))
        progress_update(r->place, &whole);
}

/* After a signal a window that has been begun is brought to its end: with --resume it is then not lost. */
static int should_abort(void *user) {
    const recording *r = user;
    if (caught_signal && !out_failed())
        return !r->in_text || r->window_ended;
    return must_stop_now(r->batch) || (r->split && atomic_load(&r->split->failed));
}

static void on_window(void *user, const void *record, size_t n) {
    recording *r = user;
    if (r->journal && !journal_add(r->journal, record, n)) {
        log_say(MXW_LOG_WARN, "%s: %s: cannot write: %s; going on without it", r->name, journal_name(r->journal),
                strerror(errno));
        journal_close(r->journal, 1);
        r->journal = NULL;
    }
}

/* Before the first line, so that a wrong guess is seen at once. */
static void tell_language(recording *r) {
    const mxw_result *result = r->told_language ? NULL : mxw_session_result(r->session);
    r->told_language = 1;
    if (!result || result->language_probability < 0 || !result->language)
        return;
    const char *name = result->language;
    for (int i = 0; mxw_language_code(i); i++)
        if (!strcmp(mxw_language_code(i), result->language))
            name = mxw_language_name(i);
    log_note("%s: language detected: %s (probability %.2f)", r->name, name, result->language_probability);
}

/* ---- results -------------------------------------------------------------------------------------------- */

static outputs_source source_of(const recording *r) {
    return (outputs_source){.options = r->options,
                            .in = r->in,
                            .name = r->name,
                            .model = r->batch->model,
                            .session = r->session,
                            .manifest = r->manifest};
}

/* json ends without a newline (as openai-whisper's file does): one is added where something follows it. */
static mxw_status print_result(recording *r, const mxw_result *result) {
    const char *format = r->screen == SCREEN_FORMAT ? r->options->format : "txt";
    if (r->screen == SCREEN_TEXT)
        ordered_begin(r->batch->output, r->place, r->name);
    mxw_write_options options;
    outputs_source source = source_of(r);
    mxw_status status = outputs_options(&source, format, &options);
    if (status >= 0)
        status = mxw_result_write_as(result, format, &options, write_out, r);
    if (status < 0 && !out_failed())
        log_failure(r->name, status);
    if (status >= 0 && !strcmp(format, "json") && (r->batch->several || isatty(STDOUT_FILENO)))
        write_text(r, "\n");
    ordered_flush(r->batch->output, r->place);
    return status;
}

static void print_stats(const recording *r, const mxw_result *result) {
    size_t length;
    char *line = stats_line(r->batch->model, r->path, result, r->options->resume ? r->n_resumed : -1, &length);
    if (line)
        ordered_report(r->batch->output, r->place, line, length);
    free(line);
}

static mxw_status deliver(recording *r, const mxw_result *result) {
    if (!result) {
        log_failure(r->name, MXW_E_INTERNAL);
        return MXW_E_INTERNAL;
    }
    mxw_status status = MXW_OK;
    outputs_source source = source_of(r);
    if (r->screen == SCREEN_FORMAT || r->screen == SCREEN_TEXT)
        status = print_result(r, result);
    if (status >= 0 && r->options->output_dir)
        status = outputs_save(&source, result);
    if (status >= 0 && r->options->stats)
        print_stats(r, result);
    return status;
}

/* ---- the session ---------------------------------------------------------------------------------------- */

/* Takes every segment that is ready: END or MORE, or a failure. */
static mxw_status take_segments(recording *r) {
    const mxw_segment *segment;
    mxw_status status;
    while ((status = mxw_session_next(r->session, &segment)) == MXW_OK && !must_stop_now(r->batch)) {
        tell_language(r);
        print_segment(r, segment);
    }
    return status == MXW_OK ? MXW_E_ABORTED : status;
}

/* There is one standard input at most: check_collisions saw to it. */
static void input_begins(const recording *r) {
    if (is_standard_input(r->path))
        waits_for_input = 1;
}

static void input_ends(const recording *r) {
    if (is_standard_input(r->path))
        waits_for_input = 0;
}

/* Live: each second of sound is fed as it comes, and what it brings is taken at once. */
static mxw_status feed_running(recording *r, mxw_audio *audio) {
    float samples[MXW_SAMPLE_RATE];
    for (;;) {
        size_t got = 0;
        input_begins(r);
        mxw_status status = mxw_audio_read(audio, samples, MXW_SAMPLE_RATE, &got);
        input_ends(r);
        if (status < 0)
            return status;
        if (!got)
            return MXW_OK;
        if (must_stop(r->batch))
            return MXW_E_ABORTED;
        status = mxw_session_feed(r->session, samples, got);
        if (status >= 0)
            status = take_segments(r);
        if (status < 0)
            return status;
    }
}

static mxw_status feed_all(recording *r, mxw_audio *audio) {
    input_begins(r);
    mxw_status status = mxw_session_feed_audio(r->session, audio);
    input_ends(r);
    return status;
}

/* What the journal has of this recording is not decoded again. */
static void resume(recording *r) {
    const void *record;
    size_t n;
    while (journal_next(r->journal, &record, &n)) {
        mxw_status status = mxw_session_replay(r->session, record, n);
        if (status < 0) {
            const char *why = mxw_last_error();
            log_say(MXW_LOG_WARN, "%s: %s is of another run (%s): %s", r->name, journal_name(r->journal), why,
                    r->n_resumed ? "not all of it is used" : "starting anew");
            journal_refuse(r->journal);
            break;
        }
        r->n_resumed++;
    }
    if (r->n_resumed) {
        char time[40];
        recording_timestamp(time, sizeof(time), r->resumed_s);
        log_note("%s: going on at %s, after %d windows that were done before", r->name, time, r->n_resumed);
        progress_resumed(r->place, r->resumed_s);
    }
}

static mxw_status run_session(recording *r, mxw_audio *audio) {
    r->in_text = r->options->mel_reference == MXW_MEL_RUNNING;
    mxw_status status = r->in_text ? feed_running(r, audio) : feed_all(r, audio);
    if (status >= 0)
        status = mxw_session_finish(r->session);
    if (status >= 0 && r->journal)
        resume(r);
    r->in_text = 1;
    if (status >= 0)
        status = take_segments(r);
    if (status >= 0)
        tell_language(r);
    if (!r->split)
        progress_end(r->place);
    return status;
}

/* Nothing more can be done, for this recording or any other; whoever finds out first says why. */
static int is_first_to_stop(recording_batch *batch, int exit_status) {
    pthread_mutex_lock(&batch->lock);
    int first = !batch->exit_status;
    if (first)
        batch->exit_status = exit_status;
    batch->stopped = 1;
    pthread_mutex_unlock(&batch->lock);
    return first;
}

/* The session's own refusals (a language the model lacks) hold for every recording, and are the command line's fault.
 */
static mxw_status open_session(recording *r, const mxw_audio *audio) {
    mxw_session_options session;
    mxw_audio_info info;
    transcribe_session_options(r->options, &session);
    if (mxw_audio_get_info(audio, &info) >= 0)
        session.start_s = info.start_s;
    if (r->split) {
        session.channel = r->channel;
        session.speaker = r->speaker;
    }
    session.user = r;
    session.on_progress = on_progress;
    session.should_abort = should_abort;
    if (r->journal)
        session.on_window = on_window;
    mxw_status status = mxw_session_open(r->batch->model, &session, &r->session);
    int usage = status == MXW_E_ARGUMENT || status == MXW_E_UNSUPPORTED;
    if (status < 0 && is_first_to_stop(r->batch, usage ? EXIT_USAGE : EXIT_FAILED))
        log_failure(NULL, status);
    return status;
}

static screen_form choose_screen(const transcribe_options *o) {
    if (o->format && !o->output_dir)
        return strcmp(o->format, "jsonl") ? SCREEN_FORMAT : SCREEN_JSON_LINES;
    if (o->format)
        return SCREEN_NOTHING;
    if (o->verbose == 1 && !(o->output_dir && o->common.quiet))
        return SCREEN_LINES;
    return o->output_dir ? SCREEN_NOTHING : SCREEN_TEXT;
}

static recording_end end_of(recording *r, mxw_status status) {
    if (status >= 0 && ordered_lost(r->batch->output, r->place)) {
        log_error("%s: out of memory: its text could not be kept until its turn", r->name);
        status = MXW_E_MEMORY;
    }
    if (status >= 0 && !out_failed())
        return RECORDING_DONE;
    if (!must_stop(r->batch))
        return RECORDING_FAILED;
    is_first_to_stop(r->batch, caught_signal ? 128 + caught_signal : EXIT_FAILED);
    return RECORDING_STOP;
}

static mxw_status open_audio(const recording *r, mxw_audio **audio) {
    mxw_audio_options options;
    transcribe_audio_options(r->options, r->path, r->channel, &options);
    input_begins(r);
    mxw_status status = mxw_audio_open(&options, audio);
    input_ends(r);
    return status;
}

static mxw_status open_journal(recording *r) {
    char path[PATH_MAX], message[PATH_MAX + 200];
    if (!r->options->resume)
        return MXW_OK;
    if (journal_path(r->options, r->in, r->split ? r->channel : 0, path, sizeof(path), message, sizeof(message)))
        r->journal = journal_open(path, message, sizeof(message));
    if (r->journal)
        return MXW_OK;
    log_error("%s: --resume: %s", r->name, message);
    r->told = 1;
    return MXW_E_IO;
}

/* The session and the journal stay open, for the result. */
static mxw_status run_recording(recording *r) {
    mxw_audio *audio = NULL;
    mxw_status status = open_audio(r, &audio);
    if (status >= 0)
        status = open_journal(r);
    if (status >= 0 && session_slots_load(r->batch))
        r->has_slot = session_slots_acquire(r->batch);
    if (status >= 0 && (!r->has_slot || open_session(r, audio) < 0))
        status = MXW_E_ABORTED; /* for all recordings: said already */
    if (status >= 0)
        status = run_session(r, audio);
    mxw_audio_close(audio);
    return status;
}

static void close_session(recording *r) {
    mxw_session_close(r->session);
    if (r->has_slot)
        session_slots_release(r->batch);
}

static recording_end transcribe(recording *r) {
    mxw_status status = run_recording(r);
    if (status < 0 && !must_stop(r->batch) && !r->told)
        log_failure(r->name, status);
    if (status >= 0)
        status = deliver(r, mxw_session_result(r->session));
    recording_end end = end_of(r, status);
    close_session(r);
    journal_close(r->journal, end == RECORDING_DONE);
    return end;
}

static void say_in_order(void *user, mxw_log_level level, const char *message) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of its own: a line may be said under any other */
    const recording *r = user;
    ordered_log(r->batch->output, r->place, level, message);
    if (level != MXW_LOG_ERROR)
        return;
    pthread_mutex_lock(&lock);
    free(*r->failure);
    *r->failure = strdup(message);
    pthread_mutex_unlock(&lock);
}

/* ---- channels ------------------------------------------------------------------------------------------- */

static void transcribe_channel(split *s, int channel) {
    recording r = *s->whole;
    char name[PATH_MAX + 40];
    r.split = s;
    r.channel = channel;
    r.screen = SCREEN_NOTHING; /* until all are there */
    if (s->n_channels == 2)
        snprintf(r.speaker, sizeof(r.speaker), "%s", channel == 1 ? "left" : "right");
    else
        snprintf(r.speaker, sizeof(r.speaker), "channel %d", channel);
    snprintf(name, sizeof(name), "%s (%s)", s->whole->name, r.speaker);
    r.name = name;
    mxw_status status = run_recording(&r);
    const mxw_result *result = status >= 0 ? mxw_session_result(r.session) : NULL;
    pthread_mutex_lock(&s->lock);
    if (status >= 0)
        status = result ? mxw_merge_add(s->merge, channel, result) : MXW_E_MEMORY;
    const char *manifest = NULL;
    if (status >= 0 && !s->manifest && transcribe_wants(r.options, "json-full"))
        status = mxw_session_manifest(r.session, &manifest);
    if (manifest)
        s->manifest = strdup(manifest);
    if (status < 0 && !s->failed) {
        s->failed = status;
        if (!must_stop(r.batch) && !r.told)
            log_failure(s->whole->name, status);
    }
    s->journals[channel - 1] = r.journal;
    s->n_resumed += r.n_resumed;
    pthread_mutex_unlock(&s->lock);
    close_session(&r);
}

static void take_channels(split *s) {
    for (;;) {
        pthread_mutex_lock(&s->lock);
        int channel = s->next <= s->n_channels && !s->failed ? s->next++ : 0;
        pthread_mutex_unlock(&s->lock);
        if (!channel)
            return;
        transcribe_channel(s, channel);
    }
}

static void *help_with_channels(void *argument) {
    split *s = argument;
    log_divert(say_in_order, (void *)(uintptr_t)s->whole);
    take_channels(s);
    log_divert(NULL, NULL);
    return NULL;
}

/* On this thread and as many more as can be had and are allowed. */
static void run_channels(split *s) {
    int n_helpers = 0, wanted = s->whole->batch->channels;
    pthread_t *helpers = calloc((size_t)s->n_channels, sizeof(*helpers));
    wanted = wanted < s->n_channels ? wanted : s->n_channels;
    while (helpers && n_helpers < wanted - 1 && !pthread_create(&helpers[n_helpers], NULL, help_with_channels, s))
        n_helpers++;
    take_channels(s);
    for (int i = 0; i < n_helpers; i++)
        pthread_join(helpers[i], NULL);
    free(helpers);
}

static mxw_status deliver_channels(recording *r, split *s) {
    const mxw_result *result = mxw_merge_result(s->merge);
    r->manifest = s->manifest;
    for (size_t i = 0; result && i < result->n_segments; i++)
        print_segment(r, &result->segments[i]);
    return deliver(r, result);
}

/* Opened once to see how many there are: what is wrong with the file is said before a model is loaded. */
static mxw_status count_channels(const recording *r, int *n) {
    mxw_audio *audio = NULL;
    mxw_audio_info info;
    mxw_status status = open_audio(r, &audio);
    if (status >= 0)
        status = mxw_audio_get_info(audio, &info);
    *n = status >= 0 && info.channels > 0 ? info.channels : 1;
    mxw_audio_close(audio);
    return status;
}

static recording_end transcribe_split(recording *r) {
    split s = {.whole = r, .next = 1};
    mxw_status status = count_channels(r, &s.n_channels);
    pthread_mutex_init(&s.lock, NULL);
    s.done_s = calloc((size_t)s.n_channels, sizeof(*s.done_s));
    s.journals = calloc((size_t)s.n_channels, sizeof(*s.journals));
    if (status >= 0)
        status = s.done_s && s.journals ? mxw_merge_open(&s.merge) : MXW_E_MEMORY;
    if (status < 0) {
        log_failure(r->name, status);
    } else {
        run_channels(&s);
        progress_end(r->place);
        r->n_resumed = s.n_resumed;
        status = s.failed ? (mxw_status)s.failed : deliver_channels(r, &s);
    }
    recording_end end = end_of(r, status);
    mxw_merge_close(s.merge);
    free(s.manifest);
    for (int i = 0; s.journals && i < s.n_channels; i++)
        journal_close(s.journals[i], end == RECORDING_DONE);
    free(s.journals);
    free(s.done_s);
    pthread_mutex_destroy(&s.lock);
    return end;
}

recording_end recording_transcribe(recording_batch *batch, int place, const input *in, char **failure) {
    recording r = {.batch = batch, .options = batch->options, .place = place, .in = in, .path = in->path};
    recording_end end = RECORDING_FAILED;
    r.failure = failure;
    r.screen = choose_screen(r.options);
    r.name = is_standard_input(r.path) ? "standard input" : r.path;
    log_divert(say_in_order, &r);
    progress_name(r.name);
    if (in->problem)
        log_error("%s: %s", r.name, in->problem);
    else
        end = transcribe_splits(r.options) ? transcribe_split(&r) : transcribe(&r);
    progress_end(place);
    log_divert(NULL, NULL);
    ordered_end(batch->output, place, end == RECORDING_STOP);
    return end;
}
