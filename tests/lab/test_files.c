/* tests/lab/test_files.c - dumps round-trip bit for bit; foreign files in every layout of numpy are read; damaged
 * ones are rejected with one error line.
 *
 * test_lab_files: all of it. test_lab_files write PATH: a dump for numpy to read. test_lab_files read PATH: prints what
 * numpy wrote, "name: dims | values". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/check.h"
#include "kit/gen_checkpoint.h"
#include "base/file.h"
#include "base/mem.h"
#include "lab/lab.h"

static float values[2 * 3 * 5];
static int32_t ids[4] = {7, -1, 2000000000, 0};

static mx_features *make(void) {
    mx_features *f = mx_alloc_zero(1, sizeof(*f));
    int64_t dims[] = {2, 3, 5}, four = 4, none[] = {0, 5};
    for (size_t i = 0; i < MX_COUNT(values); i++)
        values[i] = (float)i * 0.37f - 3;
    values[7] = -INFINITY;
    values[8] = 0x1p-140f;
    mx_tensor t = mx_tensor_of(MXW_F32, 3, dims, values), n = mx_tensor_of(MXW_I32, 1, &four, ids);
    mx_tensor empty = mx_tensor_of(MXW_F32, 2, none, values);
    CHECK_EQ_INT(mx_features_add(f, "encoder.blocks.0.attn.q", &t), MXW_OK);
    CHECK_EQ_INT(mx_features_add(f, "a", &n), MXW_OK);
    CHECK_EQ_INT(mx_features_add(f, "empty", &empty), MXW_OK);
    CHECK_EQ_INT(mx_features_add(f, "a", &t), MXW_OK);   /* the first stays */
    CHECK_EQ_INT(mx_features_set_note(f, "text", " Grüße, \"welt\""), MXW_OK);
    return f;
}

static void test_round_trip(const char *folder) {
    char path[4200];
    mx_features *f = make(), *g = NULL;
    snprintf(path, sizeof(path), "%s/a.npz", folder);
    CHECK_EQ_INT(mx_features_save(f, path), MXW_OK);
    if (CHECK_EQ_INT(mx_features_open(path, &g), MXW_OK) && CHECK_EQ_INT(g->n, 3)) {
        CHECK_STR(g->stages[0].name, "encoder.blocks.0.attn.q");   /* in the order of writing, not of names */
        CHECK_STR(g->stages[1].name, "a");
        CHECK(g->stages[0].tensor.rank == 3 && g->stages[0].tensor.dims[2] == 5);
        CHECK(memcmp(g->stages[0].tensor.data, values, sizeof(values)) == 0);
        CHECK(memcmp(g->stages[1].tensor.data, ids, sizeof(ids)) == 0);
        CHECK_EQ_INT(mx_tensor_count(&g->stages[2].tensor), 0);
        CHECK_STR(mx_features_get_note(g, "text"), " Grüße, \"welt\"");
        CHECK_EQ_INT(g->stages[0].info.n_not_finite, 1);
        CHECK(fabs(g->stages[1].info.mean - (7 - 1 + 2e9) / 4) < 1);
        CHECK_EQ_INT(mxw_features_find(g, "a"), 1);
        CHECK(mxw_features_find(g, "b") < 0);
    }
    CHECK(mx_features_open("no-such-folder/x.npz", &g) < 0);
    CHECK(mx_features_save(f, "no-such-folder/x.npz") < 0);
    mx_features_close(f);
    mx_features_close(g);
}

/* Every cut, and every byte of the first member's header and of the directory changed: a status, never a crash. */
static void test_damage(const char *folder) {
    char path[4200];
    mx_map map;
    mx_features *f = make(), *g;
    snprintf(path, sizeof(path), "%s/b.npz", folder);
    CHECK_EQ_INT(mx_features_save(f, path), MXW_OK);
    mx_features_close(f);
    if (!CHECK_EQ_INT(mx_map_open(path, &map), MXW_OK))
        return;
    uint8_t *copy = malloc(map.n);
    int64_t live = mx_mem_live();
    for (size_t n = 0; copy && n < map.n; n += n < 400 || n + 300 > map.n ? 1 : 17) {
        g = NULL;
        memcpy(copy, map.data, map.n);
        CHECK(mx_features_read(copy, n, &g) < 0 && g == NULL);
    }
    for (size_t at = 0; copy && at < map.n; at++)
        for (int bit = 0; bit < 8; bit += 3) {
            g = NULL;
            memcpy(copy, map.data, map.n);
            copy[at] ^= (uint8_t)(1 << bit);
            mx_features_read(copy, map.n, &g);
            mx_features_close(g);
        }
    CHECK_EQ_INT(mx_mem_live(), live);
    free(copy);
    mx_map_close(&map);
}

static void test_compare(void) {
    mx_features *a = make(), *b = make();
    mx_comparison *c = NULL;
    mxw_difference d = {.struct_size = sizeof(d)};
    CHECK_EQ_INT(mx_comparison_open(a, b, &c), MXW_OK);
    for (size_t i = 0; i < mxw_comparison_count(c); i++)
        CHECK(mxw_comparison_get(c, i, &d) == MXW_OK && !d.bad);
    mx_comparison_close(c);
    ((float *)b->stages[0].tensor.data)[0] += 0.5f;
    ((int32_t *)b->stages[1].tensor.data)[3] = 1;
    CHECK_EQ_INT(mx_comparison_open(a, b, &c), MXW_OK);
    CHECK(mxw_comparison_get(c, 0, &d) == MXW_OK && d.bad && fabs(d.l2 - 0.5) < 1e-6 && fabs(d.max_abs - 0.5) < 1e-6);
    CHECK(mxw_comparison_get(c, 1, &d) == MXW_OK && d.bad && fabs(d.relative - 0.25) < 1e-9);
    mx_comparison_close(c);
    ((float *)b->stages[0].tensor.data)[0] = NAN;
    CHECK_EQ_INT(mx_comparison_open(a, b, &c), MXW_OK);
    CHECK(mxw_comparison_get(c, 0, &d) == MXW_OK && d.bad);
    CHECK(mxw_comparison_get(c, 99, &d) < 0);
    mx_comparison_close(c);
    mx_features_close(a);
    mx_features_close(b);
}

/* Each precision has its bound; in 8 bits another text is shown and not judged. */
static void test_precisions(void) {
    static const struct {
        const char *name;
        double bound;
        int judged;
    } precisions[] = {{NULL, 0x1p-17, 1}, {"exact", 0x1p-17, 1}, {"f16", 0x1p-9, 1}, {"int8", 0x1p-5, 0},
                      {"f8", 0x1p-3, 0}};
    for (size_t i = 0; i < MX_COUNT(precisions); i++) {
        mx_features *a = make(), *b = make();
        mx_comparison *c = NULL;
        mxw_difference d = {.struct_size = sizeof(d)};
        if (precisions[i].name)
            CHECK_EQ_INT(mx_features_set_note(b, "precision", precisions[i].name), MXW_OK);
        b->notes[0].text = "another";   /* the one that make() set */
        CHECK_EQ_INT(mx_comparison_open(a, b, &c), MXW_OK);
        CHECK(mxw_comparison_get(c, 0, &d) == MXW_OK && !d.bad && fabs(d.bound / precisions[i].bound - 1) < 1e-9);
        CHECK(mxw_comparison_get(c, 3, &d) == MXW_OK && !strcmp(d.name, "recording.text"));
        CHECK_EQ_INT(d.bad, precisions[i].judged);
        mx_comparison_close(c);
        mx_features_close(a);
        mx_features_close(b);
    }
}

static int print(const char *path) {
    mx_features *f = NULL;
    if (mx_features_open(path, &f) < 0) {
        printf("%s\n", mx_error());
        return 1;
    }
    for (size_t i = 0; i < f->n; i++) {
        const mx_tensor *t = &f->stages[i].tensor;
        printf("%s:", f->stages[i].name);
        for (int j = 0; j < t->rank; j++)
            printf(" %lld", (long long)t->dims[j]);
        printf(" |");
        for (int64_t j = 0; j < mx_tensor_count(t); j++)
            printf(" %.9g", t->dtype == MXW_F32 ? (double)((float *)t->data)[j] : t->dtype == MXW_I32
                   ? (double)((int32_t *)t->data)[j] : (double)((uint8_t *)t->data)[j]);
        printf("\n");
    }
    mx_features_close(f);
    return 0;
}

int main(int argc, char **argv) {
    char folder[4096];
    if (argc == 3 && strcmp(argv[1], "read") == 0)
        return print(argv[2]);
    if (argc == 3 && strcmp(argv[1], "write") == 0) {
        mx_features *f = make();
        mxw_status status = mx_features_save(f, argv[2]);
        mx_features_close(f);
        return status < 0;
    }
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    test_round_trip(folder);
    test_damage(folder);
    test_compare();
    test_precisions();
    gen_remove(folder);
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
