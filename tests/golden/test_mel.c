/* tests/golden/test_mel.c - the log-mel of first windows against openai-whisper's, within
 * max abs difference 5e-5, mean 2e-6. */
#include <math.h>

#include "kit/check.h"
#include "feature/feature.h"
#include "kit/golden.h"

#define MAX_DIFFERENCE 5e-5
#define MEAN_DIFFERENCE 2e-6

static void compare(const json_t *row, const float *mel) {
    const json_t *values = golden_array(row, "values");
    size_t stride = (size_t)golden_integer(row, "stride"), n = json_array_size(values);
    double worst = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)mel[i * stride] - json_number_value(json_array_get(values, i)));
        worst = d > worst ? d : worst;
        sum += d;
    }
    printf("%s %s: %zu values, max difference %.2g, mean %.2g\n", golden_string(row, "clip"),
           golden_string(row, "stage"), n, worst, sum / (double)n);
    CHECK(n > 1000);
    CHECK(worst <= MAX_DIFFERENCE);
    CHECK(sum / (double)n <= MEAN_DIFFERENCE);
}

static void check_row(const json_t *row, const golden_clip *clip) {
    int n_mels = (int)json_integer_value(json_array_get(golden_array(row, "shape"), 1));
    float *window = malloc(MX_MEL_WINDOW * (size_t)n_mels * sizeof(float));
    mx_mel *mel = NULL;
    int64_t content = golden_integer(row, "content_frames");
    if (CHECK(window && mx_mel_open(n_mels, MXW_MEL_FILE, &mel) == MXW_OK) &&
        CHECK(mx_mel_feed(mel, clip->samples, clip->n) == MXW_OK) && CHECK(mx_mel_finish(mel) == MXW_OK) &&
        CHECK_EQ_INT(mx_mel_frames(mel), content) &&
        CHECK(mx_mel_window(mel, 0, content < MX_MEL_WINDOW ? content : MX_MEL_WINDOW, MX_MEL_ZEROS, window) == MXW_OK))
        compare(row, window);
    mx_mel_close(mel);
    free(window);
}

int main(void) {
    json_t *rows = golden_rows("mel.jsonl");
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        char path[4096];
        const char *name = golden_string(row, "clip");
        golden_clip clip;
        if (!golden_clip_path(name, path, sizeof(path))) {
            printf("SKIP: golden-mel: %s %s is not installed (tools/make-speech, tools/fetch-speech)\n", name,
                   golden_string(row, "stage"));
            continue;
        }
        if (!CHECK(golden_clip_read(path, &clip) == 0))
            continue;
        if (CHECK(golden_clip_matches(&clip, row)))
            check_row(row, &clip);
        golden_clip_free(&clip);
    }
    json_decref(rows);
    return check_done();
}
