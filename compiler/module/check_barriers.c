/* check_barriers: no thread accesses an element that another one stores at the same time.
 *
 *     for s by threads              row[s]: by the thread of s
 *         row[s] = x[s]
 *     barrier                       without it a fault
 *     for s by threads
 *         y[s] = row[63 - s]        row[63 - s]: by another thread
 *
 * The events of a kernel are walked in order, the bodies of loops twice. Two accesses of one array,
 * one of them a store, need a barrier between them unless the same thread does both. No barrier is
 * in a loop or under a condition that only some threads of a block execute. Blocks of a GPU, and
 * iterations of a parallel loop of a CPU, have no barriers.
 */
#include "module/module_check.h"

/* An access since the last barrier. */
typedef struct Pending {
    const Event *event;
    int time;
} Pending;

/* Parts of a kernel that are executed at the same time. */
typedef enum Level { THREADS_OF_BLOCK, BLOCKS_OF_GRID, THREADS_OF_CPU } Level;

typedef struct Barriers {
    ModuleCheck *check;
    Level level;
    Pending *pending;
    int count, capacity;
    int time;              /* accesses so far */
    int *starts;           /* by region: the time at which the current iteration of a loop began */
    int accesses;          /* that matter: see Event.number */
    const Digits **digits; /* by number: the subscript */
    bool *apart;           /* by number of two accesses: they never meet */
} Barriers;

/* ---- threads ---- */

/* True for a value that may differ between the threads of a block. */
static bool varies(const Barriers *barriers, const Term *term) {
    const ModuleCheck *check = barriers->check;
    if (term->op == TERM_THREAD || term->op == TERM_FIRST || term->op == TERM_COLUMN) return true;
    if (term->op >= TERM_BLOCK_SUM && term->op <= TERM_BLOCK_MIN) return false;
    const KnownVariable *known = term->op == TERM_NAME ? known_of(check, term) : NULL;
    if (known && known->node && known->node->kind == FORM_FOR)
        return known->node->by != BY_ONE && known->node->by != BY_BLOCKS &&
               known->node->by != BY_COLUMNS;
    if (known && known->value) return varies(barriers, known->value);
    for (int i = 0; i < term->count; i++)
        if (varies(barriers, term->args[i])) return true;
    return false;
}

static bool divides(const Barriers *barriers, const FormNode *node) {
    if (!node) return false;
    if (barriers->level == THREADS_OF_CPU) return node->run & RUN_PARALLEL;
    if (barriers->level == BLOCKS_OF_GRID)
        return node->by == BY_ALL || node->by == BY_BLOCKS || node->by == BY_COLUMNS;
    if (node->kind == FORM_IF) return varies(barriers, node->values[0]);
    return node->by == BY_ALL || node->by == BY_THREADS || node->by == BY_COLUMN ||
           node->by == BY_THE_FIRST;
}

/* True if only some threads of the block execute the event, or not together. */
static bool is_divided(const Barriers *barriers, const Event *event) {
    const ModuleCheck *check = barriers->check;
    for (int i = event->region; i >= 0; i = check->regions[i].outer)
        if (divides(barriers, check->regions[i].node)) return true;
    return false;
}

/* The innermost loop that distributes an access among threads, or condition that selects a thread;
 * NULL: all threads do the same. */
static const FormNode *divider_of(const Barriers *barriers, const Event *event) {
    const ModuleCheck *check = barriers->check;
    for (int i = event->region; i >= 0; i = check->regions[i].outer) {
        const FormNode *node = check->regions[i].node;
        const bool selects = node && node->kind == FORM_IF && barriers->level == THREADS_OF_BLOCK;
        if (selects ? thread_selected(node->values[0]) != NULL : divides(barriers, node))
            return node;
    }
    return NULL;
}

/* The condition for the only thread, or NULL. */
static const Term *only_thread(const FormNode *divider) {
    return divider && divider->kind == FORM_IF ? thread_selected(divider->values[0]) : NULL;
}

static bool contains(const ModuleCheck *check, int outer, int region) {
    while (region > outer) region = check->regions[region].outer;
    return region == outer;
}

/* Loops that all threads of the block execute and whose iteration is the same at both events. */
static void find_held(const Barriers *barriers, const Pending *before, const Event *event,
                      AccessPair *meeting) {
    const ModuleCheck *check = barriers->check;
    int count = 0;
    for (int i = event->region; i >= 0; i = check->regions[i].outer) {
        const FormNode *node = check->regions[i].node;
        if (!node || node->kind != FORM_FOR) continue;
        if (divides(barriers, node))
            count = 0;
        else if (contains(check, i, before->event->region) && before->time >= barriers->starts[i] &&
                 count < MAX_DIGITS)
            meeting->held[count++] = node->name;
    }
    meeting->held[count] = NULL;
}

static const Digits *digits_at(const Barriers *barriers, const Event *access,
                               const Term *variable) {
    const Digits **digits = &barriers->digits[access->number];
    if (!*digits || (*digits)->variable != variable) {
        Digits *made = arena_alloc(barriers->check->arena, sizeof *made);
        *made = subscript_digits(barriers->check, access, variable);
        *digits = made;
    }
    return *digits;
}

static bool same_thread(const FormNode *one, const FormNode *other) {
    if (!one || !other) return false;
    if (one->by == BY_THE_FIRST && other->by == BY_THE_FIRST) return true;
    return only_thread(one) && only_thread(other) &&
           term_equal(only_thread(one), only_thread(other));
}

/* True if the accesses never meet, in any iterations of their loops. */
static bool always_agree(const Barriers *barriers, const Event *a, const Event *b,
                         AccessPair *meeting) {
    const FormNode *one = divider_of(barriers, a), *other = divider_of(barriers, b);
    if (a->kind == EVENT_READ && b->kind == EVENT_READ) return true;
    if (barriers->level != THREADS_OF_BLOCK && !one && !other) return true;
    if (same_thread(one, other)) return true;
    if (!a->subscript || !b->subscript) return false;
    if (one && one == other && one->kind == FORM_FOR) meeting->variable = one->name;
    const Digits *of_a = digits_at(barriers, a, meeting->variable),
                 *of_b = digits_at(barriers, b, meeting->variable);
    if (a == b && of_a->opaque) return true; /* see check_writers.c */
    return !digits_meet(of_a, of_b, meeting);
}

static bool *apart_at(const Barriers *barriers, const Event *a, const Event *b) {
    return &barriers->apart[a->number * barriers->accesses + b->number];
}

/* Finds the accesses that never meet. False: there are no others. */
static bool find_apart(Barriers *barriers) {
    const ModuleCheck *check = barriers->check;
    bool meet = false;
    for (int i = 0; i < check->event_count; i++)
        for (int j = 0; j < check->event_count && check->events[i].array; j++) {
            const Event *a = &check->events[i], *b = &check->events[j];
            if (!b->array || a->number < 0 || b->number < 0 ||
                a->array->variable != b->array->variable)
                continue;
            AccessPair meeting = {.widths = {a->width, b->width}};
            *apart_at(barriers, a, b) = always_agree(barriers, a, b, &meeting);
            meet |= !*apart_at(barriers, a, b);
        }
    return meet;
}

/* True if the same thread does both, or they access different elements. */
static bool accesses_agree(const Barriers *barriers, const Pending *before, const Event *b) {
    const Event *a = before->event;
    AccessPair meeting = {.widths = {a->width, b->width}};
    if (*apart_at(barriers, a, b)) return true;
    if (always_agree(barriers, a, b, &meeting)) return true;
    if (!a->subscript || !b->subscript) return false;
    find_held(barriers, before, b, &meeting);
    const Digits *of_a = digits_at(barriers, a, meeting.variable),
                 *of_b = digits_at(barriers, b, meeting.variable);
    if (!digits_meet(of_a, of_b, &meeting)) return true;
    const bool used = !a->masked && !b->masked && !meeting.undecided;
    if (used && !of_a->opaque && !of_b->opaque && !digits_limited(a) && !digits_limited(b))
        return false;
    term_unproven(barriers->check, FAULT_BARRIER, b->subscript);
    *apart_at(barriers, a, b) = true; /* counted once */
    return true;
}

/* ---- the walk ---- */

static void access(Barriers *barriers, const Event *event) {
    ModuleCheck *check = barriers->check;
    const KnownVariable *known = known_of(check, event->array);
    if (event->number < 0 || (barriers->level == BLOCKS_OF_GRID && known->node)) return;
    for (int i = 0; i < barriers->count; i++) {
        const Event *before = barriers->pending[i].event;
        if (before->array->variable != event->array->variable ||
            accesses_agree(barriers, &barriers->pending[i], event))
            continue;
        static const char *const between[] = {"no barrier between", "two blocks have",
                                              "two threads have"};
        fault_found(check, FAULT_BARRIER, "%s two accesses of '%s': '%s', '%s'",
                    between[barriers->level], term_text(check->module->arena, event->array),
                    before->subscript ? term_text(check->module->arena, before->subscript) : "",
                    event->subscript ? term_text(check->module->arena, event->subscript) : "");
        return;
    }
    barriers->pending = with_room(check->arena, barriers->pending, barriers->count,
                                  &barriers->capacity, sizeof *barriers->pending);
    barriers->pending[barriers->count++] = (Pending){event, barriers->time++};
}

/* The index after the end of the region that starts there. */
static int region_end(const ModuleCheck *check, int start) {
    int end = start + 1;
    while (check->events[end].kind != EVENT_CLOSE ||
           check->events[end].region != check->events[start].region)
        end++;
    return end + 1;
}

static bool opens_loop(const Event *open) {
    return open->node && open->node->kind == FORM_FOR;
}

/* A parallel loop of a CPU: its threads start and end together. */
static bool is_fork(const Barriers *barriers, const FormNode *loop) {
    return barriers->level == THREADS_OF_CPU && divides(barriers, loop);
}

static void run_events(Barriers *barriers, int from, int to) {
    const ModuleCheck *check = barriers->check;
    for (int i = from; i < to; i++) {
        const Event *event = &check->events[i];
        switch (event->kind) {
        case EVENT_READ:
        case EVENT_WRITE:
        case EVENT_ADD:
            access(barriers, event);
            break;
        case EVENT_BARRIER:
            if (barriers->level == THREADS_OF_BLOCK) barriers->count = 0;
            break;
        case EVENT_OPEN:
            if (!opens_loop(event)) break;
            if (is_fork(barriers, event->node)) barriers->count = 0;
            for (int pass = 0; pass < 2; pass++) {
                barriers->starts[event->region] = barriers->time;
                run_events(barriers, i + 1, region_end(check, i) - 1);
            }
            if (is_fork(barriers, event->node)) barriers->count = 0;
            i = region_end(check, i) - 1;
            break;
        case EVENT_CLOSE:
            break;
        }
    }
}

/* Numbers the accesses to arrays with stores and other accesses. Returns their number. */
static int number_accesses(ModuleCheck *check) {
    int count = 0;
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < check->event_count; i++) {
            Event *event = &check->events[i];
            KnownVariable *known = event->array ? known_of(check, event->array) : NULL;
            if (!known) continue;
            if (pass == 0) known->accesses++;
            if (pass == 1) known->stored |= event->kind != EVENT_READ && known->accesses > 1;
            if (pass == 2) event->number = known->stored ? count++ : -1;
        }
    return count;
}

static void check_level(ModuleCheck *check, Level level, int accesses) {
    const size_t regions = (size_t)check->region_count + 1, count = (size_t)accesses;
    Barriers barriers = {.check = check, .level = level, .accesses = accesses};
    barriers.starts = arena_alloc(check->arena, regions * sizeof *barriers.starts);
    barriers.digits = arena_alloc(check->arena, count * sizeof *barriers.digits);
    barriers.apart = arena_alloc(check->arena, count * count * sizeof *barriers.apart);
    if (find_apart(&barriers)) run_events(&barriers, 0, check->event_count);
}

void check_barriers(ModuleCheck *check) {
    const Barriers barriers = {.check = check};
    const int stored = number_accesses(check);
    if (stored && !on_device(check)) check_level(check, THREADS_OF_CPU, stored);
    if (!on_device(check) || !(check->module->properties & HAS_BARRIERS)) return;
    if (stored) check_level(check, THREADS_OF_BLOCK, stored);
    if (stored && check->launch.blocks > 1) check_level(check, BLOCKS_OF_GRID, stored);
    for (int i = 0; i < check->event_count; i++)
        if (check->events[i].kind == EVENT_BARRIER && is_divided(&barriers, &check->events[i]))
            fault_found(check, FAULT_BARRIER, "a barrier that only some threads reach");
}
