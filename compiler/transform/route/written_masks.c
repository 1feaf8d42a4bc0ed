/* written_masks: comparisons that a value has as a factor are masks, as in sum[n in on].
 *
 *     on[b,s,n]  = p[b,s,n] >= least[b,s]            near[b,s] = r[b,s] > 0
 *     y[b,s,d]   = sum[n] on[b,s,n] * e[b,s,n,d]     y[b,s,d]  = x[b,s,d] + near[b,s] * f[b,s,d]
 *
 * On the left the sum runs over an axis of the mask that is not one of the data, and another factor
 * is a vector per entry: a value that other equations compute for each entry, with further axes. A
 * maximum of such vectors is one of where(on[b,s,n], e[b,s,n,d], -9), or another number. Without
 * such a sum, products with weights compute another factor: see saved_work.c. A part of a
 * selection is a mask in any case. The pass runs before the gradient: `reassociate` moves factors
 * away from sums, and both directions then use one mask.
 */
#include "transform/route/route.h"

#include "passes.h"

typedef struct WrittenMask {
    Routing *routing;
    const ProgramPoint *point;
} WrittenMask;

/* The axis whose entries a note for `check` counts: one that the sum runs over, else one that is
 * not of the data, else that of the positions. */
static Tensor *note_mask(const Routing *routing, const Expr *read, const Statement *statement) {
    Arena *arena = routing->program->arena;
    MaskedReduction *masked = arena_alloc(arena, sizeof *masked);
    *masked = (MaskedReduction){
        .mask = (Expr *)read, .entries = 1, .span = statement->span, .asked = statement->asked};
    for (int choice = 0; !masked->axis; choice++)
        for (int i = 0; i < routing->rank; i++) {
            const Index *index = read->args[routing->mask_dims[i]]->index;
            const bool plain = index->axis->kind == AXIS_PLAIN,
                       counts[] = {plain && sums_over(statement, index), plain,
                                   index->axis->kind == AXIS_SEQUENCE, true};
            if (!counts[choice]) continue;
            if (!masked->axis) masked->axis = index->axis;
            masked->entries *= index->axis->size;
        }
    list_push(arena, &routing->program->masked, masked);
    return read->tensor;
}

/* on[s] * g[s - 1,d]: all positions of g are computed. */
static void note_shifted_value(const WrittenMask *written, const Expr *mask,
                               Index *const *indices) {
    const Routing *routing = written->routing;
    const Expr *value = shifted_value(routing, written->point, mask, indices, routing->rank);
    if (!value) return;
    note_mask(routing, mask, written->point->statement)->dense =
        arena_format(routing->program->arena,
                     "'%s' is read at other positions than the mask; read both at the same one",
                     value->tensor->stem);
}

/* True for 0 and 1, and for weights with a stated share that imply no condition. */
static bool is_mask_read(const WrittenMask *written, Expr *read) {
    const Routing *routing = written->routing;
    return is_zero_or_one(routing, read) ||
           (read->tensor->share > 0 && !implied_condition(routing, written->point->repeat, read));
}

static void find_written_mask(Expr *expr, void *data) {
    WrittenMask *written = data;
    Routing *routing = written->routing;
    const Statement *statement = written->point->statement;
    if (expr->kind != EXPR_READ || expr->tensor->role != ROLE_TEMP || expr->tensor->selects ||
        expr->tensor->type != TYPE_REAL)
        return;
    Statement *maker = mask_maker(routing, expr->tensor);
    if (!maker || maker->kind != STATEMENT_LOOP || !is_mask_read(written, expr)) return;
    const DefUse *def_use = routing->def_use; /* has the point of the statement */
    start_mask(routing, maker, NULL);
    routing->def_use = def_use;
    Tuple tuple = {{NULL}};
    Index *indices[MAX_RANK];
    if (!tuple_of(expr, routing->mask_dims, routing->rank, &tuple)) return;
    for (int i = 0; i < routing->rank; i++) indices[i] = tuple.at[i]->index;
    if (saves_work(routing, written->point, statement->value, expr, indices, routing->rank, &tuple))
        note_mask(routing, expr, statement)->selects = true;
    else
        note_shifted_value(written, expr, indices);
}

/* A part of a selection is one: few[s,a] = chosen[s,a + 2]. */
static void mark_part(const Routing *routing, const Statement *statement) {
    if (statement->kind != STATEMENT_LOOP || statement->value->kind != EXPR_READ) return;
    Tensor *tensor = statement->target->tensor;
    if (tensor->role != ROLE_TEMP || mask_maker(routing, tensor) != statement) return;
    const MaskCount count = mask_count(routing, statement, 0);
    tensor->selects |= count.truth && count.along_count > 0;
}

void written_masks(Program *program, bool trains) {
    Routing routing = {.program = program, .def_use = def_use_new(program)};
    straight_through(&routing, trains);
    for (int i = 0; i < routing.def_use->count; i++)
        mark_part(&routing, routing.def_use->points[i].statement);
    scan_masks(&routing);
    inline_masks(&routing);
    const DefUse *def_use = routing.def_use;
    for (int i = 0; i < def_use->count; i++) {
        const ProgramPoint *point = &def_use->points[i];
        if (point->statement->kind != STATEMENT_LOOP) continue;
        routing.def_use = def_use;
        expr_walk(point->statement->value, find_written_mask,
                  &(WrittenMask){.routing = &routing, .point = point});
    }
    routing.def_use = def_use;
    unmasked_weights(&routing);
}
