#include "editor/declared.h"

#include "moec.h"
#include "syntax/format.h"

#include <string.h>

/* hover: the description of a name as Markdown. */

static const char *option_text(Arena *arena, const Node *option) {
    static const Columns plain = {0, 0, 0};
    Line line = {.arena = arena, .text = {.arena = arena}};
    line_option_head(&line, option, 0);
    if (option->kids[2]) line_expr(&line, option->kids[2]);
    line_option_text(&line, option, &plain);
    return line.text.text;
}

/* The tensor of a declaration, in the first application of its layer. */
static const Tensor *tensor_of(const Program *program, const Node *node) {
    for (int i = 0; program && i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->span.source && tensor->span.start == node->name_span.start &&
            !strcmp(tensor->span.source->path, node->span.source->path))
            return tensor;
    }
    return NULL;
}

static void add_shape(Text *out, const Program *program, const Node *node) {
    const Tensor *tensor = tensor_of(program, node);
    if (!tensor) return;
    text_add(out, "\n`%s` in model %s: [", tensor->path ? tensor->path : tensor->name,
             program->name);
    for (int i = 0; i < tensor->rank; i++)
        text_add(out, "%s%s = %ld", i ? ", " : "", tensor->axes[i]->name, tensor->axes[i]->size);
    text_add(out, "]\n");
}

static void add_options(Text *out, const Node *layer) {
    const Node *body = layer_body(layer);
    bool any = false;
    for (int i = 0; i < body->count; i++) {
        if (body->kids[i]->kind != NODE_OPTION) continue;
        text_add(out, "%s%s\n", any ? "" : "\n```moe\n", option_text(out->arena, body->kids[i]));
        any = true;
    }
    if (any) text_add(out, "```\n");
}

const char *moec_hover(MoecCompiler *compiler, size_t offset) {
    Unit *unit = moec_unit(compiler);
    if (!unit || !unit->sources.count) return NULL;
    Place place = place_find(unit, offset);
    const Node *node = declared(unit, &place);
    if (!node) return NULL;
    Text out = {.arena = moec_arena(compiler)};
    bool option = node->kind == NODE_OPTION;
    text_add(&out, "```moe\n%s\n```\n",
             option ? option_text(out.arena, node) : line_of_declaration(out.arena, node));
    const char *comment = comment_above(out.arena, node);
    if (*comment) text_add(&out, "\n%s", comment);
    const char *value = option ? moec_option(compiler, place.word) : NULL;
    if (value) text_add(&out, "\n`%s` in model %s\n", value, moec_model(compiler));
    bool layer = node->kind == NODE_LAYER || node->kind == NODE_OPTIMIZER ||
                 node->kind == NODE_SCHEDULE || node->kind == NODE_PARAMETRIZATION;
    if (layer)
        add_options(&out, node);
    else if (!option && !moec_failed(compiler))
        add_shape(&out, elaborate(unit, moec_model(compiler), GRAPH_FORWARD, 0, 0, NULL), node);
    return out.text;
}

bool moec_definition(MoecCompiler *compiler, size_t offset, MoecLocation *location) {
    Unit *unit = moec_unit(compiler);
    if (!unit || !unit->sources.count) return false;
    Place place = place_find(unit, offset);
    const Node *node = declared(unit, &place);
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
