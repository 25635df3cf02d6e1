/* cli/common/log.c - the human and the JSON-lines sink. stderr's own lock makes lines of several threads whole. */
#include "common/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/json_writer.h"
#include "common/progress.h"

const char *const log_level_names[] = {"error", "warn", "info", "debug", NULL};

static mxw_log_level threshold = MXW_LOG_WARN;
static int as_json;
static _Thread_local struct {
    log_sink sink;
    void *user;
} diverted;

static void print_plain(const char *text) {
    for (const char *p = text; *p; p++)
        fputc((unsigned char)*p < ' ' || *p == 127 ? '?' : *p, stderr);
}

static void print_human(const mxw_log_message *message) {
    fputs("max-whisper: ", stderr);
    if (message->level == MXW_LOG_WARN)
        fputs("warning: ", stderr);
    if (message->level > MXW_LOG_WARN && message->elapsed_ms >= 0)
        fprintf(stderr, "[%9.3f s] ", message->elapsed_ms / 1000);
    if (strcmp(message->component, "cli")) {
        print_plain(message->component);
        fputs(": ", stderr);
    }
    print_plain(message->text);
    if (message->duration_ms >= 0)
        fprintf(stderr, " (%.1f ms)", message->duration_ms);
    fputc('\n', stderr);
}

static void print_json(const mxw_log_message *message) {
    json_writer json;
    json_start(&json, stderr, 0);
    json_begin(&json, NULL);
    json_text(&json, "level", log_level_names[message->level]);
    json_text(&json, "component", message->component);
    json_text(&json, "message", message->text);
    if (message->elapsed_ms >= 0)
        json_number(&json, "elapsed_ms", message->elapsed_ms, 3);
    if (message->duration_ms >= 0)
        json_number(&json, "duration_ms", message->duration_ms, 3);
    json_end(&json);
}

static void (*before)(void);

void log_before(void (*hide)(void)) {
    flockfile(stderr);
    before = hide;
    funlockfile(stderr);
}

static void print_message(void *user, const mxw_log_message *message) {
    (void)user;
    flockfile(stderr);
    progress_hide();
    if (before)
        before();
    if (as_json)
        print_json(message);
    else
        print_human(message);
    fflush(stderr);
    funlockfile(stderr);
}

void log_start(mxw_log_level level, int json) {
    threshold = level;
    as_json = json;
    mxw_log_set(level, print_message, NULL);
}

void log_divert(log_sink sink, void *user) {
    diverted.sink = sink;
    diverted.user = user;
}

void log_print(mxw_log_level level, const char *message) {
    mxw_log_message full = {level, "cli", message, -1, -1};
    print_message(NULL, &full);
}

static void say(mxw_log_level level, const char *format, va_list args) {
    char message[2048];
    vsnprintf(message, sizeof(message), format, args);
    if (diverted.sink)
        diverted.sink(diverted.user, level, message);
    else
        log_print(level, message);
}

void log_say(mxw_log_level level, const char *format, ...) {
    if (level > threshold)
        return;
    va_list args;
    va_start(args, format);
    say(level, format, args);
    va_end(args);
}

void log_note(const char *format, ...) {
    if (threshold < (isatty(STDERR_FILENO) ? MXW_LOG_WARN : MXW_LOG_INFO))
        return;
    va_list args;
    va_start(args, format);
    say(MXW_LOG_INFO, format, args);
    va_end(args);
}

void log_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(MXW_LOG_ERROR, format, args);
    va_end(args);
}

void log_failure(const char *subject, mxw_status status) {
    const char *reason = mxw_last_error();
    if (!reason[0])
        reason = mxw_status_text(status);
    if (subject && !strstr(reason, subject))
        log_error("%s: %s", subject, reason);
    else
        log_error("%s", reason);
}
