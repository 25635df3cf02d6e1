/* cli/report/doc.c - see doc.h. */
#include "report/doc.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char style[] =
    "body{font:15px/1.5 sans-serif;color:#222;max-width:1100px;margin:2em auto;padding:0 1em}"
    "h1{font-size:1.6em}h2{font-size:1.25em;margin-top:2em;border-bottom:1px solid #ddd}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .7em;border-bottom:1px solid #e4e4e4;"
    "text-align:left;vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}"
    "img{max-width:100%;height:auto}pre{background:#f5f5f5;padding:1em;overflow:auto}"
    "details{margin:1em 0}summary{cursor:pointer}.wide{overflow-x:auto}";

/* ---- text that stays what it is ------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at p, or 0 where there is none that XML may hold. */
static int character(const unsigned char *p) {
    if (p[0] < 0x80)
        return p[0] >= 0x20 || p[0] == '\n' || p[0] == '\t';
    int n = p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] >= 0x90))
        return 0;
    return n;
}

static void put_html(FILE *to, const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        int n = character(p);
        if (n == 0)
            fputs("\xef\xbf\xbd", to), p++;
        else if (*p == '&')
            fputs("&amp;", to), p++;
        else if (*p == '<')
            fputs("&lt;", to), p++;
        else if (*p == '>')
            fputs("&gt;", to), p++;
        else if (*p == '"')
            fputs("&quot;", to), p++;
        else
            fwrite(p, 1, (size_t)n, to), p += n;
    }
}

/* in_table: a bar or a line's end would end the cell. */
static void put_md(FILE *to, const char *text, int in_table) {
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        int n = character(p);
        if (n == 0) {
            fputs("\xef\xbf\xbd", to), p++;
            continue;
        }
        if (strchr("\\`*_<>[]#", *p) || (in_table && *p == '|'))
            fputc('\\', to);
        if (*p == '\n')
            fputc(' ', to), p++;
        else
            fwrite(p, 1, (size_t)n, to), p += n;
    }
}

/* ---- the two texts -------------------------------------------------------------------------------------- */

int doc_open(doc *d, const char *title) {
    *d = (doc){0};
    d->html = open_memstream(&d->html_text, &d->n_html);
    d->md = open_memstream(&d->md_text, &d->n_md);
    if (!d->html || !d->md)
        return 0;
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n<title>", d->html);
    put_html(d->html, title);
    fprintf(d->html, "</title>\n<style>%s</style></head>\n<body>\n<h1>", style);
    put_html(d->html, title);
    fputs("</h1>\n", d->html);
    fputs("# ", d->md);
    put_md(d->md, title, 0);
    fputs("\n", d->md);
    return 1;
}

int doc_close(doc *d) {
    fputs("</body></html>\n", d->html);
    int failed = ferror(d->html) || ferror(d->md);
    failed |= fclose(d->html) != 0;
    failed |= fclose(d->md) != 0;
    d->html = d->md = NULL;
    return !failed;
}

void doc_free(doc *d) {
    if (d->html)
        fclose(d->html);
    if (d->md)
        fclose(d->md);
    free(d->html_text);
    free(d->md_text);
}

void doc_heading(doc *d, const char *text) {
    fputs("<h2>", d->html);
    put_html(d->html, text);
    fputs("</h2>\n", d->html);
    fputs("\n## ", d->md);
    put_md(d->md, text, 0);
    fputs("\n", d->md);
}

void doc_paragraph(doc *d, const char *format, ...) {
    char *text = NULL;
    va_list list;
    va_start(list, format);
    if (vasprintf(&text, format, list) < 0)
        text = NULL;
    va_end(list);
    fputs("<p>", d->html);
    put_html(d->html, text ? text : "");
    fputs("</p>\n", d->html);
    fputs("\n", d->md);
    put_md(d->md, text ? text : "", 0);
    fputs("\n", d->md);
    free(text);
}

/* ---- tables --------------------------------------------------------------------------------------------- */

/* The name of column i, and whether it is of numbers. */
static int column_of(const char *columns, int i, char *name, size_t size) {
    for (; i > 0 && columns; i--)
        columns = strchr(columns, '|') ? strchr(columns, '|') + 1 : "";
    int right = *columns == '>';
    columns += right;
    snprintf(name, size, "%.*s", (int)strcspn(columns, "|"), columns);
    return right;
}

void doc_table(doc *d, const char *columns) {
    char name[80];
    d->columns = columns;
    d->n_columns = 1;
    d->column = 0;
    for (const char *p = columns; *p; p++)
        d->n_columns += *p == '|';
    fputs("<div class=\"wide\"><table><thead><tr>", d->html);
    fputs("\n|", d->md);
    for (int i = 0; i < d->n_columns; i++) {
        int right = column_of(columns, i, name, sizeof(name));
        fprintf(d->html, "<th%s>", right ? " class=\"n\"" : "");
        put_html(d->html, name);
        fputs("</th>", d->html);
        fputs(" ", d->md);
        put_md(d->md, name, 1);
        fputs(" |", d->md);
    }
    fputs("</tr></thead><tbody>\n", d->html);
    fputs("\n|", d->md);
    for (int i = 0; i < d->n_columns; i++)
        fputs(column_of(columns, i, name, sizeof(name)) ? "---:|" : "---|", d->md);
    fputs("\n", d->md);
}

void doc_cell(doc *d, const char *format, ...) {
    char *text = NULL, name[80];
    va_list list;
    va_start(list, format);
    if (vasprintf(&text, format, list) < 0)
        text = NULL;
    va_end(list);
    int right = column_of(d->columns, d->column, name, sizeof(name));
    fprintf(d->html, "%s<td%s>", d->column ? "" : "<tr>", right ? " class=\"n\"" : "");
    put_html(d->html, text ? text : "");
    d->column = (d->column + 1) % d->n_columns;
    fputs(d->column ? "</td>" : "</td></tr>\n", d->html);
    fputs(d->column == 1 || d->n_columns == 1 ? "| " : " ", d->md);
    put_md(d->md, text ? text : "", 1);
    fputs(d->column ? " |" : " |\n", d->md);
    free(text);
}

void doc_table_end(doc *d) {
    while (d->column)
        doc_cell(d, "%s", "");
    fputs("</tbody></table></div>\n", d->html);
}

/* ---- the rest ------------------------------------------------------------------------------------------- */

void doc_fold(doc *d, const char *summary) {
    fputs("<details><summary>", d->html);
    put_html(d->html, summary);
    fputs("</summary>\n", d->html);
    fputs("\n<details><summary>", d->md);
    put_html(d->md, summary);
    fputs("</summary>\n", d->md);
}

void doc_fold_end(doc *d) {
    fputs("</details>\n", d->html);
    fputs("\n</details>\n", d->md);
}

void doc_verbatim(doc *d, const char *text) {
    fputs("<pre>", d->html);
    put_html(d->html, text);
    fputs("</pre>\n", d->html);
    fprintf(d->md, "\n```\n%s\n```\n", text);
}

static void put_base64(FILE *to, const draw_bytes *bytes) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes->n; i += 3) {
        size_t n = bytes->n - i < 3 ? bytes->n - i : 3;
        uint32_t three = (uint32_t)bytes->data[i] << 16;
        three |= n > 1 ? (uint32_t)bytes->data[i + 1] << 8 : 0;
        three |= n > 2 ? bytes->data[i + 2] : 0;
        fputc(digits[three >> 18], to);
        fputc(digits[three >> 12 & 63], to);
        fputc(n > 1 ? digits[three >> 6 & 63] : '=', to);
        fputc(n > 2 ? digits[three & 63] : '=', to);
    }
}

void doc_picture(doc *d, const char *file, const char *what, const draw_bytes *svg) {
    fputs("<p><img alt=\"", d->html);
    put_html(d->html, what);
    fputs("\" src=\"data:image/svg+xml;base64,", d->html);
    put_base64(d->html, svg);
    fputs("\"/></p>\n", d->html);
    fputs("\n![", d->md);
    put_md(d->md, what, 0);
    fprintf(d->md, "](%s)\n", file);
}

/* Where it is written until it is whole. */
static int name_new(const char *path, char name[PATH_MAX]) {
    int length = snprintf(name, PATH_MAX, "%s.new", path);
    return length > 0 && length < PATH_MAX;
}

int doc_can_save(const char *path) {
    char name[PATH_MAX];
    FILE *file = name_new(path, name) ? fopen(name, "wb") : NULL;
    if (!file)
        return errno ? errno : ENAMETOOLONG;
    fclose(file);
    unlink(name);
    return 0;
}

int doc_save(const char *path, const void *bytes, size_t n) {
    char name[PATH_MAX];
    if (!name_new(path, name))
        return ENAMETOOLONG;
    FILE *file = fopen(name, "wb");
    if (!file)
        return errno;
    int fault = fwrite(bytes, 1, n, file) == n ? 0 : errno ? errno : EIO;
    if (fclose(file) && !fault)
        fault = errno;
    if (!fault && rename(name, path))
        fault = errno;
    if (fault)
        unlink(name);
    return fault;
}
