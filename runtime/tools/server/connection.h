/* connection: open connections, with timeouts and detection of disconnected clients. */
#ifndef SERVER_CONNECTION_H
#define SERVER_CONNECTION_H

#include "tools/server/request.h"

typedef struct Connection Connection;
typedef struct Connections Connections;

/* None yet. Freed when all connections have been removed. */
Connections *connections_new(void);
void connections_free(Connections *connections);
Connection *connection_add(Connections *connections, int socket);
void connection_remove(Connections *connections, Connection *connection);
/* Restarts the timeout: the client must send a request or read an answer. */
void connection_awaits_client(Connections *connections, Connection *connection);
/* The client waits for this. */
void connection_serves(Connections *connections, Connection *connection, Request *request);
/* Cancels the requests of disconnected clients, and closes connections after `seconds` without
 * progress of the client. */
void connections_sweep(Connections *connections, double seconds);
/* Whether a client waits for an answer. */
bool connections_busy(Connections *connections);

#endif
