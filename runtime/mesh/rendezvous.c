/* rendezvous: messages between process 0 and the others by sockets, for launchers without MPI.
 * Process 0 listens at MASTER_ADDR and MASTER_PORT, or at the next port if an agent of torchrun
 * uses this one. Gradients are copied by NCCL. */
#include "mesh/internal.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/message.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* First bytes of a connection. */
typedef struct Greeting {
    char mark[12];
    int32_t abi, rank, size;
} Greeting;

/* Seconds: limit of a stall, of which WAITS are the longest start; for a greeting; for a message of
 * another process. */
enum { USUAL_LIMIT = 60, WAITS = 5, STRANGER = 2, FOR_OTHERS = 3 };

static struct {
    int rank, size;
    int *peers; /* of process 0: by rank; of another one: process 0 */
} own;

static Greeting greeting_of(int rank) {
    Greeting greeting = {.abi = MESH_LIBRARY_ABI, .rank = rank, .size = own.size};
    memcpy(greeting.mark, "moec mesh 1", sizeof greeting.mark);
    return greeting;
}

/* The port, or -1. */
static int port_of(void) {
    const char *text = getenv("MASTER_PORT"), *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    char *end = NULL;
    const long port = text ? strtol(text, &end, 10) : -1;
    if (!end || end == text || *end || port < 1 || port >= USHRT_MAX) return -1;
    return (int)port + (agent && strcmp(agent, "True") == 0);
}

bool rendezvous_check(const ProcessGroup *launch) {
    const char *address = getenv("MASTER_ADDR");
    if (address && *address && port_of() > 0) return true;
    return error_message("start with torchrun, or set MASTER_ADDR to the host of rank 0 and "
                         "MASTER_PORT to a free port of it, such as 29500",
                         "RANK and WORLD_SIZE are set (%d processes), but MASTER_ADDR or "
                         "MASTER_PORT is missing or wrong",
                         launch->size);
}

/* Seconds until all processes must have started. */
static double longest_start(void) {
    double limit = 0;
    seconds_limit("MOEC_WATCHDOG_TIMEOUT", USUAL_LIMIT, &limit);
    return WAITS * limit;
}

/* ---- connections ---- */

/* Accepts one process; a connection without a greeting of this run is closed. */
static void accept_one(int listening) {
    Greeting greeting, expected = greeting_of(0);
    const int descriptor = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    if (descriptor < 0) return;
    socket_wait(descriptor, STRANGER);
    bool good = !socket_receive(descriptor, &greeting, sizeof greeting);
    expected.rank = greeting.rank;
    good = good && memcmp(&greeting, &expected, sizeof greeting) == 0 && greeting.rank > 0 &&
           greeting.rank < own.size && own.peers[greeting.rank] < 0;
    if (!good || socket_send(descriptor, &expected, sizeof expected, 0)) {
        close(descriptor);
        return;
    }
    socket_wait(descriptor, 0);
    socket_options(descriptor);
    own.peers[greeting.rank] = descriptor;
}

static int missing_rank(void) {
    for (int rank = 1; rank < own.size; rank++)
        if (own.peers[rank] < 0) return rank;
    return 0;
}

static bool listen_for_others(int port) {
    const int on = 1, off = 0, listening = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(listening, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(listening, (const struct sockaddr *)&name, sizeof name) != 0 ||
        listen(listening, own.size) != 0) {
        error_message("set MASTER_PORT to a free port, the same for all processes",
                      "rank 0 cannot listen on port %d: %s", port, strerror(errno));
        close(listening);
        return false;
    }
    const double began = seconds_now(), longest = longest_start();
    socket_wait(listening, 1); /* also of accept */
    while (missing_rank() && seconds_now() - began < longest) accept_one(listening);
    close(listening);
    if (!missing_rank()) return true;
    return error_message(
        "start all processes with the same WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
        "rank %d of %d has not connected to port %d of rank 0 in %.0f s", missing_rank(), own.size,
        port, longest);
}

/* A connection to process 0, or -1. */
static int try_address(const struct addrinfo *address) {
    Greeting own_greeting = greeting_of(own.rank), answer;
    const int descriptor = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return -1;
    socket_wait(descriptor, (long)longest_start() + STRANGER);
    if (connect(descriptor, address->ai_addr, address->ai_addrlen) == 0 &&
        !socket_send(descriptor, &own_greeting, sizeof own_greeting, 0) &&
        !socket_receive(descriptor, &answer, sizeof answer) &&
        memcmp(&answer, &own_greeting, sizeof answer) == 0) {
        socket_wait(descriptor, 0);
        socket_options(descriptor);
        return descriptor;
    }
    close(descriptor);
    return -1;
}

static bool connect_to_first(int port) {
    const char *host = getenv("MASTER_ADDR");
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const double began = seconds_now(), longest = longest_start();
    char service[16];
    int found = -1;
    snprintf(service, sizeof service, "%d", port);
    while (found < 0 && seconds_now() - began < longest) {
        struct addrinfo *all = NULL;
        if (getaddrinfo(host, service, &hints, &all) == 0) {
            for (struct addrinfo *one = all; one && found < 0; one = one->ai_next)
                found = try_address(one);
            freeaddrinfo(all);
        }
        if (found < 0) nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    own.peers[0] = found;
    return found >= 0 ||
           error_message("set MASTER_ADDR to the host of rank 0, and start all processes with the "
                         "same WORLD_SIZE and MASTER_PORT",
                         "rank %d of %d cannot connect to rank 0 at %s, port %d, in %.0f s",
                         own.rank, own.size, host, port, longest);
}

/* ---- the library ---- */

static int socket_start(int *rank, int *size, char *version) {
    own.rank = *rank;
    own.size = *size;
    own.peers = memory_new(sizeof *own.peers * (size_t)own.size);
    for (int i = 0; i < own.size; i++) own.peers[i] = -1;
    snprintf(version, LIBRARY_TEXT, "sockets");
    return !(own.rank ? connect_to_first(port_of()) : listen_for_others(port_of()));
}

static int socket_end(void) {
    for (int i = 0; i < own.size; i++)
        if (own.peers[i] >= 0) close(own.peers[i]);
    free(own.peers);
    return 0;
}

/* A process has ended: its message comes first, from watch.c. */
static int socket_ended_by(int error) {
    if (error) sleep(FOR_OTHERS);
    return error;
}

static int broadcast_from_first(void *bytes, size_t length) {
    int error = 0;
    if (own.rank) return socket_receive(own.peers[0], bytes, length);
    for (int i = 1; i < own.size && !error; i++)
        error = socket_send(own.peers[i], bytes, length, 0);
    return error;
}

static int socket_gather(void *all, size_t length) {
    char *row = all;
    int error = 0;
    if (own.rank) error = socket_send(own.peers[0], row + (size_t)own.rank * length, length, 0);
    for (int i = 1; i < own.size && !own.rank && !error; i++)
        error = socket_receive(own.peers[i], row + (size_t)i * length, length);
    return socket_ended_by(error ? error : broadcast_from_first(all, length * (size_t)own.size));
}

static int socket_broadcast(void *bytes, size_t length, int root) {
    int error = 0;
    if (root && own.rank == root) error = socket_send(own.peers[0], bytes, length, 0);
    if (root && own.rank == 0) error = socket_receive(own.peers[root], bytes, length);
    return socket_ended_by(error ? error : broadcast_from_first(bytes, length));
}

static int socket_transfer(const MeshTransfer *transfers, int count) {
    int error = 0;
    for (int i = 0; i < count && !error; i++) {
        const MeshTransfer *one = &transfers[i];
        error = one->sends ? socket_send(own.peers[one->peer], one->bytes, one->length, 0)
                           : socket_receive(own.peers[one->peer], one->bytes, one->length);
    }
    return socket_ended_by(error);
}

static void socket_describe(int error, char *text) {
    snprintf(text, LIBRARY_TEXT, "%s", strerror(error));
}

const MeshLibrary rendezvous_library = {.abi = MESH_LIBRARY_ABI,
                                        .name = "the connection to rank 0",
                                        .start = socket_start,
                                        .end = socket_end,
                                        .gather = socket_gather,
                                        .broadcast = socket_broadcast,
                                        .transfer = socket_transfer,
                                        .describe = socket_describe};
