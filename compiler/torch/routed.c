/* routed: a layer that is applied under a selection, as a loop over its applications. Each computes
 * the tokens that select it.
 *
 *     y[s,d] = sum[n in chosen] weight[s,n] * inner[n](x)[s,d]
 *     -->  for n in range(8):
 *              rows = chosen[..., n].nonzero(as_tuple=True)
 *              part = self.inner(x[rows][None], n)[0]
 *              y = y.index_put(rows, weight[..., n][rows][:, None] * part, accumulate=True)
 */
#include "torch/torch.h"

#include "ir/call.h"

#include <ctype.h>
#include <string.h>

/* ---- layers that compute each token alone ---- */

static bool is_token_axis(const Axis *axis) {
    return axis->kind == AXIS_SEQUENCE || axis->kind == AXIS_BATCH;
}

static bool by_token(const Torch *torch, const Expr *expr) {
    if (expr->kind == EXPR_INDEX) return !is_token_axis(expr->index->axis);
    if (expr->kind == EXPR_NUMBER) return !depends_on_run(torch_number(torch, expr));
    for (int i = 0; i < expr->count; i++) {
        const Expr *sub = expr->args[i];
        bool dimension = expr->kind == EXPR_READ, plain = sub->kind == EXPR_INDEX;
        if (dimension && is_token_axis(expr->tensor->axes[i]) &&
            (!plain || expr->tensor->role == ROLE_PARAMETER))
            return false;
        if (!(dimension && plain) && !by_token(torch, sub)) return false;
    }
    return true;
}

static bool parts_by_token(const Torch *torch, const List *parts) {
    LIST_EACH(const TorchPart, part, parts) {
        const Statement *statement = part->statement;
        if (part->child) {
            if (!parts_by_token(torch, &part->child->parts)) return false;
            continue;
        }
        if (statement->kind == STATEMENT_CALL) {
            const Expr *input = statement->inputs.items[0];
            if (strcmp(statement->row->name, "top_k") != 0) return false;
            if (is_token_axis(input->tensor->axes[statement->top.dimension])) return false;
            continue;
        }
        if (statement->kind != STATEMENT_LOOP || !by_token(torch, statement->value)) return false;
        for (int j = 0; j < statement->loop_count; j++)
            if (is_token_axis(statement->loops[j]->axis) &&
                !expr_uses_index(statement->target, statement->loops[j]))
                return false;
    }
    return true;
}

/* ---- the sum over its applications ---- */

/* Whether its dimensions from `first` on are sequences and positions. */
static bool has_tokens(const Tensor *tensor, int first) {
    return tensor->rank >= first + 2 && tensor->axes[first]->kind == AXIS_BATCH &&
           tensor->axes[first + 1]->kind == AXIS_SEQUENCE;
}

static const TorchPart *writer_of(const List *parts, int at, const Tensor *tensor) {
    for (int i = 0; i < at; i++) {
        const TorchPart *part = parts->items[i];
        if (access_count(&part->writes, tensor)) return part;
    }
    return NULL;
}

/* Whether the call that writes the tensor selects along the index. */
static bool is_selection(const Statement *statement, const Expr *read, const Index *index) {
    return statement && statement->kind == STATEMENT_CALL &&
           !strcmp(statement->row->name, "top_k") && read->count == 3 &&
           read->args[2]->kind == EXPR_INDEX && read->args[2]->index == index &&
           has_tokens(read->tensor, 0);
}

static Index *summed_index(const Statement *statement) {
    Index *found = NULL;
    for (int i = 0; i < statement->loop_count; i++) {
        if (expr_uses_index(statement->target, statement->loops[i])) continue;
        if (found) return NULL;
        found = statement->loops[i];
    }
    return found;
}

/* The layer reads tokens, and nothing else of its caller. */
static bool reads_tokens(Printer *printer, const TorchModule *layer, const Axis *axis) {
    LIST_EACH(const TorchItem, item, &layer->inputs) {
        const Tensor *tensor = item->tensor;
        int first = is_stacked(tensor);
        if (tensor->role == ROLE_PARAMETER || !has_tokens(tensor, first) ||
            tensor_has_axis(tensor, axis))
            return false;
        const PyVariable *variable = variable_of(printer, tensor, item->version);
        for (int j = 0; variable && j < tensor->rank; j++)
            if (variable->absent[j] || variable->full[j]) return false;
    }
    return layer->inputs.count > 0;
}

bool find_routed(Printer *printer, int at, Routed *routed) {
    const TorchPart *part = printer->parts->items[at];
    const Statement *statement = part->statement;
    const Expr *number = NULL;
    if (!statement || statement->kind != STATEMENT_LOOP || statement->reduction != REDUCE_SUM)
        return false;
    *routed = (Routed){.statement = part->statement, .index = summed_index(statement)};
    routed->count = factors_of(statement->value, routed->factors, 0, &number);
    if (!routed->index || number || routed->count > MAX_FACTORS || printer->scan) return false;
    for (int i = 0; i < routed->count; i++) {
        const Expr *factor = routed->factors[i];
        if (factor->kind != EXPR_READ) continue;
        const TorchPart *writer = writer_of(printer->parts, at, factor->tensor);
        if (!writer) continue;
        if (writer->child && writer->child->outputs.count == 1 && !is_stacked(factor->tensor) &&
            expr_uses_index(factor, routed->index)) {
            routed->layer = writer->child;
            routed->output = factor;
        } else if (!routed->mask && is_selection(writer->statement, factor, routed->index))
            routed->mask = factor;
    }
    const Tensor *result = statement->target->tensor;
    return routed->layer && routed->mask && has_tokens(result, 0) &&
           access_count(&printer->module->whole->reads, routed->output->tensor) == 1 &&
           reads_tokens(printer, routed->layer, routed->index->axis) &&
           parts_by_token(printer->torch, &routed->layer->parts);
}

bool is_routed(Printer *printer) {
    const TorchPart *part = printer->parts->items[printer->at];
    Routed routed;
    for (int i = printer->at + 1; part->child && i < printer->parts->count; i++)
        if (find_routed(printer, i, &routed) && routed.layer == part->child) return true;
    return false;
}

/* ---- text ---- */

/* The other factors, for the rows of one application; "" without any. */
static const char *row_weights(Printer *printer, const Routed *routed, const char *index,
                               const char *rows) {
    Arena *arena = printer->arena;
    Py product = {0};
    bool any = false;
    begin_statement(printer, routed->statement);
    for (int i = 0; i < routed->count; i++) {
        const Expr *factor = routed->factors[i];
        if (factor == routed->mask || factor == routed->output) continue;
        Py both[2] = {product, python(printer, factor)};
        product = any ? apply_python(printer, OP_MUL, both) : both[1];
        any = true;
    }
    if (!any) return "";
    product = as_real(printer, product);
    bool last = product.rank == 3 && product.dims[2] == routed->index;
    if (!product.rank || (product.rank != 2 && !last))
        refuse(printer->torch, routed->statement->span, "this weight of a selection");
    const char *text = product.text;
    if (product.level < PY_ATOM) {
        text = new_name(printer, "weights");
        python_line(printer, "%s = %s", text, product.text);
    }
    Text made = {.arena = arena};
    if (last) text = arena_format(arena, "%s[..., %s]", text, index);
    text_add(&made, "%s[%s]", text, rows);
    int rank = routed->statement->target->tensor->rank;
    if (rank > 2) text_add(&made, "[:");
    for (int i = 2; i < rank; i++) text_add(&made, ", None");
    text_add(&made, rank > 2 ? "] * " : " * ");
    return made.text;
}

/* The rows of one application are not positions: it can read constant ranges of the cache only. */
static void check_routed_rows(Torch *torch, const TorchModule *layer, Span span) {
    static const char range[] = "cache.range(";
    const char *at = strstr(module_at(torch, layer->path)->forward, "):\n");
    while (at && (at = strstr(at, "cache"))) {
        if (strncmp(at, range, sizeof range - 1) != 0 ||
            !isdigit((unsigned char)at[sizeof range - 1]))
            refuse(torch, span, "a layer of selected rows that reads positions");
        at += sizeof range - 1;
    }
}

void print_routed(Printer *printer, const Routed *routed) {
    Torch *torch = printer->torch;
    TorchModule *layer = routed->layer;
    const Tensor *result = routed->statement->target->tensor;
    printer->routing = routed->index->axis;
    print_layer(printer, layer);
    printer->routing = NULL;
    print_comment(printer, routed->statement);
    const char *index = new_name(printer, routed->index->name), *rows = new_name(printer, "rows"),
               *part = new_name(printer, "part");
    const char *weights = row_weights(printer, routed, index, rows);
    const TorchItem *first = layer->inputs.items[0];
    const char *input = variable_of(printer, first->tensor, first->version)->name;
    PyVariable *variable = define_variable(printer, result, 0);
    const char *mask = variable_of(printer, routed->mask->tensor, 0)->name;
    Text sizes = {.arena = torch->arena}, arguments = {.arena = torch->arena};
    text_add(&sizes, "*%s.shape[:2]", input);
    for (int i = 2; i < result->rank; i++) text_add(&sizes, ", %ld", result->axes[i]->size);
    for (int i = 0; i < layer->inputs.count; i++) {
        const TorchItem *item = layer->inputs.items[i];
        text_add(&arguments, "%s%s[%s][None]", i ? ", " : "",
                 variable_of(printer, item->tensor, item->version)->name, rows);
    }
    if (layer->uses_fixed) text_add(&arguments, ", %s", index);
    if (layer->uses_cache) {
        check_routed_rows(torch, layer, routed->statement->span);
        text_add(&arguments, ", cache");
    }
    const char *sum = strcmp(variable->name, input) ? variable->name : new_name(printer, "routed");
    variable->name = sum;
    python_line(printer, "%s = %s.new_zeros(%s)", sum, input, sizes.text);
    python_line(printer, "for %s in range(%ld):", index, routed->index->axis->size);
    printer->depth++;
    python_line(printer, "%s = %s[..., %s].nonzero(as_tuple=True)", rows, mask, index);
    python_line(printer, "%s = %s(%s)[0]", part,
                attribute(torch, printer->module, layer->path, true), arguments.text);
    python_line(printer, "%s = %s.index_put(%s, %s%s, accumulate=True)", sum, sum, rows, weights,
                part);
    printer->depth--;
}
