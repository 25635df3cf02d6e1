/* cli/common/cli.h - shared by all subcommands: the struct that describes one, exit statuses, common options.
 *
 * Invariants: a subcommand is one file and one line in commands.def; it includes max_whisper.h and nothing below it.
 */
#ifndef CLI_COMMON_CLI_H
#define CLI_COMMON_CLI_H

#include "common/log.h"
#include "common/options.h"
#include "max_whisper.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

/* Every subcommand's options start with these. */
typedef struct common_options {
    int quiet;
    int log_level;  /* mxw_log_level */
    int log_format; /* 0 human, 1 json */
} common_options;

enum { MAX_OPTIONS_BYTES = 1024 }; /* of any subcommand's struct */

typedef struct command {
    const char *arguments; /* for the usage line: "FILE..." */
    int min_words, max_words;
    const char *word_name; /* what a missing word is: "an audio or video file" */
    const char *summary;   /* one line */
    const char *details;   /* paragraphs of help, or NULL */
    const option_row *options;
    size_t options_size;
    option_values values; /* of its words, for completion; NULL: files */
    int (*run)(const void *options, char **words, int n_words);
} command;

#define COMMAND(words, identifier) extern const command command_##identifier;
#include "commands.def"
#undef COMMAND

/* A line of commands.def. */
typedef struct subcommand {
    const char *words; /* its name: "transcribe", "model list" */
    const command *command;
} subcommand;

/* All of them in the order of help; the last has no words. The first, transcribe, is implied where none is named. */
extern const subcommand commands[];
/* The first words of their names ("transcribe", ..., "model"), each once; NULL past the end. */
const char *command_group(int index);
/* 1 if the word needs a second one: "model". */
int command_is_group(const char *word);
/* The subcommand that argv begins with, and how many words name it (0: transcribe is implied). NULL: see message. */
const subcommand *command_find(int argc, char **argv, int *n_words, char *message, size_t size);

/* The whole help of a subcommand on standard output; overview: with a list of the others. */
void help_print(const subcommand *c, int overview);
/* The subcommands that begin with a word ("model"). */
void help_print_group(const char *first_word);
/* A few lines on standard error. */
void help_print_short(void);

extern const char *const log_format_names[];

/* A table reads by rows. */
/* clang-format off */
#define JSON_ROW(type, member)                                                                                         \
    {.name = "json", .kind = OPTION_FLAG, .fallback = "False", .group = "Output", .target = offsetof(type, member),    \
     .help = "Print one JSON object."}

#define MESSAGES_GROUP "Messages" /* the group of COMMON_ROWS */
#define COMMON_ROWS                                                                                                    \
    {.name = "quiet", .letter = 'q', .kind = OPTION_FLAG, .fallback = "False", .group = "Messages",                    \
     .target = offsetof(common_options, quiet),                                                                        \
     .help = "No progress bar and no warnings: standard error stays empty unless something fails."},                   \
    {.name = "log-level", .kind = OPTION_CHOICE, .fallback = "warn", .placeholder = "LEVEL", .group = "Messages",      \
     .target = offsetof(common_options, log_level), .choices = log_level_names,                                        \
     .help = "Messages to show on standard error: error, warn, info or debug."},                                       \
    {.name = "log-format", .kind = OPTION_CHOICE, .fallback = "human", .placeholder = "FORM", .group = "Messages",     \
     .target = offsetof(common_options, log_format), .choices = log_format_names,                                      \
     .help = "human: plain lines; json: one JSON object per line, with component and times."},                         \
    {.name = "help", .letter = 'h', .kind = OPTION_HELP, .group = "Messages", .help = "Show this help and exit."}
/* clang-format on */

#endif
