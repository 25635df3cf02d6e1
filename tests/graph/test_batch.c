/* test_batch.c - the same bits over 100 runs, for any number of threads, alone or in a batch. */
#include "small_model.h"

/* ---- the encoder: runs, threads, windows ------------------------------------------------------------------------- */

static mx_tensor encode(mx_pool *pool, const mx_tensor *x, int times, int *differ) {
    model m = open_model(build_encoder(), pool, 0);
    mx_tensor first[2] = {{0}};
    for (int i = 0; i < times; i++) {
        CHECK(mx_run_input(m.run, "x", x) == MXW_OK);
        CHECK(mx_run_execute(m.run) == MXW_OK);
        mx_tensor t[2];
        mx_run_output(m.run, "features", &t[0]);
        mx_run_output(m.run, "stem", &t[1]);
        for (int j = 0; j < 2; j++) {
            if (i == 0)
                first[j] = copy_of(&t[j]);
            else
                *differ += !same_bits(&first[j], &t[j]);
        }
    }
    close_model(&m);
    return first[0];
}

static void test_encoder_bits(void) {
    static const int threads[] = {1, 2, 3, 8};
    int differ = 0;
    begin();
    mx_tensor x = FLOATS(1, 3, T, D);
    mx_tensor alone = encode(NULL, &x, 100, &differ);
    CHECK_EQ_INT(differ, 0);
    for (size_t i = 0; i < MX_COUNT(threads); i++) {
        mx_pool *pool;
        CHECK(mx_pool_open(threads[i], &pool) == MXW_OK);
        mx_tensor y = encode(pool, &x, 4, &differ);
        CHECK(same_bits(&y, &alone));
        for (int64_t w = 0; w < 3; w++) {   /* each window alone gives the bits it has in the batch */
            mx_tensor one = mx_tensor_of(MXW_F32, 3, DIMS(1, T, D), (float *)x.data + w * T * D);
            mx_tensor z = encode(pool, &one, 1, &differ);
            CHECK(memcmp(z.data, (float *)alone.data + w * T * D, T * D * sizeof(float)) == 0);
        }
        mx_pool_close(pool);
    }
    CHECK_EQ_INT(differ, 0);
}

/* ---- the decoder: rows in one batch or one by one ---------------------------------------------------------------- */

/* Step by step, `together` rows in a call; logits of all rows, [ROWS][VOCAB], in order. */
static float *decode(mx_pool *pool, rows *r, const mx_tensor *features, int64_t together, int32_t *ids) {
    model m = open_model(build_decoder(), pool, ROWS + 3);
    float *all = block(ROWS * VOCAB * sizeof(float));
    for (int64_t first = 0; first < ROWS; first += together) {
        int64_t n = MX_MIN(together, ROWS - first);
        bind_rows(&m, r, features, first, n);
        if (!CHECK(mx_run_execute(m.run) == MXW_OK)) {
            printf("    %s\n", mx_error());
            break;
        }
        mx_tensor logits = output_of(&m, "logits"), best = output_of(&m, "ids");
        memcpy(all + first * VOCAB, logits.data, (size_t)(n * VOCAB) * sizeof(float));
        memcpy(ids + first * 4, best.data, (size_t)(n * 4) * sizeof(int32_t));
    }
    close_model(&m);
    return all;
}

static void test_decoder_bits(void) {
    static const int64_t together[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 34, ROWS};
    static const int threads[] = {1, 2, 3, 8};
    static int32_t ids[ROWS * 4], want_ids[ROWS * 4];
    static rows r;
    begin();
    fill_rows(&r);
    mx_tensor features = FLOATS(1, 2, T, D);
    float *want = decode(NULL, &r, &features, SEQ, want_ids);
    CHECK(want_ids[0] >= 0);
    for (size_t t = 0; t < MX_COUNT(threads); t++) {
        mx_pool *pool;
        CHECK(mx_pool_open(threads[t], &pool) == MXW_OK);
        for (size_t i = 0; i < MX_COUNT(together); i++) {
            int kept = n_blocks;
            float *got = decode(pool, &r, &features, together[i], ids);
            CHECK(memcmp(got, want, ROWS * VOCAB * sizeof(float)) == 0);
            CHECK(memcmp(ids, want_ids, sizeof(ids)) == 0);
            while (n_blocks > kept)
                free(blocks[--n_blocks]);
        }
        mx_pool_close(pool);
    }
}

/* A row's bits depend neither on its place in the tile nor on its neighbours: at the shapes of real models. */
static void test_row_place(void) {
    static const int64_t shapes[][2] = {{384, 384}, {1536, 384}, {384, 1536}, {1000, 384}, {512, 512},
                                        {2048, 512}, {512, 2048}, {768, 768}, {1280, 1280}, {640, 5120}, {7, 5},
                                        {33, 17}};
    for (size_t s = 0; s < MX_COUNT(shapes); s++) {
        int64_t n = shapes[s][0], k = shapes[s][1];
        int differ = 0;
        float *first = NULL;
        for (int place = 0; place < 10; place++) {
            mx_tensor keep[2];
            if (!place)
                begin();
            keep[0] = FLOATS(1, 1, k);
            static float row[5120], w[2048 * 2048 + 640 * 5120];
            if (!place) {
                memcpy(row, keep[0].data, (size_t)k * sizeof(float));
                for (int64_t i = 0; i < n * k; i++)
                    w[i] = (float)uniform(-1, 1);
            }
            mx_graph_destroy(G);
            G = NULL;
            n_bound = 0;
            CHECK(mx_graph_create("place", &G) == MXW_OK);
            mx_tensor x = FLOATS(1, place + 1 + (place % 3) * 4, k);
            memcpy((float *)x.data + place * k, row, (size_t)k * sizeof(float));
            keep[1] = mx_tensor_of(MXW_F32, 2, DIMS(n, k), w);
            mx_tensor y = result(mx_graph_linear(G, in(x), in(keep[1]), 0));
            if (!first)
                first = y.data;
            else
                differ += memcmp(first, (float *)y.data + place * n, (size_t)n * sizeof(float)) != 0;
        }
        if (!CHECK(differ == 0))
            printf("    weight [%lld, %lld]\n", (long long)n, (long long)k);
    }
}

/* Rows whose scores are other bits alone, each with the next, than all together. */
static int scores_differ(const mx_tensor *q, const mx_tensor *k, int32_t *window, int64_t n, int heads) {
    static int32_t last_head;
    int64_t d = q->dims[1], t = k->dims[1];
    int differ = 0;
    float *all = NULL;
    last_head = heads - 1;
    for (int64_t first = 0; first <= n; first++) {
        int64_t rows_ = first == 0 ? n : MX_MIN(2, n - first + 1), at = first == 0 ? 0 : first - 1;
        mx_tensor part = mx_tensor_of(MXW_F32, 2, DIMS(rows_, d), (float *)q->data + at * d);
        mx_tensor index = mx_tensor_of(MXW_I32, 1, DIMS(rows_), window + at);
        mx_tensor head = mx_tensor_of(MXW_I32, 1, DIMS(1), &last_head);
        mx_graph_destroy(G);
        G = NULL;
        n_bound = 0;
        CHECK(mx_graph_create("scores", &G) == MXW_OK);
        mx_value a = in(part), b = in(*k), c = in(head);
        mx_tensor y = result(mx_graph_attention_scores(G, a, b, c, in(index), heads, 0.125));
        if (!all)
            all = y.data;
        else
            differ += memcmp(all + at * t, y.data, (size_t)(rows_ * t) * sizeof(float)) != 0;
    }
    return differ;
}

/* The same for attention over a window and for its scores, at the shapes of real models: rows alone, together, among
 * other windows'. */
static void test_window_place(void) {
    static const int64_t shapes[][3] = {{1500, 64, 2}, {1500, 128, 1}, {150, 80, 3}, {7, 5, 2}};
    for (size_t s = 0; s < MX_COUNT(shapes); s++) {
        enum { ROWS_HERE = 21, WINDOWS = 3 };
        int64_t t = shapes[s][0], d = shapes[s][1] * shapes[s][2], n = ROWS_HERE;
        int differ = 0;
        static int32_t window[ROWS_HERE];
        begin();
        mx_tensor q = FLOATS(1, n, d), k = FLOATS(1, WINDOWS, t, d), v = FLOATS(1, WINDOWS, t, d);
        for (int i = 0; i < n; i++)
            window[i] = (int32_t)below(WINDOWS);
        float *all = NULL;
        for (int64_t first = 0; first <= n; first++) {   /* all of them, then each alone with the next */
            int64_t rows_ = first == 0 ? n : MX_MIN(2, n - first + 1), at = first == 0 ? 0 : first - 1;
            mx_tensor part = mx_tensor_of(MXW_F32, 2, DIMS(rows_, d), (float *)q.data + at * d);
            mx_tensor index = mx_tensor_of(MXW_I32, 1, DIMS(rows_), window + at);
            mx_graph_destroy(G);
            G = NULL;
            n_bound = 0;
            CHECK(mx_graph_create("place", &G) == MXW_OK);
            mx_value a = in(part), b = in(k), c = in(v);
            mx_tensor y = result(mx_graph_attention_window(G, a, b, c, in(index), (int)shapes[s][2], 0.125));
            if (!all)
                all = y.data;
            else
                differ += memcmp(all + at * d, y.data, (size_t)(rows_ * d) * sizeof(float)) != 0;
        }
        differ += scores_differ(&q, &k, window, n, (int)shapes[s][2]);
        if (!CHECK(differ == 0))
            printf("    %lld keys of %lld\n", (long long)t, (long long)shapes[s][1]);
    }
}

int main(int argc, char **argv) {
    harness_open("graph-batch", argc, argv);
    test_encoder_bits();
    test_decoder_bits();
    test_row_place();
    test_window_place();
    end();
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
