/* read: reads of tensors as Python.
 *
 *     x[b,s,d]                    x
 *     q[b,s,h,(e + 16) % 32]      q[..., (e + 16) % 32]
 *     embedding[tokens[b,s],d]    F.embedding(tokens, self.embedding)
 *     x[b,s-1,d]                  take(x, cache.positions - 1, 1), 0 outside
 *     x[b,s-w,d]                  windows(x, 1, 4, cache.length), with w < 4 as the last dimension
 */
#include "torch/torch.h"

#include "analysis/range.h"

#include <string.h>

int position_dim(const Statement *scan, const Expr *write) {
    for (int i = 0; i < write->count; i++)
        if (write->args[i]->kind == EXPR_INDEX && write->args[i]->index == scan->index) return i;
    return -1;
}

static const Expr *written_in(const Statement *scan, const Tensor *tensor) {
    for (int i = 0; scan && i < scan->body.statements.count; i++) {
        const Statement *statement = scan->body.statements.items[i];
        if (statement->target->tensor == tensor) return statement->target;
    }
    return NULL;
}

int scan_version(Printer *printer, const Expr *read, int *dimension) {
    const Expr *write = written_in(printer->scan, read->tensor);
    if (!write) return -1;
    *dimension = position_dim(printer->scan, write);
    if (*dimension < 0) refuse(printer->torch, printer->statement->span, "this recurrence");
    return read->args[*dimension]->kind == EXPR_INDEX ? SCAN_CURRENT : SCAN_BEFORE;
}

/* The variable of a tensor; a parameter of the module has one when it is read first. */
static PyVariable *variable_read(Printer *printer, const Expr *read) {
    const Tensor *tensor = read->tensor;
    int dimension, version = scan_version(printer, read, &dimension);
    PyVariable *variable = variable_of(printer, tensor, version < 0 ? version_of(read) : version);
    if (variable) return variable;
    if (!is_weight_or_state(tensor))
        refuse(printer->torch, printer->statement->span,
               "a tensor that no earlier equation defines");
    return stored_variable(printer, tensor);
}

int dim_of(const PyVariable *variable, int axis) {
    int dim = 0;
    for (int i = first_axis(variable->tensor); i < axis; i++) dim += !variable->absent[i];
    return dim;
}

PyVariable *kept(Printer *printer, PyVariable *variable, int axis) {
    Torch *torch = printer->torch;
    if (variable->full[axis]) return variable;
    const char *name = arena_format(torch->arena, "all_%s", variable->name);
    LIST_EACH(PyVariable, other, &printer->variables) {
        if (other->tensor == variable->tensor && other->version == variable->version + 10)
            return other;
    }
    PyVariable *full = list_copy(torch->arena, &printer->variables, variable, sizeof *full);
    full->full[axis] = true;
    full->version += 10;
    full->name = new_name(printer, name);
    const char *line =
        arena_format(torch->arena, "%s = cache.keep(self, \"%s\", %s, %d)", full->name,
                     variable->name, variable->name, dim_of(variable, axis));
    if (printer->scan)
        text_add(&printer->before, "%*s%s\n", 4 * (printer->depth - 1), "", line);
    else
        python_line(printer, "%s", line);
    return full;
}

typedef struct Sub {
    Py value;
    Index *plain; /* NULL: computed */
    bool inside;
} Sub;

static bool sub_inside(Printer *printer, const Expr *sub, const Axis *axis) {
    Range range = range_of(printer->torch->program, sub);
    return axis->kind != AXIS_SEQUENCE && range.low >= 0 && range.high < axis->size;
}

/* A read of one value of a dimension: x[:, 3]. */
static const char *selected(Printer *printer, const char *text, int dim, bool last,
                            const char *at) {
    Text made = {.arena = printer->arena};
    text_add(&made, "%s[", text);
    if (last && dim > 0) text_add(&made, "..., ");
    for (int i = 0; i < dim && !last; i++) text_add(&made, ":, ");
    text_add(&made, "%s]", at);
    return made.text;
}

/* The dimensions in the order of the loops. */
static Py in_order(Printer *printer, Py value) {
    Py sorted = {0};
    union_dims(printer, &value, 1, &sorted);
    int from[MAX_LOOPS], moved = 0;
    for (int i = 0; i < sorted.rank; i++)
        for (int j = 0; j < value.rank; j++)
            if (value.dims[j] == sorted.dims[i]) from[i] = j;
    for (int i = 0; i < sorted.rank; i++) moved += from[i] != i;
    if (!moved || printer->any_order) return value;
    Text text = {.arena = printer->arena};
    text_add(&text, "%s", value.text);
    if (moved == 2) {
        int first = 0;
        while (from[first] == first) first++;
        text_add(&text, ".transpose(%d, %d)", first, from[first]);
    } else {
        for (int i = 0; i < sorted.rank; i++)
            text_add(&text, "%s%d", i ? ", " : ".permute(", from[i]);
        text_add(&text, ")");
    }
    value.text = text.text;
    memcpy(value.dims, sorted.dims, sizeof sorted.dims);
    return value;
}

/* One computed subscript with at most one index that is no other subscript. */
static Py taken(Printer *printer, Py value, const Sub *sub, int dim) {
    Py made = value;
    const char *index = sub->value.text;
    made.text = sub->inside
                    ? selected(printer, value.text, dim, dim == value.rank - 1, index)
                    : arena_format(printer->arena, "take(%s, %s, %d)", value.text, index, dim);
    return made;
}

/* logits[b,s,targets[b,s]]: one element per row of the last dimension. */
static bool along_last(Printer *printer, const PyVariable *variable, const Sub *subs, Py *result) {
    const Tensor *tensor = variable->tensor;
    const Sub *last = &subs[tensor->rank - 1];
    const Py *value = &last->value;
    *result = (Py){.level = PY_ATOM, .kind = variable->kind};
    for (int i = first_axis(tensor); i < tensor->rank - 1; i++) {
        bool current = subs[i].plain == printer->now && variable->full[i];
        if (variable->absent[i] || !subs[i].plain || current) return false;
        result->dims[result->rank++] = subs[i].plain;
    }
    if (last->plain || !last->inside || value->number || value->kind != PY_INT) return false;
    if (value->rank != result->rank || variable->absent[tensor->rank - 1]) return false;
    for (int i = 0; i < value->rank; i++)
        if (value->dims[i] != result->dims[i]) return false;
    result->text =
        arena_format(printer->arena, "%s.gather(-1, %s[..., None]).squeeze(-1)", variable->name,
                     aligned(printer, *value, result->dims, result->rank, PY_ATOM));
    return true;
}

/* Every subscript as a tensor of positions, aligned with all others. */
static Py gathered(Printer *printer, const PyVariable *variable, const Sub *subs) {
    Torch *torch = printer->torch;
    Py values[MAX_RANK], result;
    int count = 0;
    bool inside = true;
    if (along_last(printer, variable, subs, &result)) return result;
    result = (Py){.level = PY_ATOM, .kind = variable->kind};
    for (int i = first_axis(variable->tensor); i < variable->tensor->rank; i++) {
        if (variable->absent[i]) continue;
        inside &= subs[i].inside;
        values[count] = subs[i].value;
        Index *plain = subs[i].plain;
        if (plain) {
            values[count].text = arena_format(torch->arena, "cache.range(%s)",
                                              python_size(printer, plain->axis, variable->full[i]));
            if (plain == printer->now && variable->full[i]) values[count].text = "cache.positions";
        }
        count++;
    }
    union_dims(printer, values, count, &result);
    Text text = {.arena = torch->arena};
    text_add(&text, inside ? "%s[" : "gather(%s, ", variable->name);
    for (int i = 0; i < count; i++)
        text_add(&text, "%s%s", i ? ", " : "",
                 aligned(printer, values[i], result.dims, result.rank, PY_CONDITION));
    text_add(&text, inside ? "]" : ")");
    result.text = text.text;
    return result;
}

/* x[b,s - w,d] for the current positions s and another index w; false for other subscripts. */
static bool windows(Printer *printer, const Expr *read, const PyVariable *variable, const Sub *subs,
                    Py *result) {
    const Expr *moved = NULL;
    int dim = 0;
    *result = (Py){.level = PY_ATOM, .kind = variable->kind};
    for (int i = first_axis(read->tensor); i < read->count; i++) {
        if (variable->absent[i]) continue;
        Index *index = subs[i].plain;
        if (!index) {
            const Expr *sub = read->args[i];
            if (moved || !variable->full[i] || sub->kind != EXPR_APPLY || sub->op != OP_SUB ||
                sub->args[0]->kind != EXPR_INDEX || sub->args[1]->kind != EXPR_INDEX)
                return false;
            moved = sub;
            dim = result->rank;
            index = sub->args[0]->index;
            if (index != printer->now) return false;
        }
        if (indices_have(result->dims, result->rank, index)) return false;
        result->dims[result->rank++] = index;
    }
    Index *before = moved ? moved->args[1]->index : NULL;
    if (!before || before == printer->now || before->axis->kind == AXIS_SEQUENCE ||
        indices_have(result->dims, result->rank, before) || result->rank == MAX_RANK)
        return false;
    result->dims[result->rank++] = before;
    result->text = arena_format(printer->arena, "windows(%s, %d, %s, cache.length)", variable->name,
                                dim, python_size(printer, before->axis, false));
    return true;
}

static bool is_position(const Printer *printer, const Expr *sub) {
    return printer->scan && sub->kind == EXPR_INDEX && sub->index == printer->scan->index;
}

/* The subscripts of a read; keeps tensors of which earlier positions are read. */
static PyVariable *read_subs(Printer *printer, const Expr *read, PyVariable *variable, Sub *subs) {
    for (int i = first_axis(read->tensor); i < read->count; i++) {
        const Expr *sub = read->args[i];
        const Axis *axis = read->tensor->axes[i];
        if (variable->absent[i]) continue;
        if (printer->fixed && axis == printer->fixed) {
            subs[i].value = (Py){.text = printer->fixed_name, .level = PY_ATOM, .number = true};
            subs[i].inside = true;
            continue;
        }
        if (is_position(printer, sub)) {
            if (variable->full[i])
                refuse(printer->torch, printer->statement->span, "this subscript");
            subs[i].value = (Py){.text = printer->position, .level = PY_ATOM, .number = true};
            subs[i].inside = true;
            continue;
        }
        bool plain = sub->kind == EXPR_INDEX && order_find(printer, sub->index);
        if (axis->kind == AXIS_SEQUENCE && (!plain || is_full(printer, sub->index)))
            variable = kept(printer, variable, i);
        if (plain) {
            subs[i].value = (Py){.level = PY_ATOM, .kind = PY_INT, .rank = 1, .dims = {sub->index}};
            subs[i].inside = true;
            bool all = axis->kind == AXIS_SEQUENCE && variable->full[i];
            if (all && !is_full(printer, sub->index))
                subs[i].value.text = "cache.positions";
            else
                subs[i].plain = sub->index;
            continue;
        }
        subs[i].value = python(printer, sub);
        if (subs[i].value.kind > PY_INT && !subs[i].value.number) {
            subs[i].value.text = arena_format(printer->arena, "(%s).long()", subs[i].value.text);
            subs[i].value.level = PY_ATOM;
        }
        subs[i].inside = sub_inside(printer, sub, axis);
    }
    return variable;
}

Py read_python(Printer *printer, const Expr *read) {
    PyVariable *variable = variable_read(printer, read);
    const Tensor *tensor = read->tensor;
    Sub subs[MAX_RANK] = {0};
    variable = read_subs(printer, read, variable, subs);
    Py value = {.text = variable->name, .level = PY_ATOM, .kind = variable->kind};
    const Sub *computed = NULL;
    int computed_dim = 0, numbers = 0;
    bool simple = true;
    for (int i = first_axis(tensor); i < tensor->rank; i++) {
        if (variable->absent[i]) continue;
        const Sub *sub = &subs[i];
        if (sub->plain) {
            simple &= !indices_have(value.dims, value.rank, sub->plain);
            value.dims[value.rank++] = sub->plain;
        } else if (sub->value.number && sub->inside) {
            bool last = true;
            for (int j = i + 1; j < tensor->rank; j++) last &= variable->absent[j];
            value.text = selected(printer, value.text, value.rank, last, sub->value.text);
            numbers++;
        } else {
            simple &= !computed && sub->value.rank <= 1;
            computed = sub;
            computed_dim = value.rank;
            Index *own = sub->value.rank ? sub->value.dims[0] : NULL;
            if (own) simple &= !indices_have(value.dims, value.rank, own);
            if (own) value.dims[value.rank++] = own;
            if (!own) simple &= sub->value.number;
        }
    }
    for (int i = 0; i < value.rank && simple; i++)
        for (int j = 0; j < i; j++) simple &= value.dims[i] != value.dims[j];
    if (simple && computed) value = taken(printer, value, computed, computed_dim);
    if (simple) return in_order(printer, value);
    int rank = tensor->rank - first_axis(tensor), first = tensor->rank - rank;
    bool table =
        rank == 2 && !subs[first].plain && subs[first].inside && subs[first + 1].plain &&
        !subs[first].value.number && subs[first].value.rank &&
        !indices_have(subs[first].value.dims, subs[first].value.rank, subs[first + 1].plain);
    if (!table || numbers)
        return windows(printer, read, variable, subs, &value) ? in_order(printer, value)
                                                              : gathered(printer, variable, subs);
    Py lookup = subs[first].value;
    lookup.text = arena_format(printer->arena, "F.embedding(%s, %s)", lookup.text, variable->name);
    lookup.level = PY_ATOM;
    lookup.kind = variable->kind;
    lookup.dims[lookup.rank++] = subs[first + 1].plain;
    return in_order(printer, lookup);
}
