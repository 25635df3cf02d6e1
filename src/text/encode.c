/* text/encode.c - byte-pair encoding: cut the text into pieces, then in each piece merge the adjacent parts of the
 * lowest rank, leftmost first, until no merge is left. A heap of candidate merges makes that O(n log n) for n bytes. */
#include "text/internal.h"

#include <string.h>

#include "text/pretokenize.h"

typedef struct merge {
    int32_t rank;
    uint32_t at, n; /* the bytes that the merged token would cover */
} merge;

typedef struct encoder {
    const mx_vocabulary *vocabulary;
    const uint8_t *piece;
    uint32_t n;       /* bytes of the piece */
    uint32_t *length; /* [n] of the part that starts at a byte; 0: inside a part */
    uint32_t *before; /* [n] where the part before starts */
    merge *heap;      /* the next merge on top; some are stale */
    size_t n_heap;
    size_t length_capacity, before_capacity, heap_capacity;
    int32_t *tokens;
    size_t n_tokens, token_capacity;
} encoder;

static int precedes(const merge *a, const merge *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(encoder *e, merge item) {
    size_t i = e->n_heap++;
    for (; i > 0 && precedes(&item, &e->heap[(i - 1) / 2]); i = (i - 1) / 2)
        e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = item;
}

static merge heap_pop(encoder *e) {
    merge top = e->heap[0], item = e->heap[--e->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < e->n_heap; i = child) {
        if (child + 1 < e->n_heap && precedes(&e->heap[child + 1], &e->heap[child]))
            child++;
        if (!precedes(&e->heap[child], &item))
            break;
        e->heap[i] = e->heap[child];
    }
    e->heap[i] = item;
    return top;
}

/* Adds the merge of the part at `at` with the one after it, if the vocabulary has that token. */
static void propose(encoder *e, uint32_t at) {
    uint32_t next = at + e->length[at];
    if (next >= e->n)
        return;
    uint32_t n = e->length[at] + e->length[next];
    int32_t rank = mx_vocabulary_find(e->vocabulary, e->piece + at, n);
    if (rank >= 0)
        heap_push(e, (merge){rank, at, n});
}

static void merge_all(encoder *e) {
    for (uint32_t i = 0; i < e->n; i++) {
        e->length[i] = 1;
        e->before[i] = i ? i - 1 : 0;
    }
    e->n_heap = 0;
    for (uint32_t i = 0; i < e->n; i++)
        propose(e, i);
    while (e->n_heap > 0) {
        merge m = heap_pop(e);
        uint32_t next = m.at + e->length[m.at];
        /* Stale if either part has changed; the same bytes split differently are still the same token. */
        if (e->length[m.at] == 0 || next >= e->n || e->length[m.at] + e->length[next] != m.n)
            continue;
        e->length[m.at] = m.n;
        e->length[next] = 0;
        if (m.at + m.n < e->n)
            e->before[m.at + m.n] = m.at;
        propose(e, m.at);
        if (m.at > 0)
            propose(e, e->before[m.at]);
    }
}

static mxw_status add_token(encoder *e, int32_t id) {
    mxw_status status = mx_grow(&e->tokens, &e->token_capacity, e->n_tokens + 1, sizeof(*e->tokens));
    if (status >= 0)
        e->tokens[e->n_tokens++] = id;
    return status;
}

static mxw_status encode_piece(encoder *e, const uint8_t *piece, size_t n) {
    mxw_status status = MXW_OK;
    int32_t whole = mx_vocabulary_find(e->vocabulary, piece, n);
    if (whole >= 0)
        return add_token(e, whole);
    e->piece = piece;
    e->n = (uint32_t)n;
    MX_TRY(mx_grow(&e->length, &e->length_capacity, n, sizeof(*e->length)));
    MX_TRY(mx_grow(&e->before, &e->before_capacity, n, sizeof(*e->before)));
    /* n - 1 candidates initially, two more for each of at most n - 1 merges. */
    MX_TRY(mx_grow(&e->heap, &e->heap_capacity, 3 * n, sizeof(*e->heap)));
    merge_all(e);
    for (uint32_t i = 0; i < e->n; i += e->length[i])
        MX_TRY(add_token(e, mx_vocabulary_find(e->vocabulary, piece + i, e->length[i])));
out:
    return status;
}

/* As tiktoken, rejects the text of a special token rather than guess whether it is meant literally. */
static mxw_status refuse_specials(const mx_text *text, const char *utf8, size_t n) {
    for (const char *at = utf8; (at = memchr(at, '<', n - (size_t)(at - utf8))) != NULL; at++) {
        size_t length = mx_text_special_at(text, at, n - (size_t)(at - utf8));
        if (length)
            return mx_fail(MXW_E_ARGUMENT, "the text contains the special token %.*s", (int)length, at);
    }
    return MXW_OK;
}

mxw_status mx_text_encode(const mx_text *text, const char *utf8, size_t n, int32_t **tokens, size_t *count) {
    mxw_status status = MXW_OK;
    encoder e = {.vocabulary = &text->vocabulary};
    *tokens = NULL;
    *count = 0;
    size_t fault = mx_utf8_check(utf8, n);
    if (fault < n)
        return mx_fail(MXW_E_ARGUMENT, "the text is not UTF-8: byte %zu is 0x%02x", fault, (unsigned char)utf8[fault]);
    if (n > UINT32_MAX / 8)
        return mx_fail(MXW_E_ARGUMENT, "the text is too long: %zu bytes", n);
    if (n > 0)
        MX_TRY(refuse_specials(text, utf8, n));
    MX_TRY(mx_grow(&e.tokens, &e.token_capacity, 1, sizeof(*e.tokens)));
    for (size_t i = 0, length; i < n; i += length) {
        length = mx_text_piece((const uint8_t *)utf8 + i, n - i);
        MX_TRY(encode_piece(&e, (const uint8_t *)utf8 + i, length));
    }
    *tokens = e.tokens;
    *count = e.n_tokens;
    e.tokens = NULL;
out:
    mx_free(e.tokens);
    mx_free(e.heap);
    mx_free(e.before);
    mx_free(e.length);
    return status;
}
