/* attributes: settings of single parameters, from their declaration or from the model.
 *
 *     param w[d,f] ~ zeros { freeze, lr = 0.1, decay = 0 }
 *
 * `freeze`: not trained. `lr`: a factor. In the model only: `init`, the standard deviation of a
 * random initialization, and `grad_clip`, the maximum norm of the gradients of the parameters of
 * the entry, which form a clip group. All other attributes are options of the optimizer.
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
    OwnNumber *own = tensor_own(tensor, name);
    if (!own) own = list_copy(arena, &tensor->own, &(OwnNumber){.name = name}, sizeof *own);
    own->value = value;
}

static void set_deviation(Arena *arena, Tensor *tensor, double deviation) {
    Init *init = &tensor->init;
    double middle = (init->a + init->b) / 2;
    if (init->kind == MOEC_INIT_NORMAL) init->b = deviation;
    if (init->kind == MOEC_INIT_UNIFORM)
        *init = (Init){MOEC_INIT_UNIFORM, middle - deviation, middle + deviation};
    set_own(arena, tensor, ".init", deviation); /* read by transfer.c */
}

bool set_attribute(Elaborator *e, Tensor *tensor, const char *name, Span span, Value *value,
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
        set_deviation(e->arena, tensor, value->number);
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

/* The option `parameters` belongs to the model, unless its outermost layer declares an option of
 * that name. */
Value *take_attributes(const Node *layer, Record *record) {
    if (option_called(layer, "parameters")) return NULL;
    LIST_EACH(RecordField, entry, &record->entries) {
        if (strcmp(entry->name, "parameters")) continue;
        list_remove(&record->entries, entry);
        return entry->value;
    }
    return NULL;
}
