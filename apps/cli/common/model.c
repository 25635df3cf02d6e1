/* cli/common/model.c - opens models and checkpoints, and checks the options that choose them. */
#include "common/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/suggest.h"
#include "common/trace.h"
#include "max_whisper/lab.h"

const char *const engine_names[] = {"cpu", "gpu", "max", NULL};
const char *const precision_names[] = {"exact", "f16", "int8", "f8", NULL};
const char *const half_engine_names[] = {"same", "cpu", "gpu", "max", NULL};

const char *const task_names[] = {"transcribe", "translate", NULL};
const char *const guard_names[] = {"off", "mark", "drop", NULL};

const char *const device_examples[] = {"auto", "cpu", "cuda", "cuda:0", NULL};

const char *model_value(int index) {
    const char *path;
    return mxw_model_name(index, NULL, &path);
}

/* ---- checks of values ----------------------------------------------------------------------------------- */

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

const char *language_value(int index) {
    for (int i = 0; i < index; i++)
        if (!mxw_language_name(i))
            return NULL;
    return mxw_language_name(index) ? mxw_language_name(index) : "auto";
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
                    "unknown language '%.60s'; use a code or an English name: en, english, de, ...", value);
    return 0;
}

const char *languages_value(int index) {
    for (int i = 0; i < index; i++)
        if (!mxw_language_code(i))
            return NULL;
    return mxw_language_code(index) ? mxw_language_code(index) : "any";
}

int check_languages(const char *value, char *message, size_t size) {
    if (!strcmp(value, "any"))
        return 1;
    for (const char *p = value;; p++) {
        char word[64];
        size_t n = strcspn(p, ",");
        options_say(word, sizeof(word), "%.*s", (int)(n < 63 ? n : 63), p);
        if (!strcmp(word, "any") || !strcmp(word, "auto")) {
            options_say(message, size, "'%s' cannot be in a list; any, alone, means all languages", word);
            return 0;
        }
        if (!check_language(word, message, size))
            return 0;
        p += n;
        if (!*p)
            return 1;
    }
}

/* Whether a GPU multiplies in 8 bits; the library says why not where one does not. */
static int has_8_bits(const char *device) {
    mxw_device_info info = {.struct_size = sizeof(info)};
    for (int i = 0; i < mxw_device_count(); i++)
        if (mxw_device_get(i, &info) >= 0 && !strcmp(info.id, device) && !strncmp(info.features, "sm_90,", 6))
            return 1;
    return 0;
}

int precision_for(int wanted, int engine, const char *device) {
    int cpu = !strcmp(device, "cpu");
    int fits = wanted == MXW_PRECISION_F16    ? !cpu
               : wanted == MXW_PRECISION_INT8 ? cpu || has_8_bits(device)
               : wanted == MXW_PRECISION_F8   ? !cpu && has_8_bits(device)
                                              : 1;
    return engine == MXW_ENGINE_MAX && fits ? wanted : MXW_PRECISION_EXACT;
}

/* ---- opening -------------------------------------------------------------------------------------------- */

/* Encoder and decoder on two engines: each on the requested device where its engine can run there. */
static void choose_halves(const model_choice *choice, mxw_model_options *options, mxw_lab_options *lab) {
    int decode = choice->decode_engine ? choice->decode_engine - 1 : choice->engine;
    int encode = choice->encode_engine ? choice->encode_engine - 1 : choice->engine;
    options->engine = (mxw_engine)decode;
    if (decode == encode)
        return;
    lab->encode_engine = encode;
    lab->encode_device = encode == MXW_ENGINE_CPU ? "cpu" : choice->device;
    if (decode == MXW_ENGINE_CPU)
        options->device = "cpu";
}

mxw_status model_open(const model_choice *choice, const model_needs *needs, mxw_model **model) {
    mxw_model_options options;
    mxw_lab_options lab;
    mxw_model_options_default(&options);
    mxw_lab_options_default(&lab);
    options.model = choice->model;
    options.model_dir = choice->model_dir;
    options.precision = (mxw_precision)choice->precision;
    options.device = choice->device;
    options.threads = (int)choice->threads;
    choose_halves(choice, &options, &lab);
    if (needs) {
        options.batch = needs->batch ? needs->batch : options.batch;
        lab.keep_names = needs->keep_names;
        lab.inject = needs->inject;
        options.on_trace = needs->on_trace;
        options.trace_user = needs->trace_user;
    }
    return mxw_lab_model_open(&options, &lab, model);
}

int model_uses_accelerator(const model_choice *choice) {
    if (choice->engine == MXW_ENGINE_CPU || !strcmp(choice->device, "cpu"))
        return 0;
    return choice->engine == MXW_ENGINE_GPU || !strncmp(choice->device, "cuda", 4) || mxw_accelerator_count() > 0;
}

int model_falls_back_to_cpu(const model_choice *choice, const char *why) {
    int on_gpu = choice->engine != MXW_ENGINE_CPU && strcmp(choice->device, "cpu") && mxw_accelerator_count() > 0;
    int may_choose = choice->engine == MXW_ENGINE_MAX && !strcmp(choice->device, "auto") && !choice->encode_engine &&
                     !choice->decode_engine;
    if (on_gpu && may_choose)
        log_say(MXW_LOG_WARN, "%s; continuing with --device cpu", why);
    else
        log_error("%s%s", why, on_gpu ? "; use --engine max --device cpu to run without a GPU" : "");
    return on_gpu && may_choose;
}

/* A reason that suggests another name is a mistake on the command line. */
static int log_model_failure(mxw_status status) {
    log_failure(NULL, status);
    return strstr(mxw_last_error(), "did you mean") ? EXIT_USAGE : EXIT_FAILED;
}

int open_model(const model_choice *choice, int batch, mxw_model **model) {
    model_needs needs = {.batch = batch, .on_trace = trace_callback()};
    mxw_status status = model_open(choice, &needs, model);
    if (status == MXW_E_MEMORY) {
        char why[1024];
        model_choice on_cpu = *choice;
        snprintf(why, sizeof(why), "%s", mxw_last_error());
        if (!model_falls_back_to_cpu(choice, why))
            return EXIT_FAILED;
        on_cpu.device = "cpu";
        status = model_open(&on_cpu, &needs, model);
    }
    return status < 0 ? log_model_failure(status) : EXIT_OK;
}

int open_checkpoint(const char *name_or_path, const char *model_dir, mxw_checkpoint **checkpoint) {
    mxw_status status = mxw_checkpoint_open(name_or_path, model_dir, checkpoint);
    return status < 0 ? log_model_failure(status) : EXIT_OK;
}

/* ---- connections to a GPU ------------------------------------------------------------------------------- */

#define CONNECTIONS "CUDA_DEVICE_MAX_CONNECTIONS"

static int connection_asked;

void gpu_connection_ask(void) {
    connection_asked = !getenv(CONNECTIONS);
    if (connection_asked)
        setenv(CONNECTIONS, "1", 0);
}

void gpu_connection_forget(void) {
    if (connection_asked)
        unsetenv(CONNECTIONS);
}
