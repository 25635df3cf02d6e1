/* cli/common/formats.h - lists of result formats, as --format takes them: "srt", "txt,json", "all". */
#ifndef CLI_COMMON_FORMATS_H
#define CLI_COMMON_FORMATS_H

#include <stddef.h>

enum { FORMATS_IN_ALL = 5 }; /* of mxw_format_name: those of openai-whisper */

/* As option_row.check. */
int check_formats(const char *value, char *message, size_t size);
/* Every format, then all; for completion. */
const char *format_value(int index);
/* Whether the list has the format: by name, or as one of all. NULL: all. */
int formats_have(const char *list, const char *format);

#endif
