/* check_digits: a subscript as a sum of digits with factors.
 *
 *     let b = iteration / 64               y[b * 512 + s * 8 + h]:
 *     let s = iteration % 64                   512 * (iteration / 64), 8 * (iteration % 64), h
 *
 * A digit is a loop variable, a part of one, or a term that is not split.
 */
#include "module/module_check.h"

#include <stdlib.h>

static bool same_digit_part(const Digit *a, const Digit *b) {
    return a->inner == b->inner && a->modulus == b->modulus && term_equal(a->of, b->of);
}

/* True for parts of one variable that determine each other in part. */
static bool digits_overlap(const Digit *a, const Digit *b) {
    if (!a->factor || !b->factor || !term_equal(a->of, b->of)) return false;
    const bool below = a->modulus && a->inner * a->modulus <= b->inner,
               above = b->modulus && b->inner * b->modulus <= a->inner;
    return !below && !above;
}

static void digit_add(Digits *digits, Digit digit) {
    for (int i = 0; i < digits->count; i++) {
        Digit *one = &digits->digits[i];
        if (!same_digit_part(one, &digit)) {
            digits->opaque |= digits_overlap(one, &digit);
            continue;
        }
        one->factor += digit.factor;
        return;
    }
    if (digits->count == MAX_DIGITS)
        digits->opaque = true;
    else
        digits->digits[digits->count++] = digit;
}

/* The values of a variable, as multiples of its unit. */
static Digit digit_of(ModuleCheck *check, const Term *term, int64_t factor) {
    const Interval bound = interval_of(check, term);
    const int64_t unit = bound.unit > 1 && bound.low == 0 ? bound.unit : 1;
    Digit digit = {.of = term, .inner = 1, .factor = factor * unit, .known = bound.certain};
    if (bound.certain) {
        digit.low = bound.low / unit;
        digit.high = bound.high / unit;
    }
    return digit;
}

static const Term *without_casts(const ModuleCheck *check, const Term *term) {
    while (term->op == TERM_CAST && term_is_integer(term->args[0])) term = term->args[0];
    const KnownVariable *known = term->op == TERM_NAME ? known_of(check, term) : NULL;
    return known && known->value && known->value->op == TERM_CAST
               ? without_casts(check, known->value)
               : term;
}

/* variable / inner % modulus: false for other terms. */
static bool split_part(Digits *digits, const Term *term, int64_t factor) {
    ModuleCheck *check = digits->check;
    int64_t inner = 1, modulus = 0;
    for (int i = 0; i < 2; i++) {
        if (term->op != (i ? TERM_DIV : TERM_MOD)) continue;
        const Interval by = interval_of(check, term->args[1]);
        if (by.low != by.high) return false;
        *(i ? &inner : &modulus) = by.low;
        term = without_casts(check, term->args[0]);
    }
    const KnownVariable *known = term->op == TERM_NAME ? known_of(check, term) : NULL;
    if (!known || known->value) return false;
    Digit digit = digit_of(check, term, factor);
    const int64_t unit = factor ? digit.factor / factor : 1;
    if (modulus || inner > 1) {
        digit.inner = inner;
        digit.modulus = modulus;
        if (inner > 1) digit.factor = factor;
        digit.low = inner > 1 ? digit.low * unit / inner : digit.low;
        digit.high = inner > 1 ? digit.high * unit / inner : digit.high;
        const int64_t most = modulus / (inner > 1 ? 1 : unit) - 1;
        if (modulus && (digit.high > most || !digit.known)) {
            digit.low = 0;
            digit.high = most;
            digit.known = true;
        }
    }
    digit_add(digits, digit);
    return true;
}

static void split_term(Digits *digits, const Term *term, int64_t factor);

static void add_scaled(Digits *digits, const Term *term, int64_t factor) {
    const Interval a = interval_of(digits->check, term->args[0]),
                   b = interval_of(digits->check, term->args[1]);
    if (b.low == b.high) {
        split_term(digits, term->args[0], factor * b.low);
    } else if (a.low == a.high) {
        split_term(digits, term->args[1], factor * a.low);
    } else {
        digits->opaque = true;
    }
}

/* True for a value that all iterations have. */
static bool is_constant_value(const ModuleCheck *check, const Term *term) {
    const KnownVariable *known = term->op == TERM_NAME ? known_of(check, term) : NULL;
    if (known && known->node) return known->value && is_constant_value(check, known->value);
    if (term->op >= TERM_THREAD && term->op <= TERM_STEP) return false;
    for (int i = 0; i < term->count; i++)
        if (!is_constant_value(check, term->args[i])) return false;
    return true;
}

static void add_other(Digits *digits, const Term *term, int64_t factor) {
    Digit digit = digit_of(digits->check, term, factor);
    digit.fixed = is_constant_value(digits->check, term);
    const bool varies = term->op == TERM_ELEMENT || !digit.known || digit.low < digit.high;
    digits->opaque |= varies && !digit.fixed && term->op != TERM_THREAD && term->op != TERM_BLOCK;
    digit_add(digits, digit);
}

/* A term that contains the parts of another one, which get no factor: the column of a thread, the
 * index of a loop over a block. */
static void add_whole(Digits *digits, const Term *whole, const Term *part, int64_t factor) {
    Digit digit = digit_of(digits->check, whole, factor);
    digit.whole = true;
    digit_add(digits, digit);
    split_term(digits, part, 0);
}

/* A loop over a block: its index, from the first value on. */
static bool add_block_index(Digits *digits, const Term *name, const FormNode *loop,
                            int64_t factor) {
    int64_t distance;
    if (loop->kind != FORM_FOR || !block_of_loop(digits->check, loop, &distance)) return false;
    add_whole(digits, name, loop->values[0], factor);
    return true;
}

static bool varies_with(const ModuleCheck *check, const Term *term, const Term *variable) {
    const KnownVariable *known = term->op == TERM_NAME ? known_of(check, term) : NULL;
    if (known && known->value) return varies_with(check, known->value, variable);
    if (term->op == TERM_NAME) return term_equal(term, variable);
    for (int i = 0; i < term->count; i++)
        if (varies_with(check, term->args[i], variable)) return true;
    return false;
}

/* A sum that a condition limits more than its parts is not split. */
static bool stays_whole(const Digits *digits, const Term *term) {
    const ModuleCheck *check = digits->check;
    if (term->op != TERM_ADD || !digits->variable || term->args[1]->op == TERM_NUMBER) return false;
    for (int i = 0; i < check->fact_count; i++)
        if (check->facts[i].term && term_equal(check->facts[i].term, term))
            return !varies_with(check, term, digits->variable);
    return false;
}

/* (x + c) & 1, the slot of a carried value: x & 1, or 1 - (x & 1) for an odd c. */
static bool split_parity(Digits *digits, const Term *slot, int64_t factor) {
    Arena *arena = digits->check->arena;
    const Term *sum = slot->args[0], *mask = slot->args[1];
    if (mask->op != TERM_NUMBER || mask->whole != 1 || sum->op != TERM_ADD ||
        sum->args[1]->op != TERM_NUMBER)
        return false;
    const bool odd = sum->args[1]->whole & 1;
    if (odd) digits->constant += factor;
    split_term(digits, term(arena, TERM_BIT_AND, sum->args[0], term_whole(arena, 1)),
               odd ? -factor : factor);
    return true;
}

static void split_term(Digits *digits, const Term *term, int64_t factor) {
    const KnownVariable *known = term->op == TERM_NAME ? known_of(digits->check, term) : NULL;
    if (stays_whole(digits, term)) {
        digit_add(digits, digit_of(digits->check, term, factor));
        return;
    }
    switch (term->op) {
    case TERM_NUMBER:
        digits->constant += factor * term->whole;
        return;
    case TERM_ADD:
        split_term(digits, term->args[0], factor);
        split_term(digits, term->args[1], factor);
        return;
    case TERM_SUB:
        split_term(digits, term->args[0], factor);
        split_term(digits, term->args[1], -factor);
        return;
    case TERM_MUL:
        add_scaled(digits, term, factor);
        return;
    case TERM_COLUMN:
        add_whole(digits, term, term->args[0], factor);
        return;
    case TERM_BIT_AND:
        if (split_parity(digits, term, factor)) return;
        break;
    default:
        break;
    }
    if (term->op == TERM_CAST && term_is_integer(term->args[0]))
        split_term(digits, term->args[0], factor);
    else if (known && known->value)
        split_term(digits, known->value, factor);
    else if (known && known->node && add_block_index(digits, term, known->node, factor))
        return;
    else if (!split_part(digits, term, factor))
        add_other(digits, term, factor);
}

Digits subscript_digits(ModuleCheck *check, const Event *access, const Term *variable) {
    Digits digits = {.check = check, .variable = variable};
    check->fact_count = access->fact_count;
    for (int i = 0; i < access->fact_count; i++) check->facts[i] = access->facts[i];
    if (access->subscript) split_term(&digits, access->subscript, 1);
    check->fact_count = 0;
    return digits;
}

bool digits_cover(const Digits *digits, const Term *variable) {
    const Interval bound = interval_of(digits->check, variable);
    const int64_t unit = bound.unit > 1 && bound.low == 0 ? bound.unit : 1;
    int64_t reached = unit;
    for (bool found = true; found && reached <= bound.high;) {
        found = false;
        for (int i = 0; i < digits->count && !found; i++) {
            const Digit *digit = &digits->digits[i];
            const int64_t inner = digit->inner == 1 ? unit : digit->inner;
            if (!term_equal(digit->of, variable) || inner != reached) continue;
            if (!digit->modulus) return true;
            if (digit->high > 0) found = true;
            reached *= digit->high + 1;
        }
    }
    return reached > bound.high;
}

bool digits_limited(const Event *access) {
    for (int i = 0; i < access->fact_count; i++) {
        const Fact *fact = &access->facts[i];
        if (fact->term && fact->term->count == 2 && !fact->of_loop &&
            fact->term->args[1]->op != TERM_THREAD)
            return true;
    }
    return false;
}

/* ---- elements of two accesses ---- */

/* A difference of two digits, or one digit: factor * (low .. high). */
typedef struct Spread {
    int64_t factor, low, high;
    bool of_thread; /* 0: the same thread */
} Spread;

typedef struct Spreads {
    Spread spreads[2 * MAX_DIGITS + 1];
    int count;
    int steps; /* of the search so far; it ends after MAX_STEPS */
} Spreads;

enum { MAX_STEPS = 200 };

static void spread_add(Spreads *spreads, Spread spread) {
    if (spread.factor < 0)
        spread = (Spread){-spread.factor, -spread.high, -spread.low, spread.of_thread};
    if (!spread.factor || (!spread.low && !spread.high)) return;
    for (int i = 0; i < spreads->count; i++) {
        Spread *one = &spreads->spreads[i];
        if (one->factor != spread.factor || one->of_thread || spread.of_thread) continue;
        one->low += spread.low;
        one->high += spread.high;
        return;
    }
    spreads->spreads[spreads->count++] = spread;
}

static int by_spread_factor(const void *a, const void *b) {
    const int64_t one = ((const Spread *)a)->factor, other = ((const Spread *)b)->factor;
    return one < other ? 1 : one > other ? -1 : 0;
}

static int64_t lowest(const Spreads *spreads, int from) {
    int64_t sum = 0;
    for (int i = from; i < spreads->count; i++)
        sum += spreads->spreads[i].factor * spreads->spreads[i].low;
    return sum;
}

static int64_t highest(const Spreads *spreads, int from) {
    int64_t sum = 0;
    for (int i = from; i < spreads->count; i++)
        sum += spreads->spreads[i].factor * spreads->spreads[i].high;
    return sum;
}

/* The quotient, rounded down. */
static int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}

/* True if some of their values have this sum; apart: of different threads. */
static bool have_sum(Spreads *spreads, int from, int64_t sum, bool apart) {
    if (++spreads->steps > MAX_STEPS) return true;
    if (sum < lowest(spreads, from) || sum > highest(spreads, from)) return false;
    if (from == spreads->count) return apart;
    const Spread *spread = &spreads->spreads[from];
    const int64_t least = lowest(spreads, from + 1), most = highest(spreads, from + 1);
    int64_t value = -floor_div(most - sum, spread->factor),
            last = floor_div(sum - least, spread->factor);
    if (value < spread->low) value = spread->low;
    if (last > spread->high) last = spread->high;
    for (; value <= last; value++)
        if (have_sum(spreads, from + 1, sum - value * spread->factor,
                     apart || (spread->of_thread && value != 0)))
            return true;
    return false;
}

/* The same part with the same factor, or with any factor if its value is the same in both. */
static const Digit *same_digit(const Digits *digits, const Digit *part) {
    for (int i = 0; i < digits->count; i++)
        if (same_digit_part(&digits->digits[i], part) &&
            (part->fixed || digits->digits[i].factor == part->factor))
            return &digits->digits[i];
    return NULL;
}

static bool is_held(const Term *const *held, const Term *name) {
    for (; *held; held++)
        if (term_equal(*held, name)) return true;
    return false;
}

/* The values of a digit of one access, less those of the same digit of the other one. */
static Spread digit_spread(const Digit *one, const Digit *other) {
    return (Spread){one->factor, one->low - (other ? other->high : 0),
                    one->high - (other ? other->low : 0), false};
}

static void add_spreads(Spreads *spreads, const Digits *one, const Digits *other, bool second,
                        const AccessPair *pair) {
    for (int i = 0; i < one->count; i++) {
        const Digit *digit = &one->digits[i], *same = same_digit(other, digit);
        if (same && (second || is_held(pair->held, digit->of))) continue;
        Spread spread = digit_spread(digit, same);
        if (same && digit->fixed)
            spread = (Spread){digit->factor - same->factor, digit->low, digit->high, false};
        if (second) spread.factor = -spread.factor;
        spread.of_thread =
            same && pair->variable && (digit->whole || term_equal(digit->of, pair->variable));
        spread_add(spreads, spread);
    }
}

bool digits_known(const Digits *digits) {
    for (int i = 0; i < digits->count; i++)
        if (digits->digits[i].factor && !digits->digits[i].known) return false;
    return true;
}

bool digits_meet(const Digits *a, const Digits *b, AccessPair *pair) {
    Spreads spreads = {.count = 0};
    if (!digits_known(a) || !digits_known(b)) return false;
    add_spreads(&spreads, a, b, false, pair);
    add_spreads(&spreads, b, a, true, pair);
    spread_add(&spreads, (Spread){1, -(pair->widths[1] - 1), pair->widths[0] - 1, false});
    qsort(spreads.spreads, (size_t)spreads.count, sizeof *spreads.spreads, by_spread_factor);
    const bool apart =
        !pair->variable || !digits_cover(a, pair->variable) || !digits_cover(b, pair->variable);
    const bool meet = have_sum(&spreads, 0, b->constant - a->constant, apart);
    pair->undecided = spreads.steps > MAX_STEPS;
    return meet;
}
