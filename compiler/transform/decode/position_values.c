/* position_values: values at later positions that depend on the number of the position alone are
 * computed where they are read.
 *
 *     on[s]    = s % 3 == 0                          on[s]    = s % 3 == 0
 *     y[b,s,d] = on[s + 1] * x[b,s,d]         -->    y[b,s,d] = where(s + 1 < 64, (s + 1) % 3 == 0,
 *                                                                     0) * x[b,s,d]
 *
 * The equations may read parameters, and other such values.
 */
#include "transform/decode/decode.h"

#include "analysis/def_use.h"

enum { MAX_EQUATIONS = 8 }; /* that are followed */

typedef struct PositionValues {
    const Decode *decode;
    const DefUse *def_use;
    const Index *position; /* of the statement */
    int depth;
    bool changed;
} PositionValues;

static Expr *position_value(PositionValues *values, Expr *expr);

/* The value of the equation at the subscripts of the read; NULL if it depends on more than the
 * position. */
static Expr *equation_at(PositionValues *values, const Expr *read) {
    const DefUse *def_use = values->def_use;
    Index *from[MAX_RANK];
    if (values->depth >= MAX_EQUATIONS || read->tensor->id >= def_use->tensor_count ||
        !def_use_is_plain(def_use, read->tensor))
        return NULL;
    const TensorAccess *write = def_use->writes[read->tensor->id].items[0];
    const Statement *maker = def_use->points[write->position].statement;
    if (maker->kind != STATEMENT_LOOP || maker->reduction != REDUCE_NONE) return NULL;
    for (int i = 0; i < read->count; i++) {
        from[i] = maker->target->args[i]->index;
        if (from[i]->axis->kind == AXIS_BATCH || from[i]->of_repeat) return NULL;
    }
    values->depth++;
    Expr *value = position_value(values, expr_substitute(values->decode->program, maker->value,
                                                         from, read->args, read->count));
    values->depth--;
    return value;
}

/* 0 <= sub < size, as conditions of where(). */
static Expr *inside_axis(Program *program, const Expr *read, Expr *value) {
    Expr *zero = expr_number(program, 0);
    for (int i = 0; i < read->count; i++) {
        Expr *sub = read->args[i];
        if (sub_is_inside(sub, read->tensor->axes[i])) continue;
        Expr *size = expr_number(program, (double)read->tensor->axes[i]->size);
        value =
            expr_apply(program, OP_WHERE, expr_apply(program, OP_LT, sub, size, NULL), value, zero);
        value =
            expr_apply(program, OP_WHERE, expr_apply(program, OP_GE, sub, zero, NULL), value, zero);
    }
    return value;
}

/* The expression without reads of temporaries, if these depend on the position alone; or NULL. */
static Expr *position_value(PositionValues *values, Expr *expr) {
    Program *program = values->decode->program;
    Expr *args[MAX_RANK] = {NULL};
    if (expr->kind == EXPR_APPLY && op_is_random(expr->op)) return NULL;
    for (int i = 0; i < expr->count; i++)
        if (!(args[i] = position_value(values, expr->args[i]))) return NULL;
    if (expr->kind != EXPR_READ) return expr->count ? expr_with_args(program, expr, args) : expr;
    Expr *read = expr_with_args(program, expr, args);
    if (expr->tensor->role == ROLE_PARAMETER || expr->tensor->role == ROLE_STATE) return read;
    Expr *value = equation_at(values, read);
    return value ? inside_axis(program, read, value) : NULL;
}

/* True for a read at a position that may be later. */
static bool reads_later(const PositionValues *values, const Expr *read) {
    const int dimension = values->decode->all.dimension[read->tensor->id];
    if (read->tensor->role != ROLE_TEMP || dimension < 0 || !values->position) return false;
    const Expr *sub = read->args[dimension];
    return sub->kind == EXPR_APPLY && !looks_back(sub, values->position);
}

static Expr *without_later(Program *program, Expr *read, void *data) {
    PositionValues *values = data;
    if (read->tensor->id >= values->decode->all.count || !reads_later(values, read)) return NULL;
    Expr *value = equation_at(values, read);
    values->changed |= value != NULL;
    return value ? inside_axis(program, read, value) : NULL;
}

bool position_values(Decode *decode) {
    const DefUse *def_use = def_use_new(decode->program);
    PositionValues values = {.decode = decode, .def_use = def_use};
    for (int i = 0; i < def_use->count; i++) {
        Statement *statement = def_use->points[i].statement;
        if (statement->kind != STATEMENT_LOOP) continue;
        values.position = current_position(&decode->all, statement);
        statement->value = rewrite_expr(decode->program, statement->value, without_later, &values);
    }
    return values.changed;
}
