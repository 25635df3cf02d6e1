/* modules/cuda/chain.cu - runs a chain of phases as one kernel (chain.cuh).
 *
 * A decoder's step of few rows is a row of small pieces of work that wait for each other; what it costs is the waiting.
 * So the blocks stay, and meet between phases; while one waits for the others it prepares the next phase, and a warp of
 * each brings the weights of the products that come next into a ring in shared memory, as far ahead as fits. Code is
 * kept short, with loops that are not unrolled: instructions that run once cost the time to fetch them.
 * What holds: every element is computed as by the kernels for calls alone (product_rows.cu, rows_attention.cu), bit for
 * bit. Before blocks meet, a phase reads only what no phase of the chain writes. */
#include "modules/cuda/chain_product.cuh"

#if MX_WIDE
/* ---- attention --------------------------------------------------------------------------------------------------- */

/* Far: another block may just have written it. */
template <bool far> __device__ __forceinline__ static float2 two_of(const float *from) {
    return far ? __ldcg((const float2 *)from) : *(const float2 *)from;
}

/* The tiles of a row and head, joined in order by a warp: at most one to a lane. y: of the head. */
template <bool far>
__device__ __forceinline__ static void join_row(const float *parts, int n_tiles, int lane, float *y) {
    const int at_once = far ? 12 : 4;
    float2 mine = lane < n_tiles ? two_of<far>(parts + lane * PART + WIDTH) : make_float2(-CUDART_INF_F, 0);
    float2 sum = make_float2(0, 0), v[at_once] = {};
    float scale = 0, weight = 0;
    parts += lane * 2;
#pragma unroll 1
    for (int first = 0; first < n_tiles; first += at_once, parts += at_once * PART) {
#pragma unroll
        for (int i = 0; i < at_once; i++)
            if (first + i < n_tiles)
                v[i] = two_of<far>(parts + i * PART);
        if (first == 0) {
            scale = expf(__fsub_rn(mine.x, mx_join_warp(mine.x, mx_largest())));
            weight = mx_join_warp(lane < n_tiles ? __fmaf_rn(scale, mine.y, 0) : 0, mx_sum());
        }
#pragma unroll
        for (int i = 0; i < at_once; i++) {
            float of = __shfl_sync(0xffffffffu, scale, (first + i) % MX_WARP);
            if (first + i < n_tiles)
                sum = make_float2(__fmaf_rn(of, v[i].x, sum.x), __fmaf_rn(of, v[i].y, sum.y));
        }
    }
    float inverse = __fdiv_rn(1.0f, weight);
    *(float2 *)(y + lane * 2) = make_float2(__fmul_rn(sum.x, inverse), __fmul_rn(sum.y, inverse));
}

typedef rows_group<TEAM> team_group;

/* Over the cache: a block has whole rows of heads, one after the other or several at once, and several groups to each
 * where it has few. */
template <typename Crew> __device__ static void run_cached(const Crew &c) {
    const rows_job &job = c.phase().attention;
    int items = c.rows() * job.heads, per = (items + c.blocks() - 1) / c.blocks();
    int shares = per == 1 ? TEAMS : 1, slots = TEAMS / shares;
    int team = c.thread() / TEAM, slot = team / shares, share = team % shares;
    team_group g = {c.thread() % TEAM, 2 + team};
    rows_pad pad = pad_at((float *)c.work() + team * ROWS_PAD(1), 1);
    float *parts = (float *)c.work() + TEAMS * ROWS_PAD(1) + slot * job.tiles * PART;
    begin(c);
#pragma unroll 1
    for (int first = 0; first < per; first += slots) {
        int item = (first + slot) * c.blocks() + c.block(), row = item / job.heads;
        rows_piece p = {row, 1, item % job.heads, 0, 0, job.k, job.v, NULL};
        if (item < items) {
            p.n_keys = shared().pos[row] + 1;
            p.n_tiles = (p.n_keys + TILE - 1) / TILE;
            p.cells = job.cells + shared().seq[row] * job.ctx;
            p.k += p.head * WIDTH;
            p.v += p.head * WIDTH;
            bring_query(job, p, g, pad);
#pragma unroll 1
            for (int tile = share; tile < p.n_tiles; tile += shares) {
                rows_loads<team_group> x;
                load_tile<true>(job, p, g, tile * TILE, x);
                finish_tile(job, p, g, tile, x, pad, parts + tile * PART, 0);
            }
        }
        meet_block();
        if (item < items && share == 0 && g.thread < MX_WARP)
            join_row<false>(parts, p.n_tiles, c.lane(), job.y + (int64_t)row * job.d + p.head * WIDTH);
        if (first + slots < per)
            meet_block();
    }
    leave(c);
}

/* Tile i of all windows that are listened to, of all heads. */
template <typename Crew>
__device__ __forceinline__ static rows_piece window_piece(const Crew &c, const rows_job &job, int i, int *tile) {
    int of_run = job.heads * job.tiles, run = i / of_run, rest = i - run * of_run, head = rest / job.tiles;
    int64_t shift = shared().run_window[run] * job.keys * job.d + head * WIDTH;
    rows_piece p = {shared().run_row[run], shared().run_rows[run], head, (int)job.keys, job.tiles, job.k + shift,
                    job.v + shift, NULL};
    *tile = rest - head * job.tiles;
    return p;
}

/* Over windows: tiles are dealt to groups. The first one's keys and values are on their way before blocks meet: no
 * phase writes them. */
template <typename Crew> __device__ static void run_window(const Crew &c) {
    const rows_job &job = c.phase().attention;
    int items = shared().runs * job.heads * job.tiles, team = c.thread() / TEAM, tile = 0;
    int64_t row_step = (int64_t)job.heads * job.tiles * PART;
    team_group g = {c.thread() % TEAM, 2 + team};
    rows_pad pad = pad_at((float *)c.work() + team * ROWS_PAD(c.rows()), c.rows());
    rows_loads<team_group> x;
    bool begun = false;
#pragma unroll 1
    for (int item = team * c.blocks() + c.block(); item < items || !begun; item += TEAMS * c.blocks()) {
        rows_piece p = window_piece(c, job, min(item, items - 1), &tile);
        if (item < items)
            load_tile<false>(job, p, g, tile * TILE, x);
        if (!begun)
            begin(c);
        begun = true;
        if (item >= items)
            break;
        meet_group(g);   /* the tile before is done with */
        bring_query(job, p, g, pad);
        finish_tile(job, p, g, tile, x, pad,
                    job.parts + ((int64_t)p.row * job.heads + p.head) * job.tiles * PART + tile * PART, row_step);
    }
    leave(c);
}

template <typename Crew> __device__ static void run_join(const Crew &c) {
    const rows_job &job = c.phase().attention;
    begin(c);
#pragma unroll 1
    for (int i = c.warp() * c.blocks() + c.block(); i < c.rows() * job.heads; i += MX_CHAIN_WARPS * c.blocks())
        join_row<true>(job.parts + (int64_t)i * job.tiles * PART, job.tiles, c.lane(), job.y + (int64_t)i * WIDTH);
    leave(c);
}

/* ---- rows of tables ---------------------------------------------------------------------------------------------- */

template <typename Crew> __device__ static void run_tables(const Crew &c) {
    const mx_chain_tables &job = c.phase().tables;
    begin(c);
#pragma unroll 1
    for (int row = c.block(); row < c.rows(); row += c.blocks()) {
        int64_t from_a = (int64_t)__ldcg(job.a.index + row) * job.n, to = (int64_t)row * job.n;
        int64_t from_b = job.b.rows ? (int64_t)__ldcg(job.b.index + row) * job.n : 0;
#pragma unroll 1
        for (int i = c.thread(); i < job.n; i += WORKERS) {
            float a = mx_table_at(job.a, from_a + i), b = job.b.rows ? mx_table_at(job.b, from_b + i) : 0;
            if (job.b.rows) {
                job.to_a[to + i] = a;
                job.to_b[to + i] = b;
            }
            job.y[to + i] = job.b.rows ? a + b : a;
        }
    }
    leave(c);
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

/* What is known of the rows: by the first warp. A cell that comes again in a later row is that row's. */
template <typename Crew> __device__ static void learn_rows(const Crew &c) {
    const mx_chain_known &k = c.chain.known;
    chain_shared &s = shared();
    bool there = c.lane() < c.rows();
    int cell = k.cell && there ? __ldcg(k.cell + c.lane()) : -1;
    int window = k.window && there ? __ldcg(k.window + c.lane()) : -1;
    int seq = k.seq && there ? __ldcg(k.seq + c.lane()) : 0, pos = k.seq && there ? __ldcg(k.pos + c.lane()) : 0;
    int own = cell, before = __shfl_up_sync(0xffffffffu, window, 1);
    for (int i = 1; i < MX_CHAIN_ROWS; i++) {
        int later = __shfl_down_sync(0xffffffffu, cell, i);
        own = c.lane() + i < c.rows() && later == cell ? -1 : own;
    }
    unsigned starts = __ballot_sync(0xffffffffu, window >= 0 && (c.lane() == 0 || before != window));
    if (starts >> c.lane() & 1) {
        int run = __popc(starts & ((1u << c.lane()) - 1)), next = __ffs(starts >> (c.lane() + 1));
        s.run_row[run] = c.lane();
        s.run_rows[run] = next ? next : c.rows() - c.lane();
        s.run_window[run] = window;
    }
    if (c.lane() < MX_CHAIN_ROWS) {
        s.cell[c.lane()] = own;
        s.seq[c.lane()] = seq;
        s.pos[c.lane()] = pos;
    }
    if (c.lane() == 0)
        s.runs = __popc(starts);
}

template <int x_parts, int w_parts, typename Crew> __device__ static void run_phases(Crew &c) {
#pragma unroll 1
    for (c.index = 0; c.index < c.chain.n; c.index++) {
        switch (c.phase().kind) {
        case MX_CHAIN_PRODUCT: run_product<x_parts, w_parts>(c); break;
        case MX_CHAIN_CACHED: run_cached(c); break;
        case MX_CHAIN_WINDOW: run_window(c); break;
        case MX_CHAIN_JOIN: run_join(c); break;
        default: run_tables(c); break;
        }
    }
    leave_grid(c);
}
#endif

template <int x_parts, int w_parts, typename Chain>
__global__ void __launch_bounds__(CHAIN_THREADS, 1) chain_kernel(const __grid_constant__ Chain chain) {
#if MX_WIDE
    chain_shared &s = shared();
    crew<Chain> c = {chain, 0, 0, 0};
    if (c.thread() == 0) {
        for (int i = 0; i < GATES; i++) {
            mx_gate_open(&s.full[i], 1);
            mx_gate_open(&s.empty[i], 1);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
#pragma unroll 1
    for (int i = c.thread(); i < (int)(chain.n * sizeof(mx_chain_phase) / 4); i += CHAIN_THREADS)
        ((uint32_t *)c.phases())[i] = ((const uint32_t *)chain.at)[i];
    __syncthreads();
    if (c.warp() == MX_CHAIN_WARPS) {
        bring_weights<w_parts>(c);
        mx_wait_before();
        return;
    }
    mx_wait_before();
    if (c.warp() == 0)
        learn_rows(c);
    meet_block();
    run_phases<x_parts, w_parts>(c);
#endif
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */

/* A block to a multiprocessor, all at once: they wait for each other. */
template <typename Chain> static void launch(mx_cuda *gpu, const Chain &chain, void (*kernel)(Chain), int *allowed) {
    int bytes = chain.ring_bytes + chain.work_bytes + chain.n * (int)sizeof(mx_chain_phase) + 128;
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = {};
    mx_cuda_allow_shared(gpu, (const void *)kernel, bytes, allowed);
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributeCooperative;
    attributes[1].val.cooperative = 1;
    config.gridDim = dim3((unsigned)chain.blocks);
    config.blockDim = dim3(CHAIN_THREADS);
    config.dynamicSmemBytes = (size_t)bytes;
    config.stream = gpu->stream;
    config.attrs = attributes;
    config.numAttrs = chain.n > 1 ? 2 : 1;
    cudaLaunchKernelEx(&config, kernel, chain);
}

template <typename Chain> static void run(mx_cuda *gpu, const Chain &chain, int x_parts, int w_parts) {
    static int allowed[3][MX_CUDA_MOST];
    if (x_parts == 1)
        launch<Chain>(gpu, chain, chain_kernel<1, 1, Chain>, allowed[0]);
    else if (w_parts == 1)
        launch<Chain>(gpu, chain, chain_kernel<2, 1, Chain>, allowed[1]);
    else
        launch<Chain>(gpu, chain, chain_kernel<2, 2, Chain>, allowed[2]);
}

void mx_chain_run(mx_cuda *gpu, const mx_long_chain &chain, int x_parts, int w_parts) {
    run(gpu, chain, x_parts, w_parts);
}

void mx_chain_run(mx_cuda *gpu, const mx_short_chain &chain, int x_parts, int w_parts) {
    run(gpu, chain, x_parts, w_parts);
}
