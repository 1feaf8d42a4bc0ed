/* online_softmax: computes a sum of exponentials minus their maximum in the loop of the maximum.
 *
 * Needs:   loop nests of a program for a GPU, after locals.
 * Leaves:  one loop instead of two, which reads a long row only once. The sum is over exponentials
 *          minus the current maximum. A larger maximum rescales it, and sums of several threads are
 *          rescaled to a common maximum before they are added.
 *
 *     for v: m = max(m, x[s,v])           for v: m' = max(m, x[s,v])
 *     for v: z += exp(x[s,v] - m)    -->         z = z * exp(m - m') + exp(x[s,v] - m');  m = m'
 */
#include "schedule/nest.h"
#include "base/must.h"

/* A shorter row is still in the cache when it is read again. */
enum { MIN_ITERATIONS = 1024 };

static bool is_softmax_sum(const Nest *loop, const Member *member, Reduction reduction) {
    return member->statement->reduction == reduction && !member->statement->accumulate &&
           !member->column && member->kept > 0 && member->depth == member->kept + 1 &&
           member->path[member->kept] == loop && loop->step == 1 && !loop->block;
}

/* The maximum in a loop, which may compute other values as well; else NULL. */
static Member *largest_of(const Nest *loop) {
    Member *largest = NULL;
    for (int i = 0; i < loop->children.count; i++) {
        Member *member = ((Nest *)loop->children.items[i])->member;
        bool plain =
            member && member->statement->reduction == REDUCE_NONE && member->kept == member->depth;
        if (plain) continue;
        if (!member || largest || !is_softmax_sum(loop, member, REDUCE_MAX)) return NULL;
        largest = member;
    }
    return largest;
}

/* The sum that is the whole body of a loop; else NULL. */
static Member *sum_of(const Nest *loop) {
    const Nest *leaf = loop->children.count == 1 ? loop->children.items[0] : NULL;
    bool sum = leaf && leaf->member && is_softmax_sum(loop, leaf->member, REDUCE_SUM);
    return sum ? leaf->member : NULL;
}

static bool is_variable(const Kernel *kernel, const Member *member) {
    const Local *local = local_in(kernel, member->statement->target->tensor);
    return local && local->kind == LOCAL_SCALAR && !local->stored && local->first == member;
}

static const Expr *operand(const Expr *expr, OpCode op, int number) {
    return expr && expr->kind == EXPR_APPLY && expr->op == op ? expr->args[number] : NULL;
}

/* An expression of one member with the loops of another. */
static const Expr *moved_operand(Program *program, Expr *expr, const Member *from,
                                 const Member *to) {
    Expr *loops[MAX_LOOPS];
    for (int i = 0; i < from->depth; i++) loops[i] = expr_index(program, to->order[i]);
    return expr_substitute(program, expr, from->order, loops, from->depth);
}

/* True for exp(x - m), where the other member computes m as the maximum of x. */
static bool follows(Program *program, const Member *sum, const Member *largest) {
    const Expr *less = operand(sum->statement->value, OP_EXP, 0), *m = operand(less, OP_SUB, 1);
    const Expr *stopped = operand(m, OP_STOP, 0);
    if (stopped) m = stopped;
    if (!m || m->kind != EXPR_READ || m->tensor != largest->statement->target->tensor) return false;
    const Expr *x = moved_operand(program, largest->statement->value, largest, sum);
    return expr_equal(x, less->args[0]) && !expr_reads(x, m->tensor);
}

/* True if the other loop computes the operands of the sum in the same iteration. */
static bool reads_this_iteration(Program *program, const Nest *loop, const Member *sum) {
    List reads = {0};
    reads_of(program->arena, sum->statement, &reads);
    for (int i = 0; i < loop->children.count; i++) {
        const Member *other = ((Nest *)loop->children.items[i])->member;
        if (other->statement->reduction != REDUCE_NONE) continue;
        const Expr *made = moved_operand(program, other->statement->target, other, sum);
        LIST_EACH(const Expr, read, &reads)
            if (read->tensor == made->tensor && !expr_equal(read, made)) return false;
    }
    return true;
}

/* Moves the loop of a sum into the previous one, which computes the maximum. */
static bool join_softmax(Program *program, const Kernel *kernel, Nest *loop, const Nest *next) {
    Member *largest = largest_of(loop), *sum = sum_of(next);
    if (!largest || !sum || largest->kept != sum->kept || loop->size != next->size ||
        loop->size < MIN_ITERATIONS || !is_variable(kernel, largest) ||
        !follows(program, sum, largest) || !reads_this_iteration(program, loop, sum))
        return false;
    MUST(sum->kept < sum->depth);
    sum->path[sum->kept] = loop;
    sum->online_max = largest;
    largest->is_online_max = true;
    list_push(program->arena, &loop->children, next->children.items[0]);
    return true;
}

static bool join_loops(Program *program, const Kernel *kernel, Nest *nest) {
    List *children = &nest->children;
    bool joined = false;
    int kept = 0;
    LIST_EACH(Nest, child, children) {
        Nest *before = kept ? children->items[kept - 1] : NULL;
        joined |= !child->member && join_loops(program, kernel, child);
        if (!child->member && before && !before->member &&
            join_softmax(program, kernel, before, child))
            joined = true;
        else
            children->items[kept++] = child;
    }
    children->count = kept;
    return joined;
}

/* online_softmax: see the head of this file. */
bool online_softmax(Program *program, const Kernel *kernel) {
    return join_loops(program, kernel, kernel->root);
}
