/* modules/cuda/product_passed.cu - compiled products of very many rows on Hopper, where rows are operands already (and,
 * in `f16`, long): both operands pass through shared memory, in blocks of 64 of k, 128 columns by 192 rows (`exact`: 96
 * rows, both parts of them). What limits products of this kind is what comes out of the L2 cache and goes through
 * shared memory: a tile this large has the least of both that registers allow.
 * A block stays and takes tile after tile. Two groups of four warps have 64 of the columns each and do nothing but
 * multiply; they leave their sums in shared memory to three warps that finish them meanwhile. One more warp brings
 * operands.
 * What holds: operands and the order of the sums are those of product_rows.cu. */
#include "modules/cuda/product_turned.cuh"

#define COLUMNS (2 * MX_TURNED_COLUMNS)
#define PITCH (COLUMNS + 4)      /* floats of a row of sums: eight columns by four pairs of rows meet no bank twice */
#define FINISHERS 3              /* warps */
#define AT_ONCE 8                /* rows of a finisher; half as many of those that are more work */
/* Of a group. A kernel of three begins with 168 each: more than that together would be waited for without an end. */
#define REGISTERS_MULTIPLY 208
#define REGISTERS_ELSE 88
static_assert(2 * REGISTERS_MULTIPLY + REGISTERS_ELSE <= 3 * 168, "registers of a block");

template <int rows_, int parts_, int stages_> struct passed {
    static constexpr int rows = rows_, parts = parts_, stages = stages_;
    static constexpr int sums = rows * parts / 2, totals = rows / 2;   /* floats of a lane */
    static constexpr int x_part = rows * 128, x_bytes = x_part * parts, w_bytes = 2 * MX_TURNED_WEIGHT;
    static constexpr int stage = w_bytes + x_bytes;
    static constexpr int gates_at = stages * stage, results_at = gates_at + 128;
    static constexpr int bytes = results_at + rows * PITCH * 4 + 128;   /* to begin with a multiple of 128 */
    static_assert(bytes <= MX_TURNED_SHARED && (2 * stages + 2) * 8 <= 128, "a block's shared memory");
    static_assert(rows % (FINISHERS * AT_ONCE) == 0 && rows % 32 == 0, "rows of each finisher");
};

/* Tiles of the same rows are neighbours, so that blocks that run together read them out of the L2 cache. */
template <typename S> __host__ __device__ __forceinline__ int64_t tiles_of(const mx_product &p) {
    return (p.f.m + S::rows - 1) / S::rows * (p.f.n / COLUMNS);
}

#if MX_WIDE
template <typename S> struct place {
    int64_t row;
    int column;
};

template <typename S> __device__ __forceinline__ place<S> place_of(const mx_product &p, int tile) {
    int across = (int)p.f.n / COLUMNS, down = tile / across;
    return {(int64_t)down * S::rows, (tile - down * across) * COLUMNS};
}

/* What a block has in shared memory: stages of weights and rows, gates, sums of a tile. */
template <typename S> struct room {
    unsigned base;
    __device__ __forceinline__ unsigned stage(int i) const { return base + i * S::stage; }
    __device__ __forceinline__ unsigned gate(int i) const { return base + S::gates_at + i * 8; }
    __device__ __forceinline__ unsigned full(int i) const { return gate(i); }
    __device__ __forceinline__ unsigned empty(int i) const { return gate(S::stages + i); }
    __device__ __forceinline__ unsigned sums_there() const { return gate(2 * S::stages); }
    __device__ __forceinline__ unsigned sums_taken() const { return gate(2 * S::stages + 1); }
    __device__ __forceinline__ unsigned results() const { return base + S::results_at; }
};

template <typename S> __device__ __forceinline__ room<S> open_room(char *raw) {
    room<S> r = {mx_same_for_all((mx_shared_at(raw) + 127) / 128 * 128)};
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::stages; i++) {
            mx_gate_open(r.full(i), 1);
            mx_gate_open(r.empty(i), 8);   /* a warp each */
        }
        mx_gate_open(r.sums_there(), 2 * MX_GROUP);   /* who writes or reads arrives, which racecheck follows */
        mx_gate_open(r.sums_taken(), FINISHERS * MX_WARP);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    return r;
}

__device__ __forceinline__ void say(unsigned gate) {
    __syncwarp();
    if (threadIdx.x % MX_WARP == 0)
        mx_gate_arrive(gate);
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

/* Rows lie by 64, part by part: a tile's are one to three pieces of each part. Of a tile that ends behind the last
 * rows, those are brought again: nobody takes the results. */
template <typename S>
__device__ __forceinline__ void bring_rows(const mx_product &p, unsigned to, int64_t row, int block, unsigned gate) {
    int64_t units = (p.f.m + 63) / 64, step = (int64_t)p.blocks * S::parts * MX_TURNED_PART;
    int into = (int)(row % 64) / 8;   /* eights of the first unit that are not this tile's */
    const char *from = (const char *)p.f.x + (int64_t)block * S::parts * MX_TURNED_PART;
#pragma unroll
    for (int eight = 0, i = 0; i < (S::rows + 63) / 64; i++) {
        int n = S::rows % 64 == 0 ? 8 : min(8 - into, S::rows / 8 - eight);
        const char *unit = from + min(row / 64 + i, units - 1) * step + into * 1024;
#pragma unroll
        for (int part = 0; part < S::parts; part++)
            mx_bulk_copy(to + part * S::x_part + eight * 1024, unit + part * MX_TURNED_PART, n * 1024, gate);
        eight += n;
        into = 0;
    }
}

template <typename S> __device__ __forceinline__ void bring_all(const mx_product &p, const room<S> &r, int tiles) {
    mx_ring ring = {0, 0};
    int fresh = S::stages;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        place<S> at = place_of<S>(p, tile);
        const char *weights = (const char *)p.f.weight.bytes + (int64_t)at.column / 8 * 1024;
        for (int block = 0; block < p.blocks; block++) {
            unsigned to = r.stage(ring.stage), gate = r.full(ring.stage);
            if (--fresh < 0)
                mx_gate_wait(r.empty(ring.stage), ring.parity ^ 1);
            mx_gate_expect(gate, S::stage);
            mx_bulk_copy(to, weights + (int64_t)block * p.tiles * 1024, S::w_bytes, gate);
            bring_rows<S>(p, to + S::w_bytes, at.row, block, gate);
            ring.skip(1, S::stages);
        }
    }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

template <typename S> __device__ __forceinline__ void let_go(const room<S> &r, const mx_ring &ring) {
    say(r.empty(ring.stage ? ring.stage - 1 : S::stages - 1));
}

/* The chunks' lengths, in blocks, one after the other: what mx_chunk_start says, without a division. */
struct chunk_lengths {
    int all, each, more, over;
    __device__ __forceinline__ explicit chunk_lengths(const mx_product &p)
        : all(p.chunks), each(p.blocks / p.chunks), more(p.blocks % p.chunks), over(0) {}
    __device__ __forceinline__ int next() {
        over += more;
        if (over < all)
            return each;
        over -= all;
        return each + 1;
    }
};

/* A chunk of k into sums that begin anew, of the columns of one group. */
template <typename S>
__device__ __forceinline__ void multiply_chunk(const room<S> &r, mx_ring &ring, int group, int blocks,
                                               float (&sums)[S::sums]) {
    for (int block = 0; block < blocks; block++) {
        unsigned at = mx_same_for_all(r.stage(ring.stage));
        uint64_t w = mx_wide_pieces(at + group * MX_TURNED_WEIGHT), x = mx_wide_pieces(at + S::w_bytes);
        mx_gate_wait(r.full(ring.stage), ring.parity);
        mx_wide_begin();
#pragma unroll
        for (int step = 0; step < 4; step++)
            mx_wide(sums, w + step * 16, x + step * 16, step > 0 || block > 0);
        mx_wide_commit();
        mx_wide_wait<1>();
        if (block > 0)
            let_go(r, ring);
        ring.skip(1, S::stages);
    }
    mx_wide_wait<0>();
    mx_wide_hold(sums);
    let_go(r, ring);
}

/* Sums to where finishers take them from: a lane's columns g and g + 8 of its warp's, of 8 rows 2 t and 2 t + 1. */
template <typename S>
__device__ __forceinline__ void leave_sums(const room<S> &r, int group, const float (&total)[S::totals]) {
    int lane = threadIdx.x % MX_WARP, warp = threadIdx.x % MX_GROUP / MX_WARP;
    unsigned to = r.results() + (lane % 4 * 2 * PITCH + group * MX_TURNED_COLUMNS + warp * 16 + lane / 4) * 4;
#pragma unroll
    for (int i = 0; i < S::totals; i++)
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(to + (i / 4 * 8 * PITCH + i % 2 * PITCH + i % 4 / 2 * 8) * 4),
                     "f"(total[i]) : "memory");
}

template <typename S> __device__ __forceinline__ void multiply_all(const mx_product &p, const room<S> &r, int tiles) {
    int group = (int)mx_same_for_all(threadIdx.x / MX_GROUP), round = 0;
    mx_ring ring = {0, 0};
    chunk_lengths lengths(p);
    float sums[S::sums], total[S::totals];
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, round++) {
#pragma unroll
        for (int i = 0; i < S::totals; i++)
            total[i] = 0;
        for (int chunk = 0; chunk < p.chunks; chunk++) {
            multiply_chunk<S>(r, ring, group, lengths.next(), sums);
#pragma unroll
            for (int i = 0; i < S::totals; i++)
                total[i] = __fadd_rn(total[i],
                                     mx_chunk_sum<S::parts>(sums[i], sums[(S::parts - 1) * S::totals + i]));
        }
        if (round > 0)
            mx_gate_wait(r.sums_taken(), (round - 1) % 2);
        leave_sums<S>(r, group, total);
        mx_gate_arrive(r.sums_there());
    }
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* What is added in the end is on its way to the L2 cache while the sums before are finished. Not by the engine that
 * brings operands, which would take its time for it. */
template <typename S>
__device__ __forceinline__ void expect_residual(const mx_product &p, int tile, int tiles, int number) {
    if (tile >= tiles || p.f.residual_rows != p.f.m)   /* rows that come again are there */
        return;
    place<S> at = place_of<S>(p, tile);
    int left = (int)min(p.f.m - at.row, (int64_t)S::rows);
    const float *from = p.f.residual + (at.row + number / 4) * p.f.ld_residual + at.column + number % 4 * 32;
    for (int i = number / 4; i < left; i += FINISHERS * 8, from += FINISHERS * 8 * p.f.ld_residual)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

/* A warp's way along the rows of a tile that it finishes, four columns to a lane. */
struct finishing {
    const float *more, *more_begin;   /* what is added to the next row, and to row 0 */
    int more_row;
    float *to;
    int left;                         /* rows that are to be written */
    float4 bias;
};

template <typename S>
__device__ __forceinline__ finishing begin_rows(const mx_product &p, const place<S> &at, int first, bool residual) {
    int64_t row = at.row + first;
    int column = at.column + threadIdx.x % MX_WARP * 4;
    finishing f = {};
    f.to = p.f.y + row * p.f.ldy + column;
    f.left = (int)max(min(p.f.m - row, (int64_t)S::rows), (int64_t)0);
    f.bias = p.f.bias ? __ldg((const float4 *)(p.f.bias + column)) : make_float4(0, 0, 0, 0);
    if (residual) {
        f.more_row = (int)((unsigned)row % (unsigned)p.f.residual_rows);
        f.more_begin = p.f.residual + column;
        f.more = f.more_begin + f.more_row * p.f.ld_residual;
    }
    return f;
}

/* The rows after the last are those of the first: they are there, and nobody takes the results. */
__device__ __forceinline__ float4 next_more(const mx_product &p, finishing &f) {
    float4 v = __ldcg((const float4 *)f.more);
    bool over = ++f.more_row == (int)p.f.residual_rows;
    f.more = over ? f.more_begin : f.more + p.f.ld_residual;
    f.more_row = over ? 0 : f.more_row;
    return v;
}

/* Some rows. Times 16 is exact, and no total is -0: so one rounding gives the bits of mx_ended, with a bias or none. */
template <typename S, bool act, bool residual, int once>
__device__ __forceinline__ void finish_rows(const mx_product &p, finishing &f, unsigned results) {
    float4 more[once];
#pragma unroll
    for (int i = 0; i < once && residual; i++)
        more[i] = next_more(p, f);
#pragma unroll
    for (int i = 0; i < once; i++, f.to += p.f.ldy) {
        float v[4];
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(results + i * PITCH * 4) : "memory");
#pragma unroll
        for (int j = 0; j < 4; j++) {
            v[j] = __fmaf_rn(v[j], MX_X_UP, (&f.bias.x)[j]);
            if (act)
                v[j] = S::parts == 1 ? mx_gelu_short(v[j]) : mx_gelu_erf(v[j]);
            if (residual)
                v[j] = __fadd_rn(v[j], (&more[i].x)[j]);
        }
        if (i < f.left)
            *(float4 *)f.to = make_float4(v[0], v[1], v[2], v[3]);
    }
    f.left -= once;
}

template <typename S, bool act, bool residual>
__device__ __forceinline__ void finish_all(const mx_product &p, const room<S> &r, int tiles) {
    constexpr int each = S::rows / FINISHERS, once = act ? AT_ONCE / 2 : AT_ONCE;
    int number = threadIdx.x - 2 * MX_GROUP - MX_WARP, begin = number / MX_WARP * each, round = 0;
    unsigned results = r.results() + (begin * PITCH + number % MX_WARP * 4) * 4;
    if (residual)
        expect_residual<S>(p, blockIdx.x, tiles, number);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, round++) {
        finishing f = begin_rows<S>(p, place_of<S>(p, tile), begin, residual);
        if (residual)
            expect_residual<S>(p, tile + gridDim.x, tiles, number);
        mx_gate_wait(r.sums_there(), round % 2);
#pragma unroll 1
        for (int i = 0; i < each; i += once)
            finish_rows<S, act, residual, once>(p, f, results + i * PITCH * 4);
        mx_gate_arrive(r.sums_taken());
    }
}

template <typename S> __device__ __forceinline__ void finish_any(const mx_product &p, const room<S> &r, int tiles) {
    if (p.f.act == MX_ACT_NONE && p.f.residual)
        finish_all<S, false, true>(p, r, tiles);
    else if (p.f.act == MX_ACT_NONE)
        finish_all<S, false, false>(p, r, tiles);
    else if (p.f.residual)
        finish_all<S, true, true>(p, r, tiles);
    else
        finish_all<S, true, false>(p, r, tiles);
}
#endif

template <typename S> __global__ void __launch_bounds__(MX_TURNED_THREADS, 1) passed_kernel(mx_product p) {
#if MX_WIDE
    extern __shared__ char raw[];
    int tiles = (int)tiles_of<S>(p);
    room<S> r = open_room<S>(raw);
    mx_wait_before();
    if (threadIdx.x / MX_GROUP == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS_ELSE));
        if (threadIdx.x / MX_WARP % 4 > 0)
            finish_any<S>(p, r, tiles);
        else if (threadIdx.x % MX_WARP == 0)
            bring_all<S>(p, r, tiles);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS_MULTIPLY));
        multiply_all<S>(p, r, tiles);
    }
#endif
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */

typedef passed<192, 1, 3> passed_f16;
typedef passed<96, 2, 4> passed_exact;

static int is_f16(const mx_product &p) { return p.f.precision == MXW_PRECISION_F16; }

template <typename S> static void launch(mx_cuda *gpu, const mx_product &p) {
    static int allowed[MX_CUDA_MOST];
    mx_cuda_allow_shared(gpu, (const void *)passed_kernel<S>, S::bytes, allowed);
    mx_launch(gpu, passed_kernel<S>, dim3((unsigned)MX_MIN(tiles_of<S>(p), gpu->device.info.cores)),
              dim3(MX_TURNED_THREADS), S::bytes, p);
}

/* Where it leaves no multiprocessor without work for long. Short rows of `f16` have more results to finish in the time
 * of a tile than three warps can. */
int mx_passed_takes(mx_cuda *gpu, const mx_product &p) {
    int64_t tiles = is_f16(p) ? tiles_of<passed_f16>(p) : tiles_of<passed_exact>(p);
    int act = p.f.act == MX_ACT_NONE || p.f.act == (is_f16(p) ? MX_ACT_GELU_SHORT : MX_ACT_GELU_ERF);
    return act && p.blocks >= (is_f16(p) ? 12 : 1) && p.f.n % COLUMNS == 0 &&
           tiles >= 2 * gpu->device.info.cores && tiles <= INT32_MAX;
}

void mx_passed_product(mx_cuda *gpu, const mx_product &p) {
    if (is_f16(p))
        launch<passed_f16>(gpu, p);
    else
        launch<passed_exact>(gpu, p);
}
