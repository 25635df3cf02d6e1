/* server/transcriptions/temp_file.h - an upload on disk: a file without a name, which is gone when it is closed or when
 * the process dies.
 */
#ifndef SERVER_TRANSCRIPTIONS_TEMP_FILE_H
#define SERVER_TRANSCRIPTIONS_TEMP_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "max_whisper.h"

typedef struct temp_file {
    int fd; /* -1: none */
    int64_t size, at;
} temp_file;

/* In $TMPDIR, else /tmp; 0 with errno. */
int temp_file_open(temp_file *file);
void temp_file_close(temp_file *file);
/* 0 with errno: no space left. */
int temp_file_append(temp_file *file, const void *bytes, size_t n);
/* As the recording of an mxw_audio, from its start. */
void temp_file_audio(temp_file *file, mxw_audio_options *options);

#endif
