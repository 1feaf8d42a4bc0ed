/* check_walk: the events of a kernel in the order of its nodes, and the bounds of its subscripts.
 *
 * An element outside of its array is a fault. If the subscript depends on values that are known at
 * run time only, the access is unproven.
 */
#include "module/module_check.h"

#include <string.h>

/* ---- events ---- */

static Event *event_add(ModuleCheck *check, EventKind kind, int region, const FormNode *node) {
    check->events = with_room(check->arena, check->events, check->event_count,
                              &check->event_capacity, sizeof *check->events);
    Event *event = &check->events[check->event_count++];
    *event = (Event){.kind = kind, .region = region, .node = node};
    return event;
}

static int region_open(ModuleCheck *check, const FormNode *node, int outer) {
    check->regions = with_room(check->arena, check->regions, check->region_count,
                               &check->region_capacity, sizeof *check->regions);
    const int region = check->region_count++;
    check->regions[region] = (EventRegion){node, outer};
    event_add(check, EVENT_OPEN, region, node);
    return region;
}

/* ---- arrays ---- */

/* The parameter that points to the array, or NULL. */
static const Param *param_of(const ModuleCheck *check, const Variable *array) {
    LIST_EACH(const Param, param, &check->kernel->params)
        if (param->kind == PARAM_POINTER ? param->buffer->tensor == array->tensor
                                         : param->kind == PARAM_SCRATCH && array->name &&
                                               strcmp(param->name, array->name) == 0)
            return param;
    return NULL;
}

/* An array that no node declares: the memory of a tensor, or scratch memory. Stores of templates
 * and the optimizer get their arrays in other ways. */
static KnownVariable *memory_array(ModuleCheck *check, const Term *array) {
    KnownVariable *known = known_add(check, array);
    const Param *param = param_of(check, array->variable);
    if (!param && check->kernel->params.count)
        fault_found(check, FAULT_SCOPE, "'%s' is no parameter",
                    term_text(check->module->arena, array));
    known->elements = memory_elements(check, array);
    if (param && param->kind == PARAM_SCRATCH)
        known->elements = (long)((check->entry->arena_bytes - param->offset) / sizeof(float));
    return known;
}

/* ---- bounds ---- */

/* `elements` subscripts from 0 on, -1: unknown. */
static void check_bounds(ModuleCheck *check, const Term *element, Interval bound, long elements) {
    if (elements < 0) {
        term_unproven(check, FAULT_BOUNDS, element);
    } else if (bound.low < 0 || bound.high >= elements) {
        if (bound.certain)
            fault_found(check, FAULT_BOUNDS, "'%s' has a subscript of %ld .. %ld and %ld elements",
                        term_text(check->module->arena, element), (long)bound.low, (long)bound.high,
                        elements);
        else
            term_unproven(check, FAULT_BOUNDS, element);
    }
}

/* True for an array that only one thread accesses: declared in its iteration. */
static bool is_private(const ModuleCheck *check, const KnownVariable *known, int region) {
    if (!known->node || known->node->shared) return false;
    for (; region != known->region && !on_device(check); region = check->regions[region].outer)
        if (check->regions[region].node->run & RUN_PARALLEL) return false;
    return true;
}

/* An access to `width` adjacent elements. */
static void access_element(ModuleCheck *check, EventKind kind, const Term *element, long width,
                           const FormNode *node, int region) {
    const Term *array = term_stored(element), *inner = element->args[0];
    KnownVariable *known = known_of(check, array);
    if (!known) known = memory_array(check, array);
    if (is_unreachable(check)) return;
    check->contradicts = false;
    Interval bound = interval_of(check, element->args[1]);
    if (check->contradicts) return;
    if (bound.high < INT64_MAX) bound.high += width - 1;
    check_bounds(check, element, bound, known->row ? known->row : known->elements);
    if (inner->op == TERM_ELEMENT)
        check_bounds(check, inner, interval_of(check, inner->args[1]),
                     known->elements / known->row);
    if (is_private(check, known, region)) return;
    Event *event = event_add(check, kind, region, node);
    event->array = array;
    event->subscript = inner->op == TERM_ELEMENT ? inner->args[1] : element->args[1];
    event->bound = bound;
    event->width = width;
    event->masked = check->masked;
    event->guarded = check->fact_count > 0 || check->masked;
    if (!check->fact_count) return;
    Fact *facts = arena_alloc(check->arena, (size_t)check->fact_count * sizeof *facts);
    memcpy(facts, check->facts, (size_t)check->fact_count * sizeof *facts);
    event->facts = facts;
    event->fact_count = check->fact_count;
}

/* ---- terms ---- */

static void walk_term(ModuleCheck *check, const Term *term, const FormNode *node, int region);

static void walk_where(ModuleCheck *check, const Term *condition, bool holds, const Term *term,
                       const FormNode *node, int region) {
    const int facts = check->fact_count;
    facts_add(check, condition, holds);
    walk_term(check, term, node, region);
    check->fact_count = facts;
}

/* The reductions of a block contain barriers. */
static bool has_barrier(TermOp op) {
    return (op >= TERM_BLOCK_SUM && op <= TERM_COLUMN_MIN) || op == TERM_BLOCK_BEFORE;
}

static void walk_term(ModuleCheck *check, const Term *term, const FormNode *node, int region) {
    if (!term->count) return;
    if (term->op == TERM_ELEMENT) {
        for (const Term *at = term; at->op == TERM_ELEMENT; at = at->args[0])
            walk_term(check, at->args[1], node, region);
        access_element(check, EVENT_READ, term, 1, node, region);
        return;
    }
    const bool masked = check->masked;
    check->masked |= term->op == TERM_MASKED || term->op == term_op(OP_WHERE, T_F32);
    walk_term(check, term->args[0], node, region);
    const bool choice = term->op == TERM_SELECT || term->op == TERM_GUARDED;
    if (choice || term->op == TERM_AND || term->op == TERM_OR) {
        walk_where(check, term->args[0], term->op != TERM_OR, term->args[1], node, region);
        if (term->count > 2) walk_where(check, term->args[0], false, term->args[2], node, region);
        return;
    }
    for (int i = 1; i < term->count; i++) walk_term(check, term->args[i], node, region);
    check->masked = masked;
    if (has_barrier(term->op)) event_add(check, EVENT_BARRIER, region, node);
}

/* ---- nodes ---- */

static void walk_block(ModuleCheck *check, const FormBlock *block, int region);

static void declare(ModuleCheck *check, const FormNode *let, int region) {
    const Term *value = let->values[0];
    KnownVariable *known = known_add(check, let->name);
    known->node = let;
    known->region = region;
    known->elements = let->size * (let->rows ? let->rows : 1);
    known->row = let->rows ? let->size : 0;
    if (!let->size && let->constant && value && term_is_integer(let->name)) {
        const Interval bound = interval_of(check, value); /* may move the records */
        known = known_of(check, let->name);
        known->value = value;
        known->bound = bound;
    }
}

static void walk_for(ModuleCheck *check, const FormNode *loop, int region) {
    Interval bound;
    for (int i = 0; i < 3; i++)
        if (loop->values[i]) walk_term(check, loop->values[i], loop, region);
    if (!bound_of_loop(check, loop, &bound)) return;
    KnownVariable *known = known_add(check, loop->name);
    known->node = loop;
    known->bound = bound;
    const int inside = region_open(check, loop, region);
    const int facts = check->fact_count;
    if (loop->values[3]) walk_term(check, loop->values[3], loop, inside);
    facts_of_loop(check, loop);
    walk_block(check, &loop->body, inside);
    check->fact_count = facts;
    event_add(check, EVENT_CLOSE, inside, loop);
}

static bool leaves_loop(const FormNode *node) {
    const TermOp op = node->kind == FORM_DO ? node->values[0]->op : TERM_NAME;
    return op == TERM_BREAK || op == TERM_CONTINUE;
}

/* If its body leaves the loop, the condition is false from then on. */
static void walk_if(ModuleCheck *check, const FormNode *node, int region) {
    const int facts = check->fact_count;
    walk_term(check, node->values[0], node, region);
    const int inside = region_open(check, node, region);
    facts_add(check, node->values[0], true);
    walk_block(check, &node->body, inside);
    check->fact_count = facts;
    event_add(check, EVENT_CLOSE, inside, node);
    if (node->body.first && leaves_loop(node->body.first)) facts_add(check, node->values[0], false);
}

static void walk_set(ModuleCheck *check, const FormNode *set, int region) {
    const Term *target = set->values[0];
    walk_term(check, set->values[1], set, region);
    if (target->op != TERM_ELEMENT) return;
    for (const Term *at = target; at->op == TERM_ELEMENT; at = at->args[0])
        walk_term(check, at->args[1], set, region);
    access_element(check, set->reduces == REDUCE_NONE ? EVENT_WRITE : EVENT_ADD, target, 1, set,
                   region);
}

/* Elements that move between the lanes of a thread and memory: all, or those of a parameter. */
static void walk_move(ModuleCheck *check, const FormNode *node, EventKind kind, int region) {
    const Term *move = node->values[0], *lanes = move->args[0];
    const KnownVariable *known = known_of(check, lanes);
    const long width = known && move->count == 2 ? known->elements : 1;
    walk_term(check, move->args[1]->args[1], node, region);
    const int events = check->event_count;
    access_element(check, kind, move->args[1], width, node, region);
    if (check->event_count > events) check->events[events].width = known ? known->elements : 1;
}

/* An array that a template accesses. */
static void access_array(ModuleCheck *check, EventKind kind, const Term *address,
                         const FormNode *node, int region) {
    const Term *array = term_stored(address);
    if (!known_of(check, array)) memory_array(check, array);
    event_add(check, kind, region, node)->array = array;
}

static void walk_do(ModuleCheck *check, const FormNode *node, int region) {
    const Term *call = node->values[0];
    switch (call->op) {
    case TERM_READ:
    case TERM_READ_UP_TO:
        walk_move(check, node, EVENT_READ, region);
        break;
    case TERM_WRITE:
    case TERM_WRITE_UP_TO:
        walk_move(check, node, EVENT_WRITE, region);
        break;
    case TERM_ADD_ROWS:
        for (int i = 1; i < 7; i++)
            if (i < 3 || i == 5) access_array(check, EVENT_READ, call->args[i], node, region);
        access_array(check, EVENT_ADD, call->args[6], node, region);
        break;
    default:
        walk_term(check, call, node, region);
    }
}

static void walk_node(ModuleCheck *check, const FormNode *node, int region) {
    switch (node->kind) {
    case FORM_FOR:
        walk_for(check, node, region);
        break;
    case FORM_LET:
        if (node->values[0]) walk_term(check, node->values[0], node, region);
        declare(check, node, region);
        break;
    case FORM_SET:
        walk_set(check, node, region);
        break;
    case FORM_IF:
        walk_if(check, node, region);
        break;
    case FORM_SCOPE:
    case FORM_GROUP:
        walk_block(check, &node->body, region);
        break;
    case FORM_BARRIER:
        event_add(check, EVENT_BARRIER, region, node);
        break;
    case FORM_DO:
        walk_do(check, node, region);
        break;
    }
}

static void walk_block(ModuleCheck *check, const FormBlock *block, int region) {
    const int facts = check->fact_count;
    for (const FormNode *node = block->first; node; node = node->next)
        walk_node(check, node, region);
    check->fact_count = facts;
}

void walk_kernel(ModuleCheck *check, const LoopKernel *kernel, Launch launch) {
    check->kernel = kernel;
    check->launch = launch;
    check->known_count = check->fact_count = check->region_count = check->event_count = 0;
    walk_block(check, &kernel->form.block, region_open(check, NULL, -1));
}
