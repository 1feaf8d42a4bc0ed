/* choices: the values of `vary`, `tune` and `variants` as lists. A choice is a set of options.
 *
 *     vary dim = [64, range(128, 256, 64)]      64, 128, 192, 256: a choice sets one option
 *     vary { dim = [64, 128], layers = [2, 4] } side by side: a choice sets both
 *     variants = { wide = { dim = 128 } }       a choice has a name and sets all its options
 */
#include "experiment/experiment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 256 };

/* ---- numbers in a row ---- */

static bool is_generator_call(const Node *node) {
    return node->kind == NODE_CALL && node->kids[0]->kind == NODE_NAME;
}

static void add_number_value(Asking *asking, const Node *call, double number, Node *list) {
    Arena *arena = asking->e->arena;
    Node *node = node_new(arena, NODE_NUMBER, call->span);
    node->name = arena_format(arena, "%.6g", number);
    node->number = strtod(node->name, NULL);
    node_add(arena, list, node);
}

static bool tell_row(Asking *asking, const Node *call, const char *what) {
    bool range = !strcmp(call->kids[0]->name, "range");
    report_error(asking->e->reports, call->span, "%s", what);
    return report_help(
        asking->e->reports, "%s",
        range ? "write range(LOW, HIGH) or range(LOW, HIGH, STEP), with LOW below HIGH"
              : "write grid(LOW, HIGH, COUNT) for COUNT numbers with a constant ratio");
}

static bool add_range_values(Asking *asking, const Node *call, const double *numbers, int count,
                             Node *list) {
    double step = count > 2 ? numbers[2] : 1, steps = floor((numbers[1] - numbers[0]) / step);
    if (!(step > 0)) return tell_row(asking, call, "'range' expects a step above 0");
    if (!(numbers[1] > numbers[0])) return tell_row(asking, call, "'range' expects LOW below HIGH");
    if (steps * step + step * (1 - 1e-9) <= numbers[1] - numbers[0]) steps++; /* 0.1, 0.2, 0.3 */
    if (steps >= MAX_VALUES) return tell_row(asking, call, "too many values: the maximum is 256");
    for (int i = 0; i <= (int)steps; i++)
        add_number_value(asking, call, numbers[0] + i * step, list);
    return true;
}

static bool add_grid(Asking *asking, const Node *call, const double *numbers, Node *list) {
    double count = numbers[2], low = numbers[0], high = numbers[1];
    if (count != floor(count) || count < 2 || count > MAX_VALUES)
        return tell_row(asking, call, "'grid' expects an integer COUNT from 2 to 256");
    if (!(low > 0) || !(high > low))
        return tell_row(asking, call, "'grid' expects LOW above 0 and HIGH above LOW");
    for (int i = 0; i < (int)count; i++)
        add_number_value(asking, call, low * pow(high / low, i / (count - 1)), list);
    return true;
}

static bool add_generated_values(Asking *asking, const Node *call, Node *list) {
    const Node *arguments = call->kids[1];
    const char *name = call->kids[0]->name;
    double numbers[3] = {0};
    bool range = !strcmp(name, "range");
    if (!range && strcmp(name, "grid"))
        return report_invalid(asking->e->reports, call->kids[0]->span,
                              "write range(LOW, HIGH, STEP) or grid(LOW, HIGH, COUNT)",
                              "unknown function '%s'", name);
    if (arguments->count != 3 && !(range && arguments->count == 2))
        return tell_row(asking, call,
                        range ? "'range' expects two or three numbers"
                              : "'grid' expects three numbers");
    for (int i = 0; i < arguments->count; i++)
        if (!evaluate_number(asking->e, arguments->kids[i], name, &numbers[i])) return false;
    return range ? add_range_values(asking, call, numbers, arguments->count, list)
                 : add_grid(asking, call, numbers, list);
}

/* ---- values ---- */

/* The values in their order, with range and grid expanded; NULL after a report. */
static const Node *dimension_values(Asking *asking, const Node *node, const char *path) {
    Reports *reports = asking->e->reports;
    bool row = is_generator_call(node), list = node->kind == NODE_LIST;
    Node *values = node_new(asking->e->arena, NODE_LIST, node->span);
    if (row && !add_generated_values(asking, node, values)) return NULL;
    for (int i = 0; list && i < node->count; i++) {
        if (!is_generator_call(node->kids[i]))
            node_add(asking->e->arena, values, node->kids[i]);
        else if (!add_generated_values(asking, node->kids[i], values))
            return NULL;
    }
    if (values->count >= 1 && values->count <= MAX_VALUES) return values;
    if (values->count) {
        report_invalid(reports, node->span, "split the experiment into several",
                       "too many values: %d, the maximum is %d", values->count, MAX_VALUES);
        return NULL;
    }
    report_error(reports, node->span,
                 list ? "the list has no values" : "'vary' expects a list of values");
    report_help(reports, "write vary %s = [A, B]", path);
    return NULL;
}

static Alternative *choice_new(Asking *asking, List *choices, const char *label) {
    Alternative *choice = arena_alloc(asking->e->arena, sizeof *choice);
    *choice = (Alternative){.label = label};
    list_push(asking->e->arena, choices, choice);
    return choice;
}

static void choice_set(Asking *asking, Alternative *choice, const Node *option, Node *value) {
    Arena *arena = asking->e->arena;
    Node *entry = node_named(arena, NODE_ENTRY, value->span, option->name, option->name_span);
    node_add(arena, entry, value);
    list_push(arena, &choice->overrides, entry);
}

static Dimension *dimension_new(Asking *asking, const Node *node, List *dimensions) {
    Dimension *dimension = arena_alloc(asking->e->arena, sizeof *dimension);
    *dimension = (Dimension){.node = node};
    list_push(asking->e->arena, dimensions, dimension);
    return dimension;
}

bool path_claim(Asking *asking, const Node *node) {
    if (!strcmp(node->name, "train.seed"))
        return report_invalid(
            asking->e->reports, node->name_span, "write seeds = N",
            "an experiment sets train.seed itself: to 1, 2, ... for each of its seeds");
    LIST_EACH(const Node, earlier, &asking->paths) {
        if (strcmp(earlier->name, node->name)) continue;
        report_error(asking->e->reports, node->name_span, "duplicate option '%s'", node->name);
        report_note(asking->e->reports, earlier->name_span, "first set here");
        return report_help(asking->e->reports, "set the option once");
    }
    list_push(asking->e->arena, &asking->paths, (void *)node);
    return true;
}

/* vary { a = [1, 2], b = [3, 4] }: the first choice sets the first values, the second choice the
 * second values. */
static bool read_joint_dimension(Asking *asking, const Node *node, List *dimensions) {
    const Node *record = node->kids[0], *first = NULL;
    Reports *reports = asking->e->reports;
    Dimension *dimension = dimension_new(asking, node, dimensions);
    if (!record->count)
        return report_invalid(reports, record->span, "write vary { PATH = [A, B], PATH = [C, D] }",
                              "'vary' has no options");
    for (int i = 0; i < record->count; i++) {
        const Node *option = record->kids[i];
        const Node *values = dimension_values(asking, option->kids[0], option->name);
        if (!values || !path_claim(asking, option)) return false;
        if (first && values->count != first->count) {
            report_error(reports, option->kids[0]->span, "expected %d values, got %d", first->count,
                         values->count);
            report_note(reports, first->span, "the first option has %d values", first->count);
            return report_help(reports,
                               "write the same number of values for each option, or two vary "
                               "statements for all combinations");
        }
        for (int k = 0; k < values->count; k++)
            choice_set(asking,
                       first ? dimension->choices.items[k]
                             : choice_new(asking, &dimension->choices, NULL),
                       option, values->kids[k]);
        if (!first) first = values;
    }
    return true;
}

bool choices_read(Asking *asking, const Node *node, List *dimensions) {
    if (!*node->name) return read_joint_dimension(asking, node, dimensions);
    const Node *values = dimension_values(asking, node->kids[0], node->name);
    if (!values || !path_claim(asking, node)) return false;
    Dimension *dimension = dimension_new(asking, node, dimensions);
    for (int i = 0; i < values->count; i++)
        choice_set(asking, choice_new(asking, &dimension->choices, NULL), node, values->kids[i]);
    return true;
}

/* ---- named records ---- */

static bool tell_variant(Asking *asking, Span span, const char *what, const char *name) {
    return report_invalid(asking->e->reports, span,
                          "write variants = { NAME = { OPTION = VALUE }, ... }", what, name);
}

/* Registers the options of one variant once: several variants can set the same option. */
static bool claim_all(Asking *asking, const Node *record, int before) {
    for (int i = 0; i < record->count; i++) {
        const Node *option = record->kids[i];
        bool own = false;
        for (int k = before; k < asking->paths.count; k++)
            own = own || !strcmp(((const Node *)asking->paths.items[k])->name, option->name);
        if (!own && !path_claim(asking, option)) return false;
    }
    return true;
}

bool variants_read(Asking *asking, const Node *entry) {
    const Node *all = entry->kids[0];
    if (all->kind != NODE_RECORD || !all->count)
        return tell_variant(asking, all->span, "'variants' expects a record of named records%s",
                            "");
    Dimension *dimension = dimension_new(asking, entry, &asking->experiment->vary);
    int before = asking->paths.count;
    for (int i = 0; i < all->count; i++) {
        const Node *one = all->kids[i], *record = one->kids[0];
        if (strchr(one->name, '.') || !strcmp(one->name, "base"))
            return tell_variant(asking, one->name_span, "invalid name '%s' of a variant",
                                one->name);
        if (record->kind != NODE_RECORD)
            return tell_variant(asking, record->span, "variant '%s' expects a record of options",
                                one->name);
        for (int k = 0; k < i; k++)
            if (!strcmp(all->kids[k]->name, one->name))
                return tell_variant(asking, one->name_span, "duplicate variant '%s'", one->name);
        if (!claim_all(asking, record, before)) return false;
        Alternative *choice = choice_new(asking, &dimension->choices, one->name);
        for (int k = 0; k < record->count; k++)
            list_push(asking->e->arena, &choice->overrides, record->kids[k]);
    }
    return true;
}
