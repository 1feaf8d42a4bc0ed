/* admission: which requests are answered at all, judged by their headers: Host and Origin, the key,
 * the type of the body. */
#ifndef SERVER_ADMISSION_H
#define SERVER_ADMISSION_H

#include "tools/server/request.h"

/* Values of headers; NULL: the request has none. */
typedef struct Headers {
    const char *host, *origin, *authorization, *content_type;
} Headers;

/* Checks Host and Origin, then the key. A server with a key accepts any Host and Origin: a web page
 * of another site does not have the key. Returns false after setting *problem. */
bool admission_client(const Service *service, const Headers *headers, Problem *problem);
/* The key alone is not asked for; Host and Origin are. */
bool admission_open(const Service *service, const Headers *headers, Problem *problem);
/* Checks that the body is declared as JSON. */
bool admission_body(const Headers *headers, Problem *problem);
/* True if only this machine can connect to the address. */
bool admission_is_loopback(const char *address);

#endif
