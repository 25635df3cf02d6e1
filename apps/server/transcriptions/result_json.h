/* server/transcriptions/result_json.h - results as OpenAI's API has them: json, verbose_json and their parts.
 *
 * Invariants: texts have no blank at their ends; a segment keeps the one it begins with. Every function returns a new
 * reference, or NULL when memory runs out.
 */
#ifndef SERVER_TRANSCRIPTIONS_RESULT_JSON_H
#define SERVER_TRANSCRIPTIONS_RESULT_JSON_H

#include <jansson.h>

#include "transcriptions/fields.h"

/* {"text", "usage"[, "logprobs"][, "languages"]} */
json_t *result_plain(const mxw_result *result, const transcription_request *request);
/* {"task", "language", "duration", "text"[, "segments"][, "words"], "usage"} */
json_t *result_verbose(const mxw_result *result, const transcription_request *request);
/* The ten fields of a segment; with words: theirs too. */
json_t *result_segment(const mxw_segment *segment, int with_words);
/* [{"token", "logprob", "bytes"}] of the tokens that are text; appends to the array. */
void result_logprobs(const mxw_segment *segment, json_t *array);
/* {"type": "tokens", ...}, as streams end with it. */
json_t *result_token_usage(const mxw_result *result);
/* A text without blanks at its ends. */
json_t *result_text(const char *text, size_t n);

#endif
