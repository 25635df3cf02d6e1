/* tests/kit/session_options.c - one line per option that the goldens use; see session_options.h. */
#include "kit/session_options.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { NUMBER, WHOLE, TEXT, TASK } kind;

static const struct option {
    const char *name;
    kind kind;
    size_t offset;
} table[] = {
#define OPTION(name, kind) {#name, kind, offsetof(mxw_session_options, name)},
    OPTION(temperature, NUMBER) OPTION(beam_size, WHOLE) OPTION(patience, NUMBER) OPTION(length_penalty, NUMBER)
        OPTION(suppress_tokens, TEXT) OPTION(suppress_blank, WHOLE) OPTION(initial_prompt, TEXT)
            OPTION(carry_initial_prompt, WHOLE) OPTION(prefix, TEXT) OPTION(condition_on_previous_text, WHOLE)
                OPTION(compression_ratio_threshold, NUMBER) OPTION(logprob_threshold, NUMBER)
                    OPTION(no_speech_threshold, NUMBER) OPTION(sample_len, WHOLE) OPTION(without_timestamps, WHOLE)
                        OPTION(max_initial_timestamp, NUMBER) OPTION(clip_timestamps, TEXT) OPTION(language, TEXT)
                            OPTION(task, TASK) OPTION(prepend_punctuations, TEXT) OPTION(append_punctuations, TEXT)
                                OPTION(hallucination_silence_threshold, NUMBER)
#undef OPTION
};

static void set(mxw_session_options *options, const struct option *o, const json_t *value) {
    void *field = (char *)options + o->offset;
    if (o->kind == NUMBER)
        *(double *)field = json_is_null(value) ? MXW_NONE : json_number_value(value);
    else if (o->kind == WHOLE)
        *(int *)field = json_is_boolean(value) ? json_is_true(value) : (int)json_integer_value(value);
    else if (o->kind == TEXT)
        *(const char **)field = json_string_value(value);
    else
        options->task = strcmp(json_string_value(value), "translate") == 0 ? MXW_TRANSLATE : MXW_TRANSCRIBE;
}

void session_options_of(const char *mode, const json_t *row, mxw_session_options *options) {
    const char *name;
    json_t *value, *own = json_object_get(row, "options");
    mxw_session_options_default(options);
    options->beam_size = 0;
    options->temperature_increment = MXW_NONE;
    if (strcmp(mode, "beam5") == 0 || strcmp(mode, "fallback") == 0)
        options->beam_size = 5;
    if (strcmp(mode, "fallback") == 0)
        options->temperature_increment = 1.0; /* 0, then 1: only whether a window falls back is looked at */
    json_object_foreach(own, name, value) {
        size_t i = 0;
        while (i < sizeof(table) / sizeof(*table) && strcmp(table[i].name, name) != 0)
            i++;
        if (i == sizeof(table) / sizeof(*table)) {
            printf("golden: option %s is not known\n", name);
            exit(1);
        }
        set(options, &table[i], value);
    }
}
