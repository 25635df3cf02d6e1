/* test_wav.c - audio/ without the FFmpeg module: WAV of every kind, the built-in converter, pipes, failures. */
#include "audio/audio.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "kit/check.h"
#include "wav_bytes.h"

#define RATE 16000
#define PI 3.14159265358979323846

static char folder[] = "/tmp/mxw-test-wav-XXXXXX";
static char path[256];
static int n_warnings;
static char warning[1024];

static void on_log(void *user, const mxw_log_message *message) {
    if (message->level == MXW_LOG_WARN) {
        n_warnings++;
        snprintf(warning, sizeof(warning), "%s", message->text);
    }
}

static const char *in_folder(const char *name) {
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* All samples of a source, read in odd steps; *n is -status on failure. */
static float *read_source(const mx_audio_source *source, int64_t *n) {
    mx_audio *audio;
    float *samples = NULL;
    size_t got = 1, step = 1;
    *n = 0;
    mxw_status status = mx_audio_open(source, &audio);
    while (status >= 0 && got > 0) {
        samples = realloc(samples, ((size_t)*n + step) * sizeof(float));
        status = mx_audio_read(audio, samples + *n, step, &got);
        *n += (int64_t)got;
        step = step * 7 % 9973;
    }
    if (status >= 0)
        mx_audio_close(audio);
    if (status < 0)
        *n = status;
    return samples;
}

static float *read_all(const char *source, int64_t *n) { return read_source(&(mx_audio_source){source}, n); }

static float *read_bytes_as(bytes b, int64_t *n) {
    save(in_folder("x.wav"), b);
    free(b.data);
    return read_all(in_folder("x.wav"), n);
}

static int16_t *make_pcm(int n) {
    int16_t *pcm = malloc((size_t)n * 2 + 2);
    uint32_t seed = 3;
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        pcm[i] = (int16_t)(seed >> 16);
    }
    pcm[0] = -32768;
    pcm[1] = 32767;
    return pcm;
}

static int same(const float *samples, int64_t n, const int16_t *pcm, int64_t want) {
    if (n != want)
        return 0;
    for (int64_t i = 0; i < n; i++)
        if (samples[i] != (float)pcm[i] / 32768.0f)
            return 0;
    return 1;
}

/* 16 kHz mono 16-bit goes straight through, whatever the header looks like. */
static void test_plain(void) {
    const wav_spec base = {.tag = 1, .channels = 1, .rate = RATE, .bits = 16};
    const int n = 10007;
    int16_t *pcm = make_pcm(n);
    wav_spec specs[16];
    int n_specs = 0, lost[16] = {0};
    for (int i = 0; i < 16; i++)
        specs[i] = base;
    n_specs++;
    specs[n_specs++].junk_before = 11;
    specs[n_specs++].list_after = 7;
    specs[n_specs].extensible = 1, specs[n_specs++].mask = 4;
    specs[n_specs].riff = "RF64", specs[n_specs++].ds64 = 1;
    specs[n_specs].riff = "BW64", specs[n_specs].list_after = 9, specs[n_specs++].ds64 = 1;
    specs[n_specs].size_given = 1, specs[n_specs++].size_value = 0;
    specs[n_specs].size_given = 1, specs[n_specs++].size_value = UINT32_MAX;
    lost[n_specs] = 1, specs[n_specs].size_given = 1, specs[n_specs++].size_value = 2 * (uint32_t)n + 500;
    for (int i = 0; i < n_specs; i++) {
        int64_t got;
        n_warnings = 0;
        float *samples = read_bytes_as(make_wav(specs[i], pcm, (size_t)n * 2), &got);
        if (!CHECK(same(samples, got, pcm, n)))
            printf("    header %d: %lld samples, %s\n", i, (long long)got, mx_error());
        CHECK_EQ_INT(n_warnings, lost[i]);
        free(samples);
    }
    int64_t got;
    float *samples = read_bytes_as(make_wav(base, pcm, (size_t)n * 2 - 1), &got);   /* half a sample at the end */
    CHECK(same(samples, got, pcm, n - 1));
    free(samples);
    free(pcm);
}

/* ---- codecs and layouts -------------------------------------------------------------------------- */

static void put_sample(bytes *b, int tag, int bits, double x) {
    float f = (float)x;
    uint32_t f_bits;
    uint64_t d_bits;
    if (tag == 3 && bits == 32) {
        memcpy(&f_bits, &f, 4);
        put_le(b, f_bits, 4);
    } else if (tag == 3) {
        memcpy(&d_bits, &x, 8);
        put_le(b, d_bits, 8);
    } else if (bits == 8) {
        put_le(b, (uint64_t)(int64_t)nearbyint(x * 127 + 128), 1);
    } else {
        put_le(b, (uint64_t)(int64_t)nearbyint(x * (double)((1ll << (bits - 1)) - 1)), bits / 8);
    }
}

static void test_codecs(void) {
    static const struct {
        int tag, bits;
        const char *name;
        double step;
    } kinds[] = {{1, 8, "pcm_u8", 1.0 / 80},         {1, 16, "pcm_s16le", 1.0 / 16000},
                 {1, 24, "pcm_s24le", 1.0 / 32000},  {1, 32, "pcm_s32le", 1.0 / 32000},
                 {3, 32, "pcm_f32le", 1.0 / 32000},  {3, 64, "pcm_f64le", 1.0 / 32000}};
    for (size_t k = 0; k < MX_COUNT(kinds); k++)
        for (int channels = 1; channels <= 2; channels++)
            for (int extensible = 0; extensible < 2; extensible++) {
                bytes pcm = {NULL, 0};
                int64_t n;
                double worst = 0;
                mxw_audio_info info;
                mx_audio *audio;
                for (int i = 0; i < 1000; i++) {
                    double x = 0.8 * sin(i * 0.05);
                    put_sample(&pcm, kinds[k].tag, kinds[k].bits, channels == 2 ? x * 0.75 : x);
                    if (channels == 2)
                        put_sample(&pcm, kinds[k].tag, kinds[k].bits, x * 0.25);
                }
                wav_spec spec = {.tag = kinds[k].tag, .channels = channels, .rate = RATE, .bits = kinds[k].bits,
                                 .extensible = extensible, .mask = channels == 2 ? 3 : 1};
                float *samples = read_bytes_as(make_wav(spec, pcm.data, pcm.n), &n);
                CHECK_EQ_INT(n, 1000);
                for (int i = 0; i < n; i++)
                    worst = fmax(worst, fabs(samples[i] - 0.8 * sin(i * 0.05) / channels));
                if (!CHECK(worst < kinds[k].step))
                    printf("    %s, %d channels: off by %g\n", kinds[k].name, channels, worst);
                CHECK(mx_audio_open(&(mx_audio_source){in_folder("x.wav")}, &audio) == MXW_OK);
                mx_audio_info(audio, &info);
                CHECK_STR(info.container, "wav");
                CHECK_STR(info.codec, kinds[k].name);
                CHECK_STR(info.path, path);
                CHECK(info.channels == channels && info.sample_rate == RATE);
                CHECK(fabs(info.duration_s - 1000.0 / RATE) < 1e-9);
                mx_audio_close(audio);
                free(samples);
                free(pcm.data);
            }
}

/* G.711's own values. */
static void test_telephone_codes(void) {
    static const struct {
        int tag;
        uint8_t code;
        int value;
    } codes[] = {{7, 0xFF, 0}, {7, 0x7F, 0}, {7, 0x00, -32124}, {7, 0x80, 32124}, {7, 0xF0, 120}, {7, 0x8F, 16764},
                 {6, 0xD5, 8}, {6, 0x55, -8}, {6, 0xAA, 32256}, {6, 0x2A, -32256}, {6, 0xC5, 264}, {6, 0x85, 4224}};
    for (size_t k = 0; k < MX_COUNT(codes); k++) {
        int64_t n;
        wav_spec spec = {.tag = codes[k].tag, .channels = 1, .rate = RATE, .bits = 8};
        float *samples = read_bytes_as(make_wav(spec, &codes[k].code, 1), &n);
        CHECK_EQ_INT(n, 1);
        if (n == 1)
            CHECK_EQ_INT(samples[0] * 32768, codes[k].value);
        free(samples);
    }
}

/* 5.1: the centre counts most, the low-frequency channel not at all, and a full-scale sound stays within the range. */
static void test_downmix(void) {
    wav_spec spec = {.tag = 1, .channels = 6, .rate = RATE, .bits = 16};
    double sum = 0, weight[6];
    for (int c = 0; c < 6; c++) {
        int16_t frame[6] = {0};
        int64_t n;
        frame[c] = 32767;
        float *samples = read_bytes_as(make_wav(spec, frame, sizeof(frame)), &n);
        weight[c] = n == 1 ? samples[0] : -1;
        sum += weight[c];
        free(samples);
    }
    CHECK(fabs(sum - 1) < 1e-3 && weight[3] == 0 && weight[2] > weight[0] && weight[0] == weight[1]);
    CHECK(fabs(weight[0] / weight[2] - sqrt(0.5)) < 1e-3 && fabs(weight[4] / weight[2] - 0.5) < 1e-3);
}

/* One channel alone: as it lies in the file where it needs no conversion, converted otherwise. */
static void test_channels(void) {
    int16_t pcm[3 * 500];
    for (int i = 0; i < 1500; i++)
        pcm[i] = (int16_t)(i * 7919 + i % 3 * 10000);
    for (int channel = 1; channel <= 4; channel++)
        for (int bits = 16; bits <= 24; bits += 8) {
            bytes data = {NULL, 0};
            int64_t n;
            int wrong = 0;
            for (int i = 0; i < 1500; i++)
                put_le(&data, (uint64_t)((int64_t)pcm[i] * (bits == 24 ? 256 : 1)), bits / 8);
            wav_spec spec = {.tag = 1, .channels = 3, .rate = RATE, .bits = bits};
            bytes b = make_wav(spec, data.data, data.n);
            save(in_folder("x.wav"), b);
            float *samples = read_source(&(mx_audio_source){in_folder("x.wav"), channel, 1}, &n);
            CHECK_EQ_INT(n, channel < 4 ? 500 : MXW_E_MISSING);
            for (int i = 0; i < n; i++)
                wrong += samples[i] != (float)pcm[3 * i + channel - 1] / 32768.0f;
            CHECK_EQ_INT(wrong, 0);
            if (channel == 4)
                CHECK(strstr(mx_error(), "x.wav: has 3 channels, so there is no channel 4") != NULL);
            free(samples);
            free(b.data);
            free(data.data);
        }
    int64_t n;
    free(read_source(&(mx_audio_source){in_folder("x.wav"), 0, 2}, &n));
    CHECK_EQ_INT(n, MXW_E_MISSING);
    CHECK(strstr(mx_error(), "x.wav: has 1 audio track, so there is no track 2") != NULL);
}

/* ---- the converter ------------------------------------------------------------------------------- */

static float *convert_tone(int rate, double hz, int n_in, int64_t *n) {
    bytes pcm = {NULL, 0};
    for (int i = 0; i < n_in; i++)
        put_sample(&pcm, 3, 32, 0.5 * sin(2 * PI * hz * i / rate));
    wav_spec spec = {.tag = 3, .channels = 1, .rate = rate, .bits = 32};
    float *samples = read_bytes_as(make_wav(spec, pcm.data, pcm.n), n);
    free(pcm.data);
    return samples;
}

static void test_resampling(void) {
    static const int rates[] = {8000, 11025, 12345, 22050, 32000, 44100, 48000, 96000};
    for (size_t k = 0; k < MX_COUNT(rates); k++) {
        int64_t n, rate = rates[k], n_in = rate * 7 / 10 + 13;
        double worst = 0;
        float *samples = convert_tone((int)rate, 1000, (int)n_in, &n);
        CHECK_EQ_INT(n, (n_in * RATE + rate - 1) / rate);
        for (int64_t i = 200; i < n - 200; i++)
            worst = fmax(worst, fabs(samples[i] - 0.5 * sin(2 * PI * 1000 * (double)i / RATE)));
        if (!CHECK(worst < 1e-4))
            printf("    %lld Hz: a tone is off by %g\n", (long long)rate, worst);
        free(samples);
        if (rate < 22050)
            continue;
        samples = convert_tone((int)rate, 9500, (int)n_in, &n);   /* above the new half rate: must vanish */
        worst = 0;
        for (int64_t i = 400; i < n - 400; i++)
            worst = fmax(worst, fabs(samples[i]));
        if (!CHECK(worst < 1e-4))
            printf("    %lld Hz: an alias of %g is left\n", (long long)rate, worst);
        free(samples);
    }
}

/* No silent fallback: the first conversion in a process says so, once. */
static void test_converter_warns(void) {
    int64_t n;
    n_warnings = 0;
    free(convert_tone(8000, 100, 800, &n));
    CHECK(n == 1600 && n_warnings == 1 && strstr(warning, "built-in converter") != NULL);
    free(convert_tone(8000, 100, 800, &n));
    CHECK(n == 1600 && n_warnings == 1);
}

/* ---- pipes and failures -------------------------------------------------------------------------- */

static float *read_piped(bytes b, int64_t *n) {
    int ends[2], saved = dup(STDIN_FILENO);
    if (pipe(ends) != 0 || write(ends[1], b.data, b.n) != (ssize_t)b.n)
        exit(1);
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    float *samples = read_all("-", n);
    dup2(saved, STDIN_FILENO);
    close(saved);
    free(b.data);
    return samples;
}

static void test_pipe(void) {
    const int n = 12000;
    int16_t *pcm = make_pcm(n);
    int64_t got;
    wav_spec spec = {.tag = 1, .channels = 1, .rate = RATE, .bits = 16, .junk_before = 5000, .list_after = 30};
    float *samples = read_piped(make_wav(spec, pcm, (size_t)n * 2), &got);
    CHECK(same(samples, got, pcm, n));
    free(samples);
    spec.list_after = 0, spec.size_given = 1, spec.size_value = UINT32_MAX;
    samples = read_piped(make_wav(spec, pcm, (size_t)n * 2), &got);
    CHECK(same(samples, got, pcm, n));
    free(samples);
    samples = read_piped((bytes){calloc(1, 1), 0}, &got);
    CHECK_EQ_INT(got, MXW_E_FORMAT);
    CHECK_STR(mx_error(), "standard input: is empty");
    free(samples);
    free(pcm);
}

static void expect(const char *source, mxw_status status, const char *line) {
    int64_t n;
    free(read_all(source, &n));
    CHECK_EQ_INT(n, status);
    if (!CHECK(strstr(mx_error(), source) == mx_error() && strstr(mx_error(), line)))
        printf("    got \"%s\", want \"%s\"\n", mx_error(), line);
}

static void expect_bytes(bytes b, mxw_status status, const char *line) {
    save(in_folder("bad.wav"), b);
    free(b.data);
    expect(in_folder("bad.wav"), status, line);
}

static void test_failures(void) {
    int16_t pcm[8] = {0};
    wav_spec spec = {.tag = 1, .channels = 1, .rate = RATE, .bits = 16};
    bytes b = {NULL, 0};
    expect(in_folder("missing.wav"), MXW_E_NOT_FOUND, "no such file");
    expect(folder, MXW_E_IO, "is a folder");
    put(&b, "", 0);
    expect_bytes(b, MXW_E_FORMAT, "is empty");
    b = (bytes){NULL, 0};
    put(&b, "just some text, long enough", 27);
    expect_bytes(b, MXW_E_UNSUPPORTED, "is not a WAV file, and other formats need FFmpeg");
    b = make_wav(spec, pcm, sizeof(pcm));
    b.n = 20;
    expect_bytes(b, MXW_E_FORMAT, "damaged WAV");
    b = make_wav(spec, pcm, sizeof(pcm));
    b.n = 40;
    expect_bytes(b, MXW_E_FORMAT, "damaged WAV: truncated before its samples");
    b = make_wav(spec, pcm, sizeof(pcm));
    memcpy(b.data + 12, "data", 4);
    expect_bytes(b, MXW_E_FORMAT, "samples before their format");
    spec.channels = 0;
    expect_bytes(make_wav(spec, pcm, sizeof(pcm)), MXW_E_FORMAT, "0 channels");
    spec.channels = 1000;
    expect_bytes(make_wav(spec, pcm, sizeof(pcm)), MXW_E_UNSUPPORTED, "1000 channels");
    spec.channels = 1, spec.rate = 0;
    expect_bytes(make_wav(spec, pcm, sizeof(pcm)), MXW_E_UNSUPPORTED, "0 Hz");
    spec.rate = RATE, spec.tag = 0x55;
    expect_bytes(make_wav(spec, pcm, sizeof(pcm)), MXW_E_UNSUPPORTED, "codec 0x0055");
    spec.tag = 1;
    n_warnings = 0;
    int64_t n;
    free(read_bytes_as(make_wav(spec, pcm, 0), &n));
    CHECK(n == 0 && n_warnings == 1 && strstr(warning, "has no samples") != NULL);
}

static void test_no_memory(void) {
    int done = 0;
    bytes b = make_wav((wav_spec){.tag = 1, .channels = 2, .rate = 44100, .bits = 16}, "12345678", 8);
    save(in_folder("m.wav"), b);
    free(b.data);
    int64_t before = mx_mem_live();
    for (int k = 0; k < 100 && !done; k++) {
        int64_t n;
        mx_audio *audio = NULL;
        float sample[16];
        size_t got;
        mx_mem_fail_after(k);
        mxw_status status = mx_audio_open(&(mx_audio_source){path}, &audio);
        if (status >= 0)
            status = mx_audio_read(audio, sample, 16, &got);
        mx_mem_fail_after(-1);
        mx_audio_close(audio);
        n = mx_mem_live();
        CHECK(status == MXW_OK || status == MXW_E_MEMORY);
        CHECK_EQ_INT(n, before);
        done = status == MXW_OK;
    }
    CHECK(done);
}

int main(void) {
    if (!mkdtemp(folder)) {
        printf("SKIP: wav: no temporary folder\n");
        return 77;
    }
    setenv("MXW_MODULE_DIR", folder, 1);   /* no modules there */
    mxw_log_set(MXW_LOG_WARN, on_log, NULL);
    test_converter_warns();
    test_plain();
    test_codecs();
    test_telephone_codes();
    test_downmix();
    test_channels();
    test_resampling();
    test_pipe();
    test_failures();
    test_no_memory();
    CHECK_EQ_INT(mx_mem_live(), 0);
    static const char *const names[] = {"x.wav", "bad.wav", "m.wav"};
    for (size_t i = 0; i < MX_COUNT(names); i++)
        unlink(in_folder(names[i]));
    rmdir(folder);
    return check_done();
}
