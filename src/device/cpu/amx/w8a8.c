/* device/cpu/amx/w8a8.c - products in 8 bits, for AMX: tiles of 16 lines of 64 bytes, signed by signed bytes.
 *
 * Numbers of rows lie in lines of 64, so that 16 lines are a tile as they are; of a panel, 16 fours of k of 16 columns
 * are one. A block is 32 rows by one panel or 16 rows by two: four tiles of sums, so that each waits for itself only
 * every fourth product. Tiles are set up by w8a8_begin and given back by w8a8_end, both on the thread that multiplies;
 * in between signals and other threads do no harm, the system saves tiles as it saves registers.
 * Invariant: a tile of rows is always computed whole. Past the last row it is what memory has there, and not stored. */
#include "device/cpu/avx512/w8a8.h"

#define LINES 16               /* of a tile */
#define LINE 64                /* bytes */
#define FOUR (MX_PANEL * 4)    /* bytes of a four of k in a panel */

/* Sums are tiles 0 to 3, rows 4 and 5, panels 6 and 7. */
#define LOAD(tile, from, stride)                                                                                       \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), "r"((int64_t)(stride)) : "memory")
#define STORE(tile, to, stride)                                                                                        \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"((int64_t)(stride)) : "memory")
#define CLEAR(tile) __asm__ volatile("tilezero %%tmm" #tile ::)
#define MULTIPLY(sum, rows, panel) __asm__ volatile("tdpbssd %%tmm" #panel ", %%tmm" #rows ", %%tmm" #sum ::)

void MX_FAST(w8a8_blocks)(mx_w8a8_blocks *out) {
    *out = (mx_w8a8_blocks){.tile_rows = 2 * LINES, .tile_panels = 2, .row_block = 256, .bytes = 1, .adjacent = LINES};
}

/* ---- the unit ---------------------------------------------------------------------------------------------------- */

/* Few rows make shorter tiles, which take less time. */
void MX_FAST(w8a8_begin)(int64_t rows) {
    struct {
        uint8_t palette, start, zero[14];
        uint16_t bytes[16];   /* of a line */
        uint8_t lines[16];
    } shape = {.palette = 1};
    uint8_t lines = (uint8_t)MX_MIN(rows, LINES);
    for (int i = 0; i < 8; i++) {
        shape.bytes[i] = LINE;
        shape.lines[i] = i < 6 ? lines : LINES;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(shape) : "memory");
}

void MX_FAST(w8a8_end)(void) { __asm__ volatile("tilerelease" ::: "memory"); }

/* ---- rows -------------------------------------------------------------------------------------------------------- */

void MX_FAST(w8a8_row)(void *y, int64_t stride, float *scale, int32_t *shift, const float *x, int64_t k) {
    const mx_int8_range range = w8a8_range(x, k);
    char *to = y;
    *scale = range.scale;
    *shift = range.shift;
    for (int64_t line = 0; line < k; line += LINE, to += stride)
#pragma GCC unroll 4
        for (int64_t i = line; i < line + LINE; i += 16) {
            __m512i p = w8a8_numbers(x + i, w8a8_first(MX_MAX(k - i, 0)), range);
            _mm_storeu_si128((void *)(to + i - line), _mm512_cvtsepi32_epi8(p));
        }
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

/* 16 fours of a panel, or what is left of it and zeros. */
INLINE const int8_t *lines_of(const int8_t *b, int64_t fours, int8_t room[LINES * FOUR]) {
    if (fours >= LINES)
        return b;
    memset(room, 0, LINES * FOUR);
    memcpy(room, b, (size_t)fours * FOUR);
    return room;
}

/* Sums of a tile, [row][16 columns], to y from `row` and `column` on. */
INLINE void finish(const mx_w8a8_tile *t, int32_t sums[LINES][LINES], int64_t row, int64_t column) {
    int64_t rows = MX_MIN(LINES, t->rows - row);
    for (int64_t r = 0; r < rows; r++)
        w8a8_store(t, _mm512_load_si512(sums[r]), row + r, column);
}

/* 32 rows by one panel. */
static void two_by_one(const mx_w8a8_tile *t, int64_t panel) {
    _Alignas(64) int32_t sums[4][LINES][LINES];
    _Alignas(64) int8_t room[LINES * FOUR];
    const char *a = t->a;
    const int8_t *b = t->b + panel * t->quads * FOUR;
    CLEAR(0);
    CLEAR(1);
    CLEAR(2);
    CLEAR(3);
    for (int64_t q = t->quads; q > 0; q -= LINES, a += t->a_rows * LINE, b += LINES * FOUR) {
        const int8_t *w = lines_of(b, q, room);
        LOAD(4, a, LINE);
        LOAD(6, w, FOUR);
        MULTIPLY(0, 4, 6);
        LOAD(7, w + LINE, FOUR);
        MULTIPLY(1, 4, 7);
        LOAD(5, a + LINES * LINE, LINE);
        MULTIPLY(2, 5, 6);
        MULTIPLY(3, 5, 7);
    }
    STORE(0, sums[0], LINE);
    STORE(1, sums[1], LINE);
    STORE(2, sums[2], LINE);
    STORE(3, sums[3], LINE);
    for (int i = 0; i < 4; i++)
        finish(t, sums[i], i / 2 * LINES, panel * MX_PANEL + i % 2 * LINES);
}

/* At most 16 rows by one panel or two. */
static void one_by(const mx_w8a8_tile *t) {
    _Alignas(64) int32_t sums[4][LINES][LINES];
    _Alignas(64) int8_t room[2][LINES * FOUR];
    const char *a = t->a;
    const int8_t *b = t->b, *b2 = t->panels == 2 ? t->b + t->quads * FOUR : t->b;
    CLEAR(0);
    CLEAR(1);
    CLEAR(2);
    CLEAR(3);
    for (int64_t q = t->quads; q > 0; q -= LINES, a += t->a_rows * LINE, b += LINES * FOUR, b2 += LINES * FOUR) {
        const int8_t *w = lines_of(b, q, room[0]), *w2 = lines_of(b2, q, room[1]);
        LOAD(4, a, LINE);
        LOAD(6, w, FOUR);
        MULTIPLY(0, 4, 6);
        LOAD(7, w + LINE, FOUR);
        MULTIPLY(1, 4, 7);
        if (t->panels == 2) {
            LOAD(6, w2, FOUR);
            MULTIPLY(2, 4, 6);
            LOAD(7, w2 + LINE, FOUR);
            MULTIPLY(3, 4, 7);
        }
    }
    STORE(0, sums[0], LINE);
    STORE(1, sums[1], LINE);
    STORE(2, sums[2], LINE);
    STORE(3, sums[3], LINE);
    for (int i = 0; i < 2 * t->panels; i++)
        finish(t, sums[i], 0, i * LINES);
}

void MX_FAST(w8a8_tile)(const mx_w8a8_tile *t) {
    if (t->rows <= LINES)
        one_by(t);
    else
        for (int64_t panel = 0; panel < t->panels; panel++)
            two_by_one(t, panel);
}
