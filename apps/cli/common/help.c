/* cli/common/help.c - `help`, `--help` and the short usage, all printed from the tables of commands and options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/cli.h"
#include "common/log.h"
#include "common/stdout.h"

typedef struct help_options {
    common_options common;
} help_options;

static const option_row rows[] = {COMMON_ROWS, {.name = NULL}};

enum { TEXT_COLUMN = 30 };

/* As wide as the terminal, within reason; 80 into a file or pipe. */
static int page_width(void) {
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col == 0)
        return 80;
    return size.ws_col < 60 ? 60 : size.ws_col > 100 ? 100 : size.ws_col;
}

/* Prints words from the column `indent` on, further lines indented as far, all within the page. */
static void print_wrapped(const char *text, int indent) {
    int width = page_width(), at = indent;
    while (*text) {
        size_t n = strcspn(text, " ");
        int first = at == indent;
        if (!first && at + 1 + (int)n > width) {
            out_print("\n%*s", indent, "");
            at = indent;
            first = 1;
        }
        out_print("%s%.*s", first ? "" : " ", (int)n, text);
        at += (int)n + !first;
        text += n + (text[n] == ' ');
    }
    out_text("\n");
}

/* "  -f, --format LIST": its length is returned. */
static int print_option_names(const option_row *row) {
    char names[120];
    char letter[8] = "    ";
    if (row->letter)
        snprintf(letter, sizeof(letter), "-%c, ", row->letter);
    int n = snprintf(names, sizeof(names), "  %s--%s", letter, row->name);
    if (row->alias)
        n += snprintf(names + n, sizeof(names) - (size_t)n, ", --%s", row->alias);
    if (row->placeholder)
        n += snprintf(names + n, sizeof(names) - (size_t)n, " %s", row->placeholder);
    out_text(names);
    return n;
}

static void print_option(const option_row *row) {
    char text[600];
    int quoted = row->fallback && !row->fallback[0];
    int shown = row->fallback && row->kind != OPTION_REFUSED && row->kind != OPTION_IGNORED;
    snprintf(text, sizeof(text), shown ? "%s [%s%s%s]" : "%s", row->help, quoted ? "\"" : "",
             row->fallback ? row->fallback : "", quoted ? "\"" : "");
    int at = print_option_names(row);
    if (at >= TEXT_COLUMN - 1) {
        out_print("\n%*s", TEXT_COLUMN, "");
    } else {
        out_print("%*s", TEXT_COLUMN - at, "");
    }
    print_wrapped(text, TEXT_COLUMN);
}

/* Options by group, groups in the order of their first row. */
static void print_options(const option_row *table) {
    for (const option_row *first = table; first->name; first++) {
        int seen = 0;
        for (const option_row *row = table; row < first; row++)
            seen |= !strcmp(row->group, first->group);
        if (seen)
            continue;
        out_print("\n%s:\n", first->group);
        for (const option_row *row = first; row->name; row++)
            if (!strcmp(row->group, first->group))
                print_option(row);
    }
}

static void print_command_list(const char *first_word) {
    for (const subcommand *c = commands; c->words; c++) {
        size_t n = strlen(first_word);
        if (n && (strncmp(c->words, first_word, n) || c->words[n] != ' '))
            continue;
        char usage[80];
        int at = snprintf(usage, sizeof(usage), "  %s %s", c->words, c->command->arguments);
        out_print("%-*s%s", TEXT_COLUMN, usage, at >= TEXT_COLUMN ? "\n" : "");
        if (at >= TEXT_COLUMN)
            out_print("%*s", TEXT_COLUMN, "");
        print_wrapped(c->command->summary, TEXT_COLUMN);
    }
}

static void print_overview(void) {
    out_text("max-whisper turns speech into text with OpenAI's Whisper models.\n\n"
             "Usage: max-whisper FILE...                 transcribe; any audio or video, - for standard input\n"
             "       max-whisper SUBCOMMAND [OPTION...]  see below\n\n"
             "Examples:\n"
             "  max-whisper talk.mp3                     timed lines on the screen, as they are found\n"
             "  max-whisper talk.mp4 --format srt > talk.srt\n"
             "  max-whisper *.wav --model base --language de --format txt,json --output-dir texts\n"
             "  ffmpeg -i talk.mkv -f wav - | max-whisper -\n\n"
             "Subcommands:\n");
    print_command_list("");
    out_text("\nOptions of transcribe (defaults in brackets; - and _ are interchangeable in names):\n");
}

void help_print(const subcommand *s, int overview) {
    const command *c = s->command;
    if (overview) {
        print_overview();
    } else {
        out_print("Usage: max-whisper %s %s%s[OPTION...]\n\n", s->words, c->arguments, c->arguments[0] ? " " : "");
        print_wrapped(c->summary, 0);
        if (c->details) {
            out_text("\n");
            print_wrapped(c->details, 0);
        }
    }
    print_options(c->options);
    if (overview)
        out_text("\nManual: man max-whisper. Help on a subcommand: max-whisper help SUBCOMMAND.\n");
}

void help_print_group(const char *first_word) {
    out_print("Usage: max-whisper %s SUBCOMMAND [OPTION...]\n\n", first_word);
    print_command_list(first_word);
    out_print("\nHelp on one of them: max-whisper help %s SUBCOMMAND.\n", first_word);
}

void help_print_short(void) {
    fputs("Usage: max-whisper FILE... [OPTION...]      speech to text: any audio or video file, - for standard input\n"
          "       max-whisper model list | devices | version\n"
          "       max-whisper --help                  all subcommands and options\n",
          stderr);
}

static int run(const void *options, char **words, int n_words) {
    (void)options;
    char message[256];
    int n_name_words = 0;
    if (n_words == 0) {
        help_print(&commands[0], 1);
        return EXIT_OK;
    }
    if (n_words == 1 && command_is_group(words[0])) {
        help_print_group(words[0]);
        return EXIT_OK;
    }
    const subcommand *c = command_find(n_words, words, &n_name_words, message, sizeof(message));
    if (c && n_name_words == n_words) {
        help_print(c, 0);
        return EXIT_OK;
    }
    if (c)
        log_error("unknown subcommand '%.80s'; see 'max-whisper help'", words[n_name_words]);
    else
        log_error("%s", message);
    return EXIT_USAGE;
}

const command command_help = {
    .arguments = "[SUBCOMMAND]",
    .max_words = 2,
    .summary = "Show help on a subcommand and its options.",
    .options = rows,
    .options_size = sizeof(help_options),
    .values = command_group,
    .run = run,
};
