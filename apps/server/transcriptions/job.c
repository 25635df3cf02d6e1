/* server/transcriptions/job.c - see job.h: the thread, and what passes between it and the connection's thread. */
#include "transcriptions/job.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transcriptions/job_internal.h"

enum { MAX_BYTES = 512 << 20 }; /* of an answer, or of events that nobody reads */

static void *run_thread(void *any) {
    transcription_job *job = any;
    job_run(job);
    job_set_state(job, job->problem.status ? JOB_FAILED : JOB_DONE);
    return NULL;
}

transcription_job *job_start(server_context *s, const transcription_request *request, temp_file *file) {
    transcription_job *job = calloc(1, sizeof(*job));
    if (!job)
        return NULL;
    job->server = s;
    job->request = request;
    job->file = file;
    job->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&job->lock, NULL);
    if (job->wake_fd >= 0 && !pthread_create(&job->thread, NULL, run_thread, job))
        return job;
    if (job->wake_fd >= 0)
        close(job->wake_fd);
    pthread_mutex_destroy(&job->lock);
    free(job);
    return NULL;
}

void job_cancel(transcription_job *job) {
    atomic_store(&job->cancelled, 1);
    admission_wake(job->server->admission);
}

void job_end(transcription_job *job) {
    job_cancel(job);
    pthread_join(job->thread, NULL);
}

void job_close(transcription_job *job) {
    if (!job)
        return;
    close(job->wake_fd);
    pthread_mutex_destroy(&job->lock);
    free(job->bytes);
    free(job->text);
    free(job);
}

/* ---- for the job's thread ------------------------------------------------------------------------------- */

static void wake(transcription_job *job) {
    uint64_t one = 1;
    ssize_t put = write(job->wake_fd, &one, sizeof(one)); /* full means that it is readable already */
    (void)put;
}

void job_set_state(transcription_job *job, job_state state) {
    pthread_mutex_lock(&job->lock);
    job->state = state;
    pthread_mutex_unlock(&job->lock);
    wake(job);
}

int job_append(transcription_job *job, const void *bytes, size_t n) {
    pthread_mutex_lock(&job->lock);
    if (job->n_read == job->n_bytes)
        job->n_read = job->n_bytes = 0;
    if (job->n_bytes + n > job->room) {
        size_t room = 2 * (job->n_bytes + n) + 4096;
        char *grown = room <= MAX_BYTES ? realloc(job->bytes, room) : NULL;
        if (!grown) {
            pthread_mutex_unlock(&job->lock);
            form_refuse(&job->problem, 507, NULL, "out_of_memory", "the answer is too large");
            return 0;
        }
        job->bytes = grown;
        job->room = room;
    }
    memcpy(job->bytes + job->n_bytes, bytes, n);
    job->n_bytes += n;
    pthread_mutex_unlock(&job->lock);
    return 1;
}

void job_event(transcription_job *job, json_t *event) {
    char *text = event ? json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(event);
    if (!text)
        form_refuse(&job->problem, 507, NULL, "out_of_memory", "out of memory");
    else if (job_append(job, "data: ", 6) && job_append(job, text, strlen(text)))
        job_append(job, "\n\n", 2);
    free(text);
    wake(job);
}

int job_must_stop(void *any) {
    const transcription_job *job = any;
    return atomic_load(&job->cancelled) || server_is_stopping(job->server);
}

/* ---- for the connection's thread ------------------------------------------------------------------------ */

int job_fd(const transcription_job *job) { return job->wake_fd; }

void job_clear(transcription_job *job) {
    uint64_t n;
    ssize_t got = read(job->wake_fd, &n, sizeof(n));
    (void)got;
}

job_state job_look(transcription_job *job) {
    pthread_mutex_lock(&job->lock);
    job_state state = job->state;
    pthread_mutex_unlock(&job->lock);
    return state;
}

size_t job_read(transcription_job *job, char *bytes, size_t n) {
    pthread_mutex_lock(&job->lock);
    size_t left = job->n_bytes - job->n_read;
    n = n < left ? n : left;
    if (n)
        memcpy(bytes, job->bytes + job->n_read, n);
    job->n_read += n;
    pthread_mutex_unlock(&job->lock);
    return n;
}

const char *job_answer(const transcription_job *job, size_t *n, const char **content_type) {
    *n = job->n_bytes;
    *content_type = job->content_type;
    return job->bytes ? job->bytes : "";
}

const form_problem *job_problem(const transcription_job *job) { return &job->problem; }

void job_figures(const transcription_job *job, const char **model, double *audio_s, double *waited_s,
                 double *worked_s) {
    *model = job->lease.id;
    *audio_s = job->audio_s;
    *waited_s = job->waited_s;
    *worked_s = job->worked_s;
}
