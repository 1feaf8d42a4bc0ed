/* parameters: initial values of parameters and states; settings of single parameters in a model.
 *
 *     model tuned = base {
 *       parameters = [{ of = "block.*.ffn.*", freeze = true }, { of = "*.router", init = 0.01 }]
 *     }
 *
 * Settings of the model override the declaration, and later entries override earlier ones. In
 * addition to the attributes of attributes.c, an entry has `apply`, see parameter_layer.c. It does
 * not match the parameters of the layer that it applies.
 */
#include "elaborate/elaborate.h"

#include "analysis/parameter_facts.h"

#include <string.h>

/* ---- initial values ---- */

static bool reads_at(const Stored *stored, Expr *expr, Expr **found) {
    if (expr->kind == EXPR_READ && expr->tensor == stored->tensor) {
        *found = expr;
        return true;
    }
    for (int i = 0; i < expr->count; i++)
        if (reads_at(stored, expr->args[i], found)) return true;
    return false;
}

static bool contracts(const Expr *expr) {
    return expr->kind == EXPR_APPLY && expr->op == OP_MUL;
}

/* Fan-in: the own dimensions that the first product over this parameter sums over; fan-out: the
 * others. */
static bool fans_in(const Stored *stored, Block *block, double *in, double *out) {
    LIST_EACH(Statement, statement, &block->statements) {
        if (statement->body.statements.count && fans_in(stored, &statement->body, in, out))
            return true;
        Expr *read = NULL;
        if (statement->kind != STATEMENT_LOOP || statement->reduction != REDUCE_SUM) continue;
        if (!contracts(statement->value) || !reads_at(stored, statement->value, &read)) continue;
        *in = *out = 1;
        for (int j = stored->tensor->lead; j < read->count; j++) {
            bool reduced = !expr_uses_index(statement->target, read->args[j]->index);
            if (read->args[j]->kind != EXPR_INDEX) reduced = false;
            *(reduced ? in : out) *= (double)stored->tensor->axes[j]->size;
        }
        if (*in > 1) return true;
    }
    return false;
}

void initialise(Elaborator *e, int first) {
    for (int i = first; i < e->stored.count; i++) {
        const Stored *stored = e->stored.items[i];
        double in = 1, out = 1;
        fans_in(stored, &e->program->body, &in, &out);
        stored->tensor->fan_in = (int)in;
        stored->tensor->fan_out = (int)out;
        if (stored->tensor->role == ROLE_PARAMETER || stored->init)
            evaluate_init(e, stored, in, out, &stored->tensor->init);
    }
}

/* ---- entries of a model ---- */

/* `*` matches any text. */
static bool pattern_matches(const char *pattern, const char *path) {
    for (; *pattern && *pattern != '*'; pattern++, path++)
        if (*pattern != *path) return false;
    if (!*pattern) return !*path;
    for (;; path++) {
        if (pattern_matches(pattern + 1, path)) return true;
        if (!*path) return false;
    }
}

static void report_no_match(Elaborator *e, const Value *pattern) {
    const char *names[512] = {NULL};
    int count = 0;
    for (int i = 0; i < e->program->tensors.count && count < 512; i++) {
        const Tensor *tensor = e->program->tensors.items[i];
        if (tensor->role == ROLE_PARAMETER) names[count++] = tensor->path;
    }
    const char *near = did_you_mean(pattern->word, names, count);
    report_error(e->reports, pattern->span, "no parameter matches '%s'", pattern->word);
    if (near)
        report_help(e->reports, "did you mean '%s'?", near);
    else
        report_help(e->reports,
                    "use '*' for any text and for the number of a layer, as in block.*.ffn.*");
}

/* The layer of an attribute `apply`; NULL after a report. */
static Value *applied_layer(Elaborator *e, const RecordField *apply) {
    const Node attribute = {.kind = NODE_NAME, .name = apply->name};
    Value *value = apply->value;
    if (value->kind == KIND_WORD) value = layer_named_by_value(e, &attribute, value);
    if (value->kind == KIND_LAYER && value->layer->kind == NODE_LAYER) return value;
    if (value->kind != KIND_ERROR)
        report_invalid(e->reports, value->span, "write apply = lora { rank = 8 }, for example",
                       "attribute '%s' expects %s, got %s", "apply", "a layer",
                       value->kind != KIND_LAYER
                           ? value_shown(e, value)
                           : arena_format(e->arena, "%s '%s'", node_kind_name(value->layer->kind),
                                          value->layer->name));
    return NULL;
}

/* The pattern of an entry; NULL after a report. */
static const RecordField *entry_pattern(Elaborator *e, const Value *entry) {
    const RecordField *of = entry->kind == KIND_RECORD ? record_find(entry->record, "of") : NULL;
    if (of && of->value->kind == KIND_WORD && !of->value->record) return of;
    report_invalid(e->reports, entry->span, "write { of = \"block.*.ffn.*\", ... }",
                   "an entry of 'parameters' expects the key 'of'");
    return NULL;
}

static bool entry_matches(const Value *entry, const Tensor *tensor) {
    return tensor->role == ROLE_PARAMETER &&
           pattern_matches(record_find(entry->record, "of")->value->word, tensor->path);
}

static bool entry_attributes(Elaborator *e, const Value *entry, Tensor *tensor) {
    LIST_EACH(const RecordField, own, &entry->record->entries)
        if (strcmp(own->name, "of") && strcmp(own->name, "apply") &&
            !set_attribute(e, tensor, own->name, own->span, own->value, true))
            return false;
    return true;
}

static bool apply_entry(Elaborator *e, const Value *entry, int tensors) {
    const RecordField *apply = record_find(entry->record, "apply");
    Value *layer = apply ? applied_layer(e, apply) : NULL;
    int fitting = 0;
    if (!layer) return !apply;
    parameter_facts(e->program);
    for (int i = 0; i < tensors; i++) {
        Tensor *tensor = e->program->tensors.items[i];
        if (!entry_matches(entry, tensor) || !fits_parameter(tensor, layer)) continue;
        const int first = e->stored.count;
        fitting++;
        if (!apply_to_parameter(e, tensor, layer)) return false;
        initialise(e, first);
    }
    return fitting || report_invalid(e->reports, apply->span,
                                     "choose matrices with 'of', such as block.*.ffn.*",
                                     "no matrix among the parameters of this entry");
}

static bool one_entry(Elaborator *e, const Value *entry) {
    const int tensors = e->program->tensors.count;
    const RecordField *of = entry_pattern(e, entry);
    int found = 0;
    if (!of) return false;
    if (record_find(entry->record, "grad_clip")) e->clip_groups++;
    for (int i = 0; i < tensors; i++) {
        Tensor *tensor = e->program->tensors.items[i];
        if (!entry_matches(entry, tensor)) continue;
        found++;
        if (!entry_attributes(e, entry, tensor)) return false;
    }
    if (!found) report_no_match(e, of->value);
    return found > 0 && apply_entry(e, entry, tensors);
}

/* The entry without `apply`, if it has other settings for one of the first tensors; or NULL. */
static Value *entry_without_layer(Elaborator *e, const Value *entry, int tensors) {
    Value *kept = value_new(e, KIND_RECORD, entry->span);
    bool matches = false;
    kept->record = record_copy(e, entry->record);
    RecordField *apply = record_find(kept->record, "apply");
    if (apply) list_remove(&kept->record->entries, apply);
    for (int i = 0; i < tensors && !matches; i++)
        matches = entry_matches(entry, e->program->tensors.items[i]);
    return matches && kept->record->entries.count > 1 ? kept : NULL;
}

/* The setting of `parameters` for the model without applied layers. */
static const char *setting_without_layers(Elaborator *e, const List *entries, int tensors) {
    Value *list = value_new(e, KIND_LIST, (Span){0});
    for (int i = 0; i < entries->count; i++) {
        Value *kept = entry_without_layer(e, entries->items[i], tensors);
        if (kept) list_push(e->arena, &list->list, kept);
    }
    return arena_format(e->arena, "parameters=%s", value_text(e, list));
}

void outside_attributes(Elaborator *e, const Value *list) {
    const int tensors = e->program->tensors.count;
    List entries = {0};
    e->unit->without_layers = NULL;
    if (!list || list->kind == KIND_NONE || list->kind == KIND_ERROR) return;
    if (list->kind == KIND_LIST) entries = list->list;
    if (list->kind == KIND_RECORD) list_push(e->arena, &entries, (void *)(uintptr_t)list);
    if (list->kind != KIND_LIST && list->kind != KIND_RECORD)
        report_invalid(e->reports, list->span,
                       "write parameters = [{ of = \"block.*.ffn.*\", lr = 0.1 }]",
                       "'parameters' expects a list of records, got %s", value_shown(e, list));
    for (int i = 0; i < entries.count; i++)
        if (!one_entry(e, entries.items[i])) return;
    const List *applied = &e->program->applied;
    if (!applied->count) return;
    e->unit->without_layers = setting_without_layers(e, &entries, tensors);
    e->unit->applied = ((const Tensor *)applied->items[1])->span;
}
