/* weights/format/ct2.c - CTranslate2's model.bin: a header, then one entry per tensor (name, shape, type, bytes), then
 * aliases. Tensors become views of the file, possibly unaligned; fused rows are split by names/ct2.def.
 * Quantised ones (int8 with a scale a row, int16 with one scale) stay as they are until they are asked for. */
#include <math.h>

#include "weights/format/cursor.h"
#include "weights/store.h"

#define MIN_VERSION 4   /* earlier ones do not state the type of an entry */
#define MAX_VERSION 6
#define SPEC "WhisperSpec"
#define MAX_REVISION 3
#define MIN_RECORD_BYTES 9   /* empty name, rank, type, size */

/* Type numbers of the file. */
static const struct type {
    mxw_dtype dtype;
    int bytes, known;
} types[] = {
    {MXW_F32, 4, 1}, {MXW_I8, 1, 1}, {MXW_I8, 2, 1 /* int16: pairs of bytes */},
    {MXW_I32, 4, 1}, {MXW_F16, 2, 1}, {MXW_BF16, 2, 1},
};
enum { TYPE_INT16 = 2 };

static mxw_status truncated(void) { return mx_fail(MXW_E_FORMAT, "the file is truncated"); }

/* Length including the terminating 0, then the bytes. */
static const char *take_text(mx_cursor *c) {
    int ok = 1;
    size_t n = (size_t)mx_cursor_number(c, 2, &ok);
    const char *text = ok && n ? (const char *)mx_cursor_take(c, n) : NULL;
    return text && text[n - 1] == 0 && strlen(text) == n - 1 ? text : NULL;
}

static int probe_ct2(const uint8_t *bytes, size_t n) {
    mx_cursor c = {bytes, n, 0};
    int ok = 1;
    uint64_t version = mx_cursor_number(&c, 4, &ok);
    const char *spec = ok && version >= 2 && version < 256 ? take_text(&c) : NULL;
    return spec && strlen(spec) > 4 && strcmp(spec + strlen(spec) - 4, "Spec") == 0;
}

static mxw_status read_header(mx_cursor *c, uint64_t *n_records) {
    int ok = 1;
    uint64_t version = mx_cursor_number(c, 4, &ok);
    const char *spec = take_text(c);
    uint64_t revision = mx_cursor_number(c, 4, &ok);
    *n_records = mx_cursor_number(c, 4, &ok);
    if (!ok || !spec)
        return truncated();
    if (strcmp(spec, SPEC) != 0)
        return mx_fail(MXW_E_UNSUPPORTED, "a CTranslate2 file of another model (%s, not " SPEC ")",
                       mx_show(spec, strlen(spec)).text);
    if (version < MIN_VERSION || version > MAX_VERSION || revision > MAX_REVISION)
        return mx_fail(MXW_E_UNSUPPORTED,
                       "CTranslate2 version %d, revision %d; versions %d to %d up to revision %d are read",
                       (int)version, (int)revision, MIN_VERSION, MAX_VERSION, MAX_REVISION);
    if (*n_records > mx_cursor_left(c) / MIN_RECORD_BYTES)
        return truncated();
    return MXW_OK;
}

/* Reads the shape of an entry into view, its element count into *count. */
static mxw_status read_shape(mx_cursor *c, const char *name, mx_tensor *view, uint64_t *count) {
    int ok = 1;
    int64_t dims[MX_MAX_RANK] = {0};
    uint64_t rank = mx_cursor_number(c, 1, &ok);
    if (ok && rank > MX_MAX_RANK)
        return mx_fail(MXW_E_FORMAT, "tensor %s has %d axes", mx_show(name, strlen(name)).text, (int)rank);
    *count = 1;
    for (uint64_t i = 0; i < rank; i++) {
        dims[i] = (int64_t)mx_cursor_number(c, 4, &ok);
        if (!ok)
            return truncated();
        if (dims[i] == 0 || __builtin_mul_overflow(*count, (uint64_t)dims[i], count) || *count > INT64_MAX / 16)
            return mx_fail(MXW_E_FORMAT, "tensor %s is %s", mx_show(name, strlen(name)).text,
                           dims[i] ? "too large" : "empty");
    }
    if (!ok)
        return truncated();
    *view = mx_tensor_of(MXW_F32, (int)rank, dims, NULL);
    return MXW_OK;
}

static mxw_status read_record(mx_weights *w, mx_cursor *c) {
    const char *name = take_text(c);
    mx_tensor view;
    uint64_t count = 0;
    int ok = 1;
    if (!name)
        return truncated();
    mx_shown shown = mx_show(name, strlen(name));
    mxw_status status = read_shape(c, name, &view, &count);
    if (status < 0)
        return status;
    uint64_t type = mx_cursor_number(c, 1, &ok), bytes = mx_cursor_number(c, 4, &ok);
    if (!ok)
        return truncated();
    if (type >= MX_COUNT(types))
        return mx_fail(MXW_E_UNSUPPORTED, "tensor %s is of unknown type %d", shown.text, (int)type);
    if (count * (uint64_t)types[type].bytes != bytes)
        return mx_fail(MXW_E_FORMAT, "tensor %s holds %llu bytes, not %llu elements of %d", shown.text,
                       (unsigned long long)bytes, (unsigned long long)count, types[type].bytes);
    const uint8_t *data = mx_cursor_take(c, (size_t)bytes);
    if (!data)
        return mx_fail(MXW_E_FORMAT, "the file is truncated in tensor %s", shown.text);
    view = mx_tensor_of_const(types[type].dtype, view.rank, view.dims, data);
    mx_raw *raw;
    status = mx_raw_add(w, name, strlen(name), &view, &raw);
    if (status < 0)
        return status;
    raw->mapped = 1;
    raw->stored = type == TYPE_INT16 ? "int16" : NULL;
    return MXW_OK;
}

/* Another name for an entry that was already read. */
static mxw_status read_alias(mx_weights *w, mx_cursor *c, size_t n_records) {
    const char *alias = take_text(c), *name = alias ? take_text(c) : NULL;
    if (!name)
        return truncated();
    for (size_t i = 0; i < n_records; i++) {
        if (strcmp(w->raws[i].name, name) != 0)
            continue;
        mx_raw of = w->raws[i], *raw;
        mxw_status status = mx_raw_add(w, alias, strlen(alias), &of.view, &raw);
        if (status == MXW_OK) {
            raw->mapped = of.mapped;
            raw->stored = of.stored;
            raw->alias_of = of.name;
        }
        return status;
    }
    return mx_fail(MXW_E_MISSING, "tensor %s is missing (%s is another name for it)", mx_show(name, strlen(name)).text,
                   mx_show(alias, strlen(alias)).text);
}

static mxw_status read_ct2(mx_weights *w, const uint8_t *bytes, size_t n_bytes) {
    mx_cursor c = {bytes, n_bytes, 0};
    uint64_t n = 0;
    int ok = 1;
    mxw_status status;
    MX_TRY(read_header(&c, &n));
    for (uint64_t i = 0; i < n; i++)
        MX_TRY(read_record(w, &c));
    size_t n_records = w->n_raws;
    uint64_t n_aliases = mx_cursor_number(&c, 4, &ok);
    if (!ok)
        return truncated();
    for (uint64_t i = 0; i < n_aliases; i++)
        MX_TRY(read_alias(w, &c, n_records));
    if (mx_cursor_left(&c))
        status = mx_fail(MXW_E_FORMAT, "%zu bytes too many at the end", mx_cursor_left(&c));
out:
    return status;
}

/* ---- quantised tensors ----------------------------------------------------------------------------- */

/* The scale of a quantised tensor: one per row, or one for all. CTranslate2 stores q = round(w * scale). */
static mxw_status find_scale(const mx_weights *w, const mx_raw *raw, const mx_raw **scale) {
    char name[1024];
    snprintf(name, sizeof(name), "%s_scale", raw->name);
    mx_raw *found = mx_raw_find(w, name);
    if (!found)
        return mx_fail(MXW_E_MISSING, "tensor %s is missing", mx_show(name, strlen(name)).text);
    int64_t n = mx_tensor_count(&found->view);
    if (found->view.dtype != MXW_F32 || found->quantized || (n != 1 && n != raw->view.dims[0]))
        return mx_fail(MXW_E_FORMAT, "tensor %s is not one f32 a row", mx_show(name, strlen(name)).text);
    found->used = 1;
    *scale = found;
    return MXW_OK;
}

static mxw_status quantise(mx_weights *w, mx_raw *raw) {
    const mx_raw *scale = NULL;
    mxw_status status = find_scale(w, raw, &scale);
    if (status < 0)
        return status;
    const int wide = raw->stored != NULL;
    const int64_t rows = raw->view.dims[0], columns = mx_tensor_count(&raw->view) / rows;
    const mx_quantized q = {
        .kind = wide ? MX_QUANTIZED_INT16 : MX_QUANTIZED_INT8,
        .type = wide ? "int16" : "int8",
        .divide = 1,
        .rows = rows,
        .columns = columns,
        .data = raw->view.data,
        .row_bytes = (size_t)columns * (wide ? 2 : 1),
        .scales = scale->view,
    };
    status = mx_quantized_check(&q, mx_show(raw->name, strlen(raw->name)).text);
    return status < 0 ? status : mx_raw_quantize(w, raw, raw->view.rank, raw->view.dims, &q);
}

/* ---- settings ---------------------------------------------------------------------------------------- */

/* A scalar's value; INT64_MIN if it is not there. */
static int64_t setting(mx_weights *w, const char *name) {
    mx_raw *raw = mx_raw_find(w, name);
    float value = 0;
    if (!raw || raw->quantized || mx_tensor_count(&raw->view) != 1)
        return INT64_MIN;
    if (raw->stored)   /* int16 */
        value = (float)(int16_t)(uint16_t)mx_little(raw->view.data, 2);
    else if (mx_tensor_to_f32(&raw->view, &value) < 0 || !(fabsf(value) < 1e6f))
        return INT64_MIN;
    raw->used = 1;
    return (int64_t)value;
}

static mxw_status check_settings(mx_weights *w) {
    static const struct {
        const char *name;
        int value;
    } settings[] = {
#define MX_CT2(canonical, name, part, parts)
#define MX_CT2_ZERO(side, name, part, parts)
#define MX_CT2_SETTING(name, value) {name, value},
#include "weights/names/ct2.def"
#undef MX_CT2
#undef MX_CT2_ZERO
#undef MX_CT2_SETTING
    };
    for (size_t i = 0; i < MX_COUNT(settings); i++) {
        int64_t value = setting(w, settings[i].name);
        if (value != INT64_MIN && value != settings[i].value)
            return mx_fail(MXW_E_UNSUPPORTED, "%s is %lld; Whisper has %d", settings[i].name, (long long)value,
                           settings[i].value);
    }
    return MXW_OK;
}

static mxw_status settle_ct2(mx_weights *w) {
    mxw_status status = check_settings(w);
    for (size_t i = 0; i < w->n_raws && status == MXW_OK; i++) {
        mx_raw *raw = &w->raws[i];
        if (raw->view.dtype == MXW_I8 && raw->view.rank >= 2 && !raw->alias_of)
            status = quantise(w, raw);
    }
    for (size_t i = 0; i < w->n_raws && status == MXW_OK; i++) {
        const mx_raw *of = w->raws[i].alias_of ? mx_raw_find(w, w->raws[i].alias_of) : NULL;
        if (of) {
            w->raws[i].view = of->view;
            w->raws[i].mapped = of->mapped;
            w->raws[i].stored = of->stored;
            w->raws[i].stored_bytes = of->stored_bytes;
            w->raws[i].quantized = of->quantized;
        }
    }
    int64_t audio = setting(w, "encoder/num_heads"), text = setting(w, "decoder/num_heads");
    w->dims.n_audio_head = audio > 0 ? (int32_t)audio : 0;
    w->dims.n_text_head = text > 0 ? (int32_t)text : 0;
    return status;
}

/* ---- checks after all tensors are resolved ------------------------------------------------------------- */

static mxw_status check_zeros(mx_weights *w) {
    enum { ENCODER, DECODER };
    static const struct {
        int side;
        const char *name;
        int part, parts;
    } zeros[] = {
#define MX_CT2(canonical, name, part, parts)
#define MX_CT2_ZERO(side, name, part, parts) {side, name, part, parts},
#define MX_CT2_SETTING(name, value)
#include "weights/names/ct2.def"
#undef MX_CT2
#undef MX_CT2_ZERO
#undef MX_CT2_SETTING
    };
    for (size_t i = 0; i < MX_COUNT(zeros); i++) {
        int layers = zeros[i].side == ENCODER ? w->dims.n_audio_layer : w->dims.n_text_layer;
        for (int layer = 0; layer < layers; layer++) {
            mx_tensor_source source = {.part = zeros[i].part, .parts = zeros[i].parts};
            mx_arch_name(zeros[i].name, layer, source.name, sizeof(source.name));
            mx_raw *raw = mx_raw_find(w, source.name);
            mxw_status status = raw ? mx_rule_zero_bias(raw, &source) : MXW_E_INTERNAL;   /* resolved before */
            if (status < 0)
                return status;
        }
    }
    return MXW_OK;
}

static mxw_status check_ct2(mx_weights *w) {
    mx_raw *scale = mx_raw_find(w, "decoder/projection/weight_scale");
    if (scale)
        scale->used = 1;
    mxw_status status;
    MX_TRY(check_zeros(w));
    MX_TRY(mx_rule_tied(w, "decoder/embeddings/weight", "decoder/projection/weight"));
    MX_TRY(mx_config_load(w));
out:
    return status;
}

static void source_ct2(const char *pattern, int layer, mx_tensor_source *source) {
    static const struct {
        const char *canonical, *name;
        int part, parts;
    } names[] = {
#define MX_CT2(canonical, name, part, parts) {canonical, name, part, parts},
#define MX_CT2_ZERO(side, name, part, parts)
#define MX_CT2_SETTING(name, value)
#include "weights/names/ct2.def"
#undef MX_CT2
#undef MX_CT2_ZERO
#undef MX_CT2_SETTING
    };
    *source = (mx_tensor_source){.parts = 1};
    for (size_t i = 0; i < MX_COUNT(names); i++) {
        if (strcmp(names[i].canonical, pattern) != 0)
            continue;
        mx_arch_name(names[i].name, layer, source->name, sizeof(source->name));
        source->part = names[i].part;
        source->parts = names[i].parts;
        return;
    }
}

const mx_naming mx_names_ct2 = {
    .encoder_layer = "encoder/layer_",
    .decoder_layer = "decoder/layer_",
    .folder = 1,
    .settle = settle_ct2,
    .source = source_ct2,
    .check = check_ct2,
};

const mx_format mx_format_ct2 = {
    .label = "CTranslate2 model.bin",
    .naming = &mx_names_ct2,
    .fixed = 1,
    .probe = probe_ct2,
    .read = read_ct2,
};
