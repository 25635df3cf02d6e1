/* server/http/routes.c - see routes.h. */
#include "http/routes.h"

#include <stdio.h>
#include <string.h>

#include "core/health.h"
#include "load/metrics.h"
#include "models/list.h"
#include "page/handler.h"
#include "realtime/handshake.h"
#include "realtime/secrets.h"
#include "transcriptions/transcriptions.h"

static const http_route routes[] = {
#define ROUTE(method, path, open, handler) {method, path, open, &handler},
#include "http/routes.def"
#undef ROUTE
    {NULL, NULL, 0, NULL},
};

static int matches(const http_route *route, const char *path, const char **rest) {
    size_t n = strlen(route->path);
    *rest = NULL;
    if (n < 2 || strcmp(route->path + n - 2, "/:"))
        return !strcmp(route->path, path);
    if (strncmp(route->path, path, n - 1) || !path[n - 1] || strchr(path + n - 1, '/'))
        return 0;
    *rest = path + n - 1;
    return 1;
}

const http_route *routes_find(const char *method, const char *path, const char **rest) {
    for (const http_route *route = routes; route->method; route++)
        if (!strcmp(route->method, strcmp(method, "HEAD") ? method : "GET") && matches(route, path, rest))
            return route;
    *rest = NULL;
    return NULL;
}

int routes_methods(const char *path, char *list, size_t size) {
    const char *rest;
    int n = 0;
    list[0] = 0;
    for (const http_route *route = routes; route->method; route++) {
        if (!matches(route, path, &rest))
            continue;
        size_t used = strlen(list);
        snprintf(list + used, size - used, "%s%s", n++ ? ", " : "", route->method);
        if (!strcmp(route->method, "GET")) {
            used = strlen(list);
            snprintf(list + used, size - used, ", HEAD");
        }
    }
    return n;
}
