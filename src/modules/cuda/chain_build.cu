/* modules/cuda/chain_build.cu - makes a chain (chain.cuh) of the calls that a recording sees together: as many of them,
 * from the first on, as are of the kinds that a chain has, for the same few rows. What does not fit runs as it would
 * without chains. */
#include <string.h>

#include "modules/cuda/chain.cuh"

#define LEAST_PHASES 4            /* fewer are not worth a chain */
#define SHARED_BESIDES 2048       /* bytes of shared memory that the kernel has of its own */
#define MOST_TILES MX_WARP        /* of keys: a lane has one when they are joined */

struct builder {
    mx_long_chain chain;
    int x_parts, w_parts;         /* of all products; 0: none yet */
    const mx_call *selection;     /* whose logits are the last phase */
};

static mx_chain_phase *add_phase(builder *b, int kind) {
    mx_chain_phase *phase = &b->chain.at[b->chain.n++];
    phase->kind = kind;
    return phase;
}

/* Whether a call with so many rows can join those before. */
static int fits_rows(builder *b, int64_t rows) {
    if (b->chain.n == 0 && rows > 0 && rows <= MX_CHAIN_ROWS)
        b->chain.rows = (int)rows;
    return rows == b->chain.rows && rows > 0;
}

static int same_or_new(const int32_t **known, const int32_t *data) {
    if (!*known)
        *known = data;
    return *known == data;
}

/* ---- what a call becomes; each returns how many calls it took ---------------------------------------------------- */

static size_t add_embedding(builder *b, const mx_call *const *calls, size_t n) {
    if (!mx_cuda_is_embedding(calls, n) || !fits_rows(b, calls[0]->outputs[0].dims[0]))
        return 0;
    mx_chain_tables *t = &add_phase(b, MX_CHAIN_TABLES)->tables;
    t->y = (float *)calls[2]->outputs[0].data;
    t->to_a = (float *)calls[0]->outputs[0].data;
    t->to_b = (float *)calls[1]->outputs[0].data;
    t->a = mx_table_of(calls[0]);
    t->b = mx_table_of(calls[1]);
    t->n = (int)calls[0]->outputs[0].dims[1];
    return 3;
}

static size_t add_gather(builder *b, const mx_call *call) {
    if (!mx_cuda_fast_gather_takes(call) || !fits_rows(b, mx_cuda_count(&call->inputs[1])))
        return 0;
    mx_chain_tables *t = &add_phase(b, MX_CHAIN_TABLES)->tables;
    t->y = (float *)call->outputs[0].data;
    t->a = mx_table_of(call);
    t->n = (int)call->inputs[0].dims[1];
    return 1;
}

/* Keys and values that the product makes, written to caches right behind it. */
static size_t add_writes(builder *b, mx_chain_product *of, const mx_call *const *calls, size_t n) {
    if (!mx_cuda_is_writes(calls, n))
        return 0;
    const mx_cuda_fused &f = of->p.f;
    int64_t width = calls[0]->inputs[1].dims[1], from[2];
    for (int i = 0; i < 2; i++) {
        const mx_tensor *state = &calls[i]->inputs[0], *x = &calls[i]->inputs[1];
        from[i] = (const float *)x->data - f.y;
        if (x->rank != 2 || x->dims[0] != f.m || x->strides[0] != f.ldy || from[i] < 0 || from[i] % 2 || width % 2 ||
            from[i] + width > f.n || state->rank != 2 || state->dims[1] != width)
            return 0;
    }
    if (!same_or_new(&b->chain.known.cell, (const int32_t *)calls[0]->inputs[2].data))
        return 0;
    of->width = (int)width;
    for (int i = 0; i < 2; i++) {
        of->from[i] = (int)from[i];
        of->cache[i] = (float *)calls[i]->inputs[0].data;
    }
    return 2;
}

static int takes_product(const mx_product &p) {
    return p.quad_x && p.f.k > 0 && p.f.k % 64 == 0 && p.f.positions == 0 && !p.f.weight.fresh &&
           (!p.f.residual || p.f.residual_rows == p.f.m) && p.chunks <= MX_CHAIN_CHUNKS && p.f.m <= MX_CHAIN_ROWS &&
           (uintptr_t)p.f.weight.bytes % 16 == 0;
}

static size_t add_product(builder *b, const mx_call *const *calls, size_t n) {
    mx_cuda_fused f;
    if (!mx_cuda_fused_of(calls[0], &f) || !fits_rows(b, f.m))
        return 0;
    mx_product p = mx_product_of(&f);
    int half = f.precision == MXW_PRECISION_F16, x_parts = half ? 1 : 2, w_parts = half ? 1 : f.weight.parts;
    if (!takes_product(p) || !p.even_y || f.n % 8 || (b->w_parts && b->w_parts != w_parts) ||
        (b->x_parts && b->x_parts != x_parts))
        return 0;
    b->x_parts = x_parts;
    b->w_parts = w_parts;
    mx_chain_product *product = &add_phase(b, MX_CHAIN_PRODUCT)->product;
    product->p = p;
    return 1 + add_writes(b, product, calls + 1, n - 1);
}

/* The logits of a selection, which is the last of a chain. */
static int takes_logits(const mx_product &p) {
    return !p.f.bias && !p.f.residual && p.f.ldy >= p.tiles * 8 && p.f.ldy % 2 == 0 && (uintptr_t)p.f.y % 8 == 0;
}

static size_t add_logits(builder *b, const mx_call *call) {
    mx_cuda_fused f;
    if (!mx_cuda_logits_of(call, &f) || !fits_rows(b, f.m))
        return 0;
    mx_product p = mx_product_of(&f);
    int half = f.precision == MXW_PRECISION_F16, x_parts = half ? 1 : 2, w_parts = half ? 1 : f.weight.parts;
    if (!takes_product(p) || !takes_logits(p) || b->w_parts != w_parts || b->x_parts != x_parts)
        return 0;
    add_phase(b, MX_CHAIN_PRODUCT)->product.p = p;
    b->selection = call;
    return 1;
}

/* Whether the chain writes to the memory, which a phase would read before blocks have met. */
static int is_written(const builder *b, const void *memory) {
    int found = 0;
    for (int i = 0; i < b->chain.n; i++)
        if (b->chain.at[i].kind == MX_CHAIN_PRODUCT)
            found |= b->chain.at[i].product.cache[0] == memory || b->chain.at[i].product.cache[1] == memory;
    return found;
}

static size_t add_attention(builder *b, const mx_cuda *gpu, const mx_call *call) {
    if (!mx_cuda_rows_attention_takes(call) || !fits_rows(b, call->inputs[0].dims[0]))
        return 0;
    rows_job job = mx_rows_job_of(gpu, call);
    mx_chain_known *known = &b->chain.known;
    if (job.tiles > MOST_TILES || job.heads == 0)
        return 0;
    if (call->op == MX_OP_ATTENTION_CACHED) {
        if (!same_or_new(&known->seq, job.seq) || !same_or_new(&known->pos, job.pos))
            return 0;
        add_phase(b, MX_CHAIN_CACHED)->attention = job;
        return 1;
    }
    if (!same_or_new(&known->window, job.window) || is_written(b, job.k) || is_written(b, job.v))
        return 0;
    add_phase(b, MX_CHAIN_WINDOW)->attention = job;
    add_phase(b, MX_CHAIN_JOIN)->attention = job;
    return 1;
}

static size_t add_calls(builder *b, const mx_cuda *gpu, const mx_call *const *calls, size_t n) {
    if (b->chain.n + 2 > MX_CHAIN_MOST)
        return 0;
    switch (calls[0]->op) {
    case MX_OP_GATHER: {
        size_t taken = add_embedding(b, calls, n);
        return taken ? taken : add_gather(b, calls[0]);
    }
    case MX_OP_FUSED_LINEAR: return add_product(b, calls, n);
    case MX_OP_ATTENTION_CACHED:
    case MX_OP_ATTENTION_WINDOW: return add_attention(b, gpu, calls[0]);
    case MX_OP_FUSED_SELECT: return add_logits(b, calls[0]);
    default: return 0;
    }
}

/* ---- shared memory ----------------------------------------------------------------------------------------------- */

static int product_work(const mx_product &p, int x_parts) {
    return p.blocks * 4 * x_parts * MX_WARP * (int)sizeof(uint4) + 2 * MX_CHAIN_ITEMS * MX_CHAIN_SUM;
}

static int attention_work(const mx_chain_phase &phase, int rows) {
    const int teams = 2;
    int floats = phase.kind == MX_CHAIN_CACHED ? ROWS_PAD(1) + phase.attention.tiles * PART : ROWS_PAD(rows);
    return teams * floats * (int)sizeof(float);
}

struct division {
    int rows, n, blocks, x_parts, w_parts;
    int ring_bytes, work_bytes;
};

static int work_of(const mx_chain_phase &phase, const division *d) {
    switch (phase.kind) {
    case MX_CHAIN_PRODUCT: return product_work(phase.product.p, d->x_parts);
    case MX_CHAIN_CACHED:
    case MX_CHAIN_WINDOW: return attention_work(phase, d->rows);
    default: return 0;
    }
}

/* How the shared memory is divided, and the tiles of products among blocks; whether there is enough. */
static int divide(const mx_cuda *gpu, mx_chain_phase *phases, division *d) {
    for (int i = 0; i < d->n; i++)
        d->work_bytes = MX_MAX(d->work_bytes, work_of(phases[i], d));
    d->work_bytes = (d->work_bytes + 1023) / 1024 * 1024;
    d->ring_bytes = (gpu->shared_bytes - SHARED_BESIDES - d->n * (int)sizeof(mx_chain_phase) - d->work_bytes) / 1024 *
                    1024;
    for (int i = 0; i < d->n; i++) {
        mx_chain_product *product = &phases[i].product;
        if (phases[i].kind != MX_CHAIN_PRODUCT)
            continue;
        const mx_product &p = product->p;
        int tile = p.blocks * d->w_parts * 1024;
        product->group = MX_MIN(MX_CHAIN_WARPS, MX_MIN(MX_CHAIN_ITEMS / p.chunks, MX_MAX(d->ring_bytes, 0) / 2 / tile));
        if (product->group == 0)
            return 0;
        product->share = p.tiles / d->blocks;
        product->longer = p.tiles % d->blocks;
        for (int chunk = 0; chunk <= p.chunks; chunk++)
            product->starts[chunk] = (uint8_t)(chunk * p.blocks / p.chunks);
    }
    return 1;
}

/* ---- doors ------------------------------------------------------------------------------------------------------- */

size_t mx_cuda_take_chain(mx_cuda *gpu, const mx_call *const *calls, size_t n, mxw_status *status) {
    if (!mx_product_is_wide(gpu) || !gpu->overlaps)
        return 0;
    builder b;
    size_t taken = 0, more;
    memset(&b, 0, sizeof(b));
    while (taken < n && !b.selection && (more = add_calls(&b, gpu, calls + taken, n - taken)) > 0)
        taken += more;
    b.chain.blocks = (int)gpu->device.info.cores;
    division d = {b.chain.rows, b.chain.n, b.chain.blocks, b.x_parts, b.w_parts, 0, 0};
    b.chain.met = gpu->arrivals + MX_CUDA_ARRIVALS - 2;
    if (b.chain.n < LEAST_PHASES || b.w_parts == 0 || !divide(gpu, b.chain.at, &d))
        return 0;
    b.chain.ring_bytes = d.ring_bytes;
    b.chain.work_bytes = d.work_bytes;
    mx_chain_run(gpu, b.chain, b.x_parts, b.w_parts);
    *status = mx_cuda_launched(gpu, calls[0]);
    if (*status >= 0 && b.selection)
        *status = mx_cuda_select_logits(gpu, b.selection);
    return taken;
}

int mx_chain_one_product(mx_cuda *gpu, const mx_product &p) {
    mx_short_chain chain;
    int half = p.f.precision == MXW_PRECISION_F16, x_parts = half ? 1 : 2, w_parts = half ? 1 : p.f.weight.parts;
    if (!mx_product_is_wide(gpu) || !gpu->overlaps || !takes_product(p) ||
        p.tiles < 4 * (int)gpu->device.info.cores || !takes_logits(p))
        return 0;
    memset(&chain, 0, sizeof(chain));
    chain.rows = (int)p.f.m;
    chain.n = 1;
    chain.blocks = (int)gpu->device.info.cores;
    chain.at[0].kind = MX_CHAIN_PRODUCT;
    chain.at[0].product.p = p;
    division d = {chain.rows, 1, chain.blocks, x_parts, w_parts, 0, 0};
    if (!divide(gpu, chain.at, &d))
        return 0;
    chain.ring_bytes = d.ring_bytes;
    chain.work_bytes = d.work_bytes;
    mx_chain_run(gpu, chain, x_parts, w_parts);
    return 1;
}
