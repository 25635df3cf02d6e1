/* test_mel.c - feature/: log-mel against its definition in double; windows, padding, storage, chunking, failures. */
#include "feature/feature.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <zlib.h>

#include "base/cpu.h"
#include "base/mem.h"
#include "kit/check.h"
#include "feature/filters.h"
#include "feature/spectrum.h"
#include "mel_exact.h"

#define WINDOW (MX_MEL_WINDOW * 128)
#define BOUND_MAX 5e-5    /* how far the reference's own f32 is from the exact value */
#define BOUND_MEAN 2e-6

static float window_a[WINDOW], window_b[WINDOW];

static uint32_t seed = 1;
static double noise(void) {
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / (1 << 24) - 0.5;
}

/* Something like speech: a gliding tone with overtones, noise, a pause; steps of 1/32768. */
static float *make_audio(int64_t n) {
    float *audio = calloc((size_t)n + 1, sizeof(float));
    for (int64_t i = 0; i < n; i++) {
        double t = (double)i / 16000, loud = i % 16000 < 12000 ? 1 : 0.001, x = 0;
        for (int k = 1; k < 8; k++)
            x += sin(6.283185307179586 * k * (140 * t + 20 * sin(3 * t))) / k;
        audio[i] = (float)(nearbyint(loud * (0.2 * x + 0.05 * noise()) * 32768) / 32768);
    }
    return audio;
}

static mx_mel *feed_all(int n_mels, mxw_mel_reference reference, size_t memory, const float *audio, int64_t n,
                        int64_t step) {
    mx_mel *mel = NULL;
    CHECK(mx_mel_open_limited(n_mels, reference, memory, &mel) == MXW_OK);
    mxw_status status = MXW_OK;
    for (int64_t at = 0; at < n && status == MXW_OK; at += step)
        status = mx_mel_feed(mel, audio + at, (size_t)MX_MIN(step, n - at));
    CHECK(status == MXW_OK);
    return mel;
}

static void compare(const float *got, const double *want, int64_t n, double *worst, double *mean) {
    *worst = *mean = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs(got[i] - want[i]);
        *worst = fmax(*worst, d);
        *mean += d / (double)n;
    }
}

static void test_against_definition(void) {
    static const int lengths[] = {0, 1, 100, 159, 160, 199, 200, 201, 399, 400, 561, 1600, 16037};
    for (size_t k = 0; k < MX_COUNT(lengths); k++)
        for (int n_mels = 80; n_mels <= 128; n_mels += 48) {
            const int n = lengths[k], frames = n / 160 + 5;
            double worst, mean;
            float *audio = make_audio(n);
            double *want = exact_mel(audio, n, (mel_shape){400, 160, n_mels}, frames);
            mx_mel *mel = feed_all(n_mels, MXW_MEL_FILE, 1 << 20, audio, n, 1000);
            CHECK(mx_mel_finish(mel) == MXW_OK);
            CHECK_EQ_INT(mx_mel_frames(mel), n / 160);
            CHECK(mx_mel_seconds(mel) == n / 16000.0);
            CHECK(mx_mel_window(mel, 0, 0, MX_MEL_CONTENT, window_a) == MXW_OK);
            compare(window_a, want, (int64_t)frames * n_mels, &worst, &mean);
            if (!CHECK(worst <= BOUND_MAX && mean <= BOUND_MEAN))
                printf("    %d samples, %d bins: max %g mean %g\n", n, n_mels, worst, mean);
            for (int i = frames * n_mels; i < MX_MEL_WINDOW * n_mels; i++)
                if (window_a[i] != window_a[MX_MEL_WINDOW * n_mels - 1])
                    CHECK(!"silence behind the content is even");
            mx_mel_close(mel);
            free(want);
            free(audio);
        }
}

/* The old experiment's mel (decibels, n_fft 2048, hop 512) must not pass for Whisper's. */
static void test_wrong_mel_is_caught(void) {
    const int n = 16000, frames = n / 512;
    double worst, mean;
    float *audio = make_audio(n);
    double *wrong = exact_mel(audio, n, (mel_shape){2048, 512, 80}, frames);
    mx_mel *mel = feed_all(80, MXW_MEL_FILE, 1 << 20, audio, n, n);
    CHECK(mx_mel_finish(mel) == MXW_OK && mx_mel_window(mel, 0, 100, MX_MEL_ZEROS, window_a) == MXW_OK);
    compare(window_a, wrong, (int64_t)frames * 80, &worst, &mean);
    CHECK(worst > BOUND_MAX && mean > BOUND_MEAN);
    for (int i = 0; i < frames * 80; i++)
        wrong[i] = 10 * (wrong[i] * 4 - 4);
    compare(window_a, wrong, (int64_t)frames * 80, &worst, &mean);
    CHECK(worst > BOUND_MAX && mean > BOUND_MEAN);
    mx_mel_close(mel);
    free(wrong);
    free(audio);
}

static void check_same_windows(mx_mel *a, mx_mel *b, int n_mels) {
    size_t bytes = sizeof(float) * MX_MEL_WINDOW * (size_t)n_mels;
    CHECK_EQ_INT(mx_mel_frames(a), mx_mel_frames(b));
    for (int64_t seek = 0; seek < mx_mel_frames(a); seek += 1777) {
        int64_t n = MX_MIN(mx_mel_frames(a) - seek, MX_MEL_WINDOW);
        for (int rest = MX_MEL_ZEROS; rest <= MX_MEL_SILENCE; rest++) {
            memset(window_b, 0x55, sizeof(window_b));
            CHECK(mx_mel_window(a, seek, n, (mx_mel_rest)rest, window_a) == MXW_OK);
            CHECK(mx_mel_window(b, seek, n, (mx_mel_rest)rest, window_b) == MXW_OK);
            CHECK(memcmp(window_a, window_b, bytes) == 0);
        }
    }
}

/* However the samples are split, and wherever the frames are kept: the same bits. */
static void test_chunks_and_spool(void) {
    const int64_t n = 16000 * 41 + 77;
    static const int64_t steps[] = {1, 159, 160, 161, 4096, 8192, 100000};
    float *audio = make_audio(n);
    for (int reference = MXW_MEL_FILE; reference <= MXW_MEL_RUNNING; reference++) {
        mx_mel *whole = feed_all(80, reference, 64 << 20, audio, n, n);
        CHECK(mx_mel_finish(whole) == MXW_OK);
        for (size_t k = 0; k < MX_COUNT(steps); k++) {
            static const size_t memory[] = {0, 1000, 100000, 64 << 20};
            mx_mel *parts = feed_all(80, reference, memory[k % 4], audio, n, steps[k]);
            CHECK(mx_mel_finish(parts) == MXW_OK);
            check_same_windows(whole, parts, 80);
            mx_mel_close(parts);
        }
        mx_mel_close(whole);
    }
    free(audio);
}

static void test_window_edges(void) {
    const int64_t n = 160 * 3500;
    float *audio = make_audio(n);
    mx_mel *mel = feed_all(80, MXW_MEL_FILE, 1 << 20, audio, n, 4096);
    CHECK(mx_mel_window(mel, 0, 100, MX_MEL_ZEROS, window_a) == MXW_E_STATE);
    CHECK(mx_mel_finish(mel) == MXW_OK && mx_mel_finish(mel) == MXW_OK && mx_mel_finished(mel));
    CHECK(mx_mel_feed(mel, audio, 1) == MXW_E_STATE);
    CHECK_EQ_INT(mx_mel_frames(mel), 3500);
    CHECK(mx_mel_window(mel, 3000, 500, MX_MEL_ZEROS, window_a) == MXW_OK);
    for (int i = 500 * 80; i < MX_MEL_WINDOW * 80; i++)
        if (window_a[i] != 0.0f)
            CHECK(!"past the cut there is 0.0");
    CHECK(mx_mel_window(mel, 3000, 0, MX_MEL_CONTENT, window_b) == MXW_OK);
    CHECK(memcmp(window_a, window_b, 500 * 80 * sizeof(float)) == 0);
    CHECK(window_b[MX_MEL_WINDOW * 80 - 1] < 0.0f);
    CHECK(mx_mel_window(mel, 3000, 200, MX_MEL_SILENCE, window_a) == MXW_OK);
    CHECK(memcmp(window_a, window_b, 200 * 80 * sizeof(float)) == 0);   /* content, ... */
    for (int i = 200 * 80; i < MX_MEL_WINDOW * 80; i++)                 /* ... and then silence, content or not */
        if (window_a[i] != window_b[MX_MEL_WINDOW * 80 - 1])
            CHECK(!"past the cut there is silence");
    CHECK(mx_mel_window(mel, 3000, 501, MX_MEL_SILENCE, window_a) == MXW_E_ARGUMENT);
    CHECK(mx_mel_window(mel, 3500, 0, MX_MEL_ZEROS, window_a) == MXW_OK);
    CHECK(mx_mel_window(mel, 3500, 0, MX_MEL_CONTENT, window_a) == MXW_OK);
    CHECK(mx_mel_window(mel, 3000, 501, MX_MEL_ZEROS, window_a) == MXW_E_ARGUMENT);
    CHECK(mx_mel_window(mel, 3501, 0, MX_MEL_CONTENT, window_a) == MXW_E_ARGUMENT);
    CHECK(mx_mel_window(mel, -1, 10, MX_MEL_ZEROS, window_a) == MXW_E_ARGUMENT);
    CHECK(mx_mel_window(mel, 0, 3001, MX_MEL_ZEROS, window_a) == MXW_E_ARGUMENT);
    CHECK(mx_mel_window(mel, INT64_MAX, 3000, MX_MEL_ZEROS, window_a) == MXW_E_ARGUMENT);
    mx_mel_close(mel);
    free(audio);
}

/* Running: a quiet start, then a loud burst. The first window is not clamped by what comes after it. */
static void test_running(void) {
    const int64_t n = 16000 * 61;
    float *audio = make_audio(n);
    mx_mel *running, *file;
    for (int64_t i = 0; i < 16000 * 30; i++)
        audio[i] *= 1.0f / 1024;
    CHECK(mx_mel_open(80, MXW_MEL_RUNNING, &running) == MXW_OK);
    CHECK(mx_mel_feed(running, audio, 160 * 2999 + 200) == MXW_OK);
    CHECK_EQ_INT(mx_mel_frames(running), 2999);
    CHECK(mx_mel_window(running, 0, 3000, MX_MEL_ZEROS, window_a) == MXW_E_STATE);
    CHECK(mx_mel_feed(running, audio + 160 * 2999 + 200, 1) == MXW_OK);
    CHECK_EQ_INT(mx_mel_frames(running), 3000);
    CHECK(mx_mel_window(running, 0, 3000, MX_MEL_ZEROS, window_a) == MXW_OK);
    CHECK(mx_mel_feed(running, audio + 160 * 2999 + 201, (size_t)n - 160 * 2999 - 201) == MXW_OK);
    CHECK(mx_mel_window(running, 0, 3000, MX_MEL_ZEROS, window_b) == MXW_OK);
    CHECK(memcmp(window_a, window_b, 3000 * 80 * sizeof(float)) == 0);
    file = feed_all(80, MXW_MEL_FILE, 1 << 20, audio, n, n);
    CHECK(mx_mel_finish(file) == MXW_OK && mx_mel_finish(running) == MXW_OK);
    CHECK(mx_mel_window(file, 0, 3000, MX_MEL_ZEROS, window_b) == MXW_OK);
    CHECK(memcmp(window_a, window_b, 3000 * 80 * sizeof(float)) != 0);
    CHECK(mx_mel_window(file, 3100, 3000, MX_MEL_ZEROS, window_a) == MXW_OK);
    CHECK(mx_mel_window(running, 3100, 3000, MX_MEL_ZEROS, window_b) == MXW_OK);
    CHECK(memcmp(window_a, window_b, 3000 * 80 * sizeof(float)) == 0);
    mx_mel_close(running);
    mx_mel_close(file);
    free(audio);
}

static void test_refusals(void) {
    float zeros[1600] = {0};
    mx_mel *mel = NULL;
    CHECK(mx_mel_open(79, MXW_MEL_FILE, &mel) == MXW_E_UNSUPPORTED && !mel);
    mx_mel_close(NULL);
    char *old = getenv("TMPDIR") ? mx_strdup(getenv("TMPDIR")) : NULL;
    setenv("TMPDIR", "/nonexistent-folder", 1);
    CHECK(mx_mel_open_limited(80, MXW_MEL_FILE, 0, &mel) == MXW_OK);
    CHECK(mx_mel_feed(mel, zeros, 1600) == MXW_E_IO);
    CHECK(strstr(mx_error(), "/nonexistent-folder: cannot create a temporary file") != NULL);
    CHECK(mx_mel_feed(mel, zeros, 1600) == MXW_E_IO);
    CHECK(mx_mel_finish(mel) == MXW_E_IO);
    mx_mel_close(mel);
    if (old)
        setenv("TMPDIR", old, 1);
    else
        unsetenv("TMPDIR");
    mx_free(old);
}

/* The bank that openai-whisper ships, bit for bit: CRC-32 of mel_80 and mel_128 in whisper/assets/mel_filters.npz,
 * zlib.crc32((numpy.load("mel_filters.npz")["mel_80"] + 0.0).tobytes()); the sum makes its one -0.0 a plain 0. */
static void test_filters(void) {
    static const struct {
        int n_mels;
        uint32_t crc;
    } banks[] = {{80, 0xd120e546}, {128, 0x6484d17e}};
    static float dense[MX_FILTERS_MAX][MX_FILTERS_BINS];
    for (size_t k = 0; k < MX_COUNT(banks); k++) {
        mx_filters filters;
        mx_filters_init(&filters, banks[k].n_mels);
        memset(dense, 0, sizeof(dense));
        for (int m = 0; m < banks[k].n_mels; m++)
            memcpy(&dense[m][filters.first[m]], filters.weight + filters.offset[m],
                   (size_t)filters.count[m] * sizeof(float));
        CHECK_EQ_INT(crc32(0, (const Bytef *)dense, (uInt)(sizeof(dense[0]) * (size_t)banks[k].n_mels)), banks[k].crc);
    }
}

/* A full disk, which a limit on the size of files looks like: one clear line, and no more samples taken. */
static void test_disk_full(void) {
    float *audio = make_audio(16000 * 30);
    struct rlimit old, small;
    mx_mel *mel;
    CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0);
    small = old;
    small.rlim_cur = 100000;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK(mx_mel_open_limited(80, MXW_MEL_FILE, 50000, &mel) == MXW_OK);
    CHECK(mx_mel_feed(mel, audio, 16000 * 30) == MXW_E_IO);
    CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
    CHECK(strstr(mx_error(), "cannot write the temporary file of mel frames") != NULL);
    CHECK(mx_mel_feed(mel, audio, 16000) == MXW_E_IO);
    mx_mel_close(mel);
    free(audio);
}

/* Every allocation made to fail in turn. */
static void test_no_memory(void) {
    float *audio = make_audio(16000 * 3);
    int64_t before = mx_mem_live();
    int done = 0;
    for (int64_t k = 0; k < 200 && !done; k++) {
        mx_mel *mel = NULL;
        mx_mem_fail_after(k);
        mxw_status status = mx_mel_open_limited(80, MXW_MEL_FILE, 50000, &mel);
        if (status >= 0)
            status = mx_mel_feed(mel, audio, 16000 * 3);
        if (status >= 0)
            status = mx_mel_finish(mel);
        if (status >= 0)
            status = mx_mel_window(mel, 0, 300, MX_MEL_ZEROS, window_a);
        mx_mem_fail_after(-1);
        mx_mel_close(mel);
        CHECK(status == MXW_OK || status == MXW_E_MEMORY);
        CHECK_EQ_INT(mx_mem_live(), before);
        done = status == MXW_OK;
    }
    CHECK(done);
    free(audio);
}

/* On the threads of a pool: the same bits, however the samples arrive. */
static void test_shared(void) {
    const int64_t n = 16000 * 33 + 77;
    float *audio = make_audio(n);
    mx_pool *pool;
    CHECK(mx_pool_open(3, &pool) == MXW_OK);
    for (int64_t step = 700; step < 2 * n; step = step * 40 + 11) {
        mx_mel *alone = feed_all(80, MXW_MEL_FILE, 1 << 24, audio, n, 16000), *shared = NULL;
        CHECK(mx_mel_open(80, MXW_MEL_FILE, &shared) == MXW_OK && mx_mel_share(shared, pool) == MXW_OK);
        for (int64_t at = 0; at < n; at += step)
            CHECK(mx_mel_feed(shared, audio + at, (size_t)MX_MIN(step, n - at)) == MXW_OK);
        CHECK(mx_mel_share(shared, pool) == MXW_E_STATE);
        CHECK(mx_mel_finish(alone) == MXW_OK && mx_mel_finish(shared) == MXW_OK);
        for (int64_t seek = 0; seek <= 300; seek += 100) {
            CHECK(mx_mel_window(alone, seek, MX_MEL_WINDOW, MX_MEL_ZEROS, window_a) == MXW_OK);
            CHECK(mx_mel_window(shared, seek, MX_MEL_WINDOW, MX_MEL_ZEROS, window_b) == MXW_OK);
            CHECK(memcmp(window_a, window_b, MX_MEL_WINDOW * 80 * sizeof(float)) == 0);
        }
        mx_mel_close(alone);
        mx_mel_close(shared);
    }
    mx_pool_close(pool);
    free(audio);
}

/* What is compiled for other instruction sets gives the same bits, and the logarithm is right to more than f32 has. */
static void test_lanes(void) {
    static mx_spectrum spectrum;
    static float x[MX_SPECTRUM_FFT][MX_FRAME_LANES];
    static float want[MX_FILTERS_MAX][MX_FRAME_LANES], got[MX_FILTERS_MAX][MX_FRAME_LANES];
    static double power[MX_SPECTRUM_BINS][MX_FRAME_LANES], other[MX_SPECTRUM_BINS][MX_FRAME_LANES];
    mx_filters filters;
    mx_filters_init(&filters, 128);
    mx_spectrum_init(&spectrum);
    for (int round = 0; round < 40; round++) {
        double loud = round == 39 ? 1e30 : pow(10, round / 4.0 - 7);   /* in the end beyond what f32 has */
        for (int i = 0; i < MX_SPECTRUM_FFT; i++)
            for (int l = 0; l < MX_FRAME_LANES; l++)
                x[i][l] = (float)(noise() * loud);
        mx_fft_of(0)->power(&spectrum, x, power);
        mx_fft_of(0)->project(&filters, power, want);
        for (int i = 0; i < filters.n_mels; i++)
            for (int l = 0; l < MX_FRAME_LANES; l++) {
                double sum = 0;
                for (int j = 0; j < filters.count[i]; j++)
                    sum += (double)filters.weight[filters.offset[i] + j] * power[filters.first[i] + j][l];
                double right = log10(fmax((float)sum, 1e-10f));
                CHECK(isinf(right) ? isinf(want[i][l]) : fabs(want[i][l] - right) <= 5e-7);
            }
        for (int set = 1; mx_fft_set(set); set++)
            if (mx_cpu_has(mx_fft_set(set))) {
                mx_fft_of(set)->power(&spectrum, x, other);
                mx_fft_of(set)->project(&filters, other, got);
                CHECK(memcmp(power, other, sizeof(power)) == 0);
                CHECK(memcmp(want, got, sizeof(want)) == 0);
            }
    }
}

int main(void) {
    test_shared();
    test_against_definition();
    test_wrong_mel_is_caught();
    test_chunks_and_spool();
    test_window_edges();
    test_running();
    test_filters();
    test_lanes();
    test_refusals();
    test_disk_full();
    test_no_memory();
    return check_done();
}
