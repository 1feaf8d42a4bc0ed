/* print_params: the parameters of a kernel, and its arguments. */
#include "print/print.h"

static void add_param_text(Text *text, const PrintStyle *style, const Param *param) {
    switch (param->kind) {
    case PARAM_SEED:
        text_add(text, "%s", style->seed);
        break;
    case PARAM_INDEX:
        text_add(text, "%slong %s%s", style->number ? style->number : "",
                 style->number_end ? style->number_end : "", param->name);
        break;
    case PARAM_POINTER:
        text_add(text, "%s%s%s *%s%s", style->memory, param->written ? "" : "const ",
                 type_name(param->buffer->tensor), param->alone ? style->alone : "", param->name);
        break;
    case PARAM_OPERAND:
    case PARAM_SCRATCH:
        text_add(text, "%s%s *%s", param->written ? "" : "const ", term_type_name(param->type),
                 param->name);
        break;
    case PARAM_GROUPED:
        text_add(text, "MoecGroupedOnDevice %s", param->name);
        break;
    case PARAM_RECORD:
        text_add(text, "%s %s", param->record, param->name);
        break;
    case PARAM_MAP:
        text_add(text, "const __grid_constant__ MoecMap %s", param->name);
        break;
    case PARAM_NUMBER:
    case PARAM_MAPS:
        break;
    }
}

const char *params_text(Arena *arena, const PrintStyle *style, const List *params) {
    Text text = text_new(arena);
    for (int i = 0; i < params->count; i++) {
        text_add(&text, "%s", i ? ", " : "");
        add_param_text(&text, style, params->items[i]);
        if (style->binding) text_add(&text, "%s%d%s", style->binding, i, style->binding_end);
    }
    if (style->further) text_add(&text, "%s%s", params->count ? ", " : "", style->further);
    return text.text;
}

const char *adds_text(const ScheduleUnit *unit) {
    if (unit->overwrites_gradient) return "!moec_first";
    return unit->contraction->product.accumulate ? "1" : "0";
}

static void add_grouped_sizes(Text *text, const Param *param) {
    const ScheduleUnit *unit = param->product;
    const Product *product = &unit->contraction->product;
    bool weight = unit->contraction->kind == CONTRACTION_ROWS_BY_WEIGHT;
    text_add(text, "&(const MoecGroupedOnDevice){%ld, %ld, %ld, %ld, %ld, %ld, %ld, %ld, %s%s%s}",
             product->batch[0], product->n, product->k, product->a_m,
             weight ? product->b_batch[0] : product->c_batch[0], product->b_k, product->b_n,
             product->c_m, adds_text(unit), param->address ? ", " : "",
             param->address ? term_text(text->arena, param->address) : "");
}

static void add_argument_text(Text *text, const PrintStyle *style, const Param *param) {
    switch (param->kind) {
    case PARAM_SEED:
        text_add(text, "%s%s", style->address, style->seed_argument);
        break;
    case PARAM_INDEX:
    case PARAM_POINTER:
        text_add(text, "%s%s", style->address, param->name);
        break;
    case PARAM_OPERAND:
        text_add(text, "MOEC_POINTER(%s)",
                 param->address ? term_text(text->arena, param->address) : "NULL");
        break;
    case PARAM_SCRATCH:
        text_add(text, "MOEC_POINTER(run->arena + %zu)", param->offset);
        break;
    case PARAM_NUMBER:
        text_add(text, "MOEC_NUMBER(%ld)", param->number);
        break;
    case PARAM_GROUPED:
        add_grouped_sizes(text, param);
        break;
    case PARAM_RECORD:
        text_add(text, "&%s", param->name);
        break;
    case PARAM_MAP:
    case PARAM_MAPS:
        text_add(text, "NULL");
        break;
    }
}

const char *arguments_text(Arena *arena, const PrintStyle *style, const List *arguments) {
    Text text = {.arena = arena};
    for (int i = 0; i < arguments->count; i++) {
        text_add(&text, "%s", i ? ", " : "");
        add_argument_text(&text, style, arguments->items[i]);
    }
    return arguments->count ? text.text : "";
}
