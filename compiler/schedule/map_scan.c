/* map_scan: the independent instances of a recurrence (sequences of a batch, heads, columns of a
 * state), which threads run, and its launch on a GPU. */
#include "schedule/nest.h"

/* On a CPU, more instances than ENOUGH_CELLS would separate elements that are contiguous in memory.
 * Blocks that keep a GPU at work; adjacent elements of each; threads of a block. */
enum { ENOUGH_CELLS = 8, ENOUGH_BLOCKS = 128, LEAST_GROUP = 4, MAX_THREADS = 512, WARP = 32 };

/* The dimension of each tensor of a scan that runs over an instance, by tensor id; -1: unknown. Its
 * subscript in the first access. */
typedef struct Class {
    const Statement *scan;
    int *dimension;
    const Expr **first;
    bool *written;
    bool good, changed;
} Class;

static Statement *body_at(const Statement *scan, int at) {
    return scan->body.statements.items[at];
}

static Index *loop_at(const Expr *access, int dimension) {
    return sub_loop(access->args[dimension], access->tensor->axes[dimension]);
}

/* The only dimension that the index subscripts, as a loop over it; -1: none. */
static int place_of(const Expr *access, const Index *index) {
    int found = -1;
    for (int i = 0; i < access->count; i++) {
        if (!expr_uses_index(access->args[i], index)) continue;
        if (found >= 0 || loop_at(access, i) != index) return -1;
        found = i;
    }
    return found;
}

static void set_dimension(Class *class, const Expr *access, int dimension) {
    int *known = &class->dimension[access->tensor->id];
    const Expr **first = &class->first[access->tensor->id];
    if (dimension < 0 || (*known >= 0 && *known != dimension) ||
        (*first && !same_start(*first, access->args[dimension]))) {
        class->good = false;
        return;
    }
    if (*known < 0) class->changed = true;
    *known = dimension;
    *first = access->args[dimension];
}

/* Checks that both have the same element of the instance, or that neither is known to. */
static void agree(Class *class, const Expr *target, const Expr *read) {
    int at = class->dimension[target->tensor->id], there = class->dimension[read->tensor->id];
    if (read->kind != EXPR_READ || !class->written[read->tensor->id]) return;
    if (at < 0 && there < 0) return;
    const Index *loop = at >= 0 ? loop_at(target, at) : loop_at(read, there);
    if (!loop) {
        class->good = false;
        return;
    }
    set_dimension(class, target, place_of(target, loop));
    if (class->good) set_dimension(class, read, place_of(read, loop));
}

static void agree_all(Class *class, const Expr *target, const Expr *expr) {
    if (expr->kind == EXPR_READ) agree(class, target, expr);
    for (int i = 0; i < expr->count; i++) agree_all(class, target, expr->args[i]);
}

/* The instances along a dimension of the first target; false if there are none. */
static bool find_class(Arena *arena, const Program *program, const Statement *scan, int dimension,
                       Class *class) {
    const List *body = &scan->body.statements;
    size_t tensors = (size_t)program->tensors.count;
    *class = (Class){.scan = scan, .good = true, .changed = true};
    class->dimension = arena_alloc(arena, tensors * sizeof *class->dimension);
    class->first = arena_alloc(arena, tensors * sizeof *class->first);
    class->written = arena_alloc(arena, tensors * sizeof *class->written);
    for (size_t i = 0; i < tensors; i++) class->dimension[i] = -1;
    for (int i = 0; i < body->count; i++)
        class->written[body_at(scan, i)->target->tensor->id] = true;
    const Expr *first = body_at(scan, 0)->target;
    const Index *loop = loop_at(first, dimension);
    if (!loop) return false;
    class->dimension[first->tensor->id] = dimension;
    while (class->good && class->changed) {
        class->changed = false;
        for (int i = 0; i < body->count && class->good; i++) {
            const Statement *statement = body_at(scan, i);
            agree_all(class, statement->target, statement->target);
            agree_all(class, statement->target, statement->value);
        }
    }
    for (int i = 0; i < body->count && class->good; i++) {
        const Expr *target = body_at(scan, i)->target;
        const int at = class->dimension[target->tensor->id];
        const Index *own = at >= 0 ? loop_at(target, at) : NULL;
        class->good = own && own->axis->size == loop->axis->size;
    }
    return class->good;
}

/* Adjacent elements in memory stay in one instance, for vectors or adjacent threads. */
static bool is_innermost_of(const Class *class, int tensors) {
    for (int i = 0; i < class->scan->body.statements.count; i++) {
        const Tensor *tensor = body_at(class->scan, i)->target->tensor;
        if (tensor->id < tensors && class->dimension[tensor->id] == tensor->rank - 1) return true;
    }
    return false;
}

static void add_class(Arena *arena, ScanMap *cells, const Class *class) {
    const List *body = &class->scan->body.statements;
    Index **loops = arena_alloc(arena, (size_t)body->count * sizeof *loops);
    for (int i = 0; i < body->count; i++) {
        const Expr *target = body_at(class->scan, i)->target;
        loops[i] = loop_at(target, class->dimension[target->tensor->id]);
    }
    cells->sizes[cells->count] = loops[0]->axis->size;
    cells->loops[cells->count++] = loops;
    cells->size *= loops[0]->axis->size;
}

/* On a GPU, adjacent elements are divided among blocks while there are few instances. */
static void add_groups(Arena *arena, ScanMap *cells, const Class *class) {
    const Expr *first = body_at(class->scan, 0)->target;
    const long size = loop_at(first, class->dimension[first->tensor->id])->axis->size;
    long group = size;
    while (cells->size * (size / group) < ENOUGH_BLOCKS && group % 2 == 0 && group > LEAST_GROUP)
        group /= 2;
    if (group == size) return;
    const long outer = cells->size;
    add_class(arena, cells, class);
    cells->group = group;
    cells->sizes[cells->count - 1] = size / group;
    cells->size = outer * (size / group);
}

/* The largest number of elements that a statement computes in an instance at one position. */
static long most_elements(const Statement *scan, const ScanMap *cells) {
    long most = cells->size;
    for (int i = 0; i < scan->body.statements.count; i++) {
        const Statement *statement = body_at(scan, i);
        long elements = 1;
        for (int j = 0; j < statement->loop_count; j++)
            if (expr_uses_index(statement->target, statement->loops[j]))
                elements *= statement->loops[j]->axis->size;
        if (elements > most) most = elements;
    }
    return most / cells->size;
}

static Launch launch_of_scan(const Statement *scan, const ScanMap *cells) {
    const long most = most_elements(scan, cells);
    long threads = cells->all ? WARP * 4 : WARP;
    while (!cells->all && threads < most && threads < MAX_THREADS) threads *= 2;
    return launch_of(cells->all ? ceil_div(cells->size, threads) : cells->size, (int)threads);
}

double scan_threads(const Statement *scan, const ScanMap *cells) {
    const long most = most_elements(scan, cells);
    return (double)cells->size * (double)(most < MAX_THREADS ? most : MAX_THREADS);
}

ScanMap *map_scan(const Program *program, const Statement *scan) {
    Arena *arena = program->arena;
    const bool device = program->target->launches;
    const Expr *first = body_at(scan, 0)->target;
    ScanMap *cells = arena_alloc(arena, sizeof *cells);
    Class inner;
    bool left = false, behind = false;
    int classes = 0;
    cells->size = 1;
    for (int i = 0; i < first->count; i++) {
        Class class;
        behind |= expr_uses_index(first->args[i], scan->index);
        if (!device && behind && cells->size >= ENOUGH_CELLS) break;
        if (!find_class(arena, program, scan, i, &class)) continue;
        classes++;
        if (is_innermost_of(&class, program->tensors.count)) {
            inner = class;
            left = true;
        } else {
            add_class(arena, cells, &class);
        }
    }
    if (!device) return cells;
    cells->all = true;
    for (int i = 0; i < scan->body.statements.count; i++)
        cells->all &= body_at(scan, i)->loop_count == classes;
    if (left && cells->all)
        add_class(arena, cells, &inner);
    else if (left)
        add_groups(arena, cells, &inner);
    cells->launch = launch_of_scan(scan, cells);
    return cells;
}
