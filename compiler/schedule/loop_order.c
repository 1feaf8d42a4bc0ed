/* loop_order: orders the loops of one statement from outside to inside.
 *
 *     y[b,s] = sum[d] x[b,s,d]        b s d     one sum along contiguous memory
 *     g[d] += sum[b,s] x[b,s,d]       D b s d   a block D of sums at once, along memory
 *     e[tokens[b,s],d] += x[b,s,d]    D b s d   a scatter: iterations with possibly equal targets
 *                                               stay in one thread
 *     y[at[r],d] += x[r,d]            r d       unless lists order the rows r by target: a thread
 *                                               processes all rows of a target
 *     p[at[r],n[r]] += x[r]           r         or no two rows have the same target
 *     g[n * 8 + r,d] += x[d,n,r]      n r d     on a GPU, where the loops are digits of a subscript
 */
#include "schedule/nest.h"
#include "base/must.h"

/* Sums kept at once: a few vector registers. A scatter of short rows uses smaller blocks, to have
 * enough of them for all threads. It uses no more blocks than necessary, because each reads a piece
 * of every row. */
enum { SUM_BLOCK = 64, LEAST_BLOCK = 16, SCATTER_BLOCKS = 8 };

typedef struct LoopWork {
    double operations;
} LoopWork;

static void count_operation(Expr *expr, void *data) {
    LoopWork *work = data;
    if (expr->kind == EXPR_APPLY) work->operations += op_table[expr->op].cost;
    if (expr->kind == EXPR_READ) work->operations += 0.5;
}

double statement_work(const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    LoopWork work = {1};
    expr_walk(statement->value, count_operation, &work);
    for (int i = 0; i < statement->loop_count; i++)
        work.operations *= (double)loop_size(statement->loops[i]);
    return work.operations;
}

double small_work(const Program *program) {
    const Target *target = program->graph == GRAPH_UPDATE ? &target_processor : program->target;
    return target->small_work;
}

typedef struct Contiguous {
    Index *index;
    int count;
} Contiguous;

static void count_contiguous(Expr *expr, void *data) {
    Contiguous *contiguous = data;
    long stride;
    if (expr->kind != EXPR_READ) return;
    if (!strides_of(expr, &contiguous->index, 1, &stride))
        contiguous->count--;
    else if (stride == 1)
        contiguous->count++;
    else if (stride > 1)
        contiguous->count--;
}

/* The number of reads that move by one element with the index, minus those that move further. */
static int contiguity(const Statement *statement, Index *index) {
    MUST(statement->kind == STATEMENT_LOOP);
    Contiguous contiguous = {index, 0};
    expr_walk(statement->value, count_contiguous, &contiguous);
    return contiguous.count;
}

typedef struct GatheredRows {
    Index *along, *across;
    bool found;
} GatheredRows;

static void find_gathered_row(Expr *expr, void *data) {
    GatheredRows *rows = data;
    long along, across;
    if (expr->kind != EXPR_READ || !expr_uses_index(expr, rows->across)) return;
    rows->found |= strides_of(expr, &rows->along, 1, &along) && along == 1 &&
                   !strides_of(expr, &rows->across, 1, &across);
}

/* True if the value reads rows along memory that a table lists: x[at[b,s,n],d]. */
static bool gathers_rows(const Statement *statement, Index *along, Index *across) {
    GatheredRows rows = {along, across, false};
    expr_walk(statement->value, find_gathered_row, &rows);
    return rows.found;
}

static bool is_plain_target(const Statement *statement, const Index *index) {
    MUST(statement->kind == STATEMENT_LOOP);
    for (int i = 0; i < statement->target->count; i++) {
        const Expr *target = statement->target;
        if (sub_loop(target->args[i], target->tensor->axes[i]) == index) return true;
    }
    return false;
}

static int target_dimension(const Statement *statement, const Index *index) {
    int dimension = 0;
    while (dimension < statement->target->count &&
           !expr_uses_index(statement->target->args[dimension], index))
        dimension++;
    return dimension;
}

/* Loops of the target and loops of sums; loops of one iteration are left out. */
typedef struct LoopSplit {
    Index *kept[MAX_LOOPS], *summed[MAX_LOOPS];
    int kept_count, summed_count;
} LoopSplit;

/* Adds a loop that is a digit of a subscript of the target, in the order of its dimensions. */
static void keep_digit(const Statement *statement, LoopSplit *split, Index *index) {
    const int dimension = target_dimension(statement, index);
    int at = split->kept_count++;
    for (; at && target_dimension(statement, split->kept[at - 1]) > dimension; at--)
        split->kept[at] = split->kept[at - 1];
    split->kept[at] = index;
}

static LoopSplit split_loops(const Program *program, const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    LoopSplit split = {.kept_count = 0};
    for (int i = 0; i < statement->loop_count; i++) {
        Index *index = statement->loops[i];
        if (loop_size(index) == 1) continue;
        if (is_plain_target(statement, index) || lands_alone(program, statement, index))
            split.kept[split.kept_count++] = index;
        else if (program->target->launches && is_digit(statement, index))
            keep_digit(statement, &split, index);
        else
            split.summed[split.summed_count++] = index;
    }
    return split;
}

static void swap_indices(Index **a, Index **b) {
    Index *old = *a;
    *a = *b;
    *b = old;
}

/* The largest summed loop first, so that it can be cut into chunks; the one along memory last. */
static void arrange_summed(const Statement *statement, LoopSplit *split) {
    int last = split->summed_count - 1;
    if (last < 1) return;
    int best = last;
    for (int i = 0; i < last; i++)
        if (contiguity(statement, split->summed[i]) > contiguity(statement, split->summed[best]))
            best = i;
    swap_indices(&split->summed[best], &split->summed[last]);
    int largest = 0;
    for (int i = 1; i < last; i++)
        if (loop_size(split->summed[i]) > loop_size(split->summed[largest])) largest = i;
    if (split->kept_count == 0) swap_indices(&split->summed[largest], &split->summed[0]);
}

static bool wants_column(const Statement *statement, const LoopSplit *split) {
    MUST(statement->kind == STATEMENT_LOOP);
    if (split->kept_count == 0 || split->summed_count == 0) return false;
    Index *kept = split->kept[split->kept_count - 1],
          *summed = split->summed[split->summed_count - 1];
    if (statement->reduction == REDUCE_NONE) {
        long stride;
        return !strides_of(statement->target, &kept, 1, &stride) || stride == 1;
    }
    return contiguity(statement, kept) > contiguity(statement, summed) ||
           gathers_rows(statement, kept, summed);
}

static long block_of_members(const Statement *statement, long size) {
    const long part = size / SCATTER_BLOCKS / LEAST_BLOCK * LEAST_BLOCK;
    if (statement->reduction != REDUCE_NONE || part > SUM_BLOCK) return SUM_BLOCK;
    return part > LEAST_BLOCK ? part : LEAST_BLOCK;
}

/* The relation whose lists order the rows of a scatter by target; NULL: none, or only one
 * target. */
static const Relation *places_listed(const Program *program, const Statement *statement,
                                     const LoopSplit *split) {
    if (statement->reduction != REDUCE_NONE || split->summed_count != 1 || split->kept_count != 1)
        return NULL;
    const Relation *relation = listed_rows(program, statement);
    return relation && list_count(relation) > 1 ? relation : NULL;
}

static void append_loop(Member *member, Index *index) {
    MUST(member->depth <= MAX_LOOPS); /* with the loop over blocks */
    member->order[member->depth++] = index;
}

Member *order_loops(Program *program, Statement *statement) {
    Member *member = arena_alloc(program->arena, sizeof *member);
    LoopSplit split = split_loops(program, statement);
    arrange_summed(statement, &split);
    member->statement = statement;
    member->block = -1;
    member->across = wants_column(statement, &split);
    member->column = member->across && program->target->column_sums;
    if (member->column) member->listed = places_listed(program, statement, &split);

    int kept = split.kept_count - (member->column ? 1 : 0);
    for (int i = 0; i < kept; i++) append_loop(member, split.kept[i]);
    if (member->column) {
        Index *last = split.kept[kept];
        long size = loop_size(last), block = block_of_members(statement, size);
        if (size > block && !member->listed) {
            Axis *axis = arena_alloc(program->arena, sizeof *axis);
            *axis = (Axis){.name = last->axis->name, .size = (size + block - 1) / block};
            member->block = member->depth;
            member->block_size = block;
            append_loop(
                member,
                index_new(program, arena_format(program->arena, "%s_from", last->name), axis));
        }
    }
    member->kept = member->depth;
    for (int i = 0; i < split.summed_count; i++) append_loop(member, split.summed[i]);
    if (member->column) append_loop(member, split.kept[kept]);
    return member;
}
