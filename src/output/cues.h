/* output/cues.h - subtitle cues from words. */
#ifndef MX_OUTPUT_CUES_H
#define MX_OUTPUT_CUES_H
#include "output/internal.h"

typedef struct mx_cue_options {
    size_t max_line_width, max_line_count, max_words_per_line;   /* 0: none */
    int highlight_words;
    const char *line_break, *mark_begin, *mark_end;
    int escapes;   /* braces and line breaks escaped for ASS */
} mx_cue_options;

typedef mxw_status (*mx_cue_fn)(void *user, int64_t start_ms, int64_t end_ms, const char *text, size_t n);

/* Adds text escaped so that ASS finds no commands in it. */
void mx_cue_escape(mx_str *out, const char *text, size_t n);

int mx_cues_have_words(const mxw_result *result);
mxw_status mx_cues_of_words(const mxw_result *result, const mx_cue_options *options, mx_cue_fn emit, void *user);
#endif
