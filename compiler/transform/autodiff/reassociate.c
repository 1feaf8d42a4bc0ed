/* reassociate: moves a factor of a product result to an operand of the product.
 *
 * Needs:   elaborate, before gradient.
 * Leaves:  the same values, except for rounding.
 *
 *     y[n,s,d] = sum[f] h[n,s,f] * down[n,f,d]
 *     z[s,d] = sum[n] chosen[s,n] * w[s,n] * y[n,s,d]
 *   -->
 *     u[n,s,f] = w[s,n] * h[n,s,f]
 *     y[n,s,d] = sum[f] u[n,s,f] * down[n,f,d]
 *     z[s,d] = sum[n] chosen[s,n] * y[n,s,d]
 *
 * The derivative by w needs y in the first form and h in the second. The derivative by `down` needs
 * h anyway. The second form therefore does not save y for the backward pass, whose size is
 * proportional to n. The adjoint of y is the gathered adjoint of z without a multiplication per
 * row. Selections do not move, because they mark the required entries.
 *
 * A number moves further, to the statement that computes an operand. That statement must have no
 * other reader and must not be a function of one value, which could be an epilogue. This saves a
 * pass over the result and one over its adjoint.
 *
 *     u[s,d] = x[s,d] * w[d]                              u[s,d] = 0.125 * (x[s,d] * w[d])
 *     y[s,v] = sum[d] u[s,d] * head[d,v]             -->  z[s,v] = sum[d] u[s,d] * head[d,v]
 *     z[s,v] = 0.125 * y[s,v]
 */
#include "passes.h"
#include "analysis/access.h"
#include "base/must.h"

#include <stdint.h>

enum { MAX_FACTORS = 8 };

typedef struct Reassociation {
    Program *program;
    bool *choice; /* by tensor->id: a selection */
    int *touched; /* by tensor->id: accesses in the whole program */
    int tensors;  /* at the time of counting */
} Reassociation;

/* z = sum of factors, one of which reads y; y = sum of a product, one factor of which reads h. */
typedef struct Match {
    Statement *outer, *inner;
    int position; /* index of inner in the block */
    Expr *factors[MAX_FACTORS];
    int count, read; /* factors[read] reads y */
    int side;        /* of h in the value of inner */
    bool moves[MAX_FACTORS];
} Match;

/* ---- counting ---- */

static void count_access(Expr *expr, void *data) {
    Reassociation *reassociation = data;
    if (expr->kind == EXPR_READ) reassociation->touched[expr->tensor->id]++;
}

static void def_use_statement(Statement *statement, void *data) {
    Reassociation *reassociation = data;
    statement_walk(statement, count_access, data);
    LIST_EACH(Expr, output, &statement->outputs) {
        expr_walk(output, count_access, data);
        if (statement_selects(statement)) reassociation->choice[output->tensor->id] = true;
    }
}

/* ---- matching ---- */

static bool is_plain_sum(const Expr *read) {
    if (read->kind != EXPR_READ) return false;
    for (int i = 0; i < read->count; i++) {
        if (read->args[i]->kind != EXPR_INDEX || read->args[i]->index->of_repeat) return false;
        for (int j = 0; j < i; j++)
            if (read->args[j]->index == read->args[i]->index) return false;
    }
    return true;
}

static bool split_factors(Match *match, Expr *value) {
    if (value->kind == EXPR_APPLY && value->op == OP_MUL)
        return split_factors(match, value->args[0]) && split_factors(match, value->args[1]);
    if (match->count == MAX_FACTORS) return false;
    match->factors[match->count++] = value;
    return true;
}

static bool is_factored_sum(const Statement *statement) {
    return statement->kind == STATEMENT_LOOP && statement->reduction == REDUCE_SUM &&
           !statement->accumulate && !statement->once;
}

/* Finds the statement of this block that alone writes the tensor, for one reader. */
static bool find_inner(const Reassociation *reassociation, const Block *block, int outer,
                       Match *match) {
    const Tensor *made = match->factors[match->read]->tensor;
    if (made->role != ROLE_TEMP || made->id >= reassociation->tensors ||
        reassociation->touched[made->id] != 2)
        return false;
    for (int i = 0; i < outer; i++) {
        Statement *statement = block->statements.items[i];
        if (!is_factored_sum(statement) || statement->target->tensor != made) continue;
        match->inner = statement;
        match->position = i;
        return is_plain_sum(statement->target) && statement->value->kind == EXPR_APPLY &&
               statement->value->op == OP_MUL && statement->value->args[0]->kind == EXPR_READ &&
               statement->value->args[1]->kind == EXPR_READ;
    }
    return false;
}

/* True if every index of the factor is an index of y that also subscripts h. */
static bool goes_through(const Match *match, const Expr *factor) {
    const Expr *y = match->factors[match->read], *h = match->inner->value->args[match->side];
    for (int i = 0; i < match->outer->loop_count; i++) {
        const Index *index = match->outer->loops[i];
        if (!expr_uses_index(factor, index)) continue;
        bool through = false;
        for (int j = 0; j < y->count; j++)
            through |= y->args[j]->index == index &&
                       expr_uses_index(h, match->inner->target->args[j]->index);
        if (!through) return false;
    }
    return true;
}

static void notice_factor(Expr *expr, void *data) {
    const Reassociation *reassociation = ((void **)data)[0];
    bool *found = ((void **)data)[1];
    if (expr->kind == EXPR_READ && expr->tensor->id < reassociation->tensors &&
        reassociation->choice[expr->tensor->id])
        found[0] = true;
    if (expr->kind == EXPR_READ) found[1] = true;
    if (expr->kind == EXPR_APPLY && op_is_random(expr->op)) found[0] = true;
}

/* Selects the operand that is an activation and not a weight. */
static bool find_moves(const Reassociation *reassociation, Match *match) {
    for (match->side = 0; match->side < 2; match->side++) {
        const Expr *h = match->inner->value->args[match->side];
        bool any = false;
        if (!is_plain_sum(h) || h->tensor->role != ROLE_TEMP || h->tensor->type != TYPE_REAL)
            continue;
        for (int i = 0; i < match->count; i++) {
            bool found[2] = {false, false};
            void *data[2] = {(void *)(uintptr_t)reassociation, found};
            expr_walk(match->factors[i], notice_factor, data);
            match->moves[i] =
                i != match->read && !found[0] && goes_through(match, match->factors[i]);
            any |= match->moves[i] && found[1];
        }
        if (any) return true;
    }
    return false;
}

static bool find_match(const Reassociation *reassociation, const Block *block, int position,
                       Match *match) {
    *match = (Match){.outer = block->statements.items[position]};
    if (!is_factored_sum(match->outer) || statement_is_scatter(match->outer) ||
        !split_factors(match, match->outer->value))
        return false;
    for (match->read = 0; match->read < match->count; match->read++)
        if (is_plain_sum(match->factors[match->read]) &&
            find_inner(reassociation, block, position, match) && find_moves(reassociation, match))
            return true;
    return false;
}

/* z = number * y, of a product y. */
static bool find_number(const Reassociation *reassociation, const Block *block, int position,
                        Match *match) {
    Statement *outer = block->statements.items[position];
    *match = (Match){.outer = outer};
    if (outer->kind != STATEMENT_LOOP || outer->reduction != REDUCE_NONE || outer->accumulate ||
        outer->once || !is_plain_sum(outer->target) || !split_factors(match, outer->value) ||
        match->count != 2)
        return false;
    match->read = match->factors[0]->kind == EXPR_NUMBER;
    return match->factors[!match->read]->kind == EXPR_NUMBER &&
           is_plain_sum(match->factors[match->read]) &&
           match->factors[match->read]->count == outer->loop_count &&
           find_inner(reassociation, block, position, match);
}

static void count_elements(Expr *expr, void *data) {
    const Program *program = ((void **)data)[0];
    List *elements = ((void **)data)[1];
    if (expr->kind != EXPR_READ) return;
    for (int i = 0; i < elements->count; i++)
        if (expr_equal(elements->items[i], expr)) return;
    list_push(program->arena, elements, expr);
}

/* A function of one value in its current form, which may be the epilogue of an earlier product. */
static bool may_be_epilogue(Program *program, Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    List elements = {0};
    void *data[2] = {program, &elements};
    expr_walk(statement->value, count_elements, data);
    return elements.count < 2;
}

/* The elementwise statement that computes the tensor for one reader only, or NULL. */
static Statement *find_maker(const Reassociation *reassociation, const Block *block, int before,
                             const Tensor *made) {
    if (made->role != ROLE_TEMP || made->type != TYPE_REAL || made->id >= reassociation->tensors ||
        reassociation->touched[made->id] != 2)
        return NULL;
    for (int i = 0; i < before; i++) {
        Statement *maker = block->statements.items[i];
        if (maker->kind == STATEMENT_LOOP && maker->target->tensor == made)
            return maker->reduction == REDUCE_NONE && !maker->accumulate && !maker->once &&
                           !may_be_epilogue(reassociation->program, maker)
                       ? maker
                       : NULL;
    }
    return NULL;
}

static Statement *maker_of_operand(const Reassociation *reassociation, const Block *block,
                                   const Match *match) {
    Expr *const *sides = match->inner->value->args;
    Statement *maker = find_maker(reassociation, block, match->position, sides[0]->tensor);
    return maker ? maker : find_maker(reassociation, block, match->position, sides[1]->tensor);
}

/* ---- rewriting ---- */

static Expr *times_factor(Program *program, Expr *a, Expr *b) {
    return a ? expr_apply(program, OP_MUL, a, b, NULL) : b;
}

/* u = factors * h, and u replaces h. */
static void scale_operand(Program *program, const Match *match, Block *before) {
    const Expr *y = match->factors[match->read], *target = match->inner->target;
    Expr *h = match->inner->value->args[match->side], *value = NULL, *to[MAX_RANK];
    Index *from[MAX_RANK], *loops[MAX_RANK];
    Axis *axes[MAX_RANK];
    for (int i = 0; i < y->count; i++) {
        from[i] = y->args[i]->index;
        to[i] = target->args[i];
    }
    for (int i = 0; i < match->count; i++)
        if (match->moves[i])
            value = times_factor(program, value,
                                 expr_substitute(program, match->factors[i], from, to, y->count));
    value = times_factor(program, value, h);
    for (int i = 0; i < h->count; i++) {
        from[i] = h->args[i]->index;
        loops[i] = index_new(program, from[i]->name, from[i]->axis);
        to[i] = expr_index(program, loops[i]);
        axes[i] = h->tensor->axes[i];
    }
    Tensor *weighed =
        tensor_new(program, arena_format(program->arena, "%s_weighed", h->tensor->name), ROLE_TEMP,
                   TYPE_REAL, h->count, axes, match->outer->span);
    statement_assign(program, before, expr_read_indices(program, weighed, loops),
                     expr_substitute(program, value, from, to, h->count), match->outer->span);
    Expr *args[2] = {match->inner->value->args[0], match->inner->value->args[1]};
    args[match->side] = expr_read(program, weighed, h->args);
    match->inner->value = expr_apply(program, OP_MUL, args[0], args[1], NULL);
}

/* The product must follow its factors: it moves directly before its reader. */
static void apply_factor(Program *program, Block *block, int position, const Match *match) {
    Block before = {{0}};
    List kept = {0};
    Expr *value = NULL;
    program->has[HAS_REASSOCIATED] = true;
    scale_operand(program, match, &before);
    for (int i = 0; i < match->count; i++)
        if (!match->moves[i]) value = times_factor(program, value, match->factors[i]);
    match->outer->value = value;
    for (int i = 0; i < block->statements.count; i++) {
        if (i == match->position) continue;
        if (i == position) {
            list_push(program->arena, &kept, before.statements.items[0]);
            list_push(program->arena, &kept, match->inner);
        }
        list_push(program->arena, &kept, block->statements.items[i]);
    }
    block->statements = kept;
}

/* number * expr: multiplies each term of a sum, and the statement that computes it if possible. */
static Expr *scaled(const Reassociation *reassociation, const Block *block, Expr *number,
                    Expr *expr) {
    Program *program = reassociation->program;
    if (expr->kind == EXPR_APPLY && (expr->op == OP_ADD || expr->op == OP_SUB))
        return expr_apply(program, expr->op, scaled(reassociation, block, number, expr->args[0]),
                          scaled(reassociation, block, number, expr->args[1]), NULL);
    Statement *maker = expr->kind == EXPR_READ
                           ? find_maker(reassociation, block, block->statements.count, expr->tensor)
                           : NULL;
    if (!maker) return expr_apply(program, OP_MUL, number, expr, NULL);
    maker->value = scaled(reassociation, block, number, maker->value);
    return expr;
}

/* The product computes z directly, and its operand is scaled. */
static void scale_maker(const Reassociation *reassociation, Block *block, const Match *match,
                        Statement *maker) {
    MUST(maker->kind == STATEMENT_LOOP);
    Program *program = reassociation->program;
    const Expr *y = match->factors[match->read];
    Index *from[MAX_RANK];
    for (int i = 0; i < y->count; i++) from[i] = y->args[i]->index;
    maker->value = scaled(reassociation, block, match->factors[!match->read], maker->value);
    match->inner->target =
        expr_substitute(program, match->outer->target, from, match->inner->target->args, y->count);
    List kept = {0};
    for (int i = 0; i < block->statements.count; i++)
        if (block->statements.items[i] != match->outer)
            list_push(program->arena, &kept, block->statements.items[i]);
    block->statements = kept;
}

static void reassociate_block(Reassociation *reassociation, Block *block) {
    for (int i = 0; i < block->statements.count; i++) {
        Statement *statement = block->statements.items[i], *maker = NULL;
        Match match;
        if (statement->kind == STATEMENT_REPEAT)
            reassociate_block(reassociation, &statement->body);
        else if (find_number(reassociation, block, i, &match) &&
                 (maker = maker_of_operand(reassociation, block, &match)))
            scale_maker(reassociation, block, &match, maker), i--;
        else if (find_match(reassociation, block, i, &match)) {
            apply_factor(reassociation->program, block, i, &match);
            i++; /* one more statement precedes this one */
        }
    }
}

void reassociate(Program *program) {
    size_t count = (size_t)program->tensors.count + 1;
    Reassociation reassociation = {.program = program, .tensors = program->tensors.count};
    reassociation.choice = arena_alloc(program->arena, count * sizeof *reassociation.choice);
    reassociation.touched = arena_alloc(program->arena, count * sizeof *reassociation.touched);
    block_walk(&program->body, def_use_statement, &reassociation);
    reassociate_block(&reassociation, &program->body);
}
