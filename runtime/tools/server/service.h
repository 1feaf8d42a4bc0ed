/* service: data shared by all requests: the tokens of the model and the limits. */
#ifndef SERVER_SERVICE_H
#define SERVER_SERVICE_H

#include "model/speech.h"
#include "tools/server/metrics.h"

typedef struct Template Template;

typedef struct Service {
    const char *name; /* of the model */
    const Tokenizer *tokenizer;
    Writing writing;
    const Template *template; /* of chats; NULL: there is none */
    long vocabulary;
    long context;     /* tokens of a text, at most */
    long rows;        /* texts in a batch */
    long queue;       /* texts that wait, at most */
    long connections; /* open at a time */
    size_t body;      /* bytes of a request, at most */
    double timeout;   /* seconds for an answer */
    double patience;  /* seconds for a client to send a request or to read an answer */
    long started;     /* seconds since 1970 */
    const char *host; /* the address that it listens at */
    const char *key;  /* that clients must show, or NULL */
    Metrics metrics;
} Service;

#endif
