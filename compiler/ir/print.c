/* print: a program as text: axes and tensors first, then one statement per line, bodies of repeats
 * indented.
 *
 *     program tiny (train)
 *       axis batch = 2 (batch)
 *       parameter up[layer=6,d=64,f=128] ~ normal(0, 0.02) "block.{i}.ffn.up"
 *       input tokens[batch=2,s=16]: int token < 256
 *
 *       repeat i < 6 {
 *         h[b,s,f] = sum[d] x[i,b,s,d] * up[i,d,f]
 *       }
 *
 * Numbers have nine digits. Equal programs therefore print the same text on every machine.
 */
#include "ir/call.h"
#include "ir/weight_type.h"

#include <string.h>

/* Most of the text consists of words without a format. */
static void print_to(Text *text, const char *word) {
    text_add_bytes(text, word, strlen(word));
}

static void add_expr(Text *text, const Expr *expr, int least);

static void add_list(Text *text, Expr *const *items, int count, const char *comma) {
    for (int i = 0; i < count; i++) {
        if (i) print_to(text, comma);
        add_expr(text, items[i], LEVEL_OR);
    }
}

static void add_infix(Text *text, const Expr *expr, int level) {
    if (expr->op == OP_NEG) {
        print_to(text, "-");
        add_expr(text, expr->args[0], LEVEL_NEGATION + 1);
        return;
    }
    /* Both sides of a comparison and the base of a power need the next level: none of them
     * associates. */
    bool right = expr->op == OP_POW, none = level == LEVEL_COMPARE;
    add_expr(text, expr->args[0], level + (right || none));
    text_add(text, " %s ", op_table[expr->op].text);
    add_expr(text, expr->args[1], level + !right);
}

static void add_apply(Text *text, const Expr *expr, int least) {
    int level = (int)op_table[expr->op].level;
    if (level == LEVEL_ATOM) {
        text_add(text, "%s(", op_table[expr->op].text);
        add_list(text, expr->args, expr->count, ", ");
        print_to(text, ")");
        return;
    }
    if (level < least) print_to(text, "(");
    add_infix(text, expr, level);
    if (level < least) print_to(text, ")");
}

/* Puts expressions with a precedence below `least` in parentheses. */
static void add_expr(Text *text, const Expr *expr, int least) {
    switch (expr->kind) {
    case EXPR_NUMBER:
        text_add(text, expr->number < 0 && least > LEVEL_NEGATION ? "(%.9g)" : "%.9g",
                 expr->number);
        break;
    case EXPR_INDEX:
        print_to(text, expr->index->name);
        break;
    case EXPR_READ:
        print_to(text, expr->tensor->name);
        if (!expr->count) break;
        print_to(text, "[");
        add_list(text, expr->args, expr->count, ",");
        print_to(text, "]");
        break;
    case EXPR_APPLY:
        add_apply(text, expr, least);
        break;
    }
}

/* ---- statements ---- */

static void print_loop(Text *text, const Statement *statement) {
    static const char *const reductions[] = {"", "sum", "max", "min"};
    add_expr(text, statement->target, LEVEL_OR);
    text_add(text, statement->accumulate ? " += " : " = ");
    bool reduces = statement->reduction != REDUCE_NONE;
    if (reduces) {
        text_add(text, "%s[", reductions[statement->reduction]);
        const char *comma = "";
        for (int i = 0; i < statement->loop_count; i++) {
            if (expr_uses_index(statement->target, statement->loops[i])) continue;
            text_add(text, "%s%s", comma, statement->loops[i]->name);
            comma = ",";
        }
        print_to(text, "] ");
    }
    add_expr(text, statement->value, reduces ? LEVEL_SUM + 1 : LEVEL_OR);
    if (statement->bound) {
        print_to(text, "  rows < ");
        add_expr(text, statement->bound, LEVEL_OR);
    }
    if (statement->once) print_to(text, "  (once per step)");
}

static void add_call(Text *text, const Statement *statement) {
    add_list(text, (Expr *const *)statement->outputs.items, statement->outputs.count, ", ");
    text_add(text, " = %s(", statement->row->name);
    add_list(text, (Expr *const *)statement->inputs.items, statement->inputs.count, ", ");
    statement->row->print(text, statement);
    print_to(text, ")");
}

static void add_block(Text *text, const Block *block, int depth);

static void add_statement(Text *text, const Statement *statement, int depth) {
    text_add(text, "%*s", 2 * depth, "");
    switch (statement->kind) {
    case STATEMENT_LOOP:
        print_loop(text, statement);
        break;
    case STATEMENT_CALL:
        add_call(text, statement);
        if (!statement->row->has_body) break;
        text_add(text, " {%s%s\n", statement->slow ? "  # sequential: " : "",
                 statement->slow ? statement->slow : "");
        add_block(text, &statement->body, depth + 1);
        text_add(text, "%*s}", 2 * depth, "");
        break;
    case STATEMENT_REPEAT:
        text_add(text, "repeat %s < %ld%s {\n", statement->index->name,
                 statement->index->axis->size, statement->reverse ? " downwards" : "");
        add_block(text, &statement->body, depth + 1);
        text_add(text, "%*s}", 2 * depth, "");
        break;
    }
}

static void add_block(Text *text, const Block *block, int depth) {
    for (int i = 0; i < block->statements.count; i++) {
        add_statement(text, block->statements.items[i], depth);
        print_to(text, "\n");
    }
}

/* ---- declarations ---- */

static void add_init(Text *text, const Init *init) {
    if (init->kind == MOEC_INIT_CONSTANT) text_add(text, " ~ %.9g", init->a);
    if (init->kind == MOEC_INIT_NORMAL) text_add(text, " ~ normal(%.9g, %.9g)", init->a, init->b);
    if (init->kind == MOEC_INIT_UNIFORM) text_add(text, " ~ uniform(%.9g, %.9g)", init->a, init->b);
}

/* " { frozen, lr = 0.1 }": the settings of a parameter. The initial deviation is part of ~. */
static void add_settings(Text *text, const Tensor *tensor) {
    Text all = {.arena = text->arena};
    if (tensor->frozen) text_add(&all, ", frozen");
    if (tensor->clip_group)
        text_add(&all, ", grad_clip %d = %.9g", tensor->clip_group, tensor->clip);
    LIST_EACH(const OwnNumber, own, &tensor->own)
        if (*own->name != '.') text_add(&all, ", %s = %.9g", own->name, own->value);
    if (all.length) text_add(text, " { %s }", all.text + 2);
}

static void print_tensor(Text *text, const Tensor *tensor) {
    static const char *const roles[] = {"parameter", "state",  "input",   "gradient",
                                        "cache",     "output", "rounded", "temp"};
    static const char *const inputs[] = {"token", "next_token", "float", "class", "scalar"};
    text_add(text, "  %s %s", roles[tensor->role], tensor->name);
    for (int i = 0; i < tensor->rank; i++)
        text_add(text, "%s%s=%ld", i ? "," : "[", tensor->axes[i]->name, tensor->axes[i]->size);
    if (tensor->rank) print_to(text, "]");
    if (tensor->prepared) print_to(text, ": prepared");
    if (tensor->type == TYPE_INT) print_to(text, ": int");
    if (tensor->type == TYPE_DOUBLE) print_to(text, ": double");
    if (weight_type(tensor->type) || unit_type(tensor->type))
        text_add(text, ": %s", real_type_name(tensor->type));
    if (tensor->type == TYPE_BYTE) print_to(text, ": byte");
    if (tensor->role == ROLE_INPUT) text_add(text, " %s", inputs[tensor->input]);
    if (tensor->vocabulary) text_add(text, " < %ld", tensor->vocabulary);
    bool parameter = tensor->role == ROLE_PARAMETER && !tensor->prepared;
    if (parameter || tensor->role == ROLE_STATE) add_init(text, &tensor->init);
    if (parameter) add_settings(text, tensor);
    if (tensor->path) text_add(text, " \"%s\"", tensor->path);
    if (tensor->of) text_add(text, " of %s", tensor->of->name);
    print_to(text, "\n");
}

static void add_axes(Text *text, const Program *program) {
    static const char *const kinds[] = {"",          " (batch)", " (sequence)",
                                        " (repeat)", " (rows)",  " (elements)"};
    LIST_EACH(const Axis, axis, &program->axes)
        text_add(text, "  axis %s = %ld%s\n", axis->name, axis->size, kinds[axis->kind]);
}

char *print_expr(Arena *arena, const Expr *expr) {
    Text text = {.arena = arena};
    add_expr(&text, expr, LEVEL_OR);
    return text.text;
}

char *print_statement(Arena *arena, const Statement *statement) {
    Text text = {.arena = arena};
    add_statement(&text, statement, 0);
    return text.text;
}

const char *graph_name(Graph graph) {
    static const char *const names[] = {
        [GRAPH_FORWARD] = "forward", [GRAPH_TRAIN] = "train",     [GRAPH_DECODE] = "decode",
        [GRAPH_UPDATE] = "update",   [GRAPH_MEASURE] = "measure", [GRAPH_GATHER] = "gather",
        [GRAPH_REFINE] = "refine",   [GRAPH_STEP] = "step",       [GRAPH_PREPARE] = "prepare"};
    return names[graph];
}

char *print_program(Arena *arena, const Program *program) {
    Text text = {.arena = arena};
    text_add(&text, "program %s (%s)\n", program->name, graph_name(program->graph));
    add_axes(&text, program);
    for (int i = 0; i < program->tensors.count; i++) print_tensor(&text, program->tensors.items[i]);
    text_add(&text, "\n");
    add_block(&text, &program->body, 1);
    return text.text;
}
