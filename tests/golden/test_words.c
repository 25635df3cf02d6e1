/* tests/golden/test_words.c - word times through the public API against openai-whisper's.
 *
 *     golden_words MODEL words|words-options|align [CLIP...] [--engine=max] [--device=ID] [--precision=NAME]
 *
 * Each file runs freely: segments and words must be the same, times equal to the hundredth, probabilities within 1e-3.
 * Then each of the golden's windows is aligned from the golden's own state: every boundary at the reference's frame,
 * or, counted, one beside it; farther only where the reference's own path is nearly a tie (its margin is under 1e-2):
 * such a boundary is listed, anything else fails, and so do more than one in a hundred. A file that runs away from the
 * golden may do so only where a boundary of it is such a tie. With `align` nothing runs freely: the windows are those
 * that the golden greedy run decoded, of the whole development set. With another precision than exact times may be
 * a frame (20 ms) beside the golden's, and probabilities differ by golden_tolerance(). */
#include <math.h>

#include "kit/check.h"
#include "kit/golden.h"
#include "pipeline/inspect.h"
#include "kit/session_options.h"

#define TIE 1e-2

typedef struct totals {
    int clips, identical, close, wrong, missing;
    int words, boundaries, exact, beside, ties, astray;
    double worst;   /* probability */
} totals;

typedef struct test {
    const char *mode;
    char label[64];
    mxw_model *model;
    totals t;
} test;

static int same_time(double a, double b) { return fabs(a - b) < golden_allowed()->seconds; }

/* ---- windows from the golden's state ----------------------------------------------------------------------------- */

static void see_boundary(test *T, const json_t *window, size_t i, int32_t got, int32_t want) {
    double margin = json_number_value(json_array_get(golden_array(window, "margins"), i));
    T->t.boundaries++;
    T->t.exact += got == want;
    T->t.beside += abs(got - want) == 1;
    if (abs(got - want) <= 1)
        return;
    printf("TIE: %s: window at %lld, boundary %zu: frame %d, the reference has %d (margin %.2g)\n", T->label,
           (long long)golden_integer(window, "seek"), i, (int)got, (int)want, margin);
    if (CHECK(margin < TIE))
        T->t.ties++;
    else
        T->t.astray++;
}

static int align_window(test *T, mxw_session *session, const json_t *window) {
    size_t n, n_words, token = 0;
    int32_t *tokens = golden_tokens(window, "tokens", &n), *counts = golden_tokens(window, "words", &n_words);
    int32_t *frames = calloc(n + 1, sizeof(*frames));
    double *probabilities = calloc(n + 1, sizeof(*probabilities));
    int64_t size = golden_integer(window, "size");
    int ok = 1;
    if (n > 0 && size >= 4)   /* one frame tells nothing apart */
        ok = CHECK(mx_session_align(session, golden_integer(window, "seek"), size, tokens, n, frames, probabilities) ==
                   MXW_OK);
    for (size_t i = 0; ok && n > 0 && size >= 4 && i <= n_words; i++) {
        int32_t want = (int32_t)json_integer_value(json_array_get(golden_array(window, "frames"), i));
        see_boundary(T, window, i, frames[token], want);
        if (i == n_words)
            break;
        double sum = 0;
        for (int32_t j = 0; j < counts[i]; j++)
            sum += probabilities[token + (size_t)j];
        double want_p = json_number_value(json_array_get(golden_array(window, "probabilities"), i));
        double off = fabs(sum / counts[i] - want_p);
        T->t.worst = fmax(T->t.worst, off);
        ok &= CHECK(off <= golden_tolerance());
        token += (size_t)counts[i];
        T->t.words++;
    }
    free(tokens);
    free(counts);
    free(frames);
    free(probabilities);
    return ok;
}

/* ---- files that run freely --------------------------------------------------------------------------------------- */

static int same_words(const json_t *row, const mxw_segment *segment) {
    const json_t *words = golden_array(row, "words");
    int same = json_array_size(words) == segment->n_words && segment->words;
    for (size_t i = 0; same && i < segment->n_words; i++) {
        const json_t *want = json_array_get(words, i);
        const mxw_word *got = mxw_segment_word(segment, i);
        same = !strcmp(json_string_value(json_array_get(want, 0)), got->word) &&
               same_time(json_number_value(json_array_get(want, 1)), got->start) &&
               same_time(json_number_value(json_array_get(want, 2)), got->end) &&
               fabs(json_number_value(json_array_get(want, 3)) - got->probability) <= golden_tolerance();
    }
    return same;
}

static int same_segment(const json_t *want, const mxw_segment *got) {
    size_t n;
    int32_t *tokens = golden_tokens(want, "tokens", &n);
    int same = golden_integer(want, "seek") == got->seek && same_time(golden_number(want, "start"), got->start) &&
               same_time(golden_number(want, "end"), got->end) && !strcmp(golden_string(want, "text"), got->text) &&
               n == got->n_tokens && !memcmp(tokens, got->tokens, n * sizeof(*tokens)) && same_words(want, got);
    free(tokens);
    return same;
}

static int has_tie(const json_t *row) {
    size_t i, j;
    const json_t *window, *margin;
    json_array_foreach(golden_array(row, "windows"), i, window)
        json_array_foreach(golden_array(window, "margins"), j, margin)
            if (json_number_value(margin) < TIE)
                return 1;
    return 0;
}

/* 1 identical, 0 parted where a tie allows it, -1 wrong */
static int compare(test *T, const json_t *row, const mxw_result *result) {
    const json_t *segments = golden_array(row, "segments");
    size_t n = json_array_size(segments), i = 0;
    while (i < n && i < result->n_segments && same_segment(json_array_get(segments, i), mxw_result_segment(result, i)))
        i++;
    if (i == n && n == result->n_segments)
        return 1;
    printf("%s: %s %s: parts at segment %zu of %zu\n", has_tie(row) ? "CLOSE" : "WRONG", T->label,
           golden_string(row, "clip"), i, n);
    return has_tie(row) ? 0 : -1;
}

static mxw_status transcribe(test *T, const json_t *row, const golden_clip *clip, mxw_session **session) {
    mxw_session_options options;
    const mxw_segment *segment;
    session_options_of(T->mode, row, &options);
    options.word_timestamps = 1;
    if (!json_object_get(row, "segments"))   /* nothing is decoded, so nothing would detect it */
        options.language = golden_string(row, "language");
    mxw_status status = mxw_session_open(T->model, &options, session);
    if (status >= 0)
        status = mxw_session_feed(*session, clip->samples, clip->n);
    if (status >= 0)
        status = mxw_session_finish(*session);
    while (status >= 0 && status != MXW_END && json_object_get(row, "segments"))
        status = mxw_session_next(*session, &segment);
    return status;
}

static void run_row(test *T, const json_t *row) {
    char path[4096];
    const char *name = golden_string(row, "clip");
    golden_clip clip;
    mxw_session *session = NULL;
    if (!golden_clip_path(name, path, sizeof(path))) {
        T->t.missing++;
        if (strncmp(name, "package:", 8) == 0)
            printf("SKIP: %s: %s is not installed (tools/make-speech, tools/fetch-speech)\n", T->label, name);
        return;
    }
    T->t.clips++;
    int verdict = -1;
    if (CHECK(golden_clip_read(path, &clip) == 0)) {
        int freely = json_object_get(row, "segments") != NULL;
        if (golden_clip_matches(&clip, row) &&
            CHECK_EQ_INT(transcribe(T, row, &clip, &session), freely ? MXW_END : MXW_OK)) {
            size_t i;
            const json_t *window;
            verdict = freely ? compare(T, row, mxw_session_result(session)) : 1;
            json_array_foreach(golden_array(row, "windows"), i, window)
                if (!align_window(T, session, window))
                    verdict = -1;
        }
        golden_clip_free(&clip);
    }
    if (!CHECK(verdict >= 0))
        printf("    %s %s: %s\n", T->label, name, mxw_last_error());
    T->t.identical += verdict == 1;
    T->t.close += verdict == 0;
    T->t.wrong += verdict < 0;
    mxw_session_close(session);
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
        fprintf(stderr, "usage: golden_words MODEL words|words-options|align [CLIP...]\n");
        return 2;
    }
    test T = {.mode = argv[2]};
    char file[256];
    size_t i;
    json_t *row;
    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(T.label, sizeof(T.label), "golden %s %s", argv[1], T.mode);
    snprintf(file, sizeof(file), "%s/%s.jsonl", argv[1], T.mode);
    json_t *rows = golden_rows(file);
    T.model = golden_model(T.label, argv[1]);
    json_array_foreach(rows, i, row)
        if (wanted(golden_string(row, "clip"), argv + 3, argc - 3))
            run_row(&T, row);
    printf("%s: %d files: %d identical, %d parted at a tie, %d wrong, %d not there; %d words, %d boundaries: %d at the "
           "frame, %d beside it, %d ties, %d astray; worst probability off by %.2g\n",
           T.label, T.t.clips, T.t.identical, T.t.close, T.t.wrong, T.t.missing, T.t.words, T.t.boundaries, T.t.exact,
           T.t.beside, T.t.ties, T.t.astray, T.t.worst);
    CHECK(100 * (T.t.ties + T.t.astray) <= T.t.boundaries);
    mxw_model_close(T.model);
    json_decref(rows);
    return T.t.clips == 0 ? GOLDEN_SKIP : check_done();
}
