/* max_whisper/tokenizer.h - text and tokens without a model: Whisper's vocabularies are part of the library.
 *
 * Threads: a tokenizer is immutable and may be shared.
 */
#ifndef MXW_TOKENIZER_H
#define MXW_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mxw_tokenizer mxw_tokenizer;

/* n_vocab: 51864 (the English-only models), 51865 (99 languages), 51866 (100, from large-v3 on). */
MXW_API mxw_status mxw_tokenizer_open(int n_vocab, mxw_tokenizer **out);
MXW_API void mxw_tokenizer_close(mxw_tokenizer *tokenizer);
/* UTF-8 [n_bytes] to token ids. E_ARGUMENT if the text is not UTF-8, or has the text of a special token in it
 * ("<|endoftext|>"). *n is the capacity on entry and the count on return; n_bytes always suffice. */
MXW_API mxw_status mxw_tokenizer_encode(const mxw_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                        int32_t *tokens, size_t *n);
/* Token ids to UTF-8. Incomplete sequences become U+FFFD, special tokens are written as text, timestamps ("<|1.08|>")
 * only if asked for. *n as above, in bytes with the final 0. */
MXW_API mxw_status mxw_tokenizer_decode(const mxw_tokenizer *tokenizer, const int32_t *tokens, size_t n_tokens,
                                        int timestamps, char *text, size_t *n);
/* The bytes of a token, which need not be whole characters, or the text of a special one; valid as long as the
 * tokenizer. NULL if there is no such token. */
MXW_API const char *mxw_tokenizer_token(const mxw_tokenizer *tokenizer, int32_t token, size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif
