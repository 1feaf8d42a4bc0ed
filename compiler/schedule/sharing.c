/* sharing: which threads of a GPU may run the loops of a nest.
 *
 * The outer loops that no statement sums over become one, the chain. The threads of a block may
 * share the loops inside an iteration of the chain; all other loops run inside one thread.
 *
 *     for b, s:                       chain: b, s
 *         for d: m += x[b,s,d]        shared by the threads of a block
 *         for d: y = x * m            shared by the threads of a block
 */
#include "schedule/nest.h"

#include <math.h>

/* Threads of a block and of a column in it; iterations inside a thread below which sharing is not
 * worthwhile. */
enum { BLOCK_THREADS = 512, THREADS_PER_COLUMN = 32, FEW_ITERATIONS = 16 };

bool is_inside(const Member *member, const Nest *nest) {
    for (int i = 0; i < member->depth; i++)
        if (member->path[i] == nest) return true;
    return false;
}

bool reduces_at(const Member *member, const Nest *nest) {
    return member->statement->reduction != REDUCE_NONE && member->kept < member->depth &&
           member->path[member->kept] == nest;
}

bool is_innermost(const Nest *nest) {
    for (int i = 0; i < nest->children.count; i++)
        if (!((Nest *)nest->children.items[i])->member) return false;
    return true;
}

static bool sums_at(const Kernel *kernel, const Nest *nest, int level) {
    LIST_EACH(const Member, member, &kernel->members)
        if (is_inside(member, nest) && level >= member->kept) return true;
    return false;
}

static const Nest *only_child(const Nest *nest) {
    const Nest *child = nest->children.count == 1 ? nest->children.items[0] : NULL;
    return child && !child->member ? child : NULL;
}

static int chain_of(const Kernel *kernel, const Nest *nest) {
    int length = 0;
    for (; nest && !sums_at(kernel, nest, length); length++) nest = only_child(nest);
    return length;
}

bool threads_may_share(const Kernel *kernel, const Nest *nest, int level) {
    LIST_EACH(const Member, member, &kernel->members)
        if (is_inside(member, nest) && level >= member->kept &&
            (member->statement->reduction == REDUCE_NONE || level != member->kept))
            return false;
    return true;
}

int shared_chain(const Kernel *kernel, const Nest *nest, int level) {
    int length = 1;
    for (const Nest *next = only_child(nest); next; next = only_child(next), length++) {
        LIST_EACH(const Member, member, &kernel->members)
            if (is_inside(member, next) && member->kept != level && member->kept <= level + length)
                return length;
    }
    return length;
}

static bool scatters(const Member *member) {
    return member->statement->reduction == REDUCE_NONE && member->kept < member->depth;
}

static bool has_rows(const Kernel *kernel, const Nest *nest) {
    LIST_EACH(const Local, local, &kernel->locals)
        if (local->kind == LOCAL_ROW && is_inside(local->first, nest)) return true;
    return false;
}

long iterations_inside(const Nest *nest) {
    long most = 1;
    LIST_EACH(const Nest, child, &nest->children) {
        long iterations = child->member ? 1 : child->size * iterations_inside(child);
        if (iterations > most) most = iterations;
    }
    return most;
}

bool is_register(const Kernel *kernel, const Tensor *tensor) {
    const Local *local = local_in(kernel, tensor);
    return local && local->kind == LOCAL_SCALAR && !local->stored;
}

/* True if the loop stores a value that other threads may read. */
static bool stores_inside(const Kernel *kernel, const Nest *nest) {
    LIST_EACH(const Member, member, &kernel->members)
        if (is_inside(member, nest) && !reduces_at(member, nest) &&
            !is_register(kernel, member->statement->target->tensor))
            return true;
    return false;
}

static LoopBy sharing_of(const Kernel *kernel, const Nest *nest, const Nest *last, int length) {
    bool across = false, scatter = false, stores = false;
    if (is_innermost(last)) return BY_ALL;
    for (int i = 0; i < last->children.count; i++)
        stores |= stores_inside(kernel, last->children.items[i]);
    LIST_EACH(const Member, member, &kernel->members) {
        if (!is_inside(member, nest)) continue;
        scatter |= scatters(member);
        across |= member->across && member->kept == length;
    }
    if (scatter) return BY_ALL;
    if (has_rows(kernel, nest)) return BY_BLOCKS;
    if (iterations_inside(last) <= FEW_ITERATIONS) return BY_ALL;
    return across && !stores ? BY_COLUMNS : BY_BLOCKS;
}

Chain chain_from(const Kernel *kernel, Nest *nest) {
    Chain chain = {chain_of(kernel, nest), nest, 1, BY_BLOCKS};
    for (int i = 0; i < chain.length; i++) {
        if (i) chain.last = chain.last->children.items[0];
        chain.iterations *= chain.last->size;
    }
    if (chain.length) chain.by = sharing_of(kernel, nest, chain.last, chain.length);
    return chain;
}

Nest *last_joined(Nest *nest) {
    for (int i = nest->map.joined; i > 1; i--) nest = nest->children.items[0];
    return nest;
}

long joined_iterations(const Nest *nest) {
    long iterations = nest->size;
    for (int i = nest->map.joined; i > 1; i--) {
        nest = nest->children.items[0];
        iterations *= nest->size;
    }
    return iterations;
}

/* True if the loop contains only sums over it; several blocks can then share each sum. */
static bool holds_only_sums(const Kernel *kernel, const Nest *nest) {
    LIST_EACH(const Member, member, &kernel->members)
        if (is_inside(member, nest) && !reduces_at(member, nest)) return false;
    return true;
}

/* True if the member is alone in its nest and adds to computed elements: a block for each. */
static bool scatters_alone(const Kernel *kernel, const Member *member) {
    LIST_EACH(const Member, other, &kernel->members)
        if (other != member && is_inside(other, member->path[0])) return false;
    return scatters(member);
}

double statement_threads(const Kernel *kernel, const Member *member) {
    double all = 1;
    for (int i = 0; i < member->depth; i++) all *= (double)member->path[i]->size;
    if (!member->depth || scatters_alone(kernel, member)) return all;
    const Chain chain = chain_from(kernel, member->path[0]);
    const int length = chain.length;
    if (chain.by == BY_ALL || member->depth == length) return (double)chain.iterations;
    const Nest *inner = member->path[length];
    if (!threads_may_share(kernel, inner, length)) return (double)chain.iterations;
    const bool parts = chain.by == BY_COLUMNS || !length;
    const double most = parts && holds_only_sums(kernel, inner) ? INFINITY
                        : chain.by == BY_COLUMNS                ? THREADS_PER_COLUMN
                                                                : BLOCK_THREADS;
    double inside = 1;
    for (int i = shared_chain(kernel, inner, length); i > 0; i--)
        inside *= (double)member->path[length + i - 1]->size;
    return (double)chain.iterations * fmin(inside, most);
}
