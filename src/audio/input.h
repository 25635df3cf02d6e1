/* audio/input.h - internal to audio/: the bytes of a file, of standard input, of memory or of a caller's callbacks,
 * read sequentially; before that, any offset near the start can be peeked at (a pipe buffers what was peeked).
 * Callbacks without seek are a pipe. */
#ifndef MX_INPUT_H
#define MX_INPUT_H
#include "audio/audio.h"

typedef struct mx_input {
    const char *name;      /* for messages: the path, or "standard input" */
    mx_audio_bytes bytes;  /* instead of fd */
    int64_t bytes_at;      /* offset at which its read callback continues */
    const char *failed;    /* "read" or "seek": that callback failed; else NULL */
    int fd;
    int owned;             /* fd is closed with the input */
    int regular;           /* a regular file, or what behaves like one: size is known, any offset can be read */
    int64_t start;         /* offset of the first byte in fd (standard input may be partly consumed) */
    int64_t size;          /* bytes from start; -1 for a pipe */
    int64_t position;      /* of the next mx_input_read, from start */
    uint8_t *head;         /* a pipe's first bytes */
    size_t n_head, head_capacity;
} mx_input;

/* path is kept, not copied. */
mxw_status mx_input_open(mx_input *input, const char *path);
/* Memory stays the caller's; name is kept, not copied. */
mxw_status mx_input_open_bytes(mx_input *input, const mx_audio_bytes *bytes, const char *name);
void mx_input_close(mx_input *input);
/* E_IO with a line that says which of the caller's callbacks failed. */
mxw_status mx_input_fail_callback(mx_input *input, const char *which);
/* Bytes at an offset from the start, without moving the position; fewer than n only at the end. On a pipe only before
 * the first mx_input_read, and only within the first 16 MB (E_UNSUPPORTED past them). */
mxw_status mx_input_peek(mx_input *input, int64_t offset, void *bytes, size_t n, size_t *got);
/* The next bytes; fewer than n only at the end. */
mxw_status mx_input_read(mx_input *input, void *bytes, size_t n, size_t *got);
/* The next bytes, at least one unless at the end. */
mxw_status mx_input_read_some(mx_input *input, void *bytes, size_t n, size_t *got);
mxw_status mx_input_seek(mx_input *input, int64_t offset);   /* pipes: forward only, by reading */
/* Copies a pipe to its end into an unlinked temporary file ($TMPDIR, else /tmp), so that it can seek. Before the first
 * mx_input_read. */
mxw_status mx_input_spool(mx_input *input);
#endif
