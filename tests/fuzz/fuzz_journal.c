/* Any bytes as what a killed run left: as the file of a journal, whose records are read and to which one is added; and
 * as the body of a record of the very session at hand, as only a faulty or hostile writer makes it. Invariants:
 * refused with one line, or a result that every format can be written of. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kit/pipeline_kit.h"
#include "fuzz_checkpoint.h"
#include "pipeline/session.h"
#include "transcribe/journal.h"

static mxw_model *model;

static int write_nowhere(void *user, const void *bytes, size_t n) {
    *(size_t *)user += n + (n ? ((const char *)bytes)[n - 1] == 'x' : 0);
    return 0;
}

static void on_window(void *user, const void *record, size_t n) { must(!user && record && n > sizeof(mx_fingerprint)); }

/* A session that has heard nothing, ready for records. */
static mxw_session *open_session(int details) {
    mxw_session *session = NULL;
    mxw_session_options options = kit_short_options(4);
    options.on_window = on_window;
    options.word_timestamps = 1;
    options.token_details = details;
    must(mxw_session_open(model, &options, &session) == MXW_OK && mxw_session_finish(session) == MXW_OK);
    return session;
}

static void try_record(const uint8_t *data, size_t n, int details) {
    mxw_session *session = open_session(details);
    struct {
        uint32_t magic, form;
        mx_fingerprint fingerprint;
    } head = {0x7277786d, 1, session->fingerprint};
    uint8_t *record = malloc(sizeof(head) + n);
    size_t written = 0;
    memcpy(record, &head, sizeof(head));
    if (n)
        memcpy(record + sizeof(head), data, n);
    if (mxw_session_resume(session, record, sizeof(head) + n) < 0) {
        must_be_one_line();
    } else {
        const mxw_result *result = mxw_session_result(session);
        must(result != NULL);
        for (int i = 0; mxw_format_name(i); i++)
            if (mxw_result_write(result, mxw_format_name(i), NULL, write_nowhere, &written) < 0)
                must_be_one_line();
    }
    free(record);
    mxw_session_close(session);
}

static void try_file(const uint8_t *data, size_t n) {
    char path[64], message[512];
    const void *record;
    size_t length, in_file = 0;
    int fd = memfd_create("journal", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    journal *j = journal_open(path, message, sizeof(message));
    if (!j)
        must(message[0] && !strchr(message, '\n'));
    while (j && journal_next(j, &record, &length)) {
        in_file += length;
        must(in_file <= n);
        if (length > 0)   /* it ends inside of what was read: the address sanitizer looks */
            (void)((const volatile uint8_t *)record)[length - 1];
    }
    if (j && in_file % 2)
        journal_refuse(j);
    if (j)
        must(journal_add(j, "one more", 8));
    journal_close(j, 0);
    close(fd);
}

static void make_model(void) {
    char folder[4096], path[4200];
    gen_options o = {.dims = kit_dims(51864, 16, 1, 1), .seed = 1};
    must(gen_temp(folder, sizeof(folder)) == 0);
    snprintf(path, sizeof(path), "%s/model.pt", folder);
    must(gen_pt(path, &o) == 0 && kit_open(path, 1, &model) == MXW_OK);
    gen_remove(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (!model)
        make_model();
    int64_t live = mx_mem_live();
    try_file(data, n);
    try_record(data, n, 0);
    try_record(data, n, 2);
    must(mx_mem_live() == live);
    return 0;
}
