/* tests/golden/test_faults.c - what the old experiment got wrong, each fault made again and each one caught.
 *
 * One judgement of encoder features (cosine, mean and deviation against openai-whisper's) passes on the right ones and
 * fails on those of a decibel mel of another hop, of a missing last norm, of kernel-averaged convolutions, and on
 * features that were scaled or made up. A tensor that is gone is a hard error with its name. A second window's words
 * are in the text. Nothing is ever substituted. Model tiny.en; the speech is kept in tests/data. */
#include <math.h>
#include <unistd.h>
#include <zlib.h>

#include "kit/check.h"
#include "kit/gen_checkpoint.h"
#include "base/file.h"
#include "base/mem.h"
#include "kit/golden.h"
#include "pipeline/inspect.h"
#include "randn.h"
#include "weights/format/zip.h"

#define CLIP "package:pocketsphinx-librivox-0870"
#define SECOND_CLIP "package:pocketsphinx-librivox-0880"
#define N_MELS 80
#define N_FRAMES 3000
#define N_FEATURES (1500 * 384)

static char folder[4096], copy_path[4200];
static float mel[N_FRAMES * N_MELS], features[N_FEATURES];
static json_t *rows;

static golden_clip read_clip(const char *name) {
    char path[4096];
    golden_clip clip = {0};
    CHECK(golden_clip_path(name, path, sizeof(path)) && golden_clip_read(path, &clip) == 0);
    return clip;
}

/* ---- the judgement ------------------------------------------------------------------------------------- */

typedef struct judgement {
    double cosine, mean, std, want_mean, want_std;
    int ok;
} judgement;

static judgement judge(const float *x) {
    judgement j = {0};
    double ab = 0, aa = 0, bb = 0, sum = 0, squares = 0;
    size_t i;
    json_t *row, *value;
    const json_t *golden = NULL;
    json_array_foreach(rows, i, row) {
        const json_t *stage = json_object_get(row, "stage");
        if (stage && strcmp(json_string_value(stage), "encoder.ln_post") == 0 &&
            strcmp(golden_string(row, "clip"), CLIP) == 0)
            golden = row;
    }
    size_t stride = (size_t)golden_integer(golden, "stride");
    json_array_foreach(golden_array(golden, "values"), i, value) {
        double a = x[i * stride], b = json_number_value(value);
        ab += a * b, aa += a * a, bb += b * b;
    }
    for (i = 0; i < N_FEATURES; i++)
        sum += x[i];
    j.mean = sum / N_FEATURES;
    for (i = 0; i < N_FEATURES; i++)
        squares += (x[i] - j.mean) * (x[i] - j.mean);
    j.std = sqrt(squares / N_FEATURES);
    j.cosine = ab / sqrt(aa * bb);
    j.want_mean = golden_number(golden, "mean");
    j.want_std = golden_number(golden, "std");
    j.ok = j.cosine >= 0.999999 && fabs(j.std / j.want_std - 1) <= 1e-4 && fabs(j.mean - j.want_mean) <= 1e-4;
    return j;
}

static judgement show(const char *what, judgement j) {
    printf("%-28s cosine %9.6f, mean %8.4f, std %7.4f: %s\n", what, j.cosine, j.mean, j.std, j.ok ? "agrees" : "parts");
    return j;
}

/* The clip's own mel, in `mel`; the session stays open for encoding. */
static mx_session *open_session(mxw_model *model) {
    mx_session *session = NULL;
    mxw_session_options options;
    golden_clip clip = read_clip(CLIP);
    mxw_session_options_default(&options);
    CHECK_EQ_INT(mx_session_open(model, &options, &session), MXW_OK);
    CHECK_EQ_INT(mx_session_feed(session, clip.samples, clip.n), MXW_OK);
    CHECK_EQ_INT(mx_session_finish(session), MXW_OK);
    CHECK_EQ_INT(mx_session_mel(session, 0, (int64_t)clip.n / 160, mel), MXW_OK);
    golden_clip_free(&clip);
    return session;
}

/* ---- the faults ------------------------------------------------------------------------------------------ */

static double hz_of(double m) { return 700 * (pow(10, m / 2595) - 1); }

/* Energy in 80 triangles of one frame's spectrum, the way the experiment's library does by default. */
static void mel_of_frame(const double *power, double *out) {
    const double top = 2595 * log10(1 + 8000 / 700.0), bin_hz = 16000.0 / 2048;
    for (int m = 0; m < N_MELS; m++) {
        double low = hz_of(top * m / (N_MELS + 1)), centre = hz_of(top * (m + 1) / (N_MELS + 1));
        double high = hz_of(top * (m + 2) / (N_MELS + 1)), sum = 1e-10;
        for (int bin = (int)ceil(low / bin_hz); bin <= 1024 && bin * bin_hz < high; bin++) {
            double hz = bin * bin_hz;
            sum += power[bin] * fmax(0, fmin((hz - low) / (centre - low), (high - hz) / (high - centre)));
        }
        out[m] = 10 * log10(sum);
    }
}

/* n_fft 2048, hop 512, decibels under the loudest, cut at -80: what one side of the experiment was fed. */
static void decibel_mel(const golden_clip *clip, float *out) {
    enum { FFT = 2048, HOP = 512 };
    static double cosine[FFT], frame[FFT], power[FFT / 2 + 1], all[N_FRAMES][N_MELS];
    double loudest = -1e9;
    int n = (int)(clip->n / HOP);
    for (int i = 0; i < FFT; i++)
        cosine[i] = cos(2 * 3.14159265358979323846 * i / FFT);
    for (int t = 0; t < n; t++) {
        for (int i = 0; i < FFT; i++) {
            size_t at = (size_t)t * HOP + (size_t)i;
            frame[i] = at < clip->n ? clip->samples[at] * (0.5 - 0.5 * cosine[i]) : 0;
        }
        for (int bin = 0; bin <= FFT / 2; bin++) {
            double re = 0, im = 0;
            for (int i = 0; i < FFT; i++) {
                re += frame[i] * cosine[bin * i % FFT];
                im += frame[i] * cosine[(bin * i + FFT / 4) % FFT];
            }
            power[bin] = re * re + im * im;
        }
        mel_of_frame(power, all[t]);
        for (int m = 0; m < N_MELS; m++)
            loudest = fmax(loudest, all[t][m]);
    }
    for (int t = 0; t < N_FRAMES; t++)
        for (int m = 0; m < N_MELS; m++)
            out[t * N_MELS + m] = (float)(t < n ? fmax(all[t][m] - loudest, -80) : -80);
}

static void keep_before_last_norm(void *context, const char *name, const mx_tensor *value) {
    if (strcmp(name, "encoder.blocks.3.mlp.residual") == 0)
        CHECK_EQ_INT(mx_tensor_to_f32(value, context), MXW_OK);
}

static void test_features(mxw_model *model) {
    static float other[N_FEATURES], wrong_mel[N_FRAMES * N_MELS];
    golden_clip clip = read_clip(CLIP);
    mx_session *session = open_session(model);
    CHECK_EQ_INT(mx_session_encode(session, mel, features, keep_before_last_norm, other), MXW_OK);
    CHECK(show("as it should be", judge(features)).ok);
    judgement j = show("without ln_post", judge(other));
    CHECK(!j.ok && fabs(j.mean - j.want_mean) > 0.1 && fabs(j.std / j.want_std - 1) > 0.5);

    decibel_mel(&clip, wrong_mel);
    CHECK_EQ_INT(mx_session_encode(session, wrong_mel, other, NULL, NULL), MXW_OK);
    j = show("decibel mel, hop 512", judge(other));
    CHECK(!j.ok && j.cosine < 0.9);

    for (size_t i = 0; i < N_FEATURES; i++)
        other[i] = features[i] * 0.25f;
    CHECK(!show("scaled by 0.25", judge(other)).ok);
    randn_fill(42, other, N_FEATURES, 0.4, 0);
    j = show("made up, std 0.40", judge(other));
    CHECK(!j.ok && fabs(j.cosine) < 0.5);
    golden_clip_free(&clip);
    mx_session_close(session);
}

/* ---- faults in the file ------------------------------------------------------------------------------------ */

static void put(size_t offset, const void *bytes, size_t n) {
    FILE *file = fopen(copy_path, "r+b");
    CHECK(file && fseek(file, (long)offset, SEEK_SET) == 0 && fwrite(bytes, 1, n, file) == n && fclose(file) == 0);
}

static int copy_file(const mx_map *map) {
    FILE *file = fopen(copy_path, "wb");
    return CHECK(file && fwrite(map->data, 1, map->n, file) == map->n && fclose(file) == 0);
}

static size_t find_bytes(const uint8_t *bytes, size_t n, const void *wanted, size_t wanted_n) {
    const uint8_t *at = memmem(bytes, n, wanted, wanted_n);
    return at ? (size_t)(at - bytes) : n;
}

/* Calls a tensor by another name in the copy's pickle, and mends the checksums: as if it had never been saved. */
static void rename_tensor(const mx_map *map, const char *name) {
    mx_arena arena = {0};
    mx_zip zip;
    const uint8_t *pickle = NULL;
    const mx_zip_entry *entry = NULL;
    CHECK_EQ_INT(mx_zip_read(map->data, map->n, &arena, &zip), MXW_OK);
    for (size_t i = 0; i < zip.n_entries; i++)
        if (zip.entries[i].name_n > 9 && memcmp(zip.entries[i].name + zip.entries[i].name_n - 9, "/data.pkl", 9) == 0)
            entry = &zip.entries[i];
    if (CHECK(entry != NULL) && CHECK_EQ_INT(mx_zip_data(&zip, entry, &pickle), MXW_OK)) {
        size_t n = strlen(name), at = find_bytes(pickle, (size_t)entry->size, name, n);
        uint8_t *changed = malloc((size_t)entry->size);
        if (CHECK(changed && at < entry->size)) {
            memcpy(changed, pickle, (size_t)entry->size);
            changed[at + n - 1] = 'X';
            uint32_t crc = (uint32_t)crc32_z(0, changed, (size_t)entry->size);
            put((size_t)(pickle - map->data) + at + n - 1, "X", 1);
            put(entry->header + 14, &crc, 4);
            put((size_t)((const uint8_t *)entry->name - map->data) - 46 + 16, &crc, 4);   /* the name is there */
        }
        free(changed);
    }
    mx_arena_free(&arena);
}

static mxw_status open_copy(mxw_model **model) {
    mxw_model_options options;
    mxw_model_options_default(&options);
    options.model = copy_path;
    return mxw_model_open(&options, model);
}

static void test_removed(const mx_map *map) {
    static const char *const names[] = {"encoder.ln_post.weight", "decoder.blocks.2.cross_attn.key.weight",
                                        "encoder.conv2.bias"};
    for (size_t i = 0; i < MX_COUNT(names); i++) {
        mxw_model *model = NULL;
        if (!copy_file(map))
            return;
        CHECK_EQ_INT(open_copy(&model), MXW_OK);   /* the copy itself is sound */
        mxw_model_close(model);
        model = NULL;
        rename_tensor(map, names[i]);
        mxw_status status = open_copy(&model);
        CHECK_EQ_INT(status, MXW_E_MISSING);
        CHECK(model == NULL);
        if (!CHECK(strstr(mxw_last_error(), names[i]) != NULL))
            printf("    %s\n", mxw_last_error());
        mxw_model_close(model);
    }
}

/* The three taps of each kernel replaced by their mean in the middle: an average where a convolution should be. */
static void average_kernels(const char *path, const mx_map *map, const char *name) {
    mx_weights *weights = NULL;
    mx_tensor t = {0};
    CHECK_EQ_INT(mx_weights_open(path, NULL, &weights), MXW_OK);
    if (weights && CHECK_EQ_INT(mx_weights_find(weights, name, &t), MXW_OK) && CHECK(t.dtype == MXW_F16)) {
        int64_t n = mx_tensor_count(&t);
        uint16_t *changed = malloc((size_t)n * 2);
        size_t offset = find_bytes(map->data, map->n, t.data, (size_t)n * 2);
        CHECK(mx_tensor_contiguous(&t) && changed && offset < map->n);
        for (int64_t i = 0; changed && i < n; i += 3) {
            const uint16_t *taps = (const uint16_t *)t.data + i;
            float mean = (mx_f16_to_f32(taps[0]) + mx_f16_to_f32(taps[1]) + mx_f16_to_f32(taps[2])) / 3;
            changed[i] = changed[i + 2] = 0;
            changed[i + 1] = mx_f32_to_f16(mean);
        }
        put(offset, changed, (size_t)n * 2);
        free(changed);
    }
    mx_weights_close(weights);
}

static void test_averaged(const char *path, const mx_map *map) {
    mxw_model *model = NULL;
    if (!copy_file(map))
        return;
    average_kernels(path, map, "encoder.conv1.weight");
    average_kernels(path, map, "encoder.conv2.weight");
    if (CHECK_EQ_INT(open_copy(&model), MXW_OK)) {
        mx_session *session = open_session(model);
        CHECK_EQ_INT(mx_session_encode(session, mel, features, NULL, NULL), MXW_OK);
        judgement j = show("kernels averaged", judge(features));
        CHECK(!j.ok && j.cosine < 0.99);
        mx_session_close(session);
    }
    mxw_model_close(model);
}

static void test_file(const char *path) {
    mx_map map;
    size_t n = strlen(path);
    if (n < 3 || strcmp(path + n - 3, ".pt") != 0) {
        printf("SKIP: golden-faults: %s is no .pt; faults in the file are not tried\n", path);
        return;
    }
    snprintf(copy_path, sizeof(copy_path), "%s/broken.pt", folder);
    if (CHECK_EQ_INT(mx_map_open(path, &map), MXW_OK)) {
        test_removed(&map);
        test_averaged(path, &map);
        mx_map_close(&map);
    }
    unlink(copy_path);
}

/* ---- the second window -------------------------------------------------------------------------------------- */

static size_t count_words(const char *text, const char *from, size_t *found) {
    size_t n = 0;
    char words[4096];
    snprintf(words, sizeof(words), "%s", from);
    *found = 0;
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "), n++)
        *found += strstr(text, word) != NULL;
    return n;
}

static mx_session *transcribe(mxw_model *model, const float *samples, size_t n) {
    mx_session *session = NULL;
    mxw_session_options options;
    const mxw_segment *segment;
    mxw_status status;
    mxw_session_options_default(&options);
    CHECK_EQ_INT(mx_session_open(model, &options, &session), MXW_OK);
    CHECK_EQ_INT(mx_session_feed(session, samples, n), MXW_OK);
    CHECK_EQ_INT(mx_session_finish(session), MXW_OK);
    while ((status = mx_session_next(session, &segment)) == MXW_OK)
        ;
    CHECK_EQ_INT(status, MXW_END);
    return session;
}

/* One clip, a pause until after 30 seconds, another clip: the words of both. */
static void test_second_window(mxw_model *model) {
    golden_clip first = read_clip(CLIP), second = read_clip(SECOND_CLIP);
    size_t at = 31 * MXW_SAMPLE_RATE, n = at + second.n, found;
    float *both = calloc(n, sizeof(float));
    if (CHECK(both && first.n < at && second.n > 0)) {
        memcpy(both, first.samples, first.n * sizeof(float));
        memcpy(both + at, second.samples, second.n * sizeof(float));
        mx_session *joined = transcribe(model, both, n), *alone = transcribe(model, second.samples, second.n);
        const mxw_result *result = mx_session_result(joined), *wanted = mx_session_result(alone);
        size_t words = count_words(result->text, wanted->text, &found);
        printf("second window: %zu of its %zu words; %lld windows\n", found, words, (long long)result->n_windows);
        CHECK(words >= 5 && found >= words - words / 5);
        CHECK(result->n_windows >= 2 && result->n_segments > 0);
        CHECK(mxw_result_segment(result, result->n_segments - 1)->end > 31);
        mx_session_close(joined);
        mx_session_close(alone);
    }
    free(both);
    golden_clip_free(&first);
    golden_clip_free(&second);
}

int main(void) {
    mxw_model *model = golden_model("golden-faults", "tiny.en");
    mxw_model_info info = {.struct_size = sizeof(info)};
    rows = golden_rows("tiny.en/activations.jsonl");
    mxw_model_get_info(model, &info);
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    test_features(model);
    test_file(info.checkpoint->path);
    test_second_window(model);
    json_decref(rows);
    mxw_model_close(model);
    gen_remove(folder);
    return check_done();
}
