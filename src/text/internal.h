/* text/internal.h - what the files of text/ share and nobody else sees. */
#ifndef MX_TEXT_INTERNAL_H
#define MX_TEXT_INTERNAL_H
#include "text/text.h"
#include "text/vocabulary.h"

#define MX_TEXT_MAX_SPECIALS 1700

struct mx_text {
    mx_vocabulary vocabulary;
    mx_text_special special;
    mx_str names;                               /* written forms of the ids from eot on, one after the other */
    uint32_t name_at[MX_TEXT_MAX_SPECIALS + 1]; /* where each begins in names */
    int32_t *non_speech;
    size_t n_non_speech;
};

/* Length of the special token whose written form starts the n bytes at s; 0 if none does. */
size_t mx_text_special_at(const mx_text *text, const char *s, size_t n);
#endif
