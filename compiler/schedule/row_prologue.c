/* row_prologue: every block of a launch of row products computes the row itself.
 *
 * A row that a small kernel computes from a few short tensors is recomputed by each block, in
 * shared memory: a launch costs more time than this work.
 *
 *     n[d] = x[d] * root * w[d]        kernel             launch
 *     q[e] = sum[d] n[d] * wq[d,e]     launch     -->         n = x * root * w    in every block
 *     k[e] = sum[d] n[d] * wk[d,e]                            q = n wq,  k = n wk
 *
 * Needs:   locals.
 * Leaves:  a prologue in the first unit of the launch. The row has memory only if other units read
 *          it: one block then stores it. */
#include "schedule/nest.h"

/* Distance between the kernel and the launch in units; bytes of the shared rows of a block. */
enum { MAX_UNITS_BETWEEN = 8, MAX_ROW_BYTES = 1 << 15 };

/* The units first .. end - 1 of a list share a launch; all multiply `row`. */
typedef struct RowLaunch {
    Program *program;
    const int *touched; /* by tensor->id: number of statements that access it */
    List *units;
    int first, end;
    Tensor *row;
} RowLaunch;

static ScheduleUnit *launch_unit(const RowLaunch *launch, int i) {
    return launch->units->items[i];
}

static const Statement *member_statement(const Kernel *kernel, int i) {
    return ((const Member *)kernel->members.items[i])->statement;
}

static bool is_accessed_by(const RowLaunch *launch, const Statement *statement,
                           const Tensor *tensor) {
    const List accesses = accesses_of(launch->program->arena, statement);
    return accesses_have(&accesses, tensor);
}

/* The end of a launch; its row, or NULL if the products multiply different tensors, or if lines of
 * a matrix run along the sum: these products leave no registers for a prologue. */
static void find_launch(RowLaunch *launch) {
    launch->row = launch_unit(launch, launch->first)->contraction->a->tensor;
    launch->end = launch->first;
    do {
        const ScheduleUnit *unit = launch_unit(launch, launch->end++);
        if (unit->contraction->a->tensor != launch->row || unit->contraction->product.b_k == 1)
            launch->row = NULL;
    } while (launch->end < launch->units->count && launch_unit(launch, launch->end)->beside);
}

/* True if the statement stores each element of the row once. */
static bool stores_row(const Statement *statement) {
    const Expr *target = statement->target;
    long elements = 1;
    if (statement->accumulate || statement_is_scatter(statement)) return false;
    for (int i = 0; i < target->count; i++) {
        if (target->args[i]->kind != EXPR_INDEX || target->args[i]->index->of_repeat) continue;
        for (int j = 0; j < i; j++)
            if (expr_equal(target->args[i], target->args[j])) return false;
        elements *= loop_size(target->args[i]->index);
    }
    return elements == tensor_elements(target->tensor);
}

/* True if the row is the only result of the kernel, and the kernel is small. The threads of a block
 * share its loops; a row inside a loop would be an array of one thread. */
static bool makes_row(const RowLaunch *launch, const Kernel *kernel) {
    long bytes = tensor_elements(launch->row) * type_bytes(launch->row->type);
    int writers = 0;
    for (int i = 0; i < kernel->members.count; i++) {
        const Statement *statement = member_statement(kernel, i);
        const Tensor *target = statement->target->tensor;
        const Local *local = local_in(kernel, target);
        if (target == launch->row ? !stores_row(statement) : !local || local->stored) return false;
        writers += target == launch->row;
    }
    LIST_EACH(const Local, local, &kernel->locals) {
        if (local->kind != LOCAL_ROW) continue;
        if (local->scope != kernel->root) return false;
        bytes += local->size * type_bytes(local->tensor->type);
    }
    return writers == 1 && bytes <= MAX_ROW_BYTES && kernel->work < small_work(launch->program);
}

/* The number of statements of the kernel and of the launch that access the row; -1 if one of them
 * is in the store of a product. */
static int own_accesses(const RowLaunch *launch, const Kernel *kernel) {
    int count = 0;
    for (int i = 0; i < kernel->members.count; i++)
        count += is_accessed_by(launch, member_statement(kernel, i), launch->row);
    for (int i = launch->first; i < launch->end; i++) {
        const ScheduleUnit *unit = launch_unit(launch, i);
        const Statement *pair = unit->paired_row ? unit->paired_row->statement : NULL;
        for (int j = 0; j < unit->epilogue->members.count; j++) {
            const Statement *statement = member_statement(unit->epilogue, j);
            if (!is_accessed_by(launch, statement, launch->row)) continue;
            if (j && statement != pair) return -1;
            count++;
        }
    }
    return count;
}

/* True if each block of the launch can execute the kernel at this index in the list. */
static bool fits_launch(const RowLaunch *launch, int at) {
    const ScheduleUnit *unit = launch_unit(launch, at);
    if (unit->kind != UNIT_KERNEL || launch->row->role != ROLE_TEMP ||
        unit->once != launch_unit(launch, launch->first)->once ||
        !makes_row(launch, unit->kernel) || own_accesses(launch, unit->kernel) < 0)
        return false;
    const Tensor *row = launch->row;
    for (int i = at + 1; i < launch->end; i++)
        if (kernel_meets_unit(launch->program->arena, unit->kernel, launch_unit(launch, i), &row,
                              i >= launch->first))
            return false;
    return true;
}

/* Other readers get the row in memory. */
static void keep_row(const RowLaunch *launch, Kernel *kernel) {
    Arena *arena = launch->program->arena;
    Local *local = arena_alloc(arena, sizeof *local);
    *local = (Local){.tensor = launch->row,
                     .kind = LOCAL_ROW,
                     .operand = true,
                     .stored = own_accesses(launch, kernel) < launch->touched[launch->row->id],
                     .scope = kernel->root,
                     .size = tensor_elements(launch->row)};
    for (int i = 0; i < kernel->members.count; i++)
        if (member_statement(kernel, i)->target->tensor == launch->row)
            local->first = kernel->members.items[i];
    list_push(arena, &kernel->locals, local);
    for (int i = launch->first; i < launch->end; i++)
        list_push(arena, &launch_unit(launch, i)->epilogue->locals, local);
}

/* Moves the kernel that makes the row of a launch into the launch. True if it was a unit. */
static bool take_maker(RowLaunch *launch) {
    List *units = launch->units;
    for (int i = launch->first - 1; i >= 0 && i >= launch->first - MAX_UNITS_BETWEEN; i--) {
        if (!fits_launch(launch, i)) continue;
        Kernel *kernel = launch_unit(launch, i)->kernel;
        launch_unit(launch, launch->first)->prologue = kernel;
        keep_row(launch, kernel);
        remove_unit(units, i);
        return true;
    }
    return false;
}

static void prologues_in(RowLaunch *launch, List *units) {
    for (int i = 0; i < units->count; i++) {
        ScheduleUnit *unit = units->items[i];
        if (unit->kind == UNIT_REPEAT) prologues_in(launch, &unit->body);
        if (!unit->row) continue;
        launch->units = units;
        launch->first = i;
        find_launch(launch);
        i = launch->end - 1;
        if (launch->row && take_maker(launch)) i--;
    }
}

void row_prologue(Schedule *schedule) {
    RowLaunch launch = {.program = schedule->program};
    if (!schedule->program->target->row_products) return;
    launch.touched = touches_of(schedule->program);
    prologues_in(&launch, &schedule->units);
}
