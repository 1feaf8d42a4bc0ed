/* access: compares the elements of two accesses, as far as fusion requires. */
#include "analysis/access.h"
#include "base/must.h"

void statement_walk(const Statement *statement, void (*visit)(Expr *expr, void *data), void *data) {
    if (statement->kind == STATEMENT_LOOP) {
        expr_walk(statement->target, visit, data);
        expr_walk(statement->value, visit, data);
    }
    for (int i = 0; i < statement->inputs.count; i++)
        expr_walk(statement->inputs.items[i], visit, data);
}

typedef struct Collect {
    Arena *arena;
    List *list;
} Collect;

static void collect_read(Expr *expr, void *data) {
    Collect *collect = data;
    if (expr->kind == EXPR_READ) list_push(collect->arena, collect->list, expr);
}

void reads_of(Arena *arena, const Statement *statement, List *list) {
    Collect collect = {arena, list};
    if (statement->bound) list_push(arena, list, statement->bound);
    if (statement->kind == STATEMENT_LOOP) {
        expr_walk(statement->value, collect_read, &collect);
        for (int i = 0; i < statement->target->count; i++)
            expr_walk(statement->target->args[i], collect_read, &collect);
    }
    for (int i = 0; i < statement->inputs.count; i++)
        expr_walk(statement->inputs.items[i], collect_read, &collect);
}

void writes_of(Arena *arena, const Statement *statement, List *list) {
    if (statement->kind == STATEMENT_LOOP) list_push(arena, list, statement->target);
    list_append(arena, list, &statement->outputs);
}

Statement *loop_writing(const Block *block, const Tensor *tensor) {
    LIST_EACH(Statement, statement, &block->statements)
        if (statement->target->tensor == tensor) return statement;
    return NULL;
}

List accesses_of(Arena *arena, const Statement *statement) {
    List list = {0};
    reads_of(arena, statement, &list);
    writes_of(arena, statement, &list);
    return list;
}

bool accesses_have(const List *accesses, const Tensor *tensor) {
    return list_find_by(accesses, offsetof(Expr, tensor), tensor) != NULL;
}

bool same_start(const Expr *a, const Expr *b) {
    return a->kind == b->kind && (a->kind == EXPR_INDEX || expr_equal(a->args[0], b->args[0]));
}

bool same_iteration(const Expr *one, const Index *first, const Expr *other, const Index *second) {
    MUST(one->count == other->count);
    for (int i = 0; i < one->count; i++) {
        const Expr *a = one->args[i], *b = other->args[i];
        if (sub_loop(a, one->tensor->axes[i]) == first &&
            sub_loop(b, other->tensor->axes[i]) == second && same_start(a, b))
            return true;
    }
    return false;
}

bool step_and_offset(const Expr *sub, const Index **step, double *offset) {
    *step = NULL;
    *offset = 0;
    if (sub->kind == EXPR_NUMBER) return *offset = sub->number, true;
    if (sub->kind == EXPR_INDEX) return *step = sub->index, sub->index->of_repeat;
    if (sub->kind != EXPR_APPLY || (sub->op != OP_ADD && sub->op != OP_SUB)) return false;
    const Expr *a = sub->args[0], *b = sub->args[1];
    if (a->kind != EXPR_INDEX || !a->index->of_repeat || b->kind != EXPR_NUMBER) return false;
    *step = a->index;
    *offset = sub->op == OP_ADD ? b->number : -b->number;
    return true;
}

bool never_meet(const Expr *one, const Expr *other) {
    for (int i = 0; i < one->count; i++) {
        const Index *a, *b;
        double first, second;
        if (step_and_offset(one->args[i], &a, &first) &&
            step_and_offset(other->args[i], &b, &second) && a == b && first != second)
            return true;
    }
    return false;
}

/* True if the statement adds to the entries in the tables of `flat`, by rows of the relation. */
static bool goes_by(const Flat *flat, const Relation *relation, const Expr *target) {
    MUST(target->kind == EXPR_READ);
    int found = 0;
    const Index *row = NULL;
    for (int i = 0; i < target->count; i++) {
        const Expr *sub = target->args[i];
        if (sub->kind == EXPR_INDEX || sub->kind == EXPR_NUMBER) continue;
        if (sub->kind != EXPR_READ || found == flat->count || sub->tensor != flat->of[found++])
            return false;
        const Expr *at = sub->args[sub->count - 1];
        if (at->kind != EXPR_INDEX || at->index->axis != relation->rows ||
            (row && row != at->index))
            return false;
        row = at->index;
    }
    return found > 0 && found == flat->count;
}

const Relation *listed_rows(const Program *program, const Statement *statement) {
    if (statement->kind != STATEMENT_LOOP || !statement_is_scatter(statement)) return NULL;
    LIST_EACH(const Relation, relation, &program->relations)
        if (relation->flats.count && goes_by(relation->flats.items[0], relation, statement->target))
            return relation;
    return NULL;
}

long list_count(const Relation *relation) {
    return relation->start->axes[0]->size - 1;
}

/* True if a subscript of the target is the coordinate of the row. */
static bool names_coordinate(const Expr *target, const Tensor *coordinate, const Index *row) {
    MUST(target->kind == EXPR_READ);
    for (int i = 0; i < target->count; i++) {
        const Expr *sub = target->args[i];
        if (sub->kind == EXPR_READ && sub->tensor == coordinate && sub->count == 1 &&
            sub->args[0]->kind == EXPR_INDEX && sub->args[0]->index == row)
            return true;
    }
    return false;
}

bool lands_alone(const Program *program, const Statement *statement, const Index *row) {
    MUST(statement->kind == STATEMENT_LOOP);
    LIST_EACH(const Relation, relation, &program->relations) {
        bool all = relation->rows == row->axis && !relation->outer && relation->coordinate[0];
        for (int j = 0; j < MAX_RANK && all && relation->coordinate[j]; j++)
            all = names_coordinate(statement->target, relation->coordinate[j], row);
        if (all) return true;
    }
    return false;
}

/* True if one statement writes a tensor that is accessed. */
static bool writes_one(Arena *arena, const Statement *statement, const List *accesses) {
    List writes = {0};
    writes_of(arena, statement, &writes);
    for (int i = 0; i < writes.count; i++)
        if (accesses_have(accesses, ((const Expr *)writes.items[i])->tensor)) return true;
    return false;
}

bool statements_meet(Arena *arena, const Statement *one, const Statement *other) {
    const List accesses[2] = {accesses_of(arena, one), accesses_of(arena, other)};
    return writes_one(arena, one, &accesses[1]) || writes_one(arena, other, &accesses[0]);
}

typedef struct Touches {
    Arena *arena;
    int *count; /* by tensor->id */
} Touches;

static void count_touches(Statement *statement, void *data) {
    Touches *touches = data;
    const List list = accesses_of(touches->arena, statement);
    for (int i = 0; i < list.count; i++) {
        const Tensor *tensor = ((const Expr *)list.items[i])->tensor;
        bool again = false;
        for (int j = 0; j < i; j++) again |= ((const Expr *)list.items[j])->tensor == tensor;
        if (!again) touches->count[tensor->id]++;
    }
}

int *touches_of(Program *program) {
    size_t tensors = (size_t)program->tensors.count + 1;
    Touches touches = {.arena = program->arena};
    touches.count = arena_alloc(program->arena, tensors * sizeof *touches.count);
    block_walk(&program->body, count_touches, &touches);
    return touches.count;
}

int rows_dimension(const Tensor *mask) {
    int dimension = 0;
    for (int i = 0; i < mask->rank; i++) {
        if (mask->axes[i]->kind == AXIS_ROWS) return dimension;
        dimension += mask->axes[i]->kind != AXIS_REPEAT;
    }
    return -1;
}

bool is_computed(const Expr *sub) {
    return sub->kind == EXPR_READ || sub->kind == EXPR_APPLY;
}
