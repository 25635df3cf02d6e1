/* cli/live/live_options.c - the option table of `live`, and what of it goes together. */
#include "live/live_options.h"

#include <string.h>
#include <unistd.h>

#include "common/formats.h"
#include "live/pcm.h"
#include "transcribe/output/output_name.h"

static const char *const policy_names[] = {"agreement", "alignatt", NULL}; /* in the order of mxw_live_policy */
static const char *const microphone_examples[] = {"default", "pulse", "alsa", NULL};
static const char *const output_name_examples[] = {"{stem}.{format}", NULL};

#define AT(member) .target = offsetof(live_options, member)
#define SWITCH(member, default_) .kind = OPTION_FLAG, .fallback = default_, AT(member)
#define INPUT .group = "Sound"
#define OUTPUT .group = "Output"
#define SPEECH .group = "Language and task"
#define TEXT .group = "When text is final"
#define HEARING .group = "Speech detection and invented text"
#define SEARCH .group = "Decoding"

/* A table reads by rows. */
/* clang-format off */
const option_row live_rows[] = {
    {.name = "microphone", .peers = "input-device live-input-device", .kind = OPTION_NAME, .fallback = "default",
     .placeholder = "NAME", INPUT, AT(microphone), .choices = microphone_examples,
     .help = "Microphone: default (PulseAudio's or PipeWire's, else ALSA's), pulse, pulse:NAME, alsa, alsa:hw:1, or "
             "another input device of FFmpeg."},
    {.name = "list-microphones", .peers = "list-devices", SWITCH(list_microphones, "False"), INPUT,
     .help = "Print the microphones, and other sources of sound, and exit."},
    {.name = "pace", .kind = OPTION_NUMBER, .fallback = "none", .placeholder = "X", INPUT, AT(pace), .low = 0,
     .high = 1000, .none = 1, .none_value = MXW_NONE,
     .help = "Seconds of FILE that are heard in a second; none: 1. 0: as fast as possible, of standard input too, on "
             "the sound's own clock: the same events every time."},
    {.name = "sample-format", .kind = OPTION_CHOICE, .fallback = "auto", .placeholder = "FORM", INPUT,
     AT(sample_format), .choices = pcm_names,
     .help = "Standard input has plain samples without a header: u8, s16, s24, s32, f32, f64 (little-endian), mulaw or "
             "alaw. auto: any audio file, or s16 if --rate or --channels is given."},
    {.name = "rate", .kind = OPTION_WHOLE, .fallback = "none", .placeholder = "HZ", INPUT, AT(rate), .low = 1000,
     .high = PCM_MAX_RATE, .none = 1, .none_value = 0,
     .help = "Sample rate of plain samples (none: 16000), or the one that a microphone must have (none: any)."},
    {.name = "channels", .kind = OPTION_WHOLE, .fallback = "none", .placeholder = "N", INPUT, AT(channels), .low = 1,
     .high = PCM_MAX_CHANNELS, .none = 1, .none_value = 0,
     .help = "Channels of plain samples (none: 1); they are mixed."},

    MODEL_ROWS(live_options, model),

    {.name = "format", .alias = "output-format", .letter = 'f', .kind = OPTION_TEXT, .placeholder = "LIST", OUTPUT,
     AT(format), .check = check_formats, .values = format_value,
     .help = "txt: a line for each sentence, also at a pause, and of at most 100 columns; jsonl: every event as a JSON "
             "object. With --output-dir the formats of the files: txt, srt, vtt, tsv, json, csv, lrc, ass, jsonl, "
             "json-full, several (txt,srt) or all."},
    {.name = "output-dir", .letter = 'o', .kind = OPTION_NAME, .placeholder = "DIR", OUTPUT, AT(output_dir),
     .help = "Write files to DIR as final text comes, whole at any moment (txt, srt, vtt, tsv and json unless --format "
             "is given)."},
    {.name = "output-name", .kind = OPTION_TEXT, .fallback = "{stem}.{format}", .placeholder = "PATTERN", OUTPUT,
     AT(output_name), .check = output_name_check, .choices = output_name_examples,
     .help = "File name pattern: {stem} of FILE, or live with date and time; {format}, {model}, {language}."},
    {.name = "save-audio", .kind = OPTION_NAME, .placeholder = "FILE.wav", OUTPUT, AT(save_audio),
     .help = "Keep the sound: 16 kHz, mono, 16 bits; whole at any moment."},

    {.name = "language", .letter = 'l', .kind = OPTION_TEXT, .fallback = "none", .placeholder = "LANGUAGE", SPEECH,
     AT(language), .none = 1, .check = check_language, .values = language_value,
     .help = "Language spoken, as code or name (de, german); none: detect it from the first utterance."},
    {.name = "languages", .kind = OPTION_TEXT, .fallback = "none", .placeholder = "LIST|any", SPEECH, AT(languages),
     .none = 1, .check = check_languages, .values = languages_value,
     .help = "Several languages: decide among these (en,de,uk), or any, for each utterance."},
    {.name = "task", .kind = OPTION_CHOICE, .fallback = "transcribe", .placeholder = "TASK", SPEECH, AT(task),
     .choices = task_names, .help = "transcribe: text in the language spoken; translate: text in English."},

    {.name = "policy", .kind = OPTION_CHOICE, .fallback = "agreement", .placeholder = "POLICY", TEXT, AT(policy),
     .choices = policy_names,
     .help = "Which words are final while somebody speaks. agreement: those that two passes agree on; alignatt: those "
             "whose attention lies well before the end of the sound."},
    {.name = "pause-ms", .kind = OPTION_NUMBER, .fallback = "500", .placeholder = "MS", TEXT, AT(pause_ms), .low = 100,
     .high = 10000, .help = "A pause this long ends an utterance: all of it is final then."},
    {.name = "step-ms", .kind = OPTION_NUMBER, .fallback = "500", .placeholder = "MS", TEXT, AT(step_ms), .low = 20,
     .high = 10000, .help = "Least time between two passes of the model; it grows with what a pass costs."},

    {.name = "vad-threshold", .peers = "vad-onset", .kind = OPTION_NUMBER, .fallback = "0.5", .placeholder = "X",
     HEARING, AT(vad_threshold), .low = 0.01, .high = 1,
     .help = "Probability at which speech begins; it ends at 0.15 less."},
    {.name = "vad-model", .kind = OPTION_NAME, .placeholder = "NAME|PATH", HEARING, AT(vad_model),
     .help = "Weights of the detector (default: silero-vad in the model folder)."},
    {.name = "guard", .kind = OPTION_CHOICE, .fallback = "drop", .placeholder = "WHAT", HEARING, AT(guard),
     .choices = guard_names,
     .help = "Text that was probably never spoken, by the evidence of the run itself: mark it in JSON, drop it, or "
             "off: take no notice."},

    BEAM_ROWS(live_options, beam_size, greedy),
    {.name = "initial-prompt", .kind = OPTION_TEXT, .placeholder = "TEXT", SEARCH, AT(initial_prompt),
     .help = "Prompt before the first words: names, spelling, style."},
    {.name = "condition-on-previous-text", SWITCH(condition_on_previous_text, "False"), SEARCH,
     .help = "Prompt each utterance with the text before it; mistakes can then spread."},

    COMMON_ROWS,
    {.name = NULL},
};
/* clang-format on */

/* ---- what goes together --------------------------------------------------------------------------------- */

static int wrong(const char *option, const char *why) {
    log_error("--%s: %s", option, why);
    return 0;
}

static int choose_source(const live_options *o, const char *word, source_options *source) {
    int plain = o->sample_format != PCM_AUTO || o->channels || o->rate;
    *source = (source_options){.kind = !word ? SOURCE_DEVICE : strcmp(word, "-") ? SOURCE_FILE : SOURCE_PIPE,
                               .name = !word ? o->microphone : strcmp(word, "-") ? word : "standard input",
                               .rate = (int)o->rate,
                               .channels = o->channels ? (int)o->channels : 1,
                               .pace = o->pace == MXW_NONE ? 1 : o->pace};
    switch (source->kind) {
    case SOURCE_DEVICE:
        if (o->sample_format != PCM_AUTO || o->channels)
            return wrong(o->channels ? "channels" : "sample-format", "only of standard input: max-whisper live -");
        if (o->pace != MXW_NONE)
            return wrong("pace", "a microphone has its own; only of a FILE, or 0 of standard input");
        break;
    case SOURCE_PIPE:
        if (o->pace != MXW_NONE && o->pace > 0)
            return wrong("pace", "standard input has its own; only of a FILE, or 0");
        if (plain) {
            source->sample_format = o->sample_format == PCM_AUTO ? PCM_S16 : o->sample_format;
            source->rate = o->rate ? (int)o->rate : MXW_SAMPLE_RATE;
        }
        break;
    case SOURCE_FILE:
        if (plain)
            return wrong(o->rate ? "rate" : o->channels ? "channels" : "sample-format",
                         "a FILE says it itself; only of standard input: max-whisper live - < FILE");
        break;
    }
    return 1;
}

static int check_outputs(const live_options *o) {
    int n = 0;
    for (int i = 0; mxw_format_name(i); i++)
        n += formats_have(o->format, mxw_format_name(i));
    if (!o->output_dir && o->format && strcmp(o->format, "txt") && strcmp(o->format, "jsonl")) {
        log_error("--format: '%s' needs --output-dir DIR; standard output takes txt or jsonl", o->format);
        return 0;
    }
    if (o->output_dir && n > 1 && !output_name_has(o->output_name, "{format}")) {
        log_error("--output-name: '%s' gives the files of %d formats the same name; add {format}", o->output_name, n);
        return 0;
    }
    return 1;
}

int live_choose(const live_options *o, char **words, int n_words, source_options *source) {
    if (!choose_source(o, n_words ? words[0] : NULL, source) || !check_outputs(o))
        return 0;
    if (source->kind != SOURCE_DEVICE && strcmp(o->microphone, "default"))
        return wrong("microphone", "not together with a FILE or standard input");
    if (o->languages && o->language && strcmp(o->language, "auto"))
        return wrong("languages", "not together with --language, which is one for the whole stream");
    if (source->kind == SOURCE_PIPE && isatty(STDIN_FILENO)) {
        log_error("standard input is a terminal; pipe sound into 'max-whisper live -', or leave out - for the "
                  "microphone");
        return 0;
    }
    return 1;
}

void live_decoding(const live_options *o, mxw_session_options *decoding) {
    mxw_live_decoding_default(decoding);
    decoding->task = (mxw_task)o->task;
    decoding->language = o->language && strcmp(o->language, "auto") ? o->language : NULL;
    decoding->languages = o->languages;
    decoding->beam_size = o->greedy ? 0 : (int)o->beam_size;
    decoding->initial_prompt = o->initial_prompt;
    decoding->condition_on_previous_text = o->condition_on_previous_text;
    decoding->vad_model = o->vad_model;
    decoding->vad_threshold = o->vad_threshold;
    decoding->guard = (mxw_guard)o->guard;
}
