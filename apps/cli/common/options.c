/* cli/common/options.c - the parser behind options.h. Arguments are read left to right; the last value wins. */
#include "common/options.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/suggest.h"

void options_say(char *message, size_t size, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(message, size, format, args);
    va_end(args);
    for (char *p = message; *p; p++) /* untrusted text is quoted: keep it on one line */
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = '?';
}

/* ---- names ---------------------------------------------------------------------------------------------- */

static int same_name(const char *row_name, const char *typed, size_t length) {
    if (!row_name || strlen(row_name) != length)
        return 0;
    for (size_t i = 0; i < length; i++)
        if (row_name[i] != (typed[i] == '_' ? '-' : typed[i]))
            return 0;
    return 1;
}

/* Whether the name is one of a list with blanks between. */
static int is_listed(const char *list, const char *typed, size_t length) {
    for (const char *p = list; p && *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " "), i = 0;
        while (n == length && i < n && p[i] == (typed[i] == '_' ? '-' : typed[i]))
            i++;
        if (n == length && i == n)
            return 1;
        p += n;
    }
    return 0;
}

const option_row *options_find(const option_row *table, const char *name, size_t length) {
    for (const option_row *row = table; row->name; row++)
        if (same_name(row->name, name, length) || same_name(row->alias, name, length) ||
            is_listed(row->peers, name, length))
            return row;
    return NULL;
}

static const option_row *find_letter(const option_row *table, char letter) {
    for (const option_row *row = table; row->name; row++)
        if (row->letter && row->letter == letter)
            return row;
    return NULL;
}

static void say_unknown(const option_row *table, const char *name, size_t length, options_outcome *outcome) {
    char typed[65];
    snprintf(typed, sizeof(typed), "%.*s", (int)(length < 64 ? length : 64), name);
    suggestion near;
    suggestion_start(&near, typed);
    for (const option_row *row = table; row->name; row++) {
        suggestion_offer(&near, row->name);
        if (row->alias)
            suggestion_offer(&near, row->alias);
    }
    if (near.best && length <= 64)
        options_say(outcome->message, sizeof(outcome->message), "unknown option '--%s'; did you mean '--%s'?", typed,
                    near.best);
    else
        options_say(outcome->message, sizeof(outcome->message), "unknown option '--%s%s'; see --help", typed,
                    length > 64 ? "..." : "");
}

/* ---- values --------------------------------------------------------------------------------------------- */

static int is_true(const char *word) {
    return !strcmp(word, "True") || !strcmp(word, "true") || !strcmp(word, "yes") || !strcmp(word, "1");
}

static int is_false(const char *word) {
    return !strcmp(word, "False") || !strcmp(word, "false") || !strcmp(word, "no") || !strcmp(word, "0");
}

static int is_none(const char *word) { return !strcmp(word, "None") || !strcmp(word, "none"); }

static int is_switch(const option_row *row) { return row->kind == OPTION_FLAG || row->kind == OPTION_TRISTATE; }

/* Whether a word after a switch is its value: "--quiet True". A file of such a name is given as ./True. */
static int is_switch_value(const option_row *row, const char *word) {
    return is_true(word) || is_false(word) || (row->kind == OPTION_TRISTATE && is_none(word));
}

static int read_switch(const option_row *row, const char *value, int *target, char *message, size_t size) {
    if (is_true(value) || is_false(value)) {
        *target = is_true(value);
        return 1;
    }
    if (row->kind == OPTION_TRISTATE && is_none(value)) {
        *target = -1;
        return 1;
    }
    options_say(message, size, "'%.60s' is not True%s", value,
                row->kind == OPTION_TRISTATE ? ", False or None" : " or False");
    return 0;
}

/* "1 to 100", "1 to 100, or none", "1 to 100, auto or none" */
static void say_range(const option_row *row, const char *value, const char *what, char *message, size_t size) {
    options_say(message, size, "'%.60s' is not a %s from %.15g to %.15g%s%s%s", value, what, row->low, row->high,
                row->alone ? ", " : "", row->alone ? row->alone : "",
                !row->none ? "" : row->alone ? " or none" : ", or none");
}

static int read_whole(const option_row *row, const char *value, int64_t *target, char *message, size_t size) {
    if (row->none && is_none(value)) {
        *target = (int64_t)row->none_value;
        return 1;
    }
    if (row->alone && !strcmp(value, row->alone)) {
        *target = (int64_t)row->alone_value;
        return 1;
    }
    char *end;
    errno = 0;
    long long n = strtoll(value, &end, 10);
    int digits = value[0] && strspn(value, "+-0123456789") == strlen(value);
    if (!digits || *end || end == value || errno || (double)n < row->low || (double)n > row->high) {
        say_range(row, value, "whole number", message, size);
        return 0;
    }
    *target = n;
    return 1;
}

static int read_number(const option_row *row, const char *value, double *target, char *message, size_t size) {
    if (row->none && is_none(value)) {
        *target = row->none_value;
        return 1;
    }
    char *end;
    double x = strtod(value, &end);
    int plain = value[0] && strspn(value, "+-.eE0123456789") == strlen(value); /* no hex, no "nan" */
    if (!plain || *end || end == value || !isfinite(x) || x < row->low || x > row->high) {
        say_range(row, value, "number", message, size);
        return 0;
    }
    *target = x;
    return 1;
}

static int read_choice(const option_row *row, const char *value, int *target, char *message, size_t size) {
    char list[160] = "";
    suggestion near;
    suggestion_start(&near, value);
    for (int i = 0; row->choices[i]; i++) {
        if (!strcmp(row->choices[i], value)) {
            *target = i;
            return 1;
        }
        suggestion_offer(&near, row->choices[i]);
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", row->choices[i]);
    }
    if (near.best)
        options_say(message, size, "'%.60s' is not one of %s; did you mean '%s'?", value, list, near.best);
    else
        options_say(message, size, "'%.60s' is not one of %s", value, list);
    return 0;
}

static int is_utf8(const char *text) {
    static const unsigned least[] = {0, 0x80, 0x800, 0x10000};
    const unsigned char *p = (const unsigned char *)text;
    while (*p) {
        int more = *p < 0x80 ? 0 : *p >> 5 == 6 ? 1 : *p >> 4 == 14 ? 2 : *p >> 3 == 30 ? 3 : -1;
        unsigned code = more > 0 ? *p & (0x3fu >> more) : *p;
        p++;
        for (int i = 0; i < more; i++, p++) {
            if (*p >> 6 != 2)
                return 0;
            code = code << 6 | (*p & 0x3fu);
        }
        if (more < 0 || code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            return 0;
    }
    return 1;
}

static int read_text(const option_row *row, const char *value, const char **target, char *message, size_t size) {
    if (row->none && is_none(value)) {
        *target = NULL;
        return 1;
    }
    if (row->check && !row->check(value, message, size))
        return 0;
    if ((row->kind == OPTION_NAME || row->kind == OPTION_NAMES) && !value[0])
        options_say(message, size, "must not be empty (%s)", row->placeholder);
    else if (row->kind == OPTION_TEXT && !is_utf8(value))
        options_say(message, size, "is not valid UTF-8");
    else {
        *target = value;
        return 1;
    }
    return 0;
}

static int read_list(const option_row *row, const char *value, option_list *list, char *message, size_t size) {
    if (list->n >= OPTION_LIST_MAX) {
        options_say(message, size, "may be given %d times", OPTION_LIST_MAX);
        return 0;
    }
    return read_text(row, value, &list->items[list->n], message, size) ? ++list->n : 0;
}

int options_set(const option_row *row, const char *value, void *target, char *message, size_t size) {
    void *place = (char *)target + row->target;
    switch (row->kind) {
    case OPTION_FLAG:
    case OPTION_TRISTATE:
        return read_switch(row, value, place, message, size);
    case OPTION_WHOLE:
        return read_whole(row, value, place, message, size);
    case OPTION_NUMBER:
        return read_number(row, value, place, message, size);
    case OPTION_CHOICE:
        return read_choice(row, value, place, message, size);
    case OPTION_TEXT:
    case OPTION_NAME:
        return read_text(row, value, place, message, size);
    case OPTION_NAMES:
        return read_list(row, value, place, message, size);
    case OPTION_REFUSED:
        if (is_false(value) || is_none(value))
            return 1;
        options_say(message, size, "%s", row->help);
        return 0;
    case OPTION_IGNORED:
    case OPTION_HELP:
        return 1;
    }
    return 0;
}

void options_default(const option_row *table, void *target) {
    char message[256];
    for (const option_row *row = table; row->name; row++)
        if (row->fallback && row->kind != OPTION_REFUSED && row->kind != OPTION_IGNORED)
            options_set(row, row->fallback, target, message, sizeof(message));
}

/* ---- words ---------------------------------------------------------------------------------------------- */

typedef struct cursor {
    const option_row *table;
    void *target;
    char **words; /* all of them */
    int n, i;     /* how many; the next one to read */
    options_outcome *outcome;
} cursor;

static int wrong_value(cursor *c, const option_row *row, const char *why) {
    options_say(c->outcome->message, sizeof(c->outcome->message), "--%s: %s", row->name, why);
    return 0;
}

static int store(cursor *c, const option_row *row, const char *value) {
    char why[400];
    option_list *list = row->kind == OPTION_NAMES ? (option_list *)(void *)((char *)c->target + row->target) : NULL;
    if (list && !list->given) {
        list->n = 0;
        list->given = 1;
    }
    return options_set(row, value, c->target, why, sizeof(why)) ? 1 : wrong_value(c, row, why);
}

/* Whether the word is an option of this table, so that "--model --quiet" is a forgotten value, not a model. */
static int is_known_option(const cursor *c, const char *word) {
    if (strncmp(word, "--", 2))
        return 0;
    return !word[2] || options_find(c->table, word + 2, strcspn(word + 2, "=")) != NULL;
}

/* Whether a word after an option that may stand alone is its value: a number, or a word it has. */
static int is_value_of(const option_row *row, const char *word) {
    return (word[0] && strspn(word, "0123456789") == strlen(word)) || !strcmp(word, row->alone) ||
           (row->none && is_none(word));
}

/* The value in the next word, or "True" for a switch that stands alone. */
static int store_next(cursor *c, const option_row *row) {
    const char *next = c->i < c->n ? c->words[c->i] : NULL;
    if (is_switch(row) || row->kind == OPTION_REFUSED) {
        int taken = next && (row->kind == OPTION_REFUSED ? next[0] != '-' : is_switch_value(row, next));
        c->i += taken;
        return store(c, row, taken ? next : "True");
    }
    if (row->alone && (!next || !is_value_of(row, next)))
        return store(c, row, row->alone);
    if (!next || is_known_option(c, next)) {
        char why[96];
        options_say(why, sizeof(why), "needs a value (%s)", row->placeholder ? row->placeholder : "VALUE");
        return wrong_value(c, row, why);
    }
    c->i++;
    return store(c, row, next);
}

/* --name, --name=value, --name value; 0: wrong, 1: go on, 2: help is wanted. */
static int read_long(cursor *c, const char *word) {
    const char *name = word + 2;
    size_t length = strcspn(name, "=");
    const option_row *row = options_find(c->table, name, length);
    if (!row) {
        say_unknown(c->table, name, length, c->outcome);
        return 0;
    }
    if (row->kind == OPTION_HELP)
        return name[length] != '=' ? 2 : wrong_value(c, row, "takes no value");
    return name[length] == '=' ? store(c, row, name + length + 1) : store_next(c, row);
}

/* -q, -o DIR, -oDIR, -o=DIR, -qo DIR. */
static int read_letters(cursor *c, const char *word) {
    for (const char *p = word + 1; *p; p++) {
        const option_row *row = find_letter(c->table, *p);
        if (!row) {
            options_say(c->outcome->message, sizeof(c->outcome->message),
                        "unknown option '-%c' in '%.40s'; see --help", *p, word);
            return 0;
        }
        if (row->kind == OPTION_HELP)
            return 2;
        if (!p[1])
            return store_next(c, row);
        if (!is_switch(row))
            return store(c, row, p + 1 + (p[1] == '='));
        if (!store(c, row, "True"))
            return 0;
    }
    return 1;
}

static int read_word(cursor *c, int *only_words) {
    char *word = c->words[c->i++];
    if (*only_words || word[0] != '-' || !word[1]) {
        c->outcome->words[c->outcome->n_words++] = word; /* behind the cursor: never overwrites one to come */
        return 1;
    }
    if (word[1] != '-')
        return read_letters(c, word);
    if (word[2])
        return read_long(c, word);
    *only_words = 1;
    return 1;
}

options_status options_parse(const option_row *table, void *target, int argc, char **argv, options_outcome *outcome) {
    cursor c = {table, target, argv, argc, 0, outcome};
    int only_words = 0;
    *outcome = (options_outcome){.status = OPTIONS_OK, .words = argv};
    options_default(table, target);
    while (c.i < c.n && outcome->status == OPTIONS_OK) {
        int read = read_word(&c, &only_words);
        if (read != 1)
            outcome->status = read ? OPTIONS_WANT_HELP : OPTIONS_WRONG;
    }
    return outcome->status;
}
