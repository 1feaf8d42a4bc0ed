/* torch_calls: attention and selections as calls of functions of the printed file. */
#include "torch/torch.h"

#include "ir/call.h"

#include <string.h>

const char *expanded(Printer *printer, const PyVariable *variable) {
    Text text = {.arena = printer->arena};
    bool any = false;
    const Tensor *tensor = variable->tensor;
    int first = first_axis(tensor);
    for (int i = first; i < tensor->rank; i++)
        any |= variable->absent[i] && tensor->axes[i] != printer->fixed;
    if (!any) return variable->name;
    if (printer->fixed) refuse(printer->torch, printer->statement->span, "this selection");
    text_add(&text, "%s[", variable->name);
    for (int i = first; i < tensor->rank; i++)
        text_add(&text, "%s%s", i > first ? ", " : "", variable->absent[i] ? "None" : ":");
    text_add(&text, "].expand(");
    for (int i = first; i < tensor->rank; i++)
        text_add(&text, "%s%s", i > first ? ", " : "",
                 variable->absent[i] ? python_size(printer, tensor->axes[i], variable->full[i])
                                     : "-1");
    text_add(&text, ")");
    return text.text;
}

static PyVariable *operand_of(Printer *printer, const Statement *statement, int number) {
    const Expr *read = statement->inputs.items[number];
    python(printer, read); /* declares a parameter */
    return variable_of(printer, read->tensor, version_of(read));
}

/* The operand at all positions so far; `axis`: its dimension of keys. The cache has only the
 * dimensions of the value. */
static const char *all_of(Printer *printer, const Statement *statement, int number, int axis) {
    PyVariable *variable = operand_of(printer, statement, number), all;
    const bool along = variable->tensor->axes[axis]->kind == AXIS_SEQUENCE;
    if (along && !variable->absent[axis]) variable = kept(printer, variable, axis);
    all = *variable;
    all.full[axis] |= along;
    return expanded(printer, &all);
}

static PyVariable *result_of(Printer *printer, const Statement *statement, int number,
                             const List *parts, int at) {
    const Expr *output = statement->outputs.items[number];
    if (!printer->torch->live[output->tensor->id]) return NULL;
    return define_variable(printer, output->tensor, 0, parts, at);
}

/* Those of an operand [..., s, h, e] that does not run along the sequence. */
static void add_positions(Text *text, const char *name, const Expr *operand) {
    const Axis *axis = operand->tensor->axes[operand->count - 3];
    if (axis->kind != AXIS_SEQUENCE) text_add(text, ", %s=cache.range(%ld)", name, axis->size);
}

static void print_attend(Printer *printer, Statement *statement, const List *parts, int at) {
    Torch *torch = printer->torch;
    const AttendOptions *options = &statement->attention;
    begin_statement(printer, statement);
    const PyVariable *query = operand_of(printer, statement, 0);
    const char *q = expanded(printer, query);
    const int keys = call_input(statement, 1)->count - 3;
    const char *k = all_of(printer, statement, 1, keys), *v = all_of(printer, statement, 2, keys);
    Text text = {.arena = torch->arena};
    text_add(&text, "attend(cache, %s, %s, %s", q, k, v);
    add_positions(&text, "queries", call_input(statement, 0));
    add_positions(&text, "keys", call_input(statement, 1));
    text_add(&text, ", scale=%s", python_number(printer, &options->scale, options->scale).text);
    if (options->mask == MASK_NONE) text_add(&text, ", causal=False");
    if (options->mask == MASK_WINDOW)
        text_add(&text, ", window=%s",
                 python_number(printer, &options->window, (double)options->window).text);
    if (options->cap != 0)
        text_add(&text, ", softcap=%s", python_number(printer, &options->cap, options->cap).text);
    int next = 3;
    if (options->sink)
        text_add(&text, ", sink=%s", expanded(printer, operand_of(printer, statement, next++)));
    if (options->documents) {
        const char *all = all_of(printer, statement, next, call_input(statement, next)->count - 1);
        text_add(&text, ", documents=%s", all);
        next++;
    }
    if (options->chosen)
        text_add(&text, ", chosen=%s, block=(%ld, %ld, %ld)",
                 all_of(printer, statement, next, call_input(statement, next)->count - 1),
                 options->block[0], options->block[1], options->block[2]);
    next += options->chosen;
    if (options->bias)
        text_add(&text, ", bias=%s", expanded(printer, operand_of(printer, statement, next)));
    PyVariable *o = result_of(printer, statement, 0, parts, at),
               *lse = result_of(printer, statement, 1, parts, at);
    if (lse)
        python_line(printer, "%s, %s = %s, lse=True)", o ? o->name : "_", lse->name, text.text);
    else
        python_line(printer, "%s = %s)", o->name, text.text);
}

static void print_top(Printer *printer, Statement *statement, const List *parts, int at) {
    Torch *torch = printer->torch;
    const Expr *input = statement->inputs.items[0];
    begin_statement(printer, statement);
    PyVariable *p = operand_of(printer, statement, 0);
    const char *text = expanded(printer, p);
    bool iterations = is_stacked(input->tensor);
    int dim = statement->top.dimension;
    if (iterations) refuse(torch, statement->span, "top of a stacked tensor");
    const Axis *axis = input->tensor->axes[dim];
    const char *k = python_number(printer, &statement->top.k, (double)statement->top.k).text;
    if (axis->kind == AXIS_SEQUENCE && p->full[dim])
        k = arena_format(torch->arena, "min(%ld, cache.total)", statement->top.k);
    else if (axis->kind == AXIS_SEQUENCE)
        k = arena_format(torch->arena, "max(1, int(cache.length * %.17g))",
                         (double)statement->top.k / (double)axis->size);
    PyVariable *mask = result_of(printer, statement, 0, parts, at);
    if (!mask) return;
    memcpy(mask->full, p->full, sizeof mask->full);
    mask->kind = p->kind;
    if (printer->fixed) memcpy(mask->absent, p->absent, sizeof mask->absent);
    for (int i = statement->top.dimension; printer->fixed && i > 0; i--)
        dim -= input->tensor->axes[i - 1] == printer->fixed;
    python_line(printer, "%s = top_k(%s, %s, %d)", mask->name, text, k, dim);
}

void python_call(Printer *printer, Statement *statement, const List *parts, int at) {
    static const struct {
        const char *name;
        void (*print)(Printer *printer, Statement *statement, const List *parts, int at);
    } kinds[] = {{"attend", print_attend}, {"top_k", print_top}, {"scan", print_scan}};
    print_comment(printer, statement);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, statement->row->name) != 0) continue;
        kinds[i].print(printer, statement, parts, at);
        return;
    }
    refuse(printer->torch, statement->span, "this operation");
}
