/* buffer_reuse: a tensor reuses the memory of another tensor that is read for the last time
 * where the first one is written.
 *
 *     y[b,v] = x[b,v] - m[b]         x is not read again: y uses the memory of x
 *
 * One statement must read exactly the old element that it replaces. Other reads of the old tensor
 * in the same kernel must come before it, in the same iterations of the shared loops. */
#include "schedule/nest.h"
#include "base/must.h"

/* Below this size, loops without aliasing are worth more than the memory. */
enum { MIN_TAKEN = 1 << 20 };

typedef struct Lives {
    Schedule *schedule;
    const Kernel *kernel;
    const ScheduleUnit *unit;
} Lives;

static Allocation *allocation_of(const Lives *lives, const Tensor *tensor) {
    return &lives->schedule->allocations[tensor->id];
}

static bool is_block(const Allocation *allocation) {
    return allocation->bytes >= MIN_TAKEN && !allocation->slots && !allocation->taken;
}

/* True if the statement sets every element of its target, one per iteration of its loops. */
static bool sets_all(const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    const Expr *target = statement->target;
    if (statement->accumulate || statement->reduction != REDUCE_NONE) return false;
    if (statement->loop_count != target->count) return false;
    for (int i = 0; i < target->count; i++)
        if (target->args[i]->kind != EXPR_INDEX || target->args[i]->index->of_repeat) return false;
    return !statement_is_scatter(statement);
}

static bool same_subs(const Expr *one, const Expr *other) {
    for (int i = 0; i < one->count; i++)
        if (!expr_equal(one->args[i], other->args[i])) return false;
    return one->count == other->count;
}

/* True if the writer has not yet replaced the element that a member reads at `read`: the reader
 * comes first in each iteration that they share. */
static bool reads_old_before(const Member *reader, const Expr *read, const Member *writer) {
    const Expr *target = writer->statement->target;
    for (int level = 0; level < reader->depth && level < writer->depth; level++) {
        if (reader->path[level] != writer->path[level]) return true;
        if (read->count != target->count ||
            !same_iteration(read, reader->order[level], target, writer->order[level]))
            return false;
    }
    return true;
}

static bool may_replace(const Lives *lives, Arena *arena, int writer, const Tensor *old) {
    const List *members = &lives->kernel->members;
    const Member *by = members->items[writer];
    for (int i = 0; i < members->count; i++) {
        const Member *member = members->items[i];
        List reads = {0}, writes = {0};
        reads_of(arena, member->statement, &reads);
        writes_of(arena, member->statement, &writes);
        if (accesses_have(&writes, old)) return false;
        LIST_EACH(const Expr, read, &reads) {
            if (read->tensor != old) continue;
            if (i > writer || (i == writer && !same_subs(read, by->statement->target)))
                return false;
            if (i < writer && !reads_old_before(member, read, by)) return false;
        }
    }
    return true;
}

/* The tensor whose memory the target of a member may use, or NULL. */
static const Tensor *replaced_by(const Lives *lives, Arena *arena, int writer) {
    const Statement *statement = ((Member *)lives->kernel->members.items[writer])->statement;
    const Tensor *made = statement->target->tensor;
    const Allocation *allocation = allocation_of(lives, made);
    List reads = {0};
    if (!is_block(allocation) || allocation->cleared || allocation->first != lives->unit->first ||
        !sets_all(statement))
        return NULL;
    reads_of(arena, statement, &reads);
    for (int i = 0; i < reads.count; i++) {
        const Tensor *old = ((Expr *)reads.items[i])->tensor;
        const Allocation *other = allocation_of(lives, old);
        if (old != made && is_block(other) && other->bytes == allocation->bytes &&
            old->type == made->type && other->last == lives->unit->first &&
            may_replace(lives, arena, writer, old))
            return old;
    }
    return NULL;
}

static void take_over(Schedule *schedule, const List *units) {
    Arena *arena = schedule->program->arena;
    LIST_EACH(const ScheduleUnit, unit, units) {
        Lives lives = {schedule, unit->kernel, unit};
        if (unit->kind == UNIT_REPEAT) take_over(schedule, &unit->body);
        for (int j = 0; unit->kernel && j < unit->kernel->members.count; j++) {
            const Tensor *old = replaced_by(&lives, arena, j);
            if (!old) continue;
            const Member *member = unit->kernel->members.items[j];
            allocation_of(&lives, member->statement->target->tensor)->over = old;
            MUST(!allocation_of(&lives, old)->taken && old->role == ROLE_TEMP);
            allocation_of(&lives, old)->taken = true;
        }
    }
}

void buffer_reuse(Schedule *schedule) {
    take_over(schedule, &schedule->units);
}
