/* base/mem.c - aligned blocks over posix_memalign, with a counter that tests use to make one fail; arenas. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MX_ALIGN 64
#define MX_HUGE ((size_t)2 << 20)   /* a huge page on x86-64 and most ARM systems; elsewhere only an alignment */
#define MX_ARENA_BLOCK (64 * 1024)

/* Kept in front of the block, a whole alignment wide: the size, so that realloc can copy, and what free gets. */
typedef struct header {
    size_t bytes;
    void *raw;
} header;

_Static_assert(sizeof(header) <= MX_ALIGN, "a header fits in front of a block");

static atomic_llong countdown = -1;
static atomic_llong n_allocated;
static atomic_llong n_live, bytes_live;

void mx_mem_fail_after(int64_t n) {
    atomic_store(&countdown, n);
    atomic_store(&n_allocated, 0);
}

int64_t mx_mem_count(void) { return atomic_load(&n_allocated); }

int64_t mx_mem_live(void) { return atomic_load(&n_live); }

int64_t mx_mem_bytes(void) { return atomic_load(&bytes_live); }

static int tripped(void) {
    atomic_fetch_add(&n_allocated, 1);
    if (atomic_load(&countdown) < 0)
        return 0;
    return atomic_fetch_sub(&countdown, 1) == 0;
}

static header *header_of(const void *block) { return (header *)(void *)((char *)(uintptr_t)block - MX_ALIGN); }

/* Large blocks use huge pages if available: 40 MB of weights then cost 20 page faults instead of 10,000, and fewer TLB
 * misses. They begin with one, so that the header in front does not bring in a page of what is not used yet. */
static void *take(size_t bytes) {
    void *raw = NULL;
    size_t align = bytes >= MX_HUGE ? MX_HUGE : MX_ALIGN;
    if (posix_memalign(&raw, align, bytes + align) != 0)
        return NULL;
    char *block = (char *)raw + align;
#ifdef MADV_HUGEPAGE
    if (align == MX_HUGE) {
        madvise(raw, align, MADV_NOHUGEPAGE);   /* the header, also where all memory gets huge pages */
        madvise(block, bytes, MADV_HUGEPAGE);
    }
#endif
    *header_of(block) = (header){bytes, raw};
    return block;
}

void *mx_alloc(size_t bytes) {
    void *block = NULL;
    if (bytes > SIZE_MAX / 2 || tripped() || !(block = take(bytes))) {
        mx_fail(MXW_E_MEMORY, "out of memory (%zu bytes asked)", bytes);
        return NULL;
    }
    atomic_fetch_add(&n_live, 1);
    atomic_fetch_add(&bytes_live, (long long)bytes);
    return block;
}

void *mx_alloc_array(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        mx_fail(MXW_E_MEMORY, "out of memory (%zu items of %zu bytes asked)", count, size);
        return NULL;
    }
    return mx_alloc(bytes);
}

void *mx_alloc_zero(size_t count, size_t size) {
    void *block = mx_alloc_array(count, size);
    if (block)
        memset(block, 0, count * size);
    return block;
}

void *mx_realloc(void *block, size_t bytes) {
    if (!block)
        return mx_alloc(bytes);
    size_t old = header_of(block)->bytes;
    void *fresh = mx_alloc(bytes);
    if (!fresh)
        return NULL;
    memcpy(fresh, block, MX_MIN(old, bytes));
    mx_free(block);
    return fresh;
}

void mx_free(void *block) {
    if (!block)
        return;
    atomic_fetch_sub(&n_live, 1);
    atomic_fetch_sub(&bytes_live, (long long)header_of(block)->bytes);
    free(header_of(block)->raw);
}

/* Whole huge pages only: to take a part out of one would split it for good, and every later fault would be one of
 * 4 KB. */
void mx_mem_forget(void *block, size_t bytes) {
    uintptr_t at = (uintptr_t)block, first = (at + MX_HUGE - 1) / MX_HUGE * MX_HUGE;
    uintptr_t end = (at + bytes) / MX_HUGE * MX_HUGE;
    if (block && end > first)
        madvise((char *)block + (first - at), end - first, MADV_DONTNEED);
}

char *mx_strndup(const char *text, size_t n) {
    if (!text)
        return NULL;
    n = strnlen(text, n);
    char *copy = mx_alloc(n + 1);
    if (copy) {
        memcpy(copy, text, n);
        copy[n] = 0;
    }
    return copy;
}

char *mx_strdup(const char *text) { return text ? mx_strndup(text, strlen(text)) : NULL; }

mxw_status mx_grow(void *items_pointer, size_t *capacity, size_t need, size_t size) {
    if (need <= *capacity)
        return MXW_OK;
    void *items;
    memcpy(&items, items_pointer, sizeof(items));
    size_t fresh = MX_MAX(need, *capacity < 8 ? 8 : *capacity * 2);
    size_t bytes;
    if (__builtin_mul_overflow(fresh, size, &bytes))
        return mx_fail(MXW_E_MEMORY, "out of memory (%zu items of %zu bytes asked)", fresh, size);
    items = mx_realloc(items, bytes);
    if (!items)
        return MXW_E_MEMORY;
    memcpy(items_pointer, &items, sizeof(items));
    *capacity = fresh;
    return MXW_OK;
}

typedef struct mx_arena_block {
    struct mx_arena_block *next;
    size_t used, bytes;
    _Alignas(MX_ALIGN) char data[];
} mx_arena_block;

void *mx_arena_alloc(mx_arena *arena, size_t bytes) {
    size_t rounded = (bytes + MX_ALIGN - 1) / MX_ALIGN * MX_ALIGN;
    mx_arena_block *block = arena->head;
    if (rounded < bytes) {
        mx_fail(MXW_E_MEMORY, "out of memory (%zu bytes asked)", bytes);
        return NULL;
    }
    if (!block || block->bytes - block->used < rounded) {
        size_t size = MX_MAX(rounded, (size_t)MX_ARENA_BLOCK);
        block = mx_alloc(sizeof(*block) + size);
        if (!block)
            return NULL;
        block->next = arena->head;
        block->used = 0;
        block->bytes = size;
        arena->head = block;
    }
    void *data = block->data + block->used;
    block->used += rounded;
    memset(data, 0, rounded);
    return data;
}

char *mx_arena_strdup(mx_arena *arena, const char *text) {
    size_t n = strlen(text) + 1;
    char *copy = mx_arena_alloc(arena, n);
    if (copy)
        memcpy(copy, text, n);
    return copy;
}

void mx_arena_free(mx_arena *arena) {
    while (arena->head) {
        mx_arena_block *next = arena->head->next;
        mx_free(arena->head);
        arena->head = next;
    }
}
