/* test_gpu_gemm.c - the compiled GEMMs of a GPU through its function table, weights packed by it, against f64 sums:
 * every optional input present and absent, strided rows, stacked weights of several types, both precisions, sizes from
 * one to those of released models. Then the bits: a row's are the same alone, among few and among many, and whether it
 * passes from GEMM to GEMM as f32 or in the MMA operand layout. A weight packs to the same bytes however it lies in
 * memory.
 * usage: test_gpu_gemm [brief]: only sizes that reach each kernel once, for tools that take much longer.
 * Skipped where there is no CUDA device. */
#include "base/base.h"
#include "device/device.h"

#include <math.h>

#include "kit/check.h"

static const mx_device *gpu;
static int brief;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

#define MAX_BLOCKS 64
static void *device_blocks[MAX_BLOCKS], *host_blocks[MAX_BLOCKS];
static int n_device, n_host;

static void *on_gpu(size_t bytes) {
    void *block = gpu->alloc(gpu, bytes);
    if (!block || n_device == MAX_BLOCKS) {
        printf("no memory on the GPU: %s\n", mx_error());
        exit(1);
    }
    return device_blocks[n_device++] = block;
}

static float *on_host(int64_t n) {
    float *block = mx_alloc((size_t)n * sizeof(float) + 1);
    if (!block || n_host == MAX_BLOCKS)
        exit(1);
    return host_blocks[n_host++] = block;
}

static void done(void) {
    while (n_device)
        gpu->free(gpu, device_blocks[--n_device]);
    while (n_host)
        mx_free(host_blocks[--n_host]);
}

static uint64_t state = 7;
static uint32_t word(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}
static float random_float(void) { return (float)word() / 1073741824.0f - 1; }

static float *random_floats(int64_t n, float scale) {
    float *x = on_host(n);
    for (int64_t i = 0; i < n; i++)
        x[i] = scale * random_float();
    return x;
}

static void *uploaded(const void *from, size_t bytes) {
    void *to = on_gpu(bytes);
    CHECK(gpu->upload(gpu, to, from, bytes) >= 0);
    return to;
}

/* ---- a product --------------------------------------------------------------------------------------------------- */

typedef struct product {
    const char *what;
    mx_op op;
    int64_t m, n, k;            /* of a convolution: m positions of an entry; k channels */
    int64_t entries;            /* of a convolution; of others 0, or entries of m rows each */
    int64_t taps, stride;
    int64_t dilation;           /* 0: 1 */
    int64_t apart;              /* elements between the rows of x and of the residual */
    int bias, residual, norm, act, plain_weight, sources;
    int64_t residual_rows;      /* 0: as many as there are */
    int typed;                  /* 0: weights are f16; 1: of these types */
    mxw_dtype dtypes[4];
    mxw_precision precision;
    float scale;                /* of x */
} product;

typedef struct given {
    int64_t rows, k, ldx, ld_residual, residual_rows, positions;
    float *x, *bias, *residual, *gamma, *beta;
    float *w;                   /* [n][k]: what the packed weight stands for */
    mx_tensor weight;           /* on the GPU */
    void *gpu_x, *gpu_bias, *gpu_residual, *gpu_gamma, *gpu_beta;
} given;

static mxw_dtype dtype_of(const product *p, int i) { return p->typed ? p->dtypes[i] : MXW_F16; }

static void pack_weight(const product *p, given *g) {
    mx_tensor sources[4];
    mx_attrs attrs = {0};
    int n_sources = p->sources ? p->sources : 1;
    int64_t taps = p->taps ? p->taps : 1, done_rows = 0, all[] = {p->n, p->k, taps};
    g->w = on_host(p->n * g->k);
    for (int i = 0; i < n_sources; i++) {
        int64_t rows = i + 1 < n_sources ? p->n / n_sources : p->n - done_rows, dims[] = {rows, p->k, taps};
        int64_t count = rows * g->k;
        mxw_dtype dtype = p->plain_weight ? MXW_F32 : dtype_of(p, i);
        float *values = random_floats(count, 0.2f);
        uint16_t *halves = (uint16_t *)on_host(count);
        for (int64_t j = 0; j < count; j++) {
            halves[j] = dtype == MXW_F16 ? mx_f32_to_f16(values[j]) : mx_f32_to_bf16(values[j]);
            if (dtype != MXW_F32)
                values[j] = dtype == MXW_F16 ? mx_f16_to_f32(halves[j]) : mx_bf16_to_f32(halves[j]);
            int64_t row = j / g->k, channel = j % g->k / taps, tap = j % taps;
            g->w[(done_rows + row) * g->k + tap * p->k + channel] = values[j];
        }
        sources[i] = mx_tensor_of(dtype, p->op == MX_OP_FUSED_CONV1D ? 3 : 2, dims,
                                  dtype == MXW_F32 ? (void *)values : halves);
        done_rows += rows;
    }
    mx_weight_use use = {p->op, &attrs, 1, sources, n_sources, p->precision};
    g->weight = mx_tensor_of(MXW_F32, p->op == MX_OP_FUSED_CONV1D ? 3 : 2, all, NULL);
    if (p->plain_weight) {
        g->weight = mx_tensor_of(MXW_F32, g->weight.rank, all, uploaded(sources[0].data, mx_tensor_bytes(&sources[0])));
        return;
    }
    CHECK(gpu->form(gpu, &use) == MX_FORM_PACKED);
    g->weight.layout = MX_LAYOUT_PACKED;
    g->weight.packing = gpu->packing(gpu, &use);
    g->weight.data = on_gpu(MX_MAX(g->weight.packing.bytes, 1));
    if (!CHECK(gpu->pack(gpu, &use, g->weight.data, NULL) >= 0))
        printf("    %s: %s\n", p->what, mx_error());
}

/* How many rows, or entries of rows. */
static int64_t count_of(const product *p) { return p->entries ? p->entries : p->m; }

static int64_t apart(const product *p) { return MX_MAX(p->dilation, 1); }

static given make(const product *p) {
    given g = {.rows = p->m * MX_MAX(p->entries, 1), .k = p->k * MX_MAX(p->taps, 1)};
    int conv = p->op == MX_OP_FUSED_CONV1D;
    float scale = p->scale != 0 ? p->scale : 1;
    g.ldx = p->k + p->apart;
    g.positions = conv ? (p->m - 1) * p->stride + (p->taps - 1) * apart(p) + 1 - 2 * (p->taps / 2) : 0;
    int64_t x_count = (conv ? p->entries * g.positions * p->k : g.rows * g.ldx) + 1;
    g.x = random_floats(x_count, scale);
    g.gpu_x = uploaded(g.x, (size_t)x_count * sizeof(float));
    if (p->bias)
        g.gpu_bias = uploaded(g.bias = random_floats(p->n, 1), (size_t)p->n * sizeof(float));
    g.residual_rows = p->residual_rows ? p->residual_rows : g.rows;
    g.ld_residual = p->n + p->apart;
    if (p->residual) {
        g.residual = random_floats(g.residual_rows * g.ld_residual, 1);
        g.gpu_residual = uploaded(g.residual, (size_t)(g.residual_rows * g.ld_residual) * sizeof(float));
    }
    if (p->norm) {
        g.gpu_gamma = uploaded(g.gamma = random_floats(p->k, 1), (size_t)p->k * sizeof(float));
        g.gpu_beta = uploaded(g.beta = random_floats(p->k, 1), (size_t)p->k * sizeof(float));
    }
    pack_weight(p, &g);
    return g;
}

static mx_tensor rows_apart(int64_t rows, int64_t columns, int64_t ld, void *data) {
    mx_tensor t = mx_tensor_of(MXW_F32, 2, (int64_t[]){rows, columns}, data);
    t.strides[0] = ld;
    return t;
}

/* A call of the product, but for the memory of its result. */
typedef struct asked {
    mx_tensor in[6], out;
    mx_attrs attrs;
    mx_call call;
} asked;

/* For rows [first, first + rows), or entries of them. */
static void ask(const product *p, const given *g, int64_t first, int64_t rows, asked *a) {
    int conv = p->op == MX_OP_FUSED_CONV1D;
    *a = (asked){.out = mx_tensor_of(MXW_F32, 2, (int64_t[]){rows, p->n}, NULL),
                 .attrs = {.act = p->act, .eps = 1e-5, .stride = {(int)p->stride}, .pad = {(int)p->taps / 2},
                           .dilation = (int)apart(p)}};
    mx_tensor *in = a->in;
    in[0] = rows_apart(rows, p->k, g->ldx, (float *)g->gpu_x + first * g->ldx);
    if (conv) {
        in[0] = mx_tensor_of(MXW_F32, 3, (int64_t[]){rows, g->positions, p->k},
                             (float *)g->gpu_x + first * g->positions * p->k);
        a->out = mx_tensor_of(MXW_F32, 3, (int64_t[]){rows, p->m, p->n}, NULL);
    }
    else if (p->entries) {
        in[0] = mx_tensor_of(MXW_F32, 3, (int64_t[]){rows, p->m, p->k}, (float *)g->gpu_x + first * p->m * g->ldx);
        a->out = mx_tensor_of(MXW_F32, 3, (int64_t[]){rows, p->m, p->n}, NULL);
        first *= p->m;
        rows *= p->m;
    }
    in[1] = g->weight;
    if (p->bias)
        in[2] = mx_tensor_of(MXW_F32, 1, &p->n, g->gpu_bias);
    if (p->residual && p->residual_rows)
        in[3] = rows_apart(g->residual_rows, p->n, g->ld_residual, g->gpu_residual);
    else if (p->residual)
        in[3] = rows_apart(rows, p->n, g->ld_residual, (float *)g->gpu_residual + first * g->ld_residual);
    if (p->norm) {
        in[4] = mx_tensor_of(MXW_F32, 1, &p->k, g->gpu_gamma);
        in[5] = mx_tensor_of(MXW_F32, 1, &p->k, g->gpu_beta);
    }
    a->call = (mx_call){.op = p->op, .attrs = &a->attrs, .n_inputs = conv ? 4 : 6, .n_outputs = 1, .inputs = a->in,
                        .outputs = &a->out, .compiled = 1, .precision = p->precision};
}

static void run_asked(const product *p, asked *a) {
    a->call.scratch = on_gpu(MX_MAX(gpu->scratch_bytes(gpu, &a->call), 1));
    if (!CHECK(gpu->run_op(gpu, &a->call) >= 0))
        printf("    %s: %s\n", p->what, mx_error());
}

/* A result in host memory; poisoned before. */
static float *run_poisoned(const product *p, asked *a) {
    size_t bytes = mx_tensor_bytes(&a->out);
    float *y = on_host((int64_t)(bytes / sizeof(float)));
    memset(y, 0xff, bytes);
    a->out.data = uploaded(y, bytes);
    run_asked(p, a);
    if (!CHECK(gpu->download(gpu, y, a->out.data, bytes) >= 0))
        printf("    %s: %s\n", p->what, mx_error());
    return y;
}

static float *run(const product *p, const given *g, int64_t first, int64_t rows) {
    asked a;
    ask(p, g, first, rows, &a);
    return run_poisoned(p, &a);
}

/* ---- the same in double ------------------------------------------------------------------------------------------ */

static double x_at(const product *p, const given *g, int64_t row, int64_t k, const double *norm) {
    if (p->op == MX_OP_FUSED_CONV1D) {
        int64_t position = row % p->m * p->stride - p->taps / 2 + k / p->k * apart(p);
        if (position < 0 || position >= g->positions)
            return 0;
        return g->x[(row / p->m * g->positions + position) * p->k + k % p->k];
    }
    double v = g->x[row * g->ldx + k];
    return p->norm ? (v - norm[0]) * norm[1] * g->gamma[k] + g->beta[k] : v;
}

static void norm_of(const product *p, const given *g, int64_t row, double *norm) {
    double sum = 0, squares = 0;
    for (int64_t k = 0; k < p->k; k++)
        sum += g->x[row * g->ldx + k];
    norm[0] = sum / (double)p->k;
    for (int64_t k = 0; k < p->k; k++)
        squares += (g->x[row * g->ldx + k] - norm[0]) * (g->x[row * g->ldx + k] - norm[0]);
    norm[1] = 1 / sqrt(squares / (double)p->k + 1e-5);
}

/* The element, and the sum of what its terms amount to. */
static double element(const product *p, const given *g, int64_t row, int64_t column, double *amount) {
    double norm[2] = {0, 1}, sum = 0;
    *amount = 0;
    if (p->norm)
        norm_of(p, g, row, norm);
    for (int64_t k = 0; k < g->k; k++) {
        double term = x_at(p, g, row, k, norm) * g->w[column * g->k + k];
        sum += term;
        *amount += fabs(term);
    }
    if (p->bias)
        sum += g->bias[column];
    if (p->act == MX_ACT_GELU_ERF)
        sum = sum * 0.5 * erfc(-sum / sqrt(2));
    if (p->act == MX_ACT_GELU_TANH)
        sum = sum / (1 + exp(-2 * 0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
    if (p->residual)
        sum += g->residual[row % g->residual_rows * g->ld_residual + column];
    *amount += fabs(sum) + 1e-3;
    return sum;
}

/* Of what the terms amount to. Exact: 22 bits of each factor, and sums that round towards zero in chains of steps. */
static double bound_of(const product *p) { return p->precision == MXW_PRECISION_F16 ? 6e-4 : 6e-7; }

static void check_values(const product *p, const given *g, const float *y) {
    int64_t count = g->rows * p->n, unwritten = 0, samples = MX_MIN(count, 3000);
    double worst = 0;
    for (int64_t i = 0; i < count; i++)
        unwritten += isnan(y[i]);
    for (int64_t s = 0; s < samples; s++) {
        int64_t i = samples == count ? s : (int64_t)(((uint64_t)word() << 20 ^ word()) % (uint64_t)count);
        double amount, want = element(p, g, i / p->n, i % p->n, &amount), error = fabs(y[i] - want) / amount;
        worst = error <= worst ? worst : error;
    }
    int ok = CHECK(unwritten == 0) & CHECK(worst <= bound_of(p));
    printf("%s %-34s %s: worst %.2g of the terms%s\n", ok ? "ok  " : "FAIL", p->what,
           p->precision == MXW_PRECISION_F16 ? "f16  " : "exact", worst, unwritten ? ", NOT ALL WRITTEN" : "");
}

/* Parts of the rows give the bits that they have in the whole. */
static void check_bits(const product *p, const given *g, const float *y) {
    static const int64_t parts[] = {5, 333, 1, 12, 16, 17, 33, 64, 65, 130, 1500, 9000};
    int64_t all = count_of(p), each = p->entries ? p->m * p->n : p->n;
    for (size_t i = 0; i < (brief ? 2 : MX_COUNT(parts)); i++) {
        int64_t rows = parts[i], at = word() % 97, first = MX_MIN(at, all - rows);
        if (rows >= all || (p->residual && p->residual_rows && p->entries == 0))
            continue;
        float *part = run(p, g, first, rows);
        if (!CHECK(memcmp(part, y + first * each, (size_t)(rows * each) * sizeof(float)) == 0))
            printf("FAIL %s: %lld rows from %lld on differ from the whole\n", p->what, (long long)rows,
                   (long long)first);
        mx_free(host_blocks[--n_host]);
        gpu->free(gpu, device_blocks[--n_device]);
        gpu->free(gpu, device_blocks[--n_device]);
    }
}

static void check(const product *p) {
    given g = make(p);
    float *y = run(p, &g, 0, count_of(p));
    check_values(p, &g, y);
    check_bits(p, &g, y);
    done();
}

/* Two products, one after the other, with f32 between them and with what the device hands from one to the other. */
static void check_output_layout(const product *one, const product *two) {
    given g = make(one), h = make(two);
    asked a, b;
    ask(one, &g, 0, count_of(one), &a);
    a.out.data = on_gpu(mx_tensor_bytes(&a.out));
    run_asked(one, &a);
    ask(two, &h, 0, count_of(two), &b);
    b.in[0] = a.out;
    float *plain = run_poisoned(two, &b);
    mx_layout layout = MX_LAYOUT_DENSE;
    size_t bytes = gpu->output_layout_bytes ? gpu->output_layout_bytes(gpu, &a.call, &b.call, 0, &layout) : 0;
    if (bytes) {
        a.out.layout = layout;
        a.out.data = on_gpu(bytes);
        run_asked(one, &a);
        b.in[0] = a.out;
        float *laid_out = run_poisoned(two, &b);
        if (!CHECK(memcmp(plain, laid_out, mx_tensor_bytes(&b.out)) == 0))
            printf("FAIL %s, %s: the device layout gives other bits\n", one->what, two->what);
    }
    printf("%s, %s %s: %s\n", one->what, two->what, one->precision == MXW_PRECISION_F16 ? "f16" : "exact",
           bytes ? "device layout" : "f32 between them");
    done();
}

#define LINEAR .op = MX_OP_FUSED_LINEAR
#define CONV .op = MX_OP_FUSED_CONV1D

static const product products[] = {
    {"1 x 1 x 1", LINEAR, .m = 1, .n = 1, .k = 1},
    {"odd, everything", LINEAR, .m = 7, .n = 13, .k = 37, .bias = 1, .residual = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
    {"odd, many rows, everything", LINEAR, .m = 201, .n = 77, .k = 131, .apart = 3, .bias = 1, .residual = 1, .norm = 1,
     .act = MX_ACT_GELU_TANH},
    {"few rows", LINEAR, .m = 40, .n = 384, .k = 384, .bias = 1, .norm = 1},
    {"few rows, strided, two more", LINEAR, .m = 33, .n = 384, .k = 1536, .apart = 2, .residual = 1},
    {"few rows, in phases", LINEAR, .m = 64, .n = 200, .k = 5120, .bias = 1},
    {"few rows, short, of many columns", LINEAR, .m = 40, .n = 20000, .k = 256, .bias = 1},
    {"weights of f32", LINEAR, .m = 150, .n = 130, .k = 300, .typed = 1, .dtypes = {MXW_F32}, .bias = 1},
    {"weights of bf16", LINEAR, .m = 20, .n = 130, .k = 300, .typed = 1, .dtypes = {MXW_BF16}, .bias = 1},
    {"weights stacked", LINEAR, .m = 150, .n = 130, .k = 96, .sources = 3},
    {"weights stacked, of several types", LINEAR, .m = 99, .n = 131, .k = 96, .sources = 3,
     .typed = 1, .dtypes = {MXW_F16, MXW_F32, MXW_BF16}},
    {"a weight that is not packed", LINEAR, .m = 99, .n = 64, .k = 100, .plain_weight = 1},
    {"a residual for all", LINEAR, .m = 300, .n = 96, .k = 64, .residual = 1, .residual_rows = 50},
    {"large values", LINEAR, .m = 100, .n = 64, .k = 200, .scale = 2e5f},
    {"small values", LINEAR, .m = 100, .n = 64, .k = 200, .scale = 1e-3f},
    {"convolution, odd", CONV, .m = 50, .n = 30, .k = 7, .entries = 3, .taps = 3, .stride = 1, .bias = 1,
     .act = MX_ACT_GELU_ERF},
    {"convolution, 5 wide, by 2, few rows", CONV, .m = 10, .n = 30, .k = 16, .entries = 2, .taps = 5, .stride = 2},
    {"convolution, taps 2 apart", CONV, .m = 50, .n = 30, .k = 7, .entries = 3, .taps = 3, .stride = 1, .dilation = 2,
     .bias = 1},
    {"convolution, taps 5 apart, by 2", CONV, .m = 400, .n = 130, .k = 64, .entries = 4, .taps = 3, .stride = 2,
     .dilation = 5, .bias = 1, .act = MX_ACT_GELU_ERF},
    {"convolution, taps 3 apart, plain", CONV, .m = 40, .n = 33, .k = 16, .entries = 2, .taps = 4, .stride = 1,
     .dilation = 3, .plain_weight = 1},
    {"conv1 of tiny", CONV, .m = 3000, .n = 384, .k = 80, .entries = 3, .taps = 3, .stride = 1, .bias = 1,
     .act = MX_ACT_GELU_ERF},
    {"conv2 of tiny", CONV, .m = 1500, .n = 384, .k = 384, .entries = 2, .taps = 3, .stride = 2, .bias = 1,
     .act = MX_ACT_GELU_ERF, .residual = 1, .residual_rows = 1500},
    {"qkv of tiny", LINEAR, .m = 3000, .n = 1152, .k = 384, .bias = 1, .norm = 1, .sources = 3},
    {"out of tiny", LINEAR, .m = 3000, .n = 384, .k = 384, .bias = 1, .residual = 1},
    {"out of tiny, many windows", LINEAR, .m = 9000, .n = 384, .k = 384, .bias = 1, .residual = 1},
    {"fc1 of tiny", LINEAR, .m = 3000, .n = 1536, .k = 384, .bias = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
    {"fc2 of tiny", LINEAR, .m = 3000, .n = 384, .k = 1536, .bias = 1, .residual = 1},
    {"vocabulary of tiny", LINEAR, .m = 70, .n = 51864, .k = 384, .norm = 1},
    {"normed, all but even", LINEAR, .m = 333, .n = 132, .k = 100, .bias = 1, .norm = 1, .residual = 1,
     .act = MX_ACT_GELU_ERF},
    {"normed, a residual for all", LINEAR, .m = 300, .n = 160, .k = 64, .norm = 1, .residual = 1, .residual_rows = 50},
    {"normed, very long", LINEAR, .m = 130, .n = 96, .k = 1664, .norm = 1},
    {"qkv of large", LINEAR, .m = 450, .n = 3840, .k = 1280, .bias = 1, .norm = 1, .sources = 3},
    {"out of large", LINEAR, .m = 1501, .n = 1280, .k = 1280, .bias = 1, .residual = 1},
    {"fc2 of large", LINEAR, .m = 150, .n = 1280, .k = 5120, .bias = 1, .residual = 1},
    {"fc2 of small", LINEAR, .m = 150, .n = 768, .k = 3072, .bias = 1, .residual = 1},
};

/* As many rows as fill every multiprocessor: kernels of their own. */
static const product huge[] = {
    {"qkv of tiny, 17 windows", LINEAR, .m = 25499, .n = 1152, .k = 384, .bias = 1, .norm = 1, .sources = 3},
    {"out of tiny, 17 windows", LINEAR, .m = 25499, .n = 384, .k = 384, .bias = 1, .residual = 1},
    {"fc1 of tiny, 17 windows", LINEAR, .m = 25499, .n = 1536, .k = 384, .bias = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
    {"qkv of base, 17 windows", LINEAR, .m = 25499, .n = 1536, .k = 512, .bias = 1, .norm = 1},
    {"out of small, 17 windows", LINEAR, .m = 25499, .n = 768, .k = 768, .bias = 1, .residual = 1},
    {"fc1 of large, 3 windows", LINEAR, .m = 4500, .n = 5120, .k = 1280, .bias = 1, .norm = 1,
     .act = MX_ACT_GELU_ERF},
    {"conv1 of tiny, 9 windows", CONV, .m = 3000, .n = 384, .k = 80, .entries = 9, .taps = 3, .stride = 1, .bias = 1,
     .act = MX_ACT_GELU_ERF},
    {"conv2 of tiny, 8 windows", CONV, .m = 1500, .n = 384, .k = 384, .entries = 8, .taps = 3, .stride = 2, .bias = 1,
     .act = MX_ACT_GELU_ERF, .residual = 1, .residual_rows = 1500},
    {"qkv of small, 17 windows", LINEAR, .m = 25499, .n = 2304, .k = 768, .bias = 1, .norm = 1},
    {"qkv of tiny, windows", LINEAR, .m = 1500, .entries = 18, .n = 1152, .k = 384, .bias = 1, .norm = 1, .sources = 3},
    {"fc1 of small, windows", LINEAR, .m = 1500, .entries = 13, .n = 3072, .k = 768, .bias = 1, .norm = 1,
     .act = MX_ACT_GELU_ERF},
    {"qkv of large, windows", LINEAR, .m = 1500, .entries = 9, .n = 3840, .k = 1280, .bias = 1, .norm = 1,
     .sources = 3},
    {"out of large, windows", LINEAR, .m = 1500, .entries = 18, .n = 1280, .k = 1280, .bias = 1, .residual = 1},
    {"fc1 of large, windows", LINEAR, .m = 1500, .entries = 6, .n = 5120, .k = 1280, .bias = 1, .norm = 1,
     .act = MX_ACT_GELU_ERF},
    {"fc2 of large, windows", LINEAR, .m = 1500, .entries = 7, .n = 1280, .k = 5120, .bias = 1, .residual = 1},
    {"large values", LINEAR, .m = 25499, .n = 512, .k = 384, .scale = 2e5f},
};

static const product pairs[][2] = {
    {{"fc1 of tiny", LINEAR, .m = 25499, .n = 1536, .k = 384, .bias = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
     {"fc2 of tiny", LINEAR, .m = 25499, .n = 384, .k = 1536, .bias = 1, .residual = 1}},
    {{"fc1 of base", LINEAR, .m = 25499, .n = 2048, .k = 512, .bias = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
     {"fc2 of base", LINEAR, .m = 25499, .n = 512, .k = 2048, .bias = 1, .residual = 1}},
    {{"fc1 of large", LINEAR, .m = 1500, .entries = 7, .n = 5120, .k = 1280, .bias = 1, .norm = 1,
      .act = MX_ACT_GELU_ERF},
     {"fc2 of large", LINEAR, .m = 1500, .entries = 7, .n = 1280, .k = 5120, .bias = 1, .residual = 1}},
    {{"conv1 of tiny", CONV, .m = 3000, .n = 384, .k = 80, .entries = 9, .taps = 3, .stride = 1, .bias = 1,
      .act = MX_ACT_GELU_ERF},
     {"conv2 of tiny", CONV, .m = 1500, .n = 384, .k = 384, .entries = 9, .taps = 3, .stride = 2, .bias = 1,
      .act = MX_ACT_GELU_ERF, .residual = 1, .residual_rows = 1500}},
    {{"short convolutions", CONV, .m = 22, .n = 384, .k = 80, .entries = 1201, .taps = 3, .stride = 1, .bias = 1,
      .act = MX_ACT_GELU_ERF},
     {"the next", CONV, .m = 11, .n = 128, .k = 384, .entries = 1201, .taps = 3, .stride = 2, .bias = 1}},
    {{"few rows", LINEAR, .m = 40, .n = 1536, .k = 384, .bias = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
     {"few rows", LINEAR, .m = 40, .n = 384, .k = 1536, .bias = 1, .residual = 1}},
};

static const product brief_products[] = {
    {"odd, everything", LINEAR, .m = 7, .n = 13, .k = 37, .bias = 1, .residual = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
    {"few rows", LINEAR, .m = 40, .n = 128, .k = 128, .bias = 1, .norm = 1},
    {"few rows, long", LINEAR, .m = 40, .n = 64, .k = 3072, .bias = 1},
    {"weights of f32", LINEAR, .m = 150, .n = 130, .k = 300, .typed = 1, .dtypes = {MXW_F32}, .bias = 1},
    {"a weight that is not packed", LINEAR, .m = 99, .n = 64, .k = 100, .plain_weight = 1},
    {"wide", LINEAR, .m = 400, .n = 128, .k = 320, .bias = 1, .residual = 1},
    {"ready", LINEAR, .m = 400, .n = 160, .k = 320, .bias = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
    {"convolution", CONV, .m = 50, .n = 32, .k = 16, .entries = 3, .taps = 3, .stride = 1, .bias = 1,
     .act = MX_ACT_GELU_ERF},
    {"very many rows, short", LINEAR, .m = 25499, .n = 512, .k = 384, .bias = 1, .norm = 1},
    {"very many rows, long", LINEAR, .m = 25499, .n = 384, .k = 832, .bias = 1, .residual = 1},
};

static const product brief_pairs[][2] = {
    {{"conv1", CONV, .m = 22, .n = 384, .k = 80, .entries = 1201, .taps = 3, .stride = 1, .bias = 1,
      .act = MX_ACT_GELU_ERF},
     {"conv2", CONV, .m = 11, .n = 128, .k = 384, .entries = 1201, .taps = 3, .stride = 2, .bias = 1}},
    {{"first", LINEAR, .m = 25499, .n = 384, .k = 256, .bias = 1, .norm = 1, .act = MX_ACT_GELU_ERF},
     {"second", LINEAR, .m = 25499, .n = 128, .k = 384, .bias = 1, .residual = 1}},
    /* what the first would hand on is for attention: not to be taken by a product */
    {{"without activation", LINEAR, .m = 25499, .n = 384, .k = 256, .bias = 1, .norm = 1},
     {"behind it", LINEAR, .m = 25499, .n = 128, .k = 384, .bias = 1}},
};

static void check_all(const product *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (int f16 = 0; f16 < 2; f16++) {
            product p = list[i];
            p.precision = f16 ? MXW_PRECISION_F16 : MXW_PRECISION_EXACT;
            check(&p);
        }
}

static void check_pairs(const product (*list)[2], size_t n) {
    for (size_t i = 0; i < n; i++)
        for (int f16 = 0; f16 < 2; f16++) {
            product one = list[i][0], two = list[i][1];
            one.precision = two.precision = f16 ? MXW_PRECISION_F16 : MXW_PRECISION_EXACT;
            check_output_layout(&one, &two);
        }
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* The packed bytes of a weight [n][k][taps] of f16 or f32. */
static char *packed(const mx_tensor *view, size_t *bytes) {
    mx_attrs attrs = {0};
    mx_weight_use use = {view->rank == 3 ? MX_OP_FUSED_CONV1D : MX_OP_FUSED_LINEAR, &attrs, 1, view, 1,
                         MXW_PRECISION_EXACT};
    *bytes = gpu->packing(gpu, &use).bytes;
    char *block = on_gpu(*bytes), *host = (char *)on_host((int64_t)(*bytes / sizeof(float)));
    if (!CHECK(gpu->pack(gpu, &use, block, NULL) >= 0 && gpu->download(gpu, host, block, *bytes) >= 0))
        printf("    packing: %s\n", mx_error());
    return host;
}

/* A weight packs to the same bytes however its axes lie in memory: `order` from the outermost on, with a gap after each
 * run of the innermost. */
static void check_packing(mxw_dtype dtype, int rank, const int64_t *dims, const int *order, int64_t gap) {
    int64_t strides[3] = {0}, expected = 1, count = dims[0] * dims[1] * (rank == 3 ? dims[2] : 1);
    size_t each = mx_dtype_bytes(dtype), dense_bytes, bytes;
    for (int i = rank - 1; i >= 0; i--) {
        strides[order[i]] = expected;
        expected = expected * dims[order[i]] + (i == rank - 1 ? gap : 0);
    }
    char *dense = (char *)random_floats(count, 1), *moved = (char *)on_host(expected);
    for (int64_t i = 0; i < count && dtype == MXW_F16; i++)
        ((uint16_t *)(void *)dense)[i] = mx_f32_to_f16(random_float());
    mx_tensor view = mx_tensor_of(dtype, rank, dims, dense), other = view;
    other.data = moved;
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, at = 0;
        for (int axis = rank - 1; axis >= 0; rest /= dims[axis--])
            at += rest % dims[axis] * strides[axis];
        memcpy(moved + (size_t)at * each, dense + (size_t)i * each, each);
    }
    memcpy(other.strides, strides, sizeof(strides));
    const char *a = packed(&view, &dense_bytes), *b = packed(&other, &bytes);
    if (!CHECK(bytes == dense_bytes && memcmp(a, b, bytes) == 0))
        printf("    packing [%lld, %lld], order %d %d, gap %lld\n", (long long)dims[0], (long long)dims[1], order[0],
               order[1], (long long)gap);
    done();
}

static void check_packings(void) {
    /* the last of each goes in parts */
    static const int64_t matrices[][2] = {{384, 1536}, {37, 13}, {1, 40}, {40, 1}, {3000, 1280}};
    static const int64_t convolutions[][3] = {{384, 80, 3}, {5, 7, 1}, {900, 900, 3}};
    static const int orders[][3] = {{0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int type = 0; type < 2; type++)
        for (int64_t gap = 0; gap < 2; gap++) {
            mxw_dtype dtype = type ? MXW_F32 : MXW_F16;
            for (size_t i = 0; i < MX_COUNT(matrices); i++)
                for (int order = 0; order < 2; order++)
                    check_packing(dtype, 2, matrices[i], orders[order], gap);
            for (size_t i = 0; i < MX_COUNT(convolutions); i++)
                for (size_t order = 0; order < MX_COUNT(orders); order++)
                    check_packing(dtype, 3, convolutions[i], orders[order], gap);
        }
}

int main(int argc, char **argv) {
    brief = argc > 1 && strcmp(argv[1], "brief") == 0;
    if (mx_device_find("cuda", &gpu) < 0) {
        printf("SKIP: gpu-gemm: %s\n", mx_error());
        return 77;
    }
    check_packings();
    if (brief) {
        check_all(brief_products, MX_COUNT(brief_products));
        check_pairs(brief_pairs, MX_COUNT(brief_pairs));
    } else {
        check_all(products, MX_COUNT(products));
        check_all(huge, MX_COUNT(huge));
        check_pairs(pairs, MX_COUNT(pairs));
    }
    return check_done();
}
