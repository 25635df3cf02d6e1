/* weights/format/npz_weights.c - a .npz as a checkpoint: MLX's weights.npz, or what `model convert --format npz` wrote,
 * whose dimensions and alignment heads are arrays of their own. */
#include <stdio.h>
#include <string.h>

#include "weights/format/cursor.h"
#include "weights/format/zip.h"
#include "weights/store.h"

/* A ZIP whose first entry is a .npy; of a long name, only what is there is compared. */
static int probe_npz(const uint8_t *bytes, size_t n) {
    if (!mx_zip_probe(bytes, n) || n < 30)
        return 0;
    size_t name_n = (size_t)mx_little(bytes + 26, 2);
    return name_n > 4 && n >= 30 + name_n && memcmp(bytes + 30 + name_n - 4, ".npy", 4) == 0;
}

/* A scalar "dims.NAME" that convert wrote. */
static mxw_status read_dimension(mx_weights *w, const mx_npz_array *array) {
    mxw_dims *d = &w->dims;
    const struct {
        const char *name;
        int32_t *to;
    } fields[] = {
        {"dims.n_mels", &d->n_mels},               {"dims.n_audio_ctx", &d->n_audio_ctx},
        {"dims.n_audio_state", &d->n_audio_state}, {"dims.n_audio_head", &d->n_audio_head},
        {"dims.n_audio_layer", &d->n_audio_layer}, {"dims.n_vocab", &d->n_vocab},
        {"dims.n_text_ctx", &d->n_text_ctx},       {"dims.n_text_state", &d->n_text_state},
        {"dims.n_text_head", &d->n_text_head},     {"dims.n_text_layer", &d->n_text_layer},
    };
    int32_t value = 0;
    if (array->tensor.dtype == MXW_I32 && mx_tensor_count(&array->tensor) == 1)
        memcpy(&value, array->tensor.data, sizeof(value));
    for (size_t i = 0; i < MX_COUNT(fields); i++)
        if (strcmp(fields[i].name, array->name) == 0) {
            *fields[i].to = value;
            return value > 0 ? MXW_OK : mx_fail(MXW_E_FORMAT, "%s is not a positive number", fields[i].name);
        }
    return MXW_OK;
}

static mxw_status read_npz(mx_weights *w, const uint8_t *bytes, size_t n) {
    mxw_status status = mx_npz_open_words(bytes, n, &w->npz);
    for (size_t i = 0; i < w->npz.n && status == MXW_OK; i++) {
        const mx_npz_array *array = &w->npz.arrays[i];
        mx_raw *raw;
        for (int axis = 0; axis < array->tensor.rank; axis++)
            if (array->tensor.dims[axis] < 1)
                return mx_fail(MXW_E_FORMAT, "array %s is empty", mx_show(array->name, strlen(array->name)).text);
        if (strncmp(array->name, "dims.", 5) == 0) {
            status = read_dimension(w, array);
            continue;
        }
        status = mx_raw_add(w, array->name, strlen(array->name), &array->tensor, &raw);
        if (status == MXW_OK) {
            raw->mapped = !array->inflated;
            raw->stored = array->words ? MX_U32 : NULL;
        }
    }
    return status;
}

const mx_format mx_format_npz = {
    .label = "numpy .npz",
    .naming = &mx_names_openai,
    .probe = probe_npz,
    .read = read_npz,
};
