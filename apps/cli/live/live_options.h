/* cli/live/live_options.h - the options of `live`, as read from the command line. */
#ifndef CLI_LIVE_LIVE_OPTIONS_H
#define CLI_LIVE_LIVE_OPTIONS_H

#include "common/model.h"
#include "live/source.h"

typedef struct live_options {
    common_options common;
    model_choice model;
    const char *microphone;
    int list_microphones;
    int64_t rate, channels; /* 0: not given */
    int sample_format;      /* pcm_names */
    double pace;            /* MXW_NONE: 1 for a file, as it comes for a pipe */
    const char *format;     /* NULL: text */
    const char *output_dir, *output_name, *save_audio;
    const char *language, *languages;
    int task; /* mxw_task */
    int policy; /* mxw_live_policy */
    double pause_ms, step_ms;
    const char *vad_model;
    double vad_threshold;
    int guard; /* mxw_guard */
    int64_t beam_size;
    int greedy;
    const char *initial_prompt;
    int condition_on_previous_text;
} live_options;

extern const option_row live_rows[];

/* What goes together, and the source that the words ask for; 0 with a line said if it is wrong. */
int live_choose(const live_options *options, char **words, int n_words, source_options *source);
/* What the library takes; strings are the options' own. */
void live_decoding(const live_options *options, mxw_session_options *decoding);

#endif
