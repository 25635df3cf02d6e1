/* cli/demo/demo.c - `demo`: every engine on the same recording, one after the other, side by side in the terminal.
 *
 * Each engine is a process of its own, so that one that fails, hangs or dies takes nothing along; they run in turn, so
 * that none slows another. Processes are forked before this one asks for devices: a driver does not survive a fork.
 * Invariants: whatever happens, the terminal is left as it was, no process stays behind, and the last words are a table
 * on standard output. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "common/stdout.h"
#include "common/suggest.h"
#include "demo/demo.h"

_Static_assert(sizeof(demo_options) <= MAX_OPTIONS_BYTES, "options fit where main keeps them");

#define AT(member) .target = offsetof(demo_options, member)

static int check_engines(const char *value, char *message, size_t size);

/* A table reads by rows. */
/* clang-format off */
static const option_row rows[] = {
    {.name = "engines", .kind = OPTION_TEXT, .fallback = "cpu,gpu,max", .placeholder = "LIST", .group = "What to show",
     AT(engines), .check = check_engines, .help = "Engines to run, in this order, separated by commas."},
    {.name = "plain", .kind = OPTION_FLAG, .fallback = "False", .group = "What to show", AT(plain),
     .help = "Print plain lines even on a terminal."},
    {.name = "timeout", .kind = OPTION_NUMBER, .fallback = "120", .placeholder = "SECONDS", .group = "What to show",
     AT(timeout_s), .low = 1, .high = 86400,
     .help = "Stop an engine that makes no progress for this long; the others continue."},
    {.name = "language", .letter = 'l', .kind = OPTION_TEXT, .placeholder = "LANGUAGE", .group = "Decoding",
     AT(language), .none = 1, .check = check_language, .values = language_value,
     .help = "Language spoken (default: detected)."},
    BEAM_ROWS(demo_options, beam_size, greedy),
    MODEL_NAME_ROW(demo_options, model),
    MODEL_DIR_ROW(demo_options, model_dir),
    DEVICE_ROW(demo_options, device, "Device of engine max."),
    THREADS_ROW(demo_options, threads),
    COMMON_ROWS,
    {.name = NULL},
};
/* clang-format on */

const char *const demo_state_names[] = {"waiting", "loading", "running", "done", "failed", "not here"};

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- figures -------------------------------------------------------------------------------------------- */

int demo_fastest(const demo *d) {
    int best = -1;
    for (int i = 0; i < d->n_panels; i++)
        if (d->panels[i].state == DEMO_DONE && (best < 0 || d->panels[i].total_s < d->panels[best].total_s))
            best = i;
    return best;
}

double demo_speed_up(const demo *d, const demo_panel *p) {
    for (int i = 0; i < d->n_panels && p->state == DEMO_DONE && p->total_s > 0; i++)
        if (d->panels[i].engine == MXW_ENGINE_CPU && d->panels[i].state == DEMO_DONE)
            return d->panels[i].total_s / p->total_s;
    return 0;
}

double demo_rate(const demo *d, const demo_panel *p) {
    return p->elapsed_s > 0 ? (p->state == DEMO_DONE ? d->audio_s : p->done_s) / p->elapsed_s : 0;
}

static const demo_panel *first_done(const demo *d) {
    for (int i = 0; i < d->n_panels; i++)
        if (d->panels[i].match == DEMO_MATCH_FIRST)
            return &d->panels[i];
    return NULL;
}

const char *demo_match_words(const demo *d, const demo_panel *p) {
    static const char *const same[] = {"same text as cpu", "same text as gpu", "same text as max"};
    static const char *const other[] = {"other text than cpu", "other text than gpu", "other text than max"};
    const demo_panel *first = first_done(d);
    if (!first || p->match == DEMO_MATCH_UNKNOWN)
        return "";
    if (p->match == DEMO_MATCH_FIRST)
        return "the text to match";
    return p->match == DEMO_MATCH_SAME ? same[first->engine] : other[first->engine];
}

static void compare(demo *d, demo_panel *p) {
    const demo_panel *first = first_done(d);
    const char *text = p->text ? p->text : "";
    if (!first)
        p->match = DEMO_MATCH_FIRST;
    else
        p->match = strcmp(first->text ? first->text : "", text) ? DEMO_MATCH_OTHER : DEMO_MATCH_SAME;
}

/* ---- what was asked for --------------------------------------------------------------------------------- */

/* The engines of "cpu,max" in order; -1 with a message if it is no such list. */
static int read_engines(const char *list, int *engines, char *message, size_t size) {
    int n = 0;
    for (const char *at = list; at; at = *at ? at + 1 : NULL) {   /* behind a comma there is one more */
        size_t length = strcspn(at, ",");
        int engine = -1;
        char word[32];
        suggestion near;
        snprintf(word, sizeof(word), "%.*s", (int)(length < 31 ? length : 31), at);
        suggestion_start(&near, word);
        for (int i = 0; engine_names[i]; i++) {
            suggestion_offer(&near, engine_names[i]);
            if (!strcmp(word, engine_names[i]))
                engine = i;
        }
        for (int i = 0; i < n && engine >= 0; i++)
            if (engines[i] == engine) {
                options_say(message, size, "engine %s is given twice", word);
                return -1;
            }
        if (engine < 0) {
            options_say(message, size, "'%s' is not cpu, gpu or max%s%s%s", word, near.best ? "; did you mean '" : "",
                        near.best ? near.best : "", near.best ? "'?" : "");
            return -1;
        }
        engines[n++] = engine;
        at += length;
    }
    return n;
}

static int check_engines(const char *value, char *message, size_t size) {
    int engines[DEMO_MAX_PANELS];
    return read_engines(value, engines, message, size) > 0;
}

/* ---- processes ------------------------------------------------------------------------------------------ */

static volatile sig_atomic_t stopped;

static void stop(int signal_number) { stopped = signal_number; }

static void close_ends(demo_panel *p) {
    if (p->input >= 0)
        close(p->input);
    if (p->output >= 0)
        close(p->output);
    p->input = p->output = -1;
}

static int start(demo *d, demo_panel *p) {
    int begin[2], lines[2];
    if (pipe(begin))
        return -1;
    if (pipe(lines)) {
        close(begin[0]);
        close(begin[1]);
        return -1;
    }
    p->pid = fork();
    if (p->pid == 0) {
        int nowhere = open("/dev/null", O_RDWR);
        signal(SIGINT, SIG_IGN); /* of the terminal: the page decides */
        for (int i = 0; i < d->n_panels; i++)
            close_ends(&d->panels[i]);
        close(begin[1]);
        close(lines[0]);
        for (int i = 0; nowhere >= 0 && i < 3; i++)
            dup2(nowhere, i);
        demo_work(d->options, d->path, p->engine, begin[0], lines[1]);
    }
    close(begin[0]);
    close(lines[1]);
    p->input = begin[1];
    p->output = lines[0];
    return p->pid < 0 ? -1 : fcntl(p->output, F_SETFL, O_NONBLOCK);
}

static void end(demo_panel *p, int kill_it) {
    int status = 0;
    if (p->pid <= 0)
        return;
    close_ends(p);
    if (kill_it)
        kill(p->pid, SIGKILL);
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
        ;
    p->pid = 0;
    if (p->state == DEMO_LOADING || p->state == DEMO_RUNNING) {
        p->state = DEMO_FAILED;
        if (!p->message[0] && WIFSIGNALED(status))
            snprintf(p->message, sizeof(p->message), "its process was ended by signal %d", WTERMSIG(status));
        else if (!p->message[0])
            snprintf(p->message, sizeof(p->message), "its process ended without a word");
    }
}

/* ---- one engine's turn ---------------------------------------------------------------------------------- */

typedef struct hearing {
    char bytes[65536];
    size_t n;
    int drop;       /* the rest of a line that is too long */
} hearing;

/* A line is no sign of life by itself: an engine that hangs is still watched. What it did is. */
static void hear(demo *d, demo_panel *p, char *line) {
    demo_panel before = *p;
    if (line)
        demo_hear(d, p, line);
    if (p->state != before.state || p->done_s != before.done_s || p->n_text != before.n_text ||
        memcmp(p->stage_ms, before.stage_ms, sizeof(p->stage_ms)) != 0)
        p->last_sign_s = now_s();
    if (p->state == DEMO_RUNNING && p->began_s == 0)
        p->began_s = now_s();
}

/* Whole lines that have come; returns 0 at the end of them all. */
static int listen_to(demo *d, demo_panel *p, hearing *h) {
    ssize_t got = read(p->output, h->bytes + h->n, sizeof(h->bytes) - h->n);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
        return 0;
    if (got < 0)
        return 1;
    h->n += (size_t)got;
    char *line = h->bytes, *line_end;
    while ((line_end = memchr(line, '\n', h->n - (size_t)(line - h->bytes)))) {
        *line_end = 0;
        hear(d, p, h->drop ? NULL : line);
        h->drop = 0;
        line = line_end + 1;
    }
    h->n -= (size_t)(line - h->bytes);
    memmove(h->bytes, line, h->n);
    if (h->n == sizeof(h->bytes))
        h->n = 0, h->drop = 1;
    return 1;
}

typedef struct show {
    int page;       /* the terminal has it */
    double drawn_s;
} show;

static void draw(demo *d, show *s, int now) {
    if (!s->page || (!now && now_s() - s->drawn_s < 0.04))
        return;
    for (int i = 0; i < d->n_panels; i++)   /* windows come seconds apart, and a clock that stands looks dead */
        if (d->panels[i].state == DEMO_RUNNING)
            d->panels[i].elapsed_s = now_s() - d->panels[i].began_s;
    demo_page_draw(d);
    s->drawn_s = now_s();
}

static int wants_to_leave(const show *s) {
    int key = s->page ? demo_page_key() : 0;
    if (key == 3)
        stopped = SIGINT;
    return stopped || key == 'q';
}

/* Returns 0 when the user has left. */
static int take_turn(demo *d, demo_panel *p, show *s) {
    hearing *h = calloc(1, sizeof(*h));
    int going = h != NULL, left = 0;
    p->state = DEMO_LOADING;
    p->last_sign_s = now_s();
    if (!h || write(p->input, "g", 1) != 1) {
        snprintf(p->message, sizeof(p->message), "cannot start it: its process does not take input");
        going = 0;
    }
    draw(d, s, 1);
    while (going && !(left = wants_to_leave(s))) {
        struct pollfd ends[2] = {{.fd = p->output, .events = POLLIN},
                                 {.fd = s->page ? STDIN_FILENO : -1, .events = POLLIN}};
        poll(ends, 2, 100);
        if (ends[0].revents)
            going = listen_to(d, p, h);
        if (going && now_s() - p->last_sign_s > d->options->timeout_s) {
            snprintf(p->message, sizeof(p->message), "no sign of life for %.0f s: stopped", d->options->timeout_s);
            break;
        }
        draw(d, s, 0);
    }
    if (left)
        snprintf(p->message, sizeof(p->message), "left before it was done");
    end(p, going || left);
    if (p->state == DEMO_FAILED && p->engine == MXW_ENGINE_GPU && mxw_accelerator_count() == 0)
        p->state = DEMO_SKIPPED;
    if (p->state == DEMO_DONE)
        compare(d, p);
    free(h);
    draw(d, s, 1);
    return !left;
}

/* ---- words ---------------------------------------------------------------------------------------------- */

static void describe_hardware(demo *d) {
    mxw_device_info info = {.struct_size = sizeof(info)};
    for (int i = 0; i < mxw_device_count(); i++) {
        if (mxw_device_get(i, &info) < 0)
            continue;
        int row = strcmp(info.id, "cpu") ? 1 : 0;
        if (row == 0)
            snprintf(d->hardware[0], sizeof(d->hardware[0]), "cpu: %s, %d cores (%s)", info.description, info.cores,
                     info.features);
        else if (!d->hardware[1][0] && info.usable)
            snprintf(d->hardware[1], sizeof(d->hardware[1]), "gpu: %s %s, %.0f GiB (%s)", info.id, info.description,
                     (double)info.memory_bytes / 1073741824.0, info.features);
        else if (!d->hardware[1][0])
            snprintf(d->hardware[1], sizeof(d->hardware[1]), "gpu: %s", info.reason);
    }
    if (!d->hardware[1][0])
        snprintf(d->hardware[1], sizeof(d->hardware[1]), "gpu: none that can be used (gpu-check tells why)");
}

static void say_start(const demo *d, const demo_panel *p, const show *s) {
    if (!s->page) {
        out_print("%s: begins\n", engine_names[p->engine]);
        out_flush();
    }
}

static void say_end(const demo *d, const demo_panel *p, const show *s) {
    if (s->page)
        return;
    if (p->state == DEMO_DONE)
        out_print("%s: done in %.2f s on %s, %.1f times real time; %s\n", engine_names[p->engine], p->total_s,
                  p->device, demo_rate(d, p), demo_match_words(d, p));
    else
        out_print("%s: %s: %s\n", engine_names[p->engine], demo_state_names[p->state], p->message);
    out_flush();
}

static void summary(const demo *d) {
    int fastest = demo_fastest(d);
    out_print("\n%s, %s, %.1f s\n%s\n%s\n\n", d->path, d->options->model, d->audio_s, d->hardware[0], d->hardware[1]);
    out_print("%-8s %-9s %-8s %9s %9s %11s %8s %11s  %s\n", "engine", "state", "device", "load s", "time s", "× real",
              "× cpu", "memory MiB", "text");
    for (int i = 0; i < d->n_panels; i++) {
        const demo_panel *p = &d->panels[i];
        char speed_up[32] = "";
        if (demo_speed_up(d, p) > 0)
            snprintf(speed_up, sizeof(speed_up), "%.2f", demo_speed_up(d, p));
        if (p->state == DEMO_DONE)
            out_print("%-8s %-9s %-8s %9.2f %9.2f %10.1f %8s %11.0f  %s\n", engine_names[p->engine],
                      demo_state_names[p->state], p->device, p->load_s, p->total_s, demo_rate(d, p), speed_up,
                      (double)p->peak_kib / 1024, demo_match_words(d, p));
        else
            out_print("%-8s %-9s %s\n", engine_names[p->engine], demo_state_names[p->state], p->message);
    }
    if (fastest >= 0)
        out_print("\nfastest: %s\n", engine_names[d->panels[fastest].engine]);
    out_flush();
}

/* ---- all ------------------------------------------------------------------------------------------------ */

static int exit_status_of(const demo *d) {
    int done = 0;
    for (int i = 0; i < d->n_panels; i++) {
        const demo_panel *p = &d->panels[i];
        if (p->state == DEMO_FAILED || p->state == DEMO_WAITING || p->match == DEMO_MATCH_OTHER)
            return EXIT_FAILED;
        done += p->state == DEMO_DONE;
    }
    return done ? EXIT_OK : EXIT_FAILED;
}

/* Of a recording whose length is known before it is read; otherwise the first engine that is done tells. */
static int look_at_audio(demo *d) {
    mxw_audio_options options;
    mxw_audio_info info = {.struct_size = sizeof(info)};
    mxw_audio *audio = NULL;
    mxw_audio_options_default(&options);
    options.path = d->path;
    mxw_status status = mxw_audio_open(&options, &audio);
    if (status >= 0 && mxw_audio_get_info(audio, &info) >= 0 && info.duration_s > 0)
        d->audio_s = info.duration_s;
    if (status < 0)
        log_failure(d->path, status);
    mxw_audio_close(audio);
    return status < 0 ? EXIT_FAILED : EXIT_OK;
}

static int start_all(demo *d) {
    int engines[DEMO_MAX_PANELS];
    char message[128];
    int n = read_engines(d->options->engines, engines, message, sizeof(message));
    for (int i = 0; i < n; i++) {
        demo_panel *p = &d->panels[i];
        *p = (demo_panel){.engine = engines[i], .input = -1, .output = -1};
        d->n_panels = i + 1;
        if (start(d, p) < 0) {
            log_error("cannot start a process for engine %s: %s", engine_names[p->engine], strerror(errno));
            return EXIT_FAILED;
        }
    }
    return EXIT_OK;
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

static int run(const void *chosen, char **names, int n_names) {
    demo_options options = *(const demo_options *)chosen;
    demo d = {.options = &options, .path = names[0]};
    show s = {0};
    options.beam_size = options.greedy ? 0 : options.beam_size;
    int status = start_all(&d);
    if (status == EXIT_OK)
        status = look_at_audio(&d);
    if (status == EXIT_OK) {
        describe_hardware(&d);
        catch_signals();
        s.page = !d.options->plain && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && demo_page_open();
        int going = 1;
        for (int i = 0; i < d.n_panels && going; i++) {
            say_start(&d, &d.panels[i], &s);
            going = take_turn(&d, &d.panels[i], &s);
            say_end(&d, &d.panels[i], &s);
        }
        demo_page_close();
        summary(&d);
        status = stopped ? 128 + stopped : exit_status_of(&d);
    }
    for (int i = 0; i < d.n_panels; i++) {
        end(&d.panels[i], 1);
        free(d.panels[i].text);
    }
    return status;
}

const command command_demo = {
    .arguments = "FILE",
    .min_words = 1,
    .max_words = 1,
    .word_name = "an audio or video file",
    .summary = "Run every engine on a recording, side by side in the terminal.",
    .details = "Shows a panel for each engine: progress, time per stage, text, memory, speed, and whether its text "
               "equals that of the first engine; q quits. Engines run one after the other, each in its own process, "
               "without temperature fallback. Without a terminal, prints plain lines. Both end with a table. The "
               "exit status is 0 if every engine that can run here gave the same text.",
    .options = rows,
    .options_size = sizeof(demo_options),
    .run = run,
};
