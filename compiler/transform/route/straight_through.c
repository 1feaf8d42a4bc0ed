/* straight_through: values that add a gradient to a mask and are 0 where it is.
 *
 *     w[b,s,n] = on[b,s,n] + p[b,s,n] - stop(p[b,s,n])       w[b,s,n] = on[b,s,n]
 *     w[b,s,n] = p[b,s,n] + stop(on[b,s,n] - p[b,s,n])  -->  the same
 *
 * In programs without a gradient, a value and the same value without a gradient cancel. The
 * rest must be a mask, or weights that a mask makes 0. Training needs the gradient of all
 * entries: a note for `check`.
 */
#include "transform/route/route.h"

enum { MAX_TERMS = 8 };

typedef struct ThroughSearch {
    const Routing *routing;
    const ProgramPoint *point;
    bool trains; /* the values keep their gradients */
    bool found;
} ThroughSearch;

typedef struct Terms {
    Expr *at[MAX_TERMS];
    bool negative[MAX_TERMS], stopped[MAX_TERMS];
    int count;
} Terms;

/* The terms of a sum, inside of stop() as well; false if there are too many. */
static bool list_summands(const Routing *routing, Expr *expr, bool negative, bool stopped,
                          Terms *terms) {
    if (expr->kind == EXPR_READ && !stopped) {
        Expr *value = value_of_read(routing, expr);
        if (value && value->kind == EXPR_APPLY && value->op == OP_STOP) expr = value;
    }
    if (expr->kind == EXPR_APPLY && expr->op == OP_STOP)
        return list_summands(routing, expr->args[0], negative, true, terms);
    if (expr->kind == EXPR_APPLY && (expr->op == OP_ADD || expr->op == OP_SUB))
        return list_summands(routing, expr->args[0], negative, stopped, terms) &&
               list_summands(routing, expr->args[1], negative != (expr->op == OP_SUB), stopped,
                             terms);
    if (terms->count == MAX_TERMS) return false;
    terms->at[terms->count] = expr;
    terms->negative[terms->count] = negative;
    terms->stopped[terms->count++] = stopped;
    return true;
}

static void remove_term(Terms *terms, int term) {
    terms->count--;
    for (int i = term; i < terms->count; i++) {
        terms->at[i] = terms->at[i + 1];
        terms->negative[i] = terms->negative[i + 1];
        terms->stopped[i] = terms->stopped[i + 1];
    }
}

/* Removes a value and the same one without a gradient; false if there is no such pair. */
static bool cancel_pair(Terms *terms) {
    for (int i = 0; i < terms->count; i++)
        for (int j = i + 1; j < terms->count; j++) {
            if (terms->negative[i] == terms->negative[j] ||
                terms->stopped[i] == terms->stopped[j] || has_random_value(terms->at[i]) ||
                !expr_equal(terms->at[i], terms->at[j]))
                continue;
            remove_term(terms, j);
            remove_term(terms, i);
            return true;
        }
    return false;
}

static Expr *sum_of_rest(Program *program, const Terms *terms) {
    Expr *sum = expr_number(program, 0);
    for (int i = 0; i < terms->count; i++)
        sum = expr_apply(program, terms->negative[i] ? OP_SUB : OP_ADD, sum, terms->at[i], NULL);
    return sum;
}

/* The value of a sum in which a gradient cancels, if it is a mask or weights of one; or NULL. */
static Expr *masked_rest(const Routing *routing, const ProgramPoint *point, Expr *expr) {
    Terms terms = {.count = 0};
    if (!list_summands(routing, expr, false, false, &terms) || !cancel_pair(&terms)) return NULL;
    while (cancel_pair(&terms)) continue;
    Expr *rest = sum_of_rest(routing->program, &terms);
    return is_zero_or_one(routing, rest) || implied_condition(routing, point->repeat, rest) ? rest
                                                                                            : NULL;
}

static void note_gradient(Expr *expr, void *data) {
    const ThroughSearch *search = data;
    const Statement *statement = search->point->statement;
    if (expr->kind != EXPR_READ || !is_zero_or_one(search->routing, expr)) return;
    expr->tensor->dense =
        arena_format(search->routing->program->arena,
                     "'%s' has a gradient where the mask is 0; multiply it by the mask",
                     statement->target->tensor->stem);
}

static Expr *without_gradient(ThroughSearch *search, Expr *expr) {
    Expr *args[3] = {NULL, NULL, NULL};
    bool changed = false;
    if (expr->kind != EXPR_APPLY) return expr;
    if (expr->op == OP_ADD || expr->op == OP_SUB) {
        Expr *rest = masked_rest(search->routing, search->point, expr);
        search->found |= rest != NULL;
        if (rest && search->trains) expr_walk(rest, note_gradient, search);
        if (rest) return search->trains ? expr : rest;
    }
    for (int i = 0; i < expr->count; i++) {
        args[i] = without_gradient(search, expr->args[i]);
        changed |= args[i] != expr->args[i];
    }
    return changed ? expr_apply(search->routing->program, expr->op, args[0], args[1], args[2])
                   : expr;
}

void straight_through(Routing *routing, bool trains) {
    ThroughSearch search = {.routing = routing, .trains = trains};
    for (int i = 0; i < routing->def_use->count; i++) {
        Statement *statement = routing->def_use->points[i].statement;
        search.point = &routing->def_use->points[i];
        if (statement->kind == STATEMENT_LOOP)
            statement->value = without_gradient(&search, statement->value);
    }
    if (search.found && !trains) routing->def_use = def_use_new(routing->program);
    routing->program->by_training |= search.found;
}
