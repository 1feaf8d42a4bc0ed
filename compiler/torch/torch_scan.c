/* torch_scan: a scan as a loop over positions. The state before the first position comes from the
 * cache.
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

#include <string.h>

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
        for (int j = 0; j < reads.count; j++) {
            const Expr *read = reads.items[j];
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

/* Whether an equation after the scan reads it at all positions. */
static bool read_after(Printer *printer, const List *parts, int at, const Tensor *tensor) {
    return read_later(printer->torch, printer->module, parts, at + 1, tensor, 0);
}

static const char *steps_name(Printer *printer, const Tensor *tensor) {
    return arena_format(printer->arena, "%s_steps", local_stem(printer, tensor));
}

/* After the equations of a position: the values are collected and become the state. */
static void end_step(Printer *printer, const Statement *scan, const List *parts, int at) {
    for (int i = 0; i < scan->body.statements.count; i++) {
        const Tensor *tensor = ((Statement *)scan->body.statements.items[i])->target->tensor;
        const PyVariable *now = variable_of(printer, tensor, SCAN_CURRENT),
                         *before = variable_of(printer, tensor, SCAN_BEFORE);
        if (read_after(printer, parts, at, tensor)) {
            text_add(&printer->before, "%*s%s = [None] * %s\n", 4 * (printer->depth - 1), "",
                     steps_name(printer, tensor), python_size(printer, scan->index->axis, false));
            python_line(printer, "%s[%s] = %s", steps_name(printer, tensor), printer->position,
                        now->name);
        }
        if (before) python_line(printer, "%s = %s", before->name, now->name);
    }
}

static void end_scan(Printer *printer, Statement *scan, const List *parts, int at) {
    for (int i = 0; i < scan->body.statements.count; i++) {
        const Expr *write = ((Statement *)scan->body.statements.items[i])->target;
        const Tensor *tensor = write->tensor;
        PyVariable *now = variable_of(printer, tensor, SCAN_CURRENT);
        const PyVariable *before = variable_of(printer, tensor, SCAN_BEFORE);
        int position = position_dim(scan, write);
        if (before && !scan->reverse && over_positions(scan))
            python_line(printer, "cache.store(self, \"%s\", %s)", before->name, before->name);
        if (!read_after(printer, parts, at, tensor)) continue;
        PyVariable *all = define_variable(printer, tensor, 0, parts, at);
        memcpy(all->absent, now->absent, sizeof all->absent);
        all->absent[position] = false;
        python_line(printer, "%s = torch.stack(%s, %d)", all->name, steps_name(printer, tensor),
                    dim_of(now, position));
    }
}

void print_scan(Printer *printer, Statement *scan, const List *parts, int at) {
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
    end_step(printer, scan, parts, at);
    printer->depth--;
    body = printer->text;
    printer->text = outside;
    text_add_bytes(&printer->text, printer->before.text, printer->before.length);
    python_line(printer, scan->reverse ? "for %s in reversed(range(%s)):" : "for %s in range(%s):",
                printer->position, python_size(printer, scan->index->axis, false));
    text_add_bytes(&printer->text, body.text, body.length);
    printer->scan = NULL;
    end_scan(printer, scan, parts, at);
}
