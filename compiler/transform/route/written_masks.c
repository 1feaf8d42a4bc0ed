/* written_masks: comparisons that a sum over vectors has as a factor are masks, as in sum[n in on].
 *
 *     on[b,s,n]  = p[b,s,n] >= least[b,s]
 *     y[b,s,d]   = sum[n] on[b,s,n] * e[b,s,n,d]
 *
 * The sum runs over an axis of the mask that is not one of the data, and another factor is a vector
 * per entry: a value that other equations compute for each entry, with further axes. A maximum of
 * such vectors is one of where(on[b,s,n], e[b,s,n,d], -9), or another number. A part of a
 * selection is a mask in any case. The pass runs before the gradient: `reassociate` moves factors
 * away from sums, and both directions then use one mask.
 */
#include "transform/route/route.h"

#include "passes.h"

typedef struct WrittenMask {
    Routing *routing;
    const ProgramPoint *point;
} WrittenMask;

static bool sums_over(const Statement *statement, const Index *index) {
    return statement_loops_over(statement, index) && !expr_uses_index(statement->target, index);
}

typedef struct VectorSearch {
    Index *const *indices;
    int count;
    const WrittenMask *under; /* NULL, or a mask without which the vector has no effect */
    const Tuple *tuple;
    bool found;
} VectorSearch;

/* A temporary with all of the indices and others. */
static void find_vector(Expr *expr, void *data) {
    VectorSearch *search = data;
    int own = 0, shared = 0;
    if (expr->kind != EXPR_READ || expr->tensor->role != ROLE_TEMP) return;
    for (int i = 0; i < expr->count; i++) {
        if (expr->args[i]->kind != EXPR_INDEX || expr->args[i]->index->of_repeat) continue;
        own++;
        shared += indices_have(search->indices, search->count, expr->args[i]->index);
    }
    if (shared != search->count || own <= shared) return;
    const WrittenMask *under = search->under;
    search->found |= !under || !depends_on_read(under->routing, under->point->statement->value,
                                                expr, search->tuple, under->point->repeat);
}

/* True if the statement reduces over one of the indices that is not of the data. */
static bool reduces_over(const Statement *statement, Index *const *indices, int count) {
    bool reduced = false;
    for (int i = 0; i < count; i++) {
        if (!statement_loops_over(statement, indices[i])) return false;
        reduced |= indices[i]->axis->kind == AXIS_PLAIN && sums_over(statement, indices[i]);
    }
    return reduced;
}

bool sums_vectors(const Statement *statement, Index *const *indices, int count) {
    VectorSearch search = {.indices = indices, .count = count};
    expr_walk(statement->value, find_vector, &search);
    return search.found && reduces_over(statement, indices, count);
}

static void note_mask(const Routing *routing, const Expr *read, const Statement *statement) {
    Arena *arena = routing->program->arena;
    MaskedReduction *masked = arena_alloc(arena, sizeof *masked);
    *masked = (MaskedReduction){
        .mask = (Expr *)read, .entries = 1, .span = statement->span, .asked = statement->asked};
    for (int i = 0; i < routing->rank; i++) {
        const Index *index = read->args[routing->mask_dims[i]]->index;
        if (index->axis->kind != AXIS_PLAIN || !sums_over(statement, index)) continue;
        if (!masked->axis) masked->axis = index->axis;
        masked->entries *= index->axis->size;
    }
    list_push(arena, &routing->program->masked, masked);
    read->tensor->selects = true;
}

/* True for 0 and 1, and for weights with a stated share that imply no condition. */
static bool is_mask_read(const WrittenMask *written, const Statement *maker, Expr *read) {
    const Routing *routing = written->routing;
    return mask_count(routing, maker, 0).truth ||
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
    if (!maker || maker->kind != STATEMENT_LOOP || !is_mask_read(written, maker, expr)) return;
    start_mask(routing, maker, NULL);
    Tuple tuple = {{NULL}};
    Index *indices[MAX_RANK];
    if (!tuple_of(expr, routing->mask_dims, routing->rank, &tuple)) return;
    for (int i = 0; i < routing->rank; i++) indices[i] = tuple.at[i]->index;
    if (!reduces_over(statement, indices, routing->rank)) return;
    VectorSearch search = {indices, routing->rank, written, &tuple, false};
    expr_walk(statement->value, find_vector, &search);
    if (search.found) note_mask(routing, expr, statement);
}

/* A part of a selection is one: few[s,a] = chosen[s,a + 2]. */
static void mark_part(const Routing *routing, const Statement *statement) {
    if (statement->kind != STATEMENT_LOOP || statement->value->kind != EXPR_READ) return;
    Tensor *tensor = statement->target->tensor;
    if (tensor->role != ROLE_TEMP || mask_maker(routing, tensor) != statement) return;
    const MaskCount count = mask_count(routing, statement, 0);
    tensor->selects |= count.truth && count.along_count > 0;
}

void written_masks(Program *program) {
    Routing routing = {.program = program, .def_use = def_use_new(program)};
    for (int i = 0; i < routing.def_use->count; i++)
        mark_part(&routing, routing.def_use->points[i].statement);
    inline_masks(&routing);
    const DefUse *def_use = routing.def_use;
    for (int i = 0; i < def_use->count; i++) {
        const ProgramPoint *point = &def_use->points[i];
        if (point->statement->kind != STATEMENT_LOOP || point->statement->reduction == REDUCE_NONE)
            continue;
        routing.def_use = def_use;
        expr_walk(point->statement->value, find_written_mask,
                  &(WrittenMask){.routing = &routing, .point = point});
    }
}
