/* base/cpu.h - the instruction sets that code is compiled for: which of them the processor has, and MXW_CPU allows.
 * Names, from worst to best: on x86-64 "ref", "avx2", "avx512", "avx512vnni", "amx"; on 64-bit ARM "ref",
 * "neon", "neondot"; elsewhere "ref", which every processor has. */
#ifndef MX_CPU_H
#define MX_CPU_H

int mx_cpu_has(const char *set);   /* 0 also for sets of other architectures */
int mx_cpu_may(const char *set);   /* has it, and MXW_CPU does not cap it below */
#endif
