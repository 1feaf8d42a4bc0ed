#include "editor/cursor_context.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- the meaning of names ---- */

const Node *named_layer(Unit *unit, const char *name) {
    const List *lists[] = {&unit->layers, &unit->optimizers, &unit->schedules,
                           &unit->parametrizations};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const Node *found = node_called(lists[i], name);
        if (found) return found;
    }
    return NULL;
}

/* The layer that a value refers to: its name, or its name with options. */
static const Node *layer_of_value(Unit *unit, const Node *value) {
    bool says = value && (value->kind == NODE_NAME || value->kind == NODE_MADE);
    return says ? named_layer(unit, value->name) : NULL;
}

const Node *layer_of_option(Unit *unit, const Node *option) {
    const Node *given = layer_of_value(unit, option->kids[2]);
    const char *type = option->kids[0]->name, *dot = strrchr(option->name, '.');
    bool layers = !strcmp(type, "layer") || !strcmp(type, "layers");
    if (given || !layers) return given;
    return named_layer(unit, dot ? dot + 1 : option->name);
}

/* The option whose name is a prefix of `path`; *rest receives the rest of the path. */
static const Node *first_option(const Node *layer, const char *path, const char **rest) {
    const Node *body = layer_body(layer), *best = NULL;
    size_t most = 0;
    for (int i = 0; i < body->count; i++) {
        const Node *option = body->kids[i];
        if (option->kind != NODE_OPTION) continue;
        size_t length = strlen(option->name);
        bool begins =
            !strncmp(path, option->name, length) && (path[length] == '.' || !path[length]);
        if (!begins || length < most) continue;
        best = option;
        most = length;
    }
    *rest = path + most + (path[most] == '.');
    return best;
}

const Node *option_of(Unit *unit, const Node *layer, const char *path) {
    while (layer) {
        const char *rest;
        const Node *option = first_option(layer, path, &rest);
        if (!option || !*rest) return option;
        layer = layer_of_option(unit, option);
        path = rest;
    }
    return NULL;
}

/* ---- models: their settings, the nearest first ---- */

static const Node *entry_value(const Node *record, const char *path) {
    for (int i = 0; record && i < record->count; i++) {
        const Node *entry = record->kids[i];
        if (entry->kind == NODE_ENTRY && !strcmp(entry->name, path)) return entry->kids[0];
    }
    return NULL;
}

/* The layer at the end of the chain of base models. */
static const Node *root_layer(Unit *unit, const Node *model) {
    for (int depth = 0; model && depth < 100; depth++) {
        const char *base = model->kids[0]->name;
        const Node *next = find_model(unit, base);
        if (!next || next == model) return named_layer(unit, base);
        model = next;
    }
    return NULL;
}

/* The layer that is the value of an option of `layer`: from the model if it sets the option, else
 * from the default. */
static const Node *layer_at_path(Unit *unit, const Node *model, const Node *layer,
                                 const char *path) {
    const Node *option = option_of(unit, layer, path);
    const Node *chosen = NULL;
    for (int depth = 0; model && !chosen && depth < 100; depth++) {
        chosen = layer_of_value(unit, entry_value(model->count > 1 ? model->kids[1] : NULL, path));
        const Node *next = find_model(unit, model->kids[0]->name);
        model = next == model ? NULL : next;
    }
    return chosen ? chosen : option ? layer_of_option(unit, option) : NULL;
}

/* ---- brackets ---- */

typedef struct OpenBracket {
    char opened;
    bool record;
    const char *path; /* of the entry with this value, or NULL */
    const char *made; /* the layer named before it, or NULL */
    bool plan;        /* of an experiment */
    const Node *layer, *model;
} OpenBracket;

/* The most recent tokens of a statement, the last one first. */
enum { KEPT = 4, MAX_BRACKETS = 256 };
typedef struct BracketScan {
    Unit *unit;
    const char *kept[KEPT];
    const char *first; /* of this line or entry */
    OpenBracket brackets[MAX_BRACKETS];
    int count;
    const Node *item; /* the layer whose body comes next */
} BracketScan;

static void keep_token(BracketScan *scan, const char *token) {
    memmove(scan->kept + 1, scan->kept, (KEPT - 1) * sizeof *scan->kept);
    scan->kept[0] = token;
    if (!scan->first) scan->first = token;
}

static void forget(BracketScan *scan) {
    memset(scan->kept, 0, sizeof scan->kept);
    scan->first = NULL;
}

static bool token_is(const char *token, const char *text) {
    return token && !strcmp(token, text);
}

static bool is_name_token(const char *token) {
    return token && (isalpha((unsigned char)*token) || *token == '_');
}

static void open_record(const BracketScan *scan, OpenBracket *bracket, const OpenBracket *around) {
    const char *const *kept = scan->kept;
    bool made = is_name_token(kept[0]) &&
                (token_is(kept[1], "=") || token_is(kept[1], "[") || token_is(kept[1], ","));
    bracket->made = made ? kept[0] : NULL;
    bracket->path = token_is(kept[0], "=") ? kept[1] : token_is(kept[1], "=") ? kept[2] : NULL;
    if (!bracket->path && around && around->opened == '[') bracket->path = around->path;
    Unit *unit = scan->unit;
    if (token_is(scan->first, "model") && (!around || around->opened != '{')) {
        const Node *base = bracket->made ? find_model(unit, bracket->made) : NULL;
        bracket->model = base;
        bracket->layer = base            ? root_layer(unit, base)
                         : bracket->made ? named_layer(unit, bracket->made)
                                         : NULL;
        return;
    }
    if (bracket->made) {
        bracket->layer = named_layer(unit, bracket->made);
        return;
    }
    if (!around) return;
    bracket->model = around->model;
    bracket->layer = around->layer && bracket->path
                         ? layer_at_path(unit, around->model, around->layer, bracket->path)
                         : around->layer;
}

static void open_bracket(BracketScan *scan, char character) {
    const OpenBracket *around = scan->count ? &scan->brackets[scan->count - 1] : NULL;
    OpenBracket bracket = {.opened = character};
    const char *const *kept = scan->kept;
    bool value = token_is(kept[0], "=") || token_is(kept[1], "=") || token_is(kept[0], "[") ||
                 token_is(kept[0], ",") || token_is(kept[1], "[") || token_is(kept[1], ",") ||
                 token_is(kept[0], "vary");
    if (character == '{' && token_is(scan->first, "experiment")) {
        bracket.record = bracket.plan = true;
    } else if (character == '{' && token_is(kept[1], "transfer")) {
        bracket.record = true;
        bracket.layer = named_layer(scan->unit, kept[0]);
    } else if (character == '{' && value) {
        bracket.record = true;
        open_record(scan, &bracket, around);
    } else if (around) {
        bracket = *around;
        bracket.opened = character;
        if (character == '[') bracket.path = token_is(kept[0], "=") ? kept[1] : around->path;
    } else if (character == '{') {
        bracket.layer = scan->item;
    }
    if (character == '(' && is_name_token(kept[0])) bracket.made = kept[0];
    if (scan->count < MAX_BRACKETS) scan->brackets[scan->count++] = bracket;
    forget(scan);
    if (character != '{') keep_token(scan, character == '[' ? "[" : "(");
}

/* `;` in a call begins the options of the layer. */
static void begin_options(BracketScan *scan) {
    OpenBracket *bracket = scan->count ? &scan->brackets[scan->count - 1] : NULL;
    if (bracket && bracket->opened == '(') {
        bracket->record = true;
        bracket->layer = bracket->made ? named_layer(scan->unit, bracket->made) : NULL;
        bracket->model = NULL;
    }
    forget(scan);
}

static bool in_word(char character) {
    return isalnum((unsigned char)character) || character == '_' || character == '.';
}

static void scan_word(BracketScan *scan, const char *text, size_t length) {
    const char *word = arena_copy(scan->unit->arena, text, length);
    bool heads = token_is(scan->first, "layer") || token_is(scan->first, "optimizer") ||
                 token_is(scan->first, "schedule") || token_is(scan->first, "parametrization");
    if (heads && !scan->count && token_is(scan->kept[0], scan->first))
        scan->item = named_layer(scan->unit, word);
    keep_token(scan, word);
}

/* Reads the text up to the offset. */
static void scan_to(BracketScan *scan, const char *text, size_t end) {
    for (size_t at = 0; at < end;) {
        char character = text[at];
        size_t start = at++;
        if (character == '#') {
            while (at < end && text[at] != '\n') at++;
        } else if (character == '"') {
            while (at < end && text[at] != '"' && text[at] != '\n') at++;
            at += at < end;
        } else if (in_word(character)) {
            while (at < end && in_word(text[at])) at++;
            scan_word(scan, text + start, at - start);
        } else if (strchr("{[(", character)) {
            open_bracket(scan, character);
        } else if (strchr("}])", character)) {
            scan->count -= scan->count > 0;
            keep_token(scan, ")");
        } else if (character == ';') {
            begin_options(scan);
        } else if (character == '\n' || character == ',') {
            bool list = scan->count && scan->brackets[scan->count - 1].opened == '[';
            bool head = !scan->count && character == ',';
            if (!token_is(scan->kept[0], "=") && !head) forget(scan);
            if (list && character == ',') keep_token(scan, ",");
        } else if (!isspace((unsigned char)character)) {
            keep_token(scan, arena_copy(scan->unit->arena, &character, 1));
        }
    }
}

CursorContext cursor_context(Unit *unit, size_t offset) {
    const Source *source = unit->sources.items[0];
    const char *text = source->text;
    if (offset > source->length) offset = source->length;
    size_t start = offset, end = offset;
    while (start > 0 && in_word(text[start - 1])) start--;
    while (end < source->length && in_word(text[end])) end++;
    CursorContext cursor = {
        .source = source, .start = (int)start, .end = (int)end, .at = (int)offset};
    cursor.word = arena_copy(unit->arena, text + start, end - start);
    BracketScan scan = {.unit = unit};
    scan_to(&scan, text, start);
    const OpenBracket *bracket = scan.count ? &scan.brackets[scan.count - 1] : NULL;
    if (!bracket) return cursor;
    cursor.layer = bracket->layer;
    cursor.model = bracket->model;
    bool value = token_is(scan.kept[0], "=") || bracket->opened == '[';
    cursor.kind = !bracket->record ? CURSOR_BODY : value ? CURSOR_VALUE : CURSOR_OPTION;
    if (cursor.kind == CURSOR_VALUE)
        cursor.path = token_is(scan.kept[0], "=") ? scan.kept[1] : bracket->path;
    if (scan.kept[0] && cursor.kind == CURSOR_OPTION)
        cursor.kind = CURSOR_VALUE; /* in an expression */
    return cursor;
}
