/* describe_transfer: what a transfer made of a model, as a table and as JSON. */
#include "abi/json_make.h"
#include "analysis/parameter_facts.h"
#include "elaborate/transfer.h"

#include <stdlib.h>
#include <string.h>

/* "d 128 -> 1024" for each axis of the parameter whose size is another in the base. */
static const char *growth_text(Arena *arena, const Tuning *tuning, const Tuned *row) {
    const Tensor *tensor = row->flow->tensor, *its = row->base ? row->base->tensor : NULL;
    Text text = {.arena = arena};
    text_add(&text, "%s", "");
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
    for (int i = 0; i < row->numbers.count; i++) {
        const TunedNumber *number = row->numbers.items[i];
        json_object_set_new(numbers, number->name,
                            json_make("{s:f, s:f, s:s?}", "before", number->before, "after",
                                      number->after, "clause", number->clause));
    }
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
    char *text = json_write(root, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    char *kept = arena_copy(arena, text, strlen(text));
    json_decref(root);
    free(text);
    return kept;
}

/* What the parameter gets, a line for each number that the rule changed, and the deviation. */
static const char *numbers_text(Arena *arena, const Tuned *row) {
    Text text = {.arena = arena};
    text_add(&text, "  %s\n", row->kind ? row->kind : "of no kind: nothing of its own");
    for (int i = 0; i < row->numbers.count; i++) {
        const TunedNumber *number = row->numbers.items[i];
        bool init = !strcmp(number->name, "init"), random = row->init.kind != MOEC_INIT_CONSTANT;
        if (init ? !random : number->after == number->before) continue;
        text_add(&text, "    %-8s %-10s", number->name,
                 init ? init_text(arena, &row->init) : arena_format(arena, "%.5g", number->after));
        if (number->before != 0)
            text_add(&text, " = %-9.5g * %.5g", number->before, number->after / number->before);
        if (number->clause) text_add(&text, "   %s", number->clause);
        text_add(&text, "\n");
    }
    return text.text;
}

static void add_name(Arena *arena, Text *text, const Tuning *tuning, const Tuned *row) {
    const char *grown = growth_text(arena, tuning, row), *path = row->flow->tensor->path;
    text_add(text, "%s", path);
    if (!row->base)
        text_add(text, "  (no counterpart)");
    else if (strcmp(path, row->base->tensor->path))
        text_add(text, "  (as %s)", row->base->tensor->path);
    text_add(text, "%s%s\n", *grown ? "  " : "", grown);
}

char *tuning_text(Arena *arena, const Tuning *tuning) {
    Text text = {.arena = arena};
    int count = tuning->rows.count;
    const char **numbers = arena_alloc(arena, ((size_t)count + 1) * sizeof *numbers);
    text_add(&text, "%s from %s by %s\n", tuning->to->name, tuning->base, tuning->rule);
    for (int i = 0; i < count; i++) numbers[i] = numbers_text(arena, tuning->rows.items[i]);
    for (int i = 0; i < count; i++) {
        bool told = false;
        for (int j = 0; j < i && !told; j++) told = !strcmp(numbers[i], numbers[j]);
        if (told) continue;
        text_add(&text, "\n");
        for (int j = i; j < count; j++)
            if (!strcmp(numbers[i], numbers[j]))
                add_name(arena, &text, tuning, tuning->rows.items[j]);
        text_add(&text, "%s", numbers[i]);
    }
    return text.text;
}
