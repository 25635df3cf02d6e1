/* modules/cuda/product_wide.cu - compiled products of many rows on Hopper: groups of four warps have 64 rows by a tile
 * of columns in registers. Each warp brings the rows of x that it owns through a ring of its own in shared memory, and
 * splits them into operands while the tensor cores work on those before; weights come in bulk.
 * What holds: the chunks of k are added in order, as in product_rows.cu. */
#include "modules/cuda/flash.cuh"
#include "modules/cuda/wgmma.cuh"

#define STAGES 4
#define AHEAD 2              /* blocks of weights that are under way */
#define RING 6               /* halves of blocks of x in a warp's ring */
#define HALF_BYTES 2048      /* 16 rows by 32 of k */

/* A block's tile: 64 rows to a group, `tiles` of 8 columns. */
template <int groups_, int tiles_, int x_parts_, int w_parts_, bool norm_> struct wide_shape {
    static constexpr bool norm = norm_;
    static constexpr int groups = groups_, tiles = tiles_, x_parts = x_parts_, w_parts = w_parts_;
    static constexpr int rows = groups * 64, threads = groups * 128, sums = tiles * 4;
    static constexpr int part = tiles * 1024, stage = part * w_parts;      /* bytes */
    static constexpr int ring = RING * HALF_BYTES;                         /* of a warp */
    static constexpr int bytes = STAGES * stage + groups * 4 * ring + 2 * STAGES * 8 + 128;
};

#if MX_WIDE
/* The four rows that a lane copies from: every fourth, from lane / 8 on. */
struct x_rows {
    mx_row of[4];
    char *ring;
};

/* 32 of k of the warp's 16 rows, 128 bytes to a row; in odd rows the 16-byte pieces 0 to 3 and 4 to 7 change places, so
 * that a read of two rows meets no bank twice. */
__device__ __forceinline__ void copy_x(const x_rows &x, int half) {
    int lane = threadIdx.x % MX_WARP, piece = lane % 8, k = half * 32 + piece * 4;
    char *to = x.ring + half % RING * HALF_BYTES;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int row = lane / 8 + i * 4;
        bool there = k >= x.of[i].first && k < x.of[i].last;
        mx_copy_16(to + row * 128 + (piece ^ row % 2 * 4) * 16, there ? x.of[i].at + k : x.of[0].at, there);
    }
    mx_copy_commit();
}

template <bool norm, int parts>
__device__ __forceinline__ void split_x(const mx_product &p, const float2 (&statistics)[2], const char *ring, int half,
                                        uint4 (&a)[2][parts]) {
    int g = threadIdx.x % MX_WARP / 4, t = threadIdx.x % 4, k = half * 32 + t * 4;
    const char *from = ring + half % RING * HALF_BYTES + g * 128;
#pragma unroll
    for (int step = 0; step < 2; step++) {
        int piece = (step * 4 + t) ^ g % 2 * 4;
        float4 low = *(const float4 *)(from + piece * 16), high = *(const float4 *)(from + 1024 + piece * 16);
        if (norm) {
            float4 gamma = mx_four_at<true>(p.f.gamma, p.f.k, k + step * 16);
            float4 beta = mx_four_at<true>(p.f.beta, p.f.k, k + step * 16);
            low = mx_norm_four(low, statistics[0], gamma, beta);
            high = mx_norm_four(high, statistics[1], gamma, beta);
        }
        mx_operand<parts>(low, high, a[step]);
    }
}

/* Two steps: the first of a chunk begins the sums anew. */
template <typename S>
__device__ __forceinline__ void multiply(float (&hi)[S::sums], float (&lo)[S::sums], const uint4 (&a)[2][S::x_parts],
                                         const char *w, int add) {
    uint64_t columns = mx_wide_pieces(w);
    mx_wide_begin();
#pragma unroll
    for (int step = 0; step < 2; step++)
        mx_wide(hi, a[step][0], columns + step * 16, step > 0 || add);
    if (S::x_parts == 2)
#pragma unroll
        for (int step = 0; step < 2; step++) {
            mx_wide(lo, a[step][S::x_parts - 1], columns + step * 16, step > 0 || add);
            if (S::w_parts == 2)
                mx_wide(lo, a[step][0], mx_wide_pieces(w + S::part) + step * 16, 1);
        }
    mx_wide_commit();
}

template <typename S>
__device__ __forceinline__ void add_chunk(float (&total)[S::sums], float (&hi)[S::sums], float (&lo)[S::sums]) {
    mx_wide_wait<0>();
    mx_wide_hold(hi);
    if (S::x_parts == 2)
        mx_wide_hold(lo);
#pragma unroll
    for (int i = 0; i < S::sums; i++)
        total[i] = __fadd_rn(total[i], mx_chunk_sum<S::x_parts>(hi[i], lo[i]));
}

/* Where weights come from, and the gates of their stages. */
template <typename S> struct weights {
    const char *from;      /* of the first block */
    int64_t step;          /* bytes from block to block */
    unsigned bytes;        /* of a part of a block */
    char *shared;
    uint64_t *full, *empty;
};

template <typename S> __device__ __forceinline__ void bring_w(const mx_product &p, const weights<S> &w, int block) {
    int stage = block % STAGES, round = block / STAGES;
    if (block < p.blocks && threadIdx.x == 0) {
        if (round > 0)
            mx_gate_wait(&w.empty[stage], (round - 1) % 2);
        mx_gate_expect(&w.full[stage], w.bytes * S::w_parts);
#pragma unroll
        for (int part = 0; part < S::w_parts; part++)
            mx_bulk_copy(w.shared + stage * S::stage + part * S::part, w.from + block * w.step + part * p.w_part,
                         w.bytes, &w.full[stage]);
    }
    __syncwarp();
}

/* A block of weights is done with: a warp's word. */
template <typename S> __device__ __forceinline__ void let_go(const weights<S> &w, int block) {
    if (block >= 0 && threadIdx.x % MX_WARP == 0)
        mx_gate_arrive(&w.empty[block % STAGES]);
    __syncwarp();
}

/* Rows g, then rows g + 8: what is added to all of a row is under way at once. */
template <typename S>
__device__ __forceinline__ void finish(const mx_product &p, int64_t row, int tile, float (&total)[S::sums]) {
    int first = tile * 8 + threadIdx.x % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int64_t r = row + half * 8;
        const float *residual = r < p.f.m ? mx_residual_of(p.f, r) : NULL;
        float2 v[S::tiles], more[S::tiles];
#pragma unroll
        for (int i = 0; i < S::tiles; i++) {
            int column = first + i * 8;
            float2 bias = p.f.bias && column < p.f.n ? __ldg((const float2 *)(p.f.bias + column)) : make_float2(0, 0);
            more[i] = residual && column < p.f.n ? __ldg((const float2 *)(residual + column)) : make_float2(0, 0);
            v[i].x = __fmul_rn(total[i * 4 + half * 2], MX_X_UP);
            v[i].y = __fmul_rn(total[i * 4 + half * 2 + 1], MX_X_UP);
            if (p.f.bias)
                v[i] = make_float2(__fadd_rn(v[i].x, bias.x), __fadd_rn(v[i].y, bias.y));
        }
        if (p.f.act != MX_ACT_NONE)
#pragma unroll
            for (int i = 0; i < S::tiles; i++)
                v[i] = make_float2(mx_act_of(p.f.act, v[i].x), mx_act_of(p.f.act, v[i].y));
#pragma unroll
        for (int i = 0; i < S::tiles; i++) {
            if (p.f.residual)
                v[i] = make_float2(__fadd_rn(v[i].x, more[i].x), __fadd_rn(v[i].y, more[i].y));
            if (r < p.f.m && first + i * 8 < p.f.n)
                *(float2 *)(p.f.y + r * p.f.ldy + first + i * 8) = v[i];
        }
    }
}

template <typename S>
__device__ __forceinline__ void multiply_all(const mx_product &p, const weights<S> &w, const x_rows &x, int64_t row,
                                             float (&total)[S::sums]) {
    float hi[S::sums], lo[S::sums];
    float2 statistics[2] = {};
    uint4 a[2][2][S::x_parts];
    for (int i = 0; i < RING - 1; i++)
        copy_x(x, i);
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (S::norm && row + i * 8 < p.f.m)
            statistics[i] = ((const float2 *)p.f.scratch)[row + i * 8];
    for (int chunk = 0, block = 0; chunk < p.chunks; chunk++) {
        for (int begin = block, end = mx_chunk_start(p, chunk + 1); block < end; block++) {
            int stage = block % STAGES;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int now = block * 2 + half;
                mx_copy_wait<RING - 2>();
                __syncwarp();
                split_x<S::norm, S::x_parts>(p, statistics, x.ring, now, a[half]);
                copy_x(x, now + RING - 1);   /* to where the half before this one was: all lanes have read that */
                if (half == 0)
                    mx_gate_wait(&w.full[stage], block / STAGES % 2);
                multiply<S>(hi, lo, a[half], w.shared + stage * S::stage + half * 512, half > 0 || block > begin);
                mx_wide_wait<1>();
                if (half == 0)
                    let_go(w, block - 1);
            }
            bring_w<S>(p, w, block + AHEAD);
        }
        add_chunk<S>(total, hi, lo);
    }
    mx_copy_wait<0>();
}
#endif

template <typename S> __global__ void __launch_bounds__(S::threads, S::groups == 1 ? 2 : 1) wide_kernel(mx_product p) {
#if MX_WIDE
    extern __shared__ char raw[];
    int across = (p.tiles + S::tiles - 1) / S::tiles, tile = (int)(blockIdx.x % across) * S::tiles;
    int64_t row = (int64_t)(blockIdx.x / across) * S::rows + threadIdx.x / MX_WARP * 16 + threadIdx.x % MX_WARP / 4;
    weights<S> w;
    w.from = (const char *)p.f.weight.bytes + (int64_t)tile * 1024;
    w.step = (int64_t)p.tiles * 1024;
    w.bytes = (unsigned)min(S::tiles, p.tiles - tile) * 1024;
    w.shared = raw + (128 - mx_shared_at(raw) % 128) % 128;
    x_rows x;
    x.ring = w.shared + STAGES * S::stage + threadIdx.x / MX_WARP * S::ring;
#pragma unroll
    for (int i = 0; i < 4; i++)
        x.of[i] = mx_row_of(p.f, row - threadIdx.x % MX_WARP / 4 + threadIdx.x % MX_WARP / 8 + i * 4);
    w.full = (uint64_t *)(w.shared + STAGES * S::stage + S::groups * 4 * S::ring);
    w.empty = w.full + STAGES;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            mx_gate_open(&w.full[i], 1);
            mx_gate_open(&w.empty[i], S::groups * 4);   /* a warp each */
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    for (int i = 0; i < AHEAD; i++)
        bring_w<S>(p, w, i);
    __syncthreads();
    float total[S::sums] = {};
    multiply_all<S>(p, w, x, row, total);
    finish<S>(p, row, tile, total);
#endif
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */

int mx_product_is_wide(mx_cuda *gpu) { return mx_flash_is_wide(gpu); }

template <typename S> static int64_t tiles_in(const mx_product &p) {
    return (p.f.m + S::rows - 1) / S::rows * ((p.tiles + S::tiles - 1) / S::tiles);
}

template <typename S> static void launch(mx_cuda *gpu, const mx_product &p) {
    static int allowed[MX_CUDA_MOST];
    mx_cuda_allow_shared(gpu, (const void *)wide_kernel<S>, S::bytes, allowed);
    wide_kernel<S><<<(unsigned)tiles_in<S>(p), S::threads, S::bytes, gpu->stream>>>(p);
}

/* The larger tile, unless it leaves half of the multiprocessors without work. */
template <typename Middle, typename Small> static void launch_best(mx_cuda *gpu, const mx_product &p) {
    if (2 * tiles_in<Middle>(p) >= gpu->device.info.cores)
        launch<Middle>(gpu, p);
    else
        launch<Small>(gpu, p);
}

template <bool norm> static void launch_for(mx_cuda *gpu, const mx_product &p) {
    using large = wide_shape<2, 16, 1, 1, norm>;   /* for many rounds, or for one that is nearly full */
    int64_t tiles = tiles_in<large>(p), cores = gpu->device.info.cores;
    if (p.f.precision == MXW_PRECISION_F16 && (tiles >= 4 * cores || (tiles <= cores && 4 * tiles > 3 * cores)))
        launch<large>(gpu, p);
    else if (p.f.precision == MXW_PRECISION_F16)
        launch_best<wide_shape<1, 12, 1, 1, norm>, wide_shape<1, 4, 1, 1, norm>>(gpu, p);
    else if (p.f.weight.parts == 1)
        launch_best<wide_shape<1, 12, 2, 1, norm>, wide_shape<1, 4, 2, 1, norm>>(gpu, p);
    else
        launch<wide_shape<1, 8, 2, 2, norm>>(gpu, p);
}

void mx_wide_product(mx_cuda *gpu, const mx_product &p) {
    if (p.f.gamma)
        launch_for<true>(gpu, p);
    else
        launch_for<false>(gpu, p);
}
