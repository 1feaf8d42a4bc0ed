/* aliases: deprecated names of options, values and layers. The declarations carry them, with the
 * suggestions for unknown names that suggest.c reads:
 *
 *     option size: int = 2 "size of the part" was [width] suggest [n_part]
 *     option kind: enum in [one, two] = one "kind" was [uno => one]
 *     option dtype: enum in [f32, bf16] = f32 "type" was [train.dtype]
 *
 * A former name in a record is replaced by the current name before the record is read. A path is an
 * option of the model that moved to another group. Layers of a checkpoint or of a user can declare
 * an option under a deprecated name of the standard library; current names are translated for them.
 */
#include "elaborate/elaborate.h"

#include <string.h>

const Node *alias_find(const Node *declared, const char *name, bool suggested) {
    const Node *aliases = declared->aliases;
    for (int i = 0; aliases && i < aliases->count; i++) {
        const Node *alias = aliases->kids[i];
        if ((alias->number == 1) == suggested && !strcmp(alias->name, name)) return alias;
    }
    return NULL;
}

/* ---- options ---- */

Span option_span(const Node *option) {
    Span span = option->span;
    for (int i = 0; option->aliases && i < option->count; i++)
        if (option->kids[i]) span.end = option->kids[i]->span.end;
    return span;
}

/* An alias without a value is a former name; with a value it is a former value. */
bool option_was(const Node *option, const char *name) {
    const Node *alias = alias_find(option, name, false);
    return alias && !alias->count;
}

const Node *option_called(const Node *layer, const char *name) {
    const Node *body = layer_body(layer);
    for (int i = 0; i < body->count; i++)
        if (body->kids[i]->kind == NODE_OPTION && !strcmp(body->kids[i]->name, name))
            return body->kids[i];
    return NULL;
}

static const Node *option_formerly(const Node *layer, const char *name) {
    const Node *body = layer_body(layer);
    for (int i = 0; i < body->count; i++)
        if (body->kids[i]->kind == NODE_OPTION && option_was(body->kids[i], name))
            return body->kids[i];
    return NULL;
}

/* The option of `layer` under a former name of the standard option `name`, or NULL. */
static const Node *option_still(Unit *unit, const Node *layer, const char *name) {
    const List *declared = &standard_unit(unit)->declared;
    for (int i = 0; i < declared->count; i++) {
        const Node *option = option_called(declared->items[i], name);
        for (int j = 0; option && option->aliases && j < option->aliases->count; j++) {
            const Node *alias = option->aliases->kids[j];
            const Node *found =
                alias->number == 1 || alias->count ? NULL : option_called(layer, alias->name);
            if (found) return found;
        }
    }
    return NULL;
}

const Node *option_named(Elaborator *e, const Node *layer, const char *name, Span span) {
    const Node *option = option_called(layer, name);
    if (option) return option;
    if ((option = option_formerly(layer, name)))
        report_renamed(e->reports, span, "option", name, option->name);
    else if ((option = option_still(e->unit, layer, name)) && is_written(layer->span))
        report_renamed(e->reports, option->name_span, "option", option->name, name);
    return option;
}

static bool is_group_of(const Node *layer, const char *name) {
    const Node *body = layer_body(layer);
    size_t length = strlen(name);
    for (int i = 0; i < body->count; i++)
        if (body->kids[i]->kind == NODE_OPTION && !strncmp(body->kids[i]->name, name, length) &&
            body->kids[i]->name[length] == '.')
            return true;
    return false;
}

/* Sets `path` to the value of `entry`, unless its current name was set later. */
static void move_entry(Elaborator *e, Record *record, RecordField *entry, Record *to,
                       const char *path) {
    const RecordField *own = given_entry(to, path);
    bool later = own && own->order > entry->order;
    for (int i = record->entries.count - 1; own && record == to && !later; i--) {
        later = record->entries.items[i] == own && own->order == entry->order;
        if (record->entries.items[i] == entry || record->entries.items[i] == own) break;
    }
    list_remove(&record->entries, entry);
    if (later) return;
    int order = e->order;
    e->order = entry->order;
    record_set(e, to, path, entry->value, entry->span);
    e->order = order;
}

void adopt_names(Elaborator *e, const Node *layer, Record *given) {
    for (int i = 0; given && i < given->entries.count; i++) {
        RecordField *entry = given->entries.items[i];
        const Node *option = option_called(layer, entry->name);
        if (option) entry->value = renamed_value(e, option, entry->value);
        if (option || is_group_of(layer, entry->name)) continue;
        option = option_named(e, layer, entry->name, entry->span);
        if (!option) continue;
        if (!given_entry(given, option->name))
            entry->name = option->name;
        else
            move_entry(e, given, entry, given, option->name);
        i = -1;
    }
}

/* ---- options of a model that moved to another group ---- */

static void move_from(Elaborator *e, Record *record, const char *from, const char *to) {
    const char *dot = strrchr(from, '.');
    const char *head = arena_copy(e->arena, from, (size_t)(dot - from));
    RecordField *group = given_entry(record, head), *entry = given_entry(record, from);
    if (!entry || !group->value->record) return;
    report_renamed(e->reports, entry->span, "option", from, to);
    move_entry(e, group->value->record, entry, record, to);
}

void adopt_moves(Elaborator *e, const Node *layer, Record *record) {
    LIST_EACH(const Node, group, &e->unit->layers) {
        const Node *body = layer_body(group);
        for (int k = 0; k < body->count; k++) {
            const Node *option = body->kids[k], *aliases = option->aliases;
            for (int j = 0; aliases && option->kind == NODE_OPTION && j < aliases->count; j++) {
                const char *old = aliases->kids[j]->name, *dot = strchr(old, '.');
                if (!dot || aliases->kids[j]->number == 1) continue;
                const Node *at =
                    option_called(layer, arena_copy(e->arena, old, (size_t)(dot - old)));
                const Node *from = at ? option_layer(e, at) : NULL;
                if (from && !option_called(from, dot + 1))
                    move_from(e, record, old,
                              arena_format(e->arena, "%s.%s", group->name, option->name));
            }
        }
    }
}

/* ---- values ---- */

Value *renamed_value(Elaborator *e, const Node *option, Value *value) {
    bool word = value->kind == KIND_WORD && !strcmp(option->kids[0]->name, "enum");
    const Node *alias = word ? alias_find(option, value->word, false) : NULL;
    if (!alias || !alias->count) return value;
    const char *now = alias->kids[0]->name;
    report_renamed(e->reports, value->span,
                   arena_format(e->arena, "option '%s': value", option->name), value->word, now);
    Value *current = value_new(e, strcmp(now, "none") ? KIND_WORD : KIND_NONE, value->span);
    current->word = now;
    return current;
}

const Node *layer_formerly(Elaborator *e, const char *name) {
    LIST_EACH(const Node, layer, &e->unit->declared) {
        if (!alias_find(layer, name, false)) continue;
        report_renamed(e->reports, layer->name_span, node_kind_name(layer->kind), name,
                       layer->name);
        return layer;
    }
    return NULL;
}
