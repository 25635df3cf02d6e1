/* cli/transcribe/transcribe_options.h - the options of `transcribe`, as read from the command line. */
#ifndef CLI_TRANSCRIBE_TRANSCRIBE_OPTIONS_H
#define CLI_TRANSCRIBE_TRANSCRIBE_OPTIONS_H

#include "common/model.h"

typedef struct transcribe_options {
    common_options common;
    model_choice model;
    int64_t batch; /* 0: choose */
    int task; /* mxw_task */
    const char *language;
    double temperature, temperature_increment;
    int64_t best_of, beam_size;
    int greedy;
    double patience, length_penalty, repetition_penalty;
    int64_t no_repeat_ngram_size;
    const char *suppress_tokens;
    int suppress_blank;
    const char *initial_prompt;
    int carry_initial_prompt;
    const char *prefix;
    int condition_on_previous_text;
    double compression_ratio_threshold, logprob_threshold, no_speech_threshold;
    int64_t sample_len;
    int without_timestamps;
    double max_initial_timestamp;
    const char *clip_timestamps;
    int64_t seed;
    int mel_reference; /* mxw_mel_reference */
    int word_timestamps;
    const char *prepend_punctuations, *append_punctuations;
    double hallucination_silence_threshold;
    int64_t max_line_width, max_line_count, max_words_per_line; /* 0: none */
    int highlight_words;
    const char *channel; /* "all", "left", "right", "3", "split" */
    int64_t track;       /* 0: the default one */
    int fp16;
    const char *format; /* "srt", "txt,json", "all"; NULL: timed lines */
    const char *output_dir, *output_name;
    int64_t alternatives;
    int verbose; /* 1, 0, -1 for None */
    int stats;
    const char *trace;
    int recursive, skip_existing, resume;
    int vad;
    const char *vad_model;
    double vad_threshold, vad_min_silence_ms, vad_min_speech_ms, vad_max_speech_s, vad_pad_ms;
    int64_t parallel;      /* 0: no; -1: choose */
    int guard;             /* mxw_guard */
    const char *languages; /* "en,de", "any"; NULL: one language */
} transcribe_options;

extern const option_row transcribe_rows[];

/* Whether that format was asked for: by name, in a list, as one of all, or because none was named. */
int transcribe_wants(const transcribe_options *options, const char *format);
void transcribe_write_options(const transcribe_options *options, mxw_write_options *write); /* without a manifest */

/* The first option that the others do not allow, and why ("requires --word-timestamps"); NULL: they fit together. */
const char *transcribe_conflict(const transcribe_options *options, char *message, size_t size);
/* Whether windows begin and end at pauses: --vad, or what implies it. */
int transcribe_detects_speech(const transcribe_options *options);
/* What the library takes; callbacks are left as the defaults are. `parallel` is left to session_slots.h. */
void transcribe_session_options(const transcribe_options *options, mxw_session_options *session);
/* channel: of a recording that is split; otherwise 0, and the options say which. */
void transcribe_audio_options(const transcribe_options *options, const char *path, int channel,
                              mxw_audio_options *audio);
/* The library's number of a channel ("left", "2"), 0 for all of them and for "split", or -1. */
int transcribe_channel_number(const char *value);
int transcribe_splits(const transcribe_options *options); /* each channel on its own */

#endif
