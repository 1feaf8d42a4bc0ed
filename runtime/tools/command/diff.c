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

/* ---- options ---- */

static const char *text_of(json_t *value) {
    return value ? json_string_value(value) : "(none)";
}

static void print_option(const char *key, json_t *before, json_t *after, int *count) {
    if (before && after && json_equal(before, after)) return;
    if (!(*count)++) printf("options\n");
    printf("    %-26s %s -> %s\n", key, text_of(before), text_of(after));
}

/* Options in the order of the second model, then those of the first model only. */
static int diff_options(MoecCompiler *first, MoecCompiler *second) {
    json_t *one = json_loads(moec_options_json(first), 0, NULL),
           *other = json_loads(moec_options_json(second), 0, NULL), *value;
    const char *key;
    int count = 0;
    json_object_foreach(other, key, value) {
        print_option(key, json_object_get(one, key), value, &count);
    }
    json_object_foreach(one, key, value) {
        if (!json_object_get(other, key)) print_option(key, value, NULL, &count);
    }
    json_decref(one);
    json_decref(other);
    return count;
}

/* ---- cost ---- */

static double number_in(json_t *root, const char *group, const char *name) {
    json_t *object = group ? json_object_get(root, group) : root;
    return json_number_value(json_object_get(object, name));
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

static int diff_cost(MoecCompiler *first, MoecCompiler *second) {
    static const struct {
        const char *group, *name, *text, *unit;
    } rows[] = {{"params", "total", "parameters", NULL},
                {"params", "active", "activated parameters", NULL},
                {"flops_per_token", "forward", "computation, forward", "FLOP/token"},
                {"flops_per_token", "train", "computation, training", "FLOP/token"},
                {NULL, "cache_bytes_per_token", "KV cache", "B/token"},
                {NULL, "peak_bytes", "training memory", "B"}};
    const char *texts[] = {moec_cost_json(first), moec_cost_json(second)};
    if (!texts[0] || !texts[1]) return -1;
    json_t *one = json_loads(texts[0], 0, NULL), *other = json_loads(texts[1], 0, NULL);
    int count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double a = number_in(one, rows[i].group, rows[i].name),
               b = number_in(other, rows[i].group, rows[i].name);
        if (a == b) continue;
        if (!count++) printf("cost\n");
        print_cost(rows[i].text, rows[i].unit, a, b);
    }
    json_decref(one);
    json_decref(other);
    return count;
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
static bool is_listed(const char *line, bool equations) {
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
static json_t *named(json_t *object, const char *name, size_t length) {
    char *key = memory_format("%.*s", (int)length, name);
    json_t *value = json_object_get(object, key);
    free(key);
    return value;
}

static void set_named(json_t *object, const char *name, size_t length, json_t *value) {
    char *key = memory_format("%.*s", (int)length, name);
    json_object_set_new(object, key, value);
    free(key);
}

static bool is_temporary(const Lines *lines, const char *name, size_t length) {
    return named(lines->temporaries, name, length) != NULL;
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
    Lines lines = {.text =
                       memory_format("%s", moec_dump(compiler, MOEC_FORWARD, "elaborate", false)),
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
        if (is_listed(at, equations)) lines.items[lines.count++] = at + strspn(at, " ");
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
    json_t *mate = named(lines->mates, name, length);
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
static unsigned *common(const Lines *one, const Lines *other) {
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

static int diff_lines(MoecCompiler *first, MoecCompiler *second, bool equations,
                      const char *title) {
    Lines one = lines_of(first, equations), other = lines_of(second, equations);
    unsigned *lengths = common(&one, &other);
    size_t width = (size_t)other.count + 1;
    int count = 0;
    for (long i = 0, j = 0; i < one.count || j < other.count;) {
        const unsigned *at = &lengths[(size_t)i * width + (size_t)j];
        bool both = i < one.count && j < other.count,
             same = both && strcmp(one.keys[i], other.keys[j]) == 0;
        if (same && pair_names(&one, &other, one.items[i], other.items[j])) {
            i++;
            j++;
            continue;
        }
        if (!count++) printf("%s\n", title);
        bool removed = same || j == other.count || (both && at[width] >= at[1]);
        if (removed) printf("  - %s\n", one.items[i++]);
        if (same || !removed) printf("  + %s\n", other.items[j++]);
    }
    free(lengths);
    free_lines(&one);
    free_lines(&other);
    return count;
}

/* ---- the command ---- */

static bool diff(MoecCompiler *first, MoecCompiler *second) {
    int options = diff_options(first, second), costs = diff_cost(first, second);
    if (costs < 0) return reports_good(first) && reports_good(second);
    int parameters = diff_lines(first, second, false, "parameters"),
        equations = diff_lines(first, second, true, "equations");
    if (!options && !costs && !parameters && !equations) printf("the models are equal\n");
    return true;
}

int command_diff(const Command *command, int argc, char **argv) {
    TextList operands = {0}, sets = {0};
    const Option table[] = {
        SET_OPTION(&sets),
        {.kind = OPTION_END},
    };
    int code = arguments_read_all(command, table, argc, argv, &operands);
    if (code >= 0) return code;
    if (operands.count != 2)
        return arguments_wrong(command, NULL, "moec diff requires two models, got %d",
                               operands.count);
    MoecCompiler *first = spec_open(operands.items[0], &sets),
                 *second = first ? spec_open(operands.items[1], &sets) : NULL;
    bool good = second && diff(first, second);
    moec_close(first);
    moec_close(second);
    return good ? 0 : EXIT_INPUT;
}
