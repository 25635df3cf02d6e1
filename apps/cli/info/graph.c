/* cli/info/graph.c - `graph dump`: the model's graphs as text. */
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/model.h"
#include "common/stdout.h"
#include "common/suggest.h"

typedef struct dump_options {
    common_options common;
    model_choice model;
} dump_options;

static const option_row rows[] = {MODEL_ROWS(dump_options, model), COMMON_ROWS, {.name = NULL}};

static const char *const graph_names[] = {"encoder", "cross", "decoder", "force", NULL};

static const char *graph_value(int index) { return index < 4 ? graph_names[index] : NULL; }

static int is_graph(const char *word) {
    suggestion near;
    suggestion_start(&near, word);
    for (int i = 0; graph_names[i]; i++) {
        if (!strcmp(word, graph_names[i]))
            return 1;
        suggestion_offer(&near, graph_names[i]);
    }
    log_error("'%.60s' is not one of encoder, cross, decoder, force%s%s%s", word, near.best ? "; did you mean '" : "",
              near.best ? near.best : "", near.best ? "'?" : "");
    return 0;
}

static mxw_status dump(const mxw_model *model, const char *which) {
    const char *text;
    mxw_status status = mxw_model_graph(model, which, &text);
    if (status < 0) {
        log_failure(which, status);
        return status;
    }
    size_t n = strlen(text);
    out_write(NULL, text, n);
    if (n && text[n - 1] != '\n')
        out_text("\n");
    return MXW_OK;
}

static int run(const void *chosen, char **words, int n_words) {
    const dump_options *options = chosen;
    if (n_words && !is_graph(words[0]))
        return EXIT_USAGE;
    mxw_model *model = NULL;
    int exit_status = open_model(&options->model, 1, &model);
    for (int i = 0; exit_status == EXIT_OK && graph_names[i]; i++)
        if ((!n_words || !strcmp(words[0], graph_names[i])) && dump(model, graph_names[i]) < 0)
            exit_status = EXIT_FAILED;
    mxw_model_close(model);
    return exit_status;
}

const command command_graph_dump = {
    .arguments = "[encoder|cross|decoder|force]",
    .max_words = 1,
    .summary = "Print the model's graphs as text: every value with its op, dtype and shape.",
    .details = "encoder: log-mel to features; cross: features to the decoder's keys and values; decoder: one step; "
               "force: the decoder on known tokens, for word times. Without a name, prints all of them.",
    .options = rows,
    .options_size = sizeof(dump_options),
    .values = graph_value,
    .run = run,
};
