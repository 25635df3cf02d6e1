/* test_mem.c - large and small blocks: alignment, growing, and what mx_mem_forget takes away and what not. */
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "kit/check.h"

#define MIB ((size_t)1 << 20)

static void fill(unsigned char *block, size_t n) {
    for (size_t i = 0; i < n; i++)
        block[i] = (unsigned char)(i * 31 + i / 4096);
}

static int is_filled(const unsigned char *block, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        if (block[i] != (unsigned char)(i * 31 + i / 4096))
            return 0;
    return 1;
}

static void test_sizes(void) {
    static const size_t sizes[] = {0, 1, 63, 64, 4096, 2 * MIB - 65, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 9 * MIB + 7};
    for (size_t i = 0; i < MX_COUNT(sizes); i++) {
        unsigned char *block = mx_alloc(sizes[i]);
        CHECK(block && (uintptr_t)block % 64 == 0);
        fill(block, sizes[i]);
        block = mx_realloc(block, 2 * sizes[i] + 3 * MIB);   /* from small to large, too */
        CHECK(block && is_filled(block, 0, sizes[i]));
        block = mx_realloc(block, sizes[i] / 2);
        CHECK(block && is_filled(block, 0, sizes[i] / 2));
        mx_free(block);
    }
}

/* How many pages of a range are in memory. */
static size_t pages_there(void *from, size_t n, size_t page) {
    unsigned char there[32 * MIB / 4096];
    size_t count = 0;
    CHECK(n / page <= sizeof(there) && mincore(from, n, there) == 0);
    for (size_t i = 0; i < n / page; i++)
        count += there[i] & 1;
    return count;
}

static void test_forget(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 9 * MIB + 12345;
    unsigned char *block = mx_alloc(n), *small = mx_alloc(1000);
    fill(block, n);
    fill(small, 1000);
    CHECK_EQ_INT(pages_there(block, 8 * MIB, page), 8 * MIB / page);
    mx_mem_forget(block, n);
    CHECK_EQ_INT(pages_there(block, 8 * MIB, page), 0);
    CHECK(is_filled(block, 8 * MIB, n));   /* what is not a whole huge page stays */
    fill(block, n);
    CHECK(is_filled(block, 0, n));
    mx_mem_forget(block, 2 * MIB - 1);     /* less than one: nothing */
    mx_mem_forget(small, 1000);
    mx_mem_forget(NULL, 0);
    CHECK(is_filled(block, 0, n) && is_filled(small, 0, 1000));
    mx_free(block);
    mx_free(small);
}

int main(void) {
    test_sizes();
    test_forget();
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
