/* print_functions: the functions of a module as text. The loops of all kernels are final.
 *
 *     (* y[b,s,d] = x[b,s,d] * scale[d]      norm.moe:7 *)
 *     static void kernel_train_3(long i, const float *restrict x, ..., float *restrict y)
 */
#include "codegen/emit.h"

#include <string.h>

/* A block of this size fits with any register count of the compiler, at most 255 of 65536 per
 * thread. A larger block needs launch bounds, or the launch may fail. */
enum { FREE_THREADS = 256 };

void print_equations(Text *text, const List *statements) {
    Arena *arena = text->arena;
    for (int i = 0; i < statements->count; i++) {
        const Statement *statement = statements->items[i];
        const char *equation = print_statement(arena, statement);
        const char *place = line_of(arena, statement->span);
        print_line(text, 0,
                   arena_format(arena, "%s %.*s%s%s%s", i ? "  " : "/*",
                                (int)strcspn(equation, "\n"), equation, *place ? "   -- " : "",
                                place, i == statements->count - 1 ? " */" : ""));
    }
}

static void add_param_text(Text *text, const ParameterStyle *style, const Param *param) {
    switch (param->kind) {
    case PARAM_SEED:
        text_add(text, "%s", style->seed);
        break;
    case PARAM_INDEX:
        text_add(text, "long %s", param->name);
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

const char *params_text(Arena *arena, const ParameterStyle *style, const List *params) {
    Text text = {.arena = arena};
    for (int i = 0; i < params->count; i++) {
        text_add(&text, "%s", i ? ", " : "");
        add_param_text(&text, style, params->items[i]);
    }
    return params->count ? text.text : "";
}

static void add_grouped_sizes(Text *text, const Contraction *contraction) {
    const Product *product = &contraction->product;
    bool weight = contraction->kind == CONTRACTION_ROWS_BY_WEIGHT;
    text_add(text, "&(const MoecGroupedOnDevice){%ld, %ld, %ld, %ld, %ld, %ld, %ld, %ld, %d}",
             product->batch[0], product->n, product->k, product->a_m,
             weight ? product->b_batch[0] : product->c_batch[0], product->b_k, product->b_n,
             product->c_m, product->accumulate);
}

static void add_argument_text(Text *text, const ParameterStyle *style, const Param *param) {
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
        add_grouped_sizes(text, param->contraction);
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

const char *arguments_text(Arena *arena, const ParameterStyle *style, const List *arguments) {
    Text text = {.arena = arena};
    for (int i = 0; i < arguments->count; i++) {
        text_add(&text, "%s", i ? ", " : "");
        add_argument_text(&text, style, arguments->items[i]);
    }
    return arguments->count ? text.text : "";
}

static bool takes_seed(const LoopKernel *kernel) {
    for (int i = 0; i < kernel->params.count; i++)
        if (((const Param *)kernel->params.items[i])->kind == PARAM_SEED) return true;
    return false;
}

static KernelRange *print_kernel(Text *text, const LoopKernel *kernel,
                                 const ParameterStyle *style) {
    Arena *arena = text->arena;
    const char *name = kernel->form.name, *params = params_text(arena, style, &kernel->params);
    KernelRange *range = arena_alloc(arena, sizeof *range);
    range->first = text->length;
    if (!*params) params = "void";
    range->head = arena_format(arena, "%s %s(%s)", style->function, name, params);
    print_equations(text, &kernel->statements);
    if (kernel->launch.threads > FREE_THREADS) {
        text_add(text, "%s __launch_bounds__(%d)\n", style->function, kernel->launch.threads);
        print_line(text, 0, arena_format(arena, "%s(%s)", name, params));
    } else {
        print_line(text, 0, range->head);
    }
    text_add(text, "{\n%s%s", style->begin, takes_seed(kernel) ? style->seed_begin : "");
    print_block(text, &kernel->form.block, 1);
    text_add(text, "}\n\n");
    range->end = text->length;
    return range;
}

static void end_text(const Text *text, int number, List *pieces) {
    MoecPiece *piece = arena_alloc(text->arena, sizeof *piece);
    *piece = (MoecPiece){number, text->length};
    if (pieces) list_push(text->arena, pieces, piece);
}

/* Each variant is a piece. */
static void print_template(Text *text, const Section *section, const ParameterStyle *style,
                           List *pieces) {
    print_equations(text, &section->template->statements);
    for (int i = 0; i < section->template->variants.count; i++) {
        print_template_variant(text, section->template, i, style);
        end_text(text, section->number, pieces);
    }
}

void print_functions(Text *text, const Module *module, const List *sections, List *ranges,
                     List *pieces) {
    const ParameterStyle *style = &module->target->parameters;
    for (int i = 0; i < sections->count; i++) {
        const Section *section = sections->items[i];
        if (section->kernel) {
            KernelRange *range = print_kernel(text, section->kernel, style);
            if (ranges) list_push(module->arena, ranges, range);
        } else if (section->template) {
            print_template(text, section, style, pieces);
            continue;
        } else if (section->constants) {
            print_equations(text, &section->constants->statements);
            print_constants(text, section->constants);
        } else if (section->entry) {
            print_entry(text, module, section->entry);
        } else if (section->record) {
            print_record(text, section->record, 0);
            text_add(text, "\n");
        } else if (section->update) {
            print_update(text, module, section->update, sections == &module->device);
        } else {
            text_add(text, "\n");
        }
        if (section->ends) end_text(text, section->number, pieces);
    }
}
