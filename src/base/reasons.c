/* base/reasons.c - see reasons.h. */
#include "base/reasons.h"

#include <stddef.h>

_Static_assert(MX_N_REASONS <= 32, "reasons are bits of 32");

const char *mx_reason_name(int bit) {
    static const char *const names[] = {
#define REASON(identifier, name) name,
#include "base/reasons.def"
#undef REASON
    };
    return bit >= 0 && bit < MX_N_REASONS ? names[bit] : NULL;
}
