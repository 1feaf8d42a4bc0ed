/* emit_expr: expressions and addresses as C text.
 *
 * Subscripts are computed in integers; whatever may fall outside its axis is guarded and reads 0.
 * What is known to be inside, because its smallest and largest value are, is not.
 */
#include "codegen/emit.h"

#include <math.h>
#include <string.h>

/* ---- integers ---- */

typedef struct Range {
    long low, high;
} Range;

enum { UNKNOWN = 1 << 30 };

static const Range unknown = {-UNKNOWN, UNKNOWN};

static Range range_of(const Emitter *emitter, const Expr *expr);

/* What the values of an integer tensor can be. */
static Range range_of_tensor(const Program *program, const Tensor *tensor) {
    if (tensor->vocabulary > 0) return (Range){0, tensor->vocabulary - 1};
    if (tensor->role == ROLE_INPUT && tensor->rank == 0 && program->sequence &&
        program->context > 0)
        return (Range){0, program->context - program->sequence->size};
    for (int i = 0; i < program->relations.count; i++) {
        const Relation *relation = program->relations.items[i];
        int first =
            relation->mask->rank > 0 && relation->mask->axes[0]->kind == AXIS_REPEAT ? 1 : 0;
        for (int j = 0; j + first < relation->mask->rank; j++)
            if (relation->coordinate[j] == tensor)
                return (Range){0, relation->mask->axes[j + first]->size - 1};
        if (relation->row_of == tensor) return (Range){-1, relation->rows->size - 1};
        if (relation->list == tensor) return (Range){0, relation->rows->size - 1};
    }
    return unknown;
}

static Range range_of_product(Range a, Range b) {
    double corners[4] = {(double)a.low * (double)b.low, (double)a.low * (double)b.high,
                         (double)a.high * (double)b.low, (double)a.high * (double)b.high};
    double low = corners[0], high = corners[0];
    for (int i = 1; i < 4; i++) {
        low = fmin(low, corners[i]);
        high = fmax(high, corners[i]);
    }
    return (Range){(long)fmax(low, -UNKNOWN), (long)fmin(high, UNKNOWN)};
}

static Range range_of_apply(const Emitter *emitter, const Expr *expr) {
    Range a = expr->count > 0 ? range_of(emitter, expr->args[0]) : unknown;
    Range b = expr->count > 1 ? range_of(emitter, expr->args[1]) : unknown;
    switch (expr->op) {
    case OP_ADD:
        return (Range){a.low + b.low, a.high + b.high};
    case OP_SUB:
        return (Range){a.low - b.high, a.high - b.low};
    case OP_NEG:
        return (Range){-a.high, -a.low};
    case OP_MUL:
        return range_of_product(a, b);
    case OP_MIN:
        return (Range){a.low < b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
    case OP_MAX:
        return (Range){a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
    case OP_MOD:
        return b.low == b.high && b.low > 0 ? (Range){0, b.low - 1} : unknown;
    case OP_DIV:
    case OP_FLOOR:
        if (expr->op == OP_FLOOR && expr->args[0]->kind == EXPR_APPLY &&
            expr->args[0]->op == OP_DIV)
            return a;
        if (expr->op == OP_DIV && b.low == b.high && b.low > 0 && a.low >= 0)
            return (Range){a.low / b.low, a.high / b.low};
        return unknown;
    case OP_WHERE: {
        Range c = range_of(emitter, expr->args[2]);
        return (Range){b.low < c.low ? b.low : c.low, b.high > c.high ? b.high : c.high};
    }
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
    case OP_AND:
    case OP_OR:
    case OP_NOT:
        return (Range){0, 1};
    default:
        return unknown;
    }
}

static Range range_of(const Emitter *emitter, const Expr *expr) {
    switch (expr->kind) {
    case EXPR_NUMBER:
        return (Range){(long)expr->number, (long)expr->number};
    case EXPR_INDEX:
        return (Range){0, loop_size(expr->index) - 1};
    case EXPR_READ:
        return range_of_tensor(emitter->program, expr->tensor);
    case EXPR_APPLY:
        return range_of_apply(emitter, expr);
    }
    return unknown;
}

/* An expression that integer arithmetic computes exactly. */
static bool is_integer(const Expr *expr) {
    if (expr->kind == EXPR_NUMBER)
        return expr->number == floor(expr->number) && fabs(expr->number) < UNKNOWN;
    if (expr->kind == EXPR_INDEX) return true;
    if (expr->kind == EXPR_READ) return expr->tensor->type == TYPE_INT;
    switch (expr->op) {
    case OP_FLOOR:
        if (expr->args[0]->kind == EXPR_APPLY && expr->args[0]->op == OP_DIV)
            return is_integer(expr->args[0]->args[0]) && is_integer(expr->args[0]->args[1]);
        return is_integer(expr->args[0]);
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_MOD:
    case OP_MIN:
    case OP_MAX:
    case OP_NEG:
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
        for (int i = 0; i < expr->count; i++)
            if (!is_integer(expr->args[i])) return false;
        return true;
    default:
        return false;
    }
}

static bool is_comparison(OpCode op) {
    return op == OP_EQ || op == OP_NE || op == OP_LT || op == OP_LE || op == OP_GT || op == OP_GE;
}

static const char *integer_divide(Emitter *emitter, const Expr *expr, const char *sign) {
    const Expr *a = expr->args[0], *b = expr->args[1];
    const char *first = integer_text(emitter, a), *second = integer_text(emitter, b);
    bool plain = range_of(emitter, a).low >= 0 && range_of(emitter, b).low > 0;
    if (plain) return arena_format(emitter->arena, "(%s %s %s)", first, sign, second);
    if (*sign == '%')
        return arena_format(emitter->arena, "((%s %% %s + %s) %% %s)", first, second, second,
                            second);
    return arena_format(emitter->arena, "(long)moec_floor((float)%s / (float)%s)", first, second);
}

static const char *integer_apply(Emitter *emitter, const Expr *expr) {
    if (expr->op == OP_WHERE)
        return arena_format(emitter->arena, "(%s != 0.0f ? %s : %s)",
                            real_text(emitter, expr->args[0]), integer_text(emitter, expr->args[1]),
                            integer_text(emitter, expr->args[2]));
    if (!is_integer(expr))
        return arena_format(emitter->arena, "(long)(%s)", real_text(emitter, expr));
    if (expr->op == OP_FLOOR) {
        const Expr *inner = expr->args[0];
        if (inner->kind == EXPR_APPLY && inner->op == OP_DIV)
            return integer_divide(emitter, inner, "/");
        return integer_text(emitter, inner);
    }
    if (expr->op == OP_MOD) return integer_divide(emitter, expr, "%");
    const char *a = integer_text(emitter, expr->args[0]);
    if (expr->op == OP_NEG) return arena_format(emitter->arena, "(-%s)", a);
    const char *b = integer_text(emitter, expr->args[1]);
    if (expr->op == OP_ADD && strcmp(b, "0") == 0) return a;
    if (expr->op == OP_MIN || expr->op == OP_MAX)
        return arena_format(emitter->arena, "(%s %s %s ? %s : %s)", a,
                            expr->op == OP_MIN ? "<" : ">", b, a, b);
    return arena_format(emitter->arena, "(%s %s %s)", a, op_table[expr->op].text, b);
}

static const char *index_text(Emitter *emitter, Index *index) {
    const char *name = bound_index(emitter, index);
    if (!name) return "0"; /* a loop of one turn is not written */
    if (!index->turn) return name;
    for (int i = 0; i < emitter->turns_used.count; i++)
        if (emitter->turns_used.items[i] == index) return name;
    list_push(emitter->arena, &emitter->turns_used, index);
    return name;
}

const char *integer_text(Emitter *emitter, const Expr *expr) {
    const char *text = "0", *inside = NULL;
    switch (expr->kind) {
    case EXPR_NUMBER:
        return arena_format(emitter->arena, expr->number < 0 ? "(%ld)" : "%ld", (long)expr->number);
    case EXPR_INDEX:
        return index_text(emitter, expr->index);
    case EXPR_READ:
        text = element_text(emitter, expr, &inside);
        text = inside ? arena_format(emitter->arena, "(%s ? (long)%s : 0)", inside, text)
                      : arena_format(emitter->arena, "(long)%s", text);
        break;
    case EXPR_APPLY:
        text = integer_apply(emitter, expr);
        break;
    }
    const char *bound = bound_text(emitter, text);
    return bound ? bound : text;
}

/* ---- addresses ---- */

bool is_computed(const Expr *sub) {
    return sub->kind == EXPR_READ || sub->kind == EXPR_APPLY;
}

/* Loop indices that cannot leave the axis need no guard. */
static bool stays_inside(Emitter *emitter, const Expr *sub, const Axis *axis) {
    if (sub->kind == EXPR_INDEX) return true;
    Range range = range_of(emitter, sub);
    return range.low >= 0 && range.high < axis->size;
}

static const char *add_guard(Emitter *emitter, const char *guard, const Expr *sub, const char *text,
                             const Axis *axis) {
    Range range = range_of(emitter, sub);
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

/* Powers that need no logarithm. */
static const char *power_text(Emitter *emitter, const Expr *expr) {
    const Expr *exponent = expr->args[1];
    const char *base = real_text(emitter, expr->args[0]);
    if (expr_is_number(exponent, 0.5)) return arena_format(emitter->arena, "moec_sqrt(%s)", base);
    if (expr_is_number(exponent, -0.5)) return arena_format(emitter->arena, "moec_rsqrt(%s)", base);
    if (expr_is_number(exponent, -1)) return arena_format(emitter->arena, "(1.0f / %s)", base);
    if (expr_is_number(exponent, 2) && expr->args[0]->kind == EXPR_READ)
        return arena_format(emitter->arena, "(%s * %s)", base, base);
    return NULL;
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
    if (is_comparison(expr->op) && is_integer(expr))
        return arena_format(emitter->arena, "(%s ? 1.0f : 0.0f)", integer_text(emitter, expr));
    if (is_integer(expr))
        return arena_format(emitter->arena, "(float)%s", integer_text(emitter, expr));
    text = expr->op == OP_POW ? power_text(emitter, expr) : NULL;
    if (!text) text = apply_text(emitter, expr);
    const char *bound = bound_text(emitter, text);
    return bound ? bound : text;
}
