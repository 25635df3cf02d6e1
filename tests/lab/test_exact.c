/* tests/lab/test_exact.c - every op of a window against float64 on a generated model: all outputs are within their
 * bounds, the bounds are not empty, and an op with a wrong result is reported. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kit/check.h"
#include "kit/gen_checkpoint.h"
#include "kit/pipeline_kit.h"
#include "lab/exact.h"
#include "lab/lab.h"

static void test_run(const char *path, int all) {
    static const char *const ops[] = {"conv1d", "gelu", "add", "layer_norm", "linear", "attention", "attention_window",
                                      "attention_cached", "gather", "state_write", "select"};
    size_t n = 4 * MXW_SAMPLE_RATE, seen = 0;
    float *samples = malloc(n * sizeof(*samples));
    mxw_model *model = NULL;
    mxw_op_checks *checks = NULL;
    mxw_op_check c = {.struct_size = sizeof(c)};
    if (!CHECK(samples != NULL))
        return;
    kit_samples(2, 0, n, samples);
    CHECK_EQ_INT(kit_open(path, 2, &model), MXW_OK);
    if (!CHECK_EQ_INT(mxw_op_checks_open(model, samples, n, all, &checks), MXW_OK))
        printf("    %s\n", mxw_last_error());
    for (size_t i = 0; i < mxw_op_checks_count(checks) && mxw_op_checks_get(checks, i, &c) == MXW_OK; i++) {
        printf("%-18s %5lld calls, %9lld of %9lld outputs, max abs %9.3g, ulp %9.3g, %8.4f of bound at %s\n", c.op,
               (long long)c.calls, (long long)c.checked, (long long)c.outputs, c.max_abs, c.max_ulp, c.of_bound,
               c.worst);
        CHECK(c.of_bound <= 1);
        CHECK(c.checked > 0 && c.checked <= c.outputs);
        if (all)
            CHECK_EQ_INT(c.checked, c.outputs);
        else
            CHECK(c.checked >= MX_MIN(c.outputs, 4096));
        for (size_t j = 0; j < MX_COUNT(ops); j++)
            seen += strcmp(ops[j], c.op) == 0;
    }
    CHECK_EQ_INT(seen, MX_COUNT(ops));
    mxw_op_checks_close(checks);
    mxw_model_close(model);
    free(samples);
}

/* An error of a few bounds is detected: the bound is meaningful. */
static void test_bound(void) {
    float x[384], w[384], y;
    int64_t in[] = {1, 384}, out[] = {1, 1};
    double sum = 0;
    mx_attrs attrs = {0};
    for (int i = 0; i < 384; i++) {
        x[i] = (float)sin(i * 1.7), w[i] = (float)cos(i * 0.9) / 20;
        sum += (double)x[i] * w[i];
    }
    y = (float)sum;
    mx_tensor inputs[2] = {mx_tensor_of(MXW_F32, 2, in, x), mx_tensor_of(MXW_F32, 2, in, w)};
    mx_tensor output = mx_tensor_of(MXW_F32, 2, out, &y);
    mx_call call = {.op = MX_OP_LINEAR, .attrs = &attrs, .n_inputs = 2, .n_outputs = 1, .inputs = inputs,
                    .outputs = &output};
    mx_exact e = mx_exact_find(MX_OP_LINEAR)->at(&call, 0, NULL);
    CHECK(fabs(e.value - sum) < 1e-12 && fabs(y - e.value) <= e.bound);
    CHECK(e.bound > 0 && e.bound < 1e-3);   /* of sums of about 10 */
    CHECK(mx_exact_find(MX_OP_CONCAT) == NULL);
}

int main(void) {
    char folder[4096], path[4200];
    gen_options options = {.dims = kit_dims(51864, 24, 3, 1), .seed = 9};
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    snprintf(path, sizeof(path), "%s/small.pt", folder);
    if (CHECK_EQ_INT(gen_pt(path, &options), 0)) {
        test_run(path, 0);
        test_run(path, 1);
    }
    test_bound();
    gen_remove(folder);
    return check_done();
}
