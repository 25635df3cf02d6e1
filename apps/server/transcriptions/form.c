/* server/transcriptions/form.c - see form.h. */
#include "transcriptions/form.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void form_init(upload_form *form, int64_t max_upload) {
    memset(form, 0, sizeof(*form));
    form->file.fd = -1;
    form->max_upload = max_upload;
}

void form_free(upload_form *form) {
    for (int i = 0; i < form->n_fields; i++) {
        free(form->fields[i].name);
        free(form->fields[i].value);
    }
    form->n_fields = 0;
    temp_file_close(&form->file);
}

void form_refuse(form_problem *problem, unsigned status, const char *param, const char *code, const char *format, ...) {
    va_list arguments;
    if (problem->status)
        return;
    problem->status = status;
    problem->code = code;
    snprintf(problem->param, sizeof(problem->param), "%s", param ? param : "");
    va_start(arguments, format);
    vsnprintf(problem->message, sizeof(problem->message), format, arguments);
    va_end(arguments);
}

/* ---- the file ------------------------------------------------------------------------------------------- */

static int begin_file(upload_form *form) {
    if (form->has_file) {
        form_refuse(&form->problem, 400, "file", "repeated_field", "file: there is more than one; send a request for "
                    "each");
        return 0;
    }
    form->has_file = 1;
    if (!temp_file_open(&form->file))
        form_refuse(&form->problem, 507, NULL, "no_space", "the upload cannot be stored: %s", strerror(errno));
    return form->file.fd >= 0;
}

static int take_file(upload_form *form, const char *bytes, size_t n) {
    if ((int64_t)n > form->max_upload - form->file.size) {
        form_refuse(&form->problem, 413, "file", "file_too_large", "file: larger than the %lld bytes that this server "
                    "takes", (long long)form->max_upload);
        return 0;
    }
    if (temp_file_append(&form->file, bytes, n))
        return 1;
    form_refuse(&form->problem, 507, NULL, "no_space", "the upload cannot be stored: %s", strerror(errno));
    return 0;
}

/* ---- fields --------------------------------------------------------------------------------------------- */

static int too_large(upload_form *form) {
    form_refuse(&form->problem, 400, NULL, "form_too_large", "the form has more than %d fields, or more than %d bytes "
                "in them", FORM_FIELDS, FORM_BYTES);
    return 0;
}

static int begin_field(upload_form *form, const char *name) {
    size_t n = strlen(name);
    if (n >= 2 && !strcmp(name + n - 2, "[]"))
        n -= 2;
    if (!n || n >= FORM_NAME || form->n_fields == FORM_FIELDS || form->n_bytes + n > FORM_BYTES)
        return too_large(form);
    form_field *field = &form->fields[form->n_fields];
    *field = (form_field){strndup(name, n), calloc(1, 1), 0};
    form->n_fields++;
    form->n_bytes += n + 1;
    return field->name && field->value ? 1 : too_large(form);
}

static int take_field(upload_form *form, const char *bytes, size_t n) {
    form_field *field = &form->fields[form->n_fields - 1];
    if (n > FORM_BYTES - form->n_bytes)
        return too_large(form);
    if (memchr(bytes, 0, n)) {
        form_refuse(&form->problem, 400, field->name, "invalid_value", "%s: holds a zero byte", field->name);
        return 0;
    }
    char *grown = realloc(field->value, field->n + n + 1);
    if (!grown)
        return too_large(form);
    memcpy(grown + field->n, bytes, n);
    field->value = grown;
    field->n += n;
    field->value[field->n] = 0;
    form->n_bytes += n;
    return 1;
}

/* A part whose first bytes were not there yet begins with an empty piece, and then again: by nothing but its name is it
 * told from two parts, of which the first is empty and then of no interest. */
static int continues(const upload_form *form, const char *name) {
    if (!form->is_empty || form->in_file != !strcmp(name, "file"))
        return 0;
    const char *last = form->n_fields ? form->fields[form->n_fields - 1].name : "";
    size_t n = strlen(last);
    return form->in_file || (n && !strncmp(name, last, n) && (!name[n] || !strcmp(name + n, "[]")));
}

int form_take(upload_form *form, const char *name, const char *bytes, uint64_t offset, size_t n) {
    if (form->problem.status)
        return 0;
    if (!name) {
        form_refuse(&form->problem, 400, NULL, "invalid_form", "a part of the form has no name");
        return 0;
    }
    if (offset == 0 && !continues(form, name)) {
        form->in_file = !strcmp(name, "file");
        if (!(form->in_file ? begin_file(form) : begin_field(form, name)))
            return 0;
    }
    form->is_empty = offset == 0 && !n;
    if (!n)
        return 1;
    if (!form->in_file && !form->n_fields)
        return too_large(form); /* the rest of a part that never began */
    return form->in_file ? take_file(form, bytes, n) : take_field(form, bytes, n);
}
