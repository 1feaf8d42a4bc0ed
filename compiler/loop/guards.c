/* guards: hoists loop-invariant values and conditions out of vectorized loops.
 *
 *     for c = 0 .. 64 vector                      let long at = s - 1 >= 0 ? (s - 1) * 64 : 0
 *         y[s * 64 + c] = w[c] *          -->     let unsigned inside = moec_mask(s - 1 >= 0)
 *             (s - 1 >= 0 ?                       for c = 0 .. 64 vector
 *              x[(s - 1) * 64 + c] : 0)               y[s * 64 + c] = w[c] *
 *                                                         moec_masked(x[at + c], inside)
 *
 * C compilers treat such conditions as branches and reload values that the loop may overwrite. Both
 * prevent vectorization. A condition around the whole body moves outside of the loop.
 */
#include "loop/form.h"

/* A vectorized loop and its insertion point. */
typedef struct Lanes {
    Arena *arena;
    FormBlock *block;
    FormNode *before; /* the node before the loop; NULL: the loop is first */
    FormNode *first;  /* first hoisted node; NULL: none yet */
    FormNode *loop;
} Lanes;

/* ---- loop-invariant values ---- */

static bool sets(const FormNode *node, const Term *term) {
    if (node->kind == FORM_SET && term_uses(term, term_stored(node->values[0]))) return true;
    for (const FormNode *inner = node->body.first; inner; inner = inner->next)
        if (sets(inner, term)) return true;
    return false;
}

/* True also for unknown variables. */
static bool declares(const FormNode *node, const Term *term) {
    if (node->name && term_uses(term, node->name)) return true;
    for (const FormNode *inner = node->body.first; inner; inner = inner->next)
        if (inner->kind == FORM_DO || declares(inner, term)) return true;
    return false;
}

static bool is_fixed(const Lanes *lanes, const Term *term) {
    return !sets(lanes->loop, term) && !declares(lanes->loop, term);
}

/* A real that is read under a condition, or a truth value. */
static bool is_choice(const Term *term) {
    return term->op == TERM_SELECT && term->type == T_F32;
}

static bool reads_or_asks(const Term *term) {
    if (term->op == TERM_ELEMENT || is_choice(term) || term->op == term_op(OP_WHERE, T_F32))
        return true;
    for (int i = 0; i < term->count; i++)
        if (reads_or_asks(term->args[i])) return true;
    return false;
}

/* ---- nodes before the loop ---- */

/* A variable before the loop with that value. */
static const Term *found_before(Lanes *lanes, const char *wanted, const Term *value) {
    for (FormNode *node = lanes->first; node && node != lanes->loop; node = node->next)
        if (term_equal(node->values[0], value)) return node->name;
    FormNode *let = form_insert(lanes->arena, lanes->block, lanes->before, FORM_LET);
    let->name = term_variable(lanes->arena, value->type, wanted);
    let->values[0] = value;
    let->optional = let->constant = true;
    if (!lanes->first) lanes->first = let;
    lanes->before = let;
    return let->name;
}

/* A subscript that stays inside the tensor if `guard` is false: its loop-invariant parts are 0
 * then. NULL: its form is unknown. */
static const Term *kept_inside(Lanes *lanes, const Term *guard, const Term *subscript) {
    Arena *arena = lanes->arena;
    if (term_equal(subscript, lanes->loop->name)) return subscript;
    if (is_fixed(lanes, subscript))
        return found_before(lanes, "at",
                            term(arena, TERM_SELECT, guard, subscript, term_whole(arena, 0)));
    bool sum = subscript->op == TERM_ADD, product = subscript->op == TERM_MUL;
    if (!sum && !(product && subscript->args[1]->op == TERM_NUMBER)) return NULL;
    const Term *a = kept_inside(lanes, guard, subscript->args[0]), *b = subscript->args[1];
    if (sum && a) b = kept_inside(lanes, guard, b);
    return a && b ? term(arena, subscript->op, a, b) : NULL;
}

/* ---- the loop ---- */

/* A read under a condition as a masked read without a branch, or NULL. */
static const Term *masked(Lanes *lanes, const Term *choice) {
    Arena *arena = lanes->arena;
    const Term *guard = choice->args[0], *read = choice->args[1], *place = read;
    while (place->count == 1) place = place->args[0];
    if (place->op != TERM_ELEMENT) return NULL;
    const Term *subscript = kept_inside(lanes, guard, place->args[1]);
    if (!subscript) return NULL;
    const Term *mask = found_before(lanes, "inside", term(arena, TERM_MASK, guard));
    const Term *safe = term_element(arena, place->args[0], subscript);
    return term(arena, TERM_MASKED, term_replace(arena, read, place, safe), mask);
}

/* Finds a subexpression with a replacement; sets `by`. */
static const Term *find_part(Lanes *lanes, const Term *part, const Term **by) {
    const Term *found = NULL;
    if (part->value != NO_VALUE && reads_or_asks(part) && is_fixed(lanes, part)) {
        *by = found_before(lanes, term_wanted(lanes->arena, part, "fixed"), part);
        return part;
    }
    for (int i = 0; i < part->count && !found; i++) found = find_part(lanes, part->args[i], by);
    if (found || !is_choice(part) || !is_fixed(lanes, part->args[0])) return found;
    *by = masked(lanes, part);
    return *by ? part : NULL;
}

static bool replace_one(Lanes *lanes, FormNode *first) {
    for (FormNode *node = first; node; node = node->next) {
        for (int i = 0; i < NODE_VALUES; i++) {
            const Term *by = NULL;
            const Term *part = node->values[i] ? find_part(lanes, node->values[i], &by) : NULL;
            if (!part) continue;
            bool all = node->kind == FORM_LET && part == node->values[i];
            if (all && !sets(lanes->loop, node->name)) {
                form_replace(lanes->arena, node->next, node->name, by);
                node->optional = true;
            }
            form_replace(lanes->arena, lanes->loop->body.first, part, by);
            return true;
        }
        if (replace_one(lanes, node->body.first)) return true;
    }
    return false;
}

/* Moves the loop into the condition that encloses its whole body; returns the node that is now
 * there. */
static FormNode *swap_with_condition(Lanes *lanes) {
    FormNode *loop = lanes->loop, *inner = loop->body.first;
    if (!inner || inner->next || inner->kind != FORM_IF || !is_fixed(lanes, inner->values[0]))
        return loop;
    FormNode *condition = form_insert(lanes->arena, lanes->block, lanes->before, FORM_IF);
    condition->values[0] = inner->values[0];
    condition->next = loop->next;
    if (lanes->block->last == loop) lanes->block->last = condition;
    loop->next = NULL;
    loop->body = inner->body;
    condition->body.first = condition->body.last = loop;
    return condition;
}

static void ask_before(Arena *arena, FormBlock *block) {
    FormNode *before = NULL;
    for (FormNode *node = block->first; node; before = node, node = node->next) {
        if (node->kind != FORM_FOR || !(node->run & RUN_VECTOR)) {
            ask_before(arena, &node->body);
            continue;
        }
        Lanes lanes = {.arena = arena, .block = block, .before = before, .loop = node};
        while (replace_one(&lanes, node->body.first)) continue;
        node = swap_with_condition(&lanes);
    }
}

void guards(Arena *arena, KernelForm *form, const Target *target) {
    (void)target;
    ask_before(arena, &form->block);
}
