/* map: distributes the loops of each kernel among the threads of its machine.
 *
 * On a GPU the outer loops of a nest that no statement sums over become one. Its iterations are
 * distributed to threads, columns or blocks.
 *
 *     threads   y[b,s,d] = x[b,s,d] * t[b,s]   one iteration per thread, including inner loops
 *     columns   g[d] += sum[b,s] x[b,s,d]      32 adjacent iterations per block; the other threads
 *                                              of the block share the sum of each
 *     blocks    y[b,s,d] = x[b,s,d] / sum ...  one iteration per block; its threads share the inner
 *                                              loops, rows are in shared memory
 *
 * A large sum over everything and the sums of a few long columns need two launches: the first one
 * stores partial sums, the second one adds these in order. A small kernel runs in one block.
 *
 * On a CPU the passes `parallel` and `vectors` distribute the loops that are independent.
 */
#include "schedule/nest.h"

/* Work below which two launches are not faster. Sums over everything: partial sums, threads of
 * their blocks. Columns: blocks that keep a GPU busy, terms of a slice, slices, threads of a block
 * that adds them. */
enum {
    MIN_WORK = 1 << 18,
    PARTS = 256,
    PART_THREADS = 256,
    BLOCKS = 264,
    MIN_SLICE = 128,
    MAX_SLICES = 32,
    SLICE_THREADS = 64
};

typedef struct KernelMapping {
    Arena *arena;
    const Program *program;
    Kernel *kernel;
} KernelMapping;

Launch launch_of(long blocks, int threads) {
    enum { MAX_BLOCKS = 1 << 20 };
    return (Launch){blocks < 1 ? 1 : blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS, threads};
}

/* Threads for this number of iterations at a time: a power of two, at least a warp. */
static int threads_for(long iterations, int most) {
    int threads = 32;
    while (threads < iterations && threads < most) threads *= 2;
    return threads;
}

static void map_launch(const KernelMapping *mapping, LaunchForm form, Nest *nest, Launch launch) {
    const LaunchMap map = {.form = form, .nest = nest, .launch = launch};
    list_copy(mapping->arena, &mapping->kernel->launches, &map, sizeof map);
}

/* ---- loops inside a block ---- */

static void share_loop(const KernelMapping *mapping, Nest *nest, int level, LoopBy by) {
    nest->map.by = by;
    nest->map.joined = shared_chain(mapping->kernel, nest, level);
    if (by != BY_COLUMN)
        nest->map.width =
            vector_width(mapping->arena, mapping->kernel, last_joined(nest), nest->map.joined == 1);
}

/* The loops inside an iteration that several threads share. */
static void share_inside(const KernelMapping *mapping, const Nest *nest, int level, LoopBy by) {
    LIST_EACH(Nest, child, &nest->children)
        if (!child->member && threads_may_share(mapping->kernel, child, level))
            share_loop(mapping, child, level, by);
}

static void map_in_block(const KernelMapping *mapping, Nest *nest) {
    const bool whole = nest == mapping->kernel->root;
    const long inside = iterations_inside(nest) * (whole ? 1 : nest->size);
    if (whole)
        share_inside(mapping, nest, 0, BY_THREADS);
    else if (threads_may_share(mapping->kernel, nest, 0))
        share_loop(mapping, nest, 0, BY_THREADS);
    map_launch(mapping, LAUNCH_BLOCK, nest, (Launch){1, threads_for(inside, 1024)});
}

/* ---- outer loops ---- */

static Launch launch_of_chain(const Chain *chain, int width) {
    const long inside = iterations_inside(chain->last),
               iterations = chain->iterations / (width ? width : 1);
    if (chain->by == BY_COLUMNS)
        return launch_of(ceil_div(iterations, BLOCK_COLUMNS), threads_for(8 * inside, 1024));
    if (chain->by == BY_BLOCKS) return launch_of(iterations, threads_for((inside + 3) / 4, 512));
    const int threads = threads_for(iterations, is_innermost(chain->last) ? 256 : 64);
    return launch_of(ceil_div(iterations, threads), threads);
}

static void map_chain(const KernelMapping *mapping, Nest *nest, const Chain *chain) {
    nest->map.by = chain->by;
    nest->map.joined = chain->length;
    if (chain->by == BY_ALL)
        nest->map.width =
            vector_width(mapping->arena, mapping->kernel, chain->last, chain->length == 1);
    else
        share_inside(mapping, chain->last, chain->length,
                     chain->by == BY_COLUMNS ? BY_COLUMN : BY_THREADS);
    map_launch(mapping, LAUNCH_LOOPS, nest, launch_of_chain(chain, nest->map.width));
}

static void map_nest(const KernelMapping *mapping, Nest *nest) {
    const Chain chain = chain_from(mapping->kernel, nest);
    LaunchMap scatter;
    if (map_scatter(mapping->program, mapping->kernel, nest, &scatter))
        list_copy(mapping->arena, &mapping->kernel->launches, &scatter, sizeof scatter);
    else if (chain.length > 0)
        map_chain(mapping, nest, &chain);
    else
        map_in_block(mapping, nest);
}

/* ---- sums in two launches ---- */

static bool sums_everything(const Kernel *kernel, const Nest *nest) {
    double work = 0;
    LIST_EACH(const Member, member, &kernel->members) {
        if (!is_inside(member, nest)) continue;
        if (!reduces_at(member, nest)) return false;
        work += statement_work(member->statement);
    }
    return work >= MIN_WORK;
}

static bool map_sums(const KernelMapping *mapping, Nest *nest) {
    for (const Nest *at = nest; !at->member; at = at->children.items[0])
        if (at->children.count != 1 && !is_innermost(at)) return false;
    if (!sums_everything(mapping->kernel, nest)) return false;
    share_loop(mapping, nest, 0, BY_ALL);
    nest->map.parts = PARTS;
    map_launch(mapping, LAUNCH_SUM_PARTS, nest, (Launch){PARTS, PART_THREADS});
    map_launch(mapping, LAUNCH_PART_SUMS, nest, (Launch){1, PARTS});
    return true;
}

/* The number of terms of each sum; -1 if the loops contain more than sums in a single chain. */
static long terms_of(const Kernel *kernel, const Nest *sum) {
    long terms = 1;
    for (const Nest *at = sum; at; at = is_innermost(at) ? NULL : at->children.items[0]) {
        if (!is_innermost(at) && at->children.count != 1) return -1;
        terms *= at->size;
    }
    LIST_EACH(const Member, member, &kernel->members)
        if (is_inside(member, sum) &&
            (!reduces_at(member, sum) || member->column || member->online_max))
            return -1;
    return terms;
}

/* A block sums 32 columns; a few of these blocks leave most of a GPU idle. Each column is therefore
 * split into slices. */
static bool map_columns(const KernelMapping *mapping, Nest *nest) {
    const Chain chain = chain_from(mapping->kernel, nest);
    if (chain.length == 0 || chain.by != BY_COLUMNS || chain.last->children.count != 1)
        return false;
    Nest *sum = chain.last->children.items[0];
    const long terms = terms_of(mapping->kernel, sum),
               blocks = ceil_div(chain.iterations, BLOCK_COLUMNS);
    long slices = BLOCKS / blocks;
    if (slices > terms / MIN_SLICE) slices = terms / MIN_SLICE;
    if (slices > MAX_SLICES) slices = MAX_SLICES;
    if (slices <= 1 || terms * chain.iterations < MIN_WORK) return false;
    nest->map.by = BY_COLUMNS;
    nest->map.joined = chain.length;
    share_loop(mapping, sum, chain.length, BY_COLUMN);
    sum->map.parts = slices;
    map_launch(mapping, LAUNCH_COLUMN_PARTS, nest, (Launch){blocks * slices, 1024});
    map_launch(mapping, LAUNCH_COLUMN_SUMS, nest,
               (Launch){ceil_div(chain.iterations, SLICE_THREADS), SLICE_THREADS});
    return true;
}

/* ---- kernels ---- */

/* True if nests can be launched separately: only memory connects them. */
static bool are_apart(const Kernel *kernel) {
    LIST_EACH(const Nest, nest, &kernel->root->children)
        if (nest->member) return false;
    LIST_EACH(const Local, local, &kernel->locals)
        if (local->scope == kernel->root) return false;
    return true;
}

/* True if one block would run long iterations of a nest with one thread each. */
static bool wants_blocks(const Kernel *kernel) {
    LIST_EACH(Nest, nest, &kernel->root->children) {
        const Chain chain = chain_from(kernel, nest);
        if (chain.iterations > 1 && chain.by != BY_ALL) return true;
    }
    return false;
}

/* The step of a parameter. Statements without elements come first and every thread computes them,
 * unless more than one loop over the elements follows. */
static void map_update(const KernelMapping *mapping) {
    const Kernel *kernel = mapping->kernel;
    const List *children = &kernel->root->children;
    Nest *last = children->items[children->count - 1];
    bool plain = !last->member && is_innermost(last);
    for (int i = 0; i + 1 < children->count; i++)
        plain &= ((const Nest *)children->items[i])->member != NULL;
    LIST_EACH(const Local, local, &kernel->locals)
        plain &= !local->stored || local->scope != kernel->root;
    LIST_EACH(const Member, member, &kernel->members)
        plain &= member->statement->reduction == REDUCE_NONE;
    if (!plain) {
        map_in_block(mapping, kernel->root);
        return;
    }
    last->map = (LoopMap){.by = BY_THREADS, .joined = 1, .independent = last->map.independent};
    last->map.width = vector_width(mapping->arena, kernel, last, true);
    map_launch(mapping, LAUNCH_LOOPS, last, (Launch){0, 256});
}

/* Marks the loops in which each statement has its own element in every iteration. */
static void mark_independent(const Kernel *kernel, const Nest *nest, int level) {
    LIST_EACH(Nest, child, &nest->children) {
        if (child->member) continue;
        bool listed = false;
        child->map.independent = true;
        LIST_EACH(const Member, member, &kernel->members) {
            if (!is_inside(member, child)) continue;
            child->map.independent &= level < member->kept;
            listed |= member->listed && member->path[0] == child;
        }
        mark_independent(kernel, child, level + 1 + listed);
    }
}

void map_kernel(const Program *program, Kernel *kernel) {
    const KernelMapping mapping = {program->arena, program, kernel};
    if (!kernel->root) return;
    mark_independent(kernel, kernel->root, 0);
    if (!program->target->launches) return;
    if (program->graph == GRAPH_UPDATE) {
        map_update(&mapping);
        return;
    }
    const bool small = kernel->work < small_work(program);
    if (!are_apart(kernel) || (small && !wants_blocks(kernel))) {
        map_in_block(&mapping, kernel->root);
        return;
    }
    LIST_EACH(Nest, nest, &kernel->root->children)
        if (small || (!map_sums(&mapping, nest) && !map_columns(&mapping, nest)))
            map_nest(&mapping, nest);
}

/* A kernel that every block of the launch of a product executes. */
static void map_prologue(const Program *program, Kernel *kernel) {
    mark_independent(kernel, kernel->root, 0);
    map_in_block(&(KernelMapping){program->arena, program, kernel}, kernel->root);
}

static void map_units(const Program *program, const List *units) {
    LIST_EACH(ScheduleUnit, unit, units) {
        if (unit->kind == UNIT_KERNEL) map_kernel(program, unit->kernel);
        if (unit->prologue) map_prologue(program, unit->prologue);
        if (unit->kind == UNIT_CALL && statement_is_scan(unit->statement))
            unit->scan = map_scan(program, unit->statement);
        map_units(program, &unit->body);
    }
}

void map(Schedule *schedule) {
    map_units(schedule->program, &schedule->units);
}
