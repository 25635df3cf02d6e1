/* weights/format/gguf.c - GGUF, versions 2 and 3: settings (key, type, value), then name, sizes, type and offset of
 * each tensor, then their bytes. Names are those of transcribe.cpp (names/gguf.def) or, in candle's files, of Hugging
 * Face.
 *
 * Invariants of a file that was read: tensors lie one after another in the order in which they are listed, each at a
 * multiple of the alignment, as libggml requires, so that no bytes belong to two; every count was checked against the
 * bytes that are left. */
#include "weights/format/cursor.h"
#include "weights/store.h"

#define MAGIC "GGUF"
#define MIN_VERSION 2
#define MAX_VERSION 3
#define DEFAULT_ALIGNMENT 32
#define MAX_ALIGNMENT (1u << 20)
#define MAX_AXES 4
#define MAX_NAME_BYTES 128
#define MIN_SETTING_BYTES 13   /* an empty key, a type, a byte */
#define MIN_TENSOR_BYTES 32    /* an empty name, one axis, type, offset */
#define MAX_DEPTH 4            /* of lists within lists */
#define N_TIMESTAMPS 1501

enum { TYPE_BOOL = 7, TYPE_STRING = 8, TYPE_ARRAY = 9, N_TYPES = 13 };

/* Bytes of a value of each type; 0: a length comes first. */
static const uint8_t type_bytes[N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* A setting's value: a text, or a number if it is one. */
typedef struct value {
    uint32_t type;
    const uint8_t *bytes;
    size_t n;               /* of the bytes; of a list, its items */
} value;

typedef struct info {
    const char *name;
    size_t name_n;
    mx_ggml_type type;
    int rank;
    int64_t dims[MAX_AXES];
    uint64_t offset, bytes;
} info;

typedef struct reader {
    mx_weights *w;
    mx_cursor c;
    uint64_t alignment, n_tensors, n_settings, n_tokens;
    int64_t no_timestamps;   /* the id; 0: not stated */
} reader;

static mxw_status truncated(const char *where) { return mx_fail(MXW_E_FORMAT, "the file is truncated in %s", where); }

static int probe_gguf(const uint8_t *bytes, size_t n) { return n >= 4 && memcmp(bytes, MAGIC, 4) == 0; }

static mxw_status read_header(reader *r) {
    int ok = 1;
    r->c.at = 4;
    uint32_t version = (uint32_t)mx_cursor_number(&r->c, 4, &ok);
    r->n_tensors = mx_cursor_number(&r->c, 8, &ok);
    r->n_settings = mx_cursor_number(&r->c, 8, &ok);
    if (!ok)
        return truncated("its header");
    if ((version & 0xffff) == 0)
        return mx_fail(MXW_E_UNSUPPORTED, "a big-endian GGUF file; only little-endian ones are read");
    if (version < MIN_VERSION || version > MAX_VERSION)
        return mx_fail(MXW_E_UNSUPPORTED, "GGUF version %u; versions %d and %d are read", (unsigned)version,
                       MIN_VERSION, MAX_VERSION);
    if (r->n_settings > mx_cursor_left(&r->c) / MIN_SETTING_BYTES ||
        r->n_tensors > mx_cursor_left(&r->c) / MIN_TENSOR_BYTES)
        return truncated("its header");
    return MXW_OK;
}

/* ---- settings ----------------------------------------------------------------------------------------- */

static const uint8_t *take_text(mx_cursor *c, size_t *n) {
    int ok = 1;
    uint64_t length = mx_cursor_number(c, 8, &ok);
    *n = (size_t)length;
    return ok && length <= mx_cursor_left(c) ? mx_cursor_take(c, (size_t)length) : NULL;
}

/* The next value of a type; 0 if it does not fit into the file, or is no value. */
static int take_value(mx_cursor *c, uint32_t type, int depth, value *v) {
    int ok = 1;
    *v = (value){.type = type};
    if (type >= N_TYPES || depth > MAX_DEPTH)
        return 0;
    if (type == TYPE_STRING) {
        v->bytes = take_text(c, &v->n);
        return v->bytes != NULL;
    }
    if (type != TYPE_ARRAY) {
        v->n = type_bytes[type];
        v->bytes = mx_cursor_take(c, v->n);
        return v->bytes != NULL;
    }
    uint32_t item = (uint32_t)mx_cursor_number(c, 4, &ok);
    uint64_t n = mx_cursor_number(c, 8, &ok);
    size_t least = item < N_TYPES && type_bytes[item] ? type_bytes[item] : 8;
    if (!ok || item >= N_TYPES || n > mx_cursor_left(c) / least)
        return 0;
    v->n = (size_t)n;
    v->bytes = c->data + c->at;
    if (type_bytes[item])
        return mx_cursor_take(c, (size_t)n * type_bytes[item]) != NULL;
    for (uint64_t i = 0; i < n; i++) {
        value inner;
        if (!take_value(c, item, depth + 1, &inner))
            return 0;
    }
    return 1;
}

/* A whole number, or -1. */
static int64_t whole(const value *v) {
    int is_whole = v->type < TYPE_STRING ? v->type != 6 : v->type == 10 || v->type == 11;
    uint64_t x = is_whole && v->n <= 8 ? mx_little(v->bytes, (int)v->n) : UINT64_MAX;
    return x > INT32_MAX ? -1 : (int64_t)x;
}

static mxw_status check_text(const char *key, const value *v, const char *want) {
    if (v->type != TYPE_STRING || v->n != strlen(want) || memcmp(v->bytes, want, v->n) != 0)
        return mx_fail(MXW_E_UNSUPPORTED, "%s is %s; Whisper has %s", key,
                       v->type == TYPE_STRING ? mx_show(v->bytes, v->n).text : "not a text", want);
    return MXW_OK;
}

static mxw_status set_number(const char *key, const value *v, int64_t low, int64_t high, int64_t *to) {
    int64_t x = whole(v);
    if (x < low || x > high)
        return mx_fail(MXW_E_FORMAT, "%s is not a whole number from %lld to %lld", key, (long long)low,
                       (long long)high);
    *to = x;
    return MXW_OK;
}

/* Uses the settings that matter: what no shape tells, and what would change the computation. */
static mxw_status use_setting(reader *r, const char *key, const value *v) {
    mxw_status status = MXW_OK;
    int64_t number = 0;
    if (strcmp(key, "general.architecture") == 0)
        return check_text(key, v, "whisper");
    if (strcmp(key, "stt.whisper.encoder.activation") == 0 || strcmp(key, "stt.whisper.decoder.activation") == 0)
        return check_text(key, v, "gelu");
    if (strcmp(key, "stt.whisper.decoder.scale_embedding") == 0)
        return whole(v) == 0 ? MXW_OK : mx_fail(MXW_E_UNSUPPORTED, "%s is true; Whisper has false", key);
    if (strcmp(key, "stt.whisper.no_timestamps_token_id") == 0)
        return set_number(key, v, 1, INT32_MAX, &r->no_timestamps);
    if (strcmp(key, "tokenizer.ggml.tokens") == 0)
        r->n_tokens = v->type == TYPE_ARRAY ? v->n : 0;
    if (strcmp(key, "tokenizer.ggml.merges") == 0)
        r->w->has_merges = v->type == TYPE_ARRAY && v->n > 0;
    if (strcmp(key, "general.alignment") == 0) {
        status = set_number(key, v, 1, MAX_ALIGNMENT, &number);
        r->alignment = (uint64_t)number;
        if (status == MXW_OK && (number & (number - 1)))
            return mx_fail(MXW_E_FORMAT, "general.alignment is %lld, not a power of two", (long long)number);
    } else if (strcmp(key, "stt.whisper.encoder.n_heads") == 0) {
        status = set_number(key, v, 1, INT32_MAX, &number);
        r->w->dims.n_audio_head = (int32_t)number;
    } else if (strcmp(key, "stt.whisper.decoder.n_heads") == 0) {
        status = set_number(key, v, 1, INT32_MAX, &number);
        r->w->dims.n_text_head = (int32_t)number;
    }
    return status;
}

static mxw_status read_settings(reader *r) {
    mxw_status status = MXW_OK;
    r->alignment = DEFAULT_ALIGNMENT;
    for (uint64_t i = 0; i < r->n_settings && status == MXW_OK; i++) {
        int ok = 1;
        size_t n;
        const uint8_t *key = take_text(&r->c, &n);
        uint32_t type = key ? (uint32_t)mx_cursor_number(&r->c, 4, &ok) : 0;
        value v;
        if (!key || !ok)
            return truncated("its settings");
        mx_shown shown = mx_show(key, n);
        if (type >= N_TYPES)
            return mx_fail(MXW_E_FORMAT, "%s is of unknown type %u", shown.text, (unsigned)type);
        if (!take_value(&r->c, type, 0, &v))
            return mx_fail(MXW_E_FORMAT, "the file is truncated in %s, or that is not a value", shown.text);
        status = use_setting(r, shown.text, &v);
    }
    r->w->has_vocabulary = r->n_tokens > 0;
    return status;
}

/* ---- tensors ------------------------------------------------------------------------------------------- */

static mxw_status read_info(reader *r, info *t) {
    int ok = 1;
    t->name = (const char *)take_text(&r->c, &t->name_n);
    uint64_t rank = t->name ? mx_cursor_number(&r->c, 4, &ok) : 0;
    if (!t->name || !ok)
        return truncated("the list of tensors");
    mx_shown shown = mx_show(t->name, t->name_n);
    if (t->name_n < 1 || t->name_n > MAX_NAME_BYTES || memchr(t->name, 0, t->name_n))
        return mx_fail(MXW_E_FORMAT, "a tensor's name of %zu bytes: %s", t->name_n, shown.text);
    if (rank < 1 || rank > MAX_AXES)
        return mx_fail(MXW_E_FORMAT, "tensor %s has %u axes", shown.text, (unsigned)rank);
    t->rank = (int)rank;
    for (uint64_t i = rank; i > 0; i--)   /* the innermost first */
        t->dims[i - 1] = (int64_t)mx_cursor_number(&r->c, 8, &ok);
    uint32_t id = (uint32_t)mx_cursor_number(&r->c, 4, &ok);
    t->offset = mx_cursor_number(&r->c, 8, &ok);
    if (!ok)
        return truncated("the list of tensors");
    mxw_status status = mx_ggml_type_get(shown.text, id, &t->type);
    return status < 0 ? status : mx_ggml_bytes(shown.text, &t->type, t->rank, t->dims, &t->bytes);
}

static uint64_t aligned(uint64_t x, uint64_t alignment) { return (x + alignment - 1) & ~(alignment - 1); }

/* Each must be where the one before it ends. */
static mxw_status add_tensors(reader *r, const info *tensors) {
    uint64_t start = aligned(r->c.at, r->alignment), at = 0, n = 0;
    n = start <= r->c.n ? r->c.n - start : 0;
    for (uint64_t i = 0; i < r->n_tensors; i++) {
        const info *t = &tensors[i];
        mx_shown shown = mx_show(t->name, t->name_n);
        if (t->offset != at)
            return mx_fail(MXW_E_FORMAT, "tensor %s is at byte %llu of the data; the one before it ends at %llu",
                           shown.text, (unsigned long long)t->offset, (unsigned long long)at);
        if (at > n || t->bytes > n - at)
            return mx_fail(MXW_E_FORMAT, "the file is truncated in tensor %s", shown.text);
        mxw_status status = mx_ggml_add(r->w, t->name, t->name_n, &t->type, t->rank, t->dims,
                                        r->c.data + start + at);
        if (status < 0)
            return status;
        at = aligned(at + t->bytes, r->alignment);
    }
    if (n > at)
        return mx_fail(MXW_E_FORMAT, "%llu bytes too many at the end", (unsigned long long)(n - at));
    return MXW_OK;
}

static mxw_status read_tensors(reader *r) {
    mxw_status status = MXW_OK;
    info *tensors = mx_alloc_zero((size_t)r->n_tensors, sizeof(*tensors));
    if (!tensors)
        return MXW_E_MEMORY;
    for (uint64_t i = 0; i < r->n_tensors; i++)
        MX_TRY(read_info(r, &tensors[i]));
    MX_TRY(add_tensors(r, tensors));
out:
    mx_free(tensors);
    return status;
}

/* ---- the format's table -------------------------------------------------------------------------------- */

/* transcribe.cpp's filter bank and window are not used: ours are the same. */
static void skip_frontend(mx_weights *w) {
    for (size_t i = 0; i < w->n_raws; i++)
        w->raws[i].used |= strncmp(w->raws[i].name, "frontend.", 9) == 0;
}

/* Special ids follow from the size of the vocabulary; a file that has them elsewhere is refused. */
static mxw_status check_tokens(const reader *r) {
    const mx_raw *embedding = NULL;
    for (size_t i = 0; i < r->w->n_raws && !embedding; i++)
        if (strcmp(r->w->raws[i].name, "dec.token_embd.weight") == 0)
            embedding = &r->w->raws[i];
    int64_t rows = embedding ? embedding->view.dims[0] : 0;
    if (rows && r->n_tokens && (uint64_t)rows != r->n_tokens)
        return mx_fail(MXW_E_FORMAT, "tokenizer.ggml.tokens: %llu tokens, but the embedding has %lld rows",
                       (unsigned long long)r->n_tokens, (long long)rows);
    if (rows && r->no_timestamps && r->no_timestamps != rows - N_TIMESTAMPS - 1)
        return mx_fail(MXW_E_UNSUPPORTED, "stt.whisper.no_timestamps_token_id is %lld; with %lld tokens Whisper has it "
                       "at %lld", (long long)r->no_timestamps, (long long)rows, (long long)rows - N_TIMESTAMPS - 1);
    return MXW_OK;
}

static mxw_status read_gguf(mx_weights *w, const uint8_t *bytes, size_t n) {
    reader r = {.w = w, .c = {bytes, n, 0}};
    mxw_status status;
    MX_TRY(read_header(&r));
    MX_TRY(read_settings(&r));
    MX_TRY(read_tensors(&r));
    MX_TRY(check_tokens(&r));
    skip_frontend(w);
out:
    return status;
}

static void source_gguf(const char *pattern, int layer, mx_tensor_source *source) {
    static const struct {
        const char *canonical, *name;
    } names[] = {
#define MX_GGUF(canonical, name) {canonical, name},
#include "weights/names/gguf.def"
#undef MX_GGUF
    };
    *source = (mx_tensor_source){.parts = 1};
    for (size_t i = 0; i < MX_COUNT(names); i++)
        if (strcmp(names[i].canonical, pattern) == 0)
            mx_arch_name(names[i].name, layer, source->name, sizeof(source->name));
}

const mx_naming mx_names_gguf = {
    .encoder_layer = "enc.blocks.",
    .decoder_layer = "dec.blocks.",
    .source = source_gguf,
};

const mx_format mx_format_gguf = {
    .label = "GGUF",
    .naming = &mx_names_hf_bare,
    .probe = probe_gguf,
    .read = read_gguf,
};
