/* python/native/window.c - the type Window: one window of 30 seconds at a time; and log-mel of samples. */
#include "native.h"

#include <stdlib.h>
#include <string.h>

typedef struct window_object {
    PyObject_HEAD
    mxw_window *window;
    PyObject *model;
    lease in_use;
    call call;
} window_object;

static int should_abort(void *user) { return call_should_stop(&((window_object *)user)->call); }

static PyObject *window_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    mxw_session_options options;
    const field *fields;
    size_t n;
    PyObject *model, *dict;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!O!", model_type, &model, &PyDict_Type, &dict))
        return NULL;
    mxw_session_options_default(&options);
    if (get_session_fields(&fields, &n) < 0 || take_options(dict, fields, n, &options) < 0)
        return NULL;
    mxw_model *handle = model_take(model);
    if (!handle)
        return NULL;
    window_object *self = (window_object *)new_object(type);
    if (!self) {
        model_give_back(model);
        return NULL;
    }
    atomic_flag_clear(&self->in_use.busy);
    self->model = Py_NewRef(model);
    options.user = self;
    options.should_abort = should_abort;
    call_begin(&self->call);
    mxw_status status = mxw_window_open(handle, &options, &self->window);
    call_end(&self->call);
    if (status < 0 || PyErr_Occurred()) {
        fail(status);
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void close_window(window_object *self) {
    mxw_window *window = self->window;
    PyObject *model = self->model;
    self->window = NULL;
    self->model = NULL;
    if (window && !in_other_process()) {
        Py_BEGIN_ALLOW_THREADS
        mxw_window_close(window);
        Py_END_ALLOW_THREADS
    }
    if (model)
        model_give_back(model);
    Py_XDECREF(model);
}

static void window_dealloc(PyObject *self) {
    close_window((window_object *)self);
    free_object(self);
}

static window_object *begin(PyObject *object) {
    window_object *self = (window_object *)object;
    if (enter(&self->in_use, "window") < 0)
        return NULL;
    if (self->window)
        return self;
    leave(&self->in_use);
    PyErr_SetString(PyExc_ValueError, "the window is closed");
    return NULL;
}

static PyObject *window_close(PyObject *object, PyObject *unused) {
    window_object *self = (window_object *)object;
    (void)unused;
    if (in_other_process())
        Py_RETURN_NONE;
    if (enter(&self->in_use, "window") < 0)
        return NULL;
    close_window(self);
    leave(&self->in_use);
    Py_RETURN_NONE;
}

static PyObject *window_cancel(PyObject *self, PyObject *unused) {
    (void)unused;
    atomic_store(&((window_object *)self)->call.stopped, 1);
    Py_RETURN_NONE;
}

/* encode(mel [n_mels, frames], features [ctx, state] to be written, or None) */
static PyObject *window_encode(PyObject *object, PyObject *args) {
    PyObject *mel, *features, *done = NULL;
    Py_buffer in, out = {0};
    if (!PyArg_ParseTuple(args, "OO", &mel, &features) || float_buffer(mel, &in, "mel") < 0)
        return NULL;
    if (features != Py_None && float_buffer(features, &out, "features") < 0) {
        PyBuffer_Release(&in);
        return NULL;
    }
    window_object *self = in.ndim == 2 ? begin(object) : NULL;
    if (self) {
        call_begin(&self->call);
        mxw_status status = mxw_window_encode(self->window, in.buf, (size_t)in.shape[1], out.buf);
        call_end(&self->call);
        leave(&self->in_use);
        done = status < 0 || PyErr_Occurred() ? fail(status) : Py_NewRef(Py_None);
    }
    PyBuffer_Release(&in);
    if (out.obj)
        PyBuffer_Release(&out);
    return done;
}

static PyObject *window_set_features(PyObject *object, PyObject *features) {
    Py_buffer in;
    if (float_buffer(features, &in, "features") < 0)
        return NULL;
    window_object *self = begin(object);
    PyObject *done = NULL;
    if (self) {
        call_begin(&self->call);
        mxw_status status = mxw_window_set_features(self->window, in.buf);
        call_end(&self->call);
        leave(&self->in_use);
        done = status < 0 || PyErr_Occurred() ? fail(status) : Py_NewRef(Py_None);
    }
    PyBuffer_Release(&in);
    return done;
}

/* languages(): the probabilities as a list, in the order of languages() */
static PyObject *window_languages(PyObject *object, PyObject *unused) {
    float probabilities[256];
    size_t n = 0;
    window_object *self = begin(object);
    (void)unused;
    if (!self)
        return NULL;
    while (n < 256 && mxw_language_code((int)n))
        n++;
    call_begin(&self->call);
    mxw_status status = mxw_window_languages(self->window, probabilities, n);
    call_end(&self->call);
    leave(&self->in_use);
    if (status < 0 || PyErr_Occurred())
        return fail(status);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++)
        if (PyList_SetItem(list, (Py_ssize_t)i, PyFloat_FromDouble((double)probabilities[i])) < 0)
            Py_CLEAR(list);
    return list;
}

static PyObject *text_tuple(const mxw_window_text *text) {
    return Py_BuildValue("(NNNNddddN)", list_ids(text->tokens, text->n_tokens), text_or_none(text->text),
                         text_or_none(text->language), number_or_none(text->language_probability), text->avg_logprob,
                         text->no_speech_prob, text->temperature, text->compression_ratio,
                         PyBool_FromLong(text->ended));
}

/* decode(language or None, prompt, temperature, number) */
static PyObject *window_decode(PyObject *object, PyObject *args) {
    mxw_window_request request = {.struct_size = sizeof(request)};
    mxw_window_text text = {.struct_size = sizeof(text)};
    PyObject *prompt, *first, *done = NULL;
    unsigned long long number;
    if (!PyArg_ParseTuple(args, "zOdKO", &request.language, &prompt, &request.temperature, &number, &first))
        return NULL;
    request.number = number;
    int32_t *ids = read_ids(prompt, &request.n_prompt), *text_ids = ids ? read_ids(first, &request.n_begin) : NULL;
    request.prompt = ids;
    request.begin = text_ids;
    window_object *self = text_ids ? begin(object) : NULL;
    if (self) {
        call_begin(&self->call);
        mxw_status status = mxw_window_decode(self->window, &request, &text);
        call_end(&self->call);
        done = status < 0 || PyErr_Occurred() ? fail(status) : text_tuple(&text);
        leave(&self->in_use);
    }
    free(ids);
    free(text_ids);
    return done;
}

static PyObject *alignment_tuple(const int32_t *times, const double *probabilities, size_t n) {
    PyObject *a = PyList_New((Py_ssize_t)n + 1), *b = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; a && b && i <= n; i++) {
        PyList_SetItem(a, (Py_ssize_t)i, PyLong_FromLong(times[i]));
        if (i < n)
            PyList_SetItem(b, (Py_ssize_t)i, PyFloat_FromDouble(probabilities[i]));
    }
    return Py_BuildValue("(NN)", a, b);
}

/* align(language or None, tokens, n_frames): times, probabilities */
static PyObject *window_align(PyObject *object, PyObject *args) {
    const char *language;
    PyObject *tokens, *done = NULL;
    Py_ssize_t n_frames;
    size_t n;
    if (!PyArg_ParseTuple(args, "zOn", &language, &tokens, &n_frames))
        return NULL;
    int32_t *ids = read_ids(tokens, &n), *times = ids ? calloc(n + 1, sizeof(*times)) : NULL;
    double *probabilities = times ? calloc(n + 1, sizeof(*probabilities)) : NULL;
    window_object *self = probabilities ? begin(object) : NULL;
    if (self) {
        call_begin(&self->call);
        mxw_status status = mxw_window_align(self->window, language, ids, n, (size_t)n_frames, times, probabilities);
        call_end(&self->call);
        leave(&self->in_use);
        done = status < 0 || PyErr_Occurred() ? fail(status) : alignment_tuple(times, probabilities, n);
    } else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    free(ids);
    free(times);
    free(probabilities);
    return done;
}

/* ---- log-mel ----------------------------------------------------------------------------------------------------- */

/* log_mel(samples, padding, mel [n_mels, frames] to be written) */
static PyObject *log_mel(PyObject *module, PyObject *args) {
    PyObject *samples, *mel;
    Py_buffer in, out;
    Py_ssize_t padding;
    (void)module;
    if (!PyArg_ParseTuple(args, "OnO", &samples, &padding, &mel) || float_buffer(samples, &in, "samples") < 0)
        return NULL;
    if (float_buffer(mel, &out, "mel") < 0) {
        PyBuffer_Release(&in);
        return NULL;
    }
    mxw_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mxw_log_mel(in.buf, (size_t)in.len / sizeof(float), (size_t)padding, (int)out.shape[0], out.buf,
                         (size_t)out.shape[1]);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&in);
    PyBuffer_Release(&out);
    return status < 0 ? fail(status) : Py_NewRef(Py_None);
}

/* mel_filters(filters [n_mels, 201] to be written) */
static PyObject *mel_filters(PyObject *module, PyObject *filters) {
    Py_buffer out;
    (void)module;
    if (float_buffer(filters, &out, "filters") < 0)
        return NULL;
    mxw_status status = mxw_mel_filters((int)out.shape[0], out.buf);
    PyBuffer_Release(&out);
    return status < 0 ? fail(status) : Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"encode", window_encode, METH_VARARGS, "encode(mel, features or None)"},
    {"set_features", window_set_features, METH_O, "set_features(features)"},
    {"languages", window_languages, METH_NOARGS, "probabilities, in the order of languages()"},
    {"decode", window_decode, METH_VARARGS, "decode(language, prompt, temperature, number, begin)"},
    {"align", window_align, METH_VARARGS, "align(language, tokens, n_frames): times, probabilities"},
    {"cancel", window_cancel, METH_NOARGS, "stops the call that runs, from any thread"},
    {"close", window_close, METH_NOARGS, "frees it"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot slots[] = {{Py_tp_new, (void *)window_new}, {Py_tp_dealloc, (void *)window_dealloc},
                              {Py_tp_methods, methods}, {0, NULL}};
static PyType_Spec spec = {"max_whisper._native.Window", sizeof(window_object), 0, Py_TPFLAGS_DEFAULT, slots};
static PyMethodDef functions[] = {
    {"log_mel", log_mel, METH_VARARGS, "log_mel(samples, padding, mel)"},
    {"mel_filters", mel_filters, METH_O, "mel_filters(filters)"},
    {NULL, NULL, 0, NULL},
};

int add_window(PyObject *module) {
    return PyModule_AddFunctions(module, functions) < 0 ? -1 : add_type(module, &spec, NULL);
}
