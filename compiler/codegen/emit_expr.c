/* emit_expr: expressions and addresses as C text.
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

static const char *add_guard(Emitter *emitter, const char *guard, const Expr *sub, const char *text,
                             const Axis *axis) {
    Range range = range_of(emitter->program, sub);
    Text result = {.arena = emitter->arena};
    text_add(&result, "%s%s", guard ? guard : "", guard ? " && " : "");
    if (range.low < 0) text_add(&result, "%s >= 0", text);
    if (range.low < 0 && range.high >= axis->size) text_add(&result, " && ");
    if (range.high >= axis->size) text_add(&result, "%s < %ld", text, axis->size);
    return result.text;
}

/* (offset) * size + sub, with what is 0 left out. */
static const char *add_dimension(Emitter *emitter, const char *offset, long size, const char *sub) {
    bool none = strcmp(sub, "0") == 0;
    if (strcmp(offset, "0") == 0) return sub;
    bool sum = strpbrk(offset, " ") != NULL && offset[0] != '(';
    for (const char *c = offset + 1, *end = offset + strlen(offset) - 1; c < end && !sum; c++)
        sum = *c == ')' &&
              offset[0] == '('; /* "(a) * 2 + (b)" begins and ends with a parenthesis, too */
    if (size == 1) return none ? offset : arena_format(emitter->arena, "%s + %s", offset, sub);
    const char *scaled =
        arena_format(emitter->arena, sum ? "(%s) * %ld" : "%s * %ld", offset, size);
    return none ? scaled : arena_format(emitter->arena, "%s + %s", scaled, sub);
}

static const char *slot_text(Emitter *emitter, const Expr *sub) {
    if (sub->kind == EXPR_NUMBER) return (long)sub->number & 1 ? "1" : "0";
    return arena_format(emitter->arena, "(%s & 1)", integer_text(emitter, sub));
}

/* Dimensions of a row on the stack that its place in the nest fixes. */
static bool is_fixed(const Local *local, int dimension) {
    const Expr *sub = local->first->statement->target->args[dimension];
    if (sub->kind != EXPR_INDEX || sub->index->turn) return true;
    for (int i = 0; i < local->covered; i++)
        if (sub->index == local->first->order[i]) return true;
    return false;
}

static const char *offset_text(Emitter *emitter, const Expr *access, const Local *row,
                               const char **inside) {
    const Tensor *tensor = access->tensor;
    const char *offset = "0";
    bool slots = emitter->schedule->places[tensor->id].slots;
    for (int i = 0; i < access->count; i++) {
        const Expr *sub = access->args[i];
        if (row && is_fixed(row, i)) continue;
        const char *text = i == 0 && slots ? slot_text(emitter, sub) : integer_text(emitter, sub);
        if (!stays_inside(emitter, sub, tensor->axes[i]) && !(i == 0 && slots))
            *inside = add_guard(emitter, *inside, sub, text, tensor->axes[i]);
        offset = add_dimension(emitter, offset, tensor->axes[i]->size, text);
    }
    return offset;
}

const char *element_text(Emitter *emitter, const Expr *access, const char **inside) {
    const Tensor *tensor = access->tensor;
    *inside = NULL;
    for (int i = 0; emitter->kernel && i < emitter->kernel->locals.count; i++) {
        const Local *local = emitter->kernel->locals.items[i];
        if (local->tensor != tensor || !emitter->known[i]) continue;
        if (local->kind == LOCAL_SCALAR) return emitter->locals[i];
        return arena_format(emitter->arena, "%s[%s]", emitter->locals[i],
                            offset_text(emitter, access, local, inside));
    }
    const char *text = arena_format(emitter->arena, "%s[%s]", emitter->names[tensor->id],
                                    offset_text(emitter, access, NULL, inside));
    const char *bound = access->count ? NULL : bound_text(emitter, text);
    if (!bound) emitter->used[tensor->id] = true;
    return bound ? bound : text;
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
    enum { MOST = 16 };
    long bytes = type_bytes(access->tensor->type), bits = MOST;
    for (int i = access->count - 1; i >= 0; i--) {
        long here = bits_of(emitter, access->args[i]);
        bits |= (here & -here) * bytes;
        bytes *= access->tensor->axes[i]->size;
    }
    return bits & -bits;
}

const char *pointer_text(Emitter *emitter, const Expr *access) {
    static Expr zero = {.kind = EXPR_NUMBER};
    Expr first = *access;
    first.args = arena_alloc(emitter->arena, ((size_t)access->count + 1) * sizeof *first.args);
    for (int i = 0; i < access->count; i++) {
        bool part =
            sub_loop(access->args[i], access->tensor->axes[i]) != NULL; /* keeps its start */
        first.args[i] = !part && moves(emitter, access->args[i]) ? &zero : access->args[i];
    }
    const char *inside = NULL, *offset = offset_text(emitter, &first, NULL, &inside);
    emitter->used[access->tensor->id] = true;
    const char *name = emitter->names[access->tensor->id];
    return strcmp(offset, "0") == 0 ? name : arena_format(emitter->arena, "%s + %s", name, offset);
}

/* ---- reals ---- */


const char *number_text(Arena *arena, double number) {
    if (isnan(number)) return "NAN";
    if (isinf(number)) return number < 0 ? "(-INFINITY)" : "INFINITY";
    if (number > 3.4e38) return "INFINITY";
    if (number < -3.4e38) return "(-INFINITY)";
    char *digits = arena_format(arena, "%.9g", number);
    for (char *c = digits; *c; c++)
        if (*c == ',') *c = '.'; /* whatever the locale says */
    bool whole = strpbrk(digits, ".e") == NULL;
    return arena_format(arena, number < 0 ? "(%s%sf)" : "%s%sf", digits, whole ? ".0" : "");
}

/* The power of a text by small primes; NULL for larger ones. */
static const char *whole_power_text(Emitter *emitter, const char *base, long power) {
    static const struct {
        long prime;
        const char *function;
    } primes[] = {{2, "square"}, {3, "cube"}, {5, "fifth"}, {7, "seventh"}};
    if (power == 1) return base;
    for (size_t i = 0; i < sizeof primes / sizeof *primes; i++) {
        if (power % primes[i].prime != 0) continue;
        const char *root = whole_power_text(emitter, base, power / primes[i].prime);
        return root ? arena_format(emitter->arena, "moec_%s(%s)", primes[i].function,
                                   bare(emitter->arena, root))
                    : NULL;
    }
    return NULL;
}

/* Powers that need no logarithm. */
static const char *power_text(Emitter *emitter, const Expr *expr) {
    const Expr *exponent = expr->args[1];
    const char *base = real_text(emitter, expr->args[0]);
    if (exponent->kind != EXPR_NUMBER) return NULL;
    double power = fabs(exponent->number);
    if (expr_is_number(exponent, 0.5)) return arena_format(emitter->arena, "moec_sqrt(%s)", base);
    if (expr_is_number(exponent, -0.5)) return arena_format(emitter->arena, "moec_rsqrt(%s)", base);
    if (expr_is_number(exponent, 2) && expr->args[0]->kind == EXPR_READ)
        return arena_format(emitter->arena, "(%s * %s)", base, base);
    if (power != floor(power) || power < 1 || power > 16) return NULL;
    const char *text = whole_power_text(emitter, base, (long)power);
    if (!text || exponent->number > 0) return text;
    return arena_format(emitter->arena, "(1.0f / %s)", text);
}

static const char *apply_text(Emitter *emitter, const Expr *expr) {
    const char *args[3] = {"", "", ""};
    bool random = op_is_random(expr->op);
    if (random) emitter->uses_seed = true;
    for (int i = 0; i < expr->count; i++) {
        const char *text =
            random ? integer_text(emitter, expr->args[i]) : real_text(emitter, expr->args[i]);
        args[i] = random ? arena_format(emitter->arena, "(uint64_t)(%s)", text) : text;
    }
    Text text = {.arena = emitter->arena};
    for (const char *c = op_table[expr->op].c; *c; c++) {
        if (*c == '$')
            text_add(&text, "%s", args[*++c - '0']);
        else
            text_add(&text, "%c", *c);
    }
    return text.text;
}

const char *real_text(Emitter *emitter, const Expr *expr) {
    const char *inside, *text;
    switch (expr->kind) {
    case EXPR_NUMBER:
        return number_text(emitter->arena, expr->number);
    case EXPR_INDEX:
        return arena_format(emitter->arena, "(float)%s", index_text(emitter, expr->index));
    case EXPR_READ:
        text = lane_text(emitter, expr, true, false);
        if (text) return bound_text(emitter, text) ? bound_text(emitter, text) : text;
        text = element_text(emitter, expr, &inside);
        if (expr->tensor->type == TYPE_INT) text = arena_format(emitter->arena, "(float)%s", text);
        if (expr->tensor->type == TYPE_BF16)
            text = arena_format(emitter->arena, "moec_load(%s)", text);
        if (inside) text = arena_format(emitter->arena, "(%s ? %s : 0.0f)", inside, text);
        return bound_text(emitter, text) ? bound_text(emitter, text) : text;
    case EXPR_APPLY:
        break;
    }
    bool counted = counts_exactly(emitter->program, expr);
    if (counted && expr_is_truth(expr))
        return arena_format(emitter->arena, "(%s ? 1.0f : 0.0f)", integer_text(emitter, expr));
    if (counted || expr_is_remainder(expr))
        return arena_format(emitter->arena, "(float)%s", integer_text(emitter, expr));
    text = expr->op == OP_POW ? power_text(emitter, expr) : NULL;
    if (!text) text = apply_text(emitter, expr);
    const char *bound = bound_text(emitter, text);
    return bound ? bound : text;
}
