/* server: requests of an editor and their handlers. */
#ifndef SERVER_H
#define SERVER_H

#include "tools/lsp/documents.h"
#include "tools/lsp/wire.h"

typedef struct Server {
    Wire wire;
    Documents documents;
    bool asked_to_stop; /* by `shutdown` */
    bool broken;        /* the output is closed */
} Server;

/* Serves until `exit` or the end of the input: 0 when it was asked to stop first, else 1. */
int server_run(Server *server);

/* diagnostics.c: sends the errors and warnings of a document, of all its models. */
void publish_diagnostics(Server *server, Document *document);
/* A message to the editor that asks for no answer. */
void notify(Server *server, const char *method, json_t *params);

#endif
