/* cli/info/model_fetch.c - `model fetch`: a model from the Hugging Face hub into the model folder.
 * Standard output gets the path of its weights; the progress line is on standard error, on a terminal only. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/log.h"
#include "common/model.h"
#include "common/progress.h"
#include "common/stdout.h"

typedef struct fetch_options {
    common_options common;
    const char *model_dir, *hub, *revision;
    int format, again;
    int64_t stall_s;
} fetch_options;

static const char *const format_names[] = {"safetensors", "ct2", NULL};

static int check_hub(const char *value, char *message, size_t size) {
    if (!strncmp(value, "https://", 8) || !strncmp(value, "http://", 7))
        return 1;
    options_say(message, size, "'%.60s' does not start with https:// or http://", value);
    return 0;
}

static int check_revision(const char *value, char *message, size_t size) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (strspn(value, plain) == strlen(value))
        return 1;
    options_say(message, size, "'%.60s' may only contain letters, digits and . _ -", value);
    return 0;
}

/* A table reads by rows. */
/* clang-format off */
static const option_row rows[] = {
    {.name = "format", .letter = 'f', .kind = OPTION_CHOICE, .fallback = "safetensors", .placeholder = "FORM",
     .group = "Source", .target = offsetof(fetch_options, format), .choices = format_names,
     .help = "safetensors: as published by OpenAI; ct2: the faster-whisper format, f16, half the size."},
    {.name = "hub", .kind = OPTION_NAME, .placeholder = "URL", .group = "Source",
     .target = offsetof(fetch_options, hub), .check = check_hub,
     .help = "URL of the hub or a mirror (default: $MAX_WHISPER_HUB, otherwise $HF_ENDPOINT, otherwise "
             "huggingface.co)."},
    {.name = "revision", .kind = OPTION_NAME, .fallback = "main", .placeholder = "REV", .group = "Source",
     .target = offsetof(fetch_options, revision), .check = check_revision, .help = "Branch, tag or commit."},
    {.name = "again", .kind = OPTION_FLAG, .fallback = "False", .group = "Source",
     .target = offsetof(fetch_options, again), .help = "Download even if the model was found on this machine."},
    {.name = "stall", .kind = OPTION_WHOLE, .fallback = "30", .low = 1, .high = 3600, .placeholder = "SECONDS",
     .group = "Source", .target = offsetof(fetch_options, stall_s),
     .help = "Restart a transfer that receives nothing for this long."},
    MODEL_DIR_ROW(fetch_options, model_dir),
    COMMON_ROWS,
    {.name = NULL},
};
/* clang-format on */

static volatile sig_atomic_t caught;

static void on_signal(int number) { caught = number; }

typedef struct line {
    const char *name;
    int wanted;
    double start_s, drawn_s; /* when the first byte came, when the line was last drawn */
    uint64_t first;          /* bytes that an earlier run had brought */
} line;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void draw(line *l, const char *file, uint64_t done, uint64_t total) {
    char text[256];
    double now = now_s();
    if (l->start_s == 0 && file) {
        l->start_s = now;
        l->first = done;
    }
    if (now - l->drawn_s < 0.1)
        return;
    l->drawn_s = now;
    double rate = l->start_s > 0 && now > l->start_s ? (double)(done - l->first) / (now - l->start_s) : 0;
    if (!file)
        snprintf(text, sizeof(text), "%s: asking the hub", l->name);
    else if (total == 0 || rate <= 0)
        snprintf(text, sizeof(text), "%s: %.1f of %.1f MB, %s", l->name, (double)done / 1e6, (double)total / 1e6, file);
    else
        snprintf(text, sizeof(text), "%s: %2.0f %%, %.1f of %.1f MB, %.1f MB/s, %.0f s left, %s", l->name,
                 100.0 * (double)done / (double)total, (double)done / 1e6, (double)total / 1e6, rate / 1e6,
                 done < total ? (double)(total - done) / rate : 0.0, file);
    progress_note(text);
}

static int on_progress(void *user, const char *file, uint64_t done, uint64_t total) {
    line *l = user;
    if (l->wanted)
        draw(l, file, done, total);
    return caught != 0;
}

static int run_fetch(const void *chosen, char **words, int n_words) {
    const fetch_options *options = chosen;
    char path[4096];
    line l = {.name = words[0], .wanted = !options->common.quiet && progress_possible()};
    mxw_fetch_options fetch;
    (void)n_words;
    mxw_fetch_options_default(&fetch);
    fetch.model_dir = options->model_dir;
    fetch.hub = options->hub;
    fetch.revision = options->revision;
    fetch.faster_whisper = options->format == 1;
    fetch.again = options->again;
    fetch.stall_s = (int)options->stall_s;
    fetch.progress = on_progress;
    fetch.user = &l;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    progress_start(1, NULL, l.wanted);
    mxw_status status = mxw_model_fetch(words[0], &fetch, path, sizeof(path));
    progress_stop();
    if (status < 0) {
        log_error("%s", mxw_last_error());
        return caught ? 128 + caught : status == MXW_E_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
    }
    out_print("%s\n", path);
    return EXIT_OK;
}

const command command_model_fetch = {
    .arguments = "NAME",
    .min_words = 1,
    .max_words = 1,
    .word_name = "a model's name",
    .summary = "Download a model from the Hugging Face hub into the model folder, and print its path.",
    .details = "NAME is a released name (see model list), OWNER/NAME of any Whisper model on the hub, or silero-vad, "
               "the weights of speech detection, which come from GitHub. An interrupted transfer continues where it "
               "stopped; sizes and SHA-256 are checked before the model appears. Proxies are set with the environment "
               "variables of curl (https_proxy, no_proxy, ...); a private or gated repository needs an access token in "
               "HF_TOKEN.",
    .options = rows,
    .options_size = sizeof(fetch_options),
    .values = model_value,
    .run = run_fetch,
};
