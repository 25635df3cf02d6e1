/* test_device_memory.c - a device without enough memory: an error that says what it was for, everything released, and
 * the same model works with a smaller batch, byte for byte. Memory stays what was reserved at first.
 *
 * usage: test_device_memory WHERE [full]    "max fake", "max cpu", "max cuda": compiled; fake: op by op */
#include "kit/check.h"
#include "kit/pipeline_kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "pipeline/session.h"

#define N 6
#define PLENTY ((uint64_t)1 << 30)   /* more than is needed, less than any device has */

static char path[4200];
static mxw_session_options options[N];
static float *samples[N];
static size_t n_samples[N];
static mx_str alone[N], json[N];
static mxw_status status_of[N];
static char line_of[N][512];

static void limit_to(uint64_t bytes) {
    char text[32];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
    setenv("MXW_DEVICE_MEMORY", text, 1);
}

static mxw_model *open_model(int batch) {
    mxw_model *model = NULL;
    mxw_model_options o = kit_model_options(path, 2);
    o.batch = batch;
    if (!CHECK_EQ_INT(mxw_model_open(&o, &model), MXW_OK))
        printf("    %s\n", mxw_last_error());
    return model;
}

/* Bytes available on the model's device. */
static uint64_t bytes_left(const mxw_model *model) {
    mxw_model_info model_info = {.struct_size = sizeof(model_info)};
    mxw_device_info info = {.struct_size = sizeof(info)};
    mxw_model_get_info(model, &model_info);
    for (int i = 0; i < mxw_device_count(); i++)
        if (CHECK_EQ_INT(mxw_device_get(i, &info), MXW_OK) && strcmp(info.id, model_info.device) == 0)
            break;
    CHECK(info.memory_limit_bytes > 0);
    return info.memory_free_bytes;
}

/* ---- recordings -------------------------------------------------------------------------------------------------- */

static mxw_model *shared;

static void *transcribe(void *argument) {
    int i = (int)((mx_str *)argument - json);
    mx_str_clear(&json[i]);
    status_of[i] = kit_transcribe(shared, &options[i], samples[i], n_samples[i], &json[i]);
    snprintf(line_of[i], sizeof(line_of[i]), "%s", status_of[i] < 0 ? mxw_last_error() : "");
    return NULL;
}

/* The first n at once; each must equal its result alone. */
static void transcribe_all(mxw_model *model, int n) {
    pthread_t threads[N];
    shared = model;
    for (int i = 0; i < n; i++)
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, transcribe, &json[i]), 0);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < n; i++)
        if (!CHECK(status_of[i] >= 0 && strcmp(mx_str_get(&json[i]), mx_str_get(&alone[i])) == 0))
            printf("    recording %d of %d: %s %s\n", i, n, mxw_status_name(status_of[i]), line_of[i]);
}

static void prepare(void) {
    unsetenv("MXW_DEVICE_MEMORY");
    shared = open_model(1);
    for (int i = 0; i < N; i++) {
        options[i] = kit_short_options(5 + i % 3);
        options[i].beam_size = 3;
        options[i].language = "de";
        options[i].word_timestamps = i % 2;
        n_samples[i] = (size_t)(i == 1 ? 33 : 2 + i) * MXW_SAMPLE_RATE;
        samples[i] = mx_alloc_array(n_samples[i], sizeof(float));
        if (!CHECK(samples[i] != NULL))
            exit(1);
        kit_samples((uint64_t)i, 0, n_samples[i], samples[i]);
        transcribe(&json[i]);
        CHECK_EQ_INT(status_of[i], MXW_OK);
        mx_str_text(&alone[i], mx_str_get(&json[i]));
        CHECK(mx_str_get(&alone[i])[0] != 0);
    }
    mxw_model_close(shared);
}

/* A session with the largest requests of all. */
static mxw_session_options widest(void) {
    mxw_session_options o = options[2];
    o.word_timestamps = 1;
    return o;
}

/* ---- the variable ------------------------------------------------------------------------------------------------ */

static void test_variable(void) {
    static const char *const wrong[] = {"-1", "12Q", "1MM", "much", " 5", "99999999999999999999", "17179869184G"};
    mxw_model *model = NULL;
    mxw_model_options o = kit_model_options(path, 1);
    for (size_t i = 0; i < MX_COUNT(wrong); i++) {
        setenv("MXW_DEVICE_MEMORY", wrong[i], 1);
        CHECK_EQ_INT(mxw_model_open(&o, &model), MXW_E_ARGUMENT);
        if (!CHECK(strstr(mxw_last_error(), "MXW_DEVICE_MEMORY: '") != NULL))
            printf("    %s: %s\n", wrong[i], mxw_last_error());
    }
    static const struct {
        const char *text;
        uint64_t bytes;
    } right[] = {{"4097K", 4097u << 10}, {"300M", 300u << 20}, {"2G", (uint64_t)2 << 30}, {"", 0}};
    for (size_t i = 0; i < MX_COUNT(right); i++) {
        mxw_device_info info = {.struct_size = sizeof(info)};
        setenv("MXW_DEVICE_MEMORY", right[i].text, 1);
        CHECK_EQ_INT(mxw_device_get(0, &info), MXW_OK);
        CHECK(info.memory_limit_bytes == right[i].bytes);
    }
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/* The memory of the model, and of each batch. */
static uint64_t of_model, of_batch[N + 1];

static void measure(void) {
    mxw_session_options wide = widest();
    limit_to(PLENTY);
    mxw_model *model = open_model(1);
    of_model = PLENTY - bytes_left(model);
    for (int n = 1; n <= N; n++) {
        CHECK_EQ_INT(mxw_model_reserve(model, &wide, n), MXW_OK);
        of_batch[n] = PLENTY - bytes_left(model) - of_model;
        CHECK(of_batch[n] > of_batch[n - 1]);
    }
    mxw_model_close(model);
    printf("model %llu bytes, batches of 1 to %d: %llu to %llu\n", (unsigned long long)of_model, N,
           (unsigned long long)of_batch[1], (unsigned long long)of_batch[N]);
}

static int tells(const char *what) {
    const char *line = mxw_last_error();
    int right = strstr(line, what) && strstr(line, ": not enough memory: ") && strstr(line, " MiB asked, ") &&
                strstr(line, " MiB free (MXW_DEVICE_MEMORY)");
    if (!right)
        printf("    \"%s\"\n", line);
    return right;
}

/* Exactly enough memory for `fits`: more fails and leaks nothing; that many run without further allocations. */
static void test_fitting(int fits, int compiled) {
    mxw_session_options wide = widest();
    mxw_session *one = NULL;
    limit_to(of_model + of_batch[fits]);
    mxw_model *model = open_model(N);
    uint64_t left = bytes_left(model);
    int64_t live = mx_mem_live();
    CHECK_EQ_INT(mxw_session_open(model, &wide, &one), fits < N ? MXW_E_MEMORY : MXW_OK);
    CHECK(fits == N || tells("batch of 6 sessions: "));
    mxw_session_close(one);
    for (int n = N; n > fits; n--) {
        CHECK_EQ_INT(mxw_model_reserve(model, &wide, n), MXW_E_MEMORY);
        char what[64];
        snprintf(what, sizeof(what), "batch of %d sessions: ", n);
        CHECK(tells(what));
        CHECK(bytes_left(model) == left);
        CHECK_EQ_INT(mx_mem_live(), live);
    }
    CHECK_EQ_INT(mxw_model_reserve(model, &wide, fits), MXW_OK);
    CHECK(bytes_left(model) == 0);
    if (compiled) {
        transcribe_all(model, fits);
        transcribe_all(model, fits);
        CHECK(bytes_left(model) == 0);
    }
    mxw_model_close(model);
}

/* With every slot attached, one more fails; the others are not affected. */
static void test_one_more(void) {
    mxw_session_options wide = widest();
    mxw_session *sessions[2], *third = NULL;
    limit_to(of_model + of_batch[2]);
    mxw_model *model = open_model(2);
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(mxw_session_open(model, &wide, &sessions[i]), MXW_OK);
    CHECK_EQ_INT(mxw_session_open(model, &wide, &third), MXW_E_MEMORY);
    CHECK(tells(""));
    CHECK_EQ_INT(mxw_model_reserve(model, &wide, 1), MXW_E_STATE);
    CHECK(strstr(mxw_last_error(), "2 sessions of the model are open") != NULL);
    for (int i = 0; i < 2; i++)
        mxw_session_close(sessions[i]);
    transcribe_all(model, 2);
    CHECK_EQ_INT(mxw_model_reserve(model, &wide, 0), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_model_reserve(model, &wide, 257), MXW_E_ARGUMENT);
    mxw_model_close(model);
}

/* ---- every block in turn ----------------------------------------------------------------------------------------- */

/* One byte too few: whichever block fails, nothing leaks, and with that byte all succeeds. */
static void test_limits(int n_limits) {
    mxw_session_options wide = widest();
    uint64_t all = of_model + of_batch[2];
    int64_t base = mx_mem_live();
    for (int i = 0; i < n_limits; i++) {
        mxw_model *model = NULL;
        mxw_model_options o = kit_model_options(path, 2);
        limit_to(i == n_limits - 1 ? all - 1 : all / (uint64_t)n_limits * (uint64_t)i);
        mxw_status status = mxw_model_open(&o, &model);
        if (status >= 0)
            status = mxw_model_reserve(model, &wide, 2);
        CHECK_EQ_INT(status, MXW_E_MEMORY);
        CHECK(tells(model ? "batch of 2 sessions: " : ""));
        mxw_model_close(model);
        CHECK_EQ_INT(mx_mem_live(), base);
    }
}

/* The same for every allocation of the library; on the fake device its memory is among them. */
static void test_allocations(int64_t stride) {
    mxw_session_options wide = widest();
    int64_t n_failed = 0;
    unsetenv("MXW_DEVICE_MEMORY");
    mxw_model *model = open_model(1);
    int64_t live = mx_mem_live();
    mxw_status status = MXW_E_MEMORY;
    for (int64_t n = 0; status < 0; n += stride) {
        mx_mem_fail_after(n);
        status = mxw_model_reserve(model, &wide, 3);
        mx_mem_fail_after(-1);
        n_failed += status < 0;
        if (status < 0 && !CHECK(status == MXW_E_MEMORY && strstr(mxw_last_error(), "memory") && mx_mem_live() == live))
            printf("    allocation %lld: %s\n", (long long)n, mxw_last_error());
    }
    printf("%lld of the allocations of a batch made to fail\n", (long long)n_failed);
    CHECK(n_failed * stride > 50);
    transcribe_all(model, 3);
    mxw_model_close(model);
}

/* ---- op by op ---------------------------------------------------------------------------------------------------- */

/* Holds the device until that many others wait for it, so that they are batched. */
typedef struct gate {
    mx_slot *slot;
    int wanted;
    atomic_int held;
} gate;

static void pause_briefly(void) { nanosleep(&(struct timespec){0, 1000000}, NULL); }

static mxw_status hold(void *context, mx_step_runner *runner, int slot) {
    gate *g = context;
    atomic_store(&g->held, 1);
    for (int i = 0; mx_slot_counts(g->slot).waiting < g->wanted && i < 60000; i++)
        pause_briefly();
    return MXW_OK;
}

static void *hold_gate(void *argument) {
    gate *g = argument;
    mx_slot_exclusive(g->slot, hold, g);
    return NULL;
}

static void *encode(void *argument) {
    mx_session *s = argument;
    mxw_status status = mx_session_encode_window(s, 0, 100, MX_MEL_ZEROS);
    return (void *)(intptr_t)status;
}

static void encode_together(mx_session **sessions, int n) {
    pthread_t gate_thread, threads[N];
    gate g = {.slot = sessions[0]->slot, .wanted = n - 1};
    CHECK_EQ_INT(pthread_create(&gate_thread, NULL, hold_gate, &g), 0);
    while (!atomic_load(&g.held))
        pause_briefly();
    for (int i = 1; i < n; i++)
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, encode, sessions[i]), 0);
    for (int i = 1; i < n; i++) {
        void *status;
        pthread_join(threads[i], &status);
        CHECK_EQ_INT((int)(intptr_t)status, MXW_OK);
    }
    pthread_join(gate_thread, NULL);
}

static int n_told;

static void count_lines(void *user, const mxw_log_message *message) {
    n_told += message->level == MXW_LOG_WARN &&
              strstr(message->text, "windows do not fit into one encoder run") != NULL;
}

/* The eager executor allocates on demand: if too many windows do not fit, fewer are tried, with one warning. */
static void test_narrower(void) {
    mx_session *sessions[5];
    mxw_session_options o = widest();
    limit_to(PLENTY);
    mxw_model *model = open_model(5);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ_INT(mxw_session_open(model, &o, &sessions[i]), MXW_OK);
        CHECK_EQ_INT(mxw_session_feed(sessions[i], samples[0], n_samples[0]), MXW_OK);
        CHECK_EQ_INT(mxw_session_finish(sessions[i]), MXW_OK);
    }
    CHECK_EQ_INT((int)(intptr_t)encode(sessions[0]), MXW_OK);   /* room for one */
    uint64_t taken = PLENTY - bytes_left(model);
    limit_to(taken);
    mxw_log_set(MXW_LOG_WARN, count_lines, NULL);
    encode_together(sessions, 5);
    encode_together(sessions, 2);
    mxw_log_set(MXW_LOG_WARN, NULL, NULL);
    CHECK(n_told >= 1 && n_told <= 2);
    limit_to(PLENTY);
    for (int i = 0; i < 5; i++)
        mxw_session_close(sessions[i]);
    transcribe_all(model, 5);
    mxw_model_close(model);
}

int main(int argc, char **argv) {
    char folder[4096];
    const char *where = argc > 1 ? argv[1] : "max fake";
    int full = argc > 2 && strcmp(argv[2], "full") == 0, compiled = strncmp(where, "max ", 4) == 0;
    kit_on("device-memory", where);
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    snprintf(path, sizeof(path), "%s/small.pt", folder);
    gen_options o = {.dims = kit_dims(51865, 8, 1, 1), .dtype = MXW_F16, .seed = 4};
    if (CHECK(gen_pt(path, &o) == 0)) {
        prepare();
        test_variable();
        measure();
        test_fitting(1, compiled);
        test_fitting(4, compiled);
        test_fitting(N, compiled);
        if (compiled)
            test_one_more();
        else
            test_narrower();
        test_limits(full ? 400 : 40);
        test_allocations(full ? 1 : 7);
        for (int i = 0; i < N; i++) {
            mx_free(samples[i]);
            mx_str_free(&alone[i]);
            mx_str_free(&json[i]);
        }
    }
    CHECK_EQ_INT(mx_mem_live(), 0);
    gen_remove(folder);
    return check_done();
}
