/* adjoint: sums the contributions to an adjoint.
 *
 * Sums are written at once: the first assigns, the others add. Pointwise contributions and scatters
 * are pending until the adjoint is read. The pointwise ones then become one statement, and an
 * adjoint is zeroed for a scatter only if necessary:
 *
 *     y[s] = x[s] * a[s];  z[s] = x[s] + b[s]      -->    d_x[s] = d_y[s] * a[s] + d_z[s]
 *     h[s,d] = table[token[s],d]                   -->    d_table[token[s],d] += d_h[s,d]
 *     y[s] = sum[w] x[s - w] * f[w]                -->    d_x[s] = sum[w] d_y[s + w] * f[w]
 *
 * The adjoint of a tensor outside of a repeat with uses inside is zeroed before the repeat; every
 * iteration adds to it.
 */
#include "transform/autodiff/gradient.h"
#include "base/must.h"

/* A contribution in progress: the product of factors, for all loops, into subs. */
typedef struct Contribution {
    Expr *subs[MAX_RANK];
    Index *loops[2 * MAX_LOOPS];
    int loop_count;
    List factors; /* Expr * */
    Span span;
} Contribution;

/* ---- slots ---- */

static Slot *find_adjoint_slot(Backward *backward, Adjoint *adjoint, Expr *slice) {
    LIST_EACH(Slot, slot, &adjoint->slots)
        if (!slice || expr_equal(slot->slice, slice)) return slot;
    Slot *slot = arena_alloc(backward->program->arena, sizeof *slot);
    slot->slice = slice;
    /* A carried tensor: the step before or a statement outside writes slice i+1, the last step
     * slice 0. */
    if (slice) slot->started = slice->kind == EXPR_APPLY || expr_is_number(slice, 0);
    list_push(backward->program->arena, &adjoint->slots, slot);
    return slot;
}

/* The adjoint's own loops have the names of the loops in `subs`. */
static Adjoint *adjoint_of(Backward *backward, Tensor *tensor, Expr *const *subs) {
    Program *program = backward->program;
    Adjoint *adjoint = &backward->adjoints[tensor->id];
    if (adjoint->tensor) return adjoint;
    MUST(tensor->id < backward->count);
    const char *name = arena_format(program->arena, "d_%s", tensor->name);
    Role role = tensor->role == ROLE_PARAMETER ? ROLE_GRADIENT : ROLE_TEMP;
    adjoint->tensor =
        tensor_new(program, name, role, TYPE_REAL, tensor->rank, tensor->axes, tensor->span);
    adjoint->tensor->of = tensor;
    for (int i = 0; i < tensor->rank; i++) {
        bool named = subs && subs[i]->kind == EXPR_INDEX;
        const char *index_name = named ? subs[i]->index->name : tensor->axes[i]->name;
        adjoint->indices[i] = index_new(program, index_name, tensor->axes[i]);
    }
    return adjoint;
}

void adjoint_declare(Backward *backward, Tensor *parameter) {
    if (parameter->role == ROLE_PARAMETER && parameter->type == TYPE_REAL)
        adjoint_of(backward, parameter, NULL);
}

static Slot *adjoint_slot(Backward *backward, Adjoint *adjoint, Expr *const *subs) {
    return find_adjoint_slot(backward, adjoint, adjoint->sliced ? subs[0] : NULL);
}

/* The adjoint in this slot, read at the adjoint's own indices. */
static Expr *slot_target(const Backward *backward, const Adjoint *adjoint, const Slot *slot) {
    Expr *subs[MAX_RANK];
    for (int i = 0; i < adjoint->tensor->rank; i++)
        subs[i] = expr_index(backward->program, adjoint->indices[i]);
    MUST(!slot->slice || adjoint->tensor->rank > 0);
    if (slot->slice) subs[0] = slot->slice;
    return expr_read(backward->program, adjoint->tensor, subs);
}

static void write_pointwise(Backward *backward, const Adjoint *adjoint, Slot *slot, Expr *value) {
    statement_loop(backward->program, backward->block, slot_target(backward, adjoint, slot),
                   slot->started, REDUCE_NONE, NULL, 0, value, adjoint->tensor->span);
    slot->started = true;
}

static void flush_slot(Backward *backward, const Adjoint *adjoint, Slot *slot, bool zero) {
    Program *program = backward->program;
    if (slot->pointwise.count) {
        Expr *value = slot->pointwise.items[0];
        for (int i = 1; i < slot->pointwise.count; i++)
            value = expr_apply(program, OP_ADD, value, slot->pointwise.items[i], NULL);
        write_pointwise(backward, adjoint, slot, value);
    }
    if ((zero || slot->scatters.count) && !slot->started)
        write_pointwise(backward, adjoint, slot, expr_number(program, 0));
    list_append(program->arena, &backward->block->statements, &slot->scatters);
    slot->pointwise = slot->scatters = (List){0};
}

void adjoint_flush(Backward *backward, Tensor *tensor, bool zero) {
    Adjoint *adjoint = zero ? adjoint_of(backward, tensor, NULL) : &backward->adjoints[tensor->id];
    if (zero && !adjoint->sliced) find_adjoint_slot(backward, adjoint, NULL);
    for (int i = 0; i < adjoint->slots.count; i++)
        flush_slot(backward, adjoint, adjoint->slots.items[i], zero);
}

void adjoint_flush_slice(Backward *backward, Tensor *tensor, Expr *slice, bool zero) {
    Adjoint *adjoint = adjoint_of(backward, tensor, NULL);
    flush_slot(backward, adjoint, find_adjoint_slot(backward, adjoint, slice), zero);
}

Expr *adjoint_read(Backward *backward, Expr *target) {
    MUST(target->kind == EXPR_READ);
    Adjoint *adjoint = adjoint_of(backward, target->tensor, target->args);
    Slot *slot = adjoint_slot(backward, adjoint, target->args);
    flush_slot(backward, adjoint, slot, false);
    return slot->started ? expr_read(backward->program, adjoint->tensor, target->args) : NULL;
}

/* ---- inversion of computed subscripts ---- */

static int uses(const Contribution *contribution, int rank, const Index *index) {
    int count = 0;
    for (int i = 0; i < rank; i++) count += expr_uses_index(contribution->subs[i], index);
    return count;
}

static bool is_loop(const Contribution *contribution, const Expr *sub) {
    for (int i = 0; sub->kind == EXPR_INDEX && i < contribution->loop_count; i++)
        if (contribution->loops[i] == sub->index) return true;
    return false;
}

/* True if sub is the index of a loop plus a constant. */
static bool match_shift(const Contribution *contribution, const Expr *sub, Index **index,
                        double *shift) {
    if (is_loop(contribution, sub)) {
        *index = sub->index;
        *shift = 0;
        return true;
    }
    if (sub->kind != EXPR_APPLY || (sub->op != OP_ADD && sub->op != OP_SUB)) return false;
    const Expr *left = sub->args[0], *right = sub->args[1];
    if (sub->op == OP_ADD && left->kind == EXPR_NUMBER &&
        match_shift(contribution, right, index, shift)) {
        *shift += left->number;
        return true;
    }
    if (right->kind != EXPR_NUMBER || !match_shift(contribution, left, index, shift)) return false;
    *shift += sub->op == OP_ADD ? right->number : -right->number;
    return true;
}

/* True if a factor is the condition `index < limit` for a limit of at most `size`. */
static bool is_below(const Contribution *contribution, const Index *index, double size) {
    if ((double)index->axis->size <= size) return true;
    LIST_EACH(const Expr, factor, &contribution->factors)
        if (factor->kind == EXPR_APPLY && factor->op == OP_LT &&
            factor->args[0]->kind == EXPR_INDEX && factor->args[0]->index == index &&
            factor->args[1]->kind == EXPR_NUMBER && factor->args[1]->number <= size)
            return true;
    return false;
}

/* True if the product is 0 for a value of the index outside of its axis, because a read outside of
 * an axis is 0. */
static bool vanishes_outside(const Contribution *contribution, const Index *index) {
    LIST_EACH(const Expr, factor, &contribution->factors)
        for (int j = 0; factor->kind == EXPR_READ && j < factor->count; j++)
            if (factor->args[j]->kind == EXPR_INDEX && factor->args[j]->index == index) return true;
    return false;
}

static void add_comparison(Program *program, Contribution *contribution, OpCode op, Expr *a,
                           double b) {
    Expr *comparison = expr_apply(program, op, a, expr_number(program, b), NULL);
    if (!expr_is_number(comparison, 1))
        list_push(program->arena, &contribution->factors, comparison);
}

/* True if the value depends on the loop in another way than by reads at the subscript `inside`. */
static bool leaves(const Expr *expr, const Index *loop, const Expr *inside) {
    if (expr->kind == EXPR_INDEX) return expr->index == loop;
    for (int i = 0; i < expr->count; i++)
        if (!(expr->kind == EXPR_READ && expr_equal(expr->args[i], inside)) &&
            leaves(expr->args[i], loop, inside))
            return true;
    return false;
}

/* True if the value may be infinite or undefined where reads that the loop moves outside of their
 * axis are 0. Reads at the subscript `inside` do not count. */
static bool may_be_infinite(const Expr *expr, const Index *loop, const Expr *inside) {
    if (expr->kind != EXPR_APPLY) return false;
    switch (expr->op) {
    case OP_DIV:
    case OP_POW:
    case OP_MOD:
    case OP_EXP:
    case OP_LOG:
    case OP_SQRT:
    case OP_RSQRT:
        if (leaves(expr, loop, inside)) return true;
        break;
    default:
        break;
    }
    for (int i = 0; i < expr->count; i++)
        if (may_be_infinite(expr->args[i], loop, inside)) return true;
    return false;
}

/* Replaces loop `old` by `fresh`, with `old` equal to `value`, a function of `fresh`. */
static void replace_loop(Program *program, Contribution *contribution, Index *old, Index *fresh,
                         Expr *value) {
    List factors = {0};
    for (int i = 0; i < contribution->factors.count; i++)
        list_push(program->arena, &factors,
                  expr_substitute(program, contribution->factors.items[i], &old, &value, 1));
    contribution->factors = factors;
    for (int i = 0; i < contribution->loop_count; i++)
        if (contribution->loops[i] == old) contribution->loops[i] = fresh;
}

/* Loop `old` is `value`, a function of loop `fresh`, which may be below or above the axis of
 * `old`. */
typedef struct Exchange {
    Index *old, *fresh;
    Expr *value;
    bool below, above;
} Exchange;

/* The same for the loop of a subscript. The product becomes 0 where the value leaves the axis. A
 * factor such as 1 / x[i] that may be infinite there becomes 0 as well, because 0 times infinity is
 * not 0. */
static void replace_loop_inside(Program *program, Contribution *contribution, int dimension,
                                const Exchange *exchange) {
    Index *old = exchange->old;
    bool below = exchange->below, above = exchange->above;
    bool vanishes = vanishes_outside(contribution, old);
    Expr *zero = expr_number(program, 0), *size = expr_number(program, (double)old->axis->size);
    Expr *plain = expr_index(program, old), *inside = NULL;
    if (below) inside = expr_apply(program, OP_GE, plain, zero, NULL);
    if (above) {
        Expr *limit = expr_apply(program, OP_LT, plain, size, NULL);
        inside = inside ? expr_apply(program, OP_AND, inside, limit, NULL) : limit;
    }
    for (int i = 0; inside && i < contribution->factors.count; i++) {
        Expr *factor = contribution->factors.items[i];
        if (!may_be_infinite(factor, old, contribution->subs[dimension])) continue;
        contribution->factors.items[i] = expr_apply(program, OP_WHERE, inside, factor, zero);
        vanishes = true;
    }
    replace_loop(program, contribution, old, exchange->fresh, exchange->value);
    if (!vanishes && below) add_comparison(program, contribution, OP_GE, exchange->value, 0);
    if (!vanishes && above)
        add_comparison(program, contribution, OP_LT, exchange->value, (double)old->axis->size);
}

/* Inverts x[(i + c) % n] or x[i + c]: with j as subscript, i is (j - c) % n or j - c. */
static void invert_shift(Program *program, Contribution *contribution, const Tensor *tensor,
                         int dimension) {
    Expr *sub = contribution->subs[dimension];
    Index *old;
    double shift, size = 0;
    if (sub->kind == EXPR_APPLY && sub->op == OP_MOD && sub->args[1]->kind == EXPR_NUMBER) {
        size = sub->args[1]->number;
        sub = sub->args[0];
    }
    if (!match_shift(contribution, sub, &old, &shift)) return;
    Axis *axis = tensor->axes[dimension];
    if (uses(contribution, tensor->rank, old) != 1) return;
    if (size == 0 && shift == 0 && old->axis->size != axis->size) return; /* remains computed */
    if (size != 0 && (!is_below(contribution, old, size) || size > (double)axis->size)) return;

    Index *fresh = index_new(program, old->name, axis);
    Expr *coordinate = expr_index(program, fresh);
    if (size != 0) {
        double back = size - (shift - size * (double)(long)(shift / size));
        Expr *sum = expr_apply(program, OP_ADD, coordinate,
                               expr_number(program, back >= size ? back - size : back), NULL);
        Expr *source = expr_apply(program, OP_MOD, sum, expr_number(program, size), NULL);
        replace_loop_inside(program, contribution, dimension,
                            &(Exchange){old, fresh, source, false, size > (double)old->axis->size});
        if (size < (double)axis->size)
            add_comparison(program, contribution, OP_LT, coordinate, size);
    } else {
        Expr *source = expr_apply(program, OP_ADD, coordinate, expr_number(program, -shift), NULL);
        replace_loop_inside(program, contribution, dimension,
                            &(Exchange){old, fresh, source, shift > 0,
                                        (double)axis->size - shift > (double)old->axis->size});
    }
    contribution->subs[dimension] = coordinate;
}

/* Solves a subscript with value `coordinate` for one of its loops, in terms of the other indices: s
 * is j + w where s - w is j. Only for a loop about as long as the axis, to avoid more iterations
 * than before. NULL: no such loop. */
static Expr *solved(Program *program, const Contribution *contribution, const Expr *sub,
                    Expr *coordinate, double size, Index **index) {
    if (is_loop(contribution, sub) && size <= 2 * (double)sub->index->axis->size) {
        *index = sub->index;
        return coordinate;
    }
    if (sub->kind != EXPR_APPLY || (sub->op != OP_ADD && sub->op != OP_SUB)) return NULL;
    Expr *left = sub->args[0], *right = sub->args[1];
    OpCode back = sub->op == OP_ADD ? OP_SUB : OP_ADD;
    Expr *found = solved(program, contribution, left,
                         expr_apply(program, back, coordinate, right, NULL), size, index);
    if (found && !expr_uses_index(right, *index)) return found;
    if (sub->op == OP_SUB) return NULL;
    found = solved(program, contribution, right,
                   expr_apply(program, OP_SUB, coordinate, left, NULL), size, index);
    return found && !expr_uses_index(left, *index) ? found : NULL;
}

/* Inverts x[s - w]: with j as subscript, s is j + w. */
static void invert_moved(Program *program, Contribution *contribution, const Tensor *tensor,
                         int dimension) {
    Index *old;
    Axis *axis = tensor->axes[dimension];
    const Expr *sub = contribution->subs[dimension];
    Index *fresh = index_over(program, axis);
    Expr *coordinate = expr_index(program, fresh);
    if (sub->kind != EXPR_APPLY) return;
    Expr *source = solved(program, contribution, sub, coordinate, (double)axis->size, &old);
    if (!source || uses(contribution, tensor->rank, old) != 1) return;
    fresh->name = old->name;
    replace_loop_inside(program, contribution, dimension,
                        &(Exchange){old, fresh, source, true, true});
    contribution->subs[dimension] = coordinate;
}

/* True if sub is `size * number + rest` over all rests, or that distance from the end. */
static bool match_joined(const Contribution *contribution, const Expr *sub, Index **number,
                         Index **rest, Expr **end) {
    *end = NULL;
    if (sub->kind == EXPR_APPLY && sub->op == OP_SUB && sub->args[0]->kind == EXPR_NUMBER) {
        *end = sub->args[0];
        sub = sub->args[1];
    }
    if (sub->kind != EXPR_APPLY || sub->op != OP_ADD || !is_loop(contribution, sub->args[1]))
        return false;
    const Expr *product = sub->args[0];
    *rest = sub->args[1]->index;
    if (product->kind != EXPR_APPLY || product->op != OP_MUL ||
        !is_loop(contribution, product->args[0]))
        return false;
    *number = product->args[0]->index;
    return *number != *rest && expr_is_number(product->args[1], (double)(*rest)->axis->size);
}

/* `coordinate`, or that distance from the end. */
static Expr *from_end(Program *program, Expr *end, Expr *coordinate) {
    return end ? expr_apply(program, OP_SUB, end, coordinate, NULL) : coordinate;
}

/* Inverts x[C*n + i]: with s as subscript, n is floor(s / C) and i is s % C. */
static void invert_joined(Program *program, Contribution *contribution, const Tensor *tensor,
                          int dimension) {
    Index *number, *rest;
    Expr *end;
    Axis *axis = tensor->axes[dimension];
    if (!match_joined(contribution, contribution->subs[dimension], &number, &rest, &end)) return;
    if (uses(contribution, tensor->rank, number) != 1 ||
        uses(contribution, tensor->rank, rest) != 1)
        return;
    if (number->axis->size * rest->axis->size < axis->size) return;
    if (end && end->number != (double)axis->size - 1) return;
    Index *fresh = index_over(program, axis);
    Expr *coordinate = from_end(program, end, expr_index(program, fresh)),
         *size = expr_number(program, (double)rest->axis->size);
    Expr *quotient = expr_apply(program, OP_DIV, coordinate, size, NULL);
    replace_loop(program, contribution, number, fresh,
                 expr_apply(program, OP_FLOOR, quotient, NULL, NULL));
    Expr *remainder = expr_apply(program, OP_MOD, coordinate, size, NULL);
    replace_loop(program, contribution, rest, fresh, remainder);
    contribution->subs[dimension] = expr_index(program, fresh);
    for (int i = 0, kept = 0; i < contribution->loop_count; i++) {
        if (contribution->loops[i] == fresh && kept++) {
            contribution->loops[i] = contribution->loops[--contribution->loop_count];
            break;
        }
    }
}

/* True if sub is `floor(coordinate / size)` and the next one `coordinate % size`. Sets the loop. */
static bool match_split(const Contribution *contribution, const Expr *sub, const Expr *next,
                        Index **loop, Expr **end) {
    if (!expr_is_quotient(sub) || next->kind != EXPR_APPLY || next->op != OP_MOD) return false;
    const Expr *quotient = sub->args[0], *coordinate = quotient->args[0];
    if (!expr_equal(coordinate, next->args[0]) || !expr_equal(quotient->args[1], next->args[1]))
        return false;
    *end = NULL;
    if (coordinate->kind == EXPR_APPLY && coordinate->op == OP_SUB &&
        coordinate->args[0]->kind == EXPR_NUMBER) {
        *end = coordinate->args[0];
        coordinate = coordinate->args[1];
    }
    *loop = coordinate->index;
    return is_loop(contribution, coordinate);
}

/* Inverts x[floor(s / C), s % C]: with subscripts n and i, s is C * n + i. */
static void invert_split(Program *program, Contribution *contribution, const Tensor *tensor,
                         int dimension) {
    Index *old;
    Expr *end;
    if (dimension + 1 >= tensor->rank) return;
    Expr **subs = &contribution->subs[dimension];
    Axis *const *axes = &tensor->axes[dimension];
    if (!match_split(contribution, subs[0], subs[1], &old, &end)) return;
    if (uses(contribution, tensor->rank, old) != 2 ||
        !expr_is_number(subs[1]->args[1], (double)axes[1]->size) ||
        axes[0]->size * axes[1]->size < old->axis->size ||
        (end && end->number != (double)old->axis->size - 1))
        return;
    bool above = axes[0]->size * axes[1]->size > old->axis->size;
    Index *number = index_new(program, "n", axes[0]), *rest = index_new(program, "i", axes[1]);
    Expr *first = expr_apply(program, OP_MUL, expr_index(program, number),
                             expr_number(program, (double)axes[1]->size), NULL);
    Expr *coordinate = expr_apply(program, OP_ADD, first, expr_index(program, rest), NULL);
    replace_loop_inside(
        program, contribution, dimension,
        &(Exchange){old, number, from_end(program, end, coordinate), end && above, !end && above});
    MUST(contribution->loop_count < 2 * MAX_LOOPS);
    contribution->loops[contribution->loop_count++] = rest;
    subs[0] = expr_index(program, number);
    subs[1] = expr_index(program, rest);
}

/* The n of a factor floor(s / C) == n for the index s % C; NULL: there is none. */
static Expr *quotient_of(const Contribution *contribution, const Expr *remainder, int *factor) {
    for (*factor = 0; *factor < contribution->factors.count; ++*factor) {
        const Expr *equal = contribution->factors.items[*factor];
        if (equal->kind != EXPR_APPLY || equal->op != OP_EQ) continue;
        for (int side = 0; side < 2; side++) {
            const Expr *floor = equal->args[side];
            if (expr_is_quotient(floor) &&
                expr_equal(floor->args[0]->args[0], remainder->args[0]) &&
                expr_equal(floor->args[0]->args[1], remainder->args[1]) &&
                equal->args[!side]->kind == EXPR_INDEX)
                return equal->args[!side];
        }
    }
    return NULL;
}

/* Inverts x[s % C] where floor(s / C) is n: with i as subscript, s is C * n + i. */
static void invert_remainder(Program *program, Contribution *contribution, const Tensor *tensor,
                             int dimension) {
    const Expr *sub = contribution->subs[dimension];
    Axis *axis = tensor->axes[dimension];
    int factor;
    if (sub->kind != EXPR_APPLY || sub->op != OP_MOD || !is_loop(contribution, sub->args[0]) ||
        !expr_is_number(sub->args[1], (double)axis->size))
        return;
    Index *old = sub->args[0]->index;
    Expr *number = quotient_of(contribution, sub, &factor);
    if (!number || number->index == old || uses(contribution, tensor->rank, old) != 1) return;
    bool above = number->index->axis->size * axis->size > old->axis->size;
    Index *rest = index_new(program, "i", axis);
    Expr *first = expr_apply(program, OP_MUL, number, sub->args[1], NULL);
    Expr *coordinate = expr_apply(program, OP_ADD, first, expr_index(program, rest), NULL);
    contribution->factors.items[factor] = expr_number(program, 1);
    replace_loop_inside(program, contribution, dimension,
                        &(Exchange){old, rest, coordinate, false, above});
    contribution->subs[dimension] = expr_index(program, rest);
}

/* x[i,i]: the second subscript gets its own loop, and the product is 0 where they differ. */
static void separate(Program *program, Contribution *contribution, const Tensor *tensor,
                     int dimension) {
    Expr *sub = contribution->subs[dimension];
    if (!is_loop(contribution, sub)) return;
    for (int i = 0; i < dimension; i++) {
        if (!expr_equal(contribution->subs[i], sub)) continue;
        Index *fresh = index_new(program, sub->index->name, tensor->axes[dimension]);
        Expr *coordinate = expr_index(program, fresh);
        list_push(program->arena, &contribution->factors,
                  expr_apply(program, OP_EQ, sub, coordinate, NULL));
        MUST(contribution->loop_count < 2 * MAX_LOOPS);
        contribution->loops[contribution->loop_count++] = fresh;
        contribution->subs[dimension] = coordinate;
        return;
    }
}

/* ---- contributions ---- */

static bool is_plain_adjoint(const Contribution *contribution, const Tensor *tensor) {
    for (int i = 0; i < tensor->rank; i++) {
        const Expr *sub = contribution->subs[i];
        for (int j = 0; j < contribution->loop_count; j++)
            if (sub->kind != EXPR_INDEX && expr_uses_index(sub, contribution->loops[j]))
                return false;
        if (sub->kind == EXPR_READ) return false;
    }
    return true;
}

static bool covers(const Contribution *contribution, const Tensor *tensor, int first) {
    for (int i = first; i < tensor->rank; i++)
        if (!is_loop(contribution, contribution->subs[i])) return false;
    return true;
}

/* Splits the loops into those used by the subscripts and the rest; returns the count of the rest.
 */
static int other_loops(const Contribution *contribution, int rank, Index **used, int *used_count,
                       Index **rest) {
    int count = 0;
    *used_count = 0;
    for (int i = 0; i < contribution->loop_count; i++) {
        Index *loop = contribution->loops[i];
        if (uses(contribution, rank, loop))
            used[(*used_count)++] = loop;
        else
            rest[count++] = loop;
    }
    return count;
}

/* Sums the product over the loops that no subscript uses; the sums are then the only factor. */
static void sum_others(Program *program, Block *block, Contribution *contribution,
                       const Tensor *adjoint) {
    Index *used[2 * MAX_LOOPS], *rest[2 * MAX_LOOPS];
    int used_count, rest_count = other_loops(contribution, adjoint->rank, used, &used_count, rest);
    if (!rest_count) return;
    const char *name = arena_format(program->arena, "%s_part", adjoint->name);
    Tensor *part =
        tensor_over(program, name, ROLE_TEMP, TYPE_REAL, used, used_count, contribution->span);
    Expr *sums = expr_read_indices(program, part, used);
    statement_product(program, block, sums, false, rest, rest_count, &contribution->factors,
                      contribution->span);
    contribution->factors = (List){0};
    list_push(program->arena, &contribution->factors, sums);
    contribution->loop_count = used_count;
    for (int i = 0; i < used_count; i++) contribution->loops[i] = used[i];
}

static void write_scatter(Backward *backward, Block *block, Contribution *contribution,
                          Tensor *tensor) {
    sum_others(backward->program, block, contribution, tensor);
    statement_loop(backward->program, block,
                   expr_read(backward->program, tensor, contribution->subs), true, REDUCE_NONE,
                   contribution->loops, contribution->loop_count,
                   expr_product(backward->program, &contribution->factors, 0), contribution->span);
}

/* True if a subscript is a shifted loop, as in x[s,n + 8], and the others are loops. A sum over
 * other loops is then written before the shift: it remains a contraction, or one on rows. The loop
 * of an axis that is shorter is n % 8. */
static bool is_part_of_axis(const Contribution *contribution, const Tensor *tensor) {
    bool shifted = false;
    for (int i = 0; i < tensor->rank; i++) {
        Index *loop;
        double shift;
        const Expr *sub = contribution->subs[i];
        const AxisKind kind = tensor->axes[i]->kind;
        if (sub->kind == EXPR_APPLY && sub->op == OP_MOD && sub->args[1]->kind == EXPR_NUMBER)
            sub = sub->args[0];
        if (match_shift(contribution, sub, &loop, &shift)) {
            if (uses(contribution, tensor->rank, loop) != 1) return false;
            if (sub == contribution->subs[i] && shift == 0) continue;
            if (kind != AXIS_PLAIN) return false;
            shifted = true;
        } else if (kind != AXIS_REPEAT) {
            return false;
        }
    }
    return shifted;
}

/* Adds a pointwise value over the adjoint's own indices to the pending ones. */
static void keep_pointwise(Backward *backward, const Adjoint *adjoint, Slot *slot,
                           Contribution *contribution) {
    Program *program = backward->program;
    Index *from[MAX_RANK];
    Expr *to[MAX_RANK];
    int count = 0;
    for (int i = adjoint->sliced; i < adjoint->tensor->rank; i++) {
        from[count] = contribution->subs[i]->index;
        to[count++] = expr_index(program, adjoint->indices[i]);
    }
    MUST(count <= MAX_RANK);
    Expr *value = expr_product(program, &contribution->factors, 0);
    list_push(program->arena, &slot->pointwise, expr_substitute(program, value, from, to, count));
}

void adjoint_add(Backward *backward, Expr *read, Index *const *loops, int loop_count,
                 const List *factors, Span span) {
    MUST(read->kind == EXPR_READ);
    Program *program = backward->program;
    Adjoint *adjoint = adjoint_of(backward, read->tensor, read->args);
    Contribution contribution = {.loop_count = loop_count, .factors = *factors, .span = span};
    for (int i = 0; i < read->count; i++) contribution.subs[i] = read->args[i];
    for (int i = 0; i < loop_count; i++) contribution.loops[i] = loops[i];
    if (is_part_of_axis(&contribution, read->tensor))
        sum_others(program, backward->block, &contribution, adjoint->tensor);
    for (int i = 0; i < read->count; i++) {
        if (contribution.subs[i]->kind == EXPR_APPLY) {
            invert_shift(program, &contribution, read->tensor, i);
            invert_joined(program, &contribution, read->tensor, i);
            invert_split(program, &contribution, read->tensor, i);
            invert_remainder(program, &contribution, read->tensor, i);
            invert_moved(program, &contribution, read->tensor, i);
        }
        separate(program, &contribution, read->tensor, i);
    }

    Slot *slot = adjoint_slot(backward, adjoint, contribution.subs);
    bool gradient = read->tensor->role == ROLE_PARAMETER;
    if (gradient) slot->started = true;
    bool scanning = backward->scanned && backward->recurring;
    bool here = !gradient && !scanning && (adjoint->sliced || adjoint->home == backward->repeat);
    if (!is_plain_adjoint(&contribution, read->tensor)) {
        Block later = {0};
        write_scatter(backward, here ? &later : backward->block, &contribution, adjoint->tensor);
        list_append(program->arena, &slot->scatters, &later.statements);
        return;
    }
    Index *used[2 * MAX_LOOPS], *rest[2 * MAX_LOOPS];
    int used_count, rest_count = other_loops(&contribution, read->count, used, &used_count, rest);
    bool whole = covers(&contribution, read->tensor, adjoint->sliced);
    if (here && whole && !rest_count) {
        keep_pointwise(backward, adjoint, slot, &contribution);
        return;
    }
    if (!whole && !slot->started) flush_slot(backward, adjoint, slot, true);
    statement_product(program, backward->block,
                      expr_read(program, adjoint->tensor, contribution.subs), slot->started, rest,
                      rest_count, &contribution.factors, span);
    slot->started = true;
}
