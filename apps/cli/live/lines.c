/* cli/live/lines.c - where sentences end, by their marks alone. */
#include "live/lines.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/stdout.h"
#include "live/clip.h"

static int is_upper(char c) { return c >= 'A' && c <= 'Z'; }

static int is_lower(char c) { return c >= 'a' && c <= 'z'; }

/* Bytes of the first of these texts that stands there, or 0. */
static size_t match(const char *text, size_t n, const char *const *list) {
    for (; *list; list++)
        if (strlen(*list) <= n && !memcmp(text, *list, strlen(*list)))
            return strlen(*list);
    return 0;
}

/* Whether the dot there belongs to its word: "Mr.", "Mrs.", "St.", "U.S.", "a.m.". Too many that do cost a longer line,
 * too few a line that ends within a name. */
static int is_abbreviation(const char *text, size_t dot) {
    size_t first = dot;
    while (first > 0 && text[first - 1] != ' ' && text[first - 1] != '"' && text[first - 1] != '(')
        first--;
    size_t n = dot - first;
    return memchr(text + first, '.', n) || (n <= 2 && is_upper(text[first])) ||
           (n == 3 && !memcmp(text + first, "Mrs", n));
}

/* Bytes of the sentence's mark and the quotes that close behind it, if one ends there; something follows. */
static size_t sentence_end(const char *text, size_t n, size_t at) {
    static const char *const marks[] = {".", "?", "!", "…", NULL};
    static const char *const wide[] = {"。", "？", "！", NULL};
    static const char *const closing[] = {"\"", "'", ")", "]", "”", "’", "»", "」", "』", "）", NULL};
    size_t mark = match(text + at, n - at, marks), is_wide = match(text + at, n - at, wide), end = at + mark + is_wide;
    if (!mark && !is_wide)
        return 0;
    for (size_t more; (more = match(text + end, n - end, closing)); end += more)
        ;
    if (end + 1 >= n || (mark && (text[end] != ' ' || is_lower(text[end + 1]))))
        return 0;
    return text[at] == '.' && is_abbreviation(text, at) ? 0 : end - at;
}

size_t lines_complete(const char *text, size_t n) {
    size_t end = 0;
    for (size_t i = 0, length; i < n && !end; i++)
        if ((length = sentence_end(text, n, i)))
            end = i + length;
    size_t most = end ? end : n, part = clip_line(text, most, LINE_COLUMNS);
    return part < most ? part : end;
}

static void print(const char *text, size_t n) {
    while (n && text[n - 1] == ' ')
        n--;
    if (n) {
        out_write(NULL, text, n);
        out_text("\n");
    }
}

static void drop(text_lines *lines, size_t n) {
    while (n < lines->n && lines->text[n] == ' ')
        n++;
    memmove(lines->text, lines->text + n, lines->n - n);
    lines->n -= n;
}

void lines_add(text_lines *lines, const char *text) {
    size_t n = strlen(text), part;
    if (lines->n + n > lines->room) {
        size_t room = 2 * (lines->n + n);
        char *grown = realloc(lines->text, room);
        if (!grown) {
            log_error("out of memory: a line of text");
            return;
        }
        lines->text = grown;
        lines->room = room;
    }
    for (size_t i = 0; i < n; i++) {
        char c = text[i] == '\n' || text[i] == '\r' ? ' ' : text[i];
        if (c != ' ' || lines->n)
            lines->text[lines->n++] = c;
    }
    int printed = 0;
    for (; (part = lines_complete(lines->text, lines->n)); printed = 1) {
        print(lines->text, part);
        drop(lines, part);
    }
    if (printed)
        out_flush();
}

void lines_end(text_lines *lines) {
    if (lines->n) {
        print(lines->text, lines->n);
        out_flush();
    }
    lines->n = 0;
}

void lines_free(text_lines *lines) {
    free(lines->text);
    *lines = (text_lines){NULL, 0, 0};
}
