/* tests/golden/test_vad.c - speech detection with Silero's own weights: probabilities of a recording as onnxruntime
 * computes them, at both rates and from both files, and the same regions. The recording is that of
 * tests/golden/make/vad.py, made here again: a clip, nothing, noise, another clip. */
#include <math.h>

#include "kit/check.h"
#include "kit/golden.h"

#define TOLERANCE 1e-5

static int32_t noise_at(uint64_t i) {
    uint64_t x = (i + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    x ^= x >> 32;
    return (int32_t)(x >> 51) - 4096;
}

static void add_clip(float *to, size_t *n, const char *name) {
    char path[4096];
    golden_clip clip;
    if (golden_clip_read(check_path(name, path, sizeof(path)), &clip) != 0)
        exit(1);
    memcpy(to + *n, clip.samples, clip.n * sizeof(*to));
    *n += clip.n;
    golden_clip_free(&clip);
}

enum { MOST = 300000 };

static size_t make_recording(float *x, int rate) {
    size_t n = 0;
    add_clip(x, &n, "tests/data/librivox-0880.wav");
    memset(x + n, 0, 24000 * sizeof(*x));
    n += 24000;
    for (uint64_t i = 0; i < 32000; i++)
        x[n++] = (float)noise_at(i) / 32768;
    add_clip(x, &n, "tests/data/librivox-0870.wav");
    size_t step = 16000 / (size_t)rate, kept = (n + step - 1) / step;
    for (size_t i = 0; i < kept; i++)
        x[i] = x[i * step];
    return kept;
}

static void check_row(const json_t *row, const char *jit) {
    static float x[MOST], p[2000];
    char path[4200];
    mxw_vad_options options;
    mxw_vad *vad = NULL;
    mxw_vad_region region = {.struct_size = sizeof(region)};
    const json_t *want = golden_array(row, "probabilities"), *regions = golden_array(row, "regions");
    size_t got = 0, n_regions = 0;
    double worst = 0;
    snprintf(path, sizeof(path), "%.*s%s", (int)(strrchr(jit, '/') + 1 - jit), jit, golden_string(row, "weights"));
    mxw_vad_options_default(&options);
    options.model = path;
    options.sample_rate = (int)golden_integer(row, "rate");
    size_t n = make_recording(x, options.sample_rate);
    CHECK_EQ_INT(n, golden_integer(row, "samples"));
    if (!CHECK_EQ_INT(mxw_vad_open(&options, &vad), MXW_OK)) {
        printf("    %s\n", mxw_last_error());
        return;
    }
    CHECK_EQ_INT(mxw_vad_feed(vad, x, n), MXW_OK);
    CHECK_EQ_INT(mxw_vad_finish(vad), MXW_OK);
    CHECK_EQ_INT(mxw_vad_probabilities(vad, p, 2000, &got), MXW_OK);
    if (!CHECK_EQ_INT(got, json_array_size(want)))
        got = 0;
    for (size_t i = 0; i < got; i++)
        worst = fmax(worst, fabs(p[i] - json_number_value(json_array_get(want, i))));
    CHECK(worst < TOLERANCE);
    printf("%s at %d Hz: %zu chunks, off by %.2g at most\n", golden_string(row, "weights"), options.sample_rate, got,
           worst);
    for (; mxw_vad_next(vad, &region) == MXW_OK; n_regions++) {
        const json_t *one = json_array_get(regions, n_regions);
        CHECK_EQ_INT(region.first, json_integer_value(json_array_get(one, 0)));
        CHECK_EQ_INT(region.end, json_integer_value(json_array_get(one, 1)));
        CHECK(region.start_s == (double)region.first / options.sample_rate);
        CHECK(region.end_s == (double)region.end / options.sample_rate);
    }
    CHECK_EQ_INT(n_regions, json_array_size(regions));
    mxw_vad_close(vad);
}

int main(void) {
    const char *found = mxw_vad_location(NULL, NULL);
    char jit[4096];
    if (!found || !strstr(found, "silero_vad.jit")) {
        printf("SKIP: golden-vad: silero-vad/silero_vad.jit is not in %s\n", mxw_model_dir(NULL));
        return GOLDEN_SKIP;
    }
    snprintf(jit, sizeof(jit), "%s", found);
    json_t *rows = golden_rows("vad.jsonl");
    const json_t *row;
    size_t index, n = 0;
    json_array_foreach(rows, index, row)
        if (strcmp(golden_string(row, "kind"), "probabilities") == 0) {
            check_row(row, jit);
            n++;
        }
    CHECK_EQ_INT(n, 3);
    json_decref(rows);
    return check_done();
}
