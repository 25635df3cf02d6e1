/* server/http/routes.h - which handler a request belongs to. */
#ifndef SERVER_HTTP_ROUTES_H
#define SERVER_HTTP_ROUTES_H

#include "http/request.h"

/* The route of method and path; NULL: none. *rest is where a variable last part begins, else NULL. */
const http_route *routes_find(const char *method, const char *path, const char **rest);
/* The methods that a path has, as in the header Allow; 0: there is no such path. */
int routes_methods(const char *path, char *list, size_t size);

#endif
