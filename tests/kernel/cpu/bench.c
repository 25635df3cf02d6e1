/* bench.c - kcheck --bench: the products of Whisper's shapes through the device, as a transcription runs them, beside
 * the machine's own peak, measured in the same seconds, and beside other libraries; then bench_ops.c.
 *
 * Other work on the machine makes any single time too long, so everything is measured in turns, and the best of each
 * counts. MXW_CPU caps the instruction set; MXW_BENCH_TURNS sets the number of turns. */
#include "bench.h"

#include "base/base.h"
#include "device/cpu/peak.h"
#include "device/device.h"

#define READ_BYTES ((size_t)256 << 20)
#define MAX_SIDES 4

typedef struct shape {
    const char *what;
    int64_t m, n, k;
    int taps, stride;   /* of a convolution */
} shape;

static const shape shapes[] = {
    {"tiny encoder conv1", 3000, 384, 80, 3, 1},
    {"tiny encoder conv2", 1500, 384, 384, 3, 2},
    {"tiny encoder qkv", 1500, 1152, 384, 0, 0},
    {"tiny encoder out", 1500, 384, 384, 0, 0},
    {"tiny encoder fc1", 1500, 1536, 384, 0, 0},
    {"tiny encoder fc2", 1500, 384, 1536, 0, 0},
    {"base encoder conv2", 1500, 512, 512, 3, 2},
    {"base encoder qkv", 1500, 1536, 512, 0, 0},
    {"base encoder out", 1500, 512, 512, 0, 0},
    {"base encoder fc1", 1500, 2048, 512, 0, 0},
    {"base encoder fc2", 1500, 512, 2048, 0, 0},
    {"tiny prompt qkv", 64, 1152, 384, 0, 0},
    {"tiny prompt fc1", 32, 1536, 384, 0, 0},
    {"tiny decoder out, 1 row", 1, 384, 384, 0, 0},
    {"tiny decoder qkv, 5 rows", 5, 1152, 384, 0, 0},
    {"tiny decoder fc1, 5 rows", 5, 1536, 384, 0, 0},
    {"tiny decoder fc2, 5 rows", 5, 384, 1536, 0, 0},
    {"tiny decoder fc1, 16 rows", 16, 1536, 384, 0, 0},
    {"tiny vocabulary, 1 row", 1, 51864, 384, 0, 0},
    {"tiny vocabulary, 5 rows", 5, 51864, 384, 0, 0},
    {"tiny vocabulary, 8 rows", 8, 51864, 384, 0, 0},
    {"tiny vocabulary, 16 rows", 16, 51864, 384, 0, 0},
    {"base decoder fc1, 5 rows", 5, 2048, 512, 0, 0},
    {"base decoder fc2, 5 rows", 5, 512, 2048, 0, 0},
    {"base vocabulary, 5 rows", 5, 51865, 512, 0, 0},
};

typedef struct bench {
    bench_machine on;
    bench_library libraries[2];
    int n_libraries;
    double flops, read, int8;   /* the best seen with this pool */
} bench;

/* ---- one shape --------------------------------------------------------------------------------------------------- */

typedef struct job {
    const shape *s;
    mx_call call;
    mx_attrs attrs;
    mx_tensor in[2], out, half;
    float *plain, *result;
    mxw_precision precision;
} job;

static mx_tensor fill(mxw_dtype dtype, int rank, const int64_t *dims) {
    mx_tensor t = mx_tensor_of(dtype, rank, dims, NULL);
    t.data = mx_alloc(mx_tensor_bytes(&t));
    if (!t.data)
        exit(1);
    for (int64_t i = 0; i < mx_tensor_count(&t); i++)
        if (dtype == MXW_F32)
            ((float *)t.data)[i] = (float)uniform(-1, 1);
        else
            ((uint16_t *)t.data)[i] = mx_f32_to_f16((float)uniform(-1, 1));
    return t;
}

static void open_job(bench *b, job *j, const shape *s, mxw_precision precision) {
    int64_t depth = s->taps ? s->k * s->taps : s->k;
    *j = (job){.s = s, .attrs = {.stride = {s->stride, 1}, .pad = {1, 0}, .dilation = 1}};
    if (s->taps) {
        j->in[0] = fill(MXW_F32, 3, (int64_t[]){1, s->m * s->stride, s->k});
        j->half = fill(MXW_F16, 3, (int64_t[]){s->n, s->k, s->taps});
        j->out = fill(MXW_F32, 3, (int64_t[]){1, s->m, s->n});
    } else {
        j->in[0] = fill(MXW_F32, 2, (int64_t[]){s->m, s->k});
        j->half = fill(MXW_F16, 2, (int64_t[]){s->n, s->k});
        j->out = fill(MXW_F32, 2, (int64_t[]){s->m, s->n});
    }
    j->call = (mx_call){.op = s->taps ? MX_OP_FUSED_CONV1D : MX_OP_FUSED_LINEAR, .attrs = &j->attrs, .n_inputs = 2,
                        .n_outputs = 1, .inputs = j->in, .outputs = &j->out, .pool = b->on.pool, .compiled = 1,
                        .precision = precision};
    mx_weight_use use = {.op = j->call.op, .attrs = &j->attrs, .input = 1, .sources = &j->half, .n_sources = 1,
                         .precision = precision};
    j->in[1] = j->half;
    j->in[1].layout = MX_LAYOUT_PACKED;
    j->in[1].packing = b->on.cpu->packing(b->on.cpu, &use);
    j->in[1].data = mx_alloc(j->in[1].packing.bytes);
    j->plain = fill(MXW_F32, 2, (int64_t[]){s->n, depth}).data;
    j->result = fill(MXW_F32, 2, (int64_t[]){s->m, MX_MAX(s->n, depth)}).data;
    j->call.scratch = mx_alloc(b->on.cpu->scratch_bytes(b->on.cpu, &j->call));
    if (!j->in[1].data || !j->call.scratch || b->on.cpu->pack(b->on.cpu, &use, j->in[1].data, b->on.pool) < 0)
        exit(1);
}

static void close_job(job *j) {
    void *all[] = {j->in[0].data, j->in[1].data, j->half.data, j->out.data, j->plain, j->result, j->call.scratch};
    for (size_t i = 0; i < MX_COUNT(all); i++)
        mx_free(all[i]);
}

/* side 0: ours; then the libraries, which see a convolution as the product it is, without the windows it needs. */
static double time_side(bench *b, job *j, int side, int calls) {
    int64_t depth = j->s->taps ? j->s->k * j->s->taps : j->s->k, start = mx_now_ns();
    for (int i = 0; i < calls; i++) {
        if (side == 0)
            b->on.cpu->run_op(b->on.cpu, &j->call);
        else
            b->libraries[side - 1].gemm(b->on.pool, j->s->m, j->s->n, depth,
                                        j->s->taps ? j->result : (const float *)j->in[0].data, j->plain, j->out.data);
    }
    return (double)(mx_now_ns() - start) / calls;
}

static void run_shape(bench *b, const shape *s, mxw_precision precision) {
    job j;
    double best[MAX_SIDES] = {0};
    int64_t depth = s->taps ? s->k * s->taps : s->k;
    double flops = 2.0 * (double)s->m * (double)s->n * (double)depth, bytes = 2.0 * (double)s->n * (double)depth;
    int int8 = precision == MXW_PRECISION_INT8, sides = int8 ? 1 : 1 + b->n_libraries;
    bytes /= int8 ? 2 : 1;
    open_job(b, &j, s, precision);
    int few = s->m <= 16, calls = flops < 5e7 ? (int)(5e7 / flops) + 1 : 1;
    for (int turn = 0; turn < b->on.turns; turn++) {
        double flop_rate = mx_peak_gflops(b->on.isa, b->on.pool);
        double int8_rate = mx_peak_int8_gops(mx_cpu_int8_isa()->name, b->on.pool);
        double read_rate = few ? mx_peak_read_gbs(b->on.isa, b->on.pool, b->on.memory, b->on.memory_bytes / 8) : 0;
        b->flops = MX_MAX(b->flops, flop_rate);
        b->read = MX_MAX(b->read, read_rate);
        b->int8 = MX_MAX(b->int8, int8_rate);
        for (int side = 0; side < sides; side++) {
            double ns = time_side(b, &j, side, calls);
            if (turn == 0 || ns < best[side])
                best[side] = ns;
        }
    }
    double roof = int8 ? b->int8 : b->flops;
    printf("%-26s %s%5d x %5d x %4d  %9.1f us ", s->what, int8 ? "int8 " : "", (int)s->m, (int)s->n,
           (int)depth, best[0] / 1e3);
    if (few)
        printf("%7.1f GB/s  %3.0f %% of %.0f ", bytes / best[0], 100 * bytes / best[0] / b->read, b->read);
    else
        printf("%7.1f GFLOP/s %3.0f %% of %.0f", flops / best[0], 100 * flops / best[0] / roof, roof);
    for (int side = 1; side < sides; side++)
        printf("  %s x%.2f", b->libraries[side - 1].name, best[side] / best[0]);
    printf("\n");
    fflush(stdout);
    close_job(&j);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static int bench_threads(bench *b, int threads, const char *filter) {
    if (mx_pool_open(threads, &b->on.pool) < 0)
        return 1;
    b->flops = b->read = b->int8 = 0;
    for (int i = 0; i < 20; i++) {
        double flops = mx_peak_gflops(b->on.isa, b->on.pool), read = 0;
        if (i < 4)
            read = mx_peak_read_gbs(b->on.isa, b->on.pool, b->on.memory, READ_BYTES);
        b->flops = MX_MAX(b->flops, flops);
        b->read = MX_MAX(b->read, read);
    }
    printf("%s, %d thread%s: %.1f GFLOP/s of fused multiply-adds, %.1f GB/s read\n", b->on.isa,
           mx_pool_threads(b->on.pool), mx_pool_threads(b->on.pool) == 1 ? "" : "s", b->flops, b->read);
    for (size_t i = 0; i < MX_COUNT(shapes); i++)
        if (strstr(shapes[i].what, filter)) {
            run_shape(b, &shapes[i], MXW_PRECISION_EXACT);
            if (!shapes[i].taps && !strstr(shapes[i].what, "vocabulary"))
                run_shape(b, &shapes[i], MXW_PRECISION_INT8);
        }
    bench_ops(&b->on, filter, b->flops, b->read);
    mx_pool_close(b->on.pool);
    return 0;
}

int kcheck_bench(const char *filter) {
    const char *turns = getenv("MXW_BENCH_TURNS");
    bench b = {.on = {.isa = mx_cpu_best_isa()->name, .memory_bytes = READ_BYTES, .turns = turns ? atoi(turns) : 20}};
    void *memory = mx_alloc(READ_BYTES);
    if (!memory || mx_device_find("cpu", &b.on.cpu) < 0) {
        printf("kcheck: %s\n", mx_error());
        return 1;
    }
    memset(memory, 0, READ_BYTES);
    b.on.memory = memory;
    b.n_libraries = bench_libraries(b.on.isa, b.libraries);
    printf("times: the best of %d turns; libraries: their time by ours\n", b.on.turns);
    int failed = bench_threads(&b, 1, filter) || bench_threads(&b, 0, filter);
    mx_free(memory);
    return failed;
}
