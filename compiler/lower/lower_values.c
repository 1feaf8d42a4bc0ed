/* lower_values: expressions and addresses as terms.
 *
 * Subscripts are computed in integers (lower_whole.c). A subscript that may leave its axis is
 * guarded and reads 0. One with known bounds inside the axis has no guard.
 */
#include "lower/lower.h"
#include "ir/weight_type.h"

#include <math.h>

/* ---- addresses ---- */

/* Loop indices that cannot leave the axis need no guard. */
static bool stays_inside(Lowering *lower, const Expr *sub, const Axis *axis) {
    if (sub->kind == EXPR_INDEX) return true;
    Range range = range_of(lower->program, sub);
    return range.low >= 0 && range.high < axis->size;
}

static const Term *both(Lowering *lower, const Term *a, const Term *b) {
    return a ? term(lower->arena, TERM_AND, a, b) : b;
}

static const Term *add_guard(Lowering *lower, const Term *guard, const Expr *sub, const Term *place,
                             const Axis *axis) {
    Range range = range_of(lower->program, sub);
    if (range.low < 0)
        guard = both(lower, guard, term(lower->arena, TERM_GE, place, whole(lower, 0)));
    if (range.high < axis->size) return guard;
    return both(lower, guard, term(lower->arena, TERM_LT, place, size_term(lower, axis)));
}

/* A subscript; terms that are read for it, or computed from these, may be hoisted. */
static const Term *subscript_term(Lowering *lower, const Expr *sub) {
    const Term *place = integer_term(lower, sub);
    if (!expr_has_reads(sub)) return place;
    return term_invariant(lower->arena, place, sub->kind == EXPR_READ ? READ_ONCE : COMPUTED_ONCE);
}

static const Term *slot_term(Lowering *lower, const Expr *sub) {
    if (sub->kind == EXPR_NUMBER) return term_whole(lower->arena, (long)sub->number & 1);
    return term(lower->arena, TERM_BIT_AND, subscript_term(lower, sub), whole(lower, 1));
}

/* True for dimensions of a row on the stack that are fixed in its nest. */
static bool is_fixed(const Local *local, int dimension) {
    const Expr *sub = local->first->statement->target->args[dimension];
    if (sub->kind != EXPR_INDEX || sub->index->of_repeat) return true;
    for (int i = 0; i < local->covered; i++)
        if (sub->index == local->first->order[i]) return true;
    return false;
}

static const Term *offset_term(Lowering *lower, const Expr *access, const Local *row,
                               const Term **inside) {
    const Tensor *tensor = access->tensor;
    const Term *offset = term_whole(lower->arena, 0);
    bool slots = lower->schedule->allocations[tensor->id].slots;
    for (int i = 0; i < access->count; i++) {
        const Expr *sub = access->args[i];
        if (row && is_fixed(row, i)) continue;
        const Term *place = i == 0 && slots ? slot_term(lower, sub) : subscript_term(lower, sub);
        if (!stays_inside(lower, sub, tensor->axes[i]) && !(i == 0 && slots))
            *inside = add_guard(lower, *inside, sub, place, tensor->axes[i]);
        offset = term_offset(lower->arena, offset, size_term(lower, tensor->axes[i]), place);
    }
    return offset;
}

const Term *element_term(Lowering *lower, const Expr *access, const Term **inside) {
    const Tensor *tensor = access->tensor;
    *inside = NULL;
    for (int i = 0; lower->kernel && i < lower->kernel->locals.count; i++) {
        const Local *local = lower->kernel->locals.items[i];
        if (local->tensor != tensor || !lower->known[i]) continue;
        if (local->kind == LOCAL_SCALAR) return lower->locals[i];
        return term_element(lower->arena, lower->locals[i],
                            offset_term(lower, access, local, inside));
    }
    const Term *element = term_element(lower->arena, array_term(lower, tensor),
                                       offset_term(lower, access, NULL, inside));
    lower->used[tensor->id] = true;
    /* the element of a tensor without axes may be hoisted */
    return access->count ? element : term_invariant(lower->arena, element, READ_ONCE);
}

/* True for a subscript that depends on a loop that is not written. */
static bool moves(const Lowering *lower, const Expr *sub) {
    if (sub->kind == EXPR_INDEX) return !bound_index(lower, sub->index);
    for (int i = 0; i < sub->count; i++)
        if (moves(lower, sub->args[i])) return true;
    return false;
}

/* A number whose lowest bit divides every value of a subscript, with unwritten loops at 0. */
static long bits_of(const Lowering *lower, const Expr *sub) {
    if (sub->kind == EXPR_NUMBER) return (long)sub->number;
    if (sub->kind == EXPR_INDEX) return bound_index(lower, sub->index) != NULL;
    if (sub->kind != EXPR_APPLY || (sub->op != OP_ADD && sub->op != OP_MUL)) return 1;
    long a = bits_of(lower, sub->args[0]), b = bits_of(lower, sub->args[1]);
    return sub->op == OP_ADD ? a | b : (a & -a) * (b & -b);
}

long place_alignment(const Lowering *lower, const Expr *access) {
    enum { MAX_ALIGNMENT = 16 };
    long bytes = type_bytes(access->tensor->type), bits = MAX_ALIGNMENT;
    for (int i = access->count - 1; i >= 0; i--) {
        long here = bits_of(lower, access->args[i]);
        bits |= (here & -here) * bytes;
        bytes *= access->tensor->axes[i]->size;
    }
    return bits & -bits;
}

/* The condition under which the subscripts that only depend on written loops are inside; NULL:
 * always. */
static const Term *fixed_guard(Lowering *lower, const Expr *read) {
    const Term *guard = NULL;
    for (int i = 0; i < read->count; i++) {
        const Expr *sub = read->args[i];
        const Axis *axis = read->tensor->axes[i];
        if (moves(lower, sub) || expr_has_reads(sub) || stays_inside(lower, sub, axis)) continue;
        guard = add_guard(lower, guard, sub, integer_term(lower, sub), axis);
    }
    return guard;
}

const Term *product_guard(Lowering *lower, const Expr *value) {
    if (value->kind == EXPR_READ) return fixed_guard(lower, value);
    if (value->kind != EXPR_APPLY || value->op != OP_MUL) return NULL;
    const Term *a = product_guard(lower, value->args[0]), *b = product_guard(lower, value->args[1]);
    return a && b && term_equal(a, b) ? a : NULL;
}

/* A subscript in the first iteration of all unwritten loops. The table of a gather is a separate
 * operand; a subscript that reads it starts at 0. */
static Expr *first_subscript(Lowering *lower, Expr *sub) {
    if (!moves(lower, sub)) return sub;
    if (sub->kind != EXPR_APPLY || expr_has_reads(sub)) return expr_number(lower->program, 0);
    Expr *args[3] = {NULL, NULL, NULL};
    for (int i = 0; i < sub->count; i++) args[i] = first_subscript(lower, sub->args[i]);
    return expr_apply(lower->program, sub->op, args[0], args[1], args[2]);
}

const Term *pointer_term(Lowering *lower, const Expr *access) {
    Expr first = *access;
    first.args = arena_alloc(lower->arena, ((size_t)access->count + 1) * sizeof *first.args);
    for (int i = 0; i < access->count; i++) first.args[i] = first_subscript(lower, access->args[i]);
    const Term *inside = NULL, *offset = offset_term(lower, &first, NULL, &inside);
    lower->used[access->tensor->id] = true;
    const Term *array = array_term(lower, access->tensor);
    if (term_is_zero(offset)) return array;
    const WeightType *type = weight_type(access->tensor->type);
    if (type && type->elements > 1)
        offset = term(lower->arena, TERM_DIV, offset, whole(lower, type->elements));
    return term(lower->arena, TERM_ADDRESS, array, offset);
}

/* ---- reals ---- */

/* The cost of an operation that gets a name. */
enum { LONG_OPERATION = 10 };

static const Term *real_op(Arena *arena, OpCode op, const Term *value) {
    return term(arena, term_op(op, T_F32), value);
}

static const Term *value_or_zero(Arena *arena, const Term *guard, const Term *value) {
    return term(arena, TERM_SELECT, guard, value, term_number(arena, value->type, 0));
}

/* The power of a term by small primes; NULL for larger ones. */
static const Term *whole_power(Arena *arena, const Term *base, long power) {
    static const struct {
        long prime;
        TermOp op;
    } primes[] = {{2, TERM_SQUARE}, {3, TERM_CUBE}, {5, TERM_FIFTH}, {7, TERM_SEVENTH}};
    if (power == 1) return base;
    for (size_t i = 0; i < sizeof primes / sizeof *primes; i++) {
        if (power % primes[i].prime != 0) continue;
        const Term *root = whole_power(arena, base, power / primes[i].prime);
        return root ? term(arena, primes[i].op, root) : NULL;
    }
    return NULL;
}

/* Powers that need no logarithm. */
static const Term *power_term(Lowering *lower, const Expr *expr) {
    Arena *arena = lower->arena;
    const Expr *exponent = expr->args[1];
    const Term *base = real_term(lower, expr->args[0]);
    if (exponent->kind != EXPR_NUMBER) return NULL;
    double power = fabs(exponent->number);
    if (expr_is_number(exponent, 0.5)) return real_op(arena, OP_SQRT, base);
    if (expr_is_number(exponent, -0.5)) return real_op(arena, OP_RSQRT, base);
    if (expr_is_number(exponent, 2) && expr->args[0]->kind == EXPR_READ)
        return term(arena, TERM_MUL, base, base);
    if (power != floor(power) || power < 1 || power > 16) return NULL;
    const Term *made = whole_power(arena, base, (long)power);
    if (!made || exponent->number > 0) return made;
    return term(arena, TERM_DIV, term_number(arena, T_F32, 1), made);
}

static const Term *apply(Lowering *lower, const Expr *expr) {
    const Term *args[3] = {NULL, NULL, NULL};
    bool random = op_is_random(expr->op);
    if (random) lower->uses_seed = true;
    for (int i = 0; i < expr->count; i++)
        args[i] = random ? term_cast(lower->arena, T_U64, integer_term(lower, expr->args[i]))
                         : real_term(lower, expr->args[i]);
    if (expr->op == OP_STOP) return args[0];
    return term(lower->arena, term_op(expr->op, T_F32), args[0], args[1], args[2]);
}

static const Term *real_read(Lowering *lower, const Expr *expr) {
    const Term *inside, *made = lane_term(lower, expr, true, false);
    if (made) return made;
    made = element_term(lower, expr, &inside);
    if (expr->tensor->type == TYPE_INT || expr->tensor->type == TYPE_BYTE)
        made = term_cast(lower->arena, T_F32, made);
    if (expr->tensor->type == TYPE_BF16 || is_units(expr->tensor))
        made = term(lower->arena, TERM_LOAD, made);
    if (expr->tensor->type == TYPE_DOUBLE) made = term_cast(lower->arena, T_F32, made);
    return inside ? value_or_zero(lower->arena, inside, made) : made;
}

static const Term *real_apply(Lowering *lower, const Expr *expr) {
    bool counted = expr_is_exact(expr) || counts_exactly(lower->program, expr);
    if (counted && expr_is_truth(expr))
        return value_or_zero(lower->arena, integer_term(lower, expr),
                             term_number(lower->arena, T_F32, 1));
    if (counted) return term_cast(lower->arena, T_F32, integer_term(lower, expr));
    const Term *made = expr->op == OP_POW ? power_term(lower, expr) : NULL;
    if (!made) made = apply(lower, expr);
    return made;
}

const Term *real_term(Lowering *lower, const Expr *expr) {
    if (expr->kind == EXPR_NUMBER) return term_number(lower->arena, T_F32, expr->number);
    if (expr->kind == EXPR_INDEX)
        return term_cast(lower->arena, T_F32, index_term(lower, expr->index));
    const Term *made = expr->kind == EXPR_READ ? real_read(lower, expr) : real_apply(lower, expr);
    if (expr->kind == EXPR_READ) return term_value(lower->arena, made, VALUE_READ);
    bool long_one = op_table[expr->op].cost >= LONG_OPERATION;
    return term_value(lower->arena, made, long_one ? VALUE_LONG : VALUE_SHORT);
}

/* ---- in double precision ---- */

static const Term *double_read(Lowering *lower, const Expr *expr) {
    const Term *inside, *made = element_term(lower, expr, &inside);
    if (expr->tensor->type != TYPE_DOUBLE) made = term_cast(lower->arena, T_F64, made);
    return inside ? value_or_zero(lower->arena, inside, made) : made;
}

const Term *double_term(Lowering *lower, const Expr *expr) {
    Arena *arena = lower->arena;
    if (expr->kind == EXPR_NUMBER) return term_number(arena, T_F64, expr->number);
    if (expr->kind == EXPR_READ) return double_read(lower, expr);
    if (expr->kind == EXPR_INDEX || expr_is_exact(expr) || counts_exactly(lower->program, expr))
        return term_cast(arena, T_F64, integer_term(lower, expr));
    const Term *args[3] = {NULL, NULL, NULL};
    for (int i = 0; i < expr->count; i++) args[i] = double_term(lower, expr->args[i]);
    if (expr->op == OP_WHERE && counts_exactly(lower->program, expr->args[0]))
        return term(arena, TERM_SELECT, integer_term(lower, expr->args[0]), args[1], args[2]);
    if (expr->op == OP_STOP) return args[0];
    return term(arena, term_op(expr->op, T_F64), args[0], args[1], args[2]);
}
