/* cli/transcribe/output/deliver.c - see deliver.h. */
#include "transcribe/output/deliver.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/stdout.h"
#include "transcribe/interrupt.h"
#include "transcribe/output/outputs.h"
#include "transcribe/session.h"
#include "transcribe/stats.h"

static outputs_source source_of(const recording *r) {
    return (outputs_source){.options = r->options,
                            .in = r->in,
                            .list = r->batch->list,
                            .name = r->name,
                            .model = r->batch->model,
                            .session = r->session,
                            .manifest = r->manifest};
}

/* json ends without a newline, as openai-whisper's file does: one is added where something follows it. */
static mxw_status print_result(recording *r, const mxw_result *result) {
    const char *format = r->screen.form == SCREEN_FORMAT ? r->options->format : "txt";
    int newline = !strcmp(format, "json") && (r->batch->several || isatty(STDOUT_FILENO));
    mxw_write_options options;
    outputs_source source = source_of(r);
    mxw_status status = outputs_options(&source, format, &options);
    if (status >= 0)
        status = screen_result(&r->screen, result, format, &options, newline);
    if (status < 0 && !out_failed())
        log_failure(r->name, status);
    return status;
}

static void print_stats(const recording *r, const mxw_result *result) {
    size_t length;
    char *line = stats_line(r->batch->model, r->path, result, r->options->resume ? r->n_resumed : -1, &length);
    if (line)
        ordered_report(r->screen.output, r->screen.place, line, length);
    free(line);
}

/* What is not in the text, and nowhere else to be seen. */
static void tell_dropped(const recording *r, const mxw_result *result) {
    long long n = (long long)result->n_words_suspected;
    if (r->options->guard == MXW_GUARD_DROP && n > 0)
        log_say(MXW_LOG_WARN, "%s: the guard left out %lld %s that probably nobody said (--guard mark shows %s)",
                r->name, n, n == 1 ? "word" : "words", n == 1 ? "it" : "them");
}

mxw_status deliver(recording *r, const mxw_result *result) {
    if (!result) {
        log_failure(r->name, MXW_E_INTERNAL);
        return MXW_E_INTERNAL;
    }
    mxw_status status = MXW_OK;
    outputs_source source = source_of(r);
    if (r->screen.form == SCREEN_FORMAT || r->screen.form == SCREEN_TEXT)
        status = print_result(r, result);
    if (status >= 0 && r->options->output_dir)
        status = outputs_save(&source, result);
    if (status >= 0)
        tell_dropped(r, result);
    if (status >= 0 && r->options->stats)
        print_stats(r, result);
    return status;
}

recording_end deliver_end(recording *r, mxw_status status) {
    if (status >= 0 && ordered_lost(r->screen.output, r->screen.place)) {
        log_error("%s: out of memory while its text was waiting for its turn", r->name);
        status = MXW_E_MEMORY;
    }
    if (status >= 0 && !out_failed())
        return RECORDING_DONE;
    if (!session_must_stop(r->batch))
        return RECORDING_FAILED;
    session_stop_all(r->batch, interrupt_signal() ? 128 + interrupt_signal() : EXIT_FAILED);
    return RECORDING_STOP;
}
