/* cli/main.c - finds the subcommand, reads its options, runs it.
 *
 * Exit status: 0 done, 1 a file or a run failed, 2 the command line is wrong, 130 stopped by Ctrl-C.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cli.h"
#include "common/log.h"
#include "common/model.h"
#include "common/stdout.h"

static int usage_error(const char *message) {
    log_error("%s", message);
    return EXIT_USAGE;
}

static int wrong_word_count(const subcommand *s, char **words, int n) {
    const command *c = s->command;
    if (n < c->min_words)
        log_error("'%s' needs %s; see 'max-whisper help %s'", s->words, c->word_name, s->words);
    else
        log_error("'%s': unexpected argument '%.80s'", s->words, words[c->max_words]);
    return EXIT_USAGE;
}

/* "max-whisper --quiet devices": a subcommand comes first; a file of that name is given as ./devices. */
static int is_late_subcommand(char **words, int n, char *message, size_t size) {
    for (int i = 0; n > 0 && command_group(i); i++) {
        if (!strcmp(words[0], command_group(i))) {
            options_say(message, size, "subcommand '%s' must come before its options", words[0]);
            return 1;
        }
    }
    return 0;
}

static int run_command(const subcommand *s, int implied, int argc, char **argv) {
    const command *c = s->command;
    union {
        common_options common;
        char bytes[MAX_OPTIONS_BYTES];
        long double alignment;
    } options = {.bytes = {0}};
    options_outcome outcome;
    switch (options_parse(c->options, &options, argc, argv, &outcome)) {
    case OPTIONS_WANT_HELP:
        help_print(s, implied);
        return EXIT_OK;
    case OPTIONS_WRONG:
        return usage_error(outcome.message);
    case OPTIONS_OK:
        break;
    }
    if (implied && is_late_subcommand(outcome.words, outcome.n_words, outcome.message, sizeof(outcome.message)))
        return usage_error(outcome.message);
    int level = options.common.log_level;
    if (options.common.quiet && level == MXW_LOG_WARN)
        level = MXW_LOG_ERROR;
    log_start((mxw_log_level)level, options.common.log_format == 1);
    if (outcome.n_words < c->min_words || outcome.n_words > c->max_words)
        return wrong_word_count(s, outcome.words, outcome.n_words);
    return c->run(&options, outcome.words, outcome.n_words);
}

static int dispatch(int argc, char **argv) {
    if (argc == 0) {
        help_print_short();
        return EXIT_USAGE;
    }
    static char version[] = "version";
    if (!strcmp(argv[0], "--version"))
        argv[0] = version;
    char message[256];
    int n_name_words;
    const subcommand *c = command_find(argc, argv, &n_name_words, message, sizeof(message));
    if (!c && n_name_words == 2 && argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        help_print_group(argv[0]);
        return EXIT_OK;
    }
    if (!c)
        return usage_error(message);
    return run_command(c, n_name_words == 0, argc - n_name_words, argv + n_name_words);
}

/* Standard input, output and errors that are closed would otherwise be the next files that are opened: a journal, say,
 * would get what is printed. Reading or writing what stands for them fails. */
static int hold_standard_files(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) {
            log_error("/dev/null: %s", strerror(errno));
            return 0;
        }
    return 1;
}

int main(int argc, char **argv) {
    if (!hold_standard_files())
        return EXIT_FAILED;
    gpu_connection_ask();
    signal(SIGPIPE, SIG_IGN); /* a reader that went away is a write error, handled in common/stdout.c */
    int status = dispatch(argc > 0 ? argc - 1 : 0, argv + 1);
    if (out_flush() && status == EXIT_OK)
        status = EXIT_FAILED;
    return status;
}
