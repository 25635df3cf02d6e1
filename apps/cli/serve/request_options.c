/* cli/serve/request_options.c - see request_options.h. */
#include "serve/request_options.h"

#include <ctype.h>
#include <string.h>

#include "common/vad_options.h"
#include "transcribe/transcribe_options.h"

/* ---- which rows are fields ------------------------------------------------------------------------------ */

static int is_field(const option_row *row) {
    static const char *const groups[] = {"Audio", "Language and task", VAD_GROUP, "Words", "Decoding", "Prompting",
                                         "Fallback when a window decodes badly"};
    static const char *const others[] = {"task", "vad-model"}; /* the path of the request; a file on this machine */
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (!strcmp(row->name, others[i]))
            return 0;
    for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++)
        if (!strcmp(row->group, groups[i]))
            return 1;
    return !strcmp(row->name, "alternatives");
}

/* Each beam or sample has its own caches, and memory for the widest request stays with the process: on the command line
 * that is the user's own affair, here anybody's. */
enum { WIDTH_MOST = 20 };

static int is_too_wide(const transcribe_options *o, const char *name, char *message, size_t size) {
    int64_t width = !strcmp(name, "beam-size") ? o->beam_size : !strcmp(name, "best-of") ? o->best_of : 0;
    if (width <= WIDTH_MOST)
        return 0;
    options_say(message, size, "%lld is more than the %d that this server takes", (long long)width, WIDTH_MOST);
    return 1;
}

/* "requires --word-timestamps" to "requires word_timestamps" */
static void name_as_fields(char *message) {
    char *to = message;
    for (const char *from = message; *from;) {
        if (from[0] != '-' || from[1] != '-' || !isalpha((unsigned char)from[2])) {
            *to++ = *from++;
            continue;
        }
        for (from += 2; isalnum((unsigned char)*from) || *from == '-'; from++)
            *to++ = *from == '-' ? '_' : *from;
    }
    *to = 0;
}

/* ---- the host's functions ------------------------------------------------------------------------------- */

static void set_defaults(void *request) {
    memset(request, 0, sizeof(transcribe_options));
    options_default(transcribe_rows, request);
    ((transcribe_options *)request)->format = "txt"; /* one format: no details of tokens unless asked for */
}

static int set(void *request, const char *name, const char *value, char *message, size_t size) {
    transcribe_options *o = request;
    const option_row *row = options_find(transcribe_rows, name, strlen(name));
    if (!row || !is_field(row))
        return -1;
    if (!options_set(row, value, request, message, size)) {
        name_as_fields(message);
        return 0;
    }
    if (is_too_wide(o, row->name, message, size))
        return 0;
    if (!strcmp(row->name, "channel") && transcribe_splits(o)) {
        options_say(message, size, "split is not available here; send a request for each channel");
        return 0;
    }
    return 1;
}

static int check(const void *request, const char **name, char *message, size_t size) {
    static _Thread_local char field[64];
    const char *option = transcribe_conflict(request, message, size);
    if (!option)
        return 1;
    options_say(field, sizeof(field), "%s", option);
    for (char *p = field; *p; p++)
        *p = *p == '-' ? '_' : *p;
    name_as_fields(message);
    *name = field;
    return 0;
}

static void apply(const void *request, mxw_session_options *session, mxw_audio_options *audio,
                  mxw_write_options *write) {
    const transcribe_options *o = request;
    transcribe_session_options(o, session);
    session->parallel = o->parallel < 0 ? 4 : (int)o->parallel;
    transcribe_audio_options(o, NULL, 0, audio);
    transcribe_write_options(o, write);
}

void request_options_host(server_host *host) {
    host->request_size = sizeof(transcribe_options);
    host->request_default = set_defaults;
    host->request_set = set;
    host->request_check = check;
    host->request_apply = apply;
}
