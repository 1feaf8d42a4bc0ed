/* emit_expr: expressions and addresses as terms.
 *
 * Subscripts are computed in integers (emit_whole.c); whatever may fall outside its axis is guarded
 * and reads 0. What is known to be inside, because its smallest and largest value are, is not.
 */
#include "codegen/emit.h"

#include <math.h>
#include <string.h>

/* ---- addresses ---- */

bool is_computed(const Expr *sub) {
    return sub->kind == EXPR_READ || sub->kind == EXPR_APPLY;
}

/* Loop indices that cannot leave the axis need no guard. */
static bool stays_inside(Emitter *emitter, const Expr *sub, const Axis *axis) {
    if (sub->kind == EXPR_INDEX) return true;
    Range range = range_of(emitter->program, sub);
    return range.low >= 0 && range.high < axis->size;
}

static const Term *both(Emitter *emitter, const Term *a, const Term *b) {
    return a ? term(emitter->arena, "$0 && $1", a, b) : b;
}

static const Term *add_guard(Emitter *emitter, const Term *guard, const Expr *sub,
                             const Term *place, const Axis *axis) {
    Range range = range_of(emitter->program, sub);
    if (range.low < 0) guard = both(emitter, guard, term(emitter->arena, "$0 >= 0", place));
    if (range.high < axis->size) return guard;
    return both(emitter, guard, term(emitter->arena, "$0 < $1", place, size_term(emitter, axis)));
}

static bool contains_read(const Expr *expr) {
    if (expr->kind == EXPR_READ) return true;
    for (int i = 0; i < expr->count; i++)
        if (contains_read(expr->args[i])) return true;
    return false;
}

/* What is read for it, or computed of that, may be found once. */
static const Term *subscript_term(Emitter *emitter, const Expr *sub) {
    const Term *place = integer_term(emitter, sub);
    if (!contains_read(sub)) return place;
    const char *tensor = sub->kind == EXPR_READ ? sub->tensor->name : NULL;
    return term_invariant(emitter->arena, place, tensor ? READ_ONCE : COMPUTED_ONCE, "const long",
                          tensor);
}

static const Term *slot_term(Emitter *emitter, const Expr *sub) {
    if (sub->kind == EXPR_NUMBER) return term_whole(emitter->arena, (long)sub->number & 1);
    return term(emitter->arena, "$0 & 1", subscript_term(emitter, sub));
}

/* Dimensions of a row on the stack that its place in the nest fixes. */
static bool is_fixed(const Local *local, int dimension) {
    const Expr *sub = local->first->statement->target->args[dimension];
    if (sub->kind != EXPR_INDEX || sub->index->of_repeat) return true;
    for (int i = 0; i < local->covered; i++)
        if (sub->index == local->first->order[i]) return true;
    return false;
}

static const Term *offset_term(Emitter *emitter, const Expr *access, const Local *row,
                               const Term **inside) {
    const Tensor *tensor = access->tensor;
    const Term *offset = term_whole(emitter->arena, 0);
    bool slots = emitter->schedule->places[tensor->id].slots;
    for (int i = 0; i < access->count; i++) {
        const Expr *sub = access->args[i];
        if (row && is_fixed(row, i)) continue;
        const Term *place =
            i == 0 && slots ? slot_term(emitter, sub) : subscript_term(emitter, sub);
        if (!stays_inside(emitter, sub, tensor->axes[i]) && !(i == 0 && slots))
            *inside = add_guard(emitter, *inside, sub, place, tensor->axes[i]);
        offset = term_offset(emitter->arena, offset, size_term(emitter, tensor->axes[i]), place);
    }
    return offset;
}

static const Term *element_of(Emitter *emitter, const Term *array, const Term *offset) {
    return term(emitter->arena, "$0[$1]", array, offset);
}

/* The element of a tensor without axes, which may be read once. */
static const Term *number_of(Emitter *emitter, const Term *element, const Tensor *tensor) {
    return term_invariant(emitter->arena, element, READ_ONCE,
                          tensor->type == TYPE_INT ? "const int32_t" : "const float", tensor->name);
}

const Term *element_term(Emitter *emitter, const Expr *access, const Term **inside) {
    const Tensor *tensor = access->tensor;
    *inside = NULL;
    for (int i = 0; emitter->kernel && i < emitter->kernel->locals.count; i++) {
        const Local *local = emitter->kernel->locals.items[i];
        if (local->tensor != tensor || !emitter->known[i]) continue;
        if (local->kind == LOCAL_SCALAR) return emitter->locals[i];
        return element_of(emitter, emitter->locals[i], offset_term(emitter, access, local, inside));
    }
    const Term *element = element_of(emitter, named(emitter, emitter->names[tensor->id]),
                                     offset_term(emitter, access, NULL, inside));
    emitter->used[tensor->id] = true;
    return access->count ? element : number_of(emitter, element, tensor);
}

/* A subscript that moves with a loop that is not written out. */
static bool moves(const Emitter *emitter, const Expr *sub) {
    if (sub->kind == EXPR_INDEX) return !bound_index(emitter, sub->index);
    for (int i = 0; i < sub->count; i++)
        if (moves(emitter, sub->args[i])) return true;
    return false;
}

/* Every value of a subscript is a multiple of the lowest bit of this where the loops that are not
 * written out are at 0. */
static long bits_of(const Emitter *emitter, const Expr *sub) {
    if (sub->kind == EXPR_NUMBER) return (long)sub->number;
    if (sub->kind == EXPR_INDEX) return bound_index(emitter, sub->index) != NULL;
    if (sub->kind != EXPR_APPLY || (sub->op != OP_ADD && sub->op != OP_MUL)) return 1;
    long a = bits_of(emitter, sub->args[0]), b = bits_of(emitter, sub->args[1]);
    return sub->op == OP_ADD ? a | b : (a & -a) * (b & -b);
}

long place_alignment(const Emitter *emitter, const Expr *access) {
    enum { MAX_ALIGNMENT = 16 };
    long bytes = type_bytes(access->tensor->type), bits = MAX_ALIGNMENT;
    for (int i = access->count - 1; i >= 0; i--) {
        long here = bits_of(emitter, access->args[i]);
        bits |= (here & -here) * bytes;
        bytes *= access->tensor->axes[i]->size;
    }
    return bits & -bits;
}

const Term *pointer_term(Emitter *emitter, const Expr *access) {
    static Expr zero = {.kind = EXPR_NUMBER};
    Expr first = *access;
    first.args = arena_alloc(emitter->arena, ((size_t)access->count + 1) * sizeof *first.args);
    for (int i = 0; i < access->count; i++) {
        bool part =
            sub_loop(access->args[i], access->tensor->axes[i]) != NULL; /* keeps its start */
        first.args[i] = !part && moves(emitter, access->args[i]) ? &zero : access->args[i];
    }
    const Term *inside = NULL, *offset = offset_term(emitter, &first, NULL, &inside);
    emitter->used[access->tensor->id] = true;
    const Term *array = term_name(emitter->arena, emitter->names[access->tensor->id]);
    if (term_is_zero(offset)) return array;
    if (access->tensor->type == TYPE_INT8) /* by groups */
        return term(emitter->arena, arena_format(emitter->arena, "$0 + $1 / %d", INT8_GROUP), array,
                    offset);
    return term(emitter->arena, "$0 + $1", array, offset);
}

const char *pointer_text(Emitter *emitter, const Expr *access) {
    return term_text(emitter->arena, pointer_term(emitter, access));
}

/* ---- reals ---- */

/* An operation that takes so long is worth a name. */
enum { LONG_OPERATION = 10 };

const char *number_text(Arena *arena, double number) {
    if (isnan(number)) return "NAN";
    if (isinf(number)) return number < 0 ? "-INFINITY" : "INFINITY";
    if (number > 3.4e38) return "INFINITY";
    if (number < -3.4e38) return "-INFINITY";
    char *digits = arena_format(arena, "%.9g", number);
    for (char *c = digits; *c; c++)
        if (*c == ',') *c = '.'; /* whatever the locale says */
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
static const Term *power_term(Emitter *emitter, const Expr *expr) {
    Arena *arena = emitter->arena;
    const Expr *exponent = expr->args[1];
    const Term *base = real_term(emitter, expr->args[0]);
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

static const Term *apply(Emitter *emitter, const Expr *expr) {
    const Term *args[3] = {NULL, NULL, NULL};
    bool random = op_is_random(expr->op);
    if (random) emitter->uses_seed = true;
    for (int i = 0; i < expr->count; i++)
        args[i] = random
                      ? term(emitter->arena, "(uint64_t)$0", integer_term(emitter, expr->args[i]))
                      : real_term(emitter, expr->args[i]);
    return term(emitter->arena, op_table[expr->op].c, args[0], args[1], args[2]);
}

static const Term *real_read(Emitter *emitter, const Expr *expr) {
    const Term *inside, *made = lane_term(emitter, expr, true, false);
    if (made) return made;
    made = element_term(emitter, expr, &inside);
    if (expr->tensor->type == TYPE_INT) made = term(emitter->arena, "(float)$0", made);
    if (expr->tensor->type == TYPE_BF16) made = term(emitter->arena, "moec_load($0)", made);
    return inside ? term(emitter->arena, "$0 ? $1 : 0.0f", inside, made) : made;
}

static const Term *real_apply(Emitter *emitter, const Expr *expr) {
    bool counted = counts_exactly(emitter->program, expr);
    if (counted && expr_is_truth(expr))
        return term(emitter->arena, "$0 ? 1.0f : 0.0f", integer_term(emitter, expr));
    if (counted || expr_is_remainder(expr))
        return term(emitter->arena, "(float)$0", integer_term(emitter, expr));
    const Term *made = expr->op == OP_POW ? power_term(emitter, expr) : NULL;
    if (!made) made = apply(emitter, expr);
    return made;
}

const Term *real_term(Emitter *emitter, const Expr *expr) {
    if (expr->kind == EXPR_NUMBER)
        return term_number(emitter->arena, number_text(emitter->arena, expr->number));
    if (expr->kind == EXPR_INDEX)
        return term(emitter->arena, "(float)$0", index_term(emitter, expr->index));
    const Term *made =
        expr->kind == EXPR_READ ? real_read(emitter, expr) : real_apply(emitter, expr);
    if (expr->kind == EXPR_READ)
        return term_value(emitter->arena, made, VALUE_READ, expr->tensor->name);
    bool long_one = op_table[expr->op].cost >= LONG_OPERATION;
    return term_value(emitter->arena, made, long_one ? VALUE_LONG : VALUE_SHORT, NULL);
}
