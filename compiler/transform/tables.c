/* tables: computes values that depend only on positions and constants once, in double precision.
 *
 * In single precision an angle of 100,000 has an error of 0.004, and so has its cosine. There are
 * few such values compared with those that depend on data. Each gets its own tensor if an equation
 * contains an expensive operation in it, subexpressions with fewer axes first:
 *
 *     y[b,s,e] = x[b,s,e] * cos(s * 10000^(-e / 64))
 *   -->
 *     y_table_2[e] = 10000^(-e / 64)           double
 *     y_table[s,e] = cos(s * y_table_2[e])     in double, stored as float
 *     y[b,s,e] = x[b,s,e] * y_table[s,e]
 *
 * Needs:   a program with its backward pass, before `simplify`, which merges equal tables.
 * Leaves:  `in_double` on statements computed in double; temporaries between them are TYPE_DOUBLE.
 */
#include "analysis/def_use.h"
#include "ir/ir.h"
#include "passes.h"
#include "base/must.h"

/* The cost of an expensive operation, which loses accuracy in single precision. */
enum { LONG_OPERATION = 10 };

typedef struct Tables {
    Program *program;
    const DefUse *def_use;
    Tensor **exact; /* by tensor id: its TYPE_DOUBLE copy if it depends on positions only; or
                       NULL */
    int count;
    Block *block; /* that receives the statements */
} Tables;

/* ---- dependence of an expression ---- */

static Tensor *exact_of(const Tables *tables, const Tensor *tensor) {
    return tensor->id < tables->count ? tables->exact[tensor->id] : NULL;
}

static bool follows_from_positions(const Tables *tables, const Expr *expr) {
    if (expr->kind == EXPR_READ) {
        const Tensor *tensor = expr->tensor;
        bool given = tensor->role == ROLE_INPUT && tensor->input == MOEC_INPUT_SCALAR &&
                     tensor->type == TYPE_INT; /* the position */
        if (!given && tensor->type != TYPE_DOUBLE && !exact_of(tables, tensor)) return false;
    }
    if (expr->kind == EXPR_APPLY && op_is_random(expr->op)) return false;
    for (int i = 0; i < expr->count; i++)
        if (!follows_from_positions(tables, expr->args[i])) return false;
    return true;
}

/* True if it contains an expensive operation. */
static bool is_long(const Expr *expr) {
    if (expr->kind != EXPR_APPLY) return false;
    if (op_table[expr->op].cost >= LONG_OPERATION) return true;
    for (int i = 0; i < expr->count; i++)
        if (is_long(expr->args[i])) return true;
    return false;
}

static void find_exact(Expr *expr, void *data) {
    bool *found = data;
    if (expr->kind == EXPR_READ && expr->tensor->type == TYPE_DOUBLE) *found = true;
}

/* The distinct indices of an expression. False for the index of a repeat, for an unknown size and
 * for two indices over time: pairs of positions are too many. */
static bool find_indices(const Expr *expr, Index **indices, int *count) {
    if (expr->kind == EXPR_INDEX) {
        if (expr->index->of_repeat || expr->index->axis->kind == AXIS_ELEMENTS) return false;
        for (int i = 0; i < *count; i++)
            if (indices[i] == expr->index) return true;
        if (*count == MAX_DIMENSIONS) return false;
        indices[(*count)++] = expr->index;
    }
    for (int i = 0; i < expr->count; i++)
        if (!find_indices(expr->args[i], indices, count)) return false;
    int times = 0;
    for (int i = 0; i < *count; i++) times += indices[i]->axis->kind == AXIS_SEQUENCE;
    return times <= 1;
}

/* ---- subexpressions of equations ---- */

static Expr *exact_read(Program *program, Expr *read, void *data) {
    MUST(read->kind == EXPR_READ);
    Tensor *exact = exact_of(data, read->tensor);
    return exact ? expr_read(program, exact, read->args) : NULL;
}

/* Moves a subexpression to a new tensor over the indices that it depends on, computed before. */
static Expr *add_table(Tables *tables, const Statement *of, Expr *value, Index *const *indices,
                       int count, Type type) {
    MUST(of->kind == STATEMENT_LOOP);
    Program *program = tables->program;
    const char *name = arena_format(program->arena, "%s_table", of->target->tensor->name);
    Expr *from[MAX_RANK], *to[MAX_RANK];
    for (int i = 0; i < count; i++) {
        from[i] = expr_index(program, indices[i]);
        to[i] = expr_index(program, index_new(program, indices[i]->name, indices[i]->axis));
    }
    Tensor *table = tensor_over(program, name, ROLE_TEMP, type, indices, count, of->span);
    table->part = true;
    value = expr_substitute(program, rewrite_expr(program, value, exact_read, tables), indices, to,
                            count);
    statement_assign(program, tables->block, expr_read(program, table, to), value, of->span)
        ->in_double = true;
    return expr_read(program, table, from);
}

/* Replaces the largest subexpressions that depend on fewer indices than the equation. */
static Expr *with_tables(Tables *tables, const Statement *of, Expr *expr, bool inside) {
    Index *indices[MAX_RANK];
    int count = 0;
    if (expr->kind != EXPR_APPLY) return expr;
    bool fits = follows_from_positions(tables, expr) && is_long(expr) &&
                find_indices(expr, indices, &count) && count && count < of->loop_count;
    if (fits) {
        Statement part = *of;
        part.loop_count = count;
        Expr *value = with_tables(tables, &part, expr, true);
        return add_table(tables, of, value, indices, count, inside ? TYPE_DOUBLE : TYPE_REAL);
    }
    Expr *args[3] = {NULL, NULL, NULL};
    bool changed = false;
    for (int i = 0; i < expr->count; i++) {
        args[i] = with_tables(tables, of, expr->args[i], inside);
        changed |= args[i] != expr->args[i];
    }
    return changed ? expr_apply(tables->program, expr->op, args[0], args[1], args[2]) : expr;
}

/* ---- equations ---- */

/* True for an equation of positions only, as reals; its result then counts as one, too. */
static bool is_of_positions(const Tables *tables, const Statement *statement) {
    Index *indices[MAX_RANK];
    int count = 0;
    return statement->reduction == REDUCE_NONE && !statement->accumulate &&
           statement->target->tensor->type == TYPE_REAL && !expr_is_whole(statement->value) &&
           follows_from_positions(tables, statement->value) &&
           find_indices(statement->value, indices, &count);
}

/* A second copy of the tensor of such an equation, for those computed in double. `simplify` removes
 * it if it is unused. */
static void add_exact(Tables *tables, const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    Program *program = tables->program;
    Tensor *tensor = statement->target->tensor;
    if (!def_use_is_plain(tables->def_use, tensor)) return;
    Tensor *exact = tensor_new(program, tensor->name, ROLE_TEMP, TYPE_DOUBLE, tensor->rank,
                               tensor->axes, tensor->span);
    exact->part = tensor->part;
    Statement *copy = statement_copy(program, statement, NULL, NULL, 0);
    copy->target = expr_read(program, exact, statement->target->args);
    copy->in_double = true;
    program->has[HAS_TABLE] = true;
    list_push(program->arena, &tables->block->statements, copy);
    tables->exact[tensor->id] = exact;
}

static void visit(Tables *tables, Statement *statement) {
    Program *program = tables->program;
    if (statement->kind != STATEMENT_LOOP || statement->once) return;
    bool of_positions = is_of_positions(tables, statement), exact = is_long(statement->value);
    if (of_positions) {
        statement->value = rewrite_expr(program, statement->value, exact_read, tables);
        expr_walk(statement->value, find_exact, &exact);
    }
    statement->value = with_tables(tables, statement, statement->value, of_positions);
    if (!of_positions) return;
    statement->in_double = exact;
    add_exact(tables, statement);
}

static void visit_block(Tables *tables, Block *block) {
    Block made = {{NULL, 0, 0}};
    LIST_EACH(Statement, statement, &block->statements) {
        if (statement->kind == STATEMENT_REPEAT) visit_block(tables, &statement->body);
        tables->block = &made;
        visit(tables, statement);
        list_push(tables->program->arena, &made.statements, statement);
    }
    block->statements = made.statements;
}

void tables(Program *program) {
    Tables tables = {
        .program = program, .def_use = def_use_new(program), .count = program->tensors.count};
    tables.exact = arena_alloc(program->arena, ((size_t)tables.count + 1) * sizeof *tables.exact);
    visit_block(&tables, &program->body);
}
