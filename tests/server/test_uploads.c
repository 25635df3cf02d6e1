/* test_uploads.c - which upload gives way: the slowest of those that are slow, on a clock that the test moves. */
#include <sys/socket.h>
#include <unistd.h>

#include "kit/check.h"
#include "load/uploads.h"

enum { N = 5, KIB = 1 << 10 };

static const int64_t second = 1000000000;

static void begin_all(upload_list *list, upload *uploads, int64_t now) {
    *list = (upload_list){0};
    for (int i = 0; i < N; i++)
        upload_begin(list, &uploads[i], -1, now);
}

/* Upload i has rates[i] bytes a second until then. */
static void run(upload *uploads, const int *rates, int64_t from_s, int64_t to_s) {
    for (int64_t s = from_s; s < to_s; s++)
        for (int i = 0; i < N; i++)
            upload_arrived(&uploads[i], (size_t)rates[i], s * second);
}

static void test_slowest(void) {
    static const int rates[N] = {1 << 20, 20 * KIB, 2 * KIB, UPLOAD_LEAST_RATE + KIB, 30 * KIB};
    upload_list list;
    upload uploads[N];
    begin_all(&list, uploads, 0);
    run(uploads, rates, 0, 9);
    CHECK(!uploads_slowest(&list, 9 * second)); /* too young */
    run(uploads, rates, 9, 3600);
    CHECK(uploads_slowest(&list, 3600 * second) == &uploads[2]);
    upload_end(&list, &uploads[2]);
    CHECK(uploads_slowest(&list, 3600 * second) == &uploads[1]);
    upload_end(&list, &uploads[1]);
    upload_end(&list, &uploads[4]); /* the first of the list */
    CHECK(!uploads_slowest(&list, 3600 * second));
    upload_end(&list, &uploads[0]); /* and the last */
    CHECK(list.first == &uploads[3] && !list.first->next);
    upload_end(&list, &uploads[3]);
    CHECK(!list.first);
}

/* A gigabyte at once does not keep what then stands still in its place; a pause of seconds harms nobody. */
static void test_bursts(void) {
    static const int fast[N] = {1 << 30, 1 << 20, 1 << 20, 1 << 20, 1 << 20};
    static const int still[N] = {0, 1 << 20, 1 << 20, 1 << 20, 1 << 20};
    upload_list list;
    upload uploads[N];
    begin_all(&list, uploads, 0);
    run(uploads, fast, 0, 20);
    run(uploads, still, 20, 29);
    CHECK(!uploads_slowest(&list, 29 * second));
    run(uploads, still, 29, 41);
    CHECK(uploads_slowest(&list, 41 * second) == &uploads[0]);
    run(uploads, fast, 41, 42);
    CHECK(!uploads_slowest(&list, 42 * second));
}

/* Nobody looks at it for a while: what came long ago does not count. */
static void test_silence(void) {
    upload_list list = {0};
    upload u;
    upload_begin(&list, &u, -1, 0);
    upload_arrived(&u, 1 << 30, second);
    CHECK(uploads_slowest(&list, 35 * second) == &u);
}

/* Bytes that the server has not read yet are not missing through the client's fault. */
static void test_waiting_bytes(void) {
    int pair[2];
    upload_list list = {0};
    upload u;
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    upload_begin(&list, &u, pair[0], 0);
    CHECK(uploads_slowest(&list, 11 * second) == &u);
    CHECK(write(pair[1], "x", 1) == 1);
    CHECK(!uploads_slowest(&list, 11 * second));
    close(pair[0]);
    close(pair[1]);
}

int main(void) {
    test_slowest();
    test_bursts();
    test_silence();
    test_waiting_bytes();
    return check_done();
}
