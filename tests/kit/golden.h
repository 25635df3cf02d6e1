/* tests/kit/golden.h - what the golden tests share: reading golden files, finding clips, opening models, reports.
 *
 * Golden files are JSON lines written by tests/golden/make/reference.py. A clip is named "package:NAME" (NAME.wav of
 * the speech folder, or of tests/data for the kept ones) or by its path in the development set, ../shared/data beside
 * the source tree. What is not there is skipped, counted and named; nothing else is ever let through. */
#ifndef GOLDEN_H
#define GOLDEN_H
#include <jansson.h>

#include "max_whisper.h"

#define GOLDEN_SKIP 77

typedef struct golden_clip {
    float *samples;
    size_t n;
    char sha256[65]; /* of the samples as 16-bit little-endian integers */
} golden_clip;

/* The rows of tests/golden/data/NAME as a JSON array; exits with a line if it cannot be read. */
json_t *golden_rows(const char *name);
/* The bytes of tests/golden/data/NAME, 0-terminated, or NULL if there is none. Freed by the caller. */
char *golden_text(const char *name);

/* Where the clip lies, or NULL where it is not installed. */
const char *golden_clip_path(const char *clip, char *path, size_t n);
/* Its samples as audio/ gives them: 0, or -1 after a line. */
int golden_clip_read(const char *path, golden_clip *clip);
void golden_clip_free(golden_clip *clip);
/* Whether these are the samples that the reference had; prints a line if not. */
int golden_clip_matches(const golden_clip *clip, const json_t *row);

/* The model by its released name; exits as skipped, with a line, where it is not installed or the engine has no usable
 * device, or the device not the precision. */
mxw_model *golden_model(const char *test, const char *name);
/* The same for so many sessions at once. */
mxw_model *golden_model_batch(const char *test, const char *name, int batch);
/* Takes --engine=NAME, --device=ID, --precision=NAME and --keep-names out of the arguments, for golden_model. */
void golden_take_engine(int *argc, char **argv);

/* How far a precision may be from the reference. */
typedef struct golden_allowance {
    const char *precision;
    double log_prob;                       /* also probabilities */
    double seconds;                        /* times of words */
    double output_cosine, stage_cosine;    /* of the encoder's output, and of any stage before it: at least */
    double shift;                          /* of a stage's mean and deviation, relative to its deviation */
} golden_allowance;

const golden_allowance *golden_allowed(void);
double golden_tolerance(void);             /* its log_prob */
int golden_all_stages(void);   /* 0: the engine may have fused some away */

/* Fields of an object: exits with a line where one is missing, so that a damaged golden never passes. */
double golden_number(const json_t *row, const char *key);
int64_t golden_integer(const json_t *row, const char *key);
const char *golden_string(const json_t *row, const char *key);
const json_t *golden_array(const json_t *row, const char *key);
/* An array of integers; *n gets the count. Freed by the caller; never NULL. */
int32_t *golden_tokens(const json_t *row, const char *key, size_t *n);
/* Bytes written in hexadecimal. Freed by the caller; never NULL. */
uint8_t *golden_bytes(const json_t *row, const char *key, size_t *n);
#endif
