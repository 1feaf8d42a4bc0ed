#include "editor/cursor_context.h"

#include "moec.h"

#include <string.h>

/* hover: the description of a name as Markdown. */

/* The tensor of a declaration, in the first application of its layer. */
static const Tensor *tensor_defined_by(const Program *program, const Node *node) {
    for (int i = 0; program && i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->span.source && tensor->span.start == node->name_span.start &&
            !strcmp(tensor->span.source->path, node->span.source->path))
            return tensor;
    }
    return NULL;
}

static void add_shape(Text *out, const Program *program, const Node *node) {
    const Tensor *tensor = tensor_defined_by(program, node);
    if (!tensor) return;
    text_add(out, "\n`%s` in model %s: [", tensor->path ? tensor->path : tensor->name,
             program->name);
    for (int i = 0; i < tensor->rank; i++)
        text_add(out, "%s%s = %ld", i ? ", " : "", tensor->axes[i]->name, tensor->axes[i]->size);
    text_add(out, "]\n");
}

static void add_option_signatures(Text *out, const Facts *facts) {
    if (facts->options.count) text_add(out, "\n```moe\n");
    for (int i = 0; i < facts->options.count; i++)
        text_add(out, "%s\n", ((const OptionFacts *)facts->options.items[i])->declaration);
    if (facts->options.count) text_add(out, "```\n");
}

/* A function of the language; NULL: the name is none. */
static const char *hover_function(const Unit *unit, const char *name) {
    List functions = {0};
    Text out = {.arena = unit->arena};
    add_function_facts(unit, &functions);
    LIST_EACH(const Facts, facts, &functions)
        if (!strcmp(facts->name, name))
            text_add(&out, "%s```moe\n%s\n```\n\n%s", out.text ? "\n" : "", facts->signature,
                     facts->text);
    return out.text;
}

const char *moec_hover(MoecCompiler *compiler, size_t offset) {
    Unit *unit = moec_unit(compiler);
    if (!unit || !unit->sources.count) return NULL;
    CursorContext cursor = cursor_context(unit, offset);
    const Node *node = declared(unit, &cursor);
    Arena *arena = moec_arena(compiler);
    if (!node) return cursor.kind == CURSOR_BODY ? hover_function(unit, cursor.word) : NULL;
    Text out = {.arena = arena};
    bool option = node->kind == NODE_OPTION;
    text_add(&out, "```moe\n%s\n```\n",
             option ? option_facts(arena, node)->declaration : line_of_declaration(arena, node));
    bool layer = node->kind == NODE_LAYER || node->kind == NODE_OPTIMIZER ||
                 node->kind == NODE_SCHEDULE || node->kind == NODE_PARAMETRIZATION;
    const Facts *facts = layer ? facts_of(arena, node) : NULL;
    const char *comment = layer ? facts->text : comment_above(arena, node);
    if (*comment) text_add(&out, "\n%s", comment);
    const char *value = option ? moec_option(compiler, cursor.word) : NULL;
    if (value) text_add(&out, "\n`%s` in model %s\n", value, moec_model(compiler));
    if (layer)
        add_option_signatures(&out, facts);
    else if (!option && !moec_failed(compiler))
        add_shape(&out, elaborate(unit, moec_model(compiler), GRAPH_FORWARD, 0, 0, NULL), node);
    return out.text;
}

bool moec_definition(MoecCompiler *compiler, size_t offset, MoecLocation *location) {
    Unit *unit = moec_unit(compiler);
    if (!unit || !unit->sources.count) return false;
    CursorContext cursor = cursor_context(unit, offset);
    const Node *node = declared(unit, &cursor);
    if (!node) return false;
    const Source *source = node->name_span.source;
    *location = (MoecLocation){.path = source->path,
                               .text = source->text,
                               .standard = path_is_standard(source->path),
                               .start = (size_t)node->name_span.start,
                               .end = (size_t)node->name_span.end};
    return true;
}

const char *const *moec_models(MoecCompiler *compiler, int *count) {
    Unit *unit = moec_unit(compiler);
    List names = {0};
    for (int i = 0; unit && i < unit->models.count; i++) {
        const Node *model = unit->models.items[i];
        if (model->span.source == unit->sources.items[0])
            list_push(moec_arena(compiler), &names, (void *)model->name);
    }
    *count = names.count;
    return (const char *const *)names.items;
}
