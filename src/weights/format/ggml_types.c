/* weights/format/ggml_types.c - the element types of ggml and GGUF files. In: a type's number, sizes, bytes that are
 * all there. Out: a tensor of the file: a view of it, block types a QUANTIZED one. */
#include "tensor/blocks.h"
#include "weights/format/cursor.h"
#include "weights/store.h"

static const struct {
    uint32_t id;
    const char *name;
    mxw_dtype dtype;
} plain[] = {
    {0, "f32", MXW_F32}, {1, "f16", MXW_F16},  {30, "bf16", MXW_BF16}, {28, "f64", MXW_F64},
    {24, "i8", MXW_I8},  {26, "i32", MXW_I32}, {27, "i64", MXW_I64},
};

mxw_status mx_ggml_type_get(const char *shown_name, uint32_t id, mx_ggml_type *type) {
    *type = (mx_ggml_type){.blocks = mx_block_type_get(id)};
    if (type->blocks) {
        type->name = type->blocks->name;
        return MXW_OK;
    }
    for (size_t i = 0; i < MX_COUNT(plain); i++)
        if (plain[i].id == id) {
            type->name = plain[i].name;
            type->dtype = plain[i].dtype;
            return MXW_OK;
        }
    return mx_fail(MXW_E_UNSUPPORTED, "tensor %s is of ggml's type %u, which is not read", shown_name, (unsigned)id);
}

mxw_status mx_ggml_bytes(const char *shown_name, const mx_ggml_type *type, int rank, const int64_t *dims,
                         uint64_t *bytes) {
    int elements = type->blocks ? type->blocks->elements : 1;
    uint64_t size = type->blocks ? (uint64_t)type->blocks->bytes : mx_dtype_bytes(type->dtype), count = 1;
    for (int i = 0; i < rank; i++)
        if (dims[i] < 1 || __builtin_mul_overflow(count, (uint64_t)dims[i], &count) || count > INT64_MAX / 512)
            return mx_fail(MXW_E_FORMAT, "tensor %s is %s", shown_name, dims[i] < 1 ? "empty" : "too large");
    if (type->blocks && (rank < 3 ? dims[rank - 1] : (int64_t)count) % elements)
        return mx_fail(MXW_E_FORMAT, "tensor %s: rows of %lld do not fill %s blocks of %d", shown_name,
                       (long long)dims[rank - 1], type->name, elements);
    *bytes = count / (uint64_t)elements * size;
    return MXW_OK;
}

mxw_status mx_ggml_add(mx_weights *w, const char *name, size_t name_n, const mx_ggml_type *type, int rank,
                       const int64_t *dims, const uint8_t *data) {
    mx_tensor view = mx_tensor_of_const(type->blocks ? MXW_F32 : type->dtype, rank, dims, data);
    mx_raw *raw;
    mxw_status status = mx_raw_add(w, name, name_n, &view, &raw);
    if (status < 0)
        return status;
    raw->mapped = 1;
    if (!type->blocks)
        return MXW_OK;
    int64_t n = mx_tensor_count(&view), rows = rank < 2 || n / dims[0] % type->blocks->elements ? 1 : dims[0];
    const mx_quantized q = {
        .kind = MX_QUANTIZED_BLOCKS,
        .type = type->name,
        .blocks = type->blocks,
        .rows = rows,
        .columns = n / rows,
        .data = data,
        .row_bytes = (size_t)(n / rows / type->blocks->elements) * (size_t)type->blocks->bytes,
    };
    return mx_raw_quantize(w, raw, rank, dims, &q);
}
