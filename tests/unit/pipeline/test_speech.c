/* test_speech.c - what is known about speech in a recording, and the clips that follow from it, against plain
 * definitions on random probabilities: cuts, the next speech, probabilities of spans; the same clips whenever they are
 * asked for. */
#include "kit/check.h"
#include "kit/fake_detector.h"

#include <math.h>

#include "base/mem.h"
#include "feature/feature.h"
#include "pipeline/speech/clips.h"

#define N_CHUNKS 4000

static float p[N_CHUNKS];
static uint64_t state = 1;

static uint32_t draw(uint32_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static mxw_vad_options default_options(void) {
    return (mxw_vad_options){.struct_size = sizeof(mxw_vad_options), .sample_rate = 16000, .threshold = 0.5,
                             .neg_threshold = MXW_NONE, .max_speech_s = MXW_NONE, .min_silence_ms = 2000,
                             .pad_ms = 400};
}

/* Speech and silence in turns, of up to so many chunks each; inside them the probabilities waver. */
static void fill(uint32_t speech, uint32_t silence) {
    for (size_t i = 0, end = 0, speaking = 0; i < N_CHUNKS; i++) {
        if (i == end) {
            speaking = !speaking;
            end = i + 1 + draw(speaking ? speech : silence);
        }
        p[i] = (float)draw(1000) / 1000 * 0.49f + (speaking ? 0.5f : 0);
    }
}

static mx_speech *open_speech(const mxw_vad_options *options) {
    static fake_detector_options fake = {.probabilities = p, .n = N_CHUNKS};
    mx_detector detector;
    mx_speech *speech = NULL;
    CHECK_EQ_INT(fake_detector_open(&fake, options, &detector), MXW_OK);
    CHECK_EQ_INT(mx_speech_open(&detector, options, &speech), MXW_OK);
    return speech;
}

static mx_speech *listen(const mxw_vad_options *options, size_t n_samples) {
    float *zeros = mx_alloc_zero(n_samples + 1, sizeof(*zeros));
    mx_speech *speech = open_speech(options);
    CHECK_EQ_INT(mx_speech_feed(speech, zeros, n_samples), MXW_OK);
    CHECK_EQ_INT(mx_speech_finish(speech), MXW_OK);
    mx_free(zeros);
    return speech;
}

/* ---- spans ------------------------------------------------------------------------------------------------------- */

/* The longest run of quiet chunks that are inside the span as a whole; of equal ones the last. */
static int64_t plain_cut(int64_t from, int64_t to, int64_t *pause) {
    int64_t best = -1, length = 0, least = -1;
    for (int64_t i = 0; i < N_CHUNKS; i++) {
        int64_t run = 0;
        if (i * 512 < from * 160 || (i + 1) * 512 > to * 160)
            continue;
        while (i + run < N_CHUNKS && (i + run + 1) * 512 <= to * 160 && p[i + run] < 0.35f)
            run++;
        int inner = i * 512 - 512 >= from * 160 && p[i - 1] < 0.35f;
        if (run > 0 && !inner && run >= length) {
            best = i;
            length = run;
        }
        if (least < 0 || p[i] <= p[least])
            least = i;
    }
    *pause = length * 512 / 160;
    return length ? (2 * best + length) * 256 / 160 : least < 0 ? to : (2 * least + 1) * 256 / 160;
}

static void test_cut(const mx_speech *speech) {
    for (int i = 0; i < 2000; i++) {
        int64_t from = draw(12000), to = from + draw(1500), pause, want_pause;
        int64_t want = plain_cut(from, to, &want_pause), cut = mx_speech_cut(speech, from, to, &pause);
        if (!CHECK(cut == want && pause == want_pause && cut >= from && cut <= to))
            printf("    %lld to %lld: %lld, pause %lld; want %lld, %lld\n", (long long)from, (long long)to,
                   (long long)cut, (long long)pause, (long long)want, (long long)want_pause);
    }
}

static void test_next(const mx_speech *speech) {
    for (int i = 0; i < 2000; i++) {
        int64_t from = draw(12800), to = from + draw(1500), want = to, last = from, amount = 0;
        for (int64_t c = N_CHUNKS; c-- > 0;) {
            int64_t low = MX_MAX(c * 512, from * 160), high = MX_MIN((c + 1) * 512, to * 160);
            if (p[c] < 0.5f)
                continue;
            if ((c + 1) * 512 > from * 160 && c * 512 / 160 < to)
                want = MX_MIN(MX_MAX(from, c * 512 / 160 - 40), to);
            if (high > low) {
                amount += high - low;
                last = MX_MAX(last, MX_MAX(MX_MIN((c + 1) * 512 / 160, to), from));
            }
        }
        CHECK_EQ_INT(mx_speech_next(speech, from, to), want);
        CHECK_EQ_INT(mx_speech_last(speech, from, to), last);
        CHECK_EQ_INT(mx_speech_amount(speech, from, to), amount / 160);
    }
}

static void test_probability(const mx_speech *speech) {
    double mean, max;
    for (int i = 0; i < 2000; i++) {
        double from = draw(128000) / 1000.0, to = from + draw(3000) / 1000.0, sum = 0, weight = 0, most = 0;
        for (int64_t c = 0; c < N_CHUNKS; c++) {
            double overlap = fmin(to, (double)(c + 1) * 0.032) - fmax(from, (double)c * 0.032);
            if (overlap > 0) {
                sum += overlap * (double)p[c];
                weight += overlap;
                most = fmax(most, (double)p[c]);
            }
        }
        mx_speech_probability(speech, from, to, &mean, &max);
        CHECK(to == from || (fabs(mean - (weight > 0 ? sum / weight : 0)) < 1e-9 && max == most));
    }
    mx_speech_probability(speech, 1.0, 1.0, &mean, &max);   /* a moment: 1 s is in chunk 31 */
    CHECK(fabs(mean - (double)p[31]) < 1e-6 && max == (double)p[31]);
    mx_speech_probability(speech, 1e6, 1e6 + 1, &mean, &max);
    CHECK(mean == 0 && max == 0);
    mx_speech_probability(speech, -5, 0.032, &mean, &max);
    CHECK(fabs(mean - (double)p[0]) < 1e-6);
}

/* ---- clips ------------------------------------------------------------------------------------------------------- */

#define MAX_CLIPS 512

/* By the definition: regions, cut by what is wanted, joined from the left while they fit into one window. */
static int plain_clips(const mx_speech *speech, const mx_clip *wanted, int n_wanted, mx_clip *out) {
    int n = 0;
    for (int w = 0; w < n_wanted; w++) {
        int first = n;
        for (size_t i = 0; i < mx_speech_n_regions(speech); i++) {
            mx_span samples = mx_speech_region_samples(speech, i);
            mx_clip clip = {.start = MX_MAX(samples.start / 160, wanted[w].start),
                            .end = MX_MIN(samples.end / 160, wanted[w].end)};
            if (clip.start >= clip.end)
                continue;
            if (n > first && clip.start - out[n - 1].end <= 300 && clip.end - out[n - 1].start <= MX_MEL_WINDOW)
                out[n - 1].end = clip.end;
            else
                out[n++] = clip;
        }
    }
    return n;
}

static int take_clips(mx_clip_plan *plan, const mx_speech *speech, mx_clip *out, int n, int *growing) {
    mx_clip clip;
    mx_clip_state was;
    while ((was = mx_clip_next(plan, speech, &clip)) == MX_CLIP_KNOWN || was == MX_CLIP_GROWING) {
        if (*growing)   /* the same clip again, further along */
            CHECK(clip.start == out[n - 1].start && clip.end >= out[n - 1].end);
        else
            n++;
        out[n - 1] = clip;
        *growing = was == MX_CLIP_GROWING;
        if (*growing) {
            CHECK(clip.end - clip.start > MX_MEL_WINDOW);
            break;
        }
    }
    return n;
}

static void check_clips(const mxw_vad_options *options, const mx_clip *wanted, int n_wanted, size_t n_samples) {
    static mx_clip want[MAX_CLIPS], got[MAX_CLIPS];
    mx_speech *whole = listen(options, n_samples), *live = open_speech(options);
    mx_clip_plan plan = {.wanted = wanted, .n_wanted = n_wanted};
    int n_want = plain_clips(whole, wanted, n_wanted, want), n = 0, growing = 0;
    static const float zeros[40000];
    for (size_t at = 0, count; at < n_samples; at += count) {   /* in random parts, asked after each */
        size_t part = 1 + draw(40000);
        count = MX_MIN(part, n_samples - at);
        CHECK_EQ_INT(mx_speech_feed(live, zeros, count), MXW_OK);
        n = take_clips(&plan, live, got, n, &growing);
        for (int i = 0; i < n; i++)
            if (!CHECK(i < n_want && got[i].start == want[i].start &&
                       (growing && i == n - 1 ? got[i].end <= want[i].end : got[i].end == want[i].end)))
                printf("    clip %d of %d: %lld to %lld, want %lld to %lld\n", i, n_want, (long long)got[i].start,
                       (long long)got[i].end, (long long)want[i].start, (long long)want[i].end);
    }
    CHECK_EQ_INT(mx_speech_finish(live), MXW_OK);
    n = take_clips(&plan, live, got, n, &growing);
    CHECK_EQ_INT(n, n_want);
    for (int i = 0; i < n && i < n_want; i++)
        CHECK(got[i].start == want[i].start && got[i].end == want[i].end);
    CHECK_EQ_INT(mx_clip_next(&plan, live, got), MX_CLIP_NONE);
    mx_speech_close(whole);
    mx_speech_close(live);
}

static void test_clips(void) {
    mxw_vad_options options = default_options();
    for (int i = 0; i < 60; i++) {
        mx_clip wanted[4] = {{.end = INT64_MAX}};
        int n_wanted = 1;
        fill(i % 3 == 0 ? 3000 : 300, i % 4 == 0 ? 30 : 200);
        options.min_silence_ms = i % 5 == 4 ? 500 : 2000;
        options.pad_ms = i % 7 == 6 ? 0 : 400;
        if (i % 2) {   /* in any order; some empty */
            n_wanted = 1 + (int)draw(4);
            for (int k = 0; k < n_wanted; k++) {
                wanted[k].start = draw(9000);
                wanted[k].end = draw(5) ? wanted[k].start + (int64_t)draw(6000) - 200 : INT64_MAX;
            }
        }
        check_clips(&options, wanted, n_wanted, (size_t)N_CHUNKS * 512 - draw(20000));
    }
}

/* Text can come long before a region ends: 40 s into speech that goes on. */
static void test_early(void) {
    mxw_vad_options options = default_options();
    mx_clip wanted = {.end = INT64_MAX}, clip;
    static const float zeros[MXW_SAMPLE_RATE];
    mx_clip_plan plan = {.wanted = &wanted, .n_wanted = 1};
    for (size_t i = 0; i < N_CHUNKS; i++)
        p[i] = i < 50 ? 0 : 1;
    mx_speech *speech = open_speech(&options);
    int at = 0;
    for (; at < 60 && mx_clip_next(&plan, speech, &clip) != MX_CLIP_GROWING; at++)
        CHECK_EQ_INT(mx_speech_feed(speech, zeros, MXW_SAMPLE_RATE), MXW_OK);
    CHECK_EQ_INT(at, 32);
    CHECK_EQ_INT(clip.start, 50 * 512 / 160 - 40);
    mx_speech_close(speech);
}

static void test_failures(void) {
    mxw_vad_options options = default_options();
    fake_detector_options fake = {.fail_after = 1000};
    mx_detector detector;
    mx_speech *speech = NULL;
    static const float zeros[2000];
    CHECK_EQ_INT(fake_detector_open(&fake, &options, &detector), MXW_OK);
    mx_mem_fail_after(0);
    CHECK_EQ_INT(mx_speech_open(&detector, &options, &speech), MXW_E_MEMORY);   /* which closes the detector */
    mx_mem_fail_after(-1);
    CHECK_EQ_INT(fake_detector_open(&fake, &options, &detector), MXW_OK);
    CHECK_EQ_INT(mx_speech_open(&detector, &options, &speech), MXW_OK);
    CHECK_EQ_INT(mx_speech_feed(speech, zeros, 2000), MXW_E_INTERNAL);
    CHECK_STR(mxw_last_error(), "detector: failed at sample 1000");
    mx_speech_close(speech);
    mx_speech_close(NULL);
}

int main(void) {
    mxw_vad_options options = default_options();
    for (int i = 0; i < 4; i++) {
        fill(20, i % 2 ? 20 : 3);
        mx_speech *speech = listen(&options, (size_t)N_CHUNKS * 512);
        size_t n;
        const float *kept = mx_speech_probabilities(speech, &n);
        CHECK(n == N_CHUNKS && memcmp(kept, p, sizeof(p)) == 0);
        test_cut(speech);
        test_next(speech);
        test_probability(speech);
        mx_speech_close(speech);
    }
    test_clips();
    test_early();
    test_failures();
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
