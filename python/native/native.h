/* python/native/native.h - what the files of the extension share: errors, options, the life of handles.
 *
 * The extension is thin: each type here is one handle of max_whisper.h, each method one call, with the interpreter's
 * lock released. Arguments were prepared and results are wrapped by the Python files in max_whisper/.
 * Invariants: a handle is used by one thread at a time (`enter`), and never in a process that was forked off. */
#ifndef NATIVE_H
#define NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <max_whisper.h>
#include <stdatomic.h>
#include <stdint.h>

/* ---- module.c ---- */

/* Raises the exception for a failed call, with the library's line; keeps one that a callback raised. Returns NULL. */
PyObject *fail(mxw_status status);
/* Whether the library may be used in this process; if not, raises. `starts`: the call may start threads. */
int usable(int starts);
int in_other_process(void);   /* the library's threads belong to a parent: nothing may be touched, not even freed */
/* Adds a type made from its spec; returns 0, or -1 with an exception. */
int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **keep);
int is_main_thread(void);
PyObject *text_or_none(const char *text);   /* UTF-8; broken bytes are replaced */
PyObject *number_or_none(double value);     /* negative and MXW_NONE: None */
PyObject *new_object(PyTypeObject *type);   /* an instance, cleared */
void free_object(PyObject *self);           /* and its memory, when the handle in it is closed */

/* ---- the use of a handle ---- */

typedef struct lease {
    atomic_flag busy;
} lease;
/* 0: entered. -1: another thread is inside, or the process was forked off; raised, with what the handle is. */
int enter(lease *l, const char *what);
void leave(lease *l);

/* Python inside a call without the lock: signals, callbacks. The thread state of the call is kept here. */
typedef struct call {
    PyThreadState *state;        /* while the lock is released */
    atomic_int stopped;          /* cancel() was called, from any thread */
    int signals;                 /* 1: the call is on the main thread, where signals arrive */
    int64_t asked_ns;            /* when signals were last looked for */
} call;
void call_begin(call *c);        /* releases the lock */
void call_end(call *c);
void call_python(call *c);       /* inside the call, on its thread: takes the lock ... */
void call_back(call *c);         /* ... and releases it again */
int call_should_stop(call *c);   /* non-zero: cancelled, Ctrl-C, or a callback raised */

/* ---- options.c: a dictionary into a struct of options ---- */

typedef enum field_kind { F_INT, F_BOOL, F_NUMBER, F_NUMBER_OR_NONE, F_TEXT, F_CHOICE, F_SEED } field_kind;
typedef struct field {
    const char *name;
    size_t offset;
    field_kind kind;
    const char *choices;         /* F_CHOICE: "off|mark|drop": 0, 1, 2 */
} field;
/* Strings belong to the dictionary, which must live until the struct was used. 0, or -1 with an exception. */
int take_options(PyObject *dict, const field *fields, size_t n, void *options);
PyObject *field_names(const field *fields, size_t n);
int get_session_fields(const field **fields, size_t *n);

/* ---- convert.c: structs of the library as tuples, in the order of the dataclasses of _types.py ---- */

PyObject *word_tuple(const mxw_word *word);
PyObject *segment_tuple(const mxw_segment *segment);
PyObject *result_tuple(const mxw_result *result);
/* Token ids as a list; NULL with an exception. */
PyObject *list_ids(const int32_t *ids, size_t n);
/* Token ids of a sequence, to be freed with free(); NULL with an exception. */
int32_t *read_ids(PyObject *list, size_t *n);
/* A contiguous buffer of C floats; raises if it is something else. */
int float_buffer(PyObject *object, Py_buffer *view, const char *what);

/* ---- the handles ---- */

typedef struct model_object {
    PyObject_HEAD
    mxw_model *model;            /* NULL once it was closed */
    atomic_long users;           /* calls and handles that need the model; the last one closes it */
    atomic_int closed;
} model_object;
extern PyTypeObject *model_type;
/* The model for a call or a handle; NULL with an exception if it was closed. Give it back. */
mxw_model *model_take(PyObject *object);
void model_give_back(PyObject *object);

typedef struct audio_object {
    PyObject_HEAD
    mxw_audio *audio;
    lease in_use;
    call *call;                  /* of the call that reads, for the callbacks of file */
    call own;
    PyObject *file;              /* with read(), and perhaps seek() */
    Py_buffer data;
    int has_data;
} audio_object;
extern PyTypeObject *audio_type;

/* Each adds its types and functions to the module. */
int add_model(PyObject *module);
int add_session(PyObject *module);
int add_audio(PyObject *module);
int add_catalog(PyObject *module);
int add_writers(PyObject *module);
int add_window(PyObject *module);
int add_vad(PyObject *module);
int add_live(PyObject *module);
int add_graph(PyObject *module);
int add_tokenizer(PyObject *module);
#endif
