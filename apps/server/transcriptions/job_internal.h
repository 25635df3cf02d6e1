/* server/transcriptions/job_internal.h - the parts of a job that job.c and job_run.c share. */
#ifndef SERVER_TRANSCRIPTIONS_JOB_INTERNAL_H
#define SERVER_TRANSCRIPTIONS_JOB_INTERNAL_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "load/admission.h"
#include "models/registry.h"
#include "transcriptions/job.h"

struct transcription_job {
    server_context *server;
    const transcription_request *request;
    temp_file *file;
    pthread_t thread;
    pthread_mutex_t lock;
    int wake_fd;
    atomic_int cancelled;
    /* under the lock */
    job_state state;
    char *bytes; /* the answer, or events that were not read yet */
    size_t n_bytes, n_read, room;
    const char *content_type;
    /* the job's thread, and others after the end */
    form_problem problem;
    model_lease lease;
    mxw_session *session;
    double audio_s, waited_s, worked_s;
    int64_t told_ns; /* progress */
    size_t n_text; /* of the text that deltas told */
    char *text;    /* that text */
};

/* What the job's thread does from its start to its end. */
void job_run(transcription_job *job);
void job_set_state(transcription_job *job, job_state state);
/* 0: no memory. */
int job_append(transcription_job *job, const void *bytes, size_t n);
/* Takes the reference. "data: {...}\n\n"; failures are those of memory, and end the job. */
void job_event(transcription_job *job, json_t *event);
int job_must_stop(void *job);

#endif
