/* map_check: the first fault of the records that map leaves: loops whose iterations may not be
 * distributed so, and launches that a GPU does not support. */
#include "schedule/nest.h"

enum { WARP = 32, MAX_THREADS = 1024 };

typedef struct MapCheck {
    Arena *arena;
    const Kernel *kernel;
    const LaunchMap *launch; /* of the current nest; NULL: on a CPU */
    const char *fault;       /* the first one, or NULL */
} MapCheck;

static void found(MapCheck *check, const Nest *nest, const char *what) {
    if (!check->fault)
        check->fault = arena_format(check->arena, "loop '%s' %s", nest->index->name, what);
}

static void check_geometry(MapCheck *check, const Launch *launch) {
    const int threads = launch->threads;
    if (!check->fault &&
        (launch->blocks < 0 || threads < WARP || threads > MAX_THREADS || threads % WARP))
        check->fault = arena_format(check->arena, "a launch of %ld blocks of %d threads",
                                    launch->blocks, threads);
}

/* Each iteration of the loops up to level `last` has its own elements; joins: or its part of a sum
 * from `level` on, which is added to the others after the loop. */
static bool owns_elements(const MapCheck *check, const Nest *nest, int level, int last,
                          bool joins) {
    LIST_EACH(const Member, member, &check->kernel->members) {
        const bool sums = member->statement->reduction != REDUCE_NONE && member->kept == level;
        if (is_inside(member, nest) && member->kept <= last && !(joins && sums)) return false;
    }
    return true;
}

/* outermost: no loop around it is distributed. */
static void check_distribution(MapCheck *check, const Nest *nest, int level, bool outermost) {
    const LoopMap *map = &nest->map;
    const bool of_block = map->by == BY_THREADS || map->by == BY_COLUMN,
               in_block = check->launch->form == LAUNCH_BLOCK || !outermost;
    const Nest *last = nest;
    if (check->launch->launch.blocks && in_block != of_block)
        found(check, nest, "is distributed to the wrong threads");
    if (map->joined < 1) found(check, nest, "is distributed without its iterations");
    for (int i = 1; i < map->joined; i++) {
        if (last->children.count != 1 || is_innermost(last)) {
            found(check, nest, "is joined with loops that it does not have");
            return;
        }
        last = last->children.items[0];
    }
    if (!owns_elements(check, nest, level, level + map->joined - 1, of_block || map->parts))
        found(check, nest, "is distributed, but its iterations access the same element");
    if (map->width && (last->step > 1 || last->block || last->bound ||
                       (map->joined > 1 && last->size % map->width)))
        found(check, nest, "cannot run several iterations together");
}

/* shared: a loop around it is distributed. */
static void check_loop_map(MapCheck *check, const Nest *nest, int level, bool shared) {
    if (nest->member) return;
    if (nest->map.by != BY_ONE) check_distribution(check, nest, level, !shared);
    if (nest->map.independent && !owns_elements(check, nest, level, level, false))
        found(check, nest, "is not independent");
    LIST_EACH(const Nest, child, &nest->children)
        check_loop_map(check, child, level + 1, shared || nest->map.by != BY_ONE);
}

/* The launches that compute a nest, or the first of two; a scatter has no loops of its own. */
static int check_launches(MapCheck *check, const Nest *nest) {
    int launches = 0;
    LIST_EACH(const LaunchMap, launch, &check->kernel->launches) {
        if ((launch->nest != nest && launch->nest != check->kernel->root) ||
            is_second_launch(launch))
            continue;
        launches++;
        check->launch = launch;
        if (!launch->rows) check_loop_map(check, nest, 0, false);
    }
    return launches;
}

static const char *kernel_map_fault(Arena *arena, const Kernel *kernel, bool device) {
    MapCheck check = {.arena = arena, .kernel = kernel};
    LIST_EACH(const LaunchMap, launch, &kernel->launches) check_geometry(&check, &launch->launch);
    LIST_EACH(const Nest, nest, &kernel->root->children) {
        if (!device)
            check_loop_map(&check, nest, 0, false);
        else if (check_launches(&check, nest) != 1 && !check.fault)
            check.fault = "a nest is not in exactly one launch";
    }
    return check.fault;
}

static const char *units_map_fault(Arena *arena, const List *units, bool device) {
    LIST_EACH(const ScheduleUnit, unit, units) {
        MapCheck scan = {.arena = arena};
        if (unit->scan && device) check_geometry(&scan, &unit->scan->launch);
        const char *fault = scan.fault ? scan.fault : units_map_fault(arena, &unit->body, device);
        if (!fault && unit->kernel) fault = kernel_map_fault(arena, unit->kernel, device);
        if (!fault && unit->prologue) fault = kernel_map_fault(arena, unit->prologue, device);
        if (fault) return fault;
    }
    return NULL;
}

const char *map_fault(Arena *arena, const Schedule *schedule) {
    return units_map_fault(arena, &schedule->units, schedule->program->target->launches);
}
