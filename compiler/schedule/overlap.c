/* overlap: lets exchanges between the processes of a mesh run while other units compute.
 *
 * Needs:   fuse.
 * Leaves:  each exchange as two units, its begin and its end, and the other units in an order in
 *          which every unit still follows all those that it depends on. Exchanges end in the order
 *          in which they begin. No unit between a begin and its end writes an operand of the
 *          exchange or accesses its results; since both units access all of these, plan keeps
 *          their memory. Values do not change: kernels and products stay as they are.
 *
 *     there = exchange(rows)                 begin  there = exchange(rows)
 *     y = f(there)                           z = g(x)
 *     z = g(x)                        -->    end    there = exchange(rows)
 *                                            y = f(there)
 *
 * Units on which the next exchange depends come first. The others are distributed over the
 * exchanges in proportion to their bytes. This needs no rate of the network: if it is slow, all of
 * this work is hidden; if it is fast, each exchange has enough work.
 */
#include "base/must.h"
#include "ir/call.h"
#include "passes.h"
#include "schedule/nest.h"

#include <math.h>

/* The latency of an exchange, as bytes that are transferred meanwhile. */
enum { LATENCY_BYTES = 1 << 16 };

/* A unit that reads a tensor after its last write. */
typedef struct TensorReader {
    int unit;
    const struct TensorReader *before;
} TensorReader;

/* Adjacent units of a block. */
typedef struct Ordering {
    Program *program;
    Arena *arena;
    ScheduleUnit *const *units;
    int count;
    bool *needs;    /* [unit, earlier unit]: it depends on it, directly or not */
    int *missing;   /* by unit: number of those that it needs and that are not done */
    double *weight; /* by unit: operations; of an exchange: those that it can still hide */
    bool *begun, *done;
    int *running, first, end; /* exchanges between their begin and their end */
    List *ordered;            /* receives the units */
} Ordering;

double exchanged_bytes(const Statement *statement) {
    const CallShape shape = call_shape(call_input(statement, 0));
    const Tensor *tensor = call_input(statement, 0)->tensor;
    double bytes = (double)type_bytes(tensor->type);
    for (int i = 0; i < shape.rank; i++) bytes *= axis_expected(shape.index[i]->axis);
    return bytes;
}

bool unit_exchanges(const ScheduleUnit *unit) {
    return unit->kind == UNIT_CALL && unit->statement->row->exchanges;
}

/* ---- dependencies ---- */

static void add_need(Ordering *ordering, int unit, int earlier) {
    bool *needs = ordering->needs + (size_t)unit * (size_t)ordering->count;
    if (earlier < 0 || earlier == unit || needs[earlier]) return;
    const bool *further = ordering->needs + (size_t)earlier * (size_t)ordering->count;
    needs[earlier] = true;
    for (int i = 0; i < earlier; i++) needs[i] |= further[i];
}

/* A read needs the last write; a write also the reads since then. */
static void find_needs(Ordering *ordering) {
    const size_t tensors = (size_t)ordering->program->tensors.count + 1;
    int *writer = arena_alloc(ordering->arena, tensors * sizeof *writer); /* 0: none; else + 1 */
    const TensorReader **readers = arena_alloc(ordering->arena, tensors * sizeof *readers);
    for (int i = 0; i < ordering->count; i++) {
        const List accesses = unit_accesses(ordering->arena, ordering->program, ordering->units[i]);
        LIST_EACH(const UnitAccess, access, &accesses) {
            const int id = access->access->tensor->id;
            add_need(ordering, i, writer[id] - 1);
            for (const TensorReader *at = readers[id]; access->writer && at; at = at->before)
                add_need(ordering, i, at->unit);
        }
        LIST_EACH(const UnitAccess, access, &accesses) {
            const int id = access->access->tensor->id;
            TensorReader *reader = arena_alloc(ordering->arena, sizeof *reader);
            *reader = (TensorReader){i, readers[id]};
            readers[id] = reader;
            if (!access->writer) continue;
            writer[id] = i + 1;
            readers[id] = NULL;
        }
    }
}

static bool needs_unit(const Ordering *ordering, int unit, int earlier) {
    return ordering->needs[(size_t)unit * (size_t)ordering->count + (size_t)earlier];
}

/* ---- work ---- */

static double unit_weight(const Ordering *ordering, const ScheduleUnit *unit) {
    if (unit->kernel) return unit->kernel->work;
    const ScheduleUnit *second = unit->accumulated_product;
    return statement_flops(ordering->program, unit->statement) +
           (second ? statement_flops(ordering->program, second->statement) : 0) +
           (unit->epilogue ? unit->epilogue->work : 0);
}

/* The bytes of the exchanges that can run at the same time as the unit; of all for -1. */
static double bytes_beside(const Ordering *ordering, int unit) {
    double bytes = 0;
    for (int i = 0; i < ordering->count; i++) {
        const ScheduleUnit *exchange = ordering->units[i];
        if (unit_exchanges(exchange) &&
            (unit < 0 || (!needs_unit(ordering, i, unit) && !needs_unit(ordering, unit, i))))
            bytes += exchanged_bytes(exchange->statement) + LATENCY_BYTES;
    }
    return bytes;
}

/* Sets the weights; returns the number of exchanges. */
static int weigh(Ordering *ordering) {
    const double bytes = bytes_beside(ordering, -1);
    double work = 0;
    int exchanges = 0;
    for (int i = 0; i < ordering->count; i++) {
        if (unit_exchanges(ordering->units[i])) continue;
        ordering->weight[i] = unit_weight(ordering, ordering->units[i]);
        work += bytes > 0 ? ordering->weight[i] * bytes_beside(ordering, i) / bytes : 0;
    }
    for (int i = 0; i < ordering->count; i++) {
        const ScheduleUnit *unit = ordering->units[i];
        if (!unit_exchanges(unit)) continue;
        ordering->weight[i] = (exchanged_bytes(unit->statement) + LATENCY_BYTES) * work / bytes;
        exchanges++;
    }
    return exchanges;
}

/* ---- order ---- */

static void complete_unit(Ordering *ordering, int unit) {
    ordering->done[unit] = true;
    for (int i = unit + 1; i < ordering->count; i++)
        ordering->missing[i] -= needs_unit(ordering, i, unit);
}

static void emit_begin(Ordering *ordering, int unit) {
    ordering->units[unit]->phase = BEGINS_EXCHANGE;
    list_push(ordering->arena, ordering->ordered, ordering->units[unit]);
    ordering->begun[unit] = true;
    ordering->running[ordering->end++] = unit;
}

static void emit_end(Ordering *ordering) {
    const int unit = ordering->running[ordering->first++];
    ScheduleUnit *end =
        list_copy(ordering->arena, ordering->ordered, ordering->units[unit], sizeof *end);
    end->phase = ENDS_EXCHANGE;
    complete_unit(ordering, unit);
}

/* Exchanges run one after the other. */
static void emit_unit(Ordering *ordering, int unit) {
    double work = ordering->weight[unit];
    list_push(ordering->arena, ordering->ordered, ordering->units[unit]);
    for (int i = ordering->first; i < ordering->end; i++) {
        double *hides = &ordering->weight[ordering->running[i]];
        const double hidden = fmin(*hides, work);
        *hides -= hidden;
        work -= hidden;
    }
    complete_unit(ordering, unit);
}

/* The next exchange, in the order of the program, or -1. */
static int next_exchange(const Ordering *ordering) {
    for (int i = 0; i < ordering->count; i++)
        if (unit_exchanges(ordering->units[i]) && !ordering->begun[i]) return i;
    return -1;
}

/* The first unit that can run, or -1. before: an exchange that needs the unit; -1: any unit. */
static int next_unit(const Ordering *ordering, bool exchange, int before) {
    for (int i = 0; i < ordering->count; i++)
        if (!ordering->missing[i] && !ordering->done[i] && !ordering->begun[i] &&
            unit_exchanges(ordering->units[i]) == exchange &&
            (before < 0 || needs_unit(ordering, before, i)))
            return i;
    return -1;
}

/* True if the unit should run before the next end: the running exchanges can hide most of it, or no
 * other one remains that could. */
static bool hides_unit(const Ordering *ordering, int unit, bool others) {
    double hides = 0;
    for (int i = ordering->first; i < ordering->end; i++)
        hides += ordering->weight[ordering->running[i]];
    return ordering->first == ordering->end || !others || 2 * hides >= ordering->weight[unit];
}

static void order_units(Ordering *ordering) {
    for (;;) {
        const int begins = next_unit(ordering, true, -1), coming = next_exchange(ordering),
                  leads = coming < 0 ? -1 : next_unit(ordering, false, coming),
                  other = next_unit(ordering, false, -1);
        if (begins >= 0)
            emit_begin(ordering, begins);
        else if (leads >= 0)
            emit_unit(ordering, leads);
        else if (other >= 0 && hides_unit(ordering, other, coming >= 0))
            emit_unit(ordering, other);
        else if (ordering->first < ordering->end)
            emit_end(ordering);
        else
            return;
    }
}

/* Adds units without repeats to `ordered`. */
static void add_in_order(Schedule *schedule, ScheduleUnit *const *units, int count, List *ordered) {
    Program *program = schedule->program;
    Arena *arena = program->arena;
    const size_t all = (size_t)count + 1;
    Ordering ordering = {program, arena, units, count, .ordered = ordered};
    ordering.needs = arena_alloc(arena, all * all * sizeof *ordering.needs);
    ordering.missing = arena_alloc(arena, all * sizeof *ordering.missing);
    ordering.weight = arena_alloc(arena, all * sizeof *ordering.weight);
    ordering.begun = arena_alloc(arena, all * sizeof *ordering.begun);
    ordering.done = arena_alloc(arena, all * sizeof *ordering.done);
    ordering.running = arena_alloc(arena, all * sizeof *ordering.running);
    find_needs(&ordering);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++) ordering.missing[i] += needs_unit(&ordering, i, k);
    const int before = ordered->count, exchanges = weigh(&ordering);
    order_units(&ordering);
    MUST(ordered->count == before + count + exchanges);
}

/* ---- blocks ---- */

/* Units that stay where they are: they share a launch, or their body is ordered alone. */
static bool keeps_position(const ScheduleUnit *unit) {
    return unit->kind == UNIT_REPEAT || unit->beside;
}

static bool any_exchanges(const List *units) {
    LIST_EACH(const ScheduleUnit, unit, units)
        if (unit_exchanges(unit) || any_exchanges(&unit->body)) return true;
    return false;
}

static void overlap_block(Schedule *schedule, List *units) {
    Arena *arena = schedule->program->arena;
    ScheduleUnit **all = arena_alloc(arena, ((size_t)units->count + 1) * sizeof *all);
    for (int i = 0; i < units->count; i++) all[i] = units->items[i];
    List ordered = {0};
    for (int first = 0, next; first < units->count; first = next) {
        next = first + 1;
        if (keeps_position(all[first])) {
            overlap_block(schedule, &all[first]->body);
            list_push(arena, &ordered, all[first]);
            continue;
        }
        while (next < units->count && !keeps_position(all[next])) next++;
        add_in_order(schedule, all + first, next - first, &ordered);
    }
    *units = ordered;
}

/* The processes of a mesh do not split training into two parts. */
void overlap(Schedule *schedule) {
    if (!any_exchanges(&schedule->units)) return;
    MUST(!schedule->second);
    overlap_block(schedule, &schedule->units);
}
