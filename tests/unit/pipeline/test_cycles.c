/* test_cycles.c - opens and closes models repeatedly: no memory leaks, on the host or on the device.
 *
 * usage: test_cycles [DEVICE] [CYCLES]    cpu (the default), fake or cuda[:N]; every tenth cycle also transcribes */
#include "kit/check.h"
#include "kit/pipeline_kit.h"

#include <unistd.h>

#include "base/mem.h"
#include "device/device.h"

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) ||               \
    __has_feature(thread_sanitizer)
#define SANITIZED 1
size_t __sanitizer_get_current_allocated_bytes(void);   /* of their runtime; not every compiler ships its header */
#else
#define SANITIZED 0
#endif

#define N_SAMPLES ((size_t)MXW_SAMPLE_RATE)
#define GROWTH (SANITIZED ? 0.0625 : 4.0)   /* MiB of the process: of a heap that settles, or that is counted */
#define SLACK ((uint64_t)64 << 20)          /* others may use the GPU, too; a model that stays shows in a few cycles */

static uint64_t free_on_device(const char *name) {
    const mx_device *device;
    return mx_device_find(name, &device) >= 0 && device->memory_free ? device->memory_free(device) : 0;
}

/* Of this process, in MiB: what libraries keep shows here, too. A sanitizer keeps freed memory resident for a while, to
 * catch its use; but it counts what is allocated, by us and by libraries, exactly. */
static double in_use(void) {
#if SANITIZED
    return (double)__sanitizer_get_current_allocated_bytes() / 1048576;
#else
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576;
#endif
}

static void cycle(const char *path, int transcribe) {
    static float samples[N_SAMPLES];
    mxw_model *model = NULL;
    mxw_session_options o = kit_short_options(3);
    o.word_timestamps = 1;
    mx_str json = {0};
    if (!CHECK_EQ_INT(kit_open(path, 1, &model), MXW_OK))
        printf("    %s\n", mxw_last_error());
    kit_samples(3, 0, N_SAMPLES, samples);
    if (model && transcribe)
        CHECK_EQ_INT(kit_transcribe(model, &o, samples, N_SAMPLES, &json), MXW_OK);
    mx_str_free(&json);
    mxw_model_close(model);
}

int main(int argc, char **argv) {
    const char *device = argc > 1 ? argv[1] : "cpu";
    int cycles = argc > 2 ? atoi(argv[2]) : 30, warm = 10;
    char folder[4096], path[4200];
    uint64_t before = 0;
    double in_use_before = 0;
    kit_on("cycles", device);
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    snprintf(path, sizeof(path), "%s/small.pt", folder);
    gen_options o = {.dims = kit_dims(51864, 64, 1, 1), .dtype = MXW_F16, .seed = 9};
    if (CHECK(gen_pt(path, &o) == 0)) {
        for (int i = 0; i < cycles && !check_failed; i++) {
            cycle(path, i % 10 == 0);
            CHECK_EQ_INT(mx_mem_live(), 0);
            before = i == warm ? free_on_device(device) : before;
            in_use_before = i == warm ? in_use() : in_use_before;
        }
        uint64_t after = free_on_device(device);
        printf("%s: %d cycles, free after %d: %.1f MiB, at the end: %.1f MiB\n", device, cycles, warm,
               (double)before / 1048576, (double)after / 1048576);
        CHECK(after + SLACK >= before);
        double in_use_after = in_use();
        printf("%s: the process has %.3f MiB %s after %d, %.3f MiB at the end\n", device, in_use_before,
               SANITIZED ? "allocated" : "resident", warm, in_use_after);
        CHECK(strcmp(device, "cpu") != 0 || in_use_after - in_use_before < GROWTH);
    }
    gen_remove(folder);
    return check_done();
}
