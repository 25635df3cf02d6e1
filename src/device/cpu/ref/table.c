/* device/cpu/ref/table.c - the table of one compilation of the loops: a kernel without a reference does not link. */
#include "device/cpu/kernels.h"

extern const mx_kernels MX_REF(table);

const mx_kernels MX_REF(table) = {
#define MX_KERNEL(name, parameters) .name = MX_REF(name),
#include "device/cpu/kernels.def"
#undef MX_KERNEL
};
