/* map_check: the first fault of the records that map leaves: loops whose iterations may not be
 * distributed so, and launches that a GPU does not support. */
#include "schedule/nest.h"

enum { WARP = 32, MAX_THREADS = 1024 };

typedef struct MapCheck {
    Arena *arena;
    const Kernel *kernel;
    const LaunchMap *launch; /* of the current nest */
    const char *fault;       /* the first one, or NULL */
} MapCheck;

static void found(MapCheck *check, const Nest *nest, const char *what) {
    if (!check->fault)
        check->fault = arena_format(check->arena, "loop '%s': %s", nest->index->name, what);
}

/* Each iteration has its own elements, or its part of a sum whose parts are joined after the loop.
 * `level`: of the first of the joined loops. */
static bool owns_elements(const MapCheck *check, const Nest *nest, int level, int at) {
    const LoopBy by = nest->map.by;
    const bool joins = by == BY_THREADS || by == BY_COLUMN || nest->map.parts;
    LIST_EACH(const Member, member, &check->kernel->members) {
        const bool sums = member->statement->reduction != REDUCE_NONE && member->kept == level;
        if (is_inside(member, nest) && member->kept <= at && !(joins && sums)) return false;
    }
    return true;
}

/* in_block: the loops around it distribute its threads, not the iterations of this loop. */
static void check_shared(MapCheck *check, const Nest *nest, int level, bool outermost) {
    const LoopMap *map = &nest->map;
    const bool in_block = check->launch->form == LAUNCH_BLOCK || !outermost;
    const bool of_block = map->by == BY_THREADS || map->by == BY_COLUMN;
    const Nest *last = nest;
    if (in_block != of_block && check->launch->launch.blocks)
        found(check, nest, "is distributed to the wrong threads");
    for (int i = 1; i < map->joined; i++) {
        if (last->children.count != 1 || ((const Nest *)last->children.items[0])->member) {
            found(check, nest, "is joined with loops that it does not have");
            return;
        }
        last = last->children.items[0];
    }
    for (int i = 0; i < map->joined; i++)
        if (!owns_elements(check, nest, level, level + i))
            found(check, nest, "is distributed, but its iterations access the same element");
    if (map->width && (last->step > 1 || last->block || last->bound ||
                       (map->joined > 1 && last->size % map->width)))
        found(check, nest, "cannot run several iterations together");
}

/* shared: a loop around it is distributed. */
static void check_loop(MapCheck *check, const Nest *nest, int level, bool shared) {
    if (nest->member) return;
    if (nest->map.by != BY_ONE) check_shared(check, nest, level, !shared);
    LIST_EACH(const Nest, child, &nest->children)
        check_loop(check, child, level + 1, shared || nest->map.by != BY_ONE);
}

/* Every nest is in one launch, or in the first of two. */
static void check_launched(MapCheck *check, const Nest *nest) {
    int launches = 0;
    LIST_EACH(const LaunchMap, launch, &check->kernel->launches)
        launches += (launch->nest == nest || launch->nest == check->kernel->root) &&
                    !is_second_launch(launch);
    if (launches != 1 && !nest->member) found(check, nest, "is not in one launch");
}

static void check_launch_map(MapCheck *check, const LaunchMap *launch) {
    const Kernel *kernel = check->kernel;
    const int threads = launch->launch.threads;
    check->launch = launch;
    if (launch->launch.blocks < 0 || threads < WARP || threads > MAX_THREADS || threads % WARP)
        check->fault = arena_format(check->arena, "a launch of %ld blocks of %d threads",
                                    launch->launch.blocks, threads);
    if (launch->rows || is_second_launch(launch)) return;
    if (launch->nest != kernel->root) {
        check_loop(check, launch->nest, 0, false);
        return;
    }
    LIST_EACH(const Nest, nest, &kernel->root->children) check_loop(check, nest, 0, false);
}

static const char *kernel_map_fault(Arena *arena, const Kernel *kernel) {
    MapCheck check = {.arena = arena, .kernel = kernel};
    LIST_EACH(const LaunchMap, launch, &kernel->launches) check_launch_map(&check, launch);
    for (int i = 0; kernel->launches.count && i < kernel->root->children.count; i++)
        check_launched(&check, kernel->root->children.items[i]);
    return check.fault;
}

static const char *units_map_fault(Arena *arena, const List *units) {
    LIST_EACH(const ScheduleUnit, unit, units) {
        const char *fault = units_map_fault(arena, &unit->body);
        if (!fault && unit->kernel) fault = kernel_map_fault(arena, unit->kernel);
        if (!fault && unit->prologue) fault = kernel_map_fault(arena, unit->prologue);
        if (fault) return fault;
    }
    return NULL;
}

const char *map_fault(Arena *arena, const Schedule *schedule) {
    return units_map_fault(arena, &schedule->units);
}
