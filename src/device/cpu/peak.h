/* device/cpu/peak.h - the peak of the processor, measured: what every benchmark is compared with. */
#ifndef MX_CPU_PEAK_H
#define MX_CPU_PEAK_H
#include "device/device.h"

/* One measurement of some hundred microseconds with all of the pool's threads, on an instruction set by its name: f32
 * multiply-adds in registers (each counts two), and bytes read, both 1e9 a second. Others on the machine only make them
 * less: take the best of several. bytes: n of them, 64-byte aligned, written before. int8: 8-bit products
 * with exact sums in 32 bits, by the instructions of gemm/w8a8's kernels. */
double mx_peak_gflops(const char *isa, mx_pool *pool);
double mx_peak_int8_gops(const char *isa, mx_pool *pool);
double mx_peak_read_gbs(const char *isa, mx_pool *pool, const void *bytes, size_t n);

/* Of the device's table: the best of several, on the instruction set in use. */
mxw_status mx_cpu_measure(const mx_device *device, mx_pool *pool, mxw_device_peak *peak);
#endif
