/* http: a service over HTTP/1.1, by libmicrohttpd, with its limits and metrics.
 * https://www.gnu.org/software/libmicrohttpd */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "model/generate/grammar.h"
#include "model/decoder.h"
#include "model/generate/speech.h"
#include "tokenizer/text/text.h"

#include <stdatomic.h>

/* metrics: counters of the server in the text format of Prometheus.
 * https://prometheus.io/docs/instrumenting/exposition_formats */

enum { BUCKETS = 12 };

typedef struct Histogram {
    atomic_ulong buckets[BUCKETS + 1]; /* the last: longer than all */
    atomic_ulong microseconds;
} Histogram;

typedef struct Metrics {
    atomic_ulong answers[6];                       /* by hundreds of their status */
    atomic_ulong prompt_tokens, cached_tokens;     /* cached: those that were not computed again */
    atomic_ulong made_tokens, steps, rows;         /* rows: those of all steps together */
    atomic_ulong proposed_tokens, accepted_tokens; /* by speculation */
    atomic_long connections, waiting, active;
    atomic_long cache_bytes; /* of saved prefixes */
    Histogram seconds, first_token;
} Metrics;

/* Adds one event with its duration; thread-safe. */
void metrics_time(Histogram *histogram, double seconds);
/* Adds them in the text format of Prometheus. */
void metrics_text(Metrics *metrics, Text *out);

/* service: data shared by all requests: the tokens of the model and the limits. */

typedef struct Template Template;

typedef struct Service {
    const char *name; /* of the model */
    const Tokenizer *tokenizer;
    Writing writing;
    const Template *template; /* of chats; NULL: there is none */
    TokenBytes *bytes;        /* of the tokens, made for the first grammar */
    long vocabulary;
    long context;        /* tokens of a text, at most */
    long rows;           /* texts that run side by side */
    size_t prefix_cache; /* bytes of saved prefixes, at most */
    Decoder *draft;      /* proposes tokens; NULL: none, or the model itself */
    int proposals;       /* of a step, at most; 0: no speculation */
    long queue;          /* texts that wait, at most */
    long connections;    /* open at a time */
    size_t body;         /* bytes of a request, at most */
    double timeout;      /* seconds for an answer */
    double patience;     /* seconds for a client to send a request or to read an answer */
    long started;        /* seconds since 1970 */
    const char *host;    /* the address that it listens at */
    const char *key;     /* that clients must show, or NULL */
    Metrics metrics;
} Service;

/* Serves at service->host until SIGINT or SIGTERM; port 0 selects a free port. Prints the URL, then
 * `line`. Returns false after a message. */
bool http_serve(Service *service, Model *model, long port, const char *line);

#endif
