/* gen_silero.c - writers of Silero VAD's containers; see the header. They share the table of names with the reader:
 * that it is right is shown by the real files (tests/golden/test_vad.c). */
#include "kit/gen_silero.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/mem.h"
#include "kit/gen_internal.h"

typedef struct row {
    const char *name, *jit, *safetensors;
    int rank;
    int64_t dims[3];
} row;

static row get_row(int rate, size_t i, size_t *n) {
    const int64_t window = rate == 16000 ? 256 : 128, bins = window / 2 + 1;
    const row rows[] = {
#define MX_SILERO(name, jit, safetensors, rank, ...) {name, jit, safetensors, rank, {__VA_ARGS__}},
#include "weights/names/silero.def"
#undef MX_SILERO
    };
    *n = MX_COUNT(rows);
    return rows[i];
}

/* The table's row; its shape is cut if asked for. 0: past the end. */
static int next_row(const gen_silero *o, int rate, size_t i, row *r, mx_tensor *shape, int *left_out) {
    size_t n;
    get_row(rate, 0, &n);
    if (i >= n)
        return 0;
    *r = get_row(rate, i, &n);
    if (o->cut && strcmp(o->cut, r->name) == 0)
        r->dims[0]--;
    *shape = mx_tensor_of(MXW_F32, r->rank, r->dims, NULL);
    *left_out = o->without && strcmp(o->without, r->name) == 0;
    return 1;
}

static void fill_dft(const mx_tensor *shape, float *out) {
    const double pi = 3.14159265358979323846;
    int64_t n = shape->dims[2], bins = n / 2 + 1;
    for (int64_t k = 0; k < shape->dims[0]; k++)
        for (int64_t i = 0; i < n; i++) {
            double window = 0.5 - 0.5 * cos(2 * pi * (double)i / (double)n);
            double angle = 2 * pi * (double)((k % bins) * i) / (double)n;
            out[k * n + i] = (float)(window * (k < bins ? cos(angle) : -sin(angle)));
        }
}

static void values_of(const gen_silero *o, int rate, const row *r, const mx_tensor *shape, float *out) {
    gen_options g = {.seed = o->seed + (uint64_t)rate};
    gen_values(&g, r->name, shape, out);
    for (int64_t i = 0; i < mx_tensor_count(shape) && strcmp(r->name, "output.weight") == 0; i++)
        out[i] *= 8;   /* so that probabilities differ */
    if (o->dft && strcmp(r->name, "stft.weight") == 0)
        fill_dft(shape, out);
}

int64_t gen_silero_values(const gen_silero *o, int rate, const char *canonical, float *out) {
    row r;
    mx_tensor shape;
    int left_out;
    for (size_t i = 0; next_row(o, rate, i, &r, &shape, &left_out); i++)
        if (strcmp(r.name, canonical) == 0) {
            if (out)
                values_of(o, rate, &r, &shape, out);
            return mx_tensor_count(&shape);
        }
    return 0;
}

/* ---- the pickle ---------------------------------------------------------------------------------------------- */

static void add_text(mx_str *p, const char *text, size_t n) {
    mx_str_text(p, "X");
    gen_number(p, n, 4);
    mx_str_add(p, text, n);
}

static void add_int(mx_str *p, int64_t x) {
    mx_str_text(p, "J");
    gen_number(p, (uint64_t)x, 4);
}

static void open_object(mx_str *p) {
    static const char object[] = "c__torch__.some.module\nClass\n)\x81}(";
    mx_str_add(p, object, sizeof(object) - 1);
}

static void add_tensor(mx_str *p, int key, const mx_tensor *shape) {
    char text[16];
    mx_str_text(p, "ctorch._utils\n_rebuild_tensor_v2\n((");
    add_text(p, "storage", 7);
    mx_str_text(p, "ctorch\nFloatStorage\n");
    snprintf(text, sizeof(text), "%d", key);
    add_text(p, text, strlen(text));
    add_text(p, "cpu", 3);
    add_int(p, mx_tensor_count(shape));
    mx_str_text(p, "tQ");
    add_int(p, 0);
    for (int which = 0; which < 2; which++) {
        mx_str_text(p, "(");
        for (int i = 0; i < shape->rank; i++)
            add_int(p, which ? shape->strides[i] : shape->dims[i]);
        mx_str_text(p, "t");
    }
    static const char rest[] = "\x89" "ccollections\nOrderedDict\n)RtR";
    mx_str_add(p, rest, sizeof(rest) - 1);
}

/* Closes objects of the path `at` that `name` is not in, opens those that it needs, and writes the last key. */
static void go_to(mx_str *p, char at[96], const char *name) {
    size_t same = 0;   /* length of the common path, dot included */
    for (size_t i = 0; at[i] && at[i] == name[i]; i++)
        if (at[i] == '.')
            same = i + 1;
    for (const char *c = at + same; *c; c++)
        if (*c == '.')
            mx_str_text(p, "ub");
    const char *key = name + same;
    for (const char *dot; (dot = strchr(key, '.')); key = dot + 1) {
        add_text(p, key, (size_t)(dot - key));
        open_object(p);
    }
    if (*key)
        add_text(p, key, strlen(key));
    snprintf(at, 96, "%s", name);
}

void gen_silero_pickle(mx_str *p, const gen_silero *o) {
    static const char head[] = "\x80\2";
    char at[96] = "";
    mx_str_add(p, head, sizeof(head) - 1);
    open_object(p);
    add_text(p, "training", 8);
    mx_str_add(p, "\x89", 1);
    add_text(p, "sample_rates", 12);
    mx_str_text(p, "ctorch.jit._pickle\nbuild_intlist\n(](");
    add_int(p, 8000), add_int(p, 16000);
    mx_str_text(p, "etR");
    add_text(p, "_state", 6);   /* of no elements */
    mx_tensor none = mx_tensor_of(MXW_F32, 1, (int64_t[]){0}, NULL);
    add_tensor(p, 0, &none);
    int key = 1;
    for (int rate = 16000; rate >= (o->only_16k ? 16000 : 8000); rate -= 8000) {
        row r;
        mx_tensor shape;
        int left_out;
        for (size_t i = 0; next_row(o, rate, i, &r, &shape, &left_out); i++, key++) {
            char name[96];
            if (left_out)
                continue;
            snprintf(name, sizeof(name), "%s%s", rate == 16000 ? "_model." : "_model_8k.", r.jit);
            go_to(p, at, name);
            add_tensor(p, key, &shape);
        }
    }
    go_to(p, at, "");
    if (o->itself) {   /* the module's own class, memoised, and a cycle through it */
        static const char cycle[] = "c__torch__.some.module\nClass\n)\x81q\1}(X\1\0\0\0xh\1ub";
        add_text(p, "cycle", 5);
        mx_str_add(p, cycle, sizeof(cycle) - 1);
    }
    mx_str_text(p, "ub.");
}

/* ---- the zip ------------------------------------------------------------------------------------------------- */

static void add_entry(mx_str *file, mx_str *directory, const char *name, const void *data, size_t n, int *count) {
    size_t at = file->n;
    for (int local = 1; local >= 0; local--) {
        mx_str *s = local ? file : directory;
        gen_number(s, local ? 0x04034b50 : 0x02014b50, 4);
        gen_number(s, 0, local ? 6 : 8);
        gen_number(s, 0, 4);
        gen_number(s, crc32_z(0, data, n), 4);
        gen_number(s, n, 4), gen_number(s, n, 4);
        gen_number(s, strlen(name), 2), gen_number(s, 0, 2);
        if (!local)
            gen_number(s, 0, 8), gen_number(s, 0, 2), gen_number(s, at, 4);
        mx_str_text(s, name);
    }
    mx_str_add(file, data, n);
    ++*count;
}

static void add_storages(mx_str *file, mx_str *directory, const gen_silero *o, int *count) {
    int key = 1;
    add_entry(file, directory, "vad/data/0", "", 0, count);
    for (int rate = 16000; rate >= 8000; rate -= 8000) {
        row r;
        mx_tensor shape;
        int left_out;
        for (size_t i = 0; next_row(o, rate, i, &r, &shape, &left_out); i++, key++) {
            char name[32];
            float *values = mx_alloc(mx_tensor_bytes(&shape));
            if (!values)
                return;
            values_of(o, rate, &r, &shape, values);
            snprintf(name, sizeof(name), "vad/data/%d", key);
            add_entry(file, directory, name, values, mx_tensor_bytes(&shape), count);
            mx_free(values);
        }
    }
}

/* The storages that a fuzzer's pickles meet, made once. */
static void add_cached(mx_str *file, mx_str *directory, const gen_silero *o, int *count) {
    static mx_str made, lines;
    static int made_count;
    if (made.n == 0)
        add_storages(&made, &lines, o, &made_count);
    mx_str_add(file, made.data, made.n);
    mx_str_add(directory, lines.data, lines.n);
    *count = made_count;
}

void gen_silero_jit(mx_str *file, const gen_silero *o, const mx_str *pickle) {
    mx_str directory = {0}, own = {0};
    int count = 0;
    if (!pickle)
        gen_silero_pickle(&own, o);
    (pickle ? add_cached : add_storages)(file, &directory, o, &count);
    add_entry(file, &directory, "vad/data.pkl", mx_str_get(pickle ? pickle : &own), pickle ? pickle->n : own.n, &count);
    add_entry(file, &directory, "vad/byteorder", "little", 6, &count);
    size_t at = file->n;
    mx_str_add(file, directory.data, directory.n);
    gen_number(file, 0x06054b50, 4), gen_number(file, 0, 4);
    gen_number(file, (uint64_t)count, 2), gen_number(file, (uint64_t)count, 2);
    gen_number(file, directory.n, 4), gen_number(file, at, 4), gen_number(file, 0, 2);
    mx_str_free(&directory);
    mx_str_free(&own);
}

/* ---- safetensors ----------------------------------------------------------------------------------------------- */

void gen_silero_safetensors(mx_str *out, const gen_silero *o) {
    mx_str header = {0}, data = {0};
    row r;
    mx_tensor shape;
    int left_out;
    mx_str_text(&header, "{\"__metadata__\": {\"format\": \"pt\"}");
    for (size_t i = 0; next_row(o, 16000, i, &r, &shape, &left_out); i++) {
        float *values = left_out ? NULL : mx_alloc(mx_tensor_bytes(&shape));
        if (!values)
            continue;
        values_of(o, 16000, &r, &shape, values);
        mx_str_print(&header, ", \"%s\": {\"dtype\": \"F32\", \"shape\": [", r.safetensors);
        for (int k = 0; k < shape.rank; k++)
            mx_str_print(&header, "%s%lld", k ? ", " : "", (long long)shape.dims[k]);
        mx_str_print(&header, "], \"data_offsets\": [%zu, %zu]}", data.n, data.n + mx_tensor_bytes(&shape));
        mx_str_add(&data, values, mx_tensor_bytes(&shape));
        mx_free(values);
    }
    mx_str_text(&header, "}");
    gen_number(out, header.n, 8);
    mx_str_add(out, header.data, header.n);
    mx_str_add(out, data.data, data.n);
    mx_str_free(&header);
    mx_str_free(&data);
}
