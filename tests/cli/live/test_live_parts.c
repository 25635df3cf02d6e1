/* test_live_parts.c - the pieces of `live` that need no model: text cut to columns and lines, plain samples, the sound
 * that is kept, the source with its queue, and defaults that are the library's. */
#include <math.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "kit/check.h"
#include "live/clip.h"
#include "live/lines.h"
#include "live/live_options.h"
#include "live/pcm.h"
#include "live/sound_file.h"

static char folder[] = "/tmp/mxw-test-live-XXXXXX";

static const char *in_folder(const char *name) {
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* ---- text ---- */

static void test_widths(void) {
    CHECK_EQ_INT(clip_width("abc", 3), 3);
    CHECK_EQ_INT(clip_width("日本語", 9), 6);
    CHECK_EQ_INT(clip_width("e\xcc\x81", 3), 1);       /* e and an accent that joins it */
    CHECK_EQ_INT(clip_width("\xff\xc3", 2), 2);        /* not UTF-8 */
    CHECK_EQ_INT(clip_width("🎤", 4), 2);
    CHECK_EQ_INT(clip_head("日本語", 9, 5), 6);
    CHECK_EQ_INT(clip_tail("日本語", 9, 5), 3);
    CHECK_EQ_INT(clip_tail("ae\xcc\x81z", 5, 1), 4);   /* no line begins with an accent */
    CHECK_EQ_INT(clip_tail("abc", 3, 3), 0);
    CHECK_EQ_INT(clip_tail("abc", 3, 0), 3);
    CHECK_EQ_INT(clip_line("one two three", 13, 8), 7);
    CHECK_EQ_INT(clip_line("one two", 7, 7), 7);
    CHECK_EQ_INT(clip_line("onetwothree", 11, 4), 4);
    CHECK_EQ_INT(clip_line("日本", 6, 1), 3);          /* never stands still */
}

static void test_any_text(void) {
    static const char *const pieces[] = {"a", " ", "ü", "語", "🎤", "\xcc\x81", "\xff", "\xe8", "\xaa"};
    unsigned state = 1;
    int bad = 0;
    for (int round = 0; round < 20000; round++) {
        char text[128];
        size_t n = 0;
        for (int i = round % 20; i > 0; i--) {
            const char *piece = pieces[(state = state * 1103515245u + 12345u) >> 16 & 7];
            memcpy(text + n, piece, strlen(piece));
            n += strlen(piece);
        }
        int columns = (int)(state >> 8 & 15);
        size_t head = clip_head(text, n, columns), tail = clip_tail(text, n, columns);
        bad += head > n || tail > n || clip_width(text, head) > columns || clip_width(text + tail, n - tail) > columns;
        bad += n && clip_line(text, n, columns + 1) == 0 && text[0] != ' ';
    }
    CHECK_EQ_INT(bad, 0);
}

/* Lines that are complete, "|" behind each, and what waits. */
static void check_lines(const char *text, const char *want) {
    char got[1024] = "";
    size_t n = strlen(text), part;
    while ((part = lines_complete(text, n))) {
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%.*s|", (int)part, text);
        text += part;
        n -= part;
    }
    snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s", text);
    CHECK_STR(got, want);
}

static void test_lines(void) {
    check_lines("", "");
    check_lines("One. Two", "One.| Two");
    check_lines("One.", "One.");                       /* a quote may follow */
    check_lines("\"One!\" \"Two?\" Three", "\"One!\"| \"Two?\"| Three");
    check_lines("And Mr. John, of the U.S. Navy, came at 3.5 p.m. to St. Ives. It was 1811. So", "And Mr. John, of the "
                "U.S. Navy, came at 3.5 p.m. to St. Ives.| It was 1811.| So");
    check_lines("\"Why?\" he asked", "\"Why?\" he asked");
    check_lines("はい。「いいえ。」次", "はい。|「いいえ。」|次");
    char text[400], want[500] = "";
    for (int i = 0; i < 39; i++)
        strcpy(text + 10 * i, "nine more ");
    check_lines(text, (snprintf(want, sizeof(want), "%.99s|%.100s|%.100s|%.91s", text, text + 99, text + 199,
                                text + 299), want));
    for (int i = 0; i < 60; i++)
        strcpy(text + 3 * i, "語");
    check_lines(text, (snprintf(want, sizeof(want), "%.150s|%.30s", text, text), want));
}

/* ---- plain samples ---- */

/* Three samples, -0.5, 0 and 0.25, in each format. */
static const struct {
    const char *name;
    int n;
    unsigned char bytes[24];
} samples_as[] = {
    {"u8", 3, {64, 128, 160}},
    {"s16", 6, {0, 0xc0, 0, 0, 0, 0x20}},
    {"s24", 9, {0, 0, 0xc0, 0, 0, 0, 0, 0, 0x20}},
    {"s32", 12, {0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0x20}},
    {"f32", 12, {0, 0, 0, 0xbf, 0, 0, 0, 0, 0, 0, 0x80, 0x3e}},
    {"f64", 24, {0, 0, 0, 0, 0, 0, 0xe0, 0xbf, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xd0, 0x3f}},
    {"mulaw", 3, {0x0f, 0xff, 0x9f}},
    {"alaw", 3, {0x25, 0xd5, 0xb5}},
};

static void test_pcm(void) {
    for (size_t i = 0; i < sizeof(samples_as) / sizeof(*samples_as); i++) {
        unsigned char file[PCM_HEADER_BYTES + 24];
        float got[8] = {0};
        size_t n = 0;
        mxw_audio *audio = NULL;
        mxw_audio_options options;
        int format = 1;
        while (pcm_names[format] && strcmp(pcm_names[format], samples_as[i].name) != 0)
            format++;
        if (!CHECK(pcm_names[format] != NULL))
            continue;
        pcm_header(format, 16000, 1, file);
        memcpy(file + PCM_HEADER_BYTES, samples_as[i].bytes, (size_t)samples_as[i].n);
        mxw_audio_options_default(&options);
        options.data = file;
        options.size = PCM_HEADER_BYTES + (size_t)samples_as[i].n;
        options.live = 1;
        if (mxw_audio_open(&options, &audio) < 0 && strstr(mxw_last_error(), "FFmpeg")) {
            printf("SKIP: %s: %s\n", samples_as[i].name, mxw_last_error());
            continue;
        }
        CHECK_EQ_INT(mxw_audio_read(audio, got, 8, &n), MXW_OK);
        CHECK(n == 3 && fabsf(got[0] + 0.5f) < 0.02f && fabsf(got[1]) < 0.001f && fabsf(got[2] - 0.25f) < 0.02f);
        mxw_audio_close(audio);
    }
    CHECK(!strcmp(pcm_names[PCM_AUTO], "auto") && !strcmp(pcm_names[PCM_S16], "s16"));
}

/* ---- the sound that is kept ---- */

static size_t read_sound(const char *path, float *samples, size_t most) {
    size_t n = 0, got = 1;
    mxw_audio *audio = NULL;
    mxw_audio_options options;
    mxw_audio_options_default(&options);
    options.path = path;
    if (!CHECK_EQ_INT(mxw_audio_open(&options, &audio), MXW_OK))
        return 0;
    while (got && n < most && mxw_audio_read(audio, samples + n, most - n, &got) >= 0)
        n += got;
    mxw_audio_close(audio);
    return n;
}

static void test_sound_file(void) {
    static float wrote[20000], got[20001];
    sound_file file;
    char path[256];
    size_t n = 0;
    snprintf(path, sizeof(path), "%s", in_folder("kept.wav"));
    for (size_t i = 0; i < 20000; i++)
        wrote[i] = (float)((int)(i * 37 % 65536) - 32768) / 32768.0f;
    CHECK(sound_file_open(&file, path));
    for (size_t part = 1; n < 15000; n += part, part = part * 3 % 4999) {
        CHECK(sound_file_add(&file, wrote + n, part));
        CHECK(read_sound(path, got, 20001) == n + part && !memcmp(got, wrote, (n + part) * sizeof(float)));
    }
    CHECK(sound_file_gap(&file, 0.1));
    CHECK(read_sound(path, got, 20001) == n + 1600 && got[n] == 0 && got[n + 1599] == 0);
    CHECK(sound_file_close(&file));
    CHECK(sound_file_open(&file, NULL) && sound_file_add(&file, wrote, 10) && sound_file_close(&file));
}

/* ---- the source ---- */

static void pause_ms(int ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

/* 40 seconds: more than the queue holds. */
static void test_file(void) {
    enum { N = 40 * MXW_SAMPLE_RATE };
    static float wrote[N], got[N + 1];
    sound_file file;
    source_view view = {0};
    source_block block = {0, 0};
    source_options options = {.kind = SOURCE_FILE, .name = in_folder("long.wav")};
    for (size_t i = 0; i < N; i++)
        wrote[i] = (float)((int)(i * 7919 % 60013) - 30000) / 32768.0f;
    CHECK(sound_file_open(&file, options.name) && sound_file_add(&file, wrote, N) && sound_file_close(&file));
    sound_source *s = source_open(&options);
    if (!CHECK(s && source_wait(s) == SOURCE_OPEN))
        return;
    source_begin(s);
    for (int i = 0; i < 6000 && view.waiting_s < 29.9; i++) {
        pause_ms(10);
        source_look(s, &view);
    }
    CHECK(view.waiting_s > 29.9 && view.waiting_s <= 30 && view.received_s <= 30 && view.level > 0.1);
    size_t n = 0, whole = 0;
    while (source_take(s, got + n, N + 1 - n < 1600 ? N + 1 - n : 1600, 1, 1000, &block) == SOURCE_OPEN && n < N) {
        whole += block.n == 1600;
        n += block.n;
    }
    CHECK(n == N && whole == N / 1600 && !memcmp(got, wrote, sizeof(wrote)) && block.gap_s == 0);
    source_close(s);
    options.name = in_folder("nosuch.wav");
    s = source_open(&options);
    CHECK(s && source_wait(s) == SOURCE_FAILED && strstr(source_error(s), "no such file"));
    source_close(s);
}

/* FFmpeg's noise comes as fast as it is read, and a device is never asked to wait: what does not fit is a gap. */
static void test_device(void) {
    static float got[MXW_SAMPLE_RATE];
    source_view view = {0};
    source_block block;
    source_options options = {.kind = SOURCE_DEVICE, .name = "lavfi:anoisesrc=sample_rate=16000:duration=200"};
    double taken = 0, gaps = 0;
    int slow = 0, n_gaps = 0;
    sound_source *s = source_open(&options);
    if (s && source_wait(s) == SOURCE_FAILED && strstr(source_error(s), "FFmpeg")) {
        printf("SKIP: devices: %s\n", source_error(s));
        source_close(s);
        return;
    }
    source_begin(s);
    for (int i = 0; i < 6000 && view.received_s < 40; i++) {
        pause_ms(10);
        source_look(s, &view);
    }
    CHECK(view.received_s >= 40 && view.waiting_s <= 30);
    while (source_take(s, got, MXW_SAMPLE_RATE, 0, 1000, &block) == SOURCE_OPEN) {
        taken += (double)block.n / MXW_SAMPLE_RATE;
        gaps += block.gap_s;
        n_gaps += block.gap_s > 0;
        slow += block.slow;
    }
    source_look(s, &view);
    CHECK(n_gaps > 0 && slow == n_gaps && taken >= 30 && fabs(taken + gaps - view.received_s) < 1e-6);
    source_close(s);
}

/* A pipe in which nothing comes: the wait ends when it is told to. */
static void test_pipe(void) {
    int ends[2], standard = dup(STDIN_FILENO);
    float got[320];
    source_block block;
    source_options options = {.kind = SOURCE_PIPE, .name = "standard input", .sample_format = PCM_S16, .rate = 16000,
                              .channels = 1};
    if (!CHECK(!pipe(ends) && dup2(ends[0], STDIN_FILENO) >= 0))
        return;
    sound_source *s = source_open(&options);
    source_begin(s);
    CHECK(write(ends[1], "\0\x40\0\x40\0\x40", 6) == 6);
    int unread = 6;
    for (int i = 0; i < 6000 && unread; i++) { /* the reader has them, and waits for the rest of a block */
        pause_ms(10);
        CHECK(ioctl(ends[0], FIONREAD, &unread) == 0);
    }
    size_t n = 0;
    CHECK_EQ_INT(source_take(s, got, 320, 0, 20, &block), SOURCE_OPEN);
    CHECK_EQ_INT(block.n, 0);
    source_stop(s);
    source_state state = SOURCE_OPEN;
    for (int i = 0; i < 1000 && state == SOURCE_OPEN; i++) {
        state = source_take(s, got + n, 320 - n, 0, 100, &block);
        n += block.n;
    }
    CHECK(state == SOURCE_ENDED && n == 3 && got[0] == 0.5f); /* what had come is not lost */
    source_close(s);
    dup2(standard, STDIN_FILENO);
    close(standard);
    close(ends[0]);
    close(ends[1]);
}

/* ---- options ---- */

static void test_defaults(void) {
    live_options o;
    mxw_live_options library;
    mxw_session_options decoding, chosen;
    memset(&o, 0, sizeof(o));
    options_default(live_rows, &o);
    mxw_live_options_default(&library);
    mxw_live_decoding_default(&decoding);
    live_decoding(&o, &chosen);
    CHECK_EQ_INT(o.policy, library.policy);
    CHECK(o.pause_ms == library.pause_ms && o.step_ms == library.step_ms);
    CHECK_EQ_INT(chosen.guard, decoding.guard);
    CHECK_EQ_INT(chosen.beam_size, decoding.beam_size);
    CHECK(chosen.vad_threshold == decoding.vad_threshold && !chosen.language && !chosen.languages);
    CHECK_EQ_INT(chosen.condition_on_previous_text, decoding.condition_on_previous_text);
    CHECK_EQ_INT(chosen.task, decoding.task);
}

int main(void) {
    char removal[300];
    if (!mkdtemp(folder))
        return 1;
    test_widths();
    test_any_text();
    test_lines();
    test_pcm();
    test_sound_file();
    test_file();
    test_device();
    test_pipe();
    test_defaults();
    snprintf(removal, sizeof(removal), "rm -rf %s", folder);
    CHECK(system(removal) == 0);
    return check_done();
}
