/* cli/speech/hearing.h - what was heard in a recording: stretches of speech, probabilities, the shape of the sound; and
 * how it is written.
 */
#ifndef CLI_SPEECH_HEARING_H
#define CLI_SPEECH_HEARING_H

#include <stdio.h>

#include "max_whisper.h"
#include "speech/envelope.h"

typedef struct hearing_region {
    double start, end;    /* seconds on the file's clock */
    int64_t first, after; /* samples: from first up to, but not including, after; both 0: not known */
    const char *language; /* code; NULL: speech in any */
    double probability;   /* of the language */
} hearing_region;

typedef struct hearing {
    const char *path;
    int channel;       /* from 1; 0: all mixed */
    double start_s;    /* of the first sample on the file's clock */
    double duration_s; /* of the samples */
    hearing_region *regions;
    size_t n_regions, region_room;
    size_t n_told; /* of those, as text: hearing_write begins behind them */
    float *probabilities; /* of speech, one a chunk; NULL: nobody asked */
    size_t n_probabilities, probability_room;
    double chunk_s;
    int tells_probabilities; /* they are written, too */
    envelope *sound;         /* NULL: nobody asked */
} hearing;

/* 0: no memory. The language must outlive it. */
int hearing_add(hearing *h, const hearing_region *region);
int hearing_add_probabilities(hearing *h, const float *values, size_t n);
void hearing_free(hearing *h);
/* Seconds of speech; language NULL: of all. */
double hearing_speech(const hearing *h, const char *language);
/* The name of a language by its code, "german" of "de"; the code itself where it is unknown. */
const char *hearing_language_name(const char *code);

/* "12.3 s", from two minutes on "5:04" or "1:02:03". */
void hearing_duration(double seconds, char *out, size_t size);

typedef enum hearing_format { HEARING_TEXT, HEARING_JSON, HEARING_RTTM, HEARING_AUDACITY } hearing_format;
extern const char *const hearing_format_names[]; /* in that order, NULL-terminated */
/* What stands behind the stem of a file of that format: ".vad.json" of kind "vad". */
void hearing_extension(hearing_format format, const char *kind, char *out, size_t size);

/* Text that tells probabilities has a line for each chunk, otherwise one for each region. extra, if not NULL, adds
 * members to the JSON object. */
struct json_writer;
typedef void (*hearing_extra)(const void *user, struct json_writer *json);
void hearing_write(const hearing *h, hearing_format format, hearing_extra extra, const void *user, FILE *out);

#endif
