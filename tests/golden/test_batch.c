/* tests/golden/test_batch.c - real speech, many files at once: what each gives alone, byte for byte, and what
 * openai-whisper gives.
 *
 *     golden_batch MODEL BATCH[,BATCH...] [CLIP...] [--engine=max] [--device=ID] [--precision=NAME]
 *
 * The files are the rows of all golden sets, so that greedy, beam search, fallbacks, prompts, prefixes, clips,
 * suppressions of every kind, words and doubtful text share their runs; CLIP picks rows by the start of their clip's
 * name (default: all).
 * As many threads as the batch has slots take file after file. */
#include <pthread.h>

#include "kit/check.h"
#include "kit/pipeline_kit.h"
#include "base/mem.h"
#include "kit/compare.h"
#include "kit/session_options.h"

#define MAX_BATCH 64

typedef struct job {
    const char *mode;
    const json_t *row;
    golden_clip clip;
    mx_str alone, json;
    mxw_status status;
    int verdict; /* 1 identical to the golden, 0 parted within its margin, -1 wrong */
    char line[256];
} job;

typedef struct work {
    pthread_mutex_t lock;
    mxw_model *model;
    int next;
} work;

static job *jobs;
static size_t n_jobs, room_jobs;

/* ---- the files --------------------------------------------------------------------------------------------------- */

static int is_wanted(const char *clip, char **prefixes, int n) {
    for (int i = 0; i < n; i++)
        if (strncmp(clip, prefixes[i], strlen(prefixes[i])) == 0)
            return 1;
    return n == 0;
}

static void add_rows(const char *mode, const json_t *rows, char **prefixes, int n) {
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row) {
        char path[4096];
        const char *clip = golden_string(row, "clip");
        if (!is_wanted(clip, prefixes, n) || !golden_clip_path(clip, path, sizeof(path)) ||
            mx_grow(&jobs, &room_jobs, n_jobs + 1, sizeof(*jobs)) < 0)
            continue;
        job *j = &jobs[n_jobs];
        *j = (job){.mode = mode, .row = row};
        if (CHECK(golden_clip_read(path, &j->clip) == 0 && golden_clip_matches(&j->clip, row)))
            n_jobs++;
    }
}

/* ---- one after another, or at once ------------------------------------------------------------------------------- */

static void transcribe(mxw_model *model, job *j) {
    mxw_session_options options;
    mxw_session *session = NULL;
    session_options_of(j->mode, j->row, &options);
    options.word_timestamps = strncmp(j->mode, "words", 5) == 0;
    mx_str_clear(&j->json);
    j->line[0] = 0;
    j->verdict = -1;
    j->status = mxw_session_open(model, &options, &session);
    if (j->status >= 0)
        j->status = kit_run(session, j->clip.samples, j->clip.n, 0);
    if (j->status >= 0)
        j->status = kit_write(session, "json", &j->json);
    if (j->status < 0)
        snprintf(j->line, sizeof(j->line), "%s", mxw_last_error());
    else if (options.word_timestamps)
        j->verdict = 1;   /* what golden_words looks at */
    else if (strcmp(j->mode, "fallback") == 0)
        j->verdict = compare_fallback(j->row, mxw_session_result(session), golden_tolerance(), j->line,
                                      sizeof(j->line));
    else
        j->verdict = compare_result(j->row, mxw_session_result(session), golden_tolerance(), j->line, sizeof(j->line));
    mxw_session_close(session);
}

static void *worker(void *argument) {
    work *w = argument;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        size_t i = (size_t)w->next++;
        pthread_mutex_unlock(&w->lock);
        if (i >= n_jobs)
            return NULL;
        transcribe(w->model, &jobs[i]);
    }
}

static void run_batch(const char *name, int batch) {
    pthread_t threads[MAX_BATCH];
    int n_identical = 0, n_close = 0;
    work w = {PTHREAD_MUTEX_INITIALIZER, golden_model_batch("golden-batch", name, batch), 0};
    for (int i = 0; i < batch; i++)
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, worker, &w), 0);
    for (int i = 0; i < batch; i++)
        pthread_join(threads[i], NULL);
    mxw_model_close(w.model);
    for (size_t i = 0; i < n_jobs; i++) {
        job *j = &jobs[i];
        const json_t *label = json_object_get(j->row, "case");
        int same = CHECK_STR(mx_str_get(&j->json), mx_str_get(&j->alone));
        if (!CHECK(j->status >= 0 && j->verdict >= 0) || !same)
            printf("    batch %d, %s %s %s: %s\n", batch, j->mode, label ? json_string_value(label) : "",
                   golden_string(j->row, "clip"), j->line);
        n_identical += j->verdict == 1;
        n_close += j->verdict == 0;
    }
    printf("batch %d: %zu files: %d identical to the reference, %d parted within its margin; all as alone: %s\n", batch,
           n_jobs, n_identical, n_close, check_failed ? "no" : "yes");
}

static void run_alone(const char *name) {
    mxw_model *model = golden_model("golden-batch", name);
    for (size_t i = 0; i < n_jobs; i++) {
        transcribe(model, &jobs[i]);
        CHECK(jobs[i].status >= 0 && jobs[i].json.n > 20);
        mx_str_text(&jobs[i].alone, mx_str_get(&jobs[i].json));
    }
    mxw_model_close(model);
}

int main(int argc, char **argv) {
    static const char *const modes[] = {"beam5", "options", "fallback", "words", "words-options", "greedy"};
    json_t *rows[MX_COUNT(modes)];
    golden_take_engine(&argc, argv);
    if (argc < 3) {
        fprintf(stderr, "usage: golden_batch MODEL BATCH[,BATCH...] [CLIP...]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    mxw_model_close(golden_model("golden-batch", argv[1]));   /* or skipped */
    for (size_t i = 0; i < MX_COUNT(modes); i++) {
        char file[256];
        snprintf(file, sizeof(file), "%s/%s.jsonl", argv[1], modes[i]);
        rows[i] = golden_rows(file);
        add_rows(modes[i], rows[i], argv + 3, argc - 3);
    }
    if (n_jobs == 0) {
        printf("SKIP: golden-batch: no speech is installed (tools/fetch-speech)\n");
        return GOLDEN_SKIP;
    }
    run_alone(argv[1]);
    for (char *p = argv[2]; *p; p += *p == ',') {
        int batch = (int)strtol(p, &p, 10);
        if (CHECK(batch >= 1 && batch <= MAX_BATCH))
            run_batch(argv[1], batch);
    }
    for (size_t i = 0; i < n_jobs; i++) {
        golden_clip_free(&jobs[i].clip);
        mx_str_free(&jobs[i].alone);
        mx_str_free(&jobs[i].json);
    }
    mx_free(jobs);
    for (size_t i = 0; i < MX_COUNT(modes); i++)
        json_decref(rows[i]);
    return check_done();
}
