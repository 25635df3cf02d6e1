/* lab/exact.h - internal to lab/: one op of a run in float64, with a bound on the error of the f32 result.
 * u = 2^-24, the unit roundoff of f32; a sum of n products in any order is off by at most about n u sum |a b|. */
#ifndef MX_LAB_EXACT_H
#define MX_LAB_EXACT_H
#include "device/device.h"

#define MX_UNIT 0x1p-24

typedef struct mx_exact {
    double value;      /* what the output should be */
    double bound;      /* on |output - value| */
} mx_exact;

typedef struct mx_exact_op {
    mx_op op;
    const char *bound;                                    /* its derivation, human-readable */
    int output;                                           /* which result is checked */
    mx_exact (*at)(const mx_call *call, int64_t index, double *scratch);   /* element `index` of that result */
    /* Doubles that `at` needs for a call; kept from one index to the next, the last is -1 initially. */
    int64_t (*scratch)(const mx_call *call);
} mx_exact_op;

/* NULL: an op that is not checked (it only moves elements, or is checked elsewhere). */
const mx_exact_op *mx_exact_find(mx_op op);
#endif
