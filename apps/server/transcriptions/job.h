/* server/transcriptions/job.h - one recording transcribed on a thread of its own, while its connection's thread watches
 * the client.
 *
 * In: a request and its file. Out: an answer's bytes, or events, or a failure as HTTP has it.
 * Invariants: the job's thread never waits for the client. job_cancel is noticed within a step of the decoder; job_end
 * waits for that.
 */
#ifndef SERVER_TRANSCRIPTIONS_JOB_H
#define SERVER_TRANSCRIPTIONS_JOB_H

#include "core/server_context.h"
#include "transcriptions/fields.h"

typedef struct transcription_job transcription_job;

typedef enum job_state {
    JOB_PREPARING, /* the recording is opened, the model found */
    JOB_STREAMING, /* of a stream: events come, maybe after a wait in the queue */
    JOB_DONE,
    JOB_FAILED
} job_state;

/* NULL: no memory or no thread. Request and file stay the caller's, until job_close. */
transcription_job *job_start(server_context *s, const transcription_request *request, temp_file *file);
void job_cancel(transcription_job *job);
/* Cancels it and waits for its end. */
void job_end(transcription_job *job);
void job_close(transcription_job *job); /* after job_end; NULL is fine */
/* Readable when there is news; job_clear makes it unreadable before one looks. */
int job_fd(const transcription_job *job);
void job_clear(transcription_job *job);
job_state job_look(transcription_job *job);
/* Takes up to n bytes of the answer or the events; 0: none are there now. */
size_t job_read(transcription_job *job, char *bytes, size_t n);
/* After the end: all of the answer, with its type. Valid until job_close. */
const char *job_answer(const transcription_job *job, size_t *n, const char **content_type);
/* After a failure. */
const form_problem *job_problem(const transcription_job *job);
/* For the log: the model (NULL: none yet), seconds of sound, of waiting, and of work. After the end. */
void job_figures(const transcription_job *job, const char **model, double *audio_s, double *waited_s, double *worked_s);

#endif
