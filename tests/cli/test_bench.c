/* test_bench.c - the arithmetic of `bench`: statistics, what a stage must compute and read, what it is counted in. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kit/check.h"
#include "bench/bench.h"

static int close_to(double got, double want) {
    int ok = fabs(got - want) <= 1e-9 * fabs(want) + 1e-12;
    if (!ok)
        printf("    got %.12g, want %.12g\n", got, want);
    return ok;
}

static void test_statistics(void) {
    double odd[] = {9, 1, 5}, even[] = {4, 1, 3, 2}, one[] = {7};
    bench_statistics s = bench_describe(odd, 3);
    CHECK(close_to(s.median, 5) && close_to(s.least, 1) && close_to(s.mean, 5) && close_to(s.deviation, 4));
    s = bench_describe(even, 4);
    CHECK(close_to(s.median, 2.5) && close_to(s.least, 1) && close_to(s.mean, 2.5));
    CHECK(close_to(s.deviation, sqrt(5.0 / 3)));
    s = bench_describe(one, 1);
    CHECK(close_to(s.median, 7) && close_to(s.deviation, 0));
    s = bench_describe(one, 0);
    CHECK(close_to(s.median, 0));
}

/* tiny.en; the figures are those of docs/model.md's shapes, multiplied out by hand. */
static bench_record *tiny(void) {
    static bench_record record;
    memset(&record, 0, sizeof(record));
    record.dims = (mxw_dims){80, 1500, 384, 6, 4, 51864, 448, 384, 6, 4};
    record.model.device = "cpu";
    record.n_runs = 2;
    for (int i = 0; i < 2; i++) {
        record.runs[i].counters.encode = (mxw_stage_counters){.runs = 3, .items = 3, .ms = 600};
        record.runs[i].counters.step =
            (mxw_stage_counters){.runs = 10, .items = 50, .cells = 1000, .ms = 40, .weight_bytes = 30000000};
        record.runs[i].ms[BENCH_ENCODE] = 600;
        record.runs[i].ms[BENCH_STEP] = 40;
    }
    return &record;
}

static void test_work(void) {
    bench_record *record = tiny();
    double conv = 2.0 * 3000 * 384 * 240 + 2.0 * 1500 * 384 * 1152;
    double layer = 2.0 * 12 * 1500 * 384 * 384 + 4.0 * 1500 * 1500 * 384;
    CHECK(close_to(bench_work_of(record, BENCH_ENCODE).flops, conv + 4 * layer));
    CHECK(close_to(bench_work_of(record, BENCH_CROSS).flops, 4 * 2.0 * 2 * 1500 * 384 * 384));
    double row = 2.0 * (14 * 384 * 384 + 2 * 1500 * 384), logits = 2.0 * 384 * 51864;
    double self = 4.0 * 100 * 384; /* a hundred cells a step */
    CHECK(close_to(bench_work_of(record, BENCH_STEP).flops, 4 * (5 * row + self) + 5 * logits));
    CHECK(close_to(bench_work_of(record, BENCH_STEP).bytes, 30000000 + 4.0 * 2 * 4 * 384 * (1500 + 100)));
    CHECK(bench_work_of(record, BENCH_MEL).flops == 0 && bench_work_of(record, BENCH_TOTAL).bytes == 0);
}

static void test_units(void) {
    const bench_run *run = &tiny()->runs[0];
    CHECK_EQ_INT(bench_units(run, BENCH_ENCODE), 3);
    CHECK_EQ_INT(bench_units(run, BENCH_STEP), 10);
    CHECK_EQ_INT(bench_units(run, BENCH_CROSS), 0);
    CHECK_EQ_INT(bench_units(run, BENCH_TOTAL), 0);
}

static void test_json(void) {
    char text[8192];
    FILE *file = fmemopen(text, sizeof(text), "w");
    bench_record *record = tiny();
    record->path = "folder/clip.wav";
    if (!CHECK(file != NULL))
        return;
    bench_write(record, file);
    fclose(file);
    CHECK(strstr(text, "\"file\": \"clip.wav\"") != NULL);
    CHECK(strstr(text, "\"unit_ms\": 200.00000, \"unit_gflop\": 36.937728, \"gflops\": 184.689") != NULL);
    CHECK(strstr(text, "\"step\": {\"median_ms\": 40.0000") != NULL);
    CHECK(strchr(text, '\n') == text + strlen(text) - 1);
}

/* The same numbers are no regression; twice the time is one; few and noisy numbers leave it open. */
static void test_compare(void) {
    double then[] = {100, 101, 99, 102, 98, 100, 100}, twice[7], noisy[] = {90, 160, 100}, few[] = {100, 90, 170};
    for (int i = 0; i < 7; i++)
        twice[i] = 2 * then[i];
    bench_ratio r = bench_compare(then, 7, then, 7);
    CHECK(close_to(r.middle, 1) && r.low > 0.97 && r.low <= 1 && r.high >= 1 && r.high < 1.03);
    r = bench_compare(twice, 7, then, 7);
    CHECK(close_to(r.middle, 2) && r.low > 1.9 && r.high < 2.1);
    r = bench_compare(noisy, 3, few, 3);
    CHECK(r.low < 0.95 && r.high > 1.05);
    r = bench_compare(then, 7, then, 0);
    CHECK(close_to(r.middle, 0) && close_to(r.low, 0));
}

int main(void) {
    test_statistics();
    test_work();
    test_compare();
    test_units();
    test_json();
    return check_done();
}
