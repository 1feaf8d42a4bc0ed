/* step_operands: attention of one new token computes its queries, and stores new keys and values.
 *
 *     y[h,e] = q[h,e] * c[e] + ...             kernel        attend, which computes y[h,e] where
 *     cache_k[position,h,e] = k[h,e] * ...            -->    it reads queries, and stores the rows
 *     cache_v[position,h,e] = v[h,e]                         of caches before it reads them
 *     o[h,e] = attend(y, cache_k, cache_v)     call
 *
 * Needs:   locals.
 * Leaves:  in the unit of the call a kernel of one element per operand; the queries have no
 *          memory. */
#include "schedule/nest.h"
#include "ir/call.h"

#include <string.h>

/* Distance between the kernel and the call in units. */
enum { MAX_UNITS_BETWEEN = 8 };

typedef struct StepCall {
    Program *program;
    const int *touched; /* by tensor->id: number of statements that access it */
    Kernel **users;     /* by tensor->id, for choose_locals */
    ScheduleUnit *unit;
    const Statement *statement;
    const Kernel *from; /* the kernel in question */
} StepCall;

static const Expr *input_of(const StepCall *call, int operand) {
    return call->statement->inputs.items[operand];
}

/* True if the statement sets one element per iteration, in the order of the axes of its target; the
 * last two axes, head and width, completely. */
static bool is_elementwise(const Member *member) {
    const Statement *statement = member->statement;
    const Expr *target = statement->target;
    int level = 0;
    if (statement->accumulate || statement->reduction != REDUCE_NONE || member->block >= 0 ||
        member->listed)
        return false;
    for (int i = 0; i < target->count; i++) {
        const Expr *sub = target->args[i];
        if (level < member->depth && expr_uses_index(sub, member->order[level])) {
            level++;
            if (sub->kind != EXPR_INDEX) return false;
        } else if (i >= target->count - 2 && target->tensor->axes[i]->size != 1) {
            return false;
        }
    }
    for (int i = 0; i < member->depth; i++)
        if (member->path[i]->step != 1 || member->path[i]->bound) return false;
    return level == member->depth;
}

/* ---- the kernel of one element ---- */

static bool member_reads(const StepCall *call, const Member *member, const Tensor *tensor) {
    List reads = {0};
    reads_of(call->program->arena, member->statement, &reads);
    return accesses_have(&reads, tensor);
}

/* True if the members run in the same loops. */
static bool in_one_loop(const Member *one, const Member *other) {
    return one->depth == other->depth &&
           !memcmp(one->path, other->path, (size_t)one->depth * sizeof one->path[0]);
}

/* Marks the members that a result needs: wanted[i]. False if one of them runs in other loops. */
static bool find_wanted(const StepCall *call, int result, bool *wanted) {
    const List *members = &call->from->members;
    wanted[result] = true;
    for (int i = result; i >= 0; i--) {
        const Member *member = members->items[i];
        for (int j = 0; wanted[i] && j < members->count; j++) {
            const Member *maker = members->items[j];
            if (!member_reads(call, member, maker->statement->target->tensor)) continue;
            const Local *local = local_in(call->from, maker->statement->target->tensor);
            if (j >= i || !local || local->stored || local->kind != LOCAL_SCALAR ||
                !in_one_loop(maker, members->items[result]) || !is_elementwise(maker))
                return false;
            wanted[j] = true;
        }
    }
    return true;
}

static Member *copy_member(Arena *arena, const Member *member, Nest *const *path, Nest *last) {
    Member *copy = arena_alloc(arena, sizeof *copy);
    Nest *leaf = arena_alloc(arena, sizeof *leaf);
    *copy = *member;
    memcpy(copy->path, path, (size_t)member->depth * sizeof *path);
    leaf->member = copy;
    list_push(arena, &last->children, leaf);
    return copy;
}

/* A kernel with the loops of a member and the members that it needs; NULL if there is none. */
static Kernel *element_kernel(const StepCall *call, int result) {
    Arena *arena = call->program->arena;
    const List *members = &call->from->members;
    const Member *member = members->items[result];
    bool *wanted = arena_alloc(arena, (size_t)members->count * sizeof *wanted);
    if (!is_elementwise(member) || !find_wanted(call, result, wanted)) return NULL;
    Kernel *kernel = arena_alloc(arena, sizeof *kernel);
    Nest *path[MAX_LOOPS + 1], *last = kernel->root = arena_alloc(arena, sizeof *last);
    for (int i = 0; i < member->depth; i++) {
        path[i] = arena_alloc(arena, sizeof *path[i]);
        *path[i] = *member->path[i];
        path[i]->children = (List){0};
        list_push(arena, &last->children, path[i]);
        last = path[i];
    }
    for (int i = 0; i <= result; i++) {
        if (!wanted[i]) continue;
        const Member *own = members->items[i];
        list_push(arena, &kernel->members, copy_member(arena, own, path, last));
        kernel->work += statement_work(own->statement);
        if (i < result) call->users[own->statement->target->tensor->id] = kernel;
    }
    choose_locals(call->program, kernel, call->users);
    return kernel;
}

/* The queries are a value of this kernel. */
static void keep_queries(const StepCall *call, Kernel *kernel) {
    Arena *arena = call->program->arena;
    Member *member = kernel->members.items[kernel->members.count - 1];
    Local local = {.tensor = member->statement->target->tensor,
                   .kind = LOCAL_SCALAR,
                   .scope = member->depth ? member->path[member->depth - 1] : kernel->root,
                   .covered = member->depth,
                   .first = member};
    list_copy(arena, &kernel->locals, &local, sizeof local);
    if (call->unit->epilogue) list_copy(arena, &call->unit->epilogue->locals, &local, sizeof local);
}

/* ---- the kernel before the call ---- */

/* The operand that a member writes; -1: none; a value of other members: -2. */
static int operand_of(const StepCall *call, const Member *member) {
    const Tensor *target = member->statement->target->tensor;
    const Local *local = local_in(call->from, target);
    for (int i = 0; i < STEP_OPERANDS; i++)
        if (input_of(call, i)->tensor == target) return i;
    return local && !local->stored ? -2 : -1;
}

/* The kernels of all results, or false. */
static bool find_elements(const StepCall *call, Kernel *elements[STEP_OPERANDS]) {
    int uses = 0;
    for (int i = 0; i < call->from->members.count; i++) {
        const int operand = operand_of(call, call->from->members.items[i]);
        if (operand == -1 || (operand >= 0 && elements[operand])) return false;
        if (operand >= 0 && !(elements[operand] = element_kernel(call, i))) return false;
        uses += operand == 0;
    }
    const Tensor *q = input_of(call, 0)->tensor;
    return !uses || (q->role == ROLE_TEMP && call->touched[q->id] == 2);
}

/* True if the call can compute the results of the kernel at this index of the list. */
static bool take_kernel(StepCall *call, const List *units, int at, int end) {
    const ScheduleUnit *unit = units->items[at];
    Kernel *elements[STEP_OPERANDS] = {NULL};
    const Tensor *operands[STEP_OPERANDS];
    for (int i = 0; i < STEP_OPERANDS; i++) operands[i] = input_of(call, i)->tensor;
    call->from = unit->kernel;
    if (unit->kind != UNIT_KERNEL || unit->once != call->unit->once ||
        !find_elements(call, elements) ||
        kernel_meets_unit(call->program->arena, unit->kernel, call->unit, operands, STEP_OPERANDS))
        return false;
    for (int i = at + 1; i < end; i++)
        if (kernel_meets_unit(call->program->arena, unit->kernel, units->items[i], NULL, 0))
            return false;
    if (elements[0]) keep_queries(call, elements[0]);
    memcpy(call->unit->elements, elements, sizeof elements);
    return true;
}

static void elements_in(StepCall *call, List *units) {
    for (int i = 0; i < units->count; i++) {
        ScheduleUnit *unit = units->items[i];
        if (unit->kind == UNIT_REPEAT) elements_in(call, &unit->body);
        if (unit->kind != UNIT_CALL) continue;
        call->unit = unit;
        call->statement = unit->statement;
        if (!unit->statement->row->fuses_operands ||
            !unit->statement->row->fuses_operands(call->program, unit->statement))
            continue;
        for (int j = i - 1; j >= 0 && j >= i - MAX_UNITS_BETWEEN; j--) {
            if (!take_kernel(call, units, j, i)) continue;
            remove_unit(units, j);
            i--;
            break;
        }
    }
}

void step_operands(Schedule *schedule) {
    Program *program = schedule->program;
    StepCall call = {.program = program, .touched = touches_of(program)};
    if (!program->target->row_products) return;
    call.users =
        arena_alloc(program->arena, ((size_t)program->tensors.count + 1) * sizeof(Kernel *));
    elements_in(&call, &schedule->units);
}
