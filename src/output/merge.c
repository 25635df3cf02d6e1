/* output/merge.c - results of several channels as one: always the earliest of the next segments. */
#include "output/output.h"

struct mxw_merge {
    mxw_result result;
    mxw_segment *segments;
    mx_str text;
};

/* The result whose next segment starts first; of equal ones the first. */
static size_t earliest(const mxw_result *const *results, const size_t *next, size_t n) {
    size_t best = n;
    for (size_t i = 0; i < n; i++)
        if (next[i] < results[i]->n_segments &&
            (best == n || results[i]->segments[next[i]].start < results[best]->segments[next[best]].start))
            best = i;
    return best;
}

static void add_counts(mxw_result *to, const mxw_result *from) {
    mxw_stage_times *t = &to->times;
    const mxw_stage_times *f = &from->times;
    to->duration_s = MX_MAX(to->duration_s, from->duration_s);
    to->n_windows += from->n_windows;
    to->n_fallbacks_temperature += from->n_fallbacks_temperature;
    to->fallbacks += from->fallbacks;
    t->load_ms = MX_MAX(t->load_ms, f->load_ms);
    t->compile_ms = MX_MAX(t->compile_ms, f->compile_ms);
    t->audio_ms += f->audio_ms;
    t->mel_ms += f->mel_ms;
    t->encode_ms += f->encode_ms;
    t->decode_ms += f->decode_ms;
    t->total_ms = MX_MAX(t->total_ms, f->total_ms);
}

static mxw_status merge_segments(mx_merge *m, const mxw_result *const *results, size_t n) {
    size_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += results[i]->n_segments;
    size_t *next = mx_alloc_zero(n, sizeof(*next));
    m->segments = mx_alloc_array(total, sizeof(*m->segments));
    mxw_status status = next && m->segments ? MXW_OK : MXW_E_MEMORY;
    for (size_t k = 0; status >= 0 && k < total; k++) {
        size_t i = earliest(results, next, n);
        m->segments[k] = results[i]->segments[next[i]++];
        m->segments[k].id = (int64_t)k;
        mx_str_text(&m->text, m->segments[k].text);
    }
    mx_free(next);
    m->result.segments = m->segments;
    m->result.n_segments = total;
    return status < 0 ? status : mx_str_status(&m->text);
}

mxw_status mx_merge_open(const mxw_result *const *results, size_t n, mx_merge **out) {
    *out = NULL;
    mx_merge *m = mx_alloc_zero(1, sizeof(*m));
    if (!m)
        return MXW_E_MEMORY;
    mxw_status status = merge_segments(m, results, n);
    if (status < 0) {
        mx_merge_close(m);
        return status;
    }
    m->result.text = mx_str_get(&m->text);
    m->result.language = n > 0 ? results[0]->language : NULL;
    m->result.language_probability = n > 0 ? results[0]->language_probability : -1;
    for (size_t i = 0; i < n; i++)
        add_counts(&m->result, results[i]);
    *out = m;
    return MXW_OK;
}

void mx_merge_close(mx_merge *merge) {
    if (!merge)
        return;
    mx_free(merge->segments);
    mx_str_free(&merge->text);
    mx_free(merge);
}

const mxw_result *mx_merge_result(const mx_merge *merge) { return &merge->result; }
