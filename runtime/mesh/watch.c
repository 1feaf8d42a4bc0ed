/* watch: observes the other processes, so that a run that cannot continue ends at once with one
 * message. Each process has a thread and a TCP connection to process 0. */
#include "mesh/internal.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/message.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <math.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ADDRESSES = 16, NAME_LENGTH = 48, BEAT_MS = 250, CONNECT_MS = 2000, HELLO_MS = 5000 };

/* Seconds: without the thread's turn, as in a suspended job, clocks start again, or half the limit
 * of a stall, if that is shorter; a process that fails waits so long for the same failure of
 * process 0; limit of a stall. */
static const double gap = 5, grace = 1.5, usual_limit = 60;

typedef enum PacketKind { HELLO, BEAT, FAILED, GOODBYE, ABORT } PacketKind;

typedef struct Packet {
    uint64_t token; /* of this run: a foreign connection does not know it */
    int32_t kind, rank;
    int64_t step, collective;
    int32_t inside, busy;
    uint32_t length; /* of the text that follows; FAILED only */
    char name[NAME_LENGTH];
} Packet;

/* A process as process 0 sees it, or process 0 as the others do. */
typedef struct Peer {
    int descriptor; /* -1: none */
    bool done;      /* its end is announced */
    double seen;    /* time of the last packet */
    Packet last;
} Peer;

struct Watchdog {
    Mesh *mesh;
    Peer *peers; /* of process 0: by rank; of another one: process 0 only */
    int peer_count;
    uint64_t token;
    int wake; /* an eventfd that ends the thread */
    atomic_bool ending;
    pthread_t thread;
    double limit;       /* of a stall, seconds */
    int64_t front;      /* the last collective that some process has begun */
    double front_since; /* when that was first seen */
    int failed;         /* rank with a message, or -1 */
    double failed_at;
    char *failed_text;
};

/* ---- packets ---- */

static Packet packet_of(const Watchdog *watch, PacketKind kind) {
    Activity *activity = &watch->mesh->activity;
    const char *busy = atomic_load(&activity->busy), *name = atomic_load(&activity->name);
    Packet packet = {
        .token = watch->token,
        .kind = kind,
        .rank = watch->mesh->rank,
        .step = atomic_load(&activity->step),
        .collective = atomic_load(&activity->collective),
        .inside = atomic_load(&activity->inside),
        .busy = busy != NULL,
    };
    snprintf(packet.name, sizeof packet.name, "%s", busy ? busy : name ? name : "");
    return packet;
}

/* A heartbeat is dropped if the other process does not read. */
static void send_packet(const Watchdog *watch, Peer *peer, PacketKind kind) {
    Packet packet = packet_of(watch, kind);
    if (peer->descriptor >= 0)
        socket_send(peer->descriptor, &packet, sizeof packet, kind == BEAT ? MSG_DONTWAIT : 0);
}

static void send_to_all(const Watchdog *watch, PacketKind kind) {
    for (int i = 0; i < watch->peer_count; i++) send_packet(watch, &watch->peers[i], kind);
}

/* ---- the end ---- */

/* Messages between begin and end are written at once: launchers print their own in between. */
typedef struct JoinedMessage {
    char *text;
    size_t length;
    FILE *file, *before;
} JoinedMessage;

static void joined_begin(JoinedMessage *joined) {
    joined->file = open_memstream(&joined->text, &joined->length);
    joined->before = message_to(joined->file);
    if (joined->before == stderr) joined->before = NULL;
}

static void joined_end(JoinedMessage *joined) {
    message_to(joined->before);
    if (joined->file) fclose(joined->file);
    if (joined->text) fputs(joined->text, stderr);
    free(joined->text);
}

/* Ends all processes from the thread of this one; its message is printed. */
static _Noreturn void abort_all(const Watchdog *watch) {
    send_to_all(watch, ABORT);
    _exit(interrupt_signal() ? 128 + interrupt_signal() : 1);
}

/* A process has ended without a message: killed, out of memory, or a crash. */
static void report_death(const Watchdog *watch, int rank, const Packet *last) {
    const Mesh *mesh = watch->mesh;
    JoinedMessage joined = {0};
    if (atomic_load(&watch->ending)) return;
    joined_begin(&joined);
    if (!interrupt_signal() && mesh->rank <= 1)
        error_message("--resume continues from the last checkpoint",
                      "rank %d of %d (%s) ended unexpectedly in step %lld, last collective %lld "
                      "(%s)",
                      rank, mesh->size, mesh->hosts[rank], (long long)last->step,
                      (long long)last->collective, last->name);
    joined_end(&joined);
    abort_all(watch);
}

static void report_stall(const Watchdog *watch, int rank, const Packet *last, double seconds) {
    const Mesh *mesh = watch->mesh;
    JoinedMessage joined = {0};
    joined_begin(&joined);
    error_message("--resume continues from the last checkpoint; MOEC_WATCHDOG_TIMEOUT sets the "
                  "limit in seconds",
                  "rank %d of %d (%s) does not continue in step %lld after collective %lld (%s); "
                  "the others have waited for %.0f s",
                  rank, mesh->size, mesh->hosts[rank], (long long)last->step,
                  (long long)last->collective, last->name, seconds);
    joined_end(&joined);
    abort_all(watch);
}

/* ---- the thread ---- */

static void receive(Watchdog *watch, Peer *peer, int rank) {
    Packet packet;
    if (socket_receive(peer->descriptor, &packet, sizeof packet)) {
        close(peer->descriptor);
        peer->descriptor = -1;
        if (!peer->done) report_death(watch, rank, &peer->last);
        return;
    }
    peer->seen = seconds_now();
    if (packet.kind == ABORT) abort_all(watch);
    if (packet.kind == GOODBYE) peer->done = true;
    if (packet.kind == FAILED) {
        char *text = memory_new(packet.length + 1);
        peer->done = true; /* it ends after our answer */
        if (socket_receive(peer->descriptor, text, packet.length)) text[0] = 0;
        if (watch->failed < 0) {
            watch->failed = rank;
            watch->failed_at = peer->seen;
            watch->failed_text = text;
        } else {
            free(text);
        }
    }
    peer->last = packet;
}

/* The own main thread, as a packet. */
static const Packet *state_of(const Watchdog *watch, int rank, Packet *own) {
    if (rank != watch->mesh->rank) return &watch->peers[rank].last;
    *own = packet_of(watch, BEAT);
    return own;
}

/* Process 0: finds a process that others have waited for too long. A process without heartbeats is
 * the first suspect, then one that has not begun the collective. */
static void check_stall(Watchdog *watch, double now) {
    const int size = watch->mesh->size;
    Packet own;
    int64_t front = 0;
    int missing = -1, silent = -1;
    bool first = false;
    for (int rank = 0; rank < size; rank++) {
        const Packet *state = state_of(watch, rank, &own);
        if (state->inside && state->collective > front) front = state->collective;
    }
    if (front != watch->front) watch->front_since = now;
    watch->front = front;
    if (!front) return;
    const double waited = now - watch->front_since;
    for (int rank = 0; rank < size; rank++) {
        const Packet *state = state_of(watch, rank, &own);
        bool begun = state->inside && state->collective == front;
        first |= state->step <= 1 || state->busy;
        if (!begun && missing < 0) missing = rank;
        if (rank && now - watch->peers[rank].seen > watch->limit / 2) silent = rank;
    }
    if (waited < watch->limit * (first && silent < 0 ? FIRST_FACTOR : 1)) return;
    const int rank = silent >= 0 ? silent : missing >= 0 ? missing : size - 1;
    report_stall(watch, rank, state_of(watch, rank, &own), waited);
}

/* Another process: process 0 does not answer. Only process 1 prints. */
static void check_silence(Watchdog *watch, double now) {
    const Peer *peer = &watch->peers[0];
    double silence = now - peer->seen;
    if (silence < watch->limit) return;
    if (watch->mesh->rank == 1) report_stall(watch, 0, &peer->last, silence);
    if (silence > watch->limit + 2) abort_all(watch);
}

static void check_failed(const Watchdog *watch, double now) {
    if (watch->failed < 0 || now - watch->failed_at < grace) return;
    const Mesh *mesh = watch->mesh;
    JoinedMessage joined = {0};
    joined_begin(&joined);
    line_message("rank %d of %d (%s) has failed:\n%s", watch->failed, mesh->size,
                 mesh->hosts[watch->failed], watch->failed_text);
    joined_end(&joined);
    abort_all(watch);
}

static void reset_clocks(Watchdog *watch, double now) {
    for (int i = 0; i < watch->peer_count; i++) watch->peers[i].seen = now;
    watch->front_since = now;
}

static void *observe(void *argument) {
    Watchdog *watch = argument;
    const bool center = watch->mesh->rank == 0;
    AUTO_FREE struct pollfd *polled = memory_new(sizeof *polled * (size_t)(watch->peer_count + 1));
    double last = seconds_now(), beat = 0;
    reset_clocks(watch, last);
    while (!atomic_load(&watch->ending)) {
        for (int i = 0; i < watch->peer_count; i++)
            polled[i] = (struct pollfd){.fd = watch->peers[i].descriptor, .events = POLLIN};
        polled[watch->peer_count] = (struct pollfd){.fd = watch->wake, .events = POLLIN};
        poll(polled, (nfds_t)watch->peer_count + 1, BEAT_MS);
        double now = seconds_now();
        if (now - last > fmin(gap, watch->limit / 2)) reset_clocks(watch, now);
        last = now;
        for (int i = 0; i < watch->peer_count; i++)
            if (polled[i].revents) receive(watch, &watch->peers[i], center ? i : 0);
        if (now - beat >= BEAT_MS / 1000.0) {
            send_to_all(watch, BEAT);
            beat = now;
        }
        if (!center && !watch->peers[0].done) check_silence(watch, now);
        if (center) check_stall(watch, now);
        if (center) check_failed(watch, now);
    }
    return NULL;
}

/* ---- connections ---- */

/* Where process 0 listens. */
typedef struct Rendezvous {
    uint64_t token;
    int port, count;
    struct in6_addr addresses[ADDRESSES]; /* of IPv4 too, in the mapped form */
} Rendezvous;

static struct in6_addr mapped(struct in_addr address) {
    struct in6_addr result = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(result.s6_addr + 12, &address, sizeof address);
    return result;
}

/* The addresses of this host that others can reach; of the loopback device if all are here. */
static void find_addresses(Rendezvous *meeting, bool local) {
    struct ifaddrs *all = NULL;
    if (local) {
        meeting->addresses[meeting->count++] = mapped((struct in_addr){htonl(INADDR_LOOPBACK)});
        return;
    }
    if (getifaddrs(&all) != 0) return;
    for (struct ifaddrs *one = all; one && meeting->count < ADDRESSES; one = one->ifa_next) {
        if (!one->ifa_addr || !(one->ifa_flags & IFF_UP) || (one->ifa_flags & IFF_LOOPBACK))
            continue;
        const void *address = one->ifa_addr;
        if (one->ifa_addr->sa_family == AF_INET)
            meeting->addresses[meeting->count++] =
                mapped(((const struct sockaddr_in *)address)->sin_addr);
        else if (one->ifa_addr->sa_family == AF_INET6 &&
                 !((const struct sockaddr_in6 *)address)->sin6_scope_id)
            meeting->addresses[meeting->count++] =
                ((const struct sockaddr_in6 *)address)->sin6_addr;
    }
    freeifaddrs(all);
}

static int new_socket(struct in6_addr address, int port, struct sockaddr_storage *name,
                      socklen_t *length) {
    memset(name, 0, sizeof *name);
    if (IN6_IS_ADDR_V4MAPPED(&address)) {
        struct sockaddr_in *four = (struct sockaddr_in *)name;
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)port);
        memcpy(&four->sin_addr, address.s6_addr + 12, sizeof four->sin_addr);
        *length = sizeof *four;
    } else {
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)name;
        six->sin6_family = AF_INET6;
        six->sin6_port = htons((uint16_t)port);
        six->sin6_addr = address;
        *length = sizeof *six;
    }
    return socket(name->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/* A listening socket on the loopback device, or on all; -1 if it cannot be made. */
static int listen_at(Rendezvous *meeting, bool local, int backlog) {
    struct sockaddr_storage name;
    socklen_t length;
    struct in6_addr any = in6addr_any;
    int off = 0, descriptor = new_socket(local ? meeting->addresses[0] : any, 0, &name, &length);
    if (descriptor < 0 && !local)
        descriptor = new_socket(mapped((struct in_addr){htonl(INADDR_ANY)}), 0, &name, &length);
    if (descriptor < 0) return -1;
    if (name.ss_family == AF_INET6)
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(descriptor, (struct sockaddr *)&name, length) != 0 ||
        listen(descriptor, backlog) != 0 ||
        getsockname(descriptor, (struct sockaddr *)&name, &length) != 0) {
        close(descriptor);
        return -1;
    }
    meeting->port = ntohs(name.ss_family == AF_INET ? ((struct sockaddr_in *)&name)->sin_port
                                                    : ((struct sockaddr_in6 *)&name)->sin6_port);
    return descriptor;
}

static bool wait_for(int descriptor, short events, int milliseconds) {
    struct pollfd polled = {.fd = descriptor, .events = events};
    int ready;
    do ready = poll(&polled, 1, milliseconds);
    while (ready < 0 && errno == EINTR);
    return ready > 0;
}

/* Connects to the first address that answers; -1 if none does. */
static int connect_to(const Rendezvous *meeting) {
    for (int i = 0; i < meeting->count; i++) {
        struct sockaddr_storage name;
        socklen_t length, size = sizeof(int);
        int error = 0,
            descriptor = new_socket(meeting->addresses[i], meeting->port, &name, &length);
        if (descriptor < 0) continue;
        fcntl(descriptor, F_SETFL, O_NONBLOCK);
        bool good = connect(descriptor, (struct sockaddr *)&name, length) == 0 ||
                    (errno == EINPROGRESS && wait_for(descriptor, POLLOUT, CONNECT_MS) &&
                     getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && !error);
        if (good) {
            fcntl(descriptor, F_SETFL, 0);
            return descriptor;
        }
        close(descriptor);
    }
    return -1;
}

/* Process 0: accepts the connections of `count` processes; others without the token are closed. */
static void accept_all(Watchdog *watch, int listening, int count) {
    while (count > 0 && wait_for(listening, POLLIN, HELLO_MS)) {
        int descriptor = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
        Packet hello;
        if (descriptor < 0) continue;
        if (wait_for(descriptor, POLLIN, HELLO_MS) &&
            !socket_receive(descriptor, &hello, sizeof hello) && hello.token == watch->token &&
            hello.kind == HELLO && hello.rank > 0 && hello.rank < watch->peer_count) {
            watch->peers[hello.rank].descriptor = descriptor;
            watch->peers[hello.rank].last = hello;
            count--;
        } else {
            close(descriptor);
        }
    }
}

/* Connects every process with process 0; collective. */
static void meet(Watchdog *watch) {
    Mesh *mesh = watch->mesh;
    Rendezvous meeting = {0};
    const bool local = mesh->host_count == 1;
    int listening = -1, connected = 1;
    if (mesh->rank == 0) {
        if (getrandom(&meeting.token, sizeof meeting.token, 0) < 0) meeting.token = 0;
        find_addresses(&meeting, local);
        listening = listen_at(&meeting, local, mesh->size);
    }
    mesh_broadcast(mesh, "start", 0, &meeting, sizeof meeting);
    watch->token = meeting.token;
    if (mesh->rank) {
        Peer *center = &watch->peers[0];
        center->descriptor = connect_to(&meeting);
        connected = center->descriptor >= 0;
        send_packet(watch, center, HELLO);
    }
    int *all = memory_new(sizeof *all * (size_t)mesh->size), count = 0;
    all[mesh->rank] = connected;
    mesh_gather(mesh, "start", all, sizeof *all);
    for (int rank = 1; rank < mesh->size; rank++) count += all[rank];
    if (mesh->rank == 0 && listening >= 0) accept_all(watch, listening, count);
    if (mesh->rank == 0 && count < mesh->size - 1)
        note_message("%d of %d ranks have no connection to rank 0 (%s): only the launcher reports "
                     "their failures",
                     mesh->size - 1 - count, mesh->size - 1, mesh->hosts[0]);
    if (listening >= 0) close(listening);
    free(all);
}

bool watch_limit(double *limit) {
    return seconds_limit("MOEC_WATCHDOG_TIMEOUT", usual_limit, limit);
}

Watchdog *watch_start(Mesh *mesh) {
    Watchdog *watch = memory_new(sizeof *watch);
    watch->mesh = mesh;
    watch->peer_count = mesh->rank ? 1 : mesh->size;
    watch->peers = memory_new(sizeof *watch->peers * (size_t)watch->peer_count);
    for (int i = 0; i < watch->peer_count; i++) watch->peers[i].descriptor = -1;
    watch_limit(&watch->limit);
    watch->failed = -1;
    watch->wake = eventfd(0, EFD_CLOEXEC);
    meet(watch);
    if (watch->wake >= 0 && pthread_create(&watch->thread, NULL, observe, watch) == 0) return watch;
    free(watch->peers);
    free(watch);
    return NULL;
}

static void stop_thread(Watchdog *watch) {
    const uint64_t one = 1;
    atomic_store(&watch->ending, true);
    if (write(watch->wake, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(watch->thread, NULL);
}

/* Reads until the other process closes its end: closing before with unread heartbeats would reset
 * the connection, and the other process would lose the packet that announces the end. */
static void close_after(int descriptor) {
    char bytes[256];
    shutdown(descriptor, SHUT_WR);
    while (wait_for(descriptor, POLLIN, HELLO_MS) && recv(descriptor, bytes, sizeof bytes, 0) > 0) {
    }
    close(descriptor);
}

void watch_end(Watchdog *watch) {
    if (!watch) return;
    stop_thread(watch);
    send_to_all(watch, GOODBYE);
    for (int i = 0; i < watch->peer_count; i++)
        if (watch->peers[i].descriptor >= 0) close_after(watch->peers[i].descriptor);
    close(watch->wake);
    free(watch->failed_text);
    free(watch->peers);
    free(watch);
}

/* Sends the message to process 0 and waits for its answer, which means that a message was printed.
 * False without an answer. */
static bool hand_over(const Watchdog *watch, const char *text) {
    int descriptor = watch->peers[0].descriptor;
    Packet packet = packet_of(watch, FAILED);
    packet.length = (uint32_t)strlen(text);
    if (descriptor < 0 || socket_send(descriptor, &packet, sizeof packet, 0) ||
        socket_send(descriptor, text, packet.length, 0))
        return false;
    while (wait_for(descriptor, POLLIN, HELLO_MS))
        if (socket_receive(descriptor, &packet, sizeof packet) || packet.kind == ABORT) return true;
    return false;
}

void watch_fail(Mesh *mesh, const char *text) {
    Watchdog *watch = mesh->watch;
    if (watch) stop_thread(watch);
    if (watch && mesh->rank == 0) send_to_all(watch, ABORT);
    if (mesh->rank && !(watch && hand_over(watch, text))) fputs(text, stderr);
    fflush(stdout);
    _exit(1);
}
