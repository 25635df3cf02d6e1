/* test_silero.c - Silero VAD's weights from both containers: every tensor right to the bit, every fault named, nothing
 * harmed by broken bytes; names and paths. */
#include "kit/check.h"
#include "kit/gen_checkpoint.h"
#include "kit/gen_silero.h"

#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "weights/store.h"

static char folder[4096];

static const char *at(const char *leaf) {
    static char path[2][4200];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, leaf);
    return path[turn];
}

static void write_file(const char *leaf, const mx_str *s) {
    FILE *file = fopen(at(leaf), "wb");
    CHECK(file && fwrite(mx_str_get(s), 1, s->n, file) == s->n);
    if (file)
        fclose(file);
}

/* Opens a block of exactly the size, so that a sanitizer sees the first byte past the end. */
static mxw_status open_bytes(const char *bytes, size_t n, int rate, mx_weights **w) {
    static uint8_t *copy;
    free(copy);
    copy = malloc(n ? n : 1);
    memcpy(copy, bytes, n);
    mxw_status status = mx_silero_open_bytes(copy, n, rate, w);
    if (status < 0 && (*w || !mxw_last_error()[0] || strchr(mxw_last_error(), '\n')))
        CHECK(!"a failure has one line and no weights");
    return status;
}

static void check_values(const mx_weights *w, const gen_silero *o, int rate) {
    int wrong = 0;
    CHECK_EQ_INT(mx_weights_count(w), 15);
    for (int64_t i = 0; i < mx_weights_count(w); i++) {
        mxw_tensor_info info;
        mx_tensor view, found;
        CHECK_EQ_INT(mx_weights_tensor(w, i, &info, &view), MXW_OK);
        CHECK_EQ_INT(mx_weights_find(w, info.name, &found), MXW_OK);
        int64_t n = gen_silero_values(o, rate, info.name, NULL);
        float *want = malloc((size_t)n * 4), *got = malloc((size_t)n * 4);
        gen_silero_values(o, rate, info.name, want);
        CHECK_EQ_INT(mx_tensor_count(&view), n);
        mx_tensor_to_f32(&view, got);
        wrong += memcmp(want, got, (size_t)n * 4) != 0;
        free(want);
        free(got);
    }
    CHECK_EQ_INT(wrong, 0);
}

static void test_values(void) {
    gen_silero o = {.seed = 3};
    mx_str jit = {0}, safetensors = {0};
    mx_weights *w = NULL;
    gen_silero_jit(&jit, &o, NULL);
    gen_silero_safetensors(&safetensors, &o);
    for (int rate = 8000; rate <= 16000; rate += 8000) {
        if (CHECK_EQ_INT(open_bytes(jit.data, jit.n, rate, &w), MXW_OK))
            check_values(w, &o, rate);
        else
            printf("    %s\n", mxw_last_error());
        mx_weights_close(w);
    }
    if (CHECK_EQ_INT(open_bytes(safetensors.data, safetensors.n, 16000, &w), MXW_OK))
        check_values(w, &o, 16000);
    mx_weights_close(w);
    write_file("any.name", &jit);
    if (CHECK_EQ_INT(mx_silero_open(at("any.name"), NULL, 8000, &w), MXW_OK))
        check_values(w, &o, 8000);
    mx_weights_close(w);
    mx_str_free(&jit);
    mx_str_free(&safetensors);
}

static void refuses(const mx_str *s, int rate, mxw_status status, const char *line) {
    mx_weights *w = NULL;
    if (!CHECK_EQ_INT(open_bytes(mx_str_get(s), s->n, rate, &w), status) || !CHECK(strstr(mxw_last_error(), line)))
        printf("    want \"%s\", got \"%s\"\n", line, status < 0 ? mxw_last_error() : "");
    mx_weights_close(w);
}

static void test_faults(void) {
    static const char *const names[] = {
#define MX_SILERO(name, ...) name,
#include "weights/names/silero.def"
#undef MX_SILERO
    };
    static const struct {
        gen_silero o;
        int rate;
        mxw_status status;
        const char *line;
    } cases[] = {
        {{.only_16k = 1}, 8000, MXW_E_MISSING, "stft.weight is missing (_model_8k.stft.forward_basis_buffer"},
        {{.itself = 1}, 16000, MXW_E_FORMAT, "a module of more than 32 levels"},
        {{.cut = "conv1.weight"}, 16000, MXW_E_FORMAT,
         "tensor conv1.weight is f32 [127, 129, 3], expected f32 [128, 129, 3]"},
        {{.cut = "conv1.weight"}, 8000, MXW_E_FORMAT, "expected f32 [128, 65, 3]"},
        {{.seed = 1}, 44100, MXW_E_ARGUMENT, "sample_rate 44100"},
    };
    mx_str s = {0};
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        mx_str_clear(&s);
        gen_silero_jit(&s, &cases[i].o, NULL);
        refuses(&s, cases[i].rate, cases[i].status, cases[i].line);
    }
    for (size_t i = 1; i < MX_COUNT(names); i++) {   /* without the first one it is not known to be Silero's */
        gen_silero o = {.without = names[i]};
        mx_str_clear(&s);
        gen_silero_jit(&s, &o, NULL);
        refuses(&s, 8000, MXW_E_MISSING, names[i]);
        mx_str_clear(&s);
        gen_silero_safetensors(&s, &o);
        refuses(&s, 16000, MXW_E_MISSING, names[i]);
    }
    mx_str_clear(&s);
    gen_silero_safetensors(&s, &cases[0].o);
    refuses(&s, 8000, MXW_E_UNSUPPORTED, "has weights for 16 kHz only; those for 8 kHz are in silero_vad.jit");
    mx_str_free(&s);
}

/* Files of other kinds, in both directions. */
static void test_other_kinds(void) {
    static const char other[] = "not the weights of Silero VAD";
    gen_options whisper = {.dims = gen_small_dims()};
    gen_silero silero = {.seed = 1};
    mx_weights *w = NULL;
    mx_str s = {0};
    refuses(&s, 16000, MXW_E_FORMAT, other);
    mx_str_text(&s, "RIFF, and then something else");
    refuses(&s, 16000, MXW_E_FORMAT, other);
    CHECK_EQ_INT(gen_pt(at("whisper.pt"), &whisper), 0);
    CHECK_EQ_INT(mx_silero_open(at("whisper.pt"), NULL, 16000, &w), MXW_E_FORMAT);
    CHECK(strstr(mxw_last_error(), "whisper.pt: not the weights of Silero VAD"));
    CHECK_EQ_INT(gen_safetensors(at("hf"), &whisper), 0);
    CHECK_EQ_INT(mx_silero_open(at("hf/model.safetensors"), NULL, 16000, &w), MXW_E_FORMAT);
    CHECK(strstr(mxw_last_error(), other));
    for (int jit = 0; jit < 2; jit++) {
        mx_str_clear(&s);
        (jit ? gen_silero_jit(&s, &silero, NULL) : gen_silero_safetensors(&s, &silero));
        CHECK_EQ_INT(mx_weights_open_bytes((const uint8_t *)mx_str_get(&s), s.n, &w), MXW_E_FORMAT);
        CHECK(strstr(mxw_last_error(), "Silero VAD, which detects speech; not a Whisper checkpoint"));
    }
    CHECK_EQ_INT(mx_weights_open(MXW_VAD_MODEL, folder, &w), MXW_E_ARGUMENT);
    CHECK(strstr(mxw_last_error(), "'silero-vad' detects speech"));
    mx_str_free(&s);
}

static void finds(const char *name, const char *leaf) {
    mx_str path = {0};
    if (CHECK_EQ_INT(mx_silero_locate(name, folder, &path), MXW_OK))
        CHECK_STR(mx_str_get(&path), at(leaf));
    mx_str_free(&path);
}

static void finds_not(const char *name, mxw_status status, const char *line) {
    mx_str path = {0};
    CHECK_EQ_INT(mx_silero_locate(name, folder, &path), status);
    if (!CHECK(strstr(mxw_last_error(), line)))
        printf("    %s\n", mxw_last_error());
    mx_str_free(&path);
}

static void test_locate(void) {
    mx_str s = {0};
    char below[4200];
    mx_str_text(&s, "weights");
    snprintf(below, sizeof(below), "%s", at("silero-vad"));
    finds_not(NULL, MXW_E_NOT_FOUND, "silero-vad/silero_vad.jit); `max-whisper model fetch silero-vad` gets them");
    finds_not("", MXW_E_ARGUMENT, "is empty");
    finds_not("silero-dav", MXW_E_NOT_FOUND, "silero-dav: no such file or folder");
    CHECK_EQ_INT(mkdir(below, 0777), 0);
    finds_not(below, MXW_E_NOT_FOUND, "neither silero_vad.jit nor silero_vad_16k.safetensors in this folder");
    write_file("silero-vad/silero_vad_16k.safetensors", &s);
    finds(NULL, "silero-vad/silero_vad_16k.safetensors");
    write_file("silero-vad/silero_vad.jit", &s);
    finds(NULL, "silero-vad/silero_vad.jit");
    finds("silero-vad", "silero-vad/silero_vad.jit");
    finds(below, "silero-vad/silero_vad.jit");
    finds(at("silero-vad/silero_vad_16k.safetensors"), "silero-vad/silero_vad_16k.safetensors");
    CHECK_STR(mxw_vad_location(NULL, folder), at("silero-vad/silero_vad.jit"));
    CHECK(mxw_vad_location("nothing", folder) == NULL);
    mx_str_free(&s);
}

/* Cut and changed: in the directory and the pickle at every byte, in the storages here and there. */
static void test_hostile(void) {
    gen_silero o = {.seed = 5};
    mx_str s = {0};
    mx_weights *w = NULL;
    int opened = 0, refused = 0;
    gen_silero_jit(&s, &o, NULL);
    size_t tail = s.n - 9000;
    for (size_t cut = 0; cut < s.n; cut = cut < tail ? MX_MIN(cut + 50021, tail) : cut + 97)
        opened += open_bytes(s.data, cut, 16000, &w) == MXW_OK;
    CHECK_EQ_INT(opened, 0);
    for (size_t i = 0; i < s.n; i = i < tail ? MX_MIN(i + 50021, tail) : i + 23) {
        char was = s.data[i];
        s.data[i] = (char)(was ^ 0x41);
        refused += open_bytes(s.data, s.n, 8000, &w) < 0;
        mx_weights_close(w);
        w = NULL;
        s.data[i] = was;
    }
    CHECK(refused > 200);
    write_file("memory.jit", &s);
    int64_t live = mx_mem_live(), i = 0;
    for (mxw_status status = MXW_E_MEMORY; status == MXW_E_MEMORY && i < 10000; i++) {
        mx_mem_fail_after(i);
        status = mx_silero_open(at("memory.jit"), NULL, 16000, &w);
        mx_mem_fail_after(-1);
        CHECK(status == MXW_OK || status == MXW_E_MEMORY);
        mx_weights_close(w);
        w = NULL;
        CHECK_EQ_INT(mx_mem_live(), live);
    }
    CHECK(i > 5 && i < 10000);
    mx_str_free(&s);
}

int main(void) {
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    test_values();
    test_faults();
    test_other_kinds();
    test_hostile();
    test_locate();
    gen_remove(folder);
    return check_done();
}
