/* test_gpu_norm.c - layer norm of compiled calls on a GPU, through its table, against sums in double: Whisper's widths
 * and others, few rows and many, rows that lie far from zero. Then the bits: a row's are the same alone and among
 * others. Skipped where there is no CUDA device. */
#include "base/base.h"
#include "device/device.h"

#include <math.h>
#include <string.h>

#include "kit/check.h"

#define EPS 1e-5

static const mx_device *gpu;

static uint64_t state = 5;
static float between(float low, float high) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (float)(uint32_t)(state >> 32) / 4294967296.0f;
}

typedef struct given {
    int64_t rows, n;
    float *x, *gamma, *beta, *y;
    void *on_gpu[4];
} given;

static float *random_floats(int64_t n, float low, float high, void **on_gpu) {
    float *v = mx_alloc((size_t)n * sizeof(*v));
    *on_gpu = gpu->alloc(gpu, (size_t)n * sizeof(*v));
    if (!v || !*on_gpu)
        exit(1);
    for (int64_t i = 0; i < n; i++)
        v[i] = between(low, high);
    if (!CHECK(gpu->upload(gpu, *on_gpu, v, (size_t)n * sizeof(*v)) >= 0))
        exit(1);
    return v;
}

/* Rows from `first` on, into y. */
static void norm_rows(const given *g, int64_t first, int64_t rows, float *y) {
    mx_attrs attrs = {.eps = EPS};
    mx_tensor in[3] = {mx_tensor_of(MXW_F32, 2, (int64_t[]){rows, g->n}, (float *)g->on_gpu[0] + first * g->n),
                       mx_tensor_of(MXW_F32, 1, &g->n, g->on_gpu[1]), mx_tensor_of(MXW_F32, 1, &g->n, g->on_gpu[2])};
    mx_tensor out = mx_tensor_of(MXW_F32, 2, (int64_t[]){rows, g->n}, g->on_gpu[3]);
    mx_call call = {.op = MX_OP_LAYER_NORM, .attrs = &attrs, .n_inputs = 3, .n_outputs = 1, .inputs = in,
                    .outputs = &out, .compiled = 1};
    CHECK(gpu->clear(gpu, g->on_gpu[3], (size_t)(rows * g->n) * sizeof(*y)) >= 0);
    CHECK(gpu->run_op(gpu, &call) >= 0);
    CHECK(gpu->download(gpu, y, g->on_gpu[3], (size_t)(rows * g->n) * sizeof(*y)) >= 0);
}

static double worst_of(const given *g) {
    double worst = 0;
    for (int64_t row = 0; row < g->rows; row++) {
        const float *x = g->x + row * g->n;
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < g->n; i++)
            sum += x[i];
        double mean = sum / (double)g->n;
        for (int64_t i = 0; i < g->n; i++)
            squares += (x[i] - mean) * (x[i] - mean);
        double rate = 1 / sqrt(squares / (double)g->n + EPS);
        for (int64_t i = 0; i < g->n; i++) {
            double right = (x[i] - mean) * rate * g->gamma[i] + g->beta[i];
            worst = fmax(worst, fabs(right - g->y[row * g->n + i]));
        }
    }
    return worst;
}

static void check_norm(int64_t rows, int64_t n, float middle) {
    given g = {.rows = rows, .n = n};
    g.x = random_floats(rows * n, middle - 1, middle + 1, &g.on_gpu[0]);
    g.gamma = random_floats(n, -2, 2, &g.on_gpu[1]);
    g.beta = random_floats(n, -1, 1, &g.on_gpu[2]);
    g.y = random_floats(rows * n, 0, 1, &g.on_gpu[3]);
    norm_rows(&g, 0, rows, g.y);
    /* What is left of an element when the mean has been taken off has lost the bits that the mean has more. */
    double worst = worst_of(&g), allowed = 4e-6 * (1 + fabs((double)middle));
    if (!CHECK(worst < allowed))
        printf("%d rows of %d around %g: off by %.2g\n", (int)rows, (int)n, (double)middle, worst);
    float *alone = mx_alloc((size_t)n * sizeof(*alone));
    for (int64_t row = 0; alone && row < rows; row += 1 + row * 3) {
        norm_rows(&g, row, 1, alone);
        CHECK(memcmp(alone, g.y + row * n, (size_t)n * sizeof(*alone)) == 0);
    }
    mx_free(alone);
    mx_free(g.x);
    mx_free(g.gamma);
    mx_free(g.beta);
    mx_free(g.y);
    for (int i = 0; i < 4; i++)
        gpu->free(gpu, g.on_gpu[i]);
}

int main(void) {
    static const int64_t widths[] = {1, 4, 100, 384, 386, 512, 640, 768, 1024, 1280, 1284, 5120};
    static const int64_t rows[] = {1, 7, 8, 9, 1500};
    if (mx_device_find("cuda", &gpu) < 0) {
        printf("SKIP: gpu-norm: %s\n", mx_error());
        return 77;
    }
    for (size_t i = 0; i < MX_COUNT(widths); i++)
        for (size_t j = 0; j < MX_COUNT(rows); j++)
            for (int far = 0; far < 2; far++)
                check_norm(rows[j], widths[i], far ? 30 : 0);
    return check_done();
}
