/* modules/cuda/megakernel/schedule.cu - assigns the stages of a megakernel to CTAs and divides shared memory: which
 * CTAs run a stage, which tiles of a GEMM each has, and how much memory is for weights in flight. */
#include "modules/cuda/megakernel/stages.cuh"

namespace mx::megakernel {

namespace {

constexpr int MIN_COMBINE_CTAS = 8;   /* CTAs that combine, at least, if they do nothing else */

/* ---- shares ------------------------------------------------------------------------------------------------------ */

static int product_work(const gemm_stage &p) { return p.blocks * 4 * WARP_SIZE * (int)sizeof(uint4); }

static int work_of(const stage_desc &stage, const schedule_params *d) {
    switch (stage.kind) {
    case STAGE_GEMM: return product_work(stage.product);
    case STAGE_SELF_ATTN:
        return (int)sizeof(fresh_tile_smem) + WORKER_WARPS * stage.attention.job.tiles * 4 * (int)sizeof(float4);
    case STAGE_CROSS_ATTN: return product_work(stage.product) + (int)sizeof(fresh_tile_smem);
    case STAGE_LOGITS:
        return product_work(stage.product) + (stage.selection.partials ? d->rows * (int)sizeof(range_smem) : 0);
    case STAGE_SELECT: return (int)(sizeof(merge_smem) + sizeof(select_smem));
    default: return 0;
    }
}

/* Assigns a GEMM's tiles to CTAs; returns the number of CTAs, 0 if it does not fit. */
static int schedule_gemm(gemm_stage *p, const schedule_params *d) {
    int tile = p->blocks * d->w_terms * 1024, share = MX_MAX(1, WORKER_WARPS / p->slices);
    p->group = MX_MIN(WORKER_WARPS, MX_MIN(MAX_ITEMS / p->slices, d->ring_bytes / 2 / tile));
    p->share = p->tiles > share * d->blocks ? p->tiles / d->blocks : share;
    p->longer = p->tiles > share * d->blocks ? p->tiles % d->blocks : 0;
    return p->group <= 0 ? 0 : p->tiles > share * d->blocks ? d->blocks : (p->tiles + share - 1) / share;
}

/* All CTAs have the same number of tiles, as the ranges of a selection do; few enough at a time that some pieces are in
 * flight. */
static int schedule_logits(gemm_stage *p, const schedule_params *d) {
    int most = MX_MIN(WORKER_WARPS * LOGIT_TILES_PER_WARP, d->ring_bytes / 4 / (1024 * d->w_terms));
    p->share = p->tiles / d->blocks;
    p->longer = p->tiles % d->blocks;
    if (most <= 0)
        return 0;
    int times = MX_MAX(1, (p->share + (p->longer > 0) + most - 1) / most);
    p->group = (p->share + (p->longer > 0) + times - 1) / times;
    return d->blocks;
}

/* All CTAs that work on a head compute its queries. */
static int schedule_cross_attn(stage_desc *stage, const schedule_params *d) {
    gemm_stage *p = &stage->product;
    const decode_params &job = stage->attention.job;
    p->group = p->share = HEAD_DIM / 8;
    p->each = MX_MAX(1, MX_MIN(d->blocks / job.heads, job.tiles));
    return p->group * p->blocks * d->w_terms * 1024 <= d->ring_bytes ? p->each * job.heads : 0;
}

static int schedule_stage(stage_desc *stage, const schedule_params *d) {
    switch (stage->kind) {
    case STAGE_EMBED: return d->rows;
    case STAGE_GEMM: return schedule_gemm(&stage->product, d);
    case STAGE_CROSS_ATTN: return schedule_cross_attn(stage, d);
    case STAGE_LOGITS: return schedule_logits(&stage->product, d);
    case STAGE_SELECT: return d->rows;
    default: return MX_MIN(d->blocks, d->rows * stage->attention.job.heads);
    }
}

/* ---- placement --------------------------------------------------------------------------------------------------- */

/* The first CTAs of each kind of work. */
struct places {
    int cross_attn, cached, combine;
};

/* First the GEMM CTAs, then those of cross-attention; the remaining ones combine, a warp per row of a head, or else the
 * last GEMM CTAs do. Cross-attention CTAs have keys to convert first and would be late for a combine stage:
 * self-attention is for the GEMM CTAs, which are idle then. */
static places place_attention(stage_desc *stages, const schedule_params *d) {
    int multiply = 0, cross_attn = 0;
    for (int i = 0; i < d->n; i++) {
        int n = stages[i].place.n;
        multiply = stages[i].kind == STAGE_GEMM && n < d->blocks ? MX_MAX(multiply, n) : multiply;
        cross_attn = stages[i].kind == STAGE_CROSS_ATTN ? MX_MAX(cross_attn, n) : cross_attn;
    }
    int others = MX_MAX(0, d->blocks - cross_attn), left = MX_MAX(0, others - multiply);
    places p = {multiply % d->blocks, 0, d->blocks};
    for (int i = 0; i < d->n; i++) {
        stage_ctas *place = &stages[i].place;
        if (stages[i].kind == STAGE_SELF_ATTN)
            p.cached = MX_MAX(0, multiply - place->n);
        if (stages[i].kind != STAGE_COMBINE)
            continue;
        place->n = MX_MIN(place->n, left >= MIN_COMBINE_CTAS ? left : others > 0 ? others : d->blocks);
        p.combine = left >= MIN_COMBINE_CTAS || others == 0 ? d->blocks - place->n : MX_MAX(0, multiply - place->n);
    }
    return p;
}

/* On other CTAs than those that produce its input and those that consume its output, so that its CTAs are ready when x
 * is there. */
static int place_product(const stage_desc *stages, int i, const schedule_params *d, const places &p) {
    const stage_desc *from = &stages[stages[i].from];
    int n = stages[i].place.n;
    if (n >= d->blocks)
        return 0;
    if (i + 1 < d->n && stages[i + 1].kind == STAGE_SELF_ATTN)
        return p.cross_attn;
    if (from->kind == STAGE_COMBINE)
        return MX_MAX(0, p.combine - n);
    return from->kind == STAGE_GEMM && from->place.first == 0 ? d->blocks - n : 0;
}

/* Each kind of work always runs on the same CTAs, whose instruction caches are warm then. */
static void place_stages(stage_desc *stages, const schedule_params *d) {
    places p = place_attention(stages, d);
    for (int i = 0; i < d->n; i++) {
        stage_ctas *place = &stages[i].place;
        switch (stages[i].kind) {
        case STAGE_GEMM:
        case STAGE_LOGITS: place->first = place_product(stages, i, d, p); break;
        case STAGE_CROSS_ATTN: place->first = p.cross_attn; break;
        case STAGE_SELF_ATTN: place->first = p.cached; break;
        case STAGE_COMBINE: place->first = p.combine; break;
        default: place->first = MX_MAX(d->blocks - place->n, 0);
        }
        /* A CTA that has just produced x needs no hint that it is near, nor do those that start after it. */
        const stage_desc *from = &stages[stages[i].from];
        if (stages[i].kind == STAGE_GEMM &&
            (from->kind == STAGE_COMBINE ||
             (from->kind == STAGE_GEMM && from->place.first == place->first && from->place.n >= place->n)))
            stages[i].hint.n = 0;
    }
}

}   /* namespace */

int make_schedule(const mx_cuda *gpu, stage_desc *stages, schedule_params *d) {
    for (int i = 0; i < d->n; i++)
        d->work_bytes = MX_MAX(d->work_bytes, work_of(stages[i], d));
    d->work_bytes = (d->work_bytes + 1023) / 1024 * 1024 + 2 * MAX_ITEMS * ITEM_SUM_BYTES;
    d->ring_bytes = (gpu->shared_bytes - SMEM_RESERVE - d->n * (int)sizeof(stage_desc) - d->work_bytes) / 1024 *
                    1024;
    for (int i = 0; i < d->n; i++) {
        stages[i].place.n = d->ring_bytes > 0 ? MX_MIN(schedule_stage(&stages[i], d), d->blocks) : 0;
        if (stages[i].place.n == 0)
            return 0;
    }
    place_stages(stages, d);
    return 1;
}

}   /* namespace mx::megakernel */
