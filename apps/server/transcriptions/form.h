/* server/transcriptions/form.h - a form as it comes in: fields in memory, within bounds, and one file on disk.
 *
 * In: pieces of parts, in any order and of any size, as libmicrohttpd's post processor finds them. Out: the fields by
 * name, a trailing "[]" taken off, in their order; the file.
 * Invariants: a problem is kept, and what follows is dropped; memory is at most FORM_BYTES whatever comes.
 */
#ifndef SERVER_TRANSCRIPTIONS_FORM_H
#define SERVER_TRANSCRIPTIONS_FORM_H

#include "transcriptions/temp_file.h"

enum { FORM_FIELDS = 256, FORM_NAME = 128, FORM_BYTES = 1 << 20 };

typedef struct form_field {
    char *name, *value; /* value has a final 0, and no other */
    size_t n;
} form_field;

typedef struct form_problem {
    unsigned status; /* 0: none; else as HTTP has it */
    char param[FORM_NAME];
    const char *code;
    char message[512];
} form_problem;

typedef struct upload_form {
    form_field fields[FORM_FIELDS];
    int n_fields;
    size_t n_bytes; /* of names and values */
    temp_file file;
    int has_file, in_file;
    int is_empty; /* the part so far */
    int64_t max_upload;
    form_problem problem;
} upload_form;

void form_init(upload_form *form, int64_t max_upload);
void form_free(upload_form *form);
/* A piece of a part: its bytes from offset on; offset 0 begins a part. 0: there is a problem, no more is needed. */
int form_take(upload_form *form, const char *name, const char *bytes, uint64_t offset, size_t n);
/* The first problem stays. */
void form_refuse(form_problem *problem, unsigned status, const char *param, const char *code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
