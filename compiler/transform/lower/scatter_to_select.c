/* scatter_to_select: replaces adding to one element of each row by a selection in the equation of
 * the row.
 *
 * Needs:   a program for a GPU, where a pass over memory costs more than a comparison, or one whose
 *          rows are read only by products that round them.
 * Leaves:  fewer scatters; the same values.
 *
 *     d[b,v] = f(x[b,v])                      d[b,v] = f(x[b,v]) + where(v == at[b], e[b], 0)
 *     d[b,at[b]] += e[b]            -->
 */
#include "analysis/access.h"
#include "base/must.h"
#include "passes.h"

static bool is_plain(const Statement *statement) {
    return statement->kind == STATEMENT_LOOP && statement->reduction == REDUCE_NONE &&
           !statement->once && statement->target->tensor->role == ROLE_TEMP &&
           statement->target->tensor->type == TYPE_REAL;
}

static bool is_loop_of(const Statement *statement, const Expr *sub) {
    MUST(statement->kind == STATEMENT_LOOP);
    if (sub->kind != EXPR_INDEX || sub->index->of_repeat) return false;
    for (int i = 0; i < statement->loop_count; i++)
        if (statement->loops[i] == sub->index) return true;
    return false;
}

/* The dimension with a computed subscript, if all others are one loop each and include all loops;
 * else -1. */
static int placed_dimension(const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    const Expr *target = statement->target;
    int placed = -1, loops = 0;
    for (int i = 0; i < target->count; i++) {
        if (is_loop_of(statement, target->args[i]))
            loops++;
        else if (placed < 0)
            placed = i;
        else
            return -1;
    }
    return loops == statement->loop_count ? placed : -1;
}

static bool makes_rows(const Statement *statement, const Tensor *tensor) {
    const Expr *target = statement->kind == STATEMENT_LOOP ? statement->target : NULL;
    if (!target || target->tensor != tensor || statement->accumulate || !is_plain(statement))
        return false;
    for (int i = 0; i < target->count; i++)
        if (!is_loop_of(statement, target->args[i])) return false;
    return statement->loop_count == target->count;
}

/* The statement before `at` that computes the rows to which the one at `at` adds, if no statement
 * between accesses them; else NULL. */
static Statement *maker_of(Program *program, const Block *block, int at) {
    const Statement *adder = block->statements.items[at];
    for (int i = at - 1; i >= 0; i--) {
        Statement *statement = block->statements.items[i];
        if (makes_rows(statement, adder->target->tensor)) return statement;
        if (statement->kind == STATEMENT_REPEAT ||
            statements_meet(program->arena, statement, adder))
            return NULL;
    }
    return NULL;
}

static bool select_one(Program *program, const Block *block, int at) {
    const Statement *adder = block->statements.items[at];
    if (!is_plain(adder) || !adder->accumulate || !statement_is_scatter(adder)) return false;
    int placed = placed_dimension(adder);
    Statement *maker = placed < 0 ? NULL : maker_of(program, block, at);
    if (!maker) return false;
    Index *from[MAX_RANK];
    Expr *to[MAX_RANK];
    int count = 0;
    for (int i = 0; i < adder->target->count; i++) {
        if (i == placed) continue;
        from[count] = adder->target->args[i]->index;
        to[count++] = maker->target->args[i];
    }
    MUST(count <= MAX_RANK);
    Expr *position = expr_substitute(program, adder->target->args[placed], from, to, count);
    Expr *value = expr_substitute(program, adder->value, from, to, count);
    Expr *here = expr_apply(program, OP_EQ, maker->target->args[placed], position, NULL);
    Expr *added = expr_apply(program, OP_WHERE, here, value, expr_number(program, 0));
    maker->value = expr_apply(program, OP_ADD, maker->value, added, NULL);
    program->has[HAS_SELECTED] = true;
    return true;
}

static void select_in(Program *program, Block *block) {
    List *statements = &block->statements;
    int kept = 0;
    LIST_EACH(Statement, statement, statements) {
        if (statement->kind == STATEMENT_REPEAT) select_in(program, &statement->body);
        statements->items[kept] = statement;
        if (!select_one(program, block, kept)) kept++;
    }
    statements->count = kept;
}

void scatter_to_select(Program *program) {
    select_in(program, &program->body);
}
