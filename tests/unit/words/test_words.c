/* tests/unit/words/test_words.c - words against openai-whisper's own splitting, cutting and joining
 * (tests/golden/data/words.jsonl); the matrix and the path against plain computations of them. */
#include <jansson.h>
#include <math.h>

#include "kit/check.h"
#include "base/mem.h"
#include "words/words.h"

static uint32_t state = 5;
static uint32_t word(void) { return state = state * 1664525u + 1013904223u; }
static double uniform(void) { return (double)(word() >> 8) / (1 << 24); }

/* ---- words ------------------------------------------------------------------------------------------------------- */

static mx_text *vocabulary(int n) {
    static mx_text *known[2];
    static int sizes[2];
    int i = 0;
    while (i < 2 && known[i] && sizes[i] != n)
        i++;
    if (!n) {
        mx_text_close(known[0]);
        mx_text_close(known[1]);
        return NULL;
    }
    if (!known[i]) {
        CHECK_EQ_INT(mx_text_open(n, &known[i]), MXW_OK);
        sizes[i] = n;
    }
    return known[i];
}

static int same_word(const json_t *want, const mx_words *got, size_t i) {
    const mx_word *w = &got->items[i];
    const char *text = json_string_value(json_array_get(want, 0));
    size_t n = json_string_length(json_array_get(want, 0));   /* a token may be a zero byte */
    return n == w->end - w->begin && !memcmp(text, mx_str_get(&got->text) + w->begin, n) &&
           json_integer_value(json_array_get(want, 1)) == (json_int_t)w->n_tokens &&
           json_number_value(json_array_get(want, 2)) == w->start_s &&
           json_number_value(json_array_get(want, 3)) == w->end_s &&
           fabs(json_number_value(json_array_get(want, 4)) - w->probability) < 1e-8;
}

static void check_row(const json_t *row, int line) {
    const json_t *list = json_object_get(row, "tokens"), *want = json_object_get(row, "words");
    size_t n = json_array_size(list), bad = 0;
    int32_t *tokens = calloc(n + 1, sizeof(*tokens)), *frames = calloc(n + 1, sizeof(*frames));
    double *probabilities = calloc(n + 1, sizeof(*probabilities));
    mx_words got = {0};
    mx_word_options options = {json_string_value(json_object_get(row, "prepend")),
                               json_string_value(json_object_get(row, "append"))};
    for (size_t i = 0; i <= n; i++) {
        frames[i] = (int32_t)json_integer_value(json_array_get(json_object_get(row, "frames"), i));
        tokens[i] = (int32_t)json_integer_value(json_array_get(list, i));
        probabilities[i] = json_number_value(json_array_get(json_object_get(row, "probabilities"), i));
    }
    const mx_text *text = vocabulary((int)json_integer_value(json_object_get(row, "vocabulary")));
    CHECK_EQ_INT(mx_words_align(text, json_string_value(json_object_get(row, "language")), &options, tokens, n, frames,
                                probabilities, &got), MXW_OK);
    if (CHECK_EQ_INT(got.n, json_array_size(want)))
        for (size_t i = 0; i < got.n; i++)
            bad += !same_word(json_array_get(want, i), &got, i);
    if (!CHECK_EQ_INT(bad, 0))
        printf("    line %d\n", line);
    mx_words_free(&got);
    free(tokens);
    free(frames);
    free(probabilities);
}

static void test_golden(void) {
    char path[4096];
    const char *root = getenv("MXW_SOURCE_ROOT");
    snprintf(path, sizeof(path), "%s/tests/golden/data/words.jsonl", root ? root : ".");
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    int n = 0;
    if (!CHECK(file != NULL))
        return;
    while (getline(&line, &room, file) > 0) {
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
        if (CHECK(row != NULL))
            check_row(row, ++n);
        json_decref(row);
    }
    CHECK(n > 150);
    free(line);
    fclose(file);
    vocabulary(0);
}

/* ---- the matrix -------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One head of a matrix, plainly: z [rows][n]. */
static void plain_head(const mx_align_scores *in, size_t head, double *z) {
    size_t n = in->n_frames;
    for (size_t r = 0; r < in->n_rows; r++) {
        const float *x = in->scores + (r * in->n_heads + head) * in->n_keys;
        double sum = 0;
        for (size_t j = 0; j < n; j++)
            sum += exp((double)x[j]);
        for (size_t j = 0; j < n; j++)
            z[r * n + j] = exp((double)x[j]) / sum;
    }
    for (size_t j = 0; j < n; j++) {
        double mean = 0, square = 0;
        for (size_t r = 0; r < in->n_rows; r++)
            mean += z[r * n + j] / (double)in->n_rows;
        for (size_t r = 0; r < in->n_rows; r++)
            square += (z[r * n + j] - mean) * (z[r * n + j] - mean) / (double)in->n_rows;
        for (size_t r = 0; r < in->n_rows; r++)
            z[r * n + j] = (z[r * n + j] - mean) / sqrt(square);
    }
}

static double plain_median(const double *row, size_t n, size_t j) {
    double seven[7];
    if (n <= 3)
        return row[j];
    for (int i = -3; i <= 3; i++) {
        int64_t at = (int64_t)j + i;
        at = at < 0 ? -at : at >= (int64_t)n ? 2 * (int64_t)n - 2 - at : at;
        seven[i + 3] = row[at];
    }
    qsort(seven, 7, sizeof(*seven), by_size);
    return seven[3];
}

static void one_matrix(size_t rows, size_t heads, size_t keys, size_t frames, size_t before) {
    size_t kept = rows - before - 1;
    float *scores = calloc(rows * heads * keys, sizeof(*scores));
    float *matrix = calloc(kept * frames, sizeof(*matrix)), *again = calloc(kept * frames, sizeof(*again));
    double *z = calloc(rows * frames, sizeof(*z)), *want = calloc(kept * frames, sizeof(*want));
    mx_align_scores in = {scores, rows, heads, keys, before, frames};
    mx_pool *pool = NULL;
    double worst = 0;
    for (size_t i = 0; i < rows * heads * keys; i++)
        scores[i] = (float)(uniform() * 6 - 3);
    for (size_t h = 0; h < heads; h++) {
        plain_head(&in, h, z);
        for (size_t r = 0; r < kept; r++)
            for (size_t j = 0; j < frames; j++)
                want[r * frames + j] += plain_median(z + (before + r) * frames, frames, j) / (double)heads;
    }
    CHECK_EQ_INT(mx_words_matrix(&in, NULL, matrix), MXW_OK);
    for (size_t i = 0; i < kept * frames; i++)
        worst = fmax(worst, fabs((double)matrix[i] - want[i]));
    if (!CHECK(worst < 2e-5))
        printf("    %zu rows, %zu heads, %zu frames: off by %g\n", rows, heads, frames, worst);
    CHECK_EQ_INT(mx_pool_open(3, &pool), MXW_OK);
    CHECK_EQ_INT(mx_words_matrix(&in, pool, again), MXW_OK);
    CHECK(memcmp(matrix, again, kept * frames * sizeof(*matrix)) == 0);
    mx_pool_close(pool);
    free(scores);
    free(matrix);
    free(again);
    free(z);
    free(want);
}

/* ---- the path ---------------------------------------------------------------------------------------------------- */

/* The textbook algorithm with full tables; ties as documented in words/dtw.c. */
static void plain_path(const float *m, size_t n, size_t frames, int32_t *starts) {
    double cost[8][16];
    int from[8][16];
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= frames; j++) {
            cost[i][j] = i == 0 && j == 0 ? 0 : INFINITY;
            from[i][j] = i == 0 ? 2 : 1;
        }
    for (size_t j = 1; j <= frames; j++)
        for (size_t i = 1; i <= n; i++) {
            double both = cost[i - 1][j - 1], row = cost[i - 1][j], frame = cost[i][j - 1];
            from[i][j] = both < row && both < frame ? 0 : row < both && row < frame ? 1 : 2;
            double before = from[i][j] == 0 ? both : from[i][j] == 1 ? row : frame;   /* a tie goes on, dear as it is */
            cost[i][j] = before - (double)m[(i - 1) * frames + j - 1];
        }
    for (size_t i = n, j = frames; i > 0;) {
        starts[i - 1] = (int32_t)j - 1;
        int step = from[i][j];
        i -= step != 2;
        j -= step != 1;
    }
}

static void test_path(void) {
    for (int round = 0; round < 2000; round++) {
        size_t n = 1 + word() % 7, frames = 1 + word() % 15;
        float m[7 * 15];
        int32_t got[7], want[7];
        for (size_t i = 0; i < n * frames; i++)
            m[i] = round % 2 ? (float)(uniform() * 2 - 1) : (float)(int)(word() % 3) - 1;   /* with and without ties */
        CHECK_EQ_INT(mx_words_dtw(m, n, frames, got), MXW_OK);
        plain_path(m, n, frames, want);
        CHECK(memcmp(got, want, n * sizeof(*got)) == 0);
        CHECK_EQ_INT(got[0], 0);
    }
}

int main(void) {
    test_golden();
    one_matrix(5, 1, 20, 20, 1);
    one_matrix(40, 8, 150, 101, 3);
    one_matrix(9, 37, 12, 4, 1);
    one_matrix(6, 2, 12, 3, 1);
    test_path();
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
