/* vectors: the iterations of an innermost loop run side by side, in the lanes of vectors.
 *
 *     for d = 0 .. 64                           for d = 0 .. 64 vector
 *         sum += x[d] * w[d]            -->         sum += x[d] * w[d]
 *
 * Not where one of them may store where another one stores. What a reduction is kept in, each lane
 * has for itself; the printer names those.
 */
#include "loop/form.h"

static bool has(const FormBlock *block, bool (*wanted)(const FormNode *node)) {
    for (const FormNode *node = block->first; node; node = node->next)
        if (wanted(node) || has(&node->body, wanted)) return true;
    return false;
}

static bool is_loop(const FormNode *node) {
    return node->kind == FORM_FOR;
}

static bool scatters(const FormNode *node) {
    return node->scatters;
}

void vectors(Arena *arena, FormBlock *block, const Target *target) {
    for (FormNode *node = block->first; target->vector_loops && node; node = node->next) {
        bool innermost = is_loop(node) && !has(&node->body, is_loop);
        if (innermost && node->iterations > 1 && !has(&node->body, scatters))
            node->run |= RUN_VECTOR;
        vectors(arena, &node->body, target);
    }
}
