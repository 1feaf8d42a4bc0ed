/* diff: moec diff: differences of two models: options, cost, parameters, equations. */
#include "base/memory.h"
#include "command/line/commands.h"
#include "command/spec.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINES = 6000 };

/* ---- options ---- */

static void print_option(char sign, const char *key, json_t *value) {
    if (value) printf("  %c %s = %s\n", sign, key, json_string_value(value));
}

/* Options in the order of the second, then those that only the first has. */
static int diff_options(MoecCompiler *first, MoecCompiler *second) {
    json_t *one = json_loads(moec_options_json(first), 0, NULL),
           *other = json_loads(moec_options_json(second), 0, NULL), *value;
    const char *key;
    int count = 0;
    json_object_foreach(other, key, value) {
        json_t *before = json_object_get(one, key);
        if (before && json_equal(before, value)) continue;
        if (!count++) printf("options\n");
        print_option('-', key, before);
        print_option('+', key, value);
    }
    json_object_foreach(one, key, value) {
        if (json_object_get(other, key)) continue;
        if (!count++) printf("options\n");
        print_option('-', key, value);
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

static int diff_cost(MoecCompiler *first, MoecCompiler *second) {
    static const struct {
        const char *group, *name, *text;
    } rows[] = {{"params", "total", "parameters"},
                {"params", "active", "active parameters"},
                {"flops_per_token", "forward", "FLOP a token, forward"},
                {"flops_per_token", "train", "FLOP a token, training"},
                {NULL, "cache_bytes_per_token", "bytes of cache a token"},
                {NULL, "peak_bytes", "bytes of training memory"}};
    const char *texts[] = {moec_cost_json(first), moec_cost_json(second)};
    if (!texts[0] || !texts[1]) return -1;
    json_t *one = json_loads(texts[0], 0, NULL), *other = json_loads(texts[1], 0, NULL);
    int count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double a = number_in(one, rows[i].group, rows[i].name),
               b = number_in(other, rows[i].group, rows[i].name);
        if (a == b) continue;
        if (!count++) printf("cost\n");
        printf("    %-26s %14.0f -> %14.0f  %+.0f", rows[i].text, a, b, b - a);
        if (a > 0) printf(" (%+.2f %%)", 100 * (b - a) / a);
        printf("\n");
    }
    json_decref(one);
    json_decref(other);
    return count;
}

/* ---- parameters and equations: lines of the program as elaborated ---- */

typedef struct Lines {
    char **items; /* in `text` */
    long count;
    char *text;
} Lines;

static bool begins(const char *line, const char *word) {
    return strncmp(line, word, strlen(word)) == 0;
}

/* Which lines are asked for: parameters and states, or what is computed. */
static bool is_wanted(const char *line, bool equations) {
    static const char *const others[] = {"axis ", "input ", "temp ", "output ", "program "};
    while (*line == ' ') line++;
    bool kept = begins(line, "parameter ") || begins(line, "state ");
    if (!equations) return kept;
    for (int i = 0; i < 5; i++)
        if (begins(line, others[i])) return false;
    return !kept && *line;
}

static Lines lines_of(MoecCompiler *compiler, bool equations) {
    Lines lines = {.text =
                       memory_format("%s", moec_dump(compiler, MOEC_FORWARD, "elaborate", false))};
    lines.items = memory_new(MAX_LINES * sizeof *lines.items);
    for (char *at = strtok(lines.text, "\n"); at && lines.count < MAX_LINES;
         at = strtok(NULL, "\n"))
        if (is_wanted(at, equations)) lines.items[lines.count++] = at;
    return lines;
}

static void free_lines(Lines *lines) {
    free(lines->items);
    free(lines->text);
}

/* lengths[i][j]: of the longest sequence of lines that both have from i and from j on. */
static unsigned *common(const Lines *one, const Lines *other) {
    size_t width = (size_t)other->count + 1;
    unsigned *lengths = memory_new(((size_t)one->count + 1) * width * sizeof *lengths);
    for (long i = one->count - 1; i >= 0; i--)
        for (long j = other->count - 1; j >= 0; j--) {
            unsigned *at = &lengths[(size_t)i * width + (size_t)j];
            unsigned down = at[width], right = at[1];
            *at = strcmp(one->items[i], other->items[j]) == 0 ? at[width + 1] + 1
                  : down > right                              ? down
                                                              : right;
        }
    return lengths;
}

static void print_line(char sign, const char *line) {
    while (*line == ' ') line++;
    printf("  %c %s\n", sign, line);
}

static int diff_lines(MoecCompiler *first, MoecCompiler *second, bool equations,
                      const char *title) {
    Lines one = lines_of(first, equations), other = lines_of(second, equations);
    unsigned *lengths = common(&one, &other);
    size_t width = (size_t)other.count + 1;
    int count = 0;
    for (long i = 0, j = 0; i < one.count || j < other.count;) {
        const unsigned *at = &lengths[(size_t)i * width + (size_t)j];
        bool both = i < one.count && j < other.count;
        if (both && strcmp(one.items[i], other.items[j]) == 0) {
            i++;
            j++;
            continue;
        }
        if (!count++) printf("%s\n", title);
        if (j == other.count || (both && at[width] >= at[1]))
            print_line('-', one.items[i++]);
        else
            print_line('+', other.items[j++]);
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
    if (!options && !costs && !parameters && !equations) printf("the same model\n");
    return true;
}

int command_diff(int argc, char **argv) {
    const Command *command = command_row("diff");
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
