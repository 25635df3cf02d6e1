/* python/native/tokenizer.c - the type Tokenizer: text to tokens, and the bytes of every token. */
#include "native.h"

#include <stdlib.h>

typedef struct tokenizer_object {
    PyObject_HEAD
    mxw_tokenizer *tokenizer;
} tokenizer_object;

static PyObject *tokenizer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    int n_vocab;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "i", &n_vocab))
        return NULL;
    tokenizer_object *self = (tokenizer_object *)new_object(type);
    mxw_status status = self ? mxw_tokenizer_open(n_vocab, &self->tokenizer) : MXW_OK;
    if (status < 0) {
        fail(status);
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void tokenizer_dealloc(PyObject *self) {
    mxw_tokenizer_close(((tokenizer_object *)self)->tokenizer);
    free_object(self);
}

static PyObject *tokenizer_encode(PyObject *object, PyObject *args) {
    const mxw_tokenizer *tokenizer = ((tokenizer_object *)object)->tokenizer;
    const char *text;
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(args, "s#", &text, &bytes))
        return NULL;
    size_t n = (size_t)bytes;
    int32_t *tokens = malloc((n + 1) * sizeof(*tokens));
    if (!tokens)
        return PyErr_NoMemory();
    mxw_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mxw_tokenizer_encode(tokenizer, text, (size_t)bytes, tokens, &n);
    Py_END_ALLOW_THREADS
    PyObject *list = status < 0 ? fail(status) : list_ids(tokens, n);
    free(tokens);
    return list;
}

static PyObject *tokenizer_tokens(PyObject *object, PyObject *unused) {
    const mxw_tokenizer *tokenizer = ((tokenizer_object *)object)->tokenizer;
    PyObject *list = PyList_New(0);
    const char *bytes;
    size_t n;
    (void)unused;
    for (int32_t id = 0; list && (bytes = mxw_tokenizer_token(tokenizer, id, &n)); id++) {
        PyObject *item = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)n);
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyMethodDef methods[] = {
    {"encode", tokenizer_encode, METH_VARARGS, "encode(text): token ids"},
    {"tokens", tokenizer_tokens, METH_NOARGS, "the bytes of every token, by its id"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot slots[] = {{Py_tp_new, (void *)tokenizer_new}, {Py_tp_dealloc, (void *)tokenizer_dealloc},
                              {Py_tp_methods, methods}, {0, NULL}};
static PyType_Spec spec = {"max_whisper._native.Tokenizer", sizeof(tokenizer_object), 0, Py_TPFLAGS_DEFAULT, slots};

int add_tokenizer(PyObject *module) { return add_type(module, &spec, NULL); }
