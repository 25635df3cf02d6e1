/* test_memory.c - failing memory: compiling, loading, laying out, running and explaining random graphs with each
 * allocation made to fail in turn. A failure is E_MEMORY and leaves nothing behind; a run that failed works when asked
 * again, with the bits it would have given.
 *
 *   test_memory [graphs [tries]]   how many graphs on each device; of each at most so many allocations, evenly */
#include "base/base.h"

#include "kit/fake_device.h"
#include "kit/check.h"
#include "pattern_device.h"
#include "session.h"

static int64_t n_failed;

typedef struct subject {
    random_graph r;
    random_run data[2];   /* of other sizes, so that layouts are made twice */
    const char *device;
    int keep_names;
    mx_pool *pool;        /* or NULL: weights are packed on several threads, any of which may run out of memory */
} subject;

/* Everything, as far as memory lets it. Of the outputs a sum is kept: `print`. */
static mxw_status live_through(subject *s, uint64_t *print) {
    mx_weight_source source = {random_graph_weight, &s->r};
    mx_program_options options = {.engine = MXW_ENGINE_MAX, .device = s->device, .weights = &source,
                                  .keep_names = s->keep_names, .pool = s->pool};
    session open;
    mx_str text = {0};
    mxw_status status = session_open(&s->r, s->r.graph, &options, &s->data[0], &open);
    int ran = 0;
    *print = 14695981039346656037u;
    for (int i = 0; i < 2 && status >= 0; i++) {
        status = session_run(&open, &s->r, &s->data[i]);
        if (status == MXW_E_MEMORY) {   /* once more: the next allocation works */
            n_failed++;
            status = session_run(&open, &s->r, &s->data[i]);
            CHECK(status == MXW_OK);
        }
        for (size_t o = 0; o < s->r.graph->n_outputs && status >= 0; o++) {
            mx_tensor t;
            status = mx_run_output(open.run, s->r.graph->outputs[o].name, &t);
            for (size_t b = 0; status >= 0 && b < mx_tensor_bytes(&t); b++)
                *print = (*print ^ ((const uint8_t *)t.data)[b]) * 1099511628211u;
        }
    }
    if (status >= 0) {
        ran = 1;
        status = mx_exec_explain(open.program, NULL, &text);
    }
    if (ran && status == MXW_E_ARGUMENT)   /* sizes of 1 need not suit the graph */
        status = MXW_OK;
    mx_str_free(&text);
    session_close(&open);
    return status;
}

static void one_subject(subject *s, int64_t tries) {
    uint64_t want, got;
    int64_t before = mx_mem_live();
    live_through(s, &want);   /* what is opened once for all is open now */
    mx_mem_fail_after(-1);
    if (live_through(s, &want) < 0)
        return;
    int64_t total = mx_mem_count(), step = MX_MAX(total / tries, 1);
    for (int64_t n = 0; n < total && !check_failed; n += step) {
        mx_mem_fail_after(n);
        mxw_status status = live_through(s, &got);
        mx_mem_fail_after(-1);
        n_failed += status == MXW_E_MEMORY;
        CHECK(status == MXW_E_MEMORY || (status == MXW_OK && got == want));
        CHECK_EQ_INT(mx_mem_live(), before);
    }
}

/* A graph whose first runs succeed, large enough to be worth it. */
static int make_subject(subject *s, uint64_t seed) {
    rng dice = {seed};
    uint64_t print;
    random_graph_make(seed, &s->r);
    random_run_make(&s->r, NULL, &dice, 0, &s->data[0]);
    random_run_make(&s->r, &s->data[0], &dice, 0, &s->data[1]);
    s->device = "cpu";
    return s->r.graph->n_nodes > 12 && live_through(s, &print) == MXW_OK;
}

int main(int argc, char **argv) {
    static const char *const devices[] = {"cpu", "fake", "pattern", "pattern-near"};
    mx_pool *pool;
    int graphs = argc > 1 ? atoi(argv[1]) : 12;
    int64_t tries = argc > 2 ? atoll(argv[2]) : 1000000;
    if (mx_pool_open(3, &pool) < 0)
        return 1;
    mx_device_add(fake_device());
    mx_device_add(pattern_device());
    mx_device_add(pattern_near_device());
    for (uint64_t seed = 7, done = 0; done < (uint64_t)graphs && !check_failed; seed++) {
        static subject s;
        int64_t live = mx_mem_live();
        if (make_subject(&s, seed)) {
            done++;
            for (size_t d = 0; d < MX_COUNT(devices) && !check_failed; d++) {
                s.device = devices[d];
                s.keep_names = (int)(seed + d) % 2;
                s.pool = done % 2 ? pool : NULL;
                one_subject(&s, tries);
            }
        }
        if (check_failed)
            printf("    seed %llu on %s: %s\n", (unsigned long long)seed, s.device, mx_error());
        random_graph_free(&s.r);
        random_run_free(&s.data[0]);
        random_run_free(&s.data[1]);
        CHECK(mx_mem_live() <= live || check_failed || done == 1);
    }
    mx_pool_close(pool);
    printf("%lld failures lived through\n", (long long)n_failed);
    CHECK(n_failed > 100);
    return check_done();
}
