/* text/text.c - the special tokens, ids to text, and the list of non-speech tokens. */
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

#include "text/internal.h"

#define N_TIMESTAMPS 1501 /* 0.00 to 30.00 seconds in steps of 0.02 */

/* Special ids follow the vocabulary in a fixed order; `id` is the next one. */
static void add_name(mx_text *text, int32_t *id, const char *name) {
    text->name_at[*id - text->special.eot] = (uint32_t)text->names.n;
    mx_str_print(&text->names, "<|%s|>", name);
    ++*id;
}

static mxw_status name_specials(mx_text *text) {
    mx_text_special *s = &text->special;
    int32_t id = s->eot = (int32_t)text->vocabulary.n;
    add_name(text, &id, "endoftext");
    s->sot = id, add_name(text, &id, "startoftranscript");
    s->first_language = id;
    for (int i = 0; i < s->n_languages; i++)
        add_name(text, &id, mx_language_code(i));
    s->translate = id, add_name(text, &id, "translate");
    s->transcribe = id, add_name(text, &id, "transcribe");
    s->sot_lm = id, add_name(text, &id, "startoflm");
    s->sot_prev = id, add_name(text, &id, "startofprev");
    s->no_speech = id, add_name(text, &id, "nospeech");
    s->no_timestamps = id, add_name(text, &id, "notimestamps");
    s->timestamp_begin = id;
    for (int i = 0; i < N_TIMESTAMPS; i++) {
        /* Integer hundredths: a printed float would depend on the locale. */
        text->name_at[id - s->eot] = (uint32_t)text->names.n;
        mx_str_print(&text->names, "<|%d.%02d|>", i * 2 / 100, i * 2 % 100);
        id++;
    }
    text->name_at[id - s->eot] = (uint32_t)text->names.n;
    if (mx_str_status(&text->names) >= 0 && id != s->n_vocab)
        return mx_fail(MXW_E_INTERNAL, "the vocabulary has %d tokens where %d were expected", id, s->n_vocab);
    return mx_str_status(&text->names);
}

/* Symbols of annotations and speaker tags: "[DAVID]", "( speaking French )", and musical notes. Suppressed if they
 * are a single token, alone or after a blank. */
static const char *const annotation[] = {"\"",  "#",  "(",  ")",   "*",   "+",   "/",   ":",  ";",   "<",  "=",  ">",
                                         "@",   "[",  "\\", "]",   "^",   "_",   "`",   "{",  "|",   "}",  "~",  "「",
                                         "」",  "『", "』", "<<",  ">>",  "<<<", ">>>", "--", "---", "-(", "-[", "('",
                                         "(\"", "((", "))", "(((", ")))", "[[",  "]]",  "{{", "}}",  "♪♪", "♪♪♪"};
/* Suppressed by their first token even if they take several: all code points with the same first two bytes may be
 * suppressed. */
static const char *const note[] = {"♩", "♪", "♫", "♬", "♭", "♮", "♯"};
/* Allowed within words, not at the start of one. */
static const char *const leading[] = {" -", " '"};

static mxw_status add_non_speech(mx_text *text, const char *prefix, const char *symbol, int even_if_several) {
    char both[16];
    size_t n_prefix = strlen(prefix), n_symbol = strlen(symbol), count;
    int32_t *tokens = NULL;
    memcpy(both, prefix, n_prefix);
    memcpy(both + n_prefix, symbol, n_symbol);
    mxw_status status = mx_text_encode(text, both, n_prefix + n_symbol, &tokens, &count);
    if (status >= 0 && (count == 1 || even_if_several))
        text->non_speech[text->n_non_speech++] = tokens[0];
    mx_free(tokens);
    return status;
}

static int compare_ids(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static mxw_status list_non_speech(mx_text *text) {
    mxw_status status = MXW_OK;
    text->non_speech = mx_alloc_array(2 * (MX_COUNT(annotation) + MX_COUNT(note)) + MX_COUNT(leading), sizeof(int32_t));
    if (!text->non_speech)
        return MXW_E_MEMORY;
    for (size_t i = 0; i < MX_COUNT(annotation) * 2; i++)
        MX_TRY(add_non_speech(text, i % 2 ? " " : "", annotation[i / 2], 0));
    for (size_t i = 0; i < MX_COUNT(note) * 2; i++)
        MX_TRY(add_non_speech(text, i % 2 ? " " : "", note[i / 2], 1));
    for (size_t i = 0; i < MX_COUNT(leading); i++)
        MX_TRY(add_non_speech(text, "", leading[i], 1));
    qsort(text->non_speech, text->n_non_speech, sizeof(int32_t), compare_ids);
    size_t kept = 1;
    for (size_t i = 1; i < text->n_non_speech; i++)
        if (text->non_speech[i] != text->non_speech[kept - 1])
            text->non_speech[kept++] = text->non_speech[i];
    text->n_non_speech = kept;
out:
    return status;
}

mxw_status mx_text_open(int n_vocab, mx_text **out) {
    mxw_status status = MXW_OK;
    *out = NULL;
    if (n_vocab < 51864 || n_vocab > 51866)
        return mx_fail(MXW_E_UNSUPPORTED, "no vocabulary has %d tokens (51864: English, 51865 and 51866: multilingual)",
                       n_vocab);
    mx_text *text = mx_alloc_zero(1, sizeof(*text));
    if (!text)
        return MXW_E_MEMORY;
    text->special.n_vocab = n_vocab;
    text->special.multilingual = n_vocab >= 51865;
    text->special.n_languages = n_vocab - 51765 - text->special.multilingual;
    text->vocabulary = mx_vocabulary_get(text->special.multilingual);
    MX_TRY(name_specials(text));
    MX_TRY(list_non_speech(text));
    *out = text;
    text = NULL;
out:
    mx_text_close(text);
    return status;
}

void mx_text_close(mx_text *text) {
    if (!text)
        return;
    mx_str_free(&text->names);
    mx_free(text->non_speech);
    mx_free(text);
}

const mx_text_special *mx_text_specials(const mx_text *text) { return &text->special; }

int32_t mx_text_language_token(const mx_text *text, const char *code) {
    for (int i = 0; code && i < text->special.n_languages; i++)
        if (strcmp(code, mx_language_code(i)) == 0)
            return text->special.first_language + i;
    return -1;
}

const char *mx_text_language_of(const mx_text *text, int32_t token) {
    const mx_text_special *s = &text->special;
    if (token < s->first_language || token >= s->first_language + s->n_languages)
        return NULL;
    return mx_language_code(token - s->first_language);
}

const char *mx_text_token_bytes(const mx_text *text, int32_t token, size_t *n) {
    *n = 0;
    if (token < 0 || token >= text->special.n_vocab)
        return NULL;
    if (token < text->special.eot)
        return (const char *)mx_vocabulary_bytes(&text->vocabulary, (uint32_t)token, n);
    const uint32_t *at = &text->name_at[token - text->special.eot];
    *n = at[1] - at[0];
    return text->names.data + at[0];
}

/* Length of the token's text if it is a prefix of the n bytes at s, else 0. */
static size_t written(const mx_text *text, int32_t token, const char *s, size_t n) {
    size_t length;
    const char *name = mx_text_token_bytes(text, token, &length);
    return name && length <= n && memcmp(name, s, length) == 0 ? length : 0;
}

size_t mx_text_special_at(const mx_text *text, const char *s, size_t n) {
    if (n < 4 || s[0] != '<' || s[1] != '|')
        return 0;
    size_t length = 0;
    for (int32_t id = text->special.eot; id < text->special.timestamp_begin && !length; id++)
        length = written(text, id, s, n);
    if (length)
        return length;
    /* The text of a timestamp determines its id. */
    int32_t hundredths = 0;
    for (size_t i = 2; i < n && i < 7 && (s[i] == '.' || (s[i] >= '0' && s[i] <= '9')); i++)
        hundredths = s[i] == '.' ? hundredths : hundredths * 10 + (s[i] - '0');
    return written(text, text->special.timestamp_begin + hundredths / 2, s, n);
}

static mxw_status decode(const mx_text *text, const int32_t *tokens, size_t n, int with_timestamps, mx_str *out) {
    mx_str bytes = {0};
    mxw_status status = MXW_OK;
    for (size_t i = 0; i < n; i++) {
        size_t length;
        const char *token = mx_text_token_bytes(text, tokens[i], &length);
        if (!with_timestamps && tokens[i] >= text->special.timestamp_begin)
            continue;
        if (!token) {
            status = mx_fail(MXW_E_ARGUMENT, "token %d is not in the vocabulary of %d tokens", (int)tokens[i],
                             (int)text->special.n_vocab);
            goto out;
        }
        mx_str_add(&bytes, token, length);
    }
    MX_TRY(mx_str_status(&bytes));
    mx_utf8_clean(bytes.data, bytes.n, out);
    status = mx_str_status(out);
out:
    mx_str_free(&bytes);
    return status;
}

mxw_status mx_text_decode(const mx_text *text, const int32_t *tokens, size_t n, mx_str *out) {
    return decode(text, tokens, n, 0, out);
}

mxw_status mx_text_decode_with_timestamps(const mx_text *text, const int32_t *tokens, size_t n, mx_str *out) {
    return decode(text, tokens, n, 1, out);
}

void mx_text_non_speech(const mx_text *text, const int32_t **ids, size_t *n) {
    *ids = text->non_speech;
    *n = text->n_non_speech;
}
