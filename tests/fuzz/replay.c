/* tests/fuzz/replay.c - runs a fuzz harness without a fuzzer: every file of the folders (or every file) named on the
 * command line once, the empty input first. Invariants: it needs no special compiler, so that every past finding and
 * every seed stays a test of the ordinary build. Exit 0 if the harness came back each time, 1 if an input could not
 * be read or a folder held none. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes in a block of exactly their size, so that a sanitizer sees the first one read past the end. */
static int run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    struct stat st;
    if (!file || fstat(fileno(file), &st) != 0) {
        fprintf(stderr, "replay: cannot open %s\n", path);
        if (file)
            fclose(file);
        return 1;
    }
    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size ? size : 1);
    int bad = !data || fread(data, 1, size, file) != size;
    fclose(file);
    if (bad)
        fprintf(stderr, "replay: cannot read %s\n", path);
    else
        LLVMFuzzerTestOneInput(data, size);
    free(data);
    return bad;
}

static int run_folder(const char *path, int *n_run) {
    DIR *folder = opendir(path);
    if (!folder) {
        fprintf(stderr, "replay: cannot open the folder %s\n", path);
        return 1;
    }
    int bad = 0, n = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char file[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
        bad |= run_file(file);
        n++;
    }
    closedir(folder);
    if (!n) {
        fprintf(stderr, "replay: %s holds no inputs\n", path);
        return 1;
    }
    *n_run += n;
    return bad;
}

int main(int argc, char **argv) {
    int bad = argc < 2, n = 0;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode)) {
            bad |= run_folder(argv[i], &n);
        } else {
            bad |= run_file(argv[i]);
            n++;
        }
    }
    printf("replayed %d inputs\n", n);
    return bad;
}
