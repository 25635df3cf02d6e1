/* test_pipeline_threads.c - threads change nothing: a recording transcribed with 1, 2, 3 and 8 threads gives the same
 * bytes, and eight sessions at once on one model give the same as one after another. */
#include "kit/check.h"
#include "kit/pipeline_kit.h"

#include <pthread.h>

#include "base/mem.h"

#define N_SAMPLES (size_t)(33 * MXW_SAMPLE_RATE)
#define N_SESSIONS 8

typedef struct job {
    mxw_model *model;
    mxw_session_options options;
    float *samples;
    mx_str json;
    mxw_status status;
} job;

/* Each session has its own recording and its own search: greedy, beam, sampling, and greedy on a running mel; then the
 * same with words, fallback and details of tokens. */
static void fill(job *j, int index) {
    j->options = kit_short_options(8);
    j->options.beam_size = index % 4 == 1 ? 3 : 0;
    j->options.temperature = index % 4 == 2 ? 0.7 : 0;
    j->options.seed = 77;
    j->options.mel_reference = index % 4 == 3 ? MXW_MEL_RUNNING : MXW_MEL_FILE;
    j->options.word_timestamps = index >= 4;
    j->options.temperature_increment = index == 4 ? 0.5 : j->options.temperature_increment;
    j->options.token_details = index == 5 ? 2 : 0;
    j->samples = mx_alloc_array(N_SAMPLES, sizeof(float));
    if (CHECK(j->samples != NULL))
        kit_samples((uint64_t)index, 0, N_SAMPLES, j->samples);
}

static void *transcribe(void *argument) {
    job *j = argument;
    mx_str_clear(&j->json);
    j->status = kit_transcribe(j->model, &j->options, j->samples, N_SAMPLES, &j->json);
    return NULL;
}

static void free_job(job *j) {
    mx_free(j->samples);
    mx_str_free(&j->json);
}

static void test_thread_counts(const char *path) {
    static const int counts[] = {1, 2, 3, 8};
    mx_str first[2] = {{0}, {0}};
    job jobs[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++)
        fill(&jobs[i], i);
    for (size_t c = 0; c < MX_COUNT(counts); c++) {
        mxw_model *model = NULL;
        CHECK_EQ_INT(kit_open(path, counts[c], &model), MXW_OK);
        for (int i = 0; i < 2 && model; i++) {
            jobs[i].model = model;
            transcribe(&jobs[i]);
            CHECK_EQ_INT(jobs[i].status, MXW_OK);
            if (c == 0)
                mx_str_text(&first[i], mx_str_get(&jobs[i].json));
            CHECK_STR(mx_str_get(&jobs[i].json), mx_str_get(&first[i]));
        }
        mxw_model_close(model);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(first[i].n > 200);
        mx_str_free(&first[i]);
        free_job(&jobs[i]);
    }
}

static void test_sessions_at_once(const char *path) {
    mxw_model *model = NULL;
    job alone[N_SESSIONS] = {{0}}, together[N_SESSIONS] = {{0}};
    pthread_t threads[N_SESSIONS];
    if (!CHECK_EQ_INT(kit_open(path, 3, &model), MXW_OK))
        return;
    for (int i = 0; i < N_SESSIONS; i++) {
        fill(&alone[i], i);
        fill(&together[i], i);
        alone[i].model = together[i].model = model;
        transcribe(&alone[i]);
    }
    for (int i = 0; i < N_SESSIONS; i++)
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, transcribe, &together[i]), 0);
    for (int i = 0; i < N_SESSIONS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < N_SESSIONS; i++) {
        CHECK_EQ_INT(alone[i].status, MXW_OK);
        CHECK_EQ_INT(together[i].status, MXW_OK);
        CHECK_STR(mx_str_get(&together[i].json), mx_str_get(&alone[i].json));
        for (int k = 0; k < i; k++)   /* different texts, or the comparison would prove nothing */
            CHECK(strcmp(mx_str_get(&alone[i].json), mx_str_get(&alone[k].json)) != 0);
        free_job(&alone[i]);
        free_job(&together[i]);
    }
    mxw_model_close(model);
}

/* Models opened, used and closed by several threads at the same time: they share no state. */
static void *open_and_run(void *argument) {
    job *j = argument;
    j->status = kit_open("", 2, &j->model);   /* fails with this thread's error line */
    int refused = j->status == MXW_E_ARGUMENT && strstr(mxw_last_error(), "model") != NULL;
    j->status = kit_open((const char *)j->options.user, 2, &j->model);
    j->options.user = NULL;
    if (j->status >= 0)
        transcribe(j);
    mxw_model_close(j->model);
    if (!refused)
        j->status = MXW_E_INTERNAL;
    return NULL;
}

static void test_models_at_once(const char *path) {
    job jobs[2] = {{0}, {0}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        fill(&jobs[i], 0);
        jobs[i].options.user = (void *)(uintptr_t)path;
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, open_and_run, &jobs[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ_INT(jobs[0].status, MXW_OK);
    CHECK_EQ_INT(jobs[1].status, MXW_OK);
    CHECK_STR(mx_str_get(&jobs[0].json), mx_str_get(&jobs[1].json));
    free_job(&jobs[0]);
    free_job(&jobs[1]);
}

int main(int argc, char **argv) {
    char folder[4096], path[4200];
    if (argc > 1)
        kit_on("pipeline-threads", argv[1]);
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    snprintf(path, sizeof(path), "%s/small.pt", folder);
    gen_options o = {.dims = kit_dims(51865, 48, 3, 1), .dtype = MXW_F16, .seed = 4};
    if (CHECK(gen_pt(path, &o) == 0)) {
        test_thread_counts(path);
        test_sessions_at_once(path);
        test_models_at_once(path);
    }
    CHECK_EQ_INT(mx_mem_live(), 0);
    gen_remove(folder);
    return check_done();
}
