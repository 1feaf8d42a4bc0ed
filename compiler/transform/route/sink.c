/* sink: equations before a choice that it does not read move after it.
 *
 * Rows of a mask exist only after it. An equation is written before or after the choice without a
 * difference in meaning. After it, its values can be computed for the chosen entries only.
 *
 *     h[b,s,n,f] = sum[d] x[b,s,d] * up[n,d,f]        chosen[b,s,n] = top(p[b,s,n])
 *     chosen[b,s,n] = top(p[b,s,n])              -->  h[b,s,n,f] = sum[d] x[b,s,d] * up[n,d,f]
 *
 * The values of entries move, with the equations that depend on them. The others stay before it.
 */
#include "analysis/access.h"
#include "transform/route/route.h"

/* True if the statement writes a value with an axis of the mask that is not one of the data. The
 * values of the entries of a mask of positions have all its axes. */
static bool writes_entries(const Routing *routing, const Statement *statement) {
    int dims[MAX_RANK];
    if (statement->kind != STATEMENT_LOOP || statement->target->tensor->role != ROLE_TEMP)
        return false;
    const Tensor *tensor = statement->target->tensor;
    if (masks_positions(routing)) return match_axes(routing, tensor, dims);
    for (int i = 0; i < routing->rank; i++) {
        const Axis *axis = routing->mask->axes[routing->mask_dims[i]];
        for (int j = 0; axis->kind == AXIS_PLAIN && j < tensor->rank; j++)
            if (tensor->axes[j] == axis) return true;
    }
    return false;
}

static bool meets_any(const Routing *routing, const List *list, const Statement *statement) {
    for (int i = 0; i < list->count; i++)
        if (statements_meet(routing->program->arena, list->items[i], statement)) return true;
    return false;
}

/* The first of the statements before the choice that can change their order: the bodies of repeats
 * are not compared. */
static int first_movable(const List *statements, int choice) {
    int first = choice;
    while (first > 0 && ((Statement *)statements->items[first - 1])->kind != STATEMENT_REPEAT)
        first--;
    return first;
}

void sink(Routing *routing) {
    Arena *arena = routing->program->arena;
    List *statements =
        routing->home ? &routing->home->body.statements : &routing->program->body.statements;
    const int choice = list_find(statements, routing->choice);
    List needed = {0}, before = {0}, after = {0};
    int first = first_movable(statements, choice);
    while (first < choice && !writes_entries(routing, statements->items[first])) first++;
    list_push(arena, &needed, routing->choice);
    for (int i = choice - 1; i >= first; i--)
        if (meets_any(routing, &needed, statements->items[i]))
            list_push(arena, &needed, statements->items[i]);
    for (int i = first; i < choice; i++) {
        Statement *statement = statements->items[i];
        const bool moves =
            list_find(&needed, statement) < 0 &&
            (writes_entries(routing, statement) || meets_any(routing, &after, statement));
        list_push(arena, moves ? &after : &before, statement);
    }
    for (int i = 0; i < before.count; i++) statements->items[first++] = before.items[i];
    statements->items[first++] = routing->choice;
    for (int i = 0; i < after.count; i++) statements->items[first++] = after.items[i];
    if (after.count) routing->def_use = def_use_new(routing->program);
}
