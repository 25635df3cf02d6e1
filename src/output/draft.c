/* output/draft.c - a result that a program makes: segments, words, tokens and regions one by one, then the whole.
 *
 * In: copies of the caller's structs, which may be shorter or longer than ours. Out: a result like that of a session.
 * Invariant: arrays of words and tokens lie in the order in which they were added, so that those of a segment are
 * neighbours; pointers to them are set when the result is asked for. */
#include "output/output.h"

#include <string.h>

typedef struct extent {
    size_t first_word, n_words, first_token, n_details;
    int has_words;
} extent;

typedef struct alternative {
    size_t segment, token;   /* token: which of the segment's */
    mxw_token value;
} alternative;

struct mxw_draft {
    mx_arena memory;             /* strings and token ids */
    mxw_segment *segments;
    extent *extents;             /* of the segments */
    mxw_word *words;
    mxw_token *tokens;
    alternative *alternatives;
    mxw_region *regions;
    size_t n_segments, n_words, n_tokens, n_alternatives, n_regions;
    size_t room_segments, room_extents, room_words, room_tokens, room_alternatives, room_regions;
    mxw_result result;
    mxw_stage_times times;
    mx_arena arrays;             /* of alternatives; made again with each result */
    mx_str text;
};

mxw_status mx_draft_open(mx_draft **out) {
    *out = mx_alloc_zero(1, sizeof(**out));
    if (!*out)
        return MXW_E_MEMORY;
    (*out)->result.language_probability = -1;
    return MXW_OK;
}

void mx_draft_close(mx_draft *d) {
    if (!d)
        return;
    mx_arena_free(&d->memory);
    mx_arena_free(&d->arrays);
    mx_free(d->segments);
    mx_free(d->extents);
    mx_free(d->words);
    mx_free(d->tokens);
    mx_free(d->alternatives);
    mx_free(d->regions);
    mx_str_free(&d->text);
    mx_free(d);
}

/* NULL stays NULL. */
static mxw_status keep_text(mx_draft *d, const char **text) {
    if (*text && !(*text = mx_arena_strdup(&d->memory, *text)))
        return MXW_E_MEMORY;
    return MXW_OK;
}

mxw_status mx_draft_head(mx_draft *d, const mxw_result *head) {
    mxw_result made = *head;
    mxw_status status = keep_text(d, &made.language);
    if (status < 0)
        return status;
    d->result = made;
    return MXW_OK;
}

void mx_draft_times(mx_draft *d, const mxw_stage_times *times) { d->times = *times; }

mxw_status mx_draft_segment(mx_draft *d, const mxw_segment *segment) {
    mxw_status status;
    mxw_segment made = *segment;
    int32_t *tokens = mx_arena_alloc(&d->memory, MX_MAX(made.n_tokens, 1) * sizeof(*tokens));
    if (!tokens)
        return MXW_E_MEMORY;
    if (made.n_tokens)
        memcpy(tokens, made.tokens, made.n_tokens * sizeof(*tokens));
    made.tokens = tokens;
    made.words = NULL;
    made.details = made.alternatives = NULL;
    made.n_words = made.n_alternatives = 0;
    MX_TRY(keep_text(d, &made.text));
    MX_TRY(keep_text(d, &made.speaker));
    MX_TRY(keep_text(d, &made.language));
    MX_TRY(mx_grow(&d->segments, &d->room_segments, d->n_segments + 1, sizeof(*d->segments)));
    MX_TRY(mx_grow(&d->extents, &d->room_extents, d->n_segments + 1, sizeof(*d->extents)));
    d->extents[d->n_segments] = (extent){.first_word = d->n_words, .first_token = d->n_tokens};
    d->segments[d->n_segments++] = made;
out:
    return status;
}

static extent *last(mx_draft *d, const char *what) {
    if (d->n_segments)
        return &d->extents[d->n_segments - 1];
    mx_fail(MXW_E_STATE, "%s: add a segment first", what);
    return NULL;
}

mxw_status mx_draft_word(mx_draft *d, const mxw_word *word) {
    extent *e = last(d, "word");
    if (!e)
        return MXW_E_STATE;
    e->has_words = 1;
    if (!word)
        return MXW_OK;
    mxw_word made = *word;
    mxw_status status = keep_text(d, &made.word);
    if (status >= 0)
        status = mx_grow(&d->words, &d->room_words, d->n_words + 1, sizeof(*d->words));
    if (status < 0)
        return status;
    d->words[d->n_words++] = made;
    e->n_words++;
    return MXW_OK;
}

mxw_status mx_draft_token(mx_draft *d, const mxw_token *token) {
    mxw_token made = *token;
    extent *e = last(d, "token");
    if (!e)
        return MXW_E_STATE;
    size_t at = e->n_details;
    if (at >= d->segments[d->n_segments - 1].n_tokens)
        return mx_fail(MXW_E_STATE, "token: the segment has %zu tokens, and all have their details", at);
    mxw_status status = keep_text(d, &made.text);
    if (status >= 0)
        status = mx_grow(&d->tokens, &d->room_tokens, d->n_tokens + 1, sizeof(*d->tokens));
    if (status < 0)
        return status;
    d->tokens[d->n_tokens++] = made;
    e->n_details++;
    return MXW_OK;
}

mxw_status mx_draft_alternative(mx_draft *d, const mxw_token *token) {
    alternative made = {.value = *token};
    extent *e = last(d, "alternative");
    if (!e)
        return MXW_E_STATE;
    if (!e->n_details)
        return mx_fail(MXW_E_STATE, "alternative: add a token first");
    mxw_status status = keep_text(d, &made.value.text);
    if (status >= 0)
        status = mx_grow(&d->alternatives, &d->room_alternatives, d->n_alternatives + 1, sizeof(*d->alternatives));
    if (status < 0)
        return status;
    made.segment = d->n_segments - 1;
    made.token = e->n_details - 1;
    d->alternatives[d->n_alternatives++] = made;
    return MXW_OK;
}

mxw_status mx_draft_region(mx_draft *d, const mxw_region *region) {
    mxw_status status = mx_grow(&d->regions, &d->room_regions, d->n_regions + 1, sizeof(*d->regions));
    if (status < 0 || !region)
        return status;   /* NULL: there are regions, but none so far */
    mxw_region made = *region;
    status = keep_text(d, &made.language);
    if (status >= 0)
        d->regions[d->n_regions++] = made;
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Those of segment i, which begin at *at: as the rectangle that a session has. */
static mxw_status set_alternatives(mx_draft *d, size_t i, size_t *at) {
    mxw_segment *s = &d->segments[i];
    size_t first = *at, run = 0;
    s->n_alternatives = 0;
    s->alternatives = NULL;
    for (; *at < d->n_alternatives && d->alternatives[*at].segment == i; ++*at) {
        run = *at > first && d->alternatives[*at].token == d->alternatives[*at - 1].token ? run + 1 : 1;
        s->n_alternatives = MX_MAX(s->n_alternatives, run);
    }
    if (!s->n_alternatives)
        return MXW_OK;
    mxw_token *grid = mx_arena_alloc(&d->arrays, s->n_tokens * s->n_alternatives * sizeof(*grid));
    if (!grid)
        return MXW_E_MEMORY;
    for (size_t j = 0; j < s->n_tokens * s->n_alternatives; j++)
        grid[j] = (mxw_token){.id = -1, .text = ""};
    for (size_t j = first, rank = 0; j < *at; j++) {
        const alternative *a = &d->alternatives[j];
        rank = j > first && a->token == d->alternatives[j - 1].token ? rank + 1 : 0;
        grid[a->token * s->n_alternatives + rank] = a->value;
    }
    s->alternatives = mx_token_array(grid);
    return MXW_OK;
}

static mxw_status set_arrays(mx_draft *d, size_t i, size_t *alternatives_at) {
    static const mxw_word no_word;
    mxw_segment *s = &d->segments[i];
    const extent *e = &d->extents[i];
    if (e->n_details && e->n_details < s->n_tokens)
        return mx_fail(MXW_E_STATE, "segment %zu: %zu of its %zu tokens have details", i, e->n_details, s->n_tokens);
    s->n_words = e->n_words;
    s->words = e->has_words ? mx_word_array(e->n_words ? d->words + e->first_word : &no_word) : NULL;
    s->details = e->n_details ? mx_token_array(d->tokens + e->first_token) : NULL;
    return set_alternatives(d, i, alternatives_at);
}

const mxw_result *mx_draft_result(mx_draft *d) {
    size_t at = 0;
    mx_arena_free(&d->arrays);
    mx_str_clear(&d->text);
    for (size_t i = 0; i < d->n_segments; i++) {
        if (set_arrays(d, i, &at) < 0)
            return NULL;
        mx_str_text(&d->text, d->segments[i].text);
    }
    if (mx_str_status(&d->text) < 0)
        return NULL;
    d->result.text = mx_str_get(&d->text);
    d->result.segments = mx_segment_array(d->segments);
    d->result.n_segments = d->n_segments;
    d->result.regions = d->regions ? mx_region_array(d->regions) : NULL;
    d->result.n_regions = d->n_regions;
    d->result.times = &d->times;
    return &d->result;
}
