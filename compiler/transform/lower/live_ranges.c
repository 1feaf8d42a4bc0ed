/* live_ranges: shortens the lifetimes of temporaries in one chunk of a repeat.
 *
 * Needs:   a body with independent iterations, made by strip_mine.
 * Leaves:  the same values. Temporaries that are alive at the memory peak without a use there are
 *          computed later, recomputed if that is cheap, or consumed earlier.
 *
 *     key[j,e] = k[64*n+j,e]                key[j,e] = k[64*n+j,e]
 *     a[i,j] = sum[e] q[i,e] * key[j,e]     a[i,j] = sum[e] q[i,e] * key[j,e]
 *     ...                             -->   ...
 *     b[j,c] = sum[e] key[j,e] * s[e,c]     key_again[j,e] = k[64*n+j,e]
 *                                           b[j,c] = sum[e] key_again[j,e] * s[e,c]
 */
#include "transform/lower/strip_mine.h"
#include "base/must.h"

#include "analysis/access.h"
#include "ir/ir.h"

#include <string.h>

/* Limits for moved and for recomputed statements; maximum operations per recomputed element. */
enum { MAX_MOVES = 64, MAX_AGAIN = 12, CHEAP = 64 };

/* A statement of the body with its accesses. */
typedef struct Link {
    Statement *statement;
    List reads, writes; /* Expr * */
    bool refused;       /* moving it has not helped */
} Link;

/* The accesses of the body to a tensor. */
typedef struct Life {
    bool known; /* local to the body, which writes all of it before reading it */
    int first, last;
    int writers;
} Life;

/* Peak of live memory: bytes, the first statement with it, number of statements with it. */
typedef struct Peak {
    long bytes;
    int at, width;
} Peak;

typedef struct Ranges {
    Program *program;
    Link *links;
    int count;
    const bool *local; /* by tensor->id, of the first `tensors` */
    int tensors;
    Life *lives; /* by tensor->id */
    Peak peak;
    int again; /* number of recomputations */
} Ranges;

/* Moves the statement at `from` before the one at `to`, or inserts a copy that computes `copied`
 * there. */
typedef struct Move {
    long bytes; /* saved at the peak */
    int from, to;
    Tensor *copied;
} Move;

/* ---- lifetimes ---- */

static Tensor *tensor_at(const List *accesses, int i) {
    return ((const Expr *)accesses->items[i])->tensor;
}

/* True if it is the first access of the list to its tensor. */
static bool is_new(const List *accesses, int i) {
    for (int j = 0; j < i; j++)
        if (tensor_at(accesses, j) == tensor_at(accesses, i)) return false;
    return true;
}

static bool touches(const Link *link, const Tensor *tensor) {
    return accesses_have(&link->reads, tensor) || accesses_have(&link->writes, tensor);
}

static Link link_of(Arena *arena, Statement *statement) {
    Link link = {.statement = statement};
    reads_of(arena, statement, &link.reads);
    writes_of(arena, statement, &link.writes);
    return link;
}

static long range_bytes(const Tensor *tensor) {
    return tensor_elements(tensor) * type_bytes(tensor->type);
}

static void note_touch(Ranges *ranges, const Tensor *tensor, int at, bool defines) {
    Life *life = &ranges->lives[tensor->id];
    bool local = tensor->id >= ranges->tensors || ranges->local[tensor->id];
    if (life->first < 0) life->known = local && defines;
    if (life->first < 0) life->first = at;
    life->last = at;
}

static void note_link(Ranges *ranges, int at) {
    const Link *link = &ranges->links[at];
    const Statement *statement = link->statement;
    bool defines = statement->kind == STATEMENT_CALL ||
                   (!statement->accumulate && !statement_is_scatter(statement));
    for (int i = 0; i < link->reads.count; i++)
        note_touch(ranges, tensor_at(&link->reads, i), at, false);
    for (int i = 0; i < link->writes.count; i++) {
        note_touch(ranges, tensor_at(&link->writes, i), at, defines);
        ranges->lives[tensor_at(&link->writes, i)->id].writers++;
    }
}

static void find_lives(Ranges *ranges) {
    const List *tensors = &ranges->program->tensors;
    long *more = arena_alloc(ranges->program->arena, ((size_t)ranges->count + 1) * sizeof *more);
    for (int id = 0; id < tensors->count; id++) ranges->lives[id] = (Life){false, -1, -1, 0};
    for (int i = 0; i < ranges->count; i++) note_link(ranges, i);
    for (int id = 0; id < tensors->count; id++) {
        const Life *life = &ranges->lives[id];
        if (!life->known) continue;
        more[life->first] += range_bytes(tensors->items[id]);
        more[life->last + 1] -= range_bytes(tensors->items[id]);
    }
    ranges->peak = (Peak){0, 0, 0};
    long bytes = 0;
    for (int i = 0; i < ranges->count; i++) {
        bytes += more[i];
        ranges->peak.width += bytes == ranges->peak.bytes;
        if (bytes > ranges->peak.bytes) ranges->peak = (Peak){bytes, i, 1};
    }
}

static bool lives_at_peak(const Ranges *ranges, const Tensor *tensor) {
    const Life *life = &ranges->lives[tensor->id];
    return life->known && life->first <= ranges->peak.at && life->last >= ranges->peak.at;
}

/* The last statement before `at` that accesses the tensor. */
static int touched_before(const Ranges *ranges, const Tensor *tensor, int at) {
    do at--;
    while (at >= 0 && !touches(&ranges->links[at], tensor));
    MUST(at >= 0);
    return at;
}

/* ---- possible moves ---- */

/* True if a statement between the two writes an operand of the one at `from`. */
static bool reads_change(const Ranges *ranges, int from, int to) {
    const List *reads = &ranges->links[from].reads;
    for (int i = 0; i < reads->count; i++)
        for (int j = from + 1; j < to; j++)
            if (accesses_have(&ranges->links[j].writes, tensor_at(reads, i))) return true;
    return false;
}

/* Bytes that are alive at the peak only if the statement comes after it. */
static long bytes_held(const Ranges *ranges, int from) {
    const List *reads = &ranges->links[from].reads;
    long bytes = 0;
    for (int i = 0; i < reads->count; i++) {
        const Life *life = &ranges->lives[tensor_at(reads, i)->id];
        if (is_new(reads, i) && life->known && life->last < ranges->peak.at)
            bytes += range_bytes(tensor_at(reads, i));
    }
    return bytes;
}

typedef struct RecomputeCost {
    double cost;
    bool random;
} RecomputeCost;

static void add_cost(Expr *expr, void *data) {
    RecomputeCost *making = data;
    if (expr->kind != EXPR_APPLY) return;
    making->cost += op_table[expr->op].cost;
    making->random |= op_is_random(expr->op);
}

static bool is_cheap(const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    RecomputeCost making = {0};
    if (statement->reduction != REDUCE_NONE || statement->accumulate ||
        statement_is_scatter(statement))
        return false;
    expr_walk(statement->value, add_cost, &making);
    return !making.random && making.cost <= CHEAP;
}

/* Computes a tensor that is alive at the peak, but used only later, after the peak. */
static Move is_later(const Ranges *ranges, Tensor *tensor) {
    const Life *life = &ranges->lives[tensor->id];
    const Link *maker = &ranges->links[life->first];
    int to = ranges->peak.at + 1;
    if (life->last < to || touches(&ranges->links[to - 1], tensor)) return (Move){0};
    while (!touches(&ranges->links[to], tensor)) to++;
    bool copied = touched_before(ranges, tensor, to) > life->first;
    if (maker->statement->kind != STATEMENT_LOOP || reads_change(ranges, life->first, to))
        return (Move){0};
    if (copied && (ranges->again == MAX_AGAIN || life->writers > 1 || !is_cheap(maker->statement)))
        return (Move){0};
    long bytes = range_bytes(tensor) - bytes_held(ranges, life->first);
    return (Move){bytes, life->first, to, copied ? tensor : NULL};
}

/* Moves the statement at `from` before the peak if only that statement keeps its operands alive. */
static Move sooner(const Ranges *ranges, int from) {
    Arena *arena = ranges->program->arena;
    const Link *link = &ranges->links[from];
    int to = from;
    long bytes = 0;
    while (to > 0 && !statements_meet(arena, ranges->links[to - 1].statement, link->statement))
        to--;
    for (int i = 0; i < link->writes.count; i++) {
        const Life *life = &ranges->lives[tensor_at(&link->writes, i)->id];
        if (life->known && life->first == from) bytes -= range_bytes(tensor_at(&link->writes, i));
    }
    for (int i = 0; i < link->reads.count; i++) {
        const Tensor *tensor = tensor_at(&link->reads, i);
        if (!is_new(&link->reads, i) || !lives_at_peak(ranges, tensor) ||
            ranges->lives[tensor->id].last != from || accesses_have(&link->writes, tensor))
            continue;
        int before = touched_before(ranges, tensor, from);
        if (before >= ranges->peak.at) continue;
        bytes += range_bytes(tensor);
        if (to <= before) to = before + 1;
    }
    return to > ranges->peak.at ? (Move){0} : (Move){bytes, from, to, NULL};
}

/* Recomputes only if nothing can be moved. */
static bool is_better(const Ranges *ranges, const Move *move, const Move *than) {
    if (move->bytes <= 0 || ranges->links[move->from].refused) return false;
    if (than->bytes <= 0) return true;
    if (!move->copied != !than->copied) return !move->copied;
    return move->bytes > than->bytes;
}

static Move best_move(const Ranges *ranges) {
    const List *tensors = &ranges->program->tensors;
    Move best = {0};
    for (int id = 0; id < tensors->count; id++) {
        if (!lives_at_peak(ranges, tensors->items[id])) continue;
        Move move = is_later(ranges, tensors->items[id]);
        if (is_better(ranges, &move, &best)) best = move;
    }
    for (int i = ranges->peak.at + 1; i < ranges->count; i++) {
        Move move = sooner(ranges, i);
        if (is_better(ranges, &move, &best)) best = move;
    }
    return best;
}

/* ---- moves ---- */

static void make_again(Ranges *ranges, const Move *move) {
    Program *program = ranges->program;
    const Tensor *tensor = move->copied;
    Tensor *again = tensor_new(program, arena_format(program->arena, "%s_again", tensor->name),
                               ROLE_TEMP, tensor->type, tensor->rank, tensor->axes, tensor->span);
    again->spec_name = tensor->spec_name;
    Statement *copy = statement_copy(program, ranges->links[move->from].statement, NULL, NULL, 0);
    Link *links = &ranges->links[move->to];
    memmove(links + 1, links, (size_t)(ranges->count++ - move->to) * sizeof *links);
    MUST(ranges->again < MAX_AGAIN);
    links->statement = copy;
    for (int i = move->to; i < ranges->count; i++) {
        Link *link = &ranges->links[i];
        rewrite_tensor(program, link->statement, tensor, again);
        *link = link_of(program->arena, link->statement);
    }
    ranges->again++;
    program->has[HAS_STRIP_RECOMPUTED] = true;
}

/* Moves the link at `from` to `to` and shifts those between. */
static void shift(Ranges *ranges, int from, int to) {
    const Link moved = ranges->links[from];
    const int by = from < to ? 1 : -1;
    for (int i = from; i != to; i += by) ranges->links[i] = ranges->links[i + by];
    ranges->links[to] = moved;
}

/* Returns false and undoes the move if it does not reduce the peak. */
static bool try_move(Ranges *ranges, const Move *move) {
    const Peak old = ranges->peak;
    const int to = move->to > move->from ? move->to - 1 : move->to;
    shift(ranges, move->from, to);
    find_lives(ranges);
    if (ranges->peak.bytes < old.bytes ||
        (ranges->peak.bytes == old.bytes && ranges->peak.width < old.width))
        return true;
    shift(ranges, to, move->from);
    find_lives(ranges);
    return false;
}

static void forget_refusals(Ranges *ranges) {
    for (int i = 0; i < ranges->count; i++) ranges->links[i].refused = false;
}

static void shorten(Ranges *ranges) {
    find_lives(ranges);
    for (int i = 0; i < MAX_MOVES; i++) {
        const Move move = best_move(ranges);
        if (move.bytes <= 0) return;
        if (move.copied) {
            make_again(ranges, &move);
            find_lives(ranges);
        } else if (!try_move(ranges, &move)) {
            ranges->links[move.from].refused = true;
            continue;
        }
        forget_refusals(ranges);
    }
}

void live_ranges(Program *program, Block *body, const bool *local, int tensors) {
    Arena *arena = program->arena;
    Ranges ranges = {program, .count = body->statements.count, .local = local, .tensors = tensors};
    const size_t links = (size_t)ranges.count + MAX_AGAIN,
                 lives = (size_t)program->tensors.count + MAX_AGAIN;
    ranges.links = arena_alloc(arena, links * sizeof *ranges.links);
    ranges.lives = arena_alloc(arena, lives * sizeof *ranges.lives);
    for (int i = 0; i < ranges.count; i++)
        ranges.links[i] = link_of(arena, body->statements.items[i]);
    shorten(&ranges);
    body->statements = (List){0};
    for (int i = 0; i < ranges.count; i++)
        list_push(arena, &body->statements, ranges.links[i].statement);
}
