/* plain.h - one plain op on tensors in host memory, run by the CPU the reference's way: what fused ops and error bounds
 * in the tests are made of. Memory comes from malloc, so that failing memory of the library is not disturbed. */
#ifndef PLAIN_H
#define PLAIN_H
#include "device/device.h"

/* Infers, allocates and runs; outputs[i].data is the caller's to free(). An input whose data is NULL was left out. */
mxw_status plain_run(mx_op op, const mx_attrs *attrs, const mx_tensor *inputs, int n_inputs, mx_tensor *outputs);
/* A row-major copy in memory of its own, to be freed. */
mx_tensor plain_copy(const mx_tensor *t);
#endif
