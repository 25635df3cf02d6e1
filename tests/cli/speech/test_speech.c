/* test_speech.c - what `vad` and `language` write and draw: the sound in blocks, every format, pictures of any length.
 */
#include <unistd.h>

#include "cli/fake_sheet.h"
#include "kit/check.h"
#include "speech/picture_speech.h"
#include "transcribe/output/screen.h"

/* ---- the sound ------------------------------------------------------------------------------------------ */

static float sample_at(int64_t i) { return (float)((i * 7919 % 2003) - 1001) / 1001.0f; }

/* Blocks of a long sound, fed in pieces of all sizes, have its extremes. */
static void test_envelope(void) {
    static envelope e;
    static float piece[5000];
    const int64_t n = 3000000;
    memset(&e, 0, sizeof(e));
    float low, high;
    CHECK(!envelope_range(&e, 0, 10, &low, &high) && envelope_peak(&e) == 0);
    for (int64_t at = 0, size = 1; at < n; at += size, size = size * 3 % 4999 + 1) {
        size = at + size > n ? n - at : size;
        for (int64_t i = 0; i < size; i++)
            piece[i] = sample_at(at + i) * (at + i == 1234567 ? 3 : 1);
        envelope_add(&e, piece, (size_t)size);
    }
    CHECK(e.n_samples == n && e.n <= ENVELOPE_BLOCKS && e.n > ENVELOPE_BLOCKS / 4 && e.per * e.n >= n);
    CHECK((double)envelope_peak(&e) > 1.5 || fabs((double)sample_at(1234567)) < 0.5);
    for (int64_t first = 0; first + 40 * e.per < n; first += 999 * e.per) {
        float want_low = 9, want_high = -9;
        int64_t begin = first, end = first + 40 * e.per; /* whole blocks */
        for (int64_t i = begin; i < end; i++) {
            float v = sample_at(i) * (i == 1234567 ? 3 : 1);
            want_low = v < want_low ? v : want_low;
            want_high = v > want_high ? v : want_high;
        }
        CHECK(envelope_range(&e, begin, end, &low, &high) && low == want_low && high == want_high);
    }
    CHECK(!envelope_range(&e, n, n + 5, &low, &high) && envelope_range(&e, -5, 1, &low, &high));
}

/* ---- formats -------------------------------------------------------------------------------------------- */

static void check_text(const hearing *h, hearing_format format, const char *want) {
    char text[2048] = "";
    FILE *file = fmemopen(text, sizeof(text), "w");
    hearing_write(h, format, NULL, NULL, file);
    fclose(file);
    CHECK_STR(text, want);
}

static void test_formats(void) {
    hearing h = {.path = "dir/my talk.wav", .duration_s = 4000, .chunk_s = 0.032};
    const hearing_region regions[] = {{.start = 0.52, .end = 3.1, .first = 8320, .after = 49600},
                                      {.start = 3700.5, .end = 3702, .first = 59208000, .after = 59232000}};
    const float probabilities[] = {0.25f, 0.75f};
    check_text(&h, HEARING_TEXT, "");
    check_text(&h, HEARING_RTTM, "");
    check_text(&h, HEARING_JSON, "{\"file\": \"dir/my talk.wav\", \"duration\": 4000.000, \"speech\": 0.000, "
                                 "\"regions\": []}\n");
    CHECK(hearing_add(&h, &regions[0]) && hearing_add(&h, &regions[1]));
    check_text(&h, HEARING_TEXT, "[00:00.520 --> 00:03.100] speech 2.58 s\n"
                                 "[01:01:40.500 --> 01:01:42.000] speech 1.50 s\n");
    check_text(&h, HEARING_RTTM, "SPEAKER my_talk 1 0.520 2.580 <NA> <NA> speech <NA> <NA>\n"
                                 "SPEAKER my_talk 1 3700.500 1.500 <NA> <NA> speech <NA> <NA>\n");
    check_text(&h, HEARING_AUDACITY, "0.520000\t3.100000\tspeech\n3700.500000\t3702.000000\tspeech\n");
    h.n_regions = 1;
    CHECK(hearing_add_probabilities(&h, probabilities, 2));
    h.start_s = 0.5;
    h.tells_probabilities = 1;
    check_text(&h, HEARING_TEXT, "0.500 0.2500\n0.532 0.7500 speech\n");
    check_text(&h, HEARING_JSON, "{\"file\": \"dir/my talk.wav\", \"duration\": 4000.000, \"speech\": 2.580, "
                                 "\"regions\": [{\"start\": 0.520, \"end\": 3.100, \"samples\": [8320, 49600]}], "
                                 "\"chunk\": 0.032, \"probabilities\": [0.250000, 0.750000]}\n");
    h.tells_probabilities = 0;
    h.channel = 2;
    h.regions[0] = (hearing_region){.start = 1, .end = 2.5, .language = "de", .probability = 0.987654};
    check_text(&h, HEARING_TEXT, "[00:01.000 --> 00:02.500] de 0.99 german\n");
    check_text(&h, HEARING_RTTM, "SPEAKER my_talk 2 1.000 1.500 <NA> <NA> de <NA> <NA>\n");
    check_text(&h, HEARING_AUDACITY, "1.000000\t2.500000\tgerman\n");
    check_text(&h, HEARING_JSON, "{\"file\": \"dir/my talk.wav\", \"duration\": 4000.000, \"speech\": 1.500, "
                                 "\"regions\": [{\"start\": 1.000, \"end\": 2.500, \"language\": \"de\", "
                                 "\"probability\": 0.9877}]}\n");
    CHECK(hearing_speech(&h, "de") == 1.5 && hearing_speech(&h, "en") == 0);
    hearing_free(&h);
    char text[40];
    hearing_duration(9.96, text, sizeof(text));
    CHECK_STR(text, "10.0 s");
    hearing_duration(304, text, sizeof(text));
    CHECK_STR(text, "5:04");
    hearing_duration(3723, text, sizeof(text));
    CHECK_STR(text, "1:02:03");
}

/* ---- timed lines of transcribe ------------------------------------------------------------------------------ */

/* What the segments print on standard output, in order. */
static void check_screen(int colors, const mxw_segment *segments, int n, const char *want) {
    char path[] = "/tmp/mxw-screen-XXXXXX", got[1024] = "";
    int file = mkstemp(path), kept = dup(STDOUT_FILENO);
    fflush(stdout);
    CHECK(file >= 0 && kept >= 0 && dup2(file, STDOUT_FILENO) >= 0);
    ordered_output *output = ordered_open(1, 0);
    screen s = {.form = SCREEN_LINES, .output = output, .name = "x", .colors = colors};
    for (int i = 0; i < n; i++)
        screen_segment(&s, &segments[i]);
    ordered_close(output);
    fflush(stdout);
    CHECK(dup2(kept, STDOUT_FILENO) >= 0 && lseek(file, 0, SEEK_SET) == 0);
    CHECK(read(file, got, sizeof(got) - 1) >= 0);
    close(file);
    close(kept);
    unlink(path);
    CHECK_STR(got, want);
}

/* A language where it changes; grey what is suspected, by word or as a whole, on a terminal only. */
static void test_screen(void) {
    const mxw_word words[] = {{.word = " Thank"}, {.word = " you", .reasons = 1}, {.word = " all."}};
    mxw_segment s[4] = {{.start = 0, .end = 1, .text = " Hello.", .language_probability = -1, .language = "en"},
                        {.start = 1, .end = 2, .text = " Thank you all. ", .language_probability = 0.9},
                        {.start = 2, .end = 3, .text = " Ja.", .language = "de", .language_probability = 0.8},
                        {.start = 3, .end = 4, .text = " Yes\n No.", .language = "en", .language_probability = 0.7}};
    s[1].language = "de";
    check_screen(0, s, 4, "[00:00.000 --> 00:01.000] Hello.\n[00:01.000 --> 00:02.000] [de] Thank you all.\n"
                          "[00:02.000 --> 00:03.000] Ja.\n[00:03.000 --> 00:04.000] [en] Yes  No.\n");
    s[1].words = (const mxw_word_array *)(const void *)words;
    s[1].n_words = 3;
    s[3].reasons = 4;
    check_screen(0, s + 3, 1, "[00:03.000 --> 00:04.000] [en] Yes  No.\n");
    check_screen(1, s, 4, "[00:00.000 --> 00:01.000] Hello.\n"
                          "[00:01.000 --> 00:02.000] [de] Thank\033[90m you\033[0m all.\n"
                          "[00:02.000 --> 00:03.000] Ja.\n"
                          "[00:03.000 --> 00:04.000] [en] \033[90mYes  No.\033[0m\n");
    s[1].text = " Thanks to all"; /* words that are not the text: as a whole, or not */
    check_screen(1, s + 1, 1, "[00:01.000 --> 00:02.000] [de] Thanks to all\n");
    s[1].reasons = 1;
    check_screen(1, s + 1, 1, "[00:01.000 --> 00:02.000] [de] \033[90mThanks to all\033[0m\n");
}

/* ---- pictures ------------------------------------------------------------------------------------------- */

/* A made-up recording: speech for two thirds of every `period`, languages in turn. */
static hearing recording(double duration, double period, int n_languages, double start) {
    static const char *const codes[] = {"en", "de", "uk", "zh", "cs", "nl", "ja", "es", "fr", "ru", "pt", "yue"};
    hearing h = {.path = "talk.mp3", .duration_s = duration, .start_s = start, .chunk_s = 0.032};
    static float samples[2][16000]; /* a second of speech, and one without */
    for (int i = 0; i < 16000; i++) {
        samples[0][i] = sample_at(i) * 0.8f;
        samples[1][i] = sample_at(i) * 0.02f;
    }
    h.sound = calloc(1, sizeof(*h.sound));
    for (int64_t at = 0; h.sound && at < (int64_t)(duration * 16000); at += 16000) {
        int64_t n = (int64_t)(duration * 16000) - at;
        int quiet = fmod((double)at / 16000, period) >= period * 2 / 3;
        envelope_add(h.sound, samples[quiet], (size_t)(n < 16000 ? n : 16000));
    }
    for (double t = 0; t < duration; t += period) {
        int k = (int)(t / period);
        double end = t + period * 2 / 3 < duration ? t + period * 2 / 3 : duration;
        hearing_region r = {.start = start + t, .end = start + end, .probability = 0.1 + 0.15 * (k % 7)};
        r.language = n_languages ? codes[k % n_languages] : NULL;
        CHECK(hearing_add(&h, &r));
    }
    int kept = 1;
    for (double t = 0; t < duration && !n_languages; t += h.chunk_s) {
        float p = fmod(t, period) < period * 2 / 3 ? 0.95f : 0.03f;
        kept &= hearing_add_probabilities(&h, &p, 1);
    }
    CHECK(kept);
    return h;
}

static void check_picture(hearing *h, const double *thresholds) {
    picture_speech p = {.heard = h, .title = "talk.mp3: so much", .note = "found so", .thresholds = thresholds};
    begin(picture_speech_height(&p));
    picture_speech_draw(&sheet, &p);
    end();
    hearing_free(h);
}

static void test_pictures(void) {
    static const double durations[] = {0, 0.01, 1.1, 5, 59.9, 60, 61, 161.5, 600, 3600, 3661, 12000};
    static const double thresholds[][2] = {{0.5, 0.35}, {0.02, 0.01}, {1, 0.99}, {0.5, 0.5}};
    for (size_t i = 0; i < sizeof(durations) / sizeof(*durations); i++) {
        hearing h = recording(durations[i], durations[i] > 600 ? 40 : 1.7, 0, i % 2 ? 12.34 : 0);
        check_picture(&h, thresholds[i % 4]);
        h = recording(durations[i] > 4000 ? 4000 : durations[i], 7, (int)i, 0);
        if (i == 0)
            check_picture(&h, thresholds[0]);
        else
            check_picture(&h, NULL);
        double strip = picture_speech_strip(durations[i]);
        CHECK(strip > 0 && strip * 6 >= durations[i]);
    }
    hearing h = recording(5, 1, 0, 0); /* a region of no length at the very end, and sound that nobody kept */
    CHECK(hearing_add(&h, &(hearing_region){.start = 5, .end = 5}));
    free(h.sound);
    h.sound = NULL;
    check_picture(&h, thresholds[0]);
}

int main(void) {
    test_envelope();
    test_formats();
    test_screen();
    test_pictures();
    return check_done();
}
