/* sockets: whole messages through a connection, and its options. */
#include "mesh/internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

int socket_send(int descriptor, const void *bytes, size_t length, int flags) {
    for (size_t done = 0; done < length;) {
        ssize_t part = send(descriptor, (const char *)bytes + done, length - done,
                            MSG_NOSIGNAL | (done ? 0 : flags));
        if (part < 0 && errno == EINTR) continue;
        if (part < 0) return errno;
        done += (size_t)part;
    }
    return 0;
}

int socket_receive(int descriptor, void *bytes, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t part = recv(descriptor, (char *)bytes + done, length - done, 0);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0) return part ? errno : ECONNRESET;
        done += (size_t)part;
    }
    return 0;
}

void socket_options(int descriptor) {
    const int on = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

void socket_wait(int descriptor, long seconds) {
    const struct timeval time = {.tv_sec = seconds};
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
}
