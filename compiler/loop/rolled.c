/* rolled: in a GPU kernel of short loops only, keeps loops that contain loops rolled.
 *
 *     for e = 0 .. 4                    for e = 0 .. 4 rolled
 *         for d = 0 .. 6         -->        for d = 0 .. 6
 *             sum += ...                        sum += ...
 *
 * The CUDA compiler unrolls all of them and prefetches their reads until registers spill. Kernels
 * that are short when unrolled are not changed. Loops over a row that one thread owns stay unrolled
 * as well, because it is in registers only with constant subscripts.
 */
#include "loop/form.h"

/* Operations: maximum of an unrolled loop, maximum of a short kernel. */
enum { WRITTEN_OUT = 512, SHORT = 1024 };

/* Iterations of a loop that the compiler unrolls with this number of operations each, else 1. */
static long copies_of(const FormNode *node, long operations) {
    bool serial = node->kind == FORM_FOR && node->by == BY_ONE && !node->run && node->iterations;
    return serial && node->iterations * operations <= WRITTEN_OUT ? node->iterations : 1;
}

/* Operations in the block after short loops are unrolled. */
static long operations_of(const FormBlock *block) {
    long count = 0;
    for (const FormNode *node = block->first; node; node = node->next) {
        for (int i = 0; i < NODE_VALUES && node->values[i]; i++)
            count += term_operations(node->values[i]);
        const long body = operations_of(&node->body);
        count += copies_of(node, body) * body;
    }
    return count;
}

/* Adds the names of rows that one thread owns. */
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
    for (int i = 0; i < rows->count && term->op == TERM_ELEMENT; i++)
        if (term_equal(term->args[0], rows->items[i])) return term_uses(term->args[1], name);
    return false;
}

/* True if the block subscripts one of the rows with that name. */
static bool counts_places(const FormBlock *block, const List *rows, const Term *name) {
    for (const FormNode *node = block->first; node; node = node->next) {
        for (int i = 0; i < NODE_VALUES && node->values[i]; i++)
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
