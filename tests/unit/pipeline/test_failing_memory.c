/* test_failing_memory.c - every allocation made to fail in turn over a short transcription, from opening the model to
 * the written output: always an error line, never a crash, never a leak. The test makes jansson use the library's
 * allocator; the library itself must not, since callers may use jansson, too.
 *
 * usage: test_failing_memory [full]    one allocation in seven; full: every one */
#include "kit/check.h"
#include "kit/pipeline_kit.h"

#include <jansson.h>

#include "base/mem.h"

static char json_path[4200];
static mx_str srt;   /* of the last run; its memory is reserved before, so that the test itself allocates nothing */

typedef struct run_case {
    const char *what, *path, *wav;
    int beam_size;
    const char *prompt;
} run_case;

static int keep_srt(void *user, const void *bytes, size_t n) {
    (void)user;
    if (srt.n + n >= srt.capacity)
        return 1;
    memcpy(srt.data + srt.n, bytes, n);
    srt.n += n;
    srt.data[srt.n] = 0;
    return 0;
}

static mxw_status take_all(mxw_session *session) {
    mxw_status status;
    const mxw_segment *segment;
    do
        status = mxw_session_next(session, &segment);
    while (status == MXW_OK);
    return status;
}

/* From model to files; fails if any step fails. */
static mxw_status transcribe(const run_case *c) {
    mxw_status status;
    mxw_model *model = NULL;
    mxw_session *session = NULL;
    mxw_audio *audio = NULL;
    mxw_audio_options audio_options;
    mxw_session_options options = kit_short_options(6);
    options.beam_size = c->beam_size;
    options.initial_prompt = options.prefix = c->prompt;
    options.carry_initial_prompt = c->prompt != NULL;
    options.word_timestamps = options.token_details = 1;
    mxw_audio_options_default(&audio_options);
    audio_options.path = c->wav;
    srt.n = 0;
    MX_TRY(kit_open(c->path, 1, &model));
    MX_TRY(mxw_session_open(model, &options, &session));
    MX_TRY(mxw_audio_open(&audio_options, &audio));
    MX_TRY(mxw_session_feed_audio(session, audio));
    MX_TRY(mxw_session_finish(session));
    MX_TRY(take_all(session));
    const mxw_result *result = mxw_session_result(session);
    if (!result) {
        status = MXW_E_MEMORY;
        goto out;
    }
    const char *manifest;
    MX_TRY(mxw_session_manifest(session, &manifest));
    MX_TRY(mxw_result_save(result, "json-full", NULL, json_path));
    MX_TRY(mxw_result_write(result, "srt", NULL, keep_srt, NULL));
out:
    mxw_audio_close(audio);
    mxw_session_close(session);
    mxw_model_close(model);
    return status;
}

/* jansson's lexer ignores a buffer that could not grow: if nothing was lost, a run may succeed. */
static int json_failed;

static void *json_alloc(size_t bytes) {
    void *block = mx_alloc(bytes);
    json_failed |= !block;
    return block;
}

/* One run whose allocation number n fails. */
static void fail_one(const run_case *c, int64_t n, int64_t live, const char *want) {
    json_failed = 0;
    mx_fail(MXW_OK, "%s", "");
    mx_mem_fail_after(n);
    mxw_status status = transcribe(c);
    int64_t made = mx_mem_count(), left = mx_mem_live() - live;
    mx_mem_fail_after(-1);
    int told = status == MXW_E_MEMORY && strstr(mxw_last_error(), "memory");
    if (json_failed)
        told = told || (status == MXW_OK && strcmp(mx_str_get(&srt), want) == 0);
    if (!CHECK(made > n && left == 0 && told))
        printf("    %s, allocation %lld: %s, %lld blocks left, \"%s\"\n", c->what, (long long)n,
               mxw_status_name(status), (long long)left, mxw_last_error());
}

static void run(const run_case *c, int64_t stride) {
    static char want[4096];
    if (!CHECK_EQ_INT(transcribe(c), MXW_OK))   /* opens what is opened once per process */
        printf("    %s: %s\n", c->what, mxw_last_error());
    snprintf(want, sizeof(want), "%s", mx_str_get(&srt));
    CHECK(strstr(want, "-->") != NULL);
    int64_t live = mx_mem_live();
    mx_mem_fail_after(-1);
    CHECK_EQ_INT(transcribe(c), MXW_OK);
    int64_t total = mx_mem_count();
    CHECK(total > 100);
    for (int64_t n = 0; n < total; n += stride)
        fail_one(c, n, live, want);
    CHECK_EQ_INT(transcribe(c), MXW_OK);
    CHECK_STR(mx_str_get(&srt), want);
    printf("%s: %lld allocations, every %lld made to fail\n", c->what, (long long)total, (long long)stride);
}

int main(int argc, char **argv) {
    char folder[4096], pt[4200], ct2[4200], plain[4200], resampled[4200];
    int64_t stride = argc > 1 && strcmp(argv[1], "full") == 0 ? 1 : 7;
    json_set_alloc_funcs(json_alloc, mx_free);
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    snprintf(pt, sizeof(pt), "%s/english.pt", folder);
    snprintf(ct2, sizeof(ct2), "%s/multilingual", folder);
    snprintf(plain, sizeof(plain), "%s/16000.wav", folder);
    snprintf(resampled, sizeof(resampled), "%s/44100.wav", folder);
    snprintf(json_path, sizeof(json_path), "%s/out.json", folder);
    gen_options english = {.dims = kit_dims(51864, 16, 1, 1), .seed = 1};
    gen_options multilingual = {.dims = kit_dims(51865, 16, 2, 1), .dtype = MXW_F16, .seed = 2};
    mx_grow(&srt.data, &srt.capacity, 65536, 1);
    if (CHECK(gen_pt(pt, &english) == 0) && CHECK(gen_ct2(ct2, &multilingual) == 0) &&
        CHECK(kit_wav(plain, 3, 24000, 16000) == 0) && CHECK(kit_wav(resampled, 3, 66150, 44100) == 0)) {
        run(&(run_case){"greedy, OpenAI .pt", pt, plain, 0, NULL}, stride);
        run(&(run_case){"beam 2, prompt and prefix, CTranslate2, 44.1 kHz", ct2, resampled, 2, "a short prompt"},
            stride);
    }
    mx_str_free(&srt);
    gen_remove(folder);
    return check_done();
}
