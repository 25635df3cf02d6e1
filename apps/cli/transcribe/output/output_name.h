/* cli/transcribe/output/output_name.h - the names of result files, from a pattern like "{stem}.{format}".
 *
 * In: the pattern and what its fields stand for. Out: a file name. Invariants: a pattern that passed the check expands
 * to a plain name, never to a path.
 */
#ifndef CLI_TRANSCRIBE_OUTPUT_NAME_H
#define CLI_TRANSCRIBE_OUTPUT_NAME_H

#include <stddef.h>

typedef struct output_fields {
    const char *path; /* of the recording: {stem} is its name without folder and extension */
    const char *format, *model, *language;
} output_fields;

/* 1, or 0 with why in message. */
int output_name_check(const char *pattern, char *message, size_t size);
int output_name_has(const char *pattern, const char *field); /* "{format}" */
/* 1, or 0 if it does not fit. */
int output_name_expand(const char *pattern, const output_fields *fields, char *out, size_t size);

#endif
