/* refine: inputs that a command refines step by step, such as an image from noise.
 *
 *     input image[n, p]: float = normal()
 *     refine image[n, p] = image[n, p] - velocity[n, p] / steps
 * -->
 *     image' = where(given or step > 0, image, normal())      read by all equations
 *     output image = where(given, image', image' - velocity / steps)
 *
 * in the program of one refinement; other programs do not evaluate either expression. `given` is a
 * further input, "image.given": 1 for the elements that the caller sets.
 */
#include "elaborate/elaborate.h"

#include <string.h>

/* An input with a starting value. */
typedef struct Refined {
    const Node *input, *statement; /* NULL: not refined so far */
    Expr *given, *value;           /* over dims; NULL: another program */
    Index **dims;                  /* of the input, without the batch */
    int rank;
} Refined;

/* The expression of a value over other indices of the same axes; NULL if it has another axis. */
static Expr *over_dims(Elaborator *e, const Value *value, const Refined *refined) {
    Expr *to[MAX_RANK];
    if (value->kind == KIND_NUMBER) return expr_number(e->program, value->number);
    for (int i = 0; i < value->rank; i++) {
        int match = 0;
        while (match < refined->rank &&
               !axes_match(e, value->dims[i]->axis, refined->dims[match]->axis))
            match++;
        if (match == refined->rank) return NULL;
        to[i] = expr_index(e->program, refined->dims[match]);
    }
    return expr_substitute(e->program, value->expr, value->dims, to, value->rank);
}

/* An equation with the subscripts of the input, NAME[axes] = right. */
static Expr *value_over(Elaborator *e, const Node *node, const Node *right,
                        const Refined *refined) {
    Node equation = *node, *kids[] = {node->kids[0], (Node *)(uintptr_t)right};
    equation.kids = kids;
    equation.count = 2;
    const Value *value = value_of_equation(e, &equation);
    if (value->kind == KIND_ERROR) return NULL;
    Expr *expr = value->kind == KIND_TENSOR || value->kind == KIND_NUMBER
                     ? over_dims(e, value, refined)
                     : NULL;
    if (expr) return expr;
    report_error(e->reports, right->span, "'%s' expects a value with the axes of the input",
                 node->name);
    report_note(e->reports, refined->input->span, "the input is declared here");
    report_help(e->reports, "write the subscripts of the input on the left side");
    return NULL;
}

/* 1 for the elements that the caller sets, with the axes of the input. */
static Expr *given_elements(Elaborator *e, const Node *node, Index *const *all, int rank) {
    Tensor *tensor = tensor_over(e->program, arena_format(e->arena, "%s_given", node->name),
                                 ROLE_INPUT, TYPE_REAL, all, rank, node->name_span);
    tensor->path = arena_format(e->arena, "%s.given", node->name);
    tensor->input = tensor->declared = MOEC_INPUT_REAL;
    return expr_read_indices(e->program, tensor, all);
}

Value *starting_input(Elaborator *e, const Node *node, Value *value) {
    Refined *refined = arena_alloc(e->arena, sizeof *refined);
    *refined = (Refined){.input = node, .rank = value->rank};
    list_push(e->arena, &e->refined, refined);
    if (!is_refining(e)) return value;
    refined->dims = arena_alloc(e->arena, (size_t)(value->rank + 1) * sizeof(Index *));
    Index *all[MAX_RANK + 1] = {e->batch};
    for (int i = 0; i < value->rank; i++) all[i + 1] = refined->dims[i] = value->dims[i];
    Expr *start = value_over(e, node, node->kids[2], refined), *zero = expr_number(e->program, 0);
    if (!start) return value_error(e, node->span);
    refined->given =
        expr_apply(e->program, OP_NE, given_elements(e, node, all, value->rank + 1), zero, NULL);
    Expr *later = expr_apply(e->program, OP_GT, refining_scalar(e, "step"), zero, NULL);
    Expr *known = expr_apply(e->program, OP_OR, refined->given, later, NULL);
    Value *now = define(e, node->name, value->dims, value->rank, REDUCE_NONE, NULL, 0,
                        expr_apply(e->program, OP_WHERE, known, value->expr, start), node->span);
    refined->value = now->kind == KIND_TENSOR ? now->expr : NULL;
    return now;
}

static Refined *find_refined(const Elaborator *e, const char *name) {
    LIST_EACH(Refined, refined, &e->refined)
        if (!strcmp(refined->input->name, name)) return refined;
    return NULL;
}

static bool may_refine(Elaborator *e, const Node *node, const Refined *refined) {
    if (!refined || e->frame->caller) {
        report_error(e->reports, node->name_span,
                     "'%s' is not an input with a starting value and cannot be refined",
                     node->name);
        return report_help(e->reports,
                           "declare it in the layer of the model: input %s[...]: float "
                           "= normal()",
                           node->name);
    }
    if (!refined->statement) return true;
    report_error(e->reports, node->span, "duplicate refinement of '%s'", node->name);
    report_note(e->reports, refined->statement->span, "first refined here");
    return report_help(e->reports, "write one of them");
}

void refine_statement(Elaborator *e, const Node *node) {
    Refined *refined = find_refined(e, node->name);
    if (!may_refine(e, node, refined)) return;
    refined->statement = node;
    e->program->refines = true;
    if (!refined->value) return;
    Expr *next = value_over(e, node, node->kids[1], refined);
    if (!next) return;
    Index *all[MAX_RANK + 1] = {e->batch};
    for (int i = 0; i < refined->rank; i++) all[i + 1] = refined->dims[i];
    Tensor *out = tensor_over(e->program, temporary_name(e, node->name), ROLE_OUTPUT, TYPE_REAL,
                              all, refined->rank + 1, node->name_span);
    out->path = node->name;
    Expr *kept = expr_apply(e->program, OP_WHERE, refined->given, refined->value, next);
    statement_assign(e->program, e->block, expr_read_indices(e->program, out, all), kept,
                     node->span);
    list_push(e->arena, &e->refinements, out);
}

void check_refined(Elaborator *e) {
    if (is_refining(e) && !e->program->refines)
        report_invalid(
            e->reports, e->frame->call,
            "add refine NAME[axes] = ... to its layer, and a starting value to the input",
            "model '%s' refines no input", e->program->name);
    LIST_EACH(const Refined, refined, &e->refined) {
        if (refined->statement) continue;
        report_invalid(
            e->reports, refined->input->span, "add refine NAME[axes] = ..., or remove the value",
            "input '%s' has a starting value, but no statement refines it", refined->input->name);
    }
}
