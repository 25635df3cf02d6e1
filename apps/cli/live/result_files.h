/* cli/live/result_files.h - `--output-dir`: the final text so far, in every format that was asked for.
 *
 * Invariants: a file appears whole or not at all, and is replaced whole; at most once a second, and more seldom when
 * writing takes long; at the end once more. Nothing is overwritten that another stream has written: without a FILE the
 * name has date and time. Nor is the file that is heard.
 */
#ifndef CLI_LIVE_RESULT_FILES_H
#define CLI_LIVE_RESULT_FILES_H

#include "live/live_options.h"

typedef struct result_files {
    const live_options *options;
    const char *heard; /* the file that is read, "-" for standard input, or NULL */
    char stem[4096];   /* a path whose stem is that of the files */
    char model[64];    /* {model} */
    char language[16]; /* {language}, as it was when first written */
    double saved_at;   /* a time of ours, in seconds */
    double cost_s;     /* of the last save */
    int changed;       /* since then */
    int n_saved;
} result_files;

/* Makes the folder; 0 with a line said if that fails. Without --output-dir nothing is done, here or below. */
int result_files_open(result_files *f, const live_options *options, const source_options *source, mxw_model *model);
/* Writes if there is news and it is time, or if `now`; 0 with a line said if it fails. */
int result_files_save(result_files *f, mxw_live *live, int now);
/* Says which files there are. */
void result_files_tell(const result_files *f);

#endif
