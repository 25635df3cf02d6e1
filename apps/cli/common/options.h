/* cli/common/options.h - a command line read by a table: one row is one option.
 *
 * In: a table, the words after the subcommand, and a struct the rows point into. Out: the struct filled (defaults
 * first), the remaining words, or one line about what is wrong.
 * Invariants: nothing is opened, printed or allocated; texts in the struct point into the words; a row's default
 * is read by the same code as a value that is typed, so what help prints is what happens.
 */
#ifndef CLI_COMMON_OPTIONS_H
#define CLI_COMMON_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

typedef enum option_kind {
    OPTION_FLAG,     /* int: True or False; alone: True */
    OPTION_TRISTATE, /* int: 1, 0, or -1 for None; alone: True */
    OPTION_WHOLE,    /* int64_t within low..high */
    OPTION_NUMBER,   /* double within low..high */
    OPTION_TEXT,     /* const char *: UTF-8 */
    OPTION_NAME,     /* const char *: of a file, a folder, a model; any bytes, but not none */
    OPTION_NAMES,    /* option_list: the same, may be given several times */
    OPTION_CHOICE,   /* int: index into choices */
    OPTION_REFUSED,  /* nothing stored: only "False", "None" or "0" may be given; help says why */
    OPTION_IGNORED,  /* nothing stored: any value */
    OPTION_HELP      /* stops the parse */
} option_kind;

enum { OPTION_LIST_MAX = 16 };
typedef struct option_list {
    const char *items[OPTION_LIST_MAX];
    int n, given; /* given: by the command line, which replaces the default */
} option_list;

/* The values that completion offers, by index; NULL past the end. */
typedef const char *(*option_values)(int index);

typedef struct option_row {
    const char *name;  /* without dashes, words joined by '-' */
    const char *alias; /* another name, or NULL */
    const char *peers; /* names that other programs have for it, between blanks: accepted, not shown; or NULL */
    char letter;       /* short form, or 0 */
    option_kind kind;
    const char *fallback;    /* the default as it would be typed; NULL: the target stays zero */
    const char *placeholder; /* "N", "DIR"; NULL for flags */
    const char *group;       /* heading in help */
    const char *help;
    size_t target;              /* offset in the struct */
    double low, high;           /* WHOLE and NUMBER: the range, both ends included */
    int none;                   /* 1: the value may be none */
    double none_value;          /* what is stored then (WHOLE, NUMBER) */
    const char *alone;          /* WHOLE: the word that is meant where no value follows, as in "--parallel"; or NULL */
    double alone_value;         /* what is stored then */
    const char *const *choices; /* CHOICE: the words, NULL-terminated; TEXT: those that completion offers */
    option_values values;       /* TEXT and NAME: the same, where the library has the list */
    /* TEXT: says what is wrong with a value (after "--name: ") and returns 0, or returns 1; NULL: all texts are right
     */
    int (*check)(const char *value, char *message, size_t size);
} option_row;

typedef enum options_status { OPTIONS_OK, OPTIONS_WANT_HELP, OPTIONS_WRONG } options_status;

typedef struct options_outcome {
    options_status status;
    char **words; /* what was not an option, in order: the front of argv, which is reordered in place */
    int n_words;
    char message[512]; /* one line when WRONG; may quote any byte but newline */
} options_outcome;

/* The table ends with a row whose name is NULL. argv holds argc words, no program name. */
options_status options_parse(const option_row *table, void *target, int argc, char **argv, options_outcome *outcome);
/* Defaults alone. */
void options_default(const option_row *table, void *target);
/* Stores one value of a row, or fills message with what is wrong with it and returns 0. */
int options_set(const option_row *row, const char *value, void *target, char *message, size_t size);
/* The row of that name ('-' and '_' alike), or NULL. */
const option_row *options_find(const option_row *table, const char *name, size_t length);

/* snprintf for checks: a piece of text as it may be quoted in one line. */
void options_say(char *message, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
