/* test_vad.c - speech detection through the public API, on generated weights: probabilities against float64, the same
 * bits however samples are fed, arguments refused by name, no allocation that fails does harm. */
#include "kit/check.h"
#include "kit/gen_checkpoint.h"
#include "kit/gen_silero.h"
#include "unit/vad/exact.h"

#include "base/mem.h"
#include "max_whisper.h"
#include "vad/vad.h"

static char folder[4096], plain_jit[4200], dft_jit[4200], safetensors[4200];

static void write_file(const char *path, mx_str *s) {
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(mx_str_get(s), 1, s->n, file) == s->n);
    if (file)
        fclose(file);
    mx_str_clear(s);
}

static const gen_silero plain = {.seed = 7}, dft = {.seed = 8, .dft = 1};

static void make_files(void) {
    mx_str s = {0};
    snprintf(plain_jit, sizeof(plain_jit), "%s/plain.jit", folder);
    snprintf(dft_jit, sizeof(dft_jit), "%s/dft.jit", folder);
    snprintf(safetensors, sizeof(safetensors), "%s/one.safetensors", folder);
    gen_silero_jit(&s, &plain, NULL);
    write_file(plain_jit, &s);
    gen_silero_jit(&s, &dft, NULL);
    write_file(dft_jit, &s);
    gen_silero_safetensors(&s, &dft);
    write_file(safetensors, &s);
    mx_str_free(&s);
}

/* Tones that come and go, with some noise. */
static void make_samples(float *x, size_t n) {
    uint32_t state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        float noise = (float)(state >> 8) * 0x1p-24f - 0.5f;
        x[i] = (i / 3000 % 3 ? 0.4f * sinf((float)i * 0.05f) * sinf((float)i * 0.0011f) : 0.0f) + 0.05f * noise;
    }
}

static mxw_vad *open_at(const char *model, int rate, double threshold) {
    mxw_vad_options o;
    mxw_vad *vad = NULL;
    mxw_vad_options_default(&o);
    o.model = model;
    o.sample_rate = rate;
    o.threshold = o.neg_threshold = threshold;
    o.min_speech_ms = 40;
    if (!CHECK_EQ_INT(mxw_vad_open(&o, &vad), MXW_OK)) {
        printf("    %s\n", mxw_last_error());
        exit(1);
    }
    return vad;
}

static mxw_vad *open_vad(const char *model, int rate) { return open_at(model, rate, 0.5); }

/* What comes out, in order, whatever the calls were. */
typedef struct heard {
    float p[2000];
    mxw_vad_region regions[500];
    size_t n, n_regions;
} heard;

static void drain(mxw_vad *vad, heard *h) {
    size_t got;
    mxw_vad_region region = {.struct_size = sizeof(region)};
    CHECK_EQ_INT(mxw_vad_probabilities(vad, h->p + h->n, 2000 - h->n, &got), MXW_OK);
    h->n += got;
    while (h->n_regions < 500 && mxw_vad_next(vad, &region) == MXW_OK)
        h->regions[h->n_regions++] = region;
}

/* Fed in pieces of `step` samples, or of changing sizes for 0. */
static heard *hear(mxw_vad *vad, const float *x, size_t n, size_t step) {
    heard *h = calloc(1, sizeof(*h));
    uint32_t state = 5;
    for (size_t at = 0, part; at < n; at += part) {
        state = state * 1664525u + 1013904223u;
        part = step ? step : (state >> 16) % 1500;
        part = part < n - at ? part : n - at;
        CHECK_EQ_INT(mxw_vad_feed(vad, x + at, part), MXW_OK);
        drain(vad, h);
        CHECK_EQ_INT(h->n, (at + part) / (size_t)mxw_vad_chunk(vad));   /* no complete chunk is kept back */
    }
    CHECK_EQ_INT(mxw_vad_finish(vad), MXW_OK);
    drain(vad, h);
    mxw_vad_region region = {.struct_size = sizeof(region)};
    CHECK_EQ_INT(mxw_vad_next(vad, &region), MXW_END);
    return h;
}

static void test_exact(void) {
    enum { CHUNKS = 60 };
    static float x[CHUNKS * 512];
    static const struct {
        const char *path;
        const gen_silero *made;
        int rate;
    } cases[] = {{plain_jit, &plain, 16000}, {plain_jit, &plain, 8000}, {dft_jit, &dft, 16000}, {dft_jit, &dft, 8000},
                 {safetensors, &dft, 16000}};
    make_samples(x, CHUNKS * 512);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        mxw_vad *vad = open_vad(cases[i].path, cases[i].rate);
        exact e = exact_open(cases[i].made, cases[i].rate);
        double worst = 0, least = 1, most = 0;
        CHECK_EQ_INT(mxw_vad_chunk(vad), e.chunk);
        heard *h = hear(vad, x, (size_t)(CHUNKS * e.chunk), 5000);
        CHECK_EQ_INT(h->n, CHUNKS);
        for (int k = 0; k < CHUNKS; k++) {
            double want = exact_next(&e, x + k * e.chunk);
            worst = fmax(worst, fabs(h->p[k] - want));
            least = fmin(least, want);
            most = fmax(most, want);
        }
        if (!CHECK(worst < 2e-6) || !CHECK(most - least > 0.01))
            printf("    case %zu: off by %g, from %g to %g\n", i, worst, least, most);
        free(h);
        exact_close(&e);
        mxw_vad_close(vad);
    }
}

/* Any split gives the same bits; a partial last chunk; a reset. */
static void test_splits(void) {
    enum { N = 300 * 512 + 77 };
    static float x[N];
    static const size_t steps[] = {0, 1000, 511, 512, 513, 65536, N};
    make_samples(x, N);
    for (int rate = 8000; rate <= 16000; rate += 8000) {
        mxw_vad *vad = open_vad(dft_jit, rate);
        size_t n = rate == 16000 ? N : N / 2;
        heard *first = hear(vad, x, n, 4096);
        double mean = 0;   /* generated weights do not know speech: their mean is where regions are */
        for (size_t i = 0; i < first->n; i++)
            mean += first->p[i] / (double)first->n;
        free(first);
        mxw_vad_close(vad);
        vad = open_at(dft_jit, rate, mean);
        first = hear(vad, x, n, 4096);
        CHECK_EQ_INT(first->n, (n + (size_t)mxw_vad_chunk(vad) - 1) / (size_t)mxw_vad_chunk(vad));
        CHECK(first->n_regions > 3);
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
            mxw_vad_reset(vad);
            heard *h = hear(vad, x, n, steps[i]);
            CHECK(h->n == first->n && memcmp(h->p, first->p, sizeof(h->p)) == 0);
            CHECK(h->n_regions == first->n_regions && memcmp(h->regions, first->regions, sizeof(h->regions)) == 0);
            free(h);
        }
        for (int threads = 1; threads < 6; threads += 2) {   /* and on any number of threads */
            mx_pool *pool = NULL;
            mxw_vad_close(vad);
            vad = open_at(dft_jit, rate, mean);
            CHECK_EQ_INT(mx_pool_open(threads, &pool), MXW_OK);
            CHECK_EQ_INT(mx_vad_share(vad, pool), MXW_OK);
            for (size_t i = 1; i < sizeof(steps) / sizeof(steps[0]); i += 2) {
                mxw_vad_reset(vad);
                heard *h = hear(vad, x, n, steps[i]);
                CHECK(h->n == first->n && memcmp(h->p, first->p, sizeof(h->p)) == 0);
                CHECK(h->n_regions == first->n_regions && memcmp(h->regions, first->regions, sizeof(h->regions)) == 0);
                free(h);
            }
            mxw_vad_reset(vad);
            CHECK_EQ_INT(mx_vad_feed(vad, x, 1), MXW_OK);
            CHECK_EQ_INT(mx_vad_share(vad, pool), MXW_E_STATE);
            mxw_vad_close(vad);
            vad = NULL;
            mx_pool_close(pool);
        }
        free(first);
        mxw_vad_close(vad);
    }
}

/* A recording of few samples or none; calls in the wrong order. */
static void test_edges(void) {
    static float x[512];
    mxw_vad *vad = open_vad(plain_jit, 16000);
    mxw_vad_region region = {.struct_size = sizeof(region)}, small = {.struct_size = 1};
    size_t got = 9;
    CHECK_EQ_INT(mxw_vad_next(vad, &region), MXW_MORE);
    CHECK_EQ_INT(mxw_vad_next(vad, &small), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_vad_feed(vad, NULL, 0), MXW_OK);
    CHECK_EQ_INT(mxw_vad_finish(vad), MXW_OK);
    CHECK_EQ_INT(mxw_vad_finish(vad), MXW_OK);
    CHECK_EQ_INT(mxw_vad_next(vad, &region), MXW_END);
    CHECK_EQ_INT(mxw_vad_feed(vad, x, 10), MXW_E_STATE);
    CHECK_EQ_INT(mxw_vad_probabilities(vad, x, 10, &got), MXW_OK);
    CHECK_EQ_INT(got, 0);
    mxw_vad_reset(vad);
    CHECK_EQ_INT(mxw_vad_feed(vad, x, 1), MXW_OK);
    CHECK_EQ_INT(mxw_vad_finish(vad), MXW_OK);
    CHECK_EQ_INT(mxw_vad_probabilities(vad, x, 10, &got), MXW_OK);
    CHECK_EQ_INT(got, 1);
    mxw_vad_close(vad);
    mxw_vad_close(NULL);
    mxw_vad_reset(NULL);
}

/* More than an hour: what nobody reads is dropped, the oldest first, and memory does not grow. */
static void test_hour(void) {
    static float x[70000];
    mxw_vad *vad = open_vad(dft_jit, 16000);
    float *all = malloc(2 * 120000 * sizeof(*all)), *last = all + 120000;
    size_t got, n = 0;
    make_samples(x, 70000);
    for (int i = 0; i < 830; i++) {   /* 113,476 chunks */
        CHECK_EQ_INT(mxw_vad_feed(vad, x, 70000), MXW_OK);
        CHECK_EQ_INT(mxw_vad_probabilities(vad, all + n, 120000 - n, &got), MXW_OK);
        n += got;
    }
    mxw_vad_reset(vad);
    int64_t live = 0;
    for (int i = 0; i < 830; i++) {
        CHECK_EQ_INT(mxw_vad_feed(vad, x, 70000), MXW_OK);
        live = i == 824 ? mx_mem_live() : live;
    }
    CHECK_EQ_INT(mx_mem_live(), live);
    CHECK_EQ_INT(mxw_vad_probabilities(vad, last, 120000, &got), MXW_OK);
    CHECK_EQ_INT(got, 112500);
    CHECK(n == 113476 && memcmp(last, all + n - got, got * sizeof(*last)) == 0);
    CHECK_EQ_INT(mxw_vad_probabilities(vad, last, 120000, &got), MXW_OK);
    CHECK_EQ_INT(got, 0);
    free(all);
    mxw_vad_close(vad);
}

static void refuses(const mxw_vad_options *o, mxw_status status, const char *line) {
    mxw_vad *vad = NULL;
    if (!CHECK_EQ_INT(mxw_vad_open(o, &vad), status) || !CHECK(strstr(mxw_last_error(), line) && vad == NULL))
        printf("    want \"%s\", got \"%s\"\n", line, mxw_last_error());
    mxw_vad_close(vad);
}

static void test_arguments(void) {
    mxw_vad_options good;
    mxw_vad_options_default(&good);
    CHECK_EQ_INT(good.struct_size, sizeof(good));
    good.model = plain_jit;
#define REFUSES(field, value, line)                                                                                    \
    do {                                                                                                               \
        mxw_vad_options o = good;                                                                                      \
        o.field = value;                                                                                               \
        refuses(&o, MXW_E_ARGUMENT, line);                                                                             \
    } while (0)
    REFUSES(struct_size, 1, "struct_size");
    REFUSES(sample_rate, 44100, "sample_rate: 44100 is neither 16000 nor 8000");
    REFUSES(threshold, 0, "threshold: 0 is not from 0.01 to 1");
    REFUSES(threshold, NAN, "threshold");
    REFUSES(neg_threshold, 1.5, "neg_threshold");
    REFUSES(min_speech_ms, -1, "min_speech_ms");
    REFUSES(max_speech_s, 0.01, "max_speech_s: 0.01 is not from 0.1");
    REFUSES(max_speech_s, INFINITY, "max_speech_s");
    REFUSES(min_silence_ms, NAN, "min_silence_ms");
    REFUSES(pad_ms, 1e6, "pad_ms");
    REFUSES(min_silence_at_max_speech_ms, -5, "min_silence_at_max_speech_ms");
    REFUSES(cut_at_longest_pause, 2, "cut_at_longest_pause");
    mxw_vad_options o = good;
    o.model = safetensors;
    o.sample_rate = 8000;
    refuses(&o, MXW_E_UNSUPPORTED, "one.safetensors: has weights for 16 kHz only");
    o = good;
    o.model = NULL;
    o.model_dir = folder;
    refuses(&o, MXW_E_NOT_FOUND, "`max-whisper model fetch silero-vad` gets them");
    CHECK_EQ_INT(mxw_vad_open(NULL, NULL), MXW_E_ARGUMENT);
    mxw_vad *vad = open_vad(plain_jit, 16000), *slow = open_vad(plain_jit, 8000);
    const float bad[] = {0, NAN, 0};
    CHECK_EQ_INT(mxw_vad_feed(vad, bad, 3), MXW_E_ARGUMENT);
    CHECK(strstr(mxw_last_error(), "samples: number 1 is not finite"));
    CHECK_EQ_INT(mxw_vad_feed(vad, bad, 1), MXW_OK);   /* nothing was taken: it goes on */
    CHECK_EQ_INT(mxw_vad_feed(vad, NULL, 1), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_vad_feed(NULL, bad, 1), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_vad_finish(NULL), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_vad_next(vad, NULL), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_vad_probabilities(vad, NULL, 1, NULL), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_vad_feed_audio(vad, NULL), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_vad_chunk(NULL), MXW_E_ARGUMENT);
    mxw_audio_options from = {0};
    mxw_audio *audio = NULL;
    char path[4096];
    mxw_audio_options_default(&from);
    from.path = check_path("tests/data/librivox-0880.wav", path, sizeof(path));
    if (CHECK_EQ_INT(mxw_audio_open(&from, &audio), MXW_OK)) {
        CHECK_EQ_INT(mxw_vad_feed_audio(slow, audio), MXW_E_ARGUMENT);
        CHECK(strstr(mxw_last_error(), "opened for 8000"));
        CHECK_EQ_INT(mxw_vad_feed_audio(vad, audio), MXW_OK);
    }
    mxw_audio_close(audio);
    mxw_vad_close(vad);
    mxw_vad_close(slow);
}

static void test_not_finite(void) {
    gen_silero o = {.seed = 3};
    mx_str s = {0};
    mxw_vad_options options;
    gen_silero_safetensors(&s, &o);
    memset(s.data + s.n - 4 * 129, 0xff, 4);   /* the weights of the output are the last but one */
    char path[4200];
    snprintf(path, sizeof(path), "%s/nan.safetensors", folder);
    write_file(path, &s);
    mxw_vad_options_default(&options);
    options.model = path;
    refuses(&options, MXW_E_FORMAT, "tensor output.weight: element 0 is not finite");
    mx_str_free(&s);
}

/* Threads for which there is no memory: it fails, and goes on failing, until it is closed. */
static void test_share_memory(void) {
    static float x[512];
    int64_t live = mx_mem_live(), i = 0;
    mx_pool *pool = NULL;
    mxw_status status = MXW_E_MEMORY;
    CHECK_EQ_INT(mx_pool_open(3, &pool), MXW_OK);
    for (; status == MXW_E_MEMORY && i < 1000; i++) {
        mxw_vad *vad = open_vad(dft_jit, 16000);
        mx_mem_fail_after(i);
        status = mx_vad_share(vad, pool);
        mx_mem_fail_after(-1);
        mxw_vad_reset(vad);
        CHECK_EQ_INT(mxw_vad_feed(vad, x, 512), status);
        mxw_vad_close(vad);
    }
    CHECK(status == MXW_OK && i > 5);
    mx_pool_close(pool);
    CHECK_EQ_INT(mx_mem_live(), live);
}

/* Chunks that are kept back are there when more is fed, and at the end, whatever is left over for it. */
static void test_feed_some(void) {
    enum { N = 300 * 512 + 77 };
    static float x[N];
    mx_pool *pool = NULL;
    make_samples(x, N);
    CHECK_EQ_INT(mx_pool_open(3, &pool), MXW_OK);
    mxw_vad *vad = open_vad(dft_jit, 16000);
    CHECK_EQ_INT(mx_vad_share(vad, pool), MXW_OK);
    for (size_t n = 300 * 512; n <= N; n += 77) {
        mxw_vad_reset(vad);
        heard *first = hear(vad, x, n, 4096), *h = calloc(1, sizeof(*h));
        mxw_vad_reset(vad);
        for (size_t at = 0, part; at < n; at += part) {
            part = at + 70000 < n ? 70000 : n - at;
            CHECK_EQ_INT(mx_vad_feed_some(vad, x + at, part), MXW_OK);
            drain(vad, h);
            CHECK(h->n <= (at + part) / 512);
        }
        CHECK_EQ_INT(mxw_vad_finish(vad), MXW_OK);
        drain(vad, h);
        CHECK(h->n == first->n && memcmp(h->p, first->p, sizeof(h->p)) == 0);
        CHECK(h->n_regions == first->n_regions && memcmp(h->regions, first->regions, sizeof(h->regions)) == 0);
        free(first);
        free(h);
    }
    mxw_vad_close(vad);
    mx_pool_close(pool);
}

/* Memory runs out while some chunks are encoded and those before them decoded, on any thread: it says so until it is
 * reset, and then gives what it would have given. */
static void test_failing_threads(void) {
    enum { N = 300 * 512 };
    static float x[N];
    int64_t live = mx_mem_live(), i = 0;
    mxw_status status = MXW_E_MEMORY;
    mx_pool *pool = NULL;
    mxw_vad *vad = open_vad(dft_jit, 16000);
    make_samples(x, N);
    heard *first = hear(vad, x, N, N);
    mxw_vad_close(vad);
    CHECK_EQ_INT(mx_pool_open(3, &pool), MXW_OK);
    for (; status == MXW_E_MEMORY && i < 10000; i++) {
        vad = open_vad(dft_jit, 16000);
        CHECK_EQ_INT(mx_vad_share(vad, pool), MXW_OK);
        mx_mem_fail_after(i);
        status = mxw_vad_feed(vad, x, N);
        int64_t made = mx_mem_count();
        mx_mem_fail_after(-1);
        if (!CHECK_EQ_INT(status, made > i ? MXW_E_MEMORY : MXW_OK))
            printf("    allocation %lld of %lld\n", (long long)i, (long long)made);
        if (status < 0)
            CHECK_EQ_INT(mxw_vad_feed(vad, x, 512), MXW_E_MEMORY);
        CHECK_EQ_INT(mx_vad_feed_some(vad, x, N), status);   /* chunks that a reset forgets */
        mxw_vad_reset(vad);
        heard *h = hear(vad, x, N, N);
        CHECK(h->n == first->n && memcmp(h->p, first->p, sizeof(h->p)) == 0);
        free(h);
        mxw_vad_close(vad);
    }
    CHECK(i > 10 && i < 10000);
    mx_pool_close(pool);
    free(first);
    CHECK_EQ_INT(mx_mem_live(), live);
}

/* Every allocation of opening, feeding and finishing fails in turn. */
static void test_memory(void) {
    static float x[40 * 512];
    int64_t live = mx_mem_live(), i = 0;
    mxw_status status = MXW_E_MEMORY;
    make_samples(x, 40 * 512);
    for (; status == MXW_E_MEMORY && i < 10000; i++) {
        mxw_vad_options o;
        mxw_vad *vad = NULL;
        mxw_vad_options_default(&o);
        o.model = dft_jit;
        o.threshold = 0.51;
        o.min_speech_ms = 0;
        mx_mem_fail_after(i);
        status = mxw_vad_open(&o, &vad);
        if (status == MXW_OK)
            status = mxw_vad_feed(vad, x, 40 * 512);
        if (status == MXW_OK)
            status = mxw_vad_finish(vad);
        mx_mem_fail_after(-1);
        if (status < 0 && vad) {   /* it says so until it is reset */
            mxw_vad_region region = {.struct_size = sizeof(region)};
            CHECK_EQ_INT(mxw_vad_feed(vad, x, 512), MXW_E_MEMORY);
            CHECK_EQ_INT(mxw_vad_next(vad, &region), MXW_E_MEMORY);
            mxw_vad_reset(vad);
            CHECK_EQ_INT(mxw_vad_feed(vad, x, 40 * 512), MXW_OK);
        }
        CHECK(status == MXW_OK || status == MXW_E_MEMORY);
        mxw_vad_close(vad);
        CHECK_EQ_INT(mx_mem_live(), live);
    }
    CHECK(i > 50 && i < 10000);
}

int main(int argc, char **argv) {
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    make_files();
    if (argc > 1 && strcmp(argv[1], "hour") == 0) {
        test_hour();
    } else {
        test_exact();
        test_splits();
        test_edges();
        test_arguments();
        test_not_finite();
        test_memory();
        test_share_memory();
        test_failing_threads();
        test_feed_some();
    }
    gen_remove(folder);
    return check_done();
}
