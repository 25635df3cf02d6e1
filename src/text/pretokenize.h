/* text/pretokenize.h - splits text into words, numbers, symbols and spaces; byte-pair merges do not cross these
 * pieces. */
#ifndef MX_TEXT_SPLIT_H
#define MX_TEXT_SPLIT_H
#include "base/base.h"

/* Length of the first piece of the n > 0 bytes of valid UTF-8 at s, by the rule of GPT-2's pattern
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * with built-in Unicode tables: those of a regular-expression library change with its version. */
size_t mx_text_piece(const uint8_t *s, size_t n);
#endif
