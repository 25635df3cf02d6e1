/* cli/speech/recordings.h - what `vad` and `language` share: recordings in, what was heard in each out.
 *
 * In: files, folders, patterns or standard input, and a function that listens to one of them. Out: its regions on
 * standard output or in files, a picture. Invariants: one recording's failure leaves the others; the exit status tells
 * it.
 */
#ifndef CLI_SPEECH_RECORDINGS_H
#define CLI_SPEECH_RECORDINGS_H

#include "common/cli.h"
#include "speech/hearing.h"

typedef struct recordings_options {
    int format; /* hearing_format */
    const char *output_dir, *plot, *channel;
    int64_t track; /* 0: the default one */
    int recursive;
} recordings_options;

int check_one_channel(const char *value, char *message, size_t size);
int check_picture(const char *value, char *message, size_t size);
extern const char *const one_channel_examples[];

/* Of which samples come: opened once for each recording. */
typedef struct recordings_source {
    mxw_audio *audio;
    double total_s;    /* negative: unknown */
    int place;         /* of the recording on the command line, from 0 */
    int64_t n_samples; /* read so far */
    double start;      /* when listening began, for the speed in the progress bar */
    hearing *heard;
    int live;          /* lines go to standard output as they are found, ... */
    const char *heading; /* ... after this name; NULL: none, or it was printed */
} recordings_source;

/* Up to n samples, added to the sound that is drawn, with progress; 0 only at the end. */
mxw_status recordings_read(recordings_source *source, float *samples, size_t n, size_t *got);
/* Prints the regions that were added since the last call, where they are wanted one by one. */
void recordings_show(recordings_source *source);

typedef struct recordings_job {
    const common_options *common;
    const recordings_options *options;
    const char *kind; /* of its files: "talk.KIND.json" */
    void *user;       /* of the functions */
    /* Fills source->heard. A failure is that recording's own; the library's line says why. */
    mxw_status (*listen)(void *user, recordings_source *source);
    hearing_extra extra;                                             /* more of its JSON; may be NULL */
    void (*sum_up)(const hearing *heard, char *text, size_t size);   /* one line about the whole recording */
    void (*describe)(const void *user, char *text, size_t size);     /* what stands under a picture's title */
    const double *thresholds;                                        /* of a picture: two, or NULL */
} recordings_job;

/* Checks what the words and options ask for together, then listens to all. Returns the exit status. before, which may
 * be NULL, opens what is needed (the model) once the words are known to be right; it returns an exit status too. */
int recordings_run(const recordings_job *job, int (*before)(void *user), char **words, int n_words);

/* A table reads by rows. */
/* clang-format off */
#define RECORDINGS_ROWS(type, member, format_help)                                                                     \
    {.name = "format", .alias = "output-format", .letter = 'f', .kind = OPTION_CHOICE, .fallback = "text",             \
     .placeholder = "FORMAT", .group = "Output", .target = offsetof(type, member.format),                              \
     .choices = hearing_format_names, .help = format_help},                                                            \
    {.name = "output-dir", .letter = 'o', .kind = OPTION_NAME, .placeholder = "DIR", .group = "Output",                \
     .target = offsetof(type, member.output_dir), .help = "Write a file for each recording to DIR instead."},          \
    {.name = "plot", .kind = OPTION_NAME, .placeholder = "PATH", .group = "Output",                                    \
     .target = offsetof(type, member.plot), .check = check_picture,                                                    \
     .help = "Draw the sound with what was found, as .png, .svg or .pdf; of one recording."},                          \
    {.name = "recursive", .letter = 'r', .kind = OPTION_FLAG, .fallback = "False", .group = "Audio",                   \
     .target = offsetof(type, member.recursive), .help = "Also search the folders below a folder."},                   \
    {.name = "channel", .kind = OPTION_TEXT, .fallback = "all", .placeholder = "WHICH", .group = "Audio",              \
     .target = offsetof(type, member.channel), .check = check_one_channel, .choices = one_channel_examples,            \
     .help = "Use one channel: left, right, or its number from 1; all: mix them."},                                    \
    {.name = "audio-track", .kind = OPTION_WHOLE, .fallback = "none", .placeholder = "N", .group = "Audio",            \
     .target = offsetof(type, member.track), .low = 1, .high = 1000, .none = 1, .none_value = 0,                       \
     .help = "Audio track of a video, counted from 1; none: the default track."}
/* clang-format on */

#endif
