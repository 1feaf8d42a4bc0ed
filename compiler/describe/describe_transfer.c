/* describe_transfer: settings that a hyperparameter transfer derives for a model: factors per
 * parameter as a table; values and formulas as text; all of it as JSON. */
#include "abi/json_make.h"
#include "elaborate/transfer/transfer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "d 128 -> 1024" for each axis whose size differs from that in the base. */
static const char *growth_text(Arena *arena, const Tuning *tuning, const Tuned *row) {
    const Tensor *tensor = row->flow->tensor, *its = row->base ? row->base->tensor : NULL;
    Text text = text_new(arena);
    for (int i = 0; i < tensor->rank; i++) {
        const Axis *axis = tensor->axes[i], *before = NULL;
        bool step = axis->kind == AXIS_REPEAT;
        for (int j = 0; its && j < its->rank; j++)
            if (!strcmp(its->axes[j]->name, axis->name)) before = its->axes[j];
        for (int j = 0; !its && j < tuning->from->axes.count && !before; j++) {
            const Axis *other = tuning->from->axes.items[j];
            if (!strcmp(other->name, axis->name) && other->kind == axis->kind) before = other;
        }
        const char *comma = text.length ? ", " : "";
        if (before && before->size == axis->size) continue;
        if (before)
            text_add(&text, "%s%s %ld -> %ld", comma, axis->name, before->size, axis->size);
        else if (!step)
            text_add(&text, "%s%s new, %ld", comma, axis->name, axis->size);
    }
    return text.text;
}

static const char *init_text(Arena *arena, const Init *init) {
    if (init->kind == MOEC_INIT_CONSTANT) return arena_format(arena, "%.4g", init->a);
    if (init->kind == MOEC_INIT_UNIFORM)
        return arena_format(arena, "%.4g .. %.4g", init->a, init->b);
    return arena_format(arena, "%.4g", init->b);
}

static json_t *row_json(Arena *arena, const Tuning *tuning, const Tuned *row) {
    json_t *numbers = json_object();
    LIST_EACH(const TunedNumber, number, &row->numbers)
        json_object_set_new(numbers, number->name,
                            json_make("{s:f, s:f, s:s?}", "before", number->before, "after",
                                      number->after, "clause", number->clause));
    const ParameterFlow *flow = row->flow;
    return json_make("{s:s, s:s?, s:s?, s:s, s:{s:f, s:f, s:f, s:f, s:f, s:b, s:b}, s:o}", "path",
                     flow->tensor->path, "kind", row->kind, "counterpart",
                     row->base ? row->base->tensor->path : NULL, "grown",
                     growth_text(arena, tuning, row), "facts", "fan_in", flow->fan_in, "fan_out",
                     flow->fan_out, "summed_fan_in", flow->meets, "active", flow->active, "weights",
                     flow->weights, "residual", flow->joins, "last", flow->last, "numbers",
                     numbers);
}

char *tuning_json(Arena *arena, const Tuning *tuning) {
    json_t *rows = json_array();
    for (int i = 0; i < tuning->rows.count; i++)
        json_array_append_new(rows, row_json(arena, tuning, tuning->rows.items[i]));
    json_t *root = json_make("{s:s, s:s, s:s, s:o}", "model", tuning->to->name, "base",
                             tuning->base, "parametrization", tuning->rule, "parameters", rows);
    return arena_take(arena, json_write_new(root, JSON_INDENT(2) | JSON_REAL_PRECISION(12)));
}

/* ---- factors ---- */

enum { FACTORS = 3, MIN_PATH = 30 };
static const char *const factor_titles[FACTORS] = {"lr", "init", "multiplier"};

/* The column of a setting, or -1. */
static int factor_of(const TunedNumber *number) {
    for (int i = 0; i < FACTORS; i++)
        if (!strcmp(number->name, factor_titles[i])) return i;
    return strcmp(number->name, "forward") ? -1 : FACTORS - 1;
}

static bool is_changed(const TunedNumber *number) {
    return fabs(number->after - number->before) > 1e-9 * fabs(number->before);
}

/* False if all three factors are 1. cells: "0.25"; without a value in the base "= 0.02". */
static bool find_factors(Arena *arena, const Tuned *row, const char *cells[FACTORS]) {
    bool changed = false;
    for (int i = 0; i < FACTORS; i++) cells[i] = "1";
    LIST_EACH(const TunedNumber, number, &row->numbers) {
        int column = factor_of(number);
        if (column < 0 || !is_changed(number)) continue;
        cells[column] = number->before != 0
                            ? arena_format(arena, "%.4g", number->after / number->before)
                            : arena_format(arena, "= %.4g", number->after);
        changed = true;
    }
    return changed;
}

/* Names of the settings that change and have no column. */
static const char *other_settings(Arena *arena, const Tuning *tuning) {
    List names = {0};
    Text text = {.arena = arena};
    for (int i = 0; i < tuning->rows.count; i++) {
        const List *numbers = &((const Tuned *)tuning->rows.items[i])->numbers;
        LIST_EACH(const TunedNumber, number, numbers) {
            bool listed = factor_of(number) >= 0 || !is_changed(number);
            for (int j = 0; j < names.count; j++) listed |= !strcmp(names.items[j], number->name);
            if (listed) continue;
            text_add(&text, "%s%s", names.count ? ", " : "", number->name);
            list_push(arena, &names, (void *)number->name);
        }
    }
    return text.text;
}

char *tuning_factors(Arena *arena, const Tuning *tuning) {
    Text text = {.arena = arena};
    int width = MIN_PATH, unchanged = 0;
    LIST_EACH(const Tuned, row, &tuning->rows)
        width = (int)fmax(width, (double)strlen(row->flow->tensor->path));
    text_add(&text, "%s from %s by %s: factors\n  %-*s  %8s  %8s  %10s\n", tuning->to->name,
             tuning->base, tuning->rule, width, "parameter", factor_titles[0], factor_titles[1],
             factor_titles[2]);
    LIST_EACH(const Tuned, row, &tuning->rows) {
        const char *cells[FACTORS];
        if (find_factors(arena, row, cells))
            text_add(&text, "  %-*s  %8s  %8s  %10s\n", width, row->flow->tensor->path, cells[0],
                     cells[1], cells[2]);
        else
            unchanged++;
    }
    const char *others = other_settings(arena, tuning);
    if (unchanged)
        text_add(&text, "  unchanged: %d of %d parameters\n", unchanged, tuning->rows.count);
    if (others) text_add(&text, "  optimizer settings that change: %s\n", others);
    text_add(&text, "  --verbose shows values and formulas\n");
    return text.text;
}

/* ---- values and formulas ---- */

/* One line per changed setting, and the standard deviation of the initialization. */
static const char *tuned_numbers_text(Arena *arena, const Tuned *row) {
    Text text = {.arena = arena};
    text_add(&text, "  %s\n", row->kind ? row->kind : "no matching kind: settings unchanged");
    LIST_EACH(const TunedNumber, number, &row->numbers) {
        bool init = !strcmp(number->name, "init"), random = row->init.kind != MOEC_INIT_CONSTANT;
        if (init ? !random : number->after == number->before) continue;
        text_add(&text, "    %-10s %-10s",
                 factor_of(number) < 0 ? number->name : factor_titles[factor_of(number)],
                 init ? init_text(arena, &row->init) : arena_format(arena, "%.5g", number->after));
        if (number->before != 0)
            text_add(&text, " = %-9.5g * %.5g", number->before, number->after / number->before);
        if (number->clause) text_add(&text, "   %s", number->clause);
        text_add(&text, "\n");
    }
    return text.text;
}

static void add_tuned_name(Arena *arena, Text *text, const Tuning *tuning, const Tuned *row) {
    const char *grown = growth_text(arena, tuning, row), *path = row->flow->tensor->path;
    text_add(text, "%s", path);
    if (!row->base)
        text_add(text, "  (not in %s)", tuning->base);
    else if (strcmp(path, row->base->tensor->path))
        text_add(text, "  (from %s)", row->base->tensor->path);
    text_add(text, "%s%s\n", *grown ? "  " : "", grown);
}

char *tuning_text(Arena *arena, const Tuning *tuning) {
    Text text = {.arena = arena};
    int count = tuning->rows.count;
    const char **numbers = arena_alloc(arena, ((size_t)count + 1) * sizeof *numbers);
    text_add(&text, "%s from %s by %s\n", tuning->to->name, tuning->base, tuning->rule);
    for (int i = 0; i < count; i++) numbers[i] = tuned_numbers_text(arena, tuning->rows.items[i]);
    for (int i = 0; i < count; i++) {
        bool listed = false;
        for (int j = 0; j < i && !listed; j++) listed = !strcmp(numbers[i], numbers[j]);
        if (listed) continue;
        text_add(&text, "\n");
        for (int j = i; j < count; j++)
            if (!strcmp(numbers[i], numbers[j]))
                add_tuned_name(arena, &text, tuning, tuning->rows.items[j]);
        text_add(&text, "%s", numbers[i]);
    }
    return text.text;
}
