/* modules/cuda/rows_attention.cuh - attention of a decoder's rows over a tile of keys, by a group of threads; heads of
 * 64. Used by kernels that differ in who takes which tile (rows_attention.cu, chain.cu), so that they agree bit for
 * bit: of a tile are left the largest score, the sum of the weights and the weighted sum of values, and tiles are
 * joined in the order of the keys.
 * What holds: the order of every sum follows from the number of keys alone, not from the rows that share a group nor
 * from the threads that it has. */
#ifndef MX_CUDA_ROWS_ATTENTION_CUH
#define MX_CUDA_ROWS_ATTENTION_CUH
#include "modules/cuda/block.cuh"

#define WIDTH 64          /* of a head */
#define TILE 64           /* keys */
#define ROWS 8            /* that share a group at most */
#define PER_KEY 8         /* threads to a key, of 8 elements each */
#define STREAMS 8         /* sums of values over every 8th key, which are then added */
#define PART (WIDTH + 4)  /* floats of a tile's result: values, largest score, sum of weights, two of nothing */

struct rows_job {
    const float *q, *k, *v;
    float *y, *parts;             /* parts [rows][heads][tiles][PART] */
    unsigned *arrived;            /* [rows * heads], 0 before and after */
    const int32_t *seq, *pos, *cells, *window;   /* of a cache: seq, pos and cells; of windows: window */
    int64_t ld_q, ctx, keys;
    int rows, heads, d, tiles;    /* tiles: of the longest row there may be */
    float scale;
};

/* What a group works on: n neighbouring rows that listen to the same keys. */
struct rows_piece {
    int row, n, head, n_keys, n_tiles;
    const float *k, *v;           /* of the head, key 0 */
    const int32_t *cells;         /* NULL: keys follow each other */
};

/* The group: a thread's place in it, and the barrier that it meets at. */
template <int threads_> struct rows_group {
    static constexpr int threads = threads_;
    static constexpr int passes = TILE / (threads / PER_KEY);          /* keys of a thread */
    static constexpr int columns = WIDTH * STREAMS / threads;          /* of a thread's sums of values */
    int thread, barrier;
};

template <typename G> __device__ __forceinline__ static void meet_group(const G &g) {
    asm volatile("bar.sync %0, %1;" ::"r"(g.barrier), "n"(G::threads) : "memory");
}

/* A group's shared memory: floats of `rows` rows. Loops over rows are not unrolled: fetching instructions that run once
 * takes longer than running them. */
struct rows_pad {
    float *q;           /* [rows][WIDTH] */
    float *weights;     /* [rows][TILE]: scores, then weights */
    float *sums;        /* [STREAMS][rows][WIDTH] */
    int rows;
};
#define ROWS_PAD(rows) ((rows) * (WIDTH + TILE + STREAMS * WIDTH))   /* floats */

__device__ __forceinline__ static rows_pad pad_at(float *shared, int rows) {
    rows_pad s = {shared, shared + rows * WIDTH, shared + rows * (WIDTH + TILE), rows};
    return s;
}

/* Where the results of a tile go: a row's values, then its largest score and sum. */
struct rows_parts {
    float *at;
    int64_t row_step;
    __device__ __forceinline__ void put_four(int r, int column, float4 v) const {
        *(float4 *)(at + r * row_step + column) = v;
    }
    __device__ __forceinline__ void put_ends(int r, float top, float sum) const {
        at[r * row_step + WIDTH] = top;
        at[r * row_step + WIDTH + 1] = sum;
    }
};

/* A thread's elements of its keys of the tile, and of values: all under way at once. */
template <typename G> struct rows_loads {
    float4 k[G::passes][2];
    float v[TILE / STREAMS][G::columns];
};

__device__ __forceinline__ static void load_columns(const float *from, float (&v)[4]) {
    float4 of = __ldcg((const float4 *)from);
    v[0] = of.x, v[1] = of.y, v[2] = of.z, v[3] = of.w;
}

/* Where a key or value is; behind the last one, the last one, whose weight there is 0. A block reads each once, and
 * another block may just have written it. */
template <bool cached>
__device__ __forceinline__ static const float *key_at(const float *base, const rows_job &job, const rows_piece &p,
                                                      int key) {
    key = min(key, p.n_keys - 1);
    return base + (int64_t)(cached ? __ldcg(p.cells + key) : key) * job.d;
}

template <bool cached, typename G>
__device__ __forceinline__ static void load_tile(const rows_job &job, const rows_piece &p, const G &g, int first,
                                                 rows_loads<G> &x) {
    const int across = WIDTH / G::columns;
    int in_key = g.thread % PER_KEY, column = g.thread % across * G::columns, stream = g.thread / across;
#pragma unroll
    for (int i = 0; i < G::passes; i++) {
        const float *from =
            key_at<cached>(p.k, job, p, first + i * (G::threads / PER_KEY) + g.thread / PER_KEY) + in_key * 4;
        x.k[i][0] = __ldcg((const float4 *)from);
        x.k[i][1] = __ldcg((const float4 *)(from + WIDTH / 2));
    }
#pragma unroll
    for (int i = 0; i < TILE / STREAMS; i++)
        load_columns(key_at<cached>(p.v, job, p, first + i * STREAMS + stream) + column, x.v[i]);
}

__device__ __forceinline__ static float dot4(float4 a, float4 b, float sum) {
    sum = __fmaf_rn(a.x, b.x, sum);
    sum = __fmaf_rn(a.y, b.y, sum);
    sum = __fmaf_rn(a.z, b.z, sum);
    return __fmaf_rn(a.w, b.w, sum);
}

/* Sums of `n` values each over the PER_KEY threads of a key, by halving: with every exchange a thread has half as many
 * values left, and its last one is that of number in_key / (PER_KEY / n). Each is added as by a butterfly over all. */
template <int n> __device__ __forceinline__ static float sum_over_key(float (&v)[n], int in_key) {
    int half = PER_KEY / 2;
#pragma unroll
    for (int left = n / 2; left > 0; left /= 2, half /= 2) {
        bool upper = in_key & half;
#pragma unroll
        for (int i = 0; i < left; i++) {
            float keep = upper ? v[i + left] : v[i], give = upper ? v[i] : v[i + left];
            v[i] = __fadd_rn(keep, __shfl_xor_sync(0xffffffffu, give, half));
        }
    }
#pragma unroll
    for (; half > 0; half /= 2)
        v[0] = __fadd_rn(v[0], __shfl_xor_sync(0xffffffffu, v[0], half));
    return v[0];
}

/* Scores of the tile times scale; -inf behind the last key. */
template <typename G>
__device__ __forceinline__ static void score(const rows_job &job, const rows_piece &p, const G &g, int first,
                                             const rows_loads<G> &x, const rows_pad &s) {
    const int each = PER_KEY / G::passes;
    int in_key = g.thread % PER_KEY, mine = in_key / each * (G::threads / PER_KEY) + g.thread / PER_KEY;
    bool there = first + mine < p.n_keys;
    float scale = job.scale;
#pragma unroll 1
    for (int r = 0; r < p.n; r++) {
        const float *q = s.q + r * WIDTH + in_key * 4;
        float4 q0 = *(const float4 *)q, q1 = *(const float4 *)(q + WIDTH / 2);
        float sums[G::passes];
#pragma unroll
        for (int i = 0; i < G::passes; i++)
            sums[i] = dot4(x.k[i][1], q1, dot4(x.k[i][0], q0, 0));
        float sum = sum_over_key(sums, in_key);
        if (in_key % each == 0)
            s.weights[r * TILE + mine] = there ? __fmul_rn(sum, scale) : -CUDART_INF_F;
    }
}

/* Weights e^(score - largest), their largest score and sum: a warp for each row. */
template <typename G, typename Parts>
__device__ __forceinline__ static void weigh(const rows_piece &p, const G &g, const rows_pad &s, const Parts &parts) {
    int warp = g.thread / MX_WARP, lane = g.thread % MX_WARP;
#pragma unroll 1
    for (int r = warp; r < p.n; r += G::threads / MX_WARP) {
        float a = s.weights[r * TILE + lane], b = s.weights[r * TILE + lane + MX_WARP];
        float top = mx_join_warp(mx_largest()(a, b), mx_largest());
        a = expf(__fsub_rn(a, top));
        b = expf(__fsub_rn(b, top));
        s.weights[r * TILE + lane] = a;
        s.weights[r * TILE + lane + MX_WARP] = b;
        float sum = mx_join_warp(__fadd_rn(a, b), mx_sum());
        if (lane == 0)
            parts.put_ends(r, top, sum);
    }
}

/* The weighted sum of values: each stream its keys in order, then the streams in order. */
template <typename G, typename Parts>
__device__ __forceinline__ static void add_values(const rows_piece &p, const G &g, const rows_loads<G> &x,
                                                  const rows_pad &s, const Parts &parts) {
    const int across = WIDTH / G::columns;
    int column = g.thread % across * G::columns, stream = g.thread / across;
#pragma unroll 1
    for (int r = 0; r < p.n; r++) {
        float sum[G::columns] = {};
#pragma unroll
        for (int i = 0; i < TILE / STREAMS; i++) {
            float w = s.weights[r * TILE + i * STREAMS + stream];
#pragma unroll
            for (int j = 0; j < G::columns; j++)
                sum[j] = __fmaf_rn(w, x.v[i][j], sum[j]);
        }
        *(float4 *)&s.sums[(stream * s.rows + r) * WIDTH + column] = make_float4(sum[0], sum[1], sum[2], sum[3]);
    }
    meet_group(g);
#pragma unroll 1
    for (int i = g.thread * 4; i < p.n * WIDTH; i += G::threads * 4) {
        float4 all = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int j = 0; j < STREAMS; j++) {
            float4 v = *(const float4 *)&s.sums[j * s.rows * WIDTH + i];
            all.x = __fadd_rn(all.x, v.x), all.y = __fadd_rn(all.y, v.y);
            all.z = __fadd_rn(all.z, v.z), all.w = __fadd_rn(all.w, v.w);
        }
        parts.put_four(i / WIDTH, i % WIDTH, all);
    }
}

template <typename G>
__device__ __forceinline__ static void bring_query(const rows_job &job, const rows_piece &p, const G &g,
                                                   const rows_pad &s) {
#pragma unroll 1
    for (int i = g.thread; i < p.n * WIDTH; i += G::threads)
        s.q[i] = __ldcg(job.q + (p.row + i / WIDTH) * job.ld_q + p.head * WIDTH + i % WIDTH);
}

/* A tile whose keys and values are loaded; q is in the pad as soon as the group has met. */
template <typename G, typename Parts>
__device__ __forceinline__ static void finish_tile(const rows_job &job, const rows_piece &p, const G &g, int tile,
                                                   const rows_loads<G> &x, const rows_pad &s, const Parts &parts) {
    meet_group(g);   /* q is there; the tile before is done with */
    score(job, p, g, tile * TILE, x, s);
    meet_group(g);
    weigh(p, g, s, parts);
    meet_group(g);
    add_values(p, g, x, s, parts);
}

rows_job mx_rows_job_of(const mx_cuda *gpu, const mx_call *call);   /* rows_attention.cu */
#endif
