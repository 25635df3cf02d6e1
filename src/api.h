/* api.h - what the public functions share: arguments are checked in api*.c and nowhere below. */
#ifndef MX_API_H
#define MX_API_H
#include <string.h>

#include "base/status.h"

/* "mxw_model_open: out is NULL", and returns result. */
#define MX_NEED(pointer, result)                                                                                       \
    do {                                                                                                               \
        if (!(pointer)) {                                                                                              \
            mx_fail(MXW_E_ARGUMENT, "%s: %s is NULL", __func__, #pointer);                                             \
            return result;                                                                                             \
        }                                                                                                              \
    } while (0)

/* The fields that the caller's header knew, over the defaults of this one, which `to` holds. */
static inline mxw_status mx_take_options(void *to, size_t to_size, const void *from, size_t from_size,
                                         const char *what) {
    if (from_size < sizeof(size_t) || from_size > 65536)
        return mx_fail(MXW_E_ARGUMENT, "%s: struct_size is %zu: fill it with its _default() first", what, from_size);
    memcpy(to, from, MX_MIN(to_size, from_size));
    memcpy(to, &to_size, sizeof(to_size));
    return MXW_OK;
}

/* The fields that the caller's header knows; its struct_size stays. */
static inline mxw_status mx_give(void *to, size_t to_size, const void *from, size_t from_size, const char *what) {
    const size_t head = sizeof(size_t);
    if (to_size < head || to_size > 65536)
        return mx_fail(MXW_E_ARGUMENT, "%s: struct_size is %zu: set it to the struct's size first", what, to_size);
    memcpy((char *)to + head, (const char *)from + head, MX_MIN(to_size, from_size) - head);
    return MXW_OK;
}
#endif
