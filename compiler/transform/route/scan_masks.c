/* scan_masks: masked values of a scan that do not depend on its state are computed before it, as
 * values that are 0 where the mask is.
 *
 *     S[b,s,d] = scan(...) { S[b,s,d] = 0.9 * S[b,s - 1,d] + on[b,s] * g[b,s,d] }
 *   -->
 *     g_on[b,s,d] = on[b,s] * g[b,s,d]
 *     S[b,s,d] = scan(...) { S[b,s,d] = 0.9 * S[b,s - 1,d] + on[b,s] * g_on[b,s,d] }
 *
 * A scan reads its operands for all positions: an equation before it can be one of rows. Products
 * with weights that depend on the state are computed for all positions: a note for `check`.
 */
#include "transform/route/route.h"

#include "analysis/access.h"

typedef struct ScanMask {
    Routing *routing;
    const ProgramPoint *point; /* of the scan */
    Statement *equation;       /* of its body */
    Expr *position, *inside;   /* index of the positions before the scan, and in it */
    Block made;                /* statements before the scan */
} ScanMask;

/* True if the expression reads no tensor that the scan makes. */
static bool is_before_scan(const ScanMask *masks, const Expr *expr) {
    LIST_EACH(const Expr, output, &masks->point->statement->outputs)
        if (expr_reads(expr, output->tensor)) return false;
    return true;
}

static Expr *at_index(const ScanMask *masks, Expr *expr, const Expr *from, Expr *to) {
    Index *index = from->index;
    return expr_substitute(masks->routing->program, expr, &index, &to, 1);
}

static Expr *before_scan(const ScanMask *masks, Expr *expr) {
    return at_index(masks, expr, masks->inside, masks->position);
}

static Expr *in_scan(const ScanMask *masks, Expr *expr) {
    return at_index(masks, expr, masks->position, masks->inside);
}

/* Conditions of the value that depend on data at the position alone, not on a state. */
static void list_conditions(const ScanMask *masks, Expr *expr, List *found) {
    if (is_before_scan(masks, expr) && expr_uses_index(expr, masks->inside->index) &&
        expr_has_reads(expr) && is_zero_or_one(masks->routing, expr)) {
        list_push(masks->routing->program->arena, found, expr);
        return;
    }
    for (int i = 0; i < expr->count && expr->kind == EXPR_APPLY; i++)
        list_conditions(masks, expr->args[i], found);
}

static Expr *with_part(Program *program, Expr *expr, const Expr *part, Expr *by) {
    Expr *args[3];
    if (expr == part) return by;
    if (expr->kind != EXPR_APPLY) return expr;
    for (int i = 0; i < expr->count; i++) args[i] = with_part(program, expr->args[i], part, by);
    Expr *made = expr_apply(program, expr->op, args[0], expr->count > 1 ? args[1] : NULL,
                            expr->count > 2 ? args[2] : NULL);
    made->span = expr->span;
    return made;
}

/* The indices of a read with an index for each axis; false if it has others. */
static bool indices_of(const Expr *read, Index **indices) {
    for (int i = 0; i < read->count; i++) {
        if (read->args[i]->kind != EXPR_INDEX || read->args[i]->index->of_repeat) return false;
        indices[i] = read->args[i]->index;
        if (indices_have(indices, i, indices[i])) return false;
    }
    return read->count > 0;
}

static Expr *assign_before(ScanMask *masks, const char *name, Expr *value, Index *const *indices,
                           int count) {
    Program *program = masks->routing->program;
    const Statement *equation = masks->equation;
    Tensor *tensor =
        tensor_over(program, name, ROLE_TEMP, TYPE_REAL, indices, count, equation->span);
    Expr *target = expr_read_indices(program, tensor, indices);
    statement_assign(program, &masks->made, target, value, equation->span)->asked = equation->asked;
    return target;
}

/* The condition before the scan as a tensor of the loops that it uses. */
static Expr *named_condition(ScanMask *masks, Expr *condition) {
    const Statement *equation = masks->equation;
    Index *indices[MAX_RANK], *own[MAX_RANK];
    int count = 0;
    if (condition->kind == EXPR_READ && indices_of(condition, own)) return condition;
    for (int turn = 0; turn < 3; turn++) {
        if (turn == 1) indices[count++] = masks->position->index;
        for (int i = 0; turn != 1 && i < equation->loop_count && count < MAX_RANK - 1; i++) {
            Index *loop = equation->loops[i];
            if ((loop->axis->kind == AXIS_BATCH) == (turn == 0) && expr_uses_index(condition, loop))
                indices[count++] = loop;
        }
    }
    return assign_before(
        masks,
        arena_format(masks->routing->program->arena, "%s_on", equation->target->tensor->name),
        condition, indices, count);
}

/* True if products with weights in the scan compute the value, at the position of the equation. */
static bool has_products_in_scan(const ScanMask *masks, const Expr *value) {
    const List *body = &masks->point->statement->body.statements;
    Arena *arena = masks->routing->program->arena;
    List needed = {0};
    list_push(arena, &needed, value->tensor);
    for (int i = 0; i < value->count; i++)
        if (value->args[i]->kind != EXPR_INDEX) return false;
    for (int i = list_find(body, masks->equation) - 1; i >= 0; i--) {
        Statement *statement = body->items[i];
        List reads = {0};
        if (list_find(&needed, statement->target->tensor) < 0) continue;
        if (has_summed_weights(statement)) return true;
        reads_of(arena, statement, &reads);
        LIST_EACH(const Expr, read, &reads) list_push(arena, &needed, read->tensor);
    }
    return false;
}

/* Notes that the value of the state is computed for all positions. */
static void note_state(const ScanMask *masks, Expr *value) {
    Program *program = masks->routing->program;
    value->tensor->dense =
        arena_format(program->arena,
                     "'%s' depends on the state of the scan; compute the parts that do not depend "
                     "on it before the scan",
                     value->tensor->stem);
    list_dense(program, value, masks->position->index->axis, masks->equation);
}

/* After a change of the statements around the scan. */
static void find_scan(ScanMask *masks) {
    const Statement *scan = masks->point->statement;
    masks->routing->def_use = def_use_new(masks->routing->program);
    masks->point = masks->routing->def_use->points;
    while (masks->point->statement != scan) masks->point++;
}

static void insert_made(ScanMask *masks) {
    List *statements = &masks->point->block->statements;
    list_insert(masks->routing->program->arena, statements,
                list_find(statements, masks->point->statement), &masks->made.statements);
    masks->made = (Block){{NULL, 0, 0}};
    find_scan(masks);
}

/* Replaces the values of the equation that are needed only where the mask is not 0. */
static bool mask_values(ScanMask *masks, Expr *mask) {
    Routing *routing = masks->routing;
    Program *program = routing->program;
    Statement *equation = masks->equation;
    Index *indices[MAX_RANK], *dims[MAX_RANK];
    Tuple tuple = {{NULL}};
    List reads = {0};
    bool found = false;
    Statement *maker = mask_maker(routing, mask->tensor);
    const DefUse *def_use = routing->def_use;
    if (!maker || !indices_of(mask, indices)) return false;
    start_mask(routing, maker, NULL);
    routing->def_use = def_use;
    for (int i = 0; i < routing->rank; i++)
        tuple.at[i] = in_scan(masks, mask->args[routing->mask_dims[i]]);
    reads_of(program->arena, equation, &reads);
    LIST_EACH(Expr, read, &reads) {
        Expr *outside = before_scan(masks, read);
        if (read->tensor->role != ROLE_TEMP || read->tensor == mask->tensor ||
            depends_on_read(routing, equation->value, read, &tuple, masks->point->repeat))
            continue;
        if (!is_before_scan(masks, read) && has_products_in_scan(masks, read))
            note_state(masks, read);
        if (!is_before_scan(masks, read) || !indices_of(outside, dims) ||
            !saves_products(routing, masks->point, outside, NULL, indices, mask->count))
            continue;
        Expr *value = expr_apply(program, OP_MUL, mask, outside, NULL);
        Expr *made = assign_before(masks, arena_format(program->arena, "%s_on", read->tensor->name),
                                   value, dims, outside->count);
        equation->value = with_part(program, equation->value, read, in_scan(masks, made));
        found = true;
    }
    return found;
}

static void mask_equation(ScanMask *masks) {
    Program *program = masks->routing->program;
    List conditions = {0};
    list_conditions(masks, masks->equation->value, &conditions);
    LIST_EACH(Expr, condition, &conditions) {
        Expr *before = masks->equation->value;
        Expr *mask = named_condition(masks, before_scan(masks, condition));
        const Statement *named =
            masks->made.statements.count ? masks->made.statements.items[0] : NULL;
        if (named) {
            insert_made(masks);
            masks->equation->value = with_part(program, before, condition, in_scan(masks, mask));
        }
        if (mask_values(masks, mask)) {
            scan_operands(program, masks->point->statement);
            insert_made(masks);
        } else if (named) {
            masks->equation->value = before;
            list_remove(&masks->point->block->statements, named);
            find_scan(masks);
        }
    }
}

void scan_masks(Routing *routing) {
    for (int i = 0; i < routing->def_use->count; i++) {
        Statement *scan = routing->def_use->points[i].statement;
        if (scan->kind != STATEMENT_CALL || !statement_is_scan(scan)) continue;
        Index *position = index_new(routing->program, scan->index->name, scan->index->axis);
        ScanMask masks = {.routing = routing,
                          .point = &routing->def_use->points[i],
                          .position = expr_index(routing->program, position),
                          .inside = expr_index(routing->program, scan->index)};
        LIST_EACH(Statement, equation, &scan->body.statements) {
            masks.equation = equation;
            mask_equation(&masks);
        }
        while (routing->def_use->points[i].statement != scan) i++;
    }
}
