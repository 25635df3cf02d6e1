/* test_tensor.c - halves against their definition, and copies of views of every layout against the plain definition. */
#include "kit/check.h"

#include <math.h>

#include "base/mem.h"
#include "tensor/tensor.h"

static uint64_t state = 7;

static uint64_t draw(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

/* What IEEE 754 says the bits are worth. */
static double half_value(uint16_t half) {
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    double magnitude = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    if (exponent == 31)
        magnitude = mantissa ? NAN : INFINITY;
    return half >> 15 ? -magnitude : magnitude;
}

static void test_halves(void) {
    static uint16_t halves[65536];
    static float dense[65536], strided[32768];
    int64_t n = 65536, n_even = 32768;
    int wrong = 0, unequal = 0, turned = 0;
    for (int i = 0; i < 65536; i++)
        halves[i] = (uint16_t)i;
    mx_tensor t = mx_tensor_of(MXW_F16, 1, &n, halves);
    CHECK_EQ_INT(mx_tensor_to_f32(&t, dense), MXW_OK);
    mx_tensor even = mx_tensor_of(MXW_F16, 1, &n_even, halves);
    even.strides[0] = 2;
    CHECK_EQ_INT(mx_tensor_to_f32(&even, strided), MXW_OK);
    for (int i = 0; i < 65536; i++) {
        float one = mx_f16_to_f32((uint16_t)i);
        double want = half_value((uint16_t)i);
        wrong += isnan(want) ? !isnan(one) : (double)one != want || !signbit(one) != !signbit(want);
        unequal += memcmp(&one, &dense[i], 4) != 0 || (i % 2 == 0 && memcmp(&one, &strided[i / 2], 4) != 0);
        turned += !isnan(want) && mx_f32_to_f16(one) != i;
    }
    CHECK_EQ_INT(wrong, 0);
    CHECK_EQ_INT(unequal, 0);
    CHECK_EQ_INT(turned, 0);
}

/* The nearest code of e4m3, of two the even one, by trying them all. */
static uint8_t nearest_f8(float value) {
    double magnitude = fabs((double)value), least = INFINITY;
    uint8_t best = 0x7f, sign = signbit(value) ? 0x80 : 0;
    for (int code = 0; code < 0x7f; code++) {
        double of = code < 8 ? ldexp(code, -9) : ldexp(8 + code % 8, code / 8 - 10);
        double off = isinf(magnitude) ? 448 - of : fabs(magnitude - of);
        if (off < least || (off == least && code % 2 == 0))
            best = (uint8_t)code;
        least = fmin(least, off);
    }
    return best | sign;
}

static float next_bits(float value, int by) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits += (uint32_t)by;
    memcpy(&value, &bits, 4);
    return value;
}

/* Each code and what lies between it and the next, and what lies around that; then any numbers. */
static void test_f8(void) {
    int turned = 0, wrong = 0, n_bytes = 256;
    uint8_t codes[256];
    float wide[256];
    for (int i = 0; i < 256; i++) {
        float one = mx_f8_to_f32((uint8_t)i), next = mx_f8_to_f32((uint8_t)(i % 128 < 126 ? i + 1 : i));
        codes[i] = (uint8_t)i;
        turned += isnan(one) ? i % 128 != 127 : mx_f32_to_f8(one) != i;
        for (int by = -2; by <= 2 && i % 128 != 127; by++) {
            float at = next_bits(one, i % 128 ? by : 0), between = next_bits((one + next) / 2, by);
            wrong += mx_f32_to_f8(at) != nearest_f8(at) || mx_f32_to_f8(between) != nearest_f8(between);
        }
    }
    CHECK_EQ_INT(turned, 0);
    for (int i = 0; i < 100000; i++) {
        float value = (float)(ldexp(1 + (double)(draw() % 65536) / 65536, (int)(draw() % 30) - 18) *
                              (draw() % 2 ? 1 : -1));
        wrong += mx_f32_to_f8(value) != nearest_f8(value);
    }
    CHECK_EQ_INT(wrong, 0);
    CHECK(mx_f32_to_f8(INFINITY) == 0x7e && mx_f32_to_f8(-INFINITY) == 0xfe && mx_f32_to_f8(464) == 0x7e);
    CHECK(mx_f32_to_f8(3e38f) == 0x7e && mx_f32_to_f8(-1e-40f) == 0x80);
    CHECK(mx_f32_to_f8(NAN) % 128 == 0x7f && isnan(mx_f8_to_f32(0x7f)) && isnan(mx_f8_to_f32(0xff)));
    mx_tensor t = mx_tensor_of(MXW_F8, 1, (int64_t[]){n_bytes}, codes);
    CHECK_EQ_INT(mx_tensor_bytes(&t), 256);
    CHECK_EQ_INT(mx_tensor_to_f32(&t, wide), MXW_OK);
    for (int i = 0; i < 256; i++)
        CHECK(i % 128 == 127 ? isnan(wide[i]) : wide[i] == mx_f8_to_f32((uint8_t)i));
    CHECK(mx_dtype_is_float(MXW_F8) && !mx_dtype_in_graphs(MXW_F8) && !strcmp(mx_dtype_name(MXW_F8), "f8"));
    CHECK(mx_dtype_in_graphs(MXW_F64) && !mx_dtype_in_graphs((mxw_dtype)99) && !mx_dtype_in_graphs((mxw_dtype)-1));
}

static float plain_value(mxw_dtype dtype, const void *p) {
    union {
        float f32;
        uint16_t half;
        int32_t i32;
        int8_t i8;
        uint8_t u8;
        int64_t i64;
        double f64;
    } x;
    memcpy(&x, p, mx_dtype_bytes(dtype));
    switch (dtype) {
    case MXW_F32: return x.f32;
    case MXW_F16: return mx_f16_to_f32(x.half);
    case MXW_BF16: return mx_bf16_to_f32(x.half);
    case MXW_I32: return (float)x.i32;
    case MXW_I8: return x.i8;
    case MXW_U8: return x.u8;
    case MXW_I64: return (float)x.i64;
    case MXW_F64: return (float)x.f64;
    case MXW_F8: return mx_f8_to_f32(x.u8);
    }
    return 0;
}

/* A view of random shape whose axes are in random order in memory, with gaps or without. */
static mx_tensor random_view(mxw_dtype dtype, char *bytes, int gap) {
    mx_tensor t = {.dtype = dtype, .rank = 1 + (int)(draw() % 4), .data = bytes};
    int order[MX_MAX_RANK];
    int64_t stride = 1;
    for (int i = 0; i < t.rank; i++) {
        t.dims[i] = t.rank > 2 ? 1 + (int64_t)(draw() % 9) : 1 + (int64_t)(draw() % 77);
        order[i] = i;
    }
    for (int i = t.rank - 1; i > 0; i--) {
        int j = (int)(draw() % (unsigned)(i + 1)), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (int i = 0; i < t.rank; i++) {
        t.strides[order[i]] = stride;
        stride *= t.dims[order[i]] + gap;
    }
    return t;
}

static void check_view(const mx_tensor *t) {
    size_t bytes = mx_dtype_bytes(t->dtype);
    int64_t n = mx_tensor_count(t), index[MX_MAX_RANK] = {0};
    char *packed = mx_alloc((size_t)n * bytes);
    float *wide = mx_alloc((size_t)n * sizeof(*wide));
    int wrong = 0;
    mx_tensor_pack(t, packed);
    CHECK_EQ_INT(mx_tensor_to_f32(t, wide), MXW_OK);
    for (int64_t i = 0; i < n; i++) {
        int64_t offset = 0;
        for (int d = 0; d < t->rank; d++)
            offset += index[d] * t->strides[d];
        const char *p = (const char *)t->data + offset * (int64_t)bytes;
        float want = plain_value(t->dtype, p);
        wrong += memcmp(packed + (size_t)i * bytes, p, bytes) != 0 || memcmp(&wide[i], &want, 4) != 0;
        for (int d = t->rank - 1; d >= 0 && ++index[d] == t->dims[d]; d--)
            index[d] = 0;
    }
    CHECK_EQ_INT(wrong, 0);
    mx_free(packed);
    mx_free(wide);
}

static void test_views(void) {
    size_t room = 1 << 20;
    char *bytes = mx_alloc(room);
    for (size_t i = 0; i < room; i++)
        bytes[i] = (char)draw();
    for (int round = 0; round < 60; round++)
        for (int dtype = MXW_F32; dtype <= MXW_F8; dtype++) {
            mx_tensor t = random_view((mxw_dtype)dtype, bytes + draw() % 64, round % 3);   /* aligned to nothing */
            check_view(&t);
        }
    mx_free(bytes);
}

/* The sizes of a graph that are not known yet (op/op.h) are negative, one of them INT64_MIN: no stride follows. */
static void test_open_sizes(void) {
    mx_tensor t = mx_tensor_of(MXW_F32, 3, (int64_t[]){5, INT64_MIN, 3}, NULL);
    CHECK_EQ_INT(t.strides[2], 1);
    CHECK_EQ_INT(t.strides[1], 3);
    CHECK_EQ_INT(t.strides[0], 0);
    CHECK(t.dims[1] == INT64_MIN);
}

/* A view without elements may have no address, and neither need the copy: the undefined behaviour sanitizer watches. */
static void test_empty(void) {
    mx_tensor t = mx_tensor_of(MXW_F32, 2, (int64_t[]){0, 4}, NULL);
    mx_tensor_pack(&t, NULL);
    CHECK_EQ_INT(mx_tensor_to_f32(&t, NULL), MXW_OK);
    t.dtype = MXW_F16;
    CHECK_EQ_INT(mx_tensor_to_f32(&t, NULL), MXW_OK);
}

int main(void) {
    test_halves();
    test_f8();
    test_views();
    test_open_sizes();
    test_empty();
    return check_done();
}
