/* tests/unit/base/test_save.c - atomic saving: a process killed in the middle, several that save one file at once,
 * paths that cannot be written; with unnamed files and without support for them. */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "kit/check.h"

#define SIZE 100000

static char folder[] = "/tmp/test-save-XXXXXX";
static char path[64], part[80];

static int n_files(void) {
    DIR *dir = opendir(folder);
    int n = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static mxw_status save(int fill) {
    char bytes[1000];
    mx_save *s = NULL;
    mxw_status status = mx_save_open(path, &s);
    memset(bytes, fill, sizeof(bytes));
    for (int i = 0; status >= 0 && i < SIZE / (int)sizeof(bytes); i++)
        status = mx_save_write(s, bytes, sizeof(bytes));
    if (status >= 0)
        return mx_save_commit(s);
    mx_save_abort(s);
    return status;
}

/* What the whole file is filled with; -1: it is not there, or not whole */
static int content(void) {
    mx_map map;
    if (mx_map_open(path, &map) < 0)
        return -1;
    int fill = map.n == SIZE ? map.data[0] : -1;
    for (size_t i = 0; fill >= 0 && i < map.n; i++)
        fill = map.data[i] == fill ? fill : -1;
    mx_map_close(&map);
    return fill;
}

static void test_plain(void) {
    CHECK(save('a') == MXW_OK && content() == 'a' && n_files() == 1);
    CHECK(save('b') == MXW_OK && content() == 'b' && n_files() == 1);   /* in the place of the older one */
    mx_save *s = NULL;
    CHECK(mx_save_open(path, &s) == MXW_OK && mx_save_write(s, "torn", 4) == MXW_OK);
    CHECK(content() == 'b');
    mx_save_abort(s);
    CHECK(content() == 'b' && n_files() == 1);
    struct stat st;
    CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0640);   /* as the process's umask says */
    unlink(path);
}

/* Killed before it is whole: nothing under the name, and nothing left once the file is saved again. */
static void test_killed(int named) {
    pid_t child = fork();
    if (child == 0) {
        mx_save *s = NULL;
        if (mx_save_open(path, &s) == MXW_OK && mx_save_write(s, "torn", 4) == MXW_OK)
            raise(SIGKILL);
        _exit(1);
    }
    int how;
    CHECK(waitpid(child, &how, 0) == child && WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    CHECK(content() == -1 && !mx_file_exists(path));
    CHECK_EQ_INT(n_files(), named);
    CHECK(save('c') == MXW_OK && content() == 'c');
    CHECK_EQ_INT(n_files(), 1);
    FILE *stale = fopen(part, "w");   /* killed in the moment of its naming */
    CHECK(stale && fputs("stale", stale) >= 0 && fclose(stale) == 0);
    CHECK(save('d') == MXW_OK && content() == 'd');
    CHECK_EQ_INT(n_files(), 1);
    unlink(path);
}

/* Several processes save one file over and over, one is killed: a reader sees a whole file of one of them. */
static void test_at_once(void) {
    enum { N = 6, TIMES = 40 };
    pid_t children[N];
    CHECK(save('z') == MXW_OK);
    for (int c = 0; c < N; c++)
        if ((children[c] = fork()) == 0) {
            for (int i = 0; i < TIMES || c == 0; i++)   /* the first one goes on until it is killed */
                if (save('0' + c) != MXW_OK)
                    _exit(1);
            _exit(0);
        }
    int how, ended = 0;
    while (ended < N - 1) {
        CHECK(content() > 0);
        for (int c = 1; c < N; c++)
            if (children[c] && waitpid(children[c], &how, WNOHANG) == children[c]) {
                CHECK(WIFEXITED(how) && WEXITSTATUS(how) == 0);
                children[c] = 0;
                ended++;
            }
    }
    kill(children[0], SIGKILL);
    CHECK(waitpid(children[0], &how, 0) == children[0] && WIFSIGNALED(how));
    CHECK(content() > 0);
    CHECK(save('e') == MXW_OK && content() == 'e');
    CHECK_EQ_INT(n_files(), 1);
    unlink(path);
}

static void test_refused(void) {
    mx_save *s = NULL;
    CHECK(mx_save_open(folder, &s) == MXW_E_IO && !s && strstr(mxw_last_error(), "is a folder"));
    CHECK(mx_save_open("/dev/null", &s) == MXW_E_IO && !s && strstr(mxw_last_error(), "/dev/null: cannot write"));
    CHECK(mx_save_open("/nowhere/at/all", &s) == MXW_E_IO && !s && strstr(mxw_last_error(), "/nowhere/at/all"));
    struct stat st;
    CHECK(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
    CHECK(mkdir(path, 0777) == 0 && rmdir(path) == 0);
    CHECK(mx_save_open(path, &s) == MXW_OK && mkdir(path, 0777) == 0);   /* a folder came in between */
    CHECK(mx_save_commit(s) == MXW_E_IO && strstr(mxw_last_error(), path));
    CHECK(rmdir(path) == 0 && n_files() == 0);
}

int main(void) {
    umask(0137);
    CHECK(mkdtemp(folder) != NULL);
    CHECK(chmod(folder, 0700) == 0);
    snprintf(path, sizeof(path), "%s/file", folder);
    snprintf(part, sizeof(part), "%s.mxw-part", path);
    for (int named = 0; named <= 1; named++) {
        mx_save_always_named(named);
        test_plain();
        test_killed(named);
        test_at_once();
        test_refused();
    }
    CHECK(rmdir(folder) == 0);
    return check_done();
}
