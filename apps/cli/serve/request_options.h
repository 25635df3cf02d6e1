/* cli/serve/request_options.h - the options of `transcribe` as fields of a request, for the server (server/server.h).
 *
 * Invariants: a field is read by the row of the command line's table, so that names, ranges and defaults are the same;
 * what concerns files, devices and the screen is no field.
 */
#ifndef CLI_SERVE_REQUEST_OPTIONS_H
#define CLI_SERVE_REQUEST_OPTIONS_H

#include "server/server.h"

/* Everything of the host but log and ready. */
void request_options_host(server_host *host);

#endif
