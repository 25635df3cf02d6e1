/* modules/cuda/product_held.cu - compiled products of very many rows on Hopper, where rows are short: a block keeps the
 * operands of 64 to 192 rows in shared memory and passes all weights by them. What limits products of this kind is what
 * comes out of the L2 cache; here each row is read once, and each weight once for so many rows.
 * Two groups of four warps have every other 64 columns. They multiply in turns, so that one multiplies while the other
 * finishes its results. Two threads of a third group bring rows and weights, those of the next rows too.
 * What holds: operands and the order of the sums are those of product_rows.cu. */
#include "modules/cuda/product_turned.cuh"

#define STAGES_AT_MOST 8
#define STAGES_AT_LEAST 4

#define BLOCKS_AT_MOST 12       /* of k: no more fit */
#define GATES (2 * BLOCKS_AT_MOST + 2 * STAGES_AT_MOST + 2)
#define GATES_BYTES ((GATES * 8 + 127) / 128 * 128)

/* What a block has in shared memory: gates, blocks of k of its rows, stages of weights. Few pointers: registers are
 * what these kernels lack. */
struct held {
    char *base, *weights;
    int stages;
    __device__ __forceinline__ uint64_t *gate(int i) const { return (uint64_t *)base + i; }
    __device__ __forceinline__ uint64_t *x_full(int i) const { return gate(i); }
    __device__ __forceinline__ uint64_t *x_empty(int i) const { return gate(BLOCKS_AT_MOST + i); }
    __device__ __forceinline__ uint64_t *w_full(int i) const { return gate(2 * BLOCKS_AT_MOST + i); }
    __device__ __forceinline__ uint64_t *w_empty(int i) const { return gate(2 * BLOCKS_AT_MOST + STAGES_AT_MOST + i); }
    __device__ __forceinline__ uint64_t *turn(int i) const { return gate(GATES - 2 + i); }
    __device__ __forceinline__ char *x() const { return base + GATES_BYTES; }
};

#if MX_WIDE
template <typename S> __device__ __forceinline__ held open_held(const mx_product &p, char *raw, int stages) {
    held h;
    h.stages = stages;
    h.base = raw + (128 - mx_shared_at(raw) % 128) % 128;
    h.weights = h.x() + p.blocks * S::x_bytes;
    if (threadIdx.x == 0) {
        for (int i = 0; i < p.blocks; i++) {
            mx_gate_open(h.x_full(i), 1);
            mx_gate_open(h.x_empty(i), 8);   /* a warp each */
        }
        for (int i = 0; i < stages; i++) {
            mx_gate_open(h.w_full(i), 1);
            mx_gate_open(h.w_empty(i), 4);
        }
        mx_gate_open(h.turn(0), 4);
        mx_gate_open(h.turn(1), 4);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    return h;
}

/* ---- what is brought --------------------------------------------------------------------------------------------- */

/* The rows of the next tile, into the L2 cache. */
template <typename S> __device__ __forceinline__ void expect_x(const mx_product &p, int64_t tile) {
    int64_t units = (p.f.m + 63) / 64, last = min(((tile + 1) * S::rows + 63) / 64, units);
    for (int64_t unit = tile * S::rows / 64; unit < last; unit++)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;"
                     ::"l"((const char *)p.f.x + unit * p.blocks * S::parts * MX_TURNED_PART),
                     "r"(p.blocks * S::parts * MX_TURNED_PART) : "memory");
}

template <typename S> __device__ __forceinline__ void bring_x(const mx_product &p, const held &h, int64_t tiles) {
    int round = 0;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x, round++) {
        mx_turned_rows<S> rows(p, tile * S::rows);
        for (int block = 0; block < p.blocks; block++) {
            char *to = h.x() + block * S::x_bytes;
            uint64_t *full = h.x_full(block);
            if (round > 0)
                mx_gate_wait(h.x_empty(block), (round - 1) % 2);
            mx_gate_expect(full, S::x_bytes);
#pragma unroll
            for (int part = 0; part < S::parts; part++)
                rows.bring(block, part, [&](unsigned at, const char *from, unsigned bytes) {
                    mx_bulk_copy(to + at, from, bytes, full);
                });
        }
        expect_x<S>(p, tile + gridDim.x);
    }
}

/* In the order in which the groups take them: all of k for 64 columns, then for the next. */
__device__ __forceinline__ void bring_weights(const mx_product &p, const held &h, int64_t rounds) {
    mx_ring r = {0, 0};
    int groups = (int)(p.f.n / MX_TURNED_COLUMNS), fresh = h.stages;
    for (int64_t i = 0; i < rounds * groups; i++) {
        const char *from = (const char *)p.f.weight.bytes + i % groups * MX_TURNED_WEIGHT;
        for (int block = 0; block < p.blocks; block++, fresh--, from += (int64_t)p.tiles * 1024) {
            if (fresh <= 0)
                mx_gate_wait(h.w_empty(r.stage), r.parity ^ 1);
            mx_gate_expect(h.w_full(r.stage), MX_TURNED_WEIGHT);
            mx_bulk_copy(h.weights + r.stage * MX_TURNED_WEIGHT, from, MX_TURNED_WEIGHT, h.w_full(r.stage));
            r.skip(1, h.stages);
        }
    }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* One group's way through its tiles. */
struct course {
    mx_ring ring;
    int group, turns;      /* that it has had: a turn is all of k for its columns */
    int x_parity;          /* of the rows that are there */
    int first, last;       /* its first columns of these rows; its last */
};

__device__ __forceinline__ void wait_turn(const held &h, const course &c) {
    if (c.group || c.turns > 0)
        mx_gate_wait(h.turn(c.group), c.group ? c.turns % 2 : (c.turns - 1) % 2);
}

__device__ __forceinline__ void say(uint64_t *gate) {
    if (threadIdx.x % MX_WARP == 0)
        mx_gate_arrive(gate);
    __syncwarp();
}

/* A block was multiplied: its weights may go, and the rows with the last of the columns. */
__device__ __forceinline__ void let_go(const held &h, const course &c, int stage, int block) {
    say(h.w_empty(stage));
    if (c.last)
        say(h.x_empty(block));
}

/* A chunk of k; `passes`: the other group's turn comes with it. */
template <typename S>
__device__ __forceinline__ void multiply_chunk(const mx_product &p, const held &h, course &c, int chunk, int passes,
                                               float (&sums)[S::sums]) {
    int begin = mx_chunk_start(p, chunk), end = mx_chunk_start(p, chunk + 1), before = 0;
    for (int block = begin; block < end; block++) {
        if (c.first)
            mx_gate_wait(h.x_full(block), c.x_parity);
        mx_gate_wait(h.w_full(c.ring.stage), c.ring.parity);
        mx_turned_step<S>(sums, h.weights + c.ring.stage * MX_TURNED_WEIGHT, h.x() + block * S::x_bytes, block > begin);
        if (block > begin) {
            mx_wide_wait<1>();
            let_go(h, c, before, block - 1);
        }
        before = c.ring.stage;
        c.ring.skip(1, h.stages);
    }
    if (passes)
        say(h.turn(c.group ^ 1));
    mx_wide_wait<0>();
    let_go(h, c, before, end - 1);
}

template <typename S>
__device__ __forceinline__ void multiply_tile(const mx_product &p, const held &h, course &c,
                                              float (&total)[S::totals]) {
    float sums[S::sums];
#pragma unroll
    for (int i = 0; i < S::totals; i++)
        total[i] = 0;
    if (c.group)
        c.ring.skip(p.blocks, h.stages);
    wait_turn(h, c);
    for (int chunk = 0; chunk < p.chunks; chunk++) {
        multiply_chunk<S>(p, h, c, chunk, chunk + 1 == p.chunks, sums);
        mx_turned_add<S>(total, sums);
    }
    c.turns++;
    if (!c.group)
        c.ring.skip(p.blocks, h.stages);
}

template <typename S> __device__ __forceinline__ void multiply_all(const mx_product &p, const held &h, int64_t tiles) {
    course c = {{0, 0}, (int)threadIdx.x / MX_GROUP, 0, 0, 0, 0};
    int pairs = (int)(p.f.n / (2 * MX_TURNED_COLUMNS));
    float total[S::totals];
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x, c.x_parity ^= 1)
        for (int pair = 0; pair < pairs; pair++) {
            c.first = pair == 0;
            c.last = pair + 1 == pairs;
            mx_turned_expect<S>(p, tile * S::rows, (pair * 2 + c.group) * MX_TURNED_COLUMNS);
            multiply_tile<S>(p, h, c, total);
            mx_turned_finish<S>(p, tile * S::rows, (pair * 2 + c.group) * MX_TURNED_COLUMNS, total);
        }
}
#endif

template <typename S> __global__ void __launch_bounds__(MX_TURNED_THREADS, 1) held_kernel(mx_product p, int stages) {
#if MX_WIDE
    extern __shared__ char raw[];
    int64_t tiles = (p.f.m + S::rows - 1) / S::rows;
    held h = open_held<S>(p, raw, stages);
    if (threadIdx.x / MX_GROUP == 2) {
        mx_registers_down();
        if (threadIdx.x == 2 * MX_GROUP)
            bring_x<S>(p, h, tiles);
        else if (threadIdx.x == 2 * MX_GROUP + MX_WARP)
            bring_weights(p, h, (tiles - blockIdx.x + gridDim.x - 1) / gridDim.x);
    } else {
        mx_registers_up();
        multiply_all<S>(p, h, tiles);
    }
#endif
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */

static int parts_of(const mx_product &p) { return p.f.precision == MXW_PRECISION_F16 ? 1 : 2; }

/* Stages of weights that there is room for beside so many rows. */
static int stages_of(const mx_product &p, int rows) {
    int left = MX_TURNED_SHARED - 1024 - p.blocks * rows * parts_of(p) * 128;
    return MX_MIN(left / MX_TURNED_WEIGHT, STAGES_AT_MOST);
}

/* The most rows that leave room for the weights; 0: none. */
static int rows_of(const mx_product &p) {
    static const int rows[2][3] = {{192, 128}, {128, 96, 64}};
    for (int i = 0; i < 3 && rows[parts_of(p) - 1][i]; i++)
        if (stages_of(p, rows[parts_of(p) - 1][i]) >= STAGES_AT_LEAST)
            return rows[parts_of(p) - 1][i];
    return 0;
}

int mx_held_takes(mx_cuda *gpu, const mx_product &p) {
    int rows = rows_of(p);
    return rows && mx_turned_makes(p) && p.f.m >= (int64_t)rows * gpu->device.info.cores;
}

template <typename S> static void launch(mx_cuda *gpu, const mx_product &p) {
    static int allowed[MX_CUDA_MOST];
    int64_t tiles = (p.f.m + S::rows - 1) / S::rows;
    mx_cuda_allow_shared(gpu, (const void *)held_kernel<S>, MX_TURNED_SHARED, allowed);
    held_kernel<S><<<(unsigned)MX_MIN(tiles, gpu->device.info.cores), MX_TURNED_THREADS, MX_TURNED_SHARED,
                     gpu->stream>>>(p, stages_of(p, S::rows));
}

void mx_held_product(mx_cuda *gpu, const mx_product &p) {
    int rows = rows_of(p);
    if (parts_of(p) == 1 && rows == 192)
        launch<mx_turned<192, 1>>(gpu, p);
    else if (parts_of(p) == 1)
        launch<mx_turned<128, 1>>(gpu, p);
    else if (rows == 128)
        launch<mx_turned<128, 2>>(gpu, p);
    else if (rows == 96)
        launch<mx_turned<96, 2>>(gpu, p);
    else
        launch<mx_turned<64, 2>>(gpu, p);
}
