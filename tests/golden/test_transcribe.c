/* tests/golden/test_transcribe.c - whole files through the public API against openai-whisper's transcripts.
 *
 *     golden_transcribe MODEL MODE [CLIP...] [--engine=max] [--device=ID] [--precision=NAME]
 *
 * MODE is greedy, beam5, options or fallback; CLIP picks rows by the start of their clip's name (default: all).
 * Segments' tokens, times and text must be identical, probabilities within 1e-3; every window is then replayed from the
 * golden's state, forced on the reference's tokens, and must agree in each log probability to 1e-3; for a few clips the
 * written files are compared byte by byte. A file may part from the golden only where the reference's own margin in the
 * window of the first difference is under 1e-3: such a file is listed with the margin, anything else fails. With
 * another precision than exact each of these is golden_tolerance(). */
#include <math.h>

#include "kit/check.h"
#include "kit/compare.h"
#include "pipeline/inspect.h"
#include "kit/session_options.h"

typedef struct totals {
    int clips, identical, close, wrong, missing, windows, files;
    double worst_replay;
} totals;

typedef struct test {
    const char *model_name, *mode;
    char label[64]; /* "golden tiny.en beam5" */
    mxw_model *model;
    totals t;
} test;

/* ---- replay -------------------------------------------------------------------------------------- */

/* The prompt as it was handed to the decoder: the golden has start-of-previous before it. */
static int32_t *prompt_of(const json_t *window, size_t *n) {
    int32_t *prompt = golden_tokens(window, "prompt", n);
    if (*n > 0) {
        (*n)--;
        memmove(prompt, prompt + 1, *n * sizeof(*prompt));
    }
    return prompt;
}

static int replay_window(test *T, mxw_session *session, const json_t *window) {
    size_t n_prompt, n;
    int32_t *prompt = prompt_of(window, &n_prompt), *tokens = golden_tokens(window, "tokens", &n);
    const json_t *wanted = golden_array(window, "logprobs");
    float *logprobs = malloc((n + 1) * sizeof(float)), no_speech = NAN;
    int ok = CHECK(logprobs != NULL) &&
             CHECK(mx_session_force(session, golden_integer(window, "seek"), golden_integer(window, "size"), prompt,
                                    n_prompt, tokens, n, logprobs, &no_speech) == MXW_OK);
    if (!ok)
        printf("    %s\n", mxw_last_error());
    /* the reference has one more where end of text was chosen, none at all for a window it never stepped through */
    size_t n_wanted = json_array_size(wanted);
    ok = ok && CHECK(n_wanted == n || n_wanted == n + 1);
    double worst = 0;
    for (size_t i = 0; ok && i < n_wanted; i++) {
        double d = fabs((double)logprobs[i] - json_number_value(json_array_get(wanted, i)));
        if (!(d <= worst))
            worst = d;
        if (!(d <= golden_tolerance()))
            printf("    window at %lld, token %zu: log probability %.6f, the reference has %.6f\n",
                   (long long)golden_integer(window, "seek"), i, (double)logprobs[i],
                   json_number_value(json_array_get(wanted, i)));
    }
    double d = fabs((double)no_speech - golden_number(window, "no_speech_prob"));
    if (ok) {
        ok = CHECK(worst <= golden_tolerance()) & CHECK(d <= golden_tolerance());
        T->t.windows++;
        if (!(worst <= T->t.worst_replay))
            T->t.worst_replay = worst;
    }
    free(prompt);
    free(tokens);
    free(logprobs);
    return ok;
}

static int replay(test *T, mxw_session *session, const json_t *row) {
    size_t i;
    json_t *window;
    int ok = 1;
    json_array_foreach(golden_array(row, "windows"), i, window) ok &= replay_window(T, session, window);
    return ok;
}

/* ---- one clip ------------------------------------------------------------------------------------ */

static mxw_session *transcribe(test *T, const json_t *row, const golden_clip *clip) {
    mxw_session_options options;
    mxw_session *session = NULL;
    const mxw_segment *segment;
    mxw_status status;
    session_options_of(T->mode, row, &options);
    status = mxw_session_open(T->model, &options, &session);
    if (status >= 0)
        status = mxw_session_feed(session, clip->samples, clip->n);
    if (status >= 0)
        status = mxw_session_finish(session);
    while (status >= 0 && status != MXW_END)
        status = mxw_session_next(session, &segment);
    if (status == MXW_END)
        return session;
    printf("    %s\n", mxw_last_error());
    mxw_session_close(session);
    return NULL;
}

/* 1 identical, 0 parted where the reference's margin allows it, -1 wrong */
static int check_clip(test *T, const json_t *row, const golden_clip *clip) {
    char line[256];
    mxw_session *session = transcribe(T, row, clip);
    if (!session)
        return -1;
    const mxw_result *result = mxw_session_result(session);
    int verdict;
    if (strcmp(T->mode, "fallback") == 0) {
        verdict = compare_fallback(row, result, golden_tolerance(), line, sizeof(line));
    } else {
        verdict = compare_result(row, result, golden_tolerance(), line, sizeof(line));
        if (!replay(T, session, row))
            verdict = -1;
        if (verdict == 1 && strcmp(T->mode, "beam5") == 0 &&
            !compare_written(T->model_name, row, result, golden_tolerance(), &T->t.files))
            verdict = -1;
    }
    if (verdict == 0)
        printf("CLOSE: %s %s: %s\n", T->label, golden_string(row, "clip"), line);
    else if (verdict < 0 && line[0])
        printf("WRONG: %s %s: %s\n", T->label, golden_string(row, "clip"), line);
    mxw_session_close(session);
    return verdict;
}

static void run_row(test *T, const json_t *row) {
    char path[4096];
    const char *name = golden_string(row, "clip");
    const json_t *label = json_object_get(row, "case");
    golden_clip clip;
    if (!golden_clip_path(name, path, sizeof(path))) {
        T->t.missing++;
        if (strncmp(name, "package:", 8) == 0)
            printf("SKIP: %s: %s is not installed (tools/make-speech, tools/fetch-speech)\n", T->label, name);
        return;
    }
    T->t.clips++;
    int verdict = -1;
    if (golden_clip_read(path, &clip) == 0) {
        if (golden_clip_matches(&clip, row))
            verdict = check_clip(T, row, &clip);
        golden_clip_free(&clip);
    }
    if (!CHECK(verdict >= 0))
        printf("    %s %s %s\n", T->label, label ? json_string_value(label) : "", name);
    T->t.identical += verdict == 1;
    T->t.close += verdict == 0;
    T->t.wrong += verdict < 0;
}

static int wanted(const char *clip, char **prefixes, int n) {
    for (int i = 0; i < n; i++)
        if (strncmp(clip, prefixes[i], strlen(prefixes[i])) == 0)
            return 1;
    return n == 0;
}

int main(int argc, char **argv) {
    golden_take_engine(&argc, argv);
    if (argc < 3) {
        fprintf(stderr, "usage: golden_transcribe MODEL greedy|beam5|options|fallback [CLIP...]\n");
        return 2;
    }
    test T = {.model_name = argv[1], .mode = argv[2]};
    char file[256];
    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(T.label, sizeof(T.label), "golden %s %s", T.model_name, T.mode);
    snprintf(file, sizeof(file), "%s/%s.jsonl", T.model_name, T.mode);
    json_t *rows = golden_rows(file), *row;
    T.model = golden_model(T.label, T.model_name);
    size_t i;
    int of_set = 0;
    json_array_foreach(rows, i, row) {
        int before = T.t.missing;
        if (!wanted(golden_string(row, "clip"), argv + 3, argc - 3))
            continue;
        run_row(&T, row);
        of_set += T.t.missing > before && strncmp(golden_string(row, "clip"), "package:", 8) != 0;
    }
    if (of_set > 0)
        printf("SKIP: %s: %d clips of the development set, which is not beside the source tree\n", T.label, of_set);
    printf(
        "%s: %d files: %d identical, %d parted within the reference's margin, %d wrong; %d windows replayed, worst log "
        "probability difference %.2g; %d written files equal\n",
        T.label, T.t.clips, T.t.identical, T.t.close, T.t.wrong, T.t.windows, T.t.worst_replay, T.t.files);
    mxw_model_close(T.model);
    json_decref(rows);
    if (T.t.clips == 0)
        return GOLDEN_SKIP;
    return check_done();
}
