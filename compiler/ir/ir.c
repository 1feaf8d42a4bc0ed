/* ir: how programs are made: constructors of axes, tensors, expressions and statements, and walks
 * over them. */
#include "ir/call.h"
#include "base/must.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- programs, axes, tensors ---- */

Program *program_new(Arena *arena, Reports *reports, const char *name, Graph graph,
                     const CallRow *const *calls) {
    Program *program = arena_alloc(arena, sizeof *program);
    program->arena = arena;
    program->reports = reports;
    program->name = name;
    program->graph = graph;
    program->calls = calls;
    program->target = &target_processor;
    return program;
}

Axis *axis_new(Program *program, const char *name, long size, AxisKind kind, Span span) {
    Axis *axis = arena_alloc(program->arena, sizeof *axis);
    *axis = (Axis){.name = name, .size = size, .kind = kind, .span = span};
    list_push(program->arena, &program->axes, axis);
    return axis;
}

double axis_expected(const Axis *axis) {
    return axis->expected > 0 ? axis->expected : (double)axis->size;
}

Index *index_new(Program *program, const char *name, Axis *axis) {
    Index *index = arena_alloc(program->arena, sizeof *index);
    *index = (Index){.name = name, .axis = axis};
    return index;
}

Index *index_over(Program *program, Axis *axis) {
    return index_new(program, axis->name, axis);
}

enum { MAX_DIGITS = 9 };

/* A name and the largest number appended to it by a tensor: 3 for "h" if there is "h_3", 1 for "h"
 * alone. */
typedef struct Named {
    const char *name;
    size_t length;
    long last;
} Named;

static Named *find_named(const Program *program, uint64_t hash, const char *name, size_t length) {
    const List *found = table_find(&program->names, hash);
    LIST_EACH(Named, named, found)
        if (named->length == length && !memcmp(named->name, name, length)) return named;
    return NULL;
}

static void take_number(Program *program, const char *name, size_t length, long number) {
    uint64_t hash = hash_bytes(HASH_START, name, length);
    Named *named = find_named(program, hash, name, length);
    if (!named) {
        named = arena_alloc(program->arena, sizeof *named);
        *named = (Named){name, length, 0};
        table_add(program->arena, &program->names, hash, named);
    }
    if (number > named->last) named->last = number;
}

/* Records the name and the text before its number: "h_3" uses number 3 of "h". Numbers longer than
 * any appended one cannot collide. */
static void take_name(Program *program, const char *name) {
    take_number(program, name, strlen(name), 1);
    const char *line = strrchr(name, '_');
    size_t digits = line ? strspn(line + 1, "0123456789") : 0;
    if (digits && digits <= MAX_DIGITS && !line[1 + digits])
        take_number(program, name, (size_t)(line - name), strtol(line + 1, NULL, 10));
}

/* Returns `name` as an identifier that no tensor of the program uses. */
static const char *unique_name(Program *program, const char *name) {
    char *base = arena_copy(program->arena, name, strlen(name));
    for (char *c = base; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    size_t length = strlen(base);
    const Named *named = find_named(program, hash_bytes(HASH_START, base, length), base, length);
    const char *unique =
        named && named->last ? arena_format(program->arena, "%s_%ld", base, named->last + 1) : base;
    take_name(program, unique);
    return unique;
}

Tensor *tensor_new(Program *program, const char *name, Role role, Type type, int rank,
                   Axis *const *axes, Span span) {
    Tensor *tensor = arena_alloc(program->arena, sizeof *tensor);
    tensor->id = program->tensors.count;
    tensor->name = unique_name(program, name);
    tensor->stem = name;
    tensor->role = role;
    tensor->type = type;
    tensor->rank = rank < MAX_RANK ? rank : MAX_RANK;
    if (rank > MAX_RANK)
        report_invalid(program->reports, span, "split the equation, or combine two axes",
                       "'%s' would have %d dimensions; the maximum is %d", name, rank, MAX_RANK);
    for (int i = 0; i < tensor->rank; i++) {
        MUST(axes[i]);
        tensor->axes[i] = axes[i];
    }
    tensor->active = 1;
    tensor->span = span;
    list_push(program->arena, &program->tensors, tensor);
    return tensor;
}

Tensor *tensor_over(Program *program, const char *name, Role role, Type type, Index *const *loops,
                    int rank, Span span) {
    Axis *axes[MAX_RANK];
    for (int i = 0; i < rank && i < MAX_RANK; i++) axes[i] = loops[i]->axis;
    return tensor_new(program, name, role, type, rank, axes, span);
}

const Tensor *parameter_called(const Program *program, const char *path) {
    LIST_EACH(const Tensor, tensor, &program->tensors)
        if (tensor->role == ROLE_PARAMETER && !strcmp(tensor->path, path)) return tensor;
    return NULL;
}

void tensors_keep(Program *program, const bool *kept) {
    int count = 0;
    program->names = (Table){0};
    for (int i = 0; i < program->tensors.count; i++) {
        Tensor *tensor = program->tensors.items[i];
        MUST(tensor->id == i);
        if (!kept[i]) continue;
        tensor->id = count;
        program->tensors.items[count++] = tensor;
        take_name(program, tensor->name);
    }
    program->tensors.count = count;
}

long type_bytes(Type type) {
    static const long bytes[TYPES] = {
        [TYPE_REAL] = 4,   [TYPE_INT] = 4,  [TYPE_BF16] = 2, [TYPE_INT8] = 1,
        [TYPE_DOUBLE] = 8, [TYPE_BYTE] = 1, [TYPE_E4M3] = 1, [TYPE_E5M2] = 1};
    MUST(type < TYPES && bytes[type]);
    return bytes[type];
}

long tensor_elements(const Tensor *tensor) {
    long elements = 1;
    for (int i = 0; i < tensor->rank; i++) elements *= tensor->axes[i]->size;
    return elements;
}

/* ---- expressions ---- */

static Expr *expr_new(Program *program, ExprKind kind, int count) {
    Expr *expr = arena_alloc(program->arena, sizeof *expr);
    expr->kind = kind;
    expr->count = count;
    if (count) expr->args = arena_alloc(program->arena, (size_t)count * sizeof *expr->args);
    return expr;
}

Expr *expr_number(Program *program, double number) {
    Expr *expr = expr_new(program, EXPR_NUMBER, 0);
    expr->number = number;
    return expr;
}

Expr *expr_index(Program *program, Index *index) {
    MUST(index);
    Expr *expr = expr_new(program, EXPR_INDEX, 0);
    expr->index = index;
    return expr;
}

Expr *expr_read(Program *program, Tensor *tensor, Expr *const *subs) {
    Expr *expr = expr_new(program, EXPR_READ, tensor->rank);
    expr->tensor = tensor;
    for (int i = 0; i < tensor->rank; i++) {
        MUST(subs[i]);
        expr->args[i] = subs[i];
    }
    return expr;
}

Expr *expr_read_indices(Program *program, Tensor *tensor, Index *const *indices) {
    Expr *subs[MAX_RANK];
    for (int i = 0; i < tensor->rank; i++) subs[i] = expr_index(program, indices[i]);
    return expr_read(program, tensor, subs);
}

bool expr_is_number(const Expr *expr, double number) {
    return expr->kind == EXPR_NUMBER && expr->number == number;
}

static bool is_apply(const Expr *expr, OpCode op) {
    return expr->kind == EXPR_APPLY && expr->op == op;
}

/* The value if every argument is a number, else NULL. Expressions that are not finite stay
 * unfolded. */
static Expr *fold_numbers(Program *program, OpCode op, Expr *const *args) {
    double values[3] = {0, 0, 0};
    if (op_is_random(op)) return NULL;
    for (int i = 0; i < op_table[op].arity; i++) {
        if (args[i]->kind != EXPR_NUMBER) return NULL;
        values[i] = args[i]->number;
    }
    double value = op_value(op, values[0], values[1], values[2]);
    return isfinite(value) ? expr_number(program, value) : NULL;
}

/* Merges i + 1 - 1, numbers added to an integer in sequence, into one addition, or returns NULL. */
static Expr *join_numbers(Program *program, OpCode op, const Expr *a, const Expr *b) {
    if (!(is_apply(a, OP_ADD) || is_apply(a, OP_SUB)) || b->kind != EXPR_NUMBER) return NULL;
    if (a->args[1]->kind != EXPR_NUMBER || !expr_counts(a) || !expr_counts(b)) return NULL;
    double first = a->op == OP_ADD ? a->args[1]->number : -a->args[1]->number;
    double sum = op == OP_ADD ? first + b->number : first - b->number;
    if (fabs(sum) > WHOLE_MAX) return NULL;
    return expr_apply(program, sum < 0 ? OP_SUB : OP_ADD, a->args[0],
                      expr_number(program, fabs(sum)), NULL);
}

static Expr *fold_sum(Program *program, OpCode op, Expr *a, Expr *b) {
    if (expr_is_number(b, 0)) return a;
    if (expr_is_number(a, 0)) return op == OP_ADD ? b : expr_apply(program, OP_NEG, b, NULL, NULL);
    if (is_apply(b, OP_NEG))
        return expr_apply(program, op == OP_ADD ? OP_SUB : OP_ADD, a, b->args[0], NULL);
    return join_numbers(program, op, a, b);
}

static Expr *fold_product(Program *program, Expr *a, Expr *b) {
    if (expr_is_number(a, 0) || expr_is_number(b, 0)) return expr_number(program, 0);
    if (expr_is_number(a, 1)) return b;
    if (expr_is_number(b, 1)) return a;
    if (expr_is_number(a, -1)) return expr_apply(program, OP_NEG, b, NULL, NULL);
    if (expr_is_number(b, -1)) return expr_apply(program, OP_NEG, a, NULL, NULL);
    return NULL;
}

static Expr *fold_power(Program *program, Expr *a, Expr *b) {
    if (b->kind != EXPR_NUMBER) return NULL;
    if (b->number == 0) return expr_number(program, 1);
    if (b->number == 1) return a;
    if (b->number == 2 && a->kind != EXPR_APPLY) return expr_apply(program, OP_MUL, a, a, NULL);
    if (b->number == 0.5) return expr_apply(program, OP_SQRT, a, NULL, NULL);
    if (b->number == -0.5) return expr_apply(program, OP_RSQRT, a, NULL, NULL);
    if (b->number == -1) return expr_apply(program, OP_DIV, expr_number(program, 1), a, NULL);
    return NULL;
}

/* Returns a simpler expression with the same value, or NULL. */
static Expr *fold(Program *program, OpCode op, Expr *const *args) {
    Expr *number = fold_numbers(program, op, args);
    if (number) return number;
    Expr *a = args[0], *b = args[1], *whole = whole_fold(op, a, b);
    if (whole) return whole;
    switch (op) {
    case OP_ADD:
    case OP_SUB:
        return fold_sum(program, op, a, b);
    case OP_MUL:
        return fold_product(program, a, b);
    case OP_DIV:
        if (expr_is_number(a, 0) && b->kind != EXPR_NUMBER) return a;
        return expr_is_number(b, 1) ? a : NULL;
    case OP_POW:
        return fold_power(program, a, b);
    case OP_NEG:
        return is_apply(a, OP_NEG) ? a->args[0] : NULL;
    case OP_WHERE:
        return a->kind != EXPR_NUMBER ? NULL : a->number != 0 ? b : args[2];
    default:
        return NULL;
    }
}

Expr *expr_apply(Program *program, OpCode op, Expr *a, Expr *b, Expr *c) {
    Expr *args[3] = {a, b, c};
    for (int i = 0; i < op_table[op].arity; i++) MUST(args[i]);
    Expr *folded = fold(program, op, args);
    if (folded) return folded;
    Expr *expr = expr_new(program, EXPR_APPLY, op_table[op].arity);
    expr->op = op;
    for (int i = 0; i < expr->count; i++) expr->args[i] = args[i];
    return expr;
}

bool expr_equal(const Expr *a, const Expr *b) {
    return expr_matches(a, NULL, b, NULL, 0);
}

static int loop_number(Index *const *loops, int count, const Index *index) {
    for (int i = 0; i < count; i++)
        if (loops[i] == index) return i;
    return -1;
}

bool expr_matches(const Expr *a, Index *const *a_loops, const Expr *b, Index *const *b_loops,
                  int count) {
    if (a == b && count == 0) return true;
    if (a->kind != b->kind || a->count != b->count) return false;
    if (a->kind == EXPR_NUMBER) return a->number == b->number;
    if (a->kind == EXPR_INDEX) {
        int number = loop_number(a_loops, count, a->index);
        return number == loop_number(b_loops, count, b->index) &&
               (number >= 0 || a->index == b->index);
    }
    if (a->kind == EXPR_READ && a->tensor != b->tensor) return false;
    if (a->kind == EXPR_APPLY && a->op != b->op) return false;
    for (int i = 0; i < a->count; i++)
        if (!expr_matches(a->args[i], a_loops, b->args[i], b_loops, count)) return false;
    return true;
}

uint64_t expr_hash(uint64_t hash, const Expr *expr, Index *const *loops, int count) {
    hash = hash_word(hash, (uint64_t)expr->kind);
    if (expr->kind == EXPR_NUMBER) {
        double number = expr->number + 0.0; /* -0 equals 0 */
        return hash_bytes(hash, (const char *)&number, sizeof number);
    }
    if (expr->kind == EXPR_INDEX) {
        int number = loop_number(loops, count, expr->index);
        return hash_word(hash, number >= 0 ? (uint64_t)number : (uint64_t)(uintptr_t)expr->index);
    }
    hash = hash_word(hash, expr->kind == EXPR_READ ? (uint64_t)expr->tensor->id : expr->op);
    for (int i = 0; i < expr->count; i++) hash = expr_hash(hash, expr->args[i], loops, count);
    return hash;
}

bool indices_have(Index *const *indices, int count, const Index *index) {
    for (int i = 0; i < count; i++)
        if (indices[i] == index) return true;
    return false;
}

bool statement_loops_over(const Statement *statement, const Index *index) {
    MUST(statement->kind == STATEMENT_LOOP);
    return indices_have(statement->loops, statement->loop_count, index);
}

bool tensor_has_axis(const Tensor *tensor, const Axis *axis) {
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->axes[i] == axis) return true;
    return false;
}

bool expr_uses_index(const Expr *expr, const Index *index) {
    if (expr->kind == EXPR_INDEX) return expr->index == index;
    for (int i = 0; i < expr->count; i++)
        if (expr_uses_index(expr->args[i], index)) return true;
    return false;
}

bool expr_has_reads(const Expr *expr) {
    if (expr->kind == EXPR_READ) return true;
    for (int i = 0; i < expr->count; i++)
        if (expr_has_reads(expr->args[i])) return true;
    return false;
}

bool expr_is_step(const Expr *expr) {
    if (expr->kind == EXPR_INDEX) return expr->index->of_repeat;
    if (expr->kind == EXPR_READ) return false;
    for (int i = 0; i < expr->count; i++)
        if (!expr_is_step(expr->args[i])) return false;
    return true;
}

bool expr_reads(const Expr *expr, const Tensor *tensor) {
    if (expr->kind == EXPR_READ && expr->tensor == tensor) return true;
    for (int i = 0; i < expr->count; i++)
        if (expr_reads(expr->args[i], tensor)) return true;
    return false;
}

Expr *sub_over(Program *program, Expr *sub, const Axis *axis) {
    if (sub->kind != EXPR_INDEX || axis->padded) return sub;
    const Axis *own = sub->index->axis;
    bool inside = sub->index->of_repeat ? own->size <= axis->size : own->size == axis->size;
    if (inside || own->kind == AXIS_ELEMENTS || axis->kind == AXIS_ELEMENTS) return sub;
    return expr_apply(program, OP_MOD, sub, expr_number(program, (double)own->size), NULL);
}

static bool is_outside(const Expr *sub, const Axis *axis) {
    return sub->kind == EXPR_NUMBER && (sub->number < 0 || sub->number >= (double)axis->size);
}

Expr *expr_with_args(Program *program, const Expr *expr, Expr *const *args) {
    Expr *all[3] = {NULL}, *result;
    if (expr->kind == EXPR_READ) {
        result = expr_read(program, expr->tensor, args);
    } else {
        for (int i = 0; i < expr->count; i++) all[i] = args[i];
        result = expr_apply(program, expr->op, all[0], all[1], all[2]);
    }
    if (!result->span.source) result->span = expr->span;
    return result;
}

/* The same for subscripts that were substituted: a computed one may fold to an index outside of the
 * axis, where reads are 0. */
static Expr *rebuild(Program *program, const Expr *expr, Expr **args) {
    for (int i = 0; expr->kind == EXPR_READ && i < expr->count && i < expr->tensor->rank; i++) {
        const Axis *axis = expr->tensor->axes[i];
        if (expr->args[i]->kind != EXPR_APPLY) continue;
        if (is_outside(args[i], axis)) return expr_number(program, 0);
        args[i] = sub_over(program, args[i], axis);
    }
    return expr_with_args(program, expr, args);
}

Expr *expr_substitute(Program *program, Expr *expr, Index *const *from, Expr *const *to,
                      int count) {
    if (expr->kind == EXPR_INDEX)
        for (int i = 0; i < count; i++)
            if (expr->index == from[i]) return to[i];
    if (!expr->count) return expr;
    Expr *args[MAX_RANK];
    bool changed = false;
    for (int i = 0; i < expr->count; i++) {
        args[i] = expr_substitute(program, expr->args[i], from, to, count);
        changed |= args[i] != expr->args[i];
    }
    return changed ? rebuild(program, expr, args) : expr;
}

void expr_walk(Expr *expr, void (*visit)(Expr *expr, void *data), void *data) {
    visit(expr, data);
    for (int i = 0; i < expr->count; i++) expr_walk(expr->args[i], visit, data);
}

/* ---- statements ---- */

static Statement *statement_new(Program *program, Block *block, StatementKind kind, Span span) {
    Statement *statement = arena_alloc(program->arena, sizeof *statement);
    statement->kind = kind;
    statement->span = span;
    list_push(program->arena, &block->statements, statement);
    return statement;
}

/* An index iterates once even if it is named several times. The index of a repeat does not
 * iterate. */
static void add_loop(Program *program, Statement *statement, Index *index) {
    MUST(statement->kind == STATEMENT_LOOP);
    if (index->of_repeat) return;
    for (int i = 0; i < statement->loop_count; i++)
        if (statement->loops[i] == index) return;
    if (statement->loop_count == MAX_LOOPS) {
        report_invalid(program->reports, statement->span, "split the equation into two",
                       "the equation has more than %d indices", MAX_LOOPS);
        return;
    }
    statement->loops[statement->loop_count++] = index;
}

Statement *statement_loop(Program *program, Block *block, Expr *target, bool accumulate,
                          Reduction reduction, Index *const *reduced, int reduced_count,
                          Expr *value, Span span) {
    MUST(target && value);
    Statement *statement = statement_new(program, block, STATEMENT_LOOP, span);
    statement->target = target;
    statement->accumulate = accumulate;
    statement->reduction = reduction;
    statement->value = value;
    for (int i = 0; i < target->count; i++)
        if (target->args[i]->kind == EXPR_INDEX)
            add_loop(program, statement, target->args[i]->index);
    for (int i = 0; i < reduced_count; i++) add_loop(program, statement, reduced[i]);
    return statement;
}

Statement *statement_assign(Program *program, Block *block, Expr *target, Expr *value, Span span) {
    return statement_loop(program, block, target, false, REDUCE_NONE, NULL, 0, value, span);
}

Statement *statement_call(Program *program, Block *block, CallKind call, Span span) {
    Statement *statement = statement_new(program, block, STATEMENT_CALL, span);
    statement->call = call;
    statement->row = program->calls[call];
    return statement;
}

Statement *statement_repeat(Program *program, Block *block, Index *index, bool reverse, Span span) {
    MUST(index);
    Statement *statement = statement_new(program, block, STATEMENT_REPEAT, span);
    statement->index = index;
    statement->reverse = reverse;
    index->of_repeat = true;
    return statement;
}

/* The largest value of an expression of repeat indices, numbers and, with `loops`, loop indices, if
 * it is never negative, else -1. */
static double largest(const Expr *expr, bool loops) {
    if (expr->kind == EXPR_NUMBER) return expr->number;
    if (expr->kind == EXPR_INDEX)
        return loops || expr->index->of_repeat ? (double)expr->index->axis->size - 1 : -1;
    if (expr->kind != EXPR_APPLY) return -1;
    double a = largest(expr->args[0], loops),
           b = expr->count > 1 ? largest(expr->args[1], loops) : 0;
    if (a < 0 || b < 0) return -1;
    switch (expr->op) {
    case OP_ADD:
        return a + b;
    case OP_MUL:
        return a * b;
    case OP_FLOOR:
        return a;
    case OP_DIV:
        return expr_is_number(expr->args[1], b) && b >= 1 ? a / b : -1;
    case OP_MOD:
        return expr_is_number(expr->args[1], b) && b >= 1 ? b - 1 : -1;
    default:
        return -1;
    }
}

Index *sub_loop(const Expr *sub, const Axis *axis) {
    if (sub->kind == EXPR_INDEX) return sub->index->of_repeat ? NULL : sub->index;
    if (sub->kind != EXPR_APPLY || sub->op != OP_ADD || sub->args[1]->kind != EXPR_INDEX)
        return NULL;
    Index *index = sub->args[1]->index;
    const double first = largest(sub->args[0], false);
    bool inside = first >= 0 && first + (double)index->axis->size <= (double)axis->size;
    return inside && !index->of_repeat ? index : NULL;
}

bool sub_is_inside(const Expr *sub, const Axis *axis) {
    const double most = largest(sub, true);
    return most >= 0 && most < (double)axis->size;
}

bool statement_is_scatter(const Statement *statement) {
    if (statement->kind != STATEMENT_LOOP) return false;
    for (int i = 0; i < statement->target->count; i++) {
        const Expr *sub = statement->target->args[i];
        if (sub_loop(sub, statement->target->tensor->axes[i])) continue;
        for (int loop = 0; loop < statement->loop_count; loop++)
            if (expr_uses_index(sub, statement->loops[loop])) return true;
    }
    return false;
}

bool statement_selects(const Statement *statement) {
    return statement->row && statement->row->selects;
}

int top_dimension(const Statement *top, const Expr *operand) {
    for (int i = 0, at = 0; i < operand->count; i++)
        if (operand->args[i]->kind == EXPR_INDEX && !operand->args[i]->index->of_repeat &&
            at++ == top->top.dimension)
            return i;
    return -1;
}

void block_walk(Block *block, void (*visit)(Statement *statement, void *data), void *data) {
    LIST_EACH(Statement, statement, &block->statements) {
        visit(statement, data);
        block_walk(&statement->body, visit, data);
    }
}

void block_walk_back(Block *block, void (*visit)(Statement *statement, void *data), void *data) {
    for (int i = block->statements.count - 1; i >= 0; i--) {
        Statement *statement = block->statements.items[i];
        block_walk_back(&statement->body, visit, data);
        visit(statement, data);
    }
}

int attend_document(const AttendOptions *options) {
    return options->sink ? 4 : 3;
}

int attend_chosen(const AttendOptions *options) {
    return attend_document(options) + options->documents;
}

int attend_bias(const AttendOptions *options) {
    return attend_chosen(options) + options->chosen;
}

int attend_scale(const AttendOptions *options, int which) {
    return attend_bias(options) + options->bias + (which && options->scaled[0]);
}

int attend_operands(const AttendOptions *options) {
    return attend_scale(options, 1) + options->scaled[1];
}

/* ---- operands of calls ---- */

CallShape call_shape(const Expr *operand) {
    CallShape shape = {.rank = 0};
    for (int i = 0; i < operand->count; i++) {
        if (operand->args[i]->kind != EXPR_INDEX || operand->args[i]->index->of_repeat) continue;
        shape.index[shape.rank] = operand->args[i]->index;
        shape.size[shape.rank++] = operand->tensor->axes[i]->size;
    }
    return shape;
}

long size_at(const CallShape *shape, int back) {
    MUST(back >= 1 && back <= shape->rank);
    return shape->size[shape->rank - back];
}

long leading_size(const CallShape *shape, int own) {
    long product = 1;
    for (int i = 0; i < shape->rank - own; i++) product *= shape->size[i];
    return product;
}

long extern_size(const Statement *statement, int number) {
    const ExternSize *size = &statement->external->sizes[number];
    const int inputs = statement->external->inputs.count;
    const Expr *operand = size->operand < inputs ? call_input(statement, size->operand)
                                                 : call_output(statement, size->operand - inputs);
    const CallShape shape = call_shape(operand);
    return size_at(&shape, size->back + 1);
}

long extern_rows(const Statement *statement) {
    const CallShape shape = call_shape(call_input(statement, 0));
    return leading_size(&shape, statement->external->named);
}

long extern_product(const Statement *statement, const ExternProduct *product) {
    long number = product->factor;
    for (int i = 0; i < product->count; i++) number *= extern_size(statement, product->sizes[i]);
    return number;
}

bool reads_copies(const Program *program) {
    return program->weights != TYPE_REAL || program->head_weights != TYPE_REAL;
}
