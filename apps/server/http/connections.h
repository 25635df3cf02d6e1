/* server/http/connections.h - every connection that is open, and the clocks that it runs against.
 *
 * libmicrohttpd's own timeout counts inactivity, so that a byte a minute lives for ever, and would close a connection
 * whose handler computes for longer. It is off; a thread looks at all connections once a second instead and shuts the
 * socket of one that is late: headers that do not come, a connection kept alive but not used, a body or an answer that
 * moves too slowly. When connections become scarce, unused ones are given less time.
 */
#ifndef SERVER_HTTP_CONNECTIONS_H
#define SERVER_HTTP_CONNECTIONS_H

#include "http/request.h"

typedef enum connection_phase {
    CONNECTION_NEW,       /* no request yet */
    CONNECTION_IDLE,      /* kept alive, between two requests */
    CONNECTION_RECEIVING, /* a body is coming */
    CONNECTION_WORKING,   /* a handler computes; no limit but its own */
    CONNECTION_SENDING,   /* the answer goes out */
    CONNECTION_ENDING,    /* its request was given up while its body came */
    CONNECTION_UPGRADED   /* a WebSocket, which looks after itself */
} connection_phase;

typedef struct connection_record connection_record;
typedef struct connection_list connection_list;

connection_list *connections_open(server_context *s);
void connections_close(connection_list *list);
/* A new phase begins, or some bytes moved in this one. */
void connection_enter(connection_record *c, connection_phase phase);
void connection_moved(connection_record *c, size_t bytes);
/* Before a connection is closed whose client is still sending: at most so many bytes are read and dropped, for a few
 * seconds. A socket closed with bytes unread is reset, and with that the answer may be lost to the client. */
void connection_linger(connection_record *c, size_t most);
int connections_count(connection_list *list);

/* libmicrohttpd's callback. */
void connection_notify(void *server, struct MHD_Connection *connection, void **record,
                       enum MHD_ConnectionNotificationCode what);

#endif
