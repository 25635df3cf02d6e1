/* text/merges.c - what other programs' vocabularies have and ours does not need: the merges, one by one, and tokens as
 * texts of GPT-2's byte-level alphabet. Both follow from the bytes of the tokens. */
#include <string.h>

#include "text/internal.h"

#define MAX_BYTES 256   /* of a token */

/* Of the parts that begin at at[0 .. n - 1] and end at at[n], the neighbours whose token has the lowest id below
 * `limit`; -1 if there are none. */
static int next_pair(const mx_vocabulary *v, const uint8_t *bytes, const uint16_t *at, int n, int32_t limit) {
    int best = -1;
    for (int i = 0; i + 1 < n; i++) {
        int32_t id = mx_vocabulary_find(v, bytes + at[i], (size_t)(at[i + 2] - at[i]));
        if (id >= 0 && id < limit) {
            limit = id;
            best = i;
        }
    }
    return best;
}

int mx_text_merge(const mx_text *text, int32_t token, int32_t *left, int32_t *right) {
    const mx_vocabulary *v = &text->vocabulary;
    size_t n_bytes;
    uint16_t at[MAX_BYTES + 1];
    if (token < 0 || (uint32_t)token >= v->n)
        return 0;
    const uint8_t *bytes = mx_vocabulary_bytes(v, (uint32_t)token, &n_bytes);
    if (n_bytes < 2 || n_bytes > MAX_BYTES)
        return 0;
    int n = (int)n_bytes;
    for (int i = 0; i <= n; i++)
        at[i] = (uint16_t)i;
    for (int i; n > 2 && (i = next_pair(v, bytes, at, n, token)) >= 0; n--)
        memmove(at + i + 1, at + i + 2, (size_t)(n - i - 1) * sizeof(*at));
    if (n != 2)
        return 0;
    *left = mx_vocabulary_find(v, bytes, at[1]);
    *right = mx_vocabulary_find(v, bytes + at[1], n_bytes - at[1]);
    return *left >= 0 && *right >= 0;
}

/* The character that stands for a byte: itself where it is printable, else the next free one from U+0100 on. */
static uint32_t byte_character(unsigned byte) {
    uint32_t free_one = 0x100;
    for (unsigned b = 0; b < 256; b++) {
        int itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b == byte)
            return itself ? b : free_one;
        free_one += !itself;
    }
    return free_one;
}

void mx_text_byte_level(const mx_text *text, int32_t token, mx_str *out) {
    size_t n;
    const char *bytes = mx_text_token_bytes(text, token, &n);
    if (!bytes)
        return;
    if (token >= text->special.eot) {
        mx_str_add(out, bytes, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t c = byte_character((unsigned char)bytes[i]);
        const char utf8[2] = {(char)(0xc0 | c >> 6), (char)(0x80 | (c & 63))};
        if (c < 0x80)
            mx_str_add(out, &(char){(char)c}, 1);
        else
            mx_str_add(out, utf8, 2);
    }
}
