/* api/api.h - what the public functions share. Arguments are checked in api/ and nowhere below it. */
#ifndef MX_API_H
#define MX_API_H
#include <string.h>

#include "base/base.h"
#include "max_whisper/session.h"
#include "text/text.h"

/* "mxw_model_open: out is NULL", and returns result. */
#define MX_NEED(pointer, result)                                                                                       \
    do {                                                                                                               \
        if (!(pointer)) {                                                                                              \
            mx_fail(MXW_E_ARGUMENT, "%s: %s is NULL", __func__, #pointer);                                             \
            return result;                                                                                             \
        }                                                                                                              \
    } while (0)

/* Structs of the caller, which begin with the struct_size that its header had. `what` names the struct or the function
 * in messages. */

/* Copies the fields that the caller's header had over the defaults of this one, which `to` holds. */
mxw_status mx_take_options(void *to, size_t to_size, const void *from, size_t from_size, const char *what);
/* Copies to the caller the fields that its header has; its struct_size stays as it is. */
mxw_status mx_give(void *to, size_t to_size, const void *from, size_t from_size, const char *what);
#define MX_GIVE(to, from) mx_give(to, (to)->struct_size, from, sizeof(*(from)), __func__)
/* Fills a caller's options: the defaults of the fields that its header has, zeros in those that only it has. */
void mx_give_defaults(void *to, size_t to_size, const void *from, size_t from_size);

typedef struct mx_range {
    const char *name;   /* of the option */
    double value, low, high;
    int may_be_none;    /* MXW_NONE is accepted too */
} mx_range;

mxw_status mx_check_ranges(const mx_range *ranges, size_t n);
mxw_status mx_check_batch(int batch);
/* session.c: the options as the caller gave them, checked, with the rest as by default; options may be NULL. */
mxw_status mx_take_session_options(const mxw_session_options *options, mxw_session_options *full);
/* The one place where samples are checked: E_ARGUMENT if one is infinite or NaN. */
mxw_status mx_check_samples(const float *samples, size_t n);
/* tokenizer.c: into the caller's array, of which *n is the capacity and then the count; E_ARGUMENT if it is small. */
mxw_status mx_give_tokens(const mx_text *text, const char *utf8, size_t n_bytes, int32_t *tokens, size_t *n);
/* The same for text, in bytes with its final 0; frees `from`. A negative status comes back as it is. */
mxw_status mx_give_text(mxw_status status, mx_str *from, char *text, size_t *n);
#endif
