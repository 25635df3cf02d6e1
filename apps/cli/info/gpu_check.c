/* cli/info/gpu_check.c - `gpu-check`: whether the GPU engines can run here, on which GPU, and if not, why.
 *
 * In: a device. Out: the GPUs with driver, runtime and memory; a product of matrices run through engine gpu; what each
 * engine will use. Exit 0 only if the product came out right.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/model.h"
#include "common/stdout.h"
#include "info/devices.h"

typedef struct check_options {
    common_options common;
    const char *device;
    int json;
} check_options;

/* A table reads by rows. */
/* clang-format off */
static const option_row rows[] = {
    {.name = "device", .kind = OPTION_TEXT, .fallback = "auto", .placeholder = "auto|cuda[:N]",
     .group = "Model and device", .target = offsetof(check_options, device), .check = check_device,
     .choices = device_examples,
     .help = "GPU to check; auto: the first usable one."},
    JSON_ROW(check_options, json),
    COMMON_ROWS,
    {.name = NULL},
};
/* clang-format on */

enum { ENTRIES = 3, M = 130, K = 64, N = 192 };

static float x[ENTRIES * M * K], w[N * K];

/* Small whole numbers: every sum is exact in any order, so the result must be, too. */
static void fill(float *to, int n, unsigned seed) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1103515245u + 12345u;
        to[i] = (float)((int)(seed >> 16 & 15) - 8);
    }
}

static int is_right(const float *y) {
    for (int row = 0; row < ENTRIES * M; row++)
        for (int column = 0; column < N; column++) {
            float sum = 0;
            for (int i = 0; i < K; i++)
                sum += x[row * K + i] * w[column * K + i];
            if (y[row * N + column] != sum)
                return 0;
        }
    return 1;
}

static mxw_status build(mxw_graph *g) {
    mxw_tensor weight = {.struct_size = sizeof(mxw_tensor), .dtype = MXW_F32, .rank = 2, .dims = {N, K}, .data = w};
    mxw_value in = mxw_graph_input(g, "x", MXW_F32, 3, (int64_t[]){ENTRIES, M, K});
    mxw_value y = mxw_graph_linear(g, in, mxw_graph_constant(g, "w", &weight), 0);
    mxw_status status = mxw_graph_output(g, "y", y);
    return status < 0 ? status : mxw_graph_status(g);
}

/* 1 if the product was run on the GPU and is right; else why not is in reason. */
static int multiply(const char *device, char *reason, size_t size) {
    mxw_graph *g = NULL;
    mxw_program *program = NULL;
    mxw_program_options options;
    mxw_tensor in = {.struct_size = sizeof(mxw_tensor), .dtype = MXW_F32, .rank = 3, .dims = {ENTRIES, M, K},
                     .data = x};
    mxw_tensor out = {.struct_size = sizeof(out)};
    mxw_program_options_default(&options);
    options.engine = MXW_ENGINE_GPU;
    options.device = device;
    fill(x, ENTRIES * M * K, 1);
    fill(w, N * K, 2);
    mxw_status status = mxw_graph_create("gpu-check", &g);
    if (status >= 0)
        status = build(g);
    if (status >= 0)
        status = mxw_program_compile(g, &options, &program);
    if (status >= 0)
        status = mxw_program_execute(program, &in, 1, &out, 1);
    int right = status >= 0 && is_right(out.data);
    if (!right)
        snprintf(reason, size, "%s", status < 0 ? mxw_last_error() : "a product of matrices came out wrong");
    mxw_program_destroy(program);
    mxw_graph_destroy(g);
    return right;
}

/* The device that engine max takes by itself: the first usable GPU, else the CPU. */
static const char *choice_of_max(void) {
    mxw_device_info info = {.struct_size = sizeof(info)};
    for (int i = 0; i < mxw_device_count(); i++)
        if (mxw_device_get(i, &info) >= 0 && info.usable && strcmp(info.kind, "cpu") != 0)
            return info.id;
    return "cpu";
}

static void print_report(int right, const char *reason, const char *device) {
    mxw_device_info info = {.struct_size = sizeof(info)};
    int n_gpus = 0;
    for (int i = 0; i < mxw_device_count(); i++)
        if (mxw_device_get(i, &info) >= 0 && strcmp(info.kind, "cpu") != 0) {
            print_device(&info);
            n_gpus++;
        }
    if (n_gpus == 0)
        out_print("no GPU\n");
    out_print("engine cpu: cpu\n");
    if (right)
        out_print("engine gpu: %s: a product of matrices came out right\n", device);
    else
        out_print("engine gpu: not usable: %s\n", reason);
    out_print("engine max: %s\n", choice_of_max());
}

static void write_report(int right, const char *reason, const char *device) {
    json_writer json;
    mxw_device_info info = {.struct_size = sizeof(info)};
    json_start(&json, stdout, 1);
    json_begin(&json, NULL);
    json_bool(&json, "usable", right);
    json_text(&json, "reason", right ? "a product of matrices came out right" : reason);
    json_list(&json, "devices");
    for (int i = 0; i < mxw_device_count(); i++)
        if (mxw_device_get(i, &info) >= 0 && strcmp(info.kind, "cpu") != 0)
            write_device(&json, &info);
    json_end(&json);
    json_begin(&json, "engines");
    json_text(&json, "cpu", "cpu");
    json_text(&json, "gpu", right ? device : NULL);
    json_text(&json, "max", choice_of_max());
    json_end(&json);
    json_end(&json);
}

static int run(const void *chosen, char **words, int n_words) {
    const check_options *options = chosen;
    char reason[1024] = "";
    (void)words;
    (void)n_words;
    int right = multiply(options->device, reason, sizeof(reason));
    int first = !strcmp(options->device, "auto") || !strcmp(options->device, "cuda");
    const char *device = first ? choice_of_max() : options->device;
    if (options->json)
        write_report(right, reason, device);
    else
        print_report(right, reason, device);
    if (!right)
        log_error("gpu-check: %s", reason);
    return right ? EXIT_OK : EXIT_FAILED;
}

const command command_gpu_check = {
    .arguments = "",
    .summary = "Check whether a GPU can be used, which one, and if not, why.",
    .details = "Lists the GPUs with their memory and the versions of driver, runtime and cuBLAS, runs a matrix "
               "product on the one that engine gpu would use, and shows which device each engine uses. The exit "
               "status is 0 only if the product is correct.",
    .options = rows,
    .options_size = sizeof(check_options),
    .run = run,
};
