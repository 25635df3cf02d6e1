/* test_sizes.c - every released size, with random weights: a checkpoint of its true widths, heads, mel bins and
 * vocabulary loads and transcribes one window through the public API, all numbers finite. The deep ones get fewer
 * layers, which changes nothing in principle.
 *
 * usage: test_sizes [full]    the tiny ones and a narrow one of 128 mel bins; full: all */
#include "kit/check.h"
#include "kit/pipeline_kit.h"

#include <math.h>
#include <sys/resource.h>

#include "base/mem.h"

#define N_SAMPLES ((size_t)MXW_SAMPLE_RATE * 5 / 2)
#define LIMIT_KB (6l << 20)

static char folder[4096];

static void check_segments(const mxw_result *result, const mxw_dims *dims) {
    CHECK_EQ_INT(result->n_windows, 1);
    CHECK(result->n_segments > 0);
    for (size_t i = 0; i < result->n_segments; i++) {
        const mxw_segment *s = mxw_result_segment(result, i);
        CHECK(isfinite(s->avg_logprob) && s->avg_logprob < 0 && isfinite(s->compression_ratio));
        CHECK(isfinite(s->no_speech_prob) && s->no_speech_prob > 0 && s->no_speech_prob < 1);
        CHECK(isfinite(s->start) && s->start >= 0 && s->end >= s->start);
        CHECK(s->n_tokens > 0);
        for (size_t k = 0; k < s->n_tokens; k++)
            CHECK(s->tokens[k] >= 0 && s->tokens[k] < dims->n_vocab);
    }
}

static void transcribe(mxw_model *model, const mxw_dims *dims, const char *language) {
    static float samples[N_SAMPLES];
    mxw_session_options o = kit_short_options(2);
    mxw_session *session = NULL;
    o.language = language;
    kit_samples(1, 0, N_SAMPLES, samples);
    CHECK_EQ_INT(mxw_session_open(model, &o, &session), MXW_OK);
    if (session && CHECK_EQ_INT(kit_run(session, samples, N_SAMPLES, 0), MXW_END)) {
        const mxw_result *result = mxw_session_result(session);
        check_segments(result, dims);
        CHECK(result->language != NULL);
        if (!language && dims->n_vocab > 51864)   /* detected */
            CHECK(result->language_probability > 0 && result->language_probability <= 1);
    } else {
        printf("    %s\n", mxw_last_error());
    }
    mxw_session_close(session);
}

static void try_size(const char *name, const gen_options *o, int ct2, const char *language) {
    char path[4200];
    mxw_model *model = NULL;
    mxw_model_info info = {.struct_size = sizeof(info)};
    const mxw_dims *d = &o->dims;
    int before = check_failed;
    snprintf(path, sizeof(path), "%s/%s%s", folder, name, ct2 ? "" : ".pt");
    if (!CHECK((ct2 ? gen_ct2(path, o) : gen_pt(path, o)) == 0))
        return;
    if (CHECK_EQ_INT(kit_open(path, 0, &model), MXW_OK)) {
        CHECK_EQ_INT(mxw_model_get_info(model, &info), MXW_OK);
        CHECK(memcmp(info.checkpoint->dims, d, sizeof(*d)) == 0);
        CHECK_EQ_INT(info.checkpoint->multilingual, d->n_vocab > 51864);
        CHECK_EQ_INT(info.checkpoint->n_languages, d->n_vocab == 51864 ? 0 : d->n_vocab - 51766);
        transcribe(model, d, language);
        mxw_model_close(model);
    } else {
        printf("    %s\n", mxw_last_error());
    }
    gen_remove(path);
    printf("%s: %d wide, %d heads, %d + %d layers, %d mel bins, %d tokens%s\n", name, d->n_audio_state, d->n_audio_head,
           d->n_audio_layer, d->n_text_layer, d->n_mels, d->n_vocab, check_failed > before ? ": FAILED" : "");
}

/* The released models that differ in what is left of them after cutting layers. */
static void try_all(void) {
    mxw_dims seen[32];
    int n_seen = 0, n_released = 0;
    for (const mx_released *r; (r = mx_released_get(n_released)); n_released++) {
        int deep = r->dims.n_audio_state > 512, known = 0;
        gen_options o = {.dims = gen_released_dims(r->name, deep ? 1 : 6), .dtype = MXW_F16, .seed = 1};
        if (r->dims.n_text_layer < r->dims.n_audio_layer)   /* turbo and distil: what makes them what they are */
            o.dims.n_text_layer = r->dims.n_text_layer;
        for (int i = 0; i < n_seen; i++)
            known |= memcmp(&seen[i], &o.dims, sizeof(o.dims)) == 0;
        if (known) {
            printf("%s: as one before\n", r->name);
            continue;
        }
        if (n_seen < (int)MX_COUNT(seen))
            seen[n_seen++] = o.dims;
        int ct2 = o.dims.n_mels == 128 && o.dims.n_text_layer == 4;   /* turbo, as quantised CTranslate2 */
        o.dtype = ct2 ? MXW_I8 : MXW_F16;
        try_size(r->name, &o, ct2, deep ? "en" : NULL);
    }
    CHECK(n_released >= 16 && n_seen >= 12);
}

int main(int argc, char **argv) {
    struct rusage usage;
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    if (argc > 1 && strcmp(argv[1], "full") == 0) {
        try_all();
        getrusage(RUSAGE_SELF, &usage);
        printf("peak memory %ld MB\n", usage.ru_maxrss / 1024);
        CHECK(usage.ru_maxrss < LIMIT_KB);
    } else {
        gen_options narrow = {.dims = kit_dims(51866, 64, 1, 1), .seed = 3};
        narrow.dims.n_mels = 128;
        try_size("tiny.en", &(gen_options){.dims = gen_released_dims("tiny.en", 4), .dtype = MXW_F16}, 0, NULL);
        try_size("tiny", &(gen_options){.dims = gen_released_dims("tiny", 4), .dtype = MXW_I8}, 1, NULL);
        try_size("narrow", &narrow, 0, NULL);
    }
    CHECK_EQ_INT(mx_mem_live(), 0);
    gen_remove(folder);
    return check_done();
}
