/* fault_report: the fault of a value that is not finite, as notes with locations. */
#include "interpret/fault.h"

#include "abi/step_path.h"
#include "ir/call.h"

#include <math.h>

static const char *shown_number(Arena *arena, double value) {
    return isnan(value) ? "nan" : arena_format(arena, "%.6g", value);
}

/* ---- names of elements ---- */

static bool has_iterations(const Tensor *tensor) {
    return tensor->rank && tensor->axes[0]->kind == AXIS_REPEAT;
}

/* The iteration of the innermost repeat around the statement. */
static long iteration_of(const Nonfinite *fault) {
    long iteration = 0;
    for (int i = 0; i < fault->index_count; i++)
        if (fault->index[i]->of_repeat && fault->index[i]->axis->kind == AXIS_REPEAT)
            iteration = fault->at[i];
    return iteration;
}

/* The name in the spec, with the number of the iteration. */
static const char *tensor_text(Arena *arena, const Nonfinite *fault, const Tensor *tensor,
                               long iteration) {
    if (tensor->of) {
        const char *of = tensor_text(arena, fault, tensor->of, iteration);
        return tensor->role == ROLE_ROUNDED ? of : arena_format(arena, "gradient of %s", of);
    }
    const char *path = tensor->spec_name ? tensor->spec_name : tensor->path;
    StepPath parts;
    if (!path) return tensor->name;
    if (!step_path_read(path, &parts)) return path;
    if (iteration < 0) return tensor->stem; /* carried into the first iteration */
    return arena_format(arena, "%.*s%ld%s", parts.before, path, step_path_number(&parts, iteration),
                        parts.after);
}

/* The coordinates of a row of dispatched values: "batch=0,s=3,n=1". */
static void add_row_coordinates(Text *text, const Nonfinite *fault) {
    const Tensor *mask = fault->relation->mask;
    int stacked = has_iterations(mask);
    for (int i = stacked; i < mask->rank; i++)
        if (fault->coordinate[i - stacked] >= 0)
            text_add(text, "%s%s=%ld", text->text ? "," : "", mask->axes[i]->name,
                     fault->coordinate[i - stacked]);
}

/* "block.0.ffn.level[batch=0,s=3]" */
static const char *element_name(Arena *arena, const Nonfinite *fault, TracedElement element) {
    const Tensor *tensor = element.tensor;
    long stride = tensor_elements(tensor), iteration = iteration_of(fault);
    Text text = {.arena = arena};
    for (int i = 0; i < tensor->rank; i++) {
        const long size = tensor->axes[i]->size;
        stride /= size;
        const long at = element.offset / stride % size;
        if (i == 0 && has_iterations(tensor))
            iteration = at - tensor->carried;
        else if (fault->relation && fault->relation->rows == tensor->axes[i] && fault->row == at)
            add_row_coordinates(&text, fault);
        else
            text_add(&text, "%s%s=%ld", text.text ? "," : "", tensor->axes[i]->name, at);
    }
    const char *name = tensor_text(arena, fault, tensor, iteration);
    return text.text ? arena_format(arena, "%s[%s]", name, text.text) : name;
}

/* " at s=17": the steps of the scans around the statement. */
static const char *steps_text(Arena *arena, const Nonfinite *fault) {
    Text text = text_new(arena);
    for (int i = 0; i < fault->index_count; i++)
        if (fault->index[i]->of_repeat && fault->index[i]->axis->kind != AXIS_REPEAT)
            text_add(&text, "%s%s=%ld", text.length ? "," : " at ", fault->index[i]->axis->name,
                     fault->at[i]);
    return text.text;
}

/* ---- the operation ---- */

/* "log(0)", "0 / 0" */
static const char *operation_text(Arena *arena, const Nonfinite *fault) {
    const Expr *expr = fault->expr;
    if (expr->kind != EXPR_APPLY) return shown_number(arena, fault->value);
    const OpRow *row = &op_table[expr->op];
    Text text = {.arena = arena};
    const bool infix = row->level != LEVEL_ATOM && expr->count == 2;
    if (!infix) text_add(&text, "%s(", row->text);
    for (int i = 0; i < expr->count; i++)
        text_add(&text, "%s%s",
                 !i      ? ""
                 : infix ? arena_format(arena, " %s ", row->text)
                         : ", ",
                 shown_number(arena, fault->args[i]));
    if (!infix) text_add(&text, ")");
    return text.text;
}

static const char *cause_text(Arena *arena, const Nonfinite *fault) {
    switch (fault->kind) {
    case FAULT_OPERATION:
        return arena_format(arena, "%s is %s", operation_text(arena, fault),
                            shown_number(arena, fault->value));
    case FAULT_SUM:
        return arena_format(arena, "the sum of finite terms, the largest of which is %s",
                            shown_number(arena, fault->value));
    case FAULT_STORE:
        return arena_format(arena, "%s is rounded to bf16, whose largest number is 3.38953e+38",
                            shown_number(arena, fault->value));
    case FAULT_CALL:
        return arena_format(arena, "%s of finite operands", fault->statement->row->title);
    case FAULT_CONSTANT:
        return "a constant of the spec";
    default:
        return NULL;
    }
}

static const char *role_text(const Tensor *tensor) {
    return tensor->role == ROLE_PARAMETER || tensor->role == ROLE_ROUNDED ? "weight"
           : tensor->role == ROLE_INPUT                                   ? "input"
           : tensor->role == ROLE_STATE                                   ? "state"
                                                                          : "value";
}

static Span fault_span(const Nonfinite *fault) {
    const bool own = fault->expr && fault->expr->span.source;
    return own ? fault->expr->span : fault->statement->span;
}

static void report_operands(Reports *reports, const Nonfinite *fault) {
    Arena *arena = reports->arena;
    Text text = {.arena = arena};
    for (int i = 0; i < fault->operand_count; i++)
        text_add(&text, "%s%s = %s", i ? ", " : "", element_name(arena, fault, fault->operands[i]),
                 shown_number(arena, fault->operands[i].value));
    if (text.text) report_note(reports, (Span){0}, "operands: %s", text.text);
}

void fault_report(Reports *reports, const Nonfinite *fault) {
    Arena *arena = reports->arena;
    const char *cause = cause_text(arena, fault), *steps = steps_text(arena, fault),
               *name = element_name(arena, fault, fault->element);
    const Statement *statement = fault->statement;
    if (cause)
        report_note(reports, fault_span(fault), "the first value that is not finite is in %s%s: %s",
                    name, steps, cause);
    else
        report_note(reports, fault_span(fault),
                    "the first value that is not finite is the %s %s = %s, which is read here",
                    role_text(fault->element.tensor), name,
                    shown_number(arena, fault->element.value));
    if (statement->asked.source && statement->asked.source != statement->span.source)
        report_note(reports, statement->asked, "the layer is used here");
    report_operands(reports, fault);
}
