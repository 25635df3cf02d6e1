/* cli/serve/serve.c - `serve`: its options, and the module that is the server. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "common/model.h"
#include "common/module.h"
#include "common/stdout.h"
#include "serve/request_options.h"
#include "server/server.h"

typedef struct serve_options {
    common_options common;
    option_list models;
    model_choice model; /* all but the name */
    const char *host;
    int64_t port, concurrency, queue, max_connections, realtime_sockets;
    const char *max_upload;
    double idle_unload_s, idle_timeout_s, drain_timeout_s, realtime_idle_s, realtime_expiry_s;
    option_list api_keys, cors_origins;
    const char *api_key_file;
    int no_auth;
    const char *tls_cert, *tls_key, *access_log;
} serve_options;

_Static_assert(sizeof(serve_options) <= MAX_OPTIONS_BYTES, "options fit where main keeps them");

/* ---- sizes ---------------------------------------------------------------------------------------------- */

/* "2G", "500M", "64k", "1048576"; -1: none of these. */
static int64_t bytes_of(const char *text) {
    static const char units[] = "kMGT";
    char *end;
    errno = 0;
    double n = text[0] >= '0' && text[0] <= '9' ? strtod(text, &end) : -1;
    if (n < 0 || errno)
        return -1;
    const char *unit = *end ? strchr(units, *end == 'K' ? 'k' : *end) : NULL;
    if (*end && (!unit || end[1]))
        return -1;
    for (const char *u = units; unit && u <= unit; u++)
        n *= 1024;
    return n >= 1 && n < 9e15 ? (int64_t)n : -1;
}

static int check_bytes(const char *value, char *message, size_t size) {
    if (bytes_of(value) > 0)
        return 1;
    options_say(message, size, "'%.60s' is not a size like 500M or 2G", value);
    return 0;
}

static int check_origin(const char *value, char *message, size_t size) {
    size_t n = !strncmp(value, "http://", 7) ? 7 : !strncmp(value, "https://", 8) ? 8 : 0;
    if (!strcmp(value, "*") || (n && value[n] && !strchr(value + n, '/')))
        return 1;
    options_say(message, size, "'%.60s' is not an origin like https://example.org, or *", value);
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------------------ */

#define AT(member) .target = offsetof(serve_options, member)
#define ADDRESS .group = "Address"
#define ACCESS .group = "Access"
#define LOAD .group = "Load"
#define LIVE .group = "Live"

/* A table reads by rows. */
/* clang-format off */
static const option_row rows[] = {
    {.name = "model", .letter = 'm', .kind = OPTION_NAMES, .fallback = "tiny.en", .placeholder = "NAME|PATH",
     .group = "Model and device", AT(models), .values = model_value,
     .help = "Model to serve; may be given several times. The first is the default, and is what OpenAI's names mean."},
    MODEL_DIR_ROW(serve_options, model.model_dir),
    ENGINE_ROWS(serve_options, model.engine, model.device, model.threads, model.precision),
    {.name = "idle-unload", .kind = OPTION_NUMBER, .fallback = "none", .placeholder = "SECONDS",
     .group = "Model and device", AT(idle_unload_s), .low = 0, .high = 1e9, .none = 1, .none_value = MXW_NONE,
     .help = "Unload a model that was not used for so long; none: models stay loaded."},

    {.name = "host", .kind = OPTION_TEXT, .fallback = "127.0.0.1", .placeholder = "ADDRESS", ADDRESS, AT(host),
     .help = "Address to listen on. One that other machines can reach needs an API key, or --no-auth."},
    {.name = "port", .letter = 'p', .kind = OPTION_WHOLE, .fallback = "8000", .placeholder = "N", ADDRESS, AT(port),
     .low = 0, .high = 65535, .help = "Port; 0: any that is free."},
    {.name = "tls-cert", .kind = OPTION_NAME, .placeholder = "FILE", ADDRESS, AT(tls_cert),
     .help = "Certificate, or chain of them, in PEM: the server then speaks HTTPS. SIGHUP reads it again."},
    {.name = "tls-key", .kind = OPTION_NAME, .placeholder = "FILE", ADDRESS, AT(tls_key),
     .help = "Its private key in PEM."},

    {.name = "api-key", .kind = OPTION_NAMES, .placeholder = "KEY", ACCESS, AT(api_keys),
     .help = "Key that requests must have (Authorization: Bearer KEY); may be given several times. Other users of this "
             "machine can see it: prefer --api-key-file."},
    {.name = "api-key-file", .kind = OPTION_NAME, .placeholder = "FILE", ACCESS, AT(api_key_file),
     .help = "File with a key on each line. SIGHUP reads it again."},
    {.name = "no-auth", .kind = OPTION_FLAG, .fallback = "False", ACCESS, AT(no_auth),
     .help = "No key is needed, whatever the address is."},
    {.name = "cors-origin", .kind = OPTION_NAMES, .placeholder = "ORIGIN", ACCESS, AT(cors_origins),
     .check = check_origin,
     .help = "Let web pages of this origin (https://example.org, or *) use the server; may be given several times."},

    {.name = "concurrency", .kind = OPTION_WHOLE, .fallback = "0", .placeholder = "N", LOAD, AT(concurrency),
     .low = 0, .high = 160,
     .help = "Recordings to transcribe at once; short ones have a few places more. 0: choose for the device."},
    {.name = "queue", .kind = OPTION_WHOLE, .fallback = "64", .placeholder = "N", LOAD, AT(queue), .low = 0,
     .high = 4096, .help = "Recordings that may wait for a place. More are refused with status 429."},
    {.name = "max-upload", .kind = OPTION_TEXT, .fallback = "2G", .placeholder = "BYTES", LOAD, AT(max_upload),
     .check = check_bytes, .help = "Largest recording that is taken."},
    {.name = "max-connections", .kind = OPTION_WHOLE, .fallback = "2000", .placeholder = "N", LOAD,
     AT(max_connections), .low = 8, .high = 30000, .help = "Connections at once."},
    {.name = "idle-timeout", .kind = OPTION_NUMBER, .fallback = "75", .placeholder = "SECONDS", LOAD,
     AT(idle_timeout_s), .low = 0.1, .high = 1e6,
     .help = "Close a connection on which nothing moves, or too little: less than 1 KiB a second of a body."},
    {.name = "drain-timeout", .kind = OPTION_NUMBER, .fallback = "30", .placeholder = "SECONDS", LOAD,
     AT(drain_timeout_s), .low = 0, .high = 1e6,
     .help = "After SIGTERM or Ctrl-C, let what is under way end for so long; a second signal ends it at once."},

    {.name = "realtime-sockets", .kind = OPTION_WHOLE, .fallback = "256", .placeholder = "N", LIVE,
     AT(realtime_sockets), .low = 0, .high = 10000,
     .help = "Live sockets (/v1/realtime) at once; more are refused with status 503."},
    {.name = "realtime-idle", .kind = OPTION_NUMBER, .fallback = "900", .placeholder = "SECONDS", LIVE,
     AT(realtime_idle_s), .low = 1, .high = 1e9, .none = 1, .none_value = MXW_NONE,
     .help = "Close a live socket that has sent no message for so long; none: never."},
    {.name = "realtime-expiry", .kind = OPTION_NUMBER, .fallback = "none", .placeholder = "SECONDS", LIVE,
     AT(realtime_expiry_s), .low = 1, .high = 1e9, .none = 1, .none_value = MXW_NONE,
     .help = "End a live session after so long, as OpenAI does after an hour; none: never."},

    {.name = "access-log", .kind = OPTION_NAME, .placeholder = "FILE|-", .group = "Log", AT(access_log),
     .help = "A JSON line for each request: time, path, status, milliseconds; never a text or a key. -: standard "
             "output. SIGHUP opens the file again."},
    COMMON_ROWS,
    {.name = NULL},
};
/* clang-format on */

/* ---- the run -------------------------------------------------------------------------------------------- */

static void log_line(mxw_log_level level, const char *line) {
    if (level == MXW_LOG_ERROR)
        log_error("%s", line);
    else
        log_say(level, "%s", line);
}

static void say_ready(const char *address) {
    out_print("listening on %s\n", address);
    out_flush();
    log_note("a page is at %s/; or: curl %s/v1/audio/transcriptions -F file=@speech.wav", address, address);
}

static void fill(const serve_options *o, server_options *s) {
    *s = (server_options){
        .models = {o->models.n, o->models.items},
        .model_dir = o->model.model_dir,
        .device = o->model.device,
        .engine = o->model.engine,
        .precision = o->model.precision,
        .threads = (int)o->model.threads,
        .host = o->host,
        .port = (int)o->port,
        .concurrency = (int)o->concurrency,
        .queue = (int)o->queue,
        .max_connections = (int)o->max_connections,
        .max_upload = bytes_of(o->max_upload),
        .idle_unload_s = o->idle_unload_s,
        .idle_timeout_s = o->idle_timeout_s,
        .drain_timeout_s = o->drain_timeout_s,
        .realtime_sockets = (int)o->realtime_sockets,
        .realtime_idle_s = o->realtime_idle_s,
        .realtime_expiry_s = o->realtime_expiry_s,
        .api_keys = {o->api_keys.n, o->api_keys.items},
        .api_key_file = o->api_key_file,
        .no_auth = o->no_auth,
        .cors_origins = {o->cors_origins.n, o->cors_origins.items},
        .tls_cert = o->tls_cert,
        .tls_key = o->tls_key,
        .access_log = o->access_log,
    };
}

static int run(const void *chosen, char **words, int n_words) {
    char why[PATH_MAX + 200];
    server_options options;
    server_host host = {.log = log_line, .ready = say_ready};
    const server_table *(*entry)(uint32_t abi);
    void *symbol = module_entry("server", SERVER_MODULE_ENTRY, why, sizeof(why));
    (void)words;
    (void)n_words;
    if (!symbol) {
        log_error("serve: %s", why);
        return EXIT_FAILED;
    }
    memcpy(&entry, &symbol, sizeof(entry));
    const server_table *table = entry(SERVER_MODULE_ABI);
    if (!table) {
        log_error("serve: the server module was built for another version");
        return EXIT_FAILED;
    }
    fill(chosen, &options);
    request_options_host(&host);
    int status = table->run(&options, &host);
    return status == 0 ? EXIT_OK : status == 2 ? EXIT_USAGE : EXIT_FAILED;
}

const command command_serve = {
    .arguments = "",
    .max_words = 0,
    .summary = "Serve OpenAI's speech-to-text API over HTTP.",
    .details = "Programs that use OpenAI's audio API work with it unchanged: set their base URL to "
               "http://127.0.0.1:8000/v1. Many clients share one model, each with the text that 'transcribe' gives. "
               "The first line on standard output says where it listens. SIGTERM and Ctrl-C end it, after what is "
               "under way; SIGHUP reads keys and certificate again.",
    .options = rows,
    .options_size = sizeof(serve_options),
    .run = run,
};
