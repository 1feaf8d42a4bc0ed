/* nest: adds a statement to the loops of a kernel.
 *
 * From outside to inside, a statement joins the last loop if both have the same number of
 * iterations and no statement accesses an element that another one writes in a different iteration.
 * Inside the shared loops it gets its own.
 *
 *     m[b,s] = sum[d] x[b,s,d]               for b, s:
 *     t[b,s] = rsqrt(m[b,s] / 64)      -->       for d: m += x
 *     y[b,s,d] = x[b,s,d] * t[b,s]               t = rsqrt(m / 64)
 *                                                for d: y = x * t
 */
#include "schedule/nest.h"
#include "base/must.h"

#include <math.h>

/* A larger kernel compiles slowly and is hard to read; minimum iterations of parallel loops;
 * operations of a GPU thread that are faster than a launch. */
enum { MAX_MEMBERS = 32, MIN_PARALLEL = 64, FEW_OPERATIONS = 64 };

typedef struct Accesses {
    List reads, writes;
} Accesses;

static Accesses reads_and_writes(Program *program, const Statement *statement) {
    Accesses accesses = {{0}, {0}};
    reads_of(program->arena, statement, &accesses.reads);
    writes_of(program->arena, statement, &accesses.writes);
    return accesses;
}

/* True if no element that `writes` of one member touch in one iteration of the loop at `level` is
 * among `touched` in another iteration. */
static bool apart(const List *writes, const Index *write_index, const List *touched,
                  const Index *touch_index) {
    for (int i = 0; i < writes->count; i++)
        for (int j = 0; j < touched->count; j++) {
            const Expr *write = writes->items[i], *touch = touched->items[j];
            if (write->tensor != touch->tensor || never_meet(write, touch)) continue;
            if (!same_iteration(write, write_index, touch, touch_index)) return false;
        }
    return true;
}

static bool may_share(Program *program, const Kernel *kernel, const Nest *loop, const Member *added,
                      int level) {
    Accesses new = reads_and_writes(program, added->statement);
    LIST_EACH(const Member, member, &kernel->members) {
        if (level >= member->depth || member->path[level] != loop) continue;
        if (member->listed || added->listed) return false;
        Accesses old = reads_and_writes(program, member->statement);
        const Index *a = member->order[level], *b = added->order[level];
        if (!apart(&old.writes, a, &new.reads, b) || !apart(&old.writes, a, &new.writes, b) ||
            !apart(&new.writes, b, &old.reads, a))
            return false;
    }
    return true;
}

/* A loop that one member sums over and another does not can be split among threads only by the
 * loops outside of it. */
static bool same_sort(const Kernel *kernel, const Nest *loop, const Member *added, int level) {
    LIST_EACH(const Member, member, &kernel->members)
        if (level < member->depth && member->path[level] == loop &&
            (level < member->kept) != (level < added->kept))
            return false;
    return true;
}

/* The bound of a loop of the member; the last loops of a block run over a part of their axis. */
static const Expr *bound_of(const Member *member, int level) {
    bool part = member->block >= 0 && (level == member->block || level == member->depth - 1);
    bool rows = member->order[level]->axis->kind == AXIS_ROWS;
    return rows && !part ? member->statement->bound : NULL;
}

static bool same_loop(const Nest *loop, const Member *added, int level) {
    bool elements = loop->index->axis->kind == AXIS_ELEMENTS;
    long step = level == added->block ? added->block_size : 1;
    bool in_block = added->block >= 0 && added->column && level == added->depth - 1;
    return loop->step == step && (loop->block != NULL) == in_block &&
           (!in_block || loop->block == added->path[added->block]) &&
           loop->size == loop_size(added->order[level]) && loop->bound == bound_of(added, level) &&
           elements == (added->order[level]->axis->kind == AXIS_ELEMENTS);
}

static Nest *last_loop(const Nest *nest) {
    Nest *last = nest->children.count ? nest->children.items[nest->children.count - 1] : NULL;
    return last && !last->member ? last : NULL;
}

/* The number of loops that the statement shares with the last nest of the kernel. */
static int shared_loops(Program *program, const Kernel *kernel, Member *added, bool small) {
    const Nest *at = kernel->root;
    double iterations = 1;
    int shared = 0;
    for (; shared < added->depth; shared++) {
        Nest *loop = last_loop(at);
        if (!loop || !same_loop(loop, added, shared) ||
            !may_share(program, kernel, loop, added, shared))
            break;
        if (!small && iterations < MIN_PARALLEL && !same_sort(kernel, loop, added, shared)) break;
        added->path[shared] = loop;
        if (shared < added->kept) iterations *= (double)loop->size;
        at = loop;
    }
    bool whole = shared == added->depth && last_loop(at) == NULL;
    return small || whole || iterations >= MIN_PARALLEL ? shared : 0;
}

static Nest *new_loop(Program *program, Nest *parent, const Member *added, int level) {
    Nest *loop = arena_alloc(program->arena, sizeof *loop);
    MUST(level < added->depth && added->order[level]);
    loop->index = added->order[level];
    loop->size = loop_size(loop->index);
    loop->step = level == added->block ? added->block_size : 1;
    loop->bound = bound_of(added, level);
    loop->total = level == added->block ? loop_size(added->order[added->depth - 1]) : loop->size;
    if (added->block >= 0 && level == added->depth - 1) loop->block = added->path[added->block];
    list_push(program->arena, &parent->children, loop);
    return loop;
}

/* On a GPU the nests of a large kernel are launched separately; scalars passed between them would
 * keep all of it in one block. */
static bool hands_over_numbers(const Program *program, const Kernel *kernel) {
    if (!program->target->launches || program->graph == GRAPH_UPDATE) return false;
    for (int i = 0; i < kernel->members.count; i++)
        if (((const Member *)kernel->members.items[i])->kept == 0) return true;
    return false;
}

/* The loops of a member from `level` on, and the member in the innermost. */
static void insert_member(Program *program, Kernel *kernel, Member *member, int level) {
    MUST(level <= member->depth);
    Nest *at = level ? member->path[level - 1] : kernel->root;
    for (; level < member->depth; level++)
        at = member->path[level] = new_loop(program, at, member, level);
    Nest *leaf = arena_alloc(program->arena, sizeof *leaf);
    leaf->member = member;
    list_push(program->arena, &at->children, leaf);
    list_push(program->arena, &kernel->members, member);
}

/* Removes the last member, whose loops from `level` on are its own. */
static void withdraw_member(Kernel *kernel, const Member *member, int level) {
    Nest *at = level ? member->path[level - 1] : kernel->root;
    at->children.count--;
    kernel->members.count--;
}

/* The threads of a statement in a kernel of its own. */
static double threads_alone(Program *program, Member member) {
    Kernel kernel = {.root = arena_alloc(program->arena, sizeof *kernel.root)};
    insert_member(program, &kernel, &member, 0);
    return statement_threads(&kernel, &member);
}

/* True if no statement has fewer threads because the last one shares its loops, as far as the
 * machine needs them for its work. */
static bool keeps_threads(const Program *program, const Kernel *kernel, const double *before) {
    for (int i = 0; i < kernel->members.count; i++) {
        const Member *member = kernel->members.items[i];
        const double threads = statement_threads(kernel, member);
        if (threads < fmin(before[i], program->target->threads) &&
            statement_work(member->statement) > FEW_OPERATIONS * threads)
            return false;
    }
    return true;
}

/* Adds the member to the shared loops. False, and the kernel is as before, if they leave too few
 * threads. */
static bool try_member(Program *program, Kernel *kernel, Member *member, int shared, bool small) {
    const int count = kernel->members.count;
    const bool counts = shared && !small && program->target->threads > 0;
    double *before = NULL;
    if (counts) {
        before = arena_alloc(program->arena, (size_t)(count + 1) * sizeof *before);
        for (int i = 0; i < count; i++)
            before[i] = statement_threads(kernel, kernel->members.items[i]);
        before[count] = threads_alone(program, *member);
    }
    insert_member(program, kernel, member, shared);
    if (!counts || keeps_threads(program, kernel, before)) return true;
    withdraw_member(kernel, member, shared);
    return false;
}

bool nest_add(Program *program, Kernel *kernel, Statement *statement, bool fresh) {
    if (!kernel->root) kernel->root = arena_alloc(program->arena, sizeof *kernel->root);
    Member *member = order_loops(program, statement);
    double work = statement_work(statement);
    bool small = kernel->work + work < small_work(program);
    int shared = fresh ? 0 : shared_loops(program, kernel, member, small);
    bool full = kernel->members.count >= MAX_MEMBERS && program->graph != GRAPH_UPDATE;
    if (!fresh && (full || (shared == 0 && !small))) return false;
    if (!fresh && !small && hands_over_numbers(program, kernel)) return false;
    if (!try_member(program, kernel, member, shared, small)) return false;
    kernel->work += work;
    return true;
}
