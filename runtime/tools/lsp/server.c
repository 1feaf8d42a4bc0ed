#include "tools/lsp/server.h"

#include "abi/json_make.h"
#include "base/cache.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/build.h"

#include <stdlib.h>
#include <string.h>

enum { WAIT_FOR_MORE = 150 }; /* milliseconds of quiet before a text is judged */
enum { NO_METHOD = -32601, WRONG_PARAMETERS = -32602, NOT_VALID = -32600 };

static void send_message(Server *server, json_t *message) {
    json_object_set_new(message, "jsonrpc", json_text("2.0"));
    if (!wire_write(&server->wire, message)) server->broken = true;
}

void notify(Server *server, const char *method, json_t *params) {
    send_message(server, json_make("{s:s, s:o}", "method", method, "params", params));
}

static const char *nested_text(const json_t *object, const char *outer, const char *key) {
    return json_field_text(json_object_get(object, outer), key);
}

/* ---- requests about a position; each returns a new value ---- */

typedef struct PositionQuery {
    const Document *document;
    MoecCompiler *compiler;
    size_t offset;
} PositionQuery;

static json_t *hover(const PositionQuery *asked) {
    const char *text = moec_hover(asked->compiler, asked->offset);
    return text ? json_make("{s:{s:s, s:s}}", "contents", "kind", "markdown", "value", text)
                : json_null();
}

/* The standard library as files that an editor can open: a new path, or NULL. */
static char *standard_file(const MoecLocation *location) {
    char *folder = cache_folder(), *path = NULL;
    if (!folder) return NULL;
    AUTO_FREE char *inner = path_join(folder, "std");
    if (folder_make(inner)) {
        path = path_join(inner, strrchr(location->path, '/') + 1);
        if (!file_edit(path, location->text, strlen(location->text))) {
            free(path);
            path = NULL;
        }
    }
    free(folder);
    return path;
}

static json_t *definition_answer(const PositionQuery *asked) {
    MoecLocation location;
    if (!moec_definition(asked->compiler, asked->offset, &location)) return json_null();
    AUTO_FREE char *standard = location.standard ? standard_file(&location) : NULL;
    if (location.standard && !standard) return json_null();
    AUTO_FREE char *uri = uri_of_path(standard ? standard : location.path);
    return json_make("{s:s, s:o}", "uri", uri, "range",
                     text_range(location.text, location.start, location.end));
}

static json_t *completion_answer(const PositionQuery *asked) {
    static const int kinds[] = {
        [MOEC_COMPLETES_OPTION] = 10, [MOEC_COMPLETES_WORD] = 20,    [MOEC_COMPLETES_LAYER] = 7,
        [MOEC_COMPLETES_TENSOR] = 6,  [MOEC_COMPLETES_FUNCTION] = 3, [MOEC_COMPLETES_KEYWORD] = 14};
    int count;
    const MoecCompletion *offers = moec_complete(asked->compiler, asked->offset, &count);
    json_t *items = json_array();
    for (int i = 0; i < count; i++) {
        json_t *item =
            json_make("{s:s, s:i}", "label", offers[i].label, "kind", kinds[offers[i].kind]);
        if (offers[i].detail) json_object_set_new(item, "detail", json_text(offers[i].detail));
        json_array_append_new(items, item);
    }
    return items;
}

/* The whole text in the one layout; nothing where it cannot be read. */
static json_t *formatting(const PositionQuery *asked) {
    const char *text = moec_format(asked->compiler);
    if (!text) return json_null();
    const Document *document = asked->document;
    return json_make("[{s:o, s:s}]", "range", text_range(document->text, 0, document->length),
                     "newText", text);
}

/* ---- requests ---- */

static json_t *initialize(void) {
    return json_make("{s:{s:{s:b, s:i}, s:b, s:b, s:b, s:{s:[s]}}, s:{s:s, s:s}}", "capabilities",
                     "textDocumentSync", "openClose", 1, "change", 1, "hoverProvider", 1,
                     "definitionProvider", 1, "documentFormattingProvider", 1, "completionProvider",
                     "triggerCharacters", ".", "serverInfo", "name", "moec", "version",
                     MOEC_VERSION);
}

typedef struct Method {
    const char *name;
    json_t *(*answer)(const PositionQuery *asked);
} Method;

static const Method methods[] = {
    {"textDocument/hover", hover},
    {"textDocument/definition", definition_answer},
    {"textDocument/completion", completion_answer},
    {"textDocument/formatting", formatting},
};

static json_t *answer_at(Server *server, const Method *method, const json_t *params, int *code) {
    const char *uri = nested_text(params, "textDocument", "uri");
    const Document *document = uri ? document_find(&server->documents, uri) : NULL;
    if (!document) {
        *code = WRONG_PARAMETERS;
        return NULL;
    }
    PositionQuery asked = {.document = document};
    asked.compiler = document_open(&server->documents, document, NULL);
    asked.offset =
        offset_of_position(document->text, document->length, json_object_get(params, "position"));
    json_t *answer = method->answer(&asked);
    moec_close(asked.compiler);
    return answer;
}

static void answer_request(Server *server, const char *method, json_t *id, const json_t *params) {
    json_t *answer = NULL;
    int code = NO_METHOD;
    if (server->asked_to_stop) {
        code = NOT_VALID;
    } else if (!strcmp(method, "initialize")) {
        answer = initialize();
    } else if (!strcmp(method, "shutdown")) {
        server->asked_to_stop = true;
        answer = json_null();
    }
    for (size_t i = 0; !answer && code == NO_METHOD && i < sizeof methods / sizeof *methods; i++)
        if (!strcmp(method, methods[i].name))
            answer = answer_at(server, &methods[i], params, &code);
    json_t *message = json_make("{s:O}", "id", id);
    if (answer)
        json_object_set_new(message, "result", answer);
    else
        json_object_set_new(
            message, "error",
            json_make("{s:i, s:o}", "code", code, "message",
                      json_sprintf(code == NO_METHOD ? "unknown method '%s'"
                                                     : "cannot answer '%s' in this state",
                                   method)));
    send_message(server, message);
}

static void store_document(Server *server, const char *uri, const json_t *text) {
    if (uri && json_is_string(text))
        document_set(&server->documents, uri, json_string_value(text), json_string_length(text));
}

static void take_notification(Server *server, const char *method, const json_t *params) {
    const char *uri = nested_text(params, "textDocument", "uri");
    if (!strcmp(method, "textDocument/didOpen")) {
        store_document(server, uri,
                       json_object_get(json_object_get(params, "textDocument"), "text"));
    } else if (!strcmp(method, "textDocument/didChange")) {
        const json_t *changes = json_object_get(params, "contentChanges");
        size_t count = json_array_size(changes);
        if (count && uri && document_find(&server->documents, uri))
            store_document(server, uri,
                           json_object_get(json_array_get(changes, count - 1), "text"));
    } else if (!strcmp(method, "textDocument/didClose") && uri) {
        notify(server, "textDocument/publishDiagnostics",
               json_make("{s:s, s:[]}", "uri", uri, "diagnostics"));
        document_close(&server->documents, uri);
    }
}

static void judge_changed(Server *server) {
    for (int i = 0; i < server->documents.count; i++)
        if (server->documents.items[i].changed)
            publish_diagnostics(server, &server->documents.items[i]);
}

int server_run(Server *server) {
    bool over = false;
    while (!over && !server->broken) {
        bool broken;
        json_auto_t *message = wire_read(&server->wire, WAIT_FOR_MORE, &broken);
        if (!message && (broken || server->wire.ended)) break;
        if (!message) {
            judge_changed(server);
            continue;
        }
        const char *method = json_field_text(message, "method");
        json_t *id = json_object_get(message, "id");
        const json_t *params = json_object_get(message, "params");
        over = method && !strcmp(method, "exit");
        if (method && id)
            answer_request(server, method, id, params);
        else if (method && !over)
            take_notification(server, method, params);
    }
    documents_free(&server->documents);
    wire_close(&server->wire);
    return server->asked_to_stop ? 0 : 1;
}
