/* attributes: settings of single parameters, from their declaration or from the model.
 *
 *     param w[d,f] ~ zeros { freeze, lr = 0.1, decay = 0 }
 *
 *     model tuned = base {
 *       parameters = [{ of = "block.*.ffn.*", freeze = true }, { of = "*.router", init = 0.01 }]
 *     }
 *
 * `freeze`: not trained. `lr`: a factor. In the model only: `init`, the standard deviation of a
 * random initialization, and `grad_clip`, the maximum norm of the gradients of the parameters of
 * the entry, which form a clip group; `apply`, a layer, see parameter_layer.c. All other attributes
 * are options of the optimizer. Settings of the model override the declaration, and later entries
 * override earlier ones. An entry does not match the parameters of the layer that it applies.
 */
#include "elaborate/elaborate.h"

#include "analysis/parameter_facts.h"

#include <string.h>

/* The declaration of an option in any optimizer, or NULL. */
static const Node *declared_optimizer_option(Elaborator *e, const char *name) {
    for (int i = 0; i < e->unit->optimizers.count; i++) {
        const Node *body = layer_body(e->unit->optimizers.items[i]);
        for (int j = 0; j < body->count; j++) {
            const Node *node = body->kids[j];
            bool real = node->kind == NODE_OPTION && !strcmp(node->kids[0]->name, "float");
            if (real && name && (!strcmp(node->name, name) || option_was(node, name))) return node;
        }
    }
    return NULL;
}

static void report_unknown_attribute(Elaborator *e, const char *name, Span span, bool outside) {
    const char *names[64] = {"freeze", "lr"};
    int count = 2;
    if (outside) names[count++] = "init";
    if (outside) names[count++] = "grad_clip";
    if (outside) names[count++] = "apply";
    for (int i = 0; i < e->unit->optimizers.count; i++) {
        const Node *body = layer_body(e->unit->optimizers.items[i]);
        for (int j = 0; j < body->count && count < 64; j++)
            if (declared_optimizer_option(e, body->kids[j]->name) == body->kids[j])
                names[count++] = body->kids[j]->name;
    }

    report_error(e->reports, span, "unknown attribute '%s' of a parameter", name);
    report_choices(e->reports, name, names, count, "attributes");
}

void set_own(Arena *arena, Tensor *tensor, const char *name, double value) {
    for (int i = 0; i < tensor->own.count; i++) {
        OwnNumber *own = tensor->own.items[i];
        if (strcmp(own->name, name)) continue;
        own->value = value;
        return;
    }
    OwnNumber *own = arena_alloc(arena, sizeof *own);
    *own = (OwnNumber){name, value};
    list_push(arena, &tensor->own, own);
}

static void set_deviation(Tensor *tensor, double deviation) {
    Init *init = &tensor->init;
    double middle = (init->a + init->b) / 2;
    if (init->kind == MOEC_INIT_NORMAL) init->b = deviation;
    if (init->kind == MOEC_INIT_UNIFORM)
        *init = (Init){MOEC_INIT_UNIFORM, middle - deviation, middle + deviation};
}

/* Sets one attribute; value NULL means true. False after a report. */
static bool set_attribute(Elaborator *e, Tensor *tensor, const char *name, Span span, Value *value,
                          bool outside) {
    const Node *option = declared_optimizer_option(e, name);
    bool freeze = !strcmp(name, "freeze"), init = outside && !strcmp(name, "init");
    bool factor = !strcmp(name, "lr"), clip = outside && !strcmp(name, "grad_clip");
    if (clip) option = NULL;
    if (!freeze && !init && !factor && !clip && !option) {
        report_unknown_attribute(e, name, span, outside);
        return false;
    }
    if (option && !freeze && !factor && strcmp(option->name, name)) {
        report_renamed(e->reports, span, "option", name, option->name);
        name = option->name;
    }
    if (value && value->kind == KIND_ERROR) return false;
    if (freeze ? value && value->kind != KIND_FLAG : !value || value->kind != KIND_NUMBER)
        return report_error(
            e->reports, value ? value->span : span, "attribute '%s' expects %s, got %s", name,
            freeze ? "true or false" : "a number", value ? value_shown(e, value) : "nothing");
    if ((init || factor || clip) && value->number < 0)
        return report_invalid(e->reports, value->span, "write a number from 0, such as 1",
                              "attribute '%s' expects a number of at least 0, got %.9g", name,
                              value->number);
    if (option && !freeze && !factor && !check_limits(e, option, value)) return false;
    if (freeze)
        tensor->frozen = !value || value->number != 0;
    else if (init)
        set_deviation(tensor, value->number);
    else if (clip) {
        tensor->clip_group = e->clip_groups;
        tensor->clip = value->number;
    } else
        set_own(e->arena, tensor, name, value->number);
    return true;
}

void declared_attributes(Elaborator *e, const Node *record, Tensor *tensor) {
    for (int i = 0; record && i < record->count; i++) {
        const Node *entry = record->kids[i];
        Value *value = entry->kids[0] ? evaluate(e, entry->kids[0]) : NULL;
        if (value && value->kind == KIND_WORD && !value->record) {
            report_unknown_name(e, value);
            return;
        }
        if (!set_attribute(e, tensor, entry->name, entry->name_span, value, false)) return;
    }
}

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
    for (int i = 0; i < entry->record->entries.count; i++) {
        const RecordField *own = entry->record->entries.items[i];
        if (strcmp(own->name, "of") && strcmp(own->name, "apply") &&
            !set_attribute(e, tensor, own->name, own->span, own->value, true))
            return false;
    }
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
        fitting++;
        if (!apply_to_parameter(e, tensor, layer)) return false;
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

/* The option `parameters` belongs to the model, unless its outermost layer declares an option of
 * that name. */
Value *take_attributes(const Node *layer, Record *record) {
    if (option_called(layer, "parameters")) return NULL;
    for (int i = 0; i < record->entries.count; i++) {
        RecordField *entry = record->entries.items[i];
        if (strcmp(entry->name, "parameters")) continue;
        list_remove(&record->entries, entry);
        return entry->value;
    }
    return NULL;
}
