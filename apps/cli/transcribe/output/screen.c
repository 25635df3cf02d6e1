/* cli/transcribe/output/screen.c - prints segments and results at a recording's place in the ordered output. */
#include "transcribe/output/screen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

screen_form screen_choose(const transcribe_options *o) {
    if (o->format && !o->output_dir)
        return strcmp(o->format, "jsonl") ? SCREEN_FORMAT : SCREEN_JSON_LINES;
    if (o->format)
        return SCREEN_NOTHING;
    if (o->verbose == 1 && !(o->output_dir && o->common.quiet))
        return SCREEN_LINES;
    return o->output_dir ? SCREEN_NOTHING : SCREEN_TEXT;
}

void screen_timestamp(char *out, size_t size, double seconds) {
    long long ms = seconds > 0 && seconds < 1e12 ? llrint(seconds * 1000.0) : 0;
    long long hours = ms / 3600000;
    int n = hours ? snprintf(out, size, "%02lld:", hours) : 0;
    snprintf(out + n, size - (size_t)n, "%02lld:%02lld.%03lld", ms / 60000 % 60, ms / 1000 % 60, ms % 1000);
}

static int write_out(void *user, const void *bytes, size_t n) {
    screen *s = user;
    return ordered_write(s->output, s->place, bytes, n);
}

static void write_text(screen *s, const char *text) { write_out(s, text, strlen(text)); }

int screen_has_colors(void) {
    const char *terminal = getenv("TERM"), *unwanted = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && terminal && strcmp(terminal, "dumb") && !(unwanted && unwanted[0]);
}

/* A newline inside would break "one segment, one line". */
static void write_one_line(screen *s, const char *text, size_t n, int grey) {
    write_text(s, grey ? "\033[90m" : "");
    for (size_t i = 0, line = 0; i < n; i = line + 1) {
        line = i + strcspn(text + i, "\r\n");
        line = line < n ? line : n;
        write_out(s, text + i, line - i);
        write_text(s, line < n ? " " : "");
    }
    write_text(s, grey ? "\033[0m" : "");
}

static int words_are_text(const mxw_segment *segment) {
    const char *at = segment->text;
    for (size_t i = 0; i < segment->n_words; i++) {
        size_t n = strlen(mxw_segment_word(segment, i)->word);
        if (strncmp(at, mxw_segment_word(segment, i)->word, n))
            return 0;
        at += n;
    }
    return segment->n_words && !at[strspn(at, " \t\r\n")];
}

/* The text from `text` on, n bytes of it: grey as a whole, or word by word where words are there. */
static void write_suspected(screen *s, const mxw_segment *segment, const char *text, size_t n) {
    const char *at = segment->text;
    if (!words_are_text(segment)) {
        write_one_line(s, text, n, segment->reasons != 0);
        return;
    }
    for (size_t i = 0; i < segment->n_words; i++) {
        const mxw_word *word = mxw_segment_word(segment, i);
        const char *end = at + strlen(word->word), *from = at < text ? text : at, *to = end < text + n ? end : text + n;
        if (to > from)
            write_one_line(s, from, (size_t)(to - from), word->reasons != 0);
        at = end;
    }
}

static void write_language(screen *s, const mxw_segment *segment) {
    char language[16];
    if (segment->language_probability < 0 || !segment->language || !strcmp(segment->language, s->language))
        return;
    snprintf(s->language, sizeof(s->language), "%s", segment->language);
    snprintf(language, sizeof(language), "[%s] ", s->language);
    write_text(s, language);
}

static void print_line(screen *s, const mxw_segment *segment) {
    const char *text = segment->text ? segment->text : "";
    text += strspn(text, " \t\r\n");
    size_t n = strlen(text);
    while (n && strchr(" \t\r\n", text[n - 1]))
        n--;
    if (!n)
        return;
    char start[40], end[40], times[96];
    screen_timestamp(start, sizeof(start), segment->start);
    screen_timestamp(end, sizeof(end), segment->end);
    snprintf(times, sizeof(times), "[%s --> %s] ", start, end);
    ordered_begin(s->output, s->place, s->name);
    write_text(s, times);
    if (segment->speaker) {
        char speaker[40];
        snprintf(speaker, sizeof(speaker), "[%s] ", segment->speaker);
        write_text(s, speaker);
    }
    write_language(s, segment);
    if (s->colors)
        write_suspected(s, segment, text, n);
    else
        write_one_line(s, text, n, 0);
    write_text(s, "\n");
    ordered_flush(s->output, s->place);
}

void screen_segment(screen *s, const mxw_segment *segment) {
    if (s->form == SCREEN_LINES)
        print_line(s, segment);
    if (s->form != SCREEN_JSON_LINES)
        return;
    mxw_segment_write(segment, write_out, s);
    ordered_flush(s->output, s->place);
}

mxw_status screen_result(screen *s, const mxw_result *result, const char *format, const mxw_write_options *options,
                         int newline) {
    if (s->form == SCREEN_TEXT)
        ordered_begin(s->output, s->place, s->name);
    mxw_status status = mxw_result_write(result, format, options, write_out, s);
    if (status >= 0 && newline)
        write_text(s, "\n");
    ordered_flush(s->output, s->place);
    return status;
}
