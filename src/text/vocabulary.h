/* text/vocabulary.h - the byte sequences of the two vocabularies, by id or by bytes. */
#ifndef MX_TEXT_VOCABULARY_H
#define MX_TEXT_VOCABULARY_H
#include "base/base.h"

typedef struct mx_vocabulary {
    uint32_t n;             /* ids 0 .. n-1 */
    const uint8_t *offsets; /* u32 little endian [n + 1] into bytes */
    const uint8_t *slots;   /* u16 little endian: hash table of ids */
    const uint8_t *bytes;
} mx_vocabulary;

mx_vocabulary mx_vocabulary_get(int multilingual);
const uint8_t *mx_vocabulary_bytes(const mx_vocabulary *vocabulary, uint32_t id, size_t *n); /* id < n */
int32_t mx_vocabulary_find(const mx_vocabulary *vocabulary, const void *bytes, size_t n);    /* id, -1 if none */
#endif
