/* split_blocks: splits a vectorized loop into blocks whose elements read one value.
 *
 *     for d = 0 .. 128 vector                   for d_block = 0 .. 4
 *         y[d] = x[d] * scale[d / 32]   -->         for d = d_block * 32 .. + 32 vector
 *                                                       y[d] = x[d] * scale[d_block]
 *
 * Vectors would gather such elements one by one. Sums stay as they are: their order would change.
 */
#include "loop/form.h"

/* Smaller blocks do not fill vectors. */
enum { LEAST_BLOCK = 16 };

static bool reduces(const FormNode *node) {
    return node->reduces != REDUCE_NONE;
}

/* The first quotient of the name and a constant in a subscript; or NULL. */
static const Term *quotient_in(const Term *term, const Term *name) {
    const Term *found = NULL;
    if (term->op == TERM_DIV && term_equal(term->args[0], name) &&
        term->args[1]->op == TERM_NUMBER && term->args[1]->whole >= LEAST_BLOCK)
        return term;
    for (int i = 0; i < term->count && !found; i++) found = quotient_in(term->args[i], name);
    return found;
}

static const Term *find_quotient(const FormBlock *block, const Term *name) {
    const Term *found = NULL;
    for (const FormNode *node = block->first; node && !found; node = node->next) {
        for (int i = 0; i < NODE_VALUES && !found; i++)
            if (node->values[i]) found = quotient_in(node->values[i], name);
        if (!found) found = find_quotient(&node->body, name);
    }
    return found;
}

/* The quotient that is the same in each block of the loop; or NULL. */
static const Term *shared_quotient(const FormNode *loop) {
    if (loop->kind != FORM_FOR || loop->run != RUN_VECTOR || !term_is_zero(loop->values[0]) ||
        loop->values[1]->op != TERM_NUMBER || loop->values[2] || loop->values[3] ||
        form_has(&loop->body, reduces))
        return NULL;
    const Term *found = find_quotient(&loop->body, loop->name);
    return found && found->args[1]->whole < loop->values[1]->whole ? found : NULL;
}

static void split_loop(Arena *arena, FormNode *loop, const Term *quotient) {
    const Term *size = quotient->args[1], *count = loop->values[1],
               *block = term_variable_of(arena, loop->name, "_block"),
               *from = term(arena, TERM_MUL, block, size), *end = term(arena, TERM_ADD, from, size);
    const long blocks = (count->whole + size->whole - 1) / size->whole;
    form_replace(arena, loop->body.first, quotient, block);
    FormNode inner = *loop;
    inner.values[0] = from;
    inner.values[1] = count->whole % size->whole ? term(arena, TERM_LEAST, end, count) : end;
    inner.iterations = size->whole;
    inner.next = NULL;
    loop->name = block;
    loop->values[1] = term_whole(arena, blocks);
    loop->iterations = blocks;
    loop->run = 0;
    loop->body = (FormBlock){.outer = loop->body.outer};
    FormNode *made = form_add(arena, &loop->body, FORM_FOR);
    inner.body.outer = &loop->body;
    *made = inner;
}

static void split_in(Arena *arena, FormBlock *block) {
    for (FormNode *node = block->first; node; node = node->next) {
        const Term *quotient = shared_quotient(node);
        if (quotient)
            split_loop(arena, node, quotient);
        else
            split_in(arena, &node->body);
    }
}

void split_blocks(Arena *arena, KernelForm *form, const Target *target) {
    (void)target;
    split_in(arena, &form->block);
}
