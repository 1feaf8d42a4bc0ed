/* server: the language server, its messages and its documents. */
#ifndef LSP_SERVER_H
#define LSP_SERVER_H

#include "moec.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* wire: messages of the Language Server Protocol, each after a header with its length. */

enum { LONGEST_MESSAGE = 64 << 20 };

typedef struct Wire {
    int in, out;
    char *bytes; /* that came and are not read yet */
    size_t length, capacity;
    bool ended; /* nothing more will come */
} Wire;

/* Waits for a message for at most `milliseconds` (-1: no limit). NULL on timeout, at the end of
 * input, or on an invalid header; *broken is true in the last two cases. Invalid JSON results in an
 * empty object. */
json_t *wire_read(Wire *wire, int milliseconds, bool *broken);
/* Writes one and lets go of it; false when nobody reads. */
bool wire_write(Wire *wire, json_t *message);
void wire_close(Wire *wire);

/* documents: the open documents of the editor. Positions are those of the protocol: lines from 0,
 * characters in UTF-16 code units. */

typedef struct Document {
    char *uri, *path, *text;
    size_t length;
    bool changed; /* since it was judged last */
} Document;

typedef struct Documents {
    Document *items;
    int count, capacity;
} Documents;

Document *document_find(const Documents *documents, const char *uri); /* NULL: it is not open */
/* Opens a document or replaces its text. */
void document_set(Documents *documents, const char *uri, const char *text, size_t length);
void document_close(Documents *documents, const char *uri);
void documents_free(Documents *documents);
/* The compiler's view, this one first; *list is to be freed after moec_close. */
MoecCompiler *document_open(const Documents *documents, const Document *document,
                            const char *model);

/* A file: URI of an absolute path, a new string. */
char *uri_of_path(const char *path);
size_t offset_of_position(const char *text, size_t length, const json_t *position);
json_t *text_range(const char *text, size_t start, size_t end);

/* server: requests of an editor and their handlers. */

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
