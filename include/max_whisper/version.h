/* max_whisper/version.h - version numbers, and the macro that marks exported functions.
 *
 * MXW_VERSION_* are those of the header that a program was compiled with; mxw_version() is the library that it runs
 * with. They may differ: see mxw_abi_version().
 */
#ifndef MXW_VERSION_H
#define MXW_VERSION_H

/* A binding generator may define MXW_API as empty. */
#ifndef MXW_API
#if defined(__GNUC__)
#define MXW_API __attribute__((visibility("default")))
#else
#define MXW_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define MXW_VERSION_MAJOR 0
#define MXW_VERSION_MINOR 1
#define MXW_VERSION_PATCH 0

/* Raised when a program that was compiled with an older header would no longer work. New functions, new enum values and
 * new fields at the end of a struct do not raise it. */
#define MXW_ABI_VERSION 1

MXW_API const char *mxw_version(void);   /* "0.1.0" */
/* MXW_ABI_VERSION of the library. Programs and bindings that load the library at run time compare it with their own and
 * refuse to go on if the two differ. max_whisper/lab.h is not covered. */
MXW_API int mxw_abi_version(void);

#ifdef __cplusplus
}
#endif
#endif
