#include "tools/lsp/server.h"

#include "abi/json_make.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- URIs ---- */

static int hex(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    digit |= 0x20;
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* The path of a file: URI; of another one, itself, which no file has. */
static char *path_of_uri(const char *uri) {
    static const char scheme[] = "file://";
    if (strncmp(uri, scheme, sizeof scheme - 1)) return memory_format("%s", uri);
    const char *from = strchr(uri + sizeof scheme - 1, '/');
    char *path = memory_format("%s", from ? from : "/"), *to = path;
    for (const char *at = path; *at; at++) {
        int high = *at == '%' ? hex(at[1]) : -1, low = high >= 0 ? hex(at[2]) : -1;
        bool escaped = low >= 0 && (high || low);
        *to++ = escaped ? (char)(16 * high + low) : *at;
        if (escaped) at += 2;
    }
    *to = 0;
    return path;
}

char *uri_of_path(const char *path) {
    char *uri = memory_new(3 * strlen(path) + 8), *to = uri + sprintf(uri, "file://");
    for (const char *at = path; *at; at++) {
        bool plain = strchr("/-._~", *at) || (*at >= '0' && *at <= '9') ||
                     ((*at | 0x20) >= 'a' && (*at | 0x20) <= 'z');
        if (plain)
            *to++ = *at;
        else
            to += sprintf(to, "%%%02X", (unsigned char)*at);
    }
    return uri;
}

/* ---- open documents ---- */

Document *document_find(const Documents *documents, const char *uri) {
    for (int i = 0; i < documents->count; i++)
        if (!strcmp(documents->items[i].uri, uri)) return &documents->items[i];
    return NULL;
}

void document_set(Documents *documents, const char *uri, const char *text, size_t length) {
    Document *document = document_find(documents, uri);
    if (!document) {
        if (documents->count == documents->capacity) {
            documents->capacity = 2 * documents->capacity + 8;
            documents->items = memory_grow(documents->items,
                                           (size_t)documents->capacity * sizeof *documents->items);
        }
        document = &documents->items[documents->count++];
        *document = (Document){.uri = memory_format("%s", uri), .path = path_of_uri(uri)};
    }
    free(document->text);
    document->text = memory_new(length + 1);
    memcpy(document->text, text, length);
    document->length = length;
    /* Others may use it. */
    for (int i = 0; i < documents->count; i++) documents->items[i].changed = true;
}

static void document_free(Document *document) {
    free(document->uri);
    free(document->path);
    free(document->text);
}

void document_close(Documents *documents, const char *uri) {
    Document *document = document_find(documents, uri);
    if (!document) return;
    document_free(document);
    *document = documents->items[--documents->count];
}

void documents_free(Documents *documents) {
    for (int i = 0; i < documents->count; i++) document_free(&documents->items[i]);
    free(documents->items);
}

MoecCompiler *document_open(const Documents *documents, const Document *document,
                            const char *model) {
    AUTO_FREE MoecDocument *list = memory_new((size_t)documents->count * sizeof *list);
    int count = 0;
    list[count++] = (MoecDocument){document->path, document->text, document->length};
    for (int i = 0; i < documents->count; i++) {
        const Document *other = &documents->items[i];
        if (other != document)
            list[count++] = (MoecDocument){other->path, other->text, other->length};
    }
    return moec_open_document(list, count, model, getenv("MOEC_PATH"));
}

/* ---- positions ---- */

/* Bytes of the character that begins here, and its units of UTF-16. */
static size_t character_units(const char *text, size_t left, int *units) {
    unsigned char first = (unsigned char)*text;
    size_t bytes = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    *units = bytes == 4 ? 2 : 1;
    return bytes < left ? bytes : left;
}

size_t offset_of_position(const char *text, size_t length, const json_t *position) {
    json_int_t line = json_integer_value(json_object_get(position, "line")),
               character = json_integer_value(json_object_get(position, "character"));
    size_t at = 0;
    for (; line > 0 && at < length; at++) line -= text[at] == '\n';
    for (int units; character > 0 && at < length && text[at] != '\n'; character -= units)
        at += character_units(text + at, length - at, &units);
    return at;
}

static json_t *position_of_offset(const char *text, size_t offset) {
    json_int_t line = 0, character = 0;
    size_t start = 0;
    for (size_t at = 0; at < offset; at++)
        if (text[at] == '\n') {
            line++;
            start = at + 1;
        }
    for (int units; start < offset; character += units)
        start += character_units(text + start, offset - start, &units);
    return json_make("{s:I, s:I}", "line", line, "character", character);
}

json_t *text_range(const char *text, size_t start, size_t end) {
    return json_make("{s:o, s:o}", "start", position_of_offset(text, start), "end",
                     position_of_offset(text, end));
}
