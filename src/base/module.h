/* base/module.h - shared libraries opened at run time, so that the core depends on neither FFmpeg, BLAS nor CUDA.
 * A module exports one function, mx_module_open: host services and the ABI hash go in, a table of functions comes
 * out, or NULL if the hash differs. Found in $MXW_MODULE_DIR, else in "max-whisper-modules" beside the library. */
#ifndef MX_MODULE_H
#define MX_MODULE_H
#include "base/status.h"

/* Changes whenever a structure of the module interface does. */
#define MX_MODULE_ABI 0x4d58570bu

typedef struct mx_host {
    mxw_status (*fail)(mxw_status code, const char *format, ...);
    void (*log)(mxw_log_level level, const char *component, const char *format, ...);
    void *(*alloc)(size_t bytes);
    void (*free)(void *block);
    void (*log_timed)(mxw_log_level level, const char *component, double duration_ms, const char *format, ...);
} mx_host;

typedef const void *(*mx_module_open_fn)(const mx_host *host, uint32_t abi);
#define MX_MODULE_ENTRY "mx_module_open"

/* The table of a module ("ffmpeg", "blas", "cuda"), opened once and kept for the life of the process.
 * E_NOT_FOUND if it is not installed, E_UNSUPPORTED if it cannot be opened (the error line says why). */
mxw_status mx_module_get(const char *name, const void **table);
#endif
