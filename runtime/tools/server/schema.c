/* A JSON schema as a grammar. The texts are JSON with at most one space, or one end of line and up
 * to SPACES spaces, between its parts. */
#include "tools/server/internal.h"

#include "abi/json_make.h"
#include "abi/utf8_cut.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { SPACES = 20, DIGITS = 15, LARGEST = 1 << 17, MOST_REPEATED = 10000, DEEPEST_SCHEMA = 64 };

/* Rules that all schemas share. */
typedef struct JsonRules {
    int space, character, rest_of_string, integer, number, value, pairs;
} JsonRules;

typedef struct SchemaReading {
    Grammar *grammar;
    JsonRules rules;
    const json_t *root;
    json_t *references; /* rules by "$ref" */
    const char *param;
    Problem *problem;
    int depth;
} SchemaReading;

/* ---- JSON ---- */

#define RANGE_NODE(grammar, next, ...)                                                             \
    grammar_range(grammar, (const ByteRange[]){__VA_ARGS__},                                       \
                  sizeof((const ByteRange[]){__VA_ARGS__}) / sizeof(ByteRange), next)

static int literal_node(Grammar *grammar, const char *text, int next) {
    return grammar_text(grammar, text, strlen(text), next);
}

/* Up to `most` bytes of the range. */
static int up_to(Grammar *grammar, ByteRange range, int most, int next) {
    int node = next;
    for (int i = 0; i < most; i++)
        node = grammar_either(grammar, grammar_range(grammar, &range, 1, node), next);
    return node;
}

static int define_space(Grammar *grammar) {
    int rule = grammar_rule(grammar);
    int line =
        literal_node(grammar, "\n", up_to(grammar, (ByteRange){' ', ' '}, SPACES, GRAMMAR_END));
    grammar_define(grammar, rule,
                   grammar_either(grammar, line,
                                  grammar_either(grammar, literal_node(grammar, " ", GRAMMAR_END),
                                                 GRAMMAR_END)));
    return rule;
}

/* A character in quotes: UTF-8, or with a backslash. A \u names no surrogate. */
static int define_character(Grammar *g) {
    int rule = grammar_rule(g), end = GRAMMAR_END;
    int hex = RANGE_NODE(g, end, {'0', '9'}, {'a', 'f'}, {'A', 'F'});
    int hex2 = RANGE_NODE(g, hex, {'0', '9'}, {'a', 'f'}, {'A', 'F'});
    int hex3 = RANGE_NODE(g, hex2, {'0', '9'}, {'a', 'f'}, {'A', 'F'});
    int plain = RANGE_NODE(g, hex3, {'0', '9'}, {'a', 'c'}, {'e', 'f'}, {'A', 'C'}, {'E', 'F'});
    int low = RANGE_NODE(g, RANGE_NODE(g, hex2, {'0', '7'}), {'d', 'd'}, {'D', 'D'});
    int letter = RANGE_NODE(g, end, {'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'},
                            {'n', 'n'}, {'r', 'r'}, {'t', 't'});
    int escaped = grammar_either(g, letter, literal_node(g, "u", grammar_either(g, plain, low)));
    int one = RANGE_NODE(g, end, {0x80, 0xBF}), two = RANGE_NODE(g, one, {0x80, 0xBF}),
        three = RANGE_NODE(g, two, {0x80, 0xBF});
    const int kinds[] = {
        RANGE_NODE(g, end, {' ', '!'}, {'#', '['}, {']', '~'}),
        literal_node(g, "\\", escaped),
        RANGE_NODE(g, one, {0xC2, 0xDF}),
        RANGE_NODE(g, RANGE_NODE(g, one, {0xA0, 0xBF}), {0xE0, 0xE0}),
        RANGE_NODE(g, two, {0xE1, 0xEC}, {0xEE, 0xEF}),
        RANGE_NODE(g, RANGE_NODE(g, one, {0x80, 0x9F}), {0xED, 0xED}),
        RANGE_NODE(g, RANGE_NODE(g, two, {0x90, 0xBF}), {0xF0, 0xF0}),
        RANGE_NODE(g, three, {0xF1, 0xF3}),
        RANGE_NODE(g, RANGE_NODE(g, two, {0x80, 0x8F}), {0xF4, 0xF4}),
    };
    int node = kinds[0];
    for (size_t i = 1; i < sizeof kinds / sizeof *kinds; i++)
        node = grammar_either(g, kinds[i], node);
    grammar_define(g, rule, node);
    return rule;
}

/* Characters up to the closing quote. */
static int define_rest_of_string(Grammar *grammar, int character) {
    int rule = grammar_rule(grammar);
    int more = grammar_call(grammar, character, grammar_call(grammar, rule, GRAMMAR_END));
    grammar_define(grammar, rule,
                   grammar_either(grammar, more, literal_node(grammar, "\"", GRAMMAR_END)));
    return rule;
}

static int define_integer(Grammar *grammar) {
    int rule = grammar_rule(grammar);
    int digits = up_to(grammar, (ByteRange){'0', '9'}, DIGITS - 1, GRAMMAR_END);
    int size = grammar_either(grammar, RANGE_NODE(grammar, digits, {'1', '9'}),
                              literal_node(grammar, "0", GRAMMAR_END));
    grammar_define(grammar, rule, grammar_either(grammar, literal_node(grammar, "-", size), size));
    return rule;
}

static int define_number(Grammar *grammar, int integer) {
    const ByteRange digit = {'0', '9'};
    int rule = grammar_rule(grammar);
    int power = grammar_range(
        grammar, &digit, 1,
        grammar_either(grammar, grammar_range(grammar, &digit, 1, GRAMMAR_END), GRAMMAR_END));
    int sign = grammar_either(grammar, RANGE_NODE(grammar, power, {'+', '+'}, {'-', '-'}), power);
    int exponent =
        grammar_either(grammar, RANGE_NODE(grammar, sign, {'e', 'e'}, {'E', 'E'}), GRAMMAR_END);
    int digits = grammar_range(grammar, &digit, 1, up_to(grammar, digit, DIGITS - 1, exponent));
    int fraction = grammar_either(grammar, literal_node(grammar, ".", digits), exponent);
    grammar_define(grammar, rule, grammar_call(grammar, integer, fraction));
    return rule;
}

static int string_node(const SchemaReading *reading, int next) {
    return literal_node(reading->grammar, "\"",
                        grammar_call(reading->grammar, reading->rules.rest_of_string, next));
}

static int space_node(const SchemaReading *reading, int next) {
    return grammar_call(reading->grammar, reading->rules.space, next);
}

/* Any number of items, which follow a rule, between two signs. */
static int list_node(const SchemaReading *reading, const char *open, const char *close, int item,
                     int next) {
    Grammar *grammar = reading->grammar;
    int rest = grammar_rule(grammar);
    int more = literal_node(
        grammar, ",",
        space_node(reading, grammar_call(grammar, item, grammar_call(grammar, rest, GRAMMAR_END))));
    int end = space_node(reading, literal_node(grammar, close, GRAMMAR_END));
    grammar_define(grammar, rest, grammar_either(grammar, more, end));
    int some = grammar_call(grammar, item, grammar_call(grammar, rest, next));
    return literal_node(
        grammar, open,
        space_node(reading, grammar_either(grammar, some, literal_node(grammar, close, next))));
}

/* An object of any names with values of the rule. */
static int map_node(const SchemaReading *reading, int value, int next) {
    Grammar *grammar = reading->grammar;
    int pair = grammar_rule(grammar);
    grammar_define(
        grammar, pair,
        string_node(reading,
                    literal_node(grammar, ":",
                                 space_node(reading, grammar_call(grammar, value, GRAMMAR_END)))));
    return list_node(reading, "{", "}", pair, next);
}

static void define_json(SchemaReading *reading) {
    Grammar *g = reading->grammar;
    JsonRules *rules = &reading->rules;
    rules->space = define_space(g);
    rules->character = define_character(g);
    rules->rest_of_string = define_rest_of_string(g, rules->character);
    rules->integer = define_integer(g);
    rules->number = define_number(g, rules->integer);
    rules->value = grammar_rule(g);
    rules->pairs = grammar_rule(g);
    grammar_define(g, rules->pairs, map_node(reading, rules->value, GRAMMAR_END));
    const int kinds[] = {string_node(reading, GRAMMAR_END),
                         grammar_call(g, rules->number, GRAMMAR_END),
                         grammar_call(g, rules->pairs, GRAMMAR_END),
                         list_node(reading, "[", "]", rules->value, GRAMMAR_END),
                         literal_node(g, "true", GRAMMAR_END),
                         literal_node(g, "false", GRAMMAR_END)};
    int node = literal_node(g, "null", GRAMMAR_END);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        node = grammar_either(g, kinds[i], node);
    grammar_define(g, rules->value, node);
}

/* ---- schemas ---- */

static int schema_node(SchemaReading *reading, const json_t *schema, int next);

static int schema_wrong(SchemaReading *reading, const char *keyword, const char *what) {
    problem_set(reading->problem, 400, reading->param, "'%.*s' in the JSON schema %s",
                utf8_cut(keyword, 60), keyword, what);
    return -1;
}

/* A rule for a schema; -1 after a problem. */
static int schema_rule(SchemaReading *reading, const json_t *schema) {
    int rule = grammar_rule(reading->grammar), node = schema_node(reading, schema, GRAMMAR_END);
    if (node < 0) return -1;
    grammar_define(reading->grammar, rule, node);
    return rule;
}

/* A count of the schema; -1 after a problem. */
static long schema_count(SchemaReading *reading, const json_t *schema, const char *name,
                         long missing) {
    const json_t *count = json_object_get(schema, name);
    if (!count) return missing;
    if (json_is_integer(count) && json_integer_value(count) >= 0 &&
        json_integer_value(count) <= MOST_REPEATED)
        return (long)json_integer_value(count);
    return schema_wrong(reading, name, "must be an integer from 0 to 10000");
}

/* Reads the bounds of a repetition; *most < 0: none. */
static bool schema_bounds(SchemaReading *reading, const json_t *schema, const char *least_name,
                          const char *most_name, long *least, long *most) {
    *least = schema_count(reading, schema, least_name, 0);
    *most = json_object_get(schema, most_name) ? schema_count(reading, schema, most_name, 0) : -1;
    if (reading->problem->status) return false;
    if (*most >= 0 && *most < *least) schema_wrong(reading, most_name, "is below the minimum");
    return !reading->problem->status;
}

static int schema_string(SchemaReading *reading, const json_t *schema, int next) {
    Grammar *grammar = reading->grammar;
    const JsonRules *rules = &reading->rules;
    long least, most;
    if (!schema_bounds(reading, schema, "minLength", "maxLength", &least, &most)) return -1;
    int close = literal_node(grammar, "\"", next);
    int node = most < 0 ? grammar_call(grammar, rules->rest_of_string, next) : close;
    for (long i = (most < 0 ? least : most) - 1; i >= 0; i--) {
        int more = grammar_call(grammar, rules->character, node);
        node = i >= least ? grammar_either(grammar, more, close) : more;
    }
    return literal_node(grammar, "\"", node);
}

static int schema_array(SchemaReading *reading, const json_t *schema, int next) {
    Grammar *grammar = reading->grammar;
    const json_t *items = json_object_get(schema, "items");
    long least, most;
    int item = items ? schema_rule(reading, items) : reading->rules.value;
    if (item < 0 || !schema_bounds(reading, schema, "minItems", "maxItems", &least, &most))
        return -1;
    if (!least && most < 0) return list_node(reading, "[", "]", item, next);
    int close = space_node(reading, literal_node(grammar, "]", next)), node = close;
    if (most < 0) {
        int rest = grammar_rule(grammar);
        int more = literal_node(
            grammar, ",",
            space_node(reading,
                       grammar_call(grammar, item, grammar_call(grammar, rest, GRAMMAR_END))));
        grammar_define(
            grammar, rest,
            grammar_either(grammar, more,
                           space_node(reading, literal_node(grammar, "]", GRAMMAR_END))));
        node = grammar_call(grammar, rest, next);
        most = least;
    }
    for (long i = most - 1; i >= 0; i--) {
        int more = grammar_call(grammar, item, node);
        if (i) more = literal_node(grammar, ",", space_node(reading, more));
        node = i >= least ? grammar_either(grammar, more, close) : more;
    }
    return literal_node(grammar, "[", space_node(reading, node));
}

static bool is_required(const json_t *schema, const char *name) {
    const json_t *required = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *other = json_string_value(json_array_get(required, i));
        if (other && strcmp(other, name) == 0) return true;
    }
    return false;
}

/* Whether `required` lists names of `properties` only. */
static bool check_required(SchemaReading *reading, const json_t *schema) {
    const json_t *required = json_object_get(schema, "required"),
                 *properties = json_object_get(schema, "properties");
    bool good = !required || json_is_array(required);
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        good = good && name && json_object_get(properties, name);
    }
    return good ||
           schema_wrong(reading, "required", "must be a list of names in 'properties'") >= 0;
}

static int key_node(const SchemaReading *reading, const char *name, int next) {
    json_auto_t *key = json_text(name);
    AUTO_FREE char *text = json_write(key, JSON_ENCODE_ANY);
    return literal_node(reading->grammar, text,
                        literal_node(reading->grammar, ":", space_node(reading, next)));
}

/* The listed properties in their order. `later`: continues after a property; `first`: before
 * any. */
static int schema_properties(SchemaReading *reading, const json_t *schema, int next) {
    Grammar *grammar = reading->grammar;
    json_t *properties = json_object_get(schema, "properties"), *value;
    const char *name;
    size_t count = json_object_size(properties), i = 0;
    AUTO_FREE const char **names = memory_new(sizeof *names * (count + 1));
    int later = space_node(reading, literal_node(grammar, "}", next)), first = later;
    json_object_foreach(properties, name, value) names[i++] = name;
    while (i-- > 0 && later >= 0) {
        int rule = schema_rule(reading, json_object_get(properties, names[i]));
        if (rule < 0) {
            later = -1;
            break;
        }
        int pair = key_node(reading, names[i], grammar_call(grammar, rule, later));
        bool optional = !is_required(schema, names[i]);
        int comma = literal_node(grammar, ",", space_node(reading, pair));
        first = optional ? grammar_either(grammar, pair, first) : pair;
        later = optional ? grammar_either(grammar, comma, later) : comma;
    }
    return later < 0 ? -1 : literal_node(grammar, "{", space_node(reading, first));
}

static int schema_object(SchemaReading *reading, const json_t *schema, int next) {
    const json_t *other = json_object_get(schema, "additionalProperties"),
                 *properties = json_object_get(schema, "properties");
    if (properties && !json_is_object(properties))
        return schema_wrong(reading, "properties", "must be an object");
    if (!check_required(reading, schema)) return -1;
    if (json_object_size(properties) || (properties && !other) || json_is_false(other))
        return schema_properties(reading, schema, next);
    int value = other && !json_is_true(other) ? schema_rule(reading, other) : reading->rules.value;
    return value < 0 ? -1 : map_node(reading, value, next);
}

static int schema_type(SchemaReading *reading, const json_t *schema, const char *type, int next) {
    Grammar *grammar = reading->grammar;
    const JsonRules *rules = &reading->rules;
    if (!strcmp(type, "object")) return schema_object(reading, schema, next);
    if (!strcmp(type, "array")) return schema_array(reading, schema, next);
    if (!strcmp(type, "string")) return schema_string(reading, schema, next);
    if (!strcmp(type, "integer")) return grammar_call(grammar, rules->integer, next);
    if (!strcmp(type, "number")) return grammar_call(grammar, rules->number, next);
    if (!strcmp(type, "null")) return literal_node(grammar, "null", next);
    if (!strcmp(type, "boolean"))
        return grammar_either(grammar, literal_node(grammar, "true", next),
                              literal_node(grammar, "false", next));
    return schema_wrong(reading, type, "is not a type");
}

/* One of several nodes, which `each` makes of the items of a list. */
static int schema_one_of(SchemaReading *reading, const json_t *schema, const char *keyword,
                         int next,
                         int (*each)(SchemaReading *reading, const json_t *schema,
                                     const json_t *item, int next)) {
    const json_t *list = json_object_get(schema, keyword);
    int all = -1;
    if (!json_array_size(list)) return schema_wrong(reading, keyword, "must be a list of values");
    for (size_t i = json_array_size(list); i-- > 0;) {
        int node = each(reading, schema, json_array_get(list, i), next);
        if (node < 0) return -1;
        all = all < 0 ? node : grammar_either(reading->grammar, node, all);
    }
    return all;
}

static int schema_value(SchemaReading *reading, const json_t *schema, const json_t *item,
                        int next) {
    (void)schema;
    AUTO_FREE char *text = json_write(item, JSON_COMPACT | JSON_ENCODE_ANY);
    return literal_node(reading->grammar, text, next);
}

static int schema_item(SchemaReading *reading, const json_t *schema, const json_t *item, int next) {
    (void)schema;
    return schema_node(reading, item, next);
}

static int schema_named_type(SchemaReading *reading, const json_t *schema, const json_t *item,
                             int next) {
    if (!json_is_string(item)) return schema_wrong(reading, "type", "must be a name");
    return schema_type(reading, schema, json_string_value(item), next);
}

/* ---- references: https://www.rfc-editor.org/rfc/rfc6901 ---- */

/* The part of the root at "#/a/b", or NULL. */
static const json_t *find_schema_part(const json_t *root, const char *pointer) {
    if (*pointer++ != '#') return NULL;
    while (*pointer == '/' && root) {
        size_t length = strcspn(++pointer, "/");
        Text name = {0};
        for (size_t i = 0; i < length; i++) {
            bool escaped = pointer[i] == '~' && i + 1 < length;
            char byte = escaped ? (pointer[++i] == '0' ? '~' : '/') : pointer[i];
            text_append(&name, &byte, 1);
        }
        root = name.length ? json_object_getn(root, name.bytes, name.length) : NULL;
        text_free(&name);
        pointer += length;
    }
    return *pointer ? NULL : root;
}

/* The rule of a referenced part, which can refer to itself. */
static int schema_reference(SchemaReading *reading, const json_t *reference, int next) {
    const char *pointer = json_string_value(reference);
    const json_t *part = pointer ? find_schema_part(reading->root, pointer) : NULL,
                 *known = pointer ? json_object_get(reading->references, pointer) : NULL;
    if (!part) return schema_wrong(reading, pointer ? pointer : "$ref", "refers to nothing in it");
    if (known) return grammar_call(reading->grammar, (int)json_integer_value(known), next);
    int rule = grammar_rule(reading->grammar);
    json_object_set_new(reading->references, pointer, json_integer(rule));
    int node = schema_node(reading, part, GRAMMAR_END);
    if (node < 0) return -1;
    grammar_define(reading->grammar, rule, node);
    return grammar_call(reading->grammar, rule, next);
}

/* ---- keywords ---- */

static bool check_keywords(SchemaReading *reading, const json_t *schema) {
    static const char *const known[] = {
        "$defs",     "$ref",       "$schema",  "$id",         "$comment",   "additionalProperties",
        "anyOf",     "const",      "default",  "definitions", "deprecated", "description",
        "enum",      "examples",   "items",    "maxItems",    "maxLength",  "minItems",
        "minLength", "properties", "required", "title",       "type",
    };
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, name, value) {
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strcmp(known[i], name) != 0) i++;
        if (i < sizeof known / sizeof *known) continue;
        schema_wrong(reading, name, "is not supported by this server");
        return false;
    }
    return true;
}

/* The type of the keywords that apply to one type only, for a schema without `type`. */
static const char *implied_type(const json_t *schema) {
    static const char *const implied[][2] = {
        {"properties", "object"}, {"required", "object"}, {"additionalProperties", "object"},
        {"items", "array"},       {"minItems", "array"},  {"maxItems", "array"},
        {"minLength", "string"},  {"maxLength", "string"}};
    for (size_t i = 0; i < sizeof implied / sizeof *implied; i++)
        if (json_object_get(schema, implied[i][0])) return implied[i][1];
    return NULL;
}

/* Whether a keyword is the only condition. */
static bool is_only_condition(SchemaReading *reading, const json_t *schema, const char *keyword) {
    static const char *const conditions[] = {"$ref", "anyOf", "const", "enum", "type"};
    bool alone = !implied_type(schema);
    for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++)
        alone =
            alone && (!json_object_get(schema, conditions[i]) || !strcmp(conditions[i], keyword));
    return alone ||
           schema_wrong(reading, keyword, "is not supported together with other conditions") >= 0;
}

static int schema_keywords(SchemaReading *reading, const json_t *schema, int next) {
    const json_t *reference = json_object_get(schema, "$ref"),
                 *constant = json_object_get(schema, "const"),
                 *type = json_object_get(schema, "type");
    if (reference)
        return is_only_condition(reading, schema, "$ref")
                   ? schema_reference(reading, reference, next)
                   : -1;
    if (constant) return schema_value(reading, schema, constant, next);
    if (json_object_get(schema, "enum"))
        return schema_one_of(reading, schema, "enum", next, schema_value);
    if (json_object_get(schema, "anyOf"))
        return is_only_condition(reading, schema, "anyOf")
                   ? schema_one_of(reading, schema, "anyOf", next, schema_item)
                   : -1;
    if (json_is_array(type)) return schema_one_of(reading, schema, "type", next, schema_named_type);
    if (type) return schema_named_type(reading, schema, type, next);
    if (implied_type(schema)) return schema_type(reading, schema, implied_type(schema), next);
    return grammar_call(reading->grammar, reading->rules.value, next);
}

static int schema_node(SchemaReading *reading, const json_t *schema, int next) {
    if (json_is_true(schema)) return grammar_call(reading->grammar, reading->rules.value, next);
    if (!json_is_object(schema)) {
        problem_set(reading->problem, 400, reading->param,
                    "a JSON schema must be an object or true");
        return -1;
    }
    if (!check_keywords(reading, schema)) return -1;
    reading->depth++;
    int node = reading->depth > DEEPEST_SCHEMA ? -1 : schema_keywords(reading, schema, next);
    reading->depth--;
    if (!reading->problem->status && (node < 0 || grammar_size(reading->grammar) > LARGEST)) {
        problem_set(reading->problem, 400, reading->param, "the JSON schema is too large");
        return -1;
    }
    return node;
}

/* ---- public ---- */

static SchemaReading reading_begin(const json_t *schema, const char *param, Problem *problem) {
    SchemaReading reading = {.grammar = grammar_new(),
                             .root = schema,
                             .references = json_object(),
                             .param = param,
                             .problem = problem};
    define_json(&reading);
    return reading;
}

/* The grammar, or NULL if there is no node. */
static Grammar *reading_end(const SchemaReading *reading, int node) {
    json_decref(reading->references);
    if (node >= 0) {
        grammar_define(reading->grammar, 0, node);
        return reading->grammar;
    }
    grammar_free(reading->grammar);
    return NULL;
}

Grammar *schema_grammar(const json_t *schema, const char *param, Problem *problem) {
    SchemaReading reading = reading_begin(schema, param, problem);
    return reading_end(&reading,
                       schema ? schema_node(&reading, schema, GRAMMAR_END)
                              : grammar_call(reading.grammar, reading.rules.pairs, GRAMMAR_END));
}

Grammar *schema_call_grammar(const json_t *functions, const char *param, Problem *problem) {
    SchemaReading reading = reading_begin(NULL, param, problem);
    Grammar *grammar = reading.grammar;
    int all = -1;
    for (size_t i = json_array_size(functions); i-- > 0;) {
        const json_t *function = json_array_get(functions, i);
        reading.root = json_object_get(function, "parameters");
        json_object_clear(reading.references);
        int rule = reading.root ? schema_rule(&reading, reading.root) : reading.rules.pairs;
        if (rule < 0) return reading_end(&reading, -1);
        int end = space_node(&reading, literal_node(grammar, "}", GRAMMAR_END));
        int arguments =
            literal_node(grammar, ",",
                         space_node(&reading, key_node(&reading, "arguments",
                                                       grammar_call(grammar, rule, end))));
        int name = schema_value(&reading, NULL, json_object_get(function, "name"), arguments);
        int node =
            literal_node(grammar, "{", space_node(&reading, key_node(&reading, "name", name)));
        all = all < 0 ? node : grammar_either(grammar, node, all);
    }
    return reading_end(&reading, all);
}
