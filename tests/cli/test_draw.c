/* test_draw.c - pictures on a sheet that looks at all that is drawn: everything is finite and inside, no two texts lie
 * over each other, whatever the numbers: many, few, none, or not finite. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fake_sheet.h"
#include "kit/check.h"
#include "report/chart.h"
#include "report/doc.h"
#include "report/pictures.h"

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
    CHECK(draw_kind_of("a.pdf") == DRAW_PDF && draw_kind_of("a.pdf.gz") < 0);
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
