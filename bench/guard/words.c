/* bench/guard/words.c - transcribes recordings for bench/guard.py: text, times, and with a guard every word that it
 * judged, with its evidence.
 *
 * In: arguments MODEL GUARD VAD THREADS (off|mark|drop, 0|1), then a line for each recording on standard input: its
 * language ("-": to be detected) and its path. Out, one JSON object a line: first the names and signs of the evidence,
 * then for each recording its text and words, or "error". Invariant: everything else is as by default. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/json_writer.h"
#include "max_whisper.h"
#include "max_whisper/lab.h"

/* Of all threads of this process: other programs do not count. */
static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void say_names(void) {
    json_writer json;
    json_start(&json, stdout, 0);
    json_begin(&json, NULL);
    json_list(&json, "names");
    for (int i = 0; mxw_evidence_name(i); i++)
        json_text(&json, NULL, mxw_evidence_name(i));
    json_end(&json);
    json_list(&json, "signs");
    for (int i = 0; mxw_evidence_name(i); i++)
        json_whole(&json, NULL, mxw_evidence_sign(i));
    json_end(&json);
    json_end(&json);
    fflush(stdout);
}

/* A word, as a list: start, end, text, suspicion, reasons, then its evidence. */
static void say_word(void *user, const mxw_evidence *e) {
    json_writer *json = user;
    json_list(json, NULL);
    json_number(json, NULL, e->start, 2);
    json_number(json, NULL, e->end, 2);
    json_text(json, NULL, e->word);
    json_number(json, NULL, e->suspicion, 4);
    json_whole(json, NULL, e->reasons);
    for (size_t i = 0; i < e->n_values; i++)
        json_number(json, NULL, e->values[i], 5);
    json_end(json);
}

static mxw_status transcribe(mxw_model *model, const mxw_session_options *options, const char *path, json_writer *json,
                             mxw_session **session) {
    mxw_audio_options audio_options;
    mxw_audio *audio = NULL;
    const mxw_segment *segment;
    mxw_audio_options_default(&audio_options);
    audio_options.path = path;
    mxw_status status = mxw_audio_open(&audio_options, &audio);
    if (status >= 0)
        status = mxw_session_open(model, options, session);
    if (status >= 0 && options->guard)
        status = mxw_lab_session_watch_guard(*session, say_word, json);
    if (status >= 0)
        status = mxw_session_feed_audio(*session, audio);
    if (status >= 0)
        status = mxw_session_finish(*session);
    while (status == MXW_OK)
        status = mxw_session_next(*session, &segment);
    mxw_audio_close(audio);
    return status;
}

static void say_result(json_writer *json, const mxw_result *result, double seconds) {
    int64_t looped = 0;
    for (size_t i = 0; i < result->n_segments; i++)
        looped += mxw_result_segment(result, i)->compression_ratio > 2.4;
    json_text(json, "text", result->text);
    json_whole(json, "segments", (int64_t)result->n_segments);
    json_whole(json, "loops", looped);
    json_whole(json, "windows", result->n_windows);
    json_whole(json, "fallbacks", result->n_temperature_fallbacks);
    json_whole(json, "suspected", result->n_words_suspected);
    json_number(json, "duration", result->duration_s, 3);
    json_number(json, "skipped", result->skipped_s, 3);
    json_number(json, "cpu", seconds, 4);
}

static void run_line(mxw_model *model, mxw_session_options *options, char *line) {
    json_writer json;
    mxw_session *session = NULL;
    char *path = strchr(line, ' ');
    if (!path)
        return;
    *path++ = 0;
    options->language = strcmp(line, "-") == 0 ? NULL : line;
    json_start(&json, stdout, 0);
    json_begin(&json, NULL);
    json_text(&json, "path", path);
    json_list(&json, "words");
    double start = cpu_s();
    mxw_status status = transcribe(model, options, path, &json, &session);
    double seconds = cpu_s() - start;
    json_end(&json);
    const mxw_result *result = status < 0 ? NULL : mxw_session_result(session);
    if (result)
        say_result(&json, result, seconds);
    else
        json_text(&json, "error", mxw_last_error());
    json_end(&json);
    fflush(stdout);
    mxw_session_close(session);
}

int main(int argc, char **argv) {
    mxw_model *model = NULL;
    mxw_model_options model_options;
    mxw_session_options options;
    char line[4096];
    if (argc != 5) {
        fprintf(stderr, "usage: bench-guard-words MODEL off|mark|drop 0|1 THREADS < languages and paths\n");
        return 2;
    }
    mxw_model_options_default(&model_options);
    mxw_session_options_default(&options);
    model_options.model = argv[1];
    model_options.threads = atoi(argv[4]);
    options.guard = !strcmp(argv[2], "mark") ? MXW_GUARD_MARK : MXW_GUARD_OFF;
    if (!strcmp(argv[2], "drop"))
        options.guard = MXW_GUARD_DROP;
    options.vad = atoi(argv[3]);
    if (mxw_model_open(&model_options, &model) < 0) {
        fprintf(stderr, "%s\n", mxw_last_error());
        return 1;
    }
    say_names();
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = 0;
        run_line(model, &options, line);
    }
    mxw_model_close(model);
    return 0;
}
