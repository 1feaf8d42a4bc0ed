/* plan: assigns memory in one block to every temporary.
 *
 * Needs:   fuse.
 * Leaves:  an offset for each tensor that needs memory; simultaneously live tensors do not overlap.
 *
 * Time is the linear order of the units. A tensor used inside one repeat only lives for one
 * iteration. A tensor that is used inside and outside of a repeat, or that has a slice per
 * iteration, lives for the whole repeat. The repeat may be a part of an iteration of another one. A
 * carried tensor without other readers needs two slots instead of one per iteration:
 *
 *     x[0,b,s,d] = ...
 *     repeat i: x[i+1,b,s,d] = x[i,b,s,d] + ...        x[t] is in slot t & 1
 *
 * Some tensors reuse the memory of another one: buffer_reuse.c. Offsets: offsets.c.
 */
#include "schedule/nest.h"
#include "base/must.h"

#include <math.h>
#include <string.h>

/* A repeat and the repeats that enclose it. */
typedef struct RepeatChain {
    const ScheduleUnit *repeat;
    const struct RepeatChain *outside; /* NULL: outermost */
} RepeatChain;

typedef struct Touch {
    const Expr *access;
    bool write, defines; /* defines: sets all elements of the step without reading them */
    int at;
    const ScheduleUnit *repeat; /* the innermost enclosing one, or NULL */
    const RepeatChain *around;
} Touch;

typedef struct Planning {
    Schedule *schedule;
    Arena *arena;
    List *touches; /* by tensor->id: Touch * in linear order */
    int clock;
} Planning;

/* ---- accesses over time ---- */

static void touch_allocation(Planning *planning, const Expr *access, const Statement *writer,
                             Touch touch) {
    Touch *copy = arena_alloc(planning->arena, sizeof *copy);
    *copy = touch;
    copy->access = access;
    copy->write = writer != NULL;
    copy->defines = writer && (writer->kind == STATEMENT_CALL ||
                               (!writer->accumulate && !statement_is_scatter(writer)));
    list_push(planning->arena, &planning->touches[access->tensor->id], copy);
}

static void touch_units(Planning *planning, List *units, const RepeatChain *around) {
    LIST_EACH(ScheduleUnit, unit, units) {
        unit->first = unit->last = unit->beside ? planning->clock - 1 : planning->clock++;
        Touch base = {
            .at = unit->first, .repeat = around ? around->repeat : NULL, .around = around};
        const List accesses = unit_accesses(planning->arena, planning->schedule->program, unit);
        LIST_EACH(const UnitAccess, access, &accesses)
            touch_allocation(planning, access->access, access->writer, base);
        if (unit->kind != UNIT_REPEAT) continue;
        RepeatChain *inside = arena_alloc(planning->arena, sizeof *inside);
        *inside = (RepeatChain){unit, around};
        touch_units(planning, &unit->body, inside);
        unit->last = planning->clock++;
    }
}

/* ---- lifetimes ---- */

static bool lies_inside(const Touch *touch, const RepeatChain *around) {
    for (const RepeatChain *at = touch->around; at; at = at->outside)
        if (at == around) return true;
    return !around;
}

/* True if the subscript is computed from the index. A table lookup by the index may be the same in
 * every step. */
static bool plan_goes_by(const Expr *sub, const Index *index) {
    if (sub->kind == EXPR_INDEX) return sub->index == index;
    for (int i = 0; sub->kind == EXPR_APPLY && i < sub->count; i++)
        if (plan_goes_by(sub->args[i], index)) return true;
    return false;
}

/* True if it has a slice per iteration of the repeat. */
static bool has_steps(const List *touches, const ScheduleUnit *repeat) {
    for (int i = 0; i < touches->count; i++) {
        const Expr *access = ((const Touch *)touches->items[i])->access;
        for (int j = 0; j < access->count; j++)
            if (plan_goes_by(access->args[j], repeat->statement->index)) return true;
    }
    return false;
}

/* The innermost repeat for one iteration of which the tensor lives, or NULL. */
static const RepeatChain *home_of(const List *touches) {
    const Touch *first = touches->items[0];
    const RepeatChain *home = first->defines ? first->around : NULL;
    for (int i = 0; i < touches->count; i++)
        while (!lies_inside(touches->items[i], home)) home = home->outside;
    for (const RepeatChain *at = home; at; at = at->outside)
        if (has_steps(touches, at->repeat)) home = at->outside;
    return home;
}

static void find_lifetime(Allocation *allocation, const List *touches) {
    const Touch *first = touches->items[0];
    const RepeatChain *home = home_of(touches);
    allocation->first = first->at;
    LIST_EACH(const Touch, touch, touches) {
        int from = touch->at, to = touch->at;
        for (const RepeatChain *at = touch->around; at != home; at = at->outside) {
            MUST(at);
            from = at->repeat->first;
            to = at->repeat->last;
        }
        if (from < allocation->first) allocation->first = from;
        if (to > allocation->last) allocation->last = to;
    }
    allocation->cleared = !first->defines;
    if (allocation->cleared) allocation->first = 0;
    MUST(allocation->first <= allocation->last);
}

/* ---- carried tensors ---- */

typedef struct Carry {
    const ScheduleUnit *repeat;
    double read, written; /* offsets from the step */
    bool defined;         /* so far in this step */
} Carry;

static const Expr *carried_sub(const Touch *touch) {
    return touch->access->count ? touch->access->args[0] : NULL;
}

/* The repeat that carries the tensor, and the offset of its writes. */
static bool find_carry(const List *touches, Carry *carry) {
    LIST_EACH(const Touch, touch, touches) {
        const Index *step;
        if (!touch->repeat || !touch->write) continue;
        carry->repeat = touch->repeat;
        if (!step_and_offset(carried_sub(touch), &step, &carry->written)) return false;
        carry->read = touch->repeat->statement->reverse ? carry->written + 1 : carry->written - 1;
        return step == touch->repeat->statement->index;
    }
    return false;
}

static bool fits_inside(const Touch *touch, Carry *carry) {
    const Index *step;
    double offset;
    if (!step_and_offset(carried_sub(touch), &step, &offset) ||
        step != carry->repeat->statement->index)
        return false;
    if (offset == carry->read) return !touch->write;
    if (offset != carry->written) return false;
    carry->defined = carry->defined || touch->defines;
    return carry->defined;
}

/* True if the access outside of the repeat is to the slice of the first step before it, or to the
 * slice of the last step after it. */
static bool fits_outside(const Touch *touch, const Carry *carry) {
    const Index *step;
    double offset, last = (double)carry->repeat->statement->index->axis->size - 1;
    bool reverse = carry->repeat->statement->reverse, before = touch->at < carry->repeat->first;
    if (!step_and_offset(carried_sub(touch), &step, &offset) || step) return false;
    double first_step = reverse ? last : 0, last_step = reverse ? 0 : last;
    return offset == (before ? first_step + carry->read : last_step + carry->written);
}

static bool is_carried(const Tensor *tensor, const List *touches) {
    Carry carry = {.repeat = NULL};
    if (tensor->rank == 0 || tensor->axes[0]->size <= 2 || !find_carry(touches, &carry))
        return false;
    LIST_EACH(const Touch, touch, touches) {
        if (touch->access->count == 0) return false;
        if (touch->repeat == carry.repeat ? !fits_inside(touch, &carry) : touch->repeat != NULL)
            return false;
        if (!touch->repeat && !fits_outside(touch, &carry)) return false;
    }
    return true;
}

/* ---- sizes ---- */

/* Rows are the first dimension of each part. */
static void set_bytes(Allocation *allocation, const Tensor *tensor) {
    long elements = tensor_elements(tensor), parts = 1;
    if (allocation->slots) elements = elements / tensor->axes[0]->size * 2;
    const size_t bytes = (size_t)(elements * type_bytes(tensor->type));
    allocation->bytes = allocation->part = allocation->touched = align_offset(bytes);
    for (int k = 0; k < tensor->rank; k++) {
        const Axis *axis = tensor->axes[k];
        const double share = axis_expected(axis) / (double)axis->size;
        if (axis->kind == AXIS_ROWS && share < 1) {
            allocation->part = bytes / (size_t)parts;
            allocation->touched = (size_t)ceil(share * (double)allocation->part);
            return;
        }
        parts *= k == 0 && allocation->slots ? 2 : axis->size;
    }
}

void plan(Schedule *schedule) {
    Program *program = schedule->program;
    size_t count = (size_t)program->tensors.count + 1;
    Planning planning = {.schedule = schedule, .arena = program->arena};
    planning.touches = arena_alloc(program->arena, count * sizeof *planning.touches);
    schedule->allocations = arena_alloc(program->arena, count * sizeof *schedule->allocations);
    touch_units(&planning, &schedule->units, NULL);

    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        const List *touches = &planning.touches[i];
        Allocation *allocation = &schedule->allocations[i];
        allocation->used = touches->count > 0;
        if (!allocation->used || tensor->role != ROLE_TEMP) continue;
        find_lifetime(allocation, touches);
        allocation->slots = !allocation->cleared && is_carried(tensor, touches);
        set_bytes(allocation, tensor);
    }
    buffer_reuse(schedule);
    assign_offsets(schedule);
}
