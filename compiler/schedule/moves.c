/* moves: kernels that move past other units, or into them. */
#include "schedule/nest.h"

static bool is_among(const Tensor *tensor, const Tensor *const *tensors, int count) {
    for (int i = 0; i < count; i++)
        if (tensors[i] == tensor) return true;
    return false;
}

static bool writes_other(Arena *arena, const Statement *writer, const Statement *other,
                         const Tensor *const *except, int count) {
    const List accesses = accesses_of(arena, other);
    List writes = {0};
    writes_of(arena, writer, &writes);
    for (int i = 0; i < writes.count; i++) {
        const Tensor *tensor = ((const Expr *)writes.items[i])->tensor;
        if (!is_among(tensor, except, count) && accesses_have(&accesses, tensor)) return true;
    }
    return false;
}

static bool kernel_meets(Arena *arena, const Kernel *kernel, const Statement *statement,
                         const Tensor *const *except, int count) {
    for (int i = 0; i < kernel->members.count; i++) {
        const Statement *own = ((const Member *)kernel->members.items[i])->statement;
        if (writes_other(arena, own, statement, except, count) ||
            writes_other(arena, statement, own, except, count))
            return true;
    }
    return false;
}

static bool kernels_meet(Arena *arena, const Kernel *one, const Kernel *other,
                         const Tensor *const *except, int count) {
    for (int i = 0; other && i < other->members.count; i++)
        if (kernel_meets(arena, one, ((const Member *)other->members.items[i])->statement, except,
                         count))
            return true;
    return false;
}

bool kernel_meets_unit(Arena *arena, const Kernel *kernel, const ScheduleUnit *unit,
                       const Tensor *const *except, int count) {
    const ScheduleUnit *second = unit->accumulated_product;
    if (unit->kind == UNIT_REPEAT) return true;
    for (int i = 0; i < STEP_OPERANDS; i++)
        if (kernels_meet(arena, kernel, unit->elements[i], except, count)) return true;
    return (second && kernel_meets(arena, kernel, second->statement, except, count)) ||
           (unit->statement && kernel_meets(arena, kernel, unit->statement, except, count)) ||
           kernels_meet(arena, kernel, unit->kernel, except, count) ||
           kernels_meet(arena, kernel, unit->epilogue, except, count) ||
           kernels_meet(arena, kernel, unit->prologue, except, count);
}

void remove_unit(List *units, int at) {
    units->count--;
    for (int i = at; i < units->count; i++) units->items[i] = units->items[i + 1];
}
