/* test_live_tail.c - which pass's words become final at the end of an utterance: the last one's, unless speech was lost
 * that the one before had words in. */
#include "kit/check.h"
#include "pipeline/live/live.h"

#define RATE MXW_SAMPLE_RATE
#define UNHEARD 2.0   /* seconds of the stream that were lost before: its clock is ahead of the samples */

static mxw_live *live;
static mx_live_word before_words[4], now_words[4];

/* Passes over the same clip, which begins after a second: the one before has words up to 2, 3, 4 and 5 s, this one up
 * to 2, 3 and 4 s; the first two are final. Speech goes on until 5.1 s. */
static void begin(void) {
    static const mx_utterance spoken = {.speech_end = (int64_t)(5.1 * RATE), .offset_s = UNHEARD};
    live->listener.waiting[0] = spoken;
    for (int i = 0; i < 4; i++)
        before_words[i] = now_words[i] = (mx_live_word){.start_s = 0.5 + i, .end_s = 1.0 + i};
    live->before = (mx_hypothesis){.words = before_words, .n_words = 4, .next = 2};
    live->now = (mx_hypothesis){.words = now_words, .n_words = 3, .next = 2};
    live->before_clip = live->now_clip = RATE;
    live->now_given = 2;
    live->n_known = 0;
    live->final_end_s = UNHEARD + 3;
}

static int is_kept(void) {
    mx_live_keep_tail(live);
    return live->now.words == before_words;
}

static void test_lost(void) {
    begin();
    CHECK(is_kept());
    CHECK_EQ_INT(live->now.next, 2);
    CHECK(live->before.words == now_words);
    begin();
    live->before_clip = 0;   /* the clip was shortened: its words end a second earlier */
    for (int i = 0; i < 4; i++)
        before_words[i].end_s++;
    CHECK(is_kept());
    CHECK_EQ_INT(live->now_clip, 0);
    begin();
    live->now.n_words = 2;   /* nothing but the final words */
    CHECK(is_kept());
}

static void test_not_lost(void) {
    begin();
    now_words[2].end_s = 3.75;   /* up to 4.75 s: no time for a word is left */
    CHECK(!is_kept());
    begin();
    live->listener.waiting[0].speech_end = (int64_t)(4.2 * RATE);   /* what follows was no speech */
    CHECK(!is_kept());
    begin();
    before_words[3].suspicion = 1;   /* the guard says that nobody said it */
    CHECK(!is_kept());
    begin();
    live->now.n_words = 0;   /* nothing at all: noise */
    CHECK(!is_kept());
    begin();
    live->before.n_words = live->before.next = 0;   /* the first pass */
    CHECK(!is_kept());
}

/* Words of this pass that have become final are not given again, also where they have left the clip. */
static void test_final_since(void) {
    begin();
    live->now.next = 3;
    live->final_end_s = UNHEARD + 4;
    CHECK(is_kept());
    CHECK_EQ_INT(live->now.next, 3);
    begin();
    live->now.next = 3;
    live->final_end_s = UNHEARD + 5;
    CHECK(is_kept());
    CHECK_EQ_INT(live->now.next, 4);
}

int main(void) {
    live = mx_alloc_zero(1, sizeof(*live));
    test_lost();
    test_not_lost();
    test_final_since();
    mx_free(live);
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
