/* config: translate the configuration of a model family to options of a model, and back.
 *
 *     from hidden_size = dim                       dim has the value of hidden_size
 *     from rope_theta = attention.rotary.theta else 10000
 *     from rotary_pct = attention.rotary.rotary_dim / attention.head_dim   solved for the unknown
 *     from hidden_act = "silu"                     holds in every model of the family
 *     norm = layer_norm                            holds in every model of moec
 *     from max_length = attention.rotary.factor if attention.rotary == dynamic_rotary
 */
#include "layout/layout.h"

#include "abi/utf8_cut.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct OptionSlot {
    const char *path, *text; /* text: NULL: unknown */
    bool is_number, fixed;
    bool null; /* the configuration has null: use the default */
    bool told; /* the configuration contains this size */
    double number;
} OptionSlot;

typedef struct ConfigReading {
    Unit *unit;
    Arena *arena;
    const Layout *layout;
    const MoecPair *pairs;
    int count;
    List slots; /* OptionSlot * */
} ConfigReading;

/* ---- arithmetic ---- */

static double apply_operation(char operation, double a, double b) {
    switch (operation) {
    case '+':
        return a + b;
    case '-':
        return a - b;
    case '*':
        return a * b;
    case '/':
        return a / b;
    default:
        return pow(a, b);
    }
}

bool layout_number(Arena *arena, const Node *node, FindOption find, void *context, double *value) {
    double a, b;
    switch (node->kind) {
    case NODE_NUMBER:
        *value = node->number;
        return true;
    case NODE_UNARY:
        if (!layout_number(arena, node->kids[0], find, context, &a)) return false;
        *value = -a;
        return true;
    case NODE_BINARY:
        if (node->name[1] || !strchr("+-*/^", *node->name) ||
            !layout_number(arena, node->kids[0], find, context, &a) ||
            !layout_number(arena, node->kids[1], find, context, &b))
            return false;
        *value = apply_operation(*node->name, a, b);
        return true;
    default:
        break;
    }
    const char *path = layout_path(arena, node);
    return path && find(context, path, value);
}

/* The shortest exact text: 1e-6, 500000 */
static char *shortest_number_text(Arena *arena, double number) {
    if (number == floor(number) && fabs(number) < 1e15) return arena_format(arena, "%.0f", number);
    for (int digits = 1; digits <= 17; digits++) {
        char *text = arena_format(arena, "%.*g", digits, number);
        if (strtod(text, NULL) != number) continue;
        const char *e = strchr(text, 'e');
        return e ? arena_format(arena, "%.*se%d", (int)(e - text), text, atoi(e + 1)) : text;
    }
    return arena_format(arena, "%.17g", number);
}

/* ---- rules ---- */

static bool is_named_word(const Node *node, const char *word) {
    return node->kind == NODE_NAME && strcmp(node->name, word) == 0;
}

static bool is_flag(const Node *node) {
    return is_named_word(node, "true") || is_named_word(node, "false");
}

bool layout_constant(const Node *node) {
    if (node->kind == NODE_LIST)
        return node->count == 0 || ((Node *)node->kids[0])->kind == NODE_STRING;
    return node->kind == NODE_STRING || node->kind == NODE_NUMBER || is_flag(node) ||
           is_named_word(node, "none");
}

static MoecPair constant_pair(Arena *arena, const char *key, const Node *node) {
    MoecPair pair = {.key = key, .kind = MOEC_PAIR_NONE};
    if (node->kind == NODE_NUMBER) {
        pair.kind = MOEC_PAIR_NUMBER;
        pair.number = node->number;
    } else if (is_flag(node)) {
        pair.kind = MOEC_PAIR_FLAG;
        pair.number = is_named_word(node, "true");
    } else if (node->kind == NODE_STRING) {
        pair.kind = MOEC_PAIR_TEXT;
        pair.text = node->name;
    } else if (node->kind == NODE_LIST) {
        Text text = text_new(arena);
        for (int i = 0; i < node->count; i++)
            text_add(&text, "%s%s", i ? "\n" : "", ((Node *)node->kids[i])->name);
        pair.kind = MOEC_PAIR_LIST;
        pair.text = text.text;
    }
    return pair;
}

static bool same_pair(const MoecPair *a, const MoecPair *b) {
    if (a->kind != b->kind) return false;
    if (a->kind == MOEC_PAIR_NONE) return true;
    if (a->kind == MOEC_PAIR_NUMBER || a->kind == MOEC_PAIR_FLAG) return a->number == b->number;
    return strcmp(a->text, b->text) == 0;
}

static const MoecPair *find_config_pair(const MoecPair *pairs, int count, const char *key) {
    for (int i = 0; i < count; i++)
        if (strcmp(pairs[i].key, key) == 0) return &pairs[i];
    return NULL;
}

static const Node *first_rule(const Layout *layout) {
    LIST_EACH(const Node, rule, &layout->rules)
        if (rule->kind == NODE_RULE) return rule;
    return NULL;
}

static bool has_rule_for_key(const Layout *layout, const char *key) {
    for (int i = 0; i < layout->rules.count; i++)
        if (strcmp(((Node *)layout->rules.items[i])->name, key) == 0) return true;
    return false;
}

int layout_recognises(Unit *unit, const Layout *layout, const MoecPair *pairs, int count) {
    const Node *rule = first_rule(layout);
    const MoecPair *pair = find_config_pair(pairs, count, rule->name);
    int known = 0;
    if (!pair || !layout_constant(rule->kids[0])) return 0;
    MoecPair wanted = constant_pair(unit->arena, rule->name, rule->kids[0]);
    for (int i = 0; i < count; i++) known += has_rule_for_key(layout, pairs[i].key);
    return same_pair(pair, &wanted) ? known : 0;
}

/* ---- reading ---- */

static OptionSlot *path_slot(const ConfigReading *reading, const char *path) {
    return list_named(&reading->slots, offsetof(OptionSlot, path), path);
}

static void add_slots(ConfigReading *reading, const Node *value) {
    if (layout_repeated(value, NULL)) value = layout_repeated(value, NULL);
    const char *path = layout_constant(value) ? NULL : layout_path(reading->arena, value);
    if (path && !path_slot(reading, path)) {
        OptionSlot *slot = arena_alloc(reading->arena, sizeof *slot);
        slot->path = path;
        list_push(reading->arena, &reading->slots, slot);
    }
    if (path || layout_constant(value)) return;
    for (int i = 0; i < value->count; i++) add_slots(reading, value->kids[i]);
}

static void set_number(ConfigReading *reading, OptionSlot *slot, double number) {
    slot->number = number;
    slot->is_number = true;
    slot->text = shortest_number_text(reading->arena, number);
}

static bool slot_number(void *context, const char *path, double *value) {
    const OptionSlot *slot = path_slot(context, path);
    if (!slot || !slot->text || !slot->is_number) return false;
    *value = slot->number;
    return true;
}

/* A value as text for messages; `none` is "null". */
static const char *pair_text(Arena *arena, const MoecPair *pair) {
    switch (pair->kind) {
    case MOEC_PAIR_NONE:
        return "null";
    case MOEC_PAIR_FLAG:
        return pair->number != 0 ? "true" : "false";
    case MOEC_PAIR_NUMBER:
        return shortest_number_text(arena, pair->number);
    default:
        return arena_format(arena, "\"%.*s\"", utf8_cut(pair->text, 80), pair->text);
    }
}

/* The shortest texts of the numbers of a list; NULL if it contains other values. */
static const char *number_list_text(Arena *arena, const char *list) {
    Text text = {.arena = arena};
    const char *at = list + strspn(list, "[ ");
    if (*list != '[' || !*at || *at == ']') return NULL;
    for (char *end; *at && *at != ']'; at = end + strspn(end, ", ")) {
        double number = strtod(at, &end);
        if (end == at) return NULL;
        text_add(&text, "%s%s", text.length ? ", " : "[", shortest_number_text(arena, number));
    }
    text_add(&text, "]");
    return text.text;
}

static bool is_name(const char *text) {
    if (!isalpha((unsigned char)*text) && *text != '_') return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && *text != '_') return false;
    return true;
}

static void report_unsupported(const ConfigReading *reading, const Node *rule, const char *verb,
                               const char *value) {
    Reports *reports = reading->unit->reports;
    const char *known = layout_known_words(reading->arena, rule);
    report_error(reports, rule->span,
                 "config.json: key \"%s\" %s %s, which layout '%s' does not support", rule->name,
                 verb, value, reading->layout->name);
    report_help(reports, *known ? "use one of %s" : "write a custom layout (stdlib/LAYOUTS.md)",
                known);
}

static void set_slot(ConfigReading *reading, OptionSlot *slot, const Node *rule,
                     const MoecPair *pair) {
    if (pair->kind == MOEC_PAIR_FLAG) slot->text = pair->number != 0 ? "true" : "false";
    if (pair->kind == MOEC_PAIR_TEXT && is_name(pair->text))
        slot->text = layout_our_word(rule, pair->text);
    if (pair->kind == MOEC_PAIR_OTHER) slot->text = number_list_text(reading->arena, pair->text);
    if (pair->kind == MOEC_PAIR_NUMBER) {
        const Node *limits = rule->kids[1] ? rule->kids[1]->kids[0] : NULL;
        const Node *most = limits && limits->kind == NODE_RANGE ? limits->kids[1] : NULL;
        set_number(reading, slot, most ? fmin(pair->number, most->number) : pair->number);
    }
    if (slot->text) return;
    report_unsupported(reading, rule, "is", pair_text(reading->arena, pair));
    slot->text = "none";
}

/* Checks the length of a list against another key of the configuration, if that is known. */
static bool list_fits(ConfigReading *reading, const Node *rule, const Node *count,
                      const MoecPair *pair) {
    double wanted;
    long found = *pair->text != '\0';
    for (const char *at = pair->text; (at = strchr(at, '\n')); at++) found++;
    if (!layout_number(reading->arena, count, slot_number, reading, &wanted) || found == wanted)
        return true;
    return report_error(reading->unit->reports, rule->span,
                        "config.json: key \"%s\" has %ld entries, expected %.0f", rule->name, found,
                        wanted);
}

/* Sets the repeated part of a list: layer_types = repeat(pattern, layers) */
static void set_pattern(ConfigReading *reading, OptionSlot *slot, const Node *rule,
                        const Node *count, const MoecPair *pair) {
    const char *unknown = NULL;
    slot->text = "none";
    if (!list_fits(reading, rule, count, pair)) return;
    slot->text = layout_pattern(reading->arena, rule, pair->text, &unknown);
    if (slot->text) return;
    report_unsupported(reading, rule, "contains",
                       arena_format(reading->arena, "\"%.*s\"", utf8_cut(unknown, 60), unknown));
    slot->text = "none";
}

/* The number of unknown options in an expression; *open receives one of them. */
static int open_slots(const ConfigReading *reading, const Node *value, OptionSlot **open) {
    const char *path = layout_path(reading->arena, value);
    if (path) {
        OptionSlot *slot = path_slot(reading, path);
        if (slot && slot->text) return 0;
        *open = slot;
        return 1;
    }
    int count = 0;
    for (int i = 0; i < value->count; i++) count += open_slots(reading, value->kids[i], open);
    return count;
}

/* The operand that results in `number` together with `other`; first: it is the left operand. */
static double inverse(char operation, bool first, double number, double other) {
    switch (operation) {
    case '+':
        return number - other;
    case '-':
        return first ? number + other : other - number;
    case '*':
        return number / other;
    case '/':
        return first ? number * other : other / number;
    default:
        return first ? pow(number, 1 / other) : log(number) / log(other);
    }
}

/* The value of the unknown option in `value` if `value` equals `number`. */
static double undo(ConfigReading *reading, const Node *value, double number) {
    double other;
    if (value->kind == NODE_UNARY) return undo(reading, value->kids[0], -number);
    if (value->kind != NODE_BINARY) return number;
    for (int i = 0; i < 2; i++)
        if (layout_number(reading->arena, value->kids[i], slot_number, reading, &other))
            return undo(reading, value->kids[1 - i], inverse(*value->name, i == 1, number, other));
    return NAN;
}

/* Rounds the result of a division or root that is close to an integer. */
static double near_whole(double number) {
    double whole = nearbyint(number);
    return fabs(number - whole) < 1e-6 * fabs(number) ? whole : number;
}

static void solve_rule(ConfigReading *reading, const Node *rule, const Node *value, double number) {
    OptionSlot *open = NULL;
    if (open_slots(reading, value, &open) != 1 || !open) return;
    double found = undo(reading, value, number);
    if (isfinite(found))
        set_number(reading, open, near_whole(found));
    else
        report_error(reading->unit->reports, rule->span,
                     "config.json: no value of '%s' results in %s = %g", open->path, rule->name,
                     number);
}

static void check_constant(ConfigReading *reading, const Node *rule, const MoecPair *pair) {
    MoecPair wanted = constant_pair(reading->arena, rule->name, rule->kids[0]);
    if (same_pair(pair, &wanted) ||
        (pair->kind == MOEC_PAIR_NONE && rule != first_rule(reading->layout)))
        return;
    report_error(reading->unit->reports, rule->span,
                 "config.json: key \"%s\" is %s, but layout '%s' requires %s", pair->key,
                 pair_text(reading->arena, pair), reading->layout->name,
                 pair_text(reading->arena, &wanted));
    report_help(reading->unit->reports,
                "write a custom layout that begins with `layout NAME = %s {` and pass it with "
                "--layout FILE",
                reading->layout->name);
}

static void read_rule_value(ConfigReading *reading, const Node *rule, const Node *value,
                            const MoecPair *pair) {
    const Node *count = NULL, *repeated = layout_repeated(value, &count);
    if (repeated) value = repeated;
    const char *path = layout_path(reading->arena, value);
    if (path) {
        OptionSlot *slot = path_slot(reading, path);
        if (slot->text) return;
        if (repeated && pair->kind == MOEC_PAIR_LIST)
            set_pattern(reading, slot, rule, count, pair);
        else
            set_slot(reading, slot, rule, pair);
    } else if (value->kind == NODE_LIST) {
        for (int i = 0; i < value->count; i++) read_rule_value(reading, rule, value->kids[i], pair);
    } else if (pair->kind == MOEC_PAIR_NUMBER) {
        solve_rule(reading, rule, value, pair->number);
    }
}

/* The value of a key; of a key with nested keys, the value of the first one. */
static const MoecPair *config_value_of(const ConfigReading *reading, const char *key) {
    const MoecPair *pair = find_config_pair(reading->pairs, reading->count, key);
    size_t length = strlen(key);
    for (int i = 0; i < reading->count && !pair; i++)
        if (!strncmp(reading->pairs[i].key, key, length) && reading->pairs[i].key[length] == '.')
            pair = &reading->pairs[i];
    return pair;
}

/* null for an option with a minimum means a value below the minimum. */
static void read_null(ConfigReading *reading, const Node *rule) {
    const Node *limits = rule->kids[1] ? rule->kids[1]->kids[0] : NULL;
    const char *path = layout_path(reading->arena, rule->kids[0]);
    if (path && limits && limits->kind == NODE_RANGE && limits->kids[0])
        path_slot(reading, path)->null = true;
}

/* Integers are sizes; other numbers are tolerances and factors, which seldom differ from the
 * default. Of several options with the same number, the first one determines the others. */
static void note_told(ConfigReading *reading, const Node *value, const MoecPair *pair) {
    const Node *first = value->kind == NODE_LIST ? value->kids[0] : value;
    const char *path = layout_path(reading->arena, first);
    if (path && pair->kind == MOEC_PAIR_NUMBER && pair->number == floor(pair->number))
        path_slot(reading, path)->told = true;
}

/* Whether the condition of a rule holds, as far as the options are known. */
static bool condition_holds(const ConfigReading *reading, const Node *rule) {
    const Node *condition = rule->kids[3];
    if (!condition) return true;
    const OptionSlot *slot = path_slot(reading, layout_path(reading->arena, condition->kids[0]));
    return slot && slot->text && strcmp(slot->text, condition->kids[1]->name) == 0;
}

static void read_rule(ConfigReading *reading, const Node *rule) {
    const MoecPair *pair = config_value_of(reading, rule->name);
    if (!pair || !condition_holds(reading, rule)) return;
    if (layout_constant(rule->kids[0])) {
        check_constant(reading, rule, pair);
    } else if (pair->kind == MOEC_PAIR_NONE) {
        read_null(reading, rule);
    } else {
        read_rule_value(reading, rule, rule->kids[0], pair);
        note_told(reading, rule->kids[0], pair);
    }
}

/* Uses the value after `else` for a key that the configuration lacks. In the last pass, an unknown
 * option is an error. */
static void read_otherwise(ConfigReading *reading, const Node *rule, const Node *value, bool last) {
    if (value->kind == NODE_LIST) {
        for (int i = 0; i < value->count; i++) read_otherwise(reading, rule, value->kids[i], last);
        return;
    }
    if (layout_repeated(value, NULL)) value = layout_repeated(value, NULL);
    const char *path = layout_path(reading->arena, value);
    OptionSlot *slot = path ? path_slot(reading, path) : NULL;
    const Node *otherwise = rule->kids[2];
    double number;
    OptionSlot *open = NULL;
    if (layout_constant(value) || !condition_holds(reading, rule) ||
        !open_slots(reading, value, &open) || (slot && slot->null))
        return;
    if (!otherwise && last) {
        report_error(reading->unit->reports, rule->span,
                     "config.json: missing key \"%s\", required by layout '%s'", rule->name,
                     reading->layout->name);
        report_help(reading->unit->reports, "add \"%s\" to config.json", rule->name);
    } else if (!otherwise) {
        return;
    } else if (layout_number(reading->arena, otherwise, slot_number, reading, &number)) {
        if (slot)
            set_number(reading, slot, number);
        else
            solve_rule(reading, rule, value, number);
    } else if (slot && otherwise->kind == NODE_NAME && !is_named_word(otherwise, "none")) {
        slot->text = otherwise->name;
    } else if (slot && otherwise->kind == NODE_LIST) {
        slot->text = layout_word_list(reading->arena, otherwise);
    }
}

/* Reads an option that is constant in the family. */
static void read_fixed_entry(ConfigReading *reading, const Node *entry) {
    OptionSlot *slot = path_slot(reading, entry->name);
    const Node *value = entry->kids[0];
    double number;
    if (slot->text) return;
    slot->fixed = true;
    if (layout_number(reading->arena, value, slot_number, reading, &number))
        set_number(reading, slot, number);
    else
        slot->text =
            value->kind == NODE_NAME ? value->name : layout_word_list(reading->arena, value);
    if (!slot->text)
        report_error(reading->unit->reports, value->span,
                     "expected a number, a word, a list of words or arithmetic over options");
}

static void make_slots(ConfigReading *reading) {
    const List *rules = &reading->layout->rules;
    LIST_EACH(const Node, rule, rules) {
        if (rule->kind == NODE_RULE) {
            add_slots(reading, rule->kids[0]);
            continue;
        }
        OptionSlot *slot = arena_alloc(reading->arena, sizeof *slot);
        slot->path = rule->name;
        if (!path_slot(reading, rule->name)) list_push(reading->arena, &reading->slots, slot);
    }
}

bool layout_unread(const Layout *layout, const char *key) {
    LIST_EACH(const Node, node, &layout->unread) {
        size_t length = strlen(node->name);
        if (strncmp(node->name, key, length) == 0 && (!key[length] || key[length] == '.'))
            return true;
    }
    return false;
}

static bool knows(const ConfigReading *reading, const char *key) {
    return has_rule_for_key(reading->layout, key) || layout_unread(reading->layout, key);
}

List layout_options(Unit *unit, const Layout *layout, const MoecPair *pairs, int count,
                    List *others) {
    ConfigReading reading = {
        .unit = unit, .arena = unit->arena, .layout = layout, .pairs = pairs, .count = count};
    const List *rules = &layout->rules;
    List options = {0};
    make_slots(&reading);
    LIST_EACH(const Node, rule, rules) {
        if (rule->kind == NODE_RULE)
            read_rule(&reading, rule);
        else
            read_fixed_entry(&reading, rule);
    }
    for (int i = 0; i < 2 * rules->count; i++) {
        const Node *rule = rules->items[i % rules->count];
        if (rule->kind != NODE_RULE) continue;
        if (!layout_constant(rule->kids[0]))
            read_rule(&reading, rule); /* with the options known so far */
        read_otherwise(&reading, rule, rule->kids[0], i >= rules->count);
    }
    for (int i = 0; i < count; i++)
        if (!knows(&reading, pairs[i].key) && pairs[i].kind != MOEC_PAIR_NONE)
            list_push(unit->arena, others, (void *)pairs[i].key);
    LIST_EACH(const OptionSlot, slot, &reading.slots) {
        if (!slot->text) continue;
        LayoutOption *option = arena_alloc(unit->arena, sizeof *option);
        bool outermost = !strchr(slot->path, '.');
        *option = (LayoutOption){slot->path, slot->text, !slot->fixed && (slot->told || outermost)};
        list_push(unit->arena, &options, option);
    }
    return options;
}

/* ---- the spec ---- */

/* The options below `prefix`; each group is at the position of its first option. */
static void add_option_group(Text *text, const List *options, const char *prefix, int depth) {
    size_t length = strlen(prefix);
    const char *separator = depth ? " " : "\n  ";
    bool first = true;
    for (int i = 0; i < options->count; i++) {
        const LayoutOption *option = options->items[i];
        if (strncmp(option->path, prefix, length) != 0) continue;
        const char *name = option->path + length;
        size_t head = strcspn(name, ".");
        bool seen = false, grouped = false;
        const char *own = NULL;
        for (int j = 0; j < options->count; j++) {
            const LayoutOption *other = options->items[j];
            if (strncmp(other->path, option->path, length + head) != 0) continue;
            if (other->path[length + head] == '.') grouped = true;
            if (!other->path[length + head]) own = other->text;
            seen = seen ||
                   (j < i && (other->path[length + head] == '.' || !other->path[length + head]));
        }
        if (seen) continue;
        text_add(text, "%s%s%.*s = ", first || !depth ? "" : ",", separator, (int)head, name);
        first = false;
        if (own) text_add(text, "%s", own);
        if (!grouped) continue;
        const char *inner = arena_format(text->arena, "%.*s.", (int)(length + head), option->path);
        text_add(text, "%s{", own ? " " : "");
        add_option_group(text, options, inner, depth + 1);
        text_add(text, " }");
    }
}

char *layout_spec(Arena *arena, const Layout *layout, const char *name, const List *options) {
    Text text = {.arena = arena};
    text_add(&text, "# Imported by the layout '%s'.\n", layout->name);
    for (int i = 0; i < layout->files.count; i++)
        text_add(&text, "use %s\n", (const char *)layout->files.items[i]);
    text_add(&text, "\nmodel %s = %s {", name, layout->base);
    add_option_group(&text, options, "", 0);
    text_add(&text, "\n}\n");
    return text.text;
}

/* ---- options to configuration ---- */

bool layout_option_number(void *context, const char *path, double *value) {
    *value = moec_option_number(context, path, NAN);
    return !isnan(*value);
}

static bool option_pair(MoecCompiler *model, const char *path, MoecPair *pair) {
    const char *text = moec_option(model, path);
    double number = moec_option_number(model, path, NAN);
    if (!text) return false;
    pair->text = text;
    pair->kind = MOEC_PAIR_TEXT;
    if (!isnan(number)) {
        pair->kind = MOEC_PAIR_NUMBER;
        pair->number = number;
        pair->real = moec_option_real(model, path);
    } else if (!strcmp(text, "true") || !strcmp(text, "false")) {
        pair->kind = MOEC_PAIR_FLAG;
        pair->number = !strcmp(text, "true");
    } else if (!strcmp(text, "none")) {
        pair->kind = MOEC_PAIR_NONE;
    } else if (*text == '[' && isdigit((unsigned char)text[1])) {
        pair->kind = MOEC_PAIR_OTHER;
    }
    return true;
}

/* Translates the value of an option; false if the configuration has no word for it. */
static bool word_pair(Unit *unit, const Node *rule, MoecCompiler *model, const char *path,
                      MoecPair *pair) {
    if (!option_pair(model, path, pair)) return false;
    const Node *limits = rule->kids[1] ? rule->kids[1]->kids[0] : NULL;
    bool words = limits && limits->kind == NODE_RECORD;
    if (limits && limits->kind == NODE_RANGE && limits->kids[0] && pair->kind == MOEC_PAIR_NUMBER &&
        pair->number < limits->kids[0]->number)
        pair->kind = MOEC_PAIR_NONE;
    pair->least = limits && limits->kind == NODE_RANGE && limits->kids[1] &&
                  pair->number >= limits->kids[1]->number;
    if (!words && pair->kind != MOEC_PAIR_TEXT) return true;
    pair->text = layout_their_word(unit->arena, rule, pair->text);
    pair->kind = MOEC_PAIR_TEXT;
    return pair->text != NULL;
}

/* Compares only the first word: "yarn_rotary { factor = 4 }" is yarn_rotary. */
static bool model_holds(Arena *arena, const Node *condition, MoecCompiler *model) {
    const char *text = moec_option(model, layout_path(arena, condition->kids[0]));
    const char *word = condition->kids[1]->name;
    return text && strlen(word) == strcspn(text, " {") && !strncmp(text, word, strlen(word));
}

static bool rule_pair(Unit *unit, const Node *rule, MoecCompiler *model, MoecPair *pair) {
    const Node *value = rule->kids[0], *times = NULL;
    *pair = (MoecPair){.key = rule->name};
    if (rule->kids[3] && !model_holds(unit->arena, rule->kids[3], model)) return false;
    if (layout_constant(value)) {
        *pair = constant_pair(unit->arena, rule->name, value);
        return true;
    }
    const Node *repeated = layout_repeated(value, &times);
    if (repeated) {
        const char *list = moec_option(model, layout_path(unit->arena, repeated));
        double count = 0;
        if (!list || !layout_number(unit->arena, times, layout_option_number, model, &count))
            return false;
        pair->kind = MOEC_PAIR_LIST;
        pair->text = layout_lines(unit->arena, rule, list, (long)count);
        return pair->text != NULL;
    }
    if (value->kind == NODE_LIST) value = value->kids[0];
    const char *path = layout_path(unit->arena, value);
    if (path) return word_pair(unit, rule, model, path, pair);
    pair->kind = MOEC_PAIR_NUMBER;
    if (!layout_number(unit->arena, value, layout_option_number, model, &pair->number))
        return false;
    pair->number = near_whole(pair->number);
    return true;
}

/* A pair of a rule with a condition replaces the pair of the rule without one. */
static void set_config_pair(Arena *arena, List *pairs, const MoecPair *pair) {
    LIST_EACH(MoecPair, before, pairs) {
        if (strcmp(before->key, pair->key) != 0) continue;
        *before = *pair;
        return;
    }
    MoecPair *copy = arena_alloc(arena, sizeof *copy);
    *copy = *pair;
    list_push(arena, pairs, copy);
}

List layout_pairs(Unit *unit, const Layout *layout, MoecCompiler *model) {
    List pairs = {0};
    MoecPair pair;
    LIST_EACH(const Node, rule, &layout->rules)
        if (rule->kind == NODE_RULE && rule_pair(unit, rule, model, &pair))
            set_config_pair(unit->arena, &pairs, &pair);
    return pairs;
}
