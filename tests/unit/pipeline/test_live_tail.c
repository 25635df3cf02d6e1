/* test_live_tail.c - which pass's words become final at the end of an utterance: the last one's, unless speech was lost
 * that the one before had words in; and when that is no help, which one's after another pass. */
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

/* Another pass is due where speech broke off, after the last word of a pass that heard some. */
static void test_lacking(void) {
    mx_utterance *u = &live->listener.waiting[0];
    begin();
    u->breaks_off = 1;
    CHECK(mx_live_lacks_tail(live));
    now_words[2].end_s = 3.75;   /* up to 4.75 s of 5.1 */
    CHECK(mx_live_lacks_tail(live));
    now_words[2].end_s = 3.85;   /* no time for a word is left */
    CHECK(!mx_live_lacks_tail(live));
    now_words[2].suspicion = 1;   /* but nobody said it */
    CHECK(mx_live_lacks_tail(live));
    u->breaks_off = 0;   /* a pause had begun */
    CHECK(!mx_live_lacks_tail(live));
    begin();
    u->breaks_off = 1;
    live->now.n_words = 0;   /* noise */
    CHECK(!mx_live_lacks_tail(live));
}

/* `before` was chosen, with words up to 5 s of the stream, or up to 4 s; then `now` was heard, up to 4 s or 5 s. */
static void test_another(void) {
    begin();
    mx_live_choose_tail(live);
    CHECK(live->now.words == before_words && live->before.words == now_words);
    begin();
    live->before.n_words = 3;
    live->now.n_words = 3;   /* no more than before */
    mx_live_choose_tail(live);
    CHECK(live->now.words == before_words);
    begin();
    live->before.n_words = 3;
    live->now.words = before_words;
    live->now.n_words = 4;
    live->before.words = now_words;
    live->before_clip = 0;
    live->now_clip = RATE;
    mx_live_choose_tail(live);
    CHECK(live->now.words == before_words && live->now.next == 2 && live->now_clip == RATE);
    now_words[2].end_s = 4.8;   /* up to 4.8 s of the stream: the other's last word ends at 5 s, which is not more */
    mx_live_choose_tail(live);
    CHECK(live->now.words == now_words && live->now_clip == 0 && live->before_clip == RATE);
}

int main(void) {
    live = mx_alloc_zero(1, sizeof(*live));
    test_lost();
    test_not_lost();
    test_final_since();
    test_lacking();
    test_another();
    mx_free(live);
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
