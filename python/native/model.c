/* python/native/model.c - the type Model: a model that is open, its tokenizer and its counters. */
#include "native.h"

#include <stddef.h>
#include <stdlib.h>

PyTypeObject *model_type;

/* lint: table */
static const field model_fields[] = {
    {"model", offsetof(mxw_model_options, model), F_TEXT, NULL},
    {"model_dir", offsetof(mxw_model_options, model_dir), F_TEXT, NULL},
    {"engine", offsetof(mxw_model_options, engine), F_CHOICE, "cpu|gpu|max"},
    {"device", offsetof(mxw_model_options, device), F_TEXT, NULL},
    {"threads", offsetof(mxw_model_options, threads), F_INT, NULL},
    {"batch", offsetof(mxw_model_options, batch), F_INT, NULL},
    {"precision", offsetof(mxw_model_options, precision), F_CHOICE, "exact|f16|int8|f8"},
};
/* lint: end */

mxw_model *model_take(PyObject *object) {
    model_object *self = (model_object *)object;
    if (!usable(0))
        return NULL;
    atomic_fetch_add(&self->users, 1);
    if (!atomic_load(&self->closed))
        return self->model;
    model_give_back(object);
    PyErr_SetString(PyExc_ValueError, "the model is closed");
    return NULL;
}

/* The one that takes the count from 1 to 0 after close() closes the handle; close() itself holds one. */
void model_give_back(PyObject *object) {
    model_object *self = (model_object *)object;
    if (atomic_fetch_sub(&self->users, 1) == 1 && !in_other_process()) {
        mxw_model *model = self->model;
        self->model = NULL;
        Py_BEGIN_ALLOW_THREADS
        mxw_model_close(model);
        Py_END_ALLOW_THREADS
    }
}

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    mxw_model_options options;
    PyObject *dict;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!", &PyDict_Type, &dict) || !usable(1))
        return NULL;
    mxw_model_options_default(&options);
    if (take_options(dict, model_fields, sizeof(model_fields) / sizeof(*model_fields), &options) < 0)
        return NULL;
    model_object *self = (model_object *)new_object(type);
    if (!self)
        return NULL;
    atomic_init(&self->users, 1);
    atomic_init(&self->closed, 0);
    mxw_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mxw_model_open(&options, &self->model);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        fail(status);
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static PyObject *model_close(PyObject *self, PyObject *unused) {
    (void)unused;
    if (!atomic_exchange(&((model_object *)self)->closed, 1))
        model_give_back(self);
    Py_RETURN_NONE;
}

static void model_dealloc(PyObject *self) {
    Py_XDECREF(model_close(self, NULL));
    free_object(self);
}

static PyObject *model_is_closed(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(atomic_load(&((model_object *)self)->closed));
}

static PyObject *model_reserve(PyObject *self, PyObject *args) {
    mxw_session_options options;
    const field *fields;
    PyObject *dict;
    size_t n;
    int batch;
    if (!PyArg_ParseTuple(args, "O!i", &PyDict_Type, &dict, &batch))
        return NULL;
    mxw_session_options_default(&options);
    if (get_session_fields(&fields, &n) < 0 || take_options(dict, fields, n, &options) < 0)
        return NULL;
    mxw_model *model = model_take(self);
    if (!model)
        return NULL;
    mxw_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mxw_model_reserve(model, &options, batch);
    Py_END_ALLOW_THREADS
    PyObject *done = status < 0 ? fail(status) : Py_NewRef(Py_None);
    model_give_back(self);
    return done;
}

static PyObject *info_dict(const mxw_model_info *info) {
    const mxw_checkpoint_info *c = info->checkpoint;
    const mxw_dims *d = c->dims;
    static const char *const engines[] = {"cpu", "gpu", "max"}, *const precisions[] = {"exact", "f16", "int8", "f8"};
    return Py_BuildValue(
        "{s:N,s:s,s:s,s:N,s:i,s:i,s:L,s:K,s:s,s:s,s:s,s:i,s:d,s:d,s:{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i}}",
        "path", text_or_none(c->path), "format", c->format, "size_name", c->size_name,
        "multilingual", PyBool_FromLong(c->multilingual), "n_languages", c->n_languages, "threads", info->threads,
        "n_parameters", (long long)c->n_parameters, "file_bytes", (unsigned long long)c->file_bytes,
        "device", info->device, "engine", engines[info->engine], "precision", precisions[info->precision], "abi",
        mxw_abi_version(), "load_ms", info->load_ms, "compile_ms", info->compile_ms,
        "dims", "n_mels", d->n_mels, "n_audio_ctx", d->n_audio_ctx, "n_audio_state", d->n_audio_state, "n_audio_head",
        d->n_audio_head, "n_audio_layer", d->n_audio_layer, "n_vocab", d->n_vocab, "n_text_ctx", d->n_text_ctx,
        "n_text_state", d->n_text_state, "n_text_head", d->n_text_head, "n_text_layer", d->n_text_layer);
}

static PyObject *model_info(PyObject *self, PyObject *unused) {
    mxw_model_info info = {.struct_size = sizeof(info)};
    (void)unused;
    mxw_model *model = model_take(self);
    if (!model)
        return NULL;
    mxw_status status = mxw_model_get_info(model, &info);
    PyObject *dict = status < 0 ? fail(status) : info_dict(&info);
    model_give_back(self);
    return dict;
}

static PyObject *model_counters(PyObject *self, PyObject *args) {
    mxw_stage_counters counters = {.struct_size = sizeof(counters)};
    int stage;
    if (!PyArg_ParseTuple(args, "i", &stage))
        return NULL;
    mxw_model *model = model_take(self);
    if (!model)
        return NULL;
    mxw_status status = mxw_model_get_counters(model, (mxw_stage)stage, &counters);
    model_give_back(self);
    if (status < 0)
        return fail(status);
    return Py_BuildValue("(LLLdK)", (long long)counters.runs, (long long)counters.items, (long long)counters.cells,
                         counters.ms, (unsigned long long)counters.weight_bytes);
}

static PyObject *model_graph(PyObject *self, PyObject *args) {
    const char *which, *text;
    if (!PyArg_ParseTuple(args, "s", &which))
        return NULL;
    mxw_model *model = model_take(self);
    if (!model)
        return NULL;
    mxw_status status = mxw_model_graph(model, which, &text);
    PyObject *done = status < 0 ? fail(status) : text_or_none(text);
    model_give_back(self);
    return done;
}

/* ---- the tokenizer ----------------------------------------------------------------------------------------------- */

static PyObject *ids_of_text(const mxw_model *model, const char *text, size_t bytes) {
    size_t n = bytes + 1;   /* a token is at least one byte */
    int32_t *tokens = malloc(n * sizeof(*tokens));
    if (!tokens)
        return PyErr_NoMemory();
    mxw_status status = mxw_model_encode(model, text, tokens, &n);
    PyObject *list = status < 0 ? fail(status) : list_ids(tokens, n);
    free(tokens);
    return list;
}

static PyObject *model_encode(PyObject *self, PyObject *args) {
    const char *text;
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(args, "s#", &text, &bytes))
        return NULL;
    mxw_model *model = model_take(self);
    PyObject *list = model ? ids_of_text(model, text, (size_t)bytes) : NULL;
    if (model)
        model_give_back(self);
    return list;
}

static PyObject *text_of_ids(const mxw_model *model, const int32_t *ids, size_t n_ids) {
    size_t n = 0;
    mxw_model_decode(model, ids, n_ids, NULL, &n);   /* how much it is */
    char *text = malloc(n + 1);
    if (!text)
        return PyErr_NoMemory();
    n++;
    mxw_status status = mxw_model_decode(model, ids, n_ids, text, &n);
    PyObject *done = status < 0 ? fail(status) : text_or_none(text);
    free(text);
    return done;
}

static PyObject *model_decode(PyObject *self, PyObject *list) {
    size_t n;
    int32_t *ids = read_ids(list, &n);
    if (!ids)
        return NULL;
    mxw_model *model = model_take(self);
    PyObject *text = model ? text_of_ids(model, ids, n) : NULL;
    if (model)
        model_give_back(self);
    free(ids);
    return text;
}

static PyMethodDef methods[] = {
    {"close", model_close, METH_NOARGS, "frees the model once nothing uses it"},
    {"reserve", model_reserve, METH_VARARGS, "reserve(options, batch)"},
    {"info", model_info, METH_NOARGS, "what it is, as a dictionary"},
    {"counters", model_counters, METH_VARARGS, "counters(stage): runs, items, cells, ms, weight_bytes"},
    {"graph", model_graph, METH_VARARGS, "graph(which): the graph as text"},
    {"encode", model_encode, METH_VARARGS, "encode(text): token ids"},
    {"decode", model_decode, METH_O, "decode(ids): text"},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef properties[] = {{"closed", model_is_closed, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, (void *)model_new}, {Py_tp_dealloc, (void *)model_dealloc},
                              {Py_tp_methods, methods}, {Py_tp_getset, properties}, {0, NULL}};
static PyType_Spec spec = {"max_whisper._native.Model", sizeof(model_object), 0, Py_TPFLAGS_DEFAULT, slots};

int add_model(PyObject *module) {
    PyObject *names = field_names(model_fields, sizeof(model_fields) / sizeof(*model_fields));
    int status = names ? PyModule_AddObjectRef(module, "MODEL_OPTIONS", names) : -1;
    Py_XDECREF(names);
    return status < 0 ? -1 : add_type(module, &spec, &model_type);
}
