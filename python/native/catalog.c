/* python/native/catalog.c - what there is: languages, formats, devices, models on this machine and on the hub. */
#include "native.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Appends and gives up the item; the list is gone if that fails. */
static void append(PyObject **list, PyObject *item) {
    if (*list && (!item || PyList_Append(*list, item) < 0))
        Py_CLEAR(*list);
    Py_XDECREF(item);
}

static PyObject *languages(PyObject *self, PyObject *unused) {
    PyObject *list = PyList_New(0);
    (void)self, (void)unused;
    for (int i = 0; list && mxw_language_code(i); i++)
        append(&list, Py_BuildValue("(ss)", mxw_language_code(i), mxw_language_name(i)));
    return list;
}

static PyObject *find_language(PyObject *self, PyObject *args) {
    const char *name;
    (void)self;
    return PyArg_ParseTuple(args, "s", &name) ? text_or_none(mxw_language_find(name)) : NULL;
}

static PyObject *formats(PyObject *self, PyObject *unused) {
    PyObject *list = PyList_New(0);
    (void)self, (void)unused;
    for (int i = 0; list && mxw_format_name(i); i++)
        append(&list, PyUnicode_FromString(mxw_format_name(i)));
    return list;
}

static PyObject *devices(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    if (!usable(0))
        return NULL;
    int n;
    Py_BEGIN_ALLOW_THREADS
    n = mxw_device_count();   /* may open the CUDA module */
    Py_END_ALLOW_THREADS
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < n; i++) {
        mxw_device_info d = {.struct_size = sizeof(d)};
        mxw_status status;
        Py_BEGIN_ALLOW_THREADS
        status = mxw_device_get(i, &d);   /* may open the GPU, which logs: a logger needs the interpreter */
        Py_END_ALLOW_THREADS
        if (status < 0) {
            Py_DECREF(list);
            return fail(status);
        }
        append(&list, Py_BuildValue("(NNNNKKiNN)", text_or_none(d.id), text_or_none(d.kind),
                                    text_or_none(d.description), text_or_none(d.features),
                                    (unsigned long long)d.memory_bytes, (unsigned long long)d.memory_free_bytes,
                                    d.cores, PyBool_FromLong(d.usable), text_or_none(d.reason)));
    }
    return list;
}

static PyObject *model_dir(PyObject *self, PyObject *args) {
    const char *option;
    (void)self;
    return PyArg_ParseTuple(args, "z", &option) ? text_or_none(mxw_model_dir(option)) : NULL;
}

/* models(folder or None): (name, [(path, source)]) of each released model */
static PyObject *models(PyObject *self, PyObject *args) {
    const char *folder, *name;
    (void)self;
    if (!PyArg_ParseTuple(args, "z", &folder))
        return NULL;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && (name = mxw_model_name(i, folder, NULL)); i++) {
        PyObject *places = PyList_New(0);
        const char *path, *source;
        PyObject *label = text_or_none(name);
        for (int which = 0; places && (path = mxw_model_location(i, folder, which, &source)); which++) {
            PyObject *place = text_or_none(path);   /* valid until the next call: first of all */
            append(&places, Py_BuildValue("(NN)", place, text_or_none(source)));
        }
        append(&list, Py_BuildValue("(NN)", label, places));
    }
    return list;
}

static PyObject *vad_location(PyObject *self, PyObject *args) {
    const char *model, *folder;
    (void)self;
    return PyArg_ParseTuple(args, "zz", &model, &folder) ? text_or_none(mxw_vad_location(model, folder)) : NULL;
}

/* ---- fetching ---------------------------------------------------------------------------------------------------- */

static const field fetch_fields[] = {
    {"model_dir", offsetof(mxw_fetch_options, model_dir), F_TEXT, NULL},
    {"revision", offsetof(mxw_fetch_options, revision), F_TEXT, NULL},
    {"hub", offsetof(mxw_fetch_options, hub), F_TEXT, NULL},
    {"faster_whisper", offsetof(mxw_fetch_options, faster_whisper), F_BOOL, NULL},
    {"again", offsetof(mxw_fetch_options, again), F_BOOL, NULL},
    {"stall_s", offsetof(mxw_fetch_options, stall_s), F_INT, NULL},
};

typedef struct fetching {
    call call;
    PyObject *progress;   /* or None */
} fetching;

static int fetch_progress(void *user, const char *file, uint64_t done, uint64_t total) {
    fetching *f = user;
    if (f->progress != Py_None) {
        call_python(&f->call);
        PyObject *answer = PyErr_Occurred() ? NULL : PyObject_CallFunction(f->progress, "zKK", file,
                                                                           (unsigned long long)done,
                                                                           (unsigned long long)total);
        if (!answer)
            atomic_store(&f->call.stopped, 1);
        Py_XDECREF(answer);
        call_back(&f->call);
    }
    return call_should_stop(&f->call);
}

static PyObject *fetch(PyObject *self, PyObject *args) {
    mxw_fetch_options options;
    const char *name;
    PyObject *dict;
    fetching f = {0};
    char path[4096] = "";
    (void)self;
    if (!PyArg_ParseTuple(args, "sO!O", &name, &PyDict_Type, &dict, &f.progress) || !usable(0))
        return NULL;
    mxw_fetch_options_default(&options);
    if (take_options(dict, fetch_fields, sizeof(fetch_fields) / sizeof(*fetch_fields), &options) < 0)
        return NULL;
    options.progress = fetch_progress;
    options.user = &f;
    call_begin(&f.call);
    mxw_status status = mxw_model_fetch(name, &options, path, sizeof(path));
    call_end(&f.call);
    return status < 0 || PyErr_Occurred() ? fail(status) : text_or_none(path);
}

static PyMethodDef functions[] = {
    {"languages", languages, METH_NOARGS, "(code, name) of each"},
    {"find_language", find_language, METH_VARARGS, "find_language(code or name): the code, or None"},
    {"formats", formats, METH_NOARGS, "names of the output formats"},
    {"devices", devices, METH_NOARGS, "a tuple for each device"},
    {"model_dir", model_dir, METH_VARARGS, "model_dir(folder or None): the folder of models"},
    {"models", models, METH_VARARGS, "models(folder or None): (name, [(path, source)])"},
    {"vad_location", vad_location, METH_VARARGS, "vad_location(model, folder): the file, or None"},
    {"fetch", fetch, METH_VARARGS, "fetch(name, options, progress): the path"},
    {NULL, NULL, 0, NULL},
};

int add_catalog(PyObject *module) { return PyModule_AddFunctions(module, functions); }
