/* test_draw.c - pictures on a sheet that looks at all that is drawn: everything is finite and inside, no two texts lie
 * over each other, whatever the numbers: many, few, none, or not finite. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kit/check.h"
#include "report/chart.h"
#include "report/doc.h"
#include "report/pictures.h"

/* ---- the sheet ------------------------------------------------------------------------------------------ */

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

static int drawn(const char *text) {
    for (int i = 0; i < seen.n_texts; i++)
        if (strstr(seen.texts[i].text, text))
            return 1;
    return 0;
}

/* ---- pictures ------------------------------------------------------------------------------------------- */

static void test_words(void) {
    static float mel[3000 * 80];
    static picture_word words[120];
    for (int i = 0; i < 3000 * 80; i++)
        mel[i] = (float)sin(i * 0.01) + (i % 977 == 0 ? NAN : 0);
    for (int i = 0; i < 120; i++)
        words[i] = (picture_word){i * 0.25, i * 0.25 + 0.24, i % 3 ? "uncommonly" : "so"};
    picture_words p = {mel, 3000, 80, words, 120, "A title"};
    begin(picture_words_height(&p));
    picture_words_draw(&sheet, &p);
    CHECK_EQ_INT(seen.n_images, 3);
    CHECK(drawn("29 s") && drawn("uncommonly") && drawn("A title"));
    end();
    p.frames = 710, p.n_words = 20;
    begin(picture_words_height(&p));
    picture_words_draw(&sheet, &p);
    CHECK_EQ_INT(seen.n_images, 1);
    end();
    p = (picture_words){.mels = 80, .title = "A title"};
    begin(picture_words_height(&p));
    picture_words_draw(&sheet, &p);
    CHECK(drawn("there is no sound"));
    end();
}

static void test_alignment(void) {
    static float matrix[225 * 1500];
    static int32_t frames[225];
    static const char *names[225];
    for (int i = 0; i < 225 * 1500; i++)
        matrix[i] = i % 1501 == 0 ? 3 : i % 777 == 0 ? NAN : 0;
    for (int i = 0; i < 225; i++)
        frames[i] = i * 6, names[i] = i % 2 ? "a token of quite some length, far too long" : "of";
    for (int rows = 225; rows > 0; rows /= 15) {
        picture_alignment p = {matrix, frames, names, rows, 1500, "A title"};
        begin(picture_alignment_height(&p));
        picture_alignment_draw(&sheet, &p);
        CHECK(drawn("of") && seen.n_images == 1);
        end();
    }
    picture_alignment none = {.title = "A title"};
    begin(picture_alignment_height(&none));
    picture_alignment_draw(&sheet, &none);
    CHECK(drawn("there is no text") && seen.n_images == 0);
    end();
}

static void test_errors(void) {
    static const char *const kinds[] = {"attn_ln", "attn.q", "attn.heads", "mlp.fc1", "mlp.residual"};
    static char names[400][64];
    static const char *stages[400];
    static double bounds[400], first[400], second[400];
    int n = 0;
    snprintf(names[n++], 64, "mel");
    snprintf(names[n++], 64, "encoder.conv1");
    for (int i = 0; i < 320; i++, n++)
        snprintf(names[n], 64, "%s.blocks.%d.%s", i < 160 ? "encoder" : "decoder", i % 160 / 5, kinds[i % 5]);
    snprintf(names[n++], 64, "decoder.logits");
    for (int i = 0; i < n; i++) {
        stages[i] = names[i];
        bounds[i] = 1e-5 * (i + 1);
        first[i] = i % 7 == 0 ? 0 : 1e-7 * (i + 1);
        second[i] = i % 5 == 0 ? NAN : 1e-6;
    }
    picture_errors p = {stages, bounds, {first, second}, {"max on cpu", "gpu on cuda:0"}, {1, 2}, n, 2};
    begin(PICTURE_ERRORS_HEIGHT);
    picture_errors_draw(&sheet, &p);
    CHECK(drawn("mel, stem") && drawn("decoder 1") && drawn("gpu on cuda:0"));
    end();
    p = (picture_errors){.n = 0};
    begin(PICTURE_ERRORS_HEIGHT);
    picture_errors_draw(&sheet, &p);
    CHECK(drawn("no other engine"));
    end();
}

static void test_bars(void) {
    static picture_bar bars[40];
    for (int i = 0; i < 40; i++) {
        snprintf(bars[i].name, sizeof(bars[i].name), "a bar whose name is long, number %d", i);
        snprintf(bars[i].note, sizeof(bars[i].note), "%d.5 × real time", i);
        for (int k = 0; k < 3; k++)
            bars[i].ms[k] = k == 1 && i == 3 ? NAN : k == 2 && i == 4 ? -1 : i * (k + 1.0);
    }
    picture_bars p = {"A title", "a note", {"mel", "encode", "step"}, 3, 40, bars};
    begin(picture_bars_height(&p));
    picture_bars_draw(&sheet, 0, &p);
    CHECK(drawn("234 ms, 39.5 × real time") && drawn("encode"));
    end();
    p.n_bars = 0;
    begin(picture_bars_height(&p));
    picture_bars_draw(&sheet, 0, &p);
    CHECK(drawn("there is no run"));
    end();
}

static void test_roofline(void) {
    static picture_kernel kernels[24];
    for (int i = 0; i < 24; i++) {
        snprintf(kernels[i].name, sizeof(kernels[i].name), "decoder fused_linear, a kernel with a long name f16 %d", i);
        kernels[i].series = i % 2;
        kernels[i].flops = i == 5 ? 0 : 1e9 * (1 + i % 6);
        kernels[i].bytes = i == 6 ? 0 : 1e8 * (1 + i % 3);
        kernels[i].ms = 10;
    }
    picture_roofline p = {kernels, 24, {"cpu", "max on cpu"}, 2, {{"cpu", "in registers", 300, 20}}, 1};
    begin(picture_roofline_height(&p));
    picture_roofline_draw(&sheet, &p);
    CHECK(drawn("300 GFLOP/s in registers") && drawn("20.0 GB/s") && drawn("max on cpu") && !drawn("cpu: 300"));
    end();
    p.roofs[1] = (picture_roof){"cuda:0", "in registers", 60000, 4000};
    p.roofs[2] = (picture_roof){"cuda:0", "of f16 on tensor cores", 900000, 4000};
    p.n_roofs = 3;
    begin(picture_roofline_height(&p));
    picture_roofline_draw(&sheet, &p);
    CHECK(drawn("cpu: 300 GFLOP/s in registers") && drawn("cuda:0: 60000 GFLOP/s in registers"));
    CHECK(drawn("cuda:0: 900000 GFLOP/s of f16 on tensor cores") && drawn("cuda:0: 4000.0 GB/s"));
    end();
    p.n_roofs = 0;
    begin(picture_roofline_height(&p));
    picture_roofline_draw(&sheet, &p);
    CHECK(drawn("not measured"));
    end();
    p.n = 0;
    begin(picture_roofline_height(&p));
    picture_roofline_draw(&sheet, &p);
    CHECK(drawn("no kernel"));
    end();
}

/* ---- what they are made of ------------------------------------------------------------------------------ */

static void test_refused(void) {
    begin(100);
    int n = seen.n_boxes;
    draw_box(&sheet, NAN, 0, 1, 1);
    draw_line(&sheet, 0, 0, INFINITY, 1, 1, 0);
    draw_text(&sheet, 0, NAN, "x", 10, DRAW_LEFT);
    draw_box(&sheet, 0, 0, 0, 5);
    CHECK_EQ_INT(sheet.n_refused, 3);
    CHECK_EQ_INT(seen.n_boxes, n);
    draw_text(&sheet, 5, 50, "a\xff" "b\xe2\x82\n", 10, DRAW_LEFT);
    CHECK(drawn("a?b???"));
    char cut[64];
    chart_fit(&sheet, "ééééééééééééééééééé", 10, 60, cut, sizeof(cut));
    CHECK(strlen(cut) < 24 && strstr(cut, "…") && draw_text_width(&sheet, cut, 10) <= 60);
    draw_close(&sheet);
    free(bytes.data);
}

static void test_axes(void) {
    chart_axis a = chart_around(0, 873);
    CHECK(a.low == 0 && a.high == 1000);
    a = chart_around(5, 5);
    CHECK(a.high > a.low);
    a = chart_around(NAN, INFINITY);
    CHECK(isfinite(a.low) && a.high > a.low);
    a = chart_decades(2e-7, 3e-4);
    CHECK(fabs(a.low / 1e-7 - 1) < 1e-9 && fabs(a.high / 1e-3 - 1) < 1e-9);
    a = chart_decades(0, -1);
    CHECK(a.low > 0 && a.high > a.low);
    CHECK(draw_heat_color(NAN) == draw_heat_color(0) && draw_heat_color(2) == draw_heat_color(1));
    CHECK(draw_kind_of("a.svg") == DRAW_SVG && draw_kind_of("a.b.png") == DRAW_PNG && draw_kind_of("svg") < 0);
}

/* Markup in a text stays text; a table's missing cells are there. */
static void test_doc(void) {
    doc d;
    draw_bytes picture = {(uint8_t *)"<svg/>", 6, 6};
    CHECK(doc_open(&d, "A & B"));
    doc_paragraph(&d, "%s", "1 < 2 | \xff *x*");
    doc_table(&d, "name|>number");
    doc_cell(&d, "%s", "a|b\nc");
    doc_table_end(&d);
    doc_picture(&d, "p.svg", "\"quoted\"", &picture);
    CHECK(doc_close(&d));
    CHECK(strstr(d.html_text, "<h1>A &amp; B</h1>") && strstr(d.html_text, "<p>1 &lt; 2 | \xef\xbf\xbd *x*</p>"));
    CHECK(strstr(d.html_text, "<td class=\"n\"></td></tr>") && strstr(d.html_text, "base64,PHN2Zy8+\""));
    CHECK(strstr(d.html_text, "alt=\"&quot;quoted&quot;\""));
    CHECK(strstr(d.md_text, "1 \\< 2 | \xef\xbf\xbd \\*x\\*\n") && strstr(d.md_text, "| a\\|b c |  |\n"));
    CHECK(strstr(d.md_text, "](p.svg)"));
    doc_free(&d);
    CHECK(doc_can_save("/no/such/folder/x") != 0 && doc_save("/no/such/folder/x", "x", 1) != 0);
}

int main(void) {
    test_words();
    test_alignment();
    test_errors();
    test_bars();
    test_roofline();
    test_refused();
    test_axes();
    test_doc();
    return check_done();
}
