/* vector_access: adjacent elements in memory that the iterations of a loop read and write, and the
 * number of iterations that a thread of a GPU therefore runs together, 16 bytes at a time.
 *
 * Sizes are multiples of this number and tensors are aligned to 32 bytes, with two exceptions. The
 * update of a parameter reads and writes only existing elements. The last iterations of a loop that
 * stops before the end of its axis (see pad.c) do nothing.
 */
#include "schedule/nest.h"

/* Reals in 16 bytes; twice as many if bf16 is read or written. */
enum { WIDTH = 4, MAX_WIDTH = 8 };

/* True if the index runs in that loop, in one of the statements inside. */
static bool is_of_loop(const Kernel *kernel, const Nest *nest, const Index *index) {
    LIST_EACH(const Member, member, &kernel->members)
        for (int i = 0; i < member->depth; i++)
            if (member->path[i] == nest && member->order[i] == index) return true;
    return false;
}

const Index *index_of_loop(const Kernel *kernel, const Nest *nest, const Expr *expr) {
    if (expr->kind == EXPR_INDEX) return is_of_loop(kernel, nest, expr->index) ? expr->index : NULL;
    const Index *found = NULL;
    for (int i = 0; i < expr->count && !found; i++)
        found = index_of_loop(kernel, nest, expr->args[i]);
    return found;
}

static bool is_multiple(const Expr *expr, int width) {
    return expr->kind == EXPR_NUMBER && (long)expr->number % width == 0;
}

/* True if adjacent iterations of the loop, starting at a multiple of the width, are adjacent
 * elements. */
static bool goes_along(const Kernel *kernel, const Nest *nest, const Expr *sub, int width) {
    if (sub->kind == EXPR_INDEX) return index_of_loop(kernel, nest, sub) != NULL;
    if (sub->kind != EXPR_APPLY) return false;
    bool shifts = sub->op == OP_ADD || sub->op == OP_SUB || sub->op == OP_MOD;
    return shifts && goes_along(kernel, nest, sub->args[0], width) &&
           is_multiple(sub->args[1], width);
}

/* True for a row in shared memory, whose padding has no values. */
static bool is_in_row(const Kernel *kernel, const Tensor *tensor) {
    const Local *local = local_in(kernel, tensor);
    return local && local->kind == LOCAL_ROW;
}

bool lies_along(const Kernel *kernel, const Nest *nest, const Expr *access, int width) {
    const Tensor *tensor = access->tensor;
    int last = access->count - 1;
    const bool uneven = nest->size % width != 0; /* the last iterations may be beyond the end */
    if (uneven && (last < 0 || !tensor->axes[last]->padded ||
                   access->args[last]->kind != EXPR_INDEX || is_in_row(kernel, tensor)))
        return false;
    bool laned = tensor->type == TYPE_REAL || tensor->type == TYPE_BF16;
    if (last < 0 || !laned ||
        (tensor->axes[last]->size % width != 0 && tensor->axes[last]->kind != AXIS_ELEMENTS) ||
        !goes_along(kernel, nest, access->args[last], width))
        return false;
    for (int i = 0; i < last; i++)
        if (index_of_loop(kernel, nest, access->args[i])) return false;
    return true;
}

/* True if an access along the loop is in memory; *halves: one of them of bf16. */
static bool has_vectors(Arena *arena, const Kernel *kernel, const Nest *nest, int width,
                        bool *halves) {
    bool found = false;
    *halves = false;
    LIST_EACH(const Member, member, &kernel->members) {
        List list = {0};
        if (!is_inside(member, nest)) continue;
        reads_of(arena, member->statement, &list);
        writes_of(arena, member->statement, &list);
        LIST_EACH(const Expr, access, &list) {
            if (is_register(kernel, access->tensor) || !lies_along(kernel, nest, access, width))
                continue;
            found = true;
            *halves |= access->tensor->type == TYPE_BF16;
        }
    }
    return found;
}

/* Iterations after the last element do nothing. No sum and no other access may use them. */
static bool may_end_early(Arena *arena, const Kernel *kernel, const Nest *nest, int width) {
    LIST_EACH(const Member, member, &kernel->members) {
        List list = {0};
        if (!is_inside(member, nest)) continue;
        if (member->statement->reduction != REDUCE_NONE) return false;
        reads_of(arena, member->statement, &list);
        writes_of(arena, member->statement, &list);
        LIST_EACH(const Expr, access, &list)
            if (access->tensor->rank && (access->args[access->count - 1]->kind != EXPR_INDEX ||
                                         !lies_along(kernel, nest, access, width)))
                return false;
    }
    return true;
}

static bool is_whole_loop(const Nest *nest) {
    return nest->step <= 1 && !nest->block && !nest->bound;
}

int vector_width(Arena *arena, const Kernel *kernel, const Nest *nest, bool alone) {
    bool halves;
    int width = WIDTH;
    if (!is_whole_loop(nest) || (nest->size % width != 0 && !alone) || !is_innermost(nest) ||
        !has_vectors(arena, kernel, nest, width, &halves))
        return 0;
    if (halves && (nest->size % MAX_WIDTH == 0 || alone) &&
        has_vectors(arena, kernel, nest, MAX_WIDTH, &halves) && halves)
        width = MAX_WIDTH;
    const bool ends_early = nest->index->axis->kind == AXIS_ELEMENTS;
    return ends_early && !may_end_early(arena, kernel, nest, width) ? 0 : width;
}

int vector_width_around(Arena *arena, const Kernel *kernel, const Nest *nest) {
    bool halves;
    const bool good = is_whole_loop(nest) && nest->size % WIDTH == 0 &&
                      has_vectors(arena, kernel, nest, WIDTH, &halves);
    return good ? WIDTH : 0;
}
