/* aliases: deprecated names of options, values and layers, and suggestions for unknown names. The
 * declarations carry both:
 *
 *     option size: int = 2 "size of the part" was [width] suggest [n_part]
 *     option kind: enum in [one, two] = one "kind" was [uno => one]
 *     option dtype: enum in [f32, bf16] = f32 "type" was [train.dtype]
 *
 * An old name in a record is replaced by the new one before the record is read. A path is an option
 * of the model that moved to another group. Layers of a checkpoint or of a user may declare an
 * option under a name that the standard library has deprecated; new names are translated for them.
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

/* An alias without a value is a name of the option, one with a value a value of it. */
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

/* The option of `layer` under a deprecated name of standard options called `name`, or NULL. */
static const Node *option_still(Unit *unit, const Node *layer, const char *name) {
    const Unit *standard = standard_unit(unit);
    const List *lists[] = {&standard->layers, &standard->optimizers, &standard->schedules};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < lists[i]->count; k++) {
            const Node *option = option_called(lists[i]->items[k], name);
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

void record_remove(Record *record, const Entry *entry) {
    int kept = 0;
    for (int i = 0; i < record->entries.count; i++)
        if (record->entries.items[i] != entry)
            record->entries.items[kept++] = record->entries.items[i];
    record->entries.count = kept;
}

/* Sets `path` as `entry` said, unless it was set later under its own name. */
static void move_entry(Elaborator *e, Record *record, Entry *entry, Record *to, const char *path) {
    const Entry *own = given_entry(to, path);
    bool later = own && own->order > entry->order;
    for (int i = record->entries.count - 1; own && record == to && !later; i--) {
        later = record->entries.items[i] == own && own->order == entry->order;
        if (record->entries.items[i] == entry || record->entries.items[i] == own) break;
    }
    record_remove(record, entry);
    if (later) return;
    int order = e->order;
    e->order = entry->order;
    record_set(e, to, path, entry->value, entry->span);
    e->order = order;
}

void adopt_names(Elaborator *e, const Node *layer, Record *given) {
    for (int i = 0; given && i < given->entries.count; i++) {
        Entry *entry = given->entries.items[i];
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
    Entry *group = given_entry(record, head), *entry = given_entry(record, from);
    if (!entry || !group->value->record) return;
    report_renamed(e->reports, entry->span, "option", from, to);
    move_entry(e, group->value->record, entry, record, to);
}

void adopt_moves(Elaborator *e, const Node *layer, Record *record) {
    for (int i = 0; i < e->unit->layers.count; i++) {
        const Node *group = e->unit->layers.items[i], *body = layer_body(group);
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
    const List *lists[] = {&e->unit->layers, &e->unit->optimizers, &e->unit->schedules};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < lists[i]->count; k++) {
            const Node *layer = lists[i]->items[k];
            if (!layer->aliases || !alias_find(layer, name, false)) continue;
            report_renamed(e->reports, layer->name_span, node_kind_name(layer->kind), name,
                           layer->name);
            return layer;
        }
    return NULL;
}

/* ---- suggestions for unknown names ---- */

enum { MAX_INNER = 3 };

typedef struct Search {
    Elaborator *e;
    const char *name;
    Text found;         /* paths, "a' and 'b" */
    const Node *option; /* the last one found */
} Search;

/* The text of an alias's value as it is declared. */
static const char *value_of(Arena *arena, const Node *alias) {
    const Node *value = alias->kids[0];
    if (value->kind == NODE_STRING) return value->name;
    Span span = value->span;
    return arena_copy(arena, span.source->text + span.start, (size_t)(span.end - span.start));
}

static void search_option(Search *search, const Node *option, const char *prefix) {
    const Node *alias = alias_find(option, search->name, true);
    if (!alias && option_was(option, search->name)) alias = alias_find(option, search->name, false);
    if (!alias) return;
    Arena *arena = search->e->arena;
    const char *path =
        alias->count ? value_of(arena, alias) : arena_format(arena, "%s%s", prefix, option->name);
    text_add(&search->found, "%s%s", search->found.length ? "' and '" : "", path);
    search->option = alias->count ? NULL : option;
}

/* The layer that an option takes in `given`, or by default, and the options given to it. */
static const Node *chosen_layer(Elaborator *e, const Node *option, const Record *given,
                                const Record **inner) {
    const Entry *entry = given ? given_entry(given, option->name) : NULL;
    const Value *value = entry ? entry->value : NULL;
    *inner = value ? value->record : NULL;
    if (value && value->kind == KIND_LAYER) return value->layer;
    const Node *named = value && value->kind == KIND_WORD ? find_layer(e, value->word) : NULL;
    return named ? named : option_layer(e, option);
}

/* Among the options `depth` layers below this one. */
static void search_below(Search *search, const Node *layer, const Record *given, const char *prefix,
                         int depth) {
    const Node *body = layer_body(layer);
    for (int i = 0; i < body->count; i++) {
        const Node *option = body->kids[i];
        if (option->kind != NODE_OPTION) continue;
        if (depth == 0) search_option(search, option, prefix);
        const Record *inner;
        const Node *next = depth > 0 ? chosen_layer(search->e, option, given, &inner) : NULL;
        if (next && next != layer)
            search_below(search, next, inner,
                         arena_format(search->e->arena, "%s%s.", prefix, option->name), depth - 1);
        if (next && search->found.length) return; /* one layer answers */
    }
}

static const char *suggested_option(Elaborator *e, const Node *layer, const Record *given,
                                    const char *name, const char *prefix, const Node **option) {
    Search search = {.e = e, .name = name, .found = {.arena = e->arena}};
    for (int depth = 0; depth <= MAX_INNER && !search.found.length; depth++)
        search_below(&search, layer, given, prefix, depth);
    *option = search.option;
    return search.found.length ? search.found.text : NULL;
}

/* heads.q is one of heads, too. */
static bool has_option(const Node *body, const char *name) {
    size_t length = strlen(name);
    for (int i = 0; i < body->count; i++) {
        const Node *option = body->kids[i];
        if (option->kind != NODE_OPTION || strncmp(option->name, name, length)) continue;
        if (!option->name[length] || option->name[length] == '.') return true;
    }
    return false;
}

/* The path from a layer to an option of this name in the layers that its options take by default,
 * `depth` of them further in: "train.lr" for lr in a decoder; NULL when there is none. */
static const char *path_inside(Elaborator *e, const Node *layer, const char *name, int depth) {
    const Node *body = layer_body(layer);
    const char *path = NULL;
    for (int i = 0; i < body->count && !path; i++) {
        const Node *inner = option_layer(e, body->kids[i]);
        if (!inner || inner == layer) continue;
        if (depth > 1)
            path = path_inside(e, inner, name, depth - 1);
        else if (has_option(layer_body(inner), name))
            path = name;
        if (path) path = arena_format(e->arena, "%s.%s", body->kids[i]->name, path);
    }
    return path;
}

/* What was written before the last name of a path: "train." of train.batch_size. */
static const char *written_prefix(Elaborator *e, const Entry *entry, const char *path) {
    const Span span = entry->span;
    int length = span.end - span.start - (int)strlen(path);
    if (!span.source || length <= 0) return "";
    return arena_copy(e->arena, span.source->text + span.start, (size_t)length);
}

/* Suggests an option for an unknown one: of a layer further in, of a similar meaning, or of a
 * similar name. NULL: none. */
const char *near_option(Elaborator *e, const Node *layer, const Record *given, const Entry *entry,
                        const char *path, const List *names) {
    const Node *option = NULL, *kind;
    const char *near = NULL, *prefix = written_prefix(e, entry, path);
    for (int depth = 1; depth <= MAX_INNER && !near; depth++)
        near = path_inside(e, layer, path, depth);
    if (!near) near = suggested_option(e, layer, given, path, prefix, &option);
    if (!near) near = did_you_mean(path, (const char *const *)names->items, names->count);
    if (near) report_help(e->reports, "did you mean '%s'?", near);
    kind = option ? option_layer(e, option) : NULL;
    if (kind && kind->kind != NODE_LAYER && !strstr(near, "' and '"))
        help_with_kinds(e, kind->kind, "");
    return near;
}

const char *suggested_value(Elaborator *e, const Node *option, const char *word) {
    const Node *alias = alias_find(option, word, true);
    return alias && alias->count ? value_of(e->arena, alias) : NULL;
}

const char *suggested_layer(Elaborator *e, const char *name) {
    const Unit *units[] = {e->unit, standard_unit(e->unit)};
    for (int u = 0; u < 2; u++) {
        const List *lists[] = {&units[u]->layers, &units[u]->optimizers, &units[u]->schedules};
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < lists[i]->count; k++) {
                const Node *layer = lists[i]->items[k], *alias = alias_find(layer, name, true);
                if (alias) return alias->count ? value_of(e->arena, alias) : layer->name;
            }
    }
    return NULL;
}
