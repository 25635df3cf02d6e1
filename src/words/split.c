/* words/split.c - tokens to words. Tokens may end within a character, so they are collected until their text is valid
 * UTF-8; the pieces are then joined into words at spaces, except in languages written without them. */
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "words/words.h"

#define REPLACEMENT "\xef\xbf\xbd"   /* U+FFFD: what invalid UTF-8 is decoded to */

/* Languages written without spaces. */
static int is_unspaced(const char *language) {
    static const char *const codes[] = {"zh", "ja", "th", "lo", "my", "yue"};
    for (size_t i = 0; language && i < MX_COUNT(codes); i++)
        if (strcmp(codes[i], language) == 0)
            return 1;
    return 0;
}

int mx_words_contains(const char *whole, const char *part, size_t n_part) {
    return n_part == 0 || memmem(whole, strlen(whole), part, n_part) != NULL;
}

/* Python's string.punctuation. */
static int is_punctuation(const char *text, size_t n) {
    const char *stripped = mx_utf8_strip(text, &n);
    return mx_words_contains("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", stripped, n);
}

static mxw_status decode(const mx_text *text, const int32_t *tokens, size_t n, mx_str *out) {
    mxw_status status = mx_text_decode_with_timestamps(text, tokens, n, out);
    return status < 0 ? status : mx_str_status(out);
}

static size_t characters(const char *text, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* The offset of character `index` of the text; its end if there are fewer. */
static size_t byte_of(const char *text, size_t n, size_t index) {
    size_t i = 0;
    for (; i < n; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80 && index-- == 0)
            break;
    return i;
}

/* Whether the tokens' text is complete: it has no replacement character, or the full text has one there, too.
 * `offset`: characters of the full text before it. */
static int is_whole(const mx_str *piece, size_t from, const mx_str *whole, size_t offset) {
    const char *text = mx_str_get(piece) + from, *all = mx_str_get(whole);
    const char *broken = memmem(text, piece->n - from, REPLACEMENT, strlen(REPLACEMENT));
    if (!broken)
        return 1;
    size_t at = byte_of(all, whole->n, offset + characters(text, (size_t)(broken - text)));
    return strncmp(all + at, REPLACEMENT, strlen(REPLACEMENT)) == 0;
}

static mxw_status add(mx_words *out, size_t begin, size_t n_tokens) {
    mxw_status status = mx_grow(&out->items, &out->capacity, out->n + 1, sizeof(*out->items));
    if (status >= 0)
        out->items[out->n++] = (mx_word){.begin = begin, .end = out->text.n, .n_tokens = n_tokens};
    return status;
}

/* Adds the piece out->text[begin..] of n_tokens as a new word, or to the last one. */
static mxw_status add_piece(mx_words *out, size_t begin, size_t n_tokens, int special, int spaced) {
    const char *piece = mx_str_get(&out->text) + begin;
    size_t n = out->text.n - begin;
    if (spaced && out->n > 0 && !special && !(n > 0 && piece[0] == ' ') && !is_punctuation(piece, n)) {
        out->items[out->n - 1].end = out->text.n;
        out->items[out->n - 1].n_tokens += n_tokens;
        return MXW_OK;
    }
    return add(out, begin, n_tokens);
}

/* The end of text is the last entry, as in the reference: a word of its own, or the end of an incomplete one. */
static mxw_status split_all(const mx_text *text, const int32_t *all, size_t n, int spaced, mx_words *out) {
    mxw_status status;
    mx_str whole = {0};
    int32_t eot = mx_text_specials(text)->eot;
    size_t first = 0, offset = 0;
    MX_TRY(decode(text, all, n, &whole));
    for (size_t i = 0; i < n; i++) {
        size_t begin = out->text.n;
        MX_TRY(decode(text, all + first, i + 1 - first, &out->text));
        if (!is_whole(&out->text, begin, &whole, offset)) {
            mx_str_cut(&out->text, begin);
            continue;
        }
        offset += characters(mx_str_get(&out->text) + begin, out->text.n - begin);
        MX_TRY(add_piece(out, begin, i + 1 - first, all[first] >= eot, spaced));
        first = i + 1;
    }
    status = MXW_OK;
out:
    mx_str_free(&whole);
    return status;
}

mxw_status mx_words_split(const mx_text *text, const char *language, const int32_t *tokens, size_t n, mx_words *out) {
    int32_t *all = mx_alloc_array(n + 1, sizeof(*all));
    if (!all)
        return MXW_E_MEMORY;
    memcpy(all, tokens, n * sizeof(*all));
    all[n] = mx_text_specials(text)->eot;
    mx_words_clear(out);
    mxw_status status = split_all(text, all, n + 1, !is_unspaced(language), out);
    if (status >= 0 && out->n > 0)
        out->n--;
    mx_free(all);
    return status;
}
