/* base/utf8.h - decoding UTF-8 that may be invalid. */
#ifndef MX_UTF8_H
#define MX_UTF8_H
#include "base/str.h"

/* Reads one code point from the n > 0 bytes at s. 1: *point is it. 0: not UTF-8 here. *used is the length of the code
 * point, or of the invalid sequence that counts as one error (its longest part that could begin a code point). */
int mx_utf8_read(const void *s, size_t n, uint32_t *point, size_t *used);
/* Adds the bytes to out with each error replaced by one U+FFFD, as Python's errors="replace" does. */
void mx_utf8_clean(const void *bytes, size_t n, mx_str *out);
/* Offset of the first error; n if there is none. */
size_t mx_utf8_check(const void *bytes, size_t n);
/* Strips white space as Python's str.strip does; *n becomes the length of the rest. */
const char *mx_utf8_strip(const char *text, size_t *n);
#endif
