/* cli/transcribe/inputs.h - the words of the command line as recordings: files, folders, patterns.
 *
 * In: words. Out: a recording for each file named, for each audio or video file of a folder named (and of the folders
 * below it, if asked), for each file that a pattern matches; in the order of the words, within one by name.
 * Invariants: a word that gives nothing is kept with what is wrong with it, so that it is told in its place.
 */
#ifndef CLI_TRANSCRIBE_INPUTS_H
#define CLI_TRANSCRIBE_INPUTS_H

#include <stddef.h>
#include <sys/types.h>

typedef struct input {
    char *path;
    char *folder;        /* of its results, below the output folder: "", or "sub/deeper" in a folder that was walked */
    const char *problem; /* NULL, or why there is nothing to be transcribed */
} input;

/* A regular file, as the system knows it. */
typedef struct input_identity {
    dev_t device;
    ino_t number;
} input_identity;

typedef struct inputs {
    input *items;
    int n;
    size_t room;
    input_identity *files; /* all that inputs_identify found, sorted; also of items that were taken out since */
    size_t n_files;
} inputs;

/* 0: there is no memory. "-" and names that exist as files are taken as they are; patterns (* ? [) only where no file
 * has that very name. */
int inputs_expand(inputs *list, char **words, int n_words, int recursive);
/* Notes which files the items are. 0: there is no memory. */
int inputs_identify(inputs *list);
/* Whether writing to the path would overwrite one of those. */
int inputs_has(const inputs *list, const char *path);
/* The same of one recording; "-": standard input, where that is a file. */
int inputs_is(const char *path, const char *recording);
/* Takes item i out. */
void inputs_drop(inputs *list, int i);
void inputs_free(inputs *list);

#endif
