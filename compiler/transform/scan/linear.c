/* linear: the update of a state by the body of a scan, expanded to a sum of products.
 *
 *     kept[h,e,c] = g[s,h] * S[s-1,h,e,c]
 *     seen[h,c] = sum[e] k[s,h,e] * kept[h,e,c]          terms:  g * S
 *     S[s,h,e,c] = kept[h,e,c]                    -->            b * k * v
 *             + b[s,h] * k[s,h,e] * (v[s,h,c] - seen[h,c])       -b * k * (sum[e] k * g * S)
 */
#include "transform/scan/scan.h"
#include "analysis/access.h"

#include "base/must.h"

/* The sum that is expanded; each of its reduced indices runs over a dimension of the state. */
typedef struct ExpandedSum {
    const Statement *statement; /* NULL: none */
    Index *from[MAX_LOOPS];
    Expr *to[MAX_LOOPS];
    int count;
    Dims dims;
} ExpandedSum;

typedef struct LinearExpansion {
    Recurrence *recurrence;
    ExpandedSum *sum;
    List *terms; /* StateTerm * */
} LinearExpansion;

static void expand(const LinearExpansion *expansion, Expr *expr, const Factors *prefix);

static void fail_linear(Recurrence *recurrence, const char *reason) {
    if (!recurrence->reason) recurrence->reason = reason;
}

void multiply_by(Program *program, Factors *factors, Expr *expr) {
    bool product = expr->kind == EXPR_APPLY && expr->op == OP_MUL,
         quotient = expr->kind == EXPR_APPLY && expr->op == OP_DIV;
    if (expr->kind == EXPR_NUMBER) {
        factors->number *= expr->number;
    } else if (expr->kind == EXPR_APPLY && expr->op == OP_NEG) {
        factors->number = -factors->number;
        multiply_by(program, factors, expr->args[0]);
    } else if (product || (quotient && expr->args[0]->kind != EXPR_NUMBER)) {
        multiply_by(program, factors, expr->args[0]);
        Expr *other = expr->args[1];
        if (quotient) other = expr_apply(program, OP_DIV, expr_number(program, 1), other, NULL);
        if (product)
            multiply_by(program, factors, other);
        else
            list_push(program->arena, &factors->list, other);
    } else {
        list_push(program->arena, &factors->list, expr);
    }
}

bool is_random(const Expr *expr) {
    if (expr->kind == EXPR_APPLY && op_table[expr->op].kind == OP_KIND_RANDOM) return true;
    for (int i = 0; i < expr->count; i++)
        if (is_random(expr->args[i])) return true;
    return false;
}

Expr *product_of(Program *program, const List *factors) {
    Expr *product = expr_number(program, 1);
    for (int i = 0; i < factors->count; i++)
        product = expr_apply(program, OP_MUL, product, factors->items[i], NULL);
    return product;
}

static Factors linear_product(Program *program, const Factors *factors, Expr *expr) {
    Factors copy = {.number = factors->number};
    list_append(program->arena, &copy.list, &factors->list);
    if (expr) multiply_by(program, &copy, expr);
    return copy;
}

/* ---- reads of tensors that the body defines ---- */

static bool is_defined(const Recurrence *recurrence, const Expr *expr) {
    if (expr->kind == EXPR_READ && loop_writing(&recurrence->scan->body, expr->tensor)) return true;
    for (int i = 0; i < expr->count; i++)
        if (is_defined(recurrence, expr->args[i])) return true;
    return false;
}

/* True for the current position, or for the one before it. */
static bool is_at(const Recurrence *recurrence, const Expr *sub, bool before) {
    const Index *position = recurrence->scan->index;
    if (!before) return sub->kind == EXPR_INDEX && sub->index == position;
    OpCode op = recurrence->scan->reverse ? OP_ADD : OP_SUB;
    return sub->kind == EXPR_APPLY && sub->op == op && is_at(recurrence, sub->args[0], false) &&
           expr_is_number(sub->args[1], 1);
}

static bool reads_before(const Recurrence *recurrence, const Expr *read) {
    MUST(read->kind == EXPR_READ);
    const Tensor *state = recurrence->target->tensor;
    if (read->tensor == state) return is_at(recurrence, read->args[recurrence->position], true);
    return read->tensor == recurrence->before &&
           is_at(recurrence, read->args[recurrence->position], false);
}

/* Sets the dimension of the state that an index of a sum runs over. */
static bool stands_for(Recurrence *recurrence, ExpandedSum *sum, Index *index, int dimension) {
    bool summed = false;
    for (int i = 0; sum->statement && i < sum->statement->loop_count; i++)
        summed |= sum->statement->loops[i] == index;
    if (!summed || sum->dims >> dimension & 1) return false;
    sum->from[sum->count] = index;
    sum->to[sum->count++] = recurrence->target->args[dimension];
    sum->dims |= 1u << dimension;
    return true;
}

/* The previous state, element by element or summed over some of its dimensions. */
static void add_state(const LinearExpansion *expansion, const Expr *read, const Factors *prefix) {
    MUST(read->kind == EXPR_READ);
    Recurrence *recurrence = expansion->recurrence;
    for (int i = 0; i < read->count; i++) {
        Expr *sub = read->args[i], *own = recurrence->target->args[i];
        if (i == recurrence->position || expr_equal(sub, own)) continue;
        if (sub->kind == EXPR_INDEX && stands_for(recurrence, expansion->sum, sub->index, i))
            continue;
        fail_linear(recurrence, "elements of the state depend on other elements");
        return;
    }
    StateTerm *term = arena_alloc(recurrence->program->arena, sizeof *term);
    *term = (StateTerm){.kind = TERM_STATE, .factors = *prefix};
    list_push(recurrence->program->arena, expansion->terms, term);
}

/* A sum of the previous state with a vector: one term, over all reduced indices. */
static void add_correction(const LinearExpansion *expansion, const Statement *maker, Expr *value,
                           const Factors *prefix) {
    MUST(maker->kind == STATEMENT_LOOP);
    Recurrence *recurrence = expansion->recurrence;
    Program *program = recurrence->program;
    List terms = {0};
    ExpandedSum sum = {.statement = maker};
    const LinearExpansion inner = {recurrence, &sum, &terms};
    if (expansion->sum->statement || maker->reduction != REDUCE_SUM) {
        fail_linear(recurrence, "not linear in the state");
        return;
    }
    expand(&inner, value, &(Factors){.number = 1});
    if (recurrence->reason) return;
    const StateTerm *only = terms.count == 1 ? terms.items[0] : NULL;
    if (!only || only->kind != TERM_STATE ||
        sum.count != maker->loop_count - maker->target->count + 1) {
        fail_linear(recurrence, "a sum over the state is not a plain product");
        return;
    }
    StateTerm *term = arena_alloc(program->arena, sizeof *term);
    *term = (StateTerm){.kind = TERM_CORRECTION, .factors = *prefix, .summed = sum.dims};
    term->looked.number = only->factors.number;
    for (int i = 0; i < only->factors.list.count; i++)
        list_push(
            program->arena, &term->looked.list,
            expr_substitute(program, only->factors.list.items[i], sum.from, sum.to, sum.count));
    list_push(program->arena, expansion->terms, term);
}

/* A read of a tensor from an earlier equation of the body: expands that equation. */
static void expand_read(const LinearExpansion *expansion, const Expr *read, const Factors *prefix) {
    Recurrence *recurrence = expansion->recurrence;
    const Statement *maker = loop_writing(&recurrence->scan->body, read->tensor);
    if (reads_before(recurrence, read)) {
        add_state(expansion, read, prefix);
        return;
    }
    Index *from[MAX_RANK];
    Expr *to[MAX_RANK];
    int count = 0;
    for (int i = 0; i < read->count; i++) {
        const Expr *sub = maker->target->args[i];
        bool position = sub->kind == EXPR_INDEX && sub->index == recurrence->scan->index;
        if (position && is_at(recurrence, read->args[i], false)) continue;
        if (position || sub->kind != EXPR_INDEX || read->args[i]->kind != EXPR_INDEX ||
            maker->target->tensor == recurrence->target->tensor || maker->accumulate) {
            fail_linear(recurrence, "it reads another position or another state");
            return;
        }
        from[count] = sub->index;
        to[count++] = read->args[i];
    }
    MUST(count <= MAX_RANK);
    Expr *value = expr_substitute(recurrence->program, maker->value, from, to, count);
    if (maker->reduction == REDUCE_NONE)
        expand(expansion, value, prefix);
    else
        add_correction(expansion, maker, value, prefix);
}

/* ---- expressions ---- */

static void expand_where(const LinearExpansion *expansion, const Expr *expr,
                         const Factors *prefix) {
    Program *program = expansion->recurrence->program;
    Expr *condition = expr->args[0];
    if (is_defined(expansion->recurrence, condition)) {
        fail_linear(expansion->recurrence, "it has a condition on the state");
        return;
    }
    Factors yes =
        linear_product(program, prefix,
                       expr_is_truth(condition)
                           ? condition
                           : expr_apply(program, OP_NE, condition, expr_number(program, 0), NULL));
    Factors no =
        linear_product(program, prefix, expr_apply(program, OP_NOT, condition, NULL, NULL));
    expand(expansion, expr->args[1], &yes);
    expand(expansion, expr->args[2], &no);
}

static void expand_product(const LinearExpansion *expansion, const Expr *expr,
                           const Factors *prefix) {
    MUST(expr->kind == EXPR_APPLY);
    Recurrence *recurrence = expansion->recurrence;
    bool first = is_defined(recurrence, expr->args[0]), both = first;
    both &= is_defined(recurrence, expr->args[1]);
    if (both || (expr->op == OP_DIV && !first)) {
        fail_linear(recurrence, "not linear in the state");
        return;
    }
    Expr *other = expr->args[first];
    if (expr->op == OP_DIV)
        other = expr_apply(recurrence->program, OP_DIV, expr_number(recurrence->program, 1), other,
                           NULL);
    Factors factors = linear_product(recurrence->program, prefix, other);
    expand(expansion, expr->args[!first], &factors);
}

/* Adds prefix * expr, expanded, to the terms. */
static void expand(const LinearExpansion *expansion, Expr *expr, const Factors *prefix) {
    Recurrence *recurrence = expansion->recurrence;
    Program *program = recurrence->program;
    if (recurrence->reason || expr_is_number(expr, 0)) return;
    if (is_random(expr)) fail_linear(recurrence, "it uses random numbers");
    if (!is_defined(recurrence, expr)) {
        StateTerm *term = arena_alloc(program->arena, sizeof *term);
        *term = (StateTerm){.kind = TERM_INPUT, .factors = linear_product(program, prefix, expr)};
        list_push(program->arena, expansion->terms, term);
        return;
    }
    if (expr->kind == EXPR_READ) {
        expand_read(expansion, expr, prefix);
        return;
    }
    Factors minus = linear_product(program, prefix, NULL);
    minus.number = -minus.number;
    switch (expr->op) {
    case OP_ADD:
    case OP_SUB:
        expand(expansion, expr->args[0], prefix);
        expand(expansion, expr->args[1], expr->op == OP_ADD ? prefix : &minus);
        break;
    case OP_NEG:
        expand(expansion, expr->args[0], &minus);
        break;
    case OP_MUL:
    case OP_DIV:
        expand_product(expansion, expr, prefix);
        break;
    case OP_WHERE:
        expand_where(expansion, expr, prefix);
        break;
    default:
        fail_linear(recurrence, "not linear in the state");
    }
}

/* before[s,...] = where(s == 0, begin, S[s-1,...]): another name of the previous state. */
static void find_beginning(Recurrence *recurrence) {
    const List *body = &recurrence->scan->body.statements;
    LIST_EACH(const Statement, statement, body) {
        const Expr *value = statement->value;
        if (value->kind != EXPR_APPLY || value->op != OP_WHERE || statement->reduction) continue;
        const Expr *first = value->args[0], *read = value->args[2];
        if (first->kind != EXPR_APPLY || first->op != OP_EQ || first->args[0]->kind != EXPR_INDEX ||
            first->args[0]->index != recurrence->scan->index || read->kind != EXPR_READ ||
            read->tensor != recurrence->target->tensor || !reads_before(recurrence, read) ||
            is_defined(recurrence, value->args[1]))
            continue;
        Index *from[MAX_RANK];
        int count = 0;
        Expr *to[MAX_RANK];
        for (int j = 0; j < read->count; j++) {
            if (j == recurrence->position) continue;
            if (!expr_equal(statement->target->args[j], read->args[j])) return;
            from[count] = read->args[j]->index;
            to[count++] = recurrence->target->args[j];
        }
        recurrence->before = statement->target->tensor;
        recurrence->begin = expr_substitute(recurrence->program, value->args[1], from, to, count);
        return;
    }
}

void linear(Recurrence *recurrence) {
    const Expr *target = recurrence->target;
    ExpandedSum none = {0};
    const LinearExpansion expansion = {recurrence, &none, &recurrence->terms};
    const Statement *maker = loop_writing(&recurrence->scan->body, target->tensor);
    recurrence->position = -1;
    for (int i = 0; i < target->count; i++) {
        if (target->args[i]->kind != EXPR_INDEX)
            fail_linear(recurrence, "a subscript of the state is not an index");
        else if (target->args[i]->index == recurrence->scan->index)
            recurrence->position = i;
    }
    if (recurrence->position < 0 || maker->reduction != REDUCE_NONE || maker->accumulate)
        fail_linear(recurrence, "not linear in the state");
    if (recurrence->reason) return;
    find_beginning(recurrence);
    expand(&expansion, maker->value, &(Factors){.number = 1});
}
