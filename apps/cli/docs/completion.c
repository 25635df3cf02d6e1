/* cli/docs/completion.c - bash functions that list subcommands, their options and the values these take. */
#include <string.h>

#include "common/cli.h"
#include "docs/docs.h"

/* ---- values of an option -------------------------------------------------------------------------------- */

/* A value with a space in it ("haitian creole") cannot be in a list of bash's words. */
static void put(char *text, size_t size, const char *word) {
    size_t used = strlen(text);
    if (!strchr(word, ' '))
        snprintf(text + used, size - used, "%s%s", used ? " " : "", word);
}

/* A switch that is on by default is only ever given to turn it off; an option that may stand alone has no list. */
static void values_of(const option_row *row, char *text, size_t size) {
    text[0] = 0;
    if (row->alone) /* what follows is as likely a file */
        return;
    for (int i = 0; row->choices && row->choices[i]; i++)
        put(text, size, row->choices[i]);
    for (int i = 0; row->values && row->values(i); i++)
        put(text, size, row->values(i));
    if (row->kind == OPTION_FLAG && row->fallback && !strcmp(row->fallback, "True"))
        put(text, size, "True"), put(text, size, "False");
    if (row->kind == OPTION_TRISTATE)
        put(text, size, "True"), put(text, size, "False"), put(text, size, "None");
    if ((row->kind == OPTION_WHOLE || row->kind == OPTION_NUMBER) && row->none && strcmp(row->fallback, "none"))
        put(text, size, row->fallback);
    if (row->none)
        put(text, size, "none");
}

static const char *files_of(const option_row *row) {
    if (row->kind != OPTION_NAME && (row->kind != OPTION_NAMES || !row->values)) /* a key is no file */
        return "";
    return row->placeholder && !strcmp(row->placeholder, "DIR") ? "folders" : "files";
}

/* ---- arms of a case ------------------------------------------------------------------------------------- */

typedef void (*text_of)(const option_row *row, char *text, size_t size);

static void kind_of(const option_row *row, char *text, size_t size) { snprintf(text, size, "%s", files_of(row)); }

/* "bench --engine" and the names besides it. */
static void put_patterns(FILE *out, const subcommand *c, const option_row *row, int *first) {
    fprintf(out, "%s\"%s --%s\"", *first ? "        " : " | \\\n        ", c->words, row->name);
    if (row->alias)
        fprintf(out, " | \"%s --%s\"", c->words, row->alias);
    if (row->letter)
        fprintf(out, " | \"%s -%c\"", c->words, row->letter);
    *first = 0;
}

/* 1 if an option before this one, in the order of all tables, has the same text. */
static int is_seen(const subcommand *last, const option_row *end, const char *text, text_of of) {
    static char other[8192];
    for (const subcommand *c = commands; c <= last; c++)
        for (const option_row *row = c->command->options; row->name; row++) {
            if (c == last && row == end)
                return 0;
            of(row, other, sizeof(other));
            if (!strcmp(other, text))
                return 1;
        }
    return 0;
}

/* Options that take the same values share an arm. */
static void put_arms(FILE *out, text_of of) {
    static char text[8192], other[8192];
    for (const subcommand *c = commands; c->words; c++)
        for (const option_row *row = c->command->options; row->name; row++) {
            int first = 1;
            of(row, text, sizeof(text));
            if (!text[0] || is_seen(c, row, text, of))
                continue;
            for (const subcommand *d = c; d->words; d++)
                for (const option_row *r = d->command->options; r->name; r++) {
                    of(r, other, sizeof(other));
                    if (!strcmp(other, text))
                        put_patterns(out, d, r, &first);
                }
            fprintf(out, ") echo \"%s\" ;;\n", text);
        }
}

/* ---- the functions -------------------------------------------------------------------------------------- */

static void open_function(FILE *out, const char *comment, const char *name, const char *subject) {
    fprintf(out, "\n# %s\n_max_whisper_%s() {\n    case \"%s\" in\n", comment, name, subject);
}

static void close_function(FILE *out) { fputs("    esac\n}\n", out); }

static void put_seconds(FILE *out) {
    open_function(out, "Second words of a subcommand that has two.", "seconds", "$1");
    for (int i = 0; command_group(i); i++) {
        const char *before = "";
        if (!command_is_group(command_group(i)))
            continue;
        fprintf(out, "        %s) echo \"", command_group(i));
        for (const subcommand *c = commands; c->words; c++)
            if (!strncmp(c->words, command_group(i), strlen(command_group(i)))) {
                fprintf(out, "%s%s", before, strchr(c->words, ' ') + 1);
                before = " ";
            }
        fputs("\" ;;\n", out);
    }
    close_function(out);
}

static void put_options(FILE *out) {
    open_function(out, "Options of a subcommand.", "options", "$1");
    for (const subcommand *c = commands; c->words; c++) {
        fprintf(out, "        \"%s\") echo \"", c->words);
        for (const option_row *row = c->command->options; row->name; row++) {
            fprintf(out, "%s--%s", row == c->command->options ? "" : " ", row->name);
            if (row->alias)
                fprintf(out, " --%s", row->alias);
        }
        fputs("\" ;;\n", out);
    }
    close_function(out);
}

static void put_words(FILE *out) {
    open_function(out, "Words that a subcommand takes, besides files.", "words", "$1");
    for (const subcommand *c = commands; c->words; c++) {
        if (!c->command->values)
            continue;
        fprintf(out, "        \"%s\") echo \"", c->words);
        for (int i = 0; c->command->values(i); i++)
            fprintf(out, "%s%s", i ? " " : "", c->command->values(i));
        fputs("\" ;;\n", out);
    }
    close_function(out);
}

void docs_completion(FILE *out) {
    fputs("_max_whisper_subcommands=\"", out);
    for (int i = 0; command_group(i); i++)
        fprintf(out, "%s%s", i ? " " : "", command_group(i));
    fputs("\"\n", out);
    put_seconds(out);
    put_options(out);
    open_function(out, "Values of \"SUBCOMMAND OPTION\"; nothing where any text will do.", "values", "$1");
    put_arms(out, values_of);
    close_function(out);
    open_function(out, "Whether an option takes the name of a file or of a folder.", "kind", "$1");
    put_arms(out, kind_of);
    close_function(out);
    put_words(out);
}
