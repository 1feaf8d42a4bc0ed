/* same_tensors: check that `training`, `decoding` and `refining` select only equations. Parameters
 * and states must be the same in every graph; otherwise a trained model could not be evaluated.
 *
 *     if training { y = dropout(x) }       fine
 *     if training { param w[d,d] ... }     an error: w does not exist elsewhere
 */
#include "passes.h"

#include <string.h>

static bool is_kept(const Tensor *tensor) {
    return tensor->role == ROLE_PARAMETER || tensor->role == ROLE_STATE;
}

const Tensor *tensor_at_path(const Program *program, const char *path) {
    LIST_EACH(const Tensor, tensor, &program->tensors)
        if (is_kept(tensor) && !strcmp(tensor->path, path)) return tensor;
    return NULL;
}

static bool has_same_shape(const Tensor *a, const Tensor *b) {
    if (a->role != b->role || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->axes[i]->size != b->axes[i]->size) return false;
    return true;
}

/* False after a report. */
static bool is_matched(const Program *program, const Program *other, const char *condition,
                       bool inside) {
    LIST_EACH(const Tensor, tensor, &program->tensors) {
        const Tensor *match = is_kept(tensor) ? tensor_at_path(other, tensor->path) : tensor;
        if (match == tensor || (match && has_same_shape(tensor, match))) continue;
        if (match)
            report_error(program->reports, tensor->span, "'%s' has another shape if '%s' is true",
                         tensor->path, condition);
        else
            report_error(program->reports, tensor->span, "'%s' exists only if '%s' is %s",
                         tensor->path, condition, inside ? "true" : "false");
        return report_help(program->reports,
                           "declare parameters and states outside of 'if %s { ... }', and put only "
                           "equations inside",
                           condition);
    }
    return true;
}

void same_tensors(const Program *forward, const Program *other) {
    const char *condition = other->graph == GRAPH_DECODE   ? "decoding"
                            : other->graph == GRAPH_REFINE ? "refining"
                                                           : "training";
    if (is_matched(other, forward, condition, true)) is_matched(forward, other, condition, false);
}
