/* tests/golden/test_parallel_words.c - no word of the speech is dropped where a recording is cut into pieces: package
 * speech joined to one long recording, transcribed one window after the other and in pieces; near the cuts every word
 * of the first is in the second, and no cut is inside a word. Model tiny.en, weights silero-vad. */
#include <ctype.h>
#include <math.h>

#include "kit/check.h"
#include "kit/golden.h"
#include "pipeline/session.h"

#define MAX_WORDS 2048
#define NEAR_S 3.0     /* of a cut */

static const char *const clips[] = {"package:two_cities", "package:pocketsphinx-librivox-0870",
                                    "package:pocketsphinx-librivox-0880", "package:endgame_nagg_nell",
                                    "package:pocketsphinx-librivox-0890", "package:beckett",
                                    "package:pocketsphinx-librivox-0920", "package:pocketsphinx-librivox-0930"};

typedef struct words {
    char text[MAX_WORDS][32];   /* letters and digits only, lower case */
    double start[MAX_WORDS], end[MAX_WORDS];
    size_t n;
} words;

/* All clips, in another order each time, with short pauses: hardly any is long enough to end a region. */
static float *join_clips(size_t *n) {
    static const double pauses[] = {0.25, 0.5, 0.15, 0.8, 0.35};
    float *all = NULL;
    const size_t n_clips = sizeof(clips) / sizeof(*clips);
    *n = 0;
    for (size_t i = 0; i < 2 * n_clips; i++) {
        char path[4096];
        golden_clip clip;
        const char *name = clips[(i * 3 + i / n_clips) % n_clips];
        size_t pause = (size_t)(pauses[i % 5] * MXW_SAMPLE_RATE);
        if (!golden_clip_path(name, path, sizeof(path))) {
            printf("SKIP: golden-parallel-words: %s is not installed\n", name);
            free(all);
            exit(GOLDEN_SKIP);
        }
        if (golden_clip_read(path, &clip) != 0)
            exit(1);
        float *more = realloc(all, (*n + pause + clip.n) * sizeof(*all));
        if (!more)
            exit(1);
        all = more;
        memset(all + *n, 0, pause * sizeof(*all));
        memcpy(all + *n + pause, clip.samples, clip.n * sizeof(*all));
        *n += pause + clip.n;
        golden_clip_free(&clip);
    }
    return all;
}

static void add_word(words *w, const mxw_word *word) {
    size_t n = 0;
    for (const char *p = word->word; *p; p++)
        if (isalnum((unsigned char)*p) && n + 1 < sizeof(w->text[0]))
            w->text[w->n][n++] = (char)tolower((unsigned char)*p);
    w->text[w->n][n] = 0;
    w->start[w->n] = word->start;
    w->end[w->n] = word->end;
    w->n += n > 0 && w->n + 1 < MAX_WORDS;
}

/* cuts: where pieces begin, but for the first; *n_cuts of them. */
static void transcribe(mxw_model *model, int parallel, const float *samples, size_t n, words *w, double *cuts,
                       size_t *n_cuts) {
    mxw_session_options o;
    mxw_session *session = NULL;
    mxw_status status;
    const mxw_segment *segment;
    mxw_session_options_default(&o);
    o.beam_size = 0;
    o.word_timestamps = 1;
    o.vad = parallel > 0;
    o.parallel = parallel;
    status = mxw_session_open(model, &o, &session);
    if (status == MXW_E_NOT_FOUND) {
        printf("SKIP: golden-parallel-words: %s\n", mxw_last_error());
        exit(GOLDEN_SKIP);
    }
    CHECK_EQ_INT(status, MXW_OK);
    CHECK_EQ_INT(mxw_session_feed(session, samples, n), MXW_OK);
    CHECK_EQ_INT(mxw_session_finish(session), MXW_OK);
    while ((status = mxw_session_next(session, &segment)) == MXW_OK)
        for (size_t i = 0; i < segment->n_words; i++)
            add_word(w, mxw_segment_word(segment, i));
    CHECK_EQ_INT(status, MXW_END);
    int64_t seek = 0, end;
    for (int i = 0; i < session->at.n_clips && parallel; i++) {   /* the cuts as the session makes them */
        const mx_clip *clip = &session->at.clips[i];
        for (seek = clip->start; seek < clip->end; seek = end) {
            int64_t pause;
            end = mx_session_cut_clip(session, mx_speech_next(session->speech, seek, clip->end), clip->end, &pause);
            if (end < clip->end)
                cuts[(*n_cuts)++] = (double)end / 100;
        }
    }
    mxw_session_close(session);
}

/* Whether word i of a is missing in b, in an alignment with the fewest changes; a word that became another is not. */
static void find_missing(const words *a, const words *b, char *missing) {
    uint16_t *d = malloc((a->n + 1) * (b->n + 1) * sizeof(*d));
    size_t width = b->n + 1, i, j;
    if (!d)
        exit(1);
    for (i = 0; i <= a->n; i++)
        for (j = 0; j <= b->n; j++) {
            if (i == 0 || j == 0) {
                d[i * width + j] = (uint16_t)(i + j);
                continue;
            }
            int change = strcmp(a->text[i - 1], b->text[j - 1]) != 0;
            int least = d[(i - 1) * width + j - 1] + change;
            least = d[(i - 1) * width + j] + 1 < least ? d[(i - 1) * width + j] + 1 : least;
            d[i * width + j] = (uint16_t)(d[i * width + j - 1] + 1 < least ? d[i * width + j - 1] + 1 : least);
        }
    memset(missing, 0, a->n);
    for (i = a->n, j = b->n; i > 0;) {
        int change = j > 0 && strcmp(a->text[i - 1], b->text[j - 1]) != 0;
        if (j > 0 && d[i * width + j] == d[(i - 1) * width + j - 1] + change)
            i--, j--;
        else if (j > 0 && d[i * width + j] == d[i * width + j - 1] + 1)
            j--;
        else
            missing[--i] = 1;
    }
    free(d);
}

int main(int argc, char **argv) {
    static words sequential, parallel;
    static char missing[MAX_WORDS];
    double cuts[64];
    size_t n, n_cuts = 0, n_missing = 0;
    golden_take_engine(&argc, argv);
    float *samples = join_clips(&n);
    mxw_model *model = golden_model_batch("golden-parallel-words", "tiny.en", 3);
    transcribe(model, 3, samples, n, &parallel, cuts, &n_cuts);
    transcribe(model, 0, samples, n, &sequential, NULL, NULL);
    find_missing(&sequential, &parallel, missing);
    CHECK(n_cuts >= 5 && sequential.n > 400);
    for (size_t c = 0; c < n_cuts; c++)
        for (size_t i = 0; i < sequential.n; i++) {
            const char *word = sequential.text[i];
            double start = sequential.start[i], end = sequential.end[i];
            if (!CHECK(!(missing[i] && start < cuts[c] + NEAR_S && end > cuts[c] - NEAR_S)))
                printf("    cut at %.2f s: \"%s\" (%.2f to %.2f s) is missing\n", cuts[c], word, start, end);
        }
    for (size_t c = 0; c < n_cuts; c++)   /* words as the pieces have them do not reach over a cut */
        for (size_t i = 0; i < parallel.n; i++)
            if (!CHECK(!(parallel.start[i] < cuts[c] - 0.02 && parallel.end[i] > cuts[c] + 0.02)))
                printf("    cut at %.2f s: in \"%s\" (%.2f to %.2f s)\n", cuts[c], parallel.text[i], parallel.start[i],
                       parallel.end[i]);
    for (size_t i = 0; i < sequential.n; i++)
        n_missing += (size_t)missing[i];
    printf("%.0f s, %zu cuts; %zu words one window after the other, %zu in pieces, %zu missing\n",
           (double)n / MXW_SAMPLE_RATE, n_cuts, sequential.n, parallel.n, n_missing);
    CHECK(n_missing * 50 <= sequential.n);
    mxw_model_close(model);
    free(samples);
    return check_done();
}
