/* cli/transcribe/transcribe_check.c - options of a recording that do not fit together. */
#include <string.h>

#include "transcribe/transcribe_options.h"

typedef struct needing {
    const char *name;
    int given;
} needing;

static const char *first_given(const needing *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (list[i].given)
            return list[i].name;
    return NULL;
}

/* What only words with times can do, as openai-whisper's command line refuses it too. */
static const char *needs_words(const transcribe_options *o) {
    const needing list[] = {{"highlight-words", o->highlight_words},
                            {"max-line-count", o->max_line_count > 0},
                            {"max-line-width", o->max_line_width > 0},
                            {"max-words-per-line", o->max_words_per_line > 0},
                            {"hallucination-silence-threshold", o->hallucination_silence_threshold != MXW_NONE}};
    return o->word_timestamps ? NULL : first_given(list, sizeof(list) / sizeof(*list));
}

/* What only speech detection, which other options turn on too, can do. */
static const char *needs_hearing(const transcribe_options *o) {
    transcribe_options plain = {0};
    options_default(transcribe_rows, &plain);
    const needing list[] = {{"vad-threshold", o->vad_threshold != plain.vad_threshold},
                            {"vad-min-silence-ms", o->vad_min_silence_ms != plain.vad_min_silence_ms},
                            {"vad-min-speech-ms", o->vad_min_speech_ms != plain.vad_min_speech_ms},
                            {"vad-max-speech-s", o->vad_max_speech_s != plain.vad_max_speech_s},
                            {"vad-pad-ms", o->vad_pad_ms != plain.vad_pad_ms},
                            {"vad-model", o->vad_model != NULL}};
    int detected = transcribe_detects_speech(o) || o->guard != MXW_GUARD_OFF || o->languages;
    return detected ? NULL : first_given(list, sizeof(list) / sizeof(*list));
}

const char *transcribe_conflict(const transcribe_options *o, char *message, size_t size) {
    const char *name;
    if (o->patience != MXW_NONE && (o->greedy || o->beam_size == 0)) {
        options_say(message, size, "requires beam search, which %s turns off",
                    o->greedy ? "--greedy" : "--beam-size none");
        return "patience";
    }
    if ((name = needs_hearing(o))) {
        options_say(message, size, "requires --vad, --parallel, --guard or --languages");
        return name;
    }
    if (o->languages && o->language && strcmp(o->language, "auto")) {
        options_say(message, size, "not together with --language (%s), which is one for the whole recording",
                    o->language);
        return "languages";
    }
    if ((name = needs_words(o)))
        options_say(message, size, "requires --word-timestamps");
    return name;
}
