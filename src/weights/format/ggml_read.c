/* weights/format/ggml_read.c - the file that whisper.cpp loads: sizes, the mel filter bank, the tokens' bytes, then the
 * tensors until the file ends (ggml.c, which writes it, has the layout). Names are the canonical ones.
 *
 * The filter bank is not used: ours is the same. The tokens are those of the library or the file is refused, since its
 * text would be wrong; merges and alignment heads are not in such a file. */
#include <zlib.h>

#include "weights/format/cursor.h"
#include "weights/store.h"

#define MAGIC 0x67676d6cu
#define N_SIZES 11
#define N_BINS 201           /* of a spectrum of 400 samples */
#define N_TEXT 50256         /* tokens of text, before the first special one, in either vocabulary */
#define MAX_TOKEN_BYTES 1024
#define MAX_AXES 4
#define MAX_NAME_BYTES 128
#define TENSOR_HEAD_BYTES 12
#define QUANTIZATION_VERSION 2   /* of the blocks' layout, in thousands of the file's type */

static mxw_status truncated(const char *where) { return mx_fail(MXW_E_FORMAT, "the file is truncated in %s", where); }

static int probe_ggml(const uint8_t *bytes, size_t n) { return n >= 4 && mx_little(bytes, 4) == MAGIC; }

/* whisper.cpp's speech detection has the same first bytes, then its name. */
static int is_silero(const mx_cursor *c) {
    static const char name[] = "silero";
    return mx_cursor_left(c) > 4 + sizeof(name) && memcmp(c->data + c->at + 4, name, sizeof(name) - 1) == 0;
}

static mxw_status read_sizes(mx_weights *w, mx_cursor *c) {
    int32_t type = 0;
    mxw_dims *d = &w->dims;
    const struct {
        const char *name;
        int32_t *to;
    } fields[N_SIZES] = {
        {"n_vocab", &d->n_vocab},           {"n_audio_ctx", &d->n_audio_ctx},   {"n_audio_state", &d->n_audio_state},
        {"n_audio_head", &d->n_audio_head}, {"n_audio_layer", &d->n_audio_layer}, {"n_text_ctx", &d->n_text_ctx},
        {"n_text_state", &d->n_text_state}, {"n_text_head", &d->n_text_head},   {"n_text_layer", &d->n_text_layer},
        {"n_mels", &d->n_mels},             {"type", &type},
    };
    int ok = 1;
    if (is_silero(c))
        return mx_fail(MXW_E_FORMAT, "Silero VAD, which detects speech; not a Whisper checkpoint");
    for (int i = 0; i < N_SIZES; i++) {
        *fields[i].to = (int32_t)(uint32_t)mx_cursor_number(c, 4, &ok);
        if (ok && fields[i].to != &type && *fields[i].to < 1)
            return mx_fail(MXW_E_FORMAT, "dims: %s is %d", fields[i].name, (int)*fields[i].to);
    }
    if (!ok)
        return truncated("its sizes");
    if (type > 1 && type / 1000 != QUANTIZATION_VERSION)   /* blocks of 2023 had scales of four bytes */
        return mx_fail(MXW_E_UNSUPPORTED, "type %d: quantized in version %d of ggml's layout; version %d is read",
                       (int)type, (int)(type / 1000), QUANTIZATION_VERSION);
    return MXW_OK;
}

static mxw_status skip_filters(const mx_weights *w, mx_cursor *c) {
    int ok = 1;
    uint64_t n_mels = mx_cursor_number(c, 4, &ok), n_bins = mx_cursor_number(c, 4, &ok);
    if (!ok)
        return truncated("its filter bank");
    if (n_mels != (uint64_t)w->dims.n_mels || n_bins != N_BINS)
        return mx_fail(MXW_E_FORMAT, "a filter bank of %u by %u; %d by %d are needed", (unsigned)n_mels,
                       (unsigned)n_bins, (int)w->dims.n_mels, N_BINS);
    return mx_cursor_take(c, (size_t)(n_mels * n_bins * sizeof(float))) ? MXW_OK : truncated("its filter bank");
}

/* Whether the text tokens are those of the vocabulary that a model of this size has. Only tokens of ASCII are summed:
 * older converters wrote U+FFFD for those that end within a character. */
static int known_tokens(int32_t n_vocab, uint32_t crc) {
    static const struct {
        int32_t n_vocab;
        uint32_t crc;
    } known[] = {{51864, 0x8b823765}, {51865, 0x19e590cf}, {51866, 0x19e590cf}};
    for (size_t i = 0; i < MX_COUNT(known); i++)
        if (known[i].n_vocab == n_vocab)
            return known[i].crc == crc;
    return 1;   /* no size that the library has a vocabulary for */
}

static int is_ascii(const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (bytes[i] & 0x80)
            return 0;
    return 1;
}

static uint32_t add_token(uint32_t crc, uint32_t id, const uint8_t *bytes, size_t n) {
    const uint8_t number[4] = {(uint8_t)id, (uint8_t)(id >> 8), (uint8_t)(id >> 16), (uint8_t)(id >> 24)};
    if (id >= N_TEXT || !is_ascii(bytes, n))
        return crc;
    return (uint32_t)crc32_z(crc32_z(crc, number, sizeof(number)), bytes, n);
}

static mxw_status read_tokens(mx_weights *w, mx_cursor *c) {
    int ok = 1;
    uint64_t n = mx_cursor_number(c, 4, &ok);
    uint32_t crc = 0;
    if (!ok || n > mx_cursor_left(c) / 4)
        return truncated("its vocabulary");
    if (n > (uint64_t)w->dims.n_vocab)
        return mx_fail(MXW_E_FORMAT, "%u tokens, but the embedding has %d rows", (unsigned)n, (int)w->dims.n_vocab);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t length = mx_cursor_number(c, 4, &ok);
        if (ok && length > MAX_TOKEN_BYTES)
            return mx_fail(MXW_E_FORMAT, "token %u has %u bytes", (unsigned)i, (unsigned)length);
        const uint8_t *bytes = ok ? mx_cursor_take(c, (size_t)length) : NULL;
        if (!bytes)
            return truncated("its vocabulary");
        crc = add_token(crc, (uint32_t)i, bytes, (size_t)length);
    }
    if (!known_tokens(w->dims.n_vocab, crc))
        return mx_fail(MXW_E_UNSUPPORTED, "its %u tokens are not Whisper's", (unsigned)n);
    w->has_vocabulary = n > 0;
    return MXW_OK;
}

static mxw_status read_tensor(mx_weights *w, mx_cursor *c) {
    int ok = 1;
    uint64_t rank = mx_cursor_number(c, 4, &ok), name_n = mx_cursor_number(c, 4, &ok);
    uint32_t id = (uint32_t)mx_cursor_number(c, 4, &ok);
    int64_t dims[MAX_AXES] = {0};
    mx_ggml_type type;
    uint64_t bytes = 0;
    mxw_status status;
    if (!ok)
        return truncated("a tensor's sizes");
    if (rank < 1 || rank > MAX_AXES || name_n < 1 || name_n > MAX_NAME_BYTES)
        return mx_fail(MXW_E_FORMAT, "a tensor of %u axes with a name of %u bytes at byte %zu", (unsigned)rank,
                       (unsigned)name_n, c->at - TENSOR_HEAD_BYTES);
    for (uint64_t i = rank; i > 0; i--)   /* the innermost first */
        dims[i - 1] = (int32_t)(uint32_t)mx_cursor_number(c, 4, &ok);
    const uint8_t *name = ok ? mx_cursor_take(c, (size_t)name_n) : NULL;
    if (!name)
        return truncated("a tensor's name");
    mx_shown shown = mx_show(name, (size_t)name_n);
    if (memchr(name, 0, (size_t)name_n))
        return mx_fail(MXW_E_FORMAT, "a tensor's name has a zero byte: %s", shown.text);
    MX_TRY(mx_ggml_type_get(shown.text, id, &type));
    MX_TRY(mx_ggml_bytes(shown.text, &type, (int)rank, dims, &bytes));
    const uint8_t *data = mx_cursor_take(c, (size_t)bytes);
    if (!data)
        return mx_fail(MXW_E_FORMAT, "the file is truncated in tensor %s", shown.text);
    if (rank == 2 && dims[1] == 1 && !type.blocks)   /* the convolutions' biases are columns */
        rank = 1;
    MX_TRY(mx_ggml_add(w, (const char *)name, (size_t)name_n, &type, (int)rank, dims, data));
out:
    return status;
}

static mxw_status read_ggml(mx_weights *w, const uint8_t *file, size_t n) {
    mx_cursor c = {file, n, 4};
    mxw_status status;
    MX_TRY(read_sizes(w, &c));
    MX_TRY(mx_dims_check(&w->dims));
    MX_TRY(skip_filters(w, &c));
    MX_TRY(read_tokens(w, &c));
    while (mx_cursor_left(&c))
        MX_TRY(read_tensor(w, &c));
out:
    return status;
}

const mx_format mx_format_ggml = {
    .label = "whisper.cpp ggml",
    .naming = &mx_names_openai,
    .fixed = 1,
    .probe = probe_ggml,
    .read = read_ggml,
};
