/* weights/format/pickle.h - the small subset of Python's pickle that PyTorch's state dicts and TorchScript modules use.
 *
 * In: bytes. Out: a tree of values (a graph, if the pickle says so: a value may hold itself). An object of a
 * TorchScript class, whatever its name, is a DICT of its attributes. Invariants: nothing is ever executed; only the
 * opcodes and callables that these need are supported, each with a fixed meaning, and anything else is rejected by
 * name. */
#ifndef MX_WEIGHTS_PICKLE_H
#define MX_WEIGHTS_PICKLE_H
#include "base/mem.h"
#include "tensor/tensor.h"

typedef enum mx_pickle_kind {
    MX_PICKLE_NONE, MX_PICKLE_BOOL, MX_PICKLE_INT, MX_PICKLE_FLOAT, MX_PICKLE_TEXT, MX_PICKLE_TUPLE, MX_PICKLE_LIST,
    MX_PICKLE_DICT, MX_PICKLE_GLOBAL, MX_PICKLE_STORAGE, MX_PICKLE_TENSOR
} mx_pickle_kind;

typedef struct mx_pickle mx_pickle;

/* A tensor as PyTorch describes it; offset and strides in elements, all sizes and strides >= 0, not yet checked
 * against the storage. */
typedef struct mx_pickle_tensor {
    const mx_pickle *storage;
    int64_t offset;
    int rank;
    int64_t dims[MX_MAX_RANK], strides[MX_MAX_RANK];
} mx_pickle_tensor;

struct mx_pickle {
    mx_pickle_kind kind;
    int object;     /* a DICT: the attributes of an object of a TorchScript class */
    union {
        int64_t number;                                                     /* BOOL, INT */
        double real;
        struct { const char *data; size_t n; } text;                        /* in the pickle's bytes, UTF-8, no 0 */
        struct { mx_pickle **items; size_t n, capacity; } list;             /* DICT: key, value, key, ... */
        const struct mx_pickle_global *global;
        struct { mxw_dtype dtype; const mx_pickle *key; int64_t n; } storage;   /* n elements */
        mx_pickle_tensor *tensor;
    };
};

/* The value is in the arena; its texts point into bytes. */
mxw_status mx_pickle_load(const uint8_t *bytes, size_t n, mx_arena *arena, const mx_pickle **out);
/* The last value of a key of a DICT; NULL if it is not a DICT or has no such key. */
const mx_pickle *mx_pickle_get(const mx_pickle *dict, const char *key);
#endif
