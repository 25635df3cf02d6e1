/* cli/commands.c - the table of subcommands, how one is found, and the options several of them share. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cli.h"
#include "common/log.h"
#include "common/suggest.h"
#include "common/trace.h"

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

const char *const engine_names[] = {"cpu", "gpu", "max", NULL};
const char *const precision_names[] = {"exact", "f16", NULL};
const char *const half_engine_names[] = {"same", "cpu", "gpu", "max", NULL};
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

/* ---- shared options ------------------------------------------------------------------------------------- */

int check_device(const char *value, char *message, size_t size) {
    if (!strcmp(value, "auto") || !strcmp(value, "cpu") || !strcmp(value, "cuda"))
        return 1;
    size_t digits = !strncmp(value, "cuda:", 5) ? strspn(value + 5, "0123456789") : 0;
    if (digits && digits <= 3 && !value[5 + digits])
        return 1;
    suggestion near;
    suggestion_start(&near, value);
    suggestion_offer(&near, "cpu");
    suggestion_offer(&near, "cuda");
    suggestion_offer(&near, "cuda:0");
    suggestion_offer(&near, "auto");
    options_say(message, size, "'%.60s' is not auto, cpu, cuda or cuda:N%s%s%s", value,
                near.best ? "; did you mean '" : "", near.best ? near.best : "", near.best ? "'?" : "");
    return 0;
}

int check_language(const char *value, char *message, size_t size) {
    if (!strcmp(value, "auto") || mxw_language_find(value))
        return 1;
    suggestion near;
    suggestion_start(&near, value);
    for (int i = 0; mxw_language_name(i); i++)
        suggestion_offer(&near, mxw_language_name(i));
    for (int i = 0; mxw_language_code(i); i++)
        suggestion_offer(&near, mxw_language_code(i));
    if (near.best)
        options_say(message, size, "unknown language '%.60s'; did you mean '%s'?", value, near.best);
    else
        options_say(message, size,
                    "unknown language '%.60s'; a code or an English name is needed: en, english, de, ...", value);
    return 0;
}

/* A reason that offers another name is about the command line: usage. */
static int model_failure(mxw_status status) {
    log_failure(NULL, status);
    return strstr(mxw_last_error(), "did you mean") ? EXIT_USAGE : EXIT_FAILED;
}

/* Two halves on two engines: each on the device that was asked for, where its engine runs there. */
static void choose_halves(const model_choice *choice, mxw_model_options *options) {
    int decode = choice->decode_engine ? choice->decode_engine - 1 : choice->engine;
    int encode = choice->encode_engine ? choice->encode_engine - 1 : choice->engine;
    options->engine = (mxw_engine)decode;
    if (decode == encode)
        return;
    options->encode_engine = encode;
    options->encode_device = encode == MXW_ENGINE_CPU ? "cpu" : choice->device;
    if (decode == MXW_ENGINE_CPU)
        options->device = "cpu";
}

/* The CPU is another way where the device was left to choose, and a way to be told of where a GPU was meant. */
int memory_suffices_on_cpu(const model_choice *choice, const char *why) {
    int on_gpu = choice->engine != MXW_ENGINE_CPU && strcmp(choice->device, "cpu") && mxw_accelerator_count() > 0;
    int may_choose = choice->engine == MXW_ENGINE_MAX && !strcmp(choice->device, "auto") && !choice->encode_engine &&
                     !choice->decode_engine;
    if (on_gpu && may_choose)
        log_say(MXW_LOG_WARN, "%s; going on with --device cpu", why);
    else
        log_error("%s%s", why, on_gpu ? "; --engine max --device cpu does without the GPU" : "");
    return on_gpu && may_choose;
}

int open_model(const model_choice *choice, int batch, mxw_model **model) {
    mxw_model_options options;
    mxw_model_options_default(&options);
    options.model = choice->model;
    options.model_dir = choice->model_dir;
    options.engine = (mxw_engine)choice->engine;
    options.precision = (mxw_precision)choice->precision;
    options.device = choice->device;
    options.threads = (int)choice->threads;
    options.batch = batch;
    choose_halves(choice, &options);
    trace_ask(&options);
    mxw_status status = mxw_model_open(&options, model);
    if (status == MXW_E_MEMORY) {
        char why[1024];
        snprintf(why, sizeof(why), "%s", mxw_last_error());
        if (!memory_suffices_on_cpu(choice, why))
            return EXIT_FAILED;
        options.device = "cpu";
        status = mxw_model_open(&options, model);
    }
    return status < 0 ? model_failure(status) : EXIT_OK;
}

int open_checkpoint(const char *name_or_path, const char *model_dir, mxw_checkpoint **checkpoint) {
    mxw_status status = mxw_checkpoint_open(name_or_path, model_dir, checkpoint);
    return status < 0 ? model_failure(status) : EXIT_OK;
}
