/* connection: the connections that are open, so that those that take too long, or whose client has
 * gone while it waits, can be ended. */
#ifndef SERVER_CONNECTION_H
#define SERVER_CONNECTION_H

#include "server/request.h"

typedef struct Connection Connection;
typedef struct Connections Connections;

/* None yet. Freed when all connections have been removed. */
Connections *connections_new(void);
void connections_free(Connections *connections);
Connection *connection_add(Connections *connections, int socket);
void connection_remove(Connections *connections, Connection *connection);
/* The client is to do something, a request or the reading of an answer: its time begins anew. */
void connection_awaits_client(Connections *connections, Connection *connection);
/* The client waits for this. */
void connection_serves(Connections *connections, Connection *connection, Request *request);
/* Cancels what clients that have gone asked for, shuts connections that took longer than so many
 * seconds. */
void connections_sweep(Connections *connections, double seconds);
/* Whether a client waits for an answer. */
bool connections_busy(Connections *connections);

#endif
