/* many.c - many files on many threads, with one model: each thread takes the next file and writes FILE.srt.
 *
 *   many MODEL THREADS FILE...
 *
 * The model is opened for that many sessions at once (mxw_model_options.batch): their windows and steps are then run
 * together, which is faster than one after another, and every file's text is what it is alone. */
#include <max_whisper.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_THREADS = 64 };

typedef struct job {
    mxw_model *model; /* shared */
    char **files;
    int n_files;
    pthread_mutex_t lock; /* of what follows */
    int next, n_failed;
} job;

static mxw_status transcribe(mxw_model *model, const char *file) {
    mxw_audio_options audio_options;
    mxw_audio *audio = NULL;
    mxw_session *session = NULL;
    const mxw_segment *segment;
    const mxw_result *result;
    char path[4096];
    mxw_audio_options_default(&audio_options);
    audio_options.path = file;
    mxw_status status = mxw_audio_open(&audio_options, &audio);
    if (status >= 0)
        status = mxw_session_open(model, NULL, &session);
    if (status >= 0)
        status = mxw_session_feed_audio(session, audio);
    if (status >= 0)
        status = mxw_session_finish(session);
    while (status >= 0 && (status = mxw_session_next(session, &segment)) == MXW_OK)
        ;
    if (status >= 0) {
        result = mxw_session_result(session);
        snprintf(path, sizeof(path), "%s.srt", file);
        status = result ? mxw_result_save(result, "srt", NULL, path) : MXW_E_MEMORY; /* whole, or not at all */
    }
    mxw_session_close(session);
    mxw_audio_close(audio);
    return status;
}

static void *work(void *argument) {
    job *j = argument;
    for (;;) {
        pthread_mutex_lock(&j->lock);
        int i = j->next < j->n_files ? j->next++ : -1;
        pthread_mutex_unlock(&j->lock);
        if (i < 0)
            return NULL;
        if (transcribe(j->model, j->files[i]) < 0) {
            fprintf(stderr, "%s: %s\n", j->files[i], mxw_last_error()); /* of this thread */
            pthread_mutex_lock(&j->lock);
            j->n_failed++;
            pthread_mutex_unlock(&j->lock);
        }
    }
}

int main(int argc, char **argv) {
    mxw_model_options options;
    pthread_t threads[MAX_THREADS];
    job j = {.files = argv + 3, .n_files = argc - 3};
    int n_threads = argc > 3 ? atoi(argv[2]) : 0, n_started = 0;
    if (n_threads < 1 || n_threads > MAX_THREADS) {
        fprintf(stderr, "usage: many MODEL THREADS FILE...   (1 to %d threads)\n", MAX_THREADS);
        return 2;
    }
    mxw_model_options_default(&options);
    options.model = argv[1];
    options.batch = n_threads;
    if (mxw_model_open(&options, &j.model) < 0) {
        fprintf(stderr, "%s\n", mxw_last_error());
        return 1;
    }
    while (mxw_model_reserve(j.model, NULL, n_threads) == MXW_E_MEMORY && n_threads > 1) {
        fprintf(stderr, "%s\n", mxw_last_error());
        n_threads /= 2; /* fewer at once, with the same text */
    }
    pthread_mutex_init(&j.lock, NULL);
    while (n_started < n_threads && !pthread_create(&threads[n_started], NULL, work, &j))
        n_started++;
    if (!n_started)
        work(&j);
    for (int i = 0; i < n_started; i++)
        pthread_join(threads[i], NULL);
    mxw_model_close(j.model);
    printf("%d of %d files done\n", j.n_files - j.n_failed, j.n_files);
    return j.n_failed != 0;
}
