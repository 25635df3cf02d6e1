/* python/native/options.c - a dictionary into a struct of options, by a table of its fields. */
#include "native.h"

#include <limits.h>
#include <string.h>

static int refuse(const field *f, const char *wanted, PyObject *value) {
    PyObject *type = PyType_GetName(Py_TYPE(value));
    PyErr_Format(PyExc_TypeError, "%s: expected %s, not %S", f->name, wanted, type);
    Py_XDECREF(type);
    return -1;
}

static int take_int(const field *f, PyObject *value, int *out) {
    PyObject *index = PyNumber_Index(value);   /* numpy's integers too */
    if (!index) {
        PyErr_Clear();
        return refuse(f, f->kind == F_BOOL ? "True or False" : "an integer", value);
    }
    int overflow = 0;
    long number = PyLong_AsLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    if (overflow || number > INT_MAX || number < INT_MIN) {
        PyErr_Format(PyExc_ValueError, "%s: %R is out of range", f->name, value);
        return -1;
    }
    *out = f->kind == F_BOOL ? number != 0 : (int)number;
    return 0;
}

static int take_number(const field *f, PyObject *value, double *out) {
    if (value == Py_None && f->kind == F_NUMBER_OR_NONE) {
        *out = MXW_NONE;
        return 0;
    }
    double number = PyFloat_AsDouble(value);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return refuse(f, f->kind == F_NUMBER_OR_NONE ? "a number or None" : "a number", value);
    }
    *out = number;
    return 0;
}

static int take_text(const field *f, PyObject *value, const char **out) {
    if (value == Py_None) {
        *out = NULL;
        return 0;
    }
    if (!PyUnicode_Check(value))
        return refuse(f, "a string or None", value);
    Py_ssize_t n;
    *out = PyUnicode_AsUTF8AndSize(value, &n);
    if (*out && strlen(*out) != (size_t)n) {
        PyErr_Format(PyExc_ValueError, "%s: a string with a zero in it", f->name);
        return -1;
    }
    return *out ? 0 : -1;
}

static int take_choice(const field *f, PyObject *value, int *out) {
    const char *text;
    if (take_text(f, value, &text) < 0)
        return -1;
    int index = 0;
    size_t n = text ? strlen(text) : 0;
    for (const char *p = f->choices; text && p; index++) {
        const char *bar = strchr(p, '|');
        if ((bar ? (size_t)(bar - p) : strlen(p)) == n && !strncmp(p, text, n)) {
            *out = index;
            return 0;
        }
        p = bar ? bar + 1 : NULL;
    }
    PyErr_Format(PyExc_ValueError, "%s: %R is not one of %s", f->name, value, f->choices);
    return -1;
}

static int take_field(const field *f, PyObject *value, void *options) {
    char *at = (char *)options + f->offset;
    switch (f->kind) {
    case F_INT:
    case F_BOOL:
        return take_int(f, value, (int *)(void *)at);
    case F_NUMBER:
    case F_NUMBER_OR_NONE:
        return take_number(f, value, (double *)(void *)at);
    case F_TEXT:
        return take_text(f, value, (const char **)(void *)at);
    case F_CHOICE:
        return take_choice(f, value, (int *)(void *)at);
    case F_SEED:
        *(uint64_t *)(void *)at = PyLong_AsUnsignedLongLong(value);
        return PyErr_Occurred() ? -1 : 0;
    }
    return -1;
}

int take_options(PyObject *dict, const field *fields, size_t n, void *options) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
        const field *f = NULL;
        for (size_t i = 0; i < n && !f; i++)
            if (PyUnicode_CompareWithASCIIString(key, fields[i].name) == 0)
                f = &fields[i];
        if (!f) {
            PyErr_Format(PyExc_TypeError, "there is no option %R", key);
            return -1;
        }
        if (take_field(f, value, options) < 0)
            return -1;
    }
    return 0;
}

PyObject *field_names(const field *fields, size_t n) {
    PyObject *names = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; names && i < n; i++) {
        PyObject *name = PyUnicode_FromString(fields[i].name);
        if (!name || PyTuple_SetItem(names, (Py_ssize_t)i, name) < 0)
            Py_CLEAR(names);
    }
    return names;
}
