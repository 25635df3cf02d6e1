/* hostile.h - checks for untrusted checkpoints: truncated, modified, or opened while memory runs out. For the tests of
 * every container. */
#ifndef HOSTILE_H
#define HOSTILE_H
#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "kit/check.h"
#include "weights/store.h"

/* A file as a block of exactly its size, so that a sanitizer sees the first byte past the end. */
static inline uint8_t *hostile_read(const char *path, size_t *n) {
    mx_map map = {0};
    CHECK_EQ_INT(mx_map_open(path, &map), MXW_OK);
    uint8_t *bytes = malloc(map.n);
    if (!bytes || !map.data)
        exit(1);
    memcpy(bytes, map.data, map.n);
    *n = map.n;
    mx_map_close(&map);
    return bytes;
}

/* Opens; reads every tensor if that succeeds; checks the line if it does not. Returns the status. */
static inline mxw_status hostile_open(const uint8_t *bytes, size_t n) {
    mx_weights *w = NULL;
    mxw_status status = mx_weights_open_bytes(bytes, n, &w);
    if (status < 0 && (w || !mxw_last_error()[0] || strchr(mxw_last_error(), '\n')))
        CHECK(!"a failure has one line and no checkpoint");
    for (int64_t i = 0; w && i < mx_weights_count(w); i++) {
        uint32_t crc;
        if (mx_weights_crc32(w, i, &crc) < 0)
            CHECK(!"a tensor of an open checkpoint can be read");
    }
    mx_weights_close(w);
    return status;
}

/* Cut anywhere in its first 4096 bytes, and at every seventh behind: never opened. */
static inline void hostile_truncated(const uint8_t *whole, size_t n) {
    int opened = 0;
    CHECK_EQ_INT(hostile_open(whole, n), MXW_OK);
    for (size_t cut = 0; cut < n; cut += cut < 4096 ? 1 : 7) {
        uint8_t *part = malloc(cut ? cut : 1);
        memcpy(part, whole, cut);
        opened += hostile_open(part, cut) == MXW_OK;
        free(part);
    }
    CHECK_EQ_INT(opened, 0);
}

/* Every byte changed in turn: many are rejected, none does harm. */
static inline void hostile_changed(uint8_t *bytes, size_t n) {
    static const uint8_t changes[] = {0x01, 0x80, 0xff};
    int refused = 0;
    for (size_t at = 0; at < n; at++) {
        uint8_t was = bytes[at];
        bytes[at] ^= changes[at % 3];
        refused += hostile_open(bytes, n) < 0;
        bytes[at] = was;
    }
    CHECK(refused > 100);
    CHECK_EQ_INT(hostile_open(bytes, n), MXW_OK);
}

/* Every allocation of an opening fails in turn. */
static inline void hostile_no_memory(const char *path) {
    int64_t live = mx_mem_live(), i = 0;
    for (mxw_status status = MXW_E_MEMORY; status == MXW_E_MEMORY && i < 10000; i++) {
        mx_weights *w = NULL;
        mx_mem_fail_after(i);
        status = mx_weights_open(path, NULL, &w);
        mx_mem_fail_after(-1);
        CHECK(status == MXW_OK || status == MXW_E_MEMORY);
        mx_weights_close(w);
        CHECK_EQ_INT(mx_mem_live(), live);
    }
    CHECK(i > 5 && i < 10000);
}
#endif
