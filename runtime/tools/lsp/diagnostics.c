/* diagnostics: errors and warnings of all models of a document, without duplicates. A note belongs
 * to the preceding message, a help text to its message. An error in another file is reported at the
 * position in the document that refers to that file. */
#include "tools/lsp/server.h"

#include "abi/json_make.h"

#include <stdlib.h>
#include <string.h>

/* At most so many models are looked at; a file of more has their errors in its parts. */
enum { MAX_MODELS = 64, SEVERITY_ERROR = 1, SEVERITY_WARNING = 2 };

/* The offset of a line and a column in characters, both from 1. */
static size_t report_offset(const Document *document, const json_t *report, const char *line_key,
                            const char *column_key) {
    json_t *start =
        json_make("{s:I, s:I}", "line", json_integer_value(json_object_get(report, line_key)) - 1,
                  "character", (json_int_t)0);
    size_t at = offset_of_position(document->text, document->length, start);
    json_decref(start);
    json_int_t column = json_integer_value(json_object_get(report, column_key));
    while (column > 1 && at < document->length && document->text[at] != '\n') {
        at++;
        while (at < document->length && (document->text[at] & 0xC0) == 0x80) at++;
        column--;
    }
    return at;
}

static bool is_here(const Document *document, const json_t *report) {
    const char *file = json_field_text(report, "file");
    return file && !strcmp(file, document->path);
}

static json_t *report_range(const Document *document, const json_t *report) {
    if (!is_here(document, report)) return text_range(document->text, 0, 0);
    return text_range(document->text, report_offset(document, report, "line", "column"),
                      report_offset(document, report, "end_line", "end_column"));
}

static void append_message(json_t *diagnostic, const char *text, const json_t *report) {
    const char *message = json_field_text(diagnostic, "message"),
               *more = json_field_text(report, "message");
    json_object_set_new(diagnostic, "message", json_sprintf("%s\n%s: %s", message, text, more));
}

static void add_related(const Document *document, json_t *diagnostic, const json_t *report) {
    const char *file = json_field_text(report, "file");
    if (!file) {
        append_message(diagnostic, "note", report);
        return;
    }
    if (!is_here(document, report)) {
        json_auto_t *where = json_sprintf(
            "note, %s:%lld", file, (long long)json_integer_value(json_object_get(report, "line")));
        append_message(diagnostic, json_string_value(where), report);
        return;
    }
    json_t *list = json_object_get(diagnostic, "relatedInformation");
    if (!list) json_object_set_new(diagnostic, "relatedInformation", list = json_array());
    json_array_append_new(list, json_make("{s:{s:s, s:o}, s:O}", "location", "uri", document->uri,
                                          "range", report_range(document, report), "message",
                                          json_object_get(report, "message")));
    /* An error in another file is reported at the reference to that file. */
    if (json_object_get(diagnostic, "elsewhere")) {
        json_object_set_new(diagnostic, "range", report_range(document, report));
        json_object_del(diagnostic, "elsewhere");
    }
}

static json_t *diagnostic_of(const Document *document, const json_t *report, int severity) {
    json_t *one =
        json_make("{s:o, s:i, s:s, s:O}", "range", report_range(document, report), "severity",
                  severity, "source", "moec", "message", json_object_get(report, "message"));
    const char *file = json_field_text(report, "file");
    if (file && !is_here(document, report)) {
        json_object_set_new(
            one, "message",
            json_sprintf("%s:%lld: %s", file,
                         (long long)json_integer_value(json_object_get(report, "line")),
                         json_field_text(report, "message")));
        json_object_set_new(one, "elsewhere", json_true());
    }
    return one;
}

static void add_once(json_t *list, json_t *diagnostic) {
    if (!diagnostic) return;
    json_object_del(diagnostic, "elsewhere");
    size_t i;
    json_t *other;
    bool there = false;
    json_array_foreach(list, i, other) there = there || json_equal(other, diagnostic);
    if (!there) json_array_append(list, diagnostic);
    json_decref(diagnostic);
}

/* in_document: only diagnostics with a position in the document. */
static void add_diagnostics(const Document *document, json_t *list, const char *text,
                            bool in_document) {
    json_t *reports = json_loads(text, 0, NULL), *report, *last = NULL;
    size_t i;
    json_array_foreach(reports, i, report) {
        const char *severity = json_field_text(report, "severity");
        bool error = !strcmp(severity, "error");
        if (in_document && error && !json_object_get(report, "file")) continue;
        if (error || !strcmp(severity, "warning")) {
            add_once(list, last);
            last = diagnostic_of(document, report, error ? SEVERITY_ERROR : SEVERITY_WARNING);
        } else if (last && !strcmp(severity, "note")) {
            add_related(document, last, report);
        } else if (last) {
            append_message(last, severity, report);
        }
    }
    add_once(list, last);
    json_decref(reports);
}

static void diagnose_model(const Documents *documents, const Document *document, const char *model,
                           json_t *list) {
    MoecCompiler *compiler = document_open(documents, document, model);
    int count = 0;
    moec_models(compiler, &count);
    bool costs = count > 0 && !moec_failed(compiler) && moec_cost_json(compiler);
    /* A file without models is there to be used. */
    add_diagnostics(document, list,
                    costs ? moec_warnings_json(compiler) : moec_reports_json(compiler), count == 0);
    moec_close(compiler);
}

void publish_diagnostics(Server *server, Document *document) {
    json_t *list = json_array();
    MoecCompiler *compiler = document_open(&server->documents, document, NULL);
    int count = 0;
    const char *const *models = moec_models(compiler, &count);
    if (count > MAX_MODELS) count = MAX_MODELS;
    for (int i = 0; i < count; i++) diagnose_model(&server->documents, document, models[i], list);
    if (count == 0) diagnose_model(&server->documents, document, NULL, list);
    moec_close(compiler);
    document->changed = false;
    notify(server, "textDocument/publishDiagnostics",
           json_make("{s:s, s:o}", "uri", document->uri, "diagnostics", list));
}
