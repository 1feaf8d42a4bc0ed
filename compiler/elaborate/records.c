/* records: the options of a layer. The declaration of an option has the type, the limits and the
 * default that check its value.
 *
 *     option heads.q: int in 1.. = 8 "query heads"        attention = { heads = { q = 4 } }
 */
#include "elaborate/elaborate.h"

#include <math.h>
#include <string.h>

const Node *find_layer(Elaborator *e, const char *name) {
    const List *found = table_find(&e->unit->layers_by_name, hash_text(HASH_START, name));
    const Node *node = list_named(found, offsetof(Node, name), name);
    if (node) return node;
    return layer_formerly(e, name);
}

const Node *layer_body(const Node *layer) {
    return layer->kids[layer->count - 1];
}

/* An option with this word among its values, of the layer with the name of `option`; or NULL. For
 * norm = rms and a layer norm with `kind: word in [rms, mean]`, it finds kind. */
static const char *option_of_word(Elaborator *e, const Node *option, const char *word) {
    const Node *layer = find_layer(e, option->name);
    const Node *body = layer ? layer_body(layer) : NULL;
    for (int i = 0; body && i < body->count; i++) {
        const Node *own = body->kids[i];
        if (own->kind != NODE_OPTION || !own->kids[1]) continue;
        const Node *limits = own->kids[1]->kids[0];
        for (int j = 0; limits->kind == NODE_LIST && j < limits->count; j++)
            if (limits->kids[j]->kind == NODE_NAME && !strcmp(limits->kids[j]->name, word))
                return own->name;
    }
    return NULL;
}

const Node *option_layer(Elaborator *e, const Node *option) {
    const Node *value = option->kind == NODE_OPTION ? option->kids[2] : NULL;
    if (!value || strcmp(option->kids[0]->name, "layer")) return NULL;
    bool named = value->kind == NODE_NAME || value->kind == NODE_MADE;
    return named ? find_layer(e, value->name) : NULL;
}

/* The kind of the default: layer, optimizer or schedule. */
static NodeKind wanted_kind(Elaborator *e, const Node *option) {
    const Node *usual = option_layer(e, option);
    return usual ? usual->kind : NODE_LAYER;
}

static const List *layers_of(const Elaborator *e, NodeKind kind) {
    if (kind == NODE_SCHEDULE) return &e->unit->schedules;
    return kind == NODE_OPTIMIZER ? &e->unit->optimizers : &e->unit->layers;
}

void help_with_kinds(Elaborator *e, NodeKind kind, const char *word) {
    const List *all = layers_of(e, kind);
    const char *names[512] = {NULL}, *is = node_kind_name(kind);
    int count = 0;
    for (int i = 0; i < all->count && count < 512; i++)
        names[count++] = ((Node *)all->items[i])->name;
    if ((count && kind != NODE_LAYER) || did_you_mean(word, names, count))
        report_choices(e->reports, word, names, count, arena_format(e->arena, "%ss", is));
    else
        report_help(e->reports,
                    "declare '%s %s%s', or add 'use FILE' for the file that declares it", is, word,
                    kind == NODE_LAYER ? "(...)" : " { ... }");
}

static Value *unknown_layer(Elaborator *e, const Node *option, const Value *value) {
    NodeKind kind = wanted_kind(e, option);
    report_error(e->reports, value->span, "unknown %s '%s'", node_kind_name(kind), value->word);
    const char *inner = option_of_word(e, option, value->word);
    const char *similar = suggested_layer(e, kind, value->word);
    if (similar)
        report_help(e->reports, "did you mean '%s'?", similar);
    else if (inner)
        report_help(e->reports, "did you mean %s = { %s = %s }?", option->name, inner, value->word);
    else if (!help_with_use(e->reports, value->word) && !help_with_function(e, value->word))
        help_with_kinds(e, kind, value->word);
    return value_error(e, value->span);
}

/* Whether a declaration with the name of the default has this kind: a layer and an optimizer can
 * have the same name. */
static bool default_may_be(const Elaborator *e, const Node *option, NodeKind kind) {
    const char *name = option->kids[2]->name;
    const List *found = table_find(&e->unit->layers_by_name, hash_text(HASH_START, name));
    LIST_EACH(const Node, node, found)
        if (node->kind == kind && !strcmp(node->name, name)) return true;
    return false;
}
/* Checks the kind of a layer: an optimizer cannot be applied, and a layer is not a schedule. */
static Value *layer_of_kind(Elaborator *e, const Node *option, Value *layer) {
    NodeKind kind = wanted_kind(e, option), found = layer->layer->kind;
    if (!option_layer(e, option) || default_may_be(e, option, found)) return layer;
    report_error(e->reports, layer->span, "option '%s' expects %s %s, got %s '%s'", option->name,
                 kind == NODE_OPTIMIZER ? "an" : "a", node_kind_name(kind), node_kind_name(found),
                 layer->layer->name);
    report_note(e->reports, layer->layer->name_span, "declared here");
    if (kind != NODE_LAYER) help_with_kinds(e, kind, layer->layer->name);
    return value_error(e, layer->span);
}

Value *layer_named_by_value(Elaborator *e, const Node *option, Value *value) {
    Value *layer = value_new(e, KIND_LAYER, value->span);
    layer->changed = value->changed;
    layer->layer = find_layer(e, value->word);
    if (!layer->layer) return unknown_layer(e, option, value);
    layer->record = value->record ? value->record : record_new(e);
    adopt_names(e, layer->layer, layer->record);
    return layer_of_kind(e, option, layer);
}

static Value *to_layer(Elaborator *e, const Node *option, Value *value, Value *fallback) {
    if (value->kind == KIND_LAYER || value->kind == KIND_NONE) return value;
    if (value->kind == KIND_WORD) return layer_named_by_value(e, option, value);
    if (value->kind != KIND_RECORD) return NULL;
    /* the default layer, or the layer with the name of the option, with these options */
    Value *layer = value_new(e, KIND_LAYER, value->span);
    layer->changed = value->changed;
    if (fallback && fallback->kind == KIND_LAYER) {
        layer->layer = fallback->layer;
        adopt_names(e, layer->layer, value->record);
        layer->record = record_copy(e, fallback->record);
        record_merge(e, layer->record, value->record);
        return layer;
    }
    layer->layer = find_layer(e, option->name);
    layer->record = value->record;
    if (layer->layer) adopt_names(e, layer->layer, layer->record);
    return layer->layer ? layer : NULL;
}

static Value *to_layers(Elaborator *e, const Node *option, Value *value) {
    Value *list = value_new(e, KIND_LIST, value->span);
    if (value->kind == KIND_NONE) return list;
    if (value->kind != KIND_LIST) {
        Value *one = to_layer(e, option, value, NULL);
        if (!one || one->kind == KIND_ERROR) return one;
        list_push(e->arena, &list->list, one);
        return list;
    }
    for (int i = 0; i < value->list.count; i++) {
        Value *one = to_layer(e, option, value->list.items[i], NULL);
        if (!one || one->kind == KIND_ERROR) return one;
        list_push(e->arena, &list->list, one);
    }
    return list;
}

/* Integers up to 2^53, which are exact and fit a long. */
static bool is_int(const Value *value) {
    return value->kind == KIND_NUMBER && value->number == floor(value->number) &&
           fabs(value->number) <= 0x1p53;
}

/* A bare name is the word itself, also if it is bound. */
static Value *word_value(Elaborator *e, Value *value) {
    if (value->kind == KIND_NONE || (value->kind == KIND_WORD && !value->record)) return value;
    if (!value->written) return NULL;
    Value *word = value_new(e, KIND_WORD, value->span);
    word->word = value->written;
    return word;
}

/* The value as the declared type; NULL if it does not fit, KIND_ERROR after a report. */
static Value *convert(Elaborator *e, const Node *option, Value *value, Value *fallback) {
    const char *type = option->kids[0]->name;
    if (value->kind == KIND_ERROR || !strcmp(type, "any")) return value;
    if (!strcmp(type, "layer")) return to_layer(e, option, value, fallback);
    if (!strcmp(type, "layers")) return to_layers(e, option, value);
    if (!strcmp(type, "int")) return is_int(value) ? value : NULL;
    if (!strcmp(type, "float")) return value->kind == KIND_NUMBER ? value : NULL;
    if (!strcmp(type, "bool")) return value->kind == KIND_FLAG ? value : NULL;
    if (!strcmp(type, "enum")) {
        Value *word = word_value(e, value);
        return word ? renamed_value(e, option, word) : NULL;
    }
    if (!strcmp(type, "list")) return value->kind == KIND_LIST ? value : NULL;
    if (!strcmp(type, "record"))
        return value->kind == KIND_RECORD || value->kind == KIND_NONE ? value : NULL;
    if (!strcmp(type, "axes")) {
        if (value->kind == KIND_AXIS) {
            Value *list = value_new(e, KIND_LIST, value->span);
            list_push(e->arena, &list->list, value);
            return list;
        }
        if (value->kind == KIND_NONE) return value_new(e, KIND_LIST, value->span);
        if (value->kind != KIND_LIST) return NULL;
        for (int i = 0; i < value->list.count; i++)
            if (((Value *)value->list.items[i])->kind != KIND_AXIS) return NULL;
        return value;
    }
    report_invalid(e->reports, option->kids[0]->span,
                   "use int, float, bool, enum, list, record, axes, layer, layers or any",
                   "unknown option type '%s'", type);
    return value_error(e, option->span);
}

static bool within_list(const Value *value, const Value *list) {
    for (int i = 0; i < list->list.count; i++)
        if (value_equal(value, list->list.items[i])) return true;
    return false;
}

static void report_words(Elaborator *e, const Node *option, const Value *value, const Value *list) {
    const char *names[64], *got = value_shown(e, value);
    int count = 0;
    for (int i = 0; i < list->list.count && count < 64; i++)
        names[count++] = value_text(e, list->list.items[i]);
    if (value->kind == KIND_LAYER) got = arena_format(e->arena, "'%s'", value->layer->name);
    const char *near = value->kind == KIND_WORD ? suggested_value(e, option, value->word) : NULL;
    if (!near && value->kind == KIND_WORD) near = did_you_mean(value->word, names, count);
    report_error(e->reports, value->span, "option '%s' expects one of %s, got %s", option->name,
                 names_text(e->arena, names, count), got);
    report_note(e->reports, option_span(option), "declared here");
    if (near)
        report_help(e->reports, "did you mean '%s'?", near);
    else if (count)
        report_help(e->reports, "write %s = %s", option->name, names[0]);
}

/* A literal word, number or none: names denote themselves. */
static Value *literal(Elaborator *e, const Node *node) {
    bool word = node->kind == NODE_NAME && strcmp(node->name, "none") &&
                strcmp(node->name, "true") && strcmp(node->name, "false");
    if (!word) return evaluate(e, node);
    Value *value = value_new(e, KIND_WORD, node->span);
    value->word = node->name;
    return value;
}

Value *evaluate_word(Elaborator *e, const Node *node) {
    const Binding *named = node->kind == NODE_NAME ? scope_find(e->scope, node->name) : NULL;
    return named && named->value->kind == KIND_WORD ? evaluate(e, node) : literal(e, node);
}

bool check_limits(Elaborator *e, const Node *option, Value *value) {
    const Node *limits = option->kids[1] ? option->kids[1]->kids[0] : NULL;
    if (!limits || value->kind == KIND_ERROR) return true;
    if (limits->kind == NODE_LIST) {
        Value *list = value_new(e, KIND_LIST, limits->span);
        for (int i = 0; i < limits->count; i++)
            list_push(e->arena, &list->list, literal(e, limits->kids[i]));
        if (within_list(value, list)) return true;
        report_words(e, option, value, list);
        return false;
    }
    double low = -INFINITY, high = INFINITY;
    if (limits->kids[0] && !evaluate_number(e, limits->kids[0], "a limit", &low)) return false;
    if (limits->kids[1] && !evaluate_number(e, limits->kids[1], "a limit", &high)) return false;
    if (value->kind != KIND_NUMBER || (value->number >= low && value->number <= high)) return true;
    report_error(e->reports, value->span, "option '%s' expects a value %s, got %.9g", option->name,
                 high == INFINITY   ? arena_format(e->arena, "of at least %.9g", low)
                 : low == -INFINITY ? arena_format(e->arena, "of at most %.9g", high)
                                    : arena_format(e->arena, "from %.9g to %.9g", low, high),
                 value->number);
    report_note(e->reports, option_span(option), "declared here");
    return report_help(e->reports, "write %s = %.9g", option->name,
                       value->number < low ? low : high);
}

static Value *given_value(const Record *given, const char *path) {
    RecordField *entry = given_entry(given, path);
    return entry ? entry->value : NULL;
}

/* An option with a dotted name is a field of a record that is bound under the first name. */
static void bind_path(Elaborator *e, Scope *scope, const char *path, Value *value, Span span) {
    const char *dot = strchr(path, '.');
    if (!dot) {
        scope_bind(e, scope, path, value, span);
        return;
    }
    char *head = arena_copy(e->arena, path, (size_t)(dot - path));
    scope = scope_opaque(scope);
    Binding *binding = scope_own(scope, head);
    if (!binding) {
        Value *record = value_new(e, KIND_RECORD, span);
        record->record = record_new(e);
        binding = scope_bind(e, scope, head, record, span);
    }
    record_set(e, binding->value->record, dot + 1, value, span);
}

/* The setting of the model for this option, or NULL. */
static Setting *record_setting(Elaborator *e, const char *prefix, const Node *option,
                               Value *value) {
    const char *name = option->name;
    if (!e->settings || !prefix) return NULL;
    const char *path = *prefix ? arena_format(e->arena, "%s.%s", prefix, name) : name;
    for (int i = 0; i < e->settings->count; i++) /* a layer applied again */
        if (!strcmp(((Setting *)e->settings->items[i])->path, path)) return e->settings->items[i];
    Setting *setting = arena_alloc(e->arena, sizeof *setting);
    setting->path = path;
    setting->text = value_text(e, value);
    setting->number = value->number;
    setting->real = !strcmp(option->kids[0]->name, "float");
    setting->kind = value->kind == KIND_NONE     ? VALUE_NONE
                    : value->kind == KIND_NUMBER ? VALUE_NUMBER
                    : value->kind == KIND_FLAG   ? VALUE_FLAG
                    : value->kind == KIND_WORD   ? VALUE_WORD
                                                 : VALUE_OTHER;
    list_push(e->arena, e->settings, setting);
    return setting;
}

/* A layer without arguments is never applied: it groups settings of the model. */
static bool is_optionless_layer(const Value *value) {
    return value->kind == KIND_LAYER && value->layer->kind == NODE_LAYER &&
           !(value->layer->kids[0] && value->layer->kids[0]->count);
}

static void record_group(Elaborator *e, const char *prefix, const char *name, Value *value) {
    if (!e->settings || !prefix || !is_optionless_layer(value)) return;
    const Node *body = layer_body(value->layer);
    const char *path = *prefix ? arena_format(e->arena, "%s.%s", prefix, name) : name;
    check_unknown_options(e, value->layer, value->record);
    for (int i = 0; i < body->count; i++) {
        const Node *option = body->kids[i];
        if (option->kind != NODE_OPTION) continue;
        record_setting(e, path, option, layer_option(e, value, option->name, option->span));
    }
}

void standard_group(Elaborator *e, const Node *layer, Record *record, const char *name) {
    const Node *group = find_layer(e, name);
    if (!group || option_called(layer, name) || !option_called(layer, "train")) return;
    Value *value = value_new(e, KIND_LAYER, layer->span);
    const RecordField *entry = given_entry(record, name);
    value->layer = group;
    value->record = entry && entry->value->record ? entry->value->record : record_new(e);
    if (entry) list_remove(&record->entries, entry);
    record_group(e, "", name, value);
}

/* A computed default is a fraction because sizes do not divide. */
static void report_fraction(Elaborator *e, const Node *option, const Value *value) {
    Span blamed = blamed_here(e, option->kids[2]);
    report_error(e->reports, blamed.source ? blamed : asked_here(e),
                 "option '%s' of layer '%s' expects an integer, but its default is %.9g",
                 option->name, e->frame->layer->name, value->number);
    report_note(e->reports, option->kids[2]->span, "the default is computed here");
    report_help(e->reports, "choose sizes that divide evenly, or set %s", option->name);
    e->frame->refused = true;
}

/* The expected value of an option of this type, for messages. */
static const char *expected_by(Elaborator *e, const char *type) {
    static const char *const texts[][2] = {{"int", "an integer"},
                                           {"float", "a number"},
                                           {"bool", "true or false"},
                                           {"enum", "a name"},
                                           {"axes", "an axis or a list of axes"},
                                           {"layers", "a layer or a list of layers"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(type, texts[i][0])) return texts[i][1];
    return arena_format(e->arena, "a %s", type);
}

/* "true" or "false" for a word of other languages, or NULL. */
static const char *truth_of(const char *word) {
    static const char *const yes[] = {"yes", "on", "True", "TRUE"};
    static const char *const no[] = {"no", "off", "False", "FALSE"};
    for (int i = 0; i < 4; i++) {
        if (!strcmp(word, yes[i])) return "true";
        if (!strcmp(word, no[i])) return "false";
    }
    return NULL;
}

/* A value of another kind than the type of the option. */
static void report_kind(Elaborator *e, const Node *option, const Value *value) {
    const char *type = option->kids[0]->name;
    report_error(e->reports, value->span, "option '%s' expects %s, got %s", option->name,
                 expected_by(e, type), value_shown(e, value));
    report_note(e->reports, option_span(option), "declared here");
    const char *truth = value->kind == KIND_WORD ? truth_of(value->word) : NULL;
    if (!strcmp(type, "bool") && truth)
        report_help(e->reports, "write %s = %s", option->name, truth);
    else if (!strcmp(type, "bool"))
        report_help(e->reports, "write %s = true or %s = false", option->name, option->name);
    else if (value->kind == KIND_WORD && *value->word &&
             strspn(value->word, "0123456789.e+-") == strlen(value->word))
        report_help(e->reports, "write %s = %s without quotes", option->name, value->word);
    else if (!strcmp(type, "int") && value->kind == KIND_NUMBER && fabs(value->number) < MAX_SIZE)
        report_help(e->reports, "write %s = %.0f", option->name, value->number);
    else if (!strcmp(type, "list"))
        report_help(e->reports, "write the whole list: %s = [...]", option->name);
}

/* The value of an option: from `given`, else its default. */
static Value *option_value(Elaborator *e, const Node *option, Record *given) {
    Value *value = given_value(given, option->name), *fallback = NULL;
    bool needs_default =
        !value || (value->kind == KIND_RECORD && !strcmp(option->kids[0]->name, "layer"));
    if (option->kids[2] && needs_default) {
        const Node *node = option->kids[2];
        bool word = !strcmp(option->kids[0]->name, "enum");
        fallback = word ? evaluate_word(e, node) : evaluate(e, node);
        if (fallback->kind == KIND_ERROR) return fallback;
        Value *converted = convert(e, option, fallback, NULL);
        if (!converted && fallback->kind == KIND_NUMBER && node->kind != NODE_NUMBER && e->frame) {
            report_fraction(e, option, fallback);
            return value_error(e, option->span);
        }
        if (!converted) {
            report_invalid(e->reports, option->kids[2]->span, "change the default or the type",
                           "the default of option '%s' is %s, but its type is %s", option->name,
                           value_kind_text(fallback), option->kids[0]->name);
            return value_error(e, option->span);
        }
        fallback = converted;
    }
    if (!value && !fallback) {
        report_error(e->reports, e->frame ? asked_here(e) : option_span(option),
                     "option '%s' of layer '%s' is required", option->name,
                     e->frame ? e->frame->layer->name : "?");
        report_note(e->reports, option_span(option), "declared here without a default");
        report_help(e->reports, "set %s = ...", option->name);
        return value_error(e, option->span);
    }
    if (!value) return fallback;
    Value *converted = convert(e, option, value, fallback);
    if (!converted) {
        report_kind(e, option, value);
        return value_error(e, option->span);
    }
    return converted;
}

/* The binding that conflicts with an option: `heads` for heads, and for heads.q unless it is a
 * record of options. */
static Binding *bound_before(Elaborator *e, const char *name) {
    const char *dot = strchr(name, '.');
    if (!dot) return scope_find(e->scope, name);
    Binding *head =
        scope_own(scope_opaque(e->scope), arena_copy(e->arena, name, (size_t)(dot - name)));
    return head && !head->value->record ? head : NULL;
}

static void watch_value(Elaborator *e, const Node *option, const Record *given, Setting *setting,
                        Value **value) {
    const RecordField *entry = given_entry(given, option->name);
    const Span span = entry ? entry->span : option->span;
    Watch *watch = watch_option(e, e->frame->layer, option->name, span);
    watch->given = entry != NULL;
    if (setting) watch->setting = setting;
    *value = value_copy(e, *value);
    (*value)->watch = watch;
}

void bind_option(Elaborator *e, const Node *option, Record *given, const char *prefix) {
    Binding *before = bound_before(e, option->name);
    if (before) {
        report_error(e->reports, option->name_span, "duplicate declaration of '%s'", before->name);
        report_note(e->reports, before->span, "first declared here");
        report_help(e->reports, "rename one of them");
        return;
    }
    given = with_passed(e, option, given);
    Value *value = option_value(e, option, given);
    if (value->kind != KIND_ERROR && !check_limits(e, option, value))
        value = value_error(e, option->span);
    Setting *setting = record_setting(e, prefix, option, value);
    record_group(e, prefix, option->name, value);
    if (prefix && value->kind == KIND_LAYER) {
        value = value_copy(e, value);
        value->option =
            *prefix ? arena_format(e->arena, "%s.%s", prefix, option->name) : option->name;
    }
    if (e->frame && !is_optionless_layer(value)) watch_value(e, option, given, setting, &value);
    bind_path(e, e->scope, option->name, value, option->name_span);
}

static void option_names(Elaborator *e, const Node *block, List *names) {
    for (int i = 0; i < block->count; i++) {
        const Node *node = block->kids[i];
        if (node->kind == NODE_OPTION) list_push(e->arena, names, (void *)node->name);
    }
}

/* heads = 4 with options heads.q and heads.k. */
static void report_help_inner(Elaborator *e, const char *path, const List *names,
                              const Value *value) {
    size_t length = strlen(path);
    Text text = {.arena = e->arena};
    const char *first = NULL;
    LIST_EACH(const char, name, names) {
        if (strncmp(name, path, length) != 0 || name[length] != '.') continue;
        text_add(&text, "%s%s", first ? ", " : "", name);
        if (!first) first = name;
    }
    report_help(e->reports, "write %s = %s; the options are %s", first, value_text(e, value),
                text.text);
}

/* ---- unknown options ---- */

/* Whether a layer of the standard library sets this option of a user layer. */
static bool is_passed_on(const Elaborator *e, const Node *layer, const RecordField *entry) {
    return e->frame && e->frame->layer == layer && e->frame->caller && is_written(layer->span) &&
           !is_written(entry->span);
}

/* block.3.attention.window = 64: an iteration of a repeat is not an option. Whether that is the
 * mistake; a report. */
static bool report_index(Elaborator *e, const RecordField *entry) {
    const char *name = entry->name;
    const Record *inner = entry->value->record;
    if (!is_index(name) && inner && inner->entries.count)
        name = ((const RecordField *)inner->entries.items[0])->name;
    if (!is_index(name)) return false;
    report_invalid(
        e->reports, entry->span,
        "remove the repeat and the number: attention.window = 64 sets the option in all iterations",
        "an option cannot be set for one iteration of a repeat: expected a name, found '%s'", name);
    report_help(e->reports,
                "for different layers, set an option that is a list of layers; for one parameter, "
                "write parameters = [{ of = \"block.3.*\", lr = 0.5 }]");
    return true;
}

static void check_record(Elaborator *e, const Node *layer, Record *given, const char *prefix,
                         const List *names) {
    LIST_EACH(RecordField, entry, &given->entries) {
        const char *path =
            *prefix ? arena_format(e->arena, "%s.%s", prefix, entry->name) : entry->name;
        size_t length = strlen(path);
        bool known = false, inner = false;
        LIST_EACH(const char, name, names) {
            if (!strcmp(name, path)) known = true;
            if (!strncmp(name, path, length) && name[length] == '.') inner = true;
        }
        if (known) continue;
        if (inner && entry->value->kind == KIND_RECORD) {
            check_record(e, layer, entry->value->record, path, names);
            continue;
        }
        if (inner) {
            report_error(e->reports, entry->value->span, "'%s' expects a record, got %s", path,
                         value_shown(e, entry->value));
            report_help_inner(e, path, names, entry->value);
            continue;
        }
        if (is_passed_on(e, layer, entry)) {
            pass_on(e, entry, path);
            continue;
        }
        if (report_index(e, entry)) continue;
        report_error(e->reports, entry->span, "%s '%s' has no option '%s'",
                     node_kind_name(layer->kind), layer->name, path);
        if (is_written(entry->span))
            suggest_option(e, layer, given, entry, path, names);
        else
            help_with_layers(e, path);
    }
}

void check_unknown_options(Elaborator *e, const Node *layer, Record *given) {
    List names = {0};
    adopt_names(e, layer, given);
    option_names(e, layer_body(layer), &names);
    if (given) check_record(e, layer, given, "", &names);
}

/* g.at: an option of a layer that is a value. Its default is evaluated outside of any
 * application. */
Value *layer_option(Elaborator *e, const Value *layer, const char *name, Span span) {
    const Node *option = option_named(e, layer->layer, name, span);
    if (option) {
        Scope *outer = e->scope;
        Scope scope = {0};
        e->scope = &scope;
        adopt_names(e, layer->layer, layer->record);
        Value *value = option_value(e, option, layer->record);
        const RecordField *entry = given_entry(layer->record, option->name);
        Watch *watch = entry ? watch_option(e, layer->layer, option->name, entry->span) : NULL;
        if (watch) watch->given = watch->read = true;
        if (value->kind != KIND_ERROR && !check_limits(e, option, value))
            value = value_error(e, span);
        e->scope = outer;
        return value;
    }
    if (errors_at(e->reports, layer->span)) return value_error(e, span);
    report_blamed(e, layer->span, span, "layer '%s' has no option '%s'", layer->layer->name, name);
    List names = {0};
    if (is_written(layer->span) && !is_written(span)) {
        help_with_layers(e, name);
        return value_error(e, span);
    }
    option_names(e, layer_body(layer->layer), &names);
    report_choices(e->reports, name, (const char *const *)names.items, names.count, "options");
    return value_error(e, span);
}
