/* weights/format/pickle.c - a stack machine that builds values and calls nothing.
 * Bounded: bytes, values and memo slots have limits, and structures are built on the stack, never by recursion. */
#include "weights/format/pickle.h"

#include "weights/format/cursor.h"

/* A state dict of the largest model is under 200 kB and 40,000 values. */
#define MAX_BYTES (16u << 20)
#define MAX_VALUES (1u << 20)
#define MAX_MEMO (1u << 20)

typedef enum callable { CALL_DICT, CALL_TENSOR, CALL_PARAMETER, CALL_LIST, CALL_STORAGE, CALL_CLASS } callable;

/* The callables of a state dict or module: each has a fixed meaning here, none is ever executed. */
struct mx_pickle_global {
    const char *module, *name;
    callable call;
    mxw_dtype dtype;
};
static const struct mx_pickle_global globals[] = {
    {"collections", "OrderedDict", CALL_DICT, 0},
    {"torch._utils", "_rebuild_tensor_v2", CALL_TENSOR, 0},
    {"torch._utils", "_rebuild_parameter", CALL_PARAMETER, 0},
    {"torch.jit._pickle", "build_intlist", CALL_LIST, 0},
    {"torch.jit._pickle", "build_doublelist", CALL_LIST, 0},
    {"torch.jit._pickle", "build_boollist", CALL_LIST, 0},
    {"torch.jit._pickle", "build_tensorlist", CALL_LIST, 0},
    {"torch", "FloatStorage", CALL_STORAGE, MXW_F32},
    {"torch", "HalfStorage", CALL_STORAGE, MXW_F16},
    {"torch", "BFloat16Storage", CALL_STORAGE, MXW_BF16},
    {"torch", "DoubleStorage", CALL_STORAGE, MXW_F64},
    {"torch", "LongStorage", CALL_STORAGE, MXW_I64},
    {"torch", "IntStorage", CALL_STORAGE, MXW_I32},
    {"torch", "CharStorage", CALL_STORAGE, MXW_I8},
    {"torch", "ByteStorage", CALL_STORAGE, MXW_U8},
    {"torch", "BoolStorage", CALL_STORAGE, MXW_U8},
};
/* Any class of TorchScript: their modules all begin like this, and no Python module does. */
#define SCRIPT_MODULE "__torch__"
static const struct mx_pickle_global script_class = {SCRIPT_MODULE, "class", CALL_CLASS, 0};

typedef struct machine {
    mx_cursor in;
    mx_arena *arena;
    mx_pickle *spare;           /* values are allocated from blocks */
    size_t n_spare, n_values;
    mx_pickle **stack;
    size_t n_stack, stack_capacity;
    size_t *marks;              /* stack heights */
    size_t n_marks, marks_capacity;
    mx_pickle **memo;
    size_t memo_capacity;
} machine;

static mxw_status bad(const char *what) { return mx_fail(MXW_E_FORMAT, "pickle: %s", what); }

static mx_pickle *fresh(machine *m, mx_pickle_kind kind) {
    enum { BLOCK = 128 };
    if (m->n_values >= MAX_VALUES) {
        mx_fail(MXW_E_FORMAT, "pickle: more than %u values", MAX_VALUES);
        return NULL;
    }
    if (m->n_spare == 0) {
        m->spare = mx_arena_alloc(m->arena, BLOCK * sizeof(*m->spare));
        if (!m->spare)
            return NULL;
        m->n_spare = BLOCK;
    }
    mx_pickle *v = m->spare++;
    m->n_spare--;
    m->n_values++;
    v->kind = kind;
    return v;
}

/* Why fresh() failed; its error line is already set. */
static mxw_status no_value(const machine *m) { return m->n_values >= MAX_VALUES ? MXW_E_FORMAT : MXW_E_MEMORY; }

static mxw_status push(machine *m, mx_pickle *v) {
    if (!v)
        return no_value(m);
    mxw_status status = mx_grow(&m->stack, &m->stack_capacity, m->n_stack + 1, sizeof(*m->stack));
    if (status == MXW_OK)
        m->stack[m->n_stack++] = v;
    return status;
}

/* The number of values above the last mark; values below a mark are out of reach. */
static size_t above_mark(const machine *m) { return m->n_stack - (m->n_marks ? m->marks[m->n_marks - 1] : 0); }

static mx_pickle *pop(machine *m) { return above_mark(m) ? m->stack[--m->n_stack] : NULL; }

static mx_pickle *top(machine *m) { return above_mark(m) ? m->stack[m->n_stack - 1] : NULL; }

static mxw_status op_protocol(machine *m, int unused) {
    (void)unused;
    int ok = 1;
    uint64_t version = mx_cursor_number(&m->in, 1, &ok);
    if (!ok)
        return bad("truncated");
    if (version != 2)
        return mx_fail(MXW_E_UNSUPPORTED, "pickle: protocol %d; state dicts are saved with 2", (int)version);
    return MXW_OK;
}

static mxw_status op_none(machine *m, int unused) {
    (void)unused;
    return push(m, fresh(m, MX_PICKLE_NONE));
}

static mxw_status push_number(machine *m, mx_pickle_kind kind, int64_t number) {
    mx_pickle *v = fresh(m, kind);
    if (v)
        v->number = number;
    return push(m, v);
}

static mxw_status op_bool(machine *m, int value) { return push_number(m, MX_PICKLE_BOOL, value); }

static mxw_status op_int(machine *m, int bytes) {
    int ok = 1;
    uint64_t x = mx_cursor_number(&m->in, bytes < 0 ? -bytes : bytes, &ok);
    if (!ok)
        return bad("truncated");
    return push_number(m, MX_PICKLE_INT, bytes < 0 ? (int32_t)(uint32_t)x : (int64_t)x);
}

/* A signed number of up to 8 bytes, its length in front. */
static mxw_status op_long(machine *m, int unused) {
    (void)unused;
    int ok = 1;
    size_t bytes = (size_t)mx_cursor_number(&m->in, 1, &ok);
    const uint8_t *p = ok ? mx_cursor_take(&m->in, bytes) : NULL;
    if (!p)
        return bad("truncated");
    if (bytes > 8)
        return mx_fail(MXW_E_UNSUPPORTED, "pickle: a number of %zu bytes is not part of a state dict", bytes);
    uint64_t x = mx_little(p, (int)bytes);
    if (bytes && bytes < 8 && p[bytes - 1] & 0x80)
        x |= ~(uint64_t)0 << (8 * bytes);
    int64_t number;
    memcpy(&number, &x, sizeof(number));
    return push_number(m, MX_PICKLE_INT, number);
}

static mxw_status op_float(machine *m, int unused) {
    (void)unused;
    const uint8_t *p = mx_cursor_take(&m->in, 8);
    if (!p)
        return bad("truncated");
    uint64_t x = 0;
    for (int i = 0; i < 8; i++)
        x = x << 8 | p[i];   /* this one field is big-endian */
    mx_pickle *v = fresh(m, MX_PICKLE_FLOAT);
    if (v)
        memcpy(&v->real, &x, sizeof(x));
    return push(m, v);
}

static mxw_status op_text(machine *m, int unused) {
    (void)unused;
    int ok = 1;
    size_t n = (size_t)mx_cursor_number(&m->in, 4, &ok);
    const uint8_t *p = ok ? mx_cursor_take(&m->in, n) : NULL;
    if (!p)
        return bad("truncated");
    mx_pickle *v = fresh(m, MX_PICKLE_TEXT);
    if (v) {
        v->text.data = (const char *)p;
        v->text.n = n;
    }
    return push(m, v);
}

static mxw_status op_mark(machine *m, int unused) {
    (void)unused;
    mxw_status status = mx_grow(&m->marks, &m->marks_capacity, m->n_marks + 1, sizeof(*m->marks));
    if (status == MXW_OK)
        m->marks[m->n_marks++] = m->n_stack;
    return status;
}

static mxw_status op_empty(machine *m, int kind) { return push(m, fresh(m, (mx_pickle_kind)kind)); }

/* Room for extra items; old blocks stay in the arena, which at most doubles the memory. */
static mxw_status reserve(machine *m, mx_pickle *list, size_t extra) {
    size_t need = list->list.n + extra;
    if (need <= list->list.capacity)
        return MXW_OK;
    size_t capacity = MX_MAX(need, list->list.capacity * 2);
    mx_pickle **items = mx_arena_alloc(m->arena, capacity * sizeof(*items));
    if (!items)
        return MXW_E_MEMORY;
    if (list->list.n)
        memcpy(items, list->list.items, list->list.n * sizeof(*items));
    list->list.items = items;
    list->list.capacity = capacity;
    return MXW_OK;
}

/* Pops n values and appends them to a list. */
static mxw_status move_items(machine *m, mx_pickle *list, size_t n) {
    mxw_status status = reserve(m, list, n);
    if (status < 0)
        return status;
    m->n_stack -= n;
    for (size_t i = 0; i < n; i++)
        list->list.items[list->list.n++] = m->stack[m->n_stack + i];
    return MXW_OK;
}

/* count 0: everything above the last mark, which is popped, too. */
static mxw_status take_count(machine *m, size_t count, size_t *n) {
    if (count == 0) {
        if (m->n_marks == 0)
            return bad("no mark on the stack");
        *n = above_mark(m);
        m->n_marks--;
    } else {
        if (above_mark(m) < count)
            return bad("the stack is too short");
        *n = count;
    }
    return MXW_OK;
}

static mxw_status op_tuple(machine *m, int count) {
    size_t n = 0;
    mxw_status status = take_count(m, (size_t)count, &n);
    if (status < 0)
        return status;
    mx_pickle *v = fresh(m, MX_PICKLE_TUPLE);
    if (!v)
        return no_value(m);
    status = move_items(m, v, n);
    return status < 0 ? status : push(m, v);
}

/* Adds the top n values to the container below them. */
static mxw_status add_items(machine *m, int count, mx_pickle_kind kind, const char *op) {
    size_t n = 0;
    mxw_status status = take_count(m, (size_t)count, &n);
    if (status < 0)
        return status;
    if (above_mark(m) < n + 1)
        return bad("the stack is too short");
    mx_pickle *container = m->stack[m->n_stack - n - 1];
    if (container->kind != kind)
        return mx_fail(MXW_E_FORMAT, "pickle: %s on something else", op);
    return move_items(m, container, n);
}

static mxw_status op_append(machine *m, int count) { return add_items(m, count, MX_PICKLE_LIST, "append"); }

static mxw_status op_set_items(machine *m, int count) {
    size_t n = count ? 2 : above_mark(m);
    if (n % 2)
        return bad("a key without a value");
    return add_items(m, count, MX_PICKLE_DICT, "set items");
}

static mxw_status op_put(machine *m, int bytes) {
    int ok = 1;
    size_t slot = (size_t)mx_cursor_number(&m->in, bytes, &ok);
    mx_pickle *v = top(m);
    if (!ok || !v)
        return bad(ok ? "the stack is too short" : "truncated");
    if (slot >= MAX_MEMO)
        return mx_fail(MXW_E_FORMAT, "pickle: memo slot %zu is past the limit of %u", slot, MAX_MEMO);
    size_t before = m->memo_capacity;
    mxw_status status = mx_grow(&m->memo, &m->memo_capacity, slot + 1, sizeof(*m->memo));
    if (status < 0)
        return status;
    if (m->memo_capacity > before)
        memset(m->memo + before, 0, (m->memo_capacity - before) * sizeof(*m->memo));
    m->memo[slot] = v;
    return MXW_OK;
}

static mxw_status op_get(machine *m, int bytes) {
    int ok = 1;
    size_t slot = (size_t)mx_cursor_number(&m->in, bytes, &ok);
    if (!ok)
        return bad("truncated");
    if (slot >= m->memo_capacity || !m->memo[slot])
        return mx_fail(MXW_E_FORMAT, "pickle: memo slot %zu is empty", slot);
    return push(m, m->memo[slot]);
}

static const uint8_t *take_line(mx_cursor *c, size_t *n) {
    const uint8_t *start = c->data + c->at;
    const uint8_t *end = memchr(start, '\n', mx_cursor_left(c));
    if (!end)
        return NULL;
    *n = (size_t)(end - start);
    c->at += *n + 1;
    return start;
}

static int same(const void *a, size_t n, const char *b) { return strlen(b) == n && memcmp(a, b, n) == 0; }

static int is_script_module(const uint8_t *module, size_t n) {
    const size_t m = sizeof(SCRIPT_MODULE) - 1;
    return n >= m && memcmp(module, SCRIPT_MODULE, m) == 0 && (n == m || module[m] == '.');
}

static mxw_status op_global(machine *m, int unused) {
    (void)unused;
    size_t module_n = 0, name_n = 0;
    const uint8_t *module = take_line(&m->in, &module_n);
    const uint8_t *name = module ? take_line(&m->in, &name_n) : NULL;
    if (!name)
        return bad("truncated");
    const struct mx_pickle_global *found = is_script_module(module, module_n) ? &script_class : NULL;
    for (size_t i = 0; i < MX_COUNT(globals) && !found; i++)
        if (same(module, module_n, globals[i].module) && same(name, name_n, globals[i].name))
            found = &globals[i];
    if (found) {
        mx_pickle *v = fresh(m, MX_PICKLE_GLOBAL);
        if (v)
            v->global = found;
        return push(m, v);
    }
    return mx_fail(MXW_E_UNSUPPORTED, "pickle: global %s.%s is not part of a state dict; refused",
                   mx_show(module, module_n).text, mx_show(name, name_n).text);
}

/* ("storage", torch.XStorage, key, location, elements) */
static mxw_status op_persistent_id(machine *m, int unused) {
    (void)unused;
    const mx_pickle *id = pop(m);
    if (!id || id->kind != MX_PICKLE_TUPLE || id->list.n < 5)
        return bad("a persistent id that is not a storage");
    mx_pickle **part = id->list.items;
    if (part[0]->kind != MX_PICKLE_TEXT || !same(part[0]->text.data, part[0]->text.n, "storage") ||
        part[1]->kind != MX_PICKLE_GLOBAL || part[1]->global->call != CALL_STORAGE ||
        part[2]->kind != MX_PICKLE_TEXT || part[4]->kind != MX_PICKLE_INT || part[4]->number < 0)
        return bad("a persistent id that is not a storage");
    mx_pickle *v = fresh(m, MX_PICKLE_STORAGE);
    if (v) {
        v->storage.dtype = part[1]->global->dtype;
        v->storage.key = part[2];
        v->storage.n = part[4]->number;
    }
    return push(m, v);
}

/* A tuple of numbers >= 0 into out; its length, or -1. */
static int numbers(const mx_pickle *tuple, int64_t out[MX_MAX_RANK]) {
    if ((tuple->kind != MX_PICKLE_TUPLE && tuple->kind != MX_PICKLE_LIST) || tuple->list.n > MX_MAX_RANK)
        return -1;
    for (size_t i = 0; i < tuple->list.n; i++) {
        const mx_pickle *item = tuple->list.items[i];
        if (item->kind != MX_PICKLE_INT || item->number < 0)
            return -1;
        out[i] = item->number;
    }
    return (int)tuple->list.n;
}

/* (storage, offset, size, stride, requires_grad, hooks, ...) */
static mxw_status rebuild_tensor(machine *m, const mx_pickle *args) {
    mx_pickle **part = args->list.items;
    if (args->list.n < 4 || part[0]->kind != MX_PICKLE_STORAGE || part[1]->kind != MX_PICKLE_INT ||
        part[1]->number < 0)
        return bad("a tensor with the wrong arguments");
    mx_pickle_tensor *t = mx_arena_alloc(m->arena, sizeof(*t));
    if (!t)
        return MXW_E_MEMORY;
    t->storage = part[0];
    t->offset = part[1]->number;
    t->rank = numbers(part[2], t->dims);
    if (t->rank < 0 || numbers(part[3], t->strides) != t->rank)
        return bad("a tensor whose sizes or strides are not a few numbers");
    mx_pickle *v = fresh(m, MX_PICKLE_TENSOR);
    if (v)
        v->tensor = t;
    return push(m, v);
}

static mxw_status op_reduce(machine *m, int unused) {
    (void)unused;
    const mx_pickle *args = pop(m), *callee = args ? pop(m) : NULL;
    if (!callee)
        return bad("the stack is too short");
    if (callee->kind != MX_PICKLE_GLOBAL || args->kind != MX_PICKLE_TUPLE)
        return bad("a call of something that cannot be called");
    switch (callee->global->call) {
    case CALL_DICT:
        if (args->list.n == 0)
            return push(m, fresh(m, MX_PICKLE_DICT));
        break;
    case CALL_TENSOR: return rebuild_tensor(m, args);
    case CALL_PARAMETER:   /* (tensor, requires_grad, hooks) */
        if (args->list.n >= 1 && args->list.items[0]->kind == MX_PICKLE_TENSOR)
            return push(m, args->list.items[0]);
        break;
    case CALL_LIST:        /* ([...]) */
        if (args->list.n == 1 && args->list.items[0]->kind == MX_PICKLE_LIST)
            return push(m, args->list.items[0]);
        break;
    case CALL_STORAGE:
    case CALL_CLASS: break;
    }
    return mx_fail(MXW_E_FORMAT, "pickle: %s.%s called with the wrong arguments", callee->global->module,
                   callee->global->name);
}

/* An object of a TorchScript class, without attributes yet. */
static mxw_status op_new_object(machine *m, int unused) {
    (void)unused;
    const mx_pickle *args = pop(m), *callee = args ? pop(m) : NULL;
    if (!callee || callee->kind != MX_PICKLE_GLOBAL || callee->global->call != CALL_CLASS ||
        args->kind != MX_PICKLE_TUPLE || args->list.n != 0)
        return mx_fail(MXW_E_UNSUPPORTED, "pickle: opcode NEWOBJ on something that is no TorchScript class; refused");
    mx_pickle *v = fresh(m, MX_PICKLE_DICT);
    if (v)
        v->object = 1;
    return push(m, v);
}

/* State of an object: its attributes. Of an OrderedDict: PyTorch's _metadata, which is ignored. */
static mxw_status op_build(machine *m, int unused) {
    (void)unused;
    const mx_pickle *state = pop(m);
    mx_pickle *object = state ? top(m) : NULL;
    if (!object || object->kind != MX_PICKLE_DICT || state->kind != MX_PICKLE_DICT)
        return bad("BUILD on something that is neither an OrderedDict nor an object");
    if (!object->object)
        return MXW_OK;
    if (object->list.n)
        return bad("BUILD on an object that has its attributes already");
    object->list = state->list;
    return MXW_OK;
}

static const struct {
    const char *name;
    mxw_status (*run)(machine *m, int argument);
    int argument;
} ops[256] = {
#define MX_OP(byte, name, run, argument) [byte] = {#name, run, argument},
#include "weights/format/pickle_ops.def"
#undef MX_OP
};
#define STOP 0x2e

static mxw_status run(machine *m, const mx_pickle **out) {
    for (;;) {
        const uint8_t *op = mx_cursor_take(&m->in, 1);
        if (!op)
            return bad("truncated");
        if (*op == STOP)
            break;
        if (!ops[*op].name)
            return mx_fail(MXW_E_FORMAT, "pickle: byte 0x%02x is no opcode", *op);
        if (!ops[*op].run)
            return mx_fail(MXW_E_UNSUPPORTED, "pickle: opcode %s is not part of a state dict; refused", ops[*op].name);
        mxw_status status = ops[*op].run(m, ops[*op].argument);
        if (status < 0)
            return status;
    }
    *out = pop(m);
    if (!*out || m->n_stack || m->n_marks)
        return bad("it does not end with one value");
    return MXW_OK;
}

mxw_status mx_pickle_load(const uint8_t *bytes, size_t n, mx_arena *arena, const mx_pickle **out) {
    *out = NULL;
    if (n > MAX_BYTES)
        return mx_fail(MXW_E_FORMAT, "pickle: %zu bytes; a state dict has at most %u", n, MAX_BYTES);
    machine m = {.in = {bytes, n, 0}, .arena = arena};
    mxw_status status = run(&m, out);
    mx_free(m.stack);
    mx_free(m.marks);
    mx_free(m.memo);
    return status;
}

const mx_pickle *mx_pickle_get(const mx_pickle *dict, const char *key) {
    if (!dict || dict->kind != MX_PICKLE_DICT)
        return NULL;
    for (size_t i = dict->list.n; i >= 2; i -= 2) {
        const mx_pickle *k = dict->list.items[i - 2];
        if (k->kind == MX_PICKLE_TEXT && same(k->text.data, k->text.n, key))
            return dict->list.items[i - 1];
    }
    return NULL;
}
