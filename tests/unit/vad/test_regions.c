/* test_regions.c - regions from probabilities: those of get_speech_timestamps in silero-vad, for sequences made by hand
 * and for 200 random settings; given as soon as they are certain, and announced truthfully before. */
#include "kit/check.h"
#include "kit/golden.h"

#include "base/mem.h"
#include "vad/regions.h"

static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The probabilities of tests/golden/make/vad.py. */
static float *made_up(uint64_t seed, size_t n) {
    static const int64_t levels[] = {2, 20, 26, 32, 60};
    float *p = malloc(n * sizeof(*p));
    int64_t level = 2;
    for (size_t i = 0; i < n; i++) {
        uint64_t x = mix(seed * 1000003 + i);
        if (x % 8 == 0)
            level = levels[(x >> 8) % 5];
        int64_t value = level + (int64_t)((x >> 16) % 9) - 4;
        p[i] = (float)(value < 0 ? 0 : value > 64 ? 64 : value) / 64;
    }
    return p;
}

static float *probabilities_of(const json_t *row, size_t *n) {
    if (!json_object_get(row, "probabilities")) {
        *n = (size_t)golden_integer(row, "chunks");
        return made_up((uint64_t)golden_integer(row, "seed"), *n);
    }
    const json_t *list = golden_array(row, "probabilities");
    *n = json_array_size(list);
    float *p = malloc((*n + 1) * sizeof(*p));
    for (size_t i = 0; i < *n; i++)
        p[i] = (float)json_number_value(json_array_get(list, i));
    return p;
}

static double number_or_none(const json_t *row, const char *key) {
    return json_is_null(json_object_get(row, key)) ? MXW_NONE : golden_number(row, key);
}

static mxw_vad_options options_of(const json_t *row) {
    mxw_vad_options o;
    mxw_vad_options_default(&o);
    o.sample_rate = (int)golden_integer(row, "rate");
    o.threshold = golden_number(row, "threshold");
    o.neg_threshold = number_or_none(row, "neg_threshold");
    o.min_speech_ms = golden_number(row, "min_speech_duration_ms");
    o.max_speech_s = number_or_none(row, "max_speech_duration_s");
    o.min_silence_ms = golden_number(row, "min_silence_duration_ms");
    o.pad_ms = golden_number(row, "speech_pad_ms");
    o.min_silence_at_max_speech_ms = golden_number(row, "min_silence_at_max_speech");
    o.cut_at_longest_pause = json_is_true(json_object_get(row, "use_max_poss_sil_at_max_speech"));
    return o;
}

enum { MAX_REGIONS = 1000 };

/* What mx_regions_ahead said after a chunk, to be compared with what came. */
typedef struct announced {
    int certain;
    mx_region region;
    size_t given;   /* regions before it */
} announced;

/* All regions into found; the announcements after each chunk into said [n + 1]; delays[i]: chunks heard when region i
 * was given. */
static size_t run(const mxw_vad_options *o, const float *p, size_t n, int64_t length, mx_region *found, announced *said,
                  size_t *delays) {
    mx_regions r = {0};
    int64_t chunk = o->sample_rate == 16000 ? 512 : 256;
    size_t count = 0;
    mx_regions_start(&r, o);
    for (size_t i = 0; i <= n; i++) {
        int64_t known = (int64_t)(i + 1) * chunk;
        mxw_status status = i < n ? mx_regions_add(&r, p[i], known < length ? known : length)
                                  : mx_regions_end(&r, length);
        CHECK_EQ_INT(status, MXW_OK);
        said[i] = (announced){.given = count};
        said[i].certain = mx_regions_ahead(&r, &said[i].region);
        while (count < MAX_REGIONS && mx_regions_take(&r, &found[count])) {
            if (delays)
                delays[count] = i < n ? i + 1 : n + 1;
            count++;
        }
    }
    mx_regions_free(&r);
    return count;
}

static int keeps_its_word(const announced *said, size_t n, const mx_region *found, size_t count, int cuts) {
    for (size_t i = 0; i <= n; i++) {
        const announced *a = &said[i];
        if (a->certain && cuts)
            return 0;
        if (a->given == count ? a->certain || (i == n && a->region.first != INT64_MAX)
                              : found[a->given].first < a->region.first)
            return 0;
        if (a->certain && (found[a->given].first != a->region.first || found[a->given].end < a->region.end))
            return 0;
    }
    return 1;
}

static void test_golden(void) {
    json_t *rows = golden_rows("vad.jsonl");
    const json_t *row;
    size_t index, n_rows = 0, certain = 0;
    mx_region found[MAX_REGIONS];
    json_array_foreach(rows, index, row) {
        if (strcmp(golden_string(row, "kind"), "regions") != 0)
            continue;
        mxw_vad_options o = options_of(row);
        const json_t *want = golden_array(row, "regions");
        size_t n, same = 0;
        float *p = probabilities_of(row, &n);
        announced *said = malloc((n + 1) * sizeof(*said));
        size_t count = run(&o, p, n, golden_integer(row, "samples"), found, said, NULL);
        for (size_t i = 0; i < count && i < json_array_size(want); i++)
            same += found[i].first == json_integer_value(json_array_get(json_array_get(want, i), 0)) &&
                    found[i].end == json_integer_value(json_array_get(json_array_get(want, i), 1));
        if (!CHECK(count == json_array_size(want) && same == count) ||
            !CHECK(keeps_its_word(said, n, found, count, o.max_speech_s != MXW_NONE)))
            printf("    %s at %d Hz\n", golden_string(row, "name"), o.sample_rate);
        for (size_t i = 0; i <= n; i++)
            certain += said[i].certain != 0;
        free(said);
        free(p);
        n_rows++;
    }
    CHECK_EQ_INT(n_rows, 236);
    CHECK(certain > 1000);   /* the announcements are not all empty */
    json_decref(rows);
}

/* Runs of one letter: s speech, q quiet, each with a count: "s9q6". */
static size_t spell(const char *text, float *p) {
    size_t n = 0;
    while (*text) {
        float value = *text++ == 's' ? 0.9f : 0.1f;
        for (long k = strtol(text, (char **)&text, 10); k > 0; k--)
            p[n++] = value;
    }
    return n;
}

/* How many chunks were heard when each region was given: no more than it takes to be certain. */
static void test_when(void) {
    static const struct {
        const char *text;
        double min_speech, min_silence, pad;
        size_t want[3];
    } cases[] = {
        {"s10q20", 250, 100, 30, {15}},            /* 100 ms: the fifth chunk of silence */
        {"s10q20", 0, 0, 0, {11}},                 /* the first one */
        {"s10q50", 0, 100, 400, {35}},             /* when nothing can begin within 800 ms */
        {"s10q10s20q40", 0, 100, 400, {21, 65}},   /* when the next one has begun, which will be kept */
        {"s10q10s20q40", 250, 100, 400, {28, 65}}, /* when the next one is longer than 250 ms */
        {"s10q10s5q50", 250, 100, 400, {35}},      /* the next one is dropped */
        {"s10q30s20", 250, 100, 30, {15, 61}},     /* the last one with the end */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        mxw_vad_options o;
        float p[200];
        mx_region found[MAX_REGIONS];
        announced said[201];
        size_t delays[MAX_REGIONS] = {0}, n = spell(cases[i].text, p);
        mxw_vad_options_default(&o);
        o.min_speech_ms = cases[i].min_speech;
        o.min_silence_ms = cases[i].min_silence;
        o.pad_ms = cases[i].pad;
        size_t count = run(&o, p, n, (int64_t)n * 512, found, said, delays);
        for (size_t k = 0; k < 3; k++)
            if (!CHECK_EQ_INT(k < count ? delays[k] : 0, cases[i].want[k]))
                printf("    %s, region %zu\n", cases[i].text, k);
    }
}

/* Regions that nobody takes are kept; what came before a start does not matter. */
static void test_again(void) {
    mxw_vad_options o;
    mx_regions r = {0};
    mx_region found;
    mxw_vad_options_default(&o);
    o.min_speech_ms = 0;
    for (int turn = 0; turn < 2; turn++) {
        mx_regions_start(&r, &o);
        CHECK(!mx_regions_take(&r, &found));
        for (int64_t i = 0; i < 1000; i++)
            CHECK_EQ_INT(mx_regions_add(&r, i % 10 < 5 ? 0.9f : 0.1f, (i + 1) * 512), MXW_OK);
        CHECK_EQ_INT(mx_regions_end(&r, 512000), MXW_OK);
        int64_t count = 0;
        for (; mx_regions_take(&r, &found); count++)
            CHECK_EQ_INT(found.first, count ? count * 5120 - 480 : 0);
        CHECK_EQ_INT(count, 100);
    }
    mx_regions_start(&r, &o);
    mx_mem_fail_after(0);
    mxw_status status = MXW_OK;
    for (int64_t i = 0; i < 10000 && status == MXW_OK; i++)
        status = mx_regions_add(&r, i % 10 < 5 ? 0.9f : 0.1f, (i + 1) * 512);
    mx_mem_fail_after(-1);
    CHECK_EQ_INT(status, MXW_E_MEMORY);
    mx_regions_free(&r);
}

int main(void) {
    test_golden();
    test_when();
    test_again();
    return check_done();
}
