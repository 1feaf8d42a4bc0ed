#include "tools/server/request.h"

#include "abi/utf8_cut.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

enum { SHOWN = 60 }; /* bytes of a header in a message */

bool admission_is_loopback(const char *address) {
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, address, &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, address, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

/* True if "NAME", "NAME:PORT" or "[ADDRESS]:PORT" names this server. Any port is accepted: a tunnel
 * changes it. A name that an attacker controls may resolve to this machine (DNS rebinding), so only
 * addresses and the name localhost count. */
static bool names_this_server(const Service *service, const char *host) {
    char name[64];
    bool bracket = *host == '[';
    size_t length = strcspn(host + bracket, bracket ? "]" : ":");
    const char *rest = host + bracket + length;
    if (length >= sizeof name || (bracket && *rest++ != ']')) return false;
    if (*rest && (*rest != ':' || rest[1 + strspn(rest + 1, "0123456789")])) return false;
    memcpy(name, host + bracket, length);
    name[length] = 0;
    return strcasecmp(name, "localhost") == 0 || strcasecmp(name, service->host) == 0 ||
           admission_is_loopback(name);
}

static bool origin_is_local(const Service *service, const char *origin) {
    const char *mark = strstr(origin, "://");
    return mark && names_this_server(service, mark + 3);
}

bool admission_open(const Service *service, const Headers *headers, Problem *problem) {
    if (service->key) return true;
    if (headers->host && !names_this_server(service, headers->host))
        return problem_set(problem, 403, NULL,
                           "the header 'Host: %.*s' does not name this server: connect to "
                           "localhost, 127.0.0.1 or [::1], or start the server with MOEC_API_KEY",
                           utf8_cut(headers->host, SHOWN), headers->host);
    if (headers->origin && !origin_is_local(service, headers->origin))
        return problem_set(problem, 403, NULL,
                           "the header 'Origin: %.*s' names another site: start the server with "
                           "MOEC_API_KEY to accept requests of its pages",
                           utf8_cut(headers->origin, SHOWN), headers->origin);
    return true;
}

/* Constant-time comparison for keys of equal length. */
static bool same_key(const char *given, const char *key) {
    size_t length = strlen(key), difference = strlen(given) ^ length;
    for (size_t i = 0; i < length && given[i]; i++)
        difference |= (unsigned char)given[i] ^ (unsigned char)key[i];
    return difference == 0;
}

bool admission_client(const Service *service, const Headers *headers, Problem *problem) {
    const char *given = headers->authorization, *scheme = "Bearer ";
    if (!admission_open(service, headers, problem)) return false;
    if (!service->key) return true;
    if (given && strncmp(given, scheme, strlen(scheme)) == 0 &&
        same_key(given + strlen(scheme), service->key))
        return true;
    return problem_set(problem, 401, NULL,
                       "this server requires an API key: send the header 'Authorization: Bearer "
                       "KEY'");
}

bool admission_body(const Headers *headers, Problem *problem) {
    static const char type[] = "application/json";
    const char *given = headers->content_type ? headers->content_type : "";
    size_t length = strcspn(given, "; \t");
    return (length == strlen(type) && strncasecmp(given, type, length) == 0) ||
           problem_set(problem, 415, NULL,
                       "the body must be JSON: send the header 'Content-Type: application/json'");
}
