/* cli/transcribe/recording.c - a recording as a whole, or channel by channel, with its messages in order. */
#include "transcribe/recording.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/progress.h"
#include "transcribe/channels.h"
#include "transcribe/output/deliver.h"
#include "transcribe/session.h"

static recording_end transcribe(recording *r) {
    mxw_status status = session_run(r);
    if (status < 0 && !session_must_stop(r->batch) && !r->failure_logged)
        log_failure(r->name, status);
    if (status >= 0)
        status = deliver(r, mxw_session_result(r->session));
    recording_end end = deliver_end(r, status);
    session_close(r);
    journal_close(r->journal, end == RECORDING_DONE);
    return end;
}

static void log_in_order(void *user, mxw_log_level level, const char *message) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of its own: any other may be held here */
    const recording *r = user;
    ordered_log(r->screen.output, r->screen.place, level, message);
    if (level != MXW_LOG_ERROR)
        return;
    pthread_mutex_lock(&lock);
    free(*r->failure);
    *r->failure = strdup(message);
    pthread_mutex_unlock(&lock);
}

void recording_divert_log(const recording *r) { log_divert(log_in_order, (void *)(uintptr_t)r); }

recording_end recording_transcribe(recording_batch *batch, int place, const input *in, char **failure) {
    const char *name = strcmp(in->path, "-") ? in->path : "standard input";
    recording r = {.batch = batch, .options = batch->options, .in = in, .path = in->path, .name = name};
    recording_end end = RECORDING_FAILED;
    r.failure = failure;
    r.screen = (screen){.form = screen_choose(r.options), .output = batch->output, .place = place, .name = name};
    r.screen.colors = r.options->guard != MXW_GUARD_OFF && screen_has_colors();
    recording_divert_log(&r);
    progress_name(r.name);
    if (in->problem)
        log_error("%s: %s", r.name, in->problem);
    else
        end = transcribe_splits(r.options) ? channels_transcribe(&r) : transcribe(&r);
    progress_end(place);
    log_divert(NULL, NULL);
    ordered_end(batch->output, place, end == RECORDING_STOP);
    return end;
}
