/* api/result.c - the public functions of results: merging and writing, over output/. */
#include "api/api.h"
#include "base/arrays.h"
#include "max_whisper/draft.h"
#include "output/output.h"

const mxw_segment *mxw_result_segment(const mxw_result *result, size_t i) {
    return result && i < result->n_segments ? &mx_segments(result)[i] : NULL;
}

const mxw_region *mxw_result_region(const mxw_result *result, size_t i) {
    return result && i < result->n_regions ? &mx_regions(result)[i] : NULL;
}

const char *mxw_suspicion_reason(int bit) { return mx_reason_name(bit); }

const mxw_word *mxw_segment_word(const mxw_segment *segment, size_t i) {
    return segment && i < segment->n_words ? &mx_segment_words(segment)[i] : NULL;
}

const mxw_token *mxw_segment_token(const mxw_segment *segment, size_t i) {
    return segment && segment->details && i < segment->n_tokens ? &mx_segment_details(segment)[i] : NULL;
}

const mxw_token *mxw_segment_alternative(const mxw_segment *segment, size_t i, size_t j) {
    if (!segment || !segment->alternatives || i >= segment->n_tokens || j >= segment->n_alternatives)
        return NULL;
    const mxw_token *token = &mx_segment_alternatives(segment)[i * segment->n_alternatives + j];
    return token->id < 0 ? NULL : token;   /* the list ends early where fewer tokens were allowed */
}

mxw_status mxw_merge_open(mxw_merge **out) {
    MX_NEED(out, MXW_E_ARGUMENT);
    return mx_merge_open(out);
}

void mxw_merge_close(mxw_merge *merge) { mx_merge_close(merge); }

mxw_status mxw_merge_add(mxw_merge *merge, int channel, const mxw_result *result) {
    MX_NEED(merge, MXW_E_ARGUMENT);
    MX_NEED(result, MXW_E_ARGUMENT);
    return mx_merge_add(merge, channel, result);
}

const mxw_result *mxw_merge_result(mxw_merge *merge) {
    MX_NEED(merge, NULL);
    return mx_merge_result(merge);
}

/* ---- drafts ------------------------------------------------------------------------------------------------------ */

mxw_status mxw_draft_open(mxw_draft **out) {
    MX_NEED(out, MXW_E_ARGUMENT);
    return mx_draft_open(out);
}

void mxw_draft_close(mxw_draft *draft) { mx_draft_close(draft); }

/* Copies the caller's struct of `size` bytes over zeros. */
static mxw_status take_struct(void *to, size_t to_size, const void *from, size_t size, const char *what) {
    if (size < sizeof(double) || size > 65536)
        return mx_fail(MXW_E_ARGUMENT, "%s: a size of %zu bytes", what, size);
    memset(to, 0, to_size);
    memcpy(to, from, MX_MIN(to_size, size));
    return MXW_OK;
}

mxw_status (mxw_draft_head)(mxw_draft *draft, const mxw_result *head, size_t size) {
    mxw_result made;
    MX_NEED(draft, MXW_E_ARGUMENT);
    MX_NEED(head, MXW_E_ARGUMENT);
    mxw_status status = take_struct(&made, sizeof(made), head, size, __func__);
    return status < 0 ? status : mx_draft_head(draft, &made);
}

mxw_status (mxw_draft_times)(mxw_draft *draft, const mxw_stage_times *times, size_t size) {
    mxw_stage_times made;
    MX_NEED(draft, MXW_E_ARGUMENT);
    MX_NEED(times, MXW_E_ARGUMENT);
    mxw_status status = take_struct(&made, sizeof(made), times, size, __func__);
    if (status >= 0)
        mx_draft_times(draft, &made);
    return status;
}

mxw_status (mxw_draft_segment)(mxw_draft *draft, const mxw_segment *segment, size_t size) {
    mxw_segment made;
    MX_NEED(draft, MXW_E_ARGUMENT);
    MX_NEED(segment, MXW_E_ARGUMENT);
    mxw_status status = take_struct(&made, sizeof(made), segment, size, __func__);
    if (status < 0)
        return status;
    MX_NEED(made.text, MXW_E_ARGUMENT);
    if (made.n_tokens)
        MX_NEED(made.tokens, MXW_E_ARGUMENT);
    return mx_draft_segment(draft, &made);
}

mxw_status (mxw_draft_word)(mxw_draft *draft, const mxw_word *word, size_t size) {
    mxw_word made;
    MX_NEED(draft, MXW_E_ARGUMENT);
    if (!word)
        return mx_draft_word(draft, NULL);
    mxw_status status = take_struct(&made, sizeof(made), word, size, __func__);
    if (status < 0)
        return status;
    MX_NEED(made.word, MXW_E_ARGUMENT);
    return mx_draft_word(draft, &made);
}

static mxw_status take_token(mxw_token *made, const mxw_draft *draft, const mxw_token *token, size_t size) {
    MX_NEED(draft, MXW_E_ARGUMENT);
    MX_NEED(token, MXW_E_ARGUMENT);
    mxw_status status = take_struct(made, sizeof(*made), token, size, __func__);
    if (status < 0)
        return status;
    MX_NEED(made->text, MXW_E_ARGUMENT);
    return MXW_OK;
}

mxw_status (mxw_draft_token)(mxw_draft *draft, const mxw_token *token, size_t size) {
    mxw_token made;
    mxw_status status = take_token(&made, draft, token, size);
    return status < 0 ? status : mx_draft_token(draft, &made);
}

mxw_status (mxw_draft_alternative)(mxw_draft *draft, const mxw_token *token, size_t size) {
    mxw_token made;
    mxw_status status = take_token(&made, draft, token, size);
    return status < 0 ? status : mx_draft_alternative(draft, &made);
}

mxw_status (mxw_draft_region)(mxw_draft *draft, const mxw_region *region, size_t size) {
    mxw_region made;
    MX_NEED(draft, MXW_E_ARGUMENT);
    if (!region)
        return mx_draft_region(draft, NULL);
    mxw_status status = take_struct(&made, sizeof(made), region, size, __func__);
    return status < 0 ? status : mx_draft_region(draft, &made);
}

const mxw_result *mxw_draft_result(mxw_draft *draft) {
    MX_NEED(draft, NULL);
    return mx_draft_result(draft);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

const char *mxw_format_name(int index) { return mx_output_format(index); }

void (mxw_write_options_default)(mxw_write_options *options, size_t struct_size) {
    const mxw_write_options full = {0};
    mx_give_defaults(options, struct_size, &full, sizeof(full));
}

/* The caller's, checked, with the rest as by default. */
static mxw_status take_write_options(const mxw_write_options *options, mxw_write_options *full) {
    mxw_write_options_default(full);
    mxw_status status = options ? mx_take_options(full, sizeof(*full), options, options->struct_size,
                                                  "mxw_write_options") : MXW_OK;
    const mx_range ranges[] = {{"max_line_width", full->max_line_width, 0, 1e6, 0},
                            {"max_line_count", full->max_line_count, 0, 1e6, 0},
                            {"max_words_per_line", full->max_words_per_line, 0, 1e6, 0}};
    return status < 0 ? status : mx_check_ranges(ranges, MX_COUNT(ranges));
}

mxw_status mxw_result_write(const mxw_result *result, const char *format, const mxw_write_options *options,
                            mxw_write_fn fn, void *user) {
    mxw_write_options full;
    MX_NEED(result, MXW_E_ARGUMENT);
    MX_NEED(format, MXW_E_ARGUMENT);
    MX_NEED(fn, MXW_E_ARGUMENT);
    mxw_status status = take_write_options(options, &full);
    return status < 0 ? status : mx_output_write(result, format, &full, fn, user);
}

mxw_status mxw_result_save(const mxw_result *result, const char *format, const mxw_write_options *options,
                           const char *path) {
    mxw_write_options full;
    MX_NEED(result, MXW_E_ARGUMENT);
    MX_NEED(format, MXW_E_ARGUMENT);
    MX_NEED(path, MXW_E_ARGUMENT);
    mxw_status status = take_write_options(options, &full);
    return status < 0 ? status : mx_output_save(result, format, &full, path);
}

mxw_status mxw_segment_write(const mxw_segment *segment, mxw_write_fn fn, void *user) {
    MX_NEED(segment, MXW_E_ARGUMENT);
    MX_NEED(fn, MXW_E_ARGUMENT);
    return mx_output_segment(segment, fn, user);
}
