/* form: nodes of the lowered form, and queries about them. */
#include "loop/form.h"

#include "base/table.h"

#include <stddef.h>
#include <string.h>

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

FormNode *form_add_loop(Arena *arena, FormBlock *block, TermType type, const char *name,
                        long count) {
    FormNode *loop = form_add(arena, block, FORM_FOR);
    loop->name = term_name(arena, type, name);
    loop->values[0] = term_whole(arena, 0);
    loop->values[1] = term_whole(arena, count);
    return loop;
}

FormNode *form_insert(Arena *arena, FormBlock *block, FormNode *before, FormKind kind) {
    FormBlock rest = {.first = before ? before->next : block->first, .last = block->last};
    if (before) before->next = NULL;
    block->last = before;
    if (!before) block->first = NULL;
    FormNode *node = form_add(arena, block, kind);
    node->next = rest.first;
    if (rest.first) block->last = rest.last;
    return node;
}

void form_replace(Arena *arena, FormNode *first, const Term *part, const Term *by) {
    for (FormNode *node = first; node; node = node->next) {
        for (int i = 0; i < NODE_VALUES; i++)
            if (node->values[i]) node->values[i] = term_replace(arena, node->values[i], part, by);
        form_replace(arena, node->body.first, part, by);
    }
}

void form_rename(Arena *arena, FormNode *first, const Term *name, const Term *by) {
    form_replace(arena, first, name, by);
    for (FormNode *node = first; node; node = node->next) {
        if (node->name && term_equal(node->name, name)) node->name = by;
        form_rename(arena, node->body.first, name, by);
    }
}

FormBlock form_copy(Arena *arena, const FormBlock *block) {
    FormBlock copy = {0};
    for (const FormNode *node = block->first; node; node = node->next) {
        FormNode *made = form_add(arena, &copy, node->kind);
        *made = *node;
        made->body = form_copy(arena, &node->body);
        made->next = NULL;
    }
    return copy;
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

/* Terms are immutable: their addresses change with them. */
uint64_t form_state(uint64_t hash, const FormBlock *block) {
    uint64_t words[offsetof(FormNode, body) / sizeof(uint64_t)];
    for (const FormNode *node = block->first; node; node = node->next) {
        memcpy(words, node, sizeof words);
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) hash = hash_word(hash, words[i]);
        hash = form_state(hash_word(hash, (uintptr_t)node), &node->body);
    }
    return hash;
}

bool form_has(const FormBlock *block, bool (*wanted)(const FormNode *node)) {
    for (const FormNode *node = block->first; node; node = node->next)
        if (wanted(node) || form_has(&node->body, wanted)) return true;
    return false;
}

bool form_is_loop(const FormNode *node) {
    return node->kind == FORM_FOR;
}

bool form_uses(const FormBlock *block, const Term *name) {
    for (const FormNode *node = block->first; node; node = node->next) {
        for (int i = 0; i < NODE_VALUES; i++)
            if (node->values[i] && term_uses(node->values[i], name)) return true;
        if (form_uses(&node->body, name)) return true;
    }
    return false;
}

bool form_declares(const FormBlock *block, const Term *name) {
    for (const FormNode *node = block->first; node; node = node->next)
        if (node->kind == FORM_LET && term_equal(node->name, name)) return true;
    return false;
}

const char *declared_text(Arena *arena, const FormNode *let) {
    const char *name = term_text(arena, let->name);
    if (let->rows) name = arena_format(arena, "%s[%ld]", name, let->rows);
    return let->size ? arena_format(arena, "%s[%ld]", name, let->size) : name;
}
