/* cli/transcribe/session_slots.c - reserves memory for a batch's sessions before the first one opens. */
#include "transcribe/session_slots.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/progress.h"
#include "transcribe/interrupt.h"

/* Reserves memory for as many sessions as fit, by bisection below `wanted`, which does not fit. 0: not even one. */
static int fit_fewer(mxw_model *model, const mxw_session_options *session, int wanted) {
    int fits = 0, too_many = wanted;
    while (too_many - fits > 1) {
        int n = fits + (too_many - fits) / 2;
        if (mxw_model_reserve(model, session, n) < 0)
            too_many = n;
        else
            fits = n;
    }
    return fits && mxw_model_reserve(model, session, fits) >= 0 ? fits : 0;
}

/* Of the device's memory every piece that a session decodes takes as much as a session of its own. */
static int slots_of(const recording_batch *batch) { return batch->batch * (batch->lanes ? batch->lanes : 1); }

/* As many slots as fit; 0: none, and why. Failures other than MXW_E_MEMORY are reported when a session is opened. */
static int reserve(const recording_batch *batch, char *why, size_t size) {
    mxw_session_options session;
    transcribe_session_options(batch->options, &session);
    if (mxw_model_reserve(batch->model, &session, slots_of(batch)) != MXW_E_MEMORY)
        return slots_of(batch);
    snprintf(why, size, "%s", mxw_last_error());
    int n = fit_fewer(batch->model, &session, slots_of(batch));
    if (n)
        log_say(MXW_LOG_WARN, "%s; continuing with %d at once", why, n);
    else
        snprintf(why, size, "%s", mxw_last_error());   /* of the last try, with one */
    return n;
}

static int open_and_reserve(recording_batch *batch, const model_choice *choice) {
    char why[1024];
    int exit_status = open_model(choice, slots_of(batch), &batch->model);
    if (exit_status != EXIT_OK)
        return exit_status;
    int n = reserve(batch, why, sizeof(why));
    if (n) {
        batch->lanes = n < batch->lanes ? n : batch->lanes;
        batch->batch = batch->lanes ? n / batch->lanes : n;
        return EXIT_OK;
    }
    model_choice cpu = *choice;
    cpu.device = "cpu";
    mxw_model_close(batch->model);
    batch->model = NULL;
    return model_falls_back_to_cpu(choice, why) ? open_and_reserve(batch, &cpu) : EXIT_FAILED;
}

int session_slots_load(recording_batch *batch) {
    pthread_mutex_lock(&batch->lock);
    if (!batch->model && !batch->exit_status) {
        progress_note("loading model");
        batch->exit_status = open_and_reserve(batch, &batch->options->model);
        batch->stopped |= batch->exit_status != EXIT_OK;
        progress_hide();
    }
    int loaded = batch->model != NULL;
    pthread_mutex_unlock(&batch->lock);
    return loaded;
}

int session_slots_acquire(recording_batch *batch) {
    pthread_mutex_lock(&batch->lock);
    while (batch->n_open >= batch->batch && !batch->stopped && !interrupt_signal())
        pthread_cond_wait(&batch->freed, &batch->lock);
    int taken = batch->n_open < batch->batch;
    batch->n_open += taken;
    pthread_mutex_unlock(&batch->lock);
    return taken;
}

void session_slots_release(recording_batch *batch) {
    pthread_mutex_lock(&batch->lock);
    batch->n_open--;
    pthread_cond_broadcast(&batch->freed);
    pthread_mutex_unlock(&batch->lock);
}
