/* api/tokenizer.c - the public functions of tokenizers, over text/; what models share with them. */
#include "api/api.h"
#include "max_whisper/tokenizer.h"

struct mxw_tokenizer {
    mx_text *text;
};

mxw_status mxw_tokenizer_open(int n_vocab, mxw_tokenizer **out) {
    MX_NEED(out, MXW_E_ARGUMENT);
    *out = NULL;
    mxw_tokenizer *t = mx_alloc_zero(1, sizeof(*t));
    mxw_status status = t ? mx_text_open(n_vocab, &t->text) : MXW_E_MEMORY;
    if (status < 0) {
        mx_free(t);
        return status;
    }
    *out = t;
    return MXW_OK;
}

void mxw_tokenizer_close(mxw_tokenizer *tokenizer) {
    if (tokenizer)
        mx_text_close(tokenizer->text);
    mx_free(tokenizer);
}

mxw_status mx_give_tokens(const mx_text *text, const char *utf8, size_t n_bytes, int32_t *tokens, size_t *n) {
    int32_t *ids = NULL;
    size_t count = 0;
    mxw_status status = mx_text_encode(text, utf8, n_bytes, &ids, &count);
    if (status >= 0 && count > *n)
        status = mx_fail(MXW_E_ARGUMENT, "tokens: %zu do not fit in %zu", count, *n);
    if (status >= 0 && count)
        memcpy(tokens, ids, count * sizeof(*ids));
    if (ids)
        *n = count;
    mx_free(ids);
    return status;
}

mxw_status mx_give_text(mxw_status status, mx_str *from, char *text, size_t *n) {
    if (status >= 0)
        status = mx_str_status(from);
    if (status >= 0 && from->n + 1 > *n)
        status = mx_fail(MXW_E_ARGUMENT, "text: %zu bytes do not fit in %zu", from->n + 1, *n);
    if (status >= 0)
        memcpy(text, mx_str_get(from), from->n + 1);
    *n = from->n + 1;
    mx_str_free(from);
    return status;
}

mxw_status mxw_tokenizer_encode(const mxw_tokenizer *tokenizer, const char *text, size_t n_bytes, int32_t *tokens,
                                size_t *n) {
    MX_NEED(tokenizer, MXW_E_ARGUMENT);
    MX_NEED(text, MXW_E_ARGUMENT);
    MX_NEED(n, MXW_E_ARGUMENT);
    if (*n)
        MX_NEED(tokens, MXW_E_ARGUMENT);
    return mx_give_tokens(tokenizer->text, text, n_bytes, tokens, n);
}

mxw_status mxw_tokenizer_decode(const mxw_tokenizer *tokenizer, const int32_t *tokens, size_t n_tokens, int timestamps,
                                char *text, size_t *n) {
    mx_str out = {0};
    MX_NEED(tokenizer, MXW_E_ARGUMENT);
    MX_NEED(n, MXW_E_ARGUMENT);
    if (n_tokens)
        MX_NEED(tokens, MXW_E_ARGUMENT);
    if (*n)
        MX_NEED(text, MXW_E_ARGUMENT);
    mxw_status status = timestamps ? mx_text_decode_with_timestamps(tokenizer->text, tokens, n_tokens, &out)
                                   : mx_text_decode(tokenizer->text, tokens, n_tokens, &out);
    return mx_give_text(status, &out, text, n);
}

const char *mxw_tokenizer_token(const mxw_tokenizer *tokenizer, int32_t token, size_t *n_bytes) {
    MX_NEED(tokenizer, NULL);
    MX_NEED(n_bytes, NULL);
    return mx_text_token_bytes(tokenizer->text, token, n_bytes);
}
