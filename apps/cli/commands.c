/* cli/commands.c - the table of subcommands, made from commands.def, and how one is found. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cli.h"
#include "common/suggest.h"

const subcommand commands[] = {
#define COMMAND(words, identifier) {words, &command_##identifier},
#include "commands.def"
#undef COMMAND
    {NULL, NULL},
};

const char *const log_format_names[] = {"human", "json", NULL};

const char *command_group(int index) {
    static char names[64][24]; /* filled once, in order; the table is far shorter */
    int n = 0;
    for (const subcommand *c = commands; c->words && n < 64; c++) {
        size_t length = strcspn(c->words, " ");
        if (n && strlen(names[n - 1]) == length && !strncmp(names[n - 1], c->words, length))
            continue;
        snprintf(names[n++], sizeof(names[0]), "%.*s", (int)length, c->words);
    }
    return index < n ? names[index] : NULL;
}

int command_is_group(const char *word) {
    for (const subcommand *c = commands; c->words; c++) {
        size_t length = strcspn(c->words, " ");
        if (c->words[length] && strlen(word) == length && !strncmp(c->words, word, length))
            return 1;
    }
    return 0;
}

/* ---- which subcommand ----------------------------------------------------------------------------------- */

/* Length of the first word of a subcommand's name; the second, if any, follows a space. */
static size_t first_word(const subcommand *c) { return strcspn(c->words, " "); }

static int starts_with(const subcommand *c, const char *word) {
    return strlen(word) == first_word(c) && !strncmp(c->words, word, strlen(word));
}

/* "model" was read: the second word must complete it. */
static const subcommand *find_second(const char *first, const char *second, char *message, size_t size) {
    char list[96] = "";
    suggestion near;
    suggestion_start(&near, second ? second : "");
    for (const subcommand *c = commands; c->words; c++) {
        if (!starts_with(c, first))
            continue;
        const char *rest = c->words + first_word(c) + 1;
        if (second && !strcmp(rest, second))
            return c;
        suggestion_offer(&near, rest);
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", rest);
    }
    if (!second || second[0] == '-')
        options_say(message, size, "'%s' needs one of: %s", first, list);
    else if (near.best)
        options_say(message, size, "unknown subcommand '%s %.40s'; did you mean '%s %s'?", first, second, first,
                    near.best);
    else
        options_say(message, size, "unknown subcommand '%s %.40s'; available: %s", first, second, list);
    return NULL;
}

/* A single word that is not a file and does not look like a path is a mistyped subcommand, not a recording. */
static int is_mistyped(const char *word, char *message, size_t size) {
    if (word[0] == '-' || strpbrk(word, "./") || !access(word, F_OK))
        return 0;
    char list[256] = "";
    suggestion near;
    suggestion_start(&near, word);
    for (const subcommand *c = commands; c->words; c++)
        suggestion_offer(&near, c->words);
    for (int i = 0; command_group(i); i++) {
        size_t used = strlen(list);
        suggestion_offer(&near, command_group(i));
        snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", command_group(i));
    }
    if (near.best)
        options_say(message, size, "'%.60s' is neither a file nor a subcommand; did you mean '%s'?", word, near.best);
    else
        options_say(message, size, "'%.60s' is neither a file nor a subcommand (%s)", word, list);
    return 1;
}

const subcommand *command_find(int argc, char **argv, int *n_words, char *message, size_t size) {
    *n_words = 0;
    if (argc == 0)
        return &commands[0];
    for (const subcommand *c = commands; c->words; c++) {
        if (!starts_with(c, argv[0]))
            continue;
        int two = c->words[first_word(c)] == ' ';
        *n_words = 1 + two;
        return two ? find_second(argv[0], argc > 1 ? argv[1] : NULL, message, size) : c;
    }
    return is_mistyped(argv[0], message, size) ? NULL : &commands[0];
}
