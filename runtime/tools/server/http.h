/* http: a service over HTTP/1.1, by libmicrohttpd. https://www.gnu.org/software/libmicrohttpd */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "tools/server/worker.h"

/* Serves at service->host until SIGINT or SIGTERM; port 0 selects a free port. Prints the URL, then
 * `line`. Returns false after a message. */
bool http_serve(Service *service, Model *model, long port, const char *line);

#endif
