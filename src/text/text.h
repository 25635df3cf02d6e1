/* text/text.h - public header of text/: tokens <-> UTF-8.
 *
 * In: text, or token ids. Out: the other one, as by openai-whisper's tokenizer. Invariants: ids equal tiktoken's
 * on text of any assigned code points; nothing is read at run time, both vocabularies are in the library.
 *
 * An mx_text is immutable once opened and may be shared by threads. */
#ifndef MX_TEXT_H
#define MX_TEXT_H
#include "base/base.h"

typedef struct mx_text mx_text;

/* Ids that are not text. All follow from the vocabulary's size. */
typedef struct mx_text_special {
    int32_t n_vocab;
    int32_t multilingual; /* 0: an English-only model; its language and task tokens exist but are never used */
    int32_t eot;          /* end of text; every id below it is text */
    int32_t sot;          /* start of transcript */
    int32_t first_language, n_languages;
    int32_t translate, transcribe;
    int32_t sot_lm, sot_prev; /* start of language model, of the previous text */
    int32_t no_speech, no_timestamps;
    int32_t timestamp_begin; /* <|0.00|>; then every 20 ms up to <|30.00|>, which is the last id */
} mx_text_special;

/* n_vocab: 51864 (English only), 51865 (multilingual, 99 languages), 51866 (100); any other is E_UNSUPPORTED. */
mxw_status mx_text_open(int n_vocab, mx_text **out);
void mx_text_close(mx_text *text); /* NULL is fine */

const mx_text_special *mx_text_specials(const mx_text *text);
int32_t mx_text_language_token(const mx_text *text, const char *code); /* -1 if the vocabulary has no such language */
const char *mx_text_language_of(const mx_text *text, int32_t token);   /* code; NULL if it is not a language token */

/* utf8 [n] -> *tokens [*count], owned by the caller (mx_free). E_ARGUMENT if it is not UTF-8, or if it contains
 * the text of a special token ("<|endoftext|>"). */
mxw_status mx_text_encode(const mx_text *text, const char *utf8, size_t n, int32_t **tokens, size_t *count);

/* Adds the tokens' text to *out. Invalid UTF-8 becomes U+FFFD, one for each longest part that could begin a
 * character; ids from timestamp_begin on are skipped; other special tokens are written as text.
 * E_ARGUMENT if an id is not in the vocabulary. */
mxw_status mx_text_decode(const mx_text *text, const int32_t *tokens, size_t n, mx_str *out);
/* The same, timestamps as "<|1.08|>". */
mxw_status mx_text_decode_with_timestamps(const mx_text *text, const int32_t *tokens, size_t n, mx_str *out);
/* A token's bytes, which need not be whole characters, or a special token's text; valid as long as text. NULL if the id
 * is not in the vocabulary; *n may be 0 otherwise. */
const char *mx_text_token_bytes(const mx_text *text, int32_t token, size_t *n);

/* For files of other programs. The two tokens that merge into a token; 0 if it is a byte, special, or none of both. */
int mx_text_merge(const mx_text *text, int32_t token, int32_t *left, int32_t *right);
/* Adds a token as text: its bytes as characters of GPT-2's byte-level alphabet, or a special token's text. */
void mx_text_byte_level(const mx_text *text, int32_t token, mx_str *out);

/* The non-speech tokens (annotations, speaker tags) that decoding suppresses; ascending, valid as long as text. */
void mx_text_non_speech(const mx_text *text, const int32_t **ids, size_t *n);

/* The languages, in the order of their tokens; NULL past the end. */
const char *mx_language_code(int index);
const char *mx_language_name(int index);
/* The code, from a code, a name or an alias in any case; NULL if unknown. */
const char *mx_language_find(const char *code_or_name);
#endif
