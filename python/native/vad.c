/* python/native/vad.c - the type Vad: where in a stream of samples somebody speaks. */
#include "native.h"

#include <stddef.h>

/* lint: table */
#define OPTION(name, kind) {#name, offsetof(mxw_vad_options, name), kind, NULL}
static const field vad_fields[] = {
    OPTION(model, F_TEXT),
    OPTION(model_dir, F_TEXT),
    OPTION(sample_rate, F_INT),
    OPTION(threshold, F_NUMBER),
    OPTION(neg_threshold, F_NUMBER_OR_NONE),
    OPTION(min_speech_ms, F_NUMBER),
    OPTION(max_speech_s, F_NUMBER_OR_NONE),
    OPTION(min_silence_ms, F_NUMBER),
    OPTION(pad_ms, F_NUMBER),
    OPTION(min_silence_at_max_speech_ms, F_NUMBER),
    OPTION(cut_at_longest_pause, F_BOOL),
};
/* lint: end */

typedef struct vad_object {
    PyObject_HEAD
    mxw_vad *vad;
    lease in_use;
} vad_object;

static PyObject *vad_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    mxw_vad_options options;
    PyObject *dict;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!", &PyDict_Type, &dict) || !usable(1))
        return NULL;
    mxw_vad_options_default(&options);
    if (take_options(dict, vad_fields, sizeof(vad_fields) / sizeof(*vad_fields), &options) < 0)
        return NULL;
    vad_object *self = (vad_object *)new_object(type);
    if (!self)
        return NULL;
    atomic_flag_clear(&self->in_use.busy);
    mxw_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mxw_vad_open(&options, &self->vad);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        fail(status);
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void vad_dealloc(PyObject *self) {
    if (!in_other_process())
        mxw_vad_close(((vad_object *)self)->vad);
    free_object(self);
}

static vad_object *begin(PyObject *object) {
    vad_object *self = (vad_object *)object;
    return enter(&self->in_use, "vad") < 0 ? NULL : self;
}

static PyObject *finish_call(vad_object *self, mxw_status status) {
    leave(&self->in_use);
    return status < 0 ? fail(status) : Py_NewRef(Py_None);
}

static PyObject *vad_feed(PyObject *object, PyObject *samples) {
    Py_buffer view;
    if (float_buffer(samples, &view, "samples") < 0)
        return NULL;
    vad_object *self = begin(object);
    PyObject *done = NULL;
    if (self) {
        mxw_status status;
        Py_BEGIN_ALLOW_THREADS
        status = mxw_vad_feed(self->vad, view.buf, (size_t)view.len / sizeof(float));
        Py_END_ALLOW_THREADS
        done = finish_call(self, status);
    }
    PyBuffer_Release(&view);
    return done;
}

static PyObject *vad_finish(PyObject *object, PyObject *unused) {
    vad_object *self = begin(object);
    (void)unused;
    if (!self)
        return NULL;
    mxw_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mxw_vad_finish(self->vad);
    Py_END_ALLOW_THREADS
    return finish_call(self, status);
}

/* next(): (first, end, start_s, end_s); None: the end; False: samples are needed */
static PyObject *vad_next(PyObject *object, PyObject *unused) {
    mxw_vad_region region = {.struct_size = sizeof(region)};
    vad_object *self = begin(object);
    (void)unused;
    if (!self)
        return NULL;
    mxw_status status = mxw_vad_next(self->vad, &region);
    leave(&self->in_use);
    if (status < 0)
        return fail(status);
    if (status != MXW_OK)
        return Py_NewRef(status == MXW_MORE ? Py_False : Py_None);
    return Py_BuildValue("(LLdd)", (long long)region.first, (long long)region.end, region.start_s, region.end_s);
}

/* probabilities(float32 buffer): how many were read */
static PyObject *vad_probabilities(PyObject *object, PyObject *to) {
    Py_buffer view;
    size_t got = 0;
    if (float_buffer(to, &view, "probabilities") < 0)
        return NULL;
    vad_object *self = begin(object);
    PyObject *done = NULL;
    if (self) {
        mxw_status status = mxw_vad_probabilities(self->vad, view.buf, (size_t)view.len / sizeof(float), &got);
        leave(&self->in_use);
        done = status < 0 ? fail(status) : PyLong_FromSize_t(got);
    }
    PyBuffer_Release(&view);
    return done;
}

static PyObject *vad_reset(PyObject *object, PyObject *unused) {
    vad_object *self = begin(object);
    (void)unused;
    if (!self)
        return NULL;
    mxw_vad_reset(self->vad);
    return finish_call(self, MXW_OK);
}

static PyObject *vad_chunk(PyObject *object, void *unused) {
    (void)unused;
    return PyLong_FromLong(mxw_vad_chunk(((vad_object *)object)->vad));
}

static PyMethodDef methods[] = {
    {"feed", vad_feed, METH_O, "feed(float32 samples)"},
    {"finish", vad_finish, METH_NOARGS, "no more samples"},
    {"next", vad_next, METH_NOARGS, "(first, end, start_s, end_s); None: the end; False: samples are needed"},
    {"probabilities", vad_probabilities, METH_O, "probabilities(float32 buffer): how many were read"},
    {"reset", vad_reset, METH_NOARGS, "a new recording"},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef properties[] = {{"chunk", vad_chunk, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, (void *)vad_new}, {Py_tp_dealloc, (void *)vad_dealloc},
                              {Py_tp_methods, methods}, {Py_tp_getset, properties}, {0, NULL}};
static PyType_Spec spec = {"max_whisper._native.Vad", sizeof(vad_object), 0, Py_TPFLAGS_DEFAULT, slots};

int add_vad(PyObject *module) {
    PyObject *names = field_names(vad_fields, sizeof(vad_fields) / sizeof(*vad_fields));
    int status = names ? PyModule_AddObjectRef(module, "VAD_OPTIONS", names) : -1;
    Py_XDECREF(names);
    return status < 0 ? -1 : add_type(module, &spec, NULL);
}
