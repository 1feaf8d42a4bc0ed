/* rolled: a kernel of a device that is nothing but short loops keeps those that hold loops.
 *
 *     for e = 0 .. 4                    for e = 0 .. 4 rolled
 *         for d = 0 .. 6         -->        for d = 0 .. 6
 *             sum += ...                        sum += ...
 *
 * Its compiler writes them all out, one behind the other, and reads ahead what they read as far as
 * registers go and beyond. Kernels that are short even so are left alone; so are loops that count
 * places of a row which a thread keeps to itself: it is in registers only where those are numbers.
 */
#include "loop/form.h"

enum { WRITTEN_OUT = 512, SHORT = 1024 }; /* operations: of a loop, at most; of a kernel */

/* Iterations of a loop that are written out where each is of so many operations, else 1. */
static long copies_of(const FormNode *node, long operations) {
    bool serial = node->kind == FORM_FOR && node->by == BY_ONE && !node->run && node->iterations;
    return serial && node->iterations * operations <= WRITTEN_OUT ? node->iterations : 1;
}

/* In the text of the block once short loops are written out. */
static long operations_of(const FormBlock *block) {
    long count = 0;
    for (const FormNode *node = block->first; node; node = node->next) {
        for (int i = 0; i < 3 && node->values[i]; i++) count += term_operations(node->values[i]);
        const long body = operations_of(&node->body);
        count += copies_of(node, body) * body;
    }
    return count;
}

/* Adds the names of rows that a thread keeps to itself. */
static void find_rows(Arena *arena, const FormBlock *block, List *rows) {
    for (const FormNode *node = block->first; node; node = node->next) {
        if (node->kind == FORM_LET && node->size && !node->shared)
            list_push(arena, rows, (void *)(uintptr_t)node->name);
        find_rows(arena, &node->body, rows);
    }
}

static bool term_counts(const Term *term, const List *rows, const Term *name) {
    for (int i = 0; i < term->count; i++)
        if (term_counts(term->args[i], rows, name)) return true;
    for (int i = 0; i < rows->count && term->kind == TERM_APPLY; i++)
        if (term->text == term_element && term_equal(term->args[0], rows->items[i]))
            return term_uses(term->args[1], name);
    return false;
}

/* The block counts places of one of the rows by that name. */
static bool counts_places(const FormBlock *block, const List *rows, const Term *name) {
    for (const FormNode *node = block->first; node; node = node->next) {
        for (int i = 0; i < 3 && node->values[i]; i++)
            if (term_counts(node->values[i], rows, name)) return true;
        if (counts_places(&node->body, rows, name)) return true;
    }
    return false;
}

static void roll(const FormBlock *block, const List *rows) {
    for (FormNode *node = block->first; node; node = node->next) {
        bool rolls = form_has(&node->body, form_is_loop) &&
                     copies_of(node, operations_of(&node->body)) > 1 &&
                     !counts_places(&node->body, rows, node->name);
        roll(&node->body, rows);
        if (rolls) node->run = RUN_ROLLED;
    }
}

void rolled(Arena *arena, KernelForm *form, const Target *target) {
    if (!target->launches || operations_of(&form->block) <= SHORT) return;
    List rows = {0};
    find_rows(arena, &form->block, &rows);
    roll(&form->block, &rows);
}
