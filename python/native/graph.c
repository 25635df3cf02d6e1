/* python/native/graph.c - the types Graph and Program: a computation of the caller's, described, compiled and run. */
#include "native.h"

#include <stddef.h>
#include <string.h>

typedef struct graph_object {
    PyObject_HEAD
    mxw_graph *graph;
    lease in_use;
} graph_object;

typedef struct program_object {
    PyObject_HEAD
    mxw_program *program;
    lease in_use;
} program_object;

static PyTypeObject *graph_type;

/* ---- ops by name ------------------------------------------------------------------------------------------------- */

typedef mxw_value (*unary_fn)(mxw_graph *, mxw_value);
typedef mxw_value (*binary_fn)(mxw_graph *, mxw_value, mxw_value);

static const struct {
    const char *name;
    unary_fn build;
} unary[] = {
    {"transpose", mxw_graph_transpose}, {"relu", mxw_graph_relu}, {"sigmoid", mxw_graph_sigmoid},
    {"tanh", mxw_graph_tanh}, {"silu", mxw_graph_silu}, {"exp", mxw_graph_exp}, {"log", mxw_graph_log},
    {"sqrt", mxw_graph_sqrt}, {"abs", mxw_graph_abs}, {"neg", mxw_graph_neg}, {"softmax", mxw_graph_softmax},
    {"argmax", mxw_graph_argmax},
};
static const struct {
    const char *name;
    binary_fn build;
} binary[] = {
    {"matmul", mxw_graph_matmul}, {"add", mxw_graph_add}, {"sub", mxw_graph_sub}, {"mul", mxw_graph_mul},
    {"div", mxw_graph_div}, {"gather", mxw_graph_gather},
};
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static PyObject *value_or_error(mxw_graph *g, mxw_value value) {
    return value ? PyLong_FromLong(value) : fail(mxw_graph_status(g));
}

/* A sequence of integers; the count, or -1 with an exception. */
static int read_dims(PyObject *list, int64_t dims[MXW_MAX_RANK]) {
    PyObject *items = PySequence_List(list);
    Py_ssize_t n = items ? PyList_Size(items) : -1;
    if (n > MXW_MAX_RANK)
        PyErr_Format(PyExc_ValueError, "shape: %zd axes; at most %d", n, MXW_MAX_RANK);
    for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++)
        dims[i] = PyLong_AsLongLong(PyList_GetItem(items, i));
    Py_XDECREF(items);
    return PyErr_Occurred() ? -1 : (int)n;
}

static graph_object *begin(PyObject *object) {
    graph_object *self = (graph_object *)object;
    return enter(&self->in_use, "graph") < 0 ? NULL : self;
}

/* unary(name, x) and binary(name, a, b) */
static PyObject *graph_unary(PyObject *object, PyObject *args) {
    const char *name;
    int x;
    if (!PyArg_ParseTuple(args, "si", &name, &x))
        return NULL;
    for (size_t i = 0; i < COUNT(unary); i++)
        if (!strcmp(unary[i].name, name))
            return value_or_error(((graph_object *)object)->graph, unary[i].build(((graph_object *)object)->graph, x));
    return PyErr_Format(PyExc_ValueError, "no op %s of one value", name);
}

static PyObject *graph_binary(PyObject *object, PyObject *args) {
    const char *name;
    int a, b;
    if (!PyArg_ParseTuple(args, "sii", &name, &a, &b))
        return NULL;
    for (size_t i = 0; i < COUNT(binary); i++)
        if (!strcmp(binary[i].name, name))
            return value_or_error(((graph_object *)object)->graph,
                                  binary[i].build(((graph_object *)object)->graph, a, b));
    return PyErr_Format(PyExc_ValueError, "no op %s of two values", name);
}

/* The ops that have arguments of their own: op(name, values, integers, numbers), as _graph.py passes them. */
static mxw_value build(mxw_graph *g, const char *name, const mxw_value *v, const int64_t *i, const double *d) {
    if (!strcmp(name, "linear"))
        return mxw_graph_linear(g, v[0], v[1], v[2]);
    if (!strcmp(name, "layer_norm"))
        return mxw_graph_layer_norm(g, v[0], v[1], v[2], d[0]);
    if (!strcmp(name, "gelu"))
        return mxw_graph_gelu(g, v[0], (mxw_gelu_kind)i[0]);
    if (!strcmp(name, "leaky_relu"))
        return mxw_graph_leaky_relu(g, v[0], d[0]);
    if (!strcmp(name, "slice"))
        return mxw_graph_slice(g, v[0], (int)i[0], i[1], i[2], i[3]);
    if (!strcmp(name, "cast"))
        return mxw_graph_cast(g, v[0], (mxw_dtype)i[0]);
    if (!strcmp(name, "reduce"))
        return mxw_graph_reduce(g, v[0], (mxw_reduce_kind)i[0], (int)i[1]);
    if (!strcmp(name, "conv1d"))
        return mxw_graph_conv1d_dilated(g, v[0], v[1], v[2], (int)i[0], (int)i[1], (int)i[2]);
    if (!strcmp(name, "conv2d"))
        return mxw_graph_conv2d(g, v[0], v[1], v[2], (int[]){(int)i[0], (int)i[1]}, (int[]){(int)i[2], (int)i[3]});
    if (!strcmp(name, "attention"))
        return mxw_graph_attention(g, v[0], v[1], v[2], (int)i[0], d[0], (int)i[1]);
    if (!strcmp(name, "attention_cached"))
        return mxw_graph_attention_cached(g, v[0], v[1], v[2], v[3], v[4], v[5], (int)i[0], d[0]);
    if (!strcmp(name, "attention_window"))
        return mxw_graph_attention_window(g, v[0], v[1], v[2], v[3], (int)i[0], d[0]);
    if (!strcmp(name, "attention_scores"))
        return mxw_graph_attention_scores(g, v[0], v[1], v[2], v[3], (int)i[0], d[0]);
    if (!strcmp(name, "state_write"))
        return mxw_graph_state_write(g, v[0], v[1], v[2]);
    PyErr_Format(PyExc_ValueError, "no op %s", name);
    return 0;
}

enum { MOST = 64 };

static int read_values(PyObject *list, mxw_value values[MOST]) {
    Py_ssize_t n = PySequence_Size(list);
    if (n > MOST)
        PyErr_Format(PyExc_ValueError, "%zd values; at most %d", n, (int)MOST);
    for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) {
        PyObject *item = PySequence_GetItem(list, i);
        values[i] = item ? (mxw_value)PyLong_AsLong(item) : 0;
        Py_XDECREF(item);
    }
    return PyErr_Occurred() ? -1 : (int)n;
}

static PyObject *graph_op(PyObject *object, PyObject *args) {
    const char *name;
    PyObject *values, *integers;
    mxw_value v[MOST] = {0};
    int64_t i[MXW_MAX_RANK] = {0};
    double number;
    if (!PyArg_ParseTuple(args, "sOOd", &name, &values, &integers, &number) || read_values(values, v) < 0 ||
        read_dims(integers, i) < 0)
        return NULL;
    graph_object *self = begin(object);
    if (!self)
        return NULL;
    mxw_value made = build(self->graph, name, v, i, &number);
    PyObject *done = PyErr_Occurred() ? NULL : value_or_error(self->graph, made);
    leave(&self->in_use);
    return done;
}

/* lists(name, values, integers): ops that take or give several values */
static PyObject *graph_lists(PyObject *object, PyObject *args) {
    const char *name;
    PyObject *values, *integers;
    mxw_value v[MOST] = {0}, out[3] = {0};
    int64_t i[MXW_MAX_RANK] = {0};
    int n, n_integers, axes[MXW_MAX_RANK];
    mxw_graph *g = ((graph_object *)object)->graph;
    if (!PyArg_ParseTuple(args, "sOO", &name, &values, &integers) || (n = read_values(values, v)) < 0 ||
        (n_integers = read_dims(integers, i)) < 0)
        return NULL;
    for (int j = 0; j < n_integers; j++)
        axes[j] = (int)i[j];
    if (!strcmp(name, "concat"))
        return value_or_error(g, mxw_graph_concat(g, v, n, axes[0]));
    if (!strcmp(name, "permute"))
        return value_or_error(g, mxw_graph_permute(g, v[0], axes));
    if (!strcmp(name, "reshape"))
        return value_or_error(g, mxw_graph_reshape(g, v[0], n_integers, i));
    if (!strcmp(name, "top_k")) {
        mxw_status status = mxw_graph_top_k(g, v[0], i[0], out);
        return status < 0 ? fail(status) : Py_BuildValue("(ii)", (int)out[0], (int)out[1]);
    }
    if (!strcmp(name, "lstm")) {
        mxw_status status = mxw_graph_lstm(g, v[0], v[1], v[2], v[3], v[4], v[5], v[6], (mxw_lstm_direction)i[0], out);
        return status < 0 ? fail(status) : Py_BuildValue("(iii)", (int)out[0], (int)out[1], (int)out[2]);
    }
    return PyErr_Format(PyExc_ValueError, "no op %s", name);
}

/* ---- leaves and outputs ------------------------------------------------------------------------------------------ */

/* input(name, dtype, shape) and state(...) */
static PyObject *declare(PyObject *object, PyObject *args,
                         mxw_value (*make)(mxw_graph *, const char *, mxw_dtype, int, const int64_t *)) {
    const char *name;
    PyObject *shape;
    int64_t dims[MXW_MAX_RANK];
    int dtype, rank;
    if (!PyArg_ParseTuple(args, "siO", &name, &dtype, &shape) || (rank = read_dims(shape, dims)) < 0)
        return NULL;
    mxw_graph *g = ((graph_object *)object)->graph;
    return value_or_error(g, make(g, name, (mxw_dtype)dtype, rank, dims));
}

static PyObject *graph_input(PyObject *object, PyObject *args) { return declare(object, args, mxw_graph_input); }
static PyObject *graph_state(PyObject *object, PyObject *args) { return declare(object, args, mxw_graph_state); }

/* A tensor over a C-contiguous buffer. */
static int take_tensor(PyObject *array, int dtype, mxw_tensor *tensor, Py_buffer *view) {
    if (PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0)
        return -1;
    if (view->ndim > MXW_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "an array with %d axes; at most %d", view->ndim, MXW_MAX_RANK);
        PyBuffer_Release(view);
        return -1;
    }
    *tensor = (mxw_tensor){.struct_size = sizeof(*tensor), .dtype = (mxw_dtype)dtype, .rank = view->ndim,
                           .data = view->buf};
    for (int i = 0; i < view->ndim; i++)
        tensor->dims[i] = view->shape[i];
    return 0;
}

/* constant(name, dtype, array) */
static PyObject *graph_constant(PyObject *object, PyObject *args) {
    const char *name;
    PyObject *array;
    int dtype;
    mxw_tensor tensor;
    Py_buffer view;
    mxw_graph *g = ((graph_object *)object)->graph;
    if (!PyArg_ParseTuple(args, "ziO", &name, &dtype, &array) || take_tensor(array, dtype, &tensor, &view) < 0)
        return NULL;
    mxw_value value = mxw_graph_constant(g, name, &tensor);
    PyBuffer_Release(&view);
    return value_or_error(g, value);
}

static PyObject *graph_output(PyObject *object, PyObject *args) {
    const char *name;
    int value;
    if (!PyArg_ParseTuple(args, "si", &name, &value))
        return NULL;
    mxw_status status = mxw_graph_output(((graph_object *)object)->graph, name, value);
    return status < 0 ? fail(status) : Py_NewRef(Py_None);
}

static PyObject *graph_size(PyObject *object, PyObject *args) {
    const char *name;
    long long max;
    if (!PyArg_ParseTuple(args, "sL", &name, &max))
        return NULL;
    int64_t size = mxw_graph_size(((graph_object *)object)->graph, name, max);
    mxw_status status = mxw_graph_status(((graph_object *)object)->graph);
    return status < 0 ? fail(status) : PyLong_FromLongLong(size);
}

static PyObject *graph_print(PyObject *object, PyObject *unused) {
    const char *text;
    (void)unused;
    mxw_status status = mxw_graph_print(((graph_object *)object)->graph, &text);
    return status < 0 ? fail(status) : text_or_none(text);
}

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    const char *name;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "s", &name))
        return NULL;
    graph_object *self = (graph_object *)new_object(type);
    if (!self)
        return NULL;
    atomic_flag_clear(&self->in_use.busy);
    mxw_status status = mxw_graph_create(name, &self->graph);
    if (status < 0) {
        fail(status);
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void graph_dealloc(PyObject *self) {
    mxw_graph_destroy(((graph_object *)self)->graph);
    free_object(self);
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static const field program_fields[] = {
    {"engine", offsetof(mxw_program_options, engine), F_CHOICE, "cpu|gpu|max"},
    {"device", offsetof(mxw_program_options, device), F_TEXT, NULL},
    {"threads", offsetof(mxw_program_options, threads), F_INT, NULL},
    {"precision", offsetof(mxw_program_options, precision), F_CHOICE, "exact|f16|int8|f8"},
};

static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *graph, *dict;
    mxw_program_options options;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!O!", graph_type, &graph, &PyDict_Type, &dict) || !usable(1))
        return NULL;
    mxw_program_options_default(&options);
    if (take_options(dict, program_fields, COUNT(program_fields), &options) < 0)
        return NULL;
    program_object *self = (program_object *)new_object(type);
    if (!self)
        return NULL;
    atomic_flag_clear(&self->in_use.busy);
    mxw_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mxw_program_compile(((graph_object *)graph)->graph, &options, &self->program);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        fail(status);
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void program_dealloc(PyObject *self) {
    if (!in_other_process())
        mxw_program_destroy(((program_object *)self)->program);
    free_object(self);
}

static PyObject *output_list(const mxw_tensor *outputs, int n) {
    static const int bytes[] = {4, 2, 2, 4, 1, 1, 8, 8};   /* by dtype */
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        Py_ssize_t size = bytes[outputs[i].dtype];
        PyObject *shape = PyTuple_New(outputs[i].rank);
        for (int j = 0; shape && j < outputs[i].rank; j++) {
            size *= (Py_ssize_t)outputs[i].dims[j];
            PyTuple_SetItem(shape, j, PyLong_FromLongLong(outputs[i].dims[j]));
        }
        PyObject *item = Py_BuildValue("(iNN)", (int)outputs[i].dtype, shape,
                                       PyByteArray_FromStringAndSize(outputs[i].data, size));
        if (!item || PyList_SetItem(list, i, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* execute([(dtype, array)], n_outputs): [(dtype, shape, bytes)] */
static PyObject *program_execute(PyObject *object, PyObject *args) {
    PyObject *inputs, *done = NULL;
    mxw_tensor in[MOST], out[MOST];
    Py_buffer views[MOST];
    int n_outputs, n = 0;
    if (!PyArg_ParseTuple(args, "O!i", &PyList_Type, &inputs, &n_outputs))
        return NULL;
    Py_ssize_t wanted = PyList_Size(inputs);
    if (wanted > MOST || n_outputs > MOST)
        return PyErr_Format(PyExc_ValueError, "at most %d inputs and outputs", (int)MOST);
    for (int dtype; n < wanted; n++) {
        PyObject *array;
        if (!PyArg_ParseTuple(PyList_GetItem(inputs, n), "iO", &dtype, &array) ||
            take_tensor(array, dtype, &in[n], &views[n]) < 0)
            break;
    }
    program_object *self = (program_object *)object;
    if (n == wanted && enter(&self->in_use, "program") == 0) {
        mxw_status status;
        out[0].struct_size = sizeof(out[0]);
        Py_BEGIN_ALLOW_THREADS
        status = mxw_program_execute(self->program, in, n, out, n_outputs);
        Py_END_ALLOW_THREADS
        done = status < 0 ? fail(status) : output_list(out, n_outputs);
        leave(&self->in_use);
    }
    while (n > 0)
        PyBuffer_Release(&views[--n]);
    return done;
}

static PyMethodDef graph_methods[] = {
    {"unary", graph_unary, METH_VARARGS, "unary(op, x)"},
    {"binary", graph_binary, METH_VARARGS, "binary(op, a, b)"},
    {"op", graph_op, METH_VARARGS, "op(name, values, integers, number)"},
    {"lists", graph_lists, METH_VARARGS, "lists(name, values, integers)"},
    {"input", graph_input, METH_VARARGS, "input(name, dtype, shape)"},
    {"state", graph_state, METH_VARARGS, "state(name, dtype, shape)"},
    {"constant", graph_constant, METH_VARARGS, "constant(name, dtype, array)"},
    {"output", graph_output, METH_VARARGS, "output(name, value)"},
    {"size", graph_size, METH_VARARGS, "size(name, max)"},
    {"text", graph_print, METH_NOARGS, "the graph as text"},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef program_methods[] = {
    {"execute", program_execute, METH_VARARGS, "execute([(dtype, array)], n_outputs): [(dtype, shape, bytes)]"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot graph_slots[] = {{Py_tp_new, (void *)graph_new}, {Py_tp_dealloc, (void *)graph_dealloc},
                                    {Py_tp_methods, graph_methods}, {0, NULL}};
static PyType_Slot program_slots[] = {{Py_tp_new, (void *)program_new}, {Py_tp_dealloc, (void *)program_dealloc},
                                      {Py_tp_methods, program_methods}, {0, NULL}};
static PyType_Spec graph_spec = {"max_whisper._native.Graph", sizeof(graph_object), 0, Py_TPFLAGS_DEFAULT, graph_slots};
static PyType_Spec program_spec = {"max_whisper._native.Program", sizeof(program_object), 0, Py_TPFLAGS_DEFAULT,
                                   program_slots};

int add_graph(PyObject *module) {
    return add_type(module, &graph_spec, &graph_type) < 0 ? -1 : add_type(module, &program_spec, NULL);
}
