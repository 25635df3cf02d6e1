/* test_sha256.c - SHA-256 against the examples of FIPS 180-2, and pieces of any size against the whole. */
#include "kit/check.h"

#include "base/sha256.h"

static void expect(const char *bytes, size_t n, const char *want) {
    for (size_t piece = 1; piece <= n + 1; piece = piece * 3 + 1) {
        mx_sha256 s;
        char text[65];
        mx_sha256_start(&s);
        for (size_t at = 0; at < n; at += piece)
            mx_sha256_add(&s, bytes + at, n - at < piece ? n - at : piece);
        mx_sha256_hex(&s, text);
        CHECK_STR(text, want);
    }
}

int main(void) {
    static char many[1000000];
    memset(many, 'a', sizeof(many));
    expect("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    expect(many, sizeof(many), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    return check_done();
}
