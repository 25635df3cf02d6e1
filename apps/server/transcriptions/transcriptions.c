/* server/transcriptions/transcriptions.c - from a form to an answer: the connection's thread of a transcription. */
#include "transcriptions/transcriptions.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/connections.h"
#include "http/reply.h"
#include "load/admission.h"
#include "load/metrics.h"
#include "models/registry.h"
#include "transcriptions/fields.h"
#include "transcriptions/form_type.h"
#include "transcriptions/job.h"

enum { FORM_BUFFER = 64 << 10, FORM_SLACK = 2 << 20, BLOCK = 32 << 10, HEARTBEAT_MS = 10000, RETRY_S = 5 };

typedef struct transcription {
    struct MHD_PostProcessor *processor;
    upload_form form;
    transcription_request request;
    transcription_job *job;
    admission_room room;
    int read_request;
} transcription;

/* ---- the upload ----------------------------------------------------------------------------------------- */

static enum MHD_Result take_part(void *user, enum MHD_ValueKind kind, const char *name, const char *filename,
                                 const char *type, const char *coding, const char *bytes, uint64_t offset, size_t n) {
    transcription *t = user;
    (void)kind;
    (void)filename;
    (void)type;
    (void)coding;
    return form_take(&t->form, name, bytes, offset, n) ? MHD_YES : MHD_NO;
}

static enum MHD_Result refuse_load(http_request *r) {
    int seconds = admission_retry_s(r->server->admission);
    return reply_refusal(r, MHD_HTTP_TOO_MANY_REQUESTS, RETRY_LATER, seconds, NULL, "queue_full",
                         "the queue of this server is full; try again later");
}

static enum MHD_Result refuse_drain(http_request *r) {
    return reply_refusal(r, MHD_HTTP_SERVICE_UNAVAILABLE, RETRY_LATER, RETRY_S, NULL, "draining",
                         "the server is about to stop");
}

/* Its room was given to another request. */
static enum MHD_Result refuse_slow(http_request *r, int is_whole) {
    int seconds = admission_retry_s(r->server->admission);
    char message[200];
    snprintf(message, sizeof(message), "this upload came with less than %d KiB a second while the server was full: its "
             "place was given to another; try again later", UPLOAD_LEAST_RATE >> 10);
    if (is_whole)
        return reply_refusal(r, MHD_HTTP_REQUEST_TIMEOUT, RETRY_LATER, seconds, NULL, "upload_too_slow", message);
    reply_cut_off(r, MHD_HTTP_REQUEST_TIMEOUT, RETRY_LATER, seconds, NULL, "upload_too_slow", message);
    return MHD_NO;
}

/* forget, which undoes begin, is called in any case. */
static enum MHD_Result open_form(http_request *r) {
    transcription *t = calloc(1, sizeof(*t));
    if (!t) {
        server_leave(r->server);
        return reply_refusal(r, MHD_HTTP_INSUFFICIENT_STORAGE, RETRY_LATER, RETRY_S, NULL, "out_of_memory",
                             "out of memory");
    }
    form_init(&t->form, r->server->options->max_upload);
    r->own = t;
    if (!admission_enter(r->server->admission, &t->room, request_fd(r), r->record))
        return refuse_load(r);
    t->processor = MHD_create_post_processor(r->connection, FORM_BUFFER, take_part, t);
    if (!t->processor)
        return reply_error(r, MHD_HTTP_BAD_REQUEST, NULL, "invalid_form", "the Content-Type has no boundary");
    return MHD_YES;
}

static enum MHD_Result begin(http_request *r) {
    /* It lies in the connection's own memory, where the post processor will find it. */
    char *type = (char *)(uintptr_t)request_header(r, MHD_HTTP_HEADER_CONTENT_TYPE);
    const char *length = request_header(r, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (server_is_draining(r->server))
        return refuse_drain(r);
    if (!type || !form_type_plain(type))
        return reply_error(r, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, NULL, "unsupported_media_type",
                           "the body must be multipart/form-data, with the recording in the field file");
    if (length && strtoll(length, NULL, 10) - FORM_SLACK > r->server->options->max_upload)
        return reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE, "file", "file_too_large",
                           "file: larger than the %lld bytes that this server takes",
                           (long long)r->server->options->max_upload);
    return server_enter(r->server) ? open_form(r) : refuse_drain(r);
}

static int take(http_request *r, const char *bytes, size_t n) {
    transcription *t = r->own;
    if (!admission_arrived(r->server->admission, &t->room, n)) {
        refuse_slow(r, 0);
        form_free(&t->form);
        return -1;
    }
    if (MHD_post_process(t->processor, bytes, n) == MHD_YES)
        return 1;
    form_refuse(&t->form.problem, 400, NULL, "invalid_form", "the body is not a multipart form as its Content-Type "
                "says");
    admission_leave(r->server->admission, &t->room); /* the rest needs no more than its connection */
    form_free(&t->form);
    return 0;
}

/* ---- the answer ----------------------------------------------------------------------------------------- */

/* What the server lacks will be lacking the next time: a client would send the recording thrice. */
static reply_retry retry_of(const form_problem *p) {
    return p->status == MHD_HTTP_SERVICE_UNAVAILABLE ? RETRY_LATER : p->status >= 500 ? RETRY_NEVER : RETRY_AS_STATUS;
}

static enum MHD_Result reply_problem(http_request *r, const form_problem *p) {
    return reply_refusal(r, p->status, retry_of(p), RETRY_S, *p->param ? p->param : NULL, p->code, p->message);
}

static void cut_off(http_request *r) {
    const form_problem *p = &((transcription *)r->own)->form.problem;
    reply_cut_off(r, p->status, retry_of(p), RETRY_S, *p->param ? p->param : NULL, p->code, p->message);
}

/* Until there is news of the job, or so many milliseconds passed (-1: no limit); 0: the client left. */
static int wait_for_news(const http_request *r, transcription_job *job, int timeout_ms) {
    struct pollfd fds[] = {{.fd = request_fd(r), .events = POLLRDHUP}, {.fd = job_fd(job), .events = POLLIN}};
    int n = poll(fds, 2, timeout_ms);
    if (n < 0 && errno != EINTR)
        return 0;
    if (n > 0 && fds[1].revents)
        job_clear(job);
    return !(n > 0 && fds[0].revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}

static ssize_t read_events(void *any, uint64_t position, char *bytes, size_t n) {
    static const char heartbeat[] = ": ping\n\n";
    http_request *r = any;
    transcription *t = r->own;
    (void)position;
    connection_enter(r->record, CONNECTION_WORKING);
    for (;;) {
        job_state state = job_look(t->job); /* before the bytes: those that came first are there then */
        size_t got = job_read(t->job, bytes, n);
        int64_t before = server_now_ns();
        if (got || state == JOB_DONE || state == JOB_FAILED) {
            connection_enter(r->record, CONNECTION_SENDING);
            return got ? (ssize_t)got : MHD_CONTENT_READER_END_OF_STREAM;
        }
        if (!wait_for_news(r, t->job, HEARTBEAT_MS)) {
            job_cancel(t->job);
            return MHD_CONTENT_READER_END_WITH_ERROR;
        }
        if (server_now_ns() - before >= HEARTBEAT_MS * INT64_C(1000000) && n >= sizeof(heartbeat)) {
            memcpy(bytes, heartbeat, sizeof(heartbeat) - 1);
            connection_enter(r->record, CONNECTION_SENDING);
            return sizeof(heartbeat) - 1;
        }
    }
}

static enum MHD_Result reply_stream(http_request *r) {
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_events, r, NULL);
    if (response) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream; charset=utf-8");
        MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
        MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* a proxy that would keep events back */
    }
    return reply_send(r, MHD_HTTP_OK, response);
}

static enum MHD_Result reply_result(http_request *r) {
    transcription *t = r->own;
    size_t n;
    const char *type, *bytes = job_answer(t->job, &n, &type);
    return reply_bytes(r, MHD_HTTP_OK, type, bytes, n);
}

static enum MHD_Result run_job(http_request *r) {
    transcription *t = r->own;
    if (!admission_whole(r->server->admission, &t->room))
        return refuse_slow(r, 1);
    t->job = job_start(r->server, &t->request, &t->form.file);
    if (!t->job)
        return reply_refusal(r, MHD_HTTP_INSUFFICIENT_STORAGE, RETRY_LATER, RETRY_S, NULL, "out_of_memory",
                             "there is no thread left for this request");
    job_state state;
    while ((state = job_look(t->job)) == JOB_PREPARING)
        if (!wait_for_news(r, t->job, -1)) {
            job_cancel(t->job);
            return MHD_NO; /* nobody is there to read an answer */
        }
    if (state == JOB_FAILED)
        return reply_problem(r, job_problem(t->job));
    return t->request.stream ? reply_stream(r) : reply_result(r);
}

static enum MHD_Result answer(http_request *r, mxw_task task) {
    transcription *t = r->own;
    int complete = MHD_destroy_post_processor(t->processor) == MHD_YES;
    t->processor = NULL;
    if (!complete)
        form_refuse(&t->form.problem, 400, NULL, "invalid_form", "the form ends before its last boundary");
    if (!t->form.problem.status) {
        t->read_request = 1;
        fields_read(r->server->host, task, &t->form, &t->request, &t->form.problem);
    }
    return t->form.problem.status ? reply_problem(r, &t->form.problem) : run_job(r);
}

static enum MHD_Result answer_transcription(http_request *r) { return answer(r, MXW_TRANSCRIBE); }

static enum MHD_Result answer_translation(http_request *r) { return answer(r, MXW_TRANSLATE); }

static void forget(http_request *r) {
    transcription *t = r->own;
    if (!t)
        return;
    if (t->processor)
        MHD_destroy_post_processor(t->processor);
    if (t->job) {
        double waited_s, worked_s;
        job_end(t->job);
        job_figures(t->job, &r->model, &r->audio_s, &waited_s, &worked_s);
        job_state state = job_look(t->job);
        const char *outcome = state == JOB_DONE ? "done" : job_problem(t->job)->status == 503 ? "cancelled" : "failed";
        metrics_recording(r->server->metrics, models_find(r->server->models, t->request.model), outcome, r->audio_s,
                          waited_s, worked_s);
    }
    job_close(t->job);
    if (t->read_request)
        transcription_request_free(&t->request);
    form_free(&t->form);
    if (!admission_whole(r->server->admission, &t->room))
        r->cut_off = MHD_HTTP_REQUEST_TIMEOUT; /* whether or not it sent more, and was told so */
    admission_leave(r->server->admission, &t->room);
    free(t);
    r->own = NULL;
    server_leave(r->server);
}

const route_handler handler_transcriptions = {
    .answer = answer_transcription, .begin = begin, .take = take, .cut_off = cut_off, .forget = forget};
const route_handler handler_translations = {
    .answer = answer_translation, .begin = begin, .take = take, .cut_off = cut_off, .forget = forget};
