/* tests/cli/fake_sheet.h - a sheet that looks at all that is drawn: everything is finite and inside, and no two texts
 * lie over each other. begin, draw on `sheet`, end. */
#ifndef TESTS_CLI_FAKE_SHEET_H
#define TESTS_CLI_FAKE_SHEET_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kit/check.h"
#include "report/pictures.h"

enum { MOST_TEXTS = 4000 };

typedef struct box {
    double x0, y0, x1, y1;
    char text[256];
} box;

static struct {
    double width, height;
    int n_outside, n_bad, n_images, n_boxes, n_texts;
    box texts[MOST_TEXTS];
} seen;

static void look_at(double x, double y) {
    seen.n_bad += !isfinite(x) || !isfinite(y);
    int outside = x < -0.5 || y < -0.5 || x > seen.width + 0.5 || y > seen.height + 0.5;
    if (outside && seen.n_outside++ < 3)
        printf("    outside: %g %g\n", x, y);
}

static void *fake_open(draw_kind kind, double width, double height, draw_write_fn write, void *user) {
    memset(&seen, 0, sizeof(seen));
    seen.width = width;
    seen.height = height;
    return write(user, "picture", 7) ? NULL : &seen;
}

static const char *fake_close(void *pen) { return pen == &seen ? NULL : "another pen"; }

static void fake_color(void *pen, double r, double g, double b, double alpha) {
    CHECK(r >= 0 && r <= 1 && g >= 0 && g <= 1 && b >= 0 && b <= 1 && alpha > 0 && alpha <= 1);
}

static void fake_stroke(void *pen, const double *xy, int n_points, double width, int dashed) {
    for (int i = 0; i < n_points; i++)
        look_at(xy[2 * i], xy[2 * i + 1]);
    CHECK(width > 0);
}

static void fake_fill(void *pen, double x, double y, double w, double h) {
    look_at(x, y);
    look_at(x + w, y + h);
    seen.n_boxes++;
}

static void fake_disc(void *pen, double x, double y, double radius) {
    look_at(x, y);
    CHECK(radius > 0 && radius < 100);
}

static double fake_width(void *pen, const char *text, double size, int bold) {
    int n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n * size * (bold ? 0.66 : 0.58);
}

static void fake_text(void *pen, double x, double y, const char *text, double size, int bold, int turned) {
    double width = fake_width(pen, text, size, bold);
    box b = {x, y - 0.7 * size, x + width, y, ""};
    if (turned)
        b = (box){x - 0.7 * size, y - width, x, y, ""};
    snprintf(b.text, sizeof(b.text), "%s", text);
    look_at(b.x0, b.y0);
    look_at(b.x1, b.y1);
    if (CHECK(seen.n_texts < MOST_TEXTS))
        seen.texts[seen.n_texts++] = b;
}

static void fake_image(void *pen, double x, double y, double w, double h, const uint8_t *rgb, int columns, int rows) {
    look_at(x, y);
    look_at(x + w, y + h);
    CHECK(columns > 0 && rows > 0);
    seen.n_images++;
}

static const draw_table fake = {fake_open, fake_close, fake_color, fake_stroke, fake_fill,
                                fake_disc, fake_text,  fake_width, fake_image};

static int n_overlapping(void) {
    int n = 0;
    for (int i = 0; i < seen.n_texts; i++)
        for (int j = 0; j < i; j++) {
            const box *a = &seen.texts[i], *b = &seen.texts[j];
            if (a->x0 < b->x1 && b->x0 < a->x1 && a->y0 < b->y1 && b->y0 < a->y1 && n++ < 4)
                printf("    \"%s\" lies over \"%s\"\n", a->text, b->text);
        }
    return n;
}

static draw_sheet sheet;
static draw_bytes bytes;

static void begin(double height) {
    CHECK(height > 50 && height < 5000);
    CHECK(draw_open(&sheet, &fake, DRAW_SVG, PICTURE_WIDTH, height, &bytes));
}

static void end(void) {
    CHECK_EQ_INT(seen.n_outside, 0);
    CHECK_EQ_INT(seen.n_bad, 0);
    CHECK_EQ_INT(sheet.n_refused, 0);
    CHECK_EQ_INT(n_overlapping(), 0);
    CHECK(draw_close(&sheet) == NULL);
    CHECK_EQ_INT(bytes.n, 7);
    free(bytes.data);
}

#endif
