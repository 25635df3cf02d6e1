/* session.c - see session.h. */
#include "session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- data -------------------------------------------------------------------------------------------------------- */

static int64_t settled(const int64_t *sizes, int64_t dim) { return dim < 0 ? sizes[MX_DIM_INDEX(dim)] : dim; }

static void dims_of(const random_graph *r, mx_value value, const int64_t *sizes, int64_t *dims) {
    const mx_type *t = &r->graph->values[value].type;
    for (int i = 0; i < t->rank; i++)
        dims[i] = settled(sizes, t->dims[i]);
}

static void fill_rules(rng *dice, mx_tensor *t, int64_t words) {
    mx_rule *rules = t->data;
    for (int64_t i = 0; i < t->dims[0]; i++) {
        int32_t begin = (int32_t)(words - rng_below(dice, 6));
        rules[i] = (mx_rule){.set = (int32_t)rng_below(dice, 2), .min_id = (int32_t)rng_below(dice, 3),
                             .ts_begin = begin, .ts_min = begin + (int32_t)rng_below(dice, 3),
                             .ts_max = (int32_t)words - 1, .no_speech = (int32_t)rng_below(dice, 4) - 1,
                             .flags = rng_one_in(dice, 2) ? MX_RULE_TIMESTAMP_SUM : 0,
                             .temperature = rng_one_in(dice, 2) ? 0 : 0.7f, .key = {5, 6},
                             .counter = {rng_word(dice), 1}};
    }
}

static void fill(const random_leaf *leaf, const int64_t *sizes, rng *dice, int bad, mx_tensor *t) {
    static const float odd[] = {0, -0.0f, 1e30f, -1e-40f, INFINITY, NAN};
    int64_t limit = settled(sizes, leaf->limit), n = mx_tensor_count(t);
    int strange = rng_one_in(dice, 60);
    if (leaf->data == RANDOM_RULES && t->dtype == MXW_I32) {
        fill_rules(dice, t, limit);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (leaf->data == RANDOM_INDEX)
            ((int32_t *)t->data)[i] = (int32_t)(limit ? rng_below(dice, limit) : 0) +
                                      (bad && rng_one_in(dice, 4) ? (int32_t)limit : 0);
        else
            ((float *)t->data)[i] = strange && rng_one_in(dice, 5) ? odd[rng_below(dice, 6)]
                                                                   : (float)rng_uniform(dice, -1.5, 1.5);
    }
}

/* The same elements where a caller might have them. */
static mx_tensor as_view(rng *dice, const mx_tensor *t, char *to) {
    mx_tensor view = *t;
    size_t bytes = mx_dtype_bytes(t->dtype);
    if (t->rank && rng_one_in(dice, 6)) {   /* rows a little longer than they are */
        int64_t last = t->dims[t->rank - 1];
        int64_t dims[MX_MAX_RANK];
        memcpy(dims, t->dims, sizeof(dims));
        dims[t->rank - 1] += 1;
        view = mx_tensor_of(t->dtype, t->rank, dims, to);
        view.dims[t->rank - 1] -= 1;
        for (int64_t i = 0; i < mx_tensor_count(t); i++)
            memcpy(to + (size_t)(i + i / last) * bytes, (const char *)t->data + (size_t)i * bytes, bytes);
        return view;
    }
    view.data = to + rng_below(dice, 2) * 3;
    memcpy(view.data, t->data, mx_tensor_bytes(t));
    return view;
}

void random_run_make(const random_graph *r, const random_run *last, rng *dice, int bad, random_run *out) {
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < r->n_sizes; i++)
        out->sizes[i] = last && (r->frozen[i] || rng_one_in(dice, 3)) ? last->sizes[i]
                        : rng_one_in(dice, 12)                         ? rng_below(dice, 10)
                                                                       : rng_below(dice, 4) + 1;
    for (int i = 0; i < r->n_leaves; i++) {
        const random_leaf *leaf = &r->leaves[i];
        const mx_value_info *info = &r->graph->values[leaf->value];
        int64_t dims[MX_MAX_RANK];
        if (info->kind != MX_INPUT)
            continue;
        dims_of(r, leaf->value, out->sizes, dims);
        mx_tensor t = mx_tensor_of(info->type.dtype, info->type.rank, dims, NULL);
        t.data = malloc(mx_tensor_bytes(&t) + 1);
        out->blocks[i] = malloc(2 * mx_tensor_bytes(&t) + 64);
        if (!t.data || !out->blocks[i])
            abort();
        fill(leaf, out->sizes, dice, bad, &t);
        out->inputs[i] = as_view(dice, &t, out->blocks[i]);
        free(t.data);
    }
}

void random_run_free(random_run *run) {
    for (int i = 0; i < RANDOM_LEAVES; i++)
        free(run->blocks[i]);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static mxw_status add_states(const random_graph *r, const random_run *first, mx_state *state) {
    mxw_status status = MXW_OK;
    for (int i = 0; i < r->n_leaves && status >= 0; i++) {
        const mx_value_info *info = &r->graph->values[r->leaves[i].value];
        int64_t dims[MX_MAX_RANK];
        if (info->kind != MX_STATE)
            continue;
        dims_of(r, r->leaves[i].value, first->sizes, dims);
        status = mx_state_add(state, info->name, info->type.dtype, info->type.rank, dims);
    }
    return status;
}

mxw_status session_open(const random_graph *r, const mx_graph *g, const mx_program_options *options,
                        const random_run *first, session *out) {
    mxw_status status;
    *out = (session){0};
    MX_TRY(mx_exec_load(g, options, &out->program));
    MX_TRY(mx_state_open(out->program, &out->state));
    MX_TRY(add_states(r, first, out->state));
    status = mx_run_open(out->program, out->state, &out->run);
out:
    return status;
}

void session_close(session *s) {
    mx_run_close(s->run);
    mx_state_close(s->state);
    mx_exec_unload(s->program);
    *s = (session){0};
}

mxw_status session_run(session *s, const random_graph *r, const random_run *data) {
    mxw_status status = MXW_OK;
    for (int i = 0; i < r->n_leaves && status >= 0; i++)
        if (r->graph->values[r->leaves[i].value].kind == MX_INPUT)
            status = mx_run_input(s->run, r->graph->values[r->leaves[i].value].name, &data->inputs[i]);
    for (int i = 0; i < r->n_sizes && status >= 0; i++)
        status = mx_run_size(s->run, r->graph->sizes[i].name, data->sizes[i]);
    return status < 0 ? status : mx_run_execute(s->run);
}
