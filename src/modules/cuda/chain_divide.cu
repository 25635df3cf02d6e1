/* modules/cuda/chain_divide.cu - how the phases of a chain share blocks and shared memory: which blocks a phase is for,
 * what of a product each has, how much of the memory is for weights that are under way. */
#include "modules/cuda/chain.cuh"

#define JOINERS 8                 /* blocks that join, at least, if they do nothing else */

/* ---- shares ------------------------------------------------------------------------------------------------------ */

static int product_work(const mx_chain_product &p) { return p.blocks * 4 * MX_WARP * (int)sizeof(uint4); }

static int work_of(const mx_chain_phase &phase, const mx_chain_division *d) {
    switch (phase.kind) {
    case MX_CHAIN_PRODUCT: return product_work(phase.product);
    case MX_CHAIN_CACHED:
        return (int)sizeof(mx_tile_pad) + MX_CHAIN_WARPS * phase.attention.job.tiles * 4 * (int)sizeof(float4);
    case MX_CHAIN_LISTEN: return product_work(phase.product) + (int)sizeof(mx_tile_pad);
    case MX_CHAIN_LOGITS:
        return product_work(phase.product) + (phase.selection.parts ? d->rows * (int)sizeof(range_pad) : 0);
    case MX_CHAIN_CHOOSE: return (int)(sizeof(join_pad) + sizeof(scratchpad));
    default: return 0;
    }
}

/* How a product's tiles are dealt to blocks; returns to how many, 0 if it does not fit. */
static int divide_product(mx_chain_product *p, const mx_chain_division *d) {
    int tile = p->blocks * d->w_parts * 1024, share = MX_MAX(1, MX_CHAIN_WARPS / p->chunks);
    p->group = MX_MIN(MX_CHAIN_WARPS, MX_MIN(MX_CHAIN_ITEMS / p->chunks, d->ring_bytes / 2 / tile));
    p->share = p->tiles > share * d->blocks ? p->tiles / d->blocks : share;
    p->longer = p->tiles > share * d->blocks ? p->tiles % d->blocks : 0;
    return p->group <= 0 ? 0 : p->tiles > share * d->blocks ? d->blocks : (p->tiles + share - 1) / share;
}

/* All blocks have as many tiles, as ranges of a selection do; so many at a time that some pieces are on their way. */
static int divide_logits(mx_chain_product *p, const mx_chain_division *d) {
    int most = MX_MIN(MX_CHAIN_WARPS * MX_CHAIN_OF_WARP, d->ring_bytes / 4 / (1024 * d->w_parts));
    p->share = p->tiles / d->blocks;
    p->longer = p->tiles % d->blocks;
    if (most <= 0)
        return 0;
    int times = MX_MAX(1, (p->share + (p->longer > 0) + most - 1) / most);
    p->group = (p->share + (p->longer > 0) + times - 1) / times;
    return d->blocks;
}

/* All blocks that work on a head make its queries. */
static int divide_listen(mx_chain_phase *phase, const mx_chain_division *d) {
    mx_chain_product *p = &phase->product;
    const rows_job &job = phase->attention.job;
    p->group = p->share = WIDTH / 8;
    p->each = MX_MAX(1, MX_MIN(d->blocks / job.heads, job.tiles));
    return p->group * p->blocks * d->w_parts * 1024 <= d->ring_bytes ? p->each * job.heads : 0;
}

static int divide_phase(mx_chain_phase *phase, const mx_chain_division *d) {
    switch (phase->kind) {
    case MX_CHAIN_TABLES: return d->rows;
    case MX_CHAIN_PRODUCT: return divide_product(&phase->product, d);
    case MX_CHAIN_LISTEN: return divide_listen(phase, d);
    case MX_CHAIN_LOGITS: return divide_logits(&phase->product, d);
    case MX_CHAIN_CHOOSE: return d->rows;
    default: return MX_MIN(d->blocks, d->rows * phase->attention.job.heads);
    }
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* The first blocks of each kind of work. */
struct places {
    int listen, cached, join;
};

/* First those that multiply, then those that listen; those that are left join, a warp to a row of a head, or else the
 * last ones that multiply. Who listens has keys to make ready before, and comes late to a join: the cache is for those
 * that multiply, which have nothing else to do then. */
static places place_attention(mx_chain_phase *phases, const mx_chain_division *d) {
    int multiply = 0, listen = 0;
    for (int i = 0; i < d->n; i++) {
        int n = phases[i].place.n;
        multiply = phases[i].kind == MX_CHAIN_PRODUCT && n < d->blocks ? MX_MAX(multiply, n) : multiply;
        listen = phases[i].kind == MX_CHAIN_LISTEN ? MX_MAX(listen, n) : listen;
    }
    int others = MX_MAX(0, d->blocks - listen), left = MX_MAX(0, others - multiply);
    places p = {multiply % d->blocks, 0, d->blocks};
    for (int i = 0; i < d->n; i++) {
        mx_chain_place *place = &phases[i].place;
        if (phases[i].kind == MX_CHAIN_CACHED)
            p.cached = MX_MAX(0, multiply - place->n);
        if (phases[i].kind != MX_CHAIN_JOIN)
            continue;
        place->n = MX_MIN(place->n, left >= JOINERS ? left : others > 0 ? others : d->blocks);
        p.join = left >= JOINERS || others == 0 ? d->blocks - place->n : MX_MAX(0, multiply - place->n);
    }
    return p;
}

/* Elsewhere than what it hears was made and than what hears it, so that its blocks are ready when x is there. */
static int place_product(const mx_chain_phase *phases, int i, const mx_chain_division *d, const places &p) {
    const mx_chain_phase *from = &phases[phases[i].from];
    int n = phases[i].place.n;
    if (n >= d->blocks)
        return 0;
    if (i + 1 < d->n && phases[i + 1].kind == MX_CHAIN_CACHED)
        return p.listen;
    if (from->kind == MX_CHAIN_JOIN)
        return MX_MAX(0, p.join - n);
    return from->kind == MX_CHAIN_PRODUCT && from->place.first == 0 ? d->blocks - n : 0;
}

/* Where each kind of work is done: always by the same blocks, which then have its instructions at hand. */
static void place_phases(mx_chain_phase *phases, const mx_chain_division *d) {
    places p = place_attention(phases, d);
    for (int i = 0; i < d->n; i++) {
        mx_chain_place *place = &phases[i].place;
        switch (phases[i].kind) {
        case MX_CHAIN_PRODUCT:
        case MX_CHAIN_LOGITS: place->first = place_product(phases, i, d, p); break;
        case MX_CHAIN_LISTEN: place->first = p.listen; break;
        case MX_CHAIN_CACHED: place->first = p.cached; break;
        case MX_CHAIN_JOIN: place->first = p.join; break;
        default: place->first = MX_MAX(d->blocks - place->n, 0);
        }
        /* Whoever has just made x need not be told that it is near, nor those that come when it is. */
        const mx_chain_phase *from = &phases[phases[i].from];
        if (phases[i].kind == MX_CHAIN_PRODUCT &&
            (from->kind == MX_CHAIN_JOIN || (from->kind == MX_CHAIN_PRODUCT && from->place.first == place->first &&
                                             from->place.n >= place->n)))
            phases[i].sign.n = 0;
    }
}

int mx_chain_divide(const mx_cuda *gpu, mx_chain_phase *phases, mx_chain_division *d) {
    for (int i = 0; i < d->n; i++)
        d->work_bytes = MX_MAX(d->work_bytes, work_of(phases[i], d));
    d->work_bytes = (d->work_bytes + 1023) / 1024 * 1024 + 2 * MX_CHAIN_ITEMS * MX_CHAIN_SUM;
    d->ring_bytes = (gpu->shared_bytes - MX_CHAIN_BESIDES - d->n * (int)sizeof(mx_chain_phase) - d->work_bytes) / 1024 *
                    1024;
    for (int i = 0; i < d->n; i++) {
        phases[i].place.n = d->ring_bytes > 0 ? MX_MIN(divide_phase(&phases[i], d), d->blocks) : 0;
        if (phases[i].place.n == 0)
            return 0;
    }
    place_phases(phases, d);
    return 1;
}
