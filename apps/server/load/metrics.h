/* server/load/metrics.h - what the server did, in numbers; GET /metrics in the text format of Prometheus.
 *
 * Invariants: labels are routes, statuses and models of the server, never anything that a client chose; counting takes
 * a lock for moments only.
 */
#ifndef SERVER_LOAD_METRICS_H
#define SERVER_LOAD_METRICS_H

#include "http/request.h"

typedef struct server_metrics server_metrics;

server_metrics *metrics_open(void);
void metrics_close(server_metrics *m);
/* A request ended. route: the path in routes.def; NULL: none. */
void metrics_request(server_metrics *m, const char *route, const char *method, int status, double seconds,
                     size_t bytes);
/* A recording ended; outcome: "done", "failed", "cancelled". */
void metrics_recording(server_metrics *m, int model, const char *outcome, double audio_s, double waited_s,
                       double worked_s);
/* A live socket sent so many seconds of sound, of which the work took so long. */
void metrics_live(server_metrics *m, int model, double audio_s, double worked_s);

extern const route_handler handler_metrics;

#endif
