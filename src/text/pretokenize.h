/* text/pretokenize.h - where byte-pair merging may not cross: text cut into words, numbers, signs and spaces. */
#ifndef MX_TEXT_SPLIT_H
#define MX_TEXT_SPLIT_H
#include "base/base.h"

/* Length of the first piece of the n > 0 bytes of valid UTF-8 at s, by the rule of GPT-2's pattern
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * with Unicode tables of our own: those of an installed regular-expression library change with its version. */
size_t mx_text_piece(const uint8_t *s, size_t n);
#endif
