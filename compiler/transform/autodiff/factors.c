/* factors: writes target (+)= sum over indices of a product of factors, such that contractions
 * remain contractions.
 *
 * Factors that do not depend on the summed indices move outside of the sum. The others form groups
 * by their indices. Two groups that each lack an index of the other are a matrix product and become
 * a sum of two plain reads. Of more than two groups, the cheapest pair is summed first:
 *
 *     d[b,f] = sum[o] 2 * g[b] * dy[b,o] * tanh(w[f,o])
 * -->
 *     d_part[f,o] = tanh(w[f,o])
 *     d_sum[b,f] = sum[o] dy[b,o] * d_part[f,o]
 *     d[b,f] = 2 * g[b] * d_sum[b,f]
 */
#include "transform/autodiff/gradient.h"
#include "base/must.h"

typedef struct FactorProduct {
    Program *program;
    Block *block;
    Span span;
    const char *name;            /* of the target */
    Index *loops[2 * MAX_LOOPS]; /* of the target, then the reduced ones */
    int loop_count, target_count;
    double scale;
    List inside, outside; /* Expr * */
} FactorProduct;

typedef struct FactorGroup {
    unsigned loops; /* bit i: loops[i] */
    List factors;
} FactorGroup;

static unsigned factor_loops(const FactorProduct *product, const Expr *expr) {
    unsigned set = 0;
    for (int i = 0; i < product->loop_count; i++)
        if (expr_uses_index(expr, product->loops[i])) set |= 1u << i;
    return set;
}

static unsigned loops_of_list(const FactorProduct *product, const List *factors) {
    unsigned set = 0;
    for (int i = 0; i < factors->count; i++) set |= factor_loops(product, factors->items[i]);
    return set;
}

/* Splits a factor into factors: products, signs and quotients are separated, numbers multiply the
 * scale. */
static void append_factor(FactorProduct *product, Expr *factor) {
    Program *program = product->program;
    if (factor->kind == EXPR_NUMBER) {
        product->scale *= factor->number;
    } else if (factor->kind == EXPR_APPLY && factor->op == OP_MUL) {
        append_factor(product, factor->args[0]);
        append_factor(product, factor->args[1]);
    } else if (factor->kind == EXPR_APPLY && factor->op == OP_NEG) {
        product->scale = -product->scale;
        append_factor(product, factor->args[0]);
    } else if (factor->kind == EXPR_APPLY && factor->op == OP_DIV &&
               factor->args[1]->kind == EXPR_NUMBER) {
        product->scale /= factor->args[1]->number;
        append_factor(product, factor->args[0]);
    } else if (factor->kind == EXPR_APPLY && factor->op == OP_DIV &&
               factor->args[0]->kind != EXPR_NUMBER) {
        append_factor(product, factor->args[0]);
        append_factor(product,
                      expr_apply(program, OP_DIV, expr_number(program, 1), factor->args[1], NULL));
    } else {
        unsigned reduced = factor_loops(product, factor) >> product->target_count;
        list_push(program->arena, reduced ? &product->inside : &product->outside, factor);
    }
}

Expr *expr_product(Program *program, const List *factors, int first) {
    Expr *value = expr_number(program, 1), *condition = NULL;
    for (int i = first; i < factors->count; i++) {
        Expr *factor = factors->items[i];
        if (!expr_is_truth(factor))
            value = expr_apply(program, OP_MUL, value, factor, NULL);
        else
            condition = condition ? expr_apply(program, OP_AND, condition, factor, NULL) : factor;
    }
    if (!condition) return value;
    if (expr_is_number(value, 1)) return condition;
    return expr_apply(program, OP_WHERE, condition, value, expr_number(program, 0));
}

static Expr *multiply_factors(Program *program, const List *factors, double scale) {
    return expr_apply(program, OP_MUL, expr_product(program, factors, 0),
                      expr_number(program, scale), NULL);
}

static bool is_plain_read(const Expr *expr) {
    if (expr->kind != EXPR_READ) return false;
    for (int i = 0; i < expr->count; i++) {
        const Expr *sub = expr->args[i];
        if (sub->kind != EXPR_INDEX && expr->tensor->axes[i]->kind != AXIS_REPEAT) return false;
        for (int j = 0; j < i; j++)
            if (expr_equal(sub, expr->args[j])) return false;
    }
    return true;
}

/* Creates a tensor over the loops in `set` and reads it at them. */
static Expr *new_temp(FactorProduct *product, const char *name, unsigned set) {
    Index *indices[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < product->loop_count; i++)
        if (set >> i & 1) indices[rank++] = product->loops[i];
    MUST(rank <= MAX_RANK);
    Tensor *tensor =
        tensor_over(product->program, name, ROLE_TEMP, TYPE_REAL, indices, rank, product->span);
    return expr_read_indices(product->program, tensor, indices);
}

/* The product of a group as a plain read; computed before the sum unless it is one already. */
static Expr *group_read(FactorProduct *product, const FactorGroup *group) {
    Program *program = product->program;
    Expr *first = group->factors.items[0];
    if (group->factors.count == 1 && is_plain_read(first)) return first;
    Expr *temp =
        new_temp(product, arena_format(program->arena, "%s_part", product->name), group->loops);
    statement_assign(program, product->block, temp, multiply_factors(program, &group->factors, 1),
                     product->span);
    return temp;
}

static bool is_subset(unsigned a, unsigned b) {
    return (a & ~b) == 0;
}

static double set_size(const FactorProduct *product, unsigned set) {
    double size = 1;
    for (int i = 0; i < product->loop_count; i++)
        if (set >> i & 1) size *= (double)product->loops[i]->axis->size;
    return size;
}

/* The maximal sets of loops among the factors inside; every factor goes to the smallest set that
 * contains its own loops. */
static int make_groups(const FactorProduct *product, FactorGroup *groups) {
    int count = 0;
    for (int i = 0; i < product->inside.count; i++) {
        unsigned set = factor_loops(product, product->inside.items[i]);
        bool largest = true;
        for (int j = 0; j < product->inside.count; j++) {
            unsigned other = factor_loops(product, product->inside.items[j]);
            if (is_subset(set, other) && (other != set || j < i)) largest = false;
        }
        if (largest && count < MAX_LOOPS) groups[count++] = (FactorGroup){.loops = set};
    }
    for (int i = 0; i < product->inside.count; i++) {
        unsigned set = factor_loops(product, product->inside.items[i]);
        FactorGroup *best = NULL;
        for (int g = 0; g < count; g++) {
            if (!is_subset(set, groups[g].loops)) continue;
            if (!best || set_size(product, groups[g].loops) < set_size(product, best->loops))
                best = &groups[g];
        }
        if (best) list_push(product->program->arena, &best->factors, product->inside.items[i]);
    }
    return count;
}

/* Writes the sum; with `split` into a temporary, which is then scaled and broadcast to the
 * target. */
static void write_sum(FactorProduct *product, Expr *target, bool accumulate, Expr *value,
                      bool split) {
    Program *program = product->program;
    Index **reduced = product->loops + product->target_count;
    int reduced_count = product->loop_count - product->target_count;
    if (!split) {
        statement_loop(program, product->block, target, accumulate, REDUCE_SUM, reduced,
                       reduced_count, value, product->span);
        return;
    }
    unsigned target_loops = (1u << product->target_count) - 1;
    const char *name = arena_format(program->arena, "%s_sum", product->name);
    Expr *temp = new_temp(product, name, factor_loops(product, value) & target_loops);
    statement_loop(program, product->block, temp, false, REDUCE_SUM, reduced, reduced_count, value,
                   product->span);
    List factors = product->outside;
    list_push(program->arena, &factors, temp);
    statement_loop(program, product->block, target, accumulate, REDUCE_NONE, NULL, 0,
                   multiply_factors(program, &factors, product->scale), product->span);
}

/* The reduced loops that only these two groups have; they can be summed directly after the
 * multiplication of the groups. */
static unsigned private_loops(const FactorProduct *product, const FactorGroup *groups, int count,
                              int a, int b) {
    unsigned own = groups[a].loops | groups[b].loops;
    for (int i = 0; i < count; i++)
        if (i != a && i != b) own &= ~groups[i].loops;
    return own >> product->target_count << product->target_count;
}

static void drop_loops(FactorProduct *product, unsigned set) {
    int count = 0;
    for (int i = 0; i < product->loop_count; i++)
        if (!(set >> i & 1)) product->loops[count++] = product->loops[i];
    product->loop_count = count;
}

/* Sums the product of two groups over the loops in `summed`; the result becomes one factor. */
static void join_pair(FactorProduct *product, const FactorGroup *groups, int count, int a, int b,
                      unsigned summed) {
    Program *program = product->program;
    Expr *left = group_read(product, &groups[a]), *right = group_read(product, &groups[b]);
    unsigned kept = (groups[a].loops | groups[b].loops) & ~summed;
    Expr *temp = new_temp(product, arena_format(program->arena, "%s_sum", product->name), kept);
    Index *reduced[2 * MAX_LOOPS];
    int reduced_count = 0;
    for (int i = 0; i < product->loop_count; i++)
        if (summed >> i & 1) reduced[reduced_count++] = product->loops[i];
    MUST(reduced_count <= 2 * MAX_LOOPS);
    statement_loop(program, product->block, temp, false, REDUCE_SUM, reduced, reduced_count,
                   expr_apply(program, OP_MUL, left, right, NULL), product->span);
    List inside = {0};
    for (int g = 0; g < count; g++)
        for (int i = 0; g != a && g != b && i < groups[g].factors.count; i++)
            list_push(program->arena, &inside, groups[g].factors.items[i]);
    drop_loops(product, summed);
    list_push(program->arena,
              factor_loops(product, temp) >> product->target_count ? &inside : &product->outside,
              temp);
    product->inside = inside;
}

/* Joins the pair of groups with the least total work, including its own; false if a single sum is
 * not more expensive. */
static bool join_cheapest(FactorProduct *product, const FactorGroup *groups, int count) {
    unsigned all = loops_of_list(product, &product->inside);
    double best = set_size(product, all);
    int best_a = -1, best_b = -1;
    for (int a = 0; a < count; a++)
        for (int b = a + 1; b < count; b++) {
            unsigned summed = private_loops(product, groups, count, a, b);
            double size = set_size(product, groups[a].loops | groups[b].loops) +
                          set_size(product, all & ~summed);
            if (!summed || size >= best) continue;
            best = size;
            best_a = a;
            best_b = b;
        }
    if (best_a < 0) return false;
    join_pair(product, groups, count, best_a, best_b,
              private_loops(product, groups, count, best_a, best_b));
    return true;
}

/* True if a factor outside costs more than a multiplication in every iteration of the sum. */
static bool is_costly(const List *factors) {
    LIST_EACH(const Expr, factor, factors)
        if (factor->kind == EXPR_APPLY && (factor->op == OP_DIV || op_table[factor->op].cost > 1))
            return true;
    return false;
}

/* Reduced loops that no factor inside depends on become a number. */
static void drop_unused_loops(FactorProduct *product) {
    unsigned used = loops_of_list(product, &product->inside);
    int count = product->target_count;
    for (int i = product->target_count; i < product->loop_count; i++) {
        if (used >> i & 1)
            product->loops[count++] = product->loops[i];
        else
            product->scale *= (double)product->loops[i]->axis->size;
    }
    product->loop_count = count;
}

void statement_product(Program *program, Block *block, Expr *target, bool accumulate,
                       Index *const *reduced, int reduced_count, const List *factors, Span span) {
    FactorProduct product = {
        .program = program, .block = block, .span = span, .name = target->tensor->name, .scale = 1};
    for (int i = 0; i < target->count; i++)
        if (target->args[i]->kind == EXPR_INDEX && !target->args[i]->index->of_repeat)
            product.loops[product.loop_count++] = target->args[i]->index;
    product.target_count = product.loop_count;
    MUST(product.loop_count + reduced_count <= 2 * MAX_LOOPS);
    for (int i = 0; i < reduced_count; i++) product.loops[product.loop_count++] = reduced[i];
    for (int i = 0; i < factors->count; i++) append_factor(&product, factors->items[i]);
    drop_unused_loops(&product);

    FactorGroup groups[MAX_LOOPS];
    int count = product.loop_count > MAX_RANK ? 1 : make_groups(&product, groups);
    while (count > 2 && join_cheapest(&product, groups, count))
        count = make_groups(&product, groups);
    if (!product.inside.count) {
        statement_loop(program, block, target, accumulate, REDUCE_NONE, NULL, 0,
                       multiply_factors(program, &product.outside, product.scale), span);
        return;
    }
    unsigned target_loops = (1u << product.target_count) - 1;
    bool spread = !is_subset(target_loops, loops_of_list(&product, &product.inside));
    if (count == 2) {
        Expr *left = group_read(&product, &groups[0]), *right = group_read(&product, &groups[1]);
        bool split = spread || product.outside.count || product.scale != 1;
        write_sum(&product, target, accumulate, expr_apply(program, OP_MUL, left, right, NULL),
                  split);
    } else if (spread || is_costly(&product.outside)) {
        write_sum(&product, target, accumulate, multiply_factors(program, &product.inside, 1),
                  true);
    } else {
        List all = product.inside;
        list_append(program->arena, &all, &product.outside);
        write_sum(&product, target, accumulate, multiply_factors(program, &all, product.scale),
                  false);
    }
}
