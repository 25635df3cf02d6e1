/* tests/golden/test_threads.c - the released tiny.en on real speech with 1, 2, 3 and 8 threads, each engine: the same
 * bytes for any number of threads. */
#include "kit/check.h"
#include "kit/pipeline_kit.h"
#include "kit/golden.h"

#define CLIP "package:pocketsphinx-librivox-0870"

static void check_engine(mxw_engine engine, const golden_clip *clip) {
    static const int counts[] = {1, 2, 3, 8};
    mx_str first = {0};
    for (size_t i = 0; i < MX_COUNT(counts); i++) {
        mxw_model *model = NULL;
        mx_str json = {0};
        mxw_model_options options;
        mxw_model_options_default(&options);
        options.model = "tiny.en";
        options.engine = engine;
        options.device = "cpu";
        options.threads = counts[i];
        CHECK_EQ_INT(mxw_model_open(&options, &model), MXW_OK);
        CHECK_EQ_INT(kit_transcribe(model, NULL, clip->samples, clip->n, &json), MXW_OK);
        mxw_model_close(model);
        if (i == 0)
            mx_str_text(&first, mx_str_get(&json));
        CHECK_STR(mx_str_get(&json), mx_str_get(&first));
        mx_str_free(&json);
    }
    CHECK(first.n > 200);
    mx_str_free(&first);
}

int main(void) {
    char path[4096];
    golden_clip clip;
    mxw_model_close(golden_model("golden-threads", "tiny.en"));   /* or skipped */
    if (!CHECK(golden_clip_path(CLIP, path, sizeof(path)) && golden_clip_read(path, &clip) == 0))
        return check_done();
    check_engine(MXW_ENGINE_CPU, &clip);
    check_engine(MXW_ENGINE_MAX, &clip);
    golden_clip_free(&clip);
    return check_done();
}
