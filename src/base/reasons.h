/* base/reasons.h - what can speak against a word: bits, for the guard that sets them and for output/, which names them. */
#ifndef MX_REASONS_H
#define MX_REASONS_H

typedef enum mx_reason {
#define REASON(identifier, name) MX_REASON_##identifier,
#include "base/reasons.def"
#undef REASON
    MX_N_REASONS
} mx_reason;

#define MX_REASON_BIT(identifier) (1u << MX_REASON_##identifier)

/* The name of a bit; NULL past the end. */
const char *mx_reason_name(int bit);
#endif
