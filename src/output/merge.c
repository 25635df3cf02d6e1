/* output/merge.c - merges the results of several channels: copies them, then takes segments and regions in order of
 * their start. */
#include "output/output.h"

#include <string.h>

typedef struct part {
    int channel;
    mxw_result result;   /* strings, segments and times in the merge's arena */
    size_t next;         /* the next segment to take */
} part;

struct mxw_merge {
    mx_arena memory;
    part *parts;         /* by channel */
    size_t n_parts, capacity;
    mxw_result result;
    mxw_stage_times times;   /* of the result */
    mxw_segment *segments;
    size_t n_room;
    mxw_region *regions;
    size_t n_region_room;
    mx_str text;
};

mxw_status mx_merge_open(mx_merge **out) {
    *out = mx_alloc_zero(1, sizeof(**out));
    return *out ? MXW_OK : MXW_E_MEMORY;
}

void mx_merge_close(mx_merge *merge) {
    if (!merge)
        return;
    mx_arena_free(&merge->memory);
    mx_free(merge->parts);
    mx_free(merge->segments);
    mx_free(merge->regions);
    mx_str_free(&merge->text);
    mx_free(merge);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* NULL stays NULL; also NULL if memory runs out. */
static void copy_text(mx_arena *memory, const char **text) {
    if (*text)
        *text = mx_arena_strdup(memory, *text);
}

static mxw_status copy_words(mx_arena *memory, mxw_segment *s) {
    if (!s->words)
        return MXW_OK;
    mxw_word *words = mx_arena_alloc(memory, MX_MAX(s->n_words, 1) * sizeof(*words));
    for (size_t i = 0; words && i < s->n_words; i++) {
        words[i] = mx_segment_words(s)[i];
        copy_text(memory, &words[i].word);
        if (!words[i].word)
            return MXW_E_MEMORY;
    }
    s->words = mx_word_array(words);
    return words ? MXW_OK : MXW_E_MEMORY;
}

static mxw_status copy_tokens(mx_arena *memory, const mxw_token_array **array, size_t n) {
    const mxw_token *tokens = (const mxw_token *)(const void *)*array;
    if (!tokens)
        return MXW_OK;
    mxw_token *copy = mx_arena_alloc(memory, MX_MAX(n, 1) * sizeof(*copy));
    for (size_t i = 0; copy && i < n; i++) {
        copy[i] = tokens[i];
        copy_text(memory, &copy[i].text);
        if (tokens[i].text && !copy[i].text)
            return MXW_E_MEMORY;
    }
    *array = mx_token_array(copy);
    return copy ? MXW_OK : MXW_E_MEMORY;
}

static mxw_status copy_segment(mx_arena *memory, mxw_segment *s) {
    int had_speaker = s->speaker != NULL;
    int32_t *tokens = mx_arena_alloc(memory, MX_MAX(s->n_tokens, 1) * sizeof(*tokens));
    if (tokens && s->n_tokens)
        memcpy(tokens, s->tokens, s->n_tokens * sizeof(*tokens));
    s->tokens = tokens;
    copy_text(memory, &s->text);
    copy_text(memory, &s->speaker);
    int had_language = s->language != NULL;
    copy_text(memory, &s->language);
    mxw_status status = copy_words(memory, s);
    if (status >= 0)
        status = copy_tokens(memory, &s->details, s->n_tokens);
    if (status >= 0)
        status = copy_tokens(memory, &s->alternatives, s->n_tokens * s->n_alternatives);
    return status >= 0 && tokens && s->text && (s->speaker || !had_speaker) && (s->language || !had_language)
               ? MXW_OK : MXW_E_MEMORY;
}

static mxw_status copy_regions(mx_arena *memory, mxw_result *r) {
    if (!r->regions)
        return MXW_OK;
    mxw_region *regions = mx_arena_alloc(memory, MX_MAX(r->n_regions, 1) * sizeof(*regions));
    for (size_t i = 0; regions && i < r->n_regions; i++) {
        regions[i] = mx_regions(r)[i];
        copy_text(memory, &regions[i].language);
        if (mx_regions(r)[i].language && !regions[i].language)
            return MXW_E_MEMORY;
    }
    r->regions = mx_region_array(regions);
    return regions ? MXW_OK : MXW_E_MEMORY;
}

static mxw_status copy_result(mx_arena *memory, const mxw_result *from, mxw_result *to) {
    *to = *from;
    to->text = NULL;   /* made again from the segments */
    mxw_segment *segments = mx_arena_alloc(memory, MX_MAX(from->n_segments, 1) * sizeof(*segments));
    mxw_stage_times *times = mx_arena_alloc(memory, sizeof(*times));
    copy_text(memory, &to->language);
    if (!segments || !times || (from->language && !to->language))
        return MXW_E_MEMORY;
    for (size_t i = 0; i < from->n_segments; i++) {
        segments[i] = mx_segments(from)[i];
        mxw_status status = copy_segment(memory, &segments[i]);
        if (status < 0)
            return status;
    }
    to->segments = mx_segment_array(segments);
    *times = *from->times;
    to->times = times;
    return copy_regions(memory, to);
}

mxw_status mx_merge_add(mx_merge *merge, int channel, const mxw_result *result) {
    part p = {.channel = channel};
    mxw_status status = copy_result(&merge->memory, result, &p.result);
    if (status >= 0)
        status = mx_grow(&merge->parts, &merge->capacity, merge->n_parts + 1, sizeof(*merge->parts));
    if (status < 0)
        return status;
    size_t at = merge->n_parts++;
    for (; at > 0 && merge->parts[at - 1].channel > channel; at--)
        merge->parts[at] = merge->parts[at - 1];
    merge->parts[at] = p;
    return MXW_OK;
}

/* ---- one result -------------------------------------------------------------------------------------------------- */

/* The part whose next segment starts first; the first one on ties. */
static part *earliest(mx_merge *m) {
    part *best = NULL;
    for (size_t i = 0; i < m->n_parts; i++) {
        part *p = &m->parts[i];
        if (p->next < p->result.n_segments &&
            (!best || mx_segments(&p->result)[p->next].start < mx_segments(&best->result)[best->next].start))
            best = p;
    }
    return best;
}

/* The regions of all channels in the order of their starts, those of the first channel first on ties. */
static mxw_status merge_regions(mx_merge *m, mxw_result *r) {
    size_t n = 0;
    int detected = 0;
    for (size_t i = 0; i < m->n_parts; i++) {
        n += m->parts[i].result.n_regions;
        detected |= m->parts[i].result.regions != NULL;
    }
    if (!detected)
        return MXW_OK;
    if (mx_grow(&m->regions, &m->n_region_room, n + 1, sizeof(*m->regions)) < 0)
        return MXW_E_MEMORY;
    for (size_t i = 0; i < m->n_parts; i++) {
        const mxw_result *from = &m->parts[i].result;
        size_t at = r->n_regions, left = from->n_regions;
        r->n_regions += left;
        for (size_t to = r->n_regions; left > 0; to--) {   /* from the back, so that nothing is overwritten */
            int later = at > 0 && m->regions[at - 1].start > mx_regions(from)[left - 1].start;
            m->regions[to - 1] = later ? m->regions[--at] : mx_regions(from)[--left];
        }
    }
    r->regions = mx_region_array(m->regions);
    return MXW_OK;
}

static void add_counts(mxw_result *to, mxw_stage_times *t, const mxw_result *from) {
    const mxw_stage_times *f = from->times;
    to->duration_s = MX_MAX(to->duration_s, from->duration_s);
    to->n_windows += from->n_windows;
    to->n_temperature_fallbacks += from->n_temperature_fallbacks;
    to->n_words_suspected += from->n_words_suspected;
    to->skipped_s += from->skipped_s;
    t->load_ms = MX_MAX(t->load_ms, f->load_ms);
    t->compile_ms = MX_MAX(t->compile_ms, f->compile_ms);
    t->audio_ms += f->audio_ms;
    t->mel_ms += f->mel_ms;
    t->encode_ms += f->encode_ms;
    t->decode_ms += f->decode_ms;
    t->words_ms += f->words_ms;
    t->vad_ms += f->vad_ms;
    t->total_ms = MX_MAX(t->total_ms, f->total_ms);
    if (f->first_encode_ns && (!t->first_encode_ns || f->first_encode_ns < t->first_encode_ns))
        t->first_encode_ns = f->first_encode_ns;
}

const mxw_result *mx_merge_result(mx_merge *merge) {
    part *p;
    size_t n = 0;
    mxw_result *r = &merge->result;
    merge->times = (mxw_stage_times){0};
    *r = (mxw_result){.language_probability = -1, .times = &merge->times};
    mx_str_clear(&merge->text);
    for (size_t i = 0; i < merge->n_parts; i++) {
        n += merge->parts[i].result.n_segments;
        merge->parts[i].next = 0;
        add_counts(r, &merge->times, &merge->parts[i].result);
    }
    if (mx_grow(&merge->segments, &merge->n_room, n + 1, sizeof(*merge->segments)) < 0)
        return NULL;
    while ((p = earliest(merge)) != NULL) {
        mxw_segment *s = &merge->segments[r->n_segments];
        *s = mx_segments(&p->result)[p->next++];
        s->id = (int64_t)r->n_segments++;
        mx_str_text(&merge->text, s->text);
    }
    if (mx_str_status(&merge->text) < 0 || merge_regions(merge, r) < 0)
        return NULL;
    r->text = mx_str_get(&merge->text);
    r->segments = mx_segment_array(merge->segments);
    if (merge->n_parts > 0) {
        r->language = merge->parts[0].result.language;
        r->language_probability = merge->parts[0].result.language_probability;
    }
    return r;
}
