/* modules/cuda/megakernel/sm90/kernel.cu - runs the stages of a decoder step as one persistent kernel
 * (megakernel/stages.cuh).
 *
 * A decoder step of few rows is a series of small dependent pieces of work; its cost is waiting. So CTAs stay resident;
 * each walks through its stages and polls for the inputs of a stage until they are there. Meanwhile a producer warp of
 * each CTA prefetches the weights of the next GEMMs into a ring in shared memory, as far ahead as fits. A stage runs on
 * few CTAs, so that few poll for the same values, and always on the same ones, whose instruction caches are warm then;
 * code is kept short, since instructions that run once cost the time to fetch them.
 * Invariants: every element is computed as by the kernels for single calls (gemm/skinny.cu, attention/decode_paged.cu),
 * bit for bit. What one stage writes and another reads is published; nothing else that a stage reads is written by any
 * stage. */
#include "modules/cuda/megakernel/sm90/attention_stage.cuh"
#include "modules/cuda/megakernel/sm90/select_stage.cuh"

namespace mx::megakernel {

namespace {

#if MX_HAS_WGMMA
/* ---- table rows -------------------------------------------------------------------------------------------------- */

__device__ __noinline__ static void run_embed(const stage_desc &stage, int place) {
    const embed_stage &job = stage.tables;
#pragma unroll 1
    for (int row = place; row < shared().rows; row += stage.place.n) {
        int64_t from_a = (int64_t)__ldcg(job.a.index + row) * job.n, to = (int64_t)row * job.n;
        int64_t from_b = (int64_t)__ldcg(job.b.index + row) * job.n;
#pragma unroll 1
        for (int i = (int)threadIdx.x; i < job.n; i += WORKER_THREADS) {
            float a = table_at(job.a, from_a + i), b = table_at(job.b, from_b + i);
            publish(job.y + to + i, a + b, shared().epoch);
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

/* Loads the state of the rows, by the first warp. If several rows have the same cell, it belongs to the last of them.
 */
template <typename Params> __device__ static void read_row_info(const Params &params) {
    const row_info &k = params.known;
    cta_smem &s = shared();
    int lane = lane_of(), rows = params.rows;
    bool there = lane < rows;
    int cell = k.cell && there ? __ldcg(k.cell + lane) : -1;
    int window = k.window && there ? __ldcg(k.window + lane) : -1;
    int pick = k.pick && there ? __ldcg(k.pick + lane) : 0;
    int seq = k.seq && there ? __ldcg(k.seq + lane) : 0, pos = k.seq && there ? __ldcg(k.pos + lane) : 0;
    int own = cell, before = __shfl_up_sync(0xffffffffu, window, 1);
    for (int i = 1; i < MAX_ROWS; i++) {
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
    if (lane < MAX_ROWS) {
        s.cell[lane] = own;
        s.seq[lane] = seq;
        s.pos[lane] = pos;
        s.pick[lane] = pick;
    }
    if (lane == 0) {
        s.runs = __popc(starts);
        s.epoch = Params::publishes ? __ldcg(params.met) + 1 : 0;
    }
}

/* By another warp. */
__device__ __forceinline__ static void read_rules(const mx_rule *rules, int rows) {
#pragma unroll
    for (int i = lane_of(); i < MAX_ROWS * MX_RULE_WORDS; i += WARP_SIZE)
        if (i < rows * MX_RULE_WORDS)
            ((uint32_t *)shared().rules)[i] = __ldcg((const uint32_t *)rules + i);
}

template <int x_terms, int w_terms> __device__ __forceinline__ static void run_stages(int n) {
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        const stage_desc &stage = stages_start()[i];
        int place = place_in(stage);
        if (place >= stage.place.n)
            continue;
        switch (stage.kind) {
        case STAGE_GEMM: run_gemm<x_terms, w_terms>(stage, place); break;
        case STAGE_SELF_ATTN: run_self_attn<x_terms>(stage, place); break;
        case STAGE_CROSS_ATTN: run_cross_attn<x_terms, w_terms>(stage, place); break;
        case STAGE_COMBINE: run_combine<x_terms>(stage, place); break;
        case STAGE_LOGITS: run_logits<x_terms, w_terms, true>(stage, place); break;
        case STAGE_SELECT: run_select(stage, place); break;
        default: run_embed(stage, place); break;
        }
    }
}

/* By the first thread: mbarriers, and the parameters of the megakernel. */
template <typename Params> __device__ __forceinline__ static void open_shared(const Params &params) {
    cta_smem &s = shared();
    s.rows = params.rows;
    s.n = params.n;
    s.ring_bytes = params.ring_bytes;
    s.work_bytes = params.work_bytes;
    s.ring.at = s.ring.piece = 0;
    for (int i = 0; i < RING_BARRIERS; i++) {
        mbarrier_init(&s.full[i], 1);
        mbarrier_init(&s.empty[i], WORKER_THREADS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

template <typename Params> __device__ __forceinline__ static void load_stages(const Params &params, char *to) {
    const int each = Params::publishes ? sizeof(uint4) : sizeof(uint32_t);
#pragma unroll 4
    for (int i = (int)threadIdx.x * each; i < (int)(params.n * sizeof(stage_desc)); i += CTA_THREADS * each)
        if constexpr (Params::publishes)
            *(uint4 *)(to + i) = __ldg((const uint4 *)((const char *)params.at + i));
        else
            *(uint32_t *)(to + i) = *(const uint32_t *)((const char *)&params.one + i);
}

/* Increments the launch counter, by the last CTA to finish. */
template <typename Params> __device__ __forceinline__ static void finish_launch(const Params &params) {
    if (threadIdx.x == 0 && atomicAdd(params.met + 1, 1u) == gridDim.x - 1) {
        params.met[0]++;
        params.met[1] = 0;
    }
}
#endif

template <int x_terms, int w_terms, typename Params>
__global__ void __launch_bounds__(CTA_THREADS, 1) megakernel(const __grid_constant__ Params params) {
#if MX_HAS_WGMMA
    if (threadIdx.x == 0)
        open_shared(params);
    load_stages(params, (char *)ring_start() + params.ring_bytes + params.work_bytes);
    __syncthreads();
    if (warp_of() == WORKER_WARPS) {
        produce_weights<w_terms>();
        pdl_wait();
        return;
    }
    pdl_wait();
    if (warp_of() == 0)
        read_row_info(params);
    if (warp_of() == 1 && params.known.rules)
        read_rules(params.known.rules, params.rows);
    sync_workers();
    if constexpr (Params::publishes) {
        run_stages<x_terms, w_terms>(params.n);
        finish_launch(params);
    } else {
        run_logits<x_terms, w_terms, false>(stages_start()[0], place_in(stages_start()[0]));
    }
#endif
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

/* One CTA per SM, all resident at once: they wait for each other. */
template <typename Params>
static void launch(mx_cuda *gpu, const Params &params, void (*kernel)(Params), int *allowed) {
    int bytes = params.ring_bytes + params.work_bytes + params.n * (int)sizeof(stage_desc) + 128;
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = {};
    mx_cuda_allow_shared(gpu, (const void *)kernel, bytes, allowed);
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributeCooperative;
    attributes[1].val.cooperative = 1;
    config.gridDim = dim3((unsigned)params.blocks);
    config.blockDim = dim3(CTA_THREADS);
    config.dynamicSmemBytes = (size_t)bytes;
    config.stream = gpu->stream;
    config.attrs = attributes;
    config.numAttrs = params.n > 1 ? 2 : 1;
    cudaLaunchKernelEx(&config, kernel, params);
}

template <typename Params> static void run(mx_cuda *gpu, const Params &params, int x_terms, int w_terms) {
    static int allowed[3][MX_CUDA_MAX_GPUS];
    if (x_terms == 1)
        launch<Params>(gpu, params, megakernel<1, 1, Params>, allowed[0]);
    else if (w_terms == 1)
        launch<Params>(gpu, params, megakernel<2, 1, Params>, allowed[1]);
    else
        launch<Params>(gpu, params, megakernel<2, 2, Params>, allowed[2]);
}

}   /* namespace */

void launch_megakernel(mx_cuda *gpu, const megakernel_params &params, int x_terms, int w_terms) {
    run(gpu, params, x_terms, w_terms);
}

void launch_megakernel(mx_cuda *gpu, const single_stage_params &params, int x_terms, int w_terms) {
    run(gpu, params, x_terms, w_terms);
}

}   /* namespace mx::megakernel */
