/* cli/info/version.c - `version`: of this program, of the library it found, and how it was built. */
#include <stdio.h>

#include "common/cli.h"
#include "common/json_writer.h"
#include "common/log.h"
#include "common/stdout.h"

typedef struct version_options {
    common_options common;
    int json;
} version_options;

static const option_row rows[] = {
    JSON_ROW(version_options, json),
    COMMON_ROWS,
    {.name = NULL},
};

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define HEADER_VERSION TEXT(MXW_VERSION_MAJOR) "." TEXT(MXW_VERSION_MINOR) "." TEXT(MXW_VERSION_PATCH)

/* gcc's own text is the bare number; clang's begins with its name. */
#if defined(__GNUC__) && !defined(__clang__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER __VERSION__
#endif

static int run(const void *chosen, char **words, int n_words) {
    const version_options *options = chosen;
    (void)words;
    (void)n_words;
    if (!options->json)
        return out_print("max-whisper %s\nlibrary %s, C%ld, compiled by %s\n", HEADER_VERSION, mxw_version(),
                         __STDC_VERSION__ / 100 % 100, COMPILER)
                   ? EXIT_FAILED
                   : EXIT_OK;
    json_writer json;
    json_start(&json, stdout, 1);
    json_begin(&json, NULL);
    json_text(&json, "name", "max-whisper");
    json_text(&json, "version", HEADER_VERSION);
    json_text(&json, "library", mxw_version());
    json_text(&json, "compiler", COMPILER);
    json_end(&json);
    return EXIT_OK;
}

const command command_version = {
    .arguments = "",
    .summary = "Show the version.",
    .options = rows,
    .options_size = sizeof(version_options),
    .run = run,
};
