/* server/transcriptions/job_run.c - the job's thread: opens the recording, waits for a place, transcribes, writes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/reply.h"
#include "transcriptions/job_internal.h"
#include "transcriptions/result_json.h"

/* A recording of at most so many seconds, or bytes where the container does not tell, is a short one. */
enum { SHORT_S = 60, SHORT_BYTES = 256 << 10, PROGRESS_MS = 200 };

/* ---- failures ------------------------------------------------------------------------------------------- */

/* Every later request would fail as well, so the next one loads the model again. */
static void refuse_changed(transcription_job *job) {
    models_retire(job->server, &job->lease);
    form_refuse(&job->problem, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, "model_changed",
                "the file of model %s changed while it was loaded; try again: it is loaded again then", job->lease.id);
}

static void fail(transcription_job *job, mxw_status status, const char *param) {
    unsigned code = reply_status_of(status);
    if (status == MXW_E_ABORTED)
        form_refuse(&job->problem, code, NULL, "stopped", "the server is about to stop");
    else if (status == MXW_E_STATE)
        refuse_changed(job);
    else
        form_refuse(&job->problem, code, param, code < 500 ? "invalid_value" : "failed", "%s", mxw_last_error());
}

/* ---- events --------------------------------------------------------------------------------------------- */

static int wants_events(const transcription_job *job) { return job->request->stream && job->request->all_events; }

static void on_position(void *user, int position) {
    transcription_job *job = user;
    if (wants_events(job))
        job_event(job, json_pack("{s:s, s:i}", "type", "max_whisper.queued", "position", position));
}

static void on_progress(void *user, const mxw_progress *p) {
    transcription_job *job = user;
    int64_t now = server_now_ns();
    if (!wants_events(job) || now - job->told_ns < PROGRESS_MS * INT64_C(1000000))
        return;
    job->told_ns = now;
    json_t *total = p->total_s >= 0 ? json_real(p->total_s) : json_null();
    job_event(job, json_pack("{s:s, s:s, s:f, s:o}", "type", "max_whisper.progress", "stage", p->stage, "done_s",
                             p->done_s, "total_s", total));
}

/* Deltas, put together, are the text of the end: without the blank that the first segment begins with. */
static int add_text(transcription_job *job, const char *text, size_t n) {
    char *grown = realloc(job->text, job->n_text + n + 1);
    if (!grown) {
        form_refuse(&job->problem, 507, NULL, "out_of_memory", "out of memory");
        return 0;
    }
    memcpy(grown + job->n_text, text, n);
    job->text = grown;
    job->n_text += n;
    job->text[job->n_text] = 0;
    return 1;
}

static void tell_segment(transcription_job *job, const mxw_segment *segment) {
    const char *text = segment->text;
    text += job->n_text ? 0 : strspn(text, " ");
    if (*text && add_text(job, text, strlen(text))) {
        json_t *event = json_pack("{s:s, s:s}", "type", "transcript.text.delta", "delta", text);
        if (event && job->request->logprobs) {
            json_t *logprobs = json_array();
            result_logprobs(segment, logprobs);
            json_object_set_new(event, "logprobs", logprobs);
        }
        job_event(job, event);
    }
    if (wants_events(job))
        job_event(job, json_pack("{s:s, s:o}", "type", "max_whisper.segment", "segment",
                                 result_segment(segment, job->request->words)));
}

static void tell_end(transcription_job *job, const mxw_result *result) {
    const transcription_request *q = job->request;
    if (wants_events(job))
        job_event(job, json_pack("{s:s, s:o}", "type", "max_whisper.result", "result", result_verbose(result, q)));
    json_t *plain = result_plain(result, q), *event = json_object(), *more;
    json_object_set_new(event, "type", json_string("transcript.text.done"));
    json_object_set_new(event, "text", json_string(job->text ? job->text : ""));
    if ((more = json_object_get(plain, "logprobs")))
        json_object_set(event, "logprobs", more);
    if ((more = json_object_get(plain, "languages")))
        json_object_set(event, "languages", more);
    json_object_set_new(event, "usage", result_token_usage(result));
    json_decref(plain);
    job_event(job, event);
}

/* ---- the answer ----------------------------------------------------------------------------------------- */

static int append(void *job, const void *bytes, size_t n) { return !job_append(job, bytes, n); }

static void write_json(transcription_job *job, json_t *object) {
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(object);
    job->content_type = "application/json";
    if (!text)
        form_refuse(&job->problem, 507, NULL, "out_of_memory", "out of memory");
    else
        job_append(job, text, strlen(text));
    free(text);
}

static void write_text(transcription_job *job, const mxw_result *result) {
    json_t *text = result_text(result->text ? result->text : "", result->text ? strlen(result->text) : 0);
    job->content_type = "text/plain; charset=utf-8";
    if (job_append(job, json_string_value(text) ? json_string_value(text) : "", json_string_length(text)))
        job_append(job, "\n", 1);
    json_decref(text);
}

static void write_formatted(transcription_job *job, const mxw_result *result, mxw_write_options *write) {
    const char *format = job->request->format;
    job->content_type = !strncmp(format, "json", 4) ? "application/json" : "text/plain; charset=utf-8";
    mxw_status status = strcmp(format, "json-full") ? MXW_OK : mxw_session_manifest(job->session, &write->manifest);
    if (status >= 0)
        status = mxw_result_write(result, format, write, append, job);
    if (status < 0)
        fail(job, status, NULL);
}

static void write_answer(transcription_job *job, mxw_write_options *write) {
    const mxw_result *result = mxw_session_result(job->session);
    if (!result) {
        fail(job, MXW_E_MEMORY, NULL);
        return;
    }
    job->audio_s = result->duration_s;
    if (job->request->stream)
        tell_end(job, result);
    else if (job->request->kind == ANSWER_VERBOSE)
        write_json(job, result_verbose(result, job->request));
    else if (job->request->kind == ANSWER_JSON)
        write_json(job, result_plain(result, job->request));
    else if (job->request->kind == ANSWER_TEXT)
        write_text(job, result);
    else
        write_formatted(job, result, write);
}

/* ---- the session ---------------------------------------------------------------------------------------- */

static mxw_status transcribe(transcription_job *job, mxw_audio *audio) {
    const mxw_segment *segment;
    mxw_status status = mxw_session_feed_audio(job->session, audio);
    if (status >= 0)
        status = mxw_session_finish(job->session);
    while (status >= 0 && !job->problem.status && (status = mxw_session_next(job->session, &segment)) == MXW_OK)
        if (job->request->stream)
            tell_segment(job, segment);
    return status;
}

static void run_session(transcription_job *job, mxw_audio *audio, int lanes) {
    mxw_session_options session;
    mxw_audio_options unused;
    mxw_write_options write;
    mxw_audio_info info = {.struct_size = sizeof(info)};
    job->server->host->request_apply(job->request->options, &session, &unused, &write);
    session.task = job->request->task;
    if (mxw_audio_get_info(audio, &info) >= 0)
        session.start_s = info.start_s;
    if (job->request->logprobs && !session.token_details)
        session.token_details = 1;
    if (job->request->kind == ANSWER_WRITTEN && !strcmp(job->request->format, "json-full"))
        session.token_details = session.token_details ? session.token_details : 5;
    session.parallel = session.parallel ? lanes : 0;
    session.user = job;
    session.on_progress = on_progress;
    session.should_abort = job_must_stop;
    mxw_status status = mxw_session_open(job->lease.model, &session, &job->session);
    if (status < 0) {
        fail(job, status, NULL);
        return;
    }
    status = transcribe(job, audio);
    if (status < 0)
        fail(job, status, status == MXW_E_FORMAT || status == MXW_E_IO ? "file" : NULL);
    else if (!job->problem.status)
        write_answer(job, &write);
    mxw_session_close(job->session);
    job->session = NULL;
}

/* ---- before and after it -------------------------------------------------------------------------------- */

/* What an English-only model cannot do, before the request waits for it. */
static int suits_model(transcription_job *job, const mxw_session_options *session) {
    mxw_model_info info = {.struct_size = sizeof(info)};
    if (mxw_model_get_info(job->lease.model, &info) < 0 || info.checkpoint->multilingual)
        return 1;
    const char *code = session->language ? mxw_language_find(session->language) : "en";
    if (job->request->task == MXW_TRANSLATE)
        form_refuse(&job->problem, 400, "model", "invalid_value", "model: %s knows English only and does not translate",
                    job->lease.id);
    else if (session->languages || !code || strcmp(code, "en"))
        form_refuse(&job->problem, 400, session->languages ? "languages" : "language", "invalid_value",
                    "%s: model %s knows English only", session->languages ? "languages" : "language", job->lease.id);
    return !job->problem.status;
}

static int open_audio(transcription_job *job, mxw_audio **audio, int *is_short, int *lanes) {
    mxw_session_options session;
    mxw_audio_options options;
    mxw_write_options write;
    mxw_audio_info info = {.struct_size = sizeof(info)};
    job->server->host->request_apply(job->request->options, &session, &options, &write);
    temp_file_audio(job->file, &options);
    mxw_status status = mxw_audio_open(&options, audio);
    if (status < 0) {
        fail(job, status == MXW_E_MEMORY ? status : MXW_E_FORMAT, "file");
        return 0;
    }
    mxw_audio_get_info(*audio, &info);
    *is_short = info.duration_s >= 0 ? info.duration_s <= SHORT_S : job->file->size <= SHORT_BYTES;
    *lanes = session.parallel > 1 ? session.parallel : 1;
    return suits_model(job, &session);
}

static int acquire_model(transcription_job *job) {
    mxw_status status = models_acquire(job->server, job->request->model, &job->lease);
    if (status == MXW_E_NOT_FOUND)
        form_refuse(&job->problem, 404, "model", "model_not_found", "%s", job->lease.message);
    else if (status < 0)
        form_refuse(&job->problem, status == MXW_E_MEMORY ? 507 : 500, "model", "model_not_loaded", "%s",
                    job->lease.message);
    return status >= 0;
}

static double since(int64_t ns) { return (double)(server_now_ns() - ns) * 1e-9; }

static void run_in_place(transcription_job *job, mxw_audio *audio, int is_short, int lanes) {
    admission_ticket ticket = {.is_short = is_short, .wanted = lanes, .lease = &job->lease,
                               .on_position = on_position, .must_stop = job_must_stop, .user = job};
    int64_t start = server_now_ns();
    int granted = admission_wait(job->server->admission, &ticket);
    job->waited_s = since(start);
    if (!granted) {
        fail(job, MXW_E_ABORTED, NULL);
        return;
    }
    start = server_now_ns();
    run_session(job, audio, ticket.granted);
    job->worked_s = since(start);
    admission_release(job->server->admission, &ticket, job->worked_s);
}

void job_run(transcription_job *job) {
    mxw_audio *audio = NULL;
    int is_short = 0, lanes = 1;
    if (acquire_model(job) && open_audio(job, &audio, &is_short, &lanes)) {
        if (job->request->stream)
            job_set_state(job, JOB_STREAMING);
        run_in_place(job, audio, is_short, lanes);
    }
    mxw_audio_close(audio);
    models_release(job->server, &job->lease);
    if (job->problem.status && job->request->stream)
        job_event(job, reply_error_object(job->problem.status, *job->problem.param ? job->problem.param : NULL,
                                          job->problem.code, job->problem.message));
}
