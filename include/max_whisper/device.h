/* max_whisper/device.h - engines, and the devices that they can run on. */
#ifndef MXW_DEVICE_H
#define MXW_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mxw_engine {
    MXW_ENGINE_CPU = 0,   /* op by op on the CPU: the baseline that the others are checked against */
    MXW_ENGINE_GPU = 1,   /* op by op on CUDA */
    MXW_ENGINE_MAX = 2    /* the compiled graph, on a GPU or on the CPU: the default */
} mxw_engine;

/* The precision of engine max's matrix products. Everything else is f32 in all of them. */
typedef enum mxw_precision {
    MXW_PRECISION_EXACT = 0,   /* CPU: f32. GPU: operands split into two f16 terms (22 bits); f16 weights are exact */
    MXW_PRECISION_F16 = 1,     /* GPU: operands rounded to f16, sums f32: faster */
    MXW_PRECISION_INT8 = 2,    /* CPU: operands of linear layers rounded to 8 bits, a scale for each row, integer sums:
                                * faster, smaller, and the same bits on every processor. GPU of compute capability 9.0:
                                * so those of the encoder and of its keys and values; everything else as with F16 */
    MXW_PRECISION_F8 = 3       /* GPU of compute capability 9.0: operands of these layers rounded to 8 bits (e4m3), a
                                * scale for each row of weights, and those keys and values kept in e4m3; everything
                                * else as with F16 */
} mxw_precision;

typedef struct mxw_device_info {
    size_t struct_size;           /* sizeof(mxw_device_info) */
    const char *id;               /* "cpu", "cuda:0": what a device option takes */
    const char *kind;             /* "cpu" or "cuda" */
    const char *description;      /* model of the processor */
    const char *features;         /* "avx2 fma f16c ..." */
    uint64_t memory_bytes;
    uint64_t memory_free_bytes;   /* of a GPU, now; 0: not known */
    int cores;                    /* cores, or multiprocessors of a GPU */
    int usable;                   /* 1 if an engine can run there now */
    const char *reason;           /* why it is usable, or why not, in one line */
    uint64_t memory_limit_bytes;  /* what the library may use of it ($MXW_DEVICE_MEMORY); 0: no limit of its own */
} mxw_device_info;

MXW_API int mxw_device_count(void);
MXW_API int mxw_accelerator_count(void);   /* usable devices that are not a CPU */
/* Strings live as long as the process. */
MXW_API mxw_status mxw_device_get(int index, mxw_device_info *info);

typedef struct mxw_device_peak {
    size_t struct_size;      /* sizeof(mxw_device_peak) */
    double gflops;           /* f32 multiply-adds in registers, all threads together: 1e9 a second, each counts two */
    double read_gbs;         /* bytes read from memory, all threads together: 1e9 a second */
    double tensor_gflops;    /* f16 products summed in f32 on tensor cores, counted alike; 0: the device has none */
    double int8_gops;        /* of a CPU: 8-bit products summed exactly in 32 bits, counted alike; else 0 */
} mxw_device_peak;

/* Measures what a device can do at most, with so many threads (0: as many as the process may use; of no effect on a
 * GPU). Takes some tenths of a second. */
MXW_API mxw_status mxw_device_measure(const char *device, int threads, mxw_device_peak *peak);

#ifdef __cplusplus
}
#endif
#endif
