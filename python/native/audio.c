/* python/native/audio.c - the type Audio: a file, bytes, a file object or a microphone, as 16 kHz mono samples. */
#include "native.h"

#include <string.h>

PyTypeObject *audio_type;

/* ---- a file object, read on the thread of the call --------------------------------------------------------------- */

static int64_t read_file(void *user, void *bytes, size_t n) {
    audio_object *self = user;
    call *c = self->call;
    Py_buffer view;
    int64_t got = -1;
    call_python(c);
    PyObject *data = PyErr_Occurred() ? NULL : PyObject_CallMethod(self->file, "read", "n", (Py_ssize_t)n);
    if (data && PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) == 0) {
        if ((size_t)view.len <= n) {
            memcpy(bytes, view.buf, (size_t)view.len);
            got = view.len;
        } else {
            PyErr_Format(PyExc_ValueError, "read(%zd) of the file object gave %zd bytes", (Py_ssize_t)n, view.len);
        }
        PyBuffer_Release(&view);
    }
    Py_XDECREF(data);
    call_back(c);
    return got;
}

static int64_t seek_file(void *user, int64_t offset, int whence) {
    audio_object *self = user;
    call *c = self->call;
    int64_t at = -1;
    call_python(c);
    PyObject *done = PyErr_Occurred() ? NULL : PyObject_CallMethod(self->file, "seek", "Li", (long long)offset, whence);
    if (done)
        at = PyLong_AsLongLong(done);
    Py_XDECREF(done);
    call_back(c);
    return at;
}

static int should_abort(void *user) { return call_should_stop(((audio_object *)user)->call); }

/* Whether the object says that it can seek; 0 with an exception if asking failed. */
static int can_seek(PyObject *file) {
    PyObject *method = PyObject_GetAttrString(file, "seekable");
    if (!method) {
        PyErr_Clear();
        return 0;
    }
    PyObject *answer = PyObject_CallObject(method, NULL);
    int truth = answer ? PyObject_IsTrue(answer) : 0;
    Py_XDECREF(answer);
    Py_DECREF(method);
    return truth > 0;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static int choose_source(audio_object *self, PyObject *data, PyObject *file, mxw_audio_options *options) {
    if (data != Py_None) {
        if (PyObject_GetBuffer(data, &self->data, PyBUF_SIMPLE) < 0)
            return -1;
        self->has_data = 1;
        options->data = self->data.buf;
        options->size = (size_t)self->data.len;
        if (!options->size)
            options->data = "";
    }
    if (file != Py_None) {
        self->file = Py_NewRef(file);
        options->read = read_file;
        options->seek = can_seek(file) ? seek_file : NULL;
    }
    options->user = self;
    options->should_abort = should_abort;
    return PyErr_Occurred() ? -1 : 0;
}

static mxw_status open_audio(audio_object *self, const mxw_audio_options *options) {
    call_begin(&self->own);
    mxw_status status = mxw_audio_open(options, &self->audio);
    call_end(&self->own);
    return status;
}

/* Audio(path as bytes, data, file, name, channel, track, device, device_rate, live); what is not there is None */
static PyObject *audio_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    mxw_audio_options options;
    PyObject *data, *file, *path;
    (void)kwargs;
    mxw_audio_options_default(&options);
    if (!PyArg_ParseTuple(args, "OOOziizii", &path, &data, &file, &options.name, &options.channel, &options.track,
                          &options.device, &options.device_rate, &options.live))
        return NULL;
    if (path != Py_None && !(options.path = PyBytes_AsString(path)))
        return NULL;
    audio_object *self = (audio_object *)new_object(type);
    if (self) {
        atomic_flag_clear(&self->in_use.busy);
        self->call = &self->own;
        mxw_status status = choose_source(self, data, file, &options) < 0 ? MXW_OK : open_audio(self, &options);
        if (status < 0 || PyErr_Occurred()) {
            fail(status);
            Py_CLEAR(self);
        }
    }
    return (PyObject *)self;
}

static void close_audio(audio_object *self) {
    mxw_audio *audio = self->audio;
    self->audio = NULL;
    Py_BEGIN_ALLOW_THREADS
    mxw_audio_close(audio);
    Py_END_ALLOW_THREADS
    if (self->has_data)
        PyBuffer_Release(&self->data);
    self->has_data = 0;
}

static int audio_clear(PyObject *self) {
    Py_CLEAR(((audio_object *)self)->file);
    return 0;
}

static int audio_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((audio_object *)self)->file);
    return 0;
}

static void audio_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    close_audio((audio_object *)self);
    audio_clear(self);
    free_object(self);
}

static PyObject *audio_close(PyObject *object, PyObject *unused) {
    audio_object *self = (audio_object *)object;
    (void)unused;
    if (enter(&self->in_use, "audio") < 0)
        return NULL;
    close_audio(self);
    leave(&self->in_use);
    Py_RETURN_NONE;
}

static audio_object *begin(PyObject *object) {
    audio_object *self = (audio_object *)object;
    if (enter(&self->in_use, "audio") < 0)
        return NULL;
    if (self->audio)
        return self;
    leave(&self->in_use);
    PyErr_SetString(PyExc_ValueError, "the audio is closed");
    return NULL;
}

static PyObject *audio_info(PyObject *object, PyObject *unused) {
    mxw_audio_info info = {.struct_size = sizeof(info)};
    audio_object *self = begin(object);
    (void)unused;
    if (!self)
        return NULL;
    mxw_status status = mxw_audio_get_info(self->audio, &info);
    leave(&self->in_use);
    if (status < 0)
        return fail(status);
    return Py_BuildValue("(NNNiiNid)", text_or_none(info.path), text_or_none(info.container), text_or_none(info.codec),
                         info.sample_rate, info.channels, number_or_none(info.duration_s), info.tracks, info.start_s);
}

/* read_into(float32 buffer): how many samples were read; 0 at the end */
static PyObject *audio_read_into(PyObject *object, PyObject *to) {
    Py_buffer view;
    size_t got = 0;
    if (float_buffer(to, &view, "samples") < 0)
        return NULL;
    audio_object *self = view.readonly ? NULL : begin(object);
    PyObject *done = NULL;
    if (self) {
        call_begin(&self->own);
        mxw_status status = mxw_audio_read(self->audio, view.buf, (size_t)view.len / sizeof(float), &got);
        call_end(&self->own);
        leave(&self->in_use);
        done = status < 0 || PyErr_Occurred() ? fail(status) : PyLong_FromSize_t(got);
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "samples: the array cannot be written");
    }
    PyBuffer_Release(&view);
    return done;
}

static void add_device(void *user, const char *device, const char *description, int is_default) {
    PyObject *item = Py_BuildValue("(NNN)", text_or_none(device), text_or_none(description),
                                   PyBool_FromLong(is_default));
    if (item && !PyErr_Occurred())
        PyList_Append(user, item);
    Py_XDECREF(item);
}

static PyObject *list_microphones(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    PyObject *list = PyList_New(0);
    mxw_status status = list ? mxw_audio_list_devices(add_device, list) : MXW_E_MEMORY;
    if (status >= 0 && !PyErr_Occurred())
        return list;
    Py_XDECREF(list);
    return fail(status);
}

static PyMethodDef methods[] = {
    {"info", audio_info, METH_NOARGS, "path, container, codec, sample_rate, channels, duration_s, tracks, start_s"},
    {"read_into", audio_read_into, METH_O, "read_into(float32 buffer): how many samples; 0 at the end"},
    {"close", audio_close, METH_NOARGS, "frees it"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot slots[] = {{Py_tp_new, (void *)audio_new}, {Py_tp_dealloc, (void *)audio_dealloc},
                              {Py_tp_traverse, (void *)audio_traverse}, {Py_tp_clear, (void *)audio_clear},
                              {Py_tp_methods, methods}, {0, NULL}};
static PyType_Spec spec = {"max_whisper._native.Audio", sizeof(audio_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
static PyMethodDef functions[] = {
    {"microphones", list_microphones, METH_NOARGS, "device, description, is_default of each"},
    {NULL, NULL, 0, NULL},
};

int add_audio(PyObject *module) {
    return PyModule_AddFunctions(module, functions) < 0 ? -1 : add_type(module, &spec, &audio_type);
}
