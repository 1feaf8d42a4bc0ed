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
 * the entry, which form a clip group. All other attributes are options of the optimizer. Settings
 * of the model override the declaration, and later entries override earlier ones.
 */
#include "elaborate/elaborate.h"

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

static bool one_entry(Elaborator *e, const Value *entry) {
    RecordField *of = entry->kind == KIND_RECORD ? record_find(entry->record, "of") : NULL;
    if (!of || of->value->kind != KIND_WORD || of->value->record)
        return report_invalid(e->reports, entry->span, "write { of = \"block.*.ffn.*\", ... }",
                              "an entry of 'parameters' expects the key 'of'");
    int found = 0;
    if (record_find(entry->record, "grad_clip")) e->clip_groups++;
    for (int i = 0; i < e->program->tensors.count; i++) {
        Tensor *tensor = e->program->tensors.items[i];
        if (tensor->role != ROLE_PARAMETER || !pattern_matches(of->value->word, tensor->path))
            continue;
        found++;
        for (int j = 0; j < entry->record->entries.count; j++) {
            const RecordField *own = entry->record->entries.items[j];
            if (own != of && !set_attribute(e, tensor, own->name, own->span, own->value, true))
                return false;
        }
    }
    if (!found) report_no_match(e, of->value);
    return found > 0;
}

void outside_attributes(Elaborator *e, const Value *list) {
    if (!list || list->kind == KIND_NONE || list->kind == KIND_ERROR) return;
    if (list->kind == KIND_RECORD) {
        one_entry(e, list);
        return;
    }
    if (list->kind != KIND_LIST) {
        report_invalid(e->reports, list->span,
                       "write parameters = [{ of = \"block.*.ffn.*\", lr = 0.1 }]",
                       "'parameters' expects a list of records, got %s", value_shown(e, list));
        return;
    }
    for (int i = 0; i < list->list.count; i++)
        if (!one_entry(e, list->list.items[i])) return;
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
