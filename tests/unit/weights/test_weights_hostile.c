/* test_weights_hostile.c - untrusted files: truncated anywhere, modified anywhere, crafted. Invariant: one error line,
 * or a checkpoint all of whose tensors can be read; never a crash, never a leak. */
#include "kit/check.h"
#include "kit/gen_checkpoint.h"
#include "hostile.h"

#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "weights/format/pickle.h"
#include "weights/store.h"

static char folder[4096];

static void path_of(int ct2, const char *below, char *path, size_t size) {
    snprintf(path, size, "%s/%s%s", folder, ct2 ? "ct2" : "one.pt", ct2 ? below : "");
}

static uint8_t *generate(int ct2, const gen_options *o, size_t *n) {
    char path[4200];
    path_of(ct2, "", path, sizeof(path));
    CHECK_EQ_INT(ct2 ? gen_ct2(path, o) : gen_pt(path, o), 0);
    path_of(ct2, "/model.bin", path, sizeof(path));
    return hostile_read(path, n);
}

static void test_bytes(int ct2, mxw_dtype dtype) {
    gen_options o = {.dims = gen_least_dims(), .dtype = dtype};
    char path[4200];
    size_t n;
    uint8_t *whole = generate(ct2, &o, &n);
    hostile_truncated(whole, n);
    hostile_changed(whole, n);
    free(whole);
    path_of(ct2, "", path, sizeof(path));
    hostile_no_memory(path);
}

/* ---- pickles ------------------------------------------------------------------------------------------ */

#define TENSOR "ctorch._utils\n_rebuild_tensor_v2\n"
#define HALVES "(X\7\0\0\0storagectorch\nHalfStorage\nX\1\0\0\0" "0X\3\0\0\0cpuK\4tQ"

static const struct {
    const char *bytes;
    size_t n;
    mxw_status status;
    const char *line;
} pickles[] = {
#define PICKLE(bytes, status, line) {bytes, sizeof(bytes) - 1, status, line}
    PICKLE("", MXW_E_FORMAT, "truncated"),
    PICKLE("\x80\2}.", MXW_OK, ""),
    PICKLE("\x80\4}.", MXW_E_UNSUPPORTED, "protocol 4"),
    PICKLE("\x80\2cos\nsystem\nX\2\0\0\0id\x85R.", MXW_E_UNSUPPORTED, "global os.system is not part of a state dict"),
    PICKLE("\x80\2cbuiltins\neval\n", MXW_E_UNSUPPORTED, "global builtins.eval"),
    PICKLE("\x80\2(S'id'\nios\nsystem\n.", MXW_E_UNSUPPORTED, "opcode STRING"),
    PICKLE("\x80\2(ios\nsystem\n.", MXW_E_UNSUPPORTED, "opcode INST"),
    PICKLE("\x80\2}\x81.", MXW_E_UNSUPPORTED, "opcode NEWOBJ"),
    PICKLE("\x80\2}\xfe.", MXW_E_FORMAT, "byte 0xfe is no opcode"),
    PICKLE("\x80\2.", MXW_E_FORMAT, "does not end with one value"),
    PICKLE("\x80\2}}.", MXW_E_FORMAT, "does not end with one value"),
    PICKLE("\x80\2(}.", MXW_E_FORMAT, "does not end with one value"),
    PICKLE("\x80\2t.", MXW_E_FORMAT, "no mark"),
    PICKLE("\x80\2}(K\1u.", MXW_E_FORMAT, "a key without a value"),
    PICKLE("\x80\2](K\1K\2u.", MXW_E_FORMAT, "set items on something else"),
    PICKLE("\x80\2}(K\1e.", MXW_E_FORMAT, "append on something else"),
    PICKLE("\x80\2(K\1K\2u.", MXW_E_FORMAT, "the stack is too short"),
    PICKLE("\x80\2}(\x85.", MXW_E_FORMAT, "the stack is too short"),
    PICKLE("\x80\2h\0.", MXW_E_FORMAT, "memo slot 0 is empty"),
    PICKLE("\x80\2}r\xff\xff\xff\xff.", MXW_E_FORMAT, "memo slot 4294967295 is past the limit"),
    PICKLE("\x80\2j\xff\xff\xff\xff.", MXW_E_FORMAT, "memo slot 4294967295 is empty"),
    PICKLE("\x80\2X\xff\xff\xff\xff" "a.", MXW_E_FORMAT, "truncated"),
    PICKLE("\x80\2\x8a\x09\1\1\1\1\1\1\1\1\1.", MXW_E_UNSUPPORTED, "a number of 9 bytes"),
    PICKLE("\x80\2K\1Q.", MXW_E_FORMAT, "not a storage"),
    PICKLE("\x80\2)Q.", MXW_E_FORMAT, "not a storage"),
    PICKLE("\x80\2})R.", MXW_E_FORMAT, "cannot be called"),
    PICKLE("\x80\2ccollections\nOrderedDict\n}R.", MXW_E_FORMAT, "cannot be called"),
    PICKLE("\x80\2ccollections\nOrderedDict\nK\1\x85R.", MXW_E_FORMAT, "OrderedDict called with the wrong arguments"),
    PICKLE("\x80\2ctorch\nHalfStorage\n)R.", MXW_E_FORMAT, "HalfStorage called"),
    PICKLE("\x80\2" TENSOR ")R.", MXW_E_FORMAT, "wrong arguments"),
    PICKLE("\x80\2" TENSOR "(" HALVES "K\0(K\2K\2t(K\2K\1ttR.", MXW_OK, ""),
    PICKLE("\x80\2" TENSOR "(" HALVES "J\xff\xff\xff\xff(K\2t(K\1ttR.", MXW_E_FORMAT, "wrong arguments"),
    PICKLE("\x80\2" TENSOR "(" HALVES "K\0(K\2K\2t(K\2ttR.", MXW_E_FORMAT, "sizes or strides"),
    PICKLE("\x80\2" TENSOR "(" HALVES "K\0(K\1K\1K\1K\1K\1K\1K\1t(K\1K\1K\1K\1K\1K\1K\1ttR.", MXW_E_FORMAT,
           "sizes or strides"),
    PICKLE("\x80\2" TENSOR "(" HALVES "K\0(J\xff\xff\xff\xfft(K\1ttR.", MXW_E_FORMAT, "sizes or strides"),
    PICKLE("\x80\2}}b.", MXW_OK, ""),
    PICKLE("\x80\2}K\1b.", MXW_E_FORMAT, "BUILD"),
    PICKLE("\x80\2]q\0h\0a.", MXW_OK, ""),   /* a list that holds itself */
#define CLASS "c__torch__.a.b\nC\n"
    PICKLE("\x80\2" CLASS ")\x81}(X\1\0\0\0aK\1ub.", MXW_OK, ""),
    PICKLE("\x80\2" CLASS ")\x81q\0}(X\1\0\0\0ah\0ub.", MXW_OK, ""),   /* an object that holds itself */
    PICKLE("\x80\2" CLASS ")\x81}(X\1\0\0\0aK\1ub}b.", MXW_E_FORMAT, "has its attributes already"),
    PICKLE("\x80\2" CLASS ")\x81K\1b.", MXW_E_FORMAT, "BUILD"),
    PICKLE("\x80\2" CLASS ")R.", MXW_E_FORMAT, "__torch__.class called"),
    PICKLE("\x80\2" CLASS "K\1\x85\x81.", MXW_E_UNSUPPORTED, "opcode NEWOBJ"),
    PICKLE("\x80\2ccollections\nOrderedDict\n)\x81.", MXW_E_UNSUPPORTED, "opcode NEWOBJ"),
    PICKLE("\x80\2c__torch__s.os\nsystem\n.", MXW_E_UNSUPPORTED, "global __torch__s.os.system"),
    PICKLE("\x80\2ctorch.jit._pickle\nbuild_intlist\n](K\1K\2e\x85R.", MXW_OK, ""),
    PICKLE("\x80\2ctorch.jit._pickle\nbuild_intlist\nK\1\x85R.", MXW_E_FORMAT, "build_intlist called"),
};

static void test_pickles(void) {
    for (size_t i = 0; i < MX_COUNT(pickles); i++) {
        mx_arena arena = {0};
        const mx_pickle *value = NULL;
        uint8_t *copy = malloc(pickles[i].n ? pickles[i].n : 1);
        memcpy(copy, pickles[i].bytes, pickles[i].n);
        mxw_status status = mx_pickle_load(copy, pickles[i].n, &arena, &value);
        int named = status >= 0 || strstr(mxw_last_error(), pickles[i].line);
        if (!CHECK_EQ_INT(status, pickles[i].status) || !CHECK(named))
            printf("    pickle %zu: want \"%s\", got \"%s\"\n", i, pickles[i].line, mxw_last_error());
        mx_arena_free(&arena);
        free(copy);
    }
}

/* Nesting of any depth, and more values than any state dict has. */
static void test_deep_pickle(void) {
    enum { N = 1 << 21 };
    uint8_t *bytes = malloc(N);
    mx_arena arena = {0};
    const mx_pickle *value = NULL;
    memset(bytes, 0x85, N);   /* TUPLE1 */
    bytes[0] = ')';
    bytes[N / 4] = '.';
    CHECK_EQ_INT(mx_pickle_load(bytes, N / 4 + 1, &arena, &value), MXW_OK);
    bytes[N / 4] = 0x85;
    CHECK_EQ_INT(mx_pickle_load(bytes, N, &arena, &value), MXW_E_FORMAT);
    CHECK(strstr(mxw_last_error(), "more than 1048576 values") != NULL);
    memset(bytes, '(', N);
    CHECK_EQ_INT(mx_pickle_load(bytes, N, &arena, &value), MXW_E_FORMAT);
    mx_arena_free(&arena);
    free(bytes);
}

/* ---- zip files ---------------------------------------------------------------------------------------- */

static void put(uint8_t *p, uint64_t x, int bytes) {
    for (int i = 0; i < bytes; i++)
        p[i] = (uint8_t)(x >> (8 * i));
}

static uint64_t get(const uint8_t *p, int bytes) {
    uint64_t x = 0;
    for (int i = bytes - 1; i >= 0; i--)
        x = x << 8 | p[i];
    return x;
}

/* The directory entry of a name, found by its bytes from the end. */
static uint8_t *entry_of(uint8_t *bytes, size_t n, const char *name) {
    for (size_t i = n - strlen(name); i > 46; i--)
        if (memcmp(bytes + i, name, strlen(name)) == 0 && get(bytes + i - 46, 4) == 0x02014b50 &&
            get(bytes + i - 18, 2) == strlen(name))
            return bytes + i - 46;
    exit(1);
}

static void expect(const uint8_t *bytes, size_t n, mxw_status status, const char *line) {
    CHECK_EQ_INT(hostile_open(bytes, n), status);
    if (!CHECK(status == MXW_OK || strstr(mxw_last_error(), line) != NULL))
        printf("    want \"%s\"\n    got  \"%s\"\n", line, mxw_last_error());
}

static void test_zip_faults(void) {
    gen_options o = {.dims = gen_least_dims()};
    static const struct {
        const char *entry;
        int at;
        uint64_t value;
        int bytes;
        mxw_status status;
        const char *line;
    } cases[] = {
        {"archive/data/3", 10, 8, 2, MXW_E_UNSUPPORTED, "entry archive/data/3 is compressed"},
        {"archive/data/3", 8, 1, 2, MXW_E_UNSUPPORTED, "entry archive/data/3 is encrypted"},
        {"archive/data/3", 42, 0xfffffff0, 4, MXW_E_FORMAT, "entry archive/data/3 is outside the file"},
        {"archive/data/3", 42, 3, 4, MXW_E_FORMAT, "has no header at the directory's offset"},
        {"archive/data/3", 42, 0, 4, MXW_E_FORMAT, "has another name in its header"},
        {"archive/data/3", 24, 0xffffffff, 4, MXW_E_FORMAT, "lacks its ZIP64 field"},
        {"archive/data.pkl", 16, 1, 4, MXW_E_FORMAT, "data.pkl is damaged"},
        {"archive/data/3", 28, 0xffff, 2, MXW_E_FORMAT, "the directory is damaged"},
        {"archive/data.pkl", 46, 'b', 1, MXW_E_MISSING, "entry brchive/data/0 is missing"},
    };
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        size_t n;
        uint8_t *bytes = generate(0, &o, &n);
        put(entry_of(bytes, n, cases[i].entry) + cases[i].at, cases[i].value, cases[i].bytes);
        if (cases[i].at == 46) {   /* the local header too, so that the name is consistent */
            uint8_t *entry = entry_of(bytes, n, "brchive/data.pkl");
            bytes[get(entry + 42, 4) + 30] = 'b';
        }
        expect(bytes, n, cases[i].status, cases[i].line);
        free(bytes);
    }
    size_t n;
    uint8_t *bytes = generate(0, &o, &n);
    uint8_t *order = bytes + get(entry_of(bytes, n, "archive/byteorder") + 42, 4);
    memcpy(order + 30 + get(order + 26, 2) + get(order + 28, 2), "bigger", 6);
    expect(bytes, n, MXW_E_UNSUPPORTED, "byte order 'bigger'");
    free(bytes);
}

/* The same file with a ZIP64 directory: sizes and offset of one entry in its extra field, and a ZIP64 end record. */
static void test_zip64(void) {
    gen_options o = {.dims = gen_least_dims()};
    size_t n;
    uint8_t *bytes = generate(0, &o, &n);
    uint8_t *end = bytes + n - 22, *entry = entry_of(bytes, n, "archive/data/3");
    uint64_t directory = get(end + 16, 4), entries = get(end + 10, 2);
    size_t before = (size_t)(entry + 46 + get(entry + 28, 2) - bytes), extra = 28, m = n + extra + 56 + 20;
    uint8_t *large = malloc(m), *p = large + before;
    memcpy(large, bytes, before);
    uint8_t *moved = large + (entry - bytes);
    put(p, 1, 2), put(p + 2, 24, 2), put(p + 4, get(entry + 24, 4), 8), put(p + 12, get(entry + 20, 4), 8);
    put(p + 20, get(entry + 42, 4), 8);
    put(moved + 20, 0xffffffff, 4), put(moved + 24, 0xffffffff, 4), put(moved + 42, 0xffffffff, 4);
    put(moved + 30, extra, 2);
    p += extra;
    size_t rest = (size_t)(end - bytes) - before;
    memcpy(p, bytes + before, rest);
    p += rest;
    uint8_t *end64 = p;
    memset(p, 0, 76);
    put(p, 0x06064b50, 4), put(p + 4, 44, 8), put(p + 32, entries, 8);
    put(p + 40, get(end + 12, 4) + extra, 8), put(p + 48, directory, 8);
    put(p + 56, 0x07064b50, 4), put(p + 64, (uint64_t)(end64 - large), 8), put(p + 72, 1, 4);
    memcpy(p + 76, end, 22);
    put(p + 76 + 10, 0xffff, 2), put(p + 76 + 12, 0xffffffff, 4), put(p + 76 + 16, 0xffffffff, 4);
    expect(large, m, MXW_OK, "");
    put(end64 + 32, 1u << 30, 8);
    expect(large, m, MXW_E_FORMAT, "too small for its 1073741824 entries");
    put(end64 + 32, entries, 8), put(end64 + 48, ~(uint64_t)0, 8);
    expect(large, m, MXW_E_FORMAT, "the directory is outside the file");
    put(end64 + 64, ~(uint64_t)0 - 20, 8);
    expect(large, m, MXW_E_FORMAT, "not where the locator says");
    put(end64 + 56, 0, 4);
    expect(large, m, MXW_E_FORMAT, "the ZIP64 locator is missing");
    free(large);
    free(bytes);
}

/* ---- model.bin ----------------------------------------------------------------------------------------- */

static void test_ct2_faults(void) {
    gen_options o = {.dims = gen_least_dims()};
    static const struct {
        size_t at;
        uint64_t value;
        int bytes;
        mxw_status status;
        const char *line;
    } cases[] = {
        {0, 7, 4, MXW_E_UNSUPPORTED, "CTranslate2 version 7"},
        {0, 3, 4, MXW_E_UNSUPPORTED, "CTranslate2 version 3"},
        {6, 'X', 1, MXW_E_UNSUPPORTED, "another model (XhisperSpec, not WhisperSpec)"},
        {18, 4, 4, MXW_E_UNSUPPORTED, "revision 4"},
        {22, 0xffffffff, 4, MXW_E_FORMAT, "truncated"},
        {26 + 2 + 19, 9, 1, MXW_E_FORMAT, "tensor decoder/activation has 9 axes"},
        {26 + 2 + 20, 9, 1, MXW_E_UNSUPPORTED, "tensor decoder/activation is of unknown type 9"},
        {26 + 2 + 21, 9, 1, MXW_E_FORMAT, "tensor decoder/activation holds 9 bytes"},
        {26 + 2 + 25, 1, 1, MXW_E_UNSUPPORTED, "decoder/activation is 1; Whisper has 3"},
    };
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        size_t n;
        uint8_t *bytes = generate(1, &o, &n);
        put(bytes + cases[i].at, cases[i].value, cases[i].bytes);
        expect(bytes, n, cases[i].status, cases[i].line);
        free(bytes);
    }
    size_t n;
    uint8_t *bytes = generate(1, &o, &n), *longer = malloc(n + 1);
    memcpy(longer, bytes, n);
    longer[n] = 0;
    expect(longer, n + 1, MXW_E_FORMAT, "1 bytes too many at the end");
    free(longer);
    free(bytes);
}

int main(void) {
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    int64_t live = mx_mem_live();
    test_bytes(0, MXW_F16);
    test_bytes(1, MXW_F16);
    test_bytes(1, MXW_F32);
    test_bytes(1, MXW_I8);
    test_pickles();
    test_deep_pickle();
    test_zip_faults();
    test_zip64();
    test_ct2_faults();
    CHECK_EQ_INT(mx_mem_live(), live);
    gen_remove(folder);
    return check_done();
}
