/* rate: the learning-rate factor as postfix operations, for devices whose programs are not compiled
 * C. Every operation rounds to f32, as in C.
 *
 *     rate = min(1, step / 50)   -->   1  step  50  /  min  set 0
 */
#include "base/must.h"
#include "module/lowered.h"

enum { RATE_STACK = 64 };

typedef enum RateKind { RATE_NUMBER, RATE_STEP, RATE_STEPS, RATE_READ, RATE_SET, RATE_OP } RateKind;

typedef struct RateTerm {
    RateKind kind;
    OpCode op;
    double number;
    int variable; /* of a read or a set */
} RateTerm;

struct RateProgram {
    RateTerm *terms;
    double *variables;
    int count, capacity;
};

static void add_rate_term(Arena *arena, RateProgram *rate, RateTerm term) {
    if (rate->count == rate->capacity) {
        RateTerm *before = rate->terms;
        rate->capacity = rate->capacity ? 2 * rate->capacity : 64;
        rate->terms = arena_alloc(arena, (size_t)rate->capacity * sizeof term);
        for (int i = 0; i < rate->count; i++) rate->terms[i] = before[i];
    }
    rate->terms[rate->count++] = term;
}

/* The statement before number `end` that sets the tensor. */
static int rate_variable(const List *statements, int end, const Tensor *tensor) {
    int number = end - 1;
    while (number >= 0 && ((const Statement *)statements->items[number])->target->tensor != tensor)
        number--;
    MUST(number >= 0);
    return number;
}

static void add_rate_value(Arena *arena, RateProgram *rate, const List *statements, int number,
                           const Expr *expr) {
    RateTerm term = {.kind = RATE_NUMBER, .number = expr->number};
    MUST(expr->kind != EXPR_INDEX);
    if (expr->kind == EXPR_APPLY) {
        for (int i = 0; i < expr->count; i++)
            add_rate_value(arena, rate, statements, number, expr->args[i]);
        term = (RateTerm){.kind = RATE_OP, .op = expr->op};
    } else if (expr->kind == EXPR_READ && expr->tensor->role == ROLE_INPUT) {
        term.kind = expr->tensor->scalar == MOEC_SCALAR_SCHEDULE_STEP ? RATE_STEP : RATE_STEPS;
    } else if (expr->kind == EXPR_READ) {
        term.kind = RATE_READ;
        term.variable = rate_variable(statements, number, expr->tensor);
    }
    add_rate_term(arena, rate, term);
}

const RateProgram *rate_program(Arena *arena, const Update *update) {
    const List *statements = &update->rate_statements;
    RateProgram *rate = arena_alloc(arena, sizeof *rate);
    rate->variables = arena_alloc(arena, ((size_t)statements->count + 1) * sizeof(double));
    for (int i = 0; i < statements->count; i++) {
        const Statement *statement = statements->items[i];
        MUST(statement->reduction == REDUCE_NONE && !statement->loop_count);
        add_rate_value(arena, rate, statements, i, statement->value);
        add_rate_term(arena, rate, (RateTerm){.kind = RATE_SET, .variable = i});
    }
    return rate;
}

double rate_value(const RateProgram *rate, double step, double steps) {
    double stack[RATE_STACK + 3] = {0}, result = 1;
    int count = 0;
    for (int i = 0; i < rate->count; i++) {
        const RateTerm *term = &rate->terms[i];
        const int inputs = term->kind == RATE_OP ? op_table[term->op].arity : 0;
        const double *given = &stack[count - inputs];
        MUST(count < RATE_STACK);
        double value = term->kind == RATE_NUMBER  ? term->number
                       : term->kind == RATE_STEP  ? step
                       : term->kind == RATE_STEPS ? steps
                       : term->kind == RATE_READ  ? rate->variables[term->variable]
                                                  : 0;
        if (term->kind == RATE_OP) value = op_value(term->op, given[0], given[1], given[2]);
        if (term->kind == RATE_SET) {
            result = rate->variables[term->variable] = stack[--count];
            continue;
        }
        count -= inputs;
        stack[count++] = (double)(float)value;
    }
    return result;
}
