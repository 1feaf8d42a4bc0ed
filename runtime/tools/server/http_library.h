/* The functions of libmicrohttpd. The library is opened when something is served: it brings those
 * of its cryptography, which would cost every other command 10 ms at its start. */
#ifndef SERVER_HTTP_LIBRARY_H
#define SERVER_HTTP_LIBRARY_H

#include <microhttpd.h>
#include <stdbool.h>

#define HTTP_FUNCTIONS(F)                                                                          \
    F(start_daemon)                                                                                \
    F(stop_daemon)                                                                                 \
    F(get_daemon_info)                                                                             \
    F(get_connection_info)                                                                         \
    F(lookup_connection_value)                                                                     \
    F(get_connection_values)                                                                       \
    F(suspend_connection)                                                                          \
    F(resume_connection)                                                                           \
    F(create_response_from_buffer)                                                                 \
    F(create_response_from_callback)                                                               \
    F(add_response_header)                                                                         \
    F(queue_response)                                                                              \
    F(destroy_response)

typedef struct HttpLibrary {
#define HTTP_MEMBER(name) __typeof__(MHD_##name) *name;
    HTTP_FUNCTIONS(HTTP_MEMBER)
#undef HTTP_MEMBER
} HttpLibrary;

extern HttpLibrary http;

/* Fills `http`; false after a message. */
bool http_library_open(void);
#endif
