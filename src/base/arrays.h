/* base/arrays.h - the arrays behind a public result, as the library sees them: plain arrays of its own structs. Callers
 * have other struct sizes, perhaps, so to them the arrays are opaque and read through functions (api/result.c). And the
 * bits of mxw_word.reasons, which the guard sets and output/ names. */
#ifndef MX_ARRAYS_H
#define MX_ARRAYS_H
#include "max_whisper/result.h"

/* What can speak against a word: its identifier, its name in JSON. The order is that of the bits, so new ones go to the
 * end. TEMPERATURE is reserved: the guard weighs it with 0 (guard/coefficients.def), so it is never given. */
#define MX_REASONS(X)                                                                                                  \
    X(SILENCE, "silence")           /* no speech was detected under its time */                                        \
    X(NO_SPEECH, "no_speech")       /* the window's probability of no speech is high */                                \
    X(UNCERTAIN, "uncertain")       /* its tokens have low probability or high entropy */                              \
    X(ATTENTION, "attention")       /* the model looked where there is no speech */                                    \
    X(RATE, "rate")                 /* too many tokens for its time */                                                 \
    X(REPETITION, "repetition")     /* the same words again and again */                                               \
    X(TEMPERATURE, "temperature")   /* found only by sampling; reserved */                                             \
    X(DISAGREEMENT, "disagreement") /* far less probable when forced again, without the text before */

typedef enum mx_reason {
#define MX_REASON_ID(identifier, name) MX_REASON_##identifier,
    MX_REASONS(MX_REASON_ID)
#undef MX_REASON_ID
    MX_N_REASONS
} mx_reason;

#define MX_REASON_BIT(identifier) (1u << MX_REASON_##identifier)

/* The name of a bit; NULL past the end. */
static inline const char *mx_reason_name(int bit) {
#define MX_REASON_NAME(identifier, name) name,
    static const char *const names[] = {MX_REASONS(MX_REASON_NAME)};
#undef MX_REASON_NAME
    return bit >= 0 && bit < MX_N_REASONS ? names[bit] : NULL;
}

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
