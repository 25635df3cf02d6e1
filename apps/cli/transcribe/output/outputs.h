/* cli/transcribe/output/outputs.h - the files that a recording's result goes to: where, of what name, in which formats.
 *
 * Invariants: a recording's files lie in one folder; folders are made when first written to.
 */
#ifndef CLI_TRANSCRIBE_OUTPUTS_H
#define CLI_TRANSCRIBE_OUTPUTS_H

#include "transcribe/inputs.h"
#include "transcribe/transcribe_options.h"

/* Whose result it is. */
typedef struct outputs_source {
    const transcribe_options *options;
    const input *in;
    const inputs *list;   /* that it is one of */
    const char *name;     /* as it is told to people */
    mxw_model *model;
    mxw_session *session; /* or NULL: of several channels, with this */
    const char *manifest;
} outputs_source;

/* The name its files get before the extension, *length bytes: the file's own up to the last dot; "stdin" for "-". */
const char *outputs_stem(const char *path, size_t *length);
/* "DIR/sub/" of an input's files; 0: too long. Needs --output-dir. */
int outputs_folder(const transcribe_options *options, const input *in, char *path, size_t size);
/* 1 if two recordings, *a and *b in the order of the list, would write the same files; alike: names do not have the
 * stem, so that any two of a folder do. 0: none; -1: no memory, which is logged. */
int outputs_collide(const inputs *list, int alike, const input **a, const input **b);
/* 1 if every file that would be written is there. */
int outputs_exist(const transcribe_options *options, const input *in);
/* 1 if a file that would be written, whose path is put into path, is one of the recordings, as far as names are known
 * before the run; 0: none. */
int outputs_overwrite(const transcribe_options *options, const inputs *list, char *path, size_t size);
/* How a result is written in a format; of json-full also how the run was made. */
mxw_status outputs_options(const outputs_source *source, const char *format, mxw_write_options *write);
/* Writes the files; says why not. */
mxw_status outputs_save(const outputs_source *source, const mxw_result *result);
/* A folder and those above it; 0: cannot, and errno says why. */
int outputs_make_folder(const char *path);

#endif
