/* lower_values: expressions and addresses as terms.
 *
 * Subscripts are computed in integers (lower_whole.c). A subscript that may leave its axis is
 * guarded and reads 0. One with known bounds inside the axis has no guard.
 */
#include "loop/lower/lower.h"

#include <math.h>
#include <string.h>

/* ---- addresses ---- */

bool is_computed(const Expr *sub) {
    return sub->kind == EXPR_READ || sub->kind == EXPR_APPLY;
}

/* Loop indices that cannot leave the axis need no guard. */
static bool stays_inside(Lowering *lower, const Expr *sub, const Axis *axis) {
    if (sub->kind == EXPR_INDEX) return true;
    Range range = range_of(lower->program, sub);
    return range.low >= 0 && range.high < axis->size;
}

static const Term *both(Lowering *lower, const Term *a, const Term *b) {
    return a ? term(lower->arena, "$0 && $1", a, b) : b;
}

static const Term *add_guard(Lowering *lower, const Term *guard, const Expr *sub, const Term *place,
                             const Axis *axis) {
    Range range = range_of(lower->program, sub);
    if (range.low < 0) guard = both(lower, guard, term(lower->arena, "$0 >= 0", place));
    if (range.high < axis->size) return guard;
    return both(lower, guard, term(lower->arena, "$0 < $1", place, size_term(lower, axis)));
}

static bool contains_read(const Expr *expr) {
    if (expr->kind == EXPR_READ) return true;
    for (int i = 0; i < expr->count; i++)
        if (contains_read(expr->args[i])) return true;
    return false;
}

/* A subscript; terms that are read for it, or computed from these, may be hoisted. */
static const Term *subscript_term(Lowering *lower, const Expr *sub) {
    const Term *place = integer_term(lower, sub);
    if (!contains_read(sub)) return place;
    const char *tensor = sub->kind == EXPR_READ ? sub->tensor->name : NULL;
    return term_invariant(lower->arena, place, tensor ? READ_ONCE : COMPUTED_ONCE, "const long",
                          tensor);
}

static const Term *slot_term(Lowering *lower, const Expr *sub) {
    if (sub->kind == EXPR_NUMBER) return term_whole(lower->arena, (long)sub->number & 1);
    return term(lower->arena, "$0 & 1", subscript_term(lower, sub));
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
    bool slots = lower->schedule->places[tensor->id].slots;
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

static const Term *element_of(Lowering *lower, const Term *array, const Term *offset) {
    return term(lower->arena, term_element, array, offset);
}

/* The element of a tensor without axes, which may be hoisted. */
static const Term *number_of(Lowering *lower, const Term *element, const Tensor *tensor) {
    return term_invariant(lower->arena, element, READ_ONCE,
                          arena_format(lower->arena, "const %s", type_name(tensor)), tensor->name);
}

const Term *element_term(Lowering *lower, const Expr *access, const Term **inside) {
    const Tensor *tensor = access->tensor;
    *inside = NULL;
    for (int i = 0; lower->kernel && i < lower->kernel->locals.count; i++) {
        const Local *local = lower->kernel->locals.items[i];
        if (local->tensor != tensor || !lower->known[i]) continue;
        if (local->kind == LOCAL_SCALAR) return lower->locals[i];
        return element_of(lower, lower->locals[i], offset_term(lower, access, local, inside));
    }
    const Term *element = element_of(lower, named(lower, lower->names[tensor->id]),
                                     offset_term(lower, access, NULL, inside));
    lower->used[tensor->id] = true;
    return access->count ? element : number_of(lower, element, tensor);
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
        if (moves(lower, sub) || contains_read(sub) || stays_inside(lower, sub, axis)) continue;
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
    if (sub->kind != EXPR_APPLY || contains_read(sub)) return expr_number(lower->program, 0);
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
    const Term *array = term_name(lower->arena, lower->names[access->tensor->id]);
    if (term_is_zero(offset)) return array;
    if (access->tensor->type == TYPE_INT8) /* by groups */
        return term(lower->arena, arena_format(lower->arena, "$0 + $1 / %d", INT8_GROUP), array,
                    offset);
    return term(lower->arena, term_sum, array, offset);
}

const char *pointer_text(Lowering *lower, const Expr *access) {
    return term_text(lower->arena, pointer_term(lower, access));
}

/* ---- reals ---- */

/* The cost of an operation that gets a name. */
enum { LONG_OPERATION = 10 };

const char *number_text(Arena *arena, double number) {
    if (isnan(number)) return "NAN";
    if (isinf(number)) return number < 0 ? "-INFINITY" : "INFINITY";
    if (number > 3.4e38) return "INFINITY";
    if (number < -3.4e38) return "-INFINITY";
    char *digits = arena_format(arena, "%.9g", number);
    for (char *c = digits; *c; c++)
        if (*c == ',') *c = '.'; /* independent of the locale */
    bool whole = strpbrk(digits, ".e") == NULL;
    return arena_format(arena, "%s%sf", digits, whole ? ".0" : "");
}

/* The power of a term by small primes; NULL for larger ones. */
static const Term *whole_power(Arena *arena, const Term *base, long power) {
    static const struct {
        long prime;
        const char *call;
    } primes[] = {{2, "moec_square($0)"},
                  {3, "moec_cube($0)"},
                  {5, "moec_fifth($0)"},
                  {7, "moec_seventh($0)"}};
    if (power == 1) return base;
    for (size_t i = 0; i < sizeof primes / sizeof *primes; i++) {
        if (power % primes[i].prime != 0) continue;
        const Term *root = whole_power(arena, base, power / primes[i].prime);
        return root ? term(arena, primes[i].call, root) : NULL;
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
    if (expr_is_number(exponent, 0.5)) return term(arena, "moec_sqrt($0)", base);
    if (expr_is_number(exponent, -0.5)) return term(arena, "moec_rsqrt($0)", base);
    if (expr_is_number(exponent, 2) && expr->args[0]->kind == EXPR_READ)
        return term(arena, "$0 * $0", base);
    if (power != floor(power) || power < 1 || power > 16) return NULL;
    const Term *made = whole_power(arena, base, (long)power);
    if (!made || exponent->number > 0) return made;
    return term(arena, "1.0f / $0", made);
}

static const Term *apply(Lowering *lower, const Expr *expr) {
    const Term *args[3] = {NULL, NULL, NULL};
    bool random = op_is_random(expr->op);
    if (random) lower->uses_seed = true;
    for (int i = 0; i < expr->count; i++)
        args[i] = random ? term(lower->arena, "(uint64_t)$0", integer_term(lower, expr->args[i]))
                         : real_term(lower, expr->args[i]);
    return term(lower->arena, op_table[expr->op].c, args[0], args[1], args[2]);
}

static const Term *real_read(Lowering *lower, const Expr *expr) {
    const Term *inside, *made = lane_term(lower, expr, true, false);
    if (made) return made;
    made = element_term(lower, expr, &inside);
    if (expr->tensor->type == TYPE_INT || expr->tensor->type == TYPE_BYTE)
        made = term(lower->arena, "(float)$0", made);
    if (expr->tensor->type == TYPE_BF16) made = term(lower->arena, "moec_load($0)", made);
    if (expr->tensor->type == TYPE_DOUBLE) made = term(lower->arena, "(float)$0", made);
    return inside ? term(lower->arena, term_guarded, inside, made) : made;
}

static const Term *real_apply(Lowering *lower, const Expr *expr) {
    bool counted = expr_is_exact(expr) || counts_exactly(lower->program, expr);
    if (counted && expr_is_truth(expr))
        return term(lower->arena, term_truth, integer_term(lower, expr));
    if (counted) return term(lower->arena, "(float)$0", integer_term(lower, expr));
    const Term *made = expr->op == OP_POW ? power_term(lower, expr) : NULL;
    if (!made) made = apply(lower, expr);
    return made;
}

const Term *real_term(Lowering *lower, const Expr *expr) {
    if (expr->kind == EXPR_NUMBER)
        return term_number(lower->arena, number_text(lower->arena, expr->number));
    if (expr->kind == EXPR_INDEX)
        return term(lower->arena, "(float)$0", index_term(lower, expr->index));
    const Term *made = expr->kind == EXPR_READ ? real_read(lower, expr) : real_apply(lower, expr);
    if (expr->kind == EXPR_READ)
        return term_value(lower->arena, made, VALUE_READ, expr->tensor->name);
    bool long_one = op_table[expr->op].cost >= LONG_OPERATION;
    return term_value(lower->arena, made, long_one ? VALUE_LONG : VALUE_SHORT, NULL);
}

/* ---- in double precision ---- */

/* The definition of an operation on a, b and c as a spelling: "pow(a, b)" as "moec_math(pow)($0,
 * $1)". */
static const char *double_spelling(Arena *arena, OpCode op) {
    Text text = {.arena = arena};
    for (const char *c = op_table[op].value; *c;) {
        size_t length = strspn(c, "abcdefghijklmnopqrstuvwxyz0123456789");
        if (c[length] == '(' && length)
            text_add(&text, "moec_math(%.*s)", (int)length, c);
        else if (length == 1 && *c >= 'a')
            text_add(&text, "$%d", *c - 'a');
        else
            text_add_bytes(&text, c, length ? length : 1);
        c += length ? length : 1;
    }
    bool whole = op_table[op].whole == WHOLE_ALWAYS; /* comparisons are int in C */
    return whole ? arena_format(arena, "(double)(%s)", text.text) : text.text;
}

static const Term *double_number(Arena *arena, double number) {
    const char *digits = isinf(number) || isnan(number) ? number_text(arena, number)
                                                        : arena_format(arena, "%.17g", number);
    bool whole = strspn(digits, "-0123456789") == strlen(digits);
    return term_number(arena, arena_format(arena, "%s%s", digits, whole ? ".0" : ""));
}

static const Term *double_read(Lowering *lower, const Expr *expr) {
    const Term *inside, *made = element_term(lower, expr, &inside);
    if (expr->tensor->type != TYPE_DOUBLE) made = term(lower->arena, "(double)$0", made);
    return inside ? term(lower->arena, "$0 ? $1 : 0.0", inside, made) : made;
}

const Term *double_term(Lowering *lower, const Expr *expr) {
    Arena *arena = lower->arena;
    if (expr->kind == EXPR_NUMBER) return double_number(arena, expr->number);
    if (expr->kind == EXPR_READ) return double_read(lower, expr);
    if (expr->kind == EXPR_INDEX || expr_is_exact(expr) || counts_exactly(lower->program, expr))
        return term(arena, "(double)$0", integer_term(lower, expr));
    const Term *args[3] = {NULL, NULL, NULL};
    for (int i = 0; i < expr->count; i++) args[i] = double_term(lower, expr->args[i]);
    if (expr->op == OP_WHERE && counts_exactly(lower->program, expr->args[0]))
        return term(arena, "$0 ? $1 : $2", integer_term(lower, expr->args[0]), args[1], args[2]);
    return term(arena, double_spelling(arena, expr->op), args[0], args[1], args[2]);
}
