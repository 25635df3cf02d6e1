/* device/cpu/neon/table.c - the kernels that are written for NEON; the rest stays as ref/ has it. */
#include "device/cpu/kernels.h"

const mx_kernels mx_neon_table = {0};
