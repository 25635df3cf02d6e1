/* test_failing_parts.c - every allocation made to fail in turn over parts that a plain transcription does not touch:
 * the laboratory, resuming from window records, merging channels, a hub's listing and files. Always an error line,
 * never a crash, never a leak.
 *
 * usage: test_failing_parts [full]    some allocations of each, evenly; full: every one */
#include "kit/check.h"
#include "kit/pipeline_kit.h"

#include <unistd.h>

#include "base/mem.h"
#include "hub/internal.h"
#include "max_whisper/lab.h"

#define N_SAMPLES (2 * (size_t)MXW_SAMPLE_RATE)

static char folder[4096], model_path[4200], dump_path[4200];
static float samples[N_SAMPLES];
static mxw_model *model;

/* ---- the laboratory ---------------------------------------------------------------------------------------------- */

static mxw_status run_lab(void) {
    mxw_status status;
    mxw_features *ours = NULL, *read = NULL;
    mxw_comparison *comparison = NULL;
    mxw_finding finding = {.struct_size = sizeof(finding)};
    mxw_features_options options;
    mxw_session_options session = kit_short_options(3);
    mxw_features_options_default(&options);
    options.session = &session;
    MX_TRY(mxw_features_capture(model, samples, N_SAMPLES, &options, &ours));
    MX_TRY(mxw_features_save(ours, dump_path));
    MX_TRY(mxw_features_open(dump_path, &read));
    MX_TRY(mxw_comparison_open(ours, read, &comparison));
    MX_TRY(mxw_comparison_diagnose(comparison, NULL, &finding));
    CHECK(finding.index < 0);
out:
    mxw_comparison_close(comparison);
    mxw_features_close(read);
    mxw_features_close(ours);
    return status;
}

static mxw_status run_op_checks(void) {
    mxw_op_checks *checks = NULL;
    mxw_status status = mxw_op_checks_open(model, samples, N_SAMPLES, 0, &checks);
    CHECK(status < 0 || mxw_op_checks_count(checks) > 5);
    mxw_op_checks_close(checks);
    return status;
}

/* ---- records, and channels --------------------------------------------------------------------------------------- */

static mx_str record;   /* of the only window; allocated outside of the failing part */

static void on_window(void *user, const void *bytes, size_t n) {
    if (user)
        mx_str_add(user, bytes, n);
}

static mxw_status open_fed(void *user, mxw_session **session) {
    mxw_session_options options = kit_short_options(6);
    options.word_timestamps = 1;
    options.token_details = 2;
    options.on_window = on_window;
    options.user = user;
    mxw_status status = mxw_session_open(model, &options, session);
    if (status >= 0)
        status = mxw_session_feed(*session, samples, N_SAMPLES);
    return status < 0 ? status : mxw_session_finish(*session);
}

static int keep_nothing(void *user, const void *bytes, size_t n) {
    (void)user, (void)bytes, (void)n;
    return 0;
}

static mxw_status run_records(void) {
    mxw_status status;
    mxw_session *session = NULL;
    mxw_merge *merge = NULL;
    MX_TRY(open_fed(NULL, &session));
    MX_TRY(mxw_session_resume(session, record.data, record.n));
    const mxw_result *result = mxw_session_result(session), *both = NULL;
    status = result ? mxw_merge_open(&merge) : MXW_E_MEMORY;
    for (int channel = 2; channel >= 1 && status >= 0; channel--)
        status = mxw_merge_add(merge, channel, result);
    if (status >= 0)
        status = (both = mxw_merge_result(merge)) ? MXW_OK : MXW_E_MEMORY;
    CHECK(status < 0 || both->n_segments == 2 * result->n_segments);
    if (status >= 0)
        status = mxw_result_write(both, "json-full", NULL, keep_nothing, NULL);
out:
    mxw_merge_close(merge);
    mxw_session_close(session);
    return status;
}

/* ---- a hub of the test's own ------------------------------------------------------------------------------------- */

#define SUM "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"   /* of "foo" */

static const char listing[] =
    "{\"sha\": \"0123456789abcdef0123456789abcdef01234567\", \"siblings\": ["
    "{\"rfilename\": \"model.safetensors\", \"lfs\": {\"sha256\": \"" SUM "\", \"size\": 3}},"
    "{\"rfilename\": \"config.json\", \"size\": 3}, {\"rfilename\": \"README.md\", \"size\": 3}]}";

static mxw_status answer(const mx_http_request *request, mx_http_response *a) {
    int list = strstr(request->url, "/api/") != NULL;
    const char *body = list ? listing : "foo";
    *a = (mx_http_response){.code = 200, .length = (int64_t)strlen(body), .from = -1, .total = -1};
    return request->body(request->user, a, body, strlen(body)) ? MXW_E_ABORTED : MXW_OK;
}

static mxw_status run_hub(void) {
    static const mx_curl_table table = {answer};
    mxw_fetch_options options;
    mxw_fetch_options_default(&options);
    mx_hub_job job = {.curl = &table, .options = &options};
    mx_str text = {0};
    mx_arena arena = {0};
    mx_hub_list list = {0};
    mxw_status status;
    MX_TRY(mx_hub_get_text(&job, "http://hub/api/models/a/b", &text));
    MX_TRY(mx_hub_list_parse((const uint8_t *)mx_str_get(&text), text.n, 0, &arena, &list));
    CHECK_EQ_INT(list.n, 2);
    for (size_t i = 0; i < list.n; i++)
        MX_TRY(mx_hub_get_file(&job, "http://hub/a/b/file", &list.files[i], folder));
out:
    mx_arena_free(&arena);
    mx_str_free(&text);
    return status;
}

/* ---- each, with each of its allocations failing ------------------------------------------------------------------ */

/* n_failures: 0: every one */
static void run(const char *what, mxw_status (*part)(void), int64_t n_failures) {
    if (!CHECK_EQ_INT(part(), MXW_OK))   /* opens what is opened once per process */
        printf("    %s: %s\n", what, mxw_last_error());
    int64_t live = mx_mem_live();
    mx_mem_fail_after(-1);
    CHECK_EQ_INT(part(), MXW_OK);
    int64_t total = mx_mem_count(), step = n_failures == 0 || total < n_failures ? 1 : total / n_failures;
    CHECK(total > 3);
    for (int64_t n = 0; n < total; n += step) {
        mx_fail(MXW_OK, "%s", "");
        mx_mem_fail_after(n);
        mxw_status status = part();
        int64_t left = mx_mem_live() - live;
        mx_mem_fail_after(-1);
        if (!CHECK(status == MXW_E_MEMORY && left == 0 && strstr(mxw_last_error(), "memory")))
            printf("    %s, allocation %lld of %lld: %s, %lld blocks left, \"%s\"\n", what, (long long)n,
                   (long long)total, mxw_status_name(status), (long long)left, mxw_last_error());
    }
    CHECK_EQ_INT(part(), MXW_OK);
    printf("%s: %lld allocations, every %lld. made to fail\n", what, (long long)total, (long long)step);
}

static mxw_status make_record(void) {
    mxw_session *session = NULL;
    const mxw_segment *segment;
    mxw_status status = open_fed(&record, &session);
    while (status == MXW_OK)
        status = mxw_session_next(session, &segment);
    mxw_session_close(session);
    return status;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    int full = argc > 1 && strcmp(argv[1], "full") == 0;
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    snprintf(model_path, sizeof(model_path), "%s/model.pt", folder);
    snprintf(dump_path, sizeof(dump_path), "%s/dump.npz", folder);
    gen_options o = {.dims = kit_dims(51864, 16, 1, 1), .seed = 1};
    kit_samples(3, 0, N_SAMPLES, samples);
    if (CHECK(gen_pt(model_path, &o) == 0) && CHECK_EQ_INT(kit_open(model_path, 1, &model), MXW_OK) &&
        CHECK_EQ_INT(make_record(), MXW_END) && CHECK(record.n > 200)) {
        run("features, saved, read, compared", run_lab, full ? 0 : 6);
        run("ops against float64", run_op_checks, full ? 0 : 2);
        run("a record taken back, channels merged", run_records, full ? 0 : 30);
        run("a list and files from a hub", run_hub, 0);
    }
    mxw_model_close(model);
    mx_str_free(&record);
    CHECK_EQ_INT(mx_mem_live(), 0);
    gen_remove(folder);
    return check_done();
}
