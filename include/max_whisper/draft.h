/* max_whisper/draft.h - drafts: results that a program makes or has changed, to be written in any format.
 *
 * Segments are added one by one, and after each its words, its tokens with their log probabilities, and after a token
 * its alternatives. What is added is copied. `size` is that of the caller's struct, which macros add; fields that only
 * the library's has are 0. Pointers to arrays are ignored, except `tokens` (n_tokens of them).
 */
#ifndef MXW_DRAFT_H
#define MXW_DRAFT_H

#include "result.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mxw_draft mxw_draft;
MXW_API mxw_status mxw_draft_open(mxw_draft **out);
MXW_API void mxw_draft_close(mxw_draft *draft);
/* Language, duration and counts; text, segments, times and regions are ignored. */
MXW_API mxw_status mxw_draft_head(mxw_draft *draft, const mxw_result *head, size_t size);
#define mxw_draft_head(draft, head) mxw_draft_head(draft, head, sizeof(*(head)))
MXW_API mxw_status mxw_draft_times(mxw_draft *draft, const mxw_stage_times *times, size_t size);
#define mxw_draft_times(draft, times) mxw_draft_times(draft, times, sizeof(*(times)))
MXW_API mxw_status mxw_draft_segment(mxw_draft *draft, const mxw_segment *segment, size_t size);
#define mxw_draft_segment(draft, segment) mxw_draft_segment(draft, segment, sizeof(*(segment)))
/* Of the last segment. NULL: it has words, though perhaps none is added. */
MXW_API mxw_status mxw_draft_word(mxw_draft *draft, const mxw_word *word, size_t size);
#define mxw_draft_word(draft, word) mxw_draft_word(draft, word, sizeof(mxw_word))
/* Of the last segment: all of its tokens in order, or none. */
MXW_API mxw_status mxw_draft_token(mxw_draft *draft, const mxw_token *token, size_t size);
#define mxw_draft_token(draft, token) mxw_draft_token(draft, token, sizeof(*(token)))
/* In the place of the last token, the most probable first. */
MXW_API mxw_status mxw_draft_alternative(mxw_draft *draft, const mxw_token *token, size_t size);
#define mxw_draft_alternative(draft, token) mxw_draft_alternative(draft, token, sizeof(*(token)))
/* NULL: speech was looked for, though perhaps no region is added. */
MXW_API mxw_status mxw_draft_region(mxw_draft *draft, const mxw_region *region, size_t size);
#define mxw_draft_region(draft, region) mxw_draft_region(draft, region, sizeof(mxw_region))
/* Everything added so far; valid until the next call with the draft. NULL when memory runs out, or tokens are missing
 * (E_STATE). */
MXW_API const mxw_result *mxw_draft_result(mxw_draft *draft);

#ifdef __cplusplus
}
#endif
#endif
