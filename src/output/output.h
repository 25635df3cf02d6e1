/* output/output.h - public header of output/: a result -> bytes; results of several channels -> one.
 *
 * In: segments with times and text. Out: txt, srt, vtt, tsv, json and more. Invariant: the bytes of those five are
 * those of openai-whisper's writers for the same result, independent of the locale. A segment with a speaker, which the
 * reference does not have, is written with "[speaker] " before its text, and in json with two more keys. */
#ifndef MX_OUTPUT_H
#define MX_OUTPUT_H
#include "base/arrays.h"
#include "base/base.h"

/* The formats by name, in a fixed order; NULL past the end. A name is also the file's extension. */
const char *mx_output_format(int index);
/* Passes the bytes to fn in blocks. E_ARGUMENT for an unknown format or for times that no format can write
 * (negative, not finite); E_ABORTED when fn returns non-zero. */
mxw_status mx_output_write(const mxw_result *result, const char *format, const mxw_write_options *options,
                           mxw_write_fn fn, void *user);
/* The same into a file, atomically. options NULL: the defaults, in both. */
mxw_status mx_output_save(const mxw_result *result, const char *format, const mxw_write_options *options,
                          const char *path);
/* One segment as a line of jsonl. */
mxw_status mx_output_segment(const mxw_segment *segment, mxw_write_fn fn, void *user);

/* JSON syntax as the formats write it: ", " and a key; a string; a number. */
void mx_output_json_key(mx_str *out, const char *key);
void mx_output_json_string(mx_str *out, const char *text);
void mx_output_json_number(mx_str *out, double value);

/* See mxw_merge_open. */
typedef struct mxw_merge mx_merge;
mxw_status mx_merge_open(mx_merge **out);
void mx_merge_close(mx_merge *merge);
mxw_status mx_merge_add(mx_merge *merge, int channel, const mxw_result *result);
const mxw_result *mx_merge_result(mx_merge *merge);

/* See mxw_draft_open. The structs are complete; the word and the region may be NULL. */
typedef struct mxw_draft mx_draft;
mxw_status mx_draft_open(mx_draft **out);
void mx_draft_close(mx_draft *draft);
mxw_status mx_draft_head(mx_draft *draft, const mxw_result *head);
void mx_draft_times(mx_draft *draft, const mxw_stage_times *times);
mxw_status mx_draft_segment(mx_draft *draft, const mxw_segment *segment);
mxw_status mx_draft_word(mx_draft *draft, const mxw_word *word);
mxw_status mx_draft_token(mx_draft *draft, const mxw_token *token);
mxw_status mx_draft_alternative(mx_draft *draft, const mxw_token *token);
mxw_status mx_draft_region(mx_draft *draft, const mxw_region *region);
const mxw_result *mx_draft_result(mx_draft *draft);
#endif
