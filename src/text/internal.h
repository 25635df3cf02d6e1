/* text/internal.h - internal to text/: shared by its files. */
#ifndef MX_TEXT_INTERNAL_H
#define MX_TEXT_INTERNAL_H
#include "text/text.h"
#include "text/vocabulary.h"

#define MX_TEXT_MAX_SPECIALS 1700

struct mx_text {
    mx_vocabulary vocabulary;
    mx_text_special special;
    mx_str names;                               /* texts of the ids from eot on, concatenated */
    uint32_t name_at[MX_TEXT_MAX_SPECIALS + 1]; /* where each begins in names */
    int32_t *non_speech;
    size_t n_non_speech;
};

/* Length of the special token whose text is a prefix of the n bytes at s; 0 if there is none. */
size_t mx_text_special_at(const mx_text *text, const char *s, size_t n);
#endif
