/* python/native/convert.c - structs of the library as tuples, in the order of the dataclasses of _types.py. */
#include "native.h"

#include <stdlib.h>
#include <string.h>

int float_buffer(PyObject *object, Py_buffer *view, const char *what) {
    if (PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0)
        return -1;
    if (view->itemsize == sizeof(float) && view->format && !strcmp(view->format, "f"))
        return 0;
    PyErr_Format(PyExc_TypeError, "%s: expected float32, not format %s", what, view->format ? view->format : "B");
    PyBuffer_Release(view);
    return -1;
}

PyObject *list_ids(const int32_t *ids, size_t n) {
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++)
        if (PyList_SetItem(list, (Py_ssize_t)i, PyLong_FromLong(ids[i])) < 0)
            Py_CLEAR(list);
    return list;
}

int32_t *read_ids(PyObject *list, size_t *n) {
    PyObject *fast = PySequence_List(list);
    int32_t *ids = fast ? malloc(((size_t)PyList_Size(fast) + 1) * sizeof(*ids)) : NULL;
    *n = fast ? (size_t)PyList_Size(fast) : 0;
    if (fast && !ids)
        PyErr_NoMemory();
    for (size_t i = 0; ids && i < *n; i++) {
        PyObject *index = PyNumber_Index(PyList_GetItem(fast, (Py_ssize_t)i));
        long id = index ? PyLong_AsLong(index) : -1;
        Py_XDECREF(index);
        if (!PyErr_Occurred() && (id < 0 || id > INT32_MAX))
            PyErr_Format(PyExc_ValueError, "tokens: %ld is not a token", id);
        ids[i] = (int32_t)id;
        if (PyErr_Occurred()) {
            free(ids);
            ids = NULL;
        }
    }
    Py_XDECREF(fast);
    return ids;
}

/* Moves the item into the list; 0, or -1 and the list is gone. */
static int put(PyObject **list, size_t i, PyObject *item) {
    if (item && PyList_SetItem(*list, (Py_ssize_t)i, item) == 0)
        return 0;
    Py_CLEAR(*list);
    return -1;
}

static PyObject *reasons_tuple(uint32_t reasons) {
    PyObject *list = PyList_New(0);
    for (int bit = 0; list && bit < 32; bit++) {
        if (!(reasons >> bit & 1))
            continue;
        PyObject *name = text_or_none(mxw_suspicion_reason(bit));
        if (!name || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

PyObject *word_tuple(const mxw_word *w) {
    return Py_BuildValue("(ddNddN)", w->start, w->end, text_or_none(w->word), w->probability, w->suspicion,
                         reasons_tuple(w->reasons));
}

static PyObject *word_list(const mxw_segment *s) {
    if (!s->words)
        Py_RETURN_NONE;
    PyObject *list = PyList_New((Py_ssize_t)s->n_words);
    for (size_t i = 0; list && i < s->n_words; i++)
        put(&list, i, word_tuple(mxw_segment_word(s, i)));
    return list;
}

static PyObject *alternative_list(const mxw_segment *s, size_t token) {
    PyObject *list = PyList_New(0);
    const mxw_token *t;
    for (size_t j = 0; list && (t = mxw_segment_alternative(s, token, j)); j++) {
        PyObject *item = Py_BuildValue("(idN)", (int)t->id, t->logprob, text_or_none(t->text));
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *detail_list(const mxw_segment *s) {
    if (!s->details)
        Py_RETURN_NONE;
    PyObject *list = PyList_New((Py_ssize_t)s->n_tokens);
    for (size_t i = 0; list && i < s->n_tokens; i++) {
        const mxw_token *t = mxw_segment_token(s, i);
        put(&list, i, Py_BuildValue("(idNN)", (int)t->id, t->logprob, text_or_none(t->text), alternative_list(s, i)));
    }
    return list;
}

PyObject *segment_tuple(const mxw_segment *s) {
    return Py_BuildValue("(LLddNNddddNNNiNdNN)", (long long)s->id, (long long)s->seek, s->start, s->end,
                         text_or_none(s->text), list_ids(s->tokens, s->n_tokens), s->temperature, s->avg_logprob,
                         s->compression_ratio, s->no_speech_prob, word_list(s), text_or_none(s->language),
                         number_or_none(s->language_probability), s->channel, text_or_none(s->speaker), s->suspicion,
                         reasons_tuple(s->reasons), detail_list(s));
}

static PyObject *region_list(const mxw_result *r) {
    if (!r->regions)
        Py_RETURN_NONE;
    PyObject *list = PyList_New((Py_ssize_t)r->n_regions);
    for (size_t i = 0; list && i < r->n_regions; i++) {
        const mxw_region *region = mxw_result_region(r, i);
        put(&list, i, Py_BuildValue("(ddiNN)", region->start, region->end, region->channel,
                                    text_or_none(region->language),
                                    region->language ? PyFloat_FromDouble(region->probability) : Py_NewRef(Py_None)));
    }
    return list;
}

static PyObject *times_tuple(const mxw_stage_times *t) {
    if (!t)
        Py_RETURN_NONE;
    return Py_BuildValue("(ddddddddd)", t->load_ms, t->compile_ms, t->audio_ms, t->mel_ms, t->encode_ms, t->decode_ms,
                         t->words_ms, t->vad_ms, t->total_ms);
}

/* Without the segments, which the caller has already. */
PyObject *result_tuple(const mxw_result *r) {
    return Py_BuildValue("(NNNdLLNNdL)", text_or_none(r->text), text_or_none(r->language),
                         number_or_none(r->language_probability), r->duration_s, (long long)r->n_windows,
                         (long long)r->n_temperature_fallbacks, times_tuple(r->times), region_list(r), r->skipped_s,
                         (long long)r->n_words_suspected);
}
