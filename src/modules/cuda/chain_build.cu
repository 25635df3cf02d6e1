/* modules/cuda/chain_build.cu - makes a chain (chain.cuh) of the calls that a recording sees together: of all of them,
 * or up to a selection, if they are of the kinds that a chain has, for the same few rows. If they are not, or are too
 * large or too many, they run as they would without chains: that is faster than a chain of some of them. */
#include <string.h>

#include "modules/cuda/chain.cuh"

#define LEAST_PHASES 4            /* fewer are not worth a chain */
#define MOST_TILES MX_WARP        /* of keys: a lane has one when they are joined */
#define SIGN_STEP 64              /* values from one place of a sign to the next */

/* What a phase leaves to those behind it. */
struct result {
    const float *y;               /* where it would be without chains */
    int64_t ld;
    int n;
    const mx_told *told;
    mx_chain_sign sign, before;   /* of these values, and of what they are made of */
    int phase;
    int whole, split;             /* how it is told: as floats, as parts; neither: by a product that nobody heard yet */
};

struct builder {
    mx_long_chain chain;
    mx_chain_phase at[MX_CHAIN_MOST];
    result results[MX_CHAIN_MOST];
    mx_told *told;                /* values for the next phase ... */
    size_t left;                  /* ... and how many there are */
    int x_parts, w_parts;         /* of all products; 0: none yet */
    const mx_call *selection;     /* the last call; behind the chain, if the chain does not have it */
    int selects;
};

static mx_chain_phase *add_phase(builder *b, int kind) {
    mx_chain_phase *phase = &b->at[b->chain.n++];
    phase->kind = kind;
    return phase;
}

/* Values for rows of n; NULL if there are no more. */
static mx_told *take_told(builder *b, size_t n) {
    size_t count = (n * (size_t)b->chain.rows + 15) / 16 * 16;
    if (count > b->left)
        return NULL;
    mx_told *at = b->told;
    b->told += count;
    b->left -= count;
    return at;
}

static mx_chain_sign sign_of(const mx_told *told, int n, int step) {
    mx_chain_sign sign = {told, 1, step};
    while (sign.n * 2 * step <= n)
        sign.n *= 2;
    return sign;
}

/* The last phase's result, made of what has the sign `before`. */
static void leave_result(builder *b, const float *y, int64_t ld, int n, const mx_told *told, mx_chain_sign before) {
    int kind = b->at[b->chain.n - 1].kind;
    result r = {y, ld, n, told, sign_of(told, n * b->chain.rows, SIGN_STEP), before, b->chain.n - 1,
                kind == MX_CHAIN_TABLES, kind == MX_CHAIN_CACHED || kind == MX_CHAIN_JOIN};
    b->results[b->chain.n - 1] = r;
}

/* The result that lies there; NULL: no phase's. */
static const result *find_result(const builder *b, const float *y, int64_t ld, int n) {
    for (int i = b->chain.n - 1; i >= 0; i--) {
        const result *r = &b->results[i];
        if (r->y == y)
            return r->ld == ld && r->n == n ? r : NULL;
    }
    return NULL;
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

/* Whether it is told so, or can be. */
static int hears(builder *b, const result *of, int as_parts) {
    result *r = &b->results[of->phase];
    r->whole |= !as_parts && !r->split;
    r->split |= as_parts && !r->whole;
    b->at[of->phase].product.split = r->split;
    return as_parts ? r->split : r->whole;
}

/* ---- what a call becomes; each returns how many calls it took ---------------------------------------------------- */

static size_t add_embedding(builder *b, const mx_call *const *calls, size_t n) {
    if (!mx_cuda_is_embedding(calls, n) || !fits_rows(b, calls[0]->outputs[0].dims[0]))
        return 0;
    int64_t width = calls[0]->outputs[0].dims[1];
    mx_told *told = width < 65536 ? take_told(b, (size_t)width) : NULL;
    mx_chain_sign none = {};
    if (!told)
        return 0;
    mx_chain_tables *t = &add_phase(b, MX_CHAIN_TABLES)->tables;
    t->y = told;
    t->plain = (float *)calls[2]->outputs[0].data;
    t->to_a = (float *)calls[0]->outputs[0].data;
    t->to_b = (float *)calls[1]->outputs[0].data;
    t->a = mx_table_of(calls[0]);
    t->b = mx_table_of(calls[1]);
    t->n = (int)width;
    leave_result(b, t->plain, width, t->n, told, none);
    return 3;
}

/* Keys and values that the product makes, written to caches right behind it. */
static size_t add_writes(builder *b, mx_chain_product *of, const float *y, const mx_call *const *calls, size_t n) {
    mx_few_caches to;
    if (!mx_cuda_writes_of(calls, n, y, b->chain.rows, of->ldy, of->n, &to) ||
        !same_or_new(&b->chain.known.cell, to.cell))
        return 0;
    of->width = to.width;
    for (int i = 0; i < 2; i++) {
        of->from[i] = to.from[i];
        of->cache[i] = to.state[i];
    }
    return 2;
}

static int takes_product(const mx_product &p) {
    return mx_product_is_regular(p) && p.f.m <= MX_CHAIN_ROWS && p.f.ldy < INT32_MAX && p.f.ldx < INT32_MAX;
}

static mx_chain_product product_of(const mx_product &p) {
    mx_chain_product of = {};
    of.weight = p.f.weight.bytes;
    of.w_part = p.w_part;
    of.plain_x = p.f.x;
    of.gamma = p.f.gamma;
    of.beta = p.f.beta;
    of.bias = p.f.bias;
    of.plain = p.f.y;
    of.eps = (float)p.f.eps;
    of.n = (int)p.f.n;
    of.k = (int)p.f.k;
    of.ldx = (int)p.f.ldx;
    of.ldy = (int)p.f.ldy;
    of.act = p.f.act;
    of.tiles = p.tiles;
    of.blocks = p.blocks;
    of.chunks = p.chunks;
    of.fours = (unsigned)((((uint64_t)1 << 32) + (uint64_t)of.k / 4 - 1) / ((uint64_t)of.k / 4));
    of.each = 1;
    mx_chunk_starts(p, of.starts);
    return of;
}

/* Parts of x and of the weight: the same in all products. */
static int fits_parts(builder *b, const mx_cuda_fused &f) {
    int half = f.precision == MXW_PRECISION_F16, x_parts = half ? 1 : 2, w_parts = half ? 1 : f.weight.parts;
    if (b->w_parts && (b->w_parts != w_parts || b->x_parts != x_parts))
        return 0;
    b->x_parts = x_parts;
    b->w_parts = w_parts;
    return 1;
}

/* What the call computes, if a phase can, of results of phases before. */
static int describe_product(builder *b, const mx_call *call, mx_chain_product *of, const result **x) {
    mx_cuda_fused f;
    if (!mx_cuda_fused_of(call, &f) || !fits_rows(b, f.m))
        return 0;
    mx_product p = mx_product_of(&f);
    const result *residual = f.residual ? find_result(b, f.residual, f.ld_residual, (int)f.n) : NULL;
    if (!takes_product(p) || !p.even_y || f.n % SIGN_STEP || !fits_parts(b, f) || (f.residual && !residual))
        return 0;
    *of = product_of(p);
    *x = find_result(b, f.x, f.ldx, of->k);
    of->x = *x ? (*x)->told : NULL;
    of->residual = residual ? residual->told : NULL;
    return *x && hears(b, *x, !of->gamma) && (!residual || hears(b, residual, 0));
}

static size_t add_product(builder *b, const mx_call *const *calls, size_t n) {
    mx_chain_product product;
    const result *x;
    if (!describe_product(b, calls[0], &product, &x) || !(product.y = take_told(b, (size_t)product.n)))
        return 0;
    size_t writes = add_writes(b, &product, product.plain, calls + 1, n - 1);
    mx_chain_phase *phase = add_phase(b, MX_CHAIN_PRODUCT);
    phase->product = product;
    phase->from = x->phase;
    phase->sign = x->before;
    leave_result(b, product.plain, product.ldy, product.n, product.y, x->sign);
    return 1 + writes;
}

/* The logits of a selection, which is the last of a chain. */
static int takes_logits(const mx_product &p) {
    return !p.f.bias && !p.f.residual && p.f.act == MX_ACT_NONE && p.f.ldy >= p.tiles * 8 && p.f.ldy % 2 == 0 &&
           (uintptr_t)p.f.y % 8 == 0;
}

/* The selection itself, where each block has the logits of one range of ids. */
static void add_selection(builder *b, const mx_cuda *gpu, const mx_call *call, mx_chain_phase *logits) {
    ranged_selection of;
    if (!mx_cuda_ranged_of(gpu, call, &of) || of.ranges.n != (int)gpu->device.info.cores)
        return;
    mx_told *parts = take_told(b, (size_t)(PART_PAIRS * of.ranges.n * 2));
    if (!parts)
        return;
    mx_chain_selection s = {of, parts};
    logits->selection = add_phase(b, MX_CHAIN_CHOOSE)->selection = s;
    b->chain.known.rules = of.of.rules;
    b->selects = 1;
}

/* Of the rows that lie at x, or of those that `pick` picks of them. */
static size_t add_logits(builder *b, const mx_cuda *gpu, const mx_call *call, const float *from, const int32_t *pick) {
    mx_cuda_fused f;
    if (!mx_cuda_logits_of(call, &f) || !fits_rows(b, f.m))
        return 0;
    mx_product p = mx_product_of(&f);
    const result *x = find_result(b, from, f.ldx, (int)f.k);
    if (!takes_product(p) || !takes_logits(p) || !x || !b->w_parts || !fits_parts(b, f) || !f.gamma || !hears(b, x, 0))
        return 0;
    mx_chain_phase *phase = add_phase(b, MX_CHAIN_LOGITS);
    phase->product = product_of(p);
    phase->product.x = x->told;
    phase->product.picked = pick != NULL;
    phase->sign = x->before;
    b->chain.known.pick = pick;
    b->selection = call;
    add_selection(b, gpu, call, phase);
    return 1;
}

/* Rows of the last result, as a selection takes them. */
static size_t add_picked(builder *b, const mx_cuda *gpu, const mx_call *const *calls, size_t n) {
    const mx_tensor *table = &calls[0]->inputs[0];
    if (n < 2 || calls[1]->op != MX_OP_FUSED_SELECT || table->dtype != MXW_F32 || table->rank != 2 ||
        table->dims[0] != b->chain.rows || calls[1]->inputs[0].data != calls[0]->outputs[0].data ||
        mx_cuda_count(&calls[0]->inputs[1]) != b->chain.rows || calls[1]->inputs[0].strides[0] != table->strides[0])
        return 0;
    size_t taken =
        add_logits(b, gpu, calls[1], (const float *)table->data, (const int32_t *)calls[0]->inputs[1].data);
    return taken ? 2 : 0;
}

/* Whether the chain writes to the memory, which a phase would read without being told. */
static int is_written(const builder *b, const void *memory) {
    int found = 0;
    for (int i = 0; i < b->chain.n; i++)
        found |= b->at[i].product.cache[0] == memory || b->at[i].product.cache[1] == memory;
    return found;
}

/* Over a cache that the product of the queries wrote to. */
static size_t add_cached(builder *b, const mx_cuda *gpu, const mx_call *call) {
    if (b->chain.n == 0 || !mx_cuda_rows_attention_takes(call) || !fits_rows(b, call->inputs[0].dims[0]))
        return 0;
    rows_job job = mx_rows_job_of(gpu, call);
    const result *of = &b->results[b->chain.n - 1];
    const mx_chain_product &from = b->at[b->chain.n - 1].product;
    mx_chain_known *known = &b->chain.known;
    if (job.tiles > MOST_TILES || job.heads == 0 || job.q != of->y || job.ld_q != of->ld || from.width != job.d ||
        from.cache[0] != job.k || from.cache[1] != job.v || !same_or_new(&known->seq, job.seq) ||
        !same_or_new(&known->pos, job.pos) || !hears(b, of, 0))
        return 0;
    mx_told *told = take_told(b, (size_t)job.d);
    if (!told)
        return 0;
    mx_chain_phase *phase = add_phase(b, MX_CHAIN_CACHED);
    mx_chain_attention a = {job, of->told, of->n, from.from[0], from.from[1], NULL, told, job.y};
    phase->attention = a;
    phase->sign = of->before;
    leave_result(b, job.y, job.d, job.d, told, of->sign);
    return 1;
}

/* Queries, attention over windows, and the join of its tiles. */
static size_t add_listen(builder *b, const mx_cuda *gpu, const mx_call *const *calls, size_t n) {
    mx_chain_product product;
    const result *x;
    if (n < 2 || calls[1]->op != MX_OP_ATTENTION_WINDOW || !mx_cuda_rows_attention_takes(calls[1]) ||
        !describe_product(b, calls[0], &product, &x) || !fits_rows(b, calls[1]->inputs[0].dims[0]))
        return 0;
    rows_job job = mx_rows_job_of(gpu, calls[1]);
    if (job.tiles > MOST_TILES || job.heads == 0 || job.q != product.plain || job.ld_q != product.ldy ||
        product.n != job.d || product.residual || product.act != MX_ACT_NONE || !product.gamma ||
        WIDTH / 8 * product.chunks > MX_CHAIN_ITEMS || job.heads > (int)gpu->device.info.cores ||
        is_written(b, job.k) || is_written(b, job.v) || !same_or_new(&b->chain.known.window, job.window))
        return 0;
    mx_told *parts = take_told(b, (size_t)(job.heads * job.tiles * MX_CHAIN_PART)), *told = take_told(b, (size_t)job.d);
    if (!parts || !told)
        return 0;
    mx_chain_attention a = {job, NULL, 0, 0, 0, parts, told, job.y};
    mx_chain_phase *listen = add_phase(b, MX_CHAIN_LISTEN), *join = add_phase(b, MX_CHAIN_JOIN);
    listen->product = product;
    listen->attention = join->attention = a;
    listen->sign = x->before;
    join->sign = x->sign;
    leave_result(b, job.y, job.d, job.d, told,
                 sign_of(parts, b->chain.rows * job.heads * job.tiles * MX_CHAIN_PART, MX_CHAIN_PART));
    return 2;
}

static size_t add_calls(builder *b, const mx_cuda *gpu, const mx_call *const *calls, size_t n) {
    if (b->chain.n + 2 > MX_CHAIN_MOST)
        return 0;
    switch (calls[0]->op) {
    case MX_OP_GATHER: {
        size_t taken = add_embedding(b, calls, n);
        return taken ? taken : add_picked(b, gpu, calls, n);
    }
    case MX_OP_FUSED_LINEAR: {
        size_t taken = add_listen(b, gpu, calls, n);
        return taken ? taken : add_product(b, calls, n);
    }
    case MX_OP_ATTENTION_CACHED: return add_cached(b, gpu, calls[0]);
    case MX_OP_FUSED_SELECT: return add_logits(b, gpu, calls[0], (const float *)calls[0]->inputs[0].data, NULL);
    default: return 0;
    }
}

/* ---- what is written where -------------------------------------------------------------------------------------- */

/* Memory that a phase writes to, and where the phase has its address; NULL: it is a result of the chain. */
struct written {
    float **at;
    const void *from, *end;
};

static written span(float **at, int64_t n) {
    written w = {at, *at, *at + n};
    return w;
}

static int writes_of(mx_chain_phase *phase, int rows, written (&w)[3]) {
    mx_chain_product *p = &phase->product;
    const selection &s = phase->selection.of.of;
    switch (phase->kind) {
    case MX_CHAIN_TABLES:
        w[0] = span(&phase->tables.plain, rows * phase->tables.n);
        w[1] = span(&phase->tables.to_a, rows * phase->tables.n);
        w[2] = span(&phase->tables.to_b, rows * phase->tables.n);
        return 3;
    case MX_CHAIN_CACHED:
    case MX_CHAIN_JOIN: w[0] = span(&phase->attention.plain, rows * phase->attention.job.d); return 1;
    case MX_CHAIN_CHOOSE:
        w[0] = {NULL, s.ids, s.ids + rows * s.k};
        w[1] = {NULL, s.log_probs, s.log_probs + rows * s.k};
        w[2] = {NULL, s.stats, s.stats + rows * MX_SELECT_STATS};
        return 3;
    default: w[0] = span(&p->plain, (int64_t)(rows - 1) * p->ldy + p->tiles * 8); return 1;
    }
}

/* Memory is used again once what lay there is not needed any more; phases do not wait for each other, so what would be
 * written over is not written at all. */
static void drop_overwritten(builder *b) {
    mx_chain *chain = &b->chain;
    written first[3], later[3];
    for (int i = 0; i < chain->n; i++)
        for (int a = 0, n = writes_of(&b->at[i], chain->rows, first); a < n; a++)
            for (int j = i + 1; j < chain->n && first[a].at && *first[a].at; j++)
                for (int c = 0, m = writes_of(&b->at[j], chain->rows, later); c < m; c++)
                    if (later[c].from && later[c].from < first[a].end && first[a].from < later[c].end)
                        *first[a].at = NULL;
}

/* ---- doors ------------------------------------------------------------------------------------------------------- */

/* What the chain selects is said by itself, if it is all that is written to host memory and nothing comes behind it. */
static void say_selection(mx_cuda *gpu, const mx_call *call) {
    mx_cuda_says says = {};
    size_t all = 0;
    for (int i = 0; i < 3; i++) {
        char *at = (char *)call->outputs[i].data;
        size_t bytes = mx_cuda_bytes(&call->outputs[i]);
        if (!gpu->out || at < gpu->out || at + bytes > gpu->out + gpu->out_bytes)
            return;
        says.at[says.n] = (uint32_t *)at;
        says.words[says.n++] = (int)(bytes / sizeof(uint32_t));
        all += (bytes + 255) / 256 * 256;   /* as results are placed */
    }
    if (all == gpu->out_bytes)
        gpu->says = says;
}

size_t mx_cuda_take_chain(mx_cuda *gpu, const mx_call *const *calls, size_t n, mxw_status *status) {
    if (!mx_product_is_wide(gpu) || !gpu->overlaps)
        return 0;
    builder b;
    size_t taken = 0, more;
    memset(&b, 0, sizeof(b));
    b.told = (mx_told *)gpu->told;
    b.left = MX_CUDA_TOLD / sizeof(mx_told);
    while (taken < n && !b.selection && (more = add_calls(&b, gpu, calls + taken, n - taken)) > 0)
        taken += more;
    if (taken < n && !b.selection)
        return 0;
    b.chain.blocks = (int)gpu->device.info.cores;
    mx_chain_division d = {b.chain.rows, b.chain.n, b.chain.blocks, b.w_parts, 0, 0};
    b.chain.met = gpu->arrivals + MX_CUDA_ARRIVALS - 2;
    size_t bytes = (size_t)b.chain.n * sizeof(mx_chain_phase);
    if (b.chain.n < LEAST_PHASES || b.w_parts == 0 || bytes > gpu->kept_left || !mx_chain_divide(gpu, b.at, &d))
        return 0;
    b.chain.ring_bytes = d.ring_bytes;
    b.chain.work_bytes = d.work_bytes;
    drop_overwritten(&b);
    *status = mx_cuda_keep(gpu, b.at, bytes, (const void **)&b.chain.at);
    if (*status < 0)
        return taken;
    mx_chain_run(gpu, b.chain, b.x_parts, b.w_parts);
    *status = mx_cuda_launched(gpu, calls[0]);
    if (*status >= 0 && b.selects && taken == n)
        say_selection(gpu, b.selection);
    if (*status >= 0 && b.selection && !b.selects)
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
    chain.one.kind = MX_CHAIN_LOGITS;
    chain.one.product = product_of(p);
    mx_chain_division d = {chain.rows, 1, chain.blocks, w_parts, 0, 0};
    if (!mx_chain_divide(gpu, &chain.one, &d))
        return 0;
    chain.ring_bytes = d.ring_bytes;
    chain.work_bytes = d.work_bytes;
    mx_chain_run(gpu, chain, x_parts, w_parts);
    return 1;
}
