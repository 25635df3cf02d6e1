/* test_realtime_parts.c - what lies under the realtime protocol: base64, sample rates, G.711. */
#include <math.h>

#include "kit/check.h"
#include "realtime/audio/base64.h"
#include "realtime/audio/resample.h"
#include "realtime/audio/sound.h"

#define PI 3.14159265358979323846

/* ---- base64 ------------------------------------------------------------------------------------------------------ */

static void test_base64(void) {
    static const struct {
        const char *bytes, *text;
    } good[] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="},
                {"foobar", "Zm9vYmFy"}, {"\xfb\xff\xbf", "+/+/"}};
    static const char *const bad[] = {"Z", "Zg", "Zg=", "Zg===", "Zg==Zg==", "=Zg=", "Z===", "====", "Zm9 ", "Zm9\n",
                                      "Zm-v", "Zm_v", "Zh==", "Zm9=", "Zm8=\n", "Zm\xc3\xa9", "Z=8="};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        char text[20];
        uint8_t bytes[20];
        base64_encode((const uint8_t *)good[i].bytes, strlen(good[i].bytes), text);
        CHECK_STR(text, good[i].text);
        CHECK_EQ_INT(base64_decode(text, strlen(text), bytes), strlen(good[i].bytes));
        CHECK(memcmp(bytes, good[i].bytes, strlen(good[i].bytes)) == 0);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        uint8_t bytes[20];
        if (!CHECK_EQ_INT(base64_decode(bad[i], strlen(bad[i]), bytes), -1))
            printf("    %s\n", bad[i]);
    }
    uint8_t every[256], back[260];
    char text[400];
    for (int i = 0; i < 256; i++)
        every[i] = (uint8_t)(i * 167);
    for (size_t n = 0; n <= 256; n++) {
        base64_encode(every, n, text);
        CHECK(base64_decode(text, strlen(text), back) == (int64_t)n && memcmp(back, every, n) == 0);
        CHECK(base64_decode(text, strlen(text), (uint8_t *)text) == (int64_t)n && memcmp(text, every, n) == 0);
    }
}

/* ---- sample rates ------------------------------------------------------------------------------------------------ */

static const int rates[] = {8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 47975, 48000};
#define N_RATES (int)(sizeof(rates) / sizeof(*rates))

static size_t resample(int rate, const float *in, size_t n, size_t piece, float *out) {
    resampler *r = resampler_open(rate);
    size_t n_out = 0;
    for (size_t at = 0; at < n; at += piece)
        n_out += resampler_feed(r, in + at, piece < n - at ? piece : n - at, out + n_out);
    n_out += resampler_finish(r, out + n_out);
    resampler_close(r);
    return n_out;
}

/* One second of a tone: as many samples as there should be, at their own times, and nothing above 8 kHz. */
static void test_tones(void) {
    static float in[48000], out[16200];
    for (int i = 0; i < N_RATES; i++)
        for (double pitch = 100; pitch < rates[i] / 2.0; pitch *= 1.9) {
            double low = pitch < 0.9 * (rates[i] < 16000 ? rates[i] / 2.0 : 8000), worst = 0;
            for (int k = 0; k < rates[i]; k++)
                in[k] = (float)(0.5 * sin(2 * PI * pitch * k / rates[i]));
            size_t n = resample(rates[i], in, (size_t)rates[i], 777, out);
            CHECK_EQ_INT(n, 16000);
            for (int k = 200; k < 15800; k++) {
                double want = low ? 0.5 * sin(2 * PI * pitch * k / 16000) : 0;
                worst = fmax(worst, fabs(out[k] - want));
            }
            int between = pitch > 0.88 * 8000 && pitch < 1.12 * 8000;   /* where the filter falls off */
            if (!between && !CHECK(worst < (rates[i] == 16000 ? 1e-7 : 2e-3)))
                printf("    %d Hz at %d: %g off\n", (int)pitch, rates[i], worst);
        }
}

/* The same whatever the pieces are; and a constant stays one. */
static void test_pieces(void) {
    static const size_t pieces[] = {1, 7, 240, 2048, 5000, 48000};
    static float in[48000], out[16200], want[16200];
    for (int i = 0; i < N_RATES; i++) {
        for (int k = 0; k < rates[i]; k++)
            in[k] = (float)(((uint32_t)k * 2654435761u >> 8) % 20001) / 10000 - 1;
        size_t n = resample(rates[i], in, (size_t)rates[i], (size_t)rates[i], want);
        for (size_t j = 0; j < sizeof(pieces) / sizeof(*pieces); j++) {
            CHECK_EQ_INT(resample(rates[i], in, (size_t)rates[i], pieces[j], out), n);
            CHECK(memcmp(out, want, n * sizeof(*out)) == 0);
        }
        for (int k = 0; k < rates[i]; k++)
            in[k] = 0.25f;
        resample(rates[i], in, (size_t)rates[i], 100, out);
        double worst = 0;
        for (int k = 200; k < 15800; k++)
            worst = fmax(worst, fabs(out[k] - 0.25));
        CHECK(worst < 1e-6);
    }
}

/* After an hour at the oddest rate a sample is still where it belongs. */
static void test_drift(void) {
    static float in[44100], out[16200];
    resampler *r = resampler_open(44100);
    int64_t n_out = 0;
    double worst = 0;
    for (int64_t second = 0; second < 600; second++) {
        for (int k = 0; k < 44100; k++)
            in[k] = (float)sin(2 * PI * 440 * k / 44100);   /* whole periods: each second is the same */
        size_t n = resampler_feed(r, in, 44100, out);
        CHECK(n <= resampler_most(r, 44100));
        for (size_t k = 0; k < n && second > 0; k++)
            worst = fmax(worst, fabs(out[k] - sin(2 * PI * 440 * (double)((n_out + (int64_t)k) % 16000) / 16000)));
        n_out += (int64_t)n;
    }
    CHECK(n_out > 599 * 16000 && n_out <= 600 * 16000 && worst < 1e-3);
    resampler_close(r);
}

/* ---- formats ----------------------------------------------------------------------------------------------------- */

typedef struct heard {
    float samples[40000];
    size_t n;
} heard;

static int keep(void *user, const float *samples, size_t n) {
    heard *h = user;
    memcpy(h->samples + h->n, samples, n * sizeof(*samples));
    h->n += n;
    return 0;
}

/* Values of ITU-T G.711's tables, at both ends and around zero, as 16 bits. */
static void test_g711(void) {
    static const struct {
        sound_format format;
        uint8_t byte;
        int value;
    } cases[] = {{SOUND_PCMU, 0xff, 0}, {SOUND_PCMU, 0x7f, 0}, {SOUND_PCMU, 0x80, 32124}, {SOUND_PCMU, 0x00, -32124},
                 {SOUND_PCMU, 0xfe, 8}, {SOUND_PCMU, 0x7e, -8}, {SOUND_PCMU, 0xef, 132}, {SOUND_PCMU, 0x10, -15996},
                 {SOUND_PCMA, 0xd5, 8}, {SOUND_PCMA, 0x55, -8}, {SOUND_PCMA, 0xaa, 32256}, {SOUND_PCMA, 0x2a, -32256},
                 {SOUND_PCMA, 0xd4, 24}, {SOUND_PCMA, 0xc5, 264}, {SOUND_PCMA, 0x80, 5504 }};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        static heard h;
        uint8_t bytes[4000];
        sound *s = sound_open(cases[i].format, 8000);
        h.n = 0;
        memset(bytes, cases[i].byte, sizeof(bytes));
        CHECK_EQ_INT(sound_feed(s, bytes, sizeof(bytes), keep, &h), 0);
        if (!CHECK(fabs(h.samples[4000] * 32768 - cases[i].value) < 0.1))
            printf("    0x%02x is %g\n", cases[i].byte, h.samples[4000] * 32768);
        sound_close(s);
    }
}

static int stop(void *user, const float *samples, size_t n) {
    ++*(int *)user;
    return 1;
}

/* 16-bit samples, cut anywhere; a sink that has had enough. */
static void test_pcm(void) {
    static heard whole, cut;
    uint8_t bytes[6001];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 89 + i / 256);
    sound *s = sound_open(SOUND_PCM, 16000);
    sound_feed(s, bytes, sizeof(bytes), keep, &whole);
    sound_close(s);
    CHECK_EQ_INT(whole.n, 3000);
    for (size_t i = 0; i < 3000; i++)
        CHECK(whole.samples[i] == (float)(int16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8) / 32768);
    s = sound_open(SOUND_PCM, 16000);
    for (size_t at = 0, n = 1; at < sizeof(bytes); at += n, n = n * 5 % 337 + 1)
        sound_feed(s, bytes + at, n < sizeof(bytes) - at ? n : sizeof(bytes) - at, keep, &cut);
    CHECK(cut.n == whole.n && memcmp(cut.samples, whole.samples, whole.n * sizeof(float)) == 0);
    int calls = 0;
    CHECK_EQ_INT(sound_feed(s, bytes, sizeof(bytes), stop, &calls), 1);
    CHECK_EQ_INT(calls, 1);
    sound_close(s);
}

int main(void) {
    test_base64();
    test_tones();
    test_pieces();
    test_drift();
    test_g711();
    test_pcm();
    return check_done();
}
