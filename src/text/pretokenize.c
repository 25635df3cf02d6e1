/* text/pretokenize.c - GPT-2's pattern as hand-written code: one pass, no backtracking, the same on every machine. */
#include "text/pretokenize.h"

#include <string.h>

typedef struct range {
    uint32_t first, last; /* inclusive */
} range;

#define R(first, last) {first, last},
static const range letters[] = {
#define LETTERS
#include "text/unicode.def"
#undef LETTERS
};
static const range numbers[] = {
#define NUMBERS
#include "text/unicode.def"
#undef NUMBERS
};
static const range spaces[] = {
#define SPACES
#include "text/unicode.def"
#undef SPACES
};
#undef R

typedef enum kind { KIND_SPACE, KIND_LETTER, KIND_NUMBER, KIND_OTHER } kind;

static int is_in(const range *table, size_t n, uint32_t point) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (point > table[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && point >= table[low].first;
}

/* The class of the code point at s, and its length. */
static kind kind_at(const uint8_t *s, size_t n, size_t *used) {
    uint32_t point = 0xFFFD;
    mx_utf8_read(s, n, &point, used);
    if (is_in(letters, MX_COUNT(letters), point))
        return KIND_LETTER;
    if (is_in(numbers, MX_COUNT(numbers), point))
        return KIND_NUMBER;
    return is_in(spaces, MX_COUNT(spaces), point) ? KIND_SPACE : KIND_OTHER;
}

/* Length of the longest prefix of s of one class; *last is the length of its last code point. */
static size_t run_of(kind wanted, const uint8_t *s, size_t n, size_t *last) {
    size_t i = 0, used;
    *last = 0;
    while (i < n && kind_at(s + i, n - i, &used) == wanted) {
        i += used;
        *last = used;
    }
    return i;
}

static size_t contraction(const uint8_t *s, size_t n) {
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < MX_COUNT(endings); i++) {
        size_t length = strlen(endings[i]);
        if (length <= n && memcmp(s, endings[i], length) == 0)
            return length;
    }
    return 0;
}

size_t mx_text_piece(const uint8_t *s, size_t n) {
    size_t length = contraction(s, n), used, last;
    if (length)
        return length;
    /* One blank, U+0020 only, may precede a word, a number or symbols. */
    size_t blank = s[0] == ' ' && n > 1;
    kind first = kind_at(s + blank, n - blank, &used);
    if (first != KIND_SPACE)
        return blank + run_of(first, s + blank, n - blank, &last);
    /* Of several spaces, the last belongs to what follows. */
    length = run_of(KIND_SPACE, s, n, &last);
    return length == n || length == last ? length : length - last;
}
