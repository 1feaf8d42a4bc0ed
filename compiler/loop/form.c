/* form: terms and nodes of the lowered form, and the questions they answer. */
#include "loop/form.h"

#include <stdarg.h>
#include <string.h>

/* ---- terms ---- */

static Term *term_new(Arena *arena, TermKind kind, const char *text) {
    Term *made = arena_alloc(arena, sizeof *made);
    made->kind = kind;
    made->text = text;
    return made;
}

const Term *term_name(Arena *arena, const char *name) {
    return term_new(arena, TERM_NAME, name);
}

const Term *term_number(Arena *arena, const char *text) {
    return term_new(arena, TERM_NUMBER, text);
}

const Term *term_whole(Arena *arena, long number) {
    return term_number(arena, arena_format(arena, number < 0 ? "(%ld)" : "%ld", number));
}

const Term *term(Arena *arena, const char *spelling, ...) {
    Term *made = term_new(arena, TERM_APPLY, spelling);
    for (const char *c = spelling; *c; c++)
        if (c[0] == '$' && c[1] - '0' >= made->count) made->count = c[1] - '0' + 1;
    va_list arguments;
    va_start(arguments, spelling);
    for (int i = 0; i < made->count; i++) made->args[i] = va_arg(arguments, const Term *);
    va_end(arguments);
    return made;
}

bool term_equal(const Term *a, const Term *b) {
    if (a == b) return true;
    if (a->kind != b->kind || a->count != b->count || strcmp(a->text, b->text) != 0) return false;
    for (int i = 0; i < a->count; i++)
        if (!term_equal(a->args[i], b->args[i])) return false;
    return true;
}

bool term_is_zero(const Term *term) {
    return term->kind == TERM_NUMBER && strcmp(term->text, "0") == 0;
}

bool term_uses(const Term *term, const char *name) {
    if (term->kind == TERM_NAME) return strcmp(term->text, name) == 0;
    for (int i = 0; i < term->count; i++)
        if (term_uses(term->args[i], name)) return true;
    return false;
}

int term_count(const Term *term, const Term *part) {
    if (term_equal(term, part)) return 1;
    int count = 0;
    for (const char *c = term->text; term->count && *c; c++)
        if (*c == '$') count += term_count(term->args[*++c - '0'], part);
    return count;
}

bool term_has(const Term *term, char sign) {
    if (term->kind != TERM_NAME && strchr(term->text, sign)) return true;
    for (int i = 0; i < term->count; i++)
        if (term_has(term->args[i], sign)) return true;
    return false;
}

/* The parenthesis that a spelling begins with is closed at its very end. */
static bool is_closed(const Term *term) {
    size_t length = strlen(term->text);
    int depth = 0;
    if (term->kind == TERM_NAME || length < 2 || term->text[0] != '(' ||
        term->text[length - 1] != ')')
        return false;
    for (size_t i = 0; i + 1 < length; i++) {
        depth += (term->text[i] == '(') - (term->text[i] == ')');
        if (depth == 0) return false;
    }
    return true;
}

const Term *term_bare(Arena *arena, const Term *term) {
    if (!is_closed(term)) return term;
    Term *bare = arena_alloc(arena, sizeof *bare);
    *bare = *term;
    bare->text = arena_copy(arena, term->text + 1, strlen(term->text) - 2);
    return bare;
}

/* A factor that is a sum or a cast stands in parentheses. */
static bool is_compound(const Term *term) {
    if (term->kind != TERM_APPLY) return false;
    if (term->text[0] != '(') return term_has(term, ' ');
    if (!is_closed(term)) return true;
    for (int i = 0; i < term->count; i++)
        if (term_has(term->args[i], ')')) return true;
    return strchr(term->text, ')') != strrchr(term->text, ')');
}

const Term *term_offset(Arena *arena, const Term *a, long size, const Term *b) {
    bool none = term_is_zero(b);
    if (term_is_zero(a)) return b;
    if (size == 1) return none ? a : term(arena, "$0 + $1", a, b);
    const Term *scaled =
        term(arena, is_compound(a) ? "($0) * $1" : "$0 * $1", a, term_whole(arena, size));
    return none ? scaled : term(arena, "$0 + $1", scaled, b);
}

static void add_term(Text *text, const Term *term) {
    const char *from = term->text, *c = from;
    for (; *c; c++) {
        if (*c != '$' || !term->count) continue;
        text_add_bytes(text, from, (size_t)(c - from));
        add_term(text, term->args[*++c - '0']);
        from = c + 1;
    }
    text_add_bytes(text, from, (size_t)(c - from));
}

const char *term_text(Arena *arena, const Term *term) {
    Text text = {.arena = arena};
    if (term->kind != TERM_APPLY) return term->text;
    add_term(&text, term);
    return text.length ? text.text : "";
}

/* ---- nodes ---- */

FormNode *form_add(Arena *arena, FormBlock *block, FormKind kind) {
    FormNode *node = arena_alloc(arena, sizeof *node);
    node->kind = kind;
    node->body.outer = block;
    if (block->last)
        block->last->next = node;
    else
        block->first = node;
    block->last = node;
    return node;
}

void form_append(FormBlock *block, FormBlock *body) {
    if (!body->first) return;
    if (block->last)
        block->last->next = body->first;
    else
        block->first = body->first;
    block->last = body->last;
    *body = (FormBlock){.outer = body->outer};
}

bool form_uses(const FormBlock *block, const char *name) {
    for (const FormNode *node = block->first; node; node = node->next) {
        for (int i = 0; i < 3; i++)
            if (node->values[i] && term_uses(node->values[i], name)) return true;
        if (form_uses(&node->body, name)) return true;
    }
    return false;
}
