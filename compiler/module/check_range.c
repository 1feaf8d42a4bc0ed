/* check_range: interval arithmetic on terms.
 *
 *     for s = 0 .. 64
 *         y[s] = s - 1 >= 0 ? x[(s - 1) * 8 + 7] : 0        x: 7 .. 503
 *
 * A condition limits the terms that it compares. A let that is not set later is replaced by its
 * value: if it was hoisted out of a condition, the condition limits its parts.
 */
#include "analysis/range.h"
#include "module/module_check.h"

#include <string.h>

__extension__ typedef __int128 Wide; /* no operation on two 64-bit numbers leaves it */

static const Interval unknown = {INT64_MIN, INT64_MAX, 1, false};

static int64_t divisor(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

static Interval point(int64_t value) {
    return (Interval){value, value, value < 0 ? -value : value, true};
}

static Interval bound_between(Wide low, Wide high, int64_t unit, bool certain) {
    if (low < INT64_MIN || high > INT64_MAX) return unknown;
    return (Interval){(int64_t)low, (int64_t)high, unit, certain};
}

/* ---- variables ---- */

KnownVariable *known_of(const ModuleCheck *check, const Term *name) {
    const int number = name->variable->number;
    if (number >= check->known_count || check->known[number].variable != name->variable)
        return NULL;
    return &check->known[number];
}

KnownVariable *known_add(ModuleCheck *check, const Term *name) {
    KnownVariable *known = known_of(check, name);
    if (!known) {
        check->known = with_room(check->arena, check->known, check->known_count,
                                 &check->known_capacity, sizeof *check->known);
        name->variable->number = check->known_count;
        known = &check->known[check->known_count++];
    }
    *known = (KnownVariable){.variable = name->variable, .bound = unknown};
    return known;
}

/* The index of a repeat around the launch, and the size of a parameter, have a fixed name. */
static Interval bound_of_index(const ModuleCheck *check, const Variable *variable) {
    if (variable->name && strcmp(variable->name, "elements") == 0) return point(SOME_ELEMENTS);
    for (int i = check->repeat_count - 1; i >= 0 && variable->name; i--)
        if (strcmp(check->repeats[i].name, variable->name) == 0)
            return (Interval){0, check->repeats[i].count - 1, 1, true};
    return unknown;
}

static Interval bound_of_name(ModuleCheck *check, const Term *name) {
    const KnownVariable *known = known_of(check, name);
    if (!known) return bound_of_index(check, name->variable);
    return known->value && check->fact_count ? interval_of(check, known->value) : known->bound;
}

long memory_elements(const ModuleCheck *check, const Term *array) {
    const Tensor *tensor = array->variable->tensor;
    const WeightType *type = tensor ? weight_type(tensor->type) : NULL;
    if (!tensor || (type && type->elements > 1)) return -1;
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->axes[i]->kind == AXIS_ELEMENTS) return SOME_ELEMENTS;
    const long elements = tensor_elements(tensor);
    const bool slots = check->entry && check->entry->buffers[tensor->id].slots == 2;
    return slots ? elements / tensor->axes[0]->size * 2 : elements;
}

/* ---- operations ---- */

static Interval product(Interval a, Interval b) {
    const Wide corners[4] = {(Wide)a.low * b.low, (Wide)a.low * b.high, (Wide)a.high * b.low,
                             (Wide)a.high * b.high};
    Wide low = corners[0], high = corners[0];
    for (int i = 1; i < 4; i++) {
        if (corners[i] < low) low = corners[i];
        if (corners[i] > high) high = corners[i];
    }
    Wide unit = (Wide)a.unit * b.unit;
    return bound_between(low, high, unit > INT64_MAX ? 1 : (int64_t)unit, a.certain && b.certain);
}

static int64_t floor_of(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}

/* For divisors from 1 on. */
static Interval quotient_bound(Interval a, Interval b) {
    if (b.low < 1) return unknown;
    const bool exact = b.low == b.high && a.unit % b.low == 0;
    return (Interval){floor_of(a.low, a.low < 0 ? b.low : b.high),
                      floor_of(a.high, a.high < 0 ? b.high : b.low), exact ? a.unit / b.low : 1,
                      a.certain && b.certain};
}

static Interval rest_bound(Interval a, Interval b) {
    if (b.low < 1) return unknown;
    if (a.low >= 0 && a.high < b.low) return a;
    const int64_t unit = b.low == b.high ? divisor(a.unit, b.low) : 1;
    return (Interval){0, b.high - unit, unit, a.certain && b.certain};
}

static Interval smaller_bound(Interval a, Interval b) {
    return (Interval){a.low < b.low ? a.low : b.low, a.high < b.high ? a.high : b.high,
                      divisor(a.unit, b.unit), a.certain && b.certain};
}

static Interval larger_bound(Interval a, Interval b) {
    return (Interval){a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high,
                      divisor(a.unit, b.unit), a.certain && b.certain};
}

/* An empty range is that of a value that is never used. */
static Interval either_bound(Interval a, Interval b) {
    if (a.low > a.high) return b;
    if (b.low > b.high) return a;
    return (Interval){a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high,
                      divisor(a.unit, b.unit), a.certain && b.certain};
}

/* A value that is used if the condition has that value. */
static Interval bound_where(ModuleCheck *check, const Term *condition, bool holds,
                            const Term *value) {
    const int facts = check->fact_count;
    const bool contradicts = check->contradicts;
    facts_add(check, condition, holds);
    check->contradicts = is_unreachable(check);
    Interval bound = interval_of(check, value);
    if (check->contradicts) bound = (Interval){1, 0, 1, true};
    check->contradicts = contradicts;
    check->fact_count = facts;
    return bound;
}

static Interval bound_of_element(const ModuleCheck *check, const Term *element) {
    const Term *array = term_stored(element);
    const Tensor *tensor = array->op == TERM_NAME ? array->variable->tensor : NULL;
    const Program *program = check->entry ? check->entry->program : NULL;
    if (!tensor || !program || tensor->type != TYPE_INT) return unknown;
    const Range range = range_of_tensor(program, tensor);
    return (Interval){range.low, range.high, 1, range.low != INT32_MIN};
}

static Interval bound_of_cast(ModuleCheck *check, const Term *cast) {
    if (!term_is_integer(cast->args[0])) return unknown;
    const Interval bound = interval_of(check, cast->args[0]);
    const bool narrow = cast->type == T_U32 && (bound.low < 0 || bound.high > UINT32_MAX);
    return narrow ? unknown : bound;
}

/* Numbers of threads and blocks. */
static Interval bound_of_thread(const ModuleCheck *check, TermOp op) {
    const int64_t threads = check->launch.threads ? check->launch.threads : 1,
                  blocks = check->launch.blocks ? check->launch.blocks : 1;
    switch (op) {
    case TERM_THREAD:
        return (Interval){0, threads - 1, 1, true};
    case TERM_THREADS:
        return point(threads);
    case TERM_BLOCK:
        return (Interval){0, blocks - 1, 1, true};
    case TERM_BLOCKS:
        return point(blocks);
    case TERM_FIRST:
        return (Interval){0, threads * blocks - 1, 1, true};
    default:
        return point(threads * blocks);
    }
}

static Interval bound_of_pair(ModuleCheck *check, const Term *term) {
    const Interval a = interval_of(check, term->args[0]), b = interval_of(check, term->args[1]);
    const bool certain = a.certain && b.certain;
    const int64_t unit = divisor(a.unit, b.unit);
    switch (term->op) {
    case TERM_ADD:
    case TERM_WHOLE_SUM:
    case TERM_ADDRESS:
        return bound_between((Wide)a.low + b.low, (Wide)a.high + b.high, unit, certain);
    case TERM_SUB:
    case TERM_WHOLE_DIFFERENCE:
        return bound_between((Wide)a.low - b.high, (Wide)a.high - b.low, unit, certain);
    case TERM_MUL:
    case TERM_WHOLE_PRODUCT:
        return product(a, b);
    case TERM_DIV:
    case TERM_WHOLE_QUOTIENT:
        return quotient_bound(a, b);
    case TERM_MOD:
    case TERM_REMAINDER:
    case TERM_WHOLE_REMAINDER:
        return rest_bound(a, b);
    case TERM_BIT_AND:
        return b.low >= 0 ? (Interval){0, b.high, 1, certain} : unknown;
    case TERM_LEAST:
    case TERM_LEAST_END:
        return smaller_bound(a, b);
    case TERM_GREATEST:
        return larger_bound(a, b);
    case TERM_COLUMN: /* see moec_column */
        return (Interval){a.low < b.high ? a.low : b.high - 1, b.high - 1, 1, certain};
    default:
        return unknown;
    }
}

static Interval bound_of_operation(ModuleCheck *check, const Term *term) {
    Interval a;
    switch (term->op) {
    case TERM_ELEMENT:
        return bound_of_element(check, term);
    case TERM_CAST:
        return bound_of_cast(check, term);
    case TERM_NEG:
        a = interval_of(check, term->args[0]);
        return bound_between(-(Wide)a.high, -(Wide)a.low, a.unit, a.certain);
    case TERM_SELECT:
        return either_bound(bound_where(check, term->args[0], true, term->args[1]),
                            bound_where(check, term->args[0], false, term->args[2]));
    case TERM_GUARDED:
        a = bound_where(check, term->args[0], true, term->args[1]);
        return either_bound(a, point(0));
    case TERM_SIGN:
    case TERM_SIGN_OF_REAL:
        return (Interval){-1, 1, 1, true};
    case TERM_WHOLE_SIZE:
        a = interval_of(check, term->args[0]);
        if (a.low >= 0) return a;
        a = larger_bound(a, bound_between(-(Wide)a.high, -(Wide)a.low, a.unit, a.certain));
        return larger_bound(a, point(0));
    case TERM_BLOCK_BEFORE:
        return bound_of_thread(check, TERM_THREAD);
    default:
        return term->count == 2 ? bound_of_pair(check, term) : unknown;
    }
}

Interval interval_of(ModuleCheck *check, const Term *term) {
    if (!term_is_integer(term)) return unknown;
    Interval bound;
    if (term->op == TERM_NUMBER)
        return point(term->whole);
    else if (term->op == TERM_NAME)
        bound = bound_of_name(check, term);
    else if (term->op >= TERM_THREAD && term->op <= TERM_STEP)
        bound = bound_of_thread(check, term->op);
    else if (term->type == T_BOOL)
        bound = (Interval){0, 1, 1, true};
    else
        bound = bound_of_operation(check, term);
    for (int i = 0; i < check->fact_count; i++) {
        const Fact *fact = &check->facts[i];
        if (!fact->term || !term_equal(fact->term, term)) continue;
        if (fact->low > bound.low) bound.low = fact->low;
        if (fact->high < bound.high) bound.high = fact->high;
        check->contradicts |= bound.low > bound.high;
    }
    return bound;
}

/* ---- conditions ---- */

static int64_t moved_end(int64_t end, int64_t by) {
    return end == INT64_MIN || end == INT64_MAX ? end : end + by;
}

static void fact_add(ModuleCheck *check, const Term *term, int64_t low, int64_t high);

/* The same limit for the variable of a sum or product with a number. */
static void fact_of_part(ModuleCheck *check, const Term *term, int64_t low, int64_t high) {
    const Term *a = term->args[0], *b = term->args[1];
    if (term->op == TERM_MUL && a->op == TERM_NUMBER) {
        a = b;
        b = term->args[0];
    }
    if (term->op == TERM_SUB && a->op == TERM_NUMBER)
        fact_add(check, b, high == INT64_MAX ? INT64_MIN : a->whole - high,
                 low == INT64_MIN ? INT64_MAX : a->whole - low);
    else if (b->op != TERM_NUMBER)
        return;
    else if (term->op == TERM_ADD)
        fact_add(check, a, moved_end(low, -b->whole), moved_end(high, -b->whole));
    else if (term->op == TERM_SUB)
        fact_add(check, a, moved_end(low, b->whole), moved_end(high, b->whole));
    else if (term->op == TERM_MUL && b->whole > 0)
        fact_add(check, a, low == INT64_MIN ? low : -floor_of(-low, b->whole),
                 high == INT64_MAX ? high : floor_of(high, b->whole));
}

/* Also for the value of a let. */
static void fact_add(ModuleCheck *check, const Term *term, int64_t low, int64_t high) {
    if (check->fact_count == MAX_FACTS) return;
    const Interval bound = interval_of(check, term);
    const bool never = bound.low > high || bound.high < low;
    if (never || term->op != TERM_NUMBER)
        check->facts[check->fact_count++] = (Fact){never ? NULL : term, low, high, false};
    if (never) return;
    const KnownVariable *known = term->op == TERM_NAME ? known_of(check, term) : NULL;
    if (known && known->value) fact_add(check, known->value, low, high);
    if (term->count == 2) fact_of_part(check, term, low, high);
}

/* a <= b + more, for all values of both. */
static void fact_of_order(ModuleCheck *check, const Term *a, const Term *b, int more) {
    const Interval low = interval_of(check, a), high = interval_of(check, b);
    if (high.high < INT64_MAX) fact_add(check, a, INT64_MIN, high.high + more);
    if (low.low > INT64_MIN) fact_add(check, b, low.low - more, INT64_MAX);
}

static bool is_truth(const Term *term) {
    return term->type == T_BOOL;
}

static void facts_of_comparison(ModuleCheck *check, const Term *condition, bool holds) {
    const Term *a = condition->args[0], *b = condition->args[1];
    switch (condition->op) {
    case TERM_LT:
        holds ? fact_of_order(check, a, b, -1) : fact_of_order(check, b, a, 0);
        break;
    case TERM_LE:
        holds ? fact_of_order(check, a, b, 0) : fact_of_order(check, b, a, -1);
        break;
    case TERM_GT:
        holds ? fact_of_order(check, b, a, -1) : fact_of_order(check, a, b, 0);
        break;
    case TERM_GE:
        holds ? fact_of_order(check, b, a, 0) : fact_of_order(check, a, b, -1);
        break;
    default: /* == and != */
        if (is_truth(a) && term_is_zero(b)) {
            facts_add(check, a, holds == (condition->op == TERM_NE));
        } else if (holds == (condition->op == TERM_EQ)) {
            fact_of_order(check, a, b, 0);
            fact_of_order(check, b, a, 0);
        }
    }
}

void facts_add(ModuleCheck *check, const Term *condition, bool holds) {
    const KnownVariable *known = condition->op == TERM_NAME ? known_of(check, condition) : NULL;
    if (known && known->value) {
        facts_add(check, known->value, holds);
    } else if (condition->op == TERM_NOT) {
        facts_add(check, condition->args[0], !holds);
    } else if (condition->op == TERM_CAST) {
        facts_add(check, condition->args[0], holds);
    } else if (condition->op == (holds ? TERM_AND : TERM_OR)) {
        facts_add(check, condition->args[0], holds);
        facts_add(check, condition->args[1], holds);
    } else if (condition->op >= TERM_EQ && condition->op <= TERM_GE &&
               term_is_integer(condition->args[0])) {
        facts_of_comparison(check, condition, holds);
    }
}

bool is_unreachable(const ModuleCheck *check) {
    for (int i = 0; i < check->fact_count; i++)
        if (!check->facts[i].term) return true;
    return false;
}

/* ---- loops ---- */

/* The value minus another one, if it is that plus a number, or the least of this and others. */
static bool distance_of(const ModuleCheck *check, const Term *term, const Term *from,
                        int64_t *distance) {
    const KnownVariable *known = term->op == TERM_NAME ? known_of(check, term) : NULL;
    if (known && known->value) return distance_of(check, known->value, from, distance);
    if (term->op == TERM_LEAST || term->op == TERM_LEAST_END)
        return distance_of(check, term->args[0], from, distance);
    if (term->op != TERM_ADD || term->args[1]->op != TERM_NUMBER ||
        !term_equal(term->args[0], from))
        return false;
    *distance = term->args[1]->whole;
    return true;
}

bool block_of_loop(const ModuleCheck *check, const FormNode *loop, int64_t *distance) {
    const Term *from = loop->values[0];
    return from->op == TERM_NAME && distance_of(check, loop->values[1], from, distance);
}

void facts_of_loop(ModuleCheck *check, const FormNode *loop) {
    int64_t distance;
    if (!block_of_loop(check, loop, &distance) || check->fact_count == MAX_FACTS) return;
    const Term *from_start = term(check->arena, TERM_SUB, loop->name, loop->values[0]);
    check->facts[check->fact_count++] = (Fact){from_start, 0, distance - 1, true};
}

bool bound_of_loop(ModuleCheck *check, const FormNode *loop, Interval *bound) {
    const Interval from = interval_of(check, loop->values[0]),
                   to = interval_of(check, loop->values[1]);
    int64_t step = loop->width > 1 ? loop->width : 1;
    if (loop->values[2]) step *= interval_of(check, loop->values[2]).unit;
    const int64_t unit = divisor(from.unit, step);
    const bool certain = from.certain && to.certain;
    *bound = bound_between(from.low, (Wide)to.high - 1, unit, certain);
    if (certain && bound->high >= 0 && unit) bound->high = bound->high / unit * unit;
    return !certain || bound->low <= bound->high;
}
