/* training_stages: numbers of the group `train`, and the first stages of a run, `train.stages`,
 * each with its own number of steps, batch size, context length and micro-batches.
 *
 *     train = {
 *       batch_size = 8, context_length = 1024
 *       stages = [{ steps = 200, batch_size = 32, context_length = 256 }]
 *     }
 *
 * Settings that a stage lacks are those of `train`, which also apply after the last stage. */
#include "elaborate/elaborate.h"

#include <math.h>
#include <string.h>

/* `span` receives its location in the source. */
double group_number(Elaborator *e, const Value *group, const char *name, double otherwise,
                    Span *span) {
    if (!group || group->kind != KIND_LAYER) return otherwise;
    if (!option_named(e, group->layer, name, group->span)) return otherwise;
    Value *value = layer_option(e, group, name, group->span);
    if (value->kind != KIND_NUMBER) return otherwise;
    if (span) *span = value->span;
    return value->number;
}

enum { STEPS, BATCH, CONTEXT, PARTS, KEYS };
static const char *const keys[KEYS] = {"steps", "batch_size", "context_length",
                                       "gradient_accumulation_steps"};

/* False after a report. */
static bool read_stage_key(Elaborator *e, const RecordField *field, long values[KEYS],
                           Span *length) {
    for (int i = 0; i < KEYS; i++) {
        if (strcmp(field->name, keys[i])) continue;
        const Value *value = field->value;
        if (i == CONTEXT) *length = value->span;
        values[i] = value->kind == KIND_NUMBER && value->number < 1e9 ? (long)value->number : 0;
        if (values[i] >= 1 && (double)values[i] == value->number) return true;
        return report_error(e->reports, value->span,
                            "'%s' of a stage expects an integer from 1, got %s", keys[i],
                            value_shown(e, value));
    }
    report_error(e->reports, field->span, "unknown key '%s' of a training stage", field->name);
    return report_choices(e->reports, field->name, keys, KEYS, "keys");
}

/* A shorter context needs the same parameters and states. */
static bool has_no_positions(Elaborator *e, Span span) {
    for (int i = 0; e->program && i < e->program->tensors.count; i++) {
        const Tensor *tensor = e->program->tensors.items[i];
        const bool stored = tensor->role == ROLE_PARAMETER || tensor->role == ROLE_STATE;
        if (!stored || !e->program->sequence || !tensor_has_axis(tensor, e->program->sequence))
            continue;
        return report_invalid(
            e->reports, span, "omit context_length, or use rotary positions",
            "a stage cannot have another context_length: '%s' has a row per position",
            tensor->path);
    }
    return true;
}

static void add_stage(Elaborator *e, const long values[KEYS]) {
    Stage *stage = arena_alloc(e->arena, sizeof *stage);
    *stage = (Stage){values[STEPS], values[BATCH], values[CONTEXT], values[PARTS]};
    list_push(e->arena, &e->unit->stages, stage);
}

static bool read_stage(Elaborator *e, const Value *entry, const long usual[KEYS]) {
    long values[KEYS];
    Span length = entry->span;
    memcpy(values, usual, sizeof values);
    if (entry->kind != KIND_RECORD)
        return report_invalid(e->reports, entry->span, "write { steps = 200, context_length = 64 }",
                              "a training stage is a record, got %s", value_shown(e, entry));
    for (int i = 0; i < entry->record->entries.count; i++)
        if (!read_stage_key(e, entry->record->entries.items[i], values, &length)) return false;
    if (!values[STEPS])
        return report_invalid(e->reports, entry->span, "write { steps = 200, ... }",
                              "a training stage expects the key 'steps'");
    if (usual[CONTEXT] % values[CONTEXT])
        return report_invalid(
            e->reports, length, "samples of a stage are equal parts of those of the last stage",
            "the context_length of a stage must divide train.context_length = %ld, got "
            "%ld",
            usual[CONTEXT], values[CONTEXT]);
    if (values[CONTEXT] != usual[CONTEXT] && !has_no_positions(e, length)) return false;
    add_stage(e, values);
    return true;
}

void training_stages(Elaborator *e, const Value *train) {
    e->unit->stages = (List){0};
    if (!train || train->kind != KIND_LAYER || !option_called(train->layer, "stages")) return;
    const Value *list = layer_option(e, train, "stages", train->span);
    long usual[KEYS] = {0};
    for (int i = BATCH; i < KEYS; i++) usual[i] = (long)group_number(e, train, keys[i], 1, NULL);
    for (int i = 0; list->kind == KIND_LIST && i < list->list.count; i++)
        if (!read_stage(e, list->list.items[i], usual)) return;
    usual[STEPS] = (long)group_number(e, train, keys[STEPS], 1, NULL);
    add_stage(e, usual);
}

double training_tokens(Elaborator *e, const Value *train, double steps) {
    const List outer = e->unit->stages;
    double tokens = 0;
    training_stages(e, train);
    LIST_EACH(const Stage, stage, &e->unit->stages) {
        const double own = fmin((double)stage->steps, steps);
        tokens += own * (double)(stage->batch * stage->context * stage->accumulate);
        steps -= own;
    }
    e->unit->stages = outer;
    return tokens;
}
