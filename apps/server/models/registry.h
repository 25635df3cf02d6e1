/* server/models/registry.h - the models of --model: found by a request's name for them, loaded when first needed,
 * unloaded after a while without use.
 *
 * Invariants: a model that somebody holds stays loaded; it is loaded once, and all who need it wait for that. A model
 * whose file changed is retired: those who hold it keep it, and everybody after them gets one loaded from the new file.
 */
#ifndef SERVER_MODELS_REGISTRY_H
#define SERVER_MODELS_REGISTRY_H

#include "core/server_context.h"

typedef struct model_registry model_registry;

/* Slots of a model's batch besides --concurrency: for short recordings, which need not wait for long ones, and for the
 * passes of live streams, which take a slot for moments only (mxw_live). */
enum { SPARE_SHARE = 4 }; /* of concurrency, one in so many; at least one of each kind */

typedef struct model_lease {
    const char *id;      /* as GET /v1/models has it; lives with the server */
    int index;           /* of the model, from 0 */
    mxw_model *model;
    struct loaded_model *loaded; /* the registry's */
    int slots;           /* that there was memory for, long and short recordings together */
    char message[1024];  /* of a failure */
} model_lease;

/* NULL with a line in message: no such model on this machine, or two with the same name. */
model_registry *models_open(server_context *s, char *message, size_t size);
void models_close(model_registry *registry);
/* The model that a request calls so, loaded; NULL, "" and OpenAI's names mean the default. E_NOT_FOUND: there is none
 * of that name; other failures are those of loading it. Each success has its models_release. */
mxw_status models_acquire(server_context *s, const char *name, model_lease *lease);
void models_release(server_context *s, model_lease *lease);
/* After MXW_E_STATE of a session or stream of this lease: the file of the model changed while it was open. */
void models_retire(server_context *s, const model_lease *lease);
/* Index of the model that a request calls so, or -1; without loading it. */
int models_find(const model_registry *registry, const char *name);
/* By index: id, NULL past the end; and what is known of it. */
const char *models_id(const model_registry *registry, int index);
int models_is_loaded(model_registry *registry, int index);
/* Loads and unloads so far. */
void models_counts(model_registry *registry, int index, int64_t *loads, int64_t *unloads);
/* Calls fn with the model if it is loaded, and holds it meanwhile. */
void models_visit(model_registry *registry, int index, void (*fn)(void *user, const mxw_model *model), void *user);
/* Recordings at once: --concurrency, or what suits the device. */
int models_concurrency(const model_registry *registry);
/* Short recordings besides; and as many again for live streams. */
int models_spare(const model_registry *registry);

#endif
