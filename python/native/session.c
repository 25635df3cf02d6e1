/* python/native/session.c - the type Session: one recording through a model, segment by segment. */
#include "native.h"

#include <stddef.h>

/* lint: table */
#define OPTION(name, kind) {#name, offsetof(mxw_session_options, name), kind, NULL}
static const field session_fields[] = {
    {"task", offsetof(mxw_session_options, task), F_CHOICE, "transcribe|translate"},
    OPTION(language, F_TEXT),
    OPTION(temperature, F_NUMBER),
    OPTION(temperature_increment, F_NUMBER_OR_NONE),
    OPTION(best_of, F_INT),
    OPTION(beam_size, F_INT),
    OPTION(patience, F_NUMBER_OR_NONE),
    OPTION(length_penalty, F_NUMBER_OR_NONE),
    OPTION(suppress_tokens, F_TEXT),
    OPTION(suppress_blank, F_BOOL),
    OPTION(initial_prompt, F_TEXT),
    OPTION(carry_initial_prompt, F_BOOL),
    OPTION(prefix, F_TEXT),
    OPTION(condition_on_previous_text, F_BOOL),
    OPTION(compression_ratio_threshold, F_NUMBER_OR_NONE),
    OPTION(logprob_threshold, F_NUMBER_OR_NONE),
    OPTION(no_speech_threshold, F_NUMBER_OR_NONE),
    OPTION(sample_len, F_INT),
    OPTION(without_timestamps, F_BOOL),
    OPTION(max_initial_timestamp, F_NUMBER_OR_NONE),
    OPTION(clip_timestamps, F_TEXT),
    OPTION(seed, F_SEED),
    {"mel_reference", offsetof(mxw_session_options, mel_reference), F_CHOICE, "file|running"},
    OPTION(start_s, F_NUMBER),
    OPTION(channel, F_INT),
    OPTION(speaker, F_TEXT),
    OPTION(word_timestamps, F_BOOL),
    OPTION(prepend_punctuations, F_TEXT),
    OPTION(append_punctuations, F_TEXT),
    OPTION(hallucination_silence_threshold, F_NUMBER_OR_NONE),
    OPTION(token_details, F_INT),
    OPTION(vad, F_BOOL),
    OPTION(vad_model, F_TEXT),
    OPTION(vad_threshold, F_NUMBER),
    OPTION(vad_min_silence_ms, F_NUMBER),
    OPTION(vad_min_speech_ms, F_NUMBER),
    OPTION(vad_max_speech_s, F_NUMBER_OR_NONE),
    OPTION(vad_pad_ms, F_NUMBER),
    OPTION(parallel, F_INT),
    {"guard", offsetof(mxw_session_options, guard), F_CHOICE, "off|mark|drop"},
    OPTION(languages, F_TEXT),
    OPTION(temperatures, F_TEXT),
    OPTION(repetition_penalty, F_NUMBER),
    OPTION(no_repeat_ngram_size, F_INT),
};
/* lint: end */

int get_session_fields(const field **fields, size_t *n) {
    *fields = session_fields;
    *n = sizeof(session_fields) / sizeof(*session_fields);
    return 0;
}

typedef struct session_object {
    PyObject_HEAD
    mxw_session *session;
    PyObject *model;             /* NULL once it was given back */
    PyObject *on_progress;       /* called with (stage, done_s, total_s or None, elapsed_s) */
    PyObject *on_window;         /* called with bytes */
    lease in_use;
    call call;
} session_object;

/* ---- callbacks, on the thread of the call ------------------------------------------------------------------------ */

static int should_abort(void *user) { return call_should_stop(&((session_object *)user)->call); }

/* With the lock: calls, and if that raises, the session stops; the exception waits for the end of the call. */
static void run(session_object *self, PyObject *function, PyObject *arguments) {
    PyObject *done = arguments && !PyErr_Occurred() ? PyObject_CallObject(function, arguments) : NULL;
    if (!done)
        atomic_store(&self->call.stopped, 1);
    Py_XDECREF(done);
    Py_XDECREF(arguments);
}

static void on_progress(void *user, const mxw_progress *p) {
    session_object *self = user;
    call_python(&self->call);
    if (!PyErr_Occurred())
        run(self, self->on_progress,
            Py_BuildValue("(sdNd)", p->stage, p->done_s, number_or_none(p->total_s), p->elapsed_s));
    call_back(&self->call);
}

static void on_window(void *user, const void *record, size_t n) {
    session_object *self = user;
    call_python(&self->call);
    if (!PyErr_Occurred())
        run(self, self->on_window, Py_BuildValue("(y#)", record, (Py_ssize_t)n));
    call_back(&self->call);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static mxw_status open_session(session_object *self, mxw_model *model, mxw_session_options *options) {
    mxw_status status;
    options->user = self;
    options->should_abort = should_abort;
    options->on_progress = self->on_progress ? on_progress : NULL;
    options->on_window = self->on_window ? on_window : NULL;
    call_begin(&self->call);   /* may wait: memory for the batch is allocated by the first */
    status = mxw_session_open(model, options, &self->session);
    call_end(&self->call);
    return status;
}

static PyObject *session_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    mxw_session_options options;
    PyObject *model, *dict, *progress, *window;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!O!OO", model_type, &model, &PyDict_Type, &dict, &progress, &window))
        return NULL;
    mxw_session_options_default(&options);
    if (take_options(dict, session_fields, sizeof(session_fields) / sizeof(*session_fields), &options) < 0)
        return NULL;
    mxw_model *handle = model_take(model);
    if (!handle)
        return NULL;
    session_object *self = (session_object *)new_object(type);
    if (!self) {
        model_give_back(model);
        return NULL;
    }
    atomic_flag_clear(&self->in_use.busy);
    self->model = Py_NewRef(model);
    self->on_progress = progress == Py_None ? NULL : Py_NewRef(progress);
    self->on_window = window == Py_None ? NULL : Py_NewRef(window);
    mxw_status status = open_session(self, handle, &options);
    if (status < 0 || PyErr_Occurred()) {
        fail(status);
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void close_session(session_object *self) {
    mxw_session *session = self->session;
    PyObject *model = self->model;
    self->session = NULL;
    self->model = NULL;
    if (session && !in_other_process()) {
        Py_BEGIN_ALLOW_THREADS
        mxw_session_close(session);
        Py_END_ALLOW_THREADS
    }
    if (model)
        model_give_back(model);
    Py_XDECREF(model);
}

static int session_clear(PyObject *object) {
    session_object *self = (session_object *)object;
    Py_CLEAR(self->on_progress);
    Py_CLEAR(self->on_window);
    return 0;
}

static int session_traverse(PyObject *object, visitproc visit, void *arg) {
    session_object *self = (session_object *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->on_progress);
    Py_VISIT(self->on_window);
    return 0;
}

static void session_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    close_session((session_object *)self);
    session_clear(self);
    free_object(self);
}

/* Enters, if the session is open. */
static session_object *begin(PyObject *object) {
    session_object *self = (session_object *)object;
    if (enter(&self->in_use, "transcription") < 0)
        return NULL;
    if (self->session)
        return self;
    leave(&self->in_use);
    PyErr_SetString(PyExc_ValueError, "the transcription is closed");
    return NULL;
}

static PyObject *finish_call(session_object *self, mxw_status status, PyObject *value) {
    leave(&self->in_use);
    if (status < 0 || PyErr_Occurred()) {
        Py_XDECREF(value);
        return fail(status);
    }
    return value;
}

static PyObject *session_close(PyObject *object, PyObject *unused) {
    session_object *self = (session_object *)object;
    (void)unused;
    if (in_other_process())
        Py_RETURN_NONE;
    if (enter(&self->in_use, "transcription") < 0)
        return NULL;
    close_session(self);
    leave(&self->in_use);
    Py_RETURN_NONE;
}

/* From any thread, at any time. */
static PyObject *session_cancel(PyObject *self, PyObject *unused) {
    (void)unused;
    atomic_store(&((session_object *)self)->call.stopped, 1);
    Py_RETURN_NONE;
}

/* ---- the recording ----------------------------------------------------------------------------------------------- */

static PyObject *session_feed(PyObject *object, PyObject *samples) {
    Py_buffer view;
    if (float_buffer(samples, &view, "samples") < 0)
        return NULL;
    session_object *self = begin(object);
    PyObject *done = NULL;
    if (self) {
        call_begin(&self->call);
        mxw_status status = mxw_session_feed(self->session, view.buf, (size_t)view.len / sizeof(float));
        call_end(&self->call);
        done = finish_call(self, status, Py_NewRef(Py_None));
    }
    PyBuffer_Release(&view);
    return done;
}

static PyObject *session_feed_audio(PyObject *object, PyObject *source) {
    if (!PyObject_TypeCheck(source, audio_type)) {
        PyErr_SetString(PyExc_TypeError, "feed_audio: expected an Audio");
        return NULL;
    }
    audio_object *audio = (audio_object *)source;
    if (enter(&audio->in_use, "audio") < 0)
        return NULL;
    session_object *self = audio->audio ? begin(object) : NULL;
    PyObject *done = NULL;
    if (self) {
        audio->call = &self->call;
        call_begin(&self->call);
        mxw_status status = mxw_session_feed_audio(self->session, audio->audio);
        call_end(&self->call);
        audio->call = &audio->own;
        done = finish_call(self, status, Py_NewRef(Py_None));
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "the audio is closed");
    }
    leave(&audio->in_use);
    return done;
}

static PyObject *session_finish(PyObject *object, PyObject *unused) {
    session_object *self = begin(object);
    (void)unused;
    if (!self)
        return NULL;
    call_begin(&self->call);
    mxw_status status = mxw_session_finish(self->session);
    call_end(&self->call);
    return finish_call(self, status, Py_NewRef(Py_None));
}

static PyObject *session_next(PyObject *object, PyObject *unused) {
    const mxw_segment *segment = NULL;
    session_object *self = begin(object);
    (void)unused;
    if (!self)
        return NULL;
    call_begin(&self->call);
    mxw_status status = mxw_session_next(self->session, &segment);
    call_end(&self->call);
    if (status == MXW_OK && !PyErr_Occurred())
        return finish_call(self, status, segment_tuple(segment));
    return finish_call(self, status, status == MXW_MORE ? Py_NewRef(Py_False) : Py_NewRef(Py_None));
}

static PyObject *session_detect_languages(PyObject *object, PyObject *unused) {
    session_object *self = begin(object);
    (void)unused;
    if (!self)
        return NULL;
    call_begin(&self->call);
    mxw_status status = mxw_session_detect_languages(self->session);
    call_end(&self->call);
    return finish_call(self, status, Py_NewRef(Py_None));
}

static PyObject *session_result(PyObject *object, PyObject *unused) {
    session_object *self = begin(object);
    (void)unused;
    if (!self)
        return NULL;
    const mxw_result *result = mxw_session_result(self->session);
    return finish_call(self, result ? MXW_OK : MXW_E_MEMORY, result ? result_tuple(result) : NULL);
}

static PyObject *session_manifest(PyObject *object, PyObject *unused) {
    const char *json = NULL;
    session_object *self = begin(object);
    (void)unused;
    if (!self)
        return NULL;
    call_begin(&self->call);   /* reads the file of the model */
    mxw_status status = mxw_session_manifest(self->session, &json);
    call_end(&self->call);
    return finish_call(self, status, status < 0 ? NULL : text_or_none(json));
}

static PyObject *session_resume(PyObject *object, PyObject *record) {
    Py_buffer view;
    if (PyObject_GetBuffer(record, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    session_object *self = begin(object);
    PyObject *done = NULL;
    if (self) {
        call_begin(&self->call);
        mxw_status status = mxw_session_resume(self->session, view.buf, (size_t)view.len);
        call_end(&self->call);
        done = finish_call(self, status, Py_NewRef(Py_None));
    }
    PyBuffer_Release(&view);
    return done;
}

static PyMethodDef methods[] = {
    {"feed", session_feed, METH_O, "feed(float32 samples at 16 kHz)"},
    {"feed_audio", session_feed_audio, METH_O, "feed_audio(audio): all of it"},
    {"finish", session_finish, METH_NOARGS, "no more samples"},
    {"next", session_next, METH_NOARGS, "the next segment as a tuple; None: the end; False: samples are needed"},
    {"detect_languages", session_detect_languages, METH_NOARGS, "decides languages instead of decoding text"},
    {"result", session_result, METH_NOARGS, "everything but the segments, as a tuple"},
    {"manifest", session_manifest, METH_NOARGS, "how the run was made, as JSON"},
    {"resume", session_resume, METH_O, "resume(record of a window)"},
    {"cancel", session_cancel, METH_NOARGS, "stops the call that runs, from any thread"},
    {"close", session_close, METH_NOARGS, "frees it"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot slots[] = {{Py_tp_new, (void *)session_new}, {Py_tp_dealloc, (void *)session_dealloc},
                              {Py_tp_traverse, (void *)session_traverse}, {Py_tp_clear, (void *)session_clear},
                              {Py_tp_methods, methods}, {0, NULL}};
static PyType_Spec spec = {"max_whisper._native.Session", sizeof(session_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

int add_session(PyObject *module) {
    PyObject *names = field_names(session_fields, sizeof(session_fields) / sizeof(*session_fields));
    int status = names ? PyModule_AddObjectRef(module, "SESSION_OPTIONS", names) : -1;
    Py_XDECREF(names);
    return status < 0 ? -1 : add_type(module, &spec, NULL);
}
