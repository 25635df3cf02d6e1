/* modules/cuda/attention/decode_cross.cu - compiled cross-attention of decoder rows over windows, heads of 64.
 *
 * A row group is up to TILE_ROWS adjacent rows that attend to the same window, so that its keys and values are read
 * once for all of them. The tiles of all groups and heads are assigned evenly to persistent blocks: a block has
 * consecutive tiles, and prefetches the next ones while it works on one. Tiles of a group and head are combined by the
 * last block that has some, in the order of the keys. Keys and values that are f32 in memory pass through registers,
 * where they become operands; those that are f16 are operands already, copied to shared memory in the background. So
 * are those that are e4m3: they become f16 when operands are read, and give the bits that f16 of the same values give.
 * Invariants: the order of every sum follows from the number of keys alone: not from the rows that share a group, the
 * assignment of tiles to blocks, or which block is last. */
#include "modules/cuda/attention/decode_combine.cuh"
#include "modules/cuda/common/cp_async.cuh"
#include "modules/cuda/common/f8.cuh"

namespace mx::attention {

namespace {

constexpr int BLOCKS_PER_SM = 2;   /* resident blocks per SM */
static_assert(BLOCKS_PER_SM <= MAX_BLOCKS_PER_SM, "scratch is for as many");

struct cross_smem {
    combine_smem s;
    row_groups pieces;
    int window[ROW_CHUNK];   /* of the rows */
};

struct cross_smem_f32 : cross_smem {
    uint4 v[TILE_CHUNKS<2>];
};

/* Of keys and values that are T, __half or __nv_fp8_e4m3, 16 bytes each. */
template <typename T> constexpr int KEY_CHUNKS = HEAD_DIM * (int)sizeof(T) / 16;   /* of a key and head */

/* stages: tiles in shared memory, one that is read, the others on their way. */
template <typename T, int stages> struct cross_smem_copied : cross_smem {
    alignas(128) uint4 k[stages][TILE_KEYS * KEY_CHUNKS<T>];
    uint4 v[stages][TILE_KEYS * KEY_CHUNKS<T>];
};

/* ---- which tiles ------------------------------------------------------------------------------------------------- */

struct tile_place {
    int piece, head, tile;
};

__device__ __forceinline__ static tile_place place_after(const decode_params &job, tile_place at) {
    tile_place next = {at.piece, at.head, at.tile + 1};
    if (next.tile == job.tiles) {
        next.tile = 0;
        next.head++;
    }
    if (next.head == job.heads) {
        next.head = 0;
        next.piece++;
    }
    return next;
}

__device__ __forceinline__ static row_group piece_at(const decode_params &job, const cross_smem &s, tile_place at) {
    int row = s.pieces.start[at.piece];
    row_group p = {(int)blockIdx.y * ROW_CHUNK + row, s.pieces.start[at.piece + 1] - row, at.head, (int)job.keys,
                    job.tiles};
    return p;
}

/* Of `all` tiles in the order of groups, heads and keys, a block has those from all * block / blocks on. */
__device__ __forceinline__ static unsigned block_of(unsigned tile, unsigned all, unsigned blocks) {
    return ((tile + 1) * blocks - 1) / all;
}

/* The tiles of a block: from number `at`, at `now`, to `end` of `all` that `blocks` blocks share. */
struct tile_run {
    unsigned at, end, all, blocks;
    tile_place now;
};

__device__ __forceinline__ static tile_run find_tiles(const decode_params &job, cross_smem &s) {
    const int first_row = blockIdx.y * ROW_CHUNK;
    const int32_t *window = job.window + first_row;
    tile_run r;
    r.all = (unsigned)find_pieces(min(ROW_CHUNK, job.rows - first_row), TILE_ROWS, s.pieces,
                                  [&](int r) {
                                      s.window[r] = window[r];
                                      return r > 0 && window[r - 1] == window[r];
                                  }) *
            job.heads * job.tiles;
    r.blocks = min(gridDim.x, r.all);
    r.at = blockIdx.x * r.all / r.blocks;
    r.end = blockIdx.x < r.blocks ? (blockIdx.x + 1) * r.all / r.blocks : r.at;
    unsigned group = r.at / (unsigned)job.tiles, piece = group / (unsigned)job.heads;
    r.now = {(int)piece, (int)(group - piece * job.heads), (int)(r.at - group * job.tiles)};
    return r;
}

/* Blocks that have tiles of the group and head at `now`. */
__device__ __forceinline__ static unsigned blocks_of_group(const decode_params &job, const tile_run &r) {
    unsigned begin = r.at - r.now.tile;
    return block_of(begin + job.tiles - 1, r.all, r.blocks) - block_of(begin, r.all, r.blocks) + 1;
}

/* Stores what a tile gave. */
template <int terms, tile_columns columns = ADJACENT_COLUMNS>
__device__ __forceinline__ static void keep_tile(const decode_params &job, row_group &p, const tile_run &r,
                                                 const tile_result &result) {
    place_partials(job, p, blocks_of_group(job, r) > 1);
    write_tile<terms, columns>(job, p, r.now.tile, (int)threadIdx.x % WARP_SIZE / 4 < p.n, result);
}

/* After the block's last tile of a group and head. */
template <int terms>
__device__ __forceinline__ static void leave_group(const decode_params &job, const row_group &p, const tile_run &r,
                                                   cross_smem &s) {
    if (job.tiles > 1)
        finish_group<terms>(job, p, blocks_of_group(job, r), s.s);
}

/* The first element of a key, or value, of a tile's window and head. */
__device__ __forceinline__ static int64_t element_of(const decode_params &job, const cross_smem &s, tile_place at,
                                                     int key) {
    return (s.window[s.pieces.start[at.piece]] * job.keys + at.tile * TILE_KEYS + key) * job.d + at.head * HEAD_DIM;
}

/* ---- f32 in memory ----------------------------------------------------------------------------------------------- */

/* Streamed once: evict-first in L2. */
__device__ __forceinline__ static float4 load_once(const float *from) {
#if __CUDA_ARCH__ >= 800
    float4 v;
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from), "l"(policy));
    return v;
#else
    return __ldcg((const float4 *)from);
#endif
}

__device__ __forceinline__ static void load_tile(const decode_params &job, const cross_smem &s, tile_place at,
                                                 tile_loads &x) {
    int lane = threadIdx.x % WARP_SIZE, key = threadIdx.x / WARP_SIZE * 16 + lane / 16;
    int64_t from = element_of(job, s, at, key) + lane % 16 * 4;
    const float *k = (const float *)job.k + from, *v = (const float *)job.v + from;
    int left = (int)job.keys - at.tile * TILE_KEYS - key;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        x.k[i] = x.v[i] = make_float4(0, 0, 0, 0);
        if (i * 2 < left) {
            x.k[i] = load_once(k + i * 2 * job.d);
            x.v[i] = load_once(v + i * 2 * job.d);
        }
    }
}

__global__ void __launch_bounds__(DECODE_THREADS, BLOCKS_PER_SM) decode_cross_kernel(decode_params job) {
    __shared__ cross_smem_f32 s;
    const float scale = power_scale<2>(job);
    tile_loads x;
    pdl_wait();
    tile_run r = find_tiles(job, s);
    if (r.at == r.end)
        return;
    load_tile(job, s, r.now, x);
    put_queries<2>(s.s.pad, query_of(job, piece_at(job, s, r.now)));
#pragma unroll 1
    for (; r.at < r.end; r.at++) {
        tile_place next = place_after(job, r.now);
        bool more = r.at + 1 < r.end, leaves = !more || next.tile == 0;
        uint4 k[8];
        float scores[4];
        float2 q = make_float2(0, 0);
        __syncthreads();   /* queries are ready; the tile before is no longer read */
        put_keys(s.v, x.k, k);
        put_values(s.v, x.v);
        begin_tile<2>(s.s.pad, k, (int)job.keys - r.now.tile * TILE_KEYS, scale, scores);
        if (more) {
            load_tile(job, s, next, x);
            if (leaves)
                q = query_of(job, piece_at(job, s, next));
        }
        row_group p = piece_at(job, s, r.now);
        keep_tile<2>(job, p, r, finish_tile<2, false>(s.s.pad, s.v, scores, block_barrier()));
        if (leaves && more)
            put_queries<2>(s.s.pad, q);
        if (leaves)
            leave_group<2>(job, p, r, s);
        r.now = next;
    }
}

/* ---- f16 and e4m3 in memory -------------------------------------------------------------------------------------- */

/* How a tile of T lies in shared memory and becomes operands. The order of the chunks of a key is such that eight keys
 * have theirs of the same columns in different banks. */
template <typename T> struct tile_of;

template <> struct tile_of<__half> {
    static constexpr tile_columns columns = ADJACENT_COLUMNS;
    typedef value_loader<1> values;

    __device__ __forceinline__ static int at(int key, int chunk) { return chunk_at(key, chunk); }
    __device__ __forceinline__ static void keys(const uint4 *from, int warp, int lane, key_operand<1> &k) {
        get_keys(from, warp, lane, k);
    }
};

template <> struct tile_of<__nv_fp8_e4m3> {
    static constexpr tile_columns columns = SECOND_COLUMNS;

    __device__ __forceinline__ static int at(int key, int chunk) {
        return key * KEY_CHUNKS<__nv_fp8_e4m3> + (chunk ^ key / 2 % 4);
    }

    /* As ldmatrix gives f16: a chunk is one step of 16 elements, of which the lane has 2 (lane % 4), + 1, + 8, + 9. */
    __device__ __forceinline__ static void keys(const uint4 *from, int warp, int lane, key_operand<1> &k) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const uint16_t *pairs = (const uint16_t *)(from + at(warp * 16 + i % 2 * 8 + lane / 4, i / 2));
            k[i] = make_uint2(f8_to_half2(pairs[lane % 4]), f8_to_half2(pairs[lane % 4 + 4]));
        }
    }

    /* Of 32 keys from 32 of on. ldmatrix transposes pairs of bytes, so a lane gets two columns of each of two keys, and
     * a warp sixteen columns: of them it takes every second one, and its neighbour the others. */
    struct values {
        __device__ __forceinline__ uint4 operator()(const uint4 *from, int of, int warp, int lane) const {
            unsigned bytes = warp % 2 ? 0x31 : 0x20;
            uint4 v;
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                         : "r"((unsigned)__cvta_generic_to_shared(from + at(of * 32 + lane, warp / 2)))
                         : "memory");
            return make_uint4(f8_to_half2(__byte_perm(v.x, 0, bytes)), f8_to_half2(__byte_perm(v.y, 0, bytes)),
                              f8_to_half2(__byte_perm(v.z, 0, bytes)), f8_to_half2(__byte_perm(v.w, 0, bytes)));
        }
    };
};

/* Begins to copy a tile, whole rows of a head side by side. Zeros past the last key. */
template <typename T>
__device__ __forceinline__ static void copy_tile(const decode_params &job, const cross_smem &s, tile_place at, uint4 *k,
                                                 uint4 *v) {
    constexpr int chunks = KEY_CHUNKS<T>, keys = DECODE_THREADS / chunks;   /* keys: copied at once */
    int key = threadIdx.x / chunks, chunk = threadIdx.x % chunks, left = (int)job.keys - at.tile * TILE_KEYS;
    int64_t from = element_of(job, s, at, key) + chunk * (HEAD_DIM / chunks), step = (int64_t)keys * job.d;
    const T *of_keys = (const T *)job.k + from, *of_values = (const T *)job.v + from;
#pragma unroll
    for (int i = 0; i < TILE_KEYS / keys; i++, key += keys) {
        bool there = key < left;
        int to = tile_of<T>::at(key, chunk);
        if (there) {
            cp_async_once_16(k + to, of_keys + i * step);
            cp_async_once_16(v + to, of_values + i * step);
        } else {
            k[to] = v[to] = make_uint4(0, 0, 0, 0);
        }
    }
}

template <typename T, int stages>
__global__ void __launch_bounds__(DECODE_THREADS, BLOCKS_PER_SM) decode_cross_copied_kernel(decode_params job) {
    extern __shared__ __align__(128) unsigned char dynamic[];
    cross_smem_copied<T, stages> &s = *(cross_smem_copied<T, stages> *)dynamic;
    const int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
    const float scale = power_scale<1>(job);
    pdl_wait();
    tile_run r = find_tiles(job, s);
    if (r.at == r.end)
        return;
    tile_place ahead = r.now;      /* the next tile to copy ... */
    unsigned copied = r.at;        /* ... its number ... */
    int to = 0, stage = 0;         /* ... and where to; the stage that is read */
    /* Unrolled: with the stage in a uniform register ptxas 13.0 makes a cp.async that the GPU refuses as illegal. */
#pragma unroll
    for (; to < stages - 1; copied++, to++) {
        if (copied < r.end)
            copy_tile<T>(job, s, ahead, s.k[to], s.v[to]);
        cp_async_commit();
        ahead = place_after(job, ahead);
    }
    put_queries<1>(s.s.pad, query_of(job, piece_at(job, s, r.now)));
#pragma unroll 1
    for (; r.at < r.end; r.at++) {
        tile_place next = place_after(job, r.now);
        bool more = r.at + 1 < r.end, leaves = !more || next.tile == 0;
        row_group p = piece_at(job, s, r.now);
        key_operand<1> k;
        float scores[4];
        float2 q = make_float2(0, 0);
        cp_async_wait<stages - 2>();
        __syncthreads();   /* queries and tile are ready; the tile before is no longer read */
        if (copied < r.end)
            copy_tile<T>(job, s, ahead, s.k[to], s.v[to]);
        cp_async_commit();
        ahead = place_after(job, ahead);
        copied++;
        to = to == stages - 1 ? 0 : to + 1;
        if (leaves && more)
            q = query_of(job, piece_at(job, s, next));
        tile_of<T>::keys(s.k[stage], warp, lane, k);
        begin_tile<1>(s.s.pad, k, (int)job.keys - r.now.tile * TILE_KEYS, scale, scores);
        tile_result result = finish_tile<1, false>(s.s.pad, s.v[stage], scores, block_barrier(),
                                                   typename tile_of<T>::values());
        keep_tile<1, tile_of<T>::columns>(job, p, r, result);
        stage = stage == stages - 1 ? 0 : stage + 1;
        if (leaves && more)
            put_queries<1>(s.s.pad, q);
        if (leaves)
            leave_group<1>(job, p, r, s);
        r.now = next;
    }
}

template <typename T, int stages> static void launch_copied(mx_cuda *gpu, dim3 grid, const decode_params &job) {
    static int allowed[MX_CUDA_MAX_GPUS];
    constexpr int bytes = (int)sizeof(cross_smem_copied<T, stages>);
    mx_cuda_allow_shared(gpu, (const void *)decode_cross_copied_kernel<T, stages>, bytes, allowed);
    launch_kernel(gpu, decode_cross_copied_kernel<T, stages>, grid, dim3(DECODE_THREADS), bytes, job);
}

constexpr int F8_STAGES = 4;   /* as much as two of f16, which any GPU has that keeps f16 */
static_assert(sizeof(cross_smem_copied<__nv_fp8_e4m3, F8_STAGES>) <= sizeof(cross_smem_copied<__half, 2>),
              "shared memory of a block");

}   /* namespace */

extern "C" int mx_cuda_decode_attention_f16_fits(const mx_cuda *gpu) {
    return gpu->shared_bytes >= (int)sizeof(cross_smem_copied<__half, 2>) && decode_paged_f16_fits(gpu);
}

void decode_cross_attention(mx_cuda *gpu, const decode_params &job) {
    int64_t tiles = (int64_t)job.rows * job.heads * job.tiles, most = MX_MAX(1, ((int64_t)1 << 31) / tiles);
    int64_t blocks = MX_MIN(MX_MIN((int64_t)gpu->device.info.cores * BLOCKS_PER_SM, tiles), most);
    dim3 grid((unsigned)blocks, (unsigned)((job.rows + ROW_CHUNK - 1) / ROW_CHUNK));
    if (job.terms == 2)
        launch_kernel(gpu, decode_cross_kernel, grid, dim3(DECODE_THREADS), 0, job);
    else if (job.f8)
        launch_copied<__nv_fp8_e4m3, F8_STAGES>(gpu, grid, job);
    else if (gpu->shared_bytes >= (int)sizeof(cross_smem_copied<__half, 3>))
        launch_copied<__half, 3>(gpu, grid, job);
    else
        launch_copied<__half, 2>(gpu, grid, job);
}

}   /* namespace mx::attention */
