/* max_whisper/result.h - what a transcription gives: segments with words and tokens; merging and writing them.
 *
 * Results and segments are made by the library and read by the program; their structs may grow at the end.
 */
#ifndef MXW_RESULT_H
#define MXW_RESULT_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The arrays of a result. Their elements may grow, so they are read through functions only. */
typedef struct mxw_segment_array mxw_segment_array;
typedef struct mxw_word_array mxw_word_array;
typedef struct mxw_token_array mxw_token_array;
typedef struct mxw_region_array mxw_region_array;

typedef struct mxw_word {
    double start, end;           /* seconds */
    const char *word;            /* UTF-8, with its punctuation and, in most languages, the space before it */
    double probability;          /* mean over its tokens, without the punctuation that was joined to it */
    double suspicion;            /* with a guard: 0 to 1, that nobody said it; else 0 */
    uint32_t reasons;            /* bits: mxw_suspicion_reason; 0 unless the guard marks it */
} mxw_word;

/* A token that was chosen, or an alternative that was not. */
typedef struct mxw_token {
    int32_t id;
    double logprob;              /* under the decoding rules at that place, at temperature 1 */
    const char *text;            /* UTF-8; incomplete characters are U+FFFD, a timestamp is "<|1.08|>" */
} mxw_token;

typedef struct mxw_segment {
    int64_t id;
    int64_t seek;                /* first mel frame (10 ms each) of the window that it came from */
    double start, end;           /* seconds */
    const char *text;            /* UTF-8, as decoded: usually with a leading space */
    const int32_t *tokens;
    size_t n_tokens;
    double temperature;
    double avg_logprob;
    double compression_ratio;
    double no_speech_prob;
    int channel;                 /* as in the session's options */
    const char *speaker;         /* as in the session's options; may be NULL */
    const mxw_word_array *words; /* mxw_segment_word; NULL unless word_timestamps was asked for */
    size_t n_words;
    const mxw_token_array *details;        /* mxw_segment_token; NULL unless token_details was asked for */
    const mxw_token_array *alternatives;   /* mxw_segment_alternative; NULL as well */
    size_t n_alternatives;       /* for each token, at most */
    const char *language;        /* code; with `languages` that of its stretch of speech, ... */
    double language_probability; /* ... and how probable that is, given the whole recording; negative without */
    double suspicion;            /* as of a word; of its words together */
    uint32_t reasons;
} mxw_segment;

/* Word i of n_words; NULL past the end. Pointers live as long as the segment's text. */
MXW_API const mxw_word *mxw_segment_word(const mxw_segment *segment, size_t i);
/* Token i of n_tokens with its log probability; NULL past the end, or without token_details. */
MXW_API const mxw_token *mxw_segment_token(const mxw_segment *segment, size_t i);
/* Of the most probable tokens in the place of token i the one of rank j; NULL if there are no more. */
MXW_API const mxw_token *mxw_segment_alternative(const mxw_segment *segment, size_t i, size_t j);

/* What speaks against a word, by bit: "silence", "repetition", ...; NULL past the end. "temperature" is reserved: no
 * word has it in this version. */
MXW_API const char *mxw_suspicion_reason(int bit);

/* A stretch of speech. */
typedef struct mxw_region {
    double start, end;           /* seconds */
    int channel;                 /* as in the session's options */
    const char *language;        /* code; NULL without `languages` */
    double probability;          /* of the language */
} mxw_region;

typedef struct mxw_stage_times {
    double load_ms, compile_ms;               /* of the model */
    double audio_ms, mel_ms, encode_ms, decode_ms;
    double total_ms;                          /* from session open to the last segment; without load and compile */
    int64_t first_encode_ns;                  /* CLOCK_MONOTONIC when the first window was encoded; 0: none was */
    double words_ms;                          /* of word times */
    double vad_ms;                            /* of speech detection */
} mxw_stage_times;

typedef struct mxw_result {
    const char *text;            /* of the whole recording */
    const char *language;        /* code; with `languages` the one with the most speech; NULL: none was detected */
    double language_probability; /* of the detected language, with `languages` the mean over its stretches of speech;
                                  * negative if it was given */
    const mxw_segment_array *segments;   /* mxw_result_segment */
    size_t n_segments;
    double duration_s;           /* of the samples fed */
    int64_t n_windows;           /* decoded; a window decoded again is counted once */
    int64_t n_temperature_fallbacks; /* windows decoded again at a higher temperature */
    const mxw_stage_times *times;
    const mxw_region_array *regions;     /* mxw_result_region; NULL without vad, guard and languages */
    size_t n_regions;
    double skipped_s;            /* of the recording: silence that was not decoded */
    int64_t n_words_suspected;   /* by the guard, marked or dropped */
} mxw_result;

/* Segment i of n_segments; NULL past the end. Valid as long as the result. */
MXW_API const mxw_segment *mxw_result_segment(const mxw_result *result, size_t i);
/* Region i of n_regions likewise. */
MXW_API const mxw_region *mxw_result_region(const mxw_result *result, size_t i);

/* ---- merging: the channels of one recording as one result ---- */

/* Segments in the order of their starts (those of one channel in their own order), renumbered; the language is that of
 * the first channel. What is added is copied; the order of adding does not matter. */
typedef struct mxw_merge mxw_merge;
MXW_API mxw_status mxw_merge_open(mxw_merge **out);
MXW_API void mxw_merge_close(mxw_merge *merge);
MXW_API mxw_status mxw_merge_add(mxw_merge *merge, int channel, const mxw_result *result);
/* Everything added so far; valid until the next add. NULL when memory runs out. */
MXW_API const mxw_result *mxw_merge_result(mxw_merge *merge);

/* ---- writing ---- */

/* The formats by name: "txt", "srt", "vtt", "tsv", "json" (as openai-whisper writes them), "csv", "lrc", "ass",
 * "jsonl", "json-full". NULL past the end. */
MXW_API const char *mxw_format_name(int index);

typedef struct mxw_write_options {
    size_t struct_size;
    /* Subtitles of results with word times; 0 (the default): no limit. */
    int max_line_width;          /* characters in a line */
    int max_line_count;          /* lines in a cue; with a width, cues no longer end where segments do */
    int max_words_per_line;      /* words in a cue */
    int highlight_words;         /* 0; 1: a cue for each word, in which it is underlined */
    const char *manifest;        /* NULL; for json-full: how the run was made, as JSON (mxw_session_manifest) */
} mxw_write_options;

MXW_API void mxw_write_options_default(mxw_write_options *options, size_t struct_size);
#define mxw_write_options_default(options) mxw_write_options_default(options, sizeof(*(options)))
typedef int (*mxw_write_fn)(void *user, const void *bytes, size_t n);   /* 0, or non-zero to stop: E_ABORTED */
/* options may be NULL: the defaults. */
MXW_API mxw_status mxw_result_write(const mxw_result *result, const char *format, const mxw_write_options *options,
                                    mxw_write_fn fn, void *user);
/* The same to a file, which appears complete or not at all. */
MXW_API mxw_status mxw_result_save(const mxw_result *result, const char *format, const mxw_write_options *options,
                                   const char *path);
/* One segment as its line of jsonl, for output while a recording is transcribed. */
MXW_API mxw_status mxw_segment_write(const mxw_segment *segment, mxw_write_fn fn, void *user);

#ifdef __cplusplus
}
#endif
#endif
