/* vectors: marks innermost loops for vectorization.
 *
 *     for d = 0 .. 64                           for d = 0 .. 64 vector
 *         sum += x[d] * w[d]            -->         sum += x[d] * w[d]
 *
 * Not if two iterations may store to the same element. Each lane has its own copy of the variables
 * of a reduction; the printer lists them.
 */
#include "loop/form.h"

static bool scatters(const FormNode *node) {
    return node->scatters;
}

static void run_side_by_side(FormBlock *block) {
    for (FormNode *node = block->first; node; node = node->next) {
        bool innermost = form_is_loop(node) && !form_has(&node->body, form_is_loop);
        if (innermost && node->iterations > 1 && !form_has(&node->body, scatters))
            node->run |= RUN_VECTOR;
        run_side_by_side(&node->body);
    }
}

void vectors(Arena *arena, KernelForm *form, const Target *target) {
    (void)arena;
    if (target->vector_loops) run_side_by_side(&form->block);
}
