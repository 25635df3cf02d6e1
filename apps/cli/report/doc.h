/* cli/report/doc.h - one text written twice: as Markdown, and as an HTML page that needs nothing from anywhere.
 *
 * In: headings, paragraphs, tables and pictures in their order. Out: both texts. Invariants: whatever bytes a text has,
 * both stay well formed; pictures lie inside the page, and beside the Markdown as files of their own names.
 */
#ifndef CLI_REPORT_DOC_H
#define CLI_REPORT_DOC_H

#include <stdio.h>

#include "report/draw.h"

typedef struct doc {
    FILE *html, *md;
    char *html_text, *md_text;
    size_t n_html, n_md;
    const char *columns; /* of the table under way */
    int n_columns, column;
} doc;

int doc_open(doc *d, const char *title); /* 0 when there is no memory */
/* Ends both texts; 0 when they are not whole. They live until doc_free. */
int doc_close(doc *d);
void doc_free(doc *d);

void doc_heading(doc *d, const char *text);
void doc_paragraph(doc *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* columns: names divided by '|'; one that begins with '>' is of numbers and set to the right. */
void doc_table(doc *d, const char *columns);
/* The next cell, row by row. */
void doc_cell(doc *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void doc_table_end(doc *d);
/* What is long, to be opened by who wants it. */
void doc_fold(doc *d, const char *summary);
void doc_fold_end(doc *d);
void doc_verbatim(doc *d, const char *text);
/* file: its name beside the Markdown. */
void doc_picture(doc *d, const char *file, const char *what, const draw_bytes *svg);

/* A file that appears whole or not at all; 0, or errno. */
int doc_save(const char *path, const void *bytes, size_t n);
/* Whether that would be possible: 0, or errno; nothing is left behind. */
int doc_can_save(const char *path);

#endif
