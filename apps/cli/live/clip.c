/* cli/live/clip.c - UTF-8 and the widths of its characters. */
#include "live/clip.h"

#include <stdint.h>

typedef struct range {
    uint32_t first, last;
} range;

/* East Asian wide and full-width characters, and pictures that terminals draw as wide (Unicode 15, rounded up). */
static const range wide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23f3},   {0x25fd, 0x25fe},
    {0x2614, 0x2615},   {0x2648, 0x2653},   {0x267f, 0x267f},   {0x2693, 0x2693},   {0x26a1, 0x26a1},
    {0x26aa, 0x26ab},   {0x26bd, 0x26be},   {0x26c4, 0x26c5},   {0x26ce, 0x26ce},   {0x26d4, 0x26d4},
    {0x26ea, 0x26ea},   {0x26f2, 0x26fd},   {0x2705, 0x2705},   {0x270a, 0x270b},   {0x2728, 0x2728},
    {0x274c, 0x274e},   {0x2753, 0x2757},   {0x2795, 0x2797},   {0x27b0, 0x27bf},   {0x2b1b, 0x2b1c},
    {0x2b50, 0x2b55},   {0x2e80, 0x303e},   {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0xa4cf},
    {0xa960, 0xa97f},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe10, 0xfe19},   {0xfe30, 0xfe6f},
    {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x16fe0, 0x18fff}, {0x1aff0, 0x1b2ff}, {0x1f004, 0x1f004},
    {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f19a}, {0x1f1e6, 0x1faff}, {0x20000, 0x3fffd},
};

/* Marks that stand on the character before them: the common ones, for the others count as one column. */
static const range joined[] = {
    {0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x064b, 0x065f}, {0x0e34, 0x0e3a}, {0x0e47, 0x0e4e},
    {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0x3099, 0x309a}, {0xfe00, 0xfe0f},
};

static int is_in(const range *ranges, size_t n, uint32_t code) {
    for (size_t i = 0; i < n; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return 1;
    return 0;
}

/* Bytes of the character at text, and its columns; a byte that is not UTF-8 is a character. */
static size_t next(const char *text, size_t n, int *columns) {
    const unsigned char *p = (const unsigned char *)text;
    size_t length = p[0] < 0xc0 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf8 ? 4 : 1;
    uint32_t code = length == 1 ? p[0] : p[0] & (0xffu >> (length + 1));
    *columns = 1;
    for (size_t i = 1; i < length; i++) {
        if (i >= n || (p[i] & 0xc0) != 0x80)
            return i < n ? i : n;
        code = code << 6 | (p[i] & 0x3fu);
    }
    if (is_in(joined, sizeof(joined) / sizeof(*joined), code))
        *columns = 0;
    else if (is_in(wide, sizeof(wide) / sizeof(*wide), code))
        *columns = 2;
    return length;
}

int clip_width(const char *text, size_t n) {
    int sum = 0, columns;
    for (size_t i = 0; i < n; sum += columns)
        i += next(text + i, n - i, &columns);
    return sum;
}

size_t clip_head(const char *text, size_t n, int columns) {
    int sum = 0, width;
    for (size_t i = 0, length; i < n; i += length, sum += width) {
        length = next(text + i, n - i, &width);
        if (sum + width > columns)
            return i;
    }
    return n;
}

size_t clip_tail(const char *text, size_t n, int columns) {
    int over = clip_width(text, n) - columns, width;
    size_t i = 0;
    while (i < n) {
        size_t length = next(text + i, n - i, &width);
        if (over <= 0 && width > 0) /* a mark does not begin a line */
            break;
        over -= width;
        i += length;
    }
    return i;
}

size_t clip_line(const char *text, size_t n, int columns) {
    size_t most = clip_head(text, n, columns);
    if (most == n)
        return n;
    for (size_t i = most; i > 0; i--)
        if (text[i] == ' ')
            return i;
    if (most > 0)
        return most;
    int width; /* not even one fits: never stand still */
    return next(text, n, &width);
}
