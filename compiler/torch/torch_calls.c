/* torch_calls: attention and selections as calls of functions of the printed file; a scan as a loop
 * over positions. The state before the first position comes from the cache.
 *
 *     scan S[h] over s { S = a[s,h] * S }      S_before = cache.state(self, "S_before", ...)
 *                                              S_steps = [None] * cache.length
 *                                              for s in range(cache.length):
 *                                       -->        S = a[:, s] * S_before
 *                                                  S_steps[s] = S_before = S
 *                                              S = torch.stack(S_steps, 1)
 */
#include "torch/torch.h"

#include "analysis/access.h"
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

static PyVariable *result_of(Printer *printer, const Statement *statement, int number) {
    const Expr *output = statement->outputs.items[number];
    if (!printer->torch->live[output->tensor->id]) return NULL;
    return define_variable(printer, output->tensor, 0);
}

/* Those of an operand [..., s, h, e] that does not run along the sequence. */
static void add_positions(Text *text, const char *name, const Expr *operand) {
    const Axis *axis = operand->tensor->axes[operand->count - 3];
    if (axis->kind != AXIS_SEQUENCE) text_add(text, ", %s=cache.range(%ld)", name, axis->size);
}

static void print_attend(Printer *printer, Statement *statement) {
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
    PyVariable *o = result_of(printer, statement, 0), *lse = result_of(printer, statement, 1);
    if (lse)
        python_line(printer, "%s, %s = %s, lse=True)", o ? o->name : "_", lse->name, text.text);
    else
        python_line(printer, "%s = %s)", o->name, text.text);
}

static void print_top(Printer *printer, Statement *statement) {
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
    PyVariable *mask = result_of(printer, statement, 0);
    if (!mask) return;
    memcpy(mask->full, p->full, sizeof mask->full);
    mask->kind = p->kind;
    if (printer->fixed) memcpy(mask->absent, p->absent, sizeof mask->absent);
    for (int i = statement->top.dimension; printer->fixed && i > 0; i--)
        dim -= input->tensor->axes[i - 1] == printer->fixed;
    python_line(printer, "%s = top_k(%s, %s, %d)", mask->name, text, k, dim);
}

/* ---- scans ---- */

/* One equation at the current position. */
static void print_step(Printer *printer, Statement *statement) {
    begin_statement(printer, statement);
    print_comment(printer, statement);
    const Tensor *tensor = statement->target->tensor;
    Py value = equation_value(printer, statement);
    if (printer->like && !value.number) value = operand(printer, value);
    PyVariable *variable = python_variable(printer, tensor, SCAN_CURRENT,
                                           new_name(printer, local_stem(printer, tensor)));
    set_dims(printer, variable, statement->target, &value);
    variable->kind = PY_REAL;
    python_line(printer, "%s = %s", variable->name, value.text);
}

static bool reads_before(Printer *printer, const Statement *scan, const Tensor *tensor) {
    for (int i = 0; i < scan->body.statements.count; i++) {
        List reads = {0};
        reads_of(printer->arena, scan->body.statements.items[i], &reads);
        LIST_EACH(const Expr, read, &reads) {
            int dimension;
            if (read->tensor == tensor && scan_version(printer, read, &dimension) == SCAN_BEFORE)
                return true;
        }
    }
    return false;
}

/* A scan can also go along another axis; then its states are no states of decoding. */
static bool over_positions(const Statement *scan) {
    return scan->index->axis->kind == AXIS_SEQUENCE;
}

/* The state before the first position: of the cache, else 0. */
static void begin_state(Printer *printer, const Statement *scan, const Expr *write) {
    const Tensor *tensor = write->tensor;
    Arena *arena = printer->arena;
    const char *stem = local_stem(printer, tensor);
    PyVariable *before = python_variable(printer, tensor, SCAN_BEFORE,
                                         new_name(printer, arena_format(arena, "%s_before", stem)));
    Text sizes = text_new(arena);
    for (int i = first_axis(tensor); i < tensor->rank; i++)
        if (i != position_dim(scan, write))
            text_add(&sizes, "%s%s", sizes.length ? ", " : "",
                     python_size(printer, tensor->axes[i], false));
    before->absent[position_dim(scan, write)] = true;
    const char *start = arena_format(arena, "%s.new_zeros(%s)", printer->like, sizes.text);
    if (over_positions(scan))
        start = arena_format(arena, "cache.state(self, \"%s\", %s)", before->name, start);
    text_add(&printer->before, "%*s%s = %s\n", 4 * (printer->depth - 1), "", before->name, start);
}

static const char *steps_name(Printer *printer, const Tensor *tensor) {
    return arena_format(printer->arena, "%s_steps", local_stem(printer, tensor));
}

/* After the equations of a position: the values are collected and become the state. */
static void end_step(Printer *printer, const Statement *scan) {
    for (int i = 0; i < scan->body.statements.count; i++) {
        const Tensor *tensor = ((Statement *)scan->body.statements.items[i])->target->tensor;
        const PyVariable *now = variable_of(printer, tensor, SCAN_CURRENT),
                         *before = variable_of(printer, tensor, SCAN_BEFORE);
        if (read_later(printer, tensor, 0)) {
            text_add(&printer->before, "%*s%s = [None] * %s\n", 4 * (printer->depth - 1), "",
                     steps_name(printer, tensor), python_size(printer, scan->index->axis, false));
            python_line(printer, "%s[%s] = %s", steps_name(printer, tensor), printer->position,
                        now->name);
        }
        if (before) python_line(printer, "%s = %s", before->name, now->name);
    }
}

static void end_scan(Printer *printer, Statement *scan) {
    for (int i = 0; i < scan->body.statements.count; i++) {
        const Expr *write = ((Statement *)scan->body.statements.items[i])->target;
        const Tensor *tensor = write->tensor;
        PyVariable *now = variable_of(printer, tensor, SCAN_CURRENT);
        const PyVariable *before = variable_of(printer, tensor, SCAN_BEFORE);
        int position = position_dim(scan, write);
        if (before && !scan->reverse && over_positions(scan))
            python_line(printer, "cache.store(self, \"%s\", %s)", before->name, before->name);
        if (!read_later(printer, tensor, 0)) continue;
        PyVariable *all = define_variable(printer, tensor, 0);
        memcpy(all->absent, now->absent, sizeof all->absent);
        all->absent[position] = false;
        python_line(printer, "%s = torch.stack(%s, %d)", all->name, steps_name(printer, tensor),
                    dim_of(now, position));
    }
}

static void print_scan(Printer *printer, Statement *scan) {
    Torch *torch = printer->torch;
    if (!printer->like) refuse(torch, scan->span, "a recurrence of no real input");
    Text outside = printer->text, body;
    printer->text = (Text){.arena = torch->arena};
    printer->before = (Text){.arena = torch->arena};
    printer->scan = scan;
    printer->statement = scan;
    printer->position = new_name(printer, python_name(torch, scan->index->name));
    printer->depth++;
    for (int i = 0; i < scan->body.statements.count; i++) {
        const Expr *write = ((Statement *)scan->body.statements.items[i])->target;
        if (reads_before(printer, scan, write->tensor)) begin_state(printer, scan, write);
    }
    for (int i = 0; i < scan->body.statements.count; i++)
        print_step(printer, scan->body.statements.items[i]);
    end_step(printer, scan);
    printer->depth--;
    body = printer->text;
    printer->text = outside;
    text_add_bytes(&printer->text, printer->before.text, printer->before.length);
    python_line(printer, scan->reverse ? "for %s in reversed(range(%s)):" : "for %s in range(%s):",
                printer->position, python_size(printer, scan->index->axis, false));
    text_add_bytes(&printer->text, body.text, body.length);
    printer->scan = NULL;
    end_scan(printer, scan);
}

void python_call(Printer *printer, Statement *statement) {
    static const struct {
        const char *name;
        void (*print)(Printer *printer, Statement *statement);
    } kinds[] = {{"attend", print_attend}, {"top_k", print_top}, {"scan", print_scan}};
    print_comment(printer, statement);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, statement->row->name) != 0) continue;
        kinds[i].print(printer, statement);
        return;
    }
    refuse(printer->torch, statement->span, "this operation");
}
