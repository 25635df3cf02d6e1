/* life.c - a graph of one's own that is not Whisper: Conway's Game of Life, a generation to a run.
 *
 *   life [GENERATIONS]
 *
 * One convolution adds up what a cell must know: its eight neighbours count 1 each, the cell itself counts 9. The sum,
 * 0 to 17, is looked up in a table of 18 answers. The compiler makes a plan of it once, for the best device there is;
 * the loop below only runs it. */
#include <max_whisper.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEIGHT = 10, WIDTH = 16, SUMS = 18 };

static float kernel[3 * 3] = {1, 1, 1, 1, 9, 1, 1, 1, 1};

static mxw_value constant(mxw_graph *g, const char *name, float *data, int rank, int64_t a, int64_t b, int64_t c,
                          int64_t d) {
    mxw_tensor tensor = {.struct_size = sizeof(tensor), .dtype = MXW_F32, .rank = rank, .dims = {a, b, c, d},
                         .data = data};
    return mxw_graph_constant(g, name, &tensor);
}

/* world [1,HEIGHT,WIDTH,1] -> the world one generation later. A mistake anywhere is reported by mxw_graph_status. */
static mxw_graph *build(void) {
    const int64_t world[] = {1, HEIGHT, WIDTH, 1}, cells[] = {HEIGHT * WIDTH};
    const int stride[] = {1, 1}, pad[] = {1, 1};
    float answers[SUMS] = {0};
    mxw_graph *g = NULL;
    answers[3] = 1;                   /* empty, three neighbours: born */
    answers[9 + 2] = answers[9 + 3] = 1; /* alive, two or three: lives on */
    if (mxw_graph_create("life", &g) < 0)
        return NULL;
    mxw_value x = mxw_graph_input(g, "world", MXW_F32, 4, world);
    mxw_value sums = mxw_graph_conv2d(g, x, constant(g, "kernel", kernel, 4, 3, 3, 1, 1), 0, stride, pad);
    mxw_value index = mxw_graph_cast(g, mxw_graph_reshape(g, sums, 1, cells), MXW_I32);
    mxw_value next = mxw_graph_gather(g, constant(g, "answers", answers, 2, SUMS, 1, 0, 0), index);
    mxw_graph_output(g, "next", mxw_graph_reshape(g, next, 4, world));
    return g;
}

static void print_world(int generation, const float *world) {
    printf("generation %d\n", generation);
    for (int y = 0; y < HEIGHT; y++) {
        for (int x = 0; x < WIDTH; x++)
            putchar(world[y * WIDTH + x] > 0.5f ? '#' : '.');
        putchar('\n');
    }
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 4;
    float world[HEIGHT * WIDTH] = {0};
    mxw_program *program = NULL;
    mxw_graph *graph = build();
    const char *glider = " # "
                         "  #"
                         "###";
    for (int i = 0; i < 9; i++)
        world[(1 + i / 3) * WIDTH + 1 + i % 3] = glider[i] == '#';
    if (!graph || mxw_graph_status(graph) < 0) {
        fprintf(stderr, "life: %s\n", graph ? mxw_graph_error(graph) : mxw_last_error());
        mxw_graph_destroy(graph);
        return 1;
    }
    mxw_status status = mxw_program_compile(graph, NULL, &program); /* NULL: engine max, the best device */
    mxw_graph_destroy(graph);                                       /* the program holds what it needs */
    print_world(0, world);
    for (int i = 1; i <= n && status >= 0; i++) {
        mxw_tensor in = {.struct_size = sizeof(in), .dtype = MXW_F32, .rank = 4, .dims = {1, HEIGHT, WIDTH, 1},
                         .data = world};
        mxw_tensor out = {.struct_size = sizeof(out)};
        status = mxw_program_execute(program, &in, 1, &out, 1);
        if (status >= 0) {
            memcpy(world, out.data, sizeof(world));
            print_world(i, world);
        }
    }
    if (status < 0)
        fprintf(stderr, "life: %s\n", mxw_last_error());
    mxw_program_destroy(program);
    return status < 0;
}
