/* torch_express: pointwise expressions as Python. Dimensions are aligned by names:
 *
 *     y[b,s,d] = x[b,s,d] * root[b,s]  -->  x * root[..., None]
 *     y[b,n,s] = a[b,s] + w[n]         -->  a[:, None] + w[:, None]
 */
#include "torch/torch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *shortest(Arena *arena, double number) {
    if (number == floor(number) && fabs(number) < 0x1p62)
        return arena_format(arena, "%.0f", number);
    char *text = NULL;
    for (int digits = 6; digits <= 17; digits++) {
        text = arena_format(arena, "%.*g", digits, number);
        if (strtod(text, NULL) == number) break;
    }
    char *plus = strchr(text, '+'); /* "1e+30" is "1e30" */
    if (plus) memmove(plus, plus + 1, strlen(plus));
    return text;
}

/* A run has the sizes of the current call; an option is an attribute of the module. */
static const char *variable_name(Printer *printer, const TorchVariable *variable) {
    Torch *torch = printer->torch;
    if (variable->path)
        return arena_format(torch->arena, "self.%s",
                            option_attribute(torch, printer->module, variable));
    return variable == torch->variables.items[0] ? "cache.sequences" : "cache.length";
}

/* The product of the terms with positive or negative powers; "" without any. */
static const char *terms_text(Printer *printer, const TorchNumber *number, int sign) {
    Arena *arena = printer->arena;
    const char *text = "";
    LIST_EACH(const TorchTerm, term, &number->terms) {
        if (term->power * sign < 0) continue;
        const char *name = variable_name(printer, term->variable);
        if (fabs(term->power) != 1)
            name = arena_format(arena, "%s**%s", name, shortest(arena, fabs(term->power)));
        text = arena_format(arena, *text ? "%s * %s" : "%s%s", text, name);
    }
    return text;
}

/* A number that depends on variables. */
static void formula_text(Printer *printer, const TorchNumber *number, Py *value) {
    Arena *arena = printer->arena;
    const char *factor = shortest(arena, number->factor);
    if (number->added) {
        value->text = number->added->path ? variable_name(printer, number->added) : "cache.total";
        if (number->factor == 0) return;
        value->level = PY_SUM;
        value->text = arena_format(arena, "%s %c %s", value->text, number->factor < 0 ? '-' : '+',
                                   shortest(arena, fabs(number->factor)));
        return;
    }
    const char *top = terms_text(printer, number, 1), *below = terms_text(printer, number, -1);
    if (strchr(top, '*') || *below || number->factor != 1) value->level = PY_PRODUCT;
    if (*top && number->factor != 1) top = arena_format(arena, "%s * %s", factor, top);
    if (!*top) top = factor;
    value->text = *below ? arena_format(arena, "%s / (%s)", top, below) : top;
}

Py python_number(Printer *printer, const void *key, double number) {
    const TorchNumber *found = torch_number(printer->torch, key);
    bool whole = number == floor(number) && fabs(number) < 0x1p62;
    Py value = {.level = PY_ATOM, .kind = whole ? PY_INT : PY_TABLE, .number = true};
    if (found) {
        formula_text(printer, found, &value);
        if (found->added && found->added->real) value.kind = PY_TABLE;
        LIST_EACH(const TorchTerm, term, &found->terms) {
            if (term->variable->path && (term->variable->real || term->power < 1))
                value.kind = PY_TABLE;
        }
        return value;
    }
    if (number < 0) value.level = PY_NEGATION;
    value.text = !isinf(number) ? shortest(printer->arena, number)
                 : number < 0   ? "-math.inf"
                                : "math.inf";
    return value;
}

Index *order_find(const Printer *printer, const Index *index) {
    for (int i = 0; i < printer->order_count; i++)
        if (printer->order[i] == index) return printer->order[i];
    return NULL;
}

bool is_full(const Printer *printer, const Index *index) {
    return index->axis->kind == AXIS_SEQUENCE && index != printer->now;
}

void union_dims(Printer *printer, const Py *values, int count, Py *into) {
    into->rank = 0;
    for (int i = 0; i < printer->order_count; i++)
        for (int j = 0; j < count; j++)
            if (indices_have(values[j].dims, values[j].rank, printer->order[i])) {
                into->dims[into->rank++] = printer->order[i];
                break;
            }
}

const char *in_parentheses(Printer *printer, Py value, PyLevel least) {
    if (value.level >= least) return value.text;
    return arena_format(printer->arena, "(%s)", value.text);
}

const char *aligned(Printer *printer, Py value, Index *const *dims, int count, PyLevel least) {
    int first = 0, last = 0, missing = 0;
    while (first < count && !indices_have(value.dims, value.rank, dims[first])) first++;
    for (int i = first; i < count; i++) {
        bool has = indices_have(value.dims, value.rank, dims[i]);
        if (has) last = i;
        missing += !has;
    }
    if (!value.rank || !missing) return in_parentheses(printer, value, least);
    Text text = {.arena = printer->arena};
    text_add(&text, "%s[", in_parentheses(printer, value, PY_ATOM));
    bool trailing = missing == count - 1 - last;
    if (trailing) text_add(&text, "...");
    for (int i = trailing ? last + 1 : first; i < count; i++) {
        bool has = indices_have(value.dims, value.rank, dims[i]);
        if (i > last && !trailing && has) break;
        text_add(&text, "%s%s", trailing || i > first ? ", " : "", has ? ":" : "None");
    }
    text_add(&text, "]");
    return text.text;
}

/* Texts of the arguments with the dimensions of all, which `result` gets. */
static void align(Printer *printer, Py *args, int count, PyLevel least, Py *result) {
    union_dims(printer, args, count, result);
    for (int i = 0; i < count; i++)
        args[i].text = aligned(printer, args[i], result->dims, result->rank, least);
}

static Py as_bool(Printer *printer, Py value) {
    if (value.kind == PY_BOOL) return value;
    char *end;
    double constant = strtod(value.text, &end);
    if (value.number && !*end)
        return (Py){.text = constant != 0 ? "True" : "False",
                    .level = PY_ATOM,
                    .kind = PY_BOOL,
                    .number = true};
    value.text = arena_format(printer->arena, "%s != 0", in_parentheses(printer, value, PY_SUM));
    value.level = PY_COMPARISON;
    value.kind = PY_BOOL;
    return value;
}

static Py with_method(Printer *printer, Py value, const char *method, PyKind kind) {
    value.text = in_parentheses(printer, value, PY_ATOM);
    value.text = arena_format(printer->arena, "%s%s", value.text, method);
    value.level = PY_ATOM;
    value.kind = kind;
    return value;
}

Py operand(Printer *printer, Py value) {
    if (value.kind == PY_REAL) return value;
    const char *method = arena_format(printer->arena, ".to(%s.dtype)", printer->like);
    return with_method(printer, value, method, PY_REAL);
}

/* A tensor of type double would make the result one. */
Py as_real(Printer *printer, Py value) {
    return value.number || value.kind != PY_TABLE || !printer->like ? value
                                                                    : operand(printer, value);
}

static Py as_double(Printer *printer, Py value) {
    if (value.number || value.kind > PY_INT) return value;
    return with_method(printer, value, ".double()", PY_TABLE);
}

static Py as_int(Printer *printer, Py value) {
    if (value.number || value.kind != PY_BOOL) return value;
    return with_method(printer, value, ".long()", PY_INT);
}

/* ---- operations ---- */

/* How an operation is written, unless it is the function of torch with its name. */
static const struct Spelling {
    const char *text;
    PyLevel level;
    bool infix;
} spellings[OP_COUNT] = {
    [OP_ADD] = {"+", PY_SUM, true},        [OP_SUB] = {"-", PY_SUM, true},
    [OP_MUL] = {"*", PY_PRODUCT, true},    [OP_DIV] = {"/", PY_PRODUCT, true},
    [OP_MOD] = {"%", PY_PRODUCT, true},    [OP_POW] = {"**", PY_POWER, true},
    [OP_EQ] = {"==", PY_COMPARISON, true}, [OP_NE] = {"!=", PY_COMPARISON, true},
    [OP_LT] = {"<", PY_COMPARISON, true},  [OP_LE] = {"<=", PY_COMPARISON, true},
    [OP_GT] = {">", PY_COMPARISON, true},  [OP_GE] = {">=", PY_COMPARISON, true},
#define TORCH(name, text) [OP_##name] = {text, PY_ATOM, false},
#include "ir/op.def"
};

static PyKind largest_kind(const Py *args, int count) {
    PyKind kind = PY_BOOL;
    for (int i = 0; i < count; i++)
        if (!args[i].number && args[i].kind > kind) kind = args[i].kind;
    return kind;
}

/* Operands of one type: the type of the weights if one of them has it. */
static PyKind unify(Printer *printer, Py *args, int count) {
    PyKind kind = largest_kind(args, count);
    for (int i = 0; i < count; i++)
        if (kind == PY_REAL) args[i] = as_real(printer, args[i]);
    return kind;
}

static Py infix(Printer *printer, OpCode op, Py a, Py b) {
    if (op == OP_MUL && b.number && b.level == PY_PRODUCT && !strncmp(b.text, "1 / ", 4)) {
        b.text += 4;
        b.level = PY_ATOM;
        op = OP_DIV;
    }
    const struct Spelling *how = &spellings[op];
    Py args[2] = {a, b}, result = {.level = how->level};
    bool compares = how->level == PY_COMPARISON;
    PyKind kind = unify(printer, args, 2);
    bool fraction = (a.number && a.kind > PY_INT) || (b.number && b.kind > PY_INT);
    bool divides = op == OP_DIV || op == OP_POW;
    if (!compares && kind < PY_TABLE && (divides || fraction))
        for (int i = 0; i < 2; i++) args[i] = as_double(printer, args[i]), kind = PY_TABLE;
    if (kind == PY_BOOL && op != OP_MUL)
        for (int i = 0; i < 2 && !compares; i++) args[i] = as_int(printer, args[i]), kind = PY_INT;
    if (kind == PY_BOOL && op == OP_MUL && (a.number || b.number)) kind = PY_INT;
    union_dims(printer, args, 2, &result);
    bool right = op == OP_POW || compares;
    const char *one = aligned(printer, args[0], result.dims, result.rank, how->level + right),
               *two =
                   aligned(printer, args[1], result.dims, result.rank, how->level + (op != OP_POW));
    result.text = arena_format(printer->arena, "%s %s %s", one, how->text, two);
    result.kind = compares ? PY_BOOL : kind;
    result.number = a.number && b.number;
    if (result.number && !compares) result.kind = a.kind > b.kind ? a.kind : b.kind;
    if (result.number && divides) result.kind = PY_TABLE;
    return result;
}

static Py logic(Printer *printer, OpCode op, Py a, Py b) {
    Py args[2] = {as_bool(printer, a), as_bool(printer, b)}, result = {.kind = PY_BOOL};
    align(printer, args, 2, PY_ATOM, &result);
    result.number = a.number && b.number;
    const char *word = op == OP_AND ? "and" : "or", *sign = op == OP_AND ? "&" : "|";
    result.level = PY_CONDITION;
    result.text = arena_format(printer->arena, "%s %s %s", args[0].text,
                               result.number ? word : sign, args[1].text);
    return result;
}

/* A number as a tensor like the other value of a choice. */
static const char *filled(Printer *printer, Py like, const char *number) {
    return arena_format(printer->arena, "torch.full_like(%s, %s)", like.text, number);
}

/* Broadcasting adds leading dimensions, but both values of a choice need the same ones. */
static const char *with_leading(Printer *printer, Py value, const char *text, const Py *whole) {
    int missing = 0;
    while (missing < whole->rank && !indices_have(value.dims, value.rank, whole->dims[missing]))
        missing++;
    if (!missing) return text;
    Text made = {.arena = printer->arena};
    text_add(&made, "%s[", in_parentheses(printer, value, PY_ATOM));
    for (int i = 0; i < missing; i++) text_add(&made, "None, ");
    text_add(&made, "...]");
    return made.text;
}

static Py choose(Printer *printer, Py condition, Py a, Py b) {
    char *end;
    double constant = strtod(condition.text, &end);
    if (condition.number && !*end) return constant != 0 ? a : b;
    Py args[3] = {as_bool(printer, condition), a, b}, result = {.level = PY_ATOM};
    Arena *arena = printer->arena;
    result.kind = unify(printer, args + 1, 2);
    bool fraction = (a.number && a.kind > PY_INT) || (b.number && b.kind > PY_INT);
    if (a.number && b.number) result.kind = PY_INT;
    for (int i = 1; i < 3 && fraction && result.kind < PY_TABLE; i++)
        args[i] = as_double(printer, args[i]);
    if (fraction && result.kind < PY_TABLE) result.kind = PY_TABLE;
    union_dims(printer, args, 3, &result);
    const char *one = aligned(printer, args[1], result.dims, result.rank, PY_SUM),
               *two = aligned(printer, args[2], result.dims, result.rank, PY_SUM);
    if (!condition.number && a.number && b.number && fraction)
        one = arena_format(arena, "torch.tensor(%s, dtype=torch.float64)", one);
    if (condition.number) {
        if (a.number && !b.number) one = filled(printer, b, one);
        if (b.number && !a.number) two = filled(printer, a, two);
        if (!a.number) one = with_leading(printer, args[1], one, &result);
        if (!b.number) two = with_leading(printer, args[2], two, &result);
        result.number = a.number && b.number;
        result.level = PY_CHOICE;
        result.text = arena_format(arena, "%s if %s else %s", one, args[0].text, two);
        return result;
    }
    result.text =
        arena_format(arena, "torch.where(%s, %s, %s)",
                     aligned(printer, args[0], result.dims, result.rank, PY_CONDITION), one, two);
    return result;
}

/* min and max; of equal values the number passes the gradient on. */
static Py extreme(Printer *printer, bool largest, Py a, Py b) {
    Arena *arena = printer->arena;
    if (a.number) {
        Py other = a;
        a = b;
        b = other;
    }
    Py args[2] = {a, b}, result = {.level = PY_ATOM};
    result.kind = unify(printer, args, 2);
    align(printer, args, 2, PY_CONDITION, &result);
    const char *one = args[0].text, *two = args[1].text;
    result.number = a.number && b.number;
    if (result.number)
        result.text = arena_format(arena, "%s(%s, %s)", largest ? "max" : "min", one, two);
    else if (b.number)
        result.text =
            arena_format(arena, "torch.clamp(%s, %s=%s)", one, largest ? "min" : "max", two);
    else
        result.text =
            arena_format(arena, "torch.%s(%s, %s)", largest ? "maximum" : "minimum", one, two);
    return result;
}

static Py function(Printer *printer, OpCode op, Py a) {
    bool keeps = op == OP_FLOOR || op == OP_ABS || op == OP_SIGN;
    if (op == OP_FLOOR && a.kind <= PY_INT) return a;
    if (a.number) {
        a.text = arena_format(printer->arena,
                              "torch.tensor(float(%s), dtype=torch.float64, device=cache.device)",
                              a.text);
        a.number = false;
        a.kind = PY_TABLE;
    }
    if (!keeps) a = as_double(printer, a);
    const char *text = spellings[op].text;
    if (!text) text = arena_format(printer->arena, "torch.%s(%%s)", op_table[op].text);
    a.text = arena_format(printer->arena, text, a.text);
    a.level = PY_ATOM;
    return a;
}

Py apply_python(Printer *printer, OpCode op, const Py *args) {
    Arena *arena = printer->arena;
    Py value = args[0];
    switch (op) {
    case OP_NEG:
        value = as_int(printer, value);
        value.text = arena_format(arena, "-%s", in_parentheses(printer, value, PY_ATOM));
        value.level = PY_NEGATION;
        return value;
    case OP_MIN:
    case OP_MAX:
        return extreme(printer, op == OP_MAX, args[0], args[1]);
    case OP_AND:
    case OP_OR:
        return logic(printer, op, args[0], args[1]);
    case OP_NOT:
        value = as_bool(printer, value);
        value.text = arena_format(arena, value.number ? "not %s" : "~%s",
                                  in_parentheses(printer, value, PY_ATOM));
        value.level = PY_CONDITION;
        return value;
    case OP_WHERE:
        return choose(printer, args[0], args[1], args[2]);
    case OP_STOP:
        return value.number ? value : with_method(printer, value, ".detach()", value.kind);
    case OP_UNIFORM:
    case OP_NORMAL:
        refuse(printer->torch, printer->statement->span, "random numbers");
    default:
        if (spellings[op].infix) return infix(printer, op, args[0], args[1]);
        return function(printer, op, args[0]);
    }
}

/* ---- values ---- */

/* The positions of an index. */
static Py index_python(Printer *printer, Index *index) {
    Py value = {.level = PY_ATOM, .kind = PY_INT};
    Arena *arena = printer->arena;
    if (printer->scan && index == printer->scan->index) {
        value.number = true;
        bool sequence = index->axis->kind == AXIS_SEQUENCE;
        value.text = arena_format(arena, sequence ? "cache.past + %s" : "%s", printer->position);
        value.level = PY_SUM;
        return value;
    }
    if (printer->fixed && index->axis == printer->fixed)
        return (Py){.text = printer->fixed_name, .level = PY_ATOM, .kind = PY_INT, .number = true};
    if (index->of_repeat)
        refuse(printer->torch, printer->statement->span, "the iteration as a number");
    value.rank = 1;
    value.dims[0] = index;
    if (index->axis->kind == AXIS_SEQUENCE)
        value.text = is_full(printer, index) ? "cache.all_positions" : "cache.positions";
    else if (index->axis->kind == AXIS_BATCH)
        value.text = "cache.range(cache.sequences)";
    else
        value.text = arena_format(arena, "cache.range(%ld)", index->axis->size);
    return value;
}

/* floor(a / b) of integers. */
static bool quotient(Printer *printer, const Expr *expr, Py *result) {
    if (expr->op != OP_FLOOR || !expr_is_quotient(expr)) return false;
    const Expr *division = expr->args[0];
    Py args[2] = {python(printer, division->args[0]), python(printer, division->args[1])};
    if (args[0].kind > PY_INT || args[1].kind > PY_INT) return false;
    result->level = PY_PRODUCT;
    result->kind = PY_INT;
    result->number = args[0].number && args[1].number;
    union_dims(printer, args, 2, result);
    result->text = arena_format(printer->arena, "%s // %s",
                                aligned(printer, args[0], result->dims, result->rank, PY_PRODUCT),
                                aligned(printer, args[1], result->dims, result->rank, PY_NEGATION));
    return true;
}

Py python(Printer *printer, const Expr *expr) {
    Py args[3], result = {.level = PY_ATOM};
    switch (expr->kind) {
    case EXPR_NUMBER:
        return python_number(printer, expr, expr->number);
    case EXPR_INDEX:
        return index_python(printer, expr->index);
    case EXPR_READ:
        return read_python(printer, expr);
    case EXPR_APPLY:
        if (quotient(printer, expr, &result)) return result;
        for (int i = 0; i < expr->count; i++) args[i] = python(printer, expr->args[i]);
        return apply_python(printer, expr->op, args);
    }
    return result;
}
