/* diff: moec diff: differences of two models: options, cost, parameters, equations.
 *
 * Temporaries have numbers that make their names unique. Equations that differ only in such numbers
 * are equal if one renaming of the temporaries fits all of them:
 *
 *     act_y = sigmoid(g)       and      act_y_2 = sigmoid(g)
 *     h = act_y * u                     h = act_y_2 * u
 */
#include "abi/json_make.h"
#include "abi/quantity.h"
#include "base/memory.h"
#include "tools/command/line/commands.h"
#include "training/spec.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINES = 6000 };

/* The value of a key before and after. */
static json_t *change(json_t *before, json_t *after) {
    return json_make("{s:O, s:O}", "before", before, "after", after);
}

/* Options with different values, in the order of the second model, then those of the first model
 * only. null: the model does not have the option. */
static json_t *diff_options(MoecCompiler *first, MoecCompiler *second) {
    json_auto_t *one = json_loads(moec_options_json(first), 0, NULL),
                *other = json_loads(moec_options_json(second), 0, NULL);
    json_t *changes = json_object(), *value;
    const char *key;
    json_object_foreach(other, key, value) {
        json_t *before = json_object_get(one, key);
        if (!before || !json_equal(before, value))
            json_object_set_new(changes, key, change(before, value));
    }
    json_object_foreach(one, key, value) {
        if (!json_object_get(other, key)) json_object_set_new(changes, key, change(value, NULL));
    }
    return changes;
}

/* group: of moec_cost_json, or NULL; unit: NULL for counts. */
static const struct {
    const char *group, *name, *key, *text, *unit;
} costs[] = {
    {"params", "total", "parameters", "parameters", NULL},
    {"params", "active", "activated_parameters", "activated parameters", NULL},
    {"flops_per_token", "forward", "forward_flops_per_token", "computation, forward", "FLOP/token"},
    {"flops_per_token", "train", "train_flops_per_token", "computation, training", "FLOP/token"},
    {NULL, "cache_bytes_per_token", "cache_bytes_per_token", "KV cache", "B/token"},
    {NULL, "peak_bytes", "training_memory_bytes", "training memory", "B"},
};

static json_t *number_in(json_t *root, const char *group, const char *name) {
    return json_object_get(group ? json_object_get(root, group) : root, name);
}

/* NULL if a model has no cost: it has errors. */
static json_t *diff_cost(MoecCompiler *first, MoecCompiler *second) {
    const char *texts[] = {moec_cost_json(first), moec_cost_json(second)};
    if (!texts[0] || !texts[1]) return NULL;
    json_auto_t *one = json_loads(texts[0], 0, NULL), *other = json_loads(texts[1], 0, NULL);
    json_t *changes = json_object();
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        json_t *a = number_in(one, costs[i].group, costs[i].name),
               *b = number_in(other, costs[i].group, costs[i].name);
        if (json_number_value(a) != json_number_value(b))
            json_object_set_new(changes, costs[i].key, change(a, b));
    }
    return changes;
}

/* ---- parameters and equations: lines of the elaborated program ---- */

typedef struct Lines {
    char **items; /* in `text` */
    char **keys;  /* the same with unnumbered temporaries */
    long count;
    char *text;
    json_t *temporaries; /* set of names */
    json_t *mates;       /* the name of each temporary in the other program, as far as known */
} Lines;

static bool begins(const char *line, const char *word) {
    return strncmp(line, word, strlen(word)) == 0;
}

/* equations: else parameters and states. */
static bool is_listed_name(const char *line, bool equations) {
    static const char *const others[] = {"axis ", "input ", "temp ", "output ", "program "};
    while (*line == ' ') line++;
    bool parameter = begins(line, "parameter ") || begins(line, "state ");
    if (!equations) return parameter;
    for (int i = 0; i < 5; i++)
        if (begins(line, others[i])) return false;
    return !parameter && *line;
}

static size_t name_length(const char *at) {
    size_t length = 0;
    if (isalpha((unsigned char)*at) || *at == '_')
        while (isalnum((unsigned char)at[length]) || at[length] == '_') length++;
    return length;
}

/* Length of the name without its number: 5 of "act_y_2". */
static size_t stem_length(const char *name, size_t length) {
    size_t stem = length;
    while (stem > 0 && isdigit((unsigned char)name[stem - 1])) stem--;
    return stem > 1 && stem < length && name[stem - 1] == '_' ? stem - 1 : length;
}

/* The value of the key with a length. */
static json_t *named_side(json_t *object, const char *name, size_t length) {
    AUTO_FREE char *key = memory_format("%.*s", (int)length, name);
    return json_object_get(object, key);
}

static void set_named(json_t *object, const char *name, size_t length, json_t *value) {
    AUTO_FREE char *key = memory_format("%.*s", (int)length, name);
    json_object_set_new(object, key, value);
}

static bool is_temporary(const Lines *lines, const char *name, size_t length) {
    return named_side(lines->temporaries, name, length) != NULL;
}

/* A new string. */
static char *key_of(const Lines *lines, const char *line) {
    char *key = memory_new(strlen(line) + 1), *to = key;
    while (*line) {
        size_t length = name_length(line), kept = length ? length : 1;
        if (length && is_temporary(lines, line, length)) kept = stem_length(line, length);
        memcpy(to, line, kept);
        to += kept;
        line += length ? length : 1;
    }
    *to = '\0';
    return key;
}

static Lines lines_of(MoecCompiler *compiler, bool equations) {
    Lines lines = {.text = memory_format(
                       "%s", moec_dump(compiler, MOEC_FORWARD, "elaborate", moec_target("c"))),
                   .temporaries = json_object(),
                   .mates = json_object()};
    lines.items = memory_new(MAX_LINES * sizeof *lines.items);
    lines.keys = memory_new(MAX_LINES * sizeof *lines.keys);
    for (char *at = strtok(lines.text, "\n"); at && lines.count < MAX_LINES;
         at = strtok(NULL, "\n")) {
        const char *name = at + strspn(at, " ");
        if (begins(name, "temp ")) {
            name += strlen("temp ");
            set_named(lines.temporaries, name, name_length(name), json_true());
        }
        if (is_listed_name(at, equations)) lines.items[lines.count++] = at + strspn(at, " ");
    }
    for (long i = 0; i < lines.count; i++) lines.keys[i] = key_of(&lines, lines.items[i]);
    return lines;
}

static void free_lines(Lines *lines) {
    for (long i = 0; i < lines->count; i++) free(lines->keys[i]);
    json_decref(lines->temporaries);
    json_decref(lines->mates);
    free(lines->items);
    free(lines->keys);
    free(lines->text);
}

/* Whether the name is paired with the other one, or with none yet. */
static bool may_pair(const Lines *lines, const char *name, size_t length, const char *other,
                     size_t other_length) {
    json_t *mate = named_side(lines->mates, name, length);
    return !mate || (json_string_length(mate) == other_length &&
                     !memcmp(json_string_value(mate), other, other_length));
}

/* Pairs the temporaries of two lines with equal keys; false if they are paired otherwise. */
static bool pair_names(Lines *one, Lines *other, const char *a, const char *b) {
    while (*a && *b) {
        size_t length = name_length(a), other_length = name_length(b);
        if (length && is_temporary(one, a, length)) {
            if (!is_temporary(other, b, other_length) ||
                !may_pair(one, a, length, b, other_length) ||
                !may_pair(other, b, other_length, a, length))
                return false;
            set_named(one->mates, a, length, json_text_bytes(b, other_length));
            set_named(other->mates, b, other_length, json_text_bytes(a, length));
        }
        a += length ? length : 1;
        b += other_length ? other_length : 1;
    }
    return *a == *b;
}

/* lengths[i][j]: of the longest common subsequence of the keys from i and from j on. */
static unsigned *common_prefix(const Lines *one, const Lines *other) {
    size_t width = (size_t)other->count + 1;
    unsigned *lengths = memory_new(((size_t)one->count + 1) * width * sizeof *lengths);
    for (long i = one->count - 1; i >= 0; i--)
        for (long j = other->count - 1; j >= 0; j--) {
            unsigned *at = &lengths[(size_t)i * width + (size_t)j];
            unsigned down = at[width], right = at[1];
            *at = strcmp(one->keys[i], other->keys[j]) == 0 ? at[width + 1] + 1
                  : down > right                            ? down
                                                            : right;
        }
    return lengths;
}

static json_t *changed_line(const char *what, const char *line) {
    return json_make("{s:s, s:s}", "change", what, "line", line);
}

/* A list of removed and added lines. */
static json_t *diff_lines(MoecCompiler *first, MoecCompiler *second, bool equations) {
    Lines one = lines_of(first, equations), other = lines_of(second, equations);
    AUTO_FREE unsigned *lengths = common_prefix(&one, &other);
    size_t width = (size_t)other.count + 1;
    json_t *changes = json_array();
    for (long i = 0, j = 0; i < one.count || j < other.count;) {
        const unsigned *at = &lengths[(size_t)i * width + (size_t)j];
        bool both = i < one.count && j < other.count,
             same = both && strcmp(one.keys[i], other.keys[j]) == 0;
        if (same && pair_names(&one, &other, one.items[i], other.items[j])) {
            i++;
            j++;
            continue;
        }
        bool removed = same || j == other.count || (both && at[width] >= at[1]);
        if (removed) json_array_append_new(changes, changed_line("removed", one.items[i++]));
        if (same || !removed)
            json_array_append_new(changes, changed_line("added", other.items[j++]));
    }
    free_lines(&one);
    free_lines(&other);
    return changes;
}

/* ---- text ---- */

static const char *option_text(const json_t *value) {
    return json_is_null(value) ? "(none)" : json_string_value(value);
}

static void print_changed_options(json_t *options) {
    const char *key;
    json_t *one;
    if (json_object_size(options)) printf("options\n");
    json_object_foreach(options, key, one) {
        printf("    %-26s %s -> %s\n", key, option_text(json_object_get(one, "before")),
               option_text(json_object_get(one, "after")));
    }
}

/* Both numbers in the unit of the larger one. unit: NULL for counts. */
static void print_cost(const char *name, const char *unit, double a, double b) {
    QuantityScale scale = quantity_line(fmax(a, b), 4);
    if (!unit) scale = quantity_counts(scale);
    printf("    %-26s %s -> %s %s%s", name, quantity_in(a, scale).text, quantity_in(b, scale).text,
           scale.prefix, unit ? unit : "");
    if (a > 0) printf("  (%+.2f %%)", 100 * (b - a) / a);
    printf("\n");
}

static void print_costs(json_t *cost) {
    if (json_object_size(cost)) printf("cost\n");
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        json_t *one = json_object_get(cost, costs[i].key);
        if (one)
            print_cost(costs[i].text, costs[i].unit,
                       json_number_value(json_object_get(one, "before")),
                       json_number_value(json_object_get(one, "after")));
    }
}

static void print_lines(const json_t *lines, const char *title) {
    if (json_array_size(lines)) printf("%s\n", title);
    for (size_t i = 0; i < json_array_size(lines); i++) {
        json_t *line = json_array_get(lines, i);
        bool added = !strcmp(json_field_text(line, "change"), "added");
        printf("  %c %s\n", added ? '+' : '-', json_field_text(line, "line"));
    }
}

static void print_difference_text(json_t *found) {
    print_changed_options(json_object_get(found, "options"));
    print_costs(json_object_get(found, "cost"));
    print_lines(json_object_get(found, "parameters"), "parameters");
    print_lines(json_object_get(found, "equations"), "equations");
    if (json_is_true(json_object_get(found, "equal"))) printf("the models are equal\n");
}

/* ---- the command ---- */

static bool diff(MoecCompiler *first, MoecCompiler *second, bool json) {
    json_t *cost = diff_cost(first, second);
    if (!cost) return reports_good(first) && reports_good(second);
    json_t *options = diff_options(first, second), *parameters = diff_lines(first, second, false),
           *equations = diff_lines(first, second, true);
    bool equal = !json_object_size(options) && !json_object_size(cost) &&
                 !json_array_size(parameters) && !json_array_size(equations);
    json_auto_t *found = json_make("{s:b, s:o, s:o, s:o, s:o}", "equal", equal, "options", options,
                                   "cost", cost, "parameters", parameters, "equations", equations);
    if (json)
        json_result_print(json_incref(found));
    else
        print_difference_text(found);
    return true;
}

int command_diff(const Command *command, int argc, char **argv) {
    TextList operands = {0}, sets = {0};
    bool json = false;
    const Option table[] = {
        SET_OPTION(&sets),
        {OPTION_FLAG, "--json", NULL, &json, "result as JSON"},
    };
    int code = arguments_read_all(command, OPTIONS(table), argc, argv, &operands);
    if (code >= 0) return code;
    if (operands.count != 2)
        return arguments_wrong(command, NULL, "moec diff requires two models, got %d",
                               operands.count);
    AUTO(MoecCompiler) *first = spec_open(operands.items[0], &sets),
                       *second = first ? spec_open(operands.items[1], &sets) : NULL;
    return second && diff(first, second, json) ? 0 : EXIT_INPUT;
}
