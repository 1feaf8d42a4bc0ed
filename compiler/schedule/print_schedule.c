/* print_schedule: a schedule as text for `moec dump`: its units, its memory, its map. */
#include "schedule/nest.h"

#include <string.h>

/* ---- the plan ---- */

static void add_line(Text *text, int depth, const Statement *statement) {
    char *line = print_statement(text->arena, statement);
    size_t length = strlen(line);
    while (length && line[length - 1] == '\n') length--;
    text_add(text, "%*s%.*s\n", 2 * depth, "", (int)length, line);
}

static void add_kernel_lines(Text *text, const Kernel *kernel, int depth) {
    for (int i = 0; kernel && i < kernel->members.count; i++)
        add_line(text, depth, ((const Member *)kernel->members.items[i])->statement);
}

static void add_units(Text *text, const Schedule *schedule, const List *units, int depth) {
    static const char *const names[] = {[UNIT_KERNEL] = "kernel",
                                        [UNIT_CONTRACTION] = "product",
                                        [UNIT_CALL] = "call",
                                        [UNIT_REPEAT] = "repeat"};
    static const char *const phases[] = {
        [WHOLE_EXCHANGE] = "", [BEGINS_EXCHANGE] = ", begin", [ENDS_EXCHANGE] = ", end"};
    const bool launches = schedule->program->target->launches;
    const char *shares = launches ? ", shares a launch" : ", shares a call";
    LIST_EACH(const ScheduleUnit, unit, units) {
        const Kernel *kernel = unit->kernel ? unit->kernel : unit->epilogue;
        text_add(text, "%*s%s%s%s%s\n", 2 * depth, "", names[unit->kind], phases[unit->phase],
                 unit->beside ? shares : "", unit->once ? ", once" : "");
        add_kernel_lines(text, unit->prologue, depth + 1);
        for (int j = 0; j < STEP_OPERANDS; j++)
            add_kernel_lines(text, unit->elements[j], depth + 1);
        add_kernel_lines(text, kernel, depth + 1);
        if (!kernel && unit->kind != UNIT_REPEAT) add_line(text, depth + 1, unit->statement);
        add_units(text, schedule, &unit->body, depth + 1);
    }
}

/* The units; after planning also the offsets of tensors. */
char *print_plan(Arena *arena, const Schedule *schedule) {
    Text text = {.arena = arena};
    const Program *program = schedule->program;
    text_add(&text, "%s", "");
    if (!schedule->allocations) {
        add_units(&text, schedule, &schedule->units, 0);
        return text.text;
    }
    text_add(&text, "%12s %12s %6s %6s  tensor\n", "offset", "bytes", "from", "to");
    for (int i = 0; i < program->tensors.count; i++) {
        const Allocation *allocation = &schedule->allocations[i];
        const Tensor *tensor = program->tensors.items[i];
        if (!allocation->bytes) continue;
        const char *over = allocation->over ? allocation->over->name : NULL;
        text_add(&text, "%12zu %12zu %6d %6d  %s%s%s%s%s%s\n", allocation->offset,
                 allocation->bytes, allocation->first, allocation->last, tensor->name,
                 allocation->slots ? " (two slots)" : "", allocation->cleared ? " (cleared)" : "",
                 over ? " (over " : "", over ? over : "", over ? ")" : "");
    }
    text_add(&text, "%12zu bytes total\n", schedule->arena_bytes);
    return text.text;
}

/* ---- the map ---- */

const char *const loop_by_names[] = {[BY_ONE] = "one thread",
                                     [BY_ALL] = "all threads",
                                     [BY_BLOCKS] = "blocks",
                                     [BY_COLUMNS] = "columns",
                                     [BY_THREADS] = "threads",
                                     [BY_COLUMN] = "threads of a column",
                                     [BY_THE_FIRST] = "the first thread"};

static void add_range(Text *text, const Nest *nest) {
    text_add(text, "%s = 0 .. %ld", nest->index->name, nest->step > 1 ? nest->total : nest->size);
    if (nest->step > 1) text_add(text, " step %ld", nest->step);
    if (nest->block) text_add(text, " of each block");
    if (nest->bound) text_add(text, " bounded");
}

static void add_loop_map(Text *text, const Nest *nest, int depth, bool device) {
    const LoopMap *map = &nest->map;
    const Nest *last = nest;
    if (nest->member) {
        add_line(text, depth, nest->member->statement);
        return;
    }
    text_add(text, "%*sfor ", 2 * depth, "");
    add_range(text, last);
    for (int i = 1; i < map->joined; i++) {
        last = last->children.items[0];
        text_add(text, ", ");
        add_range(text, last);
    }
    if (map->by != BY_ONE) text_add(text, " by %s", loop_by_names[map->by]);
    if (map->width) text_add(text, ", %d at a time", map->width);
    if (map->parts) text_add(text, ", %ld parts", map->parts);
    if (map->independent && !device) text_add(text, " independent");
    text_add(text, "\n");
    LIST_EACH(const Nest, child, &last->children) add_loop_map(text, child, depth + 1, device);
}

static void add_launch_line(Text *text, int depth, const Launch *launch, const char *form) {
    text_add(text, "%*slaunch: blocks %ld, threads %d%s\n", 2 * depth, "", launch->blocks,
             launch->threads, form);
}

static void add_launch_lines(Text *text, const Kernel *kernel, const LaunchMap *map, int depth) {
    static const char *const forms[] = {
        [LAUNCH_BLOCK] = "",
        [LAUNCH_LOOPS] = "",
        [LAUNCH_SUM_PARTS] = ", partial sums",
        [LAUNCH_PART_SUMS] = ", their sums",
        [LAUNCH_COLUMN_PARTS] = ", partial sums of columns",
        [LAUNCH_COLUMN_SUMS] = ", their sums",
        [LAUNCH_ADDED_ROWS] = ", adds whole rows",
        [LAUNCH_LISTED_ROWS] = ", a block for each row",
        [LAUNCH_SEARCHED_ROWS] = ", a block for each row, which searches its terms",
        [LAUNCH_SEARCHED_TERMS] = ", a block for each term; the first one of a row "
                                  "searches the others"};
    add_launch_line(text, depth, &map->launch, forms[map->form]);
    if (is_second_launch(map)) return;
    if (map->nest != kernel->root) {
        add_loop_map(text, map->nest, depth + 1, true);
        return;
    }
    LIST_EACH(const Nest, nest, &kernel->root->children) add_loop_map(text, nest, depth + 1, true);
}

static void add_kernel_map(Text *text, const Kernel *kernel, int depth) {
    LIST_EACH(const LaunchMap, map, &kernel->launches) add_launch_lines(text, kernel, map, depth);
    if (!kernel->launches.count)
        LIST_EACH(const Nest, nest, &kernel->root->children) add_loop_map(text, nest, depth, false);
}

static void add_scan_map(Text *text, const Statement *scan, const ScanMap *map, int depth) {
    text_add(text, "%*s%ld instances", 2 * depth, "", map->size);
    for (int i = 0; i < map->count; i++)
        text_add(text, "%s %s = 0 .. %ld", i ? "," : " of", map->loops[i][0]->name, map->sizes[i]);
    if (map->group) text_add(text, ", groups of %ld", map->group);
    text_add(text, "\n");
    if (map->launch.threads) add_launch_line(text, depth, &map->launch, "");
    LIST_EACH(const Statement, statement, &scan->body.statements)
        add_line(text, depth + 1, statement);
}

static void add_unit_maps(Text *text, const List *units, int depth) {
    LIST_EACH(const ScheduleUnit, unit, units) {
        if (unit->kind == UNIT_REPEAT) text_add(text, "%*srepeat\n", 2 * depth, "");
        if (unit->prologue) {
            text_add(text, "%*sprologue\n", 2 * depth, "");
            add_kernel_map(text, unit->prologue, depth + 1);
        }
        if (unit->kernel) {
            text_add(text, "%*skernel\n", 2 * depth, "");
            add_kernel_map(text, unit->kernel, depth + 1);
        }
        if (unit->scan) {
            text_add(text, "%*srecurrence\n", 2 * depth, "");
            add_scan_map(text, unit->statement, unit->scan, depth + 1);
        }
        add_unit_maps(text, &unit->body, depth + 1);
    }
}

char *print_map(Arena *arena, const Schedule *schedule) {
    Text text = text_new(arena);
    add_unit_maps(&text, &schedule->units, 0);
    return text.text;
}
