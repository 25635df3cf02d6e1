/* modules/cuda/checks.c - indices and rules checked before a launch, with the messages of the CPU device.
 * In: a call. Out: OK, or E_ARGUMENT with the first element that is wrong.
 * Invariants: what came from host memory in this run is read there, so the check does not wait; only indices that
 * the GPU itself computed are downloaded. */
#include "modules/cuda/cuda.h"

/* An i32 input in host memory. */
typedef struct view {
    const int32_t *at;
    void *block;   /* the downloaded copy; NULL: not needed */
} view;

static mxw_status open_view(mx_cuda *gpu, const mx_call *call, int input, view *v) {
    const mx_tensor *t = &call->inputs[input];
    size_t bytes = mx_cuda_bytes(t);
    *v = (view){call->host ? call->host[input] : NULL, NULL};
    if (v->at || bytes == 0)
        return MXW_OK;
    v->at = v->block = mx_cuda_host->alloc(bytes);
    return v->block ? mx_cuda_download(&gpu->device, v->block, t->data, bytes) : MXW_E_MEMORY;
}

static void close_view(view *v) { mx_cuda_host->free(v->block); }

/* Where the first of n values outside of [0, limit) is; n: there is none. All are looked at before it is searched for,
 * since a loop without an exit is vectorized: a step of many windows has some 60,000 cells. */
static int64_t find_outside(const int32_t *values, int64_t n, int64_t limit) {
    uint32_t last = (uint32_t)(limit > INT32_MAX ? INT32_MAX : limit - 1), signs = 0;
    int64_t i;
    for (i = 0; i < n; i++)
        signs |= (uint32_t)values[i] | (last - (uint32_t)values[i]);   /* bit 31: negative, or larger than the last */
    if (!(signs >> 31))
        return n;
    for (i = 0; i < n && values[i] >= 0 && values[i] < limit; i++)
        continue;
    return i;
}

/* Every element of an i32 input lies in [0, limit). */
static mxw_status check_index(mx_cuda *gpu, const mx_call *call, int input, const char *what, int64_t limit) {
    int64_t n = mx_cuda_count(&call->inputs[input]);
    view index;
    mxw_status status = open_view(gpu, call, input, &index);
    int64_t i = status < 0 ? n : find_outside(index.at, n, limit);
    if (i < n)
        status = mx_cuda_host->fail(MXW_E_ARGUMENT, "%s: %s[%lld] is %d: expected 0 to %lld",
                                    mx_cuda_op_name(call->op), what, (long long)i, (int)index.at[i],
                                    (long long)limit - 1);
    close_view(&index);
    return status;
}

/* Every cell that a row will read is in the cache. seq and pos are checked already. */
static mxw_status check_cells(mx_cuda *gpu, const mx_call *call) {
    int64_t rows = call->inputs[0].dims[0], n_cells = call->inputs[1].dims[0], ctx = call->inputs[5].dims[1];
    view seq = {0}, pos = {0}, cells = {0};
    mxw_status status;
    MX_TRY(open_view(gpu, call, 3, &seq));
    MX_TRY(open_view(gpu, call, 4, &pos));
    MX_TRY(open_view(gpu, call, 5, &cells));
    for (int64_t r = 0; r < rows && status >= 0; r++) {
        const int32_t *of_row = cells.at + seq.at[r] * ctx;
        int64_t p = find_outside(of_row, (int64_t)pos.at[r] + 1, n_cells);
        if (p <= pos.at[r])
            status = mx_cuda_host->fail(MXW_E_ARGUMENT, "%s: cells[%d][%d] is %d: expected 0 to %lld",
                                        mx_cuda_op_name(call->op), (int)seq.at[r], (int)p, (int)of_row[p],
                                        (long long)n_cells - 1);
    }
out:
    close_view(&seq);
    close_view(&pos);
    close_view(&cells);
    return status;
}

mxw_status mx_cuda_check_rules(mx_cuda *gpu, const mx_call *call) {
    int fused = call->op == MX_OP_FUSED_SELECT;   /* x and the vocabulary, in place of the logits of select */
    int64_t rows = call->inputs[0].dims[0], vocab = fused ? call->inputs[1].dims[0] : call->inputs[0].dims[1];
    int64_t sets = call->inputs[fused ? 3 : 2].dims[0];
    view rules;
    mxw_status status = open_view(gpu, call, fused ? 2 : 1, &rules);
    for (int64_t i = 0; i < rows && status >= 0; i++) {
        const mx_rule *rule = (const mx_rule *)(const void *)(rules.at + i * MX_RULE_WORDS);
        if (rule->set < 0 || rule->set >= sets)
            status = mx_cuda_host->fail(MXW_E_ARGUMENT, "select: rules[%lld] has set %d: expected 0 to %lld",
                                        (long long)i, (int)rule->set, (long long)sets - 1);
        else if (rule->no_speech >= vocab)
            status = mx_cuda_host->fail(MXW_E_ARGUMENT, "select: rules[%lld] has no_speech %d: expected below %lld",
                                        (long long)i, (int)rule->no_speech, (long long)vocab);
    }
    close_view(&rules);
    return status;
}

mxw_status mx_cuda_check_gather(mx_cuda *gpu, const mx_call *call) {
    return check_index(gpu, call, 1, "index", call->inputs[0].dims[0]);
}

mxw_status mx_cuda_check_write(mx_cuda *gpu, const mx_call *call) {
    return check_index(gpu, call, 2, "index", call->inputs[0].dims[0]);
}

mxw_status mx_cuda_check_window(mx_cuda *gpu, const mx_call *call) {
    return check_index(gpu, call, 3, "window", call->inputs[1].dims[0]);
}

mxw_status mx_cuda_check_scores(mx_cuda *gpu, const mx_call *call) {
    mxw_status status = check_index(gpu, call, 2, "head", call->attrs->heads);
    return status < 0 ? status : mx_cuda_check_window(gpu, call);
}

mxw_status mx_cuda_check_cached(mx_cuda *gpu, const mx_call *call) {
    mxw_status status = check_index(gpu, call, 3, "seq", call->inputs[5].dims[0]);
    if (status >= 0)
        status = check_index(gpu, call, 4, "pos", call->inputs[5].dims[1]);
    return status < 0 ? status : check_cells(gpu, call);
}
