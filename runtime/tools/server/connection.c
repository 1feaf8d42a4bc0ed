#include "tools/server/internal.h"

#include "base/memory.h"
#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

struct Connection {
    Connection *before, *after;
    int socket;
    double since;         /* the client's time began */
    TextRequest *request; /* NULL: the client's turn */
};

struct Connections {
    pthread_mutex_t lock;
    Connection *first;
};

Connections *connections_new(void) {
    Connections *connections = memory_new(sizeof *connections);
    pthread_mutex_init(&connections->lock, NULL);
    return connections;
}

void connections_free(Connections *connections) {
    pthread_mutex_destroy(&connections->lock);
    free(connections);
}

Connection *connection_add(Connections *connections, int socket) {
    Connection *connection = memory_new(sizeof *connection);
    connection->socket = socket;
    connection->since = seconds_now();
    pthread_mutex_lock(&connections->lock);
    connection->after = connections->first;
    if (connections->first) connections->first->before = connection;
    connections->first = connection;
    pthread_mutex_unlock(&connections->lock);
    return connection;
}

void connection_remove(Connections *connections, Connection *connection) {
    pthread_mutex_lock(&connections->lock);
    if (connection->before)
        connection->before->after = connection->after;
    else
        connections->first = connection->after;
    if (connection->after) connection->after->before = connection->before;
    pthread_mutex_unlock(&connections->lock);
    free(connection);
}

void connection_serves(Connections *connections, Connection *connection, TextRequest *request) {
    pthread_mutex_lock(&connections->lock);
    connection->request = request;
    connection->since = seconds_now();
    pthread_mutex_unlock(&connections->lock);
}

void connection_awaits_client(Connections *connections, Connection *connection) {
    connection_serves(connections, connection, NULL);
}

static bool has_gone(int socket) {
    char byte;
    ssize_t got = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

void connections_sweep(Connections *connections, double seconds) {
    double now = seconds_now();
    pthread_mutex_lock(&connections->lock);
    for (Connection *one = connections->first; one; one = one->after) {
        if (one->request && has_gone(one->socket)) atomic_store(&one->request->cancelled, true);
        bool late = now - one->since > seconds;
        if (!one->request && late) shutdown(one->socket, SHUT_RDWR);
    }
    pthread_mutex_unlock(&connections->lock);
}

bool connections_busy(Connections *connections) {
    bool busy = false;
    pthread_mutex_lock(&connections->lock);
    for (const Connection *one = connections->first; one; one = one->after)
        busy = busy || one->request;
    pthread_mutex_unlock(&connections->lock);
    return busy;
}
