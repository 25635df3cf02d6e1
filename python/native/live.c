/* python/native/live.c - the type Live: a stream that is transcribed while it is spoken. */
#include "native.h"

#include <stddef.h>

/* lint: table */
static const field live_fields[] = {
    {"policy", offsetof(mxw_live_options, policy), F_CHOICE, "agreement|alignatt"},
    {"pause_ms", offsetof(mxw_live_options, pause_ms), F_NUMBER, NULL},
    {"step_ms", offsetof(mxw_live_options, step_ms), F_NUMBER, NULL},
    {"margin_ms", offsetof(mxw_live_options, margin_ms), F_NUMBER, NULL},
    {"cut_s", offsetof(mxw_live_options, cut_s), F_NUMBER, NULL},
    {"start_pad_ms", offsetof(mxw_live_options, start_pad_ms), F_NUMBER_OR_NONE, NULL},
    {"announce_end", offsetof(mxw_live_options, announce_end), F_BOOL, NULL},
    {"keep_result", offsetof(mxw_live_options, keep_result), F_BOOL, NULL},
};
/* lint: end */

typedef struct live_object {
    PyObject_HEAD
    mxw_live *live;
    PyObject *model;
    lease in_use;
    call call;
} live_object;

static int should_abort(void *user) { return call_should_stop(&((live_object *)user)->call); }

/* Live(model, options, options of decoding) */
static PyObject *live_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    mxw_live_options options;
    mxw_session_options decoding;
    const field *fields;
    size_t n;
    PyObject *model, *dict, *how;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!O!O!", model_type, &model, &PyDict_Type, &dict, &PyDict_Type, &how))
        return NULL;
    mxw_live_options_default(&options);
    mxw_live_decoding_default(&decoding);
    if (take_options(dict, live_fields, sizeof(live_fields) / sizeof(*live_fields), &options) < 0 ||
        get_session_fields(&fields, &n) < 0 || take_options(how, fields, n, &decoding) < 0)
        return NULL;
    mxw_model *handle = model_take(model);
    if (!handle)
        return NULL;
    live_object *self = (live_object *)new_object(type);
    if (!self) {
        model_give_back(model);
        return NULL;
    }
    atomic_flag_clear(&self->in_use.busy);
    self->model = Py_NewRef(model);
    decoding.user = self;
    decoding.should_abort = should_abort;
    options.decoding = &decoding;
    call_begin(&self->call);
    mxw_status status = mxw_live_open(handle, &options, &self->live);
    call_end(&self->call);
    if (status < 0 || PyErr_Occurred()) {
        fail(status);
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void close_live(live_object *self) {
    mxw_live *live = self->live;
    PyObject *model = self->model;
    self->live = NULL;
    self->model = NULL;
    if (live && !in_other_process()) {
        Py_BEGIN_ALLOW_THREADS
        mxw_live_close(live);
        Py_END_ALLOW_THREADS
    }
    if (model)
        model_give_back(model);
    Py_XDECREF(model);
}

static void live_dealloc(PyObject *self) {
    close_live((live_object *)self);
    free_object(self);
}

static live_object *begin(PyObject *object) {
    live_object *self = (live_object *)object;
    if (enter(&self->in_use, "live stream") < 0)
        return NULL;
    if (self->live)
        return self;
    leave(&self->in_use);
    PyErr_SetString(PyExc_ValueError, "the live stream is closed");
    return NULL;
}

static PyObject *finish_call(live_object *self, mxw_status status) {
    leave(&self->in_use);
    return status < 0 || PyErr_Occurred() ? fail(status) : Py_NewRef(Py_None);
}

static PyObject *live_close(PyObject *object, PyObject *unused) {
    live_object *self = (live_object *)object;
    (void)unused;
    if (in_other_process())
        Py_RETURN_NONE;
    if (enter(&self->in_use, "live stream") < 0)
        return NULL;
    close_live(self);
    return finish_call(self, MXW_OK);
}

static PyObject *live_cancel(PyObject *self, PyObject *unused) {
    (void)unused;
    atomic_store(&((live_object *)self)->call.stopped, 1);
    Py_RETURN_NONE;
}

static PyObject *live_feed(PyObject *object, PyObject *samples) {
    Py_buffer view;
    if (float_buffer(samples, &view, "samples") < 0)
        return NULL;
    live_object *self = begin(object);
    PyObject *done = NULL;
    if (self) {
        call_begin(&self->call);
        mxw_status status = mxw_live_feed(self->live, view.buf, (size_t)view.len / sizeof(float));
        call_end(&self->call);
        done = finish_call(self, status);
    }
    PyBuffer_Release(&view);
    return done;
}

static PyObject *live_gap(PyObject *object, PyObject *args) {
    double seconds;
    if (!PyArg_ParseTuple(args, "d", &seconds))
        return NULL;
    live_object *self = begin(object);
    if (!self)
        return NULL;
    call_begin(&self->call);
    mxw_status status = mxw_live_gap(self->live, seconds);
    call_end(&self->call);
    return finish_call(self, status);
}

static PyObject *without_arguments(PyObject *object, mxw_status (*function)(mxw_live *)) {
    live_object *self = begin(object);
    if (!self)
        return NULL;
    call_begin(&self->call);
    mxw_status status = function(self->live);
    call_end(&self->call);
    return finish_call(self, status);
}

static PyObject *live_flush(PyObject *object, PyObject *unused) {
    (void)unused;
    return without_arguments(object, mxw_live_flush);
}

static PyObject *live_finish(PyObject *object, PyObject *unused) {
    (void)unused;
    return without_arguments(object, mxw_live_finish);
}

static PyObject *event_tuple(const mxw_live_event *e) {
    static const char *const kinds[] = {"speech_started", "partial", "final", "speech_stopped", "slower", "gap", "end",
                                        "speech_ended"};
    size_t known = sizeof(kinds) / sizeof(*kinds);
    PyObject *words = PyList_New(0);
    for (size_t i = 0; words && i < e->n_words; i++) {
        PyObject *word = word_tuple(mxw_live_event_word(e, i));
        if (!word || PyList_Append(words, word) < 0)
            Py_CLEAR(words);
        Py_XDECREF(word);
    }
    return Py_BuildValue("(sLddNNdNNddd)", (size_t)e->kind < known ? kinds[e->kind] : "unknown",
                         (long long)e->utterance, e->start, e->end, text_or_none(e->text), words, e->probability,
                         text_or_none(e->language), number_or_none(e->language_probability), e->heard_s, e->ready_s,
                         e->step_s);
}

/* next(): an event as a tuple; None: the end; False: samples are needed */
static PyObject *live_next(PyObject *object, PyObject *unused) {
    const mxw_live_event *event = NULL;
    live_object *self = begin(object);
    (void)unused;
    if (!self)
        return NULL;
    call_begin(&self->call);
    mxw_status status = mxw_live_next(self->live, &event);
    call_end(&self->call);
    PyObject *done = status < 0 || PyErr_Occurred() ? fail(status)
                     : status == MXW_OK ? event_tuple(event) : Py_NewRef(status == MXW_MORE ? Py_False : Py_None);
    leave(&self->in_use);
    return done;
}

/* result(): the result's tuple, and the segments' */
static PyObject *live_result(PyObject *object, PyObject *unused) {
    live_object *self = begin(object);
    (void)unused;
    if (!self)
        return NULL;
    const mxw_result *result = mxw_live_result(self->live);
    PyObject *list = result ? PyList_New((Py_ssize_t)result->n_segments) : NULL;
    for (size_t i = 0; list && i < result->n_segments; i++)
        if (PyList_SetItem(list, (Py_ssize_t)i, segment_tuple(mxw_result_segment(result, i))) < 0)
            Py_CLEAR(list);
    PyObject *done = list ? Py_BuildValue("(NN)", result_tuple(result), list) : NULL;
    leave(&self->in_use);
    if (!result && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "result: open the stream with keep_result=True");
    return done;
}

static PyObject *live_stats(PyObject *object, PyObject *unused) {
    mxw_live_stats s = {.struct_size = sizeof(s)};
    live_object *self = begin(object);
    (void)unused;
    if (!self)
        return NULL;
    mxw_status status = mxw_live_get_stats(self->live, &s);
    leave(&self->in_use);
    if (status < 0)
        return fail(status);
    return Py_BuildValue("(ddLLLLddddd)", s.fed_s, s.speech_s, (long long)s.n_utterances, (long long)s.n_passes,
                         (long long)s.n_words, (long long)s.n_words_dropped, s.compute_s, s.step_s, s.level, s.speech,
                         s.silence_s);
}

static PyMethodDef methods[] = {
    {"feed", live_feed, METH_O, "feed(float32 samples at 16 kHz)"},
    {"gap", live_gap, METH_VARARGS, "gap(seconds): samples are missing here"},
    {"flush", live_flush, METH_NOARGS, "ends the utterance now"},
    {"finish", live_finish, METH_NOARGS, "no more samples"},
    {"next", live_next, METH_NOARGS, "an event as a tuple; None: the end; False: samples are needed"},
    {"result", live_result, METH_NOARGS, "all finals so far"},
    {"stats", live_stats, METH_NOARGS, "numbers"},
    {"cancel", live_cancel, METH_NOARGS, "stops the call that runs, from any thread"},
    {"close", live_close, METH_NOARGS, "frees it"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot slots[] = {{Py_tp_new, (void *)live_new}, {Py_tp_dealloc, (void *)live_dealloc},
                              {Py_tp_methods, methods}, {0, NULL}};
static PyType_Spec spec = {"max_whisper._native.Live", sizeof(live_object), 0, Py_TPFLAGS_DEFAULT, slots};

int add_live(PyObject *module) {
    PyObject *names = field_names(live_fields, sizeof(live_fields) / sizeof(*live_fields));
    int status = names ? PyModule_AddObjectRef(module, "LIVE_OPTIONS", names) : -1;
    Py_XDECREF(names);
    return status < 0 ? -1 : add_type(module, &spec, NULL);
}
