/* Results that a program makes: what was added is there, through the public functions and in files; mistakes are
 * refused. */
#include <max_whisper.h>

#include "base/base.h"
#include "kit/check.h"

static const int32_t IDS[] = {50363, 314, 716, 50463};

static mxw_segment a_segment(int64_t id, const char *text) {
    return (mxw_segment){.id = id, .start = (double)id, .end = (double)id + 1, .text = text, .tokens = IDS,
                         .n_tokens = 4, .language = "en", .language_probability = -1, .speaker = id ? "left" : NULL};
}

static mxw_status add_details(mxw_draft *draft) {
    mxw_status status = MXW_OK;
    for (int i = 0; i < 4 && status >= 0; i++) {
        status = mxw_draft_token(draft, (&(mxw_token){IDS[i], -0.5 * i, "t"}));
        for (int j = 0; j < (i == 2 ? 3 : 1) && status >= 0; j++)
            status = mxw_draft_alternative(draft, (&(mxw_token){100 + j, -1.0 - j, "a"}));
    }
    return status;
}

/* Two segments, the first with words and details; a region. */
static mxw_status fill(mxw_draft *draft) {
    const mxw_stage_times times = {.decode_ms = 7};
    const mxw_result head = {.language = "en", .language_probability = 0.5, .duration_s = 9};
    const mxw_segment first = a_segment(0, " one two"), second = a_segment(1, " three");
    const mxw_word words[] = {{0, 0.5, " one", 0.9, 0, 0}, {0.5, 1, " two", 0.8, 0.7, 1}};
    mxw_status status = mxw_draft_head(draft, &head);
    if (status >= 0)
        status = mxw_draft_times(draft, &times);
    if (status >= 0)
        status = mxw_draft_segment(draft, &first);
    for (int i = 0; i < 2 && status >= 0; i++)
        status = mxw_draft_word(draft, &words[i]);
    if (status >= 0)
        status = add_details(draft);
    if (status >= 0)
        status = mxw_draft_segment(draft, &second);
    return status < 0 ? status : mxw_draft_region(draft, (&(mxw_region){0, 2, 0, "en", 0.9}));
}

static int gather(void *user, const void *bytes, size_t n) {
    mx_str_add(user, bytes, n);
    return 0;
}

static void test_contents(void) {
    mxw_draft *draft;
    mx_str out = {0};
    CHECK_EQ_INT(mxw_draft_open(&draft), MXW_OK);
    CHECK_EQ_INT(fill(draft), MXW_OK);
    const mxw_result *r = mxw_draft_result(draft);
    if (!CHECK(r != NULL))
        return;
    CHECK_STR(r->text, " one two three");
    CHECK_STR(r->language, "en");
    CHECK(r->duration_s == 9 && r->language_probability == 0.5 && r->times->decode_ms == 7);
    CHECK_EQ_INT(r->n_segments, 2);
    const mxw_segment *s = mxw_result_segment(r, 0);
    CHECK_EQ_INT(s->n_words, 2);
    CHECK_STR(mxw_segment_word(s, 1)->word, " two");
    CHECK(mxw_segment_word(s, 2) == NULL);
    CHECK_EQ_INT(mxw_segment_token(s, 3)->id, 50463);
    CHECK_EQ_INT(mxw_segment_alternative(s, 2, 2)->id, 102);
    CHECK(mxw_segment_alternative(s, 1, 0) && !mxw_segment_alternative(s, 1, 1));
    CHECK(mxw_result_segment(r, 1)->words == NULL && mxw_segment_token(mxw_result_segment(r, 1), 0) == NULL);
    CHECK_STR(mxw_result_segment(r, 1)->speaker, "left");
    CHECK_EQ_INT(r->n_regions, 1);
    CHECK_EQ_INT(mxw_result_write(r, "txt", NULL, gather, &out), MXW_OK);
    CHECK_STR(mx_str_get(&out), "one two\n[left] three\n");
    CHECK(mxw_draft_result(draft) == r);   /* again, and with the same arrays */
    CHECK_EQ_INT(mxw_segment_alternative(mxw_result_segment(r, 0), 2, 2)->id, 102);
    mx_str_free(&out);
    mxw_draft_close(draft);
}

/* A program with an older header has shorter structs: what it lacks is 0. */
static void test_older_caller(void) {
    mxw_draft *draft;
    mxw_segment s = a_segment(1, " text");
    s.suspicion = 1;
    CHECK_EQ_INT(mxw_draft_open(&draft), MXW_OK);
    CHECK_EQ_INT((mxw_draft_segment)(draft, &s, offsetof(mxw_segment, suspicion)), MXW_OK);
    CHECK(mxw_result_segment(mxw_draft_result(draft), 0)->suspicion == 0);
    CHECK_EQ_INT((mxw_draft_segment)(draft, &s, 3), MXW_E_ARGUMENT);
    mxw_draft_close(draft);
}

static void test_mistakes(void) {
    mxw_draft *draft;
    mxw_segment s = a_segment(0, " text");
    const mxw_word word = {0, 1, "w", 1, 0, 0};
    const mxw_token token = {5, -1, "t"};
    CHECK_EQ_INT(mxw_draft_open(NULL), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_draft_open(&draft), MXW_OK);
    CHECK_EQ_INT(mxw_draft_word(draft, &word), MXW_E_STATE);
    CHECK_EQ_INT(mxw_draft_token(draft, &token), MXW_E_STATE);
    CHECK_EQ_INT(mxw_draft_alternative(draft, &token), MXW_E_STATE);
    s.text = NULL;
    CHECK_EQ_INT(mxw_draft_segment(draft, &s), MXW_E_ARGUMENT);
    s.text = " text";
    CHECK_EQ_INT(mxw_draft_segment(draft, &s), MXW_OK);
    CHECK_EQ_INT(mxw_draft_alternative(draft, &token), MXW_E_STATE);
    CHECK_EQ_INT(mxw_draft_token(draft, &token), MXW_OK);
    CHECK(mxw_draft_result(draft) == NULL);
    CHECK(strstr(mxw_last_error(), "1 of its 4 tokens") != NULL);
    for (int i = 1; i < 4; i++)
        CHECK_EQ_INT(mxw_draft_token(draft, &token), MXW_OK);
    CHECK_EQ_INT(mxw_draft_token(draft, &token), MXW_E_STATE);
    CHECK(mxw_draft_result(draft) != NULL);
    mxw_draft_close(draft);
    mxw_draft_close(NULL);
}

/* Each allocation fails in turn: a status, and nothing is lost (the sanitizers look). */
static void test_memory(void) {
    int done = 0;
    for (int64_t n = 0; n < 200 && !done; n++) {
        mxw_draft *draft = NULL;
        mx_mem_fail_after(n);
        mxw_status status = mxw_draft_open(&draft);
        if (status >= 0)
            status = fill(draft);
        done = status >= 0 && mxw_draft_result(draft) != NULL;
        mx_mem_fail_after(-1);
        CHECK(status >= 0 || status == MXW_E_MEMORY);
        mxw_draft_close(draft);
    }
    CHECK(done);
}

int main(void) {
    test_contents();
    test_older_caller();
    test_mistakes();
    test_memory();
    return check_done();
}
