/* scan: recurrences as one statement, see call.def. */
#include "ir/call.h"
#include "base/must.h"

bool statement_is_scan(const Statement *statement) {
    return statement->row && statement->row->has_body;
}

Statement *statement_scan(Program *program, Block *block, Index *index, bool reverse, Span span) {
    Statement *scan = statement_call(program, block, CALL_SCAN, span);
    scan->index = index;
    scan->reverse = reverse;
    MUST(index);
    index->of_repeat = true;
    return scan;
}

/* ---- operands ---- */

typedef struct Operands {
    Program *program;
    Statement *scan;
    bool *defined; /* by tensor id: set in the body, not only added to */
} Operands;

/* True if it consists of indices of repeats around the scan and of numbers. */
static bool is_fixed_step(const Expr *sub, const Index *position) {
    if (sub->kind == EXPR_READ || expr_uses_index(sub, position)) return false;
    if (sub->kind == EXPR_INDEX) return sub->index->of_repeat;
    for (int i = 0; i < sub->count; i++)
        if (!is_fixed_step(sub->args[i], position)) return false;
    return true;
}

static bool same_part(const Expr *a, const Expr *b) {
    for (int i = 0; i < a->count; i++) {
        bool plain = a->args[i]->kind == EXPR_INDEX && !a->args[i]->index->of_repeat,
             other = b->args[i]->kind == EXPR_INDEX && !b->args[i]->index->of_repeat;
        if (plain != other || (!plain && !expr_equal(a->args[i], b->args[i]))) return false;
    }
    return true;
}

static void add_operand(Operands *operands, List *list, const Expr *access) {
    MUST(access->kind == EXPR_READ);
    Program *program = operands->program;
    Expr *subs[MAX_RANK];
    for (int i = 0; i < access->count; i++) {
        Axis *axis = access->tensor->axes[i];
        bool step =
            axis->kind == AXIS_REPEAT && is_fixed_step(access->args[i], operands->scan->index);
        subs[i] = step ? access->args[i] : expr_index(program, index_over(program, axis));
    }
    Expr *whole = expr_read(program, access->tensor, subs);
    whole->span = access->span;
    LIST_EACH(const Expr, other, list)
        if (other->tensor == whole->tensor && same_part(other, whole)) return;
    list_push(program->arena, list, whole);
}

static void note_read(Expr *expr, void *data) {
    Operands *operands = data;
    if (expr->kind == EXPR_READ && !operands->defined[expr->tensor->id])
        add_operand(operands, &operands->scan->inputs, expr);
}

static void note_reads(Operands *operands, const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    expr_walk(statement->value, note_read, operands);
    for (int i = 0; i < statement->target->count; i++)
        expr_walk(statement->target->args[i], note_read, operands);
    if (statement->accumulate) note_read(statement->target, operands);
}

void scan_operands(Program *program, Statement *scan) {
    MUST(statement_is_scan(scan));
    Operands operands = {.program = program, .scan = scan};
    operands.defined = arena_alloc(program->arena, (size_t)program->tensors.count * sizeof(bool));
    scan->inputs = scan->outputs = (List){0};
    LIST_EACH(const Statement, statement, &scan->body.statements) {
        MUST(statement->kind == STATEMENT_LOOP);
        if (!statement->accumulate) operands.defined[statement->target->tensor->id] = true;
    }
    LIST_EACH(const Statement, statement, &scan->body.statements) {
        note_reads(&operands, statement);
        add_operand(&operands, &scan->outputs, statement->target);
    }
}

/* ---- copies ---- */

static List copy_list(Program *program, const List *list, Index *const *from, Expr *const *to,
                      int count) {
    List copy = {0};
    for (int i = 0; i < list->count; i++)
        list_push(program->arena, &copy, expr_substitute(program, list->items[i], from, to, count));
    return copy;
}

Statement *statement_copy(Program *program, const Statement *statement, Index *const *from,
                          Expr *const *to, int count) {
    Statement *copy = arena_alloc(program->arena, sizeof *copy);
    *copy = *statement;
    if (statement->kind == STATEMENT_LOOP) {
        copy->target = expr_substitute(program, statement->target, from, to, count);
        copy->value = expr_substitute(program, statement->value, from, to, count);
    }
    copy->inputs = copy_list(program, &statement->inputs, from, to, count);
    copy->outputs = copy_list(program, &statement->outputs, from, to, count);
    copy->body = (Block){{NULL, 0, 0}};
    for (int i = 0; i < statement->body.statements.count; i++)
        list_push(program->arena, &copy->body.statements,
                  statement_copy(program, statement->body.statements.items[i], from, to, count));
    return copy;
}
