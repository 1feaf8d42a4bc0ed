/* documents: the open documents of the editor. Positions are those of the protocol: lines from 0,
 * characters in UTF-16 code units. */
#ifndef DOCUMENTS_H
#define DOCUMENTS_H

#include "moec.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

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

#endif
