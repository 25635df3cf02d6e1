/* api/options.c - structs of the caller are copied in and out by their struct_size; numbers are checked. */
#include "api/api.h"

#include <math.h>

#define MAX_STRUCT 65536   /* bytes: more than any struct will have, less than what garbage usually is */

mxw_status mx_take_options(void *to, size_t to_size, const void *from, size_t from_size, const char *what) {
    if (from_size < sizeof(size_t) || from_size > MAX_STRUCT)
        return mx_fail(MXW_E_ARGUMENT, "%s: struct_size is %zu: set it first, with _default() or to sizeof",
                       what, from_size);
    memcpy(to, from, MX_MIN(to_size, from_size));
    memcpy(to, &to_size, sizeof(to_size));
    return MXW_OK;
}

mxw_status mx_give(void *to, size_t to_size, const void *from, size_t from_size, const char *what) {
    const size_t head = sizeof(size_t);
    if (to_size < head || to_size > MAX_STRUCT)
        return mx_fail(MXW_E_ARGUMENT, "%s: struct_size is %zu: set it to the struct's size first", what, to_size);
    memcpy((char *)to + head, (const char *)from + head, MX_MIN(to_size, from_size) - head);
    return MXW_OK;
}

void mx_give_defaults(void *to, size_t to_size, const void *from, size_t from_size) {
    if (!to || to_size < sizeof(size_t) || to_size > MAX_STRUCT)
        return;
    memset(to, 0, to_size);
    memcpy(to, from, MX_MIN(to_size, from_size));
    memcpy(to, &to_size, sizeof(to_size));
}

mxw_status mx_check_ranges(const mx_range *ranges, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const mx_range *r = &ranges[i];
        if (r->may_be_none && r->value == MXW_NONE)
            continue;
        if (!(r->value >= r->low && r->value <= r->high))
            return mx_fail(MXW_E_ARGUMENT, "%s: %g is not from %g to %g", r->name, r->value, r->low, r->high);
    }
    return MXW_OK;
}

mxw_status mx_check_batch(int batch) {
    return batch < 1 || batch > 256 ? mx_fail(MXW_E_ARGUMENT, "batch: %d is not from 1 to 256", batch) : MXW_OK;
}

/* The number of samples before the first infinity or NaN. Such a value has an exponent of all ones, so that adding one
 * to it carries into the sign bit. Blocks of samples are tested without branches. */
static size_t count_finite(const float *samples, size_t n) {
    enum { AT_ONCE = 64 };
    size_t i = 0;
    for (; i + AT_ONCE <= n; i += AT_ONCE) {
        uint32_t carry = 0;
        for (size_t j = 0; j < AT_ONCE; j++) {
            uint32_t bits;
            memcpy(&bits, &samples[i + j], sizeof(bits));
            carry |= (bits & 0x7fffffffu) + 0x00800000u;
        }
        if (carry >> 31)
            break;
    }
    while (i < n && isfinite(samples[i]))
        i++;
    return i;
}

mxw_status mx_check_samples(const float *samples, size_t n) {
    size_t finite = n ? count_finite(samples, n) : 0;
    return finite < n ? mx_fail(MXW_E_ARGUMENT, "samples: number %zu is not finite", finite) : MXW_OK;
}
