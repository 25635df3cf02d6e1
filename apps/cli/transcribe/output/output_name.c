/* cli/transcribe/output/output_name.c - fields in braces, everything else as it stands. */
#include "transcribe/output/output_name.h"

#include <stdio.h>
#include <string.h>

#include "common/options.h"
#include "transcribe/output/outputs.h"

static const char *const names[] = {"{stem}", "{format}", "{model}", "{language}", NULL};

/* The field that begins there: its number, or -1. */
static int field_at(const char *p) {
    for (int i = 0; names[i]; i++)
        if (!strncmp(p, names[i], strlen(names[i])))
            return i;
    return -1;
}

int output_name_check(const char *pattern, char *message, size_t size) {
    if (!*pattern || strchr(pattern, '/') || !strcmp(pattern, ".") || !strcmp(pattern, "..")) {
        options_say(message, size, "'%.60s' is not a file name; use --output-dir for the folder", pattern);
        return 0;
    }
    for (const char *p = pattern; *p; p++) {
        int field = *p == '{' ? field_at(p) : -1;
        if (field < 0 && (*p == '{' || *p == '}')) {
            options_say(message, size, "'%.60s' has an unknown field; available: {stem}, {format}, {model}, {language}",
                        pattern);
            return 0;
        }
        p += field < 0 ? 0 : strlen(names[field]) - 1;
    }
    return 1;
}

int output_name_has(const char *pattern, const char *field) { return strstr(pattern, field) != NULL; }

int output_name_expand(const char *pattern, const output_fields *fields, char *out, size_t size) {
    size_t used = 0, n;
    const char *values[] = {outputs_stem(fields->path, &n), fields->format, fields->model, fields->language};
    for (const char *p = pattern; *p;) {
        int field = *p == '{' ? field_at(p) : -1;
        const char *text = field < 0 ? p : values[field];
        size_t length = field < 0 ? 1 : field == 0 ? n : strlen(text);
        if (used + length >= size)
            return 0;
        for (size_t i = 0; i < length; i++)
            out[used++] = text[i] == '/' && field > 0 ? '-' : text[i];
        p += field < 0 ? 1 : strlen(names[field]);
    }
    out[used] = 0;
    return used > 0;
}
