/* test_api_elementwise.c - max_whisper.h and op/elementwise.def agree: every function of the table is declared there as
 * mxw_graph_NAME with the types that the table gives it, and computes what the table says when it is called through the
 * shared library. That the header declares no other is tests/cli/test_installed.py's: what it declares is exported.
 *
 * usage: test_api_elementwise [DEVICE]    cpu (the default) or cuda[:N] */
#include <max_whisper.h>

#include <math.h>

#include "kit/check.h"

typedef mxw_value (*plain_fn)(mxw_graph *g, mxw_value x);
typedef mxw_value (*with_fn)(mxw_graph *g, mxw_value x, double parameter);

typedef struct function {
    const char *name;
    plain_fn plain;
    with_fn with;   /* of a function that has a parameter */
    double (*exact)(double x, double p);
    double units;   /* of the device that has the most */
} function;

#define MX_ELEMENTWISE(id, name, cpu_units, cuda_units, cpu_expression, exact_expression, ...)                         \
    static double exact_##name(double x, double p) { return (void)p, exact_expression; }
#include "op/elementwise.def"

/* A function that the header lacks, or declares otherwise, does not compile. */
static const function functions[] = {
#define ROW(name, plain, with, cpu_units, cuda_units)                                                                  \
    {#name, plain, with, exact_##name, cpu_units > cuda_units ? cpu_units : cuda_units},
#define MX_ELEMENTWISE(id, name, cpu_units, cuda_units, ...) ROW(name, mxw_graph_##name, NULL, cpu_units, cuda_units)
#define MX_ELEMENTWISE_WITH(id, name, parameter, cpu_units, cuda_units, ...)                                           \
    ROW(name, NULL, mxw_graph_##name, cpu_units, cuda_units)
#include "op/elementwise.def"
};
enum { FUNCTIONS = sizeof(functions) / sizeof(functions[0]), N = 6 };

static mxw_value build(const function *f, mxw_graph *g, mxw_value x) {
    return f->with ? f->with(g, x, 0.125) : f->plain(g, x);
}

/* All of them in one program. */
static void test_run(const char *device, mxw_engine engine) {
    static float x[N] = {0.25f, 1, -2.5f, 20, -20, 1e-6f};
    mxw_graph *g;
    mxw_program *program;
    mxw_program_options options;
    mxw_program_options_default(&options);
    options.device = device;
    options.engine = engine;
    CHECK(mxw_graph_create("elementwise", &g) == MXW_OK);
    mxw_value in = mxw_graph_input(g, "x", MXW_F32, 1, (int64_t[]){N});
    for (int i = 0; i < FUNCTIONS; i++)
        CHECK(mxw_graph_output(g, functions[i].name, build(&functions[i], g, in)) == MXW_OK);
    mxw_status status = mxw_program_compile(g, &options, &program);
    if (status == MXW_E_DEVICE) {
        printf("SKIP: graph-api-elementwise %s: %s\n", device, mxw_last_error());
        mxw_graph_destroy(g);
        exit(77);
    }
    mxw_tensor given = {.struct_size = sizeof(given), .dtype = MXW_F32, .rank = 1, .dims = {N}, .data = x};
    mxw_tensor out[FUNCTIONS] = {{.struct_size = sizeof(out[0])}};
    if (CHECK(status == MXW_OK) && CHECK(mxw_program_execute(program, &given, 1, out, FUNCTIONS) == MXW_OK))
        for (int i = 0; i < FUNCTIONS; i++)
            for (int j = 0; j < N; j++) {
                double want = functions[i].exact((double)x[j], 0.125), got = (double)((float *)out[i].data)[j];
                if (!CHECK((isnan(got) && isnan(want)) ||
                           fabs(got - want) <= functions[i].units * 0x1p-24 * fabs(want)))
                    printf("    %s(%g) is %.9g: expected %.9g\n", functions[i].name, (double)x[j], got, want);
            }
    mxw_program_destroy(program);
    mxw_graph_destroy(g);
}

/* No graph, and a value that is none. */
static void test_arguments(void) {
    for (int i = 0; i < FUNCTIONS; i++) {
        mxw_graph *g;
        char line[64];
        CHECK(build(&functions[i], NULL, 1) == 0);
        snprintf(line, sizeof(line), "mxw_graph_%s: g is NULL", functions[i].name);
        CHECK(strstr(mxw_last_error(), line) != NULL);
        CHECK(mxw_graph_create("t", &g) == MXW_OK && build(&functions[i], g, 3) == 0);
        snprintf(line, sizeof(line), "%s: input 0 is 3", functions[i].name);
        CHECK(strstr(mxw_graph_error(g), line) != NULL);
        mxw_graph_destroy(g);
    }
}

int main(int argc, char **argv) {
    const char *device = argc > 1 ? argv[1] : "cpu";
    test_run(device, strcmp(device, "cpu") == 0 ? MXW_ENGINE_CPU : MXW_ENGINE_GPU);
    test_run(device, MXW_ENGINE_MAX);
    test_arguments();
    return check_done();
}
