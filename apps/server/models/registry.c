/* server/models/registry.c - see registry.h. */
#include "models/registry.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "models/names.h"

enum { CONCURRENCY_CPU = 4, CONCURRENCY_ACCELERATOR = 32, MOST_SLOTS = 256, ID_SIZE = 256 };

/* A model in memory; one that is retired takes no new holders, and the last one closes it. */
typedef struct loaded_model {
    mxw_model *model;
    int n_holders, slots, retired;
} loaded_model;

typedef struct served_model {
    char id[ID_SIZE];
    const char *name;     /* as --model has it */
    loaded_model *loaded; /* NULL: not loaded */
    int loading;
    int64_t released_ns, loads, unloads;
} served_model;

struct model_registry {
    server_context *server;
    pthread_mutex_t lock;
    pthread_cond_t changed, ending;
    pthread_t unloader;
    int ends, has_unloader;
    int concurrency;
    int n;
    served_model models[];
};

/* ---- loading -------------------------------------------------------------------------------------------- */

/* What any ordinary request may ask for. */
static void widest_session(mxw_session_options *options) {
    mxw_session_options_default(options);
    options->word_timestamps = 1;
    options->token_details = 1;
}

/* Memory for as many sessions as fit, at most `wanted`; 0: not even one. */
static int reserve(mxw_model *model, int wanted) {
    mxw_session_options session;
    widest_session(&session);
    mxw_status status = mxw_model_reserve(model, &session, wanted);
    if (status != MXW_E_MEMORY)
        return status < 0 ? 0 : wanted;
    int fits = 0, too_many = wanted;
    while (too_many - fits > 1) {
        int n = fits + (too_many - fits) / 2;
        if (mxw_model_reserve(model, &session, n) < 0)
            too_many = n;
        else
            fits = n;
    }
    return fits && mxw_model_reserve(model, &session, fits) >= 0 ? fits : 0;
}

static void close_loaded(loaded_model *loaded) {
    if (loaded)
        mxw_model_close(loaded->model);
    free(loaded);
}

static mxw_status load(model_registry *g, const served_model *m, loaded_model **out, char *message, size_t size) {
    const server_options *o = g->server->options;
    mxw_model_options options;
    int wanted = g->concurrency + 2 * models_spare(g);
    loaded_model *loaded = calloc(1, sizeof(*loaded));
    if (!loaded) {
        snprintf(message, size, "model %s cannot be loaded: out of memory", m->id);
        return MXW_E_MEMORY;
    }
    mxw_model_options_default(&options);
    options.model = m->name;
    options.model_dir = o->model_dir;
    options.engine = (mxw_engine)o->engine;
    options.precision = (mxw_precision)o->precision;
    options.device = o->device;
    options.threads = o->threads;
    options.batch = wanted = wanted < MOST_SLOTS ? wanted : MOST_SLOTS;
    mxw_status status = mxw_model_open(&options, &loaded->model);
    if (status >= 0) {
        loaded->slots = reserve(loaded->model, wanted);
        if (!loaded->slots)
            status = MXW_E_MEMORY;
    }
    if (status < 0) {
        snprintf(message, size, "model %s cannot be loaded: %s", m->id, mxw_last_error());
        close_loaded(loaded);
        return status;
    }
    if (loaded->slots < wanted)
        server_log(g->server, MXW_LOG_WARN, "model %s: memory for %d sessions at once instead of %d", m->id,
                   loaded->slots, wanted);
    *out = loaded;
    return status;
}

/* With the lock held; it is released while the model is read. */
static mxw_status load_once(model_registry *g, served_model *m, char *message, size_t size) {
    mxw_status status = MXW_OK;
    while (m->loading)
        pthread_cond_wait(&g->changed, &g->lock);
    if (m->loaded)
        return MXW_OK;
    m->loading = 1;
    pthread_mutex_unlock(&g->lock);
    loaded_model *loaded = NULL;
    int64_t start = server_now_ns();
    status = load(g, m, &loaded, message, size);
    double seconds = (double)(server_now_ns() - start) * 1e-9;
    server_log(g->server, status < 0 ? MXW_LOG_ERROR : MXW_LOG_INFO, status < 0 ? "%s" : "%s loaded in %.2f s",
               status < 0 ? message : m->id, seconds);
    pthread_mutex_lock(&g->lock);
    m->loading = 0;
    m->loaded = loaded;
    m->loads += loaded != NULL;
    pthread_cond_broadcast(&g->changed);
    return status;
}

/* ---- unloading ------------------------------------------------------------------------------------------ */

static void unload_idle(model_registry *g, int64_t now) {
    for (int i = 0; i < g->n; i++) {
        served_model *m = &g->models[i];
        if (!m->loaded || m->loading || m->loaded->n_holders ||
            (double)(now - m->released_ns) * 1e-9 < g->server->options->idle_unload_s)
            continue;
        loaded_model *loaded = m->loaded;
        m->loading = 1; /* a request for it waits now, and loads it again */
        m->loaded = NULL;
        m->unloads++;
        pthread_mutex_unlock(&g->lock);
        close_loaded(loaded);
        server_log(g->server, MXW_LOG_INFO, "%s unloaded", m->id);
        pthread_mutex_lock(&g->lock);
        m->loading = 0;
        pthread_cond_broadcast(&g->changed);
    }
}

static void *unload(void *any) {
    model_registry *g = any;
    pthread_mutex_lock(&g->lock);
    while (!g->ends) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 250000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&g->ending, &g->lock, &until);
        unload_idle(g, server_now_ns());
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* ---- open and close ------------------------------------------------------------------------------------- */

static int choose_concurrency(const server_options *o) {
    if (o->concurrency > 0)
        return o->concurrency;
    int gpu = o->engine != MXW_ENGINE_CPU && strcmp(o->device, "cpu") && mxw_accelerator_count() > 0;
    return gpu ? CONCURRENCY_ACCELERATOR : CONCURRENCY_CPU;
}

/* A wrong name is found before the first request. */
static int check_model(const model_registry *g, int index, char *message, size_t size) {
    const served_model *m = &g->models[index];
    mxw_checkpoint *checkpoint = NULL;
    if (mxw_checkpoint_open(m->name, g->server->options->model_dir, &checkpoint) < 0) {
        snprintf(message, size, "%s", mxw_last_error());
        return 0;
    }
    mxw_checkpoint_close(checkpoint);
    for (int i = 0; i < index; i++)
        if (!strcmp(g->models[i].id, m->id)) {
            snprintf(message, size, "--model: two models have the name '%s'", m->id);
            return 0;
        }
    return 1;
}

model_registry *models_open(server_context *s, char *message, size_t size) {
    int n = s->options->models.n;
    model_registry *g = calloc(1, sizeof(*g) + (size_t)n * sizeof(g->models[0]));
    if (!g) {
        snprintf(message, size, "out of memory: models");
        return NULL;
    }
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    pthread_cond_init(&g->ending, &attributes);
    pthread_condattr_destroy(&attributes);
    g->server = s;
    g->concurrency = choose_concurrency(s->options);
    for (; g->n < n; g->n++) {
        g->models[g->n].name = s->options->models.items[g->n];
        names_id_of(g->models[g->n].name, g->models[g->n].id, ID_SIZE);
        if (!check_model(g, g->n, message, size)) {
            models_close(g);
            return NULL;
        }
    }
    if (s->options->idle_unload_s != MXW_NONE)
        g->has_unloader = !pthread_create(&g->unloader, NULL, unload, g);
    return g;
}

void models_close(model_registry *g) {
    if (!g)
        return;
    pthread_mutex_lock(&g->lock);
    g->ends = 1;
    pthread_cond_signal(&g->ending);
    pthread_mutex_unlock(&g->lock);
    if (g->has_unloader)
        pthread_join(g->unloader, NULL);
    for (int i = 0; i < g->n; i++)
        close_loaded(g->models[i].loaded);
    pthread_cond_destroy(&g->ending);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

/* ---- use ------------------------------------------------------------------------------------------------ */

int models_find(const model_registry *g, const char *name) {
    if (!name || !*name)
        return 0;
    for (int i = 0; i < g->n; i++)
        if (!strcmp(g->models[i].id, name))
            return i;
    for (int i = 0; i < g->n; i++)
        if (names_match(g->models[i].id, name))
            return i;
    return names_is_openai(name) ? 0 : -1;
}

mxw_status models_acquire(server_context *s, const char *name, model_lease *lease) {
    model_registry *g = s->models;
    *lease = (model_lease){.index = models_find(g, name)};
    if (lease->index < 0) {
        snprintf(lease->message, sizeof(lease->message), "the model '%.100s' does not exist here; GET /v1/models lists "
                 "those that do", name);
        return MXW_E_NOT_FOUND;
    }
    served_model *m = &g->models[lease->index];
    lease->id = m->id;
    pthread_mutex_lock(&g->lock);
    mxw_status status = load_once(g, m, lease->message, sizeof(lease->message));
    if (status >= 0) {
        lease->loaded = m->loaded;
        lease->model = m->loaded->model;
        lease->slots = m->loaded->slots;
        m->loaded->n_holders++;
    }
    pthread_mutex_unlock(&g->lock);
    return status;
}

/* With the lock held, which is released while a retired model is closed. */
static void leave(model_registry *g, loaded_model *loaded) {
    if (--loaded->n_holders || !loaded->retired)
        return;
    pthread_mutex_unlock(&g->lock);
    close_loaded(loaded);
    pthread_mutex_lock(&g->lock);
}

void models_release(server_context *s, model_lease *lease) {
    model_registry *g = s->models;
    if (!lease->model)
        return;
    pthread_mutex_lock(&g->lock);
    g->models[lease->index].released_ns = server_now_ns();
    leave(g, lease->loaded);
    pthread_mutex_unlock(&g->lock);
    lease->model = NULL;
    lease->loaded = NULL;
}

void models_retire(server_context *s, const model_lease *lease) {
    model_registry *g = s->models;
    served_model *m = &g->models[lease->index];
    pthread_mutex_lock(&g->lock);
    int first = m->loaded == lease->loaded;
    if (first) {
        m->loaded->retired = 1;
        m->loaded = NULL;
        m->unloads++;
    }
    pthread_mutex_unlock(&g->lock);
    if (first)
        server_log(s, MXW_LOG_WARN, "%s: its file changed; the next request loads it again", lease->id);
}

const char *models_id(const model_registry *g, int index) {
    return index >= 0 && index < g->n ? g->models[index].id : NULL;
}

int models_is_loaded(model_registry *g, int index) {
    pthread_mutex_lock(&g->lock);
    int loaded = g->models[index].loaded != NULL;
    pthread_mutex_unlock(&g->lock);
    return loaded;
}

void models_counts(model_registry *g, int index, int64_t *loads, int64_t *unloads) {
    pthread_mutex_lock(&g->lock);
    *loads = g->models[index].loads;
    *unloads = g->models[index].unloads;
    pthread_mutex_unlock(&g->lock);
}

void models_visit(model_registry *g, int index, void (*fn)(void *user, const mxw_model *model), void *user) {
    served_model *m = &g->models[index];
    pthread_mutex_lock(&g->lock);
    loaded_model *loaded = m->loading ? NULL : m->loaded;
    if (loaded)
        loaded->n_holders++;
    pthread_mutex_unlock(&g->lock);
    if (!loaded)
        return;
    fn(user, loaded->model);
    pthread_mutex_lock(&g->lock);
    leave(g, loaded);
    pthread_mutex_unlock(&g->lock);
}

int models_concurrency(const model_registry *g) { return g->concurrency; }

int models_spare(const model_registry *g) {
    return g->concurrency / SPARE_SHARE > 1 ? g->concurrency / SPARE_SHARE : 1;
}
