/* base/arrays.h - the arrays behind a public result, as the library sees them: plain arrays of its own structs. Callers
 * have other struct sizes, perhaps, so to them the arrays are opaque and read through functions (api/result.c). */
#ifndef MX_ARRAYS_H
#define MX_ARRAYS_H
#include "max_whisper/result.h"

static inline const mxw_segment *mx_segments(const mxw_result *result) {
    return (const mxw_segment *)(const void *)result->segments;
}

static inline const mxw_word *mx_segment_words(const mxw_segment *segment) {
    return (const mxw_word *)(const void *)segment->words;
}

static inline const mxw_token *mx_segment_details(const mxw_segment *segment) {
    return (const mxw_token *)(const void *)segment->details;
}

static inline const mxw_token *mx_segment_alternatives(const mxw_segment *segment) {   /* [n_tokens][n_alternatives] */
    return (const mxw_token *)(const void *)segment->alternatives;
}

static inline const mxw_region *mx_regions(const mxw_result *result) {
    return (const mxw_region *)(const void *)result->regions;
}

static inline const mxw_region_array *mx_region_array(const mxw_region *regions) {
    return (const mxw_region_array *)(const void *)regions;
}

static inline const mxw_segment_array *mx_segment_array(const mxw_segment *segments) {
    return (const mxw_segment_array *)(const void *)segments;
}

static inline const mxw_word_array *mx_word_array(const mxw_word *words) {
    return (const mxw_word_array *)(const void *)words;
}

static inline const mxw_token_array *mx_token_array(const mxw_token *tokens) {
    return (const mxw_token_array *)(const void *)tokens;
}
#endif
