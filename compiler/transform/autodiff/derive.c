/* derive: the derivative of one operation, read from its row in op.def.
 *
 *     tanh(x)   row: "1 - $y * $y"   -->   1 - result * result
 *
 * The texts are short. They are parsed directly into expressions at each use:
 *
 *     compare = sum [("<=" | "<" | ">=" | ">" | "!=" | "==") sum]
 *     sum     = product {("+" | "-") product}
 *     product = power {("*" | "/") power}
 *     power   = atom ["^" atom]
 *     atom    = number | "-" atom | "$" ("0" | "1" | "2" | "y")
 *             | "(" compare ")" | NAME "(" compare ")"
 */
#include "transform/autodiff/gradient.h"
#include "base/must.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct AdjointReader {
    Program *program;
    const char *at;
    const Expr *apply;
    Expr *result;
} AdjointReader;

static Expr *read_compare(AdjointReader *reader);

static bool take_gradient(AdjointReader *reader, const char *text) {
    while (*reader->at == ' ') reader->at++;
    if (strncmp(reader->at, text, strlen(text)) != 0) return false;
    reader->at += strlen(text);
    return true;
}

static Expr *read_argument(AdjointReader *reader) {
    char which = *reader->at++;
    return which == 'y' ? reader->result : reader->apply->args[which - '0'];
}

static Expr *read_named(AdjointReader *reader) {
    char name[16] = "";
    size_t length = 0;
    while (isalpha((unsigned char)*reader->at) && length + 1 < sizeof name)
        name[length++] = *reader->at++;
    int op = op_find(name, 1);
    MUST(op >= 0);
    Expr *argument = read_compare(reader);
    return expr_apply(reader->program, (OpCode)op, argument, NULL, NULL);
}

static Expr *read_atom(AdjointReader *reader) {
    if (take_gradient(reader, "-"))
        return expr_apply(reader->program, OP_NEG, read_atom(reader), NULL, NULL);
    if (take_gradient(reader, "$")) return read_argument(reader);
    if (take_gradient(reader, "(")) {
        Expr *inner = read_compare(reader);
        take_gradient(reader, ")");
        return inner;
    }
    if (isalpha((unsigned char)*reader->at)) return read_named(reader);
    char *end;
    double number = strtod(reader->at, &end);
    MUST(end > reader->at);
    reader->at = end;
    return expr_number(reader->program, number);
}

static Expr *read_power(AdjointReader *reader) {
    Expr *base = read_atom(reader);
    return take_gradient(reader, "^")
               ? expr_apply(reader->program, OP_POW, base, read_atom(reader), NULL)
               : base;
}

static Expr *read_product(AdjointReader *reader) {
    Expr *left = read_power(reader);
    for (;;) {
        if (take_gradient(reader, "*"))
            left = expr_apply(reader->program, OP_MUL, left, read_power(reader), NULL);
        else if (take_gradient(reader, "/"))
            left = expr_apply(reader->program, OP_DIV, left, read_power(reader), NULL);
        else
            return left;
    }
}

static Expr *read_sum(AdjointReader *reader) {
    Expr *left = read_product(reader);
    for (;;) {
        if (take_gradient(reader, "+"))
            left = expr_apply(reader->program, OP_ADD, left, read_product(reader), NULL);
        else if (take_gradient(reader, "-"))
            left = expr_apply(reader->program, OP_SUB, left, read_product(reader), NULL);
        else
            return left;
    }
}

/* A value of 0 or 1 needs no comparison with 0. */
static Expr *compare_gradients(const AdjointReader *reader, OpCode op, Expr *left, Expr *right) {
    if (expr_is_truth(left) && expr_is_number(right, 0) && op == OP_NE) return left;
    if (expr_is_truth(left) && expr_is_number(right, 0) && op == OP_EQ)
        return expr_apply(reader->program, OP_NOT, left, NULL, NULL);
    return expr_apply(reader->program, op, left, right, NULL);
}

static Expr *read_compare(AdjointReader *reader) {
    static const struct {
        const char *text;
        OpCode op;
    } comparisons[] = {{"<=", OP_LE}, {">=", OP_GE}, {"<", OP_LT},
                       {">", OP_GT},  {"!=", OP_NE}, {"==", OP_EQ}};
    Expr *left = read_sum(reader);
    for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++)
        if (take_gradient(reader, comparisons[i].text))
            return compare_gradients(reader, comparisons[i].op, left, read_sum(reader));
    return left;
}

Expr *derive(Program *program, const Expr *apply, int argument, Expr *result) {
    MUST(apply->kind == EXPR_APPLY && argument < op_table[apply->op].arity);
    const char *text = op_table[apply->op].derivative[argument];
    if (strcmp(text, "0") == 0) return NULL;
    AdjointReader reader = {program, text, apply, result};
    Expr *derivative = read_compare(&reader);
    MUST(!*reader.at);
    return derivative;
}
