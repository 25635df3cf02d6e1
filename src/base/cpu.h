/* base/cpu.h - the instruction sets that code is compiled for: which of them the processor has, and MXW_CPU allows.
 * Names, from worst to best: on x86-64 "ref", "avx2", "avxvnni", "avx512", "avx512vnni", "amx"; on 64-bit ARM
 * "ref", "neon", "neondot"; elsewhere "ref", which every processor has. A processor may lack one that is not its best:
 * "avxvnni" is VNNI on vectors of 32 bytes, which many with "avx512vnni" do not have. */
#ifndef MX_CPU_H
#define MX_CPU_H
#include "base/status.h"

int mx_cpu_has(const char *set);   /* 0 also for sets of other architectures */
int mx_cpu_may(const char *set);   /* has it, and MXW_CPU does not cap it below */
mxw_status mx_cpu_check(void);     /* MXW_E_ARGUMENT if MXW_CPU is neither empty nor a set of this architecture */
/* Has it, and the system lets this process use it: that grants the tiles of "amx", for good, when they are asked for,
 * which is here. The other sets need no more than mx_cpu_has. After a refusal errno says why. */
int mx_cpu_enable(const char *set);
#endif
