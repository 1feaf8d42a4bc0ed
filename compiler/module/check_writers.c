/* check_writers: one thread stores to each element.
 *
 *     for iteration by blocks               y: 64 * iteration + s: every pair (iteration, s) has
 *         for s = 0 .. 64 by threads            its own element
 *             y[64 * iteration + s] = ...
 *
 * The loops whose iterations belong to different threads must be among the digits of the subscript,
 * completely; a factor is larger than the sum of all smaller digits. A condition may also select
 * one thread.
 */
#include "module/module_check.h"

#include <stdlib.h>

/* ---- the threads of a store ---- */

/* Loops whose iterations belong to different threads, and the conditions that select one. */
typedef struct Threads {
    const Term *loops[MAX_DIGITS];
    int count;
    bool blocks, threads; /* the loops or conditions select one of all blocks, of its threads */
    bool independent;     /* by the relation of a loop */
} Threads;

const Term *thread_selected(const Term *condition) {
    if (condition->op == TERM_AND) {
        const Term *first = thread_selected(condition->args[0]);
        return first ? first : thread_selected(condition->args[1]);
    }
    const Term *a = condition->op == TERM_EQ ? condition->args[0] : NULL;
    const bool selects =
        a && (a->op == TERM_THREAD || (a->op == TERM_ADD && a->args[1]->op == TERM_THREAD));
    return selects ? condition : NULL;
}

static void add_thread_loop(Threads *threads, const FormNode *loop) {
    if (threads->count < MAX_DIGITS) threads->loops[threads->count++] = loop->name;
    threads->blocks |= loop->by == BY_ALL || loop->by == BY_BLOCKS || loop->by == BY_COLUMNS;
    threads->threads |= loop->by == BY_ALL || loop->by == BY_THREADS || loop->by == BY_COLUMN;
}

/* in_block: the array belongs to the block. */
static Threads store_threads(const ModuleCheck *check, const Event *store, bool in_block) {
    Threads threads = {.blocks = in_block || check->launch.blocks <= 1};
    for (int i = store->region; i >= 0; i = check->regions[i].outer) {
        const FormNode *node = check->regions[i].node;
        if (!node) continue;
        threads.independent |= node->independent;
        if (node->kind == FORM_IF && thread_selected(node->values[0])) threads.threads = true;
        if (node->kind != FORM_FOR) continue;
        if (node->by == BY_THE_FIRST) threads.threads = true;
        const bool of_blocks = node->by == BY_BLOCKS || node->by == BY_COLUMNS;
        if (on_device(check)
                ? node->by != BY_ONE && node->by != BY_THE_FIRST && !(in_block && of_blocks)
                : node->run & RUN_PARALLEL)
            add_thread_loop(&threads, node);
    }
    return threads;
}

/* ---- decision ---- */

static bool has_digit(const Digits *digits, TermOp op) {
    for (int i = 0; i < digits->count; i++) {
        const Term *of = digits->digits[i].of;
        const KnownVariable *known = of->op == TERM_NAME ? known_of(digits->check, of) : NULL;
        const Term *value = known && known->node ? known->node->values[0] : NULL;
        if (of->op == op) return true;
        /* a number of its own for each thread */
        if (op == TERM_THREAD && known && known->node->kind == FORM_LET && value &&
            value->op == TERM_BLOCK_BEFORE)
            return true;
    }
    return false;
}

static int by_digit_factor(const void *a, const void *b) {
    const int64_t one = llabs(((const Digit *)a)->factor),
                  other = llabs(((const Digit *)b)->factor);
    return one < other ? -1 : one > other;
}

static bool belongs_to(const Threads *threads, const Digit *digit) {
    if (digit->whole || digit->of->op == TERM_THREAD || digit->of->op == TERM_BLOCK) return true;
    for (int i = 0; i < threads->count; i++)
        if (term_equal(threads->loops[i], digit->of)) return true;
    return false;
}

/* True if different digits have different sums. Digits of one thread below all others may overlap
 * each other. The largest one may be of unknown size. */
static bool is_injective(Digits *digits, const Threads *threads, long width) {
    int64_t sum = width - 1;
    bool others = true, unbounded = false;
    qsort(digits->digits, (size_t)digits->count, sizeof *digits->digits, by_digit_factor);
    for (int i = 0; i < digits->count; i++) {
        const Digit *digit = &digits->digits[i];
        const bool single = digit->known && digit->low == digit->high;
        if (!digit->factor || digit->fixed || single) continue;
        if (unbounded) return false;
        others &= !belongs_to(threads, digit);
        if (!others && llabs(digit->factor) <= sum) return false;
        unbounded = !digit->known;
        if (digit->known) sum += llabs(digit->factor) * (digit->high - digit->low);
    }
    return true;
}

static void check_store(ModuleCheck *check, const Event *store) {
    const KnownVariable *known = known_of(check, store->array);
    const Threads threads = store_threads(check, store, known && known->node);
    if (!threads.count && !on_device(check)) return;
    Digits digits = subscript_digits(check, store, NULL);
    const Term *missing = NULL;
    for (int i = 0; i < threads.count; i++)
        if (!digits_cover(&digits, threads.loops[i])) missing = threads.loops[i];
    bool all = !on_device(check) || ((threads.threads || has_digit(&digits, TERM_THREAD)) &&
                                     (threads.blocks || has_digit(&digits, TERM_BLOCK)));
    if (!store->subscript || ((missing || !all) && digits.opaque)) {
        if (!threads.independent && store->subscript)
            term_unproven(check, FAULT_WRITER, store->subscript);
    } else if (missing || !all) {
        fault_found(check, FAULT_WRITER, "'%s[%s]' is stored by several %s",
                    term_text(check->module->arena, store->array),
                    term_text(check->module->arena, store->subscript),
                    missing ? "iterations" : "threads");
    } else if (!is_injective(&digits, &threads, store->width)) {
        if (digits.opaque || digits_limited(store) || !digits_known(&digits))
            term_unproven(check, FAULT_WRITER, store->subscript);
        else
            fault_found(check, FAULT_WRITER, "'%s[%s]' is one element in several iterations",
                        term_text(check->module->arena, store->array),
                        term_text(check->module->arena, store->subscript));
    }
}

void check_writers(ModuleCheck *check) {
    if (on_device(check) && !(check->module->properties & HAS_OWNERS)) return;
    for (int i = 0; i < check->event_count; i++) {
        const Event *event = &check->events[i];
        if (event->kind == EVENT_WRITE || event->kind == EVENT_ADD) check_store(check, event);
    }
}
