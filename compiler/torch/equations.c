/* equations: one loop statement as a line of Python, with its equation as a comment.
 *
 *     # up[s,f] = sum[d] x[s,d] * w[d,f]
 *     up = torch.einsum("bsd,df->bsf", x, self.w)
 */
#include "torch/torch.h"

#include <ctype.h>
#include <string.h>

typedef struct PlainRead {
    Printer *printer;
    const Index *index;
    bool full;
} PlainRead;

static void find_full(Expr *expr, void *data) {
    PlainRead *search = data;
    if (expr->kind != EXPR_READ || expr->tensor->role == ROLE_PARAMETER) return;
    const PyVariable *variable = variable_of(search->printer, expr->tensor, version_of(expr));
    for (int i = 0; variable && i < expr->count; i++)
        if (expr->args[i]->kind == EXPR_INDEX && expr->args[i]->index == search->index)
            search->full |= variable->full[i];
}

/* Whether the index runs over all positions of a tensor that has them. */
static bool runs_over_all(Printer *printer, Expr *value, const Index *index) {
    PlainRead search = {printer, index, false};
    expr_walk(value, find_full, &search);
    return search.full;
}

/* The current positions are those of the first sequence index on the left that does not run over
 * all positions. Metrics, which have none, are those of the current positions. A call has the
 * indices of its first operand. */
void begin_statement(Printer *printer, Statement *statement) {
    const Expr *target = statement->target;
    Expr *value = statement->value;
    if (statement->kind == STATEMENT_CALL) value = statement->inputs.items[0];
    printer->statement = statement;
    printer->order_count = 0;
    printer->now = NULL;
    for (int i = 0; i < (target ? statement->loop_count : value->count); i++) {
        if (!target && value->args[i]->kind != EXPR_INDEX) continue;
        Index *index = target ? statement->loops[i] : value->args[i]->index;
        if (index->of_repeat) continue;
        printer->order[printer->order_count++] = index;
        const bool counts = !target || expr_uses_index(target, index) ||
                            !printer->torch->needed[target->tensor->id];
        if (index->axis->kind == AXIS_SEQUENCE && !printer->now && counts &&
            !runs_over_all(printer, value, index))
            printer->now = index;
    }
}

/* ---- sums of products ---- */

/* The factors of a product that are tensors, and its number. */
int factors_of(const Expr *expr, const Expr **factors, int count, const Expr **number) {
    if (expr->kind == EXPR_APPLY && expr->op == OP_MUL) {
        count = factors_of(expr->args[0], factors, count, number);
        return factors_of(expr->args[1], factors, count, number);
    }
    if (expr->kind == EXPR_NUMBER && !*number) {
        *number = expr;
        return count;
    }
    if (count < MAX_FACTORS) factors[count] = expr;
    return count + 1;
}

static char letter_of(char *letters, Index *const *order, int count, const Index *index) {
    for (int i = 0; i < count; i++) {
        if (order[i] != index) continue;
        if (letters[i]) return letters[i];
        char wanted = index->name[0];
        bool fits = islower((unsigned char)wanted) && !index->name[1];
        for (int j = 0; fits && j < count; j++) fits = letters[j] != wanted;
        for (char other = 'a'; !fits && other <= 'z'; other++) {
            bool used = false;
            for (int j = 0; j < count; j++)
                used |= letters[j] == other ||
                        (order[j]->name[0] == other && !order[j]->name[1] && order[j] != index);
            if (used) continue;
            wanted = other;
            fits = true;
        }
        return letters[i] = wanted;
    }
    return '?';
}

/* x[b,s,d] * w[d,f] summed over d: x @ w. */
static bool is_matmul(const Py *a, const Py *b, const Py *result) {
    if (b->rank != 2 || a->rank < 2 || result->rank != a->rank) return false;
    if (a->dims[a->rank - 1] != b->dims[0] || result->dims[result->rank - 1] != b->dims[1])
        return false;
    for (int i = 0; i + 1 < a->rank; i++)
        if (a->dims[i] != result->dims[i]) return false;
    return true;
}

static Py einsum(Printer *printer, const Py *values, int count, Py result) {
    Torch *torch = printer->torch;
    char letters[MAX_LOOPS] = {0};
    Text text = {.arena = torch->arena};
    result.level = PY_ATOM;
    if (count == 2 && is_matmul(&values[0], &values[1], &result)) {
        result.text = arena_format(torch->arena, "%s @ %s",
                                   in_parentheses(printer, values[0], PY_PRODUCT), values[1].text);
        result.level = PY_PRODUCT;
        return result;
    }
    text_add(&text, "torch.einsum(\"");
    for (int i = 0; i < count; i++) {
        text_add(&text, i ? "," : "");
        for (int j = 0; j < values[i].rank; j++)
            text_add(&text, "%c",
                     letter_of(letters, printer->order, printer->order_count, values[i].dims[j]));
    }
    text_add(&text, "->");
    for (int j = 0; j < result.rank; j++)
        text_add(&text, "%c",
                 letter_of(letters, printer->order, printer->order_count, result.dims[j]));
    text_add(&text, "\"");
    for (int i = 0; i < count; i++) text_add(&text, ", %s", values[i].text);
    text_add(&text, ")");
    result.text = text.text;
    return result;
}

/* Dimensions of the result: those that are on the left side. */
static void left_dims(const Statement *statement, Py *value) {
    int rank = 0;
    for (int i = 0; i < value->rank; i++)
        if (expr_uses_index(statement->target, value->dims[i]))
            value->dims[rank++] = value->dims[i];
    value->rank = rank;
}

/* The reads of the factors without their number, in the order of the source. */
static bool contraction(Printer *printer, const Statement *statement, Py *result) {
    const Expr *factors[MAX_FACTORS], *number = NULL;
    int count = factors_of(statement->value, factors, 0, &number), real = -1;
    if (count < 2 || count > MAX_FACTORS || !printer->like) return false;
    Py values[MAX_FACTORS];
    bool partial = false;
    for (int i = 0; i < count; i++) {
        printer->any_order = factors[i]->kind == EXPR_READ;
        values[i] = python(printer, factors[i]);
        printer->any_order = false;
        if (values[i].number) return false;
        if (values[i].kind == PY_REAL) real = i;
    }
    if (real < 0) return false;
    union_dims(printer, values, count, result);
    for (int i = 0; i < count; i++) partial |= values[i].rank < result->rank;
    for (int i = 0; i < statement->loop_count; i++)
        if (!indices_have(result->dims, result->rank, statement->loops[i]) &&
            !expr_uses_index(statement->target, statement->loops[i]))
            return false;
    if (!partial) return false;
    for (int i = 0; i < count; i++) values[i] = operand(printer, values[i]);
    left_dims(statement, result);
    result->kind = PY_REAL;
    *result = einsum(printer, values, count, *result);
    if (number) {
        Py scaled[2] = {python(printer, number), *result};
        *result = apply_python(printer, OP_MUL, scaled);
    }
    return true;
}

/* ---- reductions ---- */

static Py reduced(Printer *printer, const Statement *statement, Py value) {
    Arena *arena = printer->arena;
    int over = 0;
    Text dims = {.arena = arena};
    for (int i = value.rank - 1; i >= 0; i--)
        if (!expr_uses_index(statement->target, value.dims[i])) over++;
    text_add(&dims, over == 1 ? "-1" : "(");
    for (int i = over; over > 1 && i > 0; i--) text_add(&dims, "-%d%s", i, i > 1 ? ", " : ")");
    bool sum = statement->reduction == REDUCE_SUM;
    const char *text = in_parentheses(printer, value, PY_ATOM);
    Py result = value;
    if (sum && value.kind == PY_BOOL) result.kind = PY_INT;
    result.level = PY_ATOM;
    left_dims(statement, &result);
    const char *name = statement->reduction == REDUCE_MAX ? "max" : "min";
    if (over && value.number) refuse(printer->torch, statement->span, "this reduction");
    if (over && sum)
        result.text = arena_format(arena, result.rank ? "%s.sum(%s)" : "%s.sum()", text, dims.text);
    else if (over && !result.rank)
        result.text = arena_format(arena, "%s.%s()", text, name);
    else if (over == 1)
        result.text = arena_format(arena, "%s.%s(-1).values", text, name);
    else if (over)
        result.text = arena_format(arena, "%s.flatten(-%d).%s(-1).values", text, over, name);
    else
        result.text = text;
    for (int i = 0; sum && i < statement->loop_count; i++) {
        const Index *index = statement->loops[i];
        bool summed = !expr_uses_index(statement->target, index);
        if (!summed || indices_have(value.dims, value.rank, index)) continue;
        result.text =
            arena_format(arena, "%s * %s",
                         python_size(printer, index->axis, is_full(printer, index)), result.text);
        result.level = PY_PRODUCT;
    }
    return result;
}

Py equation_value(Printer *printer, const Statement *statement) {
    Py value = {0};
    if (statement->reduction == REDUCE_SUM && contraction(printer, statement, &value)) return value;
    value = python(printer, statement->value);
    return statement->reduction ? reduced(printer, statement, value) : value;
}

/* ---- variables ---- */

/* Whether a function is applied to the tensor: sin(angle) needs the angle in double precision. */
static bool in_function(const Expr *expr, const Tensor *tensor, bool inside) {
    if (expr->kind == EXPR_READ && expr->tensor == tensor && inside) return true;
    bool keeps =
        expr->op == OP_ADD || expr->op == OP_SUB || expr->op == OP_MUL || expr->op == OP_DIV;
    if (expr->kind == EXPR_APPLY && !keeps) inside = true;
    for (int i = 0; i < expr->count; i++)
        if (in_function(expr->args[i], tensor, inside)) return true;
    return false;
}

static bool needs_double(const Printer *printer, const Tensor *tensor) {
    for (int i = printer->at + 1; i < printer->parts->count; i++) {
        const TorchPart *part = printer->parts->items[i];
        const Statement *statement = part->statement;
        if (!statement || statement->kind != STATEMENT_LOOP) continue;
        if (printer->torch->table[statement->target->tensor->id] &&
            expr_reads(statement->value, tensor))
            return true;
        if (in_function(statement->value, tensor, false)) return true;
    }
    return false;
}

/* Whether variables have the name and nothing reads them later. */
static bool is_free_name(Printer *printer, const char *name) {
    bool found = false;
    LIST_EACH(const PyVariable, variable, &printer->variables) {
        if (strcmp(variable->name, name) != 0) continue;
        if (read_later(printer, variable->tensor, variable->version % 10)) return false;
        found = true;
    }
    return found;
}

PyVariable *define_variable(Printer *printer, const Tensor *tensor, int version) {
    return define_named(printer, local_stem(printer, tensor), tensor, version);
}

PyVariable *define_named(Printer *printer, const char *stem, const Tensor *tensor, int version) {
    /* A repeat changes the variable that it carries. */
    PyVariable *carried = version && printer->loops ? variable_of(printer, tensor, 0) : NULL;
    if (carried) return carried;
    bool reused = name_taken(printer, stem) && !printer->loops && is_free_name(printer, stem);
    const char *name = reused ? stem : NULL;
    for (int i = 0; name && i < printer->variables.count; i++) {
        PyVariable *old = printer->variables.items[i];
        if (!strcmp(old->name, name)) old->name = "";
    }
    return python_variable(printer, tensor, version, name ? name : new_name(printer, stem));
}

static void check_target(Printer *printer, const Statement *statement) {
    const Expr *target = statement->target;
    for (int i = 0; i < target->count; i++) {
        bool plain = target->args[i]->kind == EXPR_INDEX;
        bool iteration = i == 0 && is_stacked(target->tensor);
        if (!plain && !iteration)
            refuse(printer->torch, statement->span, "a computed subscript on the left side");
    }
}

void set_dims(Printer *printer, PyVariable *variable, const Expr *target, const Py *value) {
    for (int i = 0; i < target->count; i++) {
        if (target->args[i]->kind != EXPR_INDEX) continue;
        const Index *index = target->args[i]->index;
        variable->absent[i] = !indices_have(value->dims, value->rank, index);
        variable->full[i] = is_full(printer, index);
    }
    variable->kind = value->kind;
}

/* Whether the value is another variable that keeps its value. A repeat changes its variables. */
static bool is_alias(const Printer *printer, const Statement *statement, const Py *value) {
    const Expr *read = statement->value;
    if (printer->loops || read->kind != EXPR_READ || is_stacked(statement->target->tensor))
        return false;
    const Expr *step = is_stacked(read->tensor) ? read->args[0] : NULL;
    if (step && (step->kind != EXPR_NUMBER || step->number == 0)) return false;
    const PyVariable *other =
        list_named(&printer->variables, offsetof(PyVariable, name), value->text);
    return other && other->kind == value->kind;
}

void print_equation(Printer *printer, Statement *statement) {
    Torch *torch = printer->torch;
    begin_statement(printer, statement);
    check_target(printer, statement);
    const Tensor *tensor = statement->target->tensor;
    Py value = equation_value(printer, statement);
    if (value.number) {
        const char *text = value.text;
        value.text =
            printer->like
                ? arena_format(torch->arena, "%s.new_full((), %s)", printer->like, text)
                : arena_format(torch->arena, "torch.tensor(float(%s), device=cache.device)", text);
        value.kind = PY_REAL;
        value.level = PY_ATOM;
    }
    if (value.kind == PY_TABLE && !needs_double(printer, tensor)) {
        value = as_real(printer, value);
    }
    PyVariable *variable = define_variable(printer, tensor, version_of(statement->target));
    set_dims(printer, variable, statement->target, &value);
    if (!strcmp(variable->name, value.text)) return;
    if (is_alias(printer, statement, &value)) {
        variable->name = value.text;
        return;
    }
    print_comment(printer, statement);
    python_line(printer, "%s = %s", variable->name, value.text);
}
