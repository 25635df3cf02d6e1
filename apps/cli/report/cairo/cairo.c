/* cli/report/cairo/cairo.c - the drawing module: implements draw.h with cairo, as SVG, PDF, or PNG at 2x scale. */
#include <cairo-pdf.h>
#include <cairo-svg.h>
#include <cairo.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/draw.h"

#define PNG_SCALE 2
#define FONT "DejaVu Sans"

typedef struct pen {
    cairo_surface_t *surface;
    cairo_t *cairo;
    draw_kind kind;
    draw_write_fn write;
    void *user;
} pen;

static cairo_status_t write_on(void *closure, const unsigned char *bytes, unsigned int n) {
    const pen *p = closure;
    return p->write(p->user, bytes, n) ? CAIRO_STATUS_WRITE_ERROR : CAIRO_STATUS_SUCCESS;
}

static void *pen_open(draw_kind kind, double width, double height, draw_write_fn write, void *user) {
    pen *p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    *p = (pen){.kind = kind, .write = write, .user = user};
    if (kind == DRAW_SVG)
        p->surface = cairo_svg_surface_create_for_stream(write_on, p, width, height);
    else if (kind == DRAW_PDF)
        p->surface = cairo_pdf_surface_create_for_stream(write_on, p, width, height);
    else
        p->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(width * PNG_SCALE),
                                                (int)ceil(height * PNG_SCALE));
    p->cairo = cairo_create(p->surface);
    if (kind == DRAW_PNG)
        cairo_scale(p->cairo, PNG_SCALE, PNG_SCALE);
    cairo_set_line_join(p->cairo, CAIRO_LINE_JOIN_ROUND);
    if (cairo_status(p->cairo) == CAIRO_STATUS_SUCCESS)
        return p;
    cairo_destroy(p->cairo);
    cairo_surface_destroy(p->surface);
    free(p);
    return NULL;
}

static const char *pen_close(void *any) {
    pen *p = any;
    cairo_status_t status = cairo_status(p->cairo);
    cairo_destroy(p->cairo);
    if (status == CAIRO_STATUS_SUCCESS && p->kind == DRAW_PNG)
        status = cairo_surface_write_to_png_stream(p->surface, write_on, p);
    cairo_surface_finish(p->surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(p->surface);
    cairo_surface_destroy(p->surface);
    free(p);
    return status == CAIRO_STATUS_SUCCESS ? NULL : cairo_status_to_string(status);
}

static void pen_color(void *any, double r, double g, double b, double alpha) {
    cairo_set_source_rgba(((pen *)any)->cairo, r, g, b, alpha);
}

static void pen_stroke(void *any, const double *xy, int n_points, double width, int dashed) {
    cairo_t *c = ((pen *)any)->cairo;
    cairo_set_line_width(c, width);
    cairo_set_dash(c, (double[]){4, 3}, dashed ? 2 : 0, 0);
    for (int i = 0; i < n_points; i++)
        cairo_line_to(c, xy[2 * i], xy[2 * i + 1]);
    cairo_stroke(c);
}

static void pen_fill(void *any, double x, double y, double w, double h) {
    cairo_rectangle(((pen *)any)->cairo, x, y, w, h);
    cairo_fill(((pen *)any)->cairo);
}

static void pen_disc(void *any, double x, double y, double radius) {
    cairo_arc(((pen *)any)->cairo, x, y, radius, 0, 2 * 3.14159265358979323846);
    cairo_fill(((pen *)any)->cairo);
}

static void set_font(cairo_t *c, double size, int bold) {
    cairo_select_font_face(c, FONT, CAIRO_FONT_SLANT_NORMAL, bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c, size);
}

static void pen_text(void *any, double x, double y, const char *text, double size, int bold, int turned) {
    cairo_t *c = ((pen *)any)->cairo;
    set_font(c, size, bold);
    cairo_save(c);
    cairo_move_to(c, x, y);
    if (turned)
        cairo_rotate(c, -3.14159265358979323846 / 2);
    cairo_show_text(c, text);
    cairo_restore(c);
    cairo_new_path(c);
}

static double pen_text_width(void *any, const char *text, double size, int bold) {
    cairo_text_extents_t extents;
    set_font(((pen *)any)->cairo, size, bold);
    cairo_text_extents(((pen *)any)->cairo, text, &extents);
    return extents.x_advance;
}

static void pen_image(void *any, double x, double y, double w, double h, const uint8_t *rgb, int columns, int rows) {
    cairo_t *c = ((pen *)any)->cairo;
    cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, columns, rows);
    unsigned char *data = cairo_image_surface_get_data(image);
    int stride = cairo_image_surface_get_stride(image);
    for (int r = 0; data && r < rows; r++)
        for (int i = 0; i < columns; i++, rgb += 3) {
            uint32_t pixel = (uint32_t)rgb[0] << 16 | (uint32_t)rgb[1] << 8 | rgb[2];
            memcpy(data + (size_t)r * (size_t)stride + 4 * (size_t)i, &pixel, sizeof(pixel));
        }
    cairo_surface_mark_dirty(image);
    cairo_save(c);
    cairo_translate(c, x, y);
    cairo_scale(c, w / columns, h / rows);
    cairo_set_source_surface(c, image, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(c), CAIRO_FILTER_BEST);
    cairo_pattern_set_extend(cairo_get_source(c), CAIRO_EXTEND_PAD);
    cairo_rectangle(c, 0, 0, columns, rows);
    cairo_fill(c);
    cairo_restore(c);
    cairo_surface_destroy(image);
}

static const draw_table table = {pen_open, pen_close, pen_color,      pen_stroke, pen_fill,
                                 pen_disc, pen_text,  pen_text_width, pen_image};

__attribute__((visibility("default"))) const draw_table *mx_module_open(uint32_t abi);
const draw_table *mx_module_open(uint32_t abi) { return abi == DRAW_MODULE_ABI ? &table : NULL; }
