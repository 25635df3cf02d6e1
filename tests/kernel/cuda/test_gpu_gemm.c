/* test_gpu_gemm.c - the compiled GEMMs of a GPU through its function table, weights packed by it, against f64 sums:
 * every optional input present and absent, strided rows, stacked weights of several types, both precisions, sizes from
 * one to those of released models. Then the bits: a row's are the same alone, among few and among many, and whether it
 * passes from GEMM to GEMM as f32 or in the MMA operand layout. A weight packs to the same bytes however it lies in
 * memory. In 8 bits: integers against the CPU, to the bit where both have the same rows; 8-bit floats against f64 sums
 * of factors rounded here.
 * usage: test_gpu_gemm [brief]: only sizes that reach each kernel once, for tools that take much longer.
 * Skipped where there is no CUDA device. */
#include "base/base.h"
#include "device/device.h"

#include <math.h>

#include "gemm_products.h"
#include "kit/check.h"

static const mx_device *gpu, *cpu;
static mx_pool *pool;
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

/* Memory as the CPU device wants it. */
static void *cpu_block(size_t bytes) {
    float *block = on_host((int64_t)(bytes / sizeof(float)) + 32);
    return (char *)block + (64 - (uintptr_t)block % 64) % 64;
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

typedef struct given {
    int64_t rows, k, ldx, ld_residual, residual_rows, positions;
    float *x, *bias, *residual, *gamma, *beta;
    float *w;                   /* [n][k]: what the packed weight stands for */
    mx_tensor weight;           /* on the GPU */
    mx_tensor on_cpu;           /* the same weight as the CPU packs it, in integers */
    int64_t n;
    void *gpu_x, *gpu_bias, *gpu_residual, *gpu_gamma, *gpu_beta;
} given;

/* ---- 8 bits ------------------------------------------------------------------------------------------------------ */

static float rounded_e4m3(float x) { return mx_f8_to_f32(mx_f32_to_f8(x)); }

/* As it is packed: a column scaled by its largest element. */
static void round_weight(const product *p, given *g) {
    for (int64_t column = 0; column < p->n; column++) {
        float *w = g->w + column * g->k, largest = 0;
        for (int64_t i = 0; i < g->k; i++)
            largest = MX_MAX(largest, fabsf(w[i]));
        float step = 448 / largest, scale = largest / 448;
        for (int64_t i = 0; i < g->k && largest > 0; i++)
            w[i] = rounded_e4m3(w[i] * step) * scale;
    }
}

static void pack_on_cpu(const mx_weight_use *use, given *g) {
    CHECK(mx_device_find("cpu", &cpu) >= 0 && cpu->form(cpu, use) == MX_FORM_PACKED);
    g->on_cpu = mx_tensor_of(MXW_F32, 2, (int64_t[]){g->n, g->k}, NULL);
    g->on_cpu.layout = MX_LAYOUT_PACKED;
    g->on_cpu.packing = cpu->packing(cpu, use);
    g->on_cpu.data = cpu_block(g->on_cpu.packing.bytes);
    CHECK(cpu->pack(cpu, use, g->on_cpu.data, pool) >= 0);
}

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
    attrs.act = p->act;
    mx_weight_use use = {p->op, &attrs, 1, sources, n_sources, p->precision, 1500};
    g->weight = mx_tensor_of(MXW_F32, p->op == MX_OP_FUSED_CONV1D ? 3 : 2, all, NULL);
    if (p->plain_weight) {
        g->weight = mx_tensor_of(MXW_F32, g->weight.rank, all, uploaded(sources[0].data, mx_tensor_bytes(&sources[0])));
        return;
    }
    if (p->precision == MXW_PRECISION_INT8)
        pack_on_cpu(&use, g);
    if (p->precision == MXW_PRECISION_F8)
        round_weight(p, g);
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
    given g = {.rows = p->m * MX_MAX(p->entries, 1), .k = p->k * MX_MAX(p->taps, 1), .n = p->n};
    int conv = p->op == MX_OP_FUSED_CONV1D;
    float scale = p->scale != 0 ? p->scale : 1;
    g.ldx = p->k + p->apart;
    g.positions = conv ? (p->m - 1) * p->stride + (p->taps - 1) * apart(p) + 1 - 2 * (p->taps / 2) : 0;
    int64_t x_count = (conv ? p->entries * g.positions * p->k : g.rows * g.ldx) + 1;
    g.x = random_floats(x_count, scale);
    for (int64_t i = 0; i < x_count && p->precision == MXW_PRECISION_INT8; i++)   /* what passes from call to call */
        g.x[i] = mx_f16_to_f32(mx_f32_to_f16(g.x[i] / 16)) * 16;
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
        double x = x_at(p, g, row, k, norm);
        double term = (p->precision == MXW_PRECISION_F8 ? rounded_e4m3((float)x) : x) * g->w[column * g->k + k];
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
static double bound_of(const product *p) {
    switch (p->precision) {
    case MXW_PRECISION_EXACT: return 6e-7;
    case MXW_PRECISION_F16: return 6e-4;
    case MXW_PRECISION_INT8: return 2e-2;   /* rows and columns rounded to 1 part in 255 of their largest */
    default: return 1e-3;                   /* f8: of rounded factors; sums of 14 bits */
    }
}

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
           mx_precision_name(p->precision), worst, unwritten ? ", NOT ALL WRITTEN" : "");
}

/* The same call on the CPU: the same bits, but where a norm or an activation was computed before or after, by other
 * code: there few rows have other numbers, and those next to the same. */
static void check_cpu(const product *p, const given *g, const float *y) {
    asked a;
    int64_t count = p->entries ? 1 : MX_MIN(g->rows, 200), rows = p->entries ? p->m : count, others = 0;
    double worst = 0;
    ask(p, g, 0, count, &a);
    const float *host[] = {g->x, NULL, g->bias, g->residual, g->gamma, g->beta};
    for (int i = 0; i < 6; i++)
        if (a.in[i].data)
            a.in[i].data = (void *)(uintptr_t)host[i];
    a.in[1] = g->on_cpu;
    a.out.data = cpu_block((size_t)(rows * p->n) * sizeof(float));
    a.call.pool = pool;
    a.call.scratch = cpu_block(cpu->scratch_bytes(cpu, &a.call));
    if (!CHECK(cpu->run_op(cpu, &a.call) >= 0))
        printf("    %s: %s\n", p->what, mx_error());
    const float *want = a.out.data;
    for (int64_t i = 0; i < rows * p->n; i++) {
        double error = fabs(y[i] - want[i]);
        others += y[i] != want[i];
        worst = error <= worst ? worst : error;
    }
    int same = !p->norm && !p->act;
    int ok = same ? CHECK(others == 0) : CHECK(worst <= 2e-3 * sqrt((double)p->k)) & CHECK(!isnan(worst));
    printf("%s %-34s as on the CPU: %lld of %lld differ, by at most %.2g\n", ok ? "ok  " : "FAIL", p->what,
           (long long)others, (long long)(rows * p->n), worst);
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
    if (p->precision == MXW_PRECISION_INT8)
        check_cpu(p, &g, y);
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
    printf("%s, %s %s: %s\n", one->what, two->what, mx_precision_name(one->precision),
           bytes ? "device layout" : "f32 between them");
    done();
}

static void check_8(void) {
    for (mxw_precision precision = MXW_PRECISION_INT8; precision <= MXW_PRECISION_F8; precision++) {
        if (!gpu->supports_precision(gpu, precision)) {
            printf("%s: not on this GPU\n", mx_precision_name(precision));
            continue;
        }
        for (size_t i = 0; i < (brief ? 5 : MX_COUNT(products8)); i++) {
            product p = products8[i];
            p.precision = precision;
            check(&p);
        }
        for (size_t i = brief ? 2 : 0; i < MX_COUNT(pairs8); i++) {
            product one = pairs8[i][0], two = pairs8[i][1];
            one.precision = two.precision = precision;
            check_output_layout(&one, &two);
        }
    }
}

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
    if (mx_device_find("cuda", &gpu) < 0 || gpu->open(gpu) < 0) {
        printf("SKIP: gpu-gemm: %s\n", mx_error());
        return 77;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (mx_pool_open(0, &pool) < 0)
        return 1;
    check_packings();
    check_8();
    if (brief) {
        check_all(brief_products, MX_COUNT(brief_products));
        check_pairs(brief_pairs, MX_COUNT(brief_pairs));
    } else {
        check_all(products, MX_COUNT(products));
        check_all(huge, MX_COUNT(huge));
        check_pairs(pairs, MX_COUNT(pairs));
    }
    mx_pool_close(pool);
    return check_done();
}
