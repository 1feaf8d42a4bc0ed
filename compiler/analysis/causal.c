/* causal: what a decoding step needs of a program, and whether it can be had one place after the
 * other.
 *
 * Every equation must be pointwise along the sequence, or look back: attention, x[s-1], the first
 * place, sum[t] x[t] * (t <= s). Anything else is an error that names the equation; all of them are
 * reported.
 */
#include "analysis/causal.h"

int dimension_of(const Tensor *tensor, const Axis *axis) {
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->axes[i] == axis) return i;
    return -1;
}

/* ---- what is used ---- */

typedef struct Use {
    bool *wanted; /* by tensor */
    bool changed;
} Use;

static void want_read(Expr *expr, void *data) {
    Use *use = data;
    if (expr->kind != EXPR_READ || use->wanted[expr->tensor->id]) return;
    use->wanted[expr->tensor->id] = true;
    use->changed = true;
}

static bool writes_wanted(const Use *use, const Statement *statement) {
    if (statement->kind == STATEMENT_LOOP)
        return use->wanted[statement->target->tensor->id] && !statement->once;
    for (int i = 0; i < statement->outputs.count; i++)
        if (use->wanted[((Expr *)statement->outputs.items[i])->tensor->id]) return true;
    return false;
}

static void want_operands(Statement *statement, void *data) {
    Use *use = data;
    if (!writes_wanted(use, statement)) return;
    if (statement->kind == STATEMENT_LOOP) {
        expr_walk(statement->target, want_read, use);
        expr_walk(statement->value, want_read, use);
    }
    for (int i = 0; i < statement->inputs.count; i++)
        expr_walk(statement->inputs.items[i], want_read, use);
    for (int i = 0; i < statement->outputs.count; i++)
        expr_walk(statement->outputs.items[i], want_read, use);
}

static void drop_statements(const Use *use, Block *block) {
    int kept = 0;
    for (int i = 0; i < block->statements.count; i++) {
        Statement *statement = block->statements.items[i];
        bool keep = writes_wanted(use, statement);
        if (statement->kind == STATEMENT_REPEAT) {
            drop_statements(use, &statement->body);
            keep = statement->body.statements.count > 0;
        }
        if (keep) block->statements.items[kept++] = statement;
    }
    block->statements.count = kept;
}

/* drop_unused: statements and tensors that the outputs do not need. Parameters and states stay: all
 * graphs share them. */
void drop_unused(Program *program) {
    Use use = {.wanted =
                   arena_alloc(program->arena, (size_t)program->tensors.count * sizeof(bool))};
    for (int i = 0; i < program->outputs.count; i++)
        use.wanted[((Tensor *)program->outputs.items[i])->id] = true;
    do {
        use.changed = false;
        block_walk_back(&program->body, want_operands, &use);
    } while (use.changed);
    drop_statements(&use, &program->body);
    for (int i = 0; i < program->tensors.count; i++) {
        Role role = ((const Tensor *)program->tensors.items[i])->role;
        if (role == ROLE_PARAMETER || role == ROLE_STATE) use.wanted[i] = true;
    }
    tensors_keep(program, use.wanted);
}

/* ---- what looks ahead ---- */

typedef struct Check {
    Program *program;
    const Statement *statement;
    const Index *place;  /* the index of the statement that runs over the sequence, or NULL */
    const Index *summed; /* the index of earlier places that it sums over, or NULL */
    bool good;
} Check;

static void error_message(Check *check, const char *what) {
    Reports *reports = check->program->reports;
    if (check->good) report_error(reports, check->statement->span, "cannot decode: this %s", what);
    check->good = false;
}

/* s - number: a place before this one. */
static bool looks_back(const Expr *sub, const Index *place) {
    return sub->kind == EXPR_APPLY && sub->op == OP_SUB && sub->args[0]->kind == EXPR_INDEX &&
           sub->args[0]->index == place && sub->args[1]->kind == EXPR_NUMBER &&
           sub->args[1]->number >= 0;
}

static void check_read(Expr *expr, void *data) {
    Check *check = data;
    if (expr->kind != EXPR_READ) return;
    if (expr->tensor->role == ROLE_PARAMETER || expr->tensor->role == ROLE_STATE) return;
    int dimension = dimension_of(expr->tensor, check->program->sequence);
    if (dimension < 0) return;
    const Expr *sub = expr->args[dimension];
    bool here =
        sub->kind == EXPR_INDEX && (sub->index == check->place || sub->index == check->summed);
    if (!here && !looks_back(sub, check->place) && !expr_is_number(sub, 0))
        error_message(check, "reads other places of the sequence");
}

static bool on_left(const Statement *statement, const Index *index) {
    for (int i = 0; i < statement->target->count; i++) {
        const Expr *sub = statement->target->args[i];
        if (sub->kind == EXPR_INDEX && sub->index == index) return true;
    }
    return false;
}

Index *summed_places(const Statement *statement, const Axis *sequence) {
    for (int i = 0; i < statement->loop_count; i++) {
        Index *index = statement->loops[i];
        if (index->axis == sequence && !on_left(statement, index)) return index;
    }
    return NULL;
}

Expr *earlier_only(Expr *value, const Index *summed) {
    if (value->kind != EXPR_APPLY) return NULL;
    if (value->op == OP_MUL || value->op == OP_AND) {
        Expr *first = earlier_only(value->args[0], summed);
        return first ? first : earlier_only(value->args[1], summed);
    }
    if (value->op == OP_WHERE && expr_is_number(value->args[2], 0))
        return earlier_only(value->args[0], summed);
    if (value->op != OP_LE && value->op != OP_LT) return NULL;
    const Expr *early = value->args[0], *late = value->args[1];
    bool places = early->kind == EXPR_INDEX && late->kind == EXPR_INDEX && early->index == summed &&
                  late->index != summed && late->index->axis == summed->axis;
    return places ? value : NULL;
}

/* The place of a scan over the sequence that the statement stands in, or NULL. */
static const Index *scanned_place(const Statement *statement, const Axis *sequence) {
    for (int i = 0; i < statement->target->count; i++) {
        const Expr *sub = statement->target->args[i];
        if (sub->kind == EXPR_INDEX && sub->index->turn && sub->index->axis == sequence)
            return sub->index;
    }
    return NULL;
}

static void check_loop(Check *check) {
    const Statement *statement = check->statement;
    const Axis *sequence = check->program->sequence;
    check->place = scanned_place(statement, sequence);
    Index *summed = summed_places(statement, sequence);
    if (summed && statement->reduction == REDUCE_SUM && earlier_only(statement->value, summed))
        check->summed = summed;
    for (int i = 0; i < statement->loop_count; i++) {
        const Index *index = statement->loops[i];
        if (index->axis != sequence || index == check->summed) continue;
        if (!on_left(statement, index)) {
            error_message(check, statement->reduction == REDUCE_SUM
                                     ? "sums over the sequence"
                                     : "compares places of the sequence");
            return;
        }
        if (check->place) {
            error_message(check, "relates places of the sequence to each other");
            return;
        }
        check->place = index;
    }
    expr_walk(statement->value, check_read, check);
}

static void check_call(Check *check) {
    const Statement *call = check->statement;
    const Axis *sequence = check->program->sequence;
    if (call->call == CALL_SCAN) {
        if (call->reverse && call->index->axis == sequence)
            error_message(check, "runs from the last place of the sequence to the first");
        return;
    }
    const Expr *first = call->inputs.items[0];
    if (call->call == CALL_TOP) {
        int dimension = 0;
        for (int i = 0; i < first->count; i++) {
            if (first->args[i]->kind != EXPR_INDEX || first->args[i]->index->turn) continue;
            if (dimension++ == call->top.dimension && first->tensor->axes[i] == sequence)
                error_message(check, "chooses along the sequence");
        }
    }
    if (call->call == CALL_ATTEND && first->tensor->axes[first->count - 3] == sequence &&
        call->attention.mask == MASK_NONE)
        error_message(check, "attends to later places of the sequence");
}

static void check_statement(Statement *statement, void *data) {
    Check *all = data, check = {.program = all->program, .statement = statement, .good = true};
    if (statement->kind == STATEMENT_LOOP) check_loop(&check);
    if (statement->kind == STATEMENT_CALL) check_call(&check);
    all->good &= check.good;
}

/* check_causal: whether a step can be derived; reports every equation that stands in the way. */
bool check_causal(Program *program) {
    Check check = {.program = program, .good = true};
    block_walk(&program->body, check_statement, &check);
    if (!check.good)
        report_help(program->reports,
                    "a decoding step sees one place and what attention, x[s - 1] and "
                    "sum[t] x[t] * (t <= s) kept of earlier ones");
    return check.good;
}
