/* tests/golden/test_threads.c - the released tiny.en on real speech with 1, 2, 3 and 8 threads: the same bytes. */
#include "../unit/check.h"
#include "../unit/pipeline_kit.h"
#include "golden.h"

#define CLIP "package:pocketsphinx-librivox-0870"

int main(void) {
    static const int counts[] = {1, 2, 3, 8};
    char path[4096];
    golden_clip clip;
    mx_str first = {0};
    mxw_model_close(golden_model("golden-threads", "tiny.en"));   /* or skipped */
    if (!CHECK(golden_clip_path(CLIP, path, sizeof(path)) && golden_clip_read(path, &clip) == 0))
        return check_done();
    for (size_t i = 0; i < MX_COUNT(counts); i++) {
        mxw_model *model = NULL;
        mx_str json = {0};
        CHECK_EQ_INT(kit_open("tiny.en", counts[i], &model), MXW_OK);
        CHECK_EQ_INT(kit_transcribe(model, NULL, clip.samples, clip.n, &json), MXW_OK);
        mxw_model_close(model);
        if (i == 0)
            mx_str_text(&first, mx_str_get(&json));
        CHECK_STR(mx_str_get(&json), mx_str_get(&first));
        mx_str_free(&json);
    }
    CHECK(first.n > 200);
    mx_str_free(&first);
    golden_clip_free(&clip);
    return check_done();
}
