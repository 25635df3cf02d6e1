/* cli/common/json_writer.c - commas, indents and escapes. */
#include "common/json_writer.h"

#include <math.h>
#include <string.h>

/* Length of the valid UTF-8 character at s, 0 if there is none. */
static int utf8_length(const unsigned char *s) {
    int n = s[0] < 0x80                   ? 1
            : s[0] >= 0xC2 && s[0] < 0xE0 ? 2
            : s[0] >= 0xE0 && s[0] < 0xF0 ? 3
            : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                          : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80) /* a 0 at the end of the text stops here too */
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] >= 0xA0) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] >= 0x90))
        return 0; /* overlong, surrogate, or past U+10FFFF */
    return n;
}

static void put_string(FILE *file, const char *text) {
    fputc('"', file);
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        int n = utf8_length(p);
        if (*p == '"' || *p == '\\')
            fprintf(file, "\\%c", *p);
        else if (*p == '\n')
            fputs("\\n", file);
        else if (*p < ' ' || *p == 127)
            fprintf(file, "\\u%04x", *p);
        else if (n)
            fwrite(p, 1, (size_t)n, file);
        else
            fputs("\\ufffd", file);
        p += n ? n : 1;
    }
    fputc('"', file);
}

static void break_line(json_writer *json) {
    if (!json->pretty)
        return;
    fputc('\n', json->file);
    for (int i = 0; i < json->depth; i++)
        fputs("  ", json->file);
}

static void begin_member(json_writer *json, const char *key) {
    if (json->depth) {
        if (json->filled[json->depth - 1])
            fputs(json->pretty ? "," : ", ", json->file);
        json->filled[json->depth - 1] = 1;
        break_line(json);
    }
    if (key) {
        put_string(json->file, key);
        fputs(": ", json->file);
    }
}

static void open_level(json_writer *json, const char *key, char opener, char closer) {
    begin_member(json, key);
    fputc(opener, json->file);
    json->closer[json->depth] = closer;
    json->filled[json->depth] = 0;
    json->depth++;
}

void json_start(json_writer *json, FILE *file, int pretty) {
    memset(json, 0, sizeof(*json));
    json->file = file;
    json->pretty = pretty;
}

void json_begin(json_writer *json, const char *key) { open_level(json, key, '{', '}'); }

void json_list(json_writer *json, const char *key) { open_level(json, key, '[', ']'); }

void json_end(json_writer *json) {
    json->depth--;
    if (json->filled[json->depth])
        break_line(json);
    fputc(json->closer[json->depth], json->file);
    if (!json->depth)
        fputc('\n', json->file);
}

void json_text(json_writer *json, const char *key, const char *value) {
    begin_member(json, key);
    if (value)
        put_string(json->file, value);
    else
        fputs("null", json->file);
}

void json_whole(json_writer *json, const char *key, int64_t value) {
    begin_member(json, key);
    fprintf(json->file, "%lld", (long long)value);
}

void json_wholes(json_writer *json, const char *key, const int64_t *values, int n) {
    begin_member(json, key);
    for (int i = 0; i < n; i++)
        fprintf(json->file, "%s%lld", i ? ", " : "[", (long long)values[i]);
    fputs(n ? "]" : "[]", json->file);
}

void json_number(json_writer *json, const char *key, double value, int decimals) {
    begin_member(json, key);
    if (isfinite(value))
        fprintf(json->file, "%.*f", decimals, value);
    else
        fputs("null", json->file);
}

void json_bool(json_writer *json, const char *key, int value) {
    begin_member(json, key);
    fputs(value ? "true" : "false", json->file);
}
