/* cli/common/module.h - the command line's own modules: shared libraries opened when a subcommand needs one.
 *
 * They lie where the library finds its own: $MXW_MODULE_DIR, else max-whisper-modules beside the library.
 */
#ifndef CLI_COMMON_MODULE_H
#define CLI_COMMON_MODULE_H

#include <stddef.h>

/* The entry of NAME.so, or NULL with why in one line. The module stays open. */
void *module_entry(const char *name, const char *entry, char *why, size_t size);

#endif
