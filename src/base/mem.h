/* base/mem.h - all memory of the library comes from here, so that a test can make every allocation fail in turn. Blocks
 * are 64-byte aligned. NULL on failure, with mx_fail already called. Size 0 gives a valid block. Not cleared unless
 * stated. */
#ifndef MX_MEM_H
#define MX_MEM_H
#include "base/status.h"

void *mx_alloc(size_t bytes);
void *mx_alloc_zero(size_t count, size_t size);          /* checks count * size */
void *mx_alloc_array(size_t count, size_t size);         /* checks count * size, not cleared */
void *mx_realloc(void *block, size_t bytes);             /* on failure the old block is kept */
void mx_free(void *block);
void mx_mem_forget(void *block, size_t bytes);           /* huge pages of it go back to the system; read only what was
                                                            written since. NULL: nothing */
char *mx_strdup(const char *text);                       /* NULL gives NULL */
char *mx_strndup(const char *text, size_t n);

/* Grows *items (of *capacity items, each size bytes) to hold at least need; capacity doubles. */
mxw_status mx_grow(void *items_pointer, size_t *capacity, size_t need, size_t size);

/* For tests: the allocation after the next n fails (n < 0: never), once; counts since the last call. */
void mx_mem_fail_after(int64_t n);
int64_t mx_mem_count(void);
int64_t mx_mem_live(void);                               /* blocks not yet freed ... */
int64_t mx_mem_bytes(void);                              /* ... and their bytes: what grows in place shows here */

/* An arena: blocks that are freed together. */
typedef struct mx_arena {
    struct mx_arena_block *head;
} mx_arena;
void *mx_arena_alloc(mx_arena *arena, size_t bytes);     /* cleared, 64-byte aligned */
char *mx_arena_strdup(mx_arena *arena, const char *text);
void mx_arena_free(mx_arena *arena);
#endif
