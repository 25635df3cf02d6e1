/* test_language_path.c - how languages are decided, without a model: the list of languages, units of speech out of
 * made-up probabilities, and the best sequence of languages, against all sequences tried one by one. */
#include "kit/check.h"

#include <math.h>

#include "base/base.h"
#include "feature/feature.h"
#include "pipeline/speech/language_path.h"
#include "pipeline/speech/languages.h"

static uint64_t state = 1;

static uint32_t draw(uint32_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static mx_text *multilingual, *english;

static mxw_status read_list(int many, const char *list, mx_languages *out) {
    mxw_checkpoint_info model = {.size_name = many ? "base" : "tiny.en", .multilingual = many};
    return mx_languages_read(&model, many ? multilingual : english, list, out);
}

static void check_refused(int many, const char *list, const char *line) {
    mx_languages out;
    CHECK_EQ_INT(read_list(many, list, &out), MXW_E_ARGUMENT);
    CHECK_STR(mxw_last_error(), line);
}

static void test_list(void) {
    mx_languages l;
    CHECK_EQ_INT(read_list(1, NULL, &l), MXW_OK);
    CHECK_EQ_INT(l.n, 0);
    CHECK_EQ_INT(read_list(1, "uk,German, DE ,en,castilian", &l), MXW_OK);
    CHECK_EQ_INT(l.n, 4);   /* in the order of the tokens, each once */
    CHECK_STR(l.codes[0], "en");
    CHECK_STR(l.codes[1], "de");
    CHECK_STR(l.codes[2], "es");
    CHECK_STR(l.codes[3], "uk");
    CHECK_EQ_INT(read_list(1, "any", &l), MXW_OK);
    CHECK_EQ_INT(l.n, 99);
    CHECK_EQ_INT(read_list(0, "english", &l), MXW_OK);
    CHECK_EQ_INT(l.n, 1);
    check_refused(1, "en,xx", "languages: 'xx' is not a language that Whisper supports");
    check_refused(1, "en,any", "languages: 'any' is not a language that Whisper supports");
    check_refused(1, "en,yue", "languages: this model does not support 'yue'");
    check_refused(1, "", "languages: '' is not a list of languages like en,de,uk");
    check_refused(1, "en,,de", "languages: 'en,,de' is not a list of languages like en,de,uk");
    check_refused(1, "en, ", "languages: 'en, ' is not a list of languages like en,de,uk");
    check_refused(0, "en,de", "languages: tiny.en is an English-only model and cannot transcribe 'de'");
    check_refused(0, "any", "languages: tiny.en is an English-only model: 'any' would be 'en'");
}

/* ---- units ------------------------------------------------------------------------------------------------------- */

#define MAX_CHUNKS 4000
static float p[MAX_CHUNKS];
static size_t n_chunks;

/* So many seconds of speech or silence more. */
static void add(double seconds, float probability) {
    for (size_t n = (size_t)(seconds / 0.032 + 0.5); n > 0 && n_chunks < MAX_CHUNKS; n--)
        p[n_chunks++] = probability;
}

static size_t find(mx_span **units) {
    size_t n;
    CHECK_EQ_INT(mx_language_units(p, n_chunks, 0.5, units, &n), MXW_OK);
    return n;
}

static int is_near(int64_t frame, double seconds) { return fabs((double)frame / 100 - seconds) < 0.05; }

static void test_units(void) {
    mx_span *units;
    n_chunks = 0;
    CHECK_EQ_INT(find(&units), 0);
    mx_free(units);
    add(2, 0.1f);
    add(0.06, 0.9f);   /* a click */
    add(2, 0.1f);
    CHECK_EQ_INT(find(&units), 0);
    mx_free(units);
    add(3, 0.9f);      /* 4.06 to 7.06 */
    add(0.3, 0.1f);
    add(1, 0.9f);      /* too short to stand alone: joined with what follows a short pause */
    add(0.25, 0.1f);
    add(2.5, 0.9f);    /* up to 11.11 */
    add(2, 0.1f);
    add(1, 0.9f);      /* 13.11 to 14.11: alone between long pauses */
    add(2, 0.1f);
    if (CHECK_EQ_INT(find(&units), 3)) {
        CHECK(is_near(units[0].start, 4.06) && is_near(units[0].end, 7.06));
        CHECK(is_near(units[1].start, 7.36) && is_near(units[1].end, 11.11));
        CHECK(is_near(units[2].start, 13.11) && is_near(units[2].end, 14.11));
    }
    mx_free(units);
}

/* Speech without a pause is cut where it is least likely speech. */
static void test_long_speech(void) {
    mx_span *units;
    n_chunks = 0;
    add(20, 0.9f);
    p[160] = p[300] = 0.6f;
    size_t n = find(&units);
    CHECK(n >= 4 && n <= 6);
    for (size_t i = 0; i < n; i++) {
        CHECK(units[i].end - units[i].start <= 600 && units[i].end - units[i].start >= 200);
        CHECK(i == 0 ? units[i].start == 0 : units[i].start == units[i - 1].end);
    }
    mx_free(units);
}

/* Whatever the probabilities: units are in order, apart, not longer than the longest, and hold all speech but
 * clicks. */
static void test_random_units(void) {
    for (int round = 0; round < 300; round++) {
        mx_span *units;
        n_chunks = 0;
        for (uint32_t i = 0, n = draw(60); i < n; i++)
            add(draw(300) / 100.0, i % 2 ? 0.2f + (float)draw(20) / 100 : 0.5f + (float)draw(50) / 100);
        size_t n = find(&units);
        int64_t at = 0;
        for (size_t i = 0; i < n; i++) {
            CHECK(units[i].start >= at && units[i].end > units[i].start && units[i].end - units[i].start <= 605);
            at = units[i].end;
        }
        CHECK(at <= (int64_t)n_chunks * 512 / 160);
        for (size_t c = 0, inside, run = 0; c < n_chunks; c++) {
            inside = 0;
            for (size_t i = 0; i < n; i++)
                inside |= (int64_t)c * 512 / 160 >= units[i].start && (int64_t)c * 512 / 160 < units[i].end;
            run = p[c] >= 0.5f && !inside ? run + 1 : 0;
            if (!CHECK(run < 3))
                break;
        }
        mx_free(units);
    }
}

/* ---- the path ---------------------------------------------------------------------------------------------------- */

static double score_of(const float *single, const float *pair, size_t n, int k, const int *path) {
    double score = 0;
    for (size_t u = 0; u < n; u++) {
        score += (double)single[u * (size_t)k + (size_t)path[u]];
        if (u > 0)
            score += path[u] == path[u - 1] ? (double)pair[(u - 1) * (size_t)k + (size_t)path[u]] : -MX_LANGUAGE_SWITCH;
    }
    return score;
}

#define MAX_UNITS 6

/* All sequences: the best score, and the share of those that have each language at each unit. */
static double try_all(const float *single, const float *pair, size_t n, int k, double share[MAX_UNITS][4]) {
    int path[MAX_UNITS] = {0};
    double best = -INFINITY, sum = 0;
    memset(share, 0, sizeof(double[MAX_UNITS][4]));
    for (size_t digit = 0; digit < n;) {
        double score = score_of(single, pair, n, k, path);
        best = fmax(best, score);
        sum += exp(score);
        for (size_t u = 0; u < n; u++)
            share[u][path[u]] += exp(score);
        for (digit = 0; digit < n && ++path[digit] == k; digit++)
            path[digit] = 0;
    }
    for (size_t u = 0; u < n; u++)
        for (int i = 0; i < k; i++)
            share[u][i] /= sum;
    return best;
}

static void test_against_all(void) {
    for (int round = 0; round < 2000; round++) {
        size_t n = 1 + draw(MAX_UNITS);
        int k = 1 + (int)draw(4), path[MAX_UNITS];
        float single[MAX_UNITS * 4], pair[MAX_UNITS * 4];
        double share[MAX_UNITS][4], probability[MAX_UNITS];
        for (size_t i = 0; i < n * (size_t)k; i++) {
            single[i] = -6 * (float)draw(1000) / 1000;
            pair[i] = -6 * (float)draw(1000) / 1000;
        }
        double best = try_all(single, pair, n, k, share);
        CHECK_EQ_INT(mx_language_path(single, pair, n, k, path, probability), MXW_OK);
        CHECK(fabs(score_of(single, pair, n, k, path) - best) < 1e-9);
        for (size_t u = 0; u < n; u++)
            if (!CHECK(fabs(probability[u] - share[u][path[u]]) < 1e-9))
                printf("    unit %zu of %zu: %.12f, want %.12f\n", u, n, probability[u], share[u][path[u]]);
    }
}

/* Two languages: the log probabilities of a unit that is in the first with probability q. */
static void set(float *unit, double q) {
    unit[0] = (float)fmax(log(q), -6);
    unit[1] = (float)fmax(log(1 - q), -6);
}

/* A unit that is not sure does not flip; one that is sure, and whose neighbours do not fit it, does. */
static void test_smoothing(void) {
    float single[10], pair[8];
    int path[5];
    double probability[5];
    for (int u = 0; u < 5; u++)
        set(single + 2 * u, 0.98);
    for (int u = 0; u < 4; u++)
        set(pair + 2 * u, 0.98);
    set(single + 4, 0.2);
    set(pair + 2, 0.7);
    set(pair + 4, 0.7);
    CHECK_EQ_INT(mx_language_path(single, pair, 5, 2, path, probability), MXW_OK);
    for (int u = 0; u < 5; u++)
        CHECK_EQ_INT(path[u], 0);
    CHECK(probability[2] > 0.8 && probability[2] < probability[0]);
    set(single + 4, 0.001);
    set(pair + 2, 0.4);
    CHECK_EQ_INT(mx_language_path(single, pair, 5, 2, path, probability), MXW_OK);
    for (int u = 0; u < 5; u++)
        CHECK_EQ_INT(path[u], u == 2);
}

int main(void) {
    CHECK_EQ_INT(mx_text_open(51865, &multilingual), MXW_OK);
    CHECK_EQ_INT(mx_text_open(51864, &english), MXW_OK);
    test_list();
    test_units();
    test_long_speech();
    test_random_units();
    test_against_all();
    test_smoothing();
    mx_text_close(multilingual);
    mx_text_close(english);
    return check_done();
}
