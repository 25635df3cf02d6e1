/* pattern_device.h - a device for tests of the compiler: every fused op by the plain pattern that it equals, weights in
 * a packed form of its own, strided inputs nearly everywhere. It runs the CPU's plain ops and nothing else, so that a
 * compiled graph gives the bits of the eager one, and it is strict: whatever device.h promises for compiled calls is
 * checked at each call, and a violation is an internal error with a line.
 *
 * "pattern" has memory of its own (that of kit/fake_device.h), "pattern-near" the host's. */
#ifndef PATTERN_DEVICE_H
#define PATTERN_DEVICE_H
#include "device/device.h"

const mx_device *pattern_device(void);
const mx_device *pattern_near_device(void);
/* How often each op ran since the counts were last cleared, how many inputs were packed, raw halves, strided, how many
 * weights were packed, and for what entries the last of them. */
typedef struct pattern_counts {
    int ops[MX_OP_COUNT];
    int packed, raw, strided, made;
    int64_t entry_rows;
} pattern_counts;
extern pattern_counts pattern_seen;
#endif
