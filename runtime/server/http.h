/* http: a service over HTTP/1.1, by libmicrohttpd. https://www.gnu.org/software/libmicrohttpd */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "server/worker.h"

/* Serves until a signal asks for the end. host: an address, port: 0 takes any; `line` is printed
 * behind the place that was taken. False after a message. */
bool http_serve(Service *service, Model *model, const char *host, long port, const char *line);
/* Whether only this machine reaches an address. */
bool http_is_loopback(const char *host);

#endif
