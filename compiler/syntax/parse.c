#include "syntax/syntax.h"

#include "parser.h"
#include "base/utf8.h"

/* Checks the input of the lexer: valid UTF-8 text without NUL bytes, at most MAX_SOURCE_BYTES. */
static bool is_text(Reports *reports, const Source *source) {
    if (source->length > MAX_SOURCE_BYTES)
        return report_invalid(reports, (Span){NULL, 0, 0},
                              "divide the spec into several files with `use`",
                              "%s is larger than %.1f MB, the maximum size of a spec", source->path,
                              MAX_SOURCE_BYTES / 1e6);
    for (size_t at = 0; at < source->length;) {
        unsigned character = 0;
        int bytes = utf8_decode(source->text + at, source->length - at, &character);
        if (bytes == 0 || character == 0)
            return report_invalid(reports, (Span){source, (int)at, (int)at + 1},
                                  "save the file as UTF-8 text",
                                  bytes ? "unexpected NUL byte: expected UTF-8 text"
                                        : "invalid byte 0x%02X: expected UTF-8 text",
                                  (unsigned char)source->text[at]);
        at += (size_t)bytes;
    }
    return true;
}

static Node *read_source(Arena *arena, Reports *reports, const Source *source, bool entry_only) {
    if (!is_text(reports, source)) return NULL;
    Parser *parser = arena_alloc(arena, sizeof *parser);
    parser->arena = arena;
    parser->reports = reports;
    parser->source = source;
    parser->entry_only = entry_only;
    parser->scanner = scanner_open(source);
    moe_parse(parser);
    scanner_close(parser->scanner);
    /* Later passes walk the tree by recursion, which requires a bounded depth. */
    if (parser->result && parser->result->depth > MAX_DEPTH) return NULL;
    return parser->result;
}

Node *parse(Arena *arena, Reports *reports, const Source *source) {
    return read_source(arena, reports, source, false);
}

Node *parse_entry(Arena *arena, Reports *reports, const Source *source) {
    return read_source(arena, reports, source, true);
}
