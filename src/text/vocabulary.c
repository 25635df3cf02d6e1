/* text/vocabulary.c - reads the blob that pack_vocabulary.py generates; trusted, since it is checked at build time. */
#include "text/vocabulary.h"

#include <string.h>

extern const uint8_t mx_vocabulary_gpt2_blob[], mx_vocabulary_multilingual_blob[];

/* As in pack_vocabulary.py. */
#define N_SLOTS ((size_t)1 << 17)
#define NO_ID 0xFFFFu

/* The blob is little endian on every machine. */
static uint32_t read_u32(const uint8_t *table, uint32_t i) {
    const uint8_t *b = table + (size_t)i * 4;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

mx_vocabulary mx_vocabulary_get(int multilingual) {
    const uint8_t *blob = multilingual ? mx_vocabulary_multilingual_blob : mx_vocabulary_gpt2_blob;
    mx_vocabulary v = {.n = read_u32(blob, 0), .offsets = blob + 4};
    v.slots = v.offsets + ((size_t)v.n + 1) * 4;
    v.bytes = v.slots + N_SLOTS * 2;
    return v;
}

const uint8_t *mx_vocabulary_bytes(const mx_vocabulary *vocabulary, uint32_t id, size_t *n) {
    uint32_t begin = read_u32(vocabulary->offsets, id);
    *n = read_u32(vocabulary->offsets, id + 1) - begin;
    return vocabulary->bytes + begin;
}

static uint32_t hash_of(const uint8_t *bytes, size_t n) { /* FNV-1a */
    uint32_t value = 0x811C9DC5u;
    for (size_t i = 0; i < n; i++)
        value = (value ^ bytes[i]) * 0x01000193u;
    return value;
}

int32_t mx_vocabulary_find(const mx_vocabulary *vocabulary, const void *bytes, size_t n) {
    for (size_t slot = hash_of(bytes, n) % N_SLOTS;; slot = (slot + 1) % N_SLOTS) {
        uint32_t id = (uint32_t)vocabulary->slots[slot * 2] | (uint32_t)vocabulary->slots[slot * 2 + 1] << 8;
        if (id == NO_ID)
            return -1;
        size_t other_n;
        const uint8_t *other = mx_vocabulary_bytes(vocabulary, id, &other_n);
        if (n == other_n && memcmp(bytes, other, n) == 0)
            return (int32_t)id;
    }
}
