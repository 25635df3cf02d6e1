/* cli/commands.c - the table of subcommands, and how one is found. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cli.h"
#include "common/suggest.h"

const command *const commands[] = {
    &command_transcribe,
    &command_bench,
    &command_demo,
    &command_report,
    &command_verify,
    &command_features_extract,
    &command_features_compare,
    &command_features_diverge,
    &command_features_decode,
    &command_model_list,
    &command_model_fetch,
    &command_model_inspect,
    &command_model_export,
    &command_devices,
    &command_gpu_check,
    &command_graph_dump,
    &command_graph_test,
    &command_version,
    &command_help,
    NULL,
};

const char *const log_format_names[] = {"human", "json", NULL};

/* ---- which subcommand ----------------------------------------------------------------------------------- */

/* Length of the first word of a command's name; the rest, if any, is behind a space. */
static size_t first_word(const command *c) { return strcspn(c->name, " "); }

static int starts_with(const command *c, const char *word) {
    return strlen(word) == first_word(c) && !strncmp(c->name, word, strlen(word));
}

/* "model" was read: the second word must complete it. */
static const command *find_second(const char *first, const char *second, char *message, size_t size) {
    char list[96] = "";
    suggestion near;
    suggestion_start(&near, second ? second : "");
    for (int i = 0; commands[i]; i++) {
        if (!starts_with(commands[i], first))
            continue;
        const char *rest = commands[i]->name + first_word(commands[i]) + 1;
        if (second && !strcmp(rest, second))
            return commands[i];
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
        options_say(message, size, "unknown subcommand '%s %.40s'; there is: %s", first, second, list);
    return NULL;
}

/* A lone word that is no file and has nothing of a path is a mistyped subcommand, not a recording. */
static int is_mistyped(const char *word, char *message, size_t size) {
    if (word[0] == '-' || strpbrk(word, "./") || !access(word, F_OK))
        return 0;
    suggestion near;
    suggestion_start(&near, word);
    for (int i = 0; commands[i]; i++)
        suggestion_offer(&near, commands[i]->name);
    suggestion_offer(&near, "model");
    suggestion_offer(&near, "graph");
    suggestion_offer(&near, "features");
    if (near.best)
        options_say(message, size, "'%.60s' is neither a file nor a subcommand; did you mean '%s'?", word, near.best);
    else
        options_say(message, size,
                    "'%.60s' is neither a file nor a subcommand (transcribe, bench, demo, report, model, verify, "
                    "features, devices, gpu-check, graph, version, help)",
                    word);
    return 1;
}

const command *command_find(int argc, char **argv, int *n_name_words, char *message, size_t size) {
    *n_name_words = 0;
    if (argc == 0)
        return &command_transcribe;
    for (int i = 0; commands[i]; i++) {
        if (!starts_with(commands[i], argv[0]))
            continue;
        int two = commands[i]->name[first_word(commands[i])] == ' ';
        *n_name_words = 1 + two;
        return two ? find_second(argv[0], argc > 1 ? argv[1] : NULL, message, size) : commands[i];
    }
    return is_mistyped(argv[0], message, size) ? NULL : &command_transcribe;
}
