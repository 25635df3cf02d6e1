/* python/native/module.c - the module _native: errors, processes and threads, and what all handles share. */
#include "native.h"

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static PyObject *make_error;         /* max_whisper._errors.make */
static unsigned long main_thread;
static atomic_int started_in;        /* the process in which the library started threads; 0: in none */

/* ---- errors ------------------------------------------------------------------------------------------------------ */

PyObject *fail(mxw_status status) {
    if (PyErr_Occurred())
        return NULL;
    PyObject *error = PyObject_CallFunction(make_error, "ss", mxw_status_name(status), mxw_last_error());
    if (error) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        Py_DECREF(error);
    }
    return NULL;
}

PyObject *text_or_none(const char *text) {
    if (!text)
        Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

PyObject *number_or_none(double value) {
    if (value < 0)
        Py_RETURN_NONE;
    return PyFloat_FromDouble(value);
}

/* ---- processes --------------------------------------------------------------------------------------------------- */

int in_other_process(void) {
    int first = atomic_load(&started_in);
    return first && first != (int)getpid();
}

int usable(int starts) {
    if (in_other_process()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "max_whisper was in use when this process was forked off, and its threads stayed behind: "
                        "start processes with multiprocessing's 'spawn' or 'forkserver', or open the first model in "
                        "the child");
        return 0;
    }
    if (starts)
        atomic_store(&started_in, (int)getpid());
    return 1;
}

int is_main_thread(void) { return PyThread_get_thread_ident() == main_thread; }

/* ---- handles ----------------------------------------------------------------------------------------------------- */

int enter(lease *l, const char *what) {
    if (!usable(0))
        return -1;
    if (!atomic_flag_test_and_set(&l->busy))
        return 0;
    PyErr_Format(PyExc_RuntimeError, "%s: another thread is using it; each thread needs its own", what);
    return -1;
}

void leave(lease *l) { atomic_flag_clear(&l->busy); }

PyObject *new_object(PyTypeObject *type) {
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return allocate(type, 0);
}

void free_object(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **keep) {
    PyObject *type = PyType_FromSpec(spec);
    const char *name = strrchr(spec->name, '.') + 1;
    if (!type || PyModule_AddObjectRef(module, name, type) < 0) {
        Py_XDECREF(type);
        return -1;
    }
    if (keep)
        *keep = (PyTypeObject *)type;   /* for the life of the process */
    else
        Py_DECREF(type);
    return 0;
}

/* ---- calls without the lock -------------------------------------------------------------------------------------- */

#define ASK_EVERY_NS 50000000   /* often enough for Ctrl-C, rare enough to cost nothing */

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void call_begin(call *c) {
    c->signals = is_main_thread();
    c->asked_ns = now_ns();
    c->state = PyEval_SaveThread();
}

void call_end(call *c) {
    PyEval_RestoreThread(c->state);
    c->state = NULL;
}

void call_python(call *c) { PyEval_RestoreThread(c->state); }
void call_back(call *c) { c->state = PyEval_SaveThread(); }

int call_should_stop(call *c) {
    if (atomic_load(&c->stopped))
        return 1;
    if (!c->signals || now_ns() - c->asked_ns < ASK_EVERY_NS)
        return 0;
    call_python(c);
    int raised = PyErr_Occurred() != NULL || PyErr_CheckSignals() < 0;
    call_back(c);
    c->asked_ns = now_ns();
    if (raised)
        atomic_store(&c->stopped, 1);
    return raised;
}

/* ---- the log ----------------------------------------------------------------------------------------------------- */

static PyObject *log_to;   /* called with (level, component, text) */

/* May come from any thread, with the lock or without it. */
static void log_message(void *user, const mxw_log_message *message) {
    (void)user;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *to = log_to;
    if (to) {
        PyObject *type, *value, *trace, *done;
        Py_INCREF(to);
        PyErr_Fetch(&type, &value, &trace);
        done = PyObject_CallFunction(to, "iss", (int)message->level, message->component, message->text);
        if (!done)
            PyErr_WriteUnraisable(to);
        Py_XDECREF(done);
        PyErr_Restore(type, value, trace);
        Py_DECREF(to);
    }
    PyGILState_Release(state);
}

static PyObject *set_log(PyObject *self, PyObject *args) {
    int level;
    PyObject *to;
    (void)self;
    if (!PyArg_ParseTuple(args, "iO", &level, &to))
        return NULL;
    PyObject *before = log_to;
    log_to = to == Py_None ? NULL : Py_NewRef(to);
    Py_BEGIN_ALLOW_THREADS
    mxw_log_set((mxw_log_level)level, to == Py_None ? NULL : log_message, NULL);
    Py_END_ALLOW_THREADS
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

/* ---- the module -------------------------------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    {"set_log", set_log, METH_VARARGS, "set_log(level, function or None)"},
    {NULL, NULL, 0, NULL},
};

static int find_python_parts(void) {
    PyObject *errors = PyImport_ImportModule("max_whisper._errors");
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *thread = threading ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;
    PyObject *ident = thread ? PyObject_GetAttrString(thread, "ident") : NULL;
    if (errors)
        make_error = PyObject_GetAttrString(errors, "make");
    if (ident)
        main_thread = PyLong_AsUnsignedLong(ident);
    Py_XDECREF(ident);
    Py_XDECREF(thread);
    Py_XDECREF(threading);
    Py_XDECREF(errors);
    return make_error && !PyErr_Occurred() ? 0 : -1;
}

static int fill(PyObject *module) {
    if (mxw_abi_version() != MXW_ABI_VERSION) {
        PyErr_Format(PyExc_ImportError, "libmax_whisper has ABI %d, the extension was built for %d", mxw_abi_version(),
                     MXW_ABI_VERSION);
        return -1;
    }
    if (find_python_parts() < 0 || PyModule_AddStringConstant(module, "version", mxw_version()) < 0)
        return -1;
    static int (*const parts[])(PyObject *) = {add_model,  add_session, add_audio, add_catalog, add_writers,
                                               add_window, add_vad,     add_live,  add_graph,   add_tokenizer};
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        if (parts[i](module) < 0)
            return -1;
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)fill},
#if defined(Py_GIL_DISABLED) && defined(Py_mod_gil)
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "max_whisper._native", "The handles of libmax_whisper; see the Python files around it.",
    0, functions, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
