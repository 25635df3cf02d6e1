/* weights/silero.c - opens the weights of Silero VAD, the network that detects speech: silero_vad.jit (TorchScript, for
 * 16 and 8 kHz) or silero_vad_16k.safetensors. Out: the tensors of one rate under canonical names, all there, in a
 * float type and of the right shape, or one line that says what the file is not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "weights/format/zip.h"
#include "weights/store.h"
#include "weights/weights.h"

#define JIT_16K "_model."
#define JIT_8K "_model_8k."

typedef struct silero_tensor {
    const char *name, *jit, *safetensors;
    int rank;
    int64_t dims[3];
} silero_tensor;

/* Tensor i at a rate. */
static silero_tensor tensor_at(int sample_rate, int64_t i) {
    const int64_t window = sample_rate == 16000 ? 256 : 128, bins = window / 2 + 1;
    const silero_tensor tensors[] = {
#define MX_SILERO(name, jit, safetensors, rank, ...) {name, jit, safetensors, rank, {__VA_ARGS__}},
#include "weights/names/silero.def"
#undef MX_SILERO
    };
    return tensors[i];
}

static const char *const names[] = {
#define MX_SILERO(name, ...) name,
#include "weights/names/silero.def"
#undef MX_SILERO
};

static const mx_format jit = {.label = "Silero VAD .jit"};
static const mx_format safetensors = {.label = "Silero VAD safetensors"};

/* The file's name of a tensor. */
static void file_name(const mx_format *format, int sample_rate, const silero_tensor *t, char name[96]) {
    if (format == &jit)
        snprintf(name, 96, "%s%s", sample_rate == 16000 ? JIT_16K : JIT_8K, t->jit);
    else
        snprintf(name, 96, "%s", t->safetensors);
}

/* The kind of Silero file that the raw tensors are, by its STFT; NULL: none. */
static const mx_format *kind_of(const mx_weights *w) {
    const silero_tensor stft = tensor_at(16000, 0);
    char name[96];
    file_name(&jit, 16000, &stft, name);
    if (mx_raw_find(w, name))
        return &jit;
    return mx_raw_find(w, stft.safetensors) ? &safetensors : NULL;
}

mxw_status mx_silero_refuse(const mx_weights *w) {
    return kind_of(w) ? mx_fail(MXW_E_FORMAT, "Silero VAD, which detects speech; not a Whisper checkpoint") : MXW_OK;
}

static mxw_status resolve(mx_weights *w, int64_t i, mx_canonical *named) {
    silero_tensor t = tensor_at(w->sample_rate, i);
    char name[96];
    file_name(w->format, w->sample_rate, &t, name);
    mx_raw *raw = mx_raw_find(w, name);
    if (!raw)
        return mx_fail(MXW_E_MISSING, "tensor %s is missing (%s in the file's own names)", t.name, name);
    *named = (mx_canonical){.name = names[i], .raw = raw, .view = raw->view};
    raw->used = 1;
    w->n_parameters += mx_tensor_count(&raw->view);
    return mx_shape_check(t.name, &raw->view, t.rank, t.dims);
}

static mxw_status read_silero(mx_weights *w) {
    mxw_status status;
    static const char *const other = "not the weights of Silero VAD (silero_vad.jit or silero_vad_16k.safetensors)";
    if (mx_zip_probe(w->bytes, w->n_bytes))
        status = mx_format_pt.read(w, w->bytes, w->n_bytes);
    else if (mx_format_safetensors.probe(w->bytes, w->n_bytes))
        status = mx_format_safetensors.read(w, w->bytes, w->n_bytes);
    else
        return mx_fail(MXW_E_FORMAT, "%s", other);
    if (status == MXW_OK)
        status = mx_raws_sort(w);
    if (status < 0)
        return status;
    w->format = kind_of(w);
    if (!w->format)
        return mx_fail(MXW_E_FORMAT, "%s", other);
    if (w->format == &safetensors && w->sample_rate != 16000)
        return mx_fail(MXW_E_UNSUPPORTED, "has weights for 16 kHz only; those for 8 kHz are in " MX_SILERO_FILE);
    return mx_resolve_all(w, (int64_t)MX_COUNT(names), resolve);
}

static mxw_status finish(mx_weights *w, mxw_status status, mx_weights **out) {
    if (status < 0) {
        mx_fail_in(status, "%s", w->path ? w->path : "?");
        mx_weights_close(w);
        return status;
    }
    *out = w;
    return MXW_OK;
}

/* A handle for one rate; NULL after a failure, which *status has. */
static mx_weights *create(int sample_rate, mxw_status *status) {
    if (sample_rate != 16000 && sample_rate != 8000) {
        *status = mx_fail(MXW_E_ARGUMENT, "sample_rate %d: Silero VAD has weights for 16000 and 8000", sample_rate);
        return NULL;
    }
    mx_weights *w = mx_alloc_zero(1, sizeof(*w));
    *status = w ? MXW_OK : MXW_E_MEMORY;
    if (w)
        w->sample_rate = sample_rate;
    return w;
}

mxw_status mx_silero_open_bytes(const uint8_t *bytes, size_t n, int sample_rate, mx_weights **out) {
    mxw_status status;
    *out = NULL;
    mx_weights *w = create(sample_rate, &status);
    if (!w)
        return status;
    w->path = "memory";
    w->bytes = bytes;
    w->n_bytes = n;
    return finish(w, read_silero(w), out);
}

static mxw_status open_path(mx_weights *w, const char *path) {
    w->path = mx_arena_strdup(&w->arena, path);
    if (!w->path)
        return MXW_E_MEMORY;
    mxw_status status = mx_map_open(path, &w->map);
    if (status < 0)
        return status;
    w->bytes = w->map.data;
    w->n_bytes = w->map.n;
    return read_silero(w);
}

mxw_status mx_silero_open(const char *name_or_path, const char *model_dir, int sample_rate, mx_weights **out) {
    mx_str path = {0};
    mxw_status status;
    *out = NULL;
    mx_weights *w = create(sample_rate, &status);
    if (!w)
        return status;
    status = mx_silero_locate(name_or_path, model_dir, &path);
    if (status == MXW_OK)
        status = finish(w, open_path(w, mx_str_get(&path)), out);
    else
        mx_weights_close(w);
    if (status == MXW_OK)
        mx_log(MXW_LOG_INFO, "weights", "%s: %s, %d Hz, %lld parameters", w->path, w->format->label, sample_rate,
               (long long)w->n_parameters);
    mx_str_free(&path);
    return status;
}
