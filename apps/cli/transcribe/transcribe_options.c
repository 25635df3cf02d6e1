/* cli/transcribe/transcribe_options.c - the option table of `transcribe`. Names and defaults follow openai-whisper's
 * command line where it has the option, else its DecodingOptions. */
#include "transcribe/transcribe_options.h"

#include <stdlib.h>
#include <string.h>

#include "common/formats.h"
#include "common/log.h"
#include "common/suggest.h"
#include "common/vad_options.h"
#include "transcribe/output/output_name.h"

static const char *const mel_reference_names[] = {"file", "running", NULL};

#define AT(member) .target = offsetof(transcribe_options, member)
#define SWITCH(member, default_) .kind = OPTION_FLAG, .fallback = default_, AT(member)
#define OR_NONE .none = 1, .none_value = MXW_NONE

/* ---- checks of texts ------------------------------------------------------------------------------------ */

static const char *const channel_names[] = {"all", "left", "right", "split", NULL};
static const int channel_numbers[] = {0, 1, 2, 0};
#define MAX_CHANNEL 255

int transcribe_channel_number(const char *value) {
    char *end;
    for (int i = 0; channel_names[i]; i++)
        if (!strcmp(channel_names[i], value))
            return channel_numbers[i];
    long n = value[0] >= '0' && value[0] <= '9' ? strtol(value, &end, 10) : 0;
    return n >= 1 && n <= MAX_CHANNEL && !*end ? (int)n : -1;
}

static int check_channel(const char *value, char *message, size_t size) {
    if (transcribe_channel_number(value) >= 0)
        return 1;
    suggestion near;
    suggestion_start(&near, value);
    for (int i = 0; channel_names[i]; i++)
        suggestion_offer(&near, channel_names[i]);
    options_say(message, size, "'%.60s' is not all, left, right, split or a number from 1 to %d%s%s%s", value,
                MAX_CHANNEL, near.best ? "; did you mean '" : "", near.best ? near.best : "", near.best ? "'?" : "");
    return 0;
}

static int check_tokens(const char *value, char *message, size_t size) {
    const char *p = value;
    while (*p) {
        char *end;
        long id = strtol(p, &end, 10);
        if (end == p || id < -1 || id > 1000000 || (*end && (*end != ',' || !end[1]))) {
            options_say(message, size, "'%.60s' is not a list of token ids like -1 or 11,13", value);
            return 0;
        }
        p = end + (*end == ',');
    }
    return 1;
}

static int check_clips(const char *value, char *message, size_t size) {
    const char *p = value;
    while (*p) {
        char *end = NULL;
        double seconds = strspn(p, "0123456789.") ? strtod(p, &end) : -1;
        if (seconds < 0 || seconds > 1e9 || end == p || (*end && (*end != ',' || !end[1]))) {
            options_say(message, size, "'%.60s' is not a list of seconds like 0 or 12.5,60,90", value);
            return 0;
        }
        p = end + (*end == ',');
    }
    return 1;
}

static const char *const channel_examples[] = {"all", "left", "right", "split", "1", "2", NULL};
static const char *const output_name_examples[] = {"{stem}.{format}", NULL};

/* ---- the table ------------------------------------------------------------------------------------------ */

#define OUTPUT .group = "Output"
#define SOUND .group = "Audio"
#define JOB .group = "Many or long files"
#define SPEECH .group = "Language and task"
#define HEARING .group = VAD_GROUP
#define WORDS .group = "Words"
#define SEARCH .group = "Decoding"
#define PROMPT .group = "Prompting"
#define FALLBACK .group = "Fallback when a window decodes badly"
#define FOREIGN .group = "For compatibility with openai-whisper"

/* A table reads by rows. */
/* clang-format off */
const option_row transcribe_rows[] = {
    MODEL_ROWS(transcribe_options, model),
    {.name = "encode-engine", .kind = OPTION_CHOICE, .fallback = "same", .placeholder = "ENGINE",
     .group = "Model and device", AT(model.encode_engine), .choices = half_engine_names,
     .help = "Engine of the encoder alone. All engines give the same text, so this shows which half is wrong."},
    {.name = "decode-engine", .kind = OPTION_CHOICE, .fallback = "same", .placeholder = "ENGINE",
     .group = "Model and device", AT(model.decode_engine), .choices = half_engine_names,
     .help = "Engine of the decoder alone."},
    {.name = "batch", .kind = OPTION_WHOLE, .fallback = "0", .placeholder = "N", .group = "Model and device",
     AT(batch), .low = 0, .high = 256,
     .help = "Files to transcribe at once; results are the same as one by one. 0: choose for the device; fewer are "
             "used if memory is short."},

    {.name = "format", .alias = "output-format", .letter = 'f', .kind = OPTION_TEXT, .placeholder = "LIST", OUTPUT,
     AT(format), .check = check_formats, .values = format_value,
     .help = "txt, srt, vtt, tsv, json, csv, lrc, ass, jsonl or json-full instead of timed lines. With --output-dir "
             "also several (txt,srt) or all: the first five."},
    {.name = "output-dir", .letter = 'o', .kind = OPTION_NAME, .placeholder = "DIR", OUTPUT, AT(output_dir),
     .help = "Write files to DIR, one per input and format (txt, srt, vtt, tsv and json unless --format is given)."},
    {.name = "output-name", .kind = OPTION_TEXT, .fallback = "{stem}.{format}", .placeholder = "PATTERN", OUTPUT,
     AT(output_name), .check = output_name_check, .choices = output_name_examples,
     .help = "File name pattern: {stem} of the input, {format}, {model}, {language}."},
    {.name = "alternatives", .kind = OPTION_WHOLE, .fallback = "5", .placeholder = "N", OUTPUT, AT(alternatives),
     .low = 1, .high = 32, .help = "In json-full: number of alternative tokens to list for each token."},
    {.name = "verbose", .kind = OPTION_TRISTATE, .fallback = "True", .placeholder = "True|False|None", OUTPUT,
     AT(verbose), .help = "False: print plain text at the end instead of timed lines; None: also no progress bar."},
    {.name = "stats", SWITCH(stats, "False"), OUTPUT,
     .help = "Print a JSON line on standard error after each file: time per stage, and more."},
    {.name = "trace", .kind = OPTION_NAME, .placeholder = "FILE", OUTPUT, AT(trace),
     .help = "Write every op that ran, with its time, kernel and bytes, as a Chrome trace."},

    {.name = "recursive", .letter = 'r', SWITCH(recursive, "False"), JOB,
     .help = "Also search the folders below a folder; --output-dir gets the same structure."},
    {.name = "skip-existing", SWITCH(skip_existing, "False"), JOB,
     .help = "Skip files whose results are all in --output-dir already."},
    {.name = "resume", SWITCH(resume, "False"), JOB,
     .help = "Keep a journal of finished windows, and continue from it: after Ctrl-C, a crash or a power cut, the "
             "same command completes the run with the same result."},

    {.name = "channel", .kind = OPTION_TEXT, .fallback = "all", .placeholder = "WHICH", SOUND, AT(channel),
     .check = check_channel, .choices = channel_examples,
     .help = "Use one channel: left, right, or its number from 1; all: mix them; split: transcribe each separately "
             "and merge by time, with the channel before each text."},
    {.name = "audio-track", .kind = OPTION_WHOLE, .fallback = "none", .placeholder = "N", SOUND, AT(track), .low = 1,
     .high = 1000, .none = 1, .none_value = 0,
     .help = "Audio track of a video, counted from 1; none: the default track."},

    {.name = "language", .letter = 'l', .kind = OPTION_TEXT, .fallback = "none", .placeholder = "LANGUAGE", SPEECH,
     AT(language), .none = 1, .check = check_language, .values = language_value,
     .help = "Language spoken, as code or name (de, german); none: detect it from the first 30 seconds."},
    {.name = "languages", .kind = OPTION_TEXT, .fallback = "none", .placeholder = "LIST|any", SPEECH, AT(languages),
     .none = 1, .check = check_languages, .values = languages_value,
     .help = "Several languages in one recording: decide among these (en,de,uk), or any, for each stretch of speech "
             "between pauses. none: one language, as --language has it."},
    {.name = "task", .kind = OPTION_CHOICE, .fallback = "transcribe", .placeholder = "TASK", SPEECH, AT(task),
     .choices = task_names, .help = "transcribe: text in the language spoken; translate: text in English."},
    {.name = "clip-timestamps", .kind = OPTION_TEXT, .fallback = "0", .placeholder = "LIST", SPEECH,
     AT(clip_timestamps), .check = check_clips,
     .help = "Transcribe only these parts: start,end,start,end,... in seconds; the last end is optional."},
    {.name = "without-timestamps", SWITCH(without_timestamps, "False"), SPEECH,
     .help = "Do not predict timestamps; each segment is then a whole window."},
    {.name = "mel-reference", .kind = OPTION_CHOICE, .fallback = "file", .placeholder = "WHAT", SPEECH,
     AT(mel_reference), .choices = mel_reference_names,
     .help = "Reference level for the log-mel: file (exact, needs the whole file) or running (live, so far)."},

    {.name = "vad", .peers = "vad-filter", SWITCH(vad, "False"), HEARING,
     .help = "Find the speech first (Silero VAD): windows begin and end at pauses, and silence is skipped. Times stay "
             "those of the file."},
    VAD_ROWS(transcribe_options, VAD_GROUP, VAD_LONG, "2000", "0", "400"),
    {.name = "parallel", .kind = OPTION_WHOLE, .fallback = "none", .placeholder = "[N]", HEARING, AT(parallel),
     .low = 1, .high = 256, .none = 1, .none_value = 0, .alone = "auto", .alone_value = -1,
     .help = "Cut each recording at pauses and decode N pieces of at most 30 seconds together, without the text before "
             "them: much faster on a GPU. Without N: chosen for the device. Implies --vad."},
    {.name = "guard", .kind = OPTION_CHOICE, .fallback = "off", .placeholder = "WHAT", HEARING, AT(guard),
     .choices = guard_names,
     .help = "Text that was probably never spoken, by the evidence of the run itself: mark it (in JSON, and grey on a "
             "terminal), drop it, or off: take no notice."},

    {.name = "word-timestamps", SWITCH(word_timestamps, "False"), WORDS,
     .help = "Find the time and probability of every word; segments then start and end with their words."},
    {.name = "prepend-punctuations", .kind = OPTION_TEXT, .fallback = MXW_PREPEND_PUNCTUATIONS, .placeholder = "TEXT",
     WORDS, AT(prepend_punctuations), .help = "Punctuation that belongs to the next word."},
    {.name = "append-punctuations", .kind = OPTION_TEXT, .fallback = MXW_APPEND_PUNCTUATIONS, .placeholder = "TEXT",
     WORDS, AT(append_punctuations), .help = "Punctuation that belongs to the previous word."},
    {.name = "hallucination-silence-threshold", .kind = OPTION_NUMBER, .fallback = "none", .placeholder = "SECONDS",
     WORDS, AT(hallucination_silence_threshold), .low = 0, .high = 1000, OR_NONE,
     .help = "Drop likely hallucinations between silences longer than this; none: keep all text. Requires "
             "--word-timestamps."},
    {.name = "max-line-width", .kind = OPTION_WHOLE, .fallback = "none", .placeholder = "N", WORDS,
     AT(max_line_width), .low = 1, .high = 100000, .none = 1, .none_value = 0,
     .help = "Maximum characters per subtitle line. Requires --word-timestamps, as do the next three."},
    {.name = "max-line-count", .kind = OPTION_WHOLE, .fallback = "none", .placeholder = "N", WORDS,
     AT(max_line_count), .low = 1, .high = 100000, .none = 1, .none_value = 0,
     .help = "Maximum lines per cue; with --max-line-width, cues no longer end where segments do."},
    {.name = "max-words-per-line", .kind = OPTION_WHOLE, .fallback = "none", .placeholder = "N", WORDS,
     AT(max_words_per_line), .low = 1, .high = 100000, .none = 1, .none_value = 0,
     .help = "Maximum words per cue."},
    {.name = "highlight-words", SWITCH(highlight_words, "False"), WORDS,
     .help = "One cue per word, with the word underlined: srt, vtt and ass."},

    {.name = "beam-size", .kind = OPTION_WHOLE, .fallback = "5", .placeholder = "N", SEARCH, AT(beam_size), .low = 1,
     .high = 100, .none = 1, .none_value = 0, .help = "Number of beams at temperature 0; none: greedy."},
    {.name = "greedy", SWITCH(greedy, "False"), SEARCH,
     .help = "No beam search: the most likely token at every step. Faster."},
    {.name = "patience", .kind = OPTION_NUMBER, .fallback = "none", .placeholder = "X", SEARCH, AT(patience),
     .low = 0.01, .high = 100, OR_NONE,
     .help = "Beam search stops after beams x patience finished sequences; none: 1."},
    {.name = "length-penalty", .kind = OPTION_NUMBER, .fallback = "none", .placeholder = "X", SEARCH,
     AT(length_penalty), .low = 0, .high = 1, OR_NONE,
     .help = "Length penalty exponent for ranking; none: divide by the length."},
    {.name = "repetition-penalty", .kind = OPTION_NUMBER, .fallback = "1", .placeholder = "X", SEARCH,
     AT(repetition_penalty), .low = 0.01, .high = 100,
     .help = "Above 1, tokens that a window has said already become less likely; as in CTranslate2."},
    {.name = "no-repeat-ngram-size", .kind = OPTION_WHOLE, .fallback = "0", .placeholder = "N", SEARCH,
     AT(no_repeat_ngram_size), .low = 0, .high = 448,
     .help = "Never say the same N tokens in a row twice in a window; 0: no limit."},
    {.name = "temperature", .kind = OPTION_NUMBER, .fallback = "0", .placeholder = "X", SEARCH, AT(temperature),
     .low = 0, .high = 10, .help = "0: deterministic; above 0: tokens are sampled."},
    {.name = "best-of", .kind = OPTION_WHOLE, .fallback = "5", .placeholder = "N", SEARCH, AT(best_of), .low = 1,
     .high = 100, .none = 1, .none_value = 1,
     .help = "Number of samples above temperature 0; the best is kept."},
    {.name = "seed", .kind = OPTION_WHOLE, .fallback = "0", .placeholder = "N", SEARCH, AT(seed), .low = 0,
     .high = 4294967295.0, .help = "Random seed for sampling: same seed, same text."},
    {.name = "sample-len", .kind = OPTION_WHOLE, .fallback = "none", .placeholder = "N", SEARCH, AT(sample_len),
     .low = 1, .high = 448, .none = 1, .none_value = 0,
     .help = "Maximum tokens per window; none: half the text context (224)."},
    {.name = "suppress-tokens", .kind = OPTION_TEXT, .fallback = "-1", .placeholder = "LIST", SEARCH,
     AT(suppress_tokens), .check = check_tokens,
     .help = "Token ids to suppress; -1 means all non-speech symbols, \"\" none."},
    {.name = "suppress-blank", SWITCH(suppress_blank, "True"), SEARCH,
     .help = "Do not start a window with a blank."},
    {.name = "max-initial-timestamp", .kind = OPTION_NUMBER, .fallback = "1.0", .placeholder = "SECONDS", SEARCH,
     AT(max_initial_timestamp), .low = 0, .high = 30, OR_NONE,
     .help = "Latest first timestamp in a window."},

    {.name = "initial-prompt", .kind = OPTION_TEXT, .placeholder = "TEXT", PROMPT, AT(initial_prompt),
     .help = "Prompt for the first window: names, spelling, style."},
    {.name = "carry-initial-prompt", SWITCH(carry_initial_prompt, "False"), PROMPT,
     .help = "Use the initial prompt for every window."},
    {.name = "condition-on-previous-text", SWITCH(condition_on_previous_text, "True"), PROMPT,
     .help = "Prompt each window with the previous text. False: mistakes cannot spread."},
    {.name = "prefix", .kind = OPTION_TEXT, .placeholder = "TEXT", PROMPT, AT(prefix),
     .help = "Text that every window starts with; use with --without-timestamps."},

    {.name = "temperature-increment-on-fallback", .kind = OPTION_NUMBER, .fallback = "0.2", .placeholder = "X",
     FALLBACK, AT(temperature_increment), .low = 0.01, .high = 10, OR_NONE,
     .help = "Temperature increment for decoding again, up to 1.0; none: do not decode again."},
    {.name = "compression-ratio-threshold", .kind = OPTION_NUMBER, .fallback = "2.4", .placeholder = "X", FALLBACK,
     AT(compression_ratio_threshold), .low = 0, .high = 1000, OR_NONE,
     .help = "Decode again if the text is repetitive: its zlib compression ratio is above this."},
    {.name = "logprob-threshold", .kind = OPTION_NUMBER, .fallback = "-1.0", .placeholder = "X", FALLBACK,
     AT(logprob_threshold), .low = -1000, .high = 1000, OR_NONE,
     .help = "Decode again if the average log probability is below this."},
    {.name = "no-speech-threshold", .kind = OPTION_NUMBER, .fallback = "0.6", .placeholder = "X", FALLBACK,
     AT(no_speech_threshold), .low = -1000, .high = 1000, OR_NONE,
     .help = "Treat as silence if the no-speech probability is above this and the log probability is too low."},

    COMMON_ROWS,

    {.name = "fp16", SWITCH(fp16, NULL), .placeholder = "True|False", FOREIGN,
     .help = "No effect; accepted for compatibility (a warning if True). See --precision."},
    {.name = NULL},
};
/* clang-format on */

int transcribe_wants(const transcribe_options *options, const char *format) {
    return formats_have(options->format, format);
}

void transcribe_write_options(const transcribe_options *options, mxw_write_options *write) {
    mxw_write_options_default(write);
    write->max_line_width = (int)options->max_line_width;
    write->max_line_count = (int)options->max_line_count;
    write->max_words_per_line = (int)options->max_words_per_line;
    write->highlight_words = options->highlight_words;
}

void transcribe_session_options(const transcribe_options *options, mxw_session_options *session) {
    mxw_session_options_default(session);
    session->task = (mxw_task)options->task;
    session->language = options->language && strcmp(options->language, "auto") ? options->language : NULL;
    session->temperature = options->temperature;
    session->temperature_increment = options->temperature_increment;
    session->best_of = (int)options->best_of;
    session->beam_size = options->greedy ? 0 : (int)options->beam_size;
    session->patience = options->patience;
    session->length_penalty = options->length_penalty;
    session->repetition_penalty = options->repetition_penalty;
    session->no_repeat_ngram_size = (int)options->no_repeat_ngram_size;
    session->suppress_tokens = options->suppress_tokens;
    session->suppress_blank = options->suppress_blank;
    session->initial_prompt = options->initial_prompt;
    session->carry_initial_prompt = options->carry_initial_prompt;
    session->prefix = options->prefix;
    session->condition_on_previous_text = options->condition_on_previous_text;
    session->compression_ratio_threshold = options->compression_ratio_threshold;
    session->logprob_threshold = options->logprob_threshold;
    session->no_speech_threshold = options->no_speech_threshold;
    session->sample_len = (int)options->sample_len;
    session->without_timestamps = options->without_timestamps;
    session->max_initial_timestamp = options->max_initial_timestamp;
    session->clip_timestamps = options->clip_timestamps;
    session->seed = (uint64_t)options->seed;
    session->mel_reference = (mxw_mel_reference)options->mel_reference;
    session->word_timestamps = options->word_timestamps;
    session->prepend_punctuations = options->prepend_punctuations;
    session->append_punctuations = options->append_punctuations;
    session->hallucination_silence_threshold = options->hallucination_silence_threshold;
    session->vad = transcribe_detects_speech(options);
    session->vad_model = options->vad_model;
    session->vad_threshold = options->vad_threshold;
    session->vad_min_silence_ms = options->vad_min_silence_ms;
    session->vad_min_speech_ms = options->vad_min_speech_ms;
    session->vad_max_speech_s = options->vad_max_speech_s;
    session->vad_pad_ms = options->vad_pad_ms;
    session->guard = (mxw_guard)options->guard;
    session->languages = options->languages;
    session->token_details = transcribe_wants(options, "json-full") ? (int)options->alternatives : 0;
}

int transcribe_detects_speech(const transcribe_options *options) { return options->vad || options->parallel; }

int transcribe_splits(const transcribe_options *options) { return !strcmp(options->channel, "split"); }

void transcribe_audio_options(const transcribe_options *options, const char *path, int channel,
                              mxw_audio_options *audio) {
    mxw_audio_options_default(audio);
    audio->path = path;
    audio->channel = channel ? channel : transcribe_channel_number(options->channel);
    audio->track = (int)options->track;
}
