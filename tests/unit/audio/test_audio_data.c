/* test_audio_data.c - every clip of the development set: samples byte-equal to the ffmpeg command's.
 * The set is in ../shared/data beside the project; skipped where it, the command or the module is not there. */
#include <ftw.h>
#include <sys/stat.h>

#include "audio_command.h"
#include "base/module.h"
#include "kit/check.h"

static int visit(const char *path, const struct stat *st, int kind, struct FTW *where) {
    char why[256];
    const char *dot = strrchr(path, '.');
    if (kind != FTW_F || (dot && strcmp(dot, ".jsonl") == 0))
        return 0;
    if (!CHECK(same_as_command(path, why, sizeof(why))))
        printf("    %s: %s\n", path, why);
    return 0;
}

int main(void) {
    char folder[4096];
    const void *table;
    snprintf(folder, sizeof(folder), "%s/../shared/data", getenv("MXW_SOURCE_ROOT") ? getenv("MXW_SOURCE_ROOT") : ".");
    if (access(folder, R_OK) != 0 || mx_module_get("ffmpeg", &table) < 0 ||
        system("ffmpeg -version > /dev/null 2>&1") != 0) {
        printf("SKIP: audio-data: no development set, ffmpeg command or module\n");
        return 77;
    }
    CHECK(nftw(folder, visit, 16, FTW_PHYS) == 0);
    return check_done();
}
