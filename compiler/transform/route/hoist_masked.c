/* hoist_masked: moves a masked sum to the indices of its mask.
 *
 * The gradient of a part of a tensor, p[b,s,a+2], is a sum per element of the whole tensor, which
 * reads the mask at other subscripts. The sum moves to a tensor over the entries of the mask, which
 * can be on rows. One number per element remains.
 *
 *     d[b,s,z] = sum[f] g[b,s,z-2,f] * on[b,s,z-2]
 *   -->
 *     t[b,s,a] = sum[f] g[b,s,a,f] * on[b,s,a]
 *     d[b,s,z] = t[b,s,z-2]
 */
#include "base/must.h"
#include "transform/route/route.h"

typedef struct Hoisting {
    Routing *routing;
    const ProgramPoint *point;
    Expr *sub; /* of the mask, computed from `from` */
    Index *from, *to;
    bool found;
} Hoisting;

/* The only index of an expression without reads, or NULL. */
static Index *only_index(const Expr *expr) {
    Index *index = NULL;
    if (expr->kind == EXPR_INDEX) return expr->index;
    if (expr->kind != EXPR_APPLY) return NULL;
    for (int i = 0; i < expr->count; i++) {
        if (expr->args[i]->kind == EXPR_NUMBER) continue;
        Index *other = only_index(expr->args[i]);
        if (!other || (index && index != other)) return NULL;
        index = other;
    }
    return index;
}

/* Finds a read of the mask with one computed subscript. */
static void find_shifted(Expr *read, void *data) {
    Hoisting *hoisting = data;
    const Routing *routing = hoisting->routing;
    const Statement *statement = hoisting->point->statement;
    if (hoisting->found || read->kind != EXPR_READ || read->tensor != routing->mask ||
        !step_fits(routing, read, hoisting->point->repeat))
        return;
    int computed = 0;
    for (int i = 0; i < routing->rank; i++) {
        Expr *sub = read->args[routing->mask_dims[i]];
        if (sub->kind == EXPR_INDEX) continue;
        computed++;
        hoisting->sub = sub;
        hoisting->from = only_index(sub);
        hoisting->to = index_over(routing->program, routing->mask->axes[routing->mask_dims[i]]);
    }
    if (computed != 1 || !hoisting->from || !statement_loops_over(statement, hoisting->from) ||
        !expr_uses_index(statement->target, hoisting->from))
        return;
    Tuple at = {{NULL}};
    for (int i = 0; i < routing->rank; i++) at.at[i] = read->args[routing->mask_dims[i]];
    hoisting->found = vanishes(routing, statement->value, &at, hoisting->point->repeat);
}

/* The expression with the index of the mask instead of the computed subscript. */
static Expr *with_index(const Hoisting *hoisting, Expr *expr) {
    Program *program = hoisting->routing->program;
    if (expr_equal(expr, hoisting->sub)) return expr_index(program, hoisting->to);
    if (expr->kind != EXPR_READ && expr->kind != EXPR_APPLY) return expr;
    Expr *args[MAX_RANK] = {NULL};
    for (int i = 0; i < expr->count; i++) args[i] = with_index(hoisting, expr->args[i]);
    return expr_with_args(program, expr, args);
}

/* Moves the sum of the statement to its own tensor, before it in `block`. */
static bool hoist_sum(const Hoisting *hoisting, Statement *statement, Block *block) {
    Program *program = hoisting->routing->program;
    Expr *value = statement->value, *condition = NULL;
    if (value->kind == EXPR_APPLY && value->op == OP_WHERE && expr_is_number(value->args[2], 0)) {
        condition = value->args[0];
        value = value->args[1];
    }
    Index *to[MAX_RANK], *rest[MAX_LOOPS];
    Expr *subs[MAX_RANK];
    int rank = 0, rest_count = 0;
    value = with_index(hoisting, value);
    if (expr_uses_index(value, hoisting->from)) return false;
    for (int i = 0; i < statement->loop_count; i++) {
        Index *loop = statement->loops[i];
        if (!expr_uses_index(statement->target, loop)) {
            if (condition && expr_uses_index(condition, loop)) return false;
            rest[rest_count++] = loop;
            continue;
        }
        MUST(rank < MAX_RANK);
        to[rank] = loop == hoisting->from ? hoisting->to : loop;
        subs[rank++] = loop == hoisting->from ? hoisting->sub : expr_index(program, loop);
    }
    const char *name = arena_format(program->arena, "%s_part", statement->target->tensor->name);
    Tensor *part = tensor_over(program, name, ROLE_TEMP, TYPE_REAL, to, rank, statement->span);
    statement_loop(program, block, expr_read_indices(program, part, to), false, REDUCE_SUM, rest,
                   rest_count, value, statement->span);
    value = expr_read(program, part, subs);
    if (condition) value = expr_apply(program, OP_WHERE, condition, value, expr_number(program, 0));
    statement_loop(program, block, statement->target, statement->accumulate, REDUCE_NONE, NULL, 0,
                   value, statement->span);
    return true;
}

static void hoist_in(Routing *routing, Block *block, Statement *repeat) {
    List old = block->statements;
    block->statements = (List){NULL, 0, 0};
    LIST_EACH(Statement, statement, &old) {
        ProgramPoint point = {.statement = statement, .block = block, .repeat = repeat};
        Hoisting hoisting = {.routing = routing, .point = &point};
        if (statement->kind == STATEMENT_REPEAT) hoist_in(routing, &statement->body, statement);
        if (statement->kind == STATEMENT_LOOP && statement->reduction == REDUCE_SUM &&
            !statement->once && !statement_is_scatter(statement))
            expr_walk(statement->value, find_shifted, &hoisting);
        if (!hoisting.found || !hoist_sum(&hoisting, statement, block))
            list_push(routing->program->arena, &block->statements, statement);
    }
}

/* hoist_masked: see the head of this file. */
void hoist_masked(Routing *routing) {
    hoist_in(routing, &routing->program->body, NULL);
}
