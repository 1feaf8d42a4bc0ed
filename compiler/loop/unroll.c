/* unroll: adds several terms to a sum in a row at a time.
 *
 *     for k = 0 .. 64                           for k = 0 .. 64 step 4
 *         for c = 0 .. 64 vector                    for c = 0 .. 64 vector
 *             sum[c] += a[k] * b[k * 64 + c]  -->       sum[c] += a[k] * b[k * 64 + c]
 *                                                       sum[c] += a[k + 1] * b[(k + 1) * 64 + c]
 *                                                       ...
 *
 * The row is read and stored for every fourth term; the order of the sum does not change.
 */
#include "loop/form.h"

enum { TERMS = 4 };

/* True if it has a multiple of TERMS iterations; one with `beyond` may exceed its limit, where
 * terms are zero. */
static bool ends_with_step(const FormNode *loop) {
    bool known = loop->values[1]->op == TERM_NUMBER || loop->beyond;
    return known && term_is_zero(loop->values[0]) && !loop->values[2] && loop->iterations > 0 &&
           loop->iterations % TERMS == 0;
}

/* True if the lanes only add to elements that this loop does not move. */
static bool adds_to_row(const FormNode *loop, const FormNode *lanes) {
    for (const FormNode *set = lanes->body.first; set; set = set->next)
        if (set->kind != FORM_SET || set->stores || set->reduces != REDUCE_SUM ||
            set->values[0]->op != TERM_ELEMENT || term_uses(set->values[0], loop->name))
            return false;
    return lanes->body.first != NULL;
}

static void unroll_loop(Arena *arena, FormNode *loop) {
    FormNode *lanes = loop->body.first;
    const FormBlock once = form_copy(arena, &lanes->body);
    for (int i = 1; i < TERMS; i++) {
        FormBlock next = form_copy(arena, &once);
        const Term *place = term(arena, TERM_ADD, loop->name, term_whole(arena, i));
        form_replace(arena, next.first, loop->name, place);
        form_append(&lanes->body, &next);
    }
    loop->values[2] = term_whole(arena, TERMS);
}

static void unroll_block(Arena *arena, FormBlock *block) {
    for (FormNode *node = block->first; node; node = node->next) {
        const FormNode *lanes = node->body.first;
        if (node->kind == FORM_FOR && !node->run && lanes && !lanes->next &&
            lanes->run == RUN_VECTOR && ends_with_step(node) && adds_to_row(node, lanes))
            unroll_loop(arena, node);
        unroll_block(arena, &node->body);
    }
}

void unroll(Arena *arena, KernelForm *form, const Target *target) {
    (void)target;
    unroll_block(arena, &form->block);
}
