/* print_functions: the functions of a module as text. The loops of all kernels are final.
 *
 *     (* y[b,s,d] = x[b,s,d] * scale[d]      norm.moe:7 *)
 *     static void kernel_train_3(long i, const float *restrict x, ..., float *restrict y)
 */
#include "print/print.h"

static bool takes_seed(const LoopKernel *kernel) {
    for (int i = 0; i < kernel->params.count; i++)
        if (((const Param *)kernel->params.items[i])->kind == PARAM_SEED) return true;
    return false;
}

static KernelRange *print_kernel(Text *text, const LoopKernel *kernel, const PrintStyle *style) {
    Arena *arena = text->arena;
    const char *name = kernel->form.name, *params = params_text(arena, style, &kernel->params);
    KernelRange *range = arena_alloc(arena, sizeof *range);
    range->first = text->length;
    if (!*params) params = "void";
    range->head = arena_format(arena, "%s %s(%s)", style->function, name, params);
    print_equations(text, &kernel->statements);
    if (kernel->bounded) {
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

static void end_text(const Text *text, const Section *section, List *pieces) {
    const MoecPiece piece = {section->number, text->length, section->external != NULL};
    if (pieces) list_copy(text->arena, pieces, &piece, sizeof piece);
}

/* Each variant is a piece. */
static void print_template(Text *text, const Section *section, const PrintStyle *style,
                           List *pieces) {
    print_equations(text, &section->template->statements);
    for (int i = 0; i < section->template->variants.count; i++) {
        print_template_variant(text, section->template, i, style);
        end_text(text, section, pieces);
    }
}

void print_functions(Text *text, const PrintContext *context, const List *sections, List *ranges,
                     List *pieces) {
    const Module *module = context->module;
    LIST_EACH(const Section, section, sections) {
        if (section->kernel) {
            KernelRange *range = print_kernel(text, section->kernel, context->style);
            if (ranges) list_push(text->arena, ranges, range);
        } else if (section->template) {
            print_template(text, section, context->style, pieces);
            continue;
        } else if (section->constants) {
            print_equations(text, &section->constants->statements);
            print_constants(text, section->constants);
        } else if (section->entry) {
            print_entry(text, context, section->entry);
        } else if (section->record) {
            print_record(text, section->record, 0);
            text_add(text, "\n");
        } else if (section->external) {
            print_extern_file(text, module, section->external);
        } else if (section->update) {
            print_update(text, module, section->update, sections == &module->device);
        } else {
            text_add(text, "\n");
        }
        if (section->ends) end_text(text, section, pieces);
    }
}
