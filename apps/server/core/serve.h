/* server/core/serve.h - a server from its start to the end of its drain. */
#ifndef SERVER_CORE_SERVE_H
#define SERVER_CORE_SERVE_H

#include "server.h"

/* As server_table.run. */
int serve_run(const server_options *options, const server_host *host);

#endif
