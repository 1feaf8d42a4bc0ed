/* map_scatter: a nest of a GPU that is one scatter: the rows of its target, the threads of each.
 *
 *     e[tokens[b,s],d] += x[b,s,d]    one block per token. The block of the first token with a row
 *                                     of e searches later tokens for the same row and adds their
 *                                     values in order. If e has fewer rows than there are tokens,
 *                                     one block per row does so.
 */
#include "schedule/nest.h"

enum { MAX_ROWS = 1 << 20, THREADS = 256 };

long scatter_iterations(const Member *member, int from, int to) {
    long iterations = 1;
    for (int i = from; i < to; i++) iterations *= member->path[i]->size;
    return iterations;
}

Member *scatter_member(const Kernel *kernel, const Nest *nest) {
    Member *only = NULL;
    LIST_EACH(Member, member, &kernel->members) {
        if (!is_inside(member, nest)) continue;
        if (only) return NULL;
        only = member;
    }
    return only;
}

/* Rows of the target: the possible values of computed subscripts. */
static long rows_of(const Member *member) {
    const Expr *target = member->statement->target;
    double rows = 1;
    for (int i = 0; i < target->count; i++)
        if (is_computed(target->args[i])) rows *= (double)target->tensor->axes[i]->size;
    return rows <= MAX_ROWS ? (long)rows : 0;
}

/* The row of an iteration is known outside the loops over columns: no computed subscript uses them,
 * as the second one of t[s + 1, c, c] does. */
static bool row_is_outside_columns(const Member *member) {
    const Expr *target = member->statement->target;
    for (int i = 0; i < target->count; i++)
        for (int k = 0; is_computed(target->args[i]) && k < member->kept; k++)
            if (expr_uses_index(target->args[i], member->order[k])) return false;
    return true;
}

static bool scatters_rows(const Program *program, const Member *member) {
    if (!member || member->kept == member->depth || !member->statement->accumulate ||
        member->statement->reduction != REDUCE_NONE ||
        member->statement->target->tensor->type != TYPE_REAL)
        return false;
    const double columns = (double)scatter_iterations(member, 0, member->kept);
    return rows_of(member) > 1 && row_is_outside_columns(member) &&
           columns < program->target->threads &&
           scatter_iterations(member, member->kept, member->depth) < 1L << 31;
}

/* The number of dimensions before the columns, if the last dimensions are the columns, whole and in
 * order; or -1. */
static int before_columns(const Expr *access, const Member *member) {
    int left = access->count;
    for (int i = member->kept - 1; i >= 0; i--) {
        const Expr *sub = left > 0 ? access->args[left - 1] : NULL;
        if (!sub || sub->kind != EXPR_INDEX || sub->index != member->order[i] ||
            access->tensor->axes[left - 1]->size != member->path[i]->size)
            return -1;
        left--;
    }
    return left;
}

/* True if whole rows of a tensor are added to whole rows of the target. */
static bool adds_rows(const Member *member) {
    const Expr *value = member->statement->value, *target = member->statement->target;
    if (value->kind != EXPR_READ) return false;
    int row = before_columns(value, member) - 1, last = before_columns(target, member) - 1;
    if (row < 0 || last < 0 || value->args[row]->kind != EXPR_INDEX ||
        value->args[row]->index != member->order[member->kept] || !is_computed(target->args[last]))
        return false;
    while (last >= 0 && is_computed(target->args[last])) last--;
    for (; last >= 0; last--)
        if (is_computed(target->args[last])) return false;
    return true;
}

/* The columns that a thread of the template adds together; 0: it does not fit. */
static int added_width(const Member *member) {
    if (!adds_rows(member)) return 0;
    const int width = member->statement->value->tensor->type == TYPE_BF16 ? 8 : 4;
    return scatter_iterations(member, 0, member->kept) % width ? 0 : width;
}

bool map_scatter(const Program *program, const Kernel *kernel, Nest *nest, LaunchMap *map) {
    const Member *member = scatter_member(kernel, nest);
    if (!scatters_rows(program, member)) return false;
    const Relation *relation = listed_rows(program, member->statement);
    if (member->depth - member->kept != 1) relation = NULL;
    const int added = relation ? added_width(member) : 0;
    const long rows = rows_of(member), columns = scatter_iterations(member, 0, member->kept),
               terms = scatter_iterations(member, member->kept, member->depth);
    *map = (LaunchMap){.nest = nest, .listed = relation, .rows = rows};
    map->form = added          ? LAUNCH_ADDED_ROWS
                : relation     ? LAUNCH_LISTED_ROWS
                : rows > terms ? LAUNCH_SEARCHED_TERMS
                               : LAUNCH_SEARCHED_ROWS;
    map->launch.threads = THREADS;
    map->launch.blocks = added ? ceil_div(rows * columns / added, THREADS)
                         : map->form == LAUNCH_SEARCHED_TERMS ? terms
                                                              : rows;
    if (!member->kept) return true;
    nest->map.by = added ? BY_ALL : BY_THREADS;
    nest->map.joined = member->kept;
    nest->map.width =
        added ? added : vector_width_around(program->arena, kernel, member->path[member->kept - 1]);
    return true;
}
