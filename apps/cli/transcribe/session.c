/* cli/transcribe/session.c - feeds audio to a session and takes its segments as they come. */
#include "transcribe/session.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/progress.h"
#include "common/stdout.h"
#include "transcribe/channels.h"
#include "transcribe/interrupt.h"
#include "transcribe/session_slots.h"

int session_must_stop(const recording_batch *batch) { return interrupt_signal() || out_failed() || batch->stopped; }

/* A signal lets windows finish. */
static int must_stop_now(const recording_batch *batch) {
    return out_failed() || (batch->stopped && !interrupt_signal());
}

int session_stop_all(recording_batch *batch, int exit_status) {
    pthread_mutex_lock(&batch->lock);
    int first = !batch->exit_status;
    if (first)
        batch->exit_status = exit_status;
    batch->stopped = 1;
    pthread_mutex_unlock(&batch->lock);
    return first;
}

/* ---- callbacks ------------------------------------------------------------------------------------------ */

static void on_progress(void *user, const mxw_progress *progress) {
    recording *r = user;
    mxw_progress whole = *progress;
    int text = !strcmp(progress->stage, "text");
    if (text && interrupt_signal())
        r->window_ended = 1;
    if (text && !r->decoding)
        r->resumed_s = progress->done_s;
    if (!r->split || channels_progress(r->split, r->channel, &whole))
        progress_update(r->screen.place, &whole);
}

/* After a signal, a window that was begun is finished: with --resume it is then not lost. */
static int should_abort(void *user) {
    const recording *r = user;
    if (interrupt_signal() && !out_failed())
        return !r->decoding || r->window_ended;
    return must_stop_now(r->batch) || (r->split && channels_failed(r->split));
}

static void on_window(void *user, const void *record, size_t n) {
    recording *r = user;
    if (r->journal && !journal_add(r->journal, record, n)) {
        log_say(MXW_LOG_WARN, "%s: cannot write journal %s: %s; continuing without it", r->name,
                journal_name(r->journal), strerror(errno));
        journal_close(r->journal, 1);
        r->journal = NULL;
    }
}

/* Before the first line, so that a wrong guess is seen at once. */
static void log_language(recording *r) {
    int known = r->language_logged || r->options->languages; /* of several, each stands beside its text */
    const mxw_result *result = known ? NULL : mxw_session_result(r->session);
    r->language_logged = 1;
    if (!result || result->language_probability < 0 || !result->language)
        return;
    const char *name = result->language;
    for (int i = 0; mxw_language_code(i); i++)
        if (!strcmp(mxw_language_code(i), result->language))
            name = mxw_language_name(i);
    log_note("%s: language detected: %s (probability %.2f)", r->name, name, result->language_probability);
}

/* ---- audio in, segments out ----------------------------------------------------------------------------- */

/* Takes every segment that is ready: END or MORE, or a failure. */
static mxw_status take_segments(recording *r) {
    const mxw_segment *segment;
    mxw_status status;
    while ((status = mxw_session_next(r->session, &segment)) == MXW_OK && !must_stop_now(r->batch)) {
        log_language(r);
        screen_segment(&r->screen, segment);
    }
    return status == MXW_OK ? MXW_E_ABORTED : status;
}

/* At most one recording is standard input: check_collisions makes sure. */
static void input_begins(const recording *r) {
    if (!strcmp(r->path, "-"))
        interrupt_input_begin();
}

static void input_ends(const recording *r) {
    if (!strcmp(r->path, "-"))
        interrupt_input_end();
}

/* Live: every second of audio is fed as it comes, and its segments are taken at once. */
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
        if (session_must_stop(r->batch))
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

/* Windows in the journal are not decoded again. */
static void resume(recording *r) {
    const void *record;
    size_t n;
    while (journal_next(r->journal, &record, &n)) {
        mxw_status status = mxw_session_resume(r->session, record, n);
        if (status < 0) {
            const char *why = mxw_last_error();
            log_say(MXW_LOG_WARN, "%s: journal %s belongs to a different run (%s); %s", r->name,
                    journal_name(r->journal), why,
                    r->n_resumed ? "only the part before that is used" : "starting from the beginning");
            journal_refuse(r->journal);
            break;
        }
        r->n_resumed++;
    }
    if (r->n_resumed) {
        char time[40];
        screen_timestamp(time, sizeof(time), r->resumed_s);
        log_note("%s: resuming at %s after %d finished windows", r->name, time, r->n_resumed);
        progress_resumed(r->screen.place, r->resumed_s);
    }
}

static mxw_status run_session(recording *r, mxw_audio *audio) {
    r->decoding = r->options->mel_reference == MXW_MEL_RUNNING;
    mxw_status status = r->decoding ? feed_running(r, audio) : feed_all(r, audio);
    if (status >= 0)
        status = mxw_session_finish(r->session);
    if (status >= 0 && r->journal)
        resume(r);
    r->decoding = 1;
    if (status >= 0)
        status = take_segments(r);
    if (status >= 0)
        log_language(r);
    if (!r->split)
        progress_end(r->screen.place);
    return status;
}

/* ---- open and close ------------------------------------------------------------------------------------- */

/* A session that refuses its options (a language the model lacks) would do so for every recording: a usage error. */
static mxw_status open_session(recording *r, const mxw_audio *audio) {
    mxw_session_options session;
    mxw_audio_info info = {.struct_size = sizeof(info)};
    transcribe_session_options(r->options, &session);
    if (mxw_audio_get_info(audio, &info) >= 0)
        session.start_s = info.start_s;
    if (r->split) {
        session.channel = r->channel;
        session.speaker = r->speaker;
    }
    session.parallel = r->batch->lanes;
    session.user = r;
    session.on_progress = on_progress;
    session.should_abort = should_abort;
    if (r->journal)
        session.on_window = on_window;
    mxw_status status = mxw_session_open(r->batch->model, &session, &r->session);
    int usage = status == MXW_E_ARGUMENT || status == MXW_E_UNSUPPORTED;
    if (status < 0 && session_stop_all(r->batch, usage ? EXIT_USAGE : EXIT_FAILED))
        log_failure(NULL, status);
    return status;
}

mxw_status session_open_audio(const recording *r, mxw_audio **audio) {
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
    r->failure_logged = 1;
    return MXW_E_IO;
}

mxw_status session_run(recording *r) {
    mxw_audio *audio = NULL;
    mxw_status status = session_open_audio(r, &audio);
    if (status >= 0)
        status = open_journal(r);
    if (status >= 0 && session_slots_load(r->batch))
        r->has_slot = session_slots_acquire(r->batch);
    if (status >= 0 && (!r->has_slot || open_session(r, audio) < 0))
        status = MXW_E_ABORTED; /* of all recordings: logged already */
    if (status >= 0)
        status = run_session(r, audio);
    mxw_audio_close(audio);
    return status;
}

void session_close(recording *r) {
    mxw_session_close(r->session);
    if (r->has_slot)
        session_slots_release(r->batch);
}
