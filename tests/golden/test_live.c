/* tests/golden/test_live.c - what a live stream of real speech gives, to the word and to 20 ms: tiny.en, the detector's
 * own weights, the clips of tests/data with pauses between them, in virtual time, so that every pass hears the same in
 * each run. The values are our own (tests/golden/make/live.py), not another program's: what changes them is to be seen.
 * Partials are left out. `make` in place of a test prints the rows. */
#include <math.h>

#include "kit/check.h"
#include "kit/golden.h"
#include "kit/live_kit.h"

#define RATE MXW_SAMPLE_RATE
#define TOLERANCE 0.0205   /* a frame of word times, and half a unit of what is written */

/* ---- the sound --------------------------------------------------------------------------------------------------- */

/* A short utterance; one that is longer than what a pass hears; and the end comes before its pause. */
static const struct {
    const char *clip;
    double pause_s;   /* after it */
} parts[] = {{"package:pocketsphinx-librivox-0880", 1.2}, {"package:pocketsphinx-librivox-0870", 0.1},
             {"package:pocketsphinx-librivox-0880", 0.1}, {"package:pocketsphinx-librivox-0870", 0}};
#define PARTS (sizeof(parts) / sizeof(parts[0]))

static float *read_sound(size_t *n) {
    float *sound = NULL;
    *n = 0;
    for (size_t i = 0; i < PARTS; i++) {
        char path[4096];
        golden_clip clip;
        const char *found = golden_clip_path(parts[i].clip, path, sizeof(path));
        if (!CHECK(found && golden_clip_read(found, &clip) == 0))
            exit(check_done());
        size_t pause = (size_t)(parts[i].pause_s * RATE);
        sound = realloc(sound, (*n + clip.n + pause) * sizeof(*sound));
        if (!sound)
            exit(1);
        memcpy(sound + *n, clip.samples, clip.n * sizeof(*sound));
        memset(sound + *n + clip.n, 0, pause * sizeof(*sound));
        *n += clip.n + pause;
        golden_clip_free(&clip);
    }
    return sound;
}

/* ---- a replay ---------------------------------------------------------------------------------------------------- */

static json_t *time_json(double seconds) { return json_real(rint(seconds * 1000) / 1000); }

static void add_event(void *user, const mxw_live_event *e) {
    json_t *events = user, *words = json_array();
    for (size_t i = 0; i < e->n_words; i++) {
        const mxw_word *word = mxw_live_event_word(e, i);
        json_array_append_new(words, json_pack("[s, o, o]", word->word, time_json(word->start), time_json(word->end)));
    }
    if (e->kind == MXW_LIVE_PARTIAL)
        json_decref(words);
    else
        json_array_append_new(events, json_pack("{s:s, s:o, s:o, s:o}", "kind", live_kind(e), "start",
                                                time_json(e->start), "end", time_json(e->end), "words", words));
}

static json_t *replay(mxw_model *model, float *sound, size_t n, const char *policy, int64_t packet_ms) {
    json_t *events = json_array();
    mxw_live_options options;
    live_clock clock = {.pass_s = 0.05, .per_s = 0.01};
    live_log log = {.keeps = 1, .on_event = add_event, .user = events};
    live_source source = {live_array, sound, (int64_t)n, (size_t)(packet_ms * RATE / 1000)};
    mxw_live_options_default(&options);
    options.policy = strcmp(policy, "alignatt") == 0 ? MXW_LIVE_ALIGNATT : MXW_LIVE_AGREEMENT;
    options.keep_result = 1;
    live_clock_use(&clock, &options);
    if (!CHECK_EQ_INT(live_replay(model, &options, &clock, &source, &log), MXW_END))
        printf("    %s\n", mxw_last_error());
    CHECK_STR(log.broken, "");
    live_log_free(&log);
    return events;
}

/* ---- making, and checking ---------------------------------------------------------------------------------------- */

static void make(mxw_model *model, float *sound, size_t n) {
    static const char *const policies[] = {"agreement", "alignatt"};
    static const int64_t packets[] = {20, 100};
    for (int i = 0; i < 4; i++) {
        const char *policy = policies[i / 2];
        int64_t packet_ms = packets[i % 2];
        json_t *row = json_pack("{s:s, s:I, s:o}", "policy", policy, "packet_ms", (json_int_t)packet_ms, "events",
                                replay(model, sound, n, policy, packet_ms));
        char *text = json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(6));
        puts(text);
        free(text);
        json_decref(row);
    }
}

static void check_times(double start, double end, double want_start, double want_end, const char *what) {
    if (!CHECK(fabs(start - want_start) <= TOLERANCE && fabs(end - want_end) <= TOLERANCE))
        printf("    '%s' is from %.3f to %.3f, not %.3f to %.3f\n", what, start, end, want_start, want_end);
}

static void check_event(const json_t *got, const json_t *want) {
    const json_t *words = golden_array(got, "words"), *wanted = golden_array(want, "words"), *word;
    size_t i;
    const char *kind = golden_string(want, "kind");
    CHECK_STR(golden_string(got, "kind"), kind);
    check_times(golden_number(got, "start"), golden_number(got, "end"), golden_number(want, "start"),
                golden_number(want, "end"), kind);
    if (!CHECK_EQ_INT(json_array_size(words), json_array_size(wanted)))
        return;
    json_array_foreach(words, i, word) {
        const json_t *other = json_array_get(wanted, i);
        const char *text = json_string_value(json_array_get(word, 0));
        CHECK_STR(text, json_string_value(json_array_get(other, 0)));
        check_times(json_number_value(json_array_get(word, 1)), json_number_value(json_array_get(word, 2)),
                    json_number_value(json_array_get(other, 1)), json_number_value(json_array_get(other, 2)), text);
    }
}

static void check_row(mxw_model *model, float *sound, size_t n, const json_t *row) {
    json_t *got = replay(model, sound, n, golden_string(row, "policy"), golden_integer(row, "packet_ms")), *event;
    const json_t *wanted = golden_array(row, "events");
    size_t i;
    int failed = check_failed;
    if (CHECK_EQ_INT(json_array_size(got), json_array_size(wanted)))
        json_array_foreach(got, i, event) check_event(event, json_array_get(wanted, i));
    if (check_failed > failed) {
        char *text = json_dumps(got, JSON_COMPACT | JSON_REAL_PRECISION(6));
        printf("    %s, %d ms: %s\n", golden_string(row, "policy"), (int)golden_integer(row, "packet_ms"), text);
        free(text);
    }
    json_decref(got);
}

int main(int argc, char **argv) {
    size_t n, index;
    golden_take_engine(&argc, argv);
    if (!mxw_vad_location(NULL, NULL)) {
        printf("SKIP: golden-live: the weights silero-vad are not installed (make model)\n");
        return GOLDEN_SKIP;
    }
    mxw_model *model = golden_model("golden-live", "tiny.en");
    float *sound = read_sound(&n);
    if (argc > 1 && strcmp(argv[1], "make") == 0) {
        make(model, sound, n);
    } else {
        json_t *rows = golden_rows("live.jsonl");
        const json_t *row;
        CHECK_EQ_INT(json_array_size(rows), 4);
        json_array_foreach(rows, index, row) check_row(model, sound, n, row);
        json_decref(rows);
    }
    free(sound);
    mxw_model_close(model);
    return argc > 1 ? check_failed > 0 : check_done();
}
