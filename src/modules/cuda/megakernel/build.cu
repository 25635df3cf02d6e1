/* modules/cuda/megakernel/build.cu - builds a megakernel (megakernel/stages.cuh) from the calls that a graph capture
 * sees together: from all of them, or up to a selection, if every call has a stage type and all have the same few rows.
 * If not, or if they are too large or too many, they run kernel by kernel: that is faster than a megakernel of some of
 * them. */
#include <assert.h>
#include <string.h>

#include "modules/cuda/megakernel/stages.cuh"

namespace mx::megakernel {

namespace {

constexpr int MIN_STAGES = 4;   /* fewer are not worth a megakernel */
constexpr int MAX_TILES = WARP_SIZE;   /* of keys: a lane has one when they are combined */
constexpr int HINT_STEP = 64;   /* values between two hint flags */

/* What a stage leaves to the stages after it. */
struct result {
    const float *y;               /* where it would be without the megakernel */
    int64_t ld;
    int n;
    const flagged *flagged_at;
    hint_flag hint, before;   /* of these values, and of what they are computed from */
    int stage;
    int whole, split; /* how it is published: as floats, as f16 terms; neither: a GEMM not read yet */
};

struct builder {
    megakernel_params params;
    stage_desc at[MAX_STAGES];
    result results[MAX_STAGES];
    flagged *flagged_at;                /* values for the next stage ... */
    size_t left;                  /* ... and how many are left */
    int x_terms, w_terms;         /* of all GEMMs; 0: none yet */
    const mx_call *selection;     /* the last call; runs after the megakernel, if that does not include it */
    int selects;
};

static stage_desc *add_stage(builder *b, int kind) {
    stage_desc *stage = &b->at[b->params.n++];
    stage->kind = kind;
    return stage;
}

/* Flagged values for rows of n; NULL if there are no more. */
static flagged *take_flagged(builder *b, size_t n) {
    size_t count = (n * (size_t)b->params.rows + 15) / 16 * 16;
    if (count > b->left)
        return NULL;
    flagged *at = b->flagged_at;
    b->flagged_at += count;
    b->left -= count;
    return at;
}

static hint_flag hint_of(const flagged *flagged_at, int n, int step) {
    hint_flag hint = {flagged_at, 1, step};
    while (hint.n * 2 * step <= n)
        hint.n *= 2;
    return hint;
}

/* The last stage's result, computed from what has the hint flag `before`. */
static void add_result(builder *b, const float *y, int64_t ld, int n, const flagged *flagged_at, hint_flag before) {
    int kind = b->at[b->params.n - 1].kind;
    result r = {y, ld, n, flagged_at, hint_of(flagged_at, n * b->params.rows, HINT_STEP), before, b->params.n - 1,
                kind == STAGE_EMBED, kind == STAGE_SELF_ATTN || kind == STAGE_COMBINE};
    b->results[b->params.n - 1] = r;
}

/* The result at that address; NULL: no stage's. */
static const result *find_result(const builder *b, const float *y, int64_t ld, int n) {
    for (int i = b->params.n - 1; i >= 0; i--) {
        const result *r = &b->results[i];
        if (r->y == y)
            return r->ld == ld && r->n == n ? r : NULL;
    }
    return NULL;
}

/* Whether a call with that many rows can join those before. */
static int fits_rows(builder *b, int64_t rows) {
    if (b->params.n == 0 && rows > 0 && rows <= MAX_ROWS)
        b->params.rows = (int)rows;
    return rows == b->params.rows && rows > 0;
}

static int same_or_new(const int32_t **known, const int32_t *data) {
    if (!*known)
        *known = data;
    return *known == data;
}

/* Whether it is published that way, or can be. */
static int can_acquire(builder *b, const result *of, int as_parts) {
    result *r = &b->results[of->stage];
    r->whole |= !as_parts && !r->split;
    r->split |= as_parts && !r->whole;
    b->at[of->stage].product.split = r->split;
    return as_parts ? r->split : r->whole;
}

/* ---- calls into stages; each returns the number of calls it consumed --------------------------------------------- */

static size_t add_embedding(builder *b, const mx_call *const *calls, size_t n) {
    if (!is_embedding(calls, n) || !fits_rows(b, calls[0]->outputs[0].dims[0]))
        return 0;
    int64_t width = calls[0]->outputs[0].dims[1];
    flagged *flagged_at = width < 65536 ? take_flagged(b, (size_t)width) : NULL;
    hint_flag none = {};
    if (!flagged_at)
        return 0;
    embed_stage *t = &add_stage(b, STAGE_EMBED)->tables;
    t->y = flagged_at;
    t->plain = (float *)calls[2]->outputs[0].data;
    t->to_a = (float *)calls[0]->outputs[0].data;
    t->to_b = (float *)calls[1]->outputs[0].data;
    t->a = table_of(calls[0]);
    t->b = table_of(calls[1]);
    t->n = (int)width;
    add_result(b, t->plain, width, t->n, flagged_at, none);
    return 3;
}

/* Keys and values that the GEMM produces, written to caches right after it. */
static size_t add_writes(builder *b, gemm_stage *of, const float *y, const mx_call *const *calls, size_t n) {
    kv_cache_out to;
    if (!cache_writes_of(calls, n, y, b->params.rows, of->ldy, of->n, &to) || to.f16 != (b->x_terms == 1) ||
        !same_or_new(&b->params.known.cell, to.cell))
        return 0;
    of->width = to.width;
    for (int i = 0; i < 2; i++) {
        of->from[i] = to.from[i];
        of->cache[i] = to.state[i];
    }
    return 2;
}

static int can_implement(const gemm_params &p) {
    return gemm_is_regular(p) && p.f.m <= MAX_ROWS && p.f.ldy < INT32_MAX && p.f.ldx < INT32_MAX;
}

static gemm_stage product_of(const gemm_params &p) {
    gemm_stage of = {};
    of.weight = p.f.weight.bytes;
    of.w_term_bytes = p.w_term_bytes;
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
    of.slices = p.slices;
    of.fours = (unsigned)((((uint64_t)1 << 32) + (uint64_t)of.k / 4 - 1) / ((uint64_t)of.k / 4));
    of.each = 1;
    slice_starts(p, of.starts);
    return of;
}

/* Terms of x and of the weight: the same in all GEMMs. */
static int fits_terms(builder *b, const gemm_desc &f) {
    int x_terms = x_terms_of(f), w_terms = x_terms == 1 ? 1 : f.weight.terms;
    if (b->w_terms && (b->w_terms != w_terms || b->x_terms != x_terms))
        return 0;
    b->x_terms = x_terms;
    b->w_terms = w_terms;
    return 1;
}

/* What the call computes, if a stage can, from results of earlier stages. */
static int describe_gemm(builder *b, const mx_call *call, gemm_stage *of, const result **x) {
    gemm_desc f;
    if (!mx_cuda_gemm_describe(call, &f) || !fits_rows(b, f.m))
        return 0;
    gemm_params p = make_gemm_params(&f);
    const result *residual = f.residual ? find_result(b, f.residual, f.ld_residual, (int)f.n) : NULL;
    if (!can_implement(p) || !p.even_y || f.n % HINT_STEP || !fits_terms(b, f) || (f.residual && !residual))
        return 0;
    *of = product_of(p);
    *x = find_result(b, f.x, f.ldx, of->k);
    of->x = *x ? (*x)->flagged_at : NULL;
    of->residual = residual ? residual->flagged_at : NULL;
    return *x && can_acquire(b, *x, !of->gamma) && (!residual || can_acquire(b, residual, 0));
}

static size_t add_gemm(builder *b, const mx_call *const *calls, size_t n) {
    gemm_stage product;
    const result *x;
    if (!describe_gemm(b, calls[0], &product, &x) || !(product.y = take_flagged(b, (size_t)product.n)))
        return 0;
    size_t writes = add_writes(b, &product, product.plain, calls + 1, n - 1);
    stage_desc *stage = add_stage(b, STAGE_GEMM);
    stage->product = product;
    stage->from = x->stage;
    stage->hint = x->before;
    add_result(b, product.plain, product.ldy, product.n, product.y, x->hint);
    return 1 + writes;
}

/* The logits of a selection, which is the last stage. */
static int takes_logits(const gemm_params &p) {
    return !p.f.bias && !p.f.residual && p.f.act == MX_ACT_NONE && p.f.ldy >= p.tiles * 8 && p.f.ldy % 2 == 0 &&
           (uintptr_t)p.f.y % 8 == 0;
}

/* The selection itself, where each CTA has the logits of one range of ids. */
static void add_select(builder *b, const mx_cuda *gpu, const mx_call *call, stage_desc *logits) {
    partial_selection of;
    if (!partial_selection_of(gpu, call, &of) || of.ranges.n != (int)gpu->device.info.cores)
        return;
    flagged *partials = take_flagged(b, (size_t)(PARTIAL_PAIRS * of.ranges.n * 2));
    if (!partials)
        return;
    select_stage s = {of, partials};
    logits->selection = add_stage(b, STAGE_SELECT)->selection = s;
    b->params.known.rules = of.of.rules;
    b->selects = 1;
}

/* For the rows at x, or for those that `pick` picks of them. */
static size_t add_logits(builder *b, const mx_cuda *gpu, const mx_call *call, const float *from, const int32_t *pick) {
    gemm_desc f;
    if (!mx_cuda_logits_describe(call, &f) || !fits_rows(b, f.m))
        return 0;
    gemm_params p = make_gemm_params(&f);
    const result *x = find_result(b, from, f.ldx, (int)f.k);
    if (!can_implement(p) || !takes_logits(p) || !x || !b->w_terms || !fits_terms(b, f) || !f.gamma ||
        !can_acquire(b, x, 0))
        return 0;
    stage_desc *stage = add_stage(b, STAGE_LOGITS);
    stage->product = product_of(p);
    stage->product.x = x->flagged_at;
    stage->product.picked = pick != NULL;
    stage->hint = x->before;
    b->params.known.pick = pick;
    b->selection = call;
    add_select(b, gpu, call, stage);
    return 1;
}

/* Rows of the last result, as a selection takes them. */
static size_t add_picked_logits(builder *b, const mx_cuda *gpu, const mx_call *const *calls, size_t n) {
    const mx_tensor *table = &calls[0]->inputs[0];
    if (n < 2 || calls[1]->op != MX_OP_FUSED_SELECT || table->dtype != MXW_F32 || table->rank != 2 ||
        table->dims[0] != b->params.rows || calls[1]->inputs[0].data != calls[0]->outputs[0].data ||
        mx_cuda_count(&calls[0]->inputs[1]) != b->params.rows || calls[1]->inputs[0].strides[0] != table->strides[0])
        return 0;
    size_t taken =
        add_logits(b, gpu, calls[1], (const float *)table->data, (const int32_t *)calls[0]->inputs[1].data);
    return taken ? 2 : 0;
}

/* Whether the megakernel writes to that memory, which a stage would read without synchronisation. */
static int is_written(const builder *b, const void *memory) {
    int found = 0;
    for (int i = 0; i < b->params.n; i++)
        found |= b->at[i].product.cache[0] == memory || b->at[i].product.cache[1] == memory;
    return found;
}

/* Over a cache that the GEMM of the queries wrote to. */
static size_t add_self_attn(builder *b, const mx_cuda *gpu, const mx_call *call) {
    if (b->params.n == 0 || !mx_cuda_decode_attention_takes(call) || !fits_rows(b, call->inputs[0].dims[0]))
        return 0;
    decode_params job = decode_params_of(gpu, call);
    const result *of = &b->results[b->params.n - 1];
    const gemm_stage &from = b->at[b->params.n - 1].product;
    row_info *known = &b->params.known;
    if (job.terms != b->x_terms || job.tiles > MAX_TILES || job.heads == 0 || job.q != of->y || job.ld_q != of->ld ||
        from.width != job.d || from.cache[0] != job.k || from.cache[1] != job.v || !same_or_new(&known->seq, job.seq) ||
        !same_or_new(&known->pos, job.pos) || !can_acquire(b, of, 0))
        return 0;
    flagged *flagged_at = take_flagged(b, (size_t)job.d);
    if (!flagged_at)
        return 0;
    stage_desc *stage = add_stage(b, STAGE_SELF_ATTN);
    attention_stage a = {job, of->flagged_at, of->n, from.from[0], from.from[1], NULL, flagged_at, job.y};
    stage->attention = a;
    stage->hint = of->before;
    add_result(b, job.y, job.d, job.d, flagged_at, of->hint);
    return 1;
}

/* Queries, cross-attention, and the combine stage of its tiles. */
static size_t add_cross_attn(builder *b, const mx_cuda *gpu, const mx_call *const *calls, size_t n) {
    gemm_stage product;
    const result *x;
    if (n < 2 || calls[1]->op != MX_OP_ATTENTION_WINDOW || !mx_cuda_decode_attention_takes(calls[1]) ||
        !describe_gemm(b, calls[0], &product, &x) || !fits_rows(b, calls[1]->inputs[0].dims[0]))
        return 0;
    decode_params job = decode_params_of(gpu, calls[1]);
    if (job.f8 || job.terms != b->x_terms || job.tiles > MAX_TILES || job.heads == 0 || job.q != product.plain ||
        job.ld_q != product.ldy || product.n != job.d || product.residual || product.act != MX_ACT_NONE ||
        !product.gamma || HEAD_DIM / 8 * product.slices > MAX_ITEMS || job.heads > (int)gpu->device.info.cores ||
        is_written(b, job.k) || is_written(b, job.v) || !same_or_new(&b->params.known.window, job.window))
        return 0;
    flagged *partials = take_flagged(b, (size_t)(job.heads * job.tiles * PARTIAL_VALUES)),
            *flagged_at = take_flagged(b, (size_t)job.d);
    if (!partials || !flagged_at)
        return 0;
    attention_stage a = {job, NULL, 0, 0, 0, partials, flagged_at, job.y};
    stage_desc *cross_attn = add_stage(b, STAGE_CROSS_ATTN), *combine = add_stage(b, STAGE_COMBINE);
    cross_attn->product = product;
    cross_attn->attention = combine->attention = a;
    cross_attn->hint = x->before;
    combine->hint = x->hint;
    add_result(b, job.y, job.d, job.d, flagged_at,
               hint_of(partials, b->params.rows * job.heads * job.tiles * PARTIAL_VALUES, PARTIAL_VALUES));
    return 2;
}

static size_t add_calls(builder *b, const mx_cuda *gpu, const mx_call *const *calls, size_t n) {
    if (b->params.n + 2 > MAX_STAGES)
        return 0;
    switch (calls[0]->op) {
    case MX_OP_GATHER: {
        size_t taken = add_embedding(b, calls, n);
        return taken ? taken : add_picked_logits(b, gpu, calls, n);
    }
    case MX_OP_FUSED_LINEAR: {
        size_t taken = add_cross_attn(b, gpu, calls, n);
        return taken ? taken : add_gemm(b, calls, n);
    }
    case MX_OP_ATTENTION_CACHED: return add_self_attn(b, gpu, calls[0]);
    case MX_OP_FUSED_SELECT: return add_logits(b, gpu, calls[0], (const float *)calls[0]->inputs[0].data, NULL);
    default: return 0;
    }
}

/* ---- plain results ----------------------------------------------------------------------------------------------- */

/* Memory that a stage writes to, and where the stage has its address; NULL: it is a result of the megakernel. */
struct written {
    float **at;
    const void *from, *end;
};

static written span(float **at, int64_t n) {
    written w = {at, *at, *at + n};
    return w;
}

static int writes_of(stage_desc *stage, int rows, written (&w)[3]) {
    gemm_stage *p = &stage->product;
    const selection &s = stage->selection.of.of;
    switch (stage->kind) {
    case STAGE_EMBED:
        w[0] = span(&stage->tables.plain, rows * stage->tables.n);
        w[1] = span(&stage->tables.to_a, rows * stage->tables.n);
        w[2] = span(&stage->tables.to_b, rows * stage->tables.n);
        return 3;
    case STAGE_SELF_ATTN:
    case STAGE_COMBINE: w[0] = span(&stage->attention.plain, rows * stage->attention.job.d); return 1;
    case STAGE_SELECT:
        w[0] = {NULL, s.ids, s.ids + rows * s.k};
        w[1] = {NULL, s.log_probs, s.log_probs + rows * s.k};
        w[2] = {NULL, s.stats, s.stats + rows * MX_SELECT_STATS};
        return 3;
    default: w[0] = span(&p->plain, (int64_t)(rows - 1) * p->ldy + p->tiles * 8); return 1;
    }
}

/* The arena reuses memory once its old contents are dead; stages do not wait for each other, so a result that would be
 * overwritten later is not written at all. */
static void drop_overwritten(builder *b) {
    kernel_params *params = &b->params;
    written first[3], later[3];
    for (int i = 0; i < params->n; i++)
        for (int a = 0, n = writes_of(&b->at[i], params->rows, first); a < n; a++)
            for (int j = i + 1; j < params->n && first[a].at && *first[a].at; j++)
                for (int c = 0, m = writes_of(&b->at[j], params->rows, later); c < m; c++)
                    if (later[c].from && later[c].from < first[a].end && first[a].from < later[c].end)
                        *first[a].at = NULL;
}

/* ---- entry points ------------------------------------------------------------------------------------------------ */

/* Results of the selection signal their own completion, if they are all that is written to host memory and nothing runs
 * after them. */
static void signal_selection(mx_cuda *gpu, const mx_call *call) {
    mx_cuda_host_flags host_flags = {};
    size_t all = 0;
    for (int i = 0; i < 3; i++) {
        char *at = (char *)call->outputs[i].data;
        size_t bytes = mx_cuda_bytes(&call->outputs[i]);
        if (!gpu->out || at < gpu->out || at + bytes > gpu->out + gpu->out_bytes)
            return;
        host_flags.at[host_flags.n] = (uint32_t *)at;
        host_flags.words[host_flags.n++] = (int)(bytes / sizeof(uint32_t));
        all += (bytes + 255) / 256 * 256;   /* as results are placed */
    }
    if (all == gpu->out_bytes)
        gpu->host_flags = host_flags;
}

}   /* namespace */

size_t megakernel_take(mx_cuda *gpu, const mx_call *const *calls, size_t n, mxw_status *status) {
    if (!gpu->has_wgmma || !gpu->has_pdl)
        return 0;
    builder b;
    size_t taken = 0, more;
    memset(&b, 0, sizeof(b));
    b.flagged_at = (flagged *)gpu->flagged_at;
    b.left = MX_CUDA_FLAGGED_BYTES / sizeof(flagged);
    while (taken < n && !b.selection && (more = add_calls(&b, gpu, calls + taken, n - taken)) > 0)
        taken += more;
    if (taken < n && !b.selection)
        return 0;
    b.params.blocks = (int)gpu->device.info.cores;
    schedule_params d = {b.params.rows, b.params.n, b.params.blocks, b.w_terms, 0, 0};
    b.params.met = gpu->arrivals + MX_CUDA_ARRIVALS - 2;
    size_t bytes = (size_t)b.params.n * sizeof(stage_desc);
    if (b.params.n < MIN_STAGES || b.w_terms == 0 || bytes > gpu->kept_left || !make_schedule(gpu, b.at, &d))
        return 0;
    b.params.ring_bytes = d.ring_bytes;
    b.params.work_bytes = d.work_bytes;
    drop_overwritten(&b);
    *status = mx_cuda_keep(gpu, b.at, bytes, (const void **)&b.params.at);
    if (*status < 0)
        return taken;
    launch_megakernel(gpu, b.params, b.x_terms, b.w_terms);
    *status = mx_cuda_launched(gpu, calls[0]);
    if (*status >= 0 && b.selects && taken == n)
        signal_selection(gpu, b.selection);
    if (*status >= 0 && b.selection && !b.selects)
        *status = mx_cuda_select_logits(gpu, b.selection);
    return taken;
}

/* One GEMM as the only stage; 0 if it does not fit. */
static int plan_gemm(const mx_cuda *gpu, const gemm_params &p, int w_terms, single_stage_params *params) {
    if (!gpu->has_wgmma || !gpu->has_pdl || !can_implement(p) || p.tiles < 4 * (int)gpu->device.info.cores ||
        !takes_logits(p))
        return 0;
    memset(params, 0, sizeof(*params));
    params->rows = (int)p.f.m;
    params->n = 1;
    params->blocks = (int)gpu->device.info.cores;
    params->one.kind = STAGE_LOGITS;
    params->one.product = product_of(p);
    schedule_params d = {params->rows, 1, params->blocks, w_terms, 0, 0};
    if (!make_schedule(gpu, &params->one, &d))
        return 0;
    params->ring_bytes = d.ring_bytes;
    params->work_bytes = d.work_bytes;
    return 1;
}

static int w_terms_of(const gemm_desc &f) { return x_terms_of(f) == 1 ? 1 : f.weight.terms; }

int megakernel_gemm_can_implement(const mx_cuda *gpu, const gemm_params &p) {
    single_stage_params params;
    return plan_gemm(gpu, p, w_terms_of(p.f), &params);
}

void megakernel_gemm(mx_cuda *gpu, const gemm_params &p) {
    single_stage_params params;
    int made = plan_gemm(gpu, p, w_terms_of(p.f), &params);
    assert(made && "asked by megakernel_gemm_can_implement before");
    (void)made;
    launch_megakernel(gpu, params, x_terms_of(p.f), w_terms_of(p.f));
}

}   /* namespace mx::megakernel */
