/* cli/transcribe/channels.c - threads that each transcribe the next channel of one recording. */
#include "transcribe/channels.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/progress.h"
#include "transcribe/output/deliver.h"
#include "transcribe/session.h"

struct split {
    const recording *whole;
    int n_channels;
    pthread_mutex_t lock;
    int next;          /* channel to transcribe */
    mxw_merge *merge;
    double *done_s;    /* [n_channels] */
    char *manifest;    /* of the first channel that ended, if a format needs it */
    journal **journals; /* [n_channels], until all are delivered */
    int n_resumed;      /* windows taken from them */
    atomic_int failed; /* status of the first failure, the only one that is logged */
};

int channels_progress(split *s, int channel, mxw_progress *progress) {
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

int channels_failed(const split *s) { return atomic_load(&s->failed) != 0; }

/* ---- one channel ---------------------------------------------------------------------------------------- */

static void transcribe_channel(split *s, int channel) {
    recording r = *s->whole;
    char name[PATH_MAX + 40];
    r.split = s;
    r.channel = channel;
    r.screen.form = SCREEN_NOTHING; /* until all are there */
    if (s->n_channels == 2)
        snprintf(r.speaker, sizeof(r.speaker), "%s", channel == 1 ? "left" : "right");
    else
        snprintf(r.speaker, sizeof(r.speaker), "channel %d", channel);
    snprintf(name, sizeof(name), "%s (%s)", s->whole->name, r.speaker);
    r.name = name;
    mxw_status status = session_run(&r);
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
        if (!session_must_stop(r.batch) && !r.failure_logged)
            log_failure(s->whole->name, status);
    }
    s->journals[channel - 1] = r.journal;
    s->n_resumed += r.n_resumed;
    pthread_mutex_unlock(&s->lock);
    session_close(&r);
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
    recording_divert_log(s->whole);
    take_channels(s);
    log_divert(NULL, NULL);
    return NULL;
}

/* ---- all of them ---------------------------------------------------------------------------------------- */

/* On this thread and as many others as are allowed and can be created. */
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
        screen_segment(&r->screen, mxw_result_segment(result, i));
    return deliver(r, result);
}

/* Opens the file once to count them: a broken file fails before a model is loaded. */
static mxw_status count_channels(const recording *r, int *n) {
    mxw_audio *audio = NULL;
    mxw_audio_info info = {.struct_size = sizeof(info)};
    mxw_status status = session_open_audio(r, &audio);
    if (status >= 0)
        status = mxw_audio_get_info(audio, &info);
    *n = status >= 0 && info.channels > 0 ? info.channels : 1;
    mxw_audio_close(audio);
    return status;
}

recording_end channels_transcribe(recording *r) {
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
        progress_end(r->screen.place);
        r->n_resumed = s.n_resumed;
        status = s.failed ? (mxw_status)s.failed : deliver_channels(r, &s);
    }
    recording_end end = deliver_end(r, status);
    mxw_merge_close(s.merge);
    free(s.manifest);
    for (int i = 0; s.journals && i < s.n_channels; i++)
        journal_close(s.journals[i], end == RECORDING_DONE);
    free(s.journals);
    free(s.done_s);
    pthread_mutex_destroy(&s.lock);
    return end;
}
