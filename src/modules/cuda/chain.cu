/* modules/cuda/chain.cu - runs a chain of phases as one kernel (chain.cuh).
 *
 * A decoder's step of few rows is a row of small pieces of work that wait for each other; what it costs is the waiting.
 * So the blocks stay; each goes from one phase that is for it to the next, and looks for what the phase reads until
 * that is there. Meanwhile a warp of each brings the weights of the products that come next into a ring in shared
 * memory, as far ahead as fits. A phase is for few blocks, so that few look for the same values, and always for the
 * same ones, which then have its instructions at hand: code is kept short, since what runs once costs the time to fetch
 * it.
 * What holds: every element is computed as by the kernels for calls alone (product_rows.cu, rows_attention.cu), bit for
 * bit. What a phase reads and another one writes, it is told; all else that it reads, no phase writes. */
#include "modules/cuda/chain_attention.cuh"
#include "modules/cuda/chain_select.cuh"

#if MX_WIDE
/* ---- rows of tables ---------------------------------------------------------------------------------------------- */

__device__ __noinline__ static void run_tables(const mx_chain_phase &phase, int place) {
    const mx_chain_tables &job = phase.tables;
#pragma unroll 1
    for (int row = place; row < shared().rows; row += phase.place.n) {
        int64_t from_a = (int64_t)__ldcg(job.a.index + row) * job.n, to = (int64_t)row * job.n;
        int64_t from_b = (int64_t)__ldcg(job.b.index + row) * job.n;
#pragma unroll 1
        for (int i = (int)threadIdx.x; i < job.n; i += WORKERS) {
            float a = mx_table_at(job.a, from_a + i), b = mx_table_at(job.b, from_b + i);
            tell(job.y + to + i, a + b, shared().tag);
            if (job.plain)
                job.plain[to + i] = a + b;
            if (job.to_a)
                job.to_a[to + i] = a;
            if (job.to_b)
                job.to_b[to + i] = b;
        }
    }
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

/* What is known of the rows: by the first warp. A cell that comes again in a later row is that row's. */
template <typename Chain> __device__ static void learn_rows(const Chain &chain) {
    const mx_chain_known &k = chain.known;
    chain_shared &s = shared();
    int lane = lane_of(), rows = chain.rows;
    bool there = lane < rows;
    int cell = k.cell && there ? __ldcg(k.cell + lane) : -1;
    int window = k.window && there ? __ldcg(k.window + lane) : -1;
    int pick = k.pick && there ? __ldcg(k.pick + lane) : 0;
    int seq = k.seq && there ? __ldcg(k.seq + lane) : 0, pos = k.seq && there ? __ldcg(k.pos + lane) : 0;
    int own = cell, before = __shfl_up_sync(0xffffffffu, window, 1);
    for (int i = 1; i < MX_CHAIN_ROWS; i++) {
        int later = __shfl_down_sync(0xffffffffu, cell, i);
        own = lane + i < rows && later == cell ? -1 : own;
    }
    unsigned starts = __ballot_sync(0xffffffffu, window >= 0 && (lane == 0 || before != window));
    if (starts >> lane & 1) {
        int run = __popc(starts & ((1u << lane) - 1)), next = __ffs(starts >> (lane + 1));
        s.run_row[run] = lane;
        s.run_rows[run] = next ? next : rows - lane;
        s.run_window[run] = window;
    }
    if (lane < MX_CHAIN_ROWS) {
        s.cell[lane] = own;
        s.seq[lane] = seq;
        s.pos[lane] = pos;
        s.pick[lane] = pick;
    }
    if (lane == 0) {
        s.runs = __popc(starts);
        s.tag = Chain::tells ? __ldcg(chain.met) + 1 : 0;
    }
}

/* By another warp. */
__device__ __forceinline__ static void learn_rules(const mx_rule *rules, int rows) {
#pragma unroll
    for (int i = lane_of(); i < MX_CHAIN_ROWS * MX_RULE_WORDS; i += MX_WARP)
        if (i < rows * MX_RULE_WORDS)
            ((uint32_t *)shared().rules)[i] = __ldcg((const uint32_t *)rules + i);
}

template <int x_parts, int w_parts> __device__ __forceinline__ static void run_phases(int n) {
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        const mx_chain_phase &phase = phases_start()[i];
        int place = place_in(phase);
        if (place >= phase.place.n)
            continue;
        switch (phase.kind) {
        case MX_CHAIN_PRODUCT: run_product<x_parts, w_parts>(phase, place); break;
        case MX_CHAIN_CACHED: run_cached<x_parts>(phase, place); break;
        case MX_CHAIN_LISTEN: run_listen<x_parts, w_parts>(phase, place); break;
        case MX_CHAIN_JOIN: run_join<x_parts>(phase, place); break;
        case MX_CHAIN_LOGITS: run_logits<x_parts, w_parts, true>(phase, place); break;
        case MX_CHAIN_CHOOSE: run_choose(phase, place); break;
        default: run_tables(phase, place); break;
        }
    }
}

/* By the first thread: gates, and what the chain says of itself. */
template <typename Chain> __device__ __forceinline__ static void open_shared(const Chain &chain) {
    chain_shared &s = shared();
    s.rows = chain.rows;
    s.n = chain.n;
    s.ring_bytes = chain.ring_bytes;
    s.work_bytes = chain.work_bytes;
    s.ring.at = s.ring.piece = 0;
    for (int i = 0; i < GATES; i++) {
        mx_gate_open(&s.full[i], 1);
        mx_gate_open(&s.empty[i], WORKERS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

template <typename Chain> __device__ __forceinline__ static void bring_phases(const Chain &chain, char *to) {
    const int each = Chain::tells ? sizeof(uint4) : sizeof(uint32_t);
#pragma unroll 4
    for (int i = (int)threadIdx.x * each; i < (int)(chain.n * sizeof(mx_chain_phase)); i += CHAIN_THREADS * each)
        if constexpr (Chain::tells)
            *(uint4 *)(to + i) = __ldg((const uint4 *)((const char *)chain.at + i));
        else
            *(uint32_t *)(to + i) = *(const uint32_t *)((const char *)&chain.one + i);
}

/* One launch more, by the last block to leave. */
template <typename Chain> __device__ __forceinline__ static void leave_grid(const Chain &chain) {
    if (threadIdx.x == 0 && atomicAdd(chain.met + 1, 1u) == gridDim.x - 1) {
        chain.met[0]++;
        chain.met[1] = 0;
    }
}
#endif

template <int x_parts, int w_parts, typename Chain>
__global__ void __launch_bounds__(CHAIN_THREADS, 1) chain_kernel(const __grid_constant__ Chain chain) {
#if MX_WIDE
    if (threadIdx.x == 0)
        open_shared(chain);
    bring_phases(chain, (char *)ring_start() + chain.ring_bytes + chain.work_bytes);
    __syncthreads();
    if (warp_of() == MX_CHAIN_WARPS) {
        bring_weights<w_parts>();
        mx_wait_before();
        return;
    }
    mx_wait_before();
    if (warp_of() == 0)
        learn_rows(chain);
    if (warp_of() == 1 && chain.known.rules)
        learn_rules(chain.known.rules, chain.rows);
    meet_block();
    if constexpr (Chain::tells) {
        run_phases<x_parts, w_parts>(chain.n);
        leave_grid(chain);
    } else {
        run_logits<x_parts, w_parts, false>(phases_start()[0], place_in(phases_start()[0]));
    }
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
