/* survey: numbers the statements in the order of execution and notes who reads and writes each
 * tensor. */
#include "analysis/survey.h"

typedef struct Visit {
    Survey *survey;
    Statement *repeat;
} Visit;

static void note_read(Expr *expr, void *data) {
    const Visit *visit = data;
    if (expr->kind != EXPR_READ) return;
    Facts *facts = &visit->survey->facts[expr->tensor->id];
    if (facts->read && facts->reader_repeat != visit->repeat) facts->scattered_reads = true;
    facts->read = true;
    facts->reader_repeat = visit->repeat;
}

static void note_write(Survey *survey, Expr *target) {
    Arena *arena = survey->program->arena;
    Write *write = arena_alloc(arena, sizeof *write);
    *write = (Write){survey->count, target};
    list_push(arena, &survey->facts[target->tensor->id].writes, write);
}

static void note_statement(Visit *visit, Statement *statement, Block *block) {
    Survey *survey = visit->survey;
    if (statement->kind == STATEMENT_LOOP) {
        expr_walk(statement->value, note_read, visit);
        for (int i = 0; i < statement->target->count; i++)
            expr_walk(statement->target->args[i], note_read, visit);
        note_write(survey, statement->target);
    }
    for (int i = 0; i < statement->inputs.count; i++)
        expr_walk(statement->inputs.items[i], note_read, visit);
    for (int i = 0; i < statement->outputs.count; i++)
        note_write(survey, statement->outputs.items[i]);
    survey->places[survey->count++] = (Place){statement, block, visit->repeat};
}

static void note_block(Visit *visit, Block *block) {
    for (int i = 0; i < block->statements.count; i++) {
        Statement *statement = block->statements.items[i];
        if (statement->kind != STATEMENT_REPEAT) {
            note_statement(visit, statement, block);
            continue;
        }
        Statement *outer = visit->repeat;
        visit->repeat = statement;
        note_block(visit, &statement->body);
        visit->repeat = outer;
    }
}

static void count_statement(Statement *statement, void *data) {
    (void)statement;
    ++*(int *)data;
}

Survey *survey_new(Program *program) {
    Survey *survey = arena_alloc(program->arena, sizeof *survey);
    int statements = 0;
    block_walk(&program->body, count_statement, &statements);
    survey->program = program;
    survey->places = arena_alloc(program->arena, (size_t)(statements + 1) * sizeof *survey->places);
    survey->tensor_count = program->tensors.count;
    survey->facts =
        arena_alloc(program->arena, (size_t)survey->tensor_count * sizeof *survey->facts);
    Visit visit = {survey, NULL};
    note_block(&visit, &program->body);
    return survey;
}

bool survey_is_plain(const Survey *survey, const Tensor *tensor) {
    const Facts *facts = &survey->facts[tensor->id];
    if (tensor->role != ROLE_TEMP || facts->writes.count != 1) return false;
    const Write *write = facts->writes.items[0];
    const Statement *statement = survey->places[write->position].statement;
    if (statement->once || statement->accumulate) return false;
    for (int i = 0; i < write->target->count; i++) {
        if (write->target->args[i]->kind != EXPR_INDEX) return false;
        for (int j = 0; j < i; j++)
            if (expr_equal(write->target->args[i], write->target->args[j])) return false;
    }
    return true;
}

/* Two slices of one turn that are never the same: [i] and [i+1]. */
static bool differs(const Expr *a, const Expr *b, const Statement *repeat) {
    if (!a->count || !b->count || !repeat || expr_equal(a->args[0], b->args[0])) return false;
    for (int side = 0; side < 2; side++) {
        const Expr *slice = side ? b->args[0] : a->args[0];
        const Expr *base =
            slice->kind == EXPR_APPLY && slice->op == OP_ADD ? slice->args[0] : slice;
        if (base->kind != EXPR_INDEX || base->index != repeat->index) return false;
        if (base != slice && slice->args[1]->kind != EXPR_NUMBER) return false;
    }
    return true;
}

bool survey_changes(const Survey *survey, const Expr *read, int position) {
    const List *writes = &survey->facts[read->tensor->id].writes;
    const Statement *repeat = survey->places[position].repeat;
    for (int i = 0; i < writes->count; i++) {
        const Write *write = writes->items[i];
        if (write->position < position) continue;
        if (survey->places[write->position].repeat == repeat &&
            differs(read, write->target, repeat))
            continue;
        return true;
    }
    return false;
}

bool survey_is_local(const Survey *survey, const Tensor *tensor, const Statement *repeat) {
    const List *writes = &survey->facts[tensor->id].writes;
    if (!repeat) return false;
    for (int i = 0; i < writes->count; i++) {
        const Write *write = writes->items[i];
        if (survey->places[write->position].repeat == repeat &&
            !expr_uses_index(write->target, repeat->index))
            return true;
    }
    return false;
}
