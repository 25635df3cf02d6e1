/* python/native/writers.c - results, which are Python objects, written by the library in any of its formats. */
#include "native.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const field write_fields[] = {
    {"max_line_width", offsetof(mxw_write_options, max_line_width), F_INT, NULL},
    {"max_line_count", offsetof(mxw_write_options, max_line_count), F_INT, NULL},
    {"max_words_per_line", offsetof(mxw_write_options, max_words_per_line), F_INT, NULL},
    {"highlight_words", offsetof(mxw_write_options, highlight_words), F_BOOL, NULL},
    {"manifest", offsetof(mxw_write_options, manifest), F_TEXT, NULL},
};

/* ---- attributes of an object; a failure is seen at the end, by PyErr_Occurred ------------------------------------ */

static double get_number(PyObject *from, const char *name, double none) {
    PyObject *value = PyErr_Occurred() ? NULL : PyObject_GetAttrString(from, name);
    double number = !value ? 0 : value == Py_None ? none : PyFloat_AsDouble(value);
    Py_XDECREF(value);
    return number;
}

static long long get_integer(PyObject *from, const char *name) {
    PyObject *value = PyErr_Occurred() ? NULL : PyObject_GetAttrString(from, name);
    long long number = value ? PyLong_AsLongLong(value) : 0;
    Py_XDECREF(value);
    return number;
}

/* *hold keeps the string alive. */
static const char *get_text(PyObject *from, const char *name, PyObject **hold) {
    *hold = PyErr_Occurred() ? NULL : PyObject_GetAttrString(from, name);
    if (!*hold || *hold == Py_None)
        return NULL;
    const char *text = PyUnicode_AsUTF8AndSize(*hold, NULL);
    return text;
}

static PyObject *get_list(PyObject *from, const char *name) {
    PyObject *value = PyErr_Occurred() ? NULL : PyObject_GetAttrString(from, name);
    PyObject *list = value && value != Py_None ? PySequence_List(value) : NULL;
    Py_XDECREF(value);
    return list;
}

static uint32_t get_reasons(PyObject *from) {
    PyObject *list = get_list(from, "reasons");
    uint32_t bits = 0;
    for (Py_ssize_t i = 0; list && i < PyList_Size(list); i++)
        for (int bit = 0; mxw_suspicion_reason(bit); bit++)
            if (PyUnicode_CompareWithASCIIString(PyList_GetItem(list, i), mxw_suspicion_reason(bit)) == 0)
                bits |= 1u << bit;
    Py_XDECREF(list);
    return bits;
}

/* ---- the parts of a draft ---------------------------------------------------------------------------------------- */

static mxw_status add_words(mxw_draft *draft, PyObject *segment) {
    PyObject *list = get_list(segment, "words");
    mxw_status status = list ? mxw_draft_word(draft, NULL) : MXW_OK;
    for (Py_ssize_t i = 0; list && status >= 0 && !PyErr_Occurred() && i < PyList_Size(list); i++) {
        PyObject *item = PyList_GetItem(list, i), *hold;
        mxw_word word = {get_number(item, "start", 0), get_number(item, "end", 0), get_text(item, "word", &hold),
                         get_number(item, "probability", 0), get_number(item, "suspicion", 0), get_reasons(item)};
        if (!PyErr_Occurred())
            status = mxw_draft_word(draft, &word);
        Py_XDECREF(hold);
    }
    Py_XDECREF(list);
    return status;
}

static mxw_status add_token(mxw_draft *draft, PyObject *item, int alternative) {
    PyObject *hold;
    mxw_token token = {(int32_t)get_integer(item, "id"), get_number(item, "logprob", 0), get_text(item, "text", &hold)};
    mxw_status status = MXW_OK;
    if (!PyErr_Occurred())
        status = alternative ? mxw_draft_alternative(draft, &token) : mxw_draft_token(draft, &token);
    Py_XDECREF(hold);
    return status;
}

static mxw_status add_details(mxw_draft *draft, PyObject *segment) {
    PyObject *list = get_list(segment, "details");
    mxw_status status = MXW_OK;
    for (Py_ssize_t i = 0; list && status >= 0 && !PyErr_Occurred() && i < PyList_Size(list); i++) {
        PyObject *item = PyList_GetItem(list, i);
        status = add_token(draft, item, 0);
        PyObject *others = get_list(item, "alternatives");
        for (Py_ssize_t j = 0; others && status >= 0 && !PyErr_Occurred() && j < PyList_Size(others); j++)
            status = add_token(draft, PyList_GetItem(others, j), 1);
        Py_XDECREF(others);
    }
    Py_XDECREF(list);
    return status;
}

static int32_t *get_tokens(PyObject *segment, size_t *n) {
    PyObject *list = get_list(segment, "tokens");
    *n = list ? (size_t)PyList_Size(list) : 0;
    int32_t *ids = malloc((*n + 1) * sizeof(*ids));
    if (!ids)
        PyErr_NoMemory();
    for (size_t i = 0; ids && i < *n; i++)
        ids[i] = (int32_t)PyLong_AsLong(PyList_GetItem(list, (Py_ssize_t)i));
    Py_XDECREF(list);
    return ids;
}

static mxw_status add_segment(mxw_draft *draft, PyObject *item) {
    PyObject *text, *speaker, *language;
    size_t n;
    int32_t *ids = get_tokens(item, &n);
    mxw_segment segment = {
        .id = get_integer(item, "id"),
        .seek = get_integer(item, "seek"),
        .start = get_number(item, "start", 0),
        .end = get_number(item, "end", 0),
        .text = get_text(item, "text", &text),
        .tokens = ids,
        .n_tokens = n,
        .temperature = get_number(item, "temperature", 0),
        .avg_logprob = get_number(item, "avg_logprob", 0),
        .compression_ratio = get_number(item, "compression_ratio", 0),
        .no_speech_prob = get_number(item, "no_speech_prob", 0),
        .channel = (int)get_integer(item, "channel"),
        .speaker = get_text(item, "speaker", &speaker),
        .language = get_text(item, "language", &language),
        .language_probability = get_number(item, "language_probability", -1),
        .suspicion = get_number(item, "suspicion", 0),
        .reasons = get_reasons(item),
    };
    mxw_status status = MXW_OK;
    if (!PyErr_Occurred())
        status = mxw_draft_segment(draft, &segment);
    Py_XDECREF(text);
    Py_XDECREF(speaker);
    Py_XDECREF(language);
    free(ids);
    if (status >= 0 && !PyErr_Occurred())
        status = add_words(draft, item);
    return status < 0 || PyErr_Occurred() ? status : add_details(draft, item);
}

static mxw_status add_regions(mxw_draft *draft, PyObject *regions) {
    PyObject *list = regions == Py_None ? NULL : PySequence_List(regions);
    mxw_status status = list ? mxw_draft_region(draft, NULL) : MXW_OK;
    for (Py_ssize_t i = 0; list && status >= 0 && !PyErr_Occurred() && i < PyList_Size(list); i++) {
        PyObject *item = PyList_GetItem(list, i), *language;
        mxw_region region = {get_number(item, "start", 0), get_number(item, "end", 0),
                             (int)get_integer(item, "channel"), get_text(item, "language", &language),
                             get_number(item, "probability", 0)};
        if (!PyErr_Occurred())
            status = mxw_draft_region(draft, &region);
        Py_XDECREF(language);
    }
    Py_XDECREF(list);
    return status;
}

static mxw_status fill_draft(mxw_draft *draft, PyObject *head, PyObject *segments, PyObject *regions) {
    mxw_result r = {0};
    mxw_stage_times t = {0};
    PyObject *probability;
    long long windows, fallbacks, suspected;
    if (!PyArg_ParseTuple(head, "zOdLLdLddddddddd", &r.language, &probability, &r.duration_s, &windows, &fallbacks,
                          &r.skipped_s, &suspected, &t.load_ms, &t.compile_ms, &t.audio_ms, &t.mel_ms, &t.encode_ms,
                          &t.decode_ms, &t.words_ms, &t.vad_ms, &t.total_ms))
        return MXW_OK;
    r.language_probability = probability == Py_None ? -1 : PyFloat_AsDouble(probability);
    r.n_windows = windows;
    r.n_temperature_fallbacks = fallbacks;
    r.n_words_suspected = suspected;
    mxw_status status = mxw_draft_head(draft, &r);
    if (status >= 0)
        status = mxw_draft_times(draft, &t);
    for (Py_ssize_t i = 0; status >= 0 && !PyErr_Occurred() && i < PyList_Size(segments); i++)
        status = add_segment(draft, PyList_GetItem(segments, i));
    return status < 0 || PyErr_Occurred() ? status : add_regions(draft, regions);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

typedef struct bytes {
    char *data;
    size_t n, room;
} bytes;

static int add_bytes(void *user, const void *data, size_t n) {
    bytes *b = user;
    if (b->n + n > b->room) {
        size_t room = 2 * (b->n + n);
        char *grown = realloc(b->data, room);
        if (!grown)
            return 1;
        b->data = grown;
        b->room = room;
    }
    memcpy(b->data + b->n, data, n);
    b->n += n;
    return 0;
}

static PyObject *write_draft(mxw_draft *draft, const char *format, const mxw_write_options *options, const char *path) {
    bytes made = {0};
    const mxw_result *result = mxw_draft_result(draft);
    if (!result)
        return fail(MXW_E_STATE);
    mxw_status status;
    Py_BEGIN_ALLOW_THREADS
    status = path ? mxw_result_save(result, format, options, path)
                  : mxw_result_write(result, format, options, add_bytes, &made);
    Py_END_ALLOW_THREADS
    PyObject *done = status < 0 ? fail(status) : PyBytes_FromStringAndSize(made.data ? made.data : "",
                                                                           (Py_ssize_t)made.n);
    free(made.data);
    return done;
}

/* write(head, segments, regions or None, format, options, path as bytes or None): the bytes, or a file */
static PyObject *write_result(PyObject *module, PyObject *args) {
    PyObject *head, *segments, *regions, *dict, *path;
    const char *format;
    mxw_write_options options;
    mxw_draft *draft = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!OsO!O", &PyTuple_Type, &head, &PyList_Type, &segments, &regions, &format,
                          &PyDict_Type, &dict, &path))
        return NULL;
    const char *to = path == Py_None ? NULL : PyBytes_AsString(path);
    mxw_write_options_default(&options);
    const size_t n_fields = sizeof(write_fields) / sizeof(*write_fields);
    if (PyErr_Occurred() || take_options(dict, write_fields, n_fields, &options) < 0)
        return NULL;
    mxw_status status = mxw_draft_open(&draft);
    if (status >= 0)
        status = fill_draft(draft, head, segments, regions);
    PyObject *done = status < 0 || PyErr_Occurred() ? fail(status) : write_draft(draft, format, &options, to);
    mxw_draft_close(draft);
    return done;
}

static PyMethodDef functions[] = {
    {"write", write_result, METH_VARARGS, "write(head, segments, regions, format, options, path): bytes, or a file"},
    {NULL, NULL, 0, NULL},
};

int add_writers(PyObject *module) {
    PyObject *names = field_names(write_fields, 4);   /* the manifest belongs to the result */
    int status = names ? PyModule_AddObjectRef(module, "WRITE_OPTIONS", names) : -1;
    Py_XDECREF(names);
    return status < 0 ? -1 : PyModule_AddFunctions(module, functions);
}
