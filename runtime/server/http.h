/* http: a service over HTTP/1.1, by libmicrohttpd. https://www.gnu.org/software/libmicrohttpd */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "server/worker.h"

/* Serves at service->host until a signal asks for the end; port 0 takes any free port. Prints the
 * URL, then `line`. Returns false after a message. */
bool http_serve(Service *service, Model *model, long port, const char *line);

#endif
