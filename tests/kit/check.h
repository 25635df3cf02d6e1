/* check.h - checks that count: a failed one says where and what, and the test goes on. main ends with
 * `return check_done();`. */
#ifndef CHECK_H
#define CHECK_H
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_passed, check_failed;

static inline int check_that(int ok, const char *file, int line, const char *what) {
    if (ok)
        check_passed++;
    else
        check_failed++, printf("%s:%d: failed: %s\n", file, line, what);
    return ok;
}

static inline int check_int(int64_t got, int64_t want, const char *file, int line, const char *what) {
    int ok = check_that(got == want, file, line, what);
    if (!ok)
        printf("    got %" PRId64 ", want %" PRId64 "\n", got, want);
    return ok;
}

static inline int check_str(const char *got, const char *want, const char *file, int line, const char *what) {
    int ok = check_that(got && want ? strcmp(got, want) == 0 : got == want, file, line, what);
    if (!ok)
        printf("    got  \"%s\"\n    want \"%s\"\n", got ? got : "(null)", want ? want : "(null)");
    return ok;
}

#define CHECK(cond) check_that((cond) ? 1 : 0, __FILE__, __LINE__, #cond)
#define CHECK_EQ_INT(got, want) check_int((int64_t)(got), (int64_t)(want), __FILE__, __LINE__, #got " == " #want)
#define CHECK_STR(got, want) check_str(got, want, __FILE__, __LINE__, #got " is " #want)

/* A file of the source tree by its path there; exits as skipped where the tree is not known. */
static inline const char *check_path(const char *name, char *path, size_t n) {
    const char *root = getenv("MXW_SOURCE_ROOT");
    if (!root) {
        printf("SKIP: %s: MXW_SOURCE_ROOT is not set\n", name);
        exit(77);
    }
    snprintf(path, n, "%s/%s", root, name);
    return path;
}

static inline int check_done(void) {
    printf("%d passed, %d failed\n", check_passed, check_failed);
    return check_failed || !check_passed;
}
#endif
